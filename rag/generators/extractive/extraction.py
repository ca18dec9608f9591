"""The shortest answer in a unit of evidence: a table's cell, a span of the kind asked for, or the whole sentence."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from rag.generators.extractive import cells, naming, spans
from rag.generators.extractive.evidence import Unit
from rag.generators.extractive.questions import NUMERIC, Question
from rag.generators.extractive.words import index, stems, tokens

CLEAR_MARGIN = 1.6
"""A number or name is quoted alone when it scores so many times the next best; else the sentence that holds both is quoted."""

MAX_UNCLEAR = 240
"""Characters; of a longer sentence the best number or name is quoted in any case."""

MIN_SENTENCE = 25
"""Characters; a shorter unit is a label or a heading."""

_REASON = re.compile(
    r"\b(?:because|since|due to|so that|therefore|reason|thus|hence|in order to|as a (?:result|consequence)|leads? to|"
    r"to (?:avoid|allow|ensure|make))\b",
    re.I,
)
_DEFINES = re.compile(
    r"[\"'\u2019\u201d)]?(?: (?:\([^()]{1,20}\)|(?:for|of|in) [\w-]+(?: [\w-]+)?|[A-Za-z][a-z]*))?\W{0,2}\s?"
    r"(?:(?:is|are|was|were) (?:defined|a|an|the|one(?! of)|any|used to|known|called|simply|essentially|just|that|orally)\b"
    r"|(?:means?|denotes?|refers? to|stands? for|consists? of|measures?)\b|(?<=,) ?(?:an? |where\b|i\.e\.|that is\b|which is\b))"
)
_IT_IS = re.compile(r"\A(?:It|This|They|These) (?:is|are|means?) (?:an? |the |used to |one )?")
_DEFINIENDUM = 6  # words that the thing's name may be spread over
_NAMED = 0.65  # share of its words that has to be there
_EARLY = 5  # words; a thing named so early is the sentence's subject
_NEGATED = re.compile(
    r"(?<!\bwho )(?<!\bthat )(?<!\bwhich )\b(?:(?:is|are|was|were|do|does|did|can|could|should|has|have|had|will|would|may|must|need) "
    r"(?:\w+ ){0,2}?not(?! only)|cannot|"
    r"\w+n['\u2019]t|no (?:\w+ ){0,3}?(?:evidence|need|reason|difference|effect|way|guarantee)|never|nor|neither|without|unlike)\b",
    re.I,
)
_TOLD = re.compile(r"(?:(?:The|Our) (?:short )?answer is |In short, )?(yes|no)[,.:;!]", re.I)

OTHER_SIDE = 0.2
_CUT = re.compile(r"([<>\u2264\u2265])=? ?(\d+(?:\.\d+)?)")
_AMOUNT = r"(\d+(?:\.\d+)?|one|two|three|four|five|six|seven|eight|nine|ten)\b"
_SIDES = {
    True: re.compile(
        rf"(?:below|under|less than|fewer than|lower than|at most|up to|smaller than|[<\u2264]) ?{_AMOUNT}"
    ),
    False: re.compile(rf"(?:above|over|more than|greater than|higher than|larger than|at least|[>\u2265]) ?{_AMOUNT}"),
}
_FIGURES = {word: str(i) for i, word in enumerate("one two three four five six seven eight nine ten".split(), 1)}


@dataclass(frozen=True, slots=True)
class Extract:
    """An answer to quote. ``fits``: it is of the kind that was asked for. ``together`` (0 to 1): how closely it stands with
    what the question names."""

    text: str
    fits: bool
    together: float = 0.0


def extract(unit: Unit, question: Question) -> Extract:
    """The answer to quote from a unit."""
    if unit.cells:
        return _cell(unit, question)
    if question.kind in NUMERIC or question.kind in ("who", "where"):
        return _span(unit, question)
    if question.kind == "yes_no":
        fits = len(unit.text) >= MIN_SENTENCE and unit.kind in ("sentence", "fact", "caption")
        return Extract(f"{_polarity(unit, question)}: {unit.text}", fits)
    if question.kind == "name":
        return _name(unit, question)
    if question.kind == "definition":
        together = _defines(unit, question) if unit.kind in ("sentence", "fact") else 0.0
        return Extract(unit.text, together > 0, together)
    return Extract(unit.text, unit.kind != "label" and (question.kind != "why" or bool(_REASON.search(unit.text))))


def _cell(unit: Unit, question: Question) -> Extract:
    found = cells.answer(unit.cells, question)
    fits = found.named and question.kind not in ("yes_no", "definition", "who", "where", "why")
    return Extract(found.value, fits, found.together)


def _span(unit: Unit, question: Question) -> Extract:
    text = unit.text
    found = spans.candidates(text, question)
    if not found:
        return Extract(text, False)
    together = _together(text, found[0], question)
    if unit.kind == "label" and _is_other_side(text, question):
        together *= OTHER_SIDE
    if _is_clear(text, found):
        return Extract(spans.quoted(text, found[0], question), True, together)
    # a drawing's row of labels stands there label by label too
    return Extract(text, unit.kind != "label", together)


def _is_clear(text: str, found: Sequence[spans.Span]) -> bool:
    """Whether the best span can stand for its text."""
    return len(found) == 1 or found[0].score > CLEAR_MARGIN * found[1].score or len(text) > MAX_UNCLEAR


def _is_other_side(text: str, question: Question) -> bool:
    """Whether a drawing's label stands on the other side of a cut-off than the question: "varg >= 0.209" for "varg below 0.209"."""
    asked = {(number, side) for side, pattern in _SIDES.items() for number in pattern.findall(question.text.lower())}
    drawn = {(number, sign in "<\u2264") for sign, number in _CUT.findall(text)}
    return any(_FIGURES.get(number, number) == cut and side != below for number, side in asked for cut, below in drawn)


def _together(text: str, span: spans.Span, question: Question) -> float:
    """How close a span stands to the question's words, of those that the text holds."""
    words = index(text)
    held = sum(term.weight for term in question.terms if term.in_(words))
    return min(1.0, span.score / held) if held else 0.0


def _name(unit: Unit, question: Question) -> Extract:
    kind = naming.asked(question)
    if not kind:
        return Extract(unit.text, unit.kind != "label")
    found = naming.names(unit.text, question, kind)
    if not found:
        return Extract(unit.text, False)
    name = unit.text[found[0].start : found[0].end] if _is_clear(unit.text, found) else unit.text
    return Extract(name, True, _together(unit.text, found[0], question))


def _defines(unit: Unit, question: Question) -> float:
    """How well the unit says what the question's thing is: the thing, then "is a", "means" or ", a ..."; 0 where it does not."""
    terms = question.terms
    words = tokens(unit.text)
    for i, token in enumerate(words):
        if not any(
            (token.stem,) in term.alternatives or token.stem == p[-1] for term in terms for p in term.alternatives
        ):
            continue
        window = frozenset(word.stem for word in words[max(0, i + 1 - _DEFINIENDUM) : i + 1])
        held = sum(term.weight for term in terms if term.in_(window)) / sum(term.weight for term in terms)
        if held >= _NAMED and _DEFINES.match(unit.text, token.end):
            return held * (1.0 if i < _EARLY else 0.6)
    if unit.before and _IT_IS.match(unit.text):
        before = frozenset(stems(unit.before))
        return 0.8 if all(term.in_(before) for term in terms) else 0.0
    return 0.0


def _polarity(unit: Unit, question: Question) -> str:
    """Yes or No: what the next sentence says outright, or whether the unit denies what the question asks (or the other way
    round)."""
    told = _TOLD.match(unit.after)
    if told:
        return told[1].capitalize()
    return "Yes" if bool(_NEGATED.search(unit.text)) == bool(_NEGATED.search(question.text)) else "No"

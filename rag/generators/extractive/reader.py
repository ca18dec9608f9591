"""Reading: the unit of evidence that fits the question best, and the shortest answer in it, or none below the threshold."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from rag.generators.extractive import cells, comparisons, spans
from rag.generators.extractive.comparisons import Answer
from rag.generators.extractive.evidence import Unit, question_of, units
from rag.generators.extractive.questions import NUMERIC, Kind, Question, Term, parts
from rag.generators.extractive.words import holds, index, tokens
from rag.prompt import ABSTENTION
from rag.types import Prompt

THRESHOLD = 0.3
"""Below this probability a part of a question is not answered; calibrated (see ``WEIGHTS``)."""

WEIGHTS = {
    "bias": -3.93,
    "own": 3.02,
    "near": 0.26,
    "passage": 1.39,
    "first": 0.15,
    "nowhere": -1.61,
    "anchors": -1.08,
    "focus": 0.97,
    "mistyped": -1.39,
    "misfit": -0.72,
    "read off": 0.69,
    "code": -1.2,
    "short": 0.87,
}
"""Logistic weights of the features, fitted on questions with and without their answer in the evidence: shares of the
question's weighted words that the unit holds (own), that it and its surroundings hold (near), that no evidence holds
(nowhere), of its names and numbers that are not near (anchors); whether the noun asked for is near (focus), no number
was found though one is asked for (mistyped) or no reason, name or definition (misfit), and what the unit is."""

Weighed = list[tuple[Term, float, bool]]
"""A question's terms with their weight in this prompt and whether the evidence holds them anywhere."""

CONTEXT_SHARE = 0.5
CLEAR_MARGIN = 1.15
SHORTLIST = 24
SELF_EVIDENT: frozenset[Kind] = frozenset({"year", "percent", "p_value", "interval", "who"})
OTHER_PARTS = 0.6


@dataclass(frozen=True, slots=True)
class Reading:
    """What the reader makes of a prompt. ``score`` is the weakest part's; ``abstained`` means no part was answered."""

    answer: str
    tags: tuple[str, ...]
    score: float
    abstained: bool
    parts: tuple[Answer, ...] = ()


@dataclass(frozen=True, slots=True)
class Match:
    """A unit with its candidate answer and its features (see ``WEIGHTS``)."""

    unit: Unit
    candidate: str
    features: Mapping[str, float]

    @property
    def probability(self) -> float:
        """The chance that the candidate answers the question."""
        return 1 / (1 + math.exp(-sum(WEIGHTS[name] * value for name, value in self.features.items())))


def read(prompt: Prompt, threshold: float = THRESHOLD) -> Reading:
    """Answer the prompt's question from its tagged evidence, or abstain."""
    evidence = indexed(units(prompt))
    question = question_of(prompt)
    if not evidence or not question:
        return Reading(ABSTENTION, (), 0.0, True)
    answers = comparisons.answers(question, lambda part: _answer(part, evidence)) or tuple(
        _answer(part, evidence) for part in parts(question)
    )
    # evidence that answers one part was not retrieved in vain: the others need less
    least = threshold * (OTHER_PARTS if any(answer.score >= threshold for answer in answers) else 1.0)
    kept = tuple(answer for answer in answers if answer.score >= least)
    score = min(answer.score for answer in answers)
    if not kept:
        return Reading(ABSTENTION, (), score, True, answers)
    lines = dict.fromkeys(f"{answer.text.rstrip(' .;,')} [{answer.tag}]" for answer in kept)
    return Reading("; ".join(lines), tuple(dict.fromkeys(a.tag for a in kept)), score, False, answers)


@dataclass(frozen=True, slots=True)
class Indexed:
    """A unit with its words, those of it and what is near, and those of all that has its tag."""

    unit: Unit
    own: frozenset[str]
    near: frozenset[str]
    passage: frozenset[str]


def indexed(found: Sequence[Unit]) -> list[Indexed]:
    """The units with their words looked up once."""
    own = [index(unit.text) for unit in found]
    near = [words | index(unit.context) for words, unit in zip(own, found, strict=True)]
    passages: dict[str, set[str]] = {}
    for unit, words in zip(found, near, strict=True):
        passages.setdefault(unit.tag, set()).update(words)
    whole = {tag: frozenset(words) for tag, words in passages.items()}
    return [Indexed(unit, o, n, whole[unit.tag]) for unit, o, n in zip(found, own, near, strict=True)]


def _answer(question: Question, evidence: Sequence[Indexed]) -> Answer:
    best = best_match(question, evidence)
    return Answer(best.candidate, best.unit.tag, best.probability)


def best_match(question: Question, evidence: Sequence[Indexed]) -> Match:
    """The unit that fits best; the earlier of two equals."""
    return max(matches(question, evidence), key=lambda match: match.probability)


def matches(question: Question, evidence: Sequence[Indexed]) -> list[Match]:
    """The units that share the most with the question, in the prompt's order, with their candidate answers."""
    terms = _weighed(question, evidence)
    order = sorted(range(len(evidence)), key=lambda i: -_fit(terms, evidence[i]))
    found = [_match(question, evidence[i], terms) for i in sorted(order[:SHORTLIST])]
    return [*found, *_superlatives(question, evidence, terms)]


def _superlatives(question: Question, evidence: Sequence[Indexed], terms: Weighed) -> Iterator[Match]:
    """For "which ... has the largest ...": the winning row of each table."""
    if not question.superlative:
        return
    tables: dict[str, list[Indexed]] = {}
    for item in evidence:
        if item.unit.cells:
            tables.setdefault(item.unit.tag, []).append(item)
    for rows in tables.values():
        won = cells.winner([row.unit.cells for row in rows], question)
        if won:
            match = _match(question, rows[won[0]], terms)
            # the column and the superlative were found, so the row needs to share nothing more with the question
            yield Match(match.unit, won[1], dict(match.features) | {"mistyped": 0.0, "misfit": 0.0, "own": match.features["near"]})


def _weighed(question: Question, evidence: Sequence[Indexed]) -> Weighed:
    """Each term with its weight times its rarity in this prompt (a word that the evidence does not hold keeps its full
    weight), and whether the evidence holds it anywhere."""
    total = len(evidence)
    found = []
    for term in question.terms:
        frequency = sum(term.in_(item.own) for item in evidence)
        rarity = min(1.0, 0.4 + math.log(1 + total / frequency) / 4) if frequency else 1.0
        found.append((term, term.weight * rarity, frequency > 0 or any(term.in_(item.near) for item in evidence)))
    return found


def _fit(terms: Weighed, item: Indexed) -> float:
    return sum(w * (1.0 if t.in_(item.own) else CONTEXT_SHARE if t.in_(item.near) else 0.0) for t, w, _ in terms)


def _match(question: Question, item: Indexed, terms: Weighed) -> Match:
    candidate, exact = extract(item.unit, question)
    if exact and question.kind in SELF_EVIDENT:
        terms = [entry for entry in terms if not entry[0].category]  # "1986" need not be called a year
    # a label borrows the caption's words only for its number: as a name or a sentence it has to speak for itself
    lone = item.unit.kind == "label" and question.kind not in NUMERIC
    near, passage = (item.own, item.own) if lone else (item.near, item.passage)
    total = sum(weight for _, weight, _ in terms) or 1.0
    anchors = [term for term, _, _ in terms if term.anchor]
    features = {
        "bias": 1.0,
        "own": sum(w for t, w, _ in terms if t.in_(item.own)) / total,
        "near": sum(w for t, w, _ in terms if t.in_(near)) / total,
        "passage": sum(w for t, w, _ in terms if t.in_(passage)) / total,
        "first": float(item.unit.tag[1:] == "1" and item.unit.kind != "fact"),
        "nowhere": sum(w for _, w, anywhere in terms if not anywhere) / total,
        "anchors": sum(not t.in_(near) for t in anchors) / max(1, len(anchors)),
        "focus": float(holds(question.focus, near)),
        "mistyped": float(not exact and question.kind in NUMERIC),
        "misfit": float(not exact and question.kind not in NUMERIC),
        "read off": float(item.unit.kind in ("row", "label")),
        "code": float(bool(_CODE.search(item.unit.text))),
        "short": float(len(item.unit.text) < SHORT),
    }
    return Match(item.unit, candidate, features)


_CODE = re.compile(r"<- |^R?> |\w\(\w+ ?[=~]|, data ?=")
SHORT = 25


# --- the answer in the unit ------------------------------------------------------------------------------------------


def extract(unit: Unit, question: Question) -> tuple[str, bool]:
    """The answer to quote from a unit, and whether it is of the kind that was asked for."""
    if unit.cells:
        return cells.answer(unit.cells, question)
    if question.kind in NUMERIC or question.kind == "who":
        found = spans.candidates(unit.text, question)
        if not found:
            return unit.text, False
        if len(found) == 1 or found[0].score > CLEAR_MARGIN * found[1].score:
            return spans.quoted(unit.text, found[0], question), True
        return unit.text, True
    if question.kind == "yes_no":
        return f"{_polarity(unit.text, question)}: {unit.text}", len(unit.text) >= SHORT
    if spans.asks_for_name(question):
        found = spans.names(unit.text, question)
        return (unit.text[found[0].start : found[0].end], True) if found else (unit.text, False)
    if question.kind == "definition":
        return unit.text, _defines(unit.text, question)
    return unit.text, unit.kind != "label" and (question.kind != "why" or bool(_REASON.search(unit.text)))


_REASON = re.compile(
    r"\b(?:because|since|due to|so that|therefore|reason|thus|hence|in order to|as a (?:result|consequence)|leads? to|"
    r"to (?:avoid|allow|ensure|make))\b", re.I
)  # fmt: skip
_IS = re.compile(r"\W{0,2}(?: \w+){0,2}\W{0,2} ?(?:\b(?:is|are|was|were|means?|denotes?|refers?|called|known as|defined|stands? for)\b|, an? )")


def _defines(text: str, question: Question) -> bool:
    """Whether the text says what the question's thing is: the thing, then "is", "means" or ", a ...". """
    names = {word for term in question.terms for phrase in term.alternatives for word in phrase}
    return any(token.stem in names and _IS.match(text, token.end) for token in tokens(text))


_NEGATIONS = frozenset("no not never none neither nor cannot without isn doesn don didn wasn aren can't unlike".split())


def _polarity(text: str, question: Question) -> str:
    said = any(t.text.lower() in _NEGATIONS for t in tokens(text))
    asked = any(t.text.lower() in _NEGATIONS for t in tokens(question.text))
    return "Yes" if said == asked else "No"

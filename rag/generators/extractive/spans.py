"""Candidate answers inside a sentence: a table of what an answer of each kind looks like, and how to choose among several."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

from rag.generators.extractive.evidence import COMMAND
from rag.generators.extractive.questions import NUMERIC, Kind, Question, Term
from rag.generators.extractive.words import STOP_STEMS, Token, stem, stems, tokens

_NUMBER = r"(?:[<>≤≥~≈]\s?|about |approximately |nearly |almost |over |around |roughly )?[-−–]?\d[\d,]*(?:\.\d+)?(?:e[-−+]?\d+)?"
_IN_WORDS = r"\b(?:two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|thirteen|fifteen|twenty|thirty|forty|fifty|hundred)\b"
_UNIT = (
    r"(?:\s?(?:%|percent|per cent|‰)|-fold\b|\s(?:years?|months?|days?|weeks?|hours?|minutes?|fold|units?|grams?|ml|mL|mg|"
    r"kg/m2|g/l|IU/dL|kg|cm|mm|dollars|times)\b|/(?:year|month|day|week)\b)?"
)
_A_YEAR = r"(?:1[89]|20)\d\d\b"
_WHOLE = rf"(?<![\w.,/-])(?!{_A_YEAR})\d[\d,]*(?![\w,]*\.?\d)(?!\s?(?:%|percent))"
_RANGE = r"(?<![\w.])\d+[-–]\d+(?![\w.-])"
_SIGNED = r"[-−]?\d[\d.]*"
_OPENERS = "The|A|An|In|For|We|This|These|It|As|If|At|On|There|Figure|Table|To|One|And|But"
_PERSON = (
    rf"(?-i:(?:(?:Dr|Prof|Mr|Mrs|Ms)\.? )?(?!(?:{_OPENERS})\b)\b[A-Z](?:\w|-|['’](?!s\b))+"
    r"(?:,? (?:and |& |et al\.?|of |van |de |[A-Z]\.? ?)*[A-Z](?:\w|-|['’](?!s\b))+| et al\.?)*)"
)

_PLACE = (
    r"(?-i:(?<=\bin )|(?<=\bat )|(?<=\bfrom )|(?<=\bof )|(?<=\bin the )|(?<=\bat the ))"
    r"(?-i:[A-Z][\w.'’-]*\w(?:,? (?:of |and |the |& )*[A-Z][\w.'’-]*\w)*)"
)

# The first pattern that finds anything decides.
PATTERNS: Mapping[Kind, tuple[str, ...]] = {
    "count": (r"(?<=\b[nN] = )\d+|(?<=\b[nN]= )\d+", f"{_RANGE}|{_WHOLE}|{_IN_WORDS}"),
    "percent": (
        rf"{_NUMBER}\s?(?:%|percent|per cent)",
        rf"(?<![\w.])(?!{_A_YEAR}){_NUMBER}|one-(?:half|third|fourth)|\bhalf\b",
    ),
    "p_value": (
        r"p(?:-value)?s?\s*[=<>≤≈]+\s*<?\s*\d*\.?\d+(?:e[-−]?\d+)?",
        rf"(?<![\w.])(?:[<>]\s?)?0?\.\d+(?:e[-−]?\d+)?|<?\s?{_NUMBER}e-\d+",
    ),
    "interval": (
        rf"[(\[]\s*{_SIGNED}\s*(?:,|to|-|–|;)\s*{_SIGNED}\s*[)\]]",
        rf"{_SIGNED}\s*(?:to|-|–)\s*{_SIGNED}%?",
        r"[-−]?\d+\.\d+ [-−]?\d+\.\d+",
    ),
    "year": (r"\b(?:1[6-9]|20)\d\d(?:\s?[-–]\s?(?:1[6-9]|20)?\d\d)?\b",),
    "amount": (rf"(?<![\w.]){_NUMBER}{_UNIT}|{_IN_WORDS}{_UNIT}",),
    "who": (_PERSON,),
    "where": (_PLACE,),
}
_COMPILED = {kind: tuple(re.compile(p, re.I) for p in patterns) for kind, patterns in PATTERNS.items()}

# Numbers that name or qualify answer nothing: "Figure 2", "node 3", "11.3.1 Glioma", "95% confidence"; "at week 27" counts nothing.
_NAMING = re.compile(
    r"(?:figures?|figs?\.?|tables?|sections?|chapters?|equations?|nodes?|subgroups?|groups?|steps?|models?|version|types?|page|p\.|"
    r"appendix|methods?|grade|subject|patient|seed|state|stage|class|level|phase|per|R>|>)\s*[(\[]?\Z",
    re.I,
)
_NAMING_TIME = re.compile(r"\b(?:weeks?|days?|months?|years?|age|aged|times?)\s\Z", re.I)
_P_VALUE = re.compile(r"\bp(?:-value)?\s?[=<>≤]*\s?\Z")
_TIME_UNIT = re.compile(r"\s(years?|months?|weeks?|days?)\b", re.I)
_HEADING = re.compile(r"\d+(?:\.\d+)+\.?\s+[A-Z][a-z]|\d+(?:\.\d+){2,}")
_QUALIFYING = re.compile(r"\s?%\s(?:CI|confidence|credib|Wald|level)|\s?% (?:lower|upper)", re.I)
_SHARE_OF = re.compile(r"\d (?:out )?of (?:the |all )?\Z")  # of "32 out of 110" the first is the count
_SENTENCE_START = re.compile(r"(?:\A|[.:!?\d]\s)\W*\Z")  # a capital there makes no name
_NO_PERSON = re.compile(
    r"[-–] ?[A-Z]|\b(?:University|Universität|Institute|Clinic|Center|Centre|Department|County|Hospital|Service|Survey|Data|Table|"
    r"Figure|Chapter|Section|Appendix|Survival|Model|Models|Analysis|Test|Great|North|South|Package|Vignette|Edition|Journal|"
    r"Association|Trial|January|February|March|April|May|June|July|August|September|October|November|December|"
    r"Cox|Kaplan|Meier|Gaussian|Bayesian|Poisson|Markov|Weibull)\b"
)
_POSSESSIVE = re.compile(r"['’]s\b|(?<=s)['’]")
_METHOD_FOLLOWS = re.compile(
    r"(?:['’]s)?[ -](?:\w+ )?(?:models?|tests?|estimat\w+|residuals?|methods?|statistics?|curves?|formula|weights?|trial|regression)\b"
)
_NO_PLACE = re.compile(
    r"\b(?:Figure|Table|Chapter|Section|Appendix|Equation|January|February|March|April|May|June|July|August|September|October|"
    r"November|December|Cox|Kaplan|Surv|PY|FU)\b|^[A-Z0-9.]+$"
)
_ASSIGNED = re.compile(r"([A-Za-z][\w.]*) ?= ?\Z")
_OPENS_TITLE = re.compile(r" [A-Z][a-z]*")
_DATE = re.compile(
    r"(?:January|February|March|April|May|June|July|August|September|October|November|December) \d{0,2}(?:st|nd|rd|th)?,? ?\d*|"
    r"\b(?:Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sep|Oct|Nov|Dec) (?:19|20)\d\d"
)
_HEDGE = re.compile(
    r"\b(?:over|about|almost|nearly|around|at least|at most|up to|more than|less than|fewer than|first|last)\s\Z", re.I
)
_BEFORE = 14  # characters that tell what a number names

# "How old": only a number with such a unit answers.
_UNITS_OF = {
    "often": r"times|daily|weekly|monthly|(?:years?|months?|weeks?|days?|hours?)\b",
    "old": r"years?|months?|days?|weeks?",
    "long": r"years?|months?|days?|weeks?|hours?|minutes?|seconds?|miles|km|cm|mm|m\b|pages",
    "tall": r"cm|m\b|feet|inches|metres|meters",
    "high": r"cm|m\b|feet|metres|meters|%|percent",
    "heavy": r"kg|g\b|mg|pounds|tons|tonnes|grams",
    "far": r"miles|km|kilomet|m\b|metres|meters",
}
_HOW = re.compile(rf"\bhow ({'|'.join(_UNITS_OF)})\b", re.I)
_HOW_MANY = re.compile(r"\bhow many (?:more |whole )?(year|month|week|day|hour|minute)s\b", re.I)

_COUNTED = re.compile(r"\s((?:[a-z-]+(?<!ed)\s)?(?:[a-z]{2,}s|women|men|people|children))\b")
_OUT_OF = re.compile(r" (?:out )?of (?:the |all )?\d[\d,]*\b")
_LABELLED = re.compile(r"\s?\(([a-z]+(?: [a-z]+)?)\)")
_CLAUSE = re.compile(r"[,;:]\s|\b(?:and|but|while|whereas|versus|against)\b")

REACH = 6.0
"""Words over which nearness to a question word fades to 1/e; half of it counts across the end of a clause."""
MEASURE_BONUS = 2.0
COUNT_BONUS = 2.0
"""For the noun asked for: a measure stands right before its value ("a standard error of 0.066"), a noun right after its
count ("54 patients")."""
BONUS_REACH = 3
LABEL_BONUS = 6.0
"""For a value with its label behind it, "16-25 (heavy)", where the question says the label; against it where it says another."""


@dataclass(frozen=True, slots=True)
class Span:
    """A run of a unit's text that would answer, and how close it stands to the question's words."""

    start: int
    end: int
    score: float


def candidates(text: str, question: Question) -> list[Span]:
    """The spans of ``text`` that look like an answer of the question's kind, best first; what the question itself says
    (its own numbers and names) can't answer it."""
    words = tokens(text)
    for pattern in _COMPILED.get(question.kind, ()):
        found = [match.span() for match in pattern.finditer(text)]
        kept = [span for span in found if not _is_ruled_out(text, *span, question)]
        if kept:
            spans = [scored(text, start, end, words, question) for start, end in kept]
            return sorted(spans, key=lambda s: (-s.score, s.start))
    return []


def quoted(text: str, span: Span, question: Question) -> str:
    """The span, with a hedge before it ("over 600"), what it is a share of ("3 of 128"), and the noun that it counts ("686 women",
    "1186 pregnant women")."""
    hedge = _HEDGE.search(text, max(0, span.start - _BEFORE), span.start) if question.kind in NUMERIC else None
    share = _OUT_OF.match(text, span.end) if question.kind == "count" else None
    end = share.end() if share else span.end
    piece = text[hedge.start() if hedge else span.start : end].strip()
    follow = _COUNTED.match(text, end)
    if question.kind in ("count", "amount") and follow and not any(t.stem in STOP_STEMS for t in tokens(follow[1])):
        return f"{piece} {follow[1]}"
    return piece


# --- what can't be the answer ----------------------------------------------------------------------------------------


def _is_ruled_out(text: str, start: int, end: int, question: Question) -> bool:
    return (
        is_said(text[start:end], question)
        or _is_a_name(text, start, end, question)
        or bool(_SHARE_OF.search(text, max(0, start - _BEFORE), start))
        or _is_assigned(text, start, question)
        or _is_code(text, start)
        or _lacks_unit(text, start, end, question)
    )


def is_said(piece: str, question: Question) -> bool:
    """Whether the question itself says all of a piece."""
    inner = [t for t in tokens(piece) if t.stem not in STOP_STEMS]
    own = {word for term in question.terms for alternative in term.alternatives for word in alternative}
    if question.kind == "who" and any(t.stem in own and t.text[0].isupper() for t in inner):
        return True  # "Schairer and Schoeniger" is no answer to who Schoeniger's supervisor was
    return bool(inner) and all(t.stem in question.numbers or t.stem in own for t in inner)


def _is_a_name(text: str, start: int, end: int, question: Question) -> bool:
    """Whether a number only names something ("node 3"), or (asked who) a capital only starts a sentence."""
    before = text[max(0, start - _BEFORE) : start]
    if question.kind == "who":
        return not _is_person(text, start, end)
    if question.kind == "where":
        return bool(_NO_PLACE.search(text[start:end]))
    if question.kind == "count" and _counts_others(text, end, question):
        return True
    if question.kind == "count" and _NAMING_TIME.search(before):
        return True
    if question.kind in ("count", "amount", "percent") and _P_VALUE.search(before):
        return True
    if question.kind == "count" and (unit := _TIME_UNIT.match(text, end)) and stem(unit[1]) not in question.focus:
        return True
    if question.kind in ("count", "amount") and _OPENS_TITLE.match(text, end) and before[-2:-1].isdigit():
        return True  # "2023 1 The concordance statistic"
    if question.kind in ("count", "amount") and _DATE.search(before + text[start : end + 6]):
        return True
    qualifies = _QUALIFYING.match(text, end) or _QUALIFYING.match(text, end - 1)
    return bool(_NAMING.search(before) or _HEADING.match(text, start) or qualifies)


def _is_person(text: str, start: int, end: int) -> bool:
    piece = text[start:end]
    if (
        _POSSESSIVE.match(text, end)
        or _NO_PERSON.search(piece)
        or _METHOD_FOLLOWS.match(text, end)
        or any(w.isupper() and len(w) > 2 for w in piece.split())
    ):
        return False
    return " " in piece or not _SENTENCE_START.search(text[:start])


def _is_assigned(text: str, start: int, question: Question) -> bool:
    """Whether a number is the value of something named that the question does not ask for: "df= 4", or "n = 137" for an amount."""
    named = _ASSIGNED.search(text[max(0, start - 30) : start])
    if named is None or question.kind not in ("amount", "count", "percent"):
        return False
    known = {word for term in question.terms for phrase in term.alternatives for word in phrase}
    own = set(stems(named[1]))
    if question.kind == "count":
        own -= {"n"}
    return bool(own) and not own & known


def _is_code(text: str, start: int) -> bool:
    return bool(COMMAND.match(text)) and start < text.rfind(")")


def _counts_others(text: str, end: int, question: Question) -> bool:
    """Whether a number counts something that the question does not name: "five groups" is no number of patients."""
    follow = _COUNTED.match(text, end)
    if not follow:
        return False
    known = {word for term in question.terms for phrase in term.alternatives for word in phrase}
    return not known & set(stems(follow[1]))


def _lacks_unit(text: str, start: int, end: int, question: Question) -> bool:
    how, many = _HOW.search(question.text), _HOW_MANY.search(question.text)
    unit = _UNITS_OF[how[1].lower()] if how else rf"{many[1].lower()}s?\b" if many else ""
    return bool(unit) and not re.search(rf"(?:\d|[a-z])[ -]?(?:{unit})", text[start : end + 10])


# --- which of several ------------------------------------------------------------------------------------------------


def _places(words: tuple[Token, ...], terms: tuple[Term, ...]) -> list[tuple[int, float]]:
    """Where the question's words stand: (index of the word, weight)."""
    at: list[tuple[int, float]] = []
    for term in terms:
        for phrase in term.alternatives:
            starts = range(len(words) - len(phrase) + 1)
            at.extend((i, term.weight) for i in starts if all(words[i + k].stem == w for k, w in enumerate(phrase)))
    return at


def scored(text: str, start: int, end: int, words: tuple[Token, ...], question: Question) -> Span:
    """The span with its closeness to the question's words; ``words`` are the text's."""
    places = _places(words, question.terms)
    first = next((i for i, w in enumerate(words) if w.end > start), len(words))
    last = next((i for i, w in enumerate(words) if w.start >= end), len(words)) - 1
    score = 0.0
    for place, weight in places:
        gap = first - place if place < first else place - last
        score += weight * math.exp(-gap / REACH) * (0.5 if _clause_between(text, start, end, words[place]) else 1.0)
        if gap <= BONUS_REACH and words[place].stem in question.focus:
            score += weight * (MEASURE_BONUS if place < first else COUNT_BONUS * (question.kind == "count"))
    label = _LABELLED.match(text, end)
    if label and question.kind in NUMERIC:
        known = {word for term in question.terms for phrase in term.alternatives for word in phrase}
        score += LABEL_BONUS if set(stems(label[1])) <= known else -LABEL_BONUS
    return Span(start, end, score)


def _clause_between(text: str, start: int, end: int, word: Token) -> bool:
    return _CLAUSE.search(text, min(word.end, end), max(word.start, start)) is not None

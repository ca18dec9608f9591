"""Candidate answers inside a sentence: a table of what an answer of each kind looks like, and how to choose among several."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

from rag.generators.extractive.questions import Kind, Question, Term
from rag.generators.extractive.words import STOP_STEMS, Token, stem, stems, tokens

_NUMBER = r"(?:[<>≤≥~≈]\s?|about |approximately |nearly |almost |over |around |roughly )?[-−–]?\d[\d,]*(?:\.\d+)?(?:e[-−+]?\d+)?"
_WORD_NUMBER = r"(?:two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|thirteen|fifteen|twenty|thirty|forty|fifty|hundred)"
_UNIT = r"(?:\s?(?:%|percent|per cent|‰)|\s(?:years?|months?|days?|weeks?|hours?|minutes?|fold|units?|grams?|ml|mL|mg|kg/m2|g/l|IU/dL|kg|cm|mm|dollars|times)\b|-fold\b)?"

# What an answer of each kind looks like; the first pattern that finds anything decides.
PATTERNS: Mapping[Kind, tuple[re.Pattern[str], ...]] = {
    kind: tuple(re.compile(p, re.I) for p in patterns)
    for kind, patterns in {
        "count": (r"(?<=\b[nN] = )\d+|(?<=\b[nN]= )\d+", rf"(?<![\w.])\d+[-–]\d+(?![\w.-])|(?<![\w.,-])(?!(?:1[89]|20)\d\d\b)\d[\d,]*(?![\w,]*\.?\d)(?!\s?%)(?!\s(?:percent|years?|months?|days?)\b)|\b{_WORD_NUMBER}\b",),
        "percent": (rf"{_NUMBER}\s?(?:%|percent|per cent)", rf"(?<![\w.]){_NUMBER}|one-(?:half|third|fourth)|\bhalf\b"),
        "p_value": (r"p(?:-value)?s?\s*[=<>≤≈]+\s*<?\s*\d*\.?\d+(?:e[-−]?\d+)?", rf"[<>]?\s?0?\.\d+(?:e[-−]?\d+)?|<?\s?{_NUMBER}e-\d+"),
        "interval": (r"[(\[]\s*[-−]?\d[\d.]*\s*(?:,|to|-|–|;)\s*[-−]?\d[\d.]*\s*[)\]]", r"[-−]?\d[\d.]*\s*(?:to|-|–)\s*[-−]?\d[\d.]*%?",
                     r"[-−]?\d+\.\d+ [-−]?\d+\.\d+"),
        "year": (r"\b(?:1[6-9]|20)\d\d(?:\s?[-–]\s?(?:1[6-9]|20)?\d\d)?\b",),
        "amount": (rf"(?<![\w.]){_NUMBER}{_UNIT}|\b{_WORD_NUMBER}{_UNIT}",),
        "who": (r"(?-i:(?:(?:Dr|Prof|Mr|Mrs|Ms)\.? )?(?!(?:The|A|An|In|For|We|This|These|It|As|If|At|On|There|Figure|Table|To|One|And|But)\b)\b[A-Z][\w'’-]+(?:,? (?:and |& |et al\.?|of |van |de |[A-Z]\.? ?)*[A-Z][\w'’-]+| et al\.?)*)",),
    }.items()
}  # fmt: skip

_THINGS = "function|package|routine|option|argument|command|data set|dataset|object|method|test"
_INTRODUCED = re.compile(rf"\b([A-Za-z][\w.]*) (?:{_THINGS})\b|\b(?:{_THINGS}) ([A-Za-z][\w.]*)")
_NAMED_THINGS = frozenset(stems("function routine package argument option command dataset"))
REACH = 6.0
"""Words over which nearness to a question word fades to 1/e."""


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
    places = _places(words, question.terms)
    for pattern in PATTERNS.get(question.kind, ()):
        found = [(m.start(), m.end()) for m in pattern.finditer(text)]
        spans = [_scored(text, start, end, words, places, question) for start, end in found if not _said(text[start:end], question) and not _names(text, start, end, question)
                 and not _lacks_unit(text, (start, end), question)]
        if spans:
            return sorted(spans, key=lambda s: (-s.score, s.start))
    return []


# "Figure 2", "node 3", "step 1", "95% confidence": numbers that name or qualify and answer nothing.
_NAMING = re.compile(
    r"(?:figures?|figs?\.?|tables?|sections?|chapters?|equations?|nodes?|subgroups?|groups?|steps?|models?|version|types?|page|p\.|appendix|"
    r"methods?|grade|subject|patient|seed|state|stage|class|level|phase|R>|>)\s*[(\[]?\Z", re.I
)  # fmt: skip
_SHARE_OF = re.compile(r"\d (?:out )?of (?:the |all )?\Z")
_HEADING = re.compile(r"\d+(?:\.\d+)+\.?\s+[A-Z][a-z]|\d+(?:\.\d+){2,}")
_QUALIFYING = re.compile(r"\s?%\s(?:CI|confidence|credib|Wald|level)|\s?% (?:lower|upper)", re.I)


_OPENING = re.compile(r"(?:\A|[.:!?\d]\s)\W*\Z")
_NAMING_TIME = re.compile(r"\b(?:weeks?|days?|months?|years?|age|aged|times?)\s\Z", re.I)

# "How old": only a number with such a unit answers.
_UNITS_OF = {
    "old": r"years?|months?|days?|weeks?",
    "long": r"years?|months?|days?|weeks?|hours?|minutes?|seconds?|miles|km|cm|mm|m\b|pages",
    "tall": r"cm|m\b|feet|inches|metres|meters",
    "high": r"cm|m\b|feet|metres|meters|%|percent",
    "heavy": r"kg|g\b|mg|pounds|tons|tonnes|grams",
    "far": r"miles|km|kilomet|m\b|metres|meters",
}
_HOW = re.compile(rf"\bhow ({'|'.join(_UNITS_OF)})\b", re.I)


def _lacks_unit(text: str, span: tuple[int, int], question: Question) -> bool:
    how = _HOW.search(question.text)
    return bool(how) and not re.search(rf"\d[ -]?(?:{_UNITS_OF[how[1].lower()]})", text[span[0] : span[1] + 10])


def _names(text: str, start: int, end: int, question: Question) -> bool:
    if question.kind == "who" and " " not in text[start:end] and _OPENING.search(text[:start]):
        return True  # a capital there makes no name
    if question.kind == "count" and _NAMING_TIME.search(text[max(0, start - 9) : start]):
        return True
    if _SHARE_OF.search(text[:start]):
        return True  # "32 out of 110": the first is the count
    return bool(_NAMING.search(text[max(0, start - 14) : start]) or _HEADING.match(text, start) or _QUALIFYING.match(text, end)
                or _QUALIFYING.match(text, end - 1))


def _said(piece: str, question: Question) -> bool:
    inner = [t for t in tokens(piece) if t.stem not in STOP_STEMS]
    own = {word for term in question.terms for alternative in term.alternatives for word in alternative}
    return bool(inner) and all(t.stem in question.numbers or t.stem in own for t in inner)


def _places(words: tuple[Token, ...], terms: tuple[Term, ...]) -> list[tuple[int, float]]:
    """Where the question's words stand: (index of the word, weight)."""
    at: list[tuple[int, float]] = []
    for term in terms:
        for alternative in term.alternatives:
            if len(alternative) == 1:
                at.extend((i, term.weight) for i, word in enumerate(words) if word.stem == alternative[0])
            else:
                at.extend(
                    (i, term.weight)
                    for i in range(len(words) - len(alternative) + 1)
                    if tuple(w.stem for w in words[i : i + len(alternative)]) == alternative
                )
    return at


def _scored(
    text: str, start: int, end: int, words: tuple[Token, ...], places: list[tuple[int, float]], question: Question
) -> Span:
    first = next((i for i, w in enumerate(words) if w.end > start), len(words))
    last = next((i for i, w in enumerate(words) if w.start >= end), len(words)) - 1
    score = 0.0
    for place, weight in places:
        gap = first - place if place < first else place - last
        # a measure stands before its value ("a standard error of 0.066"), a noun after its count ("54 patients")
        focused = words[place].stem in question.focus
        close = (MEASURE_BONUS if place < first else COUNT_BONUS * (question.kind == "count")) if focused and gap <= 3 else 0.0
        stops = _CLAUSE.search(text, min(words[place].end, end), max(words[place].start, start)) is not None
        score += weight * (math.exp(-gap / REACH) * (0.5 if stops else 1.0) + close)
    return Span(start, end, score)


MEASURE_BONUS = 1.0
COUNT_BONUS = 0.8
_CLAUSE = re.compile(r"[,;:]\s|\b(?:and|but|while|whereas|versus|against)\b")


def names(text: str, question: Question) -> list[Span]:
    """Names of functions, packages and data sets ("the msm package"), best first."""
    words = tokens(text)
    places = _places(words, question.terms)
    spans = []
    for match in _INTRODUCED.finditer(text):
        name = match[1] or match[2]
        if not _said(name, question) and stem(name) not in STOP_STEMS and not name.istitle():
            spans.append(_scored(text, match.start(), match.end(), words, places, question))
    return sorted(spans, key=lambda s: (-s.score, s.start))


def asks_for_name(question: Question) -> bool:
    """Whether a function, package or the like is asked for by name."""
    return question.kind == "name" and bool(set(question.focus) & _NAMED_THINGS)


def quoted(text: str, span: Span, question: Question) -> str:
    """The span, with the noun that a number counts ("686 women", "1186 pregnant women")."""
    piece = text[span.start : span.end].strip()
    follow = _COUNTED.match(text, span.end)
    if question.kind in ("count", "amount") and follow and not any(t.stem in STOP_STEMS for t in tokens(follow[1])):
        return f"{piece} {follow[1]}"
    return piece


_COUNTED = re.compile(r"\s((?:[a-z-]+(?<!ed)\s)?(?:[a-z]{2,}s|women|men|people|children))\b")

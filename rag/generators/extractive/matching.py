"""Which answer fits a question: features of each candidate, weighed by a conditional logistic model with "none" as one choice."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from rag.encoders import text_encoder
from rag.generators.extractive import cells, naming
from rag.generators.extractive.evidence import COMMAND, Unit
from rag.generators.extractive.extraction import Extract, extract
from rag.generators.extractive.questions import NUMERIC, SUPERLATIVE, Kind, Question, Term
from rag.generators.extractive.rarity import rarity
from rag.generators.extractive.words import STOP_STEMS, abbreviates, holds, index, stems, tokens

WEIGHTS: Mapping[str, float] = {
    "own": 1.80,
    "near": 0.20,
    "passage": 2.52,
    "first": 0.70,
    "anchors": -0.14,
    "focus": 0.97,
    "together": 1.95,
    "mass": 1.72,
    "meaning": 0.44,
    "rare": 1.33,
    "crop": 0.72,
    "span": -0.67,
    "misfit": -1.02,
    "told": -1.13,
    "title": -0.88,
    "code": -0.82,
    "length": 0.59,
}
NONE = 6.58
"""Log-odds, per feature, of a candidate being the answer, and those of "none of them"; printed by ``tests/bench/fit_reader.py`` from
``tests/data/reader_calibration.json``, the demo questions and ``tests/bench/development``.

    own, near, passage   shares of the question's weighted words that the unit holds, that it and its neighbours hold, that all
                         evidence with its tag holds; ``mass`` is the weight of those near, so that long questions count more
    rare                 the share that the unit holds of them, each weighed by its rarity in English (``rarity``)
    first, crop          the unit is of the passage or crop that retrieval ranked first; of a caption
    anchors, focus       share of its names and numbers that are not near; the noun asked for is near
    together             how closely the answer and the question's words stand together; of a table, how well label and column fit
    meaning              cosine of question and sentence by the embedded encoder, scaled
    misfit, told         not quite of the kind asked for; a sentence in place of a value, name or person
    span, length         a piece of running text; words of the answer
    title, code          what the unit is: a caption's number and name; a program listing
"""

FEATURES = tuple(WEIGHTS)

ANSWERABLE: Mapping[str, float] = {
    "odds": 0.29,
    "nowhere": -3.29,
    "focus": 0.49,
    "unlike": -0.75,
    "read off": 0.74,
    "together": 0.29,
    "meaning": 0.82,
    "words": 3.81,
    "value": -0.53,
}
ANSWERABLE_BIAS = 0.03
"""Log-odds that the evidence answers the question at all, fitted apart, since a question may well be answered though two candidates
are equally good; printed by ``tests/bench/fit_reader.py``.

    odds      log-odds of all candidates together against none
    nowhere   share of the question's weighted words that no evidence holds
    read off  the best is a table row or a label
    unlike    the best is a sentence that holds no value of the kind asked for
    words     how much longer the question is than ``USUAL_WORDS``: of a long one, a smaller share stands anywhere
    value     a number or date is asked for: some number is always near
    others    of the best candidate (``OF_BEST``) or the most that any has (``OF_ANY``), see ``WEIGHTS``
"""

OF_BEST = ("nowhere", "focus", "unlike", "read off")
OF_ANY = ("together", "meaning")

Weighed = list[tuple[Term, float, bool]]
"""A question's terms with their weight in this prompt and whether the evidence holds them anywhere."""

PROSE = frozenset({"sentence", "fact", "caption"})
"""Units that are running text."""

SHORTLIST = 24
"""So many units, those that share the most words with the question, are looked into for an answer."""

CONTEXT_SHARE = 0.5
"""What a word counts for the shortlist when it stands near the unit and not in it."""

SELF_EVIDENT: frozenset[Kind] = frozenset({"year", "percent", "p_value", "interval", "who", "where"})
"""Kinds whose answers show what they are: "1986" need not be called a year."""

ENCODER = "all-MiniLM-L6-v2-int8"
COMPARED = 8
COMPARED_CHARS = 220
USUAL_COSINE = 0.4
COSINE_SPREAD = 0.2
"""So many candidates, and so much of each, are compared with the question by the encoder; another one counts as usual."""

MASS = 5.0
"""Weight of question words near a unit from which more say nothing more."""

GENERIC = frozenset(stems("value level number amount"))
"""Measures that need not be called so: "varg < 0.209" tells a value."""

STRICT: frozenset[Kind] = NUMERIC | {"who", "where", "definition"}
"""Kinds for which nothing but an answer of that kind will do."""

LEAST_NEWS = 2
"""Content words that an answer has to add to the question."""

_SAYING: frozenset[Kind] = frozenset({"open", "why", "name", "definition", "yes_no"})
_RELATING: frozenset[Kind] = frozenset({"who", "where", "year"})

_LABEL = re.compile(r"\A\W*(?:Fig(?:ure)?|Tab(?:le)?)s?\.? ?\d+(?:\.\d+)*[:.]?", re.I)
_CODE = re.compile(r"<- |^R?> |\w\(\w+ ?[=~]|, data ?=|\w\$\w")


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


@dataclass(frozen=True, slots=True)
class Match:
    """A unit with its candidate answer and its features (see ``WEIGHTS``)."""

    unit: Unit
    candidate: str
    features: Mapping[str, float]

    @property
    def logit(self) -> float:
        """Its log-odds against another candidate or none, up to a constant."""
        return sum(weight * self.features[name] for name, weight in WEIGHTS.items())


def best_matches(question: Question, evidence: Sequence[Indexed]) -> tuple[list[Match], float]:
    """The match whose answer is the most probable, with a sentence that is nearly as probable (``runner_up``), and the probability
    that the evidence answers at all (``ANSWERABLE``). Candidates that say the same add up."""
    found = matches(question, evidence)
    if not found:
        return [], 0.0
    best, signs = weighed(question, found)
    logit = sum(ANSWERABLE[name] * value for name, value in signs.items()) + ANSWERABLE_BIAS
    return [found[best], *runner_up(found, best)], 1 / (1 + math.exp(-logit))


def runner_up(found: Sequence[Match], best: int) -> list[Match]:
    """The next sentence, where the best answer is a sentence too and hardly more probable; a value or a name stands alone."""
    first = found[best]
    others = [
        match for match in found
        if match is not first and _is_told(match) and match.logit > first.logit - CLOSE
        and match.candidate not in first.candidate and first.candidate not in match.candidate
    ] if _is_told(first) else []  # fmt: skip
    return sorted(others, key=lambda match: -match.logit)[:1]


def _is_told(match: Match) -> bool:
    return match.unit.kind in ("sentence", "caption") and len(match.candidate.split()) >= TOLD_WORDS


CLOSE = 1.0
"""Log-odds between two sentences from which the second is not quoted."""
TOLD_WORDS = 6
"""Words from which an answer is a sentence more than a value or a name."""


def weighed(question: Question, found: Sequence[Match]) -> tuple[int, dict[str, float]]:
    """The place of the best of the matches, and what tells whether the evidence answers (see ``ANSWERABLE``)."""
    odds = [math.exp(match.logit) for match in found]
    support = [sum(odds[j] for j in backers) for backers in agreeing(found)]
    best = max(range(len(found)), key=lambda i: (support[i], -i))
    signs = {"odds": math.log(sum(odds)) - NONE, "words": _length(question)}
    signs |= {name: found[best].features[name] for name in OF_BEST}
    signs["value"] = float(question.kind in NUMERIC)
    return best, signs | {name: max(match.features[name] for match in found) for name in OF_ANY}


def _length(question: Question) -> float:
    """Logarithm of the question's length over the usual one; a short question is nothing worse than a usual one."""
    return math.log(min(MOST_WORDS, max(USUAL_WORDS, len(question.text.split()))) / USUAL_WORDS)


USUAL_WORDS = 12
MOST_WORDS = 25
"""Words of a question from which its length counts, and up to which."""


def agreeing(found: Sequence[Match]) -> list[list[int]]:
    """For each match its place and those of others that say the same (its letters and digits, or, of names, a part of them). The
    same value at two places of one drawing or table is a coincidence."""
    keys = [re.sub(r"[\W_]+", "", match.candidate.lower()) for match in found]

    def backs(j: int, i: int) -> bool:
        once = found[i].unit.kind in ("label", "row") and found[i].unit.tag == found[j].unit.tag
        return i == j or (not once and _agree(keys[i], keys[j]))

    return [[j for j in range(len(found)) if backs(j, i)] for i in range(len(found))]


def _agree(one: str, other: str) -> bool:
    if one == other:
        return True
    short, long = sorted((one, other), key=len)
    return len(short) >= MIN_NAME and len(long) <= MAX_NAME and short in long and not short[0].isdigit()


MIN_NAME = 6
MAX_NAME = 40
"""Letters of a name that another one may hold ("log-rank test", "exact two-sample logrank test"); longer ones are sentences."""


def matches(question: Question, evidence: Sequence[Indexed]) -> list[Match]:
    """The units that share the most with the question and hold an answer of its kind, in the prompt's order."""
    question = _informed(question, evidence)
    terms = _weighed(question, evidence)
    order = sorted(range(len(evidence)), key=lambda i: -_fit(terms, evidence[i]))
    shortlist = [evidence[i] for i in order[:SHORTLIST]]
    found = [match for item in shortlist if (match := _match(question, item, terms) or _told(question, item, terms))]
    found = [*_compared(question, found), *_superlatives(question, evidence, terms)]
    place = {id(item.unit): i for i, item in enumerate(evidence)}
    return sorted(found, key=lambda match: place[id(match.unit)])


def _told(question: Question, item: Indexed, terms: Weighed) -> Match | None:
    """The sentence as an answer where it holds no span of the kind asked for: a name in an unusual shape, "when" without a year, a
    value in words. What something is only a sentence that defines it tells."""
    if item.unit.kind not in PROSE or question.kind == "definition":
        return None
    match = _match(replace(question, kind="open"), item, terms)
    told = {"misfit": 1.0, "told": 1.0, "unlike": float(question.kind in STRICT)}
    return replace(match, features={**match.features, **told}) if match else None


def _compared(question: Question, found: Sequence[Match]) -> Iterator[Match]:
    """The matches, the first few that are running text with the cosine of the question and their text."""
    prose = [match for match in found if match.unit.kind in PROSE][:COMPARED]
    asked = encoded(question.text)
    cosines = {id(match): float(asked @ encoded(match.unit.text[:COMPARED_CHARS])) for match in prose}
    for match in found:
        cosine = cosines.get(id(match), USUAL_COSINE)
        yield replace(match, features={**match.features, "meaning": (cosine - USUAL_COSINE) / COSINE_SPREAD})


@lru_cache(maxsize=512)
def encoded(text: str) -> NDArray[np.float32]:
    """The text's unit vector, (384,); a sentence is asked for by every part of a question."""
    vectors = text_encoder(ENCODER).encode([text])
    return np.asarray(vectors[0], dtype=np.float32)


def _informed(question: Question, evidence: Sequence[Indexed]) -> Question:
    """The question with the evidence's short names of its words ("horTh" for "hormonal therapy"), and its rare words marked."""
    words = [w for w in tokens(question.text) if w.stem not in STOP_STEMS and not w.is_number]
    vocabulary = sorted({word for item in evidence for word in item.own if not word.endswith("*")})
    added: dict[str, set[str]] = {}
    for first, second in itertools.pairwise(words):
        short = {word for word in vocabulary if abbreviates(word, first.text.lower(), second.text.lower())}
        for word in (first, second):
            added.setdefault(word.stem, set()).update(short)
    rare = {word.stem: rarity(word.text.lower()) for word in words}
    terms = []
    for term in question.terms:
        known = [rare[word] for phrase in term.alternatives for word in phrase if word in rare]
        term = replace(term, rarity=max(known, default=0.0))
        names = {(s,) for phrase in term.alternatives for word in phrase for s in added.get(word, ())}
        terms.append(replace(term, alternatives=term.alternatives | names) if names else term)
    return replace(question, terms=tuple(terms))


def _superlatives(question: Question, evidence: Sequence[Indexed], terms: Weighed) -> Iterator[Match]:
    """For "which ... has the largest ...": the winning row of each table."""
    if not question.superlative or question.kind not in ("name", "who", "where", "open"):
        return
    tables: dict[str, list[Indexed]] = {}
    for item in evidence:
        if item.unit.cells:
            tables.setdefault(item.unit.tag, []).append(item)
    for rows in tables.values():
        won = cells.winner([row.unit.cells for row in rows], question)
        if won:
            # the column and the superlative were found, so the row needs to share nothing more with the question
            features = _features(question, rows[won[0]], terms, Extract(won[1], True, 1.0))
            yield Match(rows[won[0]].unit, won[1], {**features, "own": features["near"]})


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


def _match(question: Question, item: Indexed, terms: Weighed) -> Match | None:
    found = extract(item.unit, question)
    strict = question.kind in STRICT or (question.kind == "name" and bool(naming.asked(question)))
    if strict and not found.fits:
        return None
    if not strict and question.kind != "yes_no" and not item.unit.cells and _says_nothing(found.text, question):
        return None
    if (
        question.kind == "amount"
        and set(question.focus) - GENERIC
        and not any(holds((word,), item.near) for word in _measures(question))
    ):
        return None
    if question.kind in _RELATING and not _relates(question, item):
        return None
    if question.kind in _SAYING and (COMMAND.match(found.text) or found.text.rstrip().endswith("?")):
        return None
    if question.kind == "name" and question.superlative and not SUPERLATIVE.search(item.unit.text):
        return None
    return Match(item.unit, found.text, _features(question, item, terms, found))


def _measures(question: Question) -> set[str]:
    """The stems of what is measured, in all wordings."""
    focus = set(question.focus)
    named = [t for t in question.terms if any(focus & set(phrase) for phrase in t.alternatives)]
    return focus | {word for term in named for phrase in term.alternatives for word in phrase}


def _relates(question: Question, item: Indexed) -> bool:
    """Whether what is near holds the first plain word that the question turns on: who "assayed", where somebody was "born"."""
    words = (term for term in question.terms if not term.anchor and not term.category and term.weight >= 1.0)
    first = next(words, None)
    return first is None or first.in_(item.passage)


def _says_nothing(text: str, question: Question) -> bool:
    """Whether an answer only repeats what the question says."""
    known = {word for term in question.terms for phrase in term.alternatives for word in phrase}
    return len(set(stems(_LABEL.sub("", text))) - known - STOP_STEMS) < LEAST_NEWS


def _features(question: Question, item: Indexed, terms: Weighed, found: Extract) -> dict[str, float]:
    if found.fits and question.kind in SELF_EVIDENT:
        terms = [entry for entry in terms if not entry[0].category]
    # a label borrows the caption's words only for its number: as a name or a sentence it has to speak for itself
    lone = item.unit.kind == "label" and question.kind not in NUMERIC
    near, passage = (item.own, item.own) if lone else (item.near, item.passage)
    total = sum(weight for _, weight, _ in terms) or 1.0
    anchors = [term for term, _, _ in terms if term.anchor]
    return {
        "own": sum(w for t, w, _ in terms if t.in_(item.own)) / total,
        "near": sum(w for t, w, _ in terms if t.in_(near)) / total,
        "passage": sum(w for t, w, _ in terms if t.in_(passage)) / total,
        "first": float(item.unit.tag[1:] == "1" and item.unit.kind != "fact"),
        "nowhere": sum(w for _, w, anywhere in terms if not anywhere) / total,
        "anchors": sum(not t.in_(near) for t in anchors) / max(1, len(anchors)),
        "focus": float(holds(question.focus, near)),
        "together": found.together,
        "mass": min(1.0, sum(t.weight for t, _, _ in terms if t.in_(near)) / MASS),
        "meaning": 0.0,
        "rare": sum(t.rarity for t, _, _ in terms if t.in_(item.own)) / (sum(t.rarity for t, _, _ in terms) or 1.0),
        "crop": float(item.unit.kind == "caption"),
        "span": float(item.unit.kind in PROSE and found.fits and found.text != item.unit.text),
        "misfit": float(not found.fits),
        "told": 0.0,
        "unlike": 0.0,
        "read off": float(item.unit.kind in ("row", "label")),
        "title": float(bool(_LABEL.match(found.text))),
        "code": float(bool(_CODE.search(item.unit.text))),
        "length": min(2.0, len(found.text.split()) / 40),
    }

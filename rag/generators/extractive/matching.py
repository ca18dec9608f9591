"""Which unit of evidence fits a question: features of each, weighed by a logistic model."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from rag.generators.extractive import cells
from rag.generators.extractive.evidence import Unit
from rag.generators.extractive.extraction import extract
from rag.generators.extractive.questions import NUMERIC, Kind, Question, Term
from rag.generators.extractive.words import holds, index

WEIGHTS = {
    "bias": -3.55,
    "own": 2.79,
    "near": 0.54,
    "passage": 1.12,
    "first": 0.27,
    "nowhere": -1.7,
    "anchors": -0.78,
    "focus": 0.59,
    "mistyped": -1.5,
    "misfit": -0.69,
    "read off": 0.53,
    "code": -0.67,
}
"""Log-odds that a unit's candidate answers the question, per feature; fitted by logistic regression on questions about the
demo's documents with and without their answer in the evidence (``tests/data/reader_calibration.json`` keeps some of them). Only
"mistyped" was set by hand, to twice its fitted size: a sentence without a number is no answer to "how many".

    own, near, passage   shares of the question's weighted words that the unit holds, that it and its neighbours hold, that
                         all evidence with its tag holds
    first                the unit is of the passage or crop that retrieval ranked first
    nowhere              share of the question's weighted words that no evidence holds
    anchors              share of its names and numbers that are not near
    focus                the noun asked for ("how many women") is near
    mistyped, misfit     no number though one is asked for; no reason, name or definition though that is asked for
    read off, code       what the unit is: a table row or label; a program listing
"""

Weighed = list[tuple[Term, float, bool]]
"""A question's terms with their weight in this prompt and whether the evidence holds them anywhere."""

SHORTLIST = 24
"""So many units, those that share the most words with the question, are looked into for an answer."""

CONTEXT_SHARE = 0.5
"""What a word counts for the shortlist when it stands near the unit and not in it."""

SELF_EVIDENT: frozenset[Kind] = frozenset({"year", "percent", "p_value", "interval", "who"})
"""Kinds whose answers show what they are: "1986" need not be called a year."""

_CODE = re.compile(r"<- |^R?> |\w\(\w+ ?[=~]|, data ?=")


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
    def probability(self) -> float:
        """The chance that the candidate answers the question."""
        return 1 / (1 + math.exp(-sum(WEIGHTS[name] * value for name, value in self.features.items())))


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
            found = {"mistyped": 0.0, "misfit": 0.0, "own": match.features["near"]}
            yield Match(match.unit, won[1], {**match.features, **found})


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
        terms = [entry for entry in terms if not entry[0].category]
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
    }
    return Match(item.unit, candidate, features)

"""Reading: the unit of evidence that fits the question best, and the shortest answer in it, or none below the threshold."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from rag.generators.extractive import cells, spans
from rag.generators.extractive.evidence import Unit, question_of, units
from rag.generators.extractive.questions import NUMERIC, Question, parts
from rag.generators.extractive.words import Phrase, holds, stems, tokens
from rag.prompt import ABSTENTION
from rag.types import Prompt

THRESHOLD = 0.5
"""Below this probability a part of a question is not answered; calibrated (see ``WEIGHTS``)."""

WEIGHTS = {"bias": -3.0, "own": 3.0, "near": 3.0, "anchors": -2.0, "span": 1.0, "row": 0.0}
"""Logistic weights of the features, fitted on questions with and without their answer in the evidence."""

CONTEXT_SHARE = 0.5
CLEAR_MARGIN = 1.15


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to one part: its words, its tag and the estimated probability that the evidence answers it."""

    text: str
    tag: str
    score: float


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
    """How a unit fits a question: shares of the question's weighted words that it holds (``own``), or it and its
    surroundings (``near``), of its names and numbers that are nowhere near (``anchors``); the candidate answer."""

    unit: Unit
    own: float
    near: float
    anchors: float
    candidate: str
    exact: bool

    @property
    def rank(self) -> float:
        """What the best unit is chosen by."""
        fit = self.own + CONTEXT_SHARE * (self.near - self.own) - 0.3 * self.anchors
        return fit * (1.0 if self.exact else 0.7)

    @property
    def probability(self) -> float:
        """The chance that the unit answers the question."""
        features = {
            "bias": 1.0,
            "own": self.own,
            "near": self.near,
            "anchors": self.anchors,
            "span": float(self.exact),
            "row": float(self.unit.kind == "row"),
        }
        return 1 / (1 + math.exp(-sum(WEIGHTS[name] * value for name, value in features.items())))


def read(prompt: Prompt, threshold: float = THRESHOLD) -> Reading:
    """Answer the prompt's question from its tagged evidence, or abstain."""
    evidence = [Indexed(unit) for unit in units(prompt)]
    question = question_of(prompt)
    if not evidence or not question:
        return Reading(ABSTENTION, (), 0.0, True)
    answers = tuple(_answer(part, evidence) for part in parts(question))
    kept = tuple(answer for answer in answers if answer.score >= threshold)
    score = min(answer.score for answer in answers)
    if not kept:
        return Reading(ABSTENTION, (), score, True, answers)
    lines = dict.fromkeys(f"{answer.text.rstrip(' .;,')} [{answer.tag}]" for answer in kept)
    return Reading("; ".join(lines), tuple(dict.fromkeys(a.tag for a in kept)), score, False, answers)


class Indexed:
    """A unit with its words looked up once."""

    __slots__ = ("own", "near", "unit")

    def __init__(self, unit: Unit) -> None:
        self.unit = unit
        self.own = frozenset(stems(unit.text))
        self.near = self.own | frozenset(stems(unit.context))


def _answer(question: Question, evidence: Sequence[Indexed]) -> Answer:
    best = best_match(question, evidence)
    return Answer(best.candidate, best.unit.tag, best.probability)


def best_match(question: Question, evidence: Sequence[Indexed]) -> Match:
    """The unit that fits best; the earlier of two equals."""
    weights = _weights(question, evidence)
    order = sorted(range(len(evidence)), key=lambda i: -_overlap(question, evidence[i], weights))
    matches = [_match(question, evidence[i], weights) for i in sorted(order[:SHORTLIST])]
    return max(matches, key=lambda match: match.rank)


SHORTLIST = 24


def _overlap(question: Question, item: Indexed, weights: Sequence[float]) -> float:
    return sum(
        w * (1.0 if _in(t.alternatives, item.own) else CONTEXT_SHARE if _in(t.alternatives, item.near) else 0.0)
        for t, w in zip(question.terms, weights, strict=True)
    )


def _in(alternatives: frozenset[Phrase], words: frozenset[str]) -> bool:
    return any(holds(phrase, words) for phrase in alternatives)


def _weights(question: Question, evidence: Sequence[Indexed]) -> list[float]:
    """A term's weight times its rarity in this prompt; a word that the evidence does not hold keeps its full weight."""
    total = len(evidence)
    weights = []
    for term in question.terms:
        frequency = sum(_in(term.alternatives, item.own) for item in evidence)
        rarity = 1.0 if not frequency else min(1.0, 0.4 + math.log(1 + total / frequency) / 4)
        weights.append(term.weight * rarity)
    return weights


def _match(question: Question, item: Indexed, weights: Sequence[float]) -> Match:
    total = sum(weights) or 1.0
    own = near = missing = anchors = 0.0
    for term, weight in zip(question.terms, weights, strict=True):
        is_near = _in(term.alternatives, item.near)
        own += weight * _in(term.alternatives, item.own)
        near += weight * is_near
        anchors += term.anchor
        missing += term.anchor and not is_near
    candidate, exact = extract(item.unit, question)
    return Match(item.unit, own / total, near / total, missing / max(1.0, anchors), candidate, exact)


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
        return f"{_polarity(unit.text, question)}: {unit.text}", True
    if question.kind == "name":
        found = spans.names(unit.text, question)
        if found:
            return unit.text[found[0].start : found[0].end], True
    return unit.text, True


_NEGATIONS = frozenset("no not never none neither nor cannot without isn doesn don didn wasn aren can't unlike".split())


def _polarity(text: str, question: Question) -> str:
    said = any(t.text.lower() in _NEGATIONS for t in tokens(text))
    asked = any(t.text.lower() in _NEGATIONS for t in tokens(question.text))
    return "Yes" if said == asked else "No"

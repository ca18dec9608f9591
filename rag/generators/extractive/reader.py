"""Reading: the unit of evidence that fits the question best, and the shortest answer in it, or none below the threshold."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from rag.generators.extractive import spans
from rag.generators.extractive.evidence import Unit, question_of, units
from rag.generators.extractive.questions import NUMERIC, Question, Term, parts
from rag.generators.extractive.words import holds, stems, tokens
from rag.prompt import ABSTENTION
from rag.types import Prompt

THRESHOLD = 0.55
CONTEXT_SHARE = 0.5
CLEAR_MARGIN = 1.15


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to one part: its words, its tag and its score in 0..1."""

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


def read(prompt: Prompt, threshold: float = THRESHOLD) -> Reading:
    """Answer the prompt's question from its tagged evidence, or abstain."""
    evidence = [_Indexed(unit) for unit in units(prompt)]
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


class _Indexed:
    """A unit with its words looked up once."""

    __slots__ = ("context", "unit", "words")

    def __init__(self, unit: Unit) -> None:
        self.unit = unit
        self.words = frozenset(stems(unit.text))
        self.context = frozenset(stems(unit.context))


def _answer(question: Question, evidence: Sequence[_Indexed]) -> Answer:
    weights = _weights(question.terms, evidence)
    scored = [(_score(item, question, weights), -i, item) for i, item in enumerate(evidence)]
    best = max(scored, key=lambda entry: entry[:2])
    return _extract(best[2].unit, question, best[0])


def _weights(terms: Sequence[Term], evidence: Sequence[_Indexed]) -> list[float]:
    """A term's weight times its rarity in this prompt; a word that the evidence does not hold keeps its full weight."""
    total = len(evidence)
    weights = []
    for term in terms:
        frequency = sum(any(holds(a, item.words) for a in term.alternatives) for item in evidence)
        rarity = 1.0 if not frequency else min(1.0, 0.4 + math.log(1 + total / frequency) / 4)
        weights.append(term.weight * rarity)
    return weights


def _score(item: _Indexed, question: Question, weights: Sequence[float]) -> float:
    total = sum(weights) or 1.0
    covered = 0.0
    for term, weight in zip(question.terms, weights, strict=True):
        if any(holds(a, item.words) for a in term.alternatives):
            covered += weight
        elif any(holds(a, item.words | item.context) for a in term.alternatives):
            covered += weight * CONTEXT_SHARE
    score = covered / total
    if question.kind in NUMERIC and not _has_span(item, question):
        score *= 0.6
    return score


def _has_span(item: _Indexed, question: Question) -> bool:
    return bool(item.unit.cells) or bool(spans.candidates(item.unit.text, question))


def _extract(unit: Unit, question: Question, score: float) -> Answer:
    if unit.kind == "row":
        return Answer(_cell(unit, question), unit.tag, score)
    if question.kind in NUMERIC or question.kind == "who":
        found = spans.candidates(unit.text, question)
        if found and (len(found) == 1 or found[0].score > CLEAR_MARGIN * found[1].score):
            return Answer(spans.with_noun(unit.text, found[0]), unit.tag, score)
    if question.kind == "yes_no":
        return Answer(f"{_polarity(unit.text, question)}: {unit.text}", unit.tag, score)
    return Answer(unit.text, unit.tag, score)


_NEGATIONS = frozenset("no not never none neither nor cannot without isn doesn don didn wasn aren can't unlike rather fails".split())


def _polarity(text: str, question: Question) -> str:
    said = sum(t.text.lower() in _NEGATIONS for t in tokens(text))
    asked = sum(t.text.lower() in _NEGATIONS for t in tokens(question.text))
    return "Yes" if (said > 0) == (asked > 0) else "No"


def _cell(unit: Unit, question: Question) -> str:
    """The value under the column that the question names; the row's label where the question names the value."""
    label = frozenset(stems(unit.label))
    best, best_score = None, -1.0
    for cell in unit.cells:
        words = frozenset(stems(cell.column))
        gain = sum(
            t.weight
            for t in question.terms
            if any(holds(a, words | label) and not holds(a, label) for a in t.alternatives)
        )
        if gain > best_score:
            best, best_score = cell, gain
    values = Counter(stem for cell in unit.cells for stem in stems(cell.value))
    if question.kind == "name" and any(number in values for number in question.numbers):
        return unit.label
    return best.value if best else unit.text

"""Reading a prompt: each part of the question gets the best answer in the evidence, or none below the threshold."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from rag.generators.extractive import comparisons
from rag.generators.extractive.evidence import Unit, question_of, units
from rag.generators.extractive.matching import Indexed, best_matches, indexed
from rag.generators.extractive.questions import Answer, Question, parts
from rag.prompt import ABSTENTION
from rag.types import Prompt

THRESHOLD = 0.55
"""Below this probability that the evidence answers any part of it, a question is not answered. Chosen so that eight of ten
questions that the documents don't answer are not answered under cross-validation (``tests/bench/fit_reader.py`` prints the counts)."""

OTHER_PARTS = 0.6
"""Evidence that answers one part was not retrieved in vain: where it probably answers any, each part's threshold is so much lower."""


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
    evidence = indexed(units(prompt))
    question = question_of(prompt)
    if not evidence or not question:
        return Reading(ABSTENTION, (), 0.0, True)
    answers = comparisons.answers(question, lambda part: _answer(part, evidence, prompt)) or tuple(
        _answer(part, evidence, prompt) for part in parts(question)
    )
    kept = tuple(answer for answer in answers if answer.tag and answer.score >= threshold * OTHER_PARTS)
    score = min(answer.score for answer in answers)
    if not kept or any_answered([answer.score for answer in answers]) < threshold:
        return Reading(ABSTENTION, (), score, True, answers)
    quotes = [quote for answer in kept for quote in ((answer.text, answer.tag), *answer.also)]
    lines = dict.fromkeys(f"{text.rstrip(' .;,:')} [{tag}]" for text, tag in quotes)
    tags = dict.fromkeys(tag for _, held in quotes for tag in held.split(", "))
    return Reading("; ".join(lines), tuple(tags), score, False, answers)


def any_answered(scores: Sequence[float]) -> float:
    """The probability that the evidence answers at least one part, by each part's; the parts are taken as independent."""
    return 1 - math.prod(1 - score for score in scores)


def _answer(question: Question, evidence: Sequence[Indexed], prompt: Prompt) -> Answer:
    found, probability = best_matches(question, evidence)
    if not found:
        return Answer("", "", 0.0)
    quotes = [(match.candidate, _held_by(match.candidate, match.unit, prompt)) for match in found]
    return Answer(*quotes[0], probability, tuple(quotes[1:]))


def _held_by(answer: str, unit: Unit, prompt: Prompt) -> str:
    """The tag of a window that holds the answer. Windows of a page overlap and are joined to whole sentences before they are read,
    so that the one in a sentence's middle may hold half of an answer or none; an answer that no window holds whole cites all
    that the sentence touches."""
    said = " ".join(answer.split())
    windows = {s.tag: " ".join(s.text.split()) for s in prompt.segments if s.tag in unit.tags and s.kind == "text"}
    holders = [tag for tag, text in windows.items() if said in text]
    if len(windows) < 2 or unit.tag in holders or said not in " ".join(unit.text.split()):
        return unit.tag
    return holders[0] if holders else ", ".join(windows)

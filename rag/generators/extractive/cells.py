"""The answer in a table row: the value under the column that the question names, or the label of the value it names."""

from __future__ import annotations

from collections.abc import Sequence

from rag.generators.extractive.questions import NUMERIC, Question, Term
from rag.generators.extractive.rows import Cell
from rag.generators.extractive.words import holds, stems


def answer(cells: Sequence[Cell], question: Question) -> tuple[str, bool]:
    """The cell's value, and whether the question names its column and its row."""
    words = [frozenset(stems(cell.column)) for cell in cells]
    values = [frozenset(stems(cell.value)) for cell in cells]
    labels = frozenset().union(*values)
    shared = frozenset.intersection(*words) if len(words) > 1 else frozenset()
    row_named = any(_in(t, labels) for t in question.terms)
    best, best_gain = len(cells) - 1, 0.0
    for i, cell in enumerate(cells):
        if i == 0 or not cell.column or _asked(values[i], question):
            continue
        gain = sum(t.weight for t in question.terms if _in(t, words[i] - shared))
        if gain > best_gain:
            best, best_gain = i, gain
    if question.kind not in NUMERIC and question.numbers & labels:
        return cells[0].value, True
    return cells[best].value, row_named and best_gain > 0


def _in(term: Term, words: frozenset[str]) -> bool:
    return any(holds(phrase, words) for phrase in term.alternatives)


def _asked(value: frozenset[str], question: Question) -> bool:
    """Whether the question itself says the value: then it tells the row, and is no answer."""
    return bool(value) and any(_in(t, value) for t in question.terms if t.anchor or len(value) > 1)

"""The answer in a table row: the value under the column that the question names, or the label of the value it names."""

from __future__ import annotations

from collections.abc import Sequence

from rag.generators.extractive.questions import NUMERIC, Question
from rag.generators.extractive.rows import Cell
from rag.generators.extractive.words import index as index_words


def answer(cells: Sequence[Cell], question: Question) -> tuple[str, bool]:
    """The cell's value, and whether the question names its column and its row."""
    words = [index_words(cell.column) for cell in cells]
    values = [index_words(cell.value) for cell in cells]
    labels = frozenset().union(*values)
    shared = frozenset.intersection(*words) if len(words) > 1 else frozenset()
    row_named = any(t.in_(labels) for t in question.terms)
    best, best_gain = len(cells) - 1, 0.0
    for i, cell in enumerate(cells):
        if i == 0 or not cell.column or _asked(values[i], question):
            continue
        gain = sum(t.weight for t in question.terms if t.in_(words[i] - shared))
        if gain > best_gain:
            best, best_gain = i, gain
    value = cells[best].value
    if question.kind not in NUMERIC:
        if question.numbers & labels:
            return cells[0].value, True
        return value, row_named and best_gain > 0
    # a table of yes and no has two rows a variable: "how many" asks for the yes
    denied = any(not cell.column and cell.value.lower() in ("no", "missing") for cell in cells)
    return value, row_named and best_gain > 0 and any(c.isdigit() for c in value) and not denied


def _asked(value: frozenset[str], question: Question) -> bool:
    """Whether the question itself says the value: then it tells the row, and is no answer."""
    return bool(value) and any(t.in_(value) for t in question.terms if t.anchor or len(value) > 1)

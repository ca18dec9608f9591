"""The answer in a table row: the value under the column that the question names, or the label of the value it names."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from rag.generators.extractive.questions import NUMERIC, Question, Term
from rag.generators.extractive.rows import Cell
from rag.generators.extractive.words import index as index_words
from rag.generators.extractive.words import stems

BY_BEGINNING = 0.6
"""What a column counts that only begins as the question's word does ("concordant" for "concordance")."""


_COUNTED = re.compile(r"\((?:n ?= ?)?(\d[\d,]*)\)", re.I)
"""Of how many a column tells: "Vaginal delivery (677)"."""


@dataclass(frozen=True, slots=True)
class Found:
    """A cell's value. ``named``: the question names its column and its row, and the value is of the kind asked for.
    ``together`` (0 to 1): the share of the row's label and the column's header that the question says."""

    value: str
    named: bool
    together: float


def answer(cells: Sequence[Cell], question: Question) -> Found:
    """The cell that answers."""
    words = [index_words(cell.column) for cell in cells]
    values = [index_words(cell.value) for cell in cells]
    labels = frozenset().union(*values)
    shared = frozenset.intersection(*words) if len(words) > 1 else frozenset()
    row_named = any(t.in_(labels) for t in question.terms) or bool(cells[0].column)
    best, best_gain = len(cells) - 1, 0.0
    for i, cell in enumerate(cells):
        if i == 0 or not cell.column or _asked(values[i], question):
            continue
        gain = sum(t.weight * _fit(t, cell.column, words[i] - shared) for t in question.terms)
        if gain > best_gain:
            best, best_gain = i, gain
    value = cells[best].value
    counted = _COUNTED.search(cells[best].column)
    label_share = _said([cell.value for cell in cells if not _is_value(cell.value)] or [cells[0].value], question)
    if question.kind == "count" and counted and best_gain > 0 and not label_share:
        told = _said([_COUNTED.sub("", cells[best].column)], question)
        return Found(counted[1], True, told * best_gain / sum(t.weight for t in question.terms))
    if question.kind not in NUMERIC:
        if question.numbers & labels and any(c.isalpha() for c in cells[0].value):
            return Found(cells[0].value, True, label_share)
        named = row_named and best_gain > 0 and (question.kind != "name" or any(c.isalpha() for c in value))
    else:
        # a table of yes and no has two rows a variable: "how many" asks for the yes
        denied = any(not cell.column and cell.value.lower() in ("no", "missing") for cell in cells)
        named = row_named and best_gain > 0 and any(c.isdigit() for c in value) and not denied
    return Found(value, named, label_share * _said([cells[best].column], question))


def _fit(term: Term, column: str, words: frozenset[str]) -> float:
    if not term.in_(words):
        return 0.0
    return 1.0 if term.in_(frozenset(stems(column))) else BY_BEGINNING


def _said(texts: Sequence[str], question: Question) -> float:
    """The share of a label's words that the question says in one wording or another."""
    own = {word for term in question.terms for phrase in term.alternatives for word in phrase} | question.numbers
    words = [word for text in texts for word in stems(text)]
    return sum(word in own for word in words) / len(words) if words else 0.0


def _is_value(text: str) -> bool:
    return bool(re.match(r"[<>\u2264\u2265(]?\s?[-\u2212\u2013]?[\d.]", text)) or text in ("NA", "NaN", "Inf")


def winner(rows: Sequence[Sequence[Cell]], question: Question) -> tuple[int, str] | None:
    """Of the rows of one table the one with the largest (or least) value in the column that a superlative question names:
    its place in ``rows``, and "label (column: value)". None where no column is named or its values are no numbers."""
    named = {cell.column for cells in rows for cell in cells[1:] if cell.column}
    gains = {column: sum(t.weight for t in question.terms if t.in_(index_words(column))) for column in sorted(named)}
    column = max(gains, key=lambda name: gains[name], default="")
    if not column or not gains[column]:
        return None
    values = [
        (_number(cell.value), i, cell) for i, cells in enumerate(rows) for cell in cells[1:] if cell.column == column
    ]
    numbers = [(value, i, cell) for value, i, cell in values if value is not None]
    if len(numbers) < 2:
        return None
    pick = max if question.superlative == "most" else min
    _, i, cell = pick(numbers, key=lambda entry: entry[0])
    label = " ".join(c.value for c in rows[i][: 2 if rows[i][1].column == "" else 1])
    return i, f"{label} ({cell.column}: {cell.value})"


def _number(value: str) -> float | None:
    match = re.match(r"[<>\u2264\u2265]?\s?([-\u2212\u2013]?)((?:\d[\d,]*)?\.?\d+(?:e[-+]?\d+)?)", value)
    return float(match[2].replace(",", "")) * (-1 if match[1] else 1) if match else None


def _asked(value: frozenset[str], question: Question) -> bool:
    """Whether the question itself says the value: then it tells the row, and is no answer."""
    return bool(value) and any(t.in_(value) for t in question.terms if t.anchor or len(value) > 1)

"""How two answers differ, word by word.

What counts are words, numbers and signs of calculation; case, punctuation, white space and citation tags do not, so that an answer
that only cites another tag is the same answer.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from difflib import SequenceMatcher

from rag import prompt

MAX_EXACT_WORDS = 1_000
"""Longer answers are compared with difflib's heuristic for frequent words; exact matching takes quadratic time."""

_UNIT = re.compile(
    r"[-\u2212+\u00b1]?\d+(?:[.,:/]\d+)*"  # 1,384 and -0.5 are one unit each
    r"|[\u3040-\u30ff\u3400-\u9fff]"  # scripts without spaces are compared by character
    r"|[^\W\u3040-\u30ff\u3400-\u9fff]+(?:['\u2019.-][^\W\u3040-\u30ff\u3400-\u9fff]+)*"
    r"|[^\w\s]"
)
_COUNTED_PUNCTUATION = "%\u2030"

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Difference:
    """Two answers compared. ``removed`` are character spans of the first answer that the second lacks, ``added`` the other way
    round. ``share`` is 1 - 2M/T, where M counts the words that both have in the same order and T the words of both: 0 for the
    same words, 1 for none in common (difflib's ratio, turned round)."""

    removed: tuple[Span, ...]
    added: tuple[Span, ...]
    share: float

    @property
    def changed(self) -> bool:
        """Whether any word differs."""
        return bool(self.removed or self.added)


def difference(old: str, new: str) -> Difference:
    """What became of ``old`` in ``new``."""
    before, after = _units(old), _units(new)
    long = max(len(before), len(after)) > MAX_EXACT_WORDS
    matcher = SequenceMatcher(None, _words(old, before), _words(new, after), autojunk=long)
    removed: list[Span] = []
    added: list[Span] = []
    for kind, i, j, k, m in matcher.get_opcodes():
        if kind != "equal":
            removed.extend(_joined(before[i:j]))
            added.extend(_joined(after[k:m]))
    return Difference(tuple(removed), tuple(added), 1 - matcher.ratio())


def _joined(spans: list[Span]) -> list[Span]:
    """A run of words as one span."""
    return [(spans[0][0], spans[-1][1])] if spans else []


def _units(text: str) -> list[Span]:
    """Where the words are that count; tags are left out."""
    tags = [(c.start, c.end) for c in prompt.parse_citations(text, {})]
    units = (match.span() for match in _UNIT.finditer(text))
    return [unit for unit in units if _counts(text[slice(*unit)]) and not any(s <= unit[0] < e for s, e in tags)]


def _counts(unit: str) -> bool:
    return len(unit) > 1 or unit in _COUNTED_PUNCTUATION or not unicodedata.category(unit).startswith(("P", "C"))


def _words(text: str, spans: list[Span]) -> list[str]:
    return [unicodedata.normalize("NFKC", text[start:end]).casefold() for start, end in spans]

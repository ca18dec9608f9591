"""Where the words of a page's running text stand: the words as a reader found them, set against the folded text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

from rag.ingest.fold import fold
from rag.ingest.layout import contains_centre
from rag.types import BBox, Word

Found = tuple[str, BBox]
Span = tuple[int, int]

_TOKEN = re.compile(r"\S+")
_HYPHENS = ("-", "\u2010")
_LEAST_CHARS = 3
"""A shorter word that is out of place is not looked for: it would be found anywhere."""


def align(text: str, found: Sequence[Found], tables: Sequence[tuple[BBox, Span]] = ()) -> tuple[Word, ...]:
    """The words of ``text`` with their boxes.

    Args:
        text: the page's text, white space folded. found: words in reading order with their boxes. tables: the boxes of
        tables with the part of ``text`` that was read off each: there a head is repeated in every row, and a cell of two
        lines is read as one, so that order says little and a word is taken wherever it stands in the box.
    """
    folded = [(part, box) for word, box in found for part in fold(word).split()]
    words: list[Word] = []
    for box, (start, end) in tables:
        inside = [word for word in folded if contains_centre(box, word[1])]
        folded = [word for word in folded if not contains_centre(box, word[1])]
        words += _in_table(text, start, end, inside)
    in_tables = [span for _, span in tables]
    tokens = [m.span() for m in _TOKEN.finditer(text) if not any(a <= m.start() < b for a, b in in_tables)]
    words += _in_order(text, tokens, folded)
    return tuple(sorted(words, key=lambda word: (word.start, word.end)))


def _in_order(text: str, tokens: Sequence[Span], found: Sequence[Found]) -> Iterator[Word]:
    """Words that come in the order of the text. What is the same on both sides is set against each other; between, a
    token may be two halves of a broken word, or a line of a script without spaces."""
    matcher = SequenceMatcher(None, [word for word, _ in found], [text[a:b] for a, b in tokens])
    for same, i, i_end, j, j_end in matcher.get_opcodes():
        if same == "equal":
            for (_, box), (start, end) in zip(found[i:i_end], tokens[j:j_end], strict=True):
                yield Word(start, end, box)
        elif same == "replace":
            yield from _in_gap(text, tokens[j][0], tokens[j_end - 1][1], found[i:i_end])


def _in_gap(text: str, start: int, end: int, found: Sequence[Found]) -> Iterator[Word]:
    for word, box in found:
        while start < end and text[start] == " ":
            start += 1
        place, length = _place(text, start, end, word)
        if length:
            yield Word(place, place + length, box)
            start = place + length


def _place(text: str, start: int, end: int, word: str) -> Span:
    """Start and length of the word at or after ``start``; the length is 0 where it is not to be found."""
    if text.startswith(word, start, end):
        return start, len(word)
    whole = word[:-1] if word.endswith(_HYPHENS) else ""
    if whole and text.startswith(whole, start, end):
        return start, len(whole)
    later = text.find(f" {word} ", start, end) if len(word) >= _LEAST_CHARS else -1
    return (later + 1, len(word)) if later >= 0 else (start, 0)


def _in_table(text: str, start: int, end: int, found: Sequence[Found]) -> Iterator[Word]:
    """Tokens from ``start`` to ``end``, each with the next word that reads so, or the last one again."""
    places: dict[str, list[BBox]] = {}
    for word, box in found:
        places.setdefault(word, []).append(box)
    for token in _TOKEN.finditer(text, start, end):
        # "head: cell": the colon is the reader's, not the page's.
        for word in (token[0], token[0].removesuffix(":")):
            if word in places:
                boxes = places[word]
                yield Word(token.start(), token.start() + len(word), boxes.pop(0) if len(boxes) > 1 else boxes[0])
                break

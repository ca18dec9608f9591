"""The sentence that states a triple: where in the chunk's text it stands, and which of its words are subject and object."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from rag.generators.extractive.evidence import sentence_spans
from rag.types import Chunk, Triple

Span = tuple[int, int]

MAX_WIDENED = 300

_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class Statement:
    """``start`` and ``end`` bound the sentence; ``subject`` and ``object`` are runs inside it. All are offsets in the chunk's
    text. ``verbatim``: both names stand there as they are; else the sentence is the one that shares most of their words."""

    start: int
    end: int
    subject: tuple[Span, ...]
    object: tuple[Span, ...]
    verbatim: bool


def stated(triple: Triple, text: str) -> Statement | None:
    """The sentence of ``text`` (a chunk's) that states ``triple``, or None where no sentence shares a word with it.

    A sentence with both names comes first, then two sentences in a row that hold both (a parser may see one where a full
    stop is none), then the one with most of the triple's words; the more of the relation's words, the better.
    """
    sentences = list(sentence_spans(text))
    pairs = [(one[0], other[1]) for one, other in pairwise(sentences)]
    names = [_places(name, text) for name in (triple.subject, triple.object) if name.strip()]
    for spans in (sentences, pairs):
        whole = [span for span in spans if all(any(_inside(place, span) for place in places) for places in names)]
        if whole and names:
            return _statement(triple, text, max(whole, key=lambda span: _shared(triple.relation, text, span)), True)
    told = f"{triple.subject} {triple.relation} {triple.object}"
    best = max(sentences, key=lambda span: _shared(told, text, span), default=None)
    if best is None or not _shared(told, text, best):
        return None
    return _statement(triple, text, best, False)


def widened(found: Statement, chunk: Chunk, page_text: str) -> Span:
    """Offsets in ``page_text`` of the sentence, made whole where the chunk's edge cuts it; at most
    ``MAX_WIDENED`` characters of the page on either side are looked at.

    Where the page's text does not hold the chunk as it is, the sentence's offsets in the chunk's text, moved by its start."""
    start, end = chunk.start + found.start, chunk.start + found.end
    if page_text[chunk.start : chunk.start + len(chunk.text)] != chunk.text:
        return start, end
    first, last = max(0, start - MAX_WIDENED), min(len(page_text), end + MAX_WIDENED)
    around = [(first + a, first + b) for a, b in sentence_spans(page_text[first:last])]
    touched = [(a, b) for a, b in around if a < end and start < b]
    if found.start == 0:
        start = min([start, *(a for a, _ in touched)])
    if found.end == len(chunk.text):
        end = max([end, *(b for _, b in touched)])
    return start, end


def _statement(triple: Triple, text: str, span: Span, verbatim: bool) -> Statement:
    subject, object_ = (tuple(_marks(name, text, span)) for name in (triple.subject, triple.object))
    return Statement(*span, subject, object_, verbatim)


def _marks(name: str, text: str, span: Span) -> Iterator[Span]:
    """Where a name stands in the sentence, or its words where it does not as a whole."""
    whole = [place for place in _places(name, text) if _inside(place, span)]
    if whole:
        yield from whole
        return
    words = _words(name)
    for word in _WORD.finditer(text, *span):
        if word[0].casefold() in words:
            yield word.span()


def _places(name: str, text: str) -> list[Span]:
    """Where a name stands as whole words, whatever its case and white space."""
    if not name.strip():
        return []
    pattern = r"\s+".join(re.escape(part) for part in name.split())
    return [found.span() for found in re.finditer(rf"(?<!\w){pattern}(?!\w)", text, re.IGNORECASE)]


def _inside(place: Span, span: Span) -> bool:
    return span[0] <= place[0] and place[1] <= span[1]


def _words(text: str) -> frozenset[str]:
    return frozenset(word.casefold() for word in _WORD.findall(text))


def _shared(told: str, text: str, span: Span) -> int:
    """Distinct words of ``told`` that stand in the sentence."""
    return len(_words(told) & _words(text[span[0] : span[1]]))

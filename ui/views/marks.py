"""Which words of a passage to mark: those of the question, and those that the answer took from it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rag.generators.extractive.words import STOP, Token, tokens
from rag.types import Trace
from ui.views.markup import clean, esc

MIN_RUN = 3
"""A run of this many words that answer and passage share counts as cited; shorter ones only if they hold a number or
a name."""

_SENTENCE_ENDS = (". ", "? ", "! ", "\n")


def question_stems(question: str) -> frozenset[str]:
    """The stems of the question's content words."""
    return frozenset(
        t.stem for t in tokens(question) if t.text.casefold() not in STOP and (len(t.text) > 1 or t.text.isdigit())
    )


def cited_sentences(trace: Trace, item_id: str) -> tuple[str, ...]:
    """The pieces of the answer that cite ``item_id``: from the previous sentence's end to the tag."""
    if trace.generation is None:
        return ()
    text = trace.generation.text
    pieces = []
    for citation in trace.citations:
        if citation.item_id == item_id:
            before = text[: citation.start].rstrip("[ ,;")
            start = max(
                (
                    before.rfind(end, 0, max(0, len(before) - 1)) + len(end)
                    for end in _SENTENCE_ENDS
                    if end in before[:-1]
                ),
                default=0,
            )
            pieces.append(before[start:])
    return tuple(pieces)


def cited_spans(passage: str, sentences: Iterable[str]) -> list[tuple[int, int]]:
    """Offsets in ``passage`` of the runs of words that it shares with ``sentences``; longest first claim their
    words."""
    words = tokens(passage)
    spans = []
    for sentence in sentences:
        spoken = tokens(sentence)
        for start, length in _shared_runs([w.text.casefold() for w in words], [w.text.casefold() for w in spoken]):
            run = words[start : start + length]
            if length >= MIN_RUN or length == len(spoken) or any(w.text[0].isdigit() for w in run):
                spans.append((run[0].start, run[-1].end))
    return _merged(spans)


def _shared_runs(words: list[str], spoken: list[str]) -> Iterator[tuple[int, int]]:
    """Maximal common runs as (start in ``words``, length) that hold a word that means something."""
    longest = [0] * (len(spoken) + 1)
    ends: list[tuple[int, int]] = []
    for i, word in enumerate(words):
        row = [0] * (len(spoken) + 1)
        for j, other in enumerate(spoken):
            if word == other:
                row[j + 1] = longest[j] + 1
        ends.append((max(row), i))
        longest = row
    for position, (length, i) in enumerate(ends):
        grows = position + 1 < len(ends) and ends[position + 1][0] == length + 1
        run = words[i - length + 1 : i + 1]
        if length and not grows and any(w not in STOP for w in run):
            yield i - length + 1, length


def _merged(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def marked(passage: str, stems: frozenset[str], cited: list[tuple[int, int]], branch: str) -> str:
    """The passage as HTML with both marks; a question word inside a cited run keeps both."""
    text = clean(passage)
    hits = [t for t in tokens(passage) if t.stem in stems]
    pieces, position = [], 0
    for start, end in cited:
        pieces.append(_with_hits(text, position, start, hits))
        inside = _with_hits(text, start, end, hits)
        pieces.append(f'<mark class="fb-cited {branch}" title="words the answer took">{inside}</mark>')
        position = end
    pieces.append(_with_hits(text, position, len(text), hits))
    return "".join(pieces)


def _with_hits(text: str, start: int, end: int, hits: list[Token]) -> str:
    pieces, position = [], start
    for hit in hits:
        if start <= hit.start and hit.end <= end:
            pieces.append(esc(text[position : hit.start]))
            pieces.append(f'<mark class="fb-hit">{esc(text[hit.start : hit.end])}</mark>')
            position = hit.end
    pieces.append(esc(text[position:end]))
    return "".join(pieces)

"""Which words of a passage to mark: those of the question, and those that the answer took from it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from rag.generators.extractive.words import STOP, Token, tokens
from rag.types import BBox, Trace, Word
from ui.views.markup import clean, esc

MIN_RUN = 3
"""A run of this many words that answer and passage share counts as cited; shorter ones only if they hold a number or
a name."""

MAX_GAP = 2.5
"""Words of one line stand at most this many line heights apart; a wider gap is between two columns."""

_BETWEEN_TAGS = "[] ,;"
_SENTENCE_ENDS = (". ", "? ", "! ", "\n")


def question_stems(question: str) -> frozenset[str]:
    """The stems of the question's content words."""
    return frozenset(
        t.stem for t in tokens(question) if t.text.casefold() not in STOP and (len(t.text) > 1 or t.text.isdigit())
    )


def cited_sentences(trace: Trace, item_id: str) -> tuple[str, ...]:
    """The pieces of the answer that cite ``item_id``: from the end of the sentence or of the citation before, to the tag."""
    if trace.generation is None:
        return ()
    text = trace.generation.text
    pieces = []
    for number, citation in enumerate(trace.citations):
        if citation.item_id == item_id:
            first = number
            # Tags in a row share what stands before the first of them.
            while first and not text[trace.citations[first - 1].end : trace.citations[first].start].strip(
                _BETWEEN_TAGS
            ):
                first -= 1
            end = trace.citations[first].start
            begun = trace.citations[first - 1].end if first else 0
            pieces.append(_last_sentence(text[begun:end].strip(_BETWEEN_TAGS)))
    return tuple(piece for piece in pieces if piece)


def _last_sentence(text: str) -> str:
    ends = [text.rfind(end, 0, max(0, len(text) - 1)) + len(end) for end in _SENTENCE_ENDS if end in text[:-1]]
    return text[max(ends, default=0) :]


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
    return merged(spans)


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


def merged(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Spans in order, those that touch each other as one."""
    joined: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return joined


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


# --- on the page -----------------------------------------------------------------------------------------------------


def words_in(words: Iterable[Word], spans: Iterable[tuple[int, int]]) -> list[Word]:
    """The words that share a character with one of the spans, in their order."""
    wanted = list(spans)
    return [word for word in words if any(word.start < end and start < word.end for start, end in wanted)]


def line_boxes(words: Sequence[Word], page: Sequence[Word] = ()) -> tuple[BBox, ...]:
    """One box for each line of ``words`` (in reading order), in points like theirs. Lines run across the unrotated page, or
    up and down it where most words of ``page`` do, as on a page that is shown turned."""
    shapes = [word.bbox for word in page or words]
    along = int(sum(b[3] - b[1] for b in shapes) > sum(b[2] - b[0] for b in shapes))
    lines: list[BBox] = []
    for word in words:
        if lines and _on_one_line(lines[-1], word.bbox, along):
            (x0, y0, x1, y1), (a0, b0, a1, b1) = lines[-1], word.bbox
            lines[-1] = (min(x0, a0), min(y0, b0), max(x1, a1), max(y1, b1))
        else:
            lines.append(word.bbox)
    return tuple(lines)


def turn(words: Sequence[Word], text: str) -> int:
    """By how many degrees, clockwise, the unrotated page has to be turned for its text to run to the right: 0, 90, 180 or 270.
    Told by the words of Latin script alone, since other scripts run downwards or to the left as they should."""
    votes = {0: 0, 90: 0, 180: 0, 270: 0}
    for word, following in pairwise(words):
        if not text[word.start : word.end].isascii():
            continue
        (ax0, ay0, ax1, ay1), (bx0, by0, bx1, by1) = word.bbox, following.bbox
        beside = min(ay1, by1) - max(ay0, by0) > min(ay1 - ay0, by1 - by0) / 2
        stacked = min(ax1, bx1) - max(ax0, bx0) > min(ax1 - ax0, bx1 - bx0) / 2
        follows = {
            0: beside and bx0 >= ax1,
            90: stacked and by1 <= ay0,
            180: beside and bx1 <= ax0,
            270: stacked and by0 >= ay1,
        }
        for degrees, holds in follows.items():
            votes[degrees] += holds
    return max(votes, key=lambda degrees: votes[degrees])


def _on_one_line(line: BBox, word: BBox, along: int) -> bool:
    """Whether a word goes on with a line: half of its height beside it, and close enough."""
    across = 1 - along
    height = min(line[across + 2] - line[across], word[across + 2] - word[across])
    shared = min(line[across + 2], word[across + 2]) - max(line[across], word[across])
    gap = max(line[along], word[along]) - min(line[along + 2], word[along + 2])
    return shared > height / 2 and gap <= MAX_GAP * height

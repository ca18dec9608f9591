"""The prompt's tagged evidence, cut into the units an answer can be taken from: sentences, facts, table rows, labels."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from rag.types import Prompt, Segment

UnitKind = Literal["sentence", "fact", "caption", "row", "label"]

_HEADER = re.compile(r"\A\s*\[[A-Za-z]+\d+\]\s*(?:\(([^)\n]*)\))?[ \t]*\n?")
_FACT_SOURCE = re.compile(r"\s*\(([^()]*)\)\s*\Z")
_READ_OFF = re.compile(r"^(?:Read off|Reads|No caption; it reads):\s*", re.M)
_CAPTION = re.compile(r"^Caption:\s*", re.M)
_ABBREVIATION = re.compile(r"(?:\b(?:e\.g|i\.e|et al|vs|cf|etc|figs?|tabs?|eqs?|sec|no|nos|dr|prof|st|approx|resp|ca|vol|pp|p|f)|\b[A-Z])\.$", re.I)
_BREAK = re.compile(r"(?<=[.!?])[\"')\]\u201d]?\s+(?=[\"'(\[\u201c]?[A-Z0-9\u2022])|\s+(?=\u2022)|\s+(?=R?> [a-zA-Z])")
_CELL = re.compile(r"\A\s*(.*?)\s*[:=]\s*(\S.*?)\s*\Z", re.S)
_TAG_LOOKALIKE = re.compile(r"\[(?=[A-Z]\d{1,3}\s*[\],;])")
MAX_SENTENCE = 420
"""Longer "sentences" are program listings or output; they are cut at the next blank after so many characters."""
MIN_OVERLAP = 20
MAX_UNITS = 600


@dataclass(frozen=True, slots=True)
class Cell:
    """A table cell under its column header."""

    column: str
    value: str


@dataclass(frozen=True, slots=True)
class Unit:
    """The smallest run of evidence that can answer. ``context`` are words around it that help to recognise it (the
    sentence before, the caption, the source) but can't be quoted."""

    tag: str
    kind: UnitKind
    text: str
    context: str = ""
    cells: tuple[Cell, ...] = ()
    label: str = ""
    order: int = 0


@dataclass(slots=True)
class _Passage:
    """Text windows that overlap, joined: ``starts`` are (offset, tag) of each window."""

    source: str
    text: str
    starts: list[tuple[int, str]] = field(default_factory=list)

    def tag_at(self, offset: int) -> str:
        return next(tag for start, tag in reversed(self.starts) if start <= offset)


def question_of(prompt: Prompt) -> str:
    """The question segment's text, without its heading."""
    text = " ".join(segment.text for segment in prompt.segments if segment.kind == "question")
    return re.sub(r"\A\s*Question:\s*", "", text).strip()


def units(prompt: Prompt) -> tuple[Unit, ...]:
    """Every unit of the prompt's evidence, in the prompt's order, at most ``MAX_UNITS``."""
    found: list[Unit] = []
    for passage in _passages([s for s in prompt.segments if s.kind == "text" and s.tag]):
        found.extend(_sentences(passage))
    for segment in prompt.segments:
        if segment.tag and segment.kind == "graph":
            found.append(_fact(segment))
        elif segment.tag and segment.kind == "captions":
            found.extend(_crop_units(segment))
    return tuple(found[:MAX_UNITS])


def _passages(segments: Sequence[Segment]) -> list[_Passage]:
    passages: list[_Passage] = []
    # Neighbouring windows of a page share their edge; in page order they join to whole sentences.
    for segment in sorted(segments, key=lambda s: s.item_id):
        header = _HEADER.match(segment.text)
        body = " ".join(_plain(segment.text[header.end() if header else 0 :]).split())
        source = (header[1] or "") if header else ""
        last = passages[-1] if passages else None
        overlap = _overlap(last.text, body) if last and last.source == source else 0
        if last and overlap:
            last.starts.append((len(last.text) - overlap, segment.tag))
            last.text += body[overlap:]
        else:
            passages.append(_Passage(source, body, [(0, segment.tag)]))
    order = {segment.tag: i for i, segment in enumerate(segments)}
    return sorted(passages, key=lambda p: min(order[tag] for _, tag in p.starts))


def _overlap(left: str, right: str) -> int:
    head = right[:MIN_OVERLAP]
    at = left.rfind(head, max(0, len(left) - 200)) if len(head) == MIN_OVERLAP else -1
    return len(left) - at if at >= 0 and right.startswith(left[at:]) else 0


def _plain(text: str) -> str:
    """Evidence must not forge a citation in the answer, so what looks like a tag in it becomes a round bracket."""
    return _TAG_LOOKALIKE.sub("(", text)


def _sentences(passage: _Passage) -> Iterator[Unit]:
    spans = list(sentence_spans(passage.text))
    for i, (start, end) in enumerate(spans):
        text = passage.text[start:end]
        if i == 0 and text[:1].islower() and " " in text:
            text = text[text.index(" ") + 1 :]  # the window's edge cuts a word
        before = passage.text[spans[i - 1][0] : spans[i - 1][1]] if i else ""
        yield Unit(passage.tag_at((start + end) // 2), "sentence", text, f"{before} {_words(passage.source)}", order=i)


def sentence_spans(text: str) -> Iterator[tuple[int, int]]:
    """Offsets of the sentences of a text on one line."""
    start = 0
    for gap in _BREAK.finditer(text):
        if _ABBREVIATION.search(text[start : gap.start()]):
            continue
        yield from _bounded(text, start, gap.start())
        start = gap.end()
    yield from _bounded(text, start, len(text))


def _bounded(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    while end - start > MAX_SENTENCE:
        blank = text.find(" ", start + MAX_SENTENCE, end)
        if blank < 0:
            break
        yield start, blank
        start = blank + 1
    if text[start:end].strip():
        yield start, end


def _words(source: str) -> str:
    """A source such as "survival-compete, p. 6" as words; the page number says nothing."""
    return re.sub(r",?\s*p\.\s*\d+", "", source).replace("-", " ").replace("_", " ")


def _fact(segment: Segment) -> Unit:
    header = _HEADER.match(segment.text)
    body = _plain(segment.text[header.end() if header else 0 :]).strip()
    source = _FACT_SOURCE.search(body)
    body = body[: source.start()] if source else body
    text = " ".join(part.strip() for part in body.split(" | "))
    return Unit(segment.tag, "fact", " ".join(text.split()), _words(source[1]) if source else "")


def _crop_units(segment: Segment) -> Iterator[Unit]:
    header = _HEADER.match(segment.text)
    body = _plain(segment.text[header.end() if header else 0 :])
    source = _words((header[1] or "")) if header else ""
    read_off = _READ_OFF.search(body)
    above = body[: read_off.start()] if read_off else body
    caption = " ".join(_CAPTION.sub("", above).split())
    for start, end in sentence_spans(caption):
        yield Unit(segment.tag, "caption", caption[start:end], f"{source} {caption}")
    if read_off:
        yield from _read_off(segment.tag, body[read_off.end() :], f"{caption} {source}")


def _read_off(tag: str, text: str, context: str) -> Iterator[Unit]:
    lines = [" ".join(line.split()) for line in text.splitlines() if line.strip()]
    columns: tuple[str, ...] = ()
    section = ""
    for i, line in enumerate(lines):
        parts = [part.strip() for part in line.strip("| ").split("|")]
        if len(parts) == 1:
            section = line
            near = " ".join(lines[max(0, i - 1) : i] + lines[i + 1 : i + 2])
            yield Unit(tag, "label", line, f"{context} {near}", order=i)
            continue
        cells = [_CELL.match(part) for part in parts[1:]]
        if any(cells):
            named = tuple(Cell(m[1], m[2]) if m else Cell("", part) for m, part in zip(cells, parts[1:], strict=True))
            first = _CELL.match(parts[0])
            label = first[2] if first else parts[0]
            yield Unit(tag, "row", line, f"{context} {section}", named, label, i)
        elif not columns or len(parts) != len(columns):
            columns = tuple(parts)  # a header row of a plain grid
            yield Unit(tag, "label", line, context, order=i)
        else:
            named = tuple(Cell(c, v) for c, v in zip(columns[1:], parts[1:], strict=True))
            yield Unit(tag, "row", line, f"{context} {section}", named, parts[0], i)

"""The prompt's tagged evidence, cut into the units an answer can be taken from: sentences, facts, table rows, labels."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from rag.generators.extractive.rows import Cell, labels, row_of, unflatten
from rag.ingest.chunk import WINDOW
from rag.types import Prompt, Segment

UnitKind = Literal["sentence", "fact", "caption", "row", "label"]

_HEADER = re.compile(r"\A\s*\[[A-Za-z]+\d+\]\s*(?:\(([^)\n]*)\))?[ \t]*\n?")
_FACT_SOURCE = re.compile(r"\s*\(([^()]*)\)\s*\Z")
_READ_OFF = re.compile(r"^(?:Read off|No caption; it reads):[ \t]*", re.M)
_CAPTION = re.compile(r"^Caption(?: \(by [^)\n]*\))?:[ \t]*", re.M)
_PAGE = re.compile(r",?\s*p\.\s*\d+")
_ABBREVIATION = re.compile(
    r"(?:\b(?:e\.g|i\.e|et al|vs|cf|etc|figs?|tabs?|eqs?|sec|no|nos|dr|prof|st|approx|resp|ca|vol|pp|p|f)|(?-i:\b[A-Z]))\.$",
    re.I,
)
# Words that open a sentence below a heading.
_OPENERS = "The|A|An|In|We|This|These|For|As|To|If|Here|It|One|There|Note|Our|Since|Before|Because|Let|Assume|Suppose|Consider|Start|When"
_BREAK = re.compile(
    r"(?<=[.!?])[\"')\]\u201d]?\s+(?=[\"'(\[\u201c\u2018]?[A-Z0-9\u2022])"
    r"|\s+(?=\u2022)|\s+(?=R?> ?[a-zA-Z#(])|\s+(?=(?:Figure|Table|Chapter|CHAPTER) \d+(?:\.\d+)?:? [A-Z])"
    r"|(?<!Figure)(?<!Table)(?<!Chapter)(?<!Section)\s+(?=\d+(?:\.\d+)+ [A-Z][a-z])"
    rf"|\s+(?=\d{{1,2}} (?!(?:{_OPENERS})\b)[A-Z][a-z]+(?: [A-Za-z-]+){{0,5}} (?:{_OPENERS})\b)"
)
# "11.3.2 Breast Cancer Survival Before fitting ...": a heading runs into the sentence below it.
_HEADING = re.compile(
    rf"\A(?:Chapter |CHAPTER )?\d+(?:\.\d+)*(?: (?!(?:{_OPENERS})\b)(?:[A-Z][\w'-]*:?|of|and|in|for|the|a|to|with|via|&))+ "
    rf"(?=(?:{_OPENERS})\b)"
)
COMMAND = re.compile(r"R?> ")
_PROSE_AFTER = re.compile(r"(?<=\))\s+(?=[A-Z][a-z]*,? [a-z]{2,},? [a-z])")
# Document text must not forge a citation in the answer.
_TAG_LOOKALIKE = re.compile(r"\[(?=[A-Z]\d{1,3}\s*[\],;])")
MAX_SENTENCE = 420
"""Longer "sentences" are program listings or output; they are cut at the next blank after so many characters."""
MIN_OVERLAP = 20
MAX_UNITS = 600
TITLE = 3
"""So many sentences over a table's rows may be its caption."""


@dataclass(frozen=True, slots=True)
class Unit:
    """The smallest run of evidence that can answer. ``tag`` is the window of its middle, ``tags`` all windows it touches.
    ``context`` are words around it that help to recognise it (the sentences next to it, the caption, the source) but can't be
    quoted; ``before`` and ``after`` are the sentences next to it. A table row has ``cells``."""

    tag: str
    kind: UnitKind
    text: str
    context: str = ""
    before: str = ""
    after: str = ""
    cells: tuple[Cell, ...] = ()
    tags: tuple[str, ...] = ()


@dataclass(slots=True)
class _Passage:
    """Text windows that overlap, joined: ``windows`` are (start, end, tag) of each."""

    source: str
    text: str
    windows: list[tuple[int, int, str]] = field(default_factory=list)

    def tag_at(self, offset: int) -> str:
        return next(tag for start, _, tag in reversed(self.windows) if start <= offset)

    def tags_in(self, start: int, end: int) -> tuple[str, ...]:
        return tuple(tag for low, high, tag in self.windows if low < end and start < high)


def question_of(prompt: Prompt) -> str:
    """The question segment's text, without its heading."""
    text = " ".join(segment.text for segment in prompt.segments if segment.kind == "question")
    return re.sub(r"\A\s*Question:\s*", "", text).strip()


def units(prompt: Prompt) -> tuple[Unit, ...]:
    """Every unit of the prompt's evidence, in the prompt's order, at most ``MAX_UNITS``."""
    found: list[Unit] = []
    for passage in _passages([s for s in prompt.segments if s.is_passage]):
        found.extend(_sentences(passage))
    for segment in prompt.segments:
        if segment.tag and segment.kind == "graph" and not segment.is_passage:
            found.append(_fact(segment))
        elif segment.tag and segment.kind == "captions":
            found.extend(_crop_units(segment))
    return tuple(unit for unit in found if any(c.isalpha() for c in unit.text))[:MAX_UNITS]


# --- text ------------------------------------------------------------------------------------------------------------


def _passages(segments: Sequence[Segment]) -> list[_Passage]:
    passages: list[_Passage] = []
    cut = {segment.tag: len(_opened(segment)[1].strip()) >= WINDOW for segment in segments}
    # Neighbouring windows of a page share their edge; in page order they join to whole sentences.
    for segment in sorted(segments, key=lambda s: s.item_id):
        source, body = _opened(segment)
        body = " ".join(body.split())
        last = passages[-1] if passages else None
        overlap = _overlap(last.text, body) if last and last.source == source else 0
        if last and overlap:
            start = len(last.text) - overlap
            last.windows.append((start, start + len(body), segment.tag))
            last.text += body[overlap:]
        elif body:
            passages.append(_Passage(source, body, [(0, len(body), segment.tag)]))
    for passage in passages:
        if cut[passage.windows[-1][2]] and passage.text[-1:].isalnum():
            passage.text = passage.text.rpartition(" ")[0]  # the window's edge cuts a word or number
    order = {segment.tag: i for i, segment in enumerate(segments)}
    return sorted(passages, key=lambda p: min(order[tag] for *_, tag in p.windows))


def _opened(segment: Segment) -> tuple[str, str]:
    """A tagged segment's source and body."""
    header = _HEADER.match(segment.text)
    body = _TAG_LOOKALIKE.sub("(", segment.text[header.end() if header else 0 :])
    return ((header[1] or "") if header else "", body)


def _overlap(left: str, right: str) -> int:
    head = right[:MIN_OVERLAP]
    at = left.rfind(head, max(0, len(left) - 200)) if len(head) == MIN_OVERLAP else -1
    return len(left) - at if at >= 0 and right.startswith(left[at:]) else 0


def _sentences(passage: _Passage) -> Iterator[Unit]:
    spans = list(sentence_spans(passage.text))
    texts = [passage.text[start:end] for start, end in spans]
    if texts and texts[0][:1].islower() and " " in texts[0]:
        texts[0] = texts[0][texts[0].index(" ") + 1 :]  # the window's edge cuts a word
    source = words_of(passage.source)
    for i, ((start, end), text) in enumerate(zip(spans, texts, strict=True)):
        tag, tags = passage.tag_at((start + end) // 2), passage.tags_in(start, end)
        near = " ".join([*texts[max(0, i - 1) : i], *texts[i + 1 : i + 2], source])
        text = _HEADING.sub("", text)
        prose, rows = unflatten(text)
        if not any(row_of(row) for row, _ in rows):
            prose, rows = text, ()  # a formula's bar, not a table's
        for row, title in rows:
            above = " ".join([*texts[max(0, i - TITLE) : i], title, source])
            yield Unit(tag, "row", row, above, cells=row_of(row), tags=tags)
        if prose:
            before, after = texts[i - 1] if i else "", texts[i + 1] if i + 1 < len(texts) else ""
            yield Unit(tag, "sentence", prose, near, before, after, tags=tags)


def sentence_spans(text: str) -> Iterator[tuple[int, int]]:
    """Offsets of the sentences of a text on one line. Table rows, which know no full stop, stay in one piece."""
    start = 0
    for gap in _BREAK.finditer(text):
        if _ABBREVIATION.search(text[start : gap.start()]):
            continue
        yield from _bounded(text, start, gap.start())
        start = gap.end()
    yield from _bounded(text, start, len(text))


def _bounded(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    prose = _PROSE_AFTER.search(text, start, end) if COMMAND.match(text, start) else None
    if prose:
        yield start, prose.start()
        start = prose.end()
    while end - start > MAX_SENTENCE and " | " not in text[start:end]:
        blank = text.find(" ", start + MAX_SENTENCE, end)
        if blank < 0:
            break
        yield start, blank
        start = blank + 1
    if text[start:end].strip():
        yield start, end


def words_of(source: str) -> str:
    """A source such as "survival-compete, p. 6" as words; the page number says nothing."""
    return re.sub(r"[-_.]+", " ", _PAGE.sub("", source))


# --- graph and crops -------------------------------------------------------------------------------------------------


def _fact(segment: Segment) -> Unit:
    _, body = _opened(segment)
    source = _FACT_SOURCE.search(body)
    body = body[: source.start()] if source else body
    return Unit(segment.tag, "fact", " ".join(body.replace(" | ", " ").split()), words_of(source[1]) if source else "")


def _crop_units(segment: Segment) -> Iterator[Unit]:
    source, body = _opened(segment)
    read_off = _READ_OFF.search(body)
    # The author's and a model's: no sentence runs from one into the other.
    captions = [" ".join(part.split()) for part in _CAPTION.split(body[: read_off.start()] if read_off else body)]
    caption = " ".join(captions).strip()
    for text in captions:
        for start, end in sentence_spans(text):
            yield Unit(segment.tag, "caption", text[start:end], f"{caption} {words_of(source)}")
    if read_off:
        yield from _read_off(segment.tag, body[read_off.end() :], f"{caption} {words_of(source)}")


def _read_off(tag: str, text: str, context: str) -> Iterator[Unit]:
    lines = [" ".join(line.split()) for line in text.splitlines() if line.strip()]
    title = ""
    columns: tuple[str, ...] = ()
    plain: list[str] = []
    for line in lines:
        cells = row_of(line, columns)
        if cells:
            yield Unit(tag, "row", line, f"{context} {title}", cells=cells)
        elif " | " in line:
            columns = tuple(part.strip() for part in line.strip("| ").split("|"))  # the header of a plain grid
        else:
            title = line
            plain.append(line)
    for text, above in labels(plain):
        yield Unit(tag, "label", text, f"{above} {context}")

"""The page viewer: a page with all evidence of this answer on it in branch colours, and the words that the answer took."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from rag.corpus import Corpus
from rag.prompt import triple_item
from rag.statement import stated
from rag.types import BBox, Branch, Document, Page, Trace, Triple, Word
from ui import text as words
from ui.views import marks
from ui.views.markup import BRANCH_OF_TAG, bdi, data_uri, esc, page_label, shorten, tags_by_item

LEGEND: dict[Branch, str] = {"text": "chunk", "graph": "fact's sentence, bridged passage", "visual": "figure or table"}

RING_PT = 2.5
MAX_CREDIT_CHARS = 300
MAX_LABELS = 8
"""Labels that the legend names one by one; beyond, it counts."""


@dataclass(frozen=True, slots=True)
class Box:
    """A piece of evidence on a page; ``label`` is its tag, or its rank where it was not sent."""

    branch: Branch
    item_id: str
    label: str
    bbox: BBox
    sent: bool


@dataclass(frozen=True, slots=True)
class Mark:
    """Words on one line that the answer took from an item."""

    branch: Branch
    item_id: str
    bbox: BBox


@dataclass(frozen=True)
class _Sheet:
    """What is drawn on: a page, its words where the corpus knows their places, and the item that was clicked."""

    page_id: str
    corpus: Corpus
    focus: str = ""

    @cached_property
    def words(self) -> tuple[Word, ...]:
        return self.corpus.words_on(self.page_id)

    @cached_property
    def text(self) -> str:
        return self.corpus.page_text(self.page_id)

    def lines(self, spans: Iterable[tuple[int, int]]) -> tuple[BBox, ...]:
        """The lines of the page's text between these offsets."""
        return marks.line_boxes(marks.words_in(self.words, spans), self.words)

    def passage(self, chunk_id: str) -> tuple[BBox, ...]:
        """The regions that a chunk touches."""
        chunk = self.corpus.chunks.get(chunk_id)
        return tuple(self.corpus.regions[region].bbox for region in chunk.region_ids) if chunk else ()

    def statement(self, triple: Triple) -> tuple[BBox, ...]:
        """The sentence that states a triple, line by line, or its passage where no words are known."""
        chunk = self.corpus.chunks.get(triple.chunk_id)
        told = stated(triple, chunk.text) if chunk and self.words else None
        lines = self.lines([(chunk.start + told.start, chunk.start + told.end)]) if chunk and told else ()
        return lines or self.passage(triple.chunk_id)


def boxes(trace: Trace | None, corpus: Corpus, page_id: str, focus: str = "") -> tuple[Box, ...]:
    """All evidence of the answer on one page, and the item ``focus`` even if the answer did without it; largest first so that
    small boxes stay reachable on top."""
    sheet = _Sheet(page_id, corpus, focus)
    return _boxes(trace, sheet)


def _boxes(trace: Trace | None, sheet: _Sheet) -> tuple[Box, ...]:
    found = [] if trace is None else [*_text(trace, sheet), *_graph(trace, sheet), *_visual(trace, sheet)]
    if sheet.focus not in {box.item_id for box in found}:
        found += _asked_for(trace, sheet)
    return tuple(sorted(found, key=lambda box: -_area(box.bbox)))


def _area(bbox: BBox) -> float:
    return (bbox[2] - bbox[0]) * (bbox[3] - bbox[1])


def _text(trace: Trace, sheet: _Sheet) -> Iterator[Box]:
    tags = tags_by_item(trace.prompt)
    for hit in trace.evidence.text.hits if trace.evidence.text else ():
        if sheet.corpus.chunks[hit.item_id].page_id == sheet.page_id:
            for bbox in sheet.passage(hit.item_id):
                yield Box("text", hit.item_id, tags.get(hit.item_id, str(hit.rank)), bbox, hit.item_id in tags)


def _graph(trace: Trace, sheet: _Sheet) -> Iterator[Box]:
    tags = tags_by_item(trace.prompt)
    for fact in trace.evidence.graph.facts if trace.evidence.graph else ():
        item = triple_item(fact.triple_ids[0])
        for triple in (sheet.corpus.triples[number] for number in fact.triple_ids):
            if triple.page_id == sheet.page_id:
                for bbox in sheet.statement(triple):
                    yield Box("graph", item, tags.get(item, "fact"), bbox, item in tags)
    for bridge in trace.evidence.graph.bridges if trace.evidence.graph else ():
        item = bridge.hit.item_id
        if sheet.corpus.chunks[item].page_id == sheet.page_id:
            for bbox in sheet.passage(item):
                yield Box("graph", item, tags.get(item, "bridge"), bbox, item in tags)


def _visual(trace: Trace, sheet: _Sheet) -> Iterator[Box]:
    tags = tags_by_item(trace.prompt)
    for hit in trace.evidence.visual.hits if trace.evidence.visual else ():
        crop = sheet.corpus.crops[hit.item_id]
        if crop.page_id == sheet.page_id:
            yield Box("visual", crop.id, tags.get(crop.id, f"crop {hit.rank}"), crop.bbox, crop.id in tags)


def _asked_for(trace: Trace | None, sheet: _Sheet) -> Iterator[Box]:
    """What was clicked and is no evidence of this answer: a dropped fact, say."""
    number = sheet.focus.removeprefix("triple:")
    is_triple = number != sheet.focus and number.isascii() and number.isdigit() and len(number) < 12
    if is_triple and int(number) < len(sheet.corpus.triples):
        triple = sheet.corpus.triples[int(number)]
        rejected = trace.evidence.graph.rejected if trace and trace.evidence.graph else ()
        label = "dropped" if any(int(number) in r.fact.triple_ids for r in rejected) else "fact"
        if triple.page_id == sheet.page_id:
            yield from (Box("graph", sheet.focus, label, bbox, False) for bbox in sheet.statement(triple))
    elif sheet.focus in sheet.corpus.chunks and sheet.corpus.chunks[sheet.focus].page_id == sheet.page_id:
        yield from (Box("text", sheet.focus, "chunk", bbox, False) for bbox in sheet.passage(sheet.focus))
    elif sheet.focus in sheet.corpus.crops and sheet.corpus.crops[sheet.focus].page_id == sheet.page_id:
        yield Box("visual", sheet.focus, "crop", sheet.corpus.crops[sheet.focus].bbox, False)


def cited(trace: Trace | None, corpus: Corpus, page_id: str) -> tuple[Mark, ...]:
    """The words on the page that the answer took from the passages and crops it cites, one mark a line; none where the corpus
    does not know where its words stand."""
    return () if trace is None else tuple(_cited(trace, _Sheet(page_id, corpus)))


def _cited(trace: Trace, sheet: _Sheet) -> Iterator[Mark]:
    tags = tags_by_item(trace.prompt)
    for item in dict.fromkeys(citation.item_id for citation in trace.citations):
        sentences = marks.cited_sentences(trace, item)
        chunk, crop = sheet.corpus.chunks.get(item), sheet.corpus.crops.get(item)
        if chunk is not None and chunk.page_id == sheet.page_id:
            spans = [(a + chunk.start, b + chunk.start) for a, b in marks.cited_spans(chunk.text, sentences)]
            branch: Branch = "text" if tags.get(item, "T").startswith("T") else "graph"
            yield from (Mark(branch, item, bbox) for bbox in sheet.lines(spans))
        elif crop is not None and crop.page_id == sheet.page_id:
            yield from (Mark("visual", item, bbox) for bbox in _cited_in(crop.bbox, sentences, sheet))


def _cited_in(bbox: BBox, sentences: Iterable[str], sheet: _Sheet) -> tuple[BBox, ...]:
    """Cited words inside a crop, as far as they are part of the page's text."""
    x0, y0, x1, y1 = bbox
    inside = [w for w in sheet.words if x0 < (w.bbox[0] + w.bbox[2]) / 2 < x1 and y0 < (w.bbox[1] + w.bbox[3]) / 2 < y1]
    if not inside:
        return ()
    start = inside[0].start
    spans = marks.cited_spans(sheet.text[start : inside[-1].end], sentences)
    return marks.line_boxes(marks.words_in(inside, [(a + start, b + start) for a, b in spans]), sheet.words)


# --- drawing ---------------------------------------------------------------------------------------------------------


def render(trace: Trace | None, corpus: Corpus, page_id: str, focus: str = "") -> str:
    """The viewer's content.

    Args:
        trace: the answer whose evidence is drawn, if there is one.
        corpus: where the page is.
        page_id: an id of the corpus; anything else gives a sentence.
        focus: the item that was clicked, drawn stronger, and drawn at all if it is no evidence of this answer.

    Raises:
        CorpusError: the corpus's table of words is damaged.
    """
    page = corpus.pages.get(page_id)
    if page is None:
        return f'<p class="fb-empty" role="alert">{esc("This corpus has no such page; open one from the lists.")}</p>'
    sheet = _Sheet(page.id, corpus, focus)
    drawn = _boxes(trace, sheet)
    taken = tuple(_cited(trace, sheet)) if trace else ()
    return (
        f'<div class="fb-viewer" data-page-id="{esc(page.id)}">{_bar(page, corpus)}'
        f"{_legend(drawn, taken)}{_elsewhere(trace, corpus, page.id)}"
        f"{_paper(page, sheet, drawn, taken, trace)}{_foot(page, corpus)}</div>"
    )


def _bar(page: Page, corpus: Corpus) -> str:
    before, after = neighbours(page, corpus)
    steps = "".join(
        f'<button type="button" class="fb-small" data-page="{esc(other)}"'
        f' aria-label="{label}"{"" if other else " disabled"}>{sign}</button>'
        for other, label, sign in ((before, "Previous page", "‹"), (after, "Next page", "›"))
    )
    zooms = "".join(
        f'<button type="button" class="fb-small" data-zoom="{step}" aria-label="{label}">{sign}</button>'
        for step, label, sign in (("out", "Zoom out", "−"), ("fit", "Fit the page", "fit"), ("in", "Zoom in", "+"))
    )
    title = f'<h2 id="fb-viewer-title"><bdi>{esc(page_label(page, corpus))}</bdi></h2>'
    close = '<button type="button" class="fb-small" data-close aria-label="Close">✕</button>'
    return (
        f'<header class="fb-viewer-bar">{title}<span class="fb-buttons">{steps}</span>'
        f'<span class="fb-buttons">{zooms}</span>{close}</header>'
    )


def neighbours(page: Page, corpus: Corpus) -> tuple[str, str]:
    """Ids of the previous and the next page of the same document, or empty."""
    numbers = {p.number: p.id for p in corpus.pages.values() if p.document == page.document}
    return numbers.get(page.number - 1, ""), numbers.get(page.number + 1, "")


def _legend(drawn: tuple[Box, ...], taken: tuple[Mark, ...]) -> str:
    labels: dict[Branch, dict[str, str]] = {}
    for box in drawn:
        labels.setdefault(box.branch, {})[box.item_id] = box.label
    if not labels:
        return f'<p class="fb-legend">{esc(words.NO_BOXES)}</p>'
    rows = "".join(
        f'<li class="{branch}">{esc(label)} <b>{esc(_told(labels[branch].values()))}</b></li>'
        for branch, label in LEGEND.items()
        if branch in labels
    )
    took = f'<li class="cited">{esc(words.CITED_WORDS)}</li>' if taken else ""
    faint = '<li class="unsent">dashed: found, not sent</li>' if any(not box.sent for box in drawn) else ""
    return f'<ul class="fb-legend">{rows}{took}{faint}</ul>'


def _told(labels: Iterable[str]) -> str:
    names = sorted(dict.fromkeys(labels), key=lambda label: (len(label), label))
    return " ".join(names) if len(names) <= MAX_LABELS else str(len(names))


def _elsewhere(trace: Trace | None, corpus: Corpus, page_id: str) -> str:
    """Chips for the rest of what was sent, each opening its own page."""
    if trace is None or trace.prompt is None:
        return ""
    places = {tag: (item, _page_of(item, corpus)) for tag, item in trace.prompt.tags.items()}
    chips = "".join(
        f'<button type="button" class="fb-tag {BRANCH_OF_TAG.get(tag[:1], "text")}" data-page="{esc(place)}"'
        f' data-focus="{esc(item)}" title="{esc(page_label(corpus.pages[place], corpus))}">{esc(tag)}</button>'
        for tag, (item, place) in places.items()
        if place in corpus.pages and place != page_id
    )
    return f'<p class="fb-elsewhere-pages">{esc(words.OTHER_PAGES)} {chips}</p>' if chips else ""


def _page_of(item_id: str, corpus: Corpus) -> str:
    """The page of a chunk, a crop or a triple that the corpus holds."""
    number = item_id.removeprefix("triple:")
    if number != item_id:
        return corpus.triples[int(number)].page_id
    row = corpus.chunks.get(item_id) or corpus.crops.get(item_id)
    return row.page_id if row else ""


def _paper(page: Page, sheet: _Sheet, drawn: tuple[Box, ...], taken: tuple[Mark, ...], trace: Trace | None) -> str:
    if not page.image:
        return (
            f'<p class="fb-hint">{esc(words.NO_IMAGE)}</p><div class="fb-sheet fb-page-text" tabindex="0"'
            f' dir="auto">{_marked_text(trace, sheet)}</div>'
        )
    turn = marks.turn(sheet.words, sheet.text)
    shapes = "".join(map(_mark, taken)) + _shapes(drawn, sheet.focus) + _turned_labels(drawn, page, turn)
    view = f"0 0 {page.width_pt:g} {page.height_pt:g}"
    alt = esc(f"Picture of {page_label(page, sheet.corpus)}")
    picture = (
        f'<img src="{data_uri(sheet.corpus.image_path(page.image))}" alt="{alt}"><svg viewBox="{view}"'
        f' preserveAspectRatio="none" aria-hidden="true">{shapes}</svg>'
    )
    held = f'<div class="fb-paper">{picture}</div>'
    if turn:
        size = f"--w:{page.width_pt:g};--h:{page.height_pt:g};--turn:{turn}deg"
        side = "side" if turn % 180 else "over"
        held = f'<div class="fb-paper fb-turned {side}" style="{size}"><div>{picture}</div></div>'
    return f'<div class="fb-sheet" tabindex="0" role="region" aria-label="Page, scrollable">{held}</div>'


def _marked_text(trace: Trace | None, sheet: _Sheet) -> str:
    """The text of a page without a picture, with what the answer took from its chunks."""
    spans: list[tuple[int, int]] = []
    for chunk in sheet.corpus.chunks_on(sheet.page_id) if trace else ():
        found = marks.cited_spans(chunk.text, marks.cited_sentences(trace, chunk.id)) if trace else []
        spans += [(a + chunk.start, b + chunk.start) for a, b in found]
    return marks.marked(sheet.text, frozenset(), marks.merged(spans), "text")


def _mark(mark: Mark) -> str:
    x0, y0, x1, y1 = mark.bbox
    return (
        f'<rect class="mark {mark.branch}" x="{x0 - 1:.1f}" y="{y0:.1f}" width="{x1 - x0 + 2:.1f}" '
        f'height="{y1 - y0:.1f}" rx="1"/>'
    )


def _shapes(drawn: tuple[Box, ...], focus: str) -> str:
    """One rectangle per place and branch, however many items share it; rings of different branches lie round each
    other."""
    places: dict[tuple[BBox, Branch], list[Box]] = {}
    for box in drawn:
        places.setdefault((box.bbox, box.branch), []).append(box)
    rings: dict[BBox, int] = {}
    pieces = []
    for (bbox, branch), sharing in places.items():
        ring = rings.get(bbox, 0)
        rings[bbox] = ring + 1
        pieces.append(_shape(bbox, branch, sharing, ring, focus))
    return "".join(pieces)


def _shape(bbox: BBox, branch: Branch, sharing: list[Box], ring: int, focus: str) -> str:
    x0, y0, x1, y1 = (edge + RING_PT * ring * sign for edge, sign in zip(bbox, (-1, -1, 1, 1), strict=True))
    states = {
        "unsent": not any(box.sent for box in sharing),
        "focus": any(box.item_id == focus for box in sharing),
        "outer": ring,
    }
    kind = " ".join((branch, *(state for state, holds in states.items() if holds)))
    return (
        f'<rect class="{kind}" data-box="{esc(sharing[0].item_id)}" x="{x0:.1f}" y="{y0:.1f}" '
        f'width="{max(1.0, x1 - x0):.1f}" height="{max(1.0, y1 - y0):.1f}" rx="2"/>'
    )


def _turned_labels(drawn: tuple[Box, ...], page: Page, turn: int) -> str:
    """Labels that stand upright on a page that is shown turned clockwise by ``turn`` degrees: placed as the page is shown, and
    taken back to the page's own points by a matrix."""
    w, h = page.width_pt, page.height_pt
    to_shown: dict[int, Callable[[float, float, float, float], BBox]] = {
        0: lambda x0, y0, x1, y1: (x0, y0, x1, y1),
        90: lambda x0, y0, x1, y1: (h - y1, x0, h - y0, x1),
        180: lambda x0, y0, x1, y1: (w - x1, h - y1, w - x0, h - y0),
        270: lambda x0, y0, x1, y1: (y0, w - x1, y1, w - x0),
    }
    back = {90: f"0 -1 1 0 0 {h:g}", 180: f"-1 0 0 -1 {w:g} {h:g}", 270: f"0 1 -1 0 {w:g} 0"}
    labels = _labels(tuple(replace(box, bbox=to_shown[turn](*box.bbox)) for box in drawn))
    return f'<g transform="matrix({back[turn]})">{labels}</g>' if turn else labels


def _labels(drawn: tuple[Box, ...]) -> str:
    """One label per item, at its topmost box; labels at the same place stand side by side."""
    tops: dict[tuple[Branch, str], Box] = {}
    for box in sorted(drawn, key=lambda b: b.bbox[1]):
        tops.setdefault((box.branch, box.item_id), box)
    taken: dict[tuple[int, int], float] = {}
    pieces = []
    for box in tops.values():
        x0, y0 = box.bbox[0], box.bbox[1]
        slot = (round(x0 / 20), round(y0 / 12))
        width = 5.2 * len(box.label) + 7
        left = taken.get(slot, x0)
        taken[slot] = left + width + 2
        top = max(0.0, y0 - 11)
        pieces.append(
            f'<g class="label {box.branch}"><rect x="{left:.1f}" y="{top:.1f}" width="{width:.1f}" height="11" rx="2"/>'
            f'<text x="{left + width / 2:.1f}" y="{top + 8.3:.1f}" text-anchor="middle">{esc(box.label)}</text></g>'
        )
    return "".join(pieces)


def _foot(page: Page, corpus: Corpus) -> str:
    document = corpus.documents.get(page.document)
    return f'<footer class="fb-viewer-foot">{credit(document)}</footer>' if document else ""


def credit(document: Document) -> str:
    """Authors, year and licence, short; About holds them whole."""
    parts = [
        part for part in (document.authors, document.year, document.licence and f"licence {document.licence}") if part
    ]
    return " · ".join(bdi(shorten(part, MAX_CREDIT_CHARS)) for part in parts)

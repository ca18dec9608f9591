"""The page viewer: a page with the boxes of all evidence of this answer on it, in branch colours."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rag.corpus import Corpus
from rag.prompt import triple_item
from rag.types import BBox, Branch, Document, Page, Trace
from ui import text as words
from ui.views.markup import data_uri, esc, page_label, tags_by_item

LEGEND: dict[Branch, str] = {"text": "chunk", "graph": "fact's passage", "visual": "figure or table"}


RING_PT = 2.5


@dataclass(frozen=True, slots=True)
class Box:
    """A piece of evidence on a page; ``label`` is its tag, or its rank where it was not sent."""

    branch: Branch
    item_id: str
    label: str
    bbox: BBox
    sent: bool


def boxes(trace: Trace | None, corpus: Corpus, page_id: str) -> tuple[Box, ...]:
    """All evidence of the answer on one page, largest first so that small boxes stay reachable on top."""
    if trace is None:
        return ()
    found = [*_text(trace, corpus, page_id), *_graph(trace, corpus, page_id), *_visual(trace, corpus, page_id)]
    return tuple(sorted(found, key=lambda box: -_area(box.bbox)))


def _area(bbox: BBox) -> float:
    return (bbox[2] - bbox[0]) * (bbox[3] - bbox[1])


def _chunk_boxes(chunk_id: str, corpus: Corpus) -> Iterator[BBox]:
    chunk = corpus.chunks.get(chunk_id)
    for region_id in chunk.region_ids if chunk else ():
        yield corpus.regions[region_id].bbox


def _text(trace: Trace, corpus: Corpus, page_id: str) -> Iterator[Box]:
    tags = tags_by_item(trace.prompt)
    for hit in trace.evidence.text.hits if trace.evidence.text else ():
        if corpus.chunks[hit.item_id].page_id == page_id:
            for bbox in _chunk_boxes(hit.item_id, corpus):
                yield Box("text", hit.item_id, tags.get(hit.item_id, str(hit.rank)), bbox, hit.item_id in tags)


def _graph(trace: Trace, corpus: Corpus, page_id: str) -> Iterator[Box]:
    tags = tags_by_item(trace.prompt)
    for fact in trace.evidence.graph.facts if trace.evidence.graph else ():
        triple, item = corpus.triples[fact.triple_ids[0]], triple_item(fact.triple_ids[0])
        if triple.page_id == page_id:
            for bbox in _chunk_boxes(triple.chunk_id, corpus):
                yield Box("graph", item, tags.get(item, "fact"), bbox, item in tags)


def _visual(trace: Trace, corpus: Corpus, page_id: str) -> Iterator[Box]:
    tags = tags_by_item(trace.prompt)
    for hit in trace.evidence.visual.hits if trace.evidence.visual else ():
        crop = corpus.crops[hit.item_id]
        if crop.page_id == page_id:
            yield Box("visual", crop.id, tags.get(crop.id, f"crop {hit.rank}"), crop.bbox, crop.id in tags)


def render(trace: Trace | None, corpus: Corpus, page_id: str, focus: str = "") -> str:
    """The viewer's content.

    Args:
        trace: the answer whose evidence is drawn, if there is one.
        corpus: where the page is.
        page_id: an id of the corpus; anything else gives a sentence.
        focus: the item that was clicked, drawn stronger.
    """
    page = corpus.pages.get(page_id)
    if page is None:
        return f'<p class="fb-empty" role="alert">{esc("This corpus has no such page; open one from the lists.")}</p>'
    drawn = boxes(trace, corpus, page.id)
    return (
        f'<div class="fb-viewer"'
        f' data-page-id="{esc(page.id)}">{_bar(page, corpus)}{_legend(drawn)}{_sheet(page, corpus, drawn, focus)}'
        f"{_foot(page, corpus)}"
        f"</div>"
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


def _legend(drawn: tuple[Box, ...]) -> str:
    counts: dict[Branch, set[str]] = {}
    for box in drawn:
        counts.setdefault(box.branch, set()).add(box.item_id)
    if not counts:
        return f'<p class="fb-legend">{esc(words.NO_BOXES)}</p>'
    rows = "".join(
        f'<li class="{branch}">{esc(label)} <b>{len(counts[branch])}</b></li>'
        for branch, label in LEGEND.items()
        if branch in counts
    )
    faint = '<li class="unsent">dashed: found, not sent</li>' if any(not box.sent for box in drawn) else ""
    return f'<ul class="fb-legend">{rows}{faint}</ul>'


def _sheet(page: Page, corpus: Corpus, drawn: tuple[Box, ...], focus: str) -> str:
    if not page.image:
        text = esc(corpus.page_text(page.id))
        return (
            f'<p class="fb-hint">{esc(words.NO_IMAGE)}</p><div class="fb-sheet fb-page-text" tabindex="0"'
            f' dir="auto">{text}</div>'
        )
    shapes = _shapes(drawn, focus)
    labels = _labels(drawn)
    view = f"0 0 {page.width_pt:g} {page.height_pt:g}"
    alt = esc(f"Picture of {page_label(page, corpus)}")
    return (
        f'<div class="fb-sheet" tabindex="0" role="region" aria-label="Page, scrollable"><div class="fb-paper">'
        f'<img src="{data_uri(corpus.image_path(page.image))}" alt="{alt}"><svg viewBox="{view}"'
        f' preserveAspectRatio="none" aria-hidden="true">{shapes}{labels}</svg>'
        f"</div></div>"
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
    """Authors, year and licence in one line."""
    parts = [
        part for part in (document.authors, document.year, document.licence and f"licence {document.licence}") if part
    ]
    return " · ".join(f"<bdi>{esc(part)}</bdi>" for part in parts)

"""The cropper against pages marked by hand (tests/data/MARKS.md): precision and recall of boxes, and captions."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from rag.ingest.pdf import open_pdf, read_page

MARKS = json.loads((Path(__file__).parent / "data" / "marks.json").read_text("utf-8"))
DOCUMENTS = Path(__file__).parent.parent / "assets" / "documents"

Box = tuple[float, float, float, float]


def iou(a: Box, b: Box) -> float:
    """Intersection over union."""
    width = min(a[2], b[2]) - max(a[0], b[0])
    height = min(a[3], b[3]) - max(a[1], b[1])
    common = max(0.0, width) * max(0.0, height)
    return common / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - common)


def matched(found: list[Box], marked: list[Box], at_least: float) -> dict[int, int]:
    """Marked index -> found index, best pairs first, each box used once."""
    pairs = sorted(((iou(f, m), j, i) for i, f in enumerate(found) for j, m in enumerate(marked)), reverse=True)
    taken: dict[int, int] = {}
    for value, mark, box in pairs:
        if value >= at_least and mark not in taken and box not in taken.values():
            taken[mark] = box
    return taken


@dataclass
class Page:
    name: str
    marked_figures: list[dict]
    marked_tables: list[dict]
    figures: list
    tables: list


@pytest.fixture(scope="module")
def pages() -> list[Page]:
    return list(_read())


def _read() -> Iterator[Page]:
    for mark in MARKS:
        with open_pdf(DOCUMENTS / mark["document"]) as document:
            content = read_page(document[mark["page"] - 1], Path(mark["document"]).stem)
        yield Page(
            f"{mark['document']} p. {mark['page']}",
            mark["figures"],
            mark["tables"],
            [c for c in content.crops if c.kind == "figure"],
            [c for c in content.crops if c.kind == "table"],
        )


def _score(pages: list[Page], what: str, at_least: float, kind: str | None = None) -> tuple[float, float, list[str]]:
    """Precision (over all boxes of the sort), recall (over the marks of ``kind``), and what went wrong, by page."""
    found = hit = marked = recalled = 0
    wrong: list[str] = []
    for page in pages:
        boxes, marks = getattr(page, what), getattr(page, f"marked_{what}")
        pairs = matched([b.bbox for b in boxes], [tuple(m["bbox"]) for m in marks], at_least)
        found, hit = found + len(boxes), hit + len(pairs)
        mine = [j for j, m in enumerate(marks) if kind is None or m["kind"] == kind]
        marked, recalled = marked + len(mine), recalled + sum(j in pairs for j in mine)
        missed = [j for j in mine if j not in pairs]
        if missed or len(pairs) < len(boxes):
            wrong.append(f"{page.name}: {len(missed)} missed, {len(boxes) - len(pairs)} too many")
    return hit / max(1, found), recalled / max(1, marked), wrong


@pytest.mark.parametrize(
    ("what", "kind", "at_least", "target"),
    [
        ("figures", None, 0.5, 0.95),
        ("figures", None, 0.9, 0.85),
        ("tables", "typeset", 0.5, 0.95),
        ("tables", "console", 0.5, 0.80),
    ],
)
def test_boxes_agree_with_the_marks(pages, what, kind, at_least, target, record_property):
    precision, recall, wrong = _score(pages, what, at_least, kind)
    print(f"{what} {kind or ''} at IoU {at_least}: precision {precision:.3f}, recall {recall:.3f}", *wrong, sep="\n  ")
    assert recall >= target, wrong
    assert precision >= min(target, 0.9), wrong


def test_at_most_one_false_crop_on_pages_without_any(pages):
    empty = [p for p in pages if not p.marked_figures and not p.marked_tables]
    assert len(empty) >= 10
    false = [(p.name, [c.bbox for c in (*p.figures, *p.tables)]) for p in empty if p.figures or p.tables]
    assert sum(len(boxes) for _, boxes in false) <= 1, false


def _comparable(caption: str | None) -> str:
    """Captions by their letters: spaces, hyphens and accents come out of PDFs in many ways."""
    letters = unicodedata.normalize("NFKD", caption or "")
    return re.sub(r"[^a-z0-9<>=.,()]", "", letters.lower())


def test_captions_are_the_authors(pages):
    right = total = 0
    wrong: list[str] = []
    for page in pages:
        for what in ("figures", "tables"):
            boxes, marks = getattr(page, what), getattr(page, f"marked_{what}")
            pairs = matched([b.bbox for b in boxes], [tuple(m["bbox"]) for m in marks], 0.5)
            for mark, box in pairs.items():
                expected, got = _comparable(marks[mark]["caption"]), _comparable(boxes[box].caption)
                total, right = total + 1, right + (expected == got)
                if expected != got:
                    wrong.append(f"{page.name}: marked {marks[mark]['caption']!r}, found {boxes[box].caption!r}")
    print(f"captions: {right} of {total} right", *wrong, sep="\n  ")
    assert right >= 0.9 * total, wrong

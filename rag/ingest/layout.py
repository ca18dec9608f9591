"""Layout boxes of a page, from PyMuPDF's layout model, and the characters of the page gathered into lines."""

from dataclasses import dataclass

import pymupdf

BBox = tuple[float, float, float, float]


@dataclass(frozen=True)
class LayoutBox:
    """A box the layout model found: `kind` is its label (text, section-header, list-item, caption, picture, table,
    formula, footnote, page-header, page-footer, ...); `bbox` in points of the unrotated page, origin top left."""

    bbox: BBox
    kind: str


def page_layout(page: pymupdf.Page) -> list[LayoutBox]:
    """The layout boxes of `page` in the model's reading order; empty for a page with nothing on it."""
    # Importing the model takes half a second and switches on a hook in PyMuPDF, so it waits for the first page.
    import pymupdf.layout

    pymupdf.layout.activate()
    page.get_layout()
    found = page.layout_information or []
    return [LayoutBox((float(x0), float(y0), float(x1), float(y1)), str(kind)) for x0, y0, x1, y1, kind in found]

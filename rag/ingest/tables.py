"""Tables of a page: typeset ones and the tabular output of a console, read off row by row.

The text of a table is made for retrieval and for a reader that sees nothing else. Each row becomes one line,

    row label | column header: value | column header: value

in which the first cell stands alone when its column has no header and is "header: label" when it has one; blank cells
are left out; a value whose column has no header stands alone (the stars of significance). A line without " | " and
before the rows is the table's own title.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import pymupdf

from rag.ingest.console import Char, find_console_tables, page_chars
from rag.ingest.layout import BBox, LayoutBox

Rows = tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class TableBox:
    """A table: `bbox` in points of the unrotated page; `rows[0]` is the header and all rows have its length; `text` is
    the folded read-off (see the module's description)."""

    bbox: BBox
    kind: Literal["typeset", "console"]
    rows: Rows
    text: str


def read_off(rows: Rows, title: str = "") -> str:
    """The rows below the header `rows[0]` as lines of 'label | column: value | ...', after the title if there is one."""
    header, *body = rows
    lines = [title] if title else []
    for row in body:
        cells = [f"{name}: {cell}" if name else cell for name, cell in zip(header, row, strict=True) if cell]
        if cells:
            lines.append(" | ".join(cells))
    return "\n".join(lines)


def find_tables(page: pymupdf.Page, layout: Sequence[LayoutBox]) -> list[TableBox]:
    """The tables of `page` from top to bottom, given the boxes of its layout."""
    chars = page_chars(page)
    found = [
        TableBox(table.bbox, "console", table.rows, read_off(table.rows, table.title))
        for table in find_console_tables(chars)
    ]
    return sorted(found, key=lambda table: (table.bbox[1], table.bbox[0]))

"""Tables that go on from one page to the next: the part on the later page gets the header and the caption it lacks.

Pages are read apart from each other; the parts meet where the pages come home in order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rag.ingest.pages import OpenTable, PageTask, Rows, crop_ids, rows_of
from rag.ingest.pdf import CONTINUED, CropContent, PageContent, running_text
from rag.ingest.tables import Phrase, Span, TableBox, read_off

_MOST_SHIFT = 72.0
"""Points by which the columns may lie elsewhere on the next page, as on the left and right pages of a book."""


def joined(task: PageTask, rows: Rows, before: OpenTable | None) -> tuple[Rows, OpenTable | None]:
    """The page's rows, with a table at its top read as what it is: the rest of ``before``; and the table that is open at its
    foot. ``rows`` has its ``content``; ``before`` is that of the page before, whichever that was."""
    content = rows.content
    assert content is not None
    if before is not None and (before.document, before.number + 1) == (task.document, task.number):
        content = _with_rest(content, before)
        rows = rows if content is rows.content else rows_of(task, content)
    return replace(rows, content=None), _open(task, content, before)


def _open(task: PageTask, content: PageContent, before: OpenTable | None) -> OpenTable | None:
    for crop_id, crop in zip(crop_ids(task.page_id, content.crops), content.crops, strict=True):
        if crop.table is not None and crop.at_bottom and crop.table.columns:
            here = (task.document, task.number, crop_id)
            if crop.continues and before is not None:
                return OpenTable(*here, before.caption, before.header, before.columns)
            return OpenTable(*here, crop.caption, crop.table.rows[0], crop.table.columns)
    return None


def _with_rest(content: PageContent, before: OpenTable) -> PageContent:
    """The page with the header of ``before`` in the table at its top, if that goes on with it; else the very same."""
    for place, crop in enumerate(content.crops):
        text = _rest(crop, before)
        if text is None:
            continue
        regions = tuple(
            replace(region, text=text) if (region.kind, region.bbox) == ("table", crop.bbox) else region
            for region in content.regions
        )
        titled = replace(crop, ocr_text=f"{before.caption}\n{text}".strip(), continues=before.crop_id)
        crops = (*content.crops[:place], titled, *content.crops[place + 1 :])
        return replace(content, regions=regions, crops=crops, text=running_text(regions))
    return content


def _rest(crop: CropContent, before: OpenTable) -> str | None:
    """The rows of a crop read under the header of ``before``, or None where it is no rest of it."""
    table = crop.table
    says_so = bool(CONTINUED.search(crop.caption))
    if table is None or not table.columns or not crop.at_top or (crop.caption and not says_so):
        return None
    if _folded(table.rows[0]) == _folded(before.header):
        return table.text if _are_alike(before.columns, table.columns) else None
    if not _are_alike(before.columns, table.body.columns) or _has_header(table):
        return None
    return read_off((before.header, *table.body.rows))


def _folded(header: Sequence[str]) -> list[str]:
    return [name.casefold() for name in header]


def _are_alike(before: Sequence[Span], columns: Sequence[Span]) -> bool:
    """Whether there are as many columns at the same places, perhaps all shifted by a bit."""
    if len(before) != len(columns):
        return False
    shift = before[0][0] - columns[0][0]
    shifts = (0.0, shift) if abs(shift) <= _MOST_SHIFT else (0.0,)
    return any(
        all(low < b + by and a + by < high for (low, high), (a, b) in zip(before, columns, strict=True))
        for by in shifts
    )


def _has_header(table: TableBox) -> bool:
    """Whether the first row is unlike the others in holding no number: then it names the columns."""
    first, *others = ([_is_value(cell) for cell in row if cell] for row in table.body.rows)
    return not any(first) and sum(map(any, others)) > len(others) / 2


def _is_value(cell: str) -> bool:
    return Phrase(0.0, 0.0, 0.0, 0.0, cell).is_value

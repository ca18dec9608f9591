"""What an ingestion takes at most; every refusal names the limit's variable, so that an operator knows what to set."""

from __future__ import annotations

from dataclasses import dataclass

MAX_PIXELS = 80_000_000
"""A page of A3 at 600 dpi has 70 million."""


@dataclass(frozen=True, slots=True)
class Limits:
    """``None`` is no limit. ``files``, ``mb`` (10^6 bytes, all files together) and ``pages`` are of one corpus; ``pixels`` of
    one image, whether a page or in a page; ``page_seconds`` is the time for one page."""

    files: int | None = None
    mb: int | None = None
    pages: int | None = None
    pixels: int = MAX_PIXELS
    page_seconds: int | None = 300


UPLOADS = Limits(files=20, mb=100, pages=300, page_seconds=60)
"""For a visitor's documents, unless the operator says otherwise."""

VARIABLES = {
    "files": "FUSEBOX_MAX_FILES",
    "mb": "FUSEBOX_MAX_MB",
    "pages": "FUSEBOX_MAX_PAGES",
    "pixels": "FUSEBOX_MAX_PIXELS",
    "page_seconds": "FUSEBOX_PAGE_SECONDS",
}
"""Field -> the variable that sets it."""

"""Windows of a page's text (section III-B)."""

from __future__ import annotations

from collections.abc import Iterator

WINDOW = 500
STEP = 450


def fold_whitespace(text: str) -> str:
    """Every run of white space as one space, none at the ends."""
    return " ".join(text.split())


def windows(text: str, size: int = WINDOW, step: int = STEP) -> Iterator[tuple[int, str]]:
    """(start, window) over the whitespace-folded ``text``: ``size`` characters at every ``step``, for every start
    within the text. The last window may lie wholly within the one before it, as in the study; a blank page has
    none."""
    folded = fold_whitespace(text)
    for start in range(0, len(folded), step):
        yield start, folded[start : start + size]

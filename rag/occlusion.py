"""Which part of a crop a CLIP ranking rests on: a grey patch slides over the crop, and what the similarity loses is written down.

Zeiler and Fergus, Visualizing and Understanding Convolutional Networks (2014), section 4.2, with the cosine of question and
pixels (eq. 2) in place of a class's probability. Costs one encoding of the crop for each place of the patch.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from rag.encoders import ImageEncoder, Vectors

CELLS = 8
"""Cells along the longer side of a crop."""

PATCH = 2
"""The patch covers this many cells across and down, and slides by one."""

GREY = (127, 127, 127)

Box = tuple[int, int, int, int]


@dataclass(frozen=True, slots=True)
class Occlusion:
    """``drops[row][column]`` is how much the cosine loses, on average over the patches that hide this cell; below 0 it gains.
    ``cosine`` is that of question and whole crop."""

    cosine: float
    drops: tuple[tuple[float, ...], ...]


def occlude(image: Image.Image, question: str, encoder: ImageEncoder) -> Occlusion:
    """The occlusion map of an RGB crop for a question."""
    rows, columns = grid(image.width, image.height)
    places = patches(rows, columns)
    boxes = [in_pixels(place, rows, columns, image.size) for place in places]
    vectors = encoder.encode_images([image, *(hidden(image, box) for box in boxes)])
    cosines = vectors @ encoder.encode_text([question])[0]
    drops = spread(cosines[0] - cosines[1:], places, rows, columns)
    return Occlusion(float(cosines[0]), tuple(tuple(float(value) for value in row) for row in drops))


def grid(width: int, height: int) -> tuple[int, int]:
    """Rows and columns of cells that are about square, ``CELLS`` along the longer side and at least ``PATCH``."""
    cell = max(width, height) / CELLS
    return max(PATCH, round(height / cell)), max(PATCH, round(width / cell))


def patches(rows: int, columns: int) -> list[Box]:
    """Every place of the patch as left, top, right, bottom in cells, row by row."""
    return [
        (left, top, left + PATCH, top + PATCH) for top in range(rows - PATCH + 1) for left in range(columns - PATCH + 1)
    ]


def in_pixels(place: Box, rows: int, columns: int, size: tuple[int, int]) -> Box:
    """A place in cells as a box of an image of ``size`` (width, height)."""
    width, height = size
    left, top, right, bottom = place
    return (
        round(left * width / columns),
        round(top * height / rows),
        round(right * width / columns),
        round(bottom * height / rows),
    )


def hidden(image: Image.Image, box: Box) -> Image.Image:
    """A copy of the image with ``box`` in grey."""
    copy = image.copy()
    copy.paste(GREY, box)
    return copy


def spread(drops: Vectors, places: list[Box], rows: int, columns: int) -> NDArray[np.float64]:
    """(places,) drops -> (rows, columns): for each cell the mean over the patches that cover it."""
    total, count = np.zeros((rows, columns)), np.zeros((rows, columns))
    for drop, (left, top, right, bottom) in zip(drops, places, strict=True):
        total[top:bottom, left:right] += drop
        count[top:bottom, left:right] += 1
    mean: NDArray[np.float64] = total / count
    return mean

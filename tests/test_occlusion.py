"""The occlusion map: its arithmetic by hand, and its way through a CLIP of open_clip's own class."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from PIL import Image

from rag.encoders import OpenClipEncoder, Vectors, normalised
from rag.occlusion import grid, hidden, in_pixels, occlude, patches, spread
from tests.test_encoders import tiny_model


class Darkness:
    """An encoder whose cosine with any text is the share of the image's upper left quarter that is black."""

    id, dimension = "darkness", 2

    def encode_text(self, texts: Sequence[str]) -> Vectors:
        return np.array([[1.0, 0.0]] * len(texts), dtype=np.float32)

    def encode_images(self, images: Sequence[Image.Image]) -> Vectors:
        rows = []
        for image in images:
            quarter = np.asarray(image.convert("L"))[: image.height // 2, : image.width // 2]
            share = float((quarter < 10).mean())
            rows.append([share, np.sqrt(1 - share**2)])
        return np.array(rows, dtype=np.float32)


@pytest.mark.parametrize(
    ("size", "cells"), [((800, 800), (8, 8)), ((800, 400), (4, 8)), ((400, 800), (8, 4)), ((800, 10), (2, 8)), ((1, 1), (8, 8))]
)  # fmt: skip
def test_cells_are_about_square_and_the_patch_fits(size: tuple[int, int], cells: tuple[int, int]) -> None:
    assert grid(*size) == cells


def test_patches_slide_by_one_cell() -> None:
    assert patches(2, 4) == [(0, 0, 2, 2), (1, 0, 3, 2), (2, 0, 4, 2)]
    assert in_pixels((1, 0, 3, 2), 2, 4, (200, 100)) == (50, 0, 150, 100)


def test_each_cell_has_the_mean_of_the_patches_over_it() -> None:
    """Patches of two cells over a row of four, two cells high: drops 0.3, 0.1, 0.2 -> 0.3, (0.3 + 0.1) / 2, (0.1 + 0.2) / 2, 0.2."""
    drops = spread(np.array([0.3, 0.1, 0.2], dtype=np.float32), patches(2, 4), 2, 4)
    np.testing.assert_allclose(drops, [[0.3, 0.2, 0.15, 0.2]] * 2, atol=1e-6)


def test_a_patch_is_grey_and_the_image_stays() -> None:
    image = Image.new("RGB", (40, 40), "black")
    copy = hidden(image, (0, 0, 20, 20))
    assert copy.getpixel((19, 19)) == (127, 127, 127) and copy.getpixel((20, 20)) == (0, 0, 0)
    assert image.getextrema() == ((0, 0),) * 3


def test_the_map_is_dark_where_the_encoder_looks() -> None:
    """All black: cosine 1. A patch of 2 x 2 of 8 x 8 cells inside the 4 x 4 of the quarter hides a quarter of it: drop 0.25;
    the corner cell lies under one such patch only, a cell of the other half under none that matters."""
    found = occlude(Image.new("RGB", (160, 160), "black"), "anything", Darkness())
    drops = np.array(found.drops)
    assert found.cosine == pytest.approx(1.0) and drops.shape == (8, 8)
    assert drops[0, 0] == pytest.approx(0.25, abs=1e-6)
    np.testing.assert_allclose(drops[:3, :3], 0.25, atol=1e-6)
    # its right column half hidden by patches that reach over the edge: (0.25 + 0.125) / 2
    assert drops[0, 3] == pytest.approx(0.1875, abs=1e-6)
    np.testing.assert_allclose(drops[5:, :], 0, atol=1e-6)
    np.testing.assert_allclose(drops[:, 5:], 0, atol=1e-6)


def test_clip_makes_a_map_of_its_own_cosines() -> None:
    model, preprocess, tokenizer = tiny_model()
    clip = OpenClipEncoder("tiny-clip", model, preprocess, tokenizer)
    image = Image.radial_gradient("L").convert("RGB").resize((96, 48))
    found = occlude(image, "a survival curve", clip)
    words = normalised(clip.encode_text(["a survival curve"]))[0]
    assert found.cosine == pytest.approx(float(clip.encode_images([image])[0] @ words), abs=1e-5)
    assert np.array(found.drops).shape == (4, 8)
    corner = float(clip.encode_images([hidden(image, (0, 0, 24, 24))])[0] @ words)
    assert found.drops[0][0] == pytest.approx(found.cosine - corner, abs=1e-5)

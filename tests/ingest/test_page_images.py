"""Page images: formats, colour modes, orientation, resolution, limits, damage."""

from __future__ import annotations

import io
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from rag.errors import DocumentError
from rag.ingest.page_images import load_page_image, page_count, page_images

LETTER = (850, 1100)  # 8.5 x 11 inches at 100 dpi


def encoded(image: Image.Image, kind: str = "PNG", **options: object) -> bytes:
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def half_black(mode: str, black: object, white: object, size: tuple[int, int] = LETTER) -> Image.Image:
    """Black on the left, white on the right."""
    image = Image.new(mode, size, white)
    image.paste(black, (0, 0, size[0] // 2, size[1]))
    return image


def sides(image: Image.Image) -> tuple[object, object]:
    """The colours left and right."""
    assert image.mode == "RGB"
    return image.getpixel((10, 10)), image.getpixel((image.width - 10, 10))


@pytest.mark.parametrize(
    ("mode", "black", "white", "kind"),
    [
        ("1", 0, 1, "PNG"),
        ("1", 0, 1, "TIFF"),
        ("L", 0, 255, "JPEG"),
        ("P", 0, 1, "PNG"),
        ("LA", (0, 255), (0, 0), "PNG"),
        ("RGBA", (0, 0, 0, 255), (0, 0, 0, 0), "PNG"),
        ("I;16", 0, 65535, "PNG"),
        ("I;16", 0, 65535, "TIFF"),
        ("CMYK", (0, 0, 0, 255), (0, 0, 0, 0), "TIFF"),
        ("CMYK", (0, 0, 0, 255), (0, 0, 0, 0), "JPEG"),
        ("F", 0.0, 1.0, "TIFF"),
    ],
)
def test_every_colour_mode_comes_out_black_on_white(mode: str, black: object, white: object, kind: str) -> None:
    if mode == "I;16":
        values = np.full((100, 80), 65535, dtype=np.uint16)
        values[:, :40] = 0
        image = Image.fromarray(values)
    else:
        image = half_black(mode, black, white)
    if mode == "P":
        image.putpalette([0, 0, 0, 255, 255, 255])
    left, right = sides(load_page_image(encoded(image, kind)).image)
    assert max(left) < 10  # JPEG is not exact
    assert min(right) > 245


def test_16_bits_keep_their_greys() -> None:
    values = np.full((100, 100), 0x8000, dtype=np.uint16)
    values[0, 0] = 0xFFFF
    assert load_page_image(encoded(Image.fromarray(values))).image.getpixel((50, 50)) == (127, 127, 127)


def test_exif_orientation_is_undone() -> None:
    upright = half_black("L", 0, 255)
    exif = Image.Exif()
    exif[0x0112] = 6  # to be shown turned a quarter clockwise
    stored = encoded(upright.rotate(90, expand=True), "JPEG", exif=exif)
    page = load_page_image(stored)
    assert page.image.size == LETTER
    assert max(page.image.getpixel((10, 550))) < 10


@pytest.mark.parametrize(
    ("stated", "size", "dpi"),
    [
        ((100, 100), LETTER, 100.0),
        (None, LETTER, 1100 / 11.69),
        ((1, 1), LETTER, 1100 / 11.69),
        ((9000, 9000), LETTER, 1100 / 11.69),  # a page of 3 mm
    ],
)
def test_resolution_as_stated_where_it_makes_a_page(
    stated: tuple[int, int] | None, size: tuple[int, int], dpi: float
) -> None:
    options = {} if stated is None else {"dpi": stated}
    page = load_page_image(encoded(Image.new("L", size, 255), "JPEG", **options))
    assert page.dpi == pytest.approx(dpi, rel=1e-3)


def test_a_fax_gets_square_pixels() -> None:
    page = load_page_image(encoded(Image.new("1", (1728, 1100), 1), "TIFF", dpi=(204, 98)))
    assert page.dpi == pytest.approx(204)
    assert page.image.size == (1728, round(1100 * 204 / 98))


def test_pages_of_a_tiff_in_order_and_other_formats_have_one(tmp_path: Path) -> None:
    pages = [Image.new("L", (300, 400), grey) for grey in (10, 100, 200)]
    file = tmp_path / "scan.tif"
    pages[0].save(file, save_all=True, append_images=pages[1:], dpi=(100, 100))
    assert page_count(file) == 3
    greys = [page.image.getpixel((5, 5))[0] for page in page_images(file) if not isinstance(page, DocumentError)]
    assert greys == [10, 100, 200]
    assert len(list(page_images(file, limit=2))) == 2
    with pytest.raises(DocumentError, match=r"scan\.tif has no page 4"):
        load_page_image(file, 4)
    assert page_count(encoded(pages[0])) == 1


def test_a_damaged_page_of_a_tiff_does_not_cost_the_others(tmp_path: Path) -> None:
    pages = [Image.fromarray(np.random.default_rng(k).integers(0, 255, (300, 300), dtype=np.uint8)) for k in range(3)]
    file = tmp_path / "scan.tif"
    pages[0].save(file, save_all=True, append_images=pages[1:], compression="tiff_adobe_deflate")
    content = bytearray(file.read_bytes())
    with Image.open(file) as image:
        image.seek(1)
        offset = image.tag_v2[273][0]  # StripOffsets
    content[offset : offset + 400] = bytes(400)
    file.write_bytes(content)
    results = list(page_images(file))
    assert [isinstance(result, DocumentError) for result in results] == [False, True, False]
    assert "scan.tif is damaged" in str(results[1])


def png_header(width: int, height: int) -> bytes:
    """A PNG that states its size and has next to no data: a decompression bomb's first bytes."""
    chunks = [(b"IHDR", struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0)), (b"IDAT", zlib.compress(b"\0" * 100))]
    body = b"".join(struct.pack(">I", len(d)) + k + d + struct.pack(">I", zlib.crc32(k + d)) for k, d in chunks)
    return b"\x89PNG\r\n\x1a\n" + body


@pytest.mark.parametrize(
    ("side", "reason"), [(10_000, "10,000 x 10,000 pixels; at most 80 million"), (20_000, "too many")]
)
def test_too_many_pixels_are_refused_by_the_header(side: int, reason: str) -> None:
    with pytest.raises(DocumentError, match=reason):
        load_page_image(png_header(side, side), name="plan.png")


def test_the_limit_of_pixels_can_be_set() -> None:
    content = encoded(Image.new("L", (400, 300), 255))
    assert load_page_image(content, max_pixels=120_000).image.size == (400, 300)
    with pytest.raises(DocumentError, match=r"scan\.png has 400 x 300 pixels"):
        load_page_image(content, name="scan.png", max_pixels=119_999)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "no PNG, JPEG or TIFF"),
        (b"GIF89a" + b"\0" * 50, "no PNG, JPEG or TIFF"),
        (encoded(Image.new("L", LETTER, 255), "GIF"), "no PNG, JPEG or TIFF"),
        (encoded(Image.effect_noise(LETTER, 50))[:5000], "damaged"),
        (encoded(Image.effect_noise(LETTER, 50), "JPEG")[:5000], "damaged"),
        (encoded(Image.effect_noise(LETTER, 50), "TIFF")[:5000], "damaged|no PNG"),
    ],
)
def test_what_is_no_image_or_cut_off_is_refused_by_name(content: bytes, reason: str) -> None:
    with pytest.raises(DocumentError, match=reason) as caught:
        load_page_image(content, name="scan.png")
    assert str(caught.value).startswith("scan.png")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(DocumentError, match=r"none\.png: no such file"):
        page_count(tmp_path / "none.png")

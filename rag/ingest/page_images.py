"""Pages that come as pixels: PNG, JPEG and TIFF files (of one or many pages) as upright RGB images with a resolution."""

from __future__ import annotations

import io
import math
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

from rag.errors import DocumentError

SUFFIXES = (".png", ".jpg", ".jpeg", ".tif", ".tiff")
# A page of A3 at 600 dpi has 70 million; what is larger is refused by its header, before a pixel is decoded.
MAX_PIXELS = 80_000_000
_FORMATS = ("PNG", "JPEG", "TIFF")  # the fewer decoders a stranger's file can reach, the better
# Inches of the longest side that a stated resolution may lead to; A4's stands in where it leads elsewhere.
_LEAST_INCHES, _MOST_INCHES, _USUAL_INCHES = 2.0, 60.0, 11.69
_LEAST_STRETCH = 1.1
_FAULTS = (OSError, ValueError, SyntaxError, ArithmeticError, LookupError, TypeError, MemoryError)


@dataclass(frozen=True)
class PageImage:
    """A page: `image` is RGB, upright as its file says, on white, with square pixels; `dpi` are pixels per inch."""

    image: Image.Image
    dpi: float


def page_count(source: Path | bytes, name: str = "") -> int:
    """Pages in the file: the images of a TIFF, else 1.

    Raises:
        DocumentError: it is no image that can be read. `name` stands for the file in the message.
    """
    with _opened(source, name) as image:
        return int(getattr(image, "n_frames", 1)) if image.format == "TIFF" else 1


def load_page_image(
    source: Path | bytes, number: int = 1, *, name: str = "", max_pixels: int = MAX_PIXELS
) -> PageImage:
    """Page `number` (from 1) of an image file, given as its path or its bytes.

    Raises:
        DocumentError: it is no image, is damaged, has no such page or more than `max_pixels` pixels (found from the
        header, so nothing is decoded).
    """
    with _opened(source, name) as image:
        try:
            if number > 1 or image.format == "TIFF":
                image.seek(number - 1)
        except EOFError as error:
            raise DocumentError(f"{_name(source, name)} has no page {number}.") from error
        width, height = image.size
        where = f"{_name(source, name)}, p. {number}" if number > 1 else _name(source, name)
        if width * height > max_pixels:
            raise DocumentError(
                f"{where} has {width:,} x {height:,} pixels; at most {max_pixels / 1e6:,.3g} million are read "
                "(FUSEBOX_MAX_PIXELS). Scale it down."
            )
        image.load()
        stated = image.info.get("dpi")
        upright = ImageOps.exif_transpose(image)
        if upright.size != image.size and isinstance(stated, tuple):
            stated = stated[::-1]
        return _with_square_pixels(_on_white(upright), stated)


def page_images(
    source: Path | bytes, *, name: str = "", limit: int | None = None, max_pixels: int = MAX_PIXELS
) -> Iterator[PageImage | DocumentError]:
    """The pages of an image file in order, one in memory at a time; a page that can't be read is its error.

    Raises:
        DocumentError: the file as a whole can't be read.
    """
    pages = page_count(source, name)
    for number in range(1, min(pages, limit if limit is not None else pages) + 1):
        try:
            yield load_page_image(source, number, name=name, max_pixels=max_pixels)
        except DocumentError as error:
            yield error


def _name(source: Path | bytes, name: str) -> str:
    return name or (source.name if isinstance(source, Path) else "the image")


@contextmanager
def _opened(source: Path | bytes, name: str) -> Iterator[Image.Image]:
    """The image file with its header read; what goes wrong with it in the block becomes a `DocumentError`."""
    name = _name(source, name)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # `max_pixels` is the limit here
            image = Image.open(io.BytesIO(source) if isinstance(source, bytes) else source, formats=_FORMATS)
        with image:
            yield image
    except FileNotFoundError as error:
        raise DocumentError(f"{name}: no such file. Check the path.") from error
    except UnidentifiedImageError as error:
        raise DocumentError(f"{name} is no PNG, JPEG or TIFF image. Save it as one of these first.") from error
    except Image.DecompressionBombError as error:
        most = 2 * (Image.MAX_IMAGE_PIXELS or 0) / 1e6
        raise DocumentError(
            f"{name} has too many pixels: more than {most:,.0f} million are not read, whatever FUSEBOX_MAX_PIXELS says. "
            "Scale it down."
        ) from error
    except _FAULTS as error:
        raise DocumentError(f"{name} is damaged and can't be read ({error}). Save it anew.") from error


def _on_white(image: Image.Image) -> Image.Image:
    """Eight bits a channel, RGB, and what is transparent on white paper."""
    if image.mode in ("I", "F") or image.mode.startswith("I;16"):
        return _eight_bits(image).convert("RGB")
    if image.has_transparency_data:
        image = image.convert("RGBA")
        paper = Image.new("RGBA", image.size, "white")
        return Image.alpha_composite(paper, image).convert("RGB")
    return image.convert("RGB")


def _eight_bits(image: Image.Image) -> Image.Image:
    """16 bits by their high byte; wider numbers have no stated white, so their largest is taken for it."""
    values = np.nan_to_num(np.asarray(image, dtype=np.float64), posinf=0.0, neginf=0.0)
    largest = float(values.max(initial=0.0))
    white = 65_535.0 if 255.0 < largest <= 65_535.0 else max(largest, 1e-9)
    return Image.fromarray(np.clip(values * (255.0 / white), 0, 255).astype(np.uint8))


def _with_square_pixels(image: Image.Image, stated: object) -> PageImage:
    """The image with its resolution; a fax, whose pixels are higher than wide, is stretched."""
    across, down = _resolution(stated)
    if across and down and max(across, down) / min(across, down) > _LEAST_STRETCH:
        finest = max(across, down)
        size = round(image.width * finest / across), round(image.height * finest / down)
        if size[0] * size[1] <= MAX_PIXELS:
            image, across = image.resize(size, Image.Resampling.BICUBIC), finest
    longest = max(image.size)
    if not across or not _LEAST_INCHES <= longest / across <= _MOST_INCHES:
        across = longest / _USUAL_INCHES
    return PageImage(image, across)


def _resolution(stated: object) -> tuple[float, float]:
    """Dots per inch across and down as a file states them; zeros where it does not, or not in earnest."""
    try:
        across, down = (float(value) for value in stated)  # type: ignore[attr-defined]
    except (TypeError, ValueError, ZeroDivisionError):
        return 0.0, 0.0
    if not (math.isfinite(across) and math.isfinite(down)) or min(across, down) <= 1:
        return 0.0, 0.0
    return across, down

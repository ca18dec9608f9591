"""A crop's pixels as a provider takes them, within its limits; the very bytes that go out have a digest."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterator
from dataclasses import dataclass

from PIL import Image

from rag.errors import GeneratorError
from rag.types import PromptImage, SentImage

JPEG_QUALITIES = (90, 80, 70)
_MEDIA_TYPES = {"PNG": "image/png", "JPEG": "image/jpeg", "WEBP": "image/webp"}


@dataclass(frozen=True, slots=True)
class ImageLimits:
    """The images that a provider takes: pixels on the longer side, bytes of the file, formats (as Pillow names
    them)."""

    max_side: int = 2_048
    max_bytes: int = 5_000_000
    formats: frozenset[str] = frozenset({"PNG", "JPEG"})

    def fit(self, width: int, height: int) -> tuple[int, int]:
        """The size an image is sent with; never larger than it is."""
        longer = max(width, height)
        if longer <= self.max_side:
            return width, height
        return max(1, width * self.max_side // longer), max(1, height * self.max_side // longer)


@dataclass(frozen=True, slots=True)
class EncodedImage:
    """The bytes that go out, and what the trace keeps of them."""

    data: bytes
    sent: SentImage


def encode(image: PromptImage, raw: bytes, limits: ImageLimits) -> EncodedImage:
    """``raw`` (a file's bytes) within ``limits``; an image that is within them goes out as it is, byte for byte.

    Raises:
        GeneratorError: the file is no image that can be read, or can't be brought under the limit.
    """
    try:
        with Image.open(io.BytesIO(raw)) as opened:
            form = opened.format or ""
            if form in limits.formats and max(opened.size) <= limits.max_side and len(raw) <= limits.max_bytes:
                return _encoded(image, raw, _MEDIA_TYPES[form], opened.size, reencoded=False)
            pixels = _flat(opened)
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise GeneratorError(
            f"The crop {image.crop_id} can't be read as an image ({type(error).__name__}); leave it out, or build the corpus again."
        ) from None
    for data, media_type, size in _encodings(pixels, limits):
        if len(data) <= limits.max_bytes:
            return _encoded(image, data, media_type, size, reencoded=True)
    raise GeneratorError(
        f"The crop {image.crop_id} can't be brought under {limits.max_bytes:,} bytes; leave it out, or send captions instead."
    )


def _flat(opened: Image.Image) -> Image.Image:
    """RGB on white: a transparent ground would turn black."""
    if opened.mode in ("RGB", "L"):
        return opened.copy()
    layered = opened.convert("RGBA")
    ground = Image.new("RGBA", layered.size, "white")
    return Image.alpha_composite(ground, layered).convert("RGB")


def _encodings(pixels: Image.Image, limits: ImageLimits) -> Iterator[tuple[bytes, str, tuple[int, int]]]:
    """Ever smaller encodings: PNG, then JPEG of falling quality, then the same at half the size."""
    width, height = limits.fit(*pixels.size)
    while min(width, height) >= 1 and max(width, height) >= 64:
        scaled = pixels if pixels.size == (width, height) else pixels.resize((width, height), Image.Resampling.LANCZOS)
        yield _saved(scaled, "PNG"), "image/png", scaled.size
        for quality in JPEG_QUALITIES:
            yield _saved(scaled, "JPEG", quality=quality), "image/jpeg", scaled.size
        width, height = max(1, width // 2), max(1, height // 2)


def _saved(pixels: Image.Image, form: str, **options: int) -> bytes:
    out = io.BytesIO()
    pixels.save(out, form, **options)
    return out.getvalue()


def _encoded(
    image: PromptImage, data: bytes, media_type: str, size: tuple[int, int], *, reencoded: bool
) -> EncodedImage:
    digest = hashlib.sha256(data).hexdigest()
    width, height = size
    return EncodedImage(
        data, SentImage(image.tag, image.crop_id, digest, media_type, width, height, len(data), reencoded)
    )

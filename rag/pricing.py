"""What a call costs: image-token rules, estimates before a call, and the cost of the tokens that a provider reported.

Prices are kept with each generator (``rag.generators.registry``). A rule for image tokens is the provider's own, as
documented, and names its source; where there is none the number is unknown, and so is every sum that it is part of.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import TYPE_CHECKING

from rag import prompt as prompts
from rag.types import Estimate, Prompt

if TYPE_CHECKING:
    from rag.generators.registry import GeneratorSpec

Counter = Callable[[str], int]

ASSUMED_OUTPUT_TOKENS = 40
"""A short answer with its citation; an estimate's cost supposes so many."""

TEXT_MARGIN = 1.25
"""Tokenizers differ; a spending cap reckons with this many times the counted text tokens."""

COUNTING_ENCODER = "all-MiniLM-L6-v2-int8"


@dataclass(frozen=True, slots=True)
class ImageRule:
    """How a provider turns an image of (width, height) px into input tokens, and where it says so."""

    name: str
    tokens: Callable[[int, int], int]
    source: str


def _openai_tiles(base: int, tile: int) -> Callable[[int, int], int]:
    """Fit into 2048 x 2048, then the shorter side to at most 768, then count 512 px tiles. Smaller images are not
    enlarged: the study reports 275 more input tokens with an image on GPT-4o, while four tiles, the least after
    enlarging, would be 765."""

    def tokens(width: int, height: int) -> int:
        scale = min(Fraction(1), Fraction(2048, max(width, height)))
        scale *= min(Fraction(1), Fraction(768) / (scale * min(width, height)))
        tiles = math.ceil(scale * width / 512) * math.ceil(scale * height / 512)
        return base + tile * tiles

    return tokens


def _gemini_2(width: int, height: int) -> int:
    if width <= 384 and height <= 384:
        return 258
    return 258 * math.ceil(width / 768) * math.ceil(height / 768)


def _gemini_3(_width: int, _height: int) -> int:
    return 1120


LLAMA_4_TILE_PX = 336
LLAMA_4_MAX_TILES = 16
LLAMA_4_TILE_TOKENS = (LLAMA_4_TILE_PX // 14) ** 2 // 4
"""144: 14 px patches, pixel shuffle with ratio 0.5."""


def _llama_4(width: int, height: int) -> int:
    """A canvas of at most 16 tiles: the one that enlarges least, else shrinks least, of equals the smallest. Each tile
    and its separator, a tile of the whole where there are several, and three marks."""
    canvases = [
        (rows, columns)
        for rows in range(1, LLAMA_4_MAX_TILES + 1)
        for columns in range(1, LLAMA_4_MAX_TILES // rows + 1)
    ]

    def scale(canvas: tuple[int, int]) -> Fraction:
        rows, columns = canvas
        return min(Fraction(rows * LLAMA_4_TILE_PX, height), Fraction(columns * LLAMA_4_TILE_PX, width))

    enlarging = [scale(canvas) for canvas in canvases if scale(canvas) >= 1]
    wanted = min(enlarging) if enlarging else max(map(scale, canvases))
    tiles = min(rows * columns for rows, columns in canvases if scale((rows, columns)) == wanted)
    whole = 3 + LLAMA_4_TILE_TOKENS
    return whole if tiles == 1 else whole + tiles * (LLAMA_4_TILE_TOKENS + 1)


def _claude(width: int, height: int) -> int:
    scale = min(1.0, 1568 / max(width, height))
    return min(1600, math.ceil(scale * width * scale * height / 750))


_OPENAI_SOURCE = (
    "OpenAI, Images and vision, Calculating costs, detail high: {base} tokens and {tile} for each 512 px tile"
)

IMAGE_RULES: dict[str, ImageRule] = {
    rule.name: rule
    for rule in (
        ImageRule("gpt-4o", _openai_tiles(85, 170), _OPENAI_SOURCE.format(base=85, tile=170)),
        ImageRule("gpt-4o-mini", _openai_tiles(2833, 5667), _OPENAI_SOURCE.format(base=2833, tile=5667)),
        ImageRule(
            "gemini-2",
            _gemini_2,
            "Google, Gemini API, Understand and count tokens: 258 up to 384 px on both sides, else 258 for each 768 px tile",
        ),
        ImageRule(
            "gemini-3",
            _gemini_3,
            "Google, Gemini API, Media resolution, Gemini 3 models: at most 1,120 for an image at the default (high) resolution",
        ),
        ImageRule(
            "claude",
            _claude,
            "Anthropic, Vision, Calculate image costs: width x height / 750, after scaling to at most 1,568 px and about 1,600 tokens",
        ),
        ImageRule(
            "llama-4",
            _llama_4,
            "Meta's Llama 4 processor in Hugging Face transformers (models/llama4): 336 px tiles of 144 tokens, at most 16, and one "
            "of the whole; the host documents no rule of its own",
        ),
    )
}

FLAT_RULE = "flat:"
"""``flat:1000`` is 1,000 tokens for every image; the source is the operator."""


def image_rule(name: str) -> ImageRule | None:
    """The rule called ``name``; ``None`` where there is no such rule, which means unknown."""
    if name.startswith(FLAT_RULE) and name.removeprefix(FLAT_RULE).isdecimal():
        flat = int(name.removeprefix(FLAT_RULE))
        return ImageRule(name, lambda _width, _height: flat, "the operator's FUSEBOX_ENDPOINTS")
    return IMAGE_RULES.get(name)


def image_tokens(prompt: Prompt, spec: GeneratorSpec) -> tuple[int, ...] | None:
    """Tokens of each of the prompt's images on this generator, at the size it is sent with; ``None`` where no rule is
    known."""
    if not prompt.images:
        return ()
    if not spec.vision:
        return tuple(0 for _ in prompt.images)
    rule = image_rule(spec.image_rule)
    if rule is None:
        return None
    return tuple(rule.tokens(*spec.image_limits.fit(image.width, image.height)) for image in prompt.images)


@cache
def default_counter() -> Counter:
    """Word pieces by the embedded encoder's tokenizer; no provider's own, so every count made with it is an
    estimate."""
    from rag.encoders import text_encoder

    return text_encoder(COUNTING_ENCODER).count_tokens


def cost_usd(spec: GeneratorSpec, input_tokens: int | None, output_tokens: int | None) -> float | None:
    """Cost of one call, or ``None`` where a price or a count is unknown; a free generator costs 0 whatever it
    counts."""
    prices = (spec.usd_per_million_input, spec.usd_per_million_output)
    if prices == (0, 0):
        return 0.0
    if prices[0] is None or prices[1] is None or input_tokens is None or output_tokens is None:
        return None
    return (input_tokens * prices[0] + output_tokens * prices[1]) / 1e6


def is_paid(spec: GeneratorSpec) -> bool:
    """Whether a call costs something or, where a price is unknown, may."""
    return cost_usd(spec, 1, 1) != 0


def estimate(prompt: Prompt, spec: GeneratorSpec, count: Counter | None = None) -> Estimate:
    """What asking ``spec`` this very prompt would take.

    Args:
        prompt: with its images; a generator without vision is reckoned without them, and the note says so.
        spec: the generator.
        count: a token counter; the embedded one if not given.
    """
    return estimates(prompt, [spec], count)[0]


def estimates(prompt: Prompt, specs: Iterable[GeneratorSpec], count: Counter | None = None) -> tuple[Estimate, ...]:
    """``estimate`` for several generators; the text is counted once."""
    counter = count or default_counter()
    text = sum(counter(message.content) for message in prompt.messages)
    return tuple(_estimate(prompt, spec, text) for spec in specs)


def _estimate(prompt: Prompt, spec: GeneratorSpec, text: int) -> Estimate:
    images = image_tokens(prompt, spec)
    pixels = None if images is None else sum(images)
    total = None if pixels is None else text + pixels
    upper = None if pixels is None else math.ceil(TEXT_MARGIN * text) + pixels
    return Estimate(
        generator=spec.name,
        input_tokens=total,
        text_tokens=text,
        image_tokens=pixels,
        output_tokens=ASSUMED_OUTPUT_TOKENS,
        cost_usd=cost_usd(spec, total, ASSUMED_OUTPUT_TOKENS),
        limit_usd=cost_usd(spec, upper, spec.max_output_tokens),
        note=_note(prompt, spec, pixels),
    )


def _note(prompt: Prompt, spec: GeneratorSpec, pixels: int | None) -> str:
    if prompt.images and not spec.vision:
        return f"{spec.label} takes no images: it would get the caption and the text read off instead."
    if pixels is None:
        return f"How many tokens an image takes on {spec.label} is not known."
    return ""


def split(prompt: Prompt, spec: GeneratorSpec, total: int | None, count: Counter | None = None) -> tuple[int, ...]:
    """Estimated tokens per segment, images included, adding up to ``total``: the input tokens reported or estimated.

    An image whose tokens no rule gives gets what the text leaves of the total.
    """
    return prompts.segment_tokens(prompt, count or default_counter(), total, image_tokens(prompt, spec))

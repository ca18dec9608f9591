"""``GENERATORS``: name -> ``GeneratorSpec``. What a generator is, what it needs, and how to get one.

The study's generators with the prices of its Table I, the embedded reader, and the operator's endpoints. The providers'
own price pages were not read: an operator who knows newer prices puts them into the file of ``FUSEBOX_ENDPOINTS``.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from rag.errors import UsageError
from rag.generators import endpoints, gemini, openai_chat
from rag.generators.extractive import ExtractiveReader
from rag.generators.images import ImageLimits
from rag.generators.spec import Access, Call, GeneratorSpec, Timeouts
from rag.pricing import cost_usd
from rag.types import Generator

__all__ = [
    "GENERATORS",
    "LISTED",
    "Access",
    "Call",
    "GeneratorSpec",
    "Timeouts",
    "cost_usd",
    "generator_named",
    "load_generators",
]

OPENAI_URL = "https://api.openai.com/v1"
DEEPINFRA_URL = "https://api.deepinfra.com/v1/openai"
GEMINI_URL = "https://generativelanguage.googleapis.com"

PRICES_SOURCE = "the study, Table I (prices at the time of its experiments)"
PRICES_READ = "2026-11-30"
"""The day on which Table I was read."""

# Documented limits: OpenAI 50 MB a request, DeepInfra 20 MB an image, Gemini 7 MB a file sent inline; all three take
# PNG, JPEG and WebP. OpenAI scales to 2,048 px itself.
_FORMATS = frozenset({"PNG", "JPEG", "WEBP"})
_OPENAI_IMAGES = ImageLimits(max_side=2_048, max_bytes=15_000_000, formats=_FORMATS)
_DEEPINFRA_IMAGES = ImageLimits(max_side=2_048, max_bytes=15_000_000, formats=_FORMATS)
_GEMINI_IMAGES = ImageLimits(max_side=3_072, max_bytes=7_000_000, formats=_FORMATS)


def _extractive(_spec: GeneratorSpec, _call: Call) -> Generator:
    return ExtractiveReader()


def _openai(name: str, label: str, access: Access, price_in: float, price_out: float) -> GeneratorSpec:
    return GeneratorSpec(
        name=name,
        label=label,
        access=access,
        vision=True,
        needs="an OpenAI key: OPENAI_API_KEY",
        usd_per_million_input=price_in,
        usd_per_million_output=price_out,
        maker=openai_chat.make,
        provider="OpenAI",
        model=name,
        prices_read=PRICES_READ,
        prices_source=PRICES_SOURCE,
        image_rule=name,
        image_limits=_OPENAI_IMAGES,
        key_env="OPENAI_API_KEY",
        base_url=OPENAI_URL,
    )


def _llama(name: str, label: str, model: str, price_in: float, price_out: float) -> GeneratorSpec:
    return GeneratorSpec(
        name=name,
        label=label,
        access="open",
        vision=True,
        needs="a DeepInfra key: DEEPINFRA_TOKEN",
        usd_per_million_input=price_in,
        usd_per_million_output=price_out,
        maker=openai_chat.make,
        provider="DeepInfra",
        model=model,
        prices_read=PRICES_READ,
        prices_source=PRICES_SOURCE,
        image_rule="llama-4",
        image_limits=_DEEPINFRA_IMAGES,
        key_env="DEEPINFRA_TOKEN",
        base_url=DEEPINFRA_URL,
    )


EXTRACTIVE = GeneratorSpec(
    name="extractive",
    label="Extractive reader",
    access="embedded",
    vision=False,
    needs="nothing: no key, no network",
    usd_per_million_input=0.0,
    usd_per_million_output=0.0,
    maker=_extractive,
    provider="Fusebox",
)

GEMINI = GeneratorSpec(
    name="gemini-3.1-flash-lite",
    label="Gemini 3.1 Flash-Lite",
    access="closed",
    vision=True,
    needs="a Gemini key: GEMINI_API_KEY",
    usd_per_million_input=0.10,
    usd_per_million_output=0.40,
    maker=gemini.make,
    provider="Google",
    model="gemini-3.1-flash-lite",
    prices_read=PRICES_READ,
    prices_source=PRICES_SOURCE,
    image_rule="gemini-3",
    image_limits=_GEMINI_IMAGES,
    key_env="GEMINI_API_KEY",
    base_url=GEMINI_URL,
    # Thinking counts towards the limit.
    max_output_tokens=2_048,
)

LISTED: dict[str, GeneratorSpec] = {
    spec.name: spec
    for spec in (
        EXTRACTIVE,
        _llama("llama-4-scout", "Llama 4 Scout", "meta-llama/Llama-4-Scout-17B-16E-Instruct", 0.08, 0.30),
        _llama("llama-4-maverick", "Llama 4 Maverick", "meta-llama/Llama-4-Maverick-17B-128E-Instruct-FP8", 0.15, 0.60),
        _openai("gpt-4o-mini", "GPT-4o-mini", "closed", 0.15, 0.60),
        GEMINI,
        _openai("gpt-4o", "GPT-4o", "diagnostic", 2.50, 10.00),
    )
}
"""Without the operator's file."""


@cache
def _with_endpoints(path: str) -> dict[str, GeneratorSpec]:
    return endpoints.load(Path(path), LISTED)


def load_generators(path: str) -> Mapping[str, GeneratorSpec]:
    """All generators, with those of the operator's file ``path`` (none if empty); the file is read once.

    Raises:
        UsageError: the file is wrong; names the place.
    """
    return _with_endpoints(path) if path else LISTED


class _Generators(Mapping[str, GeneratorSpec]):
    """All generators by name; the operator's file is read when they are first looked at, not at import."""

    def _all(self) -> Mapping[str, GeneratorSpec]:
        return load_generators(os.environ.get("FUSEBOX_ENDPOINTS", ""))

    def __getitem__(self, name: str) -> GeneratorSpec:
        return self._all()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())


GENERATORS: Mapping[str, GeneratorSpec] = _Generators()


def generator_named(name: str) -> GeneratorSpec:
    """The generator called ``name``.

    Raises:
        UsageError: no such generator; lists those there are.
    """
    try:
        return GENERATORS[name]
    except KeyError:
        raise UsageError(f"There is no generator {name!r}; choose one of {', '.join(GENERATORS)}.") from None

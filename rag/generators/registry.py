"""``GENERATORS``: name -> ``GeneratorSpec``. What a generator is, what it needs, and how to get one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from rag.errors import UsageError
from rag.generators.extractive import ExtractiveReader
from rag.types import Generator

Access = Literal["embedded", "open", "closed", "diagnostic"]


@dataclass(frozen=True, slots=True)
class GeneratorSpec:
    """One generator as the page lists it. Prices are USD per million tokens; ``None`` is unknown."""

    name: str
    label: str
    access: Access
    vision: bool
    needs: str
    usd_per_million_input: float | None
    usd_per_million_output: float | None
    make: Callable[[], Generator]


GENERATORS: dict[str, GeneratorSpec] = {
    spec.name: spec
    for spec in (
        GeneratorSpec(
            name="extractive",
            label="Extractive reader",
            access="embedded",
            vision=False,
            needs="nothing: no key, no network",
            usd_per_million_input=0.0,
            usd_per_million_output=0.0,
            make=ExtractiveReader,
        ),
    )
}


def generator_named(name: str) -> GeneratorSpec:
    """The generator called ``name``.

    Raises:
        UsageError: no such generator; lists those there are.
    """
    try:
        return GENERATORS[name]
    except KeyError:
        raise UsageError(f"There is no generator {name!r}; choose one of {', '.join(GENERATORS)}.") from None


def cost_usd(spec: GeneratorSpec, input_tokens: int | None, output_tokens: int | None) -> float | None:
    """Cost of one call, or ``None`` where a price or a count is unknown; a free generator costs 0 whatever it counts."""
    if spec.usd_per_million_input == 0 and spec.usd_per_million_output == 0:
        return 0.0
    if None in (spec.usd_per_million_input, spec.usd_per_million_output, input_tokens, output_tokens):
        return None
    assert spec.usd_per_million_input is not None and spec.usd_per_million_output is not None
    assert input_tokens is not None and output_tokens is not None
    return (input_tokens * spec.usd_per_million_input + output_tokens * spec.usd_per_million_output) / 1e6

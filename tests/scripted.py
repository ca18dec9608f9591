"""A generator that plays back what a test wrote down, and records the prompts it got."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from rag.generators.registry import GENERATORS, GeneratorSpec
from rag.types import Delta, Finish, Prompt, Usage


@dataclass
class Scripted:
    """``events`` are yielded in order; an exception among them is raised."""

    events: Sequence[Delta | Finish | Exception]
    prompts: list[Prompt] = field(default_factory=list)

    def stream(self, prompt: Prompt) -> Iterator[Delta | Finish]:
        self.prompts.append(prompt)
        for event in self.events:
            if isinstance(event, Exception):
                raise event
            yield event


DONE = Finish(Usage(100, 10, None, "reported"), "stop")


def scripted(
    *events: Delta | Finish | Exception, vision: bool = False, price: float | None = 1.0
) -> tuple[GeneratorSpec, Scripted]:
    """A spec that makes the scripted generator, and the generator."""
    from dataclasses import replace

    generator = Scripted(events)
    spec = replace(
        GENERATORS["extractive"],
        name="scripted",
        label="Scripted",
        vision=vision,
        usd_per_million_input=price,
        usd_per_million_output=price,
        maker=lambda spec, call: generator,
    )
    return spec, generator

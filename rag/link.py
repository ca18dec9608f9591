"""A link that restores question, system, generator and settings, and nothing else.

Only the names below are read; a link holds no result, no key and no file. What it names wrongly is said and left at its default.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from urllib.parse import parse_qsl

from rag.errors import UsageError
from rag.pipeline import clean_question
from rag.systems import CHOICES, LIMITS, SYSTEMS, system_named, tuned
from rag.types import System

MAX_LINK_CHARS = 8_000
"""Of the query part; a question of ``MAX_QUESTION_CHARS`` fits in, percent-encoded, unless it is all in another script."""

_MAX_SHOWN = 60
_MAX_FIELDS = 30


@dataclass(frozen=True, slots=True)
class Link:
    """What a link asks for. ``generator`` and ``question`` are empty where it names none; ``problems`` says in a sentence each what
    it named that can't be had."""

    question: str = ""
    system: System | None = None
    generator: str = ""
    problems: tuple[str, ...] = ()

    @property
    def empty(self) -> bool:
        """Whether there is nothing in it for us."""
        return self == Link()


@dataclass(slots=True)
class _Reader:
    """Fields one by one; what is wrong is collected."""

    generators: Collection[str]
    question: str = ""
    generator: str = ""
    system: System | None = None
    knobs: dict[str, int | str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def take(self, name: str, value: str) -> None:
        try:
            if name == "q":
                self.question = clean_question(value)
            elif name == "system":
                self.system = system_named(value)
            elif name == "generator":
                self.generator = self._generator(value)
            elif name in LIMITS or name in CHOICES:
                knob = (
                    int(value) if name in LIMITS and value.isascii() and value.isdigit() and len(value) < 9 else value
                )
                tuned(SYSTEMS["baseline"], **{name: knob})
                self.knobs[name] = knob
        except UsageError as error:
            self.problems.append(f"Not followed from the link: {_cut(str(error))}")

    def _generator(self, value: str) -> str:
        if value not in self.generators:
            raise UsageError(f"There is no generator {_cut(value)!r} here.")
        return value

    def link(self) -> Link:
        system = self.system
        if self.knobs:
            system = tuned(system or SYSTEMS["+both"], **self.knobs)
        return Link(self.question, system, self.generator, tuple(dict.fromkeys(self.problems)))


def read(query: str, generators: Collection[str]) -> Link:
    """What the query part of an address (without ``?``) asks for; never raises.

    Args:
        query: percent-encoded fields.
        generators: the names that can be asked for.
    """
    if len(query) > MAX_LINK_CHARS:
        return Link(problems=(f"This link is longer than {MAX_LINK_CHARS:,} characters, so nothing of it was used.",))
    try:
        fields = parse_qsl(query, max_num_fields=_MAX_FIELDS)
    except ValueError:
        return Link(problems=(f"This link has more than {_MAX_FIELDS} fields, so nothing of it was used.",))
    reader = _Reader(generators)
    for name, value in fields:
        reader.take(name, value)
    return reader.link()


def settings_of(system: System) -> Mapping[str, int | str]:
    """Every knob of a system by name."""
    return {name: getattr(system, name) for name in (*LIMITS, *CHOICES)}


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_SHOWN * 3 else f"{text[: _MAX_SHOWN * 3]}…"

"""``SYSTEMS``: name -> ``System``. A system is a value, so a further design is a further row.

The study's four (section III-A, eq. 4) differ in nothing but (alpha, beta), whether graph and visual evidence are included.
"""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any, get_args, get_type_hints

from rag.errors import UsageError
from rag.types import System

SYSTEMS: dict[str, System] = {
    system.name: system
    for system in (
        System("baseline", ("text",), label="text only"),
        System("+KG", ("text", "graph"), label="text and knowledge graph"),
        System("+multimodal", ("text", "visual"), label="text, figures and tables"),
        System("+both", ("text", "graph", "visual"), label="all three"),
    )
}

LIMITS: dict[str, tuple[int, int]] = {
    "text_k": (1, 20),
    "visual_depth": (1, 30),
    "captions_k": (1, 10),
    "max_facts": (0, 50),
    "min_entity_chars": (1, 50),
}
"""Inclusive range of every whole-number knob."""

CHOICES: dict[str, tuple[str, ...]] = {
    name: get_args(hint)
    for name, hint in get_type_hints(System).items()
    if name not in {"branches", *LIMITS} and get_args(hint)
}
"""Allowed words of every knob that takes one."""


def system_named(name: str) -> System:
    """The system called ``name``.

    Raises:
        UsageError: no such system; lists those there are.
    """
    try:
        return SYSTEMS[name]
    except KeyError:
        raise UsageError(f"There is no system {name!r}; choose one of {', '.join(SYSTEMS)}.") from None


def preset_for(graph: bool, visual: bool) -> str:
    """The study's name of a switch position (alpha, beta)."""
    return {(False, False): "baseline", (True, False): "+KG", (False, True): "+multimodal", (True, True): "+both"}[
        (bool(graph), bool(visual))
    ]


def tuned(system: System, **knobs: Any) -> System:
    """``system`` with some knobs turned, each checked.

    Raises:
        UsageError: an unknown knob, or a value out of its range; names both.
    """
    known = {f.name for f in fields(System)} - {"name", "label", "branches"}
    for name, value in knobs.items():
        if name not in known:
            raise UsageError(f"A system has no setting {name!r}; it has {', '.join(sorted(known))}.")
        if name in LIMITS:
            low, high = LIMITS[name]
            if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
                raise UsageError(f"{name} is {value!r}; it must be a whole number from {low} to {high}.")
        elif value not in CHOICES[name]:
            raise UsageError(f"{name} is {value!r}; it must be one of {', '.join(CHOICES[name])}.")
    return replace(system, **knobs)

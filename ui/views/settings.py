"""A system's settings in words, for places that say which ones an answer was given with."""

from __future__ import annotations

import json
from collections.abc import Mapping

from rag.types import System, Trace
from ui import text as words

_NAMES: Mapping[str, str] = {"bm25": "BM25", "clip": "CLIP", **words.GRAPH_MODES}

PHRASES: Mapping[str, str] = {
    "text_ranker": "text ranker {}",
    "text_k": "chunks {}",
    "graph_mode": "facts from {}",
    "max_facts": "facts at most {}",
    "visual_ranker": "visual ranker {}",
    "visual_depth": "crops scored {}",
    "payload": "visual payload {}",
}
"""Each setting that the page has a control for, as it stands in a sentence."""


def phrases(system: System) -> dict[str, str]:
    """Setting -> what it is, in words."""
    values = {name: str(getattr(system, name)) for name in PHRASES}
    return {name: phrase.format(_NAMES.get(values[name], values[name])) for name, phrase in PHRASES.items()}


def line(system: System) -> str:
    """All of them in a row."""
    return ", ".join(phrases(system).values())


def asked_with(trace: Trace, generator_label: str) -> str:
    """What the page's controls would have to say for this answer to be theirs: control -> value and words, as JSON."""
    said = {
        "question": (trace.question, ""),
        "preset": (trace.system.name, trace.system.name),
        "generator": (trace.generator, generator_label),
        **{name: (str(getattr(trace.system, name)), told) for name, told in phrases(trace.system).items()},
    }
    return json.dumps(said, ensure_ascii=False)

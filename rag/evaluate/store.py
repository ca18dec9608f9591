"""Runs, results and traces in one SQLite file: write-ahead log, versioned schema, safe from several threads, read by several processes.

A result is written the moment it is finished, in one transaction: a process that is killed loses none.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import sqlite3
import threading
import uuid
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import astuple, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, Protocol, cast

from pydantic import TypeAdapter

from rag import trace as traces
from rag.errors import TraceError, UsageError
from rag.evaluate.questions import Question
from rag.settings import ASSETS
from rag.types import System, Trace

RUNS_FOLDER = ASSETS.parent / "build" / "runs"
"""Where runs go if nobody says otherwise."""
SHIPPED_RUN = ASSETS / "runs" / "demo-extractive.sqlite"
FILE_NAME = "runs.sqlite"
SUFFIX = ".sqlite"

Place = Literal["sent", "found", "missed", "off"]
"""Of a gold source: in the prompt; ranked but not sent; not found at the depth ranked; its branch is off."""
RunState = Literal["complete", "incomplete", "running"]
Verdicts = Mapping[str, Mapping[str, bool | None]]
"""Judge -> metric (``accuracy``, ``faithfulness``, ``relevancy``) -> verdict; ``None`` is unparseable: it counts 0 and is counted."""


@dataclass(frozen=True, slots=True)
class Result:
    """One question through one system and one generator.

    ``ranks`` has one entry per gold source: the rank of its best item in the ranking of the modality that holds the answer, ``None``
    where it was not found at the depth ranked or that branch is off; ``places`` tells these apart. ``input_tokens``, ``output_tokens``
    and ``cost_usd`` ``None`` are unknown and never 0. A ``failed`` result has an ``error`` and is never scored.
    """

    run: str
    question_id: str
    set: str
    type: str
    question: str
    reference: str
    sources: tuple[str, ...]
    system: str
    generator: str
    state: Literal["done", "failed"]
    answer: str
    abstained: bool
    input_tokens: int | None
    output_tokens: int | None
    tokens_source: str
    cost_usd: float | None
    retrieval_ms: float
    latency_ms: float
    ttft_ms: float | None
    ranks: tuple[int | None, ...]
    verdicts: Verdicts = field(default_factory=dict)
    error: str = ""
    trace_id: str = ""
    places: tuple[Place, ...] = ()


@dataclass(frozen=True, slots=True)
class Run:
    """What was asked of whom, and how far it is. ``judges`` are those whose verdicts are there; ``note`` says in words what a reader of
    the figures must know (CLIP absent, say)."""

    id: str
    created: str
    label: str
    corpus_id: str
    sets: tuple[str, ...]
    systems: tuple[str, ...]
    generators: tuple[str, ...]
    judges: tuple[str, ...]
    state: RunState
    planned: int
    done: int
    failed: int
    note: str = ""


class Planned(Protocol):
    """What the store keeps of a plan (``rag.evaluate.runner.Plan``)."""

    @property
    def questions(self) -> Sequence[Question]: ...
    @property
    def systems(self) -> Sequence[System]: ...
    @property
    def generator_names(self) -> tuple[str, ...]: ...
    @property
    def by_type(self) -> bool: ...
    @property
    def label(self) -> str: ...


def question_id(question: Question) -> str:
    """16 hex digits that name a question of a set, whatever its place in the file."""
    return hashlib.sha256(f"{question.set}\n{question.q}".encode()).hexdigest()[:16]

"""The endpoints ``/ask``, ``/compare``, ``/retrieve`` and ``/corpus_info``, which are MCP tools too.

Each gives one JSON document as a string: MCP's results are text, and a document that reaches every client as the same characters
can be compared. Keys are never an input: generators are reached with the operator's, within the spending caps, and nothing
of a visitor's session (keys, documents) can be reached. The docstrings of the endpoints are what MCP shows to a model.
"""

# Without `from __future__ import annotations`: Gradio reads the types of the endpoints as they stand here.

import importlib.util
import json
import logging
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, TypeVar

import gradio as gr

from rag import compare, pipeline
from rag import trace as traces
from rag.compare import Cell, CellState
from rag.corpus import Corpus, describe
from rag.errors import FuseboxError, UsageError
from rag.evaluate.questions import locate, reference_for
from rag.generators.access import Access
from rag.generators.spec import GeneratorSpec
from rag.systems import SYSTEMS, system_named, tuned
from rag.types import System
from ui.compare_desk import cells_of
from ui.handlers import Handlers

MAX_LISTED = 200
"""Items to leave out, systems or generators in one request."""

MAX_NAME_CHARS = 500

MAX_SECONDS = 300.0
"""A request's generators end as cancelled after this long."""

STUDY = ["baseline", "+KG", "+multimodal", "+both"]
READER = "extractive"

NO_MCP = (
    "The mcp package is not installed, so the endpoints are served without MCP: pip install 'mcp>=1.21,<2' adds it."
)

_log = logging.getLogger(__name__)


def wire(handlers: Handlers, concurrency: int, page: gr.Blocks) -> None:
    """Add the endpoints to the page that is being built; before its events, so that no event has taken their names."""
    endpoints = Endpoints(handlers, partial(_has_left, page))
    for endpoint in (endpoints.ask, endpoints.compare, endpoints.retrieve, endpoints.corpus_info):
        gr.api(endpoint, api_name=endpoint.__name__, concurrency_limit=concurrency)


def mcp_installed() -> bool:
    """Whether MCP can be served; says so in the log where it can't."""
    found = importlib.util.find_spec("mcp") is not None
    if not found:
        _log.warning(NO_MCP)
    return found


def _has_left(page: gr.Blocks, session: str) -> bool:
    """Whether nobody listens to what runs for a session any more. Gradio marks it and lets it run on: it can stop between the
    pieces of an answer, and these endpoints give theirs in one."""
    running = [event for job in page._queue.active_jobs for event in job or () if event.session_hash == session]
    return bool(running) and not any(event.alive for event in running)


@dataclass(frozen=True, slots=True)
class Endpoints:
    """What the endpoints do. They know the operator's first corpus and no session's own. ``has_left`` says whether the sender of a
    session's requests has hung up, as far as anybody knows."""

    handlers: Handlers
    has_left: Callable[[str], bool] = lambda session: False

    def ask(
        self,
        request: gr.Request,
        question: str,
        system: str = "+both",
        generator: str = READER,
        exclude: list[str] | None = None,
        refill: bool = False,
        settings: dict[str, Any] | None = None,
    ) -> str:
        """Answer a question about the documents of this corpus, with citations, and show everything the answer rests on.
        The answer is in generation.text; its tags such as [T1] are resolved by prompt.tags.

        Args:
            question: The question, in plain words, at most 2,000 characters.
            system: Which evidence is used: baseline (text), +KG (text and graph facts), +multimodal (text, figures and tables), +both.
            generator: Who answers; extractive needs no key. The others are listed by corpus_info.
            exclude: Ids of chunks, facts (triple:N) and crops to leave out of the prompt.
            refill: Whether the next-ranked items take the places of those left out.
            settings: Retrieval settings that differ from the usual ones, such as {"text_k": 5} or {"graph_mode": "bridge"}.

        Returns:
            The whole trace as a JSON document.
        """
        with _told():
            cell = self._cell(system, generator, settings)
            found = pipeline.ask(
                _words("question", question),
                cell.system,
                cell.generator,
                self._corpus,
                exclude=_names("exclude", exclude),
                refill=_flag("refill", refill),
                stopped=self._stopped(request),
                access=self._access(request),
            )
            return traces.dumps(_last(found))

    def compare(
        self,
        request: gr.Request,
        question: str,
        systems: list[str] | None = None,
        generators: list[str] | None = None,
    ) -> str:
        """Answer one question with several systems and generators, to see what each kind of evidence added and what it cost.

        Args:
            question: The question, in plain words, at most 2,000 characters.
            systems: Names of systems; the study's four (baseline, +KG, +multimodal, +both) if not given.
            generators: Names of generators; extractive, which needs no key, if not given.

        Returns:
            A JSON document: the reference answer where the question is known, and a cell for each generator and system with its
            trace, what it added to the first system of its row, its differences to that one, and where the gold evidence ranked.
        """
        with _told():
            asked = pipeline.clean_question(_words("question", question))
            wanted = _names("systems", systems or STUDY), _names("generators", generators or [READER])
            cells = cells_of(*wanted, self.handlers.generators)
            states = _last(
                compare.compare(
                    asked, cells, self._corpus, stopped=self._stopped(request), access=self._access(request)
                )
            )
            return json.dumps(_report(asked, states, self._corpus), ensure_ascii=False)

    def retrieve(
        self,
        question: str,
        system: str = "+both",
        generator: str = READER,
        settings: dict[str, Any] | None = None,
    ) -> str:
        """Find the evidence for a question (passages, graph facts, figures and tables) without answering it; nothing is spent.

        Args:
            question: The question, in plain words, at most 2,000 characters.
            system: Which evidence is used: baseline (text), +KG (text and graph facts), +multimodal (text, figures and tables), +both.
            generator: For whom the prompt would be; one that sees gets figures as pixels, others their words. It is not called.
            settings: Retrieval settings that differ from the usual ones, such as {"text_k": 5} or {"graph_mode": "bridge"}.

        Returns:
            The trace as a JSON document, up to the prompt that would be sent.
        """
        with _told():
            cell = self._cell(system, generator, settings)
            return traces.dumps(compare.prepare(_words("question", question), cell, self._corpus))

    def corpus_info(self) -> str:
        """Say which documents this corpus holds, and which systems and generators can be asked.

        Returns:
            A JSON document with the corpus's counts and licences, the systems, and the generators with prices and needs.
        """
        with _told():
            facts = {
                **describe(self._corpus),
                "systems": {name: system.label for name, system in SYSTEMS.items()},
                "generators": {name: self._about(spec) for name, spec in self.handlers.generators.items()},
            }
            return json.dumps(facts, ensure_ascii=False)

    @property
    def _corpus(self) -> Corpus:
        return self.handlers.shelf.default

    def _stopped(self, request: gr.Request) -> Callable[[], bool]:
        """Asked whether a request has had its time, or nobody waits for it any more (of MCP's clients we aren't told)."""
        end, session = time.monotonic() + MAX_SECONDS, str(request.session_hash)
        return lambda: time.monotonic() > end or self.has_left(session)

    def _access(self, request: gr.Request) -> Access:
        """The operator's keys alone, and a spending cap of its own: whoever knows the name of a visitor's session gets neither the
        visitor's key nor at what the visitor may still spend."""
        return replace(self.handlers.access, keys=None).for_session(f"api {request.session_hash}")

    def _cell(self, system: object, generator: object, settings: object) -> Cell:
        named = system_named(_words("system", system))
        (cell,) = cells_of([named.name], [_words("generator", generator)], self.handlers.generators)
        return replace(cell, system=_tuned(named, settings))

    def _about(self, spec: GeneratorSpec) -> dict[str, Any]:
        access = replace(self.handlers.access, keys=None)
        fields = (
            "label",
            "access",
            "vision",
            "needs",
            "usd_per_million_input",
            "usd_per_million_output",
            "prices_read",
        )
        return {name: getattr(spec, name) for name in fields} | {"ready": access.ready(spec)}


_T = TypeVar("_T")


def _last(steps: Iterable[_T]) -> _T:
    """The end of an answer; its many beginnings are not kept meanwhile."""
    (last,) = deque(steps, maxlen=1)
    return last


@contextmanager
def _told() -> Iterator[None]:
    """What is meant for the person reaches the client; the title says which kind of error it is."""
    try:
        yield
    except FuseboxError as error:
        raise gr.Error(str(error), title=type(error).__name__, print_exception=False) from error


def _words(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise UsageError(f"{name} must be a string.")
    return value


def _flag(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise UsageError(f"{name} must be true or false.")
    return value


def _names(name: str, value: object) -> list[str]:
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(item, str) and len(item) <= MAX_NAME_CHARS for item in value):
        raise UsageError(f"{name} must be a list of names.")
    if len(value) > MAX_LISTED:
        raise UsageError(f"{name} has {len(value)} entries; {MAX_LISTED} are the most.")
    return value


def _tuned(system: System, settings: object) -> System:
    if settings is None:
        return system
    if not isinstance(settings, dict):
        raise UsageError('settings must be an object such as {"text_k": 5}.')
    return tuned(system, **{str(name): value for name, value in settings.items()})


def _report(question: str, states: Sequence[CellState], corpus: Corpus) -> dict[str, Any]:
    reference = reference_for(question, corpus)
    first: dict[str, CellState] = {}
    cells = []
    for state in states:
        base = first.setdefault(state.cell.generator.name, state).trace
        against = None if base is state.trace else base
        trace = state.trace
        cells.append(
            {
                "system": state.cell.system.name,
                "generator": state.cell.generator.name,
                "error": state.error,
                "trace": json.loads(traces.dumps(trace)) if trace else None,
                "added": [asdict(item) for item in compare.added(trace, against)] if trace else [],
                "difference": asdict(compare.difference(trace, against)) if trace and against else None,
                "gold": [asdict(gold) for gold in locate(reference, trace, corpus)] if reference and trace else [],
            }
        )
    return {"question": question, "reference": asdict(reference) if reference else None, "cells": cells}

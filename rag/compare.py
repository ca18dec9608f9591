"""One question through several systems and generators at once, and what each added to the baseline and took for it.

Every cell is an ``ask`` of its own, so a cell that fails fails alone and no cell can change another's evidence.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from queue import SimpleQueue
from typing import TypeVar

from rag import difference as differences
from rag import pricing
from rag.corpus import Corpus
from rag.errors import FuseboxError, UsageError
from rag.generators.access import OPERATOR, Access
from rag.generators.spec import GeneratorSpec
from rag.pipeline import ask, clean_question
from rag.types import Branch, Estimate, System, Trace

MAX_CELLS = 24
AT_ONCE = 4
"""Cells that run at the same time: one row of the study's four systems."""

BUG = "Fusebox itself failed in this cell; its log says where. Ask again, or report it with the log's last lines."

BRANCH_OF_TAG: dict[str, Branch] = {"T": "text", "G": "graph", "V": "visual"}

_N = TypeVar("_N", int, float)

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Cell:
    """A system and who answers."""

    system: System
    generator: GeneratorSpec


@dataclass(frozen=True, slots=True)
class CellState:
    """How far a cell is. ``error`` says why there is no trace, or none beyond ``trace``; a generator's own failure stands in the
    trace instead. ``done``: nothing more will come."""

    cell: Cell
    trace: Trace | None = None
    error: str = ""
    done: bool = False


@dataclass(frozen=True, slots=True)
class Added:
    """An item of a prompt that another prompt does not hold."""

    branch: Branch
    tag: str
    item_id: str


@dataclass(frozen=True, slots=True)
class Difference:
    """A cell less the baseline's cell; ``None`` is unknown and never 0. ``answer_changed`` compares the words without their
    citations (``rag.difference``)."""

    input_tokens: int | None
    output_tokens: int | None
    cost_usd: float | None
    total_ms: float | None
    answer_changed: bool | None


def compare(
    question: str,
    cells: Sequence[Cell],
    corpus: Corpus,
    *,
    stopped: Callable[[], bool] = lambda: False,
    access: Access = OPERATOR,
) -> Iterator[tuple[CellState, ...]]:
    """Ask ``question`` in every cell, ``AT_ONCE`` at a time; yields the state of all cells whenever some have moved.

    Once ``stopped`` is true, or when the iterator is closed, running cells end as ``cancelled`` and no further one begins.

    Raises:
        UsageError: an empty or overlong question, no cells or more than ``MAX_CELLS``.
    """
    check(question, cells)
    left, moved = threading.Event(), SimpleQueue[tuple[int, CellState | Future[None]]]()
    halted = partial(_either, stopped, left.is_set)
    states = [CellState(cell) for cell in cells]
    pool = ThreadPoolExecutor(max_workers=min(len(cells), AT_ONCE), thread_name_prefix="compare")
    try:
        for number, cell in enumerate(cells):
            run = pool.submit(_run, question, cell, corpus, halted, access, partial(_tell, moved, number))
            run.add_done_callback(partial(_tell, moved, number))
        while not all(state.done for state in states):
            number, news = moved.get()
            states[number] = _after(states[number], news)
            while not moved.empty():
                number, news = moved.get()
                states[number] = _after(states[number], news)
            yield tuple(states)
    finally:
        left.set()
        pool.shutdown(wait=False, cancel_futures=True)


def check(question: str, cells: Sequence[Cell]) -> None:
    """Refuse what can't be compared.

    Raises:
        UsageError: an empty or overlong question, no cells or more than ``MAX_CELLS``.
    """
    clean_question(question)
    if not cells:
        raise UsageError("Nothing is chosen to compare; choose at least one system and one generator.")
    if len(cells) > MAX_CELLS:
        raise UsageError(
            f"That is {len(cells)} answers at once; choose fewer systems or generators, {MAX_CELLS} answers at most."
        )


def _either(*conditions: Callable[[], bool]) -> bool:
    return any(condition() for condition in conditions)


def _tell(
    moved: SimpleQueue[tuple[int, CellState | Future[None]]], number: int, news: CellState | Future[None]
) -> None:
    moved.put((number, news))


def _after(state: CellState, news: CellState | Future[None]) -> CellState:
    """The state after news from its thread; a thread that ended early has met a bug."""
    if isinstance(news, CellState):
        return news
    bug = None if news.cancelled() else news.exception()
    if bug is None or state.done:
        return replace(state, done=True)
    _log.error("A cell of a comparison failed", exc_info=bug)
    return replace(state, error=BUG, done=True)


def _run(
    question: str,
    cell: Cell,
    corpus: Corpus,
    halted: Callable[[], bool],
    access: Access,
    tell: Callable[[CellState], None],
) -> None:
    state = CellState(cell)
    try:
        if not halted():
            with closing(ask(question, cell.system, cell.generator, corpus, stopped=halted, access=access)) as traces:
                for trace in traces:
                    state = replace(state, trace=trace)
                    tell(state)
                    # Before the generator is called: afterwards it is the answer that ends itself, and counts itself.
                    if trace.generation is None and halted():
                        break
    except FuseboxError as error:
        state = replace(state, error=str(error))
    tell(replace(state, done=True))


def prepare(question: str, cell: Cell, corpus: Corpus) -> Trace:
    """The trace of a cell up to the prompt; nothing is generated.

    Raises:
        UsageError: an empty or overlong question.
        EncoderUnavailable: the corpus's text encoder can't be loaded.
    """
    with closing(ask(question, cell.system, cell.generator, corpus)) as traces:
        return next(trace for trace in traces if trace.prompt is not None)


def estimate(question: str, cells: Sequence[Cell], corpus: Corpus) -> tuple[Estimate, ...]:
    """What each cell would take, from the very prompts it would send.

    Raises:
        UsageError: see ``compare``.
    """
    check(question, cells)
    prepared: dict[tuple[System, bool], Trace] = {}
    found = []
    for cell in cells:
        key = cell.system, cell.generator.vision
        trace = prepared.get(key) or prepared.setdefault(key, prepare(question, cell, corpus))
        assert trace.prompt is not None
        found.append(pricing.estimate(trace.prompt, cell.generator))
    return tuple(found)


# --- against the baseline -----------------------------------------------------------------------------------------------


def added(trace: Trace, baseline: Trace | None) -> tuple[Added, ...]:
    """The items that the prompt of ``trace`` holds and that of ``baseline`` does not, in the order of the prompt; without a
    baseline all of them."""
    if trace.prompt is None:
        return ()
    known = set(baseline.prompt.tags.values()) if baseline is not None and baseline.prompt else set()
    return tuple(
        Added(BRANCH_OF_TAG[tag[0]], tag, item) for tag, item in trace.prompt.tags.items() if item not in known
    )


def difference(trace: Trace, baseline: Trace) -> Difference:
    """What ``trace`` took more (or, negative, less) than ``baseline``, and whether it says something else."""
    mine, other = trace.generation, baseline.generation
    return Difference(
        _less(input_tokens(trace), input_tokens(baseline)),
        _less(output_tokens(trace), output_tokens(baseline)),
        _less(mine.cost_usd if mine else None, other.cost_usd if other else None),
        _less(total_ms(trace), total_ms(baseline)),
        _says_else(trace, baseline),
    )


def input_tokens(trace: Trace) -> int | None:
    """Tokens of the prompt, ``None`` where they are not known."""
    usage = trace.generation.usage if trace.generation else None
    return usage.input_tokens if usage else None


def output_tokens(trace: Trace) -> int | None:
    """Tokens billed as output, ``None`` where they are not known."""
    usage = trace.generation.usage if trace.generation else None
    return usage.output_tokens if usage else None


def total_ms(trace: Trace) -> float | None:
    """Retrieval and answer together, ``None`` before the answer is there."""
    generation = trace.generation
    if generation is None or generation.latency_ms is None:
        return None
    return generation.latency_ms + sum(ms for stage, ms in trace.timings_ms.items() if stage != "generation")


def _less(one: _N | None, other: _N | None) -> _N | None:
    return None if one is None or other is None else one - other


def _says_else(trace: Trace, baseline: Trace) -> bool | None:
    one, other = trace.generation, baseline.generation
    if one is None or other is None or not one.counts or not other.counts:
        return None
    return differences.difference(one.text, other.text).changed

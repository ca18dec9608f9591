"""Events of the Compare tab: one question in all chosen cells, stop, pages of a cell, and a cell shown on Explore."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import gradio as gr

from rag import compare
from rag.compare import Cell, CellState
from rag.corpus import Corpus
from rag.errors import FuseboxError, UsageError
from rag.evaluate.questions import reference_for
from rag.generators.spec import GeneratorSpec
from rag.pipeline import clean_question
from rag.pricing import is_paid
from rag.systems import SYSTEMS, system_named
from rag.types import Estimate, Trace
from ui import text as words
from ui.handlers import KNOBS, Handlers, with_knobs
from ui.history_desk import HistoryDesk
from ui.views import compare as view
from ui.views.markup import money

REDRAW_S = 0.12
"""Growing answers are drawn at most this often: all cells travel together."""

OUTPUTS = ("cells", "shown", "agreed", "ask", "stop")
"""What a comparison changes, in the order of the tab's outputs."""

Update = tuple[Any, ...]

Agreed = tuple[str, tuple[Cell, ...]]
"""The question and the cells whose estimate the person has seen."""


def cells_of(
    systems: Sequence[str], generators: Sequence[str], known: Mapping[str, GeneratorSpec], **knobs: Any
) -> tuple[Cell, ...]:
    """One row per generator, one cell per system in it, in the order in which they are listed here whatever was ticked first; all with
    the settings ``knobs``.

    Raises:
        UsageError: there is no such system or generator, none is named, or a setting is out of its range.
    """
    for name in generators:
        if name not in known:
            raise UsageError(f"There is no generator {name!r}; choose one of {', '.join(known)}.")
    chosen = {system_named(name).name for name in systems}
    if not chosen or not generators:
        raise UsageError("Nothing is chosen to compare; choose at least one system and one generator.")
    wanted = [with_knobs(system, knobs) for name, system in SYSTEMS.items() if name in chosen]
    return tuple(Cell(system, known[name]) for name in known if name in generators for system in wanted)


@dataclass(slots=True)
class CompareDesk:
    """Handlers of the tab. Traces live in the session's own state; per running comparison there is a stop signal."""

    handlers: Handlers
    _stops: dict[str, threading.Event] = field(default_factory=dict)

    def ask(
        self,
        request: gr.Request,
        question: str,
        systems: list[str],
        generators: list[str],
        agreed: Agreed | None,
        *settings: Any,
    ) -> Iterator[Update]:
        """Compare with Explore's settings (in the order of ``KNOBS``) or, before a paid run, say what it would cost; yields updates for
        ``OUTPUTS``."""
        session = str(request.session_hash)
        stop = self._stops[session] = threading.Event()
        try:
            self.handlers.admit(request)
            corpus = self.handlers.shelf.of(session)
            asked = clean_question(question or "")
            knobs = dict(zip(KNOBS, settings, strict=True))
            cells = cells_of(systems or (), generators or (), self.handlers.generators, **knobs)
            wish = (asked, cells)
            if any(is_paid(cell.generator) for cell in cells) and agreed != wish:
                yield self._estimated(cells, compare.estimate(asked, cells, corpus), wish)
            else:
                yield from self._compared(asked, cells, corpus, session, stop)
        except FuseboxError as error:
            yield self._update(cells=view.problem(str(error)), **_idle())
        finally:
            stop.set()
            if self._stops.get(session) is stop:
                del self._stops[session]

    def _estimated(self, cells: Sequence[Cell], found: Sequence[Estimate], wish: Agreed) -> Update:
        about = view.total([estimate.cost_usd for estimate in found])
        label = words.COMPARE_ASK_UNKNOWN if about is None else words.COMPARE_ASK_PAID.format(about=money(about))
        button = gr.update(visible=True, value=label)
        return self._update(cells=view.estimates(cells, found), shown=(), agreed=wish, ask=button)

    def _compared(
        self, question: str, cells: Sequence[Cell], corpus: Corpus, session: str, stop: threading.Event
    ) -> Iterator[Update]:
        reference = reference_for(question, corpus)
        states: tuple[CellState, ...] = tuple(CellState(cell) for cell in cells)
        yield self._update(cells=view.render(states, corpus, reference, running=True), shown=(), agreed=None, **_busy())
        last = 0.0
        access = self.handlers.access.for_session(session)
        for states in compare.compare(question, cells, corpus, stopped=stop.is_set, access=access):
            if self.handlers.shelf.of(session) is not corpus:  # another one was chosen, and the cells are empty again
                yield self._update(**_idle())
                return
            now = time.perf_counter()
            if now - last >= REDRAW_S:
                last = now
                yield self._update(cells=view.render(states, corpus, reference, running=True), shown=_traces(states))
        yield self._update(
            cells=view.render(states, corpus, reference, running=False), shown=_traces(states), **_idle()
        )

    def stop(self, request: gr.Request) -> Update:
        """End this session's comparison; its cells then say themselves how far they came."""
        running = self._stops.get(str(request.session_hash))
        if running is not None:
            running.set()
            return self._update(stop=gr.update(value=words.STOPPING, interactive=False))
        return self._update(**_idle())

    def broke(self) -> Update:
        """A bug, not a ``FuseboxError``: the page says so and can be used again."""
        return self._update(cells=view.problem(words.BUG), **_idle())

    def open_page(self, request: gr.Request, shown: Sequence[Trace | None], event: gr.EventData) -> str:
        """The page viewer's content for a page of a cell; what a browser sends is not trusted."""
        return self.handlers.open_page(request, _cell_of(_sent(event), shown), event)

    def open_cell(self, request: gr.Request, shown: Sequence[Trace | None], event: gr.EventData) -> Update:
        """A cell's trace in Explore's views, with Explore's controls as they would have asked for it.

        Returns:
            Updates for Explore's ``outputs`` and ``restored``.
        """
        trace = _cell_of(_sent(event), shown)
        if trace is None:
            raise gr.Error("This cell is no longer here; compare again, then open it.", print_exception=False)
        try:
            self.handlers.admit(request)
            views = self.handlers.show(trace, str(request.session_hash))
        except FuseboxError as error:
            raise gr.Error(str(error), print_exception=False) from error
        history = HistoryDesk(self.handlers)
        return *views, *history.controls(trace.question, trace.system, trace.generator)

    @staticmethod
    def _update(**changes: Any) -> Update:
        return tuple(changes.get(name, gr.skip()) for name in OUTPUTS)


def _traces(states: Sequence[CellState]) -> tuple[Trace | None, ...]:
    return tuple(state.trace for state in states)


def _sent(event: gr.EventData) -> Mapping[str, Any]:
    sent = getattr(event, "_data", None)
    return sent if isinstance(sent, Mapping) else {}


def _cell_of(wanted: Mapping[str, Any], shown: Sequence[Trace | None]) -> Trace | None:
    number = str(wanted.get("cell", ""))
    inside = number.isascii() and number.isdigit() and len(number) < 4 and int(number) < len(shown)
    return shown[int(number)] if inside else None


def _busy() -> dict[str, Any]:
    return {
        "ask": gr.update(visible=False, value=words.COMPARE_ASK),
        "stop": gr.update(visible=True, value=words.STOP, interactive=True),
    }


def _idle() -> dict[str, Any]:
    return {
        "ask": gr.update(visible=True, value=words.COMPARE_ASK),
        "stop": gr.update(visible=False, value=words.STOP, interactive=True),
    }

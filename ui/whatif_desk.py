"""Leave out and ask again, and the influence of each item: events of the page on their way to the pipeline and back."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import gradio as gr

from rag.errors import FuseboxError, UsageError
from rag.generators.access import Access
from rag.generators.spec import GeneratorSpec
from rag.influence import Influence, cost, influence
from rag.pipeline import ask, ask_again
from rag.types import Trace
from ui import text as words
from ui.handlers import REDRAW_S, Handlers, Update
from ui.views import whatif

if TYPE_CHECKING:
    from ui.tabs.explore import Explore

PANEL_ON_LOAD = "window.fusebox.onWhatIf = (event, wanted) => trigger(event, wanted);"
INFLUENCE_ON_LOAD = "window.fusebox.onInfluence = (event, wanted) => trigger(event, wanted);"

Drawn = tuple[Any, Any]
"""Updates for the panel and for the trace that it shows."""

MAX_PRICED = 10_000
"""Sessions whose last price shown is remembered."""


@dataclass(slots=True)
class _Run:
    """One call, or row of calls, on its way for an answer that is on the page."""

    stop: threading.Event
    current: Callable[[], bool]

    def stopped(self) -> bool:
        """Whether to end: somebody pressed Stop, or another answer has taken the page."""
        return self.stop.is_set() or not self.current()


@dataclass(slots=True)
class WhatIfDesk:
    """Handlers of the bar, the two answers side by side and the influence card. Stop signals are kept under the session's key."""

    handlers: Handlers
    _runs: dict[tuple[str, str], _Run] = field(default_factory=dict)
    _priced: dict[str, str] = field(default_factory=dict)

    @staticmethod
    def panel() -> gr.HTML:
        """Where two answers stand side by side."""
        return _html("", "whatif", PANEL_ON_LOAD)

    @staticmethod
    def bar() -> gr.HTML:
        """What is ticked, and what to do with it."""
        return _html(whatif.bar(), "whatif-bar")

    @staticmethod
    def influence() -> gr.HTML:
        """The influence card."""
        return _html("", "influence", INFLUENCE_ON_LOAD)

    def wire(self, explore: Explore, panel: gr.HTML, card: gr.HTML, concurrency: int) -> Any:
        """What bar, panel and card do.

        Returns:
            The event after which the answer without some evidence is the one on the page, in ``explore.trace``.
        """
        found = gr.State(None)
        quiet: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private"}
        slow = {**quiet, "concurrency_limit": concurrency, "trigger_mode": "once"}
        at_once = {**quiet, "queue": False}
        asking = panel.click(self.again, [explore.trace], [panel, found], **slow)
        asking.failure(lambda: whatif.problem(words.BUG), None, panel, **at_once)
        measuring = card.click(self.measure, [explore.trace], card, **slow)
        measuring.failure(lambda: whatif.problem(words.BUG), None, card, **at_once)
        card.clear(self.offer, [explore.trace], card, **at_once)
        panel.clear(lambda: ("", None), None, [panel, found], **at_once)
        panel.stop(self.stop, None, None, **at_once)
        showing = panel.apply(self.show, [found], explore.outputs, **at_once)
        showing.then(None, js="() => window.fusebox.toTop()", **at_once)
        return showing

    # --- ask again ---------------------------------------------------------------------------------------------------

    def again(self, request: gr.Request, trace: Trace | None, event: gr.EventData) -> Iterator[Drawn]:
        """The question of ``trace`` without what the page sent as ticked, which is not trusted."""
        run = self._begin(request, "again")
        try:
            before = _finished(trace)
            wanted = _sent(event)
            left_out = _left_out(before, wanted.get("items"))
            spec, access = self._admitted(request, before)
            yield whatif.asking(before), gr.skip()
            yield from self._again(before, left_out, wanted.get("refill") is True, spec, access, run, request)
        except FuseboxError as error:
            yield whatif.problem(str(error), trace.id if trace is not None else ""), None
        finally:
            self._end(request, "again", run)

    def _again(
        self,
        before: Trace,
        left_out: Collection[str],
        refill: bool,
        spec: GeneratorSpec,
        access: Access,
        run: _Run,
        request: gr.Request,
    ) -> Iterator[Drawn]:
        corpus = self.handlers.shelf.named(before.corpus_id, str(request.session_hash))
        traces: Iterator[Trace]
        if refill or before.refill:
            # What moved up was retrieved for other gaps: the evidence is looked for anew.
            traces = ask(
                before.question, before.system, spec, corpus, exclude=left_out, refill=refill,
                question_type=before.question_type, stopped=run.stopped, access=access,
            )  # fmt: skip
        else:
            traces = ask_again(before, spec, corpus, exclude=left_out, stopped=run.stopped, access=access)
        after, last = before, 0.0
        for after in traces:
            now = time.perf_counter()
            if after.generation is not None and now - last >= REDRAW_S:
                last = now
                yield whatif.render(before, after, corpus, spec.label, running=True), gr.skip()
        if run.current():
            yield whatif.render(before, after, corpus, spec.label, running=False), after

    def show(self, request: gr.Request, found: Trace | None) -> Update:
        """The answer of the panel becomes the one on the page."""
        if found is None:
            return self.handlers.unchanged()
        try:
            self.handlers.admit(request)
        except UsageError:
            return self.handlers.unchanged()  # another browser's session
        return self.handlers.show(found, str(request.session_hash))

    # --- influence ---------------------------------------------------------------------------------------------------

    def measure(self, request: gr.Request, trace: Trace | None, event: gr.EventData) -> Iterator[Any]:
        """Leave each item out in turn; on a generator that is not embedded, only after its price was agreed to."""
        run = self._begin(request, "influence")
        known: tuple[Influence, ...] = ()
        spec: GeneratorSpec | None = None
        try:
            before = _finished(trace)
            spec, access = self._admitted(request, before)
            corpus = self.handlers.shelf.named(before.corpus_id, str(request.session_hash))
            session, agreed = str(request.session_hash), _sent(event).get("agreed") is True
            if spec.access != "embedded" and not (agreed and self._priced.pop(session, "") == before.id):
                yield whatif.price(before, spec, cost(before, spec, corpus))
                self._offered(session, before.id)
                return
            yield whatif.measured(before, (), spec, running=True)
            last, drawn = time.perf_counter(), 0
            for known in influence(before, spec, corpus, access, run.stopped):
                now = time.perf_counter()
                if now - last >= REDRAW_S:
                    # Where nothing is new, this is the sign of life at which a window that was closed ends the call.
                    yield whatif.measured(before, known, spec, running=True) if len(known) != drawn else gr.skip()
                    last, drawn = now, len(known)
            if run.current():
                yield whatif.measured(before, known, spec, running=False)
        except FuseboxError as error:
            if trace is None or spec is None:
                yield whatif.problem(str(error))
            else:
                yield whatif.measured(trace, known, spec, running=False, error=str(error))
        finally:
            self._end(request, "influence", run)

    def _offered(self, session: str, trace_id: str) -> None:
        """The price of this answer's items was shown: what the browser says of it is not believed."""
        self._priced.pop(session, None)
        self._priced[session] = trace_id
        while len(self._priced) > MAX_PRICED:
            del self._priced[next(iter(self._priced))]

    def offer(self, trace: Trace | None) -> str:
        """The card as it is before anything is measured."""
        return whatif.offer(trace, self.handlers.spec_of(trace)) if trace is not None else ""

    # --- both --------------------------------------------------------------------------------------------------------

    def stop(self, request: gr.Request) -> None:
        """End what runs for this session; it then says itself how far it came."""
        for kind in ("again", "influence"):
            run = self._runs.get((str(request.session_hash), kind))
            if run is not None:
                run.stop.set()

    def _begin(self, request: gr.Request, kind: str) -> _Run:
        session = str(request.session_hash)
        turn = self.handlers.turn(session)
        run = _Run(threading.Event(), lambda: self.handlers.turn(session) == turn)
        self._runs[session, kind] = run
        return run

    def _end(self, request: gr.Request, kind: str, run: _Run) -> None:
        run.stop.set()
        if self._runs.get((str(request.session_hash), kind)) is run:
            del self._runs[str(request.session_hash), kind]

    def _admitted(self, request: gr.Request, trace: Trace) -> tuple[GeneratorSpec, Access]:
        """The generator that answered, and this session's way to it."""
        self.handlers.admit(request)
        return self.handlers.spec(trace.generator), self.handlers.access.for_session(str(request.session_hash))


def _html(value: str, elem_id: str, on_load: str | None = None) -> gr.HTML:
    return gr.HTML(value, elem_id=elem_id, elem_classes=["fb-view"], apply_default_css=False, js_on_load=on_load)


def _sent(event: gr.EventData) -> Mapping[str, Any]:
    sent = getattr(event, "_data", None)
    return sent if isinstance(sent, Mapping) else {}


def _finished(trace: Trace | None) -> Trace:
    if trace is None or trace.prompt is None or trace.generation is None or trace.generation.finish is None:
        raise UsageError(words.WHATIF_UNFINISHED)
    return trace


def _left_out(trace: Trace, items: object) -> frozenset[str]:
    """What of ``items`` is, or was, in the prompt of ``trace``.

    Raises:
        UsageError: nothing, and nothing was left out before either.
    """
    offered = {*(trace.prompt.tags.values() if trace.prompt else ()), *trace.excluded}
    sent = items if isinstance(items, list) else []
    wanted = frozenset(item for item in sent if isinstance(item, str) and item in offered)
    if not wanted and not trace.excluded:
        raise UsageError(words.WHATIF_NOTHING)
    return wanted

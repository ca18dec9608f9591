"""Did it help? One press asks the four systems, for free, and says what graph and figures did to the answer on the page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import gradio as gr

from rag import compare
from rag.compare import Cell, CellState
from rag.contribution import contributions, systems_like
from rag.corpus import Corpus
from rag.errors import FuseboxError, UsageError
from rag.evaluate.questions import reference_for
from rag.types import Trace
from ui import text as words
from ui.handlers import KNOBS, OUTPUTS, Handlers, Update
from ui.history_desk import HistoryDesk
from ui.views import contribution

if TYPE_CHECKING:
    from ui.tabs.explore import Explore

ON_LOAD = "window.fusebox.onHelped = (event, wanted) => trigger(event, wanted);"

Drawn = tuple[Any, Any]
"""Updates for the card and for the four traces that it shows."""


@dataclass(frozen=True, slots=True)
class ContributionDesk:
    """Handlers of the card. The four traces live in the session's own state."""

    handlers: Handlers

    @staticmethod
    def card() -> gr.HTML:
        """The card, to be placed."""
        return gr.HTML("", elem_id="helped", elem_classes=["fb-view"], apply_default_css=False, js_on_load=ON_LOAD)

    def wire(self, card: gr.HTML, explore: Explore, concurrency: int) -> Any:
        """What the card does.

        Returns:
            The event after which one of the four answers is the one on the page, in ``explore.trace``.
        """
        found = gr.State(())
        quiet: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private"}
        at_once = {**quiet, "queue": False}
        asking = card.click(
            self.ask, [explore.trace], [card, found], concurrency_limit=concurrency, trigger_mode="once", **quiet
        )
        asking.failure(lambda: contribution.problem(words.BUG), None, card, **at_once)
        card.clear(self.offer, [explore.trace], card, **at_once)
        return card.apply(self.show, [found], [*explore.outputs, *explore.restored], **at_once)

    def ask(self, request: gr.Request, trace: Trace | None) -> Iterator[Drawn]:
        """The four systems on the question and with the settings of ``trace``, by the generator that is free."""
        try:
            self.handlers.admit(request)
            reader = self.handlers.reader_for(trace)
            if trace is None or reader is None:
                raise UsageError(words.WHATIF_UNFINISHED)
            session = str(request.session_hash)
            turn = self.handlers.turn(session)
            corpus = self.handlers.shelf.named(trace.corpus_id, session)
            cells = [Cell(system, reader) for system in systems_like(trace.system)]
            yield contribution.asking(trace), ()
            states: tuple[CellState, ...] = ()

            def stopped() -> bool:
                return self.handlers.turn(session) != turn

            for moved in compare.compare(trace.question, cells, corpus, stopped=stopped):
                states = moved
                yield gr.skip(), gr.skip()  # the sign of life at which a window that was closed ends the calls
            if not stopped():
                traces = _whole(states)
                yield self._drawn(trace, traces, corpus), traces
        except FuseboxError as error:
            yield contribution.problem(str(error), trace.id if trace is not None else ""), ()

    def _drawn(self, shown: Trace, traces: Sequence[Trace], corpus: Corpus) -> str:
        spec = self.handlers.spec_of(traces[0])
        reference = reference_for(shown.question, corpus)
        found = contributions({trace.system.name: trace for trace in traces}, reference)
        return contribution.render(shown, traces, found, reference, spec.label)

    def offer(self, trace: Trace | None) -> str:
        """The card as it is before anything is asked."""
        return contribution.offer(trace, self.handlers.reader_for(trace)) if trace is not None else ""

    def show(self, request: gr.Request, found: Sequence[Trace], event: gr.EventData) -> Update:
        """One of the four answers in Explore's views, with the controls as they would have asked for it; the card stays. What a browser
        sends is not trusted."""
        sent = getattr(event, "_data", None)
        number = str(sent.get("cell", "")) if isinstance(sent, Mapping) else ""
        trace = dict(zip("0123", found, strict=False)).get(number)
        if trace is None:
            return (*(gr.skip() for _ in (*OUTPUTS, *range(5), *KNOBS)),)
        try:
            self.handlers.admit(request)
            session = str(request.session_hash)
            corpus = self.handlers.shelf.named(trace.corpus_id, session)
            views = dict(zip(OUTPUTS, self.handlers.show(trace, session), strict=True))
        except FuseboxError as error:
            raise gr.Error(str(error), print_exception=False) from error
        views["helped"] = self._drawn(trace, found, corpus)
        return *views.values(), *HistoryDesk(self.handlers).controls(trace.question, trace.system, trace.generator)


def _whole(states: Sequence[CellState]) -> tuple[Trace, ...]:
    """The traces of all cells.

    Raises:
        UsageError: one of them could not even be asked; says why.
    """
    for state in states:
        if state.trace is None or state.error:
            raise UsageError(state.error or words.BUG)
    return tuple(state.trace for state in states if state.trace is not None)

"""This session's answered questions, traces loaded from files, and links: every way to get an answer or its settings back."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import gradio as gr

from rag import link as links
from rag import trace as traces
from rag.errors import FuseboxError, TraceError, UsageError
from rag.systems import SYSTEMS, preset_for
from rag.types import System, Trace
from ui import text as words
from ui.handlers import DEFAULT_SYSTEM, KNOBS, OUTPUTS, Handlers
from ui.views import history
from ui.views.history import Entry

if TYPE_CHECKING:
    from ui.tabs.explore import Explore

MAX_ENTRIES = 20
MAX_PACKED_BYTES = 4_000_000
"""Of all entries of a session; an answer of the usual length takes some 10 kB, a loaded trace may take a thousand times that."""

ON_LOAD = "window.fusebox.onHistory = (wanted) => trigger('click', wanted);"

Entries = tuple[Entry, ...]


@dataclass(frozen=True, slots=True)
class HistoryDesk:
    """Handlers of the history card. ``Entries`` live in the session's own state."""

    handlers: Handlers

    @staticmethod
    def card() -> gr.HTML:
        """The card, to be placed."""
        return gr.HTML(
            history.render(()),
            elem_id="history",
            elem_classes=["fb-view"],
            apply_default_css=False,
            js_on_load=ON_LOAD,
        )

    def wire(self, card: gr.HTML, explore: Explore, page: gr.Blocks, *shown: Any) -> gr.State:
        """What the card does. ``shown``: further events that put a finished answer on the page.

        Returns:
            The session's ``Entries``.
        """
        entries = gr.State(())
        names = json.dumps(KNOBS)
        usual = json.dumps({name: getattr(SYSTEMS[DEFAULT_SYSTEM], name) for name in KNOBS})
        told: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private", "queue": False}
        for event in (explore.asked, *shown):
            self.keep_after(event, explore.trace, entries, card)
        card.click(
            self.restore, [entries, explore.trace], [entries, card, *explore.outputs, *explore.restored], **told
        ).then(None, js="() => window.fusebox.toTop()", **told)
        chosen = gr.Button(visible="hidden", elem_id="link-maker")
        chosen.click(
            None,
            [explore.question, *(explore.controls[name] for name in ("preset", "generator", *KNOBS))],
            None,
            js=f"(...now) => window.fusebox.showLink(now, {names}, {usual})",
            **told,
        )
        page.load(self.follow, None, [card, *explore.restored], **told)
        return entries

    def keep_after(self, event: Any, trace: gr.State, entries: gr.State, card: gr.HTML) -> None:
        """Every answer that ``event`` leaves in ``trace`` goes into the history."""
        event.then(
            self.keep, [trace, entries], [entries, card], show_progress="hidden", api_visibility="private", queue=False
        )

    def keep(self, request: gr.Request, trace: Trace | None, entries: Entries) -> tuple[Any, Any]:
        """The history with the answer just given, on its way to the page."""
        try:
            self.handlers.admit(request)
        except UsageError:
            return gr.skip(), gr.skip()  # another browser's session
        return self._kept(trace, entries)

    def _kept(self, trace: Trace | None, entries: Entries, loaded: bool = False) -> tuple[Entries, str]:
        """The history with this answer; a question that found nothing to say leaves it as it is."""
        shown = trace.id if trace is not None else ""
        if trace is not None and trace.generation is not None and all(entry.id != trace.id for entry in entries):
            entries = (*entries, Entry.of(trace, loaded, self.handlers.spec_of(trace).label))[-MAX_ENTRIES:]
            while len(entries) > 1 and sum(len(entry.packed) for entry in entries) > MAX_PACKED_BYTES:
                entries = entries[1:]
        return entries, history.render(entries, shown)

    def restore(
        self, request: gr.Request, entries: Entries, shown: Trace | None, event: gr.EventData
    ) -> tuple[Any, ...]:
        """An earlier answer, or one from a file, with the controls as they were; what a browser sends is not trusted."""
        sent = getattr(event, "_data", None)
        wanted = sent if isinstance(sent, Mapping) else {}
        try:
            self.handlers.admit(request)
        except FuseboxError as error:  # nothing of another browser's session is shown
            return gr.skip(), history.render((), told=str(error), bad=True), *_skips(len(OUTPUTS) + 5 + len(KNOBS))
        try:
            trace, loaded = self._found(wanted, entries)
            corpus = self.handlers.shelf.named(trace.corpus_id, str(request.session_hash))
            traces.check_against(trace, corpus)
            views = self.handlers.show(trace, str(request.session_hash), words.TRACE_LOADED if loaded else "")
        except FuseboxError as error:
            kept = shown.id if shown is not None else ""
            return entries, history.render(entries, kept, str(error), bad=True), *_skips(len(OUTPUTS) + 5 + len(KNOBS))
        entries, _ = self._kept(trace, entries, loaded)
        missing = ", ".join(_not_on_page(trace.system))
        told = words.NOT_ON_PAGE.format(names=missing) if missing else ""
        card = history.render(entries, trace.id, told)
        return entries, card, *views, *self.controls(trace.question, trace.system, trace.generator)

    @staticmethod
    def _found(wanted: Mapping[str, Any], entries: Sequence[Entry]) -> tuple[Trace, bool]:
        """The trace that is wanted, and whether it comes from a file."""
        if "trace" in wanted:
            return traces.loads(str(wanted["trace"])), True
        name = str(wanted.get("restore", ""))
        for entry in entries:
            if entry.id == name:
                return entry.trace(), entry.loaded
        raise TraceError(
            f"This session keeps its last {MAX_ENTRIES} answers; that one is gone. Ask the question again."
        )

    def follow(self, request: gr.Request) -> tuple[Any, ...]:
        """What the page's address asks for: controls are set and nothing is asked."""
        params = getattr(request, "query_params", None)
        query = str(params) if params else ""
        found = links.read(query, self.handlers.generators)
        if found.empty:
            return _skips(6 + len(KNOBS))
        unseen = [words.NOT_FOLLOWED.format(name=name) for name in _not_on_page(found.system)]
        problems = (*found.problems, *unseen)
        told = " ".join(problems) or words.LINK_FOLLOWED
        controls = self.controls(found.question, found.system or SYSTEMS[DEFAULT_SYSTEM], found.generator)
        return history.render((), told=told, bad=bool(problems)), *controls

    def controls(self, question: str, system: System, generator: str) -> tuple[Any, ...]:
        """Values for ``Explore.restored``. What the page's controls can't show keeps its value."""
        graph, visual = ("graph" in system.branches), ("visual" in system.branches)
        known = generator in self.handlers.generators
        return (
            question,
            preset_for(graph, visual),
            graph,
            visual,
            generator if known else gr.skip(),
            *(getattr(system, name) for name in KNOBS),
        )


def _not_on_page(system: System | None) -> Iterator[str]:
    """The name of each setting that is not the usual one and that the page has no control for."""
    if system is not None:
        usual = SYSTEMS.get(system.name, SYSTEMS[DEFAULT_SYSTEM])
        for name, value in links.settings_of(system).items():
            if name not in KNOBS and value != getattr(usual, name):
                yield name


def _skips(count: int) -> tuple[Any, ...]:
    return tuple(gr.skip() for _ in range(count))

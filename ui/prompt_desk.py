"""The prompt against the one of the previous ask: a toggle of the page on its way to the view and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import gradio as gr

from rag.errors import UsageError
from rag.types import Trace
from ui import text as words
from ui.handlers import Handlers
from ui.views import prompt
from ui.views.history import Entry

ON_LOAD = "window.fusebox.onPrompt = (wanted) => trigger('click', wanted);"


@dataclass(frozen=True, slots=True)
class PromptDesk:
    """Handlers of the prompt card; the previous ask comes from the session's history."""

    handlers: Handlers

    @staticmethod
    def card() -> gr.HTML:
        """The card, to be placed."""
        return gr.HTML(
            prompt.empty(), elem_id="prompt", elem_classes=["fb-view"], apply_default_css=False, js_on_load=ON_LOAD
        )

    def wire(self, card: gr.HTML, trace: gr.State, entries: gr.State) -> None:
        """What the card does."""
        card.click(self.compare, [trace, entries], card, show_progress="hidden", api_visibility="private", queue=False)

    def compare(self, request: gr.Request, trace: Trace | None, entries: Sequence[Entry], event: gr.EventData) -> Any:
        """The prompt as sent, or (``{"compare": true}``) against that of the ask before; what a browser sends is not trusted."""
        if trace is None or trace.prompt is None:
            return gr.skip()
        try:
            self.handlers.admit(request)
        except UsageError:
            return gr.skip()  # another browser's session
        sent = getattr(event, "_data", None)
        tokens = self.handlers.tokens(trace, self.handlers.spec_of(trace))
        if not (isinstance(sent, Mapping) and sent.get("compare") is True):
            return prompt.render(trace, tokens)
        previous = before(entries, trace.id)
        if previous is None or previous.prompt is None:
            return prompt.render(trace, tokens, told=words.NO_PREVIOUS)
        earlier = self.handlers.tokens(previous, self.handlers.spec_of(previous))
        return prompt.render(trace, tokens, previous=previous, before=earlier)


def before(entries: Sequence[Entry], trace_id: str) -> Trace | None:
    """The trace of the entry before ``trace_id``, or of the last one where that is not among them."""
    place = next((i for i, entry in enumerate(entries) if entry.id == trace_id), len(entries))
    return entries[place - 1].trace() if place else None

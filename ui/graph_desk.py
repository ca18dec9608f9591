"""What a click in the graph column asks for: the sentence of an edge, the neighbours of a node, the other mode."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import gradio as gr

from rag.branches import Query
from rag.corpus import Corpus
from rag.errors import FuseboxError, UsageError
from rag.graph import MODES
from rag.pipeline import graph_evidence
from rag.types import GraphEvidence, GraphMode, Trace
from ui.handlers import Handlers
from ui.shelf import Shelf
from ui.views import graph

MAX_NEIGHBOURS = 30
"""Edges of one entity that are drawn and listed at once."""

ON_LOAD = "window.fusebox.onGraph = (wanted) => trigger('click', wanted);"

_ITEM = re.compile(r"triple:([0-9]{1,9})")
_NODE = re.compile(r"([sqo]):([0-9]{1,9})")

Reply = tuple[Any, Any]
"""HTML for the browser to put where it was asked for, and the new value of the mode control."""


@dataclass(frozen=True, slots=True)
class GraphDesk:
    """Answers the graph column's clicks from the session's trace and its corpus. What a browser sends is not trusted."""

    shelf: Shelf
    admit: Callable[[gr.Request], None] = lambda request: None

    def answer(self, request: gr.Request, trace: Trace | None, event: gr.EventData) -> Reply:
        """Answer one click: ``{"fact": "triple:N"}``, ``{"around": "q:N" | "s:N" | "o:N"}`` (an entity of the question,
        a triple's subject or object), ``{"other": MODE}`` or ``{"set": MODE}``."""
        sent = getattr(event, "_data", None)
        wanted = {str(key): str(value) for key, value in sent.items()} if isinstance(sent, Mapping) else {}
        kind = next((kind for kind in _ANSWERS if kind in wanted), "")
        try:
            if trace is None or not kind:
                raise UsageError("There is no answer to look into yet; ask something first.")
            self.admit(request)
            corpus = self.shelf.named(trace.corpus_id, str(request.session_hash))
            return _ANSWERS[kind](trace, corpus, wanted[kind])
        except FuseboxError as error:
            return graph.refusal(str(error)), gr.skip()


def would_send(trace: Trace, corpus: Corpus, mode: GraphMode) -> GraphEvidence:
    """The facts and bridges that the prompt would have held with another graph mode and everything else as in ``trace``."""
    left_out = frozenset(trace.excluded)
    query = Query.of(trace.question, corpus)
    if trace.evidence.text is not None:
        query = query.after(trace.evidence.text, corpus)
    system = replace(trace.system, graph_mode=mode)
    found = graph_evidence(query, corpus, system, left_out if trace.refill else frozenset())
    return replace(
        found,
        facts=tuple(fact for fact in found.facts if graph.item_of(fact) not in left_out),
        bridges=tuple(bridge for bridge in found.bridges if bridge.hit.item_id not in left_out),
    )


def wire(handlers: Handlers, trace: gr.State, mode: gr.Radio, quiet: Mapping[str, Any]) -> None:
    """The hidden component through which the column asks and is answered; ``mode`` is the control of the graph mode."""
    desk = gr.HTML("", elem_id="graph-desk", apply_default_css=False, js_on_load=ON_LOAD)
    asking = desk.click(
        GraphDesk(handlers.shelf, handlers.admit).answer, [trace], [desk, mode], trigger_mode="always_last", **quiet
    )
    asking.then(None, js="() => window.fusebox.showGraph()", **quiet)


def _fact(trace: Trace, corpus: Corpus, item: str) -> Reply:
    found = _ITEM.fullmatch(item)
    return graph.statement(trace, corpus, _triple(found[1] if found else "", corpus)), gr.skip()


def _around(trace: Trace, corpus: Corpus, reference: str) -> Reply:
    entities = trace.evidence.graph.entities if trace.evidence.graph else ()
    entity = _entity(entities, corpus, reference)
    return graph.around(corpus.graph.neighbours(entity, MAX_NEIGHBOURS), corpus, entities), gr.skip()


def _entity(entities: tuple[str, ...], corpus: Corpus, reference: str) -> str:
    found = _NODE.fullmatch(reference)
    kind, number = (found[1], found[2]) if found else ("", "")
    if kind == "q" and int(number) < len(entities):
        return entities[int(number)]
    triple = corpus.triples[_triple("" if kind == "q" else number, corpus)]
    return triple.subject if kind == "s" else triple.object


def _triple(number: str, corpus: Corpus) -> int:
    if not number or int(number) >= len(corpus.triples):
        raise UsageError("This corpus has no such fact; ask the question again and click anew.")
    return int(number)


def _other(trace: Trace, corpus: Corpus, mode: str) -> Reply:
    chosen = _mode(mode)
    return graph.other_mode(trace, corpus, chosen, would_send(trace, corpus, chosen)), gr.skip()


def _set(trace: Trace, corpus: Corpus, mode: str) -> Reply:
    chosen = _mode(mode)
    return graph.mode_set(chosen), chosen


def _mode(mode: str) -> GraphMode:
    for known in MODES:
        if known == mode:
            return known
    raise UsageError(f"There is no such graph mode; choose one of {', '.join(MODES)}.")


_ANSWERS: dict[str, Callable[[Trace, Corpus, str], Reply]] = {
    "fact": _fact,
    "around": _around,
    "other": _other,
    "set": _set,
}

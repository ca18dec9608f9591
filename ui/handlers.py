"""Events -> pipeline -> views. The only place where a ``FuseboxError`` becomes a message to the person."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import gradio as gr

from rag import pricing
from rag.corpus import Corpus
from rag.errors import FuseboxError
from rag.generators.registry import GENERATORS, GeneratorSpec, generator_named
from rag.pipeline import ask
from rag.systems import LIMITS, preset_for, system_named, tuned
from rag.types import Estimate, Generation, System, Trace
from ui import text as words
from ui.views import answer, chunks, counters, crops, graph, page, prompt

KNOBS = ("payload", "text_ranker", "text_k", "graph_mode", "max_facts", "visual_ranker", "visual_depth")
"""The settings that the page offers, in the order of its inputs."""

REDRAW_S = 0.04
"""A growing answer is drawn at most this often."""

VIEWS = ("answer", "counters", "text", "graph", "visual", "prompt")
CHANGED_BY_ANSWER = ("answer", "counters", "text", "prompt")
"""The others stand since the prompt was built."""

CONTROLS = ("trace", "ask", "stop")
OUTPUTS = (*VIEWS, *CONTROLS)
"""What a question changes, in the order of the page's outputs."""

Update = tuple[Any, ...]


def system_of(with_graph: bool, with_visual: bool, knobs: Mapping[str, Any]) -> System:
    """The system that the switches and settings stand for.

    Raises:
        UsageError: a setting out of its range.
    """
    whole = {name: int(value) if name in LIMITS and _is_whole(value) else value for name, value in knobs.items()}
    return tuned(system_named(preset_for(with_graph, with_visual)), **whole)


def _is_whole(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and float(value).is_integer()


@dataclass(slots=True)
class Handlers:
    """Everything the page's events call. Holds the corpus, which all sessions share, and per running question a stop
    signal under
    its session's key; answers live in the session's own state."""

    corpus: Corpus
    generators: Mapping[str, GeneratorSpec] = field(default_factory=lambda: GENERATORS)
    _stops: dict[str, threading.Event] = field(default_factory=dict)

    def ask(
        self, request: gr.Request, question: str, with_graph: bool, with_visual: bool, generator: str, *settings: Any
    ) -> Iterator[Update]:
        """Answer a question; yields updates for ``OUTPUTS``."""
        stop = self._stops[str(request.session_hash)] = threading.Event()
        try:
            spec = self._spec(generator)
            system = system_of(with_graph, with_visual, dict(zip(KNOBS, settings, strict=True)))
            yield from self._answer(question or "", system, spec, stop)
        except FuseboxError as error:
            yield self._update(answer=answer.problem(str(error)), **_idle())
        finally:
            stop.set()
            if self._stops.get(str(request.session_hash)) is stop:
                del self._stops[str(request.session_hash)]

    def _spec(self, name: str) -> GeneratorSpec:
        return self.generators[name] if name in self.generators else generator_named(name)

    def _answer(self, question: str, system: System, spec: GeneratorSpec, stop: threading.Event) -> Iterator[Update]:
        yield self._update(trace=None, **_busy())
        trace, drawn, last = None, False, 0.0
        for trace in ask(question, system, spec, self.corpus, stopped=stop.is_set):
            now = time.perf_counter()
            if trace.prompt is not None and not drawn:
                drawn = True
                yield self._update(trace=trace, **self._views(trace, spec, running=True))
            elif trace.generation is not None and now - last >= REDRAW_S:
                last = now
                yield self._update(trace=trace, answer=answer.render(trace, spec.label, running=True))
        if trace is not None:
            yield self._update(trace=trace, **self._views(trace, spec, False, CHANGED_BY_ANSWER), **_idle())

    def _views(
        self, trace: Trace, spec: GeneratorSpec, running: bool, names: Collection[str] = VIEWS
    ) -> dict[str, str]:
        """The named views of a trace."""
        tokens = self.tokens(trace, spec)
        drawers: dict[str, Callable[[], str]] = {
            "answer": lambda: answer.render(trace, spec.label, running),
            "counters": lambda: counters.render(trace, tokens, spec.access == "embedded", self.elsewhere(trace)),
            "text": lambda: chunks.render(trace, self.corpus),
            "graph": lambda: graph.render(trace, self.corpus),
            "visual": lambda: crops.render(trace, self.corpus),
            "prompt": lambda: prompt.render(trace, tokens),
        }
        return {name: drawers[name]() for name in names}

    def tokens(self, trace: Trace, spec: GeneratorSpec) -> tuple[int, ...]:
        """Estimated tokens per segment of the prompt, adding up to the count that the generator gave."""
        if trace.prompt is None:
            return ()
        usage = trace.generation.usage if trace.generation else None
        return pricing.split(trace.prompt, spec, usage.input_tokens if usage else None)

    def elsewhere(self, trace: Trace) -> tuple[tuple[str, Estimate], ...]:
        """What this very prompt would take on each other generator, by label."""
        if trace.prompt is None:
            return ()
        others = [
            spec for spec in self.generators.values() if spec.name != trace.generator and spec.access != "embedded"
        ]
        estimates = pricing.estimates(trace.prompt, others)
        return tuple((spec.label, estimate) for spec, estimate in zip(others, estimates, strict=True))

    def stop(self, trace: Trace | None, request: gr.Request) -> Update:
        """End the running question of this session and show what there is of it."""
        running = self._stops.get(str(request.session_hash))
        if running is not None:
            running.set()
        if trace is None:
            return self._update(answer=answer.stopped_early(), **_idle())
        spec = self._spec(trace.generator)
        generation = trace.generation or Generation(text="")
        if generation.finish is None:
            trace = replace(trace, generation=replace(generation, finish="cancelled"))
        return self._update(trace=trace, **self._views(trace, spec, False, CHANGED_BY_ANSWER), **_idle())

    def broke(self) -> Update:
        """A bug, not a ``FuseboxError``: the page says so and can be used again."""
        return self._update(answer=answer.problem(words.BUG), **_idle())

    def open_page(self, trace: Trace | None, event: gr.EventData) -> str:
        """The page viewer's content for the page and item that were clicked; what a browser sends is not trusted."""
        sent = getattr(event, "_data", None)
        wanted = sent if isinstance(sent, Mapping) else {}
        page_id, focus = (str(wanted.get(key, "")) for key in ("page", "focus"))
        try:
            return page.render(trace, self.corpus, page_id, focus)
        except FuseboxError as error:
            return answer.problem(str(error))

    @staticmethod
    def _update(**changes: Any) -> Update:
        return tuple(changes.get(name, gr.skip()) for name in OUTPUTS)


def _busy() -> dict[str, Any]:
    return {"answer": answer.reading(), "ask": gr.update(visible=False), "stop": gr.update(visible=True)}


def _idle() -> dict[str, Any]:
    return {"ask": gr.update(visible=True), "stop": gr.update(visible=False)}

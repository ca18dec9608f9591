"""Events -> pipeline -> views. The only place where a ``FuseboxError`` becomes a message to the person."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import gradio as gr

from rag import pricing
from rag.corpus import Corpus
from rag.errors import FuseboxError
from rag.generators.access import OPERATOR, Access
from rag.generators.registry import GENERATORS, GeneratorSpec, generator_named
from rag.pipeline import ask, prompt_for
from rag.pricing import Counter
from rag.systems import LIMITS, preset_for, system_named, tuned
from rag.types import Estimate, System, Trace
from ui import text as words
from ui.keydesk import KeyDesk
from ui.shelf import Shelf
from ui.viewer_desk import viewed
from ui.views import answer, chunks, contribution, counters, crops, explain, generators, graph, prompt, whatif

KNOBS = ("payload", "text_ranker", "text_k", "graph_mode", "max_facts", "visual_ranker", "visual_depth")
"""The settings that the page offers, in the order of its inputs."""

DEFAULT_SYSTEM = "+both"

REDRAW_S = 0.04
"""A growing answer is drawn at most this often."""

VIEWS = (
    "answer",
    "counters",
    "helped",
    "explain",
    "whatif",
    "text",
    "graph",
    "visual",
    "influence",
    "prompt",
    "estimates",
)
CHANGED_BY_ANSWER = ("answer", "counters", "helped", "explain", "text", "influence", "prompt")
"""The others stand since the prompt was built, but for the crops where the answer cites one or took its pixels."""

CONTROLS = ("trace", "ask", "stop")
OUTPUTS = (*VIEWS, *CONTROLS)
"""What a question changes, in the order of the page's outputs."""

Update = tuple[Any, ...]


def system_of(with_graph: bool, with_visual: bool, knobs: Mapping[str, Any]) -> System:
    """The system that the switches and settings stand for.

    Raises:
        UsageError: a setting out of its range.
    """
    return with_knobs(system_named(preset_for(with_graph, with_visual)), knobs)


def with_knobs(system: System, knobs: Mapping[str, Any]) -> System:
    """``system`` with settings as the page sends them.

    Raises:
        UsageError: a setting out of its range.
    """
    whole = {name: int(value) if name in LIMITS and _is_whole(value) else value for name, value in knobs.items()}
    return tuned(system, **whole)


def _is_whole(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and float(value).is_integer()


@dataclass(slots=True)
class _Running:
    """One question on its way: how it is stopped, and token counts, of which every view needs the same ones."""

    spec: GeneratorSpec
    corpus: Corpus
    stop: threading.Event
    count: Counter = field(default_factory=lambda: lru_cache(maxsize=64)(pricing.default_counter()))


@dataclass(slots=True)
class Handlers:
    """Everything the page's events call. Holds the corpora and the way to the generators, which all sessions share, and per
    running question a stop signal under its session's key; answers live in the session's own state."""

    shelf: Shelf
    generators: Mapping[str, GeneratorSpec] = field(default_factory=lambda: GENERATORS)
    access: Access = OPERATOR
    desk: KeyDesk | None = None
    left: Callable[[str], None] = lambda session: None
    """Told of a session whose page was closed."""
    _stops: dict[str, threading.Event] = field(default_factory=dict)
    _turns: dict[str, int] = field(default_factory=dict)

    def ask(
        self, request: gr.Request, question: str, with_graph: bool, with_visual: bool, generator: str, *settings: Any
    ) -> Iterator[Update]:
        """Answer a question; yields updates for ``OUTPUTS``."""
        session = str(request.session_hash)
        stop = self._stops[session] = threading.Event()
        self._next_turn(session)
        try:
            self.admit(request)
            running = _Running(self.spec(generator), self.shelf.of(session), stop)
            system = system_of(with_graph, with_visual, dict(zip(KNOBS, settings, strict=True)))
            turn = self.turn(session)
            for update in self._answer(question or "", system, running, self.access.for_session(session)):
                if self.turn(session) != turn:  # another corpus was chosen meanwhile
                    break
                yield update
        except FuseboxError as error:
            yield self._update(answer=answer.problem(str(error)), **_idle())
        finally:
            stop.set()
            if self._stops.get(session) is stop:
                del self._stops[session]

    def spec(self, name: str) -> GeneratorSpec:
        """The generator to call.

        Raises:
            UsageError: there is none of that name.
        """
        return self.generators[name] if name in self.generators else generator_named(name)

    def turn(self, session: str) -> int:
        """Changes with every answer that takes the page of ``session``: what still runs for an earlier one is out of date."""
        return self._turns.get(session, 0)

    def cleared(self, session: str, corpus: Corpus) -> Update:
        """The page before the first question to ``corpus``; for ``OUTPUTS``. What runs for this session ends and is not shown."""
        running = self._stops.get(session)
        if running is not None:
            running.set()
        self._next_turn(session)
        return self._update(trace=None, **empty_views(corpus), **_idle())

    def _next_turn(self, session: str) -> None:
        self._turns[session] = self.turn(session) + 1

    def _answer(self, question: str, system: System, running: _Running, access: Access) -> Iterator[Update]:
        yield self._update(trace=None, **_busy())
        trace, drawn, last, waiting = None, False, 0.0, ""
        for trace in ask(question, system, running.spec, running.corpus, stopped=running.stop.is_set, access=access):
            now = time.perf_counter()
            if trace.prompt is not None and not drawn:
                drawn = True
                yield self._update(trace=trace, **self._views(trace, running, True))
            elif trace.generation is not None and (now - last >= REDRAW_S or trace.generation.waiting != waiting):
                last, waiting = now, trace.generation.waiting
                yield self._update(answer=answer.render(trace, running.spec.label, running=True))
        if trace is not None:
            changed = (*CHANGED_BY_ANSWER, "visual") if _took_crops(trace) else CHANGED_BY_ANSWER
            yield self._update(trace=trace, **self._views(trace, running, False, changed), **_idle())

    def show(self, trace: Trace, session: str, origin: str = "") -> Update:
        """A finished trace, however it came here, in place of the one that is shown; for ``OUTPUTS``. ``origin`` says in the answer
        card where it comes from, if not from here.

        Raises:
            CorpusError: its corpus is not open here.
        """
        running = _Running(self.spec_of(trace), self.shelf.named(trace.corpus_id, session), threading.Event())
        self._next_turn(session)
        views = self._views(trace, running, False)
        if origin:
            views["answer"] = answer.render(trace, running.spec.label, False, origin)
        return self._update(trace=trace, **views, **_idle())

    def spec_of(self, trace: Trace) -> GeneratorSpec:
        """Who answered; a generator that this process does not have is known by its name alone."""
        if trace.generator in self.generators:
            return self.generators[trace.generator]
        bare = self.generators[next(iter(self.generators))]
        name = trace.generator
        return replace(
            bare, name=name, label=name, access="open", usd_per_million_input=None, usd_per_million_output=None
        )

    def reader_for(self, trace: Trace | None) -> GeneratorSpec | None:
        """Whom to ask about an answer without being asked for money: the generator that gave it, if it is embedded, else one that is."""
        embedded = {name: spec for name, spec in self.generators.items() if spec.access == "embedded"}
        return embedded.get(trace.generator if trace else "") or next(iter(embedded.values()), None)

    def _views(
        self, trace: Trace, running: _Running, unfinished: bool, names: Collection[str] = VIEWS
    ) -> dict[str, str]:
        """The named views of a trace."""
        spec, corpus, tokens = running.spec, running.corpus, self.tokens(trace, running.spec, running.count)
        estimates = self.estimates(trace, corpus, running.count)
        drawers: dict[str, Callable[[], str]] = {
            "answer": lambda: answer.render(trace, spec.label, unfinished),
            "counters": lambda: counters.render(
                trace, tokens, spec.access == "embedded", self.elsewhere(trace, estimates)
            ),
            "helped": lambda: "" if unfinished else contribution.offer(trace, self.reader_for(trace)),
            "explain": lambda: explain.render(trace, unfinished),
            "whatif": lambda: "",
            "text": lambda: chunks.render(trace, corpus),
            "graph": lambda: graph.render(trace, corpus),
            "visual": lambda: crops.render(trace, corpus),
            "influence": lambda: whatif.offer(trace, spec),
            "prompt": lambda: prompt.render(trace, tokens, unfinished),
            "estimates": lambda: generators.estimates(estimates),
        }
        return {name: drawers[name]() for name in names}

    def tokens(self, trace: Trace, spec: GeneratorSpec, count: Counter | None = None) -> tuple[int, ...]:
        """Estimated tokens per segment of the prompt, adding up to the count that the generator gave."""
        if trace.prompt is None:
            return ()
        usage = trace.generation.usage if trace.generation else None
        return pricing.split(trace.prompt, spec, usage.input_tokens if usage else None, count)

    def estimates(self, trace: Trace, corpus: Corpus, count: Counter | None = None) -> dict[str, Estimate]:
        """What this very question and evidence, with the image for those that see, would take on every generator, by name."""
        if trace.prompt is None:
            return {}
        found: dict[str, Estimate] = {}
        for sees in (True, False):
            specs = [spec for spec in self.generators.values() if spec.vision is sees]
            if specs:
                sent = prompt_for(trace, specs[0], corpus)
                found |= zip((spec.name for spec in specs), pricing.estimates(sent, specs, count), strict=True)
        return {name: found[name] for name in self.generators}

    def elsewhere(self, trace: Trace, estimates: Mapping[str, Estimate]) -> tuple[tuple[str, Estimate], ...]:
        """The estimates for each other generator that is asked over a network, by label."""
        others = {n: s for n, s in self.generators.items() if n != trace.generator and s.access != "embedded"}
        return tuple((others[n].label, e) for n, e in estimates.items() if n in others)

    def stop(self, request: gr.Request) -> Update:
        """End the running question of this session; it then says itself how far it came and what that is thought to have
        cost. Where none is running, Ask comes back."""
        running = self._stops.get(str(request.session_hash))
        if running is not None:
            running.set()
            return self._update(stop=gr.update(value=words.STOPPING, interactive=False))
        return self._update(**_idle())

    def session(self, request: gr.Request) -> str:
        """The session's name for the page's own requests (``ui.keydesk``)."""
        return generators.session(str(request.session_hash))

    def leave(self, request: gr.Request) -> None:
        """The page was closed: its keys are forgotten, and its choice of corpus."""
        self.shelf.leave(str(request.session_hash))
        self._turns.pop(str(request.session_hash), None)
        self.left(str(request.session_hash))
        if self.desk is not None:
            self.desk.forget(str(request.session_hash))

    def warm(self, question: str) -> None:
        """Answer once for nobody, so that the first person does not wait for what the first answer loads."""
        spec = next(iter(self.generators.values()))
        if spec.access == "embedded":
            for _ in self._answer(
                question,
                system_named(DEFAULT_SYSTEM),
                _Running(spec, self.shelf.default, threading.Event()),
                self.access,
            ):
                pass

    def broke(self) -> Update:
        """A bug, not a ``FuseboxError``: the page says so and can be used again."""
        return self._update(answer=answer.problem(words.BUG), **_idle())

    def admit(self, request: gr.Request) -> None:
        """Let a session's event pass.

        Raises:
            UsageError: the session has keys or documents of its own, and the event comes from another browser than they.
        """
        if self.desk is not None:
            self.desk.admit(request)

    def open_page(self, request: gr.Request, trace: Trace | None, event: gr.EventData) -> str:
        """The viewer's content for the page, item or crop that was clicked; what a browser sends is not trusted."""
        sent = getattr(event, "_data", None)
        wanted = sent if isinstance(sent, Mapping) else {}
        try:
            session = str(request.session_hash)
            self.admit(request)
            corpus = self.shelf.named(trace.corpus_id, session) if trace is not None else self.shelf.of(session)
            return viewed(trace, corpus, wanted)
        except FuseboxError as error:
            return answer.problem(str(error))

    def unchanged(self) -> Update:
        """Updates for ``OUTPUTS`` that change nothing."""
        return self._update()

    @staticmethod
    def _update(**changes: Any) -> Update:
        return tuple(changes.get(name, gr.skip()) for name in OUTPUTS)


def empty_views(corpus: Corpus) -> dict[str, str]:
    """``VIEWS`` before the first question."""
    return {
        "answer": answer.empty(len(corpus.documents)),
        "counters": counters.empty(),
        "helped": "",
        "explain": explain.empty(),
        "whatif": "",
        "text": chunks.render(None, corpus),
        "graph": graph.render(None, corpus),
        "visual": crops.render(None, corpus),
        "influence": "",
        "prompt": prompt.empty(),
        "estimates": "",
    }


def _took_crops(trace: Trace) -> bool:
    return bool(trace.generation and trace.generation.images) or any(c.tag.startswith("V") for c in trace.citations)


def _busy() -> dict[str, Any]:
    # Stop is made usable again too: the answer to a press on it may come after the stopped question's own last update.
    stop = gr.update(visible=True, value=words.STOP, interactive=True)
    return {"answer": answer.reading(), "ask": gr.update(visible=False), "stop": stop}


def _idle() -> dict[str, Any]:
    return {"ask": gr.update(visible=True), "stop": gr.update(visible=False, value=words.STOP, interactive=True)}

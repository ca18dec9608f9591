"""``ask``: the straight way of a question. The only code that knows the order of the steps (eq. 4).

The page, the comparison, the command line and the API all call it; there is no second path.
"""

from __future__ import annotations

import time
import unicodedata
import uuid
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from rag import branches, gate, prompt
from rag.corpus import Corpus
from rag.errors import FuseboxError, UsageError
from rag.generators.registry import GeneratorSpec, cost_usd
from rag.types import Delta, Finish, Generation, Prompt, System, Trace

MAX_QUESTION_CHARS = 2_000

_KEPT_CONTROLS = "\n\t"


def clean_question(text: str) -> str:
    """The question as it goes on: control characters and lone surrogates out, ends stripped.

    Raises:
        UsageError: nothing is left, or it is longer than ``MAX_QUESTION_CHARS``.
    """
    kept = "".join(c if c in _KEPT_CONTROLS or unicodedata.category(c) not in ("Cc", "Cs") else " " for c in text).strip()
    if not kept:
        raise UsageError("The question is empty; type one, or pick an example.")
    if len(kept) > MAX_QUESTION_CHARS:
        raise UsageError(
            f"The question has {len(kept):,} characters; shorten it to {MAX_QUESTION_CHARS:,}, it is a question and not a document."
        )
    return kept


@dataclass(slots=True)
class _Stopwatch:
    """Milliseconds per stage."""

    timings: dict[str, float] = field(default_factory=dict)
    _last: float = field(default_factory=time.perf_counter)

    def lap(self, stage: str) -> None:
        now = time.perf_counter()
        self.timings[stage] = round(1000 * (now - self._last), 3)
        self._last = now


def ask(
    question: str,
    system: System,
    generator: GeneratorSpec,
    corpus: Corpus,
    *,
    exclude: Collection[str] = (),
    question_type: str | None = None,
    stopped: Callable[[], bool] = lambda: False,
) -> Iterator[Trace]:
    """Answer ``question``, yielding fuller and fuller traces: evidence, prompt, the growing answer, the finished one.

    Args:
        question: free text.
        system: what is retrieved and how.
        generator: who answers.
        corpus: an open corpus.
        exclude: item ids (chunk, ``triple:N``, crop) that retrieval may find but the prompt leaves out.
        question_type: the type where an evaluation knows it; it then decides what the gate lets through.
        stopped: asked between pieces of the answer; once true, the answer ends as ``cancelled`` and stays partial.

    Raises:
        UsageError: an empty or overlong question.
        EncoderUnavailable: the corpus's text encoder can't be loaded.
    """
    trace = Trace(
        id=uuid.uuid4().hex,
        created=datetime.now(UTC).isoformat(timespec="milliseconds"),
        question=clean_question(question),
        system=system,
        generator=generator.name,
        corpus_id=corpus.id,
        excluded=tuple(sorted(set(exclude))),
    )
    watch = _Stopwatch()
    for trace in _retrieve(trace, generator.vision, corpus, question_type, watch):
        yield trace
    sent = prompt.build(trace.question, trace.evidence, corpus, trace.excluded)
    watch.lap("prompt")
    trace = replace(trace, prompt=sent, timings_ms=dict(watch.timings))
    yield trace
    for generation in _generate(sent, generator, stopped):
        citations = prompt.parse_citations(generation.text, sent.tags)
        trace = replace(trace, generation=generation, citations=citations)
        yield trace
    watch.lap("generation")
    yield replace(trace, timings_ms=dict(watch.timings))


def _retrieve(
    trace: Trace, vision: bool, corpus: Corpus, question_type: str | None, watch: _Stopwatch
) -> Iterator[Trace]:
    """The branches and the gate. No branch looks at another's switch; the graph sees the text hits' pages because that is its
    definition (eq. 3)."""
    system, evidence = trace.system, trace.evidence
    query = branches.Query.of(trace.question, corpus)
    watch.lap("encode")
    text = branches.text(query, corpus, system)
    query = query.on_pages(tuple(dict.fromkeys(corpus.chunks[hit.item_id].page_id for hit in text.hits)))
    evidence = replace(evidence, text=text)
    watch.lap("text")
    if "graph" in system.branches:
        evidence = replace(evidence, graph=branches.graph(query, corpus, system))
        watch.lap("graph")
    if "visual" in system.branches:
        evidence = replace(evidence, visual=branches.visual(query, corpus, system))
        watch.lap("visual")
    decision = gate.decide(trace.question, evidence, system, corpus, vision=vision, question_type=question_type)
    watch.lap("gate")
    yield replace(trace, evidence=replace(evidence, gate=decision), timings_ms=dict(watch.timings))


def _generate(sent: Prompt, spec: GeneratorSpec, stopped: Callable[[], bool]) -> Iterator[Generation]:
    """The answer as it grows. A failure of the generator is a value, not an exception: the evidence stays on the page."""
    start = time.perf_counter()
    answer = Generation(text="")
    try:
        stream = spec.make().stream(sent)
        for event in stream:
            elapsed = 1000 * (time.perf_counter() - start)
            answer = _with(answer, event, elapsed, spec)
            if answer.finish is None and stopped():
                answer = replace(answer, finish="cancelled", latency_ms=elapsed)
            yield answer
            if answer.finish is not None:
                return
        answer = replace(answer, finish="error", error=f"{spec.label} ended without saying that it was done; ask again.")
    except FuseboxError as error:
        answer = replace(answer, finish="error", error=str(error))
    yield replace(answer, latency_ms=1000 * (time.perf_counter() - start))


def _with(answer: Generation, event: Delta | Finish, elapsed: float, spec: GeneratorSpec) -> Generation:
    if isinstance(event, Delta):
        first = answer.ttft_ms if answer.ttft_ms is not None else elapsed
        return replace(answer, text=answer.text + event.text, ttft_ms=first)
    usage = event.usage
    return replace(
        answer,
        usage=usage,
        latency_ms=elapsed,
        cost_usd=cost_usd(spec, usage.input_tokens, usage.output_tokens),
        finish=event.finish,
        error=event.error,
        abstained=event.finish == "stop" and prompt.is_abstention(answer.text),
    )

"""One answer as it grows: the estimate, the call within its cap, the stream, and how it ended."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Generator, Iterator
from dataclasses import replace

from rag import pricing, prompt
from rag.budget import Reservation
from rag.errors import FuseboxError
from rag.generators.access import Access
from rag.generators.spec import GeneratorSpec
from rag.types import Delta, Estimate, Finish, Generation, GeneratorEvent, Prompt, PromptImage, Sent, Usage, Waiting


def answer(
    sent: Prompt,
    spec: GeneratorSpec,
    access: Access,
    read_image: Callable[[PromptImage], bytes],
    stopped: Callable[[], bool] = lambda: False,
) -> Generator[Generation, None, None]:
    """The answer to ``sent`` as it grows; the last value has a ``finish``.

    A failure of the generator is a value, not an exception: the evidence stays on the page. Once ``stopped`` is true,
    or when the iterator is closed, the provider's request is aborted.
    """
    start = time.perf_counter()
    begun = generation = Generation(text="", estimate=pricing.estimate(sent, spec))
    try:
        credential = access.credential(spec)
        generator = spec.make(access.call(credential, read_image))
        assert begun.estimate is not None
        reservation = access.reserve(spec, begun.estimate, credential)
    except FuseboxError as error:  # nobody was called, so this is known to cost nothing
        yield replace(_failed(begun, str(error), start), cost_usd=0.0)
        return
    try:
        for generation in _events(generator.stream(sent), spec, reservation, stopped, begun, start):
            yield generation
        if generation.finish is None:
            yield _failed(generation, f"{spec.label} ended without saying that it was done; ask again.", start)
    except FuseboxError as error:
        yield _failed(generation, str(error), start)


def _events(
    stream: Iterator[GeneratorEvent],
    spec: GeneratorSpec,
    reservation: Reservation | None,
    stopped: Callable[[], bool],
    generation: Generation,
    start: float,
) -> Generator[Generation, None, None]:
    try:
        for event in stream:
            before, elapsed = generation, _elapsed(start)
            generation = _with(generation, event, elapsed, spec)
            if generation.finish is None and stopped():
                generation = _cancelled(generation, elapsed, spec)
            if generation != before:
                yield generation
            if generation.finish is not None:
                _settle(reservation, 0.0 if isinstance(event, Finish) and event.refused else generation.cost_usd)
                return
    finally:
        close = getattr(stream, "close", None)
        if close is not None:
            with contextlib.suppress(FuseboxError):
                close()


def _settle(reservation: Reservation | None, usd: float | None) -> None:
    if reservation is not None:
        reservation.settle(usd)


def _elapsed(start: float) -> float:
    return 1000 * (time.perf_counter() - start)


def _failed(generation: Generation, error: str, start: float) -> Generation:
    return replace(generation, finish="error", error=error, waiting="", latency_ms=_elapsed(start))


def _cancelled(generation: Generation, elapsed: float, spec: GeneratorSpec) -> Generation:
    """Stopped: no provider counts an aborted call, so the counts are estimates, and marked so."""
    assert generation.estimate is not None
    usage = _guess(generation.estimate, generation.text)
    cost = pricing.cost_usd(spec, usage.input_tokens, usage.output_tokens)
    return replace(generation, finish="cancelled", latency_ms=elapsed, usage=usage, cost_usd=cost, waiting="")


def _guess(estimate: Estimate, text: str) -> Usage:
    return Usage(estimate.input_tokens, pricing.default_counter()(text), None, "estimated")


def _with(generation: Generation, event: GeneratorEvent, elapsed: float, spec: GeneratorSpec) -> Generation:
    match event:
        case Sent(images):
            return replace(generation, images=images)
        case Waiting(text):
            return replace(generation, waiting=text) if text else generation
        case Delta(text):
            first = generation.ttft_ms if generation.ttft_ms is not None else elapsed
            return replace(generation, text=generation.text + text, ttft_ms=first, waiting="")
        case Finish(usage):
            return replace(
                generation,
                usage=usage,
                latency_ms=elapsed,
                cost_usd=pricing.cost_usd(spec, usage.input_tokens, usage.output_tokens),
                finish=event.finish,
                error=event.error,
                reason=event.reason,
                notice=event.notice,
                waiting="",
                abstained=event.finish == "stop" and prompt.is_abstention(generation.text),
            )

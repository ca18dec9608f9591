"""Influence by leaving out: each item of a prompt in turn is taken away, and the question asked again from the rest.

The evidence is the trace's own, so the only thing that differs from call to call is the one item. What it shows is whether an
item was needed, not whether it was read: two items that say the same can each be left out without a change.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from rag import pricing, prompt
from rag.corpus import Corpus
from rag.difference import difference
from rag.errors import UsageError
from rag.generators.access import OPERATOR, Access
from rag.generators.spec import GeneratorSpec
from rag.pipeline import ask_again
from rag.types import Estimate, Generation, Trace

Outcome = Literal["changed", "unchanged", "abstains", "answers", "failed"]
"""``abstains`` and ``answers``: it did not before. ``failed``: no whole answer came, which says nothing about the item."""


@dataclass(frozen=True, slots=True)
class Influence:
    """What became of the answer without one item. ``difference`` is ``rag.difference.Difference.share`` (0 the same words, 1 none
    in common); ``None`` where no whole answer came."""

    item_id: str
    tag: str
    outcome: Outcome
    generation: Generation
    difference: float | None

    @property
    def changed(self) -> bool:
        """Whether the item mattered; a failed call counts as no change."""
        return self.outcome not in ("unchanged", "failed")


def influence(
    trace: Trace,
    spec: GeneratorSpec,
    corpus: Corpus,
    access: Access = OPERATOR,
    stopped: Callable[[], bool] = lambda: False,
) -> Iterator[tuple[Influence, ...]]:
    """Leave each item of the prompt of ``trace`` out in turn, in the prompt's order; yields what is known so far, also
    while an answer is on its way, so that a consumer who goes away ends the call.

    Once ``stopped`` is true, the call on its way is aborted and counts for nothing.

    Raises:
        UsageError: the trace has no whole answer to compare with, or no item in its prompt.
        CorpusError: the trace is of another corpus.
    """
    known: tuple[Influence, ...] = ()
    before = _answer_of(trace)
    for tag, item in _items(trace).items():
        after: Generation | None = None
        for again in ask_again(trace, spec, corpus, exclude={*trace.excluded, item}, stopped=stopped, access=access):
            after = again.generation
            yield known
        if after is None or after.finish == "cancelled":
            return
        known = (*known, _compared(before, after, tag, item))
        yield known
        if stopped():
            return


def cost(trace: Trace, spec: GeneratorSpec, corpus: Corpus, count: pricing.Counter | None = None) -> Estimate:
    """What ``influence`` would take: the estimates of its prompts, added up. Unknown stays unknown.

    Raises:
        UsageError: as ``influence``.
    """
    _answer_of(trace)
    each = [
        pricing.estimate(prompt.build(trace.question, trace.evidence, corpus, {*trace.excluded, item}), spec, count)
        for item in _items(trace).values()
    ]
    return Estimate(
        generator=spec.name,
        input_tokens=_sum(one.input_tokens for one in each),
        text_tokens=sum(one.text_tokens for one in each),
        image_tokens=_sum(one.image_tokens for one in each),
        output_tokens=sum(one.output_tokens for one in each),
        cost_usd=_money(one.cost_usd for one in each),
        limit_usd=_money(one.limit_usd for one in each),
        note=next((one.note for one in each if one.note), ""),
    )


def _items(trace: Trace) -> Mapping[str, str]:
    """Tag -> item, in the order of the prompt."""
    tags = trace.prompt.tags if trace.prompt else {}
    if not tags:
        raise UsageError("This prompt holds no evidence, so there is nothing to leave out.")
    return tags


def _answer_of(trace: Trace) -> Generation:
    if trace.generation is None or not trace.generation.counts:
        raise UsageError("There is no whole answer to compare with; ask again and let it finish.")
    return trace.generation


def _compared(before: Generation, after: Generation, tag: str, item: str) -> Influence:
    if not after.counts:
        return Influence(item, tag, "failed", after, None)
    share = difference(before.text, after.text).share
    outcomes: dict[tuple[bool, bool], Outcome] = {
        (False, True): "abstains",
        (True, False): "answers",
        (True, True): "unchanged",
    }
    outcome = outcomes.get((before.abstained, after.abstained), "changed" if share else "unchanged")
    return Influence(item, tag, outcome, after, 0.0 if before.abstained and after.abstained else share)


def _sum(counts: Iterator[int | None]) -> int | None:
    known = list(counts)
    return None if None in known else sum(count for count in known if count is not None)


def _money(amounts: Iterator[float | None]) -> float | None:
    known = list(amounts)
    return None if None in known else math.fsum(amount for amount in known if amount is not None)

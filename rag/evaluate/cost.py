"""What a run and its judges would cost: estimated from real prompts, before anybody is asked anything."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace

from rag import pricing
from rag.corpus import Corpus
from rag.errors import UsageError
from rag.evaluate.judges import Judge, ModelJudge
from rag.evaluate.questions import Question
from rag.evaluate.runner import Job, Plan
from rag.evaluate.store import Key, Result, Store
from rag.pipeline import ask, prompt_for
from rag.types import Estimate, Trace

SAMPLE = 24
"""Questions on whose real prompts the cost of a run is estimated; of fewer, all are."""
VERDICT_TOKENS = 4
"""A judge's "yes" or "no"; its estimate supposes so many."""


@dataclass(frozen=True, slots=True)
class CostEstimate:
    """What a plan would take, from the real prompts of ``sampled`` of ``questions`` questions. ``cost_usd`` supposes short answers,
    ``limit_usd`` the longest; ``None`` where it is not known for ``unknown`` models. ``judging`` is what language models as judges would
    come to besides."""

    calls: int
    questions: int
    sampled: int
    input_tokens: int | None
    cost_usd: float | None
    limit_usd: float | None
    unknown: tuple[str, ...] = ()
    judging: CostEstimate | None = None

    @property
    def total_usd(self) -> float | None:
        """With the judges, supposing short answers."""
        return _sum([self.cost_usd, *([self.judging.cost_usd] if self.judging else [])])

    @property
    def total_limit_usd(self) -> float | None:
        """With the judges, at most."""
        return _sum([self.limit_usd, *([self.judging.limit_usd] if self.judging else [])])

    @property
    def line(self) -> str:
        """A line for the person."""
        own = f"{self.calls:,} calls{self._cost}"
        return own if self.judging is None else f"{own} Judging: {self.judging.calls:,} calls{self.judging._cost}"

    @property
    def _cost(self) -> str:
        basis = "all" if self.sampled == self.questions else f"a sample of {self.sampled}"
        if self.cost_usd is None or self.limit_usd is None:
            return f"; what they cost is not known for {', '.join(self.unknown)}."
        if self.limit_usd == 0:
            return ", free of charge."
        return (
            f", about ${self.cost_usd:.4f} and at most ${self.limit_usd:.4f} "
            f"(from the prompts of {basis} of the {self.questions} questions)."
        )


def estimate_cost(
    plan: Plan,
    corpus: Corpus,
    done: frozenset[Key] = frozenset(),
    sample: int = SAMPLE,
    *,
    judges: Sequence[Judge] = (),
    store: Store | None = None,
    run_id: str = "",
    again: bool = False,
) -> CostEstimate:
    """What the calls of ``plan`` that are not ``done`` would take, and the judges of those and of what is stored; nobody is asked.

    Args:
        plan: what is to be asked.
        corpus: the corpus that it is about.
        done: what was asked already.
        sample: questions whose prompts are built.
        judges: who is to judge; those that ask nobody cost nothing.
        store: where the run ``run_id`` is, of which only what is not judged yet is to be judged, or with ``again`` all.
    """
    search = _Search(corpus)
    calls = [job for job in plan.jobs() if job.key not in done]
    paid = [job for job in calls if pricing.is_paid(job.generator)]
    chosen = _chosen((job.question for job in paid), sample)
    found = [search.estimate(job) for job in paid if job.question in chosen]
    unjudged = _Unjudged(plan, [j for j in judges if j.paid], store, run_id, again)
    return replace(
        _scaled(found, len(paid), {job.question for job in paid}, chosen),
        calls=len(calls),
        judging=unjudged.estimate(search, sample),
    )


def check_budget(estimate: CostEstimate, budget_usd: float | None) -> None:
    """That a run may start.

    Raises:
        UsageError: it may cost more, or nobody knows what.
    """
    if budget_usd is None:
        return
    if estimate.total_limit_usd is None:
        raise UsageError(
            f"Not started: {estimate.line} Name their prices in the file of FUSEBOX_ENDPOINTS, or lift the cap (--yes)."
        )
    if estimate.total_limit_usd > budget_usd:
        raise UsageError(
            f"Not started: {estimate.line} That is above the cap of ${budget_usd:.4f}; raise it (--budget-usd), ask less (--limit), or "
            "lift it (--yes)."
        )


def _sum(values: Iterable[float | None]) -> float | None:
    listed = list(values)
    known = [value for value in listed if value is not None]
    return None if len(known) < len(listed) else sum(known)


def _chosen(questions: Iterable[Question], sample: int) -> frozenset[Question]:
    """``sample`` of them, or all of fewer, taken evenly."""
    asked = tuple(dict.fromkeys(questions))
    return frozenset(asked[:: max(1, -(-len(asked) // sample))])


def _scaled(
    found: Sequence[Estimate], calls: int, questions: set[Question], chosen: frozenset[Question]
) -> CostEstimate:
    """All calls, from the estimates of some."""
    scale = calls / len(found) if found else 0.0

    def of(values: Iterable[float | None]) -> float | None:
        total = _sum(values)
        return None if total is None else scale * total

    tokens = of(e.input_tokens for e in found)
    return CostEstimate(
        calls=calls,
        questions=len(questions),
        sampled=len(chosen),
        input_tokens=None if tokens is None else round(tokens),
        cost_usd=of(e.cost_usd for e in found),
        limit_usd=of(e.limit_usd for e in found),
        unknown=tuple(dict.fromkeys(e.generator for e in found if e.limit_usd is None)),
    )


@dataclass(slots=True)
class _Search:
    """What is found depends on no generator, so that jobs that differ in nothing else search once."""

    corpus: Corpus
    _found: dict[tuple[Question, str], Trace] = field(default_factory=dict)

    def trace(self, job: Job) -> Trace:
        """The trace of a call as it would be just before it is made."""
        key = job.question, job.system.name
        if key not in self._found:
            steps = ask(job.question.q, job.system, job.generator, self.corpus, question_type=job.question_type)
            with closing(steps):
                self._found[key] = next(steps)
        return replace(
            self._found[key],
            generator=job.generator.name,
            prompt=prompt_for(self._found[key], job.generator, self.corpus),
        )

    def estimate(self, job: Job) -> Estimate:
        """Of one call."""
        sent = self.trace(job).prompt
        assert sent is not None
        return pricing.estimate(sent, job.generator)


@dataclass(slots=True)
class _Unjudged:
    """The answers that language models are still to judge, given or to come."""

    plan: Plan
    judges: Sequence[Judge]
    store: Store | None
    run_id: str
    again: bool

    def estimate(self, search: _Search, sample: int) -> CostEstimate | None:
        """What that would take; ``None`` where there are no such judges."""
        if not self.judges:
            return None
        given = self._given()
        todo = [
            (job, judge)
            for job in self.plan.jobs()
            for judge in self.judges
            if self.again or job.key not in given or judge.name not in given[job.key].verdicts
        ]
        chosen = _chosen((job.question for job, _ in todo), sample)
        looked_at = [(job, judge) for job, judge in todo if job.question in chosen]
        found = [
            one
            for job, judge in looked_at
            if isinstance(judge, ModelJudge)
            for one in self._calls(judge, job, given.get(job.key), search)
        ]
        calls = round(len(todo) * len(found) / len(looked_at)) if looked_at else 0
        return _scaled(found, calls, {job.question for job, _ in todo}, chosen)

    def _given(self) -> dict[Key, Result]:
        if self.store is None or not self.run_id:
            return {}
        results = [result for result in self.store.results(self.run_id) if result.state == "done"]
        return {(r.question_id, r.system, r.generator): r for r in results}

    def _calls(self, judge: ModelJudge, job: Job, given: Result | None, search: _Search) -> Iterator[Estimate]:
        """Of a judge's calls on one answer. One that is still to come is reckoned as a short one, and at most as the longest."""
        if given is not None and self.store is not None:
            trace, answers = self.store.trace(given), (given.answer, given.answer)
        else:
            trace = search.trace(job)
            lengths = (pricing.ASSUMED_OUTPUT_TOKENS, job.generator.max_output_tokens)
            answers = (" ".join(["word"] * lengths[0]), " ".join(["word"] * lengths[1]))
        short, longest = (judge.calls(job.question.q, job.question.answer, answer, trace) for answer in answers)
        for metric, (model, prompt) in short.items():
            about = pricing.estimate(prompt, model)
            yield replace(
                about,
                output_tokens=VERDICT_TOKENS,
                cost_usd=pricing.cost_usd(model, about.input_tokens, VERDICT_TOKENS),
                limit_usd=pricing.estimate(longest[metric][1], model).limit_usd,
            )

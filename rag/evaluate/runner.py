"""Runs: questions x systems x generators through ``ask``, each finished one kept at once, and judging as a step of its own.

What a run finds does not depend on order or concurrency. A call that failed is kept as failed, never scored, and made again when the run
goes on; stopped, killed or out of budget, a run goes on where it was.
"""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from rag import branches
from rag.corpus import Corpus
from rag.errors import CorpusError, FuseboxError, UsageError
from rag.evaluate.questions import Question, locate, resolve, source_of
from rag.evaluate.store import Key, Place, Result, Run, Store, question_id
from rag.gate import QUESTION_TYPES
from rag.generators.access import OPERATOR, Access
from rag.generators.registry import GENERATORS, generator_named
from rag.generators.spec import GeneratorSpec
from rag.pipeline import ask
from rag.systems import CHOICES, LIMITS, SYSTEMS
from rag.types import Branch, System, Trace

if TYPE_CHECKING:
    from rag.evaluate.judges import Judge

RANK_DEPTH = branches.FUSION_DEPTH
"""A gold source is looked for down to this rank, however much of the ranking goes into the prompt."""
CALLS_AT_ONCE = 4
"""Per provider, if nobody says otherwise."""
LOCAL_CALLS_AT_ONCE = os.cpu_count() or 1
_POLL_S = 0.2

Stopped = Callable[[], bool]


def _never() -> bool:
    return False


@dataclass(frozen=True, slots=True)
class Plan:
    """What a run asks: every question of every system and generator. With ``by_type`` the gate goes by the question's type, as in the
    study; else by its own signals, as on the page."""

    questions: tuple[Question, ...]
    systems: tuple[System, ...]
    generators: tuple[GeneratorSpec, ...]
    by_type: bool = True
    label: str = ""

    @property
    def generator_names(self) -> tuple[str, ...]:
        """Their names, in order."""
        return tuple(spec.name for spec in self.generators)

    def jobs(self) -> Iterator[Job]:
        """Every call, question by question."""
        for question in self.questions:
            for system in self.systems:
                for generator in self.generators:
                    yield Job(question, system, generator, gate_type(question) if self.by_type else None)

    @classmethod
    def stored(cls, store: Store, run: str, generators: Mapping[str, GeneratorSpec] = GENERATORS) -> Plan:
        """The plan of a run that is to go on.

        Raises:
            UsageError: there is no such run, or one of its generators is not known here.
        """
        questions, systems, names, by_type = store.plan(run)
        specs = tuple(generators[name] if name in generators else generator_named(name) for name in names)
        return cls(questions, systems, specs, by_type, store.run(run).label)

    def check(self, corpus: Corpus) -> None:
        """That it can be run on this corpus.

        Raises:
            UsageError: nothing to ask, two of a name, a question twice, or questions about other documents.
        """
        for what, names in (
            ("question", [f"{q.set}: {q.q}" for q in self.questions]),
            ("system", [system.name for system in self.systems]),
            ("generator", list(self.generator_names)),
        ):
            if not names:
                raise UsageError(f"There is no {what} to run; name at least one.")
            if twice := next((name for name, times in Counter(names).items() if times > 1), ""):
                raise UsageError(f"The {what} {twice!r} comes twice; name it once.")
        if all(_strange(q, corpus) for q in self.questions if q.sources) and any(q.sources for q in self.questions):
            raise UsageError(
                f"None of the sources that the questions name is in the corpus {corpus.id}; open the corpus they are about."
            )


def gate_type(question: Question) -> str:
    """The question's type as the gate knows it. Any other ("hotpot_bridge") is about text, of one source or of several."""
    if question.type in QUESTION_TYPES:
        return question.type
    return "multihop" if len(question.sources) > 1 else "text"


@dataclass(frozen=True, slots=True)
class Job:
    """One call."""

    question: Question
    system: System
    generator: GeneratorSpec
    question_type: str | None

    @property
    def key(self) -> Key:
        """What the store calls it."""
        return question_id(self.question), self.system.name, self.generator.name


@dataclass(frozen=True, slots=True)
class RunProgress:
    """How far a run is; ``seconds_left`` is ``None`` until something was finished. ``spent_usd`` is of this sitting; what is unknown is
    not in it."""

    done: int
    failed: int
    total: int
    spent_usd: float = 0.0
    seconds_left: float | None = None

    @property
    def line(self) -> str:
        """A line for the person."""
        failed = f", {self.failed} failed" if self.failed else ""
        left = "" if self.seconds_left is None else f", about {_span(self.seconds_left)} left"
        spent = f", ${self.spent_usd:.4f} spent" if self.spent_usd else ""
        return f"{self.done + self.failed:,} of {self.total:,} asked{failed}{spent}{left}"


def _span(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"


def evaluate(
    plan: Plan,
    store: Store,
    corpus: Corpus,
    access: Access = OPERATOR,
    stopped: Stopped = _never,
    progress: Callable[[RunProgress], None] = lambda _: None,
    *,
    run_id: str = "",
    budget_usd: float | None = None,
    limits: Mapping[str, int] | None = None,
) -> Run:
    """Run ``plan``, or what of it is missing in the run ``run_id``, and keep every result and trace.

    Args:
        plan: what to ask; of a run that goes on, ``Plan.stored``.
        store: where to.
        corpus: the corpus that the questions are about.
        access: with whose keys, and within which caps.
        stopped: asked often; once true, what is under way is dropped and the run stays incomplete.
        progress: told after every call, from this thread.
        run_id: the run to go on with; empty for a new one.
        budget_usd: no further call is made once so much was spent in this sitting (calls under way are finished).
        limits: provider -> calls at once.

    Raises:
        UsageError: the plan can't be run here, or somebody is working on the run.
        CorpusError: the run is of another corpus.
    """
    plan.check(corpus)
    run = store.run(run_id) if run_id else store.create(plan, corpus.id)
    if run.corpus_id != corpus.id:
        raise CorpusError(f"Run {run.id} is of the corpus {run.corpus_id}, and {corpus.id} is open; open that one.")
    with store.running(run.id):
        finished, before = store.finished(run.id), run.note.splitlines()
        store.note(run.id, _note(plan, corpus, before))
        sitting = _Sitting(plan, store, corpus, access, stopped, run.id, budget_usd)
        notes = sitting.work(
            [job for job in plan.jobs() if job.key not in finished], len(finished), progress, limits or {}
        )
        store.note(run.id, _note(plan, corpus, (*before, *notes)))
    return store.run(run.id)


def _note(plan: Plan, corpus: Corpus, found: Sequence[str]) -> str:
    """What a reader must know, one sentence a line; ``found`` is what retrieval had to say."""
    strange = sum(_strange(question, corpus) for question in plan.questions)
    lines = [
        "The gate goes by the question's type, as in the study."
        if plan.by_type
        else "The gate goes by its own signals and does not know the question's type.",
        *(f"Retrieval differs from what is usual: {knob}." for knob in _tuned(plan.systems)),
        *(
            [f"{strange} questions name sources that this corpus does not hold; they count as not found."]
            if strange
            else []
        ),
        *found,
    ]
    return "\n".join(dict.fromkeys(lines))


def _tuned(systems: Sequence[System]) -> tuple[str, ...]:
    """Settings of the study's systems that somebody changed, each once."""
    knobs = {**LIMITS, **CHOICES}
    return tuple(
        dict.fromkeys(
            f"{knob} is {getattr(system, knob)}, not {getattr(SYSTEMS[system.name], knob)}"
            for system in systems
            if system.name in SYSTEMS
            for knob in knobs
            if getattr(system, knob) != getattr(SYSTEMS[system.name], knob)
        )
    )


def _strange(question: Question, corpus: Corpus) -> bool:
    return not all(resolve(source, corpus) for source in question.sources)


@dataclass(slots=True)
class _Sitting:
    """One stretch of work on a run."""

    plan: Plan
    store: Store
    corpus: Corpus
    access: Access
    stopped: Stopped
    run: str
    budget_usd: float | None
    halt: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)
    spent_usd: float = 0.0
    ranks: _Ranks = field(init=False)

    def __post_init__(self) -> None:
        self.ranks = _Ranks(self.corpus)

    def work(
        self, jobs: Sequence[Job], before: int, progress: Callable[[RunProgress], None], limits: Mapping[str, int]
    ) -> tuple[str, ...]:
        """Do all jobs, as many at once as each provider's limit allows; what a reader must know about what was found."""
        begun, state, notes = time.monotonic(), RunProgress(before, 0, before + len(jobs)), dict[str, None]()
        progress(state)
        with ExitStack() as stack:
            # Whatever ends this, Ctrl-C too, calls under way are told before the pools wait for them.
            pools = {
                name: stack.enter_context(ThreadPoolExecutor(limits.get(name, usual), thread_name_prefix="evaluate"))
                for name, usual in _providers(self.plan).items()
            }
            stack.callback(self.halt.set)
            waiting: set[Future[tuple[Result, str] | None]] = {
                pools[job.generator.provider].submit(self._one, job) for job in jobs
            }
            while waiting:
                ended, waiting = wait(waiting, _POLL_S, FIRST_COMPLETED)
                for outcome in (future.result() for future in ended):
                    if outcome is not None:
                        state = _after(state, outcome[0], before, time.monotonic() - begun)
                        notes |= dict.fromkeys(outcome[1:2] if outcome[1] else ())
                        progress(state)
                if self.stopped():
                    self.halt.set()
        return tuple(notes)

    def _one(self, job: Job) -> tuple[Result, str] | None:
        """One job, finished and kept; ``None`` where it was not begun or was broken off."""
        if self.halt.is_set() or (self.budget_usd is not None and self.spent_usd >= self.budget_usd > 0):
            return None
        trace, error = None, ""
        steps = ask(
            job.question.q,
            job.system,
            job.generator,
            self.corpus,
            question_type=job.question_type,
            stopped=self.halt.is_set,
            access=self.access,
        )
        try:
            for latest in steps:
                trace = latest
        except FuseboxError as raised:
            error = str(raised)
        generation = trace.generation if trace else None
        if generation is not None and generation.finish == "cancelled":
            return None
        result = _result(job, self.run, trace, error, self.ranks)
        with self.lock:
            self.spent_usd += result.cost_usd or 0.0
        self.store.add(result, trace)
        visual = trace.evidence.visual if trace else None
        return result, visual.note if visual else ""


def _providers(plan: Plan) -> dict[str, int]:
    """Provider -> calls at once."""
    return {
        spec.provider: CALLS_AT_ONCE if spec.access != "embedded" else LOCAL_CALLS_AT_ONCE for spec in plan.generators
    }


def _after(state: RunProgress, result: Result, before: int, elapsed_s: float) -> RunProgress:
    failed = result.state == "failed"
    done, failures = state.done + (not failed), state.failed + failed
    now = done + failures - before
    left = elapsed_s / now * (state.total - done - failures)
    return RunProgress(done, failures, state.total, state.spent_usd + (result.cost_usd or 0.0), left)


# --- from a trace to a result ----------------------------------------------------------------------------------------

_RETRIEVAL_STAGES = ("encode", "text", "graph", "visual", "gate")


def _result(job: Job, run: str, trace: Trace | None, error: str, ranks: _Ranks) -> Result:
    generation = trace.generation if trace else None
    usage = generation.usage if generation else None
    scored = generation is not None and generation.counts and not error
    if generation is not None and not scored:
        error = error or generation.error or generation.notice or "The answer is empty; ask again."
    timings = trace.timings_ms if trace else {}
    question, system, generator = job.key
    where = ranks.of(job.question, trace) if trace else ()
    return Result(
        run=run,
        question_id=question,
        set=job.question.set,
        type=job.question.type,
        question=job.question.q,
        reference=job.question.answer,
        sources=job.question.sources,
        system=system,
        generator=generator,
        state="done" if scored else "failed",
        answer=generation.text if generation else "",
        abstained=bool(generation and generation.abstained),
        input_tokens=usage.input_tokens if usage else None,
        output_tokens=usage.output_tokens if usage else None,
        tokens_source=usage.source if usage else "",
        cost_usd=generation.cost_usd if generation else None,
        retrieval_ms=sum(timings.get(stage, 0.0) for stage in _RETRIEVAL_STAGES),
        latency_ms=(generation.latency_ms if generation else None) or 0.0,
        ttft_ms=generation.ttft_ms if generation else None,
        ranks=tuple(rank for rank, _ in where),
        error=error,
        trace_id=trace.id if trace else "",
        places=tuple(place for _, place in where),
        page_ranks=ranks.of_pages(job.question, trace) if trace else (),
        parts=trace.evidence.text.parts if trace and trace.evidence.text else (),
    )


class _Ranks:
    """Where gold sources come in the rankings, ranked deeper than what a prompt takes. A ranking depends on no switch, so one does for
    every system with the same rankers."""

    def __init__(self, corpus: Corpus) -> None:
        self._corpus = corpus
        self._found: dict[tuple[str, Branch, System], dict[str, int]] = {}

    def of(self, question: Question, trace: Trace) -> tuple[tuple[int | None, Place], ...]:
        """(rank, place) of each gold source as the question names it."""
        places = {gold.source: gold for gold in locate(question, trace, self._corpus)}
        found: list[tuple[int | None, Place]] = []
        for source in question.sources:
            gold = places.get(resolve(source, self._corpus))
            if gold is None:
                found.append((None, "missed"))
            elif gold.state == "off":
                found.append((None, "off"))
            else:
                rank = self._ranking(trace, gold.branch).get(gold.source)
                place: Place = "sent" if gold.sent else "bridged" if gold.bridged else "found" if rank else "missed"
                found.append((rank, place))
        return tuple(found)

    def of_pages(self, question: Question, trace: Trace) -> tuple[int | None, ...]:
        """Rank of each gold page among the distinct pages of the text ranking; () where that branch is off."""
        if "text" not in trace.system.branches:
            return ()
        place = {page: n for n, page in enumerate(self._ranking(trace, "text"), start=1)}
        gold = dict.fromkeys(self._page(source) or source for source in question.sources)
        return tuple(place.get(page) for page in gold)

    def _page(self, source: str) -> str:
        """The page that a question means by ``source``, a crop's where it names a crop; empty where the corpus doesn't hold it."""
        found = resolve(source, self._corpus)
        return self._corpus.crops[found].page_id if found in self._corpus.crops else found

    def _ranking(self, trace: Trace, branch: Branch) -> dict[str, int]:
        """Source -> rank of its best item, best first."""
        deep = replace(trace.system, name="", label="", branches=(), text_k=RANK_DEPTH, visual_depth=RANK_DEPTH)
        key = (trace.question, branch, deep)
        if (known := self._found.get(key)) is None:
            query = branches.Query.of(trace.question, self._corpus)
            rank = branches.text if branch == "text" else branches.visual
            known = {}
            for hit in rank(query, self._corpus, deep).hits:
                known.setdefault(source_of(hit.item_id, branch, self._corpus), hit.rank)
            self._found[key] = known
        return known


# --- judging ---------------------------------------------------------------------------------------------------------


_CAPPED = "The cap was reached before every answer was judged: raise it, and resume the run with the same judges."


def judge_run(
    store: Store,
    run: str,
    judges: Sequence[Judge],
    stopped: Stopped = _never,
    progress: Callable[[int, int], None] = lambda _done, _total: None,
    *,
    again: bool = False,
    at_once: int = 1,
    budget_usd: float | None = None,
) -> tuple[str, ...]:
    """Let ``judges`` judge every finished result from its stored trace; verdicts that are there are kept unless ``again``. Once they
    came to ``budget_usd``, those that cost something judge no further answer (what is under way is finished).

    Returns:
        Why verdicts are missing, each reason once: a judge that could not be asked gives none, and is asked again next time.
    """
    todo = [
        (result, missing)
        for result in store.results(run)
        if result.state == "done" and (missing := [j for j in judges if again or j.name not in result.verdicts])
    ]
    reasons: dict[str, None] = {}

    def one(pair: tuple[Result, list[Judge]]) -> None:
        result, missing = pair
        if stopped():
            return
        trace = store.trace(result)
        for judge in missing:
            if budget_usd is not None and judge.paid and sum(j.spent_usd for j in judges) >= budget_usd:
                reasons[_CAPPED] = None
                continue
            try:
                verdicts = judge.judge(result.question, result.reference, result.answer, trace)
            except FuseboxError as error:
                reasons[str(error)] = None
            else:
                store.judged(result, {judge.name: verdicts})

    pool = ThreadPoolExecutor(at_once, thread_name_prefix="judge")
    try:
        for done, _ in enumerate(pool.map(one, todo), start=1):
            progress(done, len(todo))
    finally:
        pool.shutdown(cancel_futures=True)
    return tuple(reasons)

"""Events of the Ablation tab: what is shown, the questions behind a cell, and runs started, watched, stopped and resumed."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gradio as gr

from rag.corpus import Corpus
from rag.errors import FuseboxError, UsageError
from rag.evaluate.cost import CostEstimate, estimate_cost
from rag.evaluate.judges import STUDY_JUDGE, Judge, check_keys, judge_models, judges_named, model_judge
from rag.evaluate.published import JUDGES, shipped
from rag.evaluate.questions import known_questions
from rag.evaluate.runner import CALLS_AT_ONCE, Plan, RunProgress, evaluate, judge_run
from rag.evaluate.store import FILE_NAME, SHIPPED_RUN, Result, Run, Store
from rag.evaluate.tables import OFFLINE_NAMES, QUESTION_TYPES
from rag.generators.access import Access
from rag.generators.spec import GeneratorSpec
from rag.pricing import is_paid
from rag.systems import SYSTEMS, system_named
from ui import text as words
from ui.ablation_data import (
    OFFLINE,
    PUBLISHED_JUDGE,
    STUDY,
    STUDY_LABEL,
    Filters,
    Key,
    Source,
    board,
    results_of,
)
from ui.handlers import Handlers
from ui.history_desk import HistoryDesk
from ui.views import ablation as view
from ui.views.charts import type_words
from ui.views.markup import money

FILTERS = ("sources", "types", "systems", "generators", "judge")
"""Inputs of what is drawn, in order."""
OUTPUTS = (
    "board",
    "questions",
    "progress",
    "runs",
    *FILTERS,
    "sets",
    "run_judges",
    "judges_more",
    "start",
    "stop",
    "agreed",
    "timer",
)
"""What the tab's events change, in the order of its outputs."""

MAX_BOARDS = 16
"""Boards that are kept, of about 300 kB each."""

Update = tuple[Any, ...]
Wish = tuple[tuple[str, ...], ...]
"""Sets, systems, generators and judges of a run."""


@dataclass(slots=True)
class Job:
    """The run that this process works on: one at a time, whoever started it, and it goes on when its page is closed."""

    label: str
    stop: threading.Event = field(default_factory=threading.Event)
    state: RunProgress | None = None
    judging: str = ""
    run: Run | None = None
    unjudged: tuple[str, ...] = ()
    # Stands if the thread ends by anything but a ``FuseboxError``: then that is a bug.
    told: str = words.BUG
    bad: bool = True
    ended: threading.Event = field(default_factory=threading.Event)

    def work(
        self,
        plan: Plan,
        judges: Sequence[Judge],
        store: Store,
        corpus: Corpus,
        access: Access,
        cap: float,
        run_id: str,
    ) -> None:
        """Run, then let the judges judge; both within the cap."""
        try:
            run = evaluate(plan, store, corpus, access, self.stop.is_set, self._tell, run_id=run_id, budget_usd=cap)
            self.unjudged = judge_run(
                store,
                run.id,
                judges,
                self.stop.is_set,
                self._tell_judging,
                at_once=CALLS_AT_ONCE if any(judge.paid for judge in judges) else 1,
                budget_usd=cap - (self.state.spent_usd if self.state else 0.0),
            )
            self.run = store.run(run.id)
            self.told = self._outcome(store)
            self.bad = (self.run.state != "complete" or bool(self.unjudged)) and not self.stop.is_set()
        except FuseboxError as error:
            self.told = str(error)
        finally:
            self.ended.set()

    def _tell(self, state: RunProgress) -> None:
        self.state = state

    def _tell_judging(self, done: int, total: int) -> None:
        self.judging = f"All asked; {done:,} of {total:,} judged"

    def _outcome(self, store: Store) -> str:
        assert self.run is not None
        run, why = self.run, ""
        if run.state != "complete":
            reasons = dict.fromkeys(r.error for r in store.results(run.id) if r.state == "failed")
            why = next(iter(reasons), "Stopped." if self.stop.is_set() else "The cap was reached.")
        form = words.ABLATION_DONE if run.state == "complete" else words.ABLATION_LEFT
        told = form.format(label=view.run_label(run), done=run.done, planned=run.planned, failed=run.failed, why=why)
        return " ".join([told.strip(), *([f"{words.ABLATION_UNJUDGED} {self.unjudged[0]}"] if self.unjudged else [])])


@dataclass(slots=True)
class AblationDesk:
    """Handlers of the tab. Runs are of the whole process: everybody who opens the page sees the same ones.

    Args:
        handlers: generators, corpora and whose keys are used.
        may_start: whether runs may be started from the page.
        folder: where they are kept.
        shipped_run: the run that comes with Fusebox, shown where it is there.
    """

    handlers: Handlers
    may_start: bool
    folder: Path
    shipped_run: Path = SHIPPED_RUN
    job: Job | None = None
    _stores: dict[Path, Store] = field(default_factory=dict)
    _boards: dict[Any, str] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    # --- sources -----------------------------------------------------------------------------------------------------

    def store(self) -> Store:
        """Where runs of one's own are.

        Raises:
            UsageError: it can't be opened.
        """
        return self._opened(self.folder / FILE_NAME, read_only=False)

    def _opened(self, file: Path, read_only: bool) -> Store:
        with self._lock:
            if file not in self._stores:
                self._stores[file] = Store(file, read_only=read_only)
            return self._stores[file]

    def stores(self) -> list[Store]:
        """Those that are there: the shipped run, then one's own; one that can't be opened is as if it weren't there."""
        found = []
        for file, read_only in ((self.shipped_run, True), (self.folder / FILE_NAME, False)):
            if file.is_file():
                try:
                    found.append(self._opened(file, read_only))
                except UsageError:
                    continue
        return found

    def runs(self) -> dict[str, tuple[Run, Store]]:
        """Every run by its id, the shipped one first, then the newest first."""
        found: dict[str, tuple[Run, Store]] = {}
        for store in self.stores():
            try:
                listed = store.runs()
            except UsageError:  # damaged since, or in use: the other one is shown all the same
                continue
            for run in listed:
                found.setdefault(run.id, (run, store))
        return found

    def sources(self) -> dict[str, Source]:
        """The runs that may be compared: complete ones."""
        complete = [(run, store) for run, store in self.runs().values() if run.state == "complete"]
        labels = [view.run_label(run) for run, _ in complete]
        return {
            run.id: Source(run.id, label if labels.count(label) == 1 else f"{label} {run.id[:4]}", run, store)
            for (run, store), label in zip(complete, labels, strict=True)
        }

    def label(self, generator: str) -> str:
        """What the page calls a generator."""
        known = self.handlers.generators.get(generator)
        return known.label if known else generator

    # --- what is shown -----------------------------------------------------------------------------------------------

    def open(self, request: gr.Request, chosen: list[str] | None, *filters: Any) -> Update:
        """The tab was opened: choices as they are now, and the board."""
        found = self.sources()
        kept = [name for name in chosen or () if name == STUDY or name in found]
        value = kept or [STUDY, *list(found)[:1]]
        session = str(request.session_hash)
        access = self.handlers.access.for_session(session)
        try:
            sets = _sets(self.handlers.shelf.of(session))
        except FuseboxError:
            sets = []
        # What came of a run is told to those who watched it.
        told = self._going() | ({} if self._busy else {"progress": ""})
        return self._update(
            board=self._board(found, value, *filters),
            runs=self._runs(),
            sets=gr.update(choices=sets),
            run_judges=gr.update(choices=run_judge_choices(access)),
            judges_more=_judges_to_come(access),
            **self._choices(found, value),
            **told,
        )

    @property
    def _busy(self) -> bool:
        """Whether a run goes on."""
        return self.job is not None and not self.job.ended.is_set()

    def draw(self, chosen: list[str], *filters: Any) -> Update:
        """The board for other filters."""
        return self._update(board=self._board(self.sources(), chosen, *filters), questions="")

    def _board(
        self, known: Mapping[str, Source], chosen: Sequence[str], types: Any, systems: Any, generators: Any, judge: Any
    ) -> str:
        filters = Filters(tuple(types or ()), tuple(systems or ()), tuple(generators or ()), str(judge or ""))
        sources = [known[name] for name in chosen or () if name in known]
        # Most who open the tab see the same one.
        seen = (STUDY in (chosen or ()), tuple((s.id, s.run.done, s.run.judges) for s in sources), filters)
        if (kept := self._boards.get(seen)) is not None:
            return kept
        corpus = self.handlers.shelf.default
        try:
            shown = view.board(board(seen[0], sources, filters, self.label, {corpus.id: corpus}))
        except FuseboxError as error:
            return view.progress(None, str(error), bad=True)
        if len(self._boards) >= MAX_BOARDS:
            self._boards.clear()
        self._boards[seen] = shown
        return shown

    def _choices(self, found: Mapping[str, Source], value: list[str]) -> dict[str, Any]:
        """Choices of all filters: sources, and what there is in any of them."""
        sources = [("The study, as published", STUDY), *((source.label, name) for name, source in found.items())]
        names = list(dict.fromkeys(row["generator"] for row in (*shipped().ablation, *shipped().diagnostic)))
        runs = [source.run for source in found.values()]
        names += dict.fromkeys(self.label(name) for run in runs for name in run.generators)
        judges = dict.fromkeys(judge for source in found.values() for judge in source.judges)
        return {
            "sources": gr.update(choices=sources, value=value),
            "generators": gr.update(choices=list(dict.fromkeys(names))),
            "judge": gr.update(choices=judge_choices(judges)),
        }

    def _runs(self) -> str:
        return view.runs([run for run, _ in self.runs().values()], self.may_start, self._busy) + self._amiss()

    def _amiss(self) -> str:
        """Why runs of one's own are not shown; told to those alone who may start some, since it names the file."""
        try:
            if self.may_start and (self.folder / FILE_NAME).is_file():
                self.store().runs()
        except UsageError as error:
            return view.progress(None, str(error), bad=True)
        return ""

    # --- cells and questions -----------------------------------------------------------------------------------------

    def open_cell(self, event: gr.EventData) -> str:
        """The questions of a cell; what a browser sends is not trusted."""
        try:
            *parts, cause, judge = (*_strings(event, "cell", 4, 6), "", "")[:6]
            key: Key = (parts[0], parts[1], parts[2], parts[3])
            if key[0] == STUDY:
                return view.progress(None, words.ABLATION_PUBLISHED)
            source = self.sources().get(key[0])
            if source is None:
                raise UsageError("This run is no longer here; open the tab again.")
            results = results_of(source, key, cause, judge)
            return view.questions(key, self.label(key[1]), source.label, results, source.run.judges, cause, judge)
        except FuseboxError as error:
            return view.progress(None, str(error), bad=True)

    def open_question(self, request: gr.Request, event: gr.EventData) -> Update:
        """A question's trace in Explore's views; updates for Explore's ``outputs`` and ``restored``."""
        try:
            result, store = self._result(*_strings(event, "question", 4, 4))
            trace = store.trace(result)
            views = self.handlers.show(trace, str(request.session_hash))
        except FuseboxError as error:
            raise gr.Error(str(error), print_exception=False) from error
        return *views, *HistoryDesk(self.handlers).controls(trace.question, trace.system, trace.generator)

    def _result(self, run: str, *key: str) -> tuple[Result, Store]:
        source = self.sources().get(run)
        for result in source.results if source else ():
            if (result.question_id, result.system, result.generator) == key:
                assert source is not None
                return result, source.store
        raise UsageError("This run does not hold that question any more; open the cell again.")

    # --- runs --------------------------------------------------------------------------------------------------------

    def start(
        self,
        request: gr.Request,
        sets: list[str],
        systems: list[str],
        generators: list[str],
        judges: list[str],
        cap: Any,
        agreed: Wish | None,
    ) -> Iterator[Update]:
        """Start a run; one that costs something after its estimate was seen."""
        try:
            wish: Wish = tuple(tuple(chosen or ()) for chosen in (sets, systems, generators, judges))
            plan, corpus, access = self._plan(request, *wish[:3])
            by, limit = _judges(wish[3], plan, corpus, access), _cap(cap)
            if _costs(plan, by) and agreed != wish:
                yield self._update(progress=view.progress(None, words.ABLATION_ESTIMATING))
                yield self._estimated(estimate_cost(plan, corpus, judges=by), limit, wish)
                return
            self._begin(plan, by, self.store(), corpus, access, limit)
            yield self._update(agreed=None, runs=self._runs(), **self._going())
        except FuseboxError as error:
            yield self._update(progress=view.progress(None, str(error), bad=True), agreed=None, **self._buttons())

    def changed(self) -> Update:
        """Another run is wished for: what was said about the one before is gone."""
        return self._update(agreed=None, **(self._going() if self._busy else {"progress": "", **self._buttons()}))

    def resume(self, request: gr.Request, judges: list[str], cap: Any, event: gr.EventData) -> Update:
        """Go on with a run; only what is missing is asked and judged, within the cap."""
        sent = getattr(event, "_data", None)
        run = str(sent.get("resume", "")) if isinstance(sent, Mapping) else ""
        try:
            self._admit(request)
            store, session = self.store(), str(request.session_hash)
            plan, corpus, limit = (
                Plan.stored(store, run, self.handlers.generators),
                self.handlers.shelf.of(session),
                _cap(cap),
            )
            access = self.handlers.access.for_session(session)
            _ready(plan.generators, access)
            by = _judges(judges or (), plan, corpus, access)
            if _costs(plan, by):
                done = frozenset(store.finished(run))
                _within(estimate_cost(plan, corpus, done, judges=by, store=store, run_id=run), limit)
            self._begin(plan, by, store, corpus, access, limit, run)
            return self._update(runs=self._runs(), **self._going())
        except FuseboxError as error:
            return self._update(progress=view.progress(None, str(error), bad=True))

    def stop(self) -> Update:
        """End the run; it stays incomplete, and what is done is kept."""
        if self.job is not None and not self.job.ended.is_set():
            self.job.stop.set()
            return self._update(stop=gr.update(value=words.STOPPING, interactive=False))
        return self._update(**self._going())

    def tick(self, chosen: list[str], *filters: Any) -> Update:
        """How far the run is; when it has ended, the board with it."""
        job = self.job
        if job is None or not job.ended.is_set():
            return self._update(runs=self._runs(), **self._going())
        found = self.sources()
        changes: dict[str, Any] = {"runs": self._runs(), **self._going()}
        if job.run is not None and job.run.id in found:
            value = list(dict.fromkeys([*(chosen or ()), job.run.id]))
            changes |= {"board": self._board(found, value, *filters), **self._choices(found, value)}
        return self._update(**changes)

    def _admit(self, request: gr.Request) -> None:
        if not self.may_start:
            raise UsageError(words.ABLATION_CLOSED)
        self.handlers.admit(request)

    def _plan(
        self, request: gr.Request, sets: Sequence[str], systems: Sequence[str], generators: Sequence[str]
    ) -> tuple[Plan, Corpus, Access]:
        self._admit(request)
        session = str(request.session_hash)
        corpus = self.handlers.shelf.of(session)
        if any(choice.own and choice.id == corpus.id for choice in self.handlers.shelf.choices(session)):
            raise UsageError(words.ABLATION_OWN)
        chosen = {system_named(name).name for name in systems}
        specs = tuple(self.handlers.spec(name) for name in generators)
        plan = Plan(
            questions=tuple(question for question in known_questions(corpus) if question.set in sets),
            systems=tuple(system for name, system in SYSTEMS.items() if name in chosen),
            generators=specs,
            label=f"{', '.join(_short(name) for name in sets)}: {', '.join(spec.label for spec in specs)}"[:200],
        )
        plan.check(corpus)
        access = self.handlers.access.for_session(session)
        _ready(specs, access)
        return plan, corpus, access

    def _estimated(self, estimate: CostEstimate, cap: float, wish: Wish) -> Update:
        _within(estimate, cap)
        about = words.ABLATION_START_PAID.format(about=money(estimate.total_usd))
        told = view.progress(None, words.ABLATION_ESTIMATED.format(line=estimate.line))
        return self._update(progress=told, agreed=wish, start=gr.update(value=about))

    def _begin(
        self,
        plan: Plan,
        judges: Sequence[Judge],
        store: Store,
        corpus: Corpus,
        access: Access,
        cap: float,
        run_id: str = "",
    ) -> None:
        with self._lock:
            if self._busy:
                raise UsageError(words.ABLATION_BUSY)
            self.job = Job(plan.label)
        threading.Thread(
            target=self.job.work, args=(plan, judges, store, corpus, access, cap, run_id), name="evaluate", daemon=True
        ).start()

    # --- updates -----------------------------------------------------------------------------------------------------

    def _going(self) -> dict[str, Any]:
        """Progress, buttons and the clock as the run has it."""
        job = self.job
        if job is None:
            return {"progress": "", "timer": gr.Timer(active=False), **self._buttons()}
        going = not job.ended.is_set()
        told = ("" if going else job.told, not going and job.bad, job.judging)
        shown = view.progress(job.state or RunProgress(0, 0, 1), *told)
        return {"progress": shown, "timer": gr.Timer(active=going), **self._buttons()}

    def _buttons(self) -> dict[str, Any]:
        going = self._busy
        stopping = going and self.job is not None and self.job.stop.is_set()
        return {
            "start": gr.update(visible=not going, value=words.ABLATION_START),
            "stop": gr.update(
                visible=going and self.may_start,
                value=words.STOPPING if stopping else words.STOP,
                interactive=not stopping,
            ),
        }

    @staticmethod
    def _update(**changes: Any) -> Update:
        return tuple(changes.get(name, gr.skip()) for name in OUTPUTS)


def judge_choices(judges: Sequence[str] | Mapping[str, Any]) -> list[tuple[str, str]]:
    """Whose verdicts may be shown alone."""
    offline = [(f"offline: {', '.join(OFFLINE_NAMES)}", OFFLINE)] if OFFLINE in judges else []
    models = [(name, name) for name in judges if name != OFFLINE]
    return [
        ("all, each kind in its own figures", ""),
        (f"{JUDGES} ({STUDY_LABEL})", PUBLISHED_JUDGE),
        *offline,
        *models,
    ]


def run_judge_choices(access: Access) -> list[tuple[str, str]]:
    """Who may judge a run: the offline judges, the study's with the keys that are missing, and every model that is ready."""
    judge = model_judge(STUDY_JUDGE, None, access)
    label, missing = f"{' + '.join(model.label for model in judge.models)} (the study's)", judge.missing()
    return [
        (f"offline: {', '.join(OFFLINE_NAMES)}", OFFLINE),
        (f"{label} · needs {' and '.join(missing)}" if missing else label, STUDY_JUDGE),
        *((spec.label, name) for name, spec in judge_models().items() if access.ready(spec)),
    ]


def _judges_to_come(access: Access) -> str:
    """Which models could judge, had they their keys."""
    names = [f"{spec.label} ({spec.key_env})" for spec in judge_models().values() if not access.ready(spec)]
    return view.hint(words.ABLATION_JUDGES_MORE.format(names=", ".join(names))) if names else ""


def type_choices() -> list[tuple[str, str]]:
    """Question types in words."""
    return [(type_words(kind), kind) for kind in QUESTION_TYPES]


def _sets(corpus: Corpus) -> list[tuple[str, str]]:
    """The question sets of a corpus with their sizes."""
    sizes: dict[str, int] = {}
    for question in known_questions(corpus):
        sizes[question.set] = sizes.get(question.set, 0) + 1
    return [(f"{_short(name)} ({size})", name) for name, size in sizes.items()]


def _short(name: str) -> str:
    """``demo_figure_pixel`` without its corpus."""
    return name.partition("_")[2].replace("_", " ") or name


def _costs(plan: Plan, judges: Sequence[Judge]) -> bool:
    """Whether a run and its judges cost something, or may."""
    return any(map(is_paid, plan.generators)) or any(judge.paid for judge in judges)


def _judges(names: Sequence[str], plan: Plan, corpus: Corpus, access: Access) -> tuple[Judge, ...]:
    """Who judges a run.

    Raises:
        UsageError: nobody, one without its key, or one of the run's own generators.
    """
    found = judges_named(names, plan.generator_names, corpus, access)
    if not found:
        raise UsageError(words.ABLATION_NO_JUDGE)
    check_keys(found)
    return found


def _ready(specs: Sequence[GeneratorSpec], access: Access) -> None:
    """That there is a key for each.

    Raises:
        UsageError: there is none.
    """
    for spec in specs:
        if not access.ready(spec):
            raise UsageError(
                f"{spec.label} needs a key: enter your own on Explore (Your own key), or set {spec.key_env} before Fusebox starts."
            )


def _cap(value: Any) -> float:
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= 10_000:
        return float(value)
    raise UsageError("The cap is no amount; enter USD from 0 to 10,000.")


def _within(estimate: CostEstimate, cap: float) -> None:
    """That the run can't cost more than the cap.

    Raises:
        UsageError: it can, or nobody knows.
    """
    if estimate.total_limit_usd is None:
        raise UsageError(words.ABLATION_NO_PRICE.format(line=estimate.line))
    if estimate.total_limit_usd > cap:
        raise UsageError(words.ABLATION_OVER_CAP.format(line=estimate.line, cap=cap))


def _strings(event: gr.EventData, name: str, least: int, most: int) -> tuple[str, ...]:
    """Strings under a name.

    Raises:
        UsageError: a browser sent something else.
    """
    sent = getattr(event, "_data", None)
    found = sent.get(name) if isinstance(sent, Mapping) else None
    if (
        isinstance(found, list)
        and least <= len(found) <= most
        and all(isinstance(p, str) and len(p) < 200 for p in found)
    ):
        return tuple(found)
    raise UsageError("This is no cell of the tables; click one of them.")

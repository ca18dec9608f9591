"""What the Ablation tab shows: the study and runs as sources of rows, filtered, in panels of which each has one kind of judge."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from rag.corpus import Corpus
from rag.errors import UsageError
from rag.evaluate import tables
from rag.evaluate.audit import audit, origins, recovered
from rag.evaluate.judges import STUDY_JUDGE
from rag.evaluate.published import JUDGES, Published, shipped
from rag.evaluate.store import Result, Run, Store
from rag.evaluate.tables import OFFLINE_NAMES, Row

STUDY = "study"
"""The source's id; those of runs are hexadecimal."""
STUDY_LABEL = "the study"

OFFLINE = "offline"
PUBLISHED_JUDGE = "published"

Key = tuple[str, str, str, str]
"""Source, generator, system, question type: one, several with ``BETWEEN`` between them, or empty for all."""
BETWEEN = "\n"
"""No type holds it: types are printable."""


@dataclass(frozen=True, slots=True)
class Source:
    """A finished run with its results; ``judges`` are its ways to be judged: the offline judges together, each language model alone."""

    id: str
    label: str
    run: Run
    store: Store

    @property
    def judges(self) -> tuple[str, ...]:
        """Names for ``Filters.judge``."""
        models = tuple(name for name in self.run.judges if name not in OFFLINE_NAMES)
        return (*((OFFLINE,) if len(models) < len(self.run.judges) else ()), *models)

    @property
    def results(self) -> tuple[Result, ...]:
        """All results, kept in memory while the run stays as it is."""
        return _results(self.store, self.id, self.run.done, self.run.judges)

    def summary(self, judge: str) -> Mapping[str, Any]:
        """Every table of the run by one judge, or by the offline ones."""
        return _summary(self.store, self.id, self.run.done, self.run.judges, judge)


@lru_cache(maxsize=8)
def _results(store: Store, run: str, done: int, judges: tuple[str, ...]) -> tuple[Result, ...]:
    return store.results(run)


@lru_cache(maxsize=16)
def _summary(store: Store, run: str, done: int, judges: tuple[str, ...], judge: str) -> Mapping[str, Any]:
    return tables.summary(_results(store, run, done, judges), None if judge == OFFLINE else judge)


@dataclass(frozen=True, slots=True)
class Filters:
    """What the person wants to see; empty is everything."""

    types: tuple[str, ...] = ()
    systems: tuple[str, ...] = ()
    generators: tuple[str, ...] = ()
    judge: str = ""

    def takes(self, row: Row) -> bool:
        """Whether a row is wanted."""
        return all(
            not wanted or str(row.get(name, "")) in wanted
            for name, wanted in (
                ("question_type", self.types),
                ("system", self.systems),
                ("generator", self.generators),
            )
            if name in row
        )


@dataclass(frozen=True, slots=True)
class Panel:
    """Rows that one kind of judge gave its verdicts on, and that may therefore share a figure. ``judge`` says who; ``causes_by_type`` is of
    the last system of each run."""

    title: str
    judge: str
    rows: tuple[Row, ...]
    priced: tuple[Row, ...] = ()
    differences: tuple[Row, ...] = ()
    causes: tuple[Row, ...] = ()
    causes_by_type: tuple[Row, ...] = ()
    protocols: tuple[Row, ...] = ()
    diagnostic: tuple[Row, ...] = ()
    given: tuple[Row, ...] = ()
    origins: tuple[Row, ...] = ()


@dataclass(frozen=True, slots=True)
class Board:
    """All that is shown. ``pages``: retrieval at page level; ``bridged``: with what the graph brought in; ``ceilings``: (source,
    published) -> retrieval of pixel-only figure questions; ``notes``: (run, what a reader of its figures must know)."""

    panels: tuple[Panel, ...]
    retrieval: tuple[Row, ...]
    efficiency: tuple[Row, ...]
    pages: tuple[Row, ...] = ()
    bridged: tuple[Row, ...] = ()
    ceilings: Mapping[tuple[str, bool], Row] = field(default_factory=dict)
    latency: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    protocol_sets: tuple[Row, ...] = ()
    notes: tuple[tuple[str, str], ...] = ()


Label = Callable[[str], str]
"""Name of a generator -> what the page calls it."""


def board(
    with_study: bool, sources: Sequence[Source], filters: Filters, label: Label, corpora: Mapping[str, Corpus]
) -> Board:
    """Everything for the filters. ``corpora``: those that are open, by id; what the captions of another one say is not known.

    Raises:
        UsageError: the study's figures can't be read.
    """
    study = shipped() if with_study else None
    # Rankings depend on neither system nor generator.
    of_types = Filters(types=filters.types)
    retrieval = [*(_study_rows(_by_type(study.retrieval), of_types) if study else ())]
    efficiency = [*(_study_rows(study.efficiency, filters) if study else ())]
    pages: list[Row] = []
    bridged: list[Row] = []
    for source in sources:
        found = source.summary(_first(source))
        retrieval += _own(_by_type(found["retrieval"]), source, of_types, label)
        pages += _own(_by_type(found["page_retrieval"]), source, of_types, label)
        bridged += _own(found["bridged_retrieval"], source, filters, label)
        efficiency += _own(found["efficiency"], source, filters, label)
    return Board(
        panels=tuple(_panels(study, sources, filters, label, corpora)),
        retrieval=tuple(retrieval),
        efficiency=tuple(efficiency),
        pages=tuple(pages),
        bridged=tuple(bridged),
        ceilings={(r["source"], r["published"]): r for r in retrieval if r["question_type"] == "figure_pixel"},
        latency={
            name: span
            for name, span in study.latency_ms.items()
            if not filters.generators or name in filters.generators
        }
        if study
        else {},
        protocol_sets=tuple(_protocol_sets(study, sources, corpora)),
        notes=tuple((source.label, source.run.note) for source in sources if source.run.note),
    )


def _first(source: Source) -> str:
    return source.judges[0] if source.judges else OFFLINE


def _by_type(found: Mapping[str, Row]) -> list[Row]:
    return [{"question_type": kind, **row} for kind, row in found.items()]


def _study_rows(rows: Iterable[Row], filters: Filters) -> list[Row]:
    return [
        {**row, "source": STUDY_LABEL, "published": True, "judge": JUDGES, "key": _key(STUDY, row)}
        for row in rows
        if filters.takes(row)
    ]


def _own(rows: Iterable[Row], source: Source, filters: Filters, label: Label, judge: str = "") -> list[Row]:
    named = [{**row, "key": _key(source.id, row)} for row in rows]
    for row in named:
        row |= {"source": source.label, "published": False, "judge": judge}
        if "generator" in row:
            row["generator"] = label(row["generator"])
    return [row for row in named if filters.takes(row)]


def _key(source: str, row: Row) -> Key:
    return (source, str(row.get("generator", "")), str(row.get("system", "")), str(row.get("question_type", "")))


def _panels(
    study: Published | None,
    sources: Sequence[Source],
    filters: Filters,
    label: Label,
    corpora: Mapping[str, Corpus],
) -> list[Panel]:
    """A panel for each judge, the offline ones together and last: what the study's judges said of runs stands beside the study."""
    parts: dict[str, list[Panel]] = {STUDY_JUDGE: []}
    if study is not None and filters.judge in ("", PUBLISHED_JUDGE):
        parts[STUDY_JUDGE].append(_of_study(study, filters))
    for source in sources:
        for judge in source.judges:
            if filters.judge in ("", judge):
                found = _of_run(source, judge, filters, label, corpora.get(source.run.corpus_id))
                parts.setdefault(judge, []).append(found)
    ordered = sorted(parts, key=lambda judge: judge == OFFLINE)
    panels = [_merged(_TITLES.get(judge, f"Judged by {judge}"), parts[judge]) for judge in ordered if parts[judge]]
    return [panel for panel in panels if any(getattr(panel, name) for name in _ROWS)]


_ROWS = tuple(name for name in Panel.__slots__ if name not in ("title", "judge"))
_TITLES = {STUDY_JUDGE: "Judged by language models", OFFLINE: "Judged offline"}


def _of_study(study: Published, filters: Filters) -> Panel:
    rows = _study_rows(study.ablation, filters)
    diagnostic = _study_rows(study.diagnostic, filters)
    extra = [row for row in diagnostic if (row["generator"], row["system"]) not in {_pair(r) for r in rows}]
    return Panel(
        title="",
        judge=JUDGES + " (published)",
        rows=tuple(rows),
        priced=_priced([*rows, *extra], _study_rows(study.efficiency, filters)),
        protocols=tuple(_study_rows(study.protocol_accuracy, filters)),
        diagnostic=tuple(diagnostic),
    )


def _of_run(source: Source, judge: str, filters: Filters, label: Label, corpus: Corpus | None) -> Panel:
    found = source.summary(judge)
    words = ", ".join(OFFLINE_NAMES) if judge == OFFLINE else judge

    def own(rows: Iterable[Row]) -> tuple[Row, ...]:
        return tuple(_own(rows, source, filters, label, words))

    rows = own(found["ablation"])
    causes = own({**row, "by": row["judge"]} for row in found["taxonomy"])
    richest = [name for name in source.run.systems if any(row["system"] == name for row in causes)][-1:]
    pixels = [row for row in rows if row["question_type"] == "figure_pixel"]
    protocols = [
        {"system": system, **row}
        for name, system in (("text_only_accuracy", tables.TEXT_ONLY), ("multimodal_accuracy", tables.MULTIMODAL))
        for row in found["figure_protocols"][name]
    ]
    return Panel(
        title="",
        judge=words,
        rows=rows,
        priced=_priced(rows, own(found["efficiency"])),
        differences=own(found["differences"]),
        causes=_over_types(causes, filters.types),
        causes_by_type=tuple(row for row in causes if row["system"] in richest),
        protocols=own(protocols),
        diagnostic=tuple(row for row in pixels if row["system"] in (tables.TEXT_ONLY, tables.MULTIMODAL)),
        given=own(row for row in found["given_evidence"] if row["n_sent"]),
        origins=own(_origins(source, judge, corpus)) if corpus is not None else (),
    )


def _origins(source: Source, judge: str, corpus: Corpus) -> tuple[Row, ...]:
    accuracy = OFFLINE_NAMES[0] if judge == OFFLINE else judge
    return _recovered(source.store, source.id, source.run.done, source.run.judges, accuracy, corpus)


@lru_cache(maxsize=16)
def _recovered(
    store: Store, run: str, done: int, judges: tuple[str, ...], judge: str, corpus: Corpus
) -> tuple[Row, ...]:
    """What the right answers of text-only systems to figure questions rest on."""
    results = _results(store, run, done, judges)
    kinds = {result.set: tables.question_type(result) for result in results}
    found = origins(recovered(results, store.trace, corpus, judge))
    return tuple(
        {
            "set": name,
            "question_type": kinds[name],
            "generator": generator,
            "system": system,
            "n": sum(count.values()),
            **count,
        }
        for (name, generator, system), count in found.items()
    )


def _merged(title: str, parts: Sequence[Panel]) -> Panel:
    joined = {name: tuple(row for part in parts for row in getattr(part, name)) for name in _ROWS}
    return Panel(title, "; ".join(dict.fromkeys(part.judge for part in parts)), **joined)


def _pair(row: Row) -> tuple[str, str]:
    return row["generator"], row["system"]


def _priced(rows: Iterable[Row], costs: Iterable[Row]) -> tuple[Row, ...]:
    """Rows with what they cost."""
    found = {row["key"]: row["usd_per_100_questions"] for row in costs}
    return tuple({**row, "usd_per_100_questions": found[row["key"]]} for row in rows if row["key"] in found)


def _over_types(rows: Iterable[Row], types: Sequence[str]) -> tuple[Row, ...]:
    """Causes of all question types together, or of those that are wanted."""
    found: dict[tuple[str, str], Row] = {}
    for row in rows:
        kept = found.setdefault(
            _pair(row), {**row, "n": 0, "causes": {}, "key": (*row["key"][:3], BETWEEN.join(types))}
        )
        kept["n"] += row["n"]
        for cause, count in row["causes"].items():
            kept["causes"][cause] = kept["causes"].get(cause, 0) + count
    return tuple(found.values())


def _protocol_sets(study: Published | None, sources: Sequence[Source], corpora: Mapping[str, Corpus]) -> list[Row]:
    rows = [{"source": STUDY_LABEL, "published": True, **row} for row in study.protocols] if study else []
    for source in sources:
        corpus = corpora.get(source.run.corpus_id)
        if corpus is not None:
            found = _audit(source.store, source.id, corpus)
        else:
            of_run = source.summary(_first(source))["figure_protocols"]
            found = tuple({"set": name, **of_run[name]} for name in ("caption", "pixel") if of_run[name]["n"])
        rows += [{"source": source.label, "published": False, **row} for row in found]
    return rows


@lru_cache(maxsize=8)
def _audit(store: Store, run: str, corpus: Corpus) -> tuple[Row, ...]:
    """The figure sets of a run; a run's questions never change."""
    return tuple(audited.row() for audited in audit(store.plan(run)[0], corpus))


def results_of(source: Source, key: Key, cause: str = "", judge: str = "") -> tuple[Result, ...]:
    """The results behind a cell; with a ``cause``, those of which the accuracy judge says that it is theirs.

    Raises:
        UsageError: there are none.
    """
    _, generator, system, kinds = key
    found = tuple(
        result
        for result in source.results
        if (result.generator, result.system) == (generator, system)
        and (not kinds or tables.question_type(result) in kinds.split(BETWEEN))
        and (not cause or tables.cause(result, judge) == cause)
    )
    if not found:
        raise UsageError("This run holds no such questions; click another cell.")
    return found

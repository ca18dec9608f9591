"""Runs, results and traces in one SQLite file: write-ahead log, versioned schema, safe from several threads, read by several processes.

A result is written the moment it is finished, in one transaction: a process that is killed loses none.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import sqlite3
import threading
import time
import uuid
import zlib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, Literal, Protocol

from pydantic import TypeAdapter

from rag import trace as traces
from rag.errors import TraceError, UsageError
from rag.evaluate.questions import Question
from rag.settings import ASSETS
from rag.types import System, Trace

SHIPPED_RUN = ASSETS / "runs" / "demo-extractive.sqlite"
FILE_NAME = "runs.sqlite"
SUFFIX = ".sqlite"

Place = Literal["sent", "bridged", "found", "missed", "off"]
"""Of a gold source: in the prompt; there because the graph brought it in (mode ``bridge``); ranked but not sent; not found at the depth
ranked; its branch is off."""
RunState = Literal["complete", "incomplete", "running"]
Verdicts = Mapping[str, Mapping[str, bool | None]]
"""Judge -> metric (``accuracy``, ``faithfulness``, ``relevancy``) -> verdict; ``None`` is unparseable: it counts 0 and is counted."""


@dataclass(frozen=True, slots=True)
class Result:
    """One question through one system and one generator.

    ``ranks`` has one entry per gold source: the rank of its best item in the ranking of the modality that holds the answer, ``None``
    where it was not found at the depth ranked or that branch is off; ``places`` tells these apart. ``page_ranks`` has one per gold page
    (a crop's is its page), among the distinct pages of the text ranking. ``parts`` are what was searched instead of the whole question.
    ``input_tokens``, ``output_tokens`` and ``cost_usd`` ``None`` are unknown and never 0. A ``failed`` result has an ``error`` and is
    never scored.
    """

    run: str
    question_id: str
    set: str
    type: str
    question: str
    reference: str
    sources: tuple[str, ...]
    system: str
    generator: str
    state: Literal["done", "failed"]
    answer: str
    abstained: bool
    input_tokens: int | None
    output_tokens: int | None
    tokens_source: str
    cost_usd: float | None
    retrieval_ms: float
    latency_ms: float
    ttft_ms: float | None
    ranks: tuple[int | None, ...]
    verdicts: Verdicts = field(default_factory=dict)
    error: str = ""
    trace_id: str = ""
    places: tuple[Place, ...] = ()
    page_ranks: tuple[int | None, ...] = ()
    parts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Run:
    """What was asked of whom, and how far it is. ``judges`` are those whose verdicts are there; ``note`` says in words what a reader of
    the figures must know (CLIP absent, say)."""

    id: str
    created: str
    label: str
    corpus_id: str
    sets: tuple[str, ...]
    systems: tuple[str, ...]
    generators: tuple[str, ...]
    judges: tuple[str, ...]
    state: RunState
    planned: int
    done: int
    failed: int
    note: str = ""


class Planned(Protocol):
    """What the store keeps of a plan (``rag.evaluate.runner.Plan``)."""

    @property
    def questions(self) -> Sequence[Question]: ...
    @property
    def systems(self) -> Sequence[System]: ...
    @property
    def generator_names(self) -> tuple[str, ...]: ...
    @property
    def by_type(self) -> bool: ...
    @property
    def label(self) -> str: ...


def question_id(question: Question) -> str:
    """16 hex digits that name a question of a set, whatever its place in the file."""
    return hashlib.sha256(f"{question.set}\n{question.q}".encode()).hexdigest()[:16]


def file_of(path: Path) -> Path:
    """The file of a store: ``path`` itself, or ``runs.sqlite`` where it is a folder."""
    return path if path.suffix == SUFFIX else path / FILE_NAME


def ships(file: Path) -> bool:
    """Whether a store comes with Fusebox, and is therefore never written to."""
    return file.resolve().parent == SHIPPED_RUN.parent.resolve()


# --- schema ----------------------------------------------------------------------------------------------------------

_KEY = "run TEXT NOT NULL, question TEXT NOT NULL, system TEXT NOT NULL, generator TEXT NOT NULL"

MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        """CREATE TABLE runs (id TEXT PRIMARY KEY, created TEXT NOT NULL, label TEXT NOT NULL, corpus_id TEXT NOT NULL,
        by_type INTEGER NOT NULL, systems TEXT NOT NULL, generators TEXT NOT NULL, note TEXT NOT NULL)""",
        """CREATE TABLE questions (run TEXT NOT NULL, id TEXT NOT NULL, position INTEGER NOT NULL, "set" TEXT NOT NULL,
        type TEXT NOT NULL, q TEXT NOT NULL, reference TEXT NOT NULL, sources TEXT NOT NULL, PRIMARY KEY (run, id))""",
        f"""CREATE TABLE results ({_KEY}, state TEXT NOT NULL, answer TEXT NOT NULL, abstained INTEGER NOT NULL,
        input_tokens INTEGER, output_tokens INTEGER, tokens_source TEXT NOT NULL, cost_usd REAL, retrieval_ms REAL NOT NULL,
        latency_ms REAL NOT NULL, ttft_ms REAL, ranks TEXT NOT NULL, error TEXT NOT NULL, trace_id TEXT NOT NULL,
        places TEXT NOT NULL, trace BLOB, PRIMARY KEY (run, question, system, generator))""",
        f"""CREATE TABLE verdicts ({_KEY}, judge TEXT NOT NULL, metric TEXT NOT NULL, verdict INTEGER,
        PRIMARY KEY (run, question, system, generator, judge, metric)) WITHOUT ROWID""",
    ),
    (
        "ALTER TABLE results ADD COLUMN page_ranks TEXT NOT NULL DEFAULT '[]'",
        "ALTER TABLE results ADD COLUMN parts TEXT NOT NULL DEFAULT '[]'",
    ),
)
"""Entry n holds the statements that lead from schema version n to n + 1; ``user_version`` says where a file is. Never edit an entry
that was released: append one."""

_RESULT_COLUMNS = (
    "state, answer, abstained, input_tokens, output_tokens, tokens_source, cost_usd, retrieval_ms, latency_ms, ttft_ms, ranks, error, "
    "trace_id, places, page_ranks, parts"
)
_SYSTEMS = TypeAdapter(tuple[System, ...])
_LOCK_ATTEMPTS = 50
_LOCK_WAIT_S = 0.01

Key = tuple[str, str, str]
"""Question id, system, generator."""


class Store:
    """The runs in one file. One store may be shared by threads; each process opens its own."""

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        """Open the file, made anew or brought to this schema version where it may be written.

        Args:
            path: the file, or a folder in which it is ``runs.sqlite``.
            read_only: nothing is written, nor beside it, so that it may lie where nothing can be. What ships (``assets/runs``) is opened
                only so.

        Raises:
            UsageError: it can't be opened, is no store of runs, is one of a later version, or ships and is to be written.
        """
        self.path = file_of(path)
        self.read_only = read_only
        if not read_only and ships(self.path):
            raise UsageError(
                f"{self.path} comes with Fusebox and is not written to: name another folder (--out, FUSEBOX_RUNS), read it with --show, or "
                "make it anew (make demo-run)."
            )
        self._lock = threading.RLock()
        try:
            self._db = self._connect()
            self._migrate()
        except (sqlite3.Error, OSError) as error:
            raise self._no_store(str(error)) from error

    def _no_store(self, why: str) -> UsageError:
        return UsageError(f"{self.path} can't be opened as a store of runs ({why}); choose another file or folder.")

    def _connect(self) -> sqlite3.Connection:
        if self.read_only:
            uri = f"{self.path.resolve().as_uri()}?mode=ro&immutable=1"
            return sqlite3.connect(uri, uri=True, check_same_thread=False, isolation_level=None)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        db = sqlite3.connect(self.path, check_same_thread=False, isolation_level=None, timeout=60)
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = NORMAL")
        return db

    @property
    def version(self) -> int:
        """The schema version of the file."""
        return int(self._db.execute("PRAGMA user_version").fetchone()[0])

    def _migrate(self) -> None:
        newest, found = len(MIGRATIONS), self.version
        if found > newest:
            self._db.close()
            raise UsageError(
                f"{self.path} was written by a later version of Fusebox (schema {found}, this one knows {newest}); update Fusebox."
            )
        tables = {name for (name,) in self._db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if tables and not tables >= {"runs", "questions", "results", "verdicts"}:
            self._db.close()
            raise self._no_store("another program's database")
        if found < newest and self.read_only:
            self._copy_to_memory()
        while self.version < newest:
            with self._writing() as db:
                # Another process may have done it while this one waited.
                if (version := self.version) < newest:
                    for statement in MIGRATIONS[version]:
                        db.execute(statement)
                    db.execute(f"PRAGMA user_version = {version + 1}")

    def _copy_to_memory(self) -> None:
        """What can't be written is brought to this version beside the file."""
        copied = sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)
        with closing(self._db) as file:
            file.backup(copied)
        self._db = copied

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._db.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """One transaction, all or nothing.

        Raises:
            UsageError: the file can't be written now.
        """
        with self._lock, self._told():
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield self._db
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise

    def _read(self, query: str, *values: object) -> list[Any]:
        with self._lock, self._told():
            return self._db.execute(query, values).fetchall()

    @contextmanager
    def _told(self) -> Iterator[None]:
        """What SQLite complains of, as an error that names the file."""
        try:
            yield
        except sqlite3.Error as error:
            raise UsageError(
                f"{self.path} can't be used ({error}); wait until no other program holds it, see that there is room, or, if it is damaged, "
                "name another file."
            ) from error

    # --- writing -----------------------------------------------------------------------------------------------------

    def create(self, plan: Planned, corpus_id: str) -> Run:
        """A new run with nothing done yet."""
        run = uuid.uuid4().hex[:12]
        created = datetime.now(UTC).isoformat(timespec="milliseconds")
        systems = json.dumps(_SYSTEMS.dump_python(tuple(plan.systems), mode="json"))
        generators = json.dumps(plan.generator_names)
        with self._writing() as db:
            db.execute(
                "INSERT INTO runs VALUES (?, ?, ?, ?, ?, ?, ?, '')",
                (run, created, plan.label, corpus_id, plan.by_type, systems, generators),
            )
            db.executemany(
                "INSERT INTO questions VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                [
                    (run, question_id(q), n, q.set, q.type, q.q, q.answer, json.dumps(q.sources))
                    for n, q in enumerate(plan.questions)
                ],
            )
        return self.run(run)

    def add(self, result: Result, trace: Trace | None) -> None:
        """Keep a result with its trace and verdicts; one that is there for the same question, system and generator gives way."""
        key = (result.run, result.question_id, result.system, result.generator)
        row = (
            result.state, result.answer, result.abstained, result.input_tokens, result.output_tokens, result.tokens_source,
            result.cost_usd, result.retrieval_ms, result.latency_ms, result.ttft_ms, json.dumps(result.ranks), result.error,
            result.trace_id, json.dumps(result.places), json.dumps(result.page_ranks), json.dumps(result.parts),
        )  # fmt: skip
        packed = None if trace is None else zlib.compress(traces.dumps(trace).encode(), 9)
        with self._writing() as db:
            db.execute("DELETE FROM verdicts WHERE run = ? AND question = ? AND system = ? AND generator = ?", key)
            db.execute(
                f"INSERT OR REPLACE INTO results (run, question, system, generator, {_RESULT_COLUMNS}, trace) "
                f"VALUES ({', '.join('?' * (len(key) + len(row) + 1))})",
                (*key, *row, packed),
            )
            self._put_verdicts(db, result, result.verdicts)

    def judged(self, result: Result, verdicts: Verdicts) -> None:
        """Add a judge's verdicts; earlier ones of the same judge on the same metric give way."""
        with self._writing() as db:
            self._put_verdicts(db, result, verdicts)

    @staticmethod
    def _put_verdicts(db: sqlite3.Connection, result: Result, verdicts: Verdicts) -> None:
        db.executemany(
            "INSERT OR REPLACE INTO verdicts VALUES (?, ?, ?, ?, ?, ?, ?)",
            [
                (result.run, result.question_id, result.system, result.generator, judge, metric, verdict)
                for judge, metrics in verdicts.items()
                for metric, verdict in metrics.items()
            ],
        )

    def note(self, run: str, text: str) -> None:
        """What a reader of the run's figures must know."""
        with self._writing() as db:
            db.execute("UPDATE runs SET note = ? WHERE id = ?", (text, run))

    @contextmanager
    def running(self, run: str) -> Iterator[None]:
        """While it lasts the run is ``running`` for every process, and nobody else can work on it. A killed process leaves no mark: the
        system lets go of its lock.

        Raises:
            UsageError: somebody is working on it.
        """
        file = self._lock_file(run)
        held = _held(file)
        if held is None:
            raise UsageError(f"Run {run} is being worked on; stop that first, or wait until it is done.")
        with held:
            try:
                yield
            finally:
                file.unlink(missing_ok=True)

    def _lock_file(self, run: str) -> Path:
        return self.path.with_name(f"{self.path.name}.{run}.lock")

    def export(self, file: Path) -> None:
        """A compact copy that can be opened where nothing can be written.

        Raises:
            UsageError: it can't be written there.
        """
        partial = file.with_name(f".{file.name}.partial")
        try:
            partial.unlink(missing_ok=True)
            file.parent.mkdir(parents=True, exist_ok=True)
            with self._lock:
                self._db.execute("VACUUM INTO ?", (str(partial),))
            partial.replace(file)
        except (sqlite3.Error, OSError) as error:
            partial.unlink(missing_ok=True)
            raise UsageError(f"{file} can't be written ({error}); export to another file.") from error

    # --- reading -----------------------------------------------------------------------------------------------------

    def runs(self) -> tuple[Run, ...]:
        """All runs, the newest first."""
        return tuple(self.run(run) for (run,) in self._read("SELECT id FROM runs ORDER BY created DESC, rowid DESC"))

    def run(self, run: str) -> Run:
        """One run as it is now.

        Raises:
            UsageError: there is none with this id.
        """
        rows = self._read("SELECT created, label, corpus_id, systems, generators, note FROM runs WHERE id = ?", run)
        if not rows:
            raise UsageError(f"{self.path} holds no run {run!r}; choose one of those it lists.")
        created, label, corpus_id, systems, generators, note = rows[0]
        names = tuple(system["name"] for system in json.loads(systems))
        answerers = tuple(json.loads(generators))
        sets = self._read(
            'SELECT "set", COUNT(*) FROM questions WHERE run = ? GROUP BY "set" ORDER BY MIN(position)', run
        )
        planned = sum(count for _, count in sets) * len(names) * len(answerers)
        states = dict(self._read("SELECT state, COUNT(*) FROM results WHERE run = ? GROUP BY state", run))
        judges = self._read("SELECT DISTINCT judge FROM verdicts WHERE run = ? ORDER BY judge", run)
        done = states.get("done", 0)
        return Run(
            id=run,
            created=created,
            label=label,
            corpus_id=corpus_id,
            sets=tuple(name for name, _ in sets),
            systems=names,
            generators=answerers,
            judges=tuple(judge for (judge,) in judges),
            state="running" if self._is_running(run) else "complete" if done == planned else "incomplete",
            planned=planned,
            done=done,
            failed=states.get("failed", 0),
            note=note,
        )

    def _is_running(self, run: str) -> bool:
        if self.read_only:
            return False
        try:
            with self._lock_file(run).open() as probed:
                fcntl.flock(probed, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except FileNotFoundError:
            pass
        return False

    def plan(self, run: str) -> tuple[tuple[Question, ...], tuple[System, ...], tuple[str, ...], bool]:
        """Questions, systems, names of the generators, and whether the gate goes by the question's type: all that a run needs to go on."""
        ((systems, generators, by_type),) = self._read(
            "SELECT systems, generators, by_type FROM runs WHERE id = ?", self.run(run).id
        )
        rows = self._read(
            'SELECT q, sources, reference, type, "set" FROM questions WHERE run = ? ORDER BY position', run
        )
        questions = tuple(
            Question(q, tuple(json.loads(sources)), reference, kind, name) for q, sources, reference, kind, name in rows
        )
        return questions, _SYSTEMS.validate_json(systems), tuple(json.loads(generators)), bool(by_type)

    def finished(self, run: str) -> set[Key]:
        """What is done and need not be done again; failed results are not among them."""
        return set(self._read("SELECT question, system, generator FROM results WHERE run = ? AND state = 'done'", run))

    def results(self, run: str) -> tuple[Result, ...]:
        """Every result of a run: by question in the order of the sets, then by system, then by generator, however they came in."""
        known = self.run(run)
        verdicts = self._verdicts(run)
        rows = self._read(
            f"""SELECT r.question, q."set", q.type, q.q, q.reference, q.sources, r.system, r.generator, {_RESULT_COLUMNS}
            FROM results r JOIN questions q ON q.run = r.run AND q.id = r.question WHERE r.run = ? ORDER BY q.position""",
            run,
        )
        found = [_result(run, row, verdicts) for row in rows]
        place = {name: n for n, name in enumerate((*known.systems, *known.generators))}
        position = {result.question_id: n for n, result in enumerate(found)}
        return tuple(sorted(found, key=lambda r: (position[r.question_id], place[r.system], place[r.generator])))

    def _verdicts(self, run: str) -> dict[Key, dict[str, dict[str, bool | None]]]:
        found: dict[Key, dict[str, dict[str, bool | None]]] = defaultdict(lambda: defaultdict(dict))
        rows = self._read(
            "SELECT question, system, generator, judge, metric, verdict FROM verdicts WHERE run = ? ORDER BY judge, metric",
            run,
        )
        for question, system, generator, judge, metric, verdict in rows:
            found[question, system, generator][judge][metric] = None if verdict is None else bool(verdict)
        return found

    def trace(self, result: Result) -> Trace:
        """The trace of a result.

        Raises:
            TraceError: none was kept, since it failed before there was one; or it is damaged.
        """
        rows = self._read(
            "SELECT trace FROM results WHERE run = ? AND question = ? AND system = ? AND generator = ?",
            result.run, result.question_id, result.system, result.generator,
        )  # fmt: skip
        if not rows or rows[0][0] is None:
            raise TraceError(f"There is no trace of this question: {result.error or 'the run does not hold it'}.")
        try:
            return traces.loads(zlib.decompress(rows[0][0]))
        except zlib.error as error:
            raise TraceError(f"The trace in {self.path} is damaged ({error}); run the question again.") from error


def _held(file: Path) -> IO[str] | None:
    """The file, locked; ``None`` where somebody else has it. Whoever only looks whether it is taken holds it for an instant, which is
    waited for; a file that its last holder has just removed is no lock any more."""
    for _ in range(_LOCK_ATTEMPTS):
        held = file.open("w")
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if file.exists() and os.path.samestat(os.fstat(held.fileno()), file.stat()):
                return held
        except (BlockingIOError, FileNotFoundError):
            time.sleep(_LOCK_WAIT_S)
        held.close()
    return None


def _result(run: str, row: Sequence[Any], verdicts: Mapping[Key, Verdicts]) -> Result:
    question, name, kind, q, reference, sources, system, generator, state, answer, abstained = row[:11]
    input_tokens, output_tokens, counted, cost, retrieval, latency, ttft, ranks, error, trace_id, places = row[11:22]
    page_ranks, parts = row[22:]
    return Result(
        run=run,
        question_id=question,
        set=name,
        type=kind,
        question=q,
        reference=reference,
        sources=tuple(json.loads(sources)),
        system=system,
        generator=generator,
        state=state,
        answer=answer,
        abstained=bool(abstained),
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        tokens_source=counted,
        cost_usd=cost,
        retrieval_ms=retrieval,
        latency_ms=latency,
        ttft_ms=ttft,
        ranks=tuple(json.loads(ranks)),
        verdicts={judge: dict(found) for judge, found in verdicts.get((question, system, generator), {}).items()},
        error=error,
        trace_id=trace_id,
        places=tuple(json.loads(places)),
        page_ranks=tuple(json.loads(page_ranks)),
        parts=tuple(json.loads(parts)),
    )

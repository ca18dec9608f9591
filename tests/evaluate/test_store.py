"""The store: what goes in comes out, at once, for everybody, from version to version."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from rag.errors import TraceError, UsageError
from rag.evaluate import store as stores
from rag.evaluate.questions import Question
from rag.evaluate.store import MIGRATIONS, SHIPPED_RUN, Store, question_id
from rag.generators.registry import GENERATORS
from rag.pipeline import ask
from rag.systems import SYSTEMS
from tests.evaluate.runs import QUESTIONS, plan, result

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path) as opened:
        yield opened


@pytest.fixture(scope="module")
def trace(small):
    *_, last = ask(QUESTIONS[0].q, SYSTEMS["+both"], GENERATORS["extractive"], small)
    return last


def test_a_question_is_named_by_its_set_and_words_alone():
    # sha256 of "demo_text\nHow many?", first 16 hex digits, by sha256sum
    assert question_id(Question("How many?", ("p",), "4", "text", "demo_text")) == "8d94246a15f60dc5"


def test_results_verdicts_and_traces_come_back_as_they_went_in(store, trace):
    run = store.create(plan(label="first"), "small@1")
    assert (run.state, run.planned, run.done, run.sets) == (
        "incomplete", 20, 0, ("small_text", "small_multihop", "small_figure_pixel", "small_unanswerable"),
    )  # fmt: skip
    verdicts = {"lexical": {"accuracy": True}, "other": {"accuracy": None, "relevancy": False}}
    kept = result(
        run=run.id,
        verdicts=verdicts,
        input_tokens=None,
        cost_usd=None,
        ranks=(None,),
        places=("missed",),
        trace_id=trace.id,
    )
    store.add(kept, trace)
    assert store.results(run.id) == (kept,) and store.trace(kept) == trace
    assert store.run(run.id).judges == ("lexical", "other") and store.run(run.id).done == 1
    store.judged(kept, {"lexical": {"accuracy": False}})
    assert store.results(run.id)[0].verdicts == verdicts | {"lexical": {"accuracy": False}}


def test_a_failed_result_counts_as_failed_and_gives_way(store, trace):
    run = store.create(plan(), "small@1")
    failed = result(run=run.id, state="failed", error="The provider was away.", verdicts={}, answer="")
    store.add(failed, None)
    assert store.run(run.id).failed == 1 and store.finished(run.id) == set()
    with pytest.raises(TraceError, match="provider was away"):
        store.trace(failed)
    store.add(result(run=run.id), trace)
    assert (store.run(run.id).failed, store.run(run.id).done) == (0, 1)
    assert store.finished(run.id) == {(question_id(QUESTIONS[0]), "baseline", "extractive")}


def test_results_are_listed_in_the_order_of_the_plan(store):
    run = store.create(plan(), "small@1")
    everything = [result(q, run=run.id, system=s) for q in QUESTIONS for s in SYSTEMS]
    for kept in reversed(everything):
        store.add(kept, None)
    assert list(store.results(run.id)) == everything
    assert store.run(run.id).state == "complete"


def test_the_plan_comes_back(store):
    asked = plan(systems=(replace(SYSTEMS["+KG"], text_k=5),), by_type=False)
    run = store.create(asked, "small@1")
    assert store.plan(run.id) == (asked.questions, asked.systems, ("extractive",), False)


def test_threads_share_a_store(store, trace):
    run = store.create(plan(), "small@1")
    everything = [result(q, run=run.id, system=s) for q in QUESTIONS for s in SYSTEMS]
    threads = [
        threading.Thread(target=lambda part=everything[n::4]: [store.add(r, trace) for r in part]) for n in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert list(store.results(run.id)) == everything


def test_other_processes_read_while_one_writes(store, trace):
    run = store.create(plan(), "small@1")
    store.add(result(run=run.id), trace)
    code = (
        "import sys; from pathlib import Path; from rag.evaluate.store import Store; s = Store(Path(sys.argv[1])); "
        "(run,) = s.runs(); print(run.state, run.done, s.trace(s.results(run.id)[0]).id)"
    )
    with store.running(run.id), store._writing() as db:
        db.execute("UPDATE runs SET note = 'not committed yet'")
        seen = subprocess.run(
            [sys.executable, "-c", code, store.path], cwd=ROOT, capture_output=True, text=True, timeout=120
        )
    assert seen.stdout.split() == ["running", "1", trace.id], seen.stderr
    assert store.run(run.id).state == "incomplete" and list(store.path.parent.glob("*.lock")) == []


def test_only_one_works_on_a_run(store):
    run = store.create(plan(), "small@1")
    with store.running(run.id), Store(store.path) as other:
        assert other.run(run.id).state == "running"
        with pytest.raises(UsageError, match="being worked on"), other.running(run.id):
            pass
    with store.running(run.id):
        pass


def _at_version(path: Path, version: int) -> None:
    """A file as that version of the schema left it, with a run of one question in it."""
    with sqlite3.connect(path) as db:
        for statements in MIGRATIONS[:version]:
            for statement in statements:
                db.execute(statement)
        db.execute(f"PRAGMA user_version = {version}")
        db.execute("INSERT INTO runs (id, created, label, corpus_id, by_type, systems, generators, note) VALUES "
                   """('old', '2026-01-01', 'kept', 'c', 1, '[{"name": "baseline"}]', '["extractive"]', '')""")  # fmt: skip
        db.execute("""INSERT INTO questions (run, id, position, "set", type, q, reference, sources)
                      VALUES ('old', 'q', 0, 's', 'text', 'How many?', '4', '["p"]')""")
        db.execute("""INSERT INTO results (run, question, system, generator, state, answer, abstained, tokens_source, retrieval_ms,
                      latency_ms, ranks, error, trace_id, places)
                      VALUES ('old', 'q', 'baseline', 'extractive', 'done', '4', 0, '', 1, 1, '[1]', '', '', '["sent"]')""")


@pytest.mark.parametrize("version", range(1, len(MIGRATIONS) + 1))
def test_a_file_of_every_earlier_version_opens_with_all_that_is_in_it(tmp_path, version):
    _at_version(tmp_path / "old.sqlite", version)
    with Store(tmp_path / "old.sqlite") as opened:
        assert opened.version == len(MIGRATIONS)
        (kept,) = opened.results("old")
        assert (kept.answer, kept.ranks, opened.run("old").label, opened.run("old").state) == (
            "4",
            (1,),
            "kept",
            "complete",
        )


@pytest.mark.parametrize("version", range(1, len(MIGRATIONS) + 1))
def test_an_earlier_version_that_cannot_be_written_is_read_all_the_same(tmp_path, version):
    file = tmp_path / "old.sqlite"
    _at_version(file, version)
    before = file.read_bytes()
    with Store(file, read_only=True) as opened:
        (kept,) = opened.results("old")
        assert (kept.answer, kept.page_ranks, kept.parts) == ("4", (), ())
    assert file.read_bytes() == before and [found.name for found in tmp_path.iterdir()] == ["old.sqlite"]


@pytest.mark.parametrize("name", [SHIPPED_RUN.name, "other.sqlite", "."])
def test_what_ships_is_opened_for_reading_alone(name):
    listed = sorted(SHIPPED_RUN.parent.iterdir())
    with pytest.raises(UsageError, match="comes with Fusebox and is not written to"):
        Store(SHIPPED_RUN.parent / name)
    assert sorted(SHIPPED_RUN.parent.iterdir()) == listed


def test_the_next_migration_is_applied_once_and_whole_or_not_at_all(tmp_path, monkeypatch):
    file = tmp_path / "old.sqlite"
    _at_version(file, len(MIGRATIONS))
    half = ("ALTER TABLE results ADD COLUMN reviewed INTEGER", "ALTER TABLE no_such_table ADD COLUMN x")
    monkeypatch.setattr(stores, "MIGRATIONS", (*MIGRATIONS, half))
    with pytest.raises(UsageError, match="no_such_table"):
        Store(file)
    with sqlite3.connect(file) as db:
        assert "reviewed" not in {row[1] for row in db.execute("PRAGMA table_info(results)")}
    monkeypatch.setattr(stores, "MIGRATIONS", (*MIGRATIONS, half[:1]))
    for _ in range(2):
        with Store(file) as opened:
            assert opened.version == len(MIGRATIONS) + 1 and opened.results("old")[0].answer == "4"
    monkeypatch.undo()
    with pytest.raises(UsageError, match="later version"):
        Store(file)


def test_what_is_no_store_is_named(tmp_path):
    (tmp_path / "other.sqlite").write_text("this is no database, and long enough to be none " * 40)
    with pytest.raises(UsageError, match=r"other\.sqlite"):
        Store(tmp_path / "other.sqlite")
    with pytest.raises(UsageError, match=r"none\.sqlite"):
        Store(tmp_path / "none.sqlite", read_only=True)
    with Store(tmp_path) as opened, pytest.raises(UsageError, match="'nothing'"):
        opened.run("nothing")


@pytest.mark.parametrize("version", [0, 1])
def test_nothing_is_written_into_another_programs_database(tmp_path, version):
    with sqlite3.connect(tmp_path / "other.sqlite") as other:
        other.execute("CREATE TABLE bookmarks (url TEXT)")
        other.execute(f"PRAGMA user_version = {version}")
    with pytest.raises(UsageError, match="another program's database"):
        Store(tmp_path / "other.sqlite")
    assert other.execute("SELECT name FROM sqlite_master").fetchall() == [("bookmarks",)]


def test_a_file_that_is_damaged_inside_is_named(store, tmp_path):
    for _ in range(200):
        store.create(plan(), "small@1")
    store.export(tmp_path / "hole.sqlite")
    whole = (tmp_path / "hole.sqlite").read_bytes()
    (tmp_path / "hole.sqlite").write_bytes(whole[:8192] + b"\xff" * (len(whole) - 8192))
    with Store(tmp_path / "hole.sqlite", read_only=True) as damaged, pytest.raises(UsageError, match=r"hole\.sqlite"):
        damaged.runs()


def test_a_store_that_another_program_holds_is_named_and_can_be_used_later(store):
    run = store.create(plan(), "small@1")
    store._db.execute("PRAGMA busy_timeout = 1")
    with sqlite3.connect(store.path, isolation_level=None) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(UsageError, match="locked"):
            store.note(run.id, "first")
        other.execute("ROLLBACK")
    store.note(run.id, "second")
    assert store.run(run.id).note == "second"


def test_a_copy_that_cannot_be_written_is_named_and_leaves_nothing(store, tmp_path):
    (tmp_path / "taken").mkdir()
    before = set(tmp_path.iterdir())
    with pytest.raises(UsageError, match="taken"):
        store.export(tmp_path / "taken")
    assert set(tmp_path.iterdir()) == before


def test_a_copy_opens_where_nothing_can_be_written(store, trace, tmp_path):
    run = store.create(plan(), "small@1")
    store.add(result(run=run.id), trace)
    folder = tmp_path / "shipped"
    store.export(folder / "copy.sqlite")
    folder.chmod(0o555)
    try:
        with Store(folder / "copy.sqlite", read_only=True) as copy:
            assert copy.results(run.id) == store.results(run.id) and copy.trace(copy.results(run.id)[0]) == trace
            with pytest.raises(UsageError, match="readonly"):
                copy.note(run.id, "x")
        assert [file.name for file in folder.iterdir()] == ["copy.sqlite"]
    finally:
        folder.chmod(0o755)

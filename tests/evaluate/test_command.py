"""``python -m rag evaluate`` as a process, and the run that ships."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pytest

from rag import trace as traces
from rag.evaluate.judges import OFFLINE
from rag.evaluate.questions import known_questions
from rag.evaluate.runner import Plan, evaluate, judge_run
from rag.evaluate.store import SHIPPED_RUN, Store
from rag.evaluate.tables import question_type
from rag.systems import SYSTEMS
from tests.evaluate.runs import QUESTIONS, timeless

ROOT = Path(__file__).resolve().parents[2]
MAX_SHIPPED_MB = 15


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """The questions about the small corpus, a file per set."""
    folder = tmp_path_factory.mktemp("questions")
    for name in dict.fromkeys(question.set for question in QUESTIONS):
        entries = [
            {"q": q.q, "source": list(q.sources), "answer": q.answer, "type": q.type}
            for q in QUESTIONS
            if q.set == name
        ]
        (folder / f"{name}.json").write_text(json.dumps(entries))
    return sorted(folder.iterdir())


def rag(*args: object, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "rag", "evaluate", *map(str, args)],
        cwd=ROOT, capture_output=True, text=True, timeout=300, check=False, env={**os.environ, **env},
    )  # fmt: skip


def test_a_run_prints_its_tables_and_keeps_every_trace(small_folder, files, tmp_path):
    done = rag("--questions", *files, "--corpus", small_folder, "--out", tmp_path, "--label", "mine")
    assert done.returncode == 0, done.stderr
    for part in (
        "(mine): complete, 20 of 20 done",
        "lexical",
        "Retrieval",
        "Retrieval of pages",
        "exact McNemar",
        "pixel-only",
        "CLIP",
    ):
        assert part in done.stdout
    assert "20 calls, free of charge" in done.stderr and "20 of 20 asked" in done.stderr
    with Store(tmp_path) as store:
        (run,) = store.runs()
        assert all(store.trace(result).id == result.trace_id for result in store.results(run.id))


def test_json_is_one_document_with_n_intervals_and_judges(small_folder, files, tmp_path):
    done = rag("--questions", *files, "--corpus", small_folder, "--out", tmp_path / "mine.sqlite", "--json", "--systems", "baseline,+both",
               "--limit", 1, "--text-k", 1, "--export", tmp_path / "copy.sqlite")  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["run"]["state"], found["run"]["planned"]) == ("complete", 8)
    row = found["tables"]["ablation"][0]
    assert (row["system"], row["question_type"], row["n"], row["judges"]["accuracy"]) == (
        "baseline",
        "text",
        1,
        "lexical",
    )
    assert row["accuracy_low"] <= row["accuracy"] <= row["accuracy_high"]
    with Store(tmp_path / "copy.sqlite", read_only=True) as copy:
        result = copy.results(found["run"]["id"])[0]
        assert copy.trace(result).system.text_k == 1 and set(result.verdicts) == {judge.name for judge in OFFLINE}


def test_a_failed_run_is_1_says_why_and_resumes(small_folder, files, tmp_path):
    here = ("--corpus", small_folder, "--out", tmp_path)
    done = rag("--questions", files[-1], *here, "--generators", "gpt-4o-mini", "--yes", OPENAI_API_KEY="")
    assert done.returncode == 1 and "OPENAI_API_KEY" in done.stderr and "Traceback" not in done.stderr
    assert "incomplete, 0 of 4 done, 4 failed and kept out" in done.stdout
    again = rag("--resume", *here, OPENAI_API_KEY="")
    assert (
        again.returncode == 1
        and "4 calls" in again.stderr
        and again.stdout.splitlines()[0] == done.stdout.splitlines()[0]
    )


def test_the_audit_asks_nobody(small_folder, files, tmp_path):
    done = rag("--questions", *files, "--corpus", small_folder, "--out", tmp_path, "--audit", "--json")
    (row,) = json.loads(done.stdout)["audit"]
    assert (done.returncode, row["set"], row["n"], row["answer_in_caption"]) == (0, "small_figure_pixel", 1, "0/1")
    words = rag("--questions", *files, "--corpus", small_folder, "--out", tmp_path, "--audit")
    assert words.returncode == 0 and "small_figure_pixel" in words.stdout and "0/1" in words.stdout


def test_the_audit_is_of_the_shipped_run_where_there_is_none_of_ones_own(shipped, tmp_path):
    done = rag("--out", tmp_path, "--audit", "--json")
    assert done.returncode == 0, done.stderr
    counted = sum(sum(row["origins"].values()) for row in json.loads(done.stdout)["recovered"])
    assert (
        0
        < counted
        == sum(
            result.type == "figure" or result.type.startswith("figure_")
            for result in shipped.results(shipped.runs()[0].id)
            if result.system in ("baseline", "+KG") and result.verdicts["lexical"]["accuracy"]
        )
    )


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("--systems", "magic"), "baseline"),
        (("--generators", "magic"), "extractive"),
        (("--judges", "magic"), "lexical"),
        (("--limit", "0"), "--limit"),
        (("--at-once", "0"), "--at-once"),
        (("--budget-usd", "nan"), "--budget-usd"),
        (("--generators", "gpt-4o-mini", "--judges", "gpt-4o-mini", "--yes"), "can't judge its own"),
        (("--text-k", "0"), "from 1 to 20"),
        (("--resume",), "no run"),
        (("--resume", "abc"), "'abc'"),
        (("--resume", "--systems", "baseline"), "leave out --systems"),
        (("--questions", "no-such.json"), "no-such.json"),
        (("--generators", "gpt-4o", "--budget-usd", "0.0001"), "--budget-usd"),
        (("--judges", "study"), "needs DEEPSEEK_API_KEY and ANTHROPIC_API_KEY"),
        (("--out", "assets/runs"), "comes with Fusebox and is not written to"),
        (("--show", "abc"), "no run 'abc'"),
    ],
)
def test_wrong_usage_is_2_and_starts_nothing(small_folder, files, tmp_path, args, says, monkeypatch):
    for name in ("DEEPSEEK_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    questions = () if "--questions" in args or "--resume" in args else ("--questions", files[-1])
    done = rag(*questions, "--corpus", small_folder, "--out", tmp_path, *args)
    assert done.returncode == 2 and says in done.stderr and "Traceback" not in done.stderr, done.stderr
    with Store(tmp_path) as store:
        assert store.runs() == ()


def test_what_judges_cost_counts_against_the_cap_before_anything_is_asked(small_folder, files, tmp_path):
    here = (
        "--questions",
        files[-1],
        "--corpus",
        small_folder,
        "--out",
        tmp_path,
        "--judges",
        "study",
        "--budget-usd",
        "0.0001",
    )
    done = rag(*here, DEEPSEEK_API_KEY="not-a-key-1", ANTHROPIC_API_KEY="not-a-key-2")
    assert done.returncode == 2 and "Judging: 12 calls, about $" in done.stderr and "above the cap" in done.stderr
    with Store(tmp_path) as store:
        assert store.runs() == ()


def test_two_files_of_one_name_are_no_set(small_folder, files, tmp_path):
    (tmp_path / "more").mkdir()
    twin = tmp_path / "more" / files[0].name
    twin.write_bytes(files[0].read_bytes())
    done = rag("--questions", files[0], twin, "--corpus", small_folder, "--out", tmp_path)
    assert done.returncode == 2 and "would be one set" in done.stderr and "Rename one" in done.stderr


def test_a_run_is_shown_without_asking_anybody(shipped, small_folder, files, tmp_path):
    (run,) = shipped.runs()
    for out in (tmp_path, "assets/runs"):
        done = rag("--out", out, "--show", "--json")
        assert done.returncode == 0 and json.loads(done.stdout)["run"]["id"] == run.id
    assert list(tmp_path.iterdir()) == []
    assert rag("--questions", files[0], "--corpus", small_folder, "--out", tmp_path, "--label", "mine").returncode == 0
    assert "(mine): complete" in rag("--out", tmp_path, "--show").stdout
    assert f"Run {run.id}" in rag("--out", tmp_path, "--show", run.id).stdout


def test_ctrl_c_ends_with_130_and_the_run_goes_on(tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-m", "rag", "evaluate", "--out", str(tmp_path)],
        cwd=ROOT,
        stderr=subprocess.PIPE,
        text=True,
        # Whoever starts the tests in the background has them ignore it, and so would the process.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    with process:
        while " asked" not in (line := process.stderr.readline()) or line.startswith("0 "):
            assert line, "it ended before anything was done"
        process.send_signal(signal.SIGINT)
        errors = process.stderr.read()
    assert process.returncode == 130 and errors.splitlines()[-1] == "Stopped." and "Traceback" not in errors
    with Store(tmp_path) as store:
        (run,) = store.runs()
        assert run.state == "incomplete" and 0 < run.done < run.planned and run.failed == 0


# --- the run that ships ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def shipped():
    with Store(SHIPPED_RUN, read_only=True) as store:
        yield store


def test_the_shipped_run_is_the_whole_demo_matrix(shipped, demo):
    assert SHIPPED_RUN.stat().st_size < MAX_SHIPPED_MB * 1e6
    (run,) = shipped.runs()
    assert (run.state, run.failed, run.corpus_id, run.generators) == ("complete", 0, demo.id, ("extractive",))
    assert run.systems == tuple(SYSTEMS) and "CLIP" in run.note and "question's type" in run.note
    questions = known_questions(demo)
    assert run.planned == len(questions) * len(SYSTEMS) and shipped.plan(run.id)[0] == questions
    results = shipped.results(run.id)
    assert {question_type(r) for r in results} == {"text", "multihop", "figure_pixel", "figure_caption", "unanswerable"}
    assert all(set(r.verdicts) == {judge.name for judge in OFFLINE} for r in results)


def test_the_shipped_traces_can_be_shown(shipped, demo):
    """Every question of the demo through every system: each prompt is, byte for byte, the one that its evidence gives."""
    (run,) = shipped.runs()
    for result in shipped.results(run.id):
        traces.check_against(shipped.trace(result), demo)


def test_every_citation_leads_to_an_item_that_holds_the_cited_words(shipped):
    (run,) = shipped.runs()
    statements = 0
    for trace in map(shipped.trace, shipped.results(run.id)):
        items = {tag: " ".join(s.text for s in trace.prompt.segments if s.tag == tag) for tag in trace.prompt.tags}
        start = 0
        for group in re.finditer(r"\[([TGV]\d+(?:, [TGV]\d+)*)\]", trace.generation.text):
            said = trace.generation.text[start : group.start()].rpartition(": ")[
                2
            ]  # a label is the question's own words
            tags, start, statements = group[1].split(", "), group.end(), statements + 1
            whole = any(_words(said) in _words(items[tag]) for tag in tags)
            # A sentence that runs over two chunks is cited from both.
            parted = all(any(f" {word} " in _words(items[tag]) for tag in tags) for word in _words(said).split())
            assert whole or (len(tags) > 1 and parted), (trace.question, said)
    assert statements > 400


def _words(text):
    found = re.findall(r"[^\W_]+", text.casefold())
    return f" {' '.join(found)} "


def test_running_it_again_gives_the_same(shipped, demo, tmp_path):
    """A question of each set, through all systems. If this fails the corpus, the rankers or the reader have changed: make demo-run."""
    (run,) = shipped.runs()
    sample = tuple({question.set: question for question in known_questions(demo)}.values())
    plan = Plan.stored(shipped, run.id)
    with Store(tmp_path) as store:
        again = evaluate(Plan(sample, plan.systems, plan.generators, plan.by_type), store, demo)
        judge_run(store, again.id, OFFLINE)
        found = [asdict(timeless(result)) for result in store.results(again.id)]
        prompts = [store.trace(result).prompt for result in store.results(again.id)]
    wanted = [result for result in shipped.results(run.id) if result.question_id in {f["question_id"] for f in found}]
    assert [asdict(timeless(result)) for result in wanted] == found
    assert [shipped.trace(result).prompt for result in wanted] == prompts

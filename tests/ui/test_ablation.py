"""The Ablation tab without a browser: what is shown, CSV, and runs started, stopped and resumed."""

from __future__ import annotations

import base64
import csv
import io
import json
import re
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gradio as gr
import pytest

from rag.corpus import Corpus
from rag.errors import GeneratorError
from rag.evaluate import judges
from rag.evaluate.audit import ORIGINS
from rag.evaluate.judges import OFFLINE, STUDY_JUDGE, judge_models
from rag.evaluate.runner import evaluate, judge_run
from rag.evaluate.store import Store
from rag.evaluate.tables import cause
from rag.generators.access import Access
from rag.generators.registry import GENERATORS
from rag.generators.spec import GeneratorSpec
from rag.keys import SessionKeys
from rag.settings import Settings
from rag.systems import SYSTEMS
from rag.types import Delta
from tests.evaluate.runs import QUESTIONS, plan
from tests.generators.helpers import KEY
from tests.generators.servers import openai as say
from tests.generators.servers.base import ScriptedServer
from tests.scripted import DONE, scripted
from ui import ablation_desk as module
from ui import text as words
from ui.ablation_data import OFFLINE as OFFLINE_CHOICE
from ui.ablation_data import PUBLISHED_JUDGE, STUDY
from ui.ablation_desk import OUTPUTS, AblationDesk
from ui.handlers import OUTPUTS as EXPLORE
from ui.handlers import Handlers
from ui.shelf import Shelf
from ui.views import ablation_tables as sheet
from ui.views.ablation import questions

SETS = list(dict.fromkeys(question.set for question in QUESTIONS))
EVERYTHING: tuple[Any, ...] = ([], [], [], "")


def request(session: str = "a") -> gr.Request:
    return SimpleNamespace(session_hash=session)  # type: ignore[return-value]


def event(**sent: Any) -> gr.EventData:
    return SimpleNamespace(_data=sent)  # type: ignore[return-value]


def named(update: tuple[Any, ...]) -> dict[str, Any]:
    return dict(zip(OUTPUTS, update, strict=True))


@pytest.fixture
def make(small: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., AblationDesk]]:
    """Desks over the small corpus and its questions, with a run store of their own."""
    monkeypatch.setattr(module, "known_questions", lambda corpus: QUESTIONS)
    made: list[AblationDesk] = []

    def desk(*specs: GeneratorSpec, may_start: bool = True, access: Access | None = None) -> AblationDesk:
        generators = {spec.name: spec for spec in (GENERATORS["extractive"], *specs)}
        handlers = Handlers(Shelf(small), generators, access or Access())
        made.append(AblationDesk(handlers, may_start, tmp_path / "runs", tmp_path / "none.sqlite"))
        return made[-1]

    yield desk
    for each in made:
        if each.job is not None:
            each.job.stop.set()
            assert each.job.ended.wait(60)
        for store in each.stores():
            store.close()


def finished(desk: AblationDesk, small: Corpus, **changes: Any) -> str:
    """A complete run in the desk's store, judged offline."""
    run = evaluate(plan(label="ours", **changes), desk.store(), small)
    judge_run(desk.store(), run.id, OFFLINE)
    return run.id


def cells(html: str) -> list[list[str]]:
    return [json.loads(found.replace("&quot;", '"')) for found in re.findall(r'data-abl-cell="([^"]*)"', html)]


def files(html: str) -> dict[str, list[dict[str, str]]]:
    """The CSV files in the page, by name."""
    found = {}
    for name, content in re.findall(
        r'download="fusebox-([^"]*)\.csv" href="data:text/csv;charset=utf-8;base64,([^"]*)"', html
    ):
        text = base64.b64decode(content).decode("utf-8-sig")
        found[name] = list(csv.DictReader(io.StringIO(text)))
    return found


# --- what is shown ---


def test_the_study_and_a_run_stand_beside_each_other_and_their_judges_apart(
    make: Callable[..., AblationDesk], small: Corpus
) -> None:
    desk = make()
    run = finished(desk, small)
    update = named(desk.open(request(), None, *EVERYTHING))
    assert update["sources"]["value"] == [STUDY, run]
    board = update["board"]
    models, offline = board.split("Judged offline", 1)
    assert "Judged by language models" in models and "DeepSeek-Chat, Claude Haiku 4.5 on figures (published)" in models
    assert "lexical, grounded, similar" in offline
    for text in re.findall(r"<code hidden>(.*?)</code>", board):
        names = [trace.get("name", "") for trace in json.loads(text)["data"]]
        published = [name for name in names if "published" in name]
        tokens_or_times = '"input tokens per question"' in text or '"ms to the whole answer"' in text
        # What judges said of both is in no figure; tokens and times, which nobody judges, are in the same one.
        assert tokens_or_times or not published or published == names
    assert "The gate goes by the question&#x27;s type" in board and "The CLIP ranker is missing" in board
    assert board.count("<figure") > 10 and {key[0] for key in cells(board)} == {run}


def test_filters_are_the_rows_that_are_left(make: Callable[..., AblationDesk], small: Corpus) -> None:
    desk = make()
    run = finished(desk, small)
    board = desk.draw([STUDY, run], ["text"], ["baseline", "+KG"], ["Extractive reader"], "")[0]
    table = files(board)["table-2"]
    assert {(r["generator"], r["system"], r["question_type"]) for r in table} == {
        ("Extractive reader", system, "text") for system in ("baseline", "'+KG")
    }
    assert "Judged by language models" not in board
    alone = desk.draw([STUDY, run], [], [], [], PUBLISHED_JUDGE)[0]
    assert "Judged offline" not in alone and len(files(alone)["table-2"]) == 48
    ours = desk.draw([STUDY, run], [], [], [], OFFLINE_CHOICE)[0]
    assert "Judged by language models" not in ours and len(files(ours)["table-2"]) == 16
    assert words.ABLATION_NOTHING.split(":")[0] in desk.draw([], *EVERYTHING)[0]


def test_a_run_with_failed_calls_is_shown_as_incomplete_and_in_no_figure(
    make: Callable[..., AblationDesk], small: Corpus
) -> None:
    spec, _ = scripted(GeneratorError("The provider was away; ask again."))
    desk = make(spec)
    run = evaluate(plan(QUESTIONS[:1], generators=(spec,), label="<b>broken"), desk.store(), small)
    assert run.state == "incomplete"
    update = named(desk.open(request(), [STUDY, run.id], *EVERYTHING))
    assert update["sources"]["value"] == [STUDY] and run.id not in update["board"]
    assert "&lt;b&gt;broken" in update["runs"] and f'data-abl-resume="{run.id}"' in update["runs"]
    assert "0 of 4 done, 4 failed" in update["runs"]
    assert "data-abl-resume" not in named(make(spec, may_start=False).open(request(), None, *EVERYTHING))["runs"]


def test_a_store_that_is_damaged_while_the_page_is_open_hides_its_runs_alone(
    make: Callable[..., AblationDesk], small: Corpus
) -> None:
    desk = make()
    finished(desk, small)
    desk.store()._db.executescript("PRAGMA writable_schema = ON; DELETE FROM sqlite_master WHERE name = 'runs'; VACUUM")
    update = named(desk.open(request(), None, *EVERYTHING))
    assert update["sources"]["value"] == [STUDY] and "Judged by language models" in update["board"]
    assert "runs.sqlite can&#x27;t be used" in update["runs"]
    desk.may_start = False
    assert "runs.sqlite" not in named(desk.open(request(), None, *EVERYTHING))["runs"]


def test_tables_hold_the_figures_of_the_results(make: Callable[..., AblationDesk], small: Corpus) -> None:
    desk = make()
    run = finished(desk, small)
    found = files(desk.draw([STUDY, run], *EVERYTHING)[0])
    assert set(found) == {
        "retrieval", "retrieval-pages", "table-2-1", "table-2-2", "differences-2", "table-3-sets", "table-3-1", "table-3-2", "table-4-1",
        "table-4-2", "causes-2", "given-2", "table-5",
    }  # fmt: skip
    text = next(r for r in found["table-2-2"] if r["question_type"] == "text" and r["system"] == "baseline")
    results = [r for r in desk.sources()[run].results if (r.type, r.system) == ("text", "baseline")]
    right = sum(bool(r.verdicts["lexical"]["accuracy"]) for r in results)
    assert (float(text["accuracy"]), text["n"]) == (right / 2, "2")
    study = next(r for r in found["table-5"] if (r["generator"], r["system"]) == ("GPT-4o", "'+both"))
    assert (float(study["usd_per_100_questions"]), study["latency_ms"]) == (0.2291, "")
    sets = {(r["set"], r["n"], r["answer_in_caption"]) for r in found["table-3-sets"]}
    assert ("caption", "35", "25/34") in sets and ("small_figure_pixel", "1", "0/1") in sets


@pytest.mark.parametrize("text", ["=1+1", "+KG", "-x", "@SUM(A1)", "\t=1", " =1", "|cmd", "%a", "＝1+1", "＠SUM(A1)"])
def test_a_spreadsheet_takes_no_text_for_a_formula(text: str) -> None:
    content = sheet.to_csv([{"a": text, "b": -0.5, "c": None, "d": "-3.5", "e": 'say "x", y'}], "abcde")
    row = next(csv.DictReader(io.StringIO(content)))
    assert row["a"].startswith("'") and row["a"].endswith(text.strip())
    assert (row["b"], row["c"], row["d"], row["e"]) == ("-0.5", "", "-3.5", 'say "x", y')


# --- cells and questions ---


def test_a_cell_opens_its_questions_and_a_question_its_trace(make: Callable[..., AblationDesk], small: Corpus) -> None:
    desk = make()
    run = finished(desk, small)
    listed = desk.open_cell(event(cell=[run, "extractive", "+both", "text"]))
    assert "2 questions of +both, Extractive reader, text" in listed
    for question in QUESTIONS[:2]:
        assert question.q in listed and question.answer in listed
    wanted = [json.loads(w.replace("&quot;", '"')) for w in re.findall(r'data-abl-question="([^"]*)"', listed)]
    update = desk.open_question(request(), event(question=wanted[0]))
    shown = dict(zip(EXPLORE, update, strict=False))
    assert shown["trace"].question == QUESTIONS[0].q and shown["trace"].system == SYSTEMS["+both"]
    assert QUESTIONS[0].q in update[len(EXPLORE) :]
    one = desk.sources()[run].results[0]
    became = cause(one, "lexical")
    alike = desk.open_cell(event(cell=[run, "extractive", "baseline", "text\nmultihop", became, "lexical"]))
    counted = [r for r in desk.sources()[run].results if r.system == "baseline" and r.type in ("text", "multihop")]
    assert (
        f"{sum(cause(r, 'lexical') == became for r in counted)} question" in alike
        and f"multi-hop, {became}, ours" in alike
    )
    everything = desk.open_cell(event(cell=[run, "extractive", "baseline", ""]))
    assert "5 questions of baseline" in everything and "branch off" in everything


def test_a_source_that_the_graph_brought_in_is_not_said_to_be_missing(
    make: Callable[..., AblationDesk], small: Corpus
) -> None:
    desk = make()
    run = finished(desk, small)
    one = desk.sources()[run].results[0]
    brought = replace(one, ranks=(None, 7, 2, None), places=("bridged", "bridged", "sent", "missed"))
    listed = questions(("", "", one.system, ""), one.generator, "ours", [brought], ["lexical"])
    assert "<td>bridged, 7 bridged, 2, not found</td>" in listed


@pytest.mark.parametrize(
    "sent",
    [
        {},
        {"cell": "x"},
        {"cell": [1, 2, 3, 4]},
        {"cell": ["a"] * 7},
        {"cell": ["a"] * 3},
        {"cell": ["x" * 500, "", "", ""]},
        {"cell": ["gone", "b", "c", "d"]},
    ],
)
def test_what_a_browser_sends_is_not_trusted(make: Callable[..., AblationDesk], sent: dict[str, Any]) -> None:
    desk = make()
    assert 'role="alert"' in desk.open_cell(event(**sent))
    with pytest.raises(gr.Error):
        desk.open_question(request(), event(question=sent.get("cell")))


def test_the_study_has_no_single_answers(make: Callable[..., AblationDesk]) -> None:
    assert words.ABLATION_PUBLISHED in make().open_cell(event(cell=[STUDY, "GPT-4o", "+both", "text"]))


# --- runs ---


def start(
    desk: AblationDesk,
    *generators: str,
    cap: Any = 1.0,
    agreed: Any = None,
    systems: Any = ("baseline",),
    judges: Any = (OFFLINE_CHOICE,),
) -> dict[str, Any]:
    return named(list(desk.start(request(), SETS, list(systems), list(generators), list(judges), cap, agreed))[-1])


def test_a_free_run_starts_at_once_and_joins_the_board_when_it_is_done(make: Callable[..., AblationDesk]) -> None:
    desk = make()
    update = start(desk, "extractive")
    assert update["timer"].active is True and update["start"]["visible"] is False
    assert desk.job is not None and desk.job.ended.wait(60)
    update = named(desk.tick([STUDY], *EVERYTHING))
    assert desk.job.run is not None and update["sources"]["value"] == [STUDY, desk.job.run.id]
    assert "is complete: 5 results" in update["progress"] and update["timer"].active is False
    assert "Judged offline" in update["board"] and update["stop"]["visible"] is False
    assert desk.job.run.judges == ("grounded", "lexical", "similar")


def priced(name: str = "dear", **changes: Any) -> GeneratorSpec:
    spec, _ = scripted(Delta("686 [T1]"), DONE)
    return replace(spec, name=name, usd_per_million_input=10.0, usd_per_million_output=10.0, **changes)


def test_what_costs_is_estimated_first_and_a_changed_wish_again(make: Callable[..., AblationDesk]) -> None:
    desk = make(priced())
    update = start(desk, "dear")
    assert (
        desk.job is None
        and "5 calls, about $" in update["progress"]
        and "Nothing has been asked yet" in update["progress"]
    )
    assert update["start"]["value"].startswith("Start for ≈ $")
    assert "Nothing has been asked yet" in start(desk, "dear", agreed=update["agreed"], systems=("+KG",))["progress"]
    assert desk.job is None
    start(desk, "dear", agreed=update["agreed"])
    assert desk.job is not None and desk.job.ended.wait(60) and not desk.job.bad


@pytest.mark.parametrize(
    ("spec", "cap", "told"),
    [
        (priced(), 0.0001, "above the cap of $0.00; raise the cap"),
        (replace(priced(), usd_per_million_input=None), 1.0, "Name their prices"),
        (priced(key_env="NO_SUCH_KEY_HERE"), 1.0, "needs a key: enter your own on Explore"),
        (priced(), "much", "The cap is no amount"),
        (priced(), -1, "The cap is no amount"),
    ],
)
def test_a_run_does_not_start(make: Callable[..., AblationDesk], spec: GeneratorSpec, cap: Any, told: str) -> None:
    desk = make(spec, access=Access(keys=SessionKeys()))
    update = start(desk, spec.name, cap=cap)
    assert told in update["progress"].replace("&#x27;", "'") and 'role="alert"' in update["progress"]
    assert desk.job is None and update["agreed"] is None


def test_nothing_chosen_and_switched_off_say_what_to_do(make: Callable[..., AblationDesk]) -> None:
    assert "There is no generator to run" in start(make())["progress"]
    closed = make(may_start=False)
    assert "switched them off (FUSEBOX_EVALUATE)" in start(closed, "extractive")["progress"]
    assert "switched them off" in named(closed.resume(request(), [OFFLINE_CHOICE], 1.0, event(resume="x")))["progress"]


def test_stop_leaves_it_incomplete_and_resume_asks_only_what_is_missing(make: Callable[..., AblationDesk]) -> None:
    begun, go_on, calls = threading.Event(), threading.Event(), []

    class Slow:
        def stream(self, prompt: Any) -> Iterator[Any]:
            calls.append(prompt)
            if len(calls) == 2:
                begun.set()
                assert go_on.wait(60)
            yield Delta("686 [T1]")
            yield DONE

    base, _ = scripted(price=0.0)
    spec = replace(base, name="slow", provider="slow", maker=lambda spec, call: Slow())
    desk = make(spec)
    # One after the other, so that the second call is under way when Stop comes.
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("rag.evaluate.runner.LOCAL_CALLS_AT_ONCE", 1)
        start(desk, "slow")
        assert desk.job is not None and begun.wait(60)
        assert words.ABLATION_BUSY in start(desk, "slow")["progress"]
        update = named(desk.stop())
        assert update["stop"]["interactive"] is False
        go_on.set()
        assert desk.job.ended.wait(60)
    assert desk.job.run is not None and desk.job.run.state == "incomplete" and not desk.job.bad
    done = desk.job.run.done
    update = named(desk.tick([STUDY], *EVERYTHING))
    assert "is incomplete" in update["progress"] and desk.job.run.id in update["runs"]
    before = len(calls)
    named(desk.resume(request(), [OFFLINE_CHOICE], 1.0, event(resume=desk.job.run.id)))
    assert desk.job.ended.wait(60) and desk.job.run is not None
    assert desk.job.run.state == "complete" and len(calls) - before == 5 - done


def test_what_was_refused_is_gone_once_something_else_is_wished(make: Callable[..., AblationDesk]) -> None:
    desk = make()
    assert "no generator to run" in start(desk)["progress"]
    update = named(desk.changed())
    assert (update["progress"], update["agreed"], update["start"]["value"]) == ("", None, words.ABLATION_START)
    start(desk, "extractive")
    assert desk.job is not None and desk.job.ended.wait(60)
    # Who comes later is not told what came of a run that others started.
    assert named(desk.open(request(), None, *EVERYTHING))["progress"] == ""


def test_the_list_counts_along_with_the_bar(make: Callable[..., AblationDesk]) -> None:
    go_on, begun = threading.Event(), threading.Event()

    class Second:
        calls = 0

        def stream(self, prompt: Any) -> Iterator[Any]:
            Second.calls += 1
            if Second.calls > 1:
                begun.set()
                assert go_on.wait(60)
            yield Delta("686 [T1]")
            yield DONE

    base, _ = scripted(price=0.0)
    desk = make(replace(base, name="slow", provider="slow", maker=lambda spec, call: Second()))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("rag.evaluate.runner.LOCAL_CALLS_AT_ONCE", 1)
        start(desk, "slow")
        assert desk.job is not None and begun.wait(60)
        assert "1 of 5 done" in named(desk.tick([STUDY], *EVERYTHING))["runs"]
        go_on.set()
        assert desk.job.ended.wait(60)


# --- judges ---


def test_judges_say_what_they_need_and_those_without_a_key_are_refused(
    make: Callable[..., AblationDesk], monkeypatch: pytest.MonkeyPatch
) -> None:
    for spec in judge_models().values():
        monkeypatch.delenv(spec.key_env, raising=False)
    desk = make()
    update = named(desk.open(request(), None, *EVERYTHING))
    offline, study = update["run_judges"]["choices"]
    assert offline == ("offline: lexical, grounded, similar", OFFLINE_CHOICE) and study[1] == STUDY_JUDGE
    assert study[0].endswith("(the study's) · needs DEEPSEEK_API_KEY and ANTHROPIC_API_KEY")
    assert "Claude Haiku 4.5 (ANTHROPIC_API_KEY)" in update["judges_more"]
    refused = start(desk, "extractive", judges=(STUDY_JUDGE,))["progress"]
    assert "needs DEEPSEEK_API_KEY and ANTHROPIC_API_KEY" in refused and desk.job is None
    assert words.ABLATION_NO_JUDGE in start(desk, "extractive", judges=())["progress"]
    monkeypatch.setenv("ANTHROPIC_API_KEY", "not-a-real-key")
    ready = named(desk.open(request(), None, *EVERYTHING))
    assert ("Claude Haiku 4.5", "claude-haiku-4.5") in ready["run_judges"]["choices"]
    assert "Claude Haiku" not in ready["judges_more"]


def test_a_free_run_with_a_judge_that_costs_is_estimated_first_and_judged_within_the_cap(
    make: Callable[..., AblationDesk], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEEPSEEK_API_KEY", KEY)
    with ScriptedServer(say.answer("yes")) as server:
        monkeypatch.setitem(judges.JUDGE_MODELS, "deepseek-chat", replace(judges.DEEPSEEK, base_url=server.url))
        desk = make()
        wish = {"judges": (OFFLINE_CHOICE, "deepseek-chat")}
        update = start(desk, "extractive", **wish)
        assert desk.job is None and "5 calls, free of charge. Judging: 15 calls, about $" in update["progress"]
        assert "above the cap" in start(desk, "extractive", cap=0.00001, **wish)["progress"]
        start(desk, "extractive", agreed=update["agreed"], **wish)
        assert desk.job is not None and desk.job.ended.wait(60) and not desk.job.bad
        assert len(server.requests) == 15
    update = named(desk.tick([STUDY], *EVERYTHING))
    assert desk.job.run is not None and set(desk.job.run.judges) == {"lexical", "grounded", "similar", "deepseek-chat"}
    # Each judge has figures of its own, apart from the study's too, and is named.
    board = update["board"]
    heads = re.findall(r'<h3 class="fb-abl-head">(Judged [^<]*) <small>([^<]*)</small>', board)
    assert heads[: len(heads) // 2] == [
        ("Judged by language models", "DeepSeek-Chat, Claude Haiku 4.5 on figures (published)"),
        ("Judged by deepseek-chat", "deepseek-chat"),
        ("Judged offline", "lexical, grounded, similar"),
    ]
    tables = files(board)
    assert {row["judge"] for row in tables["table-2-2"]} == {"deepseek-chat"}
    assert {row["source"] for row in tables["table-2-1"]} == {"the study"}


def test_the_audit_says_where_text_only_answers_came_from(make: Callable[..., AblationDesk], small: Corpus) -> None:
    desk = make()
    crop = small.crops[QUESTIONS[3].sources[0]]
    asked = replace(QUESTIONS[3], q=f"Which table has the caption {crop.caption}", answer=crop.caption.rstrip("."))
    spec, _ = scripted(Delta(f"{crop.caption} [T1]"), DONE)
    run = evaluate(plan((asked,), generators=(replace(spec, name="extractive"),), label="ours"), desk.store(), small)
    judge_run(desk.store(), run.id, OFFLINE)
    found = files(desk.draw([run.id], *EVERYTHING)[0])["origins"]
    (row,) = [r for r in found if r["system"] == "baseline"]
    assert row["n"] == "1" and sum(int(row[name]) for name in ORIGINS) == 1
    assert "origins" not in files(desk.draw([run.id], ["text"], [], [], "")[0])


def test_a_session_never_puts_its_own_documents_into_a_run(make: Callable[..., AblationDesk], small: Corpus) -> None:
    desk = make()
    desk.handlers.shelf = Shelf(small)
    mine = replace(small, manifest=replace(small.manifest, id="mine"))
    desk.handlers.shelf.take("a", mine, lambda: None)
    desk.handlers.shelf.choose("a", "mine")
    assert words.ABLATION_OWN[:40] in start(desk, "extractive")["progress"]
    desk.handlers.shelf.leave("a")


def test_runs_are_off_where_the_page_is_not_for_this_machine_alone() -> None:
    assert Settings.from_env({}).evaluate
    assert not Settings.from_env({"FUSEBOX_HOST": "0.0.0.0"}).evaluate
    assert Settings.from_env({"FUSEBOX_HOST": "0.0.0.0", "FUSEBOX_EVALUATE": "1"}).evaluate
    assert not Settings.from_env({"FUSEBOX_EVALUATE": "0"}).evaluate


def test_the_shipped_run_is_read_where_nothing_can_be_written(
    make: Callable[..., AblationDesk], small: Corpus, tmp_path: Path
) -> None:
    desk = make()
    run = finished(desk, small)
    desk.store().export(tmp_path / "shipped" / "demo.sqlite")
    other = AblationDesk(desk.handlers, False, tmp_path / "nothing", tmp_path / "shipped" / "demo.sqlite")
    update = named(other.open(request(), None, *EVERYTHING))
    assert update["sources"]["value"] == [STUDY, run]
    assert [file.name for file in (tmp_path / "shipped").iterdir()] == ["demo.sqlite"]
    assert not (tmp_path / "nothing").exists()
    assert isinstance(other.stores()[0], Store) and other.stores()[0].read_only

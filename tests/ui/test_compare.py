"""The Compare tab without a browser: what a press asks for, what is drawn, and that nothing untrusted gets through."""

from __future__ import annotations

import re
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import gradio as gr
import pytest

from rag.compare import Cell, CellState, compare
from rag.corpus import Corpus
from rag.errors import GeneratorError, UsageError
from rag.evaluate.questions import Question
from rag.generators.access import Access
from rag.generators.registry import GENERATORS
from rag.generators.spec import GeneratorSpec
from rag.keys import SessionKeys
from rag.systems import SYSTEMS
from rag.types import Delta, Page, Usage
from tests.scripted import DONE, scripted
from tests.ui import traces as by_hand
from tests.ui.conftest import ATTACK
from ui import text as words
from ui.compare_desk import OUTPUTS, CompareDesk, cells_of
from ui.handlers import KNOBS, Handlers
from ui.keydesk import COOKIE, KeyDesk
from ui.shelf import Shelf
from ui.views import compare as view

QUESTION = by_hand.QUESTION
STUDY = ["baseline", "+KG", "+multimodal", "+both"]
USUAL = [getattr(SYSTEMS["+both"], name) for name in KNOBS]


def session(name: str = "a", cookie: str = "") -> gr.Request:
    inner = SimpleNamespace(cookies={COOKIE: cookie} if cookie else {})
    return SimpleNamespace(session_hash=name, request=inner)  # type: ignore[return-value]


def sent(**data: object) -> gr.EventData:
    return SimpleNamespace(_data=data)  # type: ignore[return-value]


def named(update: tuple[Any, ...]) -> dict[str, Any]:
    return dict(zip(OUTPUTS, update, strict=True))


def spec_of(name: str, *events: object, price: float | None = 0.0) -> GeneratorSpec:
    spec, _ = scripted(*events, price=price)  # type: ignore[arg-type]
    return replace(spec, name=name, label=name.title(), access="open")


def desk_with(corpus: Corpus, *specs: GeneratorSpec, **options: Any) -> CompareDesk:
    return CompareDesk(Handlers(Shelf(corpus), {spec.name: spec for spec in specs}, **options))


GOOD = spec_of("good", Delta("37 patients [T1]"), DONE)
FAILING = spec_of("failing", Delta("Half"), GeneratorError("The provider hung up; ask again."))
DEAR = spec_of("dear", Delta("37 [T1]"), DONE, price=1.0)


# --- what a press asks for --------------------------------------------------------------------------------------------------


def test_cells_come_in_the_order_of_the_tables_one_row_per_generator() -> None:
    cells = cells_of(["+both", "baseline"], ["failing", "good"], {"good": GOOD, "failing": FAILING})
    assert [(cell.generator.name, cell.system.name) for cell in cells] == [
        ("good", "baseline"),
        ("good", "+both"),
        ("failing", "baseline"),
        ("failing", "+both"),
    ]


@pytest.mark.parametrize(
    ("systems", "generators", "told"),
    [
        (["+sound"], ["good"], "no system"),
        (STUDY, ["nobody"], "no generator"),
        ([], ["good"], "Nothing"),
        (STUDY, [], "Nothing"),
    ],
)
def test_what_is_not_there_is_refused(systems: list[str], generators: list[str], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        cells_of(systems, generators, {"good": GOOD})


def test_a_free_comparison_runs_at_once_and_fills_every_cell(small: Corpus) -> None:
    updates = [named(u) for u in desk_with(small, GOOD).ask(session(), QUESTION, STUDY, ["good"], None, *USUAL)]
    first, last = updates[0], updates[-1]
    assert not first["ask"]["visible"] and first["stop"]["visible"] and 'data-compare="running"' in first["cells"]
    assert last["cells"].count('data-state="answered"') == 4 and 'data-compare="done"' in last["cells"]
    assert [trace.system.name for trace in last["shown"]] == STUDY
    assert last["ask"]["visible"] and not last["stop"]["visible"]


def test_every_cell_has_the_settings_of_explore_and_the_table_says_which(small: Corpus) -> None:
    settings = ["captions", "dense", 2, "open", 1, "proxy", 1]
    *_, last = desk_with(small, GOOD).ask(session(), QUESTION, STUDY, ["good"], None, *settings)
    for trace in named(last)["shown"]:
        assert [getattr(trace.system, name) for name in KNOBS] == settings
    told = "text ranker dense, chunks 2, facts from everywhere, facts at most 1, visual ranker proxy, crops scored 1, "
    told += "visual payload captions"
    assert f"Asked with the settings on Explore: {told}." in named(last)["cells"]
    *_, refused = desk_with(small, GOOD).ask(
        session(), QUESTION, STUDY, ["good"], None, *settings[:2], 0, *settings[3:]
    )
    assert "text_k" in named(refused)["cells"] and 'role="alert"' in named(refused)["cells"]


def test_passages_that_the_graph_brought_in_stand_under_its_branch_with_their_page(demo: Corpus) -> None:
    question = words.EXAMPLES["demo"][1].question
    bridged = [*USUAL[:3], "bridge", *USUAL[4:]]
    reader = {"extractive": GENERATORS["extractive"]}
    *_, last = CompareDesk(Handlers(Shelf(demo), reader)).ask(
        session(), question, STUDY, ["extractive"], None, *bridged
    )
    brought = {
        tag: item for tag, item in named(last)["shown"][1].prompt.tags.items() if tag[0] == "G" and item in demo.chunks
    }
    assert brought
    for tag, item in brought.items():
        chip = f'class="fb-tag graph" data-page="{demo.chunks[item].page_id}" data-focus="{item}" title="{tag}: open'
        assert chip in named(last)["cells"]


def test_an_estimate_is_agreed_to_for_its_settings_alone(small: Corpus) -> None:
    spec, generator = scripted(Delta("37 [T1]"), DONE, price=1.0)
    desk = desk_with(small, spec)
    (asked,) = desk.ask(session(), QUESTION, STUDY, ["scripted"], None, *USUAL)
    other = [*USUAL[:2], 1, *USUAL[3:]]
    (again,) = desk.ask(session(), QUESTION, STUDY, ["scripted"], named(asked)["agreed"], *other)
    assert generator.prompts == [] and 'data-compare="estimate"' in named(again)["cells"]
    assert "chunks 1" in named(again)["cells"] and "chunks 3" in named(asked)["cells"]


def test_a_row_of_the_studys_four_says_what_each_branch_did(small: Corpus) -> None:
    *_, last = desk_with(small, GOOD).ask(session(), QUESTION, STUDY, ["good"], None, *USUAL)
    assert "It made no difference: all four answers are the same." in named(last)["cells"]
    assert "and changed nothing." in named(last)["cells"]
    *_, two = desk_with(small, GOOD).ask(session(), QUESTION, STUDY[:2], ["good"], None, *USUAL)
    assert "fb-cmp-summary" not in named(two)["cells"]


def test_a_paid_comparison_says_what_it_costs_before_it_calls_anybody(small: Corpus) -> None:
    spec, generator = scripted(Delta("37 [T1]"), DONE, price=1.0)
    desk = desk_with(small, spec)
    (asked,) = desk.ask(session(), QUESTION, STUDY, ["scripted"], None, *USUAL)
    before = named(asked)
    assert generator.prompts == [] and 'data-compare="estimate"' in before["cells"] and before["shown"] == ()
    assert "$" in before["ask"]["value"] and before["cells"].count("tokens in") == 4
    (again,) = desk.ask(session(), QUESTION, STUDY[:2], ["scripted"], before["agreed"], *USUAL)
    assert generator.prompts == [] and 'data-compare="estimate"' in named(again)["cells"]
    *_, last = desk.ask(session(), QUESTION, STUDY, ["scripted"], before["agreed"], *USUAL)
    assert len(generator.prompts) == 4 and named(last)["cells"].count('data-state="answered"') == 4


def test_a_price_that_nobody_knows_is_asked_about_too(small: Corpus) -> None:
    (asked,) = desk_with(small, spec_of("x", DONE, price=None)).ask(session(), QUESTION, STUDY, ["x"], None, *USUAL)
    assert "unknown" in named(asked)["ask"]["value"] and "$0 " not in named(asked)["cells"]


def test_a_failing_generators_row_fails_alone(small: Corpus) -> None:
    *_, last = desk_with(small, GOOD, FAILING).ask(session(), QUESTION, STUDY, ["good", "failing"], None, *USUAL)
    cells = named(last)["cells"]
    assert cells.count('data-state="answered"') == 4 and cells.count('data-state="error"') == 4
    assert cells.count("The provider hung up; ask again.") == 4


@pytest.mark.parametrize("question", ["", None, "x" * 2_001])
def test_a_wrong_question_becomes_a_message(small: Corpus, question: str) -> None:
    *_, last = desk_with(small, GOOD).ask(session(), question, STUDY, ["good"], None, *USUAL)
    assert 'role="alert"' in named(last)["cells"] and named(last)["ask"]["visible"]


def test_stop_ends_this_sessions_comparison_and_no_other(small: Corpus) -> None:
    endless = spec_of("endless", *[Delta(f"word{n} ") for n in range(20_000)], DONE)
    desk = desk_with(small, endless)
    running = desk.ask(session("a"), QUESTION, STUDY, ["endless"], None, *USUAL)
    next(running)
    assert named(desk.stop(session("b")))["ask"]["visible"]
    next(running)
    assert named(desk.stop(session("a")))["stop"]["interactive"] is False
    *_, last = running
    assert 'data-state="stopped"' in named(last)["cells"] and "word19999" not in named(last)["cells"]
    assert named(last)["ask"]["visible"]


def test_another_browsers_session_is_not_admitted(small: Corpus) -> None:
    keys = KeyDesk(SessionKeys(allowed=True), {"OPENAI_API_KEY"})
    keys.take("a", "OPENAI_API_KEY", "sk-" + "k" * 40, "mine")
    desk = desk_with(small, GOOD, desk=keys, access=Access())
    *_, refused = desk.ask(session("a", "theirs"), QUESTION, STUDY, ["good"], None, *USUAL)
    assert "belongs to another browser" in named(refused)["cells"]
    *_, admitted = desk.ask(session("a", "mine"), QUESTION, STUDY, ["good"], None, *USUAL)
    assert 'data-state="answered"' in named(admitted)["cells"]


def test_the_sessions_own_key_is_used(small: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    used = []

    def maker(spec: object, call: Any) -> object:
        used.append(call.credential.owner)
        return SimpleNamespace(stream=lambda prompt: iter([Delta("37"), DONE]))

    spec = replace(DEAR, key_env="OPENAI_API_KEY", maker=maker, usd_per_million_input=0.0, usd_per_million_output=0.0)
    keys = SessionKeys(allowed=True)
    keys.put("a", "OPENAI_API_KEY", "sk-" + "k" * 40)
    list(
        desk_with(small, spec, access=Access(keys=keys)).ask(
            session("a"), QUESTION, ["baseline"], ["dear"], None, *USUAL
        )
    )
    assert used == ["visitor"]


@pytest.mark.parametrize("cell", ["", "9", "-1", "x", "²", "0" * 5_000, None, ["0"]])
def test_a_cell_that_is_not_there_is_told(small: Corpus, cell: object) -> None:
    desk = desk_with(small, GOOD)
    with pytest.raises(gr.Error, match="compare again"):
        desk.open_cell(session(), (by_hand.trace(small),), sent(cell=cell))


def test_a_cell_opens_in_explore_as_it_was_asked(small: Corpus) -> None:
    desk = desk_with(small, GOOD)
    trace = replace(by_hand.trace(small), system=SYSTEMS["+KG"], generator="good")
    update = desk.open_cell(session(), (None, trace), sent(cell="1"))
    assert trace in update and update[-12:-7] == (QUESTION, "+KG", True, False, "good")


def test_a_page_opens_with_the_evidence_of_its_cell(small: Corpus) -> None:
    full = by_hand.trace(small)
    bare = replace(full, evidence=replace(full.evidence, visual=None, graph=None), prompt=None)
    desk = desk_with(small, GOOD)
    pages = [desk.open_page(session(), (bare, full), sent(cell=n, page="glioma_p001", focus="")) for n in ("0", "1")]
    assert "table0" not in pages[0] and "table0" in pages[1]


# --- what is drawn ----------------------------------------------------------------------------------------------------------


def states(small: Corpus, **changed: Any) -> tuple[CellState, ...]:
    full = by_hand.trace(small)
    assert full.prompt is not None
    texts = {tag: item for tag, item in full.prompt.tags.items() if tag.startswith("T")}
    base = replace(full, system=SYSTEMS["baseline"], prompt=replace(full.prompt, tags=texts))
    base = replace(base, evidence=replace(full.evidence, graph=None, visual=None))
    other = replace(full, **changed)
    return (
        CellState(Cell(SYSTEMS["baseline"], GOOD), base, done=True),
        CellState(Cell(SYSTEMS["+both"], GOOD), other, done=True),
    )


def cell(html: str, number: int) -> str:
    return re.split(r"<article ", html)[number + 1].split("</article>")[0]


def test_a_cell_shows_what_its_branches_added_and_took(small: Corpus) -> None:
    found = states(small)
    more = replace(found[1], trace=by_hand.trace(small, "38 [T1]"))
    assert more.trace is not None and more.trace.generation is not None and more.trace.generation.usage is not None
    usage = replace(more.trace.generation.usage, input_tokens=500)
    more = replace(more, trace=replace(more.trace, generation=replace(more.trace.generation, usage=usage)))
    html = view.render((found[0], more), small, None, running=False)
    base, both = cell(html, 0), cell(html, 1)
    assert "Text 3" in base and "as in baseline" not in base
    assert "Graph +2" in both and "Visual +1" in both and "3 items as in baseline" in both
    assert "+88" in both and "Says something else than baseline." in both
    assert both.index(">G1<") < both.index(">V1<") and 'data-focus="triple:0"' in both


def test_the_reference_and_the_places_of_gold_are_shown(small: Corpus) -> None:
    reference = Question(QUESTION, ("glioma_p002", "glioma_p002_figure0"), "37 patients", "multihop", "s")
    html = view.render(states(small), small, reference, running=False)
    assert "<bdi>37 patients</bdi>" in html.split("<section")[0]
    base, both = cell(html, 0), cell(html, 1)
    assert "gold page: rank 3, sent" in base and "gold figure: this system has no figures and tables" in base
    assert "gold figure: rank 2, not sent" in both
    assert base.count("fb-cmp-star") == 1 and both.count("fb-cmp-star") == 0
    assert re.findall(r'<li class="gold"><span class="fb-tag [a-z]+"[^>]*>([^<]+)<', both) == ["T3", "2"]


@pytest.mark.parametrize(
    ("generation", "face"),
    [
        ({"finish": "length"}, "cut"),
        ({"finish": "content_filter"}, "filtered"),
        ({"finish": "cancelled"}, "stopped"),
        ({"finish": "error", "error": "It broke."}, "error"),
        ({"abstained": True}, "abstained"),
        ({}, "answered"),
    ],
)
def test_ends_are_told_apart_as_on_explore(small: Corpus, generation: dict[str, Any], face: str) -> None:
    html = view.render(
        (*states(small)[:1], CellState(Cell(SYSTEMS["+KG"], GOOD), by_hand.trace(small, **generation), done=True)),
        small,
        None,
        running=False,
    )
    assert f'data-state="{face}"' in cell(html, 1)


def test_unknown_is_said_and_is_no_zero(small: Corpus) -> None:
    trace = by_hand.trace(small, usage=None, cost_usd=None)
    assert "$0" not in view.render(
        (CellState(Cell(SYSTEMS["+both"], GOOD), trace, done=True),), small, None, running=False
    )
    trace = by_hand.trace(small, usage=Usage(None, None, None, "reported"), cost_usd=None)
    html = view.render((CellState(Cell(SYSTEMS["+both"], GOOD), trace, done=True),), small, None, running=False)
    assert html.count("unknown") == 3


def test_nothing_untrusted_gets_through(small: Corpus) -> None:
    hostile = f"{ATTACK}\"'\x00\u202e\ud800" + "x" * 5_000
    documents = {name: replace(d, title=hostile, licence=hostile) for name, d in small.documents.items()}
    pages: dict[str, Page] = dict(small.pages)
    corpus = replace(small, documents=documents, pages=pages)
    trace = by_hand.trace(small, f"{hostile} [T1] [T9]")
    spec = replace(GOOD, label=hostile)
    failed = CellState(Cell(replace(SYSTEMS["+KG"], name=hostile, label=hostile), spec), None, hostile, done=True)
    reference = Question(hostile, ("glioma_p002",), hostile, hostile, "s")
    html = view.render(
        (CellState(Cell(SYSTEMS["baseline"], spec), trace, done=True), failed), corpus, reference, running=False
    )
    for drawn in (html, view.problem(hostile)):
        assert not any(part in drawn for part in ("<img src=x", "<script", "\x00", "\ud800"))
        drawn.encode("utf-8")


def test_the_cells_say_which_question_they_answer(small: Corpus) -> None:
    *_, states = compare(QUESTION, [Cell(SYSTEMS["baseline"], GENERATORS["extractive"])], small)
    assert QUESTION in view.render(states, small, None, running=False)

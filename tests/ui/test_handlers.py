"""Events: what a click asks of the pipeline, what comes back, and that sessions stay apart."""

from __future__ import annotations

import json
from types import SimpleNamespace

import gradio as gr
import pytest

from rag.corpus import Corpus
from rag.errors import GeneratorError, UsageError
from rag.generators.registry import GENERATORS
from rag.settings import ASSETS
from rag.systems import SYSTEMS
from rag.types import Delta
from tests.scripted import DONE, scripted
from ui import text as words
from ui.handlers import KNOBS, OUTPUTS, Handlers, system_of
from ui.tabs import explore

QUESTION = "How many patients did the glioma trial enroll?"
DEFAULTS = [getattr(explore.DEFAULT, name) for name in KNOBS]


def session(name: str = "a") -> gr.Request:
    return SimpleNamespace(session_hash=name)  # type: ignore[return-value]


def named(update: tuple) -> dict:
    return dict(zip(OUTPUTS, update, strict=True))


def drawn(update: tuple) -> set[str]:
    """Outputs that an update changes."""
    return {name for name, value in named(update).items() if not (isinstance(value, dict) and value == gr.skip())}


def handlers_with(corpus: Corpus, *events: object) -> Handlers:
    spec, _ = scripted(*events)  # type: ignore[arg-type]
    return Handlers(corpus, {spec.name: spec})


@pytest.mark.parametrize(
    ("graph", "visual", "name"),
    [(False, False, "baseline"), (True, False, "+KG"), (False, True, "+multimodal"), (True, True, "+both")],
)
def test_switches_name_the_system(graph: bool, visual: bool, name: str) -> None:
    system = system_of(graph, visual, {})
    assert system == SYSTEMS[name]


@pytest.mark.parametrize(
    ("knob", "value"),
    [
        ("payload", "pixels"),
        ("text_ranker", "bm25"),
        ("text_k", 7),
        ("graph_mode", "open"),
        ("max_facts", 2),
        ("visual_ranker", "clip"),
        ("visual_depth", 9),
    ],
)
def test_every_setting_reaches_the_system(knob: str, value: object) -> None:
    assert getattr(system_of(True, True, {knob: value}), knob) == value
    assert knob in KNOBS


def test_whole_numbers_may_come_as_floats_and_broken_ones_are_refused() -> None:
    assert system_of(True, True, {"text_k": 4.0}).text_k == 4
    for wrong in (4.5, 0, 10_000, "3", True, None, float("nan")):
        with pytest.raises(UsageError):
            system_of(True, True, {"text_k": wrong})


def test_an_answer_is_drawn_step_by_step_and_only_what_changed(small: Corpus) -> None:
    handlers = handlers_with(small, Delta("37 patients "), Delta("[T1]"), DONE)
    updates = list(handlers.ask(session(), QUESTION, True, True, "scripted", *DEFAULTS))
    assert drawn(updates[0]) == {"answer", "trace", "ask", "stop"}
    assert drawn(updates[1]) == {"answer", "counters", "text", "graph", "visual", "prompt", "trace"}
    assert all(drawn(update) == {"answer", "trace"} for update in updates[2:-1])
    assert drawn(updates[-1]) == {"answer", "counters", "text", "prompt", "trace", "ask", "stop"}
    last = named(updates[-1])
    assert 'data-state="answered"' in last["answer"] and "37 patients" in last["answer"]
    assert last["trace"].system == explore.DEFAULT and last["trace"].generation.finish == "stop"


@pytest.mark.parametrize(
    ("question", "generator", "settings", "words"),
    [
        ("  ", "scripted", DEFAULTS, "question is empty"),
        (None, "scripted", DEFAULTS, "question is empty"),
        ("x" * 2_001, "scripted", DEFAULTS, "2,001 characters"),
        (QUESTION, "nobody", DEFAULTS, "no generator"),
        (QUESTION, "scripted", ["sounds", *DEFAULTS[1:]], "payload is"),
    ],
)
def test_a_wrong_request_becomes_a_message_and_ask_comes_back(
    small: Corpus, question: str, generator: str, settings: list, words: str
) -> None:
    *_, last = handlers_with(small, DONE).ask(session(), question, True, True, generator, *settings)
    shown = named(last)
    assert 'data-state="error"' in shown["answer"] and words in shown["answer"]
    assert shown["ask"]["visible"] and not shown["stop"]["visible"]


def test_a_failing_generator_leaves_the_evidence_and_says_what_to_do(small: Corpus) -> None:
    handlers = handlers_with(small, GeneratorError("No key: set OPENAI_API_KEY."))
    *_, _evidence, last = handlers.ask(session(), QUESTION, True, True, "scripted", *DEFAULTS)
    assert 'data-item="glioma_p001_c00"' in named(last)["text"]
    assert 'data-state="error"' in named(last)["answer"] and "set OPENAI_API_KEY" in named(last)["answer"]


def test_stop_ends_the_stream_and_keeps_what_was_written(small: Corpus) -> None:
    endless = [Delta(f"word{n} ") for n in range(1_000)]
    handlers = handlers_with(small, *endless, DONE)
    running = handlers.ask(session(), QUESTION, True, True, "scripted", *DEFAULTS)
    started = [next(running) for _ in range(3)]
    trace = named(started[-1])["trace"]
    stopped = named(handlers.stop(trace, session()))
    assert 'data-state="stopped"' in stopped["answer"] and "word0" in stopped["answer"]
    assert stopped["trace"].generation.finish == "cancelled" and stopped["ask"]["visible"]
    rest = list(running)
    final = named(rest[-1])["trace"]
    assert final.generation.finish == "cancelled" and "word999" not in final.generation.text


def test_stop_reaches_its_own_session_only(small: Corpus) -> None:
    handlers = handlers_with(small, *[Delta(f"w{n} ") for n in range(50)], DONE)
    mine = handlers.ask(session("mine"), QUESTION, True, True, "scripted", *DEFAULTS)
    yours = handlers.ask(session("yours"), QUESTION, True, True, "scripted", *DEFAULTS)
    next(mine), next(yours)
    handlers.stop(None, session("yours"))
    assert named(list(mine)[-1])["trace"].generation.finish == "stop"
    assert named(list(yours)[-1])["trace"].generation.finish == "cancelled"
    assert handlers._stops == {}


def test_stop_after_the_end_changes_nothing(small: Corpus) -> None:
    handlers = handlers_with(small, Delta("37 [T1]"), DONE)
    *_, last = handlers.ask(session(), QUESTION, True, True, "scripted", *DEFAULTS)
    trace = named(last)["trace"]
    assert named(handlers.stop(trace, session()))["trace"] == trace
    assert "stopped before anything was found" in named(handlers.stop(None, session()))["answer"]


@pytest.mark.parametrize(
    "data", [None, {}, {"page": None}, {"page": ["x"]}, {"page": "glioma_p009"}, {"other": 1}, "glioma_p001", 5]
)
def test_what_a_browser_sends_for_a_page_is_not_trusted(small: Corpus, data: object) -> None:
    document = Handlers(small).open_page(None, SimpleNamespace(_data=data))  # type: ignore[arg-type]
    assert "no such page" in document


def test_a_page_opens_with_its_boxes(small: Corpus) -> None:
    handlers = handlers_with(small, Delta("37 [T1]"), DONE)
    *_, last = handlers.ask(session(), QUESTION, True, True, "scripted", *DEFAULTS)
    event = SimpleNamespace(_data={"page": "glioma_p001", "focus": "glioma_p001_c00"})
    document = handlers.open_page(named(last)["trace"], event)  # type: ignore[arg-type]
    assert 'class="text focus"' in document


def test_examples_come_from_the_question_sets_one_or_two_a_kind() -> None:
    asked = {q["q"] for file in (ASSETS / "questions").glob("demo_*.json") for q in json.loads(file.read_text("utf-8"))}
    examples = words.EXAMPLES["demo"]
    assert {example.question for example in examples} <= asked
    kinds = [example.kind for example in examples]
    assert len(set(kinds)) >= 4 and max(map(kinds.count, kinds)) <= 2


def test_every_generator_has_a_card_that_says_price_and_needs() -> None:
    cards = {name: explore.card(spec).split("\n") for name, spec in GENERATORS.items()}
    assert all(len(lines) == 4 for lines in cards.values())
    assert cards["extractive"] == ["Embedded", "Extractive reader", "free", "no key, no network"]


def test_a_card_says_whether_the_key_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    assert explore.card(GENERATORS["gpt-4o-mini"]).endswith("needs OPENAI_API_KEY")
    monkeypatch.setenv("OPENAI_API_KEY", "x" * 20)
    assert explore.card(GENERATORS["gpt-4o-mini"]).endswith("key set")

"""Events: what a click asks of the pipeline, what comes back, and that sessions stay apart."""

from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace

import gradio as gr
import pytest

from rag import pricing
from rag.corpus import Corpus
from rag.errors import GeneratorError, UsageError
from rag.generators.access import Access
from rag.generators.registry import GENERATORS
from rag.generators.spec import Call, GeneratorSpec
from rag.keys import SessionKeys
from rag.settings import ASSETS
from rag.systems import SYSTEMS
from rag.types import Delta, Sent, Waiting
from tests.scripted import DONE, Scripted, scripted
from ui import text as words
from ui.handlers import KNOBS, OUTPUTS, VIEWS, Handlers, system_of
from ui.keydesk import COOKIE, KeyDesk
from ui.shelf import Shelf
from ui.tabs import explore
from ui.views import generators

QUESTION = "How many patients did the glioma trial enroll?"
DEFAULTS = [getattr(explore.DEFAULT, name) for name in KNOBS]


def session(name: str = "a", cookie: str = "") -> gr.Request:
    inner = SimpleNamespace(cookies={COOKIE: cookie} if cookie else {})
    return SimpleNamespace(session_hash=name, request=inner)  # type: ignore[return-value]


def named(update: tuple) -> dict:
    return dict(zip(OUTPUTS, update, strict=True))


def drawn(update: tuple) -> set[str]:
    """Outputs that an update changes."""
    return {name for name, value in named(update).items() if not (isinstance(value, dict) and value == gr.skip())}


def handlers_with(corpus: Corpus, *events: object) -> Handlers:
    spec, _ = scripted(*events)  # type: ignore[arg-type]
    return Handlers(Shelf(corpus), {spec.name: spec})


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
        ("graph_mode", "bridge"),
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
    assert drawn(updates[1]) == {*VIEWS, "trace"}
    assert all(drawn(update) == {"answer"} for update in updates[2:-1])
    changed = {"answer", "counters", "helped", "explain", "text", "influence", "prompt", "trace", "ask", "stop"}
    assert drawn(updates[-1]) == changed
    cites_a_crop = handlers_with(small, Delta("33 months [V1]"), DONE)
    *_, last = cites_a_crop.ask(session(), QUESTION, True, True, "scripted", *DEFAULTS)
    assert drawn(last) == {*changed, "visual"}
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


def test_stop_ends_the_stream_and_keeps_what_was_written_and_counted(small: Corpus) -> None:
    endless = [Delta(f"word{n} ") for n in range(1_000)]
    handlers = handlers_with(small, *endless, DONE)
    running = handlers.ask(session(), QUESTION, True, True, "scripted", *DEFAULTS)
    for _ in range(3):
        next(running)
    assert drawn(handlers.stop(session())) == {"stop"}
    final = named(list(running)[-1])
    generation = final["trace"].generation
    assert generation.finish == "cancelled" and "word999" not in generation.text
    assert generation.usage.source == "estimated" and generation.usage.output_tokens
    assert 'data-state="stopped"' in final["answer"] and "word0" in final["answer"]
    assert final["ask"]["visible"] and not final["stop"]["visible"] and final["stop"]["interactive"]


def test_stop_reaches_its_own_session_only(small: Corpus) -> None:
    handlers = handlers_with(small, *[Delta(f"w{n} ") for n in range(50)], DONE)
    mine = handlers.ask(session("mine"), QUESTION, True, True, "scripted", *DEFAULTS)
    yours = handlers.ask(session("yours"), QUESTION, True, True, "scripted", *DEFAULTS)
    next(mine), next(yours)
    handlers.stop(session("yours"))
    assert named(list(mine)[-1])["trace"].generation.finish == "stop"
    assert named(list(yours)[-1])["trace"].generation.finish == "cancelled"
    assert handlers._stops == {}


def test_stop_when_nothing_runs_gives_ask_back_and_changes_nothing_else(small: Corpus) -> None:
    assert drawn(handlers_with(small, DONE).stop(session())) == {"ask", "stop"}


def test_what_the_answer_waits_for_is_shown_at_once_however_fast_it_comes(small: Corpus) -> None:
    waits = [Waiting(f"waiting for the provider (429), {n} of 4") for n in (2, 3)]
    handlers = handlers_with(small, Sent(()), *waits, Delta("37 [T1]"), DONE)
    shown = [named(update)["answer"] for update in handlers.ask(session(), QUESTION, True, True, "scripted", *DEFAULTS)]
    for wait in waits:
        assert any(isinstance(one, str) and wait.text in one for one in shown)
    assert "waiting" not in shown[-1]


def test_a_question_is_asked_with_the_keys_of_its_session(small: Corpus) -> None:
    """And with no other: the call tells whose key it was given."""
    spec, _ = scripted(DONE)
    owners: list[str] = []

    def maker(spec: GeneratorSpec, call: Call) -> Scripted:
        owners.append(call.credential.secret.reveal() if call.credential and call.credential.secret else "")
        return Scripted([Delta("37 [T1]"), DONE])

    spec = replace(spec, key_env="SCRIPTED_KEY", maker=maker)
    access = Access(keys=SessionKeys())
    desk = KeyDesk(access.keys, {"SCRIPTED_KEY"})
    handlers = Handlers(Shelf(small), {spec.name: spec}, access, desk)
    desk.take("a", "SCRIPTED_KEY", "key-of-a-1234", "cookie-a")
    desk.take("b", "SCRIPTED_KEY", "key-of-b-1234", "cookie-b")
    for name in ("a", "b", "c"):
        list(handlers.ask(session(name, f"cookie-{name}"), QUESTION, True, True, "scripted", *DEFAULTS))
    assert owners == ["key-of-a-1234", "key-of-b-1234", ""]
    *_, last = handlers.ask(session("a", "cookie-b"), QUESTION, True, True, "scripted", *DEFAULTS)
    assert "another browser" in named(last)["answer"] and len(owners) == 3
    handlers.leave(session("a"))
    list(handlers.ask(session("a", "cookie-a"), QUESTION, True, True, "scripted", *DEFAULTS))
    assert owners[3:] == [""]


def test_estimates_are_of_this_prompt_for_every_generator(small: Corpus) -> None:
    handlers = Handlers(Shelf(small))
    *_, last = handlers.ask(session(), QUESTION, True, True, "extractive", *DEFAULTS)
    trace = named(last)["trace"]
    found = handlers.estimates(trace, small)
    assert list(found) == list(GENERATORS)
    assert found == {name: pricing.estimate(trace.prompt, spec) for name, spec in GENERATORS.items()}


@pytest.mark.parametrize(
    "data", [None, {}, {"page": None}, {"page": ["x"]}, {"page": "glioma_p009"}, {"other": 1}, "glioma_p001", 5]
)
def test_what_a_browser_sends_for_a_page_is_not_trusted(small: Corpus, data: object) -> None:
    document = Handlers(Shelf(small)).open_page(SimpleNamespace(session_hash="s"), None, SimpleNamespace(_data=data))  # type: ignore[arg-type]
    assert "no such page" in document


def test_a_page_opens_with_its_boxes(small: Corpus) -> None:
    handlers = handlers_with(small, Delta("37 [T1]"), DONE)
    *_, last = handlers.ask(session(), QUESTION, True, True, "scripted", *DEFAULTS)
    event = SimpleNamespace(_data={"page": "glioma_p001", "focus": "glioma_p001_c00"})
    document = handlers.open_page(SimpleNamespace(session_hash="s"), named(last)["trace"], event)  # type: ignore[arg-type]
    assert 'class="text focus"' in document


def test_examples_come_from_the_question_sets_one_or_two_a_kind() -> None:
    asked = {q["q"] for file in (ASSETS / "questions").glob("demo_*.json") for q in json.loads(file.read_text("utf-8"))}
    examples = words.EXAMPLES["demo"]
    assert {example.question for example in examples} <= asked
    kinds = [example.kind for example in examples]
    assert len(set(kinds)) >= 4 and max(map(kinds.count, kinds)) <= 2


def test_every_generator_has_a_card_that_says_price_and_needs() -> None:
    cards = {name: generators.card(spec).split("\n") for name, spec in GENERATORS.items()}
    assert all(len(lines) == 4 for lines in cards.values())
    assert cards["extractive"] == ["Embedded", "Extractive reader", "free", "no key, no network"]


def test_a_card_says_whether_the_key_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    assert generators.card(GENERATORS["gpt-4o-mini"]).endswith("needs OPENAI_API_KEY")
    monkeypatch.setenv("OPENAI_API_KEY", "x" * 20)
    assert generators.card(GENERATORS["gpt-4o-mini"]).endswith("key set")

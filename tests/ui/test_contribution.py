"""Did it help, without a browser: who is asked, what is said, and what a browser may send."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import gradio as gr
import pytest

from rag.contribution import Contribution, Effect
from rag.corpus import Corpus
from rag.errors import GeneratorError
from rag.generators.registry import GENERATORS
from rag.generators.spec import GeneratorSpec
from rag.types import Delta, Trace
from tests.scripted import DONE, scripted
from tests.ui import traces as by_hand
from tests.ui.conftest import ATTACK
from ui.contribution_desk import ContributionDesk
from ui.handlers import OUTPUTS, Handlers
from ui.shelf import Shelf
from ui.views import contribution as view

REQUEST = SimpleNamespace(session_hash="a", request=None)
STUDY = ["baseline", "+KG", "+multimodal", "+both"]


def desk_with(corpus: Corpus, *events: object, paid: bool = True) -> ContributionDesk:
    """A free generator that plays back ``events``, and one that costs and must not be asked."""
    spec, _ = scripted(*events, price=0.0)  # type: ignore[arg-type]
    dear, _ = scripted(AssertionError("the one that costs was asked"))  # type: ignore[arg-type]
    specs = [replace(dear, name="dear", access="closed"), replace(spec, name="free", label="Free", access="embedded")]
    return ContributionDesk(Handlers(Shelf(corpus), {one.name: one for one in (specs if paid else specs[:1])}))


def sent(**data: object) -> gr.EventData:
    return SimpleNamespace(_data=data)  # type: ignore[return-value]


def asked(desk: ContributionDesk, trace: Trace | None) -> tuple[str, tuple[Trace, ...]]:
    drawn = [update for update in desk.ask(REQUEST, trace) if isinstance(update[0], str)]  # type: ignore[arg-type]
    return drawn[-1]


def test_four_systems_are_asked_with_the_settings_of_the_answer_by_who_is_free(small: Corpus) -> None:
    trace = by_hand.trace(small)
    shown = replace(trace, generator="dear", system=replace(trace.system, text_k=1, max_facts=1))
    document, traces = asked(desk_with(small, Delta("37 patients [T1]"), DONE), shown)
    assert [one.system.name for one in traces] == STUDY
    assert {(one.system.text_k, one.system.max_facts, one.generator) for one in traces} == {(1, 1, "free")}
    assert "4 answers by Free" in document and "all four answers are the same" in document


def test_a_failed_call_is_no_verdict(small: Corpus) -> None:
    document, traces = asked(desk_with(small, Delta("Half"), GeneratorError("Hung up.")), by_hand.trace(small))
    assert "not every answer came in whole." in document and len(traces) == 4
    assert "right" not in document.split("fb-helped-four")[1]


def test_nothing_is_offered_where_nobody_is_free_or_evidence_was_left_out(small: Corpus) -> None:
    trace, free = by_hand.trace(small), GENERATORS["extractive"]
    assert 'data-helped="ask"' in view.offer(trace, free)
    assert view.offer(trace, None) == "" and view.offer(replace(trace, excluded=("x",)), free) == ""
    assert view.offer(replace(trace, generation=None), free) == ""
    desk = desk_with(small, DONE, paid=False)
    assert desk.offer(trace) == "" and 'role="alert"' in asked(desk, trace)[0]
    assert 'role="alert"' in asked(desk_with(small, DONE), None)[0]


def test_an_answer_is_not_drawn_once_another_has_taken_the_page(small: Corpus) -> None:
    desk = desk_with(small, Delta("37 [T1]"), DONE)
    running = desk.ask(REQUEST, by_hand.trace(small))  # type: ignore[arg-type]
    assert "fb-helped running" in next(running)[0]
    desk.handlers.cleared("a", small)
    assert not [drawn for drawn, _ in running if isinstance(drawn, str)]


@pytest.mark.parametrize("wanted", [{"cell": "4"}, {"cell": "-1"}, {"cell": None}, {}, {"cell": "0" * 9}, None])
def test_what_a_browser_sends_is_not_trusted(small: Corpus, wanted: dict[str, object] | None) -> None:
    desk = desk_with(small, Delta("37 [T1]"), DONE)
    _, traces = asked(desk, by_hand.trace(small))
    event = SimpleNamespace(_data=wanted)
    assert all(one == gr.skip() for one in desk.show(REQUEST, traces, event))  # type: ignore[arg-type]


def test_one_of_the_four_takes_the_page_and_the_card_says_which(small: Corpus) -> None:
    desk = desk_with(small, Delta("37 [T1]"), DONE)
    _, traces = asked(desk, by_hand.trace(small))
    views: dict[str, Any] = dict(zip(OUTPUTS, desk.show(REQUEST, traces, sent(cell="1")), strict=False))  # type: ignore[arg-type]
    assert views["trace"] is traces[1] and f'data-of="{traces[1].id}"' in views["helped"]
    assert views["helped"].count('data-helped="show"') == 3 and 'data-cell="1"' not in views["helped"]


def test_an_attack_is_text(small: Corpus) -> None:
    desk = desk_with(small, Delta(f"37 {ATTACK}"), DONE)
    document, _ = asked(desk, by_hand.trace(small, question=f"How many {ATTACK}?"))
    assert "<img" not in document and "<script" not in document and "&lt;img src=x" in document


def one(
    alone: Effect, on_top: Effect, items: int = 1, tokens: int | None = 307, ms: float | None = 1.5
) -> Contribution:
    return Contribution("visual", items, tokens, ms, alone, on_top)


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (one("righted", "righted"), "Figures & tables made the answer right, for 307 tokens and 1.5 ms of search."),
        (one("righted", "same"), "made the answer right (only without Knowledge graph), for"),
        (one("same", "wronged"), "made the answer wrong (only together with Knowledge graph), for"),
        (one("changed", "changed", tokens=None), "Figures & tables changed the answer, for 1.5 ms of search."),
        (one("same", "same", tokens=1, ms=None), "Figures & tables cost 1 token and changed nothing."),
        (one("same", "unknown"), "cost 307 tokens and 1.5 ms of search; what that did can't be said."),
        (one("same", "same", items=0), "found nothing to send, so it cost no token and changed nothing."),
    ],
)  # fmt: skip
def test_a_branch_is_told_in_one_sentence(found: Contribution, said: str) -> None:
    assert said in view.sentence(found)


def test_the_reader_is_the_one_that_answered_where_that_is_free(small: Corpus) -> None:
    def spec(name: str, access: str) -> GeneratorSpec:
        return replace(GENERATORS["extractive"], name=name, access=access)  # type: ignore[arg-type]

    specs = [spec("first", "embedded"), spec("second", "embedded"), spec("dear", "closed")]
    handlers = Handlers(Shelf(small), {one.name: one for one in specs})
    wanted = {"first": "first", "second": "second", "dear": "first", "gone": "first"}
    for generator, reader in wanted.items():
        found = handlers.reader_for(replace(by_hand.trace(small), generator=generator))
        assert found is not None and found.name == reader

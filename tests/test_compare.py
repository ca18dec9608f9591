"""Several systems and generators on one question: what each adds, what differs, and that a cell fails alone."""

from __future__ import annotations

import itertools
import threading
from dataclasses import replace

import pytest

from rag import compare
from rag.budget import Budget
from rag.compare import Added, Cell, CellState
from rag.corpus import Corpus
from rag.errors import GeneratorError, UsageError
from rag.generators.access import Access
from rag.generators.registry import GENERATORS
from rag.generators.spec import GeneratorSpec
from rag.pipeline import ask
from rag.systems import SYSTEMS
from rag.types import Delta, Generation, Trace, Usage
from tests.scripted import DONE, scripted
from tests.ui import traces as by_hand

QUESTION = "How many patients did the glioma trial enroll?"
READER = GENERATORS["extractive"]


def named(name: str, *events: object, **options: object) -> GeneratorSpec:
    spec, _ = scripted(*events, **options)  # type: ignore[arg-type]
    return replace(spec, name=name, label=name)


def finished(question: str, cells: list[Cell], corpus: Corpus, **options: object) -> tuple[CellState, ...]:
    *_, last = compare.compare(question, cells, corpus, **options)  # type: ignore[arg-type]
    return last


def test_every_cell_is_what_ask_alone_would_give(small: Corpus) -> None:
    cells = [Cell(system, READER) for system in SYSTEMS.values()]
    for state in finished(QUESTION, cells, small):
        *_, alone = ask(QUESTION, state.cell.system, READER, small)
        assert state.done and not state.error and state.trace is not None
        assert (state.trace.evidence, state.trace.prompt) == (alone.evidence, alone.prompt)
        assert state.trace.generation is not None and alone.generation is not None
        assert state.trace.generation.text == alone.generation.text


def test_states_only_ever_grow_and_keep_their_places(small: Corpus) -> None:
    cells = [Cell(system, named("slow", Delta("a "), Delta("b"), DONE)) for system in SYSTEMS.values()]
    seen = list(compare.compare(QUESTION, cells, small))
    assert all([state.cell for state in states] == cells for states in seen)
    for before, after in itertools.pairwise(seen):
        for one, other in zip(before, after, strict=True):
            assert not one.done or other.done
            if one.trace and one.trace.generation:
                assert other.trace and other.trace.generation
                assert other.trace.generation.text.startswith(one.trace.generation.text)


def test_a_failure_and_a_bug_stay_in_their_cells(small: Corpus, caplog: pytest.LogCaptureFixture) -> None:
    failing = named("failing", Delta("Half"), GeneratorError("The provider hung up; ask again."))
    broken = named("broken", Delta("Half"), ZeroDivisionError("a bug"))
    cells = [Cell(SYSTEMS["+both"], spec) for spec in (READER, failing, broken)]
    good, failed, bug = finished(QUESTION, cells, small)
    assert good.trace and good.trace.generation and good.trace.generation.finish == "stop"
    assert failed.trace and failed.trace.generation and failed.trace.generation.error.startswith("The provider hung up")
    assert not failed.error and failed.done
    assert bug.error == compare.BUG and bug.done and "ZeroDivisionError" in caplog.text


def test_stop_ends_running_cells_and_begins_no_other(small: Corpus) -> None:
    stop, called = threading.Event(), []

    class Endless:
        def stream(self, prompt: object) -> object:
            called.append(prompt)
            while True:
                yield Delta("word ")

    endless = replace(READER, name="endless", maker=lambda spec, call: Endless())  # type: ignore[arg-type,return-value]
    cells = [Cell(SYSTEMS["baseline"], replace(endless, name=f"endless{n}")) for n in range(compare.AT_ONCE + 3)]
    states: tuple[CellState, ...] = ()
    for states in compare.compare(QUESTION, cells, small, stopped=stop.is_set):
        if any(state.trace and state.trace.generation and state.trace.generation.text for state in states):
            stop.set()
    assert all(state.done for state in states)
    begun = [state for state in states if state.trace and state.trace.generation]
    assert begun and all(s.trace.generation.finish == "cancelled" for s in begun)  # type: ignore[union-attr]
    assert len(called) == len(begun) <= compare.AT_ONCE
    assert all(state.trace is None for state in states[compare.AT_ONCE :])


def test_stopped_after_the_evidence_the_generator_is_not_called(small: Corpus) -> None:
    spec, generator = scripted(Delta("37"), DONE)
    answers = iter([False])  # when the cell begins, and not again
    (state,) = finished(QUESTION, [Cell(SYSTEMS["+both"], spec)], small, stopped=lambda: next(answers, True))
    assert state.done and state.trace is not None and state.trace.generation is None
    assert generator.prompts == []


def test_a_consumer_that_leaves_ends_the_cells(small: Corpus) -> None:
    closed = threading.Event()

    class Endless:
        def stream(self, prompt: object) -> object:
            try:
                while True:
                    yield Delta("word ")
            finally:
                closed.set()

    endless = replace(READER, name="endless", maker=lambda spec, call: Endless())  # type: ignore[arg-type,return-value]
    running = compare.compare(QUESTION, [Cell(SYSTEMS["baseline"], endless)], small)
    next(s for s in running if s[0].trace and s[0].trace.generation and s[0].trace.generation.text)
    running.close()  # type: ignore[attr-defined]
    assert closed.wait(30)


def test_cells_share_one_spending_cap(small: Corpus) -> None:
    dear = named("dear", Delta("37 [T1]"), DONE, price=1000.0)
    estimate = compare.estimate(QUESTION, [Cell(SYSTEMS["baseline"], dear)], small)[0]
    assert estimate.limit_usd is not None
    access = Access(budget=Budget(session_usd=1.5 * estimate.limit_usd)).for_session("s")
    cells = [Cell(SYSTEMS["baseline"], replace(dear, name=f"dear{n}")) for n in range(12)]
    traces = [s.trace.generation for s in finished(QUESTION, cells, small, access=access) if s.trace]
    assert sum(g.finish == "stop" for g in traces if g) < len(cells)
    assert any("spending" in g.error or "FUSEBOX_BUDGET_USD_SESSION" in g.error for g in traces if g)


@pytest.mark.parametrize(
    ("question", "count", "told"),
    [("  ", 1, "question is empty"), (QUESTION, 0, "Nothing is chosen"), (QUESTION, 25, "24")],
)
def test_a_wrong_request_is_refused_before_anything_starts(small: Corpus, question: str, count: int, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        next(compare.compare(question, [Cell(SYSTEMS["baseline"], READER)] * count, small))


def test_an_estimate_is_of_the_very_prompt_and_calls_nobody(small: Corpus) -> None:
    spec, generator = scripted(Delta("37"), DONE, price=1.0)
    cells = [Cell(system, spec) for system in SYSTEMS.values()]
    found = compare.estimate(QUESTION, cells, small)
    assert generator.prompts == []
    for cell, estimate in zip(cells, found, strict=True):
        *_, trace = ask(QUESTION, cell.system, spec, small)
        assert trace.generation is not None and trace.generation.estimate == estimate


# --- against the baseline -----------------------------------------------------------------------------------------------


def test_added_are_the_items_the_baseline_lacks_in_prompt_order(small: Corpus) -> None:
    full = by_hand.trace(small)
    assert full.prompt is not None
    texts = {tag: item for tag, item in full.prompt.tags.items() if tag.startswith("T")}
    baseline = replace(full, prompt=replace(full.prompt, tags=texts))
    assert compare.added(full, baseline) == (
        Added("graph", "G1", "triple:0"),
        Added("graph", "G2", "triple:1"),
        Added("visual", "V1", "glioma_p001_table0"),
    )
    assert [item.branch for item in compare.added(baseline, None)] == ["text"] * 3
    assert compare.added(baseline, baseline) == () == compare.added(replace(full, prompt=None), baseline)


def test_differences_are_by_hand(small: Corpus) -> None:
    trace = by_hand.trace(small)
    base = replace(trace, timings_ms={"text": 5.0, "generation": 99.0}, generation=took(400, 10, 0.002, 20.0))
    more = replace(trace, timings_ms={"text": 7.5, "generation": 99.0}, generation=took(512, 9, 0.005, 31.0))
    found = compare.difference(more, base)
    assert (found.input_tokens, found.output_tokens) == (112, -1)
    assert found.cost_usd == pytest.approx(0.003) and found.total_ms == pytest.approx(13.5)
    assert found.answer_changed is False


def took(tokens_in: int | None, tokens_out: int | None, cost: float | None, ms: float) -> Generation:
    usage = Usage(tokens_in, tokens_out, None, "reported")
    return Generation("37 patients [T1]", usage, 1.0, ms, cost, "stop")


@pytest.mark.parametrize(
    ("text", "finish", "changed"),
    [
        ("37 patients [T2]", "stop", False),
        ("37 Patients", "stop", False),
        ("38 patients [T1]", "stop", True),
        ("37 pat", "length", None),
    ],
)
def test_an_answer_changed_when_its_words_did(small: Corpus, text: str, finish: str, changed: bool | None) -> None:
    base = by_hand.trace(small)
    other = by_hand.trace(small, text, finish=finish)
    assert compare.difference(other, base).answer_changed is changed


def test_what_is_unknown_stays_unknown(small: Corpus) -> None:
    known = by_hand.trace(small)
    unknown: Trace = replace(known, generation=took(None, None, None, 5.0))
    found = compare.difference(unknown, known)
    assert (found.input_tokens, found.output_tokens, found.cost_usd) == (None, None, None)
    assert compare.difference(replace(known, generation=None), known).total_ms is None

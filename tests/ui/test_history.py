"""The history card's desk: what a session keeps, and what a link may set."""

from __future__ import annotations

import random
from dataclasses import replace
from types import SimpleNamespace

import pytest

from rag import trace as traces
from rag.corpus import Corpus
from rag.generators.registry import GENERATORS
from rag.pipeline import ask
from rag.systems import SYSTEMS, tuned
from tests.ui.traces import trace as written
from ui import text as words
from ui.handlers import OUTPUTS, Handlers
from ui.history_desk import MAX_ENTRIES, MAX_PACKED_BYTES, HistoryDesk
from ui.shelf import Shelf

REQUEST = SimpleNamespace(session_hash="a", request=None, query_params="")


def test_the_last_answers_are_kept(small: Corpus) -> None:
    desk, entries = HistoryDesk(Handlers(Shelf(small))), ()
    for number in range(MAX_ENTRIES + 3):
        entries, _ = desk.keep(REQUEST, replace(written(small), id=f"trace{number}"), entries)
    assert [entry.id for entry in entries] == [f"trace{number}" for number in range(3, MAX_ENTRIES + 3)]


def test_traces_of_any_size_do_not_fill_the_memory(small: Corpus) -> None:
    """What is loaded from files may be large and hard to pack."""
    desk, entries, noise = HistoryDesk(Handlers(Shelf(small))), (), random.Random(0)
    for number in range(5):
        large = written(small, f"{noise.randbytes(1_500_000).hex()} [T1]")
        entries, _ = desk.keep(REQUEST, replace(large, id=f"trace{number}"), entries)
    assert sum(len(entry.packed) for entry in entries) <= MAX_PACKED_BYTES
    assert entries[-1].id == "trace4" and entries[-1].trace().id == "trace4"


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("system=baseline&text_k=5", words.LINK_FOLLOWED),
        ("system=baseline&fusion=borda", "fusion has no control on this page"),
        ("min_entity_chars=9&text_k=5", "min_entity_chars has no control on this page"),
    ],
)
def test_a_link_says_what_the_page_can_not_set(small: Corpus, query: str, told: str) -> None:
    card, *_ = HistoryDesk(Handlers(Shelf(small))).follow(SimpleNamespace(query_params=query))  # type: ignore[arg-type]
    assert told in card


def _restored(desk: HistoryDesk, wanted: dict[str, str], entries: tuple = ()) -> tuple[tuple, str, dict[str, str]]:
    entries, card, *rest = desk.restore(REQUEST, entries, None, SimpleNamespace(_data=wanted))  # type: ignore[arg-type]
    return entries, card, dict(zip(OUTPUTS, rest, strict=False))


def test_an_answer_from_a_file_says_so_where_it_stands_and_when_it_comes_back(small: Corpus) -> None:
    desk = HistoryDesk(Handlers(Shelf(small)))
    *_, asked = ask("How many patients did the glioma trial enroll?", SYSTEMS["+both"], GENERATORS["extractive"], small)
    entries, card, views = _restored(desk, {"trace": traces.dumps(asked)})
    assert words.TRACE_LOADED in views["answer"] and words.FROM_FILE in card
    _, _, again = _restored(desk, {"restore": asked.id}, entries)
    assert words.TRACE_LOADED in again["answer"]
    kept, _ = desk.keep(REQUEST, asked, ())
    _, _, own = _restored(desk, {"restore": asked.id}, kept)
    assert words.TRACE_LOADED not in own["answer"]


def test_a_trace_up_to_its_prompt_is_not_called_stopped(small: Corpus) -> None:
    steps = ask("How many patients did the glioma trial enroll?", SYSTEMS["+both"], GENERATORS["extractive"], small)
    prepared = next(step for step in steps if step.prompt is not None)
    _, _, views = _restored(HistoryDesk(Handlers(Shelf(small))), {"trace": traces.dumps(prepared)})
    assert words.UNASKED in views["answer"] and 'data-state="unasked"' in views["answer"]


def test_settings_without_a_control_are_named_when_a_trace_comes_back(small: Corpus) -> None:
    system = tuned(SYSTEMS["+both"], fusion="borda", min_entity_chars=9)
    *_, asked = ask("How many patients did the glioma trial enroll?", system, GENERATORS["extractive"], small)
    _, card, _ = _restored(HistoryDesk(Handlers(Shelf(small))), {"trace": traces.dumps(asked)})
    assert "min_entity_chars" in card and "fusion" in card

"""The history card's desk: what a session keeps, and what a link may set."""

from __future__ import annotations

import random
from dataclasses import replace
from types import SimpleNamespace

import pytest

from rag.corpus import Corpus
from tests.ui.traces import trace as written
from ui import text as words
from ui.handlers import Handlers
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

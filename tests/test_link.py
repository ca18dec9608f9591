from __future__ import annotations

from urllib.parse import urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag import link
from rag.generators.registry import GENERATORS
from rag.pipeline import MAX_QUESTION_CHARS
from rag.systems import CHOICES, LIMITS, SYSTEMS, tuned

SYSTEM = tuned(SYSTEMS["+KG"], text_k=7, graph_mode="bridge", max_facts=0, payload="pixels", fusion="borda")


def test_a_link_is_followed_to_the_letter() -> None:
    question = "¿Qué es 50 % & +1 = 51 #?"
    fields = {"q": question, "system": "+KG", "generator": "gpt-4o", **link.settings_of(SYSTEM)}
    assert link.read(urlencode(fields), GENERATORS) == link.Link(question, SYSTEM, "gpt-4o")


def test_an_address_without_our_names_asks_for_nothing() -> None:
    assert link.read("__theme=dark&view=api&deep_link=abc&api_key=sk-1&corpus=../..", GENERATORS).empty


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ("system=%2Beverything", "no system '+everything'"),
        ("generator=gpt-9", "no generator 'gpt-9'"),
        ("text_k=999", "text_k is 999"),
        ("text_k=1e3", "text_k is '1e3'"),
        ("text_k=99999999999999999999", "text_k is '9999"),
        ("graph_mode=wild", "graph_mode is 'wild'"),
        ("q=%00%01", "question is empty"),
        ("q=" + "x" * (MAX_QUESTION_CHARS + 1), "2,001 characters"),
        ("q=" + "x" * link.MAX_LINK_CHARS, "longer than"),
        ("&".join(f"a{i}=1" for i in range(99)), "more than"),
        ("system=" + "A" * 3000, "no system"),
    ],
)
def test_what_a_link_names_wrongly_is_said_and_left_at_its_default(query: str, says: str) -> None:
    found = link.read(query, GENERATORS)
    (problem,) = found.problems
    assert says in problem and len(problem) < 300
    assert (found.question, found.system, found.generator) == ("", None, "")


def test_what_is_right_in_a_link_is_used_beside_what_is_wrong() -> None:
    found = link.read("q=Why%3F&system=nope&generator=extractive&max_facts=3", GENERATORS)
    assert (found.question, found.generator, found.system.max_facts, len(found.problems)) == (
        "Why?",
        "extractive",
        3,
        1,
    )


@given(st.text(max_size=300))
def test_no_link_raises_or_leaves_the_limits(query: str) -> None:
    found = link.read(query, GENERATORS)
    if found.system is not None:
        assert all(low <= getattr(found.system, name) <= high for name, (low, high) in LIMITS.items())
        assert all(getattr(found.system, name) in words for name, words in CHOICES.items())

"""The sentence that states a triple, against passages written by hand and every triple of the demo corpus."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag.corpus import Corpus
from rag.statement import stated, widened
from rag.types import Chunk, Triple

PASSAGE = (
    "Survival was poor. The log-rank  test compares survival curves of the GBSG2 study. Survival curves pass the Log-rank test. "
    "On page 12 the ages differ. Median age is 53 years."
)


def triple(subject: str, relation: str, object_: str) -> Triple:
    return Triple(subject, relation, object_, "d_p001_c00", "d_p001", "hand")


def words(text: str, spans: tuple[tuple[int, int], ...]) -> list[str]:
    return [text[start:end] for start, end in spans]


@pytest.mark.parametrize(
    ("fact", "sentence", "subject", "object_"),
    [
        (
            ("log-rank test", "compares", "survival curves"),
            "The log-rank  test compares survival curves of the GBSG2 study.",
            ["log-rank  test"],
            ["survival curves"],
        ),
        (
            ("log-rank test", "pass", "survival curves"),
            "Survival curves pass the Log-rank test.",
            ["Log-rank test"],
            ["Survival curves"],
        ),
        (("age", "is", "53 years"), "Median age is 53 years.", ["age"], ["53 years"]),
        (("ages", "differ", ""), "On page 12 the ages differ.", ["ages"], []),
    ],
)
def test_the_sentence_with_both_names_and_the_relation(
    fact: tuple[str, str, str], sentence: str, subject: list[str], object_: list[str]
) -> None:
    found = stated(triple(*fact), PASSAGE)
    assert found is not None and found.verbatim
    assert PASSAGE[found.start : found.end] == sentence
    assert (words(PASSAGE, found.subject), words(PASSAGE, found.object)) == (subject, object_)


def test_names_in_two_sentences_that_follow_each_other() -> None:
    found = stated(
        triple("GBSG2 study", "compares", "page 12"), PASSAGE.replace("Survival curves pass the Log-rank test. ", "")
    )
    assert found is not None and found.verbatim
    assert PASSAGE[found.start : found.end].startswith("The log-rank")


def test_words_stand_in_where_the_names_do_not() -> None:
    found = stated(triple("GBSG2 trial", "is compared by", "rank test"), PASSAGE)
    assert found is not None and not found.verbatim
    assert words(PASSAGE, found.subject) == ["GBSG2"] and words(PASSAGE, found.object) == ["rank  test"]
    assert stated(triple("nobody", "eats", "herrings"), PASSAGE) is None
    assert stated(triple("age", "is", "53"), "") is None


def test_a_sentence_cut_by_the_chunks_edge_is_made_whole() -> None:
    page = "It rained. The mgus2 data set contains 1384 subjects with MGUS. They were followed up."
    start, end = page.index("data set"), page.index(" with MGUS")
    chunk = Chunk("d_p001_c00", "d_p001", page[start:end], start)
    found = stated(triple("data set", "contains", "1384 subjects"), chunk.text)
    assert found is not None
    a, b = widened(found, chunk, page)
    assert page[a:b] == "The mgus2 data set contains 1384 subjects with MGUS."
    assert widened(found, chunk, "another text") == (start, end)


def test_every_fact_of_the_demo_corpus_stands_in_its_passage(demo: Corpus) -> None:
    """The grammar names the chunk that holds all of a fact's words."""
    missing = []
    for number, fact in enumerate(demo.triples):
        chunk = demo.chunks[fact.chunk_id]
        found = stated(fact, chunk.text)
        if found is None or not found.verbatim or not found.subject:
            missing.append(number)
            continue
        start, end = widened(found, chunk, demo.page_text(chunk.page_id))
        assert start <= chunk.start + found.start and chunk.start + found.end <= end
    assert missing == []


@given(st.text(max_size=80), st.text(max_size=12), st.text(max_size=12), st.text(max_size=12))
def test_offsets_are_always_in_the_text(text: str, subject: str, relation: str, object_: str) -> None:
    found = stated(triple(subject, relation, object_), text)
    if found is not None:
        for start, end in (*found.subject, *found.object):
            assert found.start <= start < end <= found.end <= len(text)

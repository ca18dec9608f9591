"""Explanation levels: from the trace alone, each more than the one before, nothing invented."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise

import pytest

from rag import trace as traces
from rag.corpus import Corpus
from rag.errors import UsageError
from rag.explain import LEVELS, explain
from rag.types import Estimate, SentImage, Usage
from tests.ui.traces import trace


def test_each_level_holds_the_one_before(small: Corpus) -> None:
    told = [explain(trace(small), level) for level in range(len(LEVELS))]
    assert told[0] == "37 patients [T1]"
    assert all(longer.startswith(shorter + "\n\n") for shorter, longer in pairwise(told))


def test_one_line_names_what_it_rests_on_and_what_it_took(small: Corpus) -> None:
    shown = trace(small, "37 patients [T1, G1], 11 months [V1].")
    line = explain(shown, 1).split("\n\n")[1]
    assert line == (
        "Rests on T1 (glioma, p. 1), G1 (glioma, p. 1) and V1 (table, glioma, p. 1), of 3 passages, 2 facts and 1 crop sent. "
        "412 tokens in, 9 out; $0; retrieval 6 ms, answer 34 ms."
    )


def test_sources_are_the_words_as_sent_and_the_rest_is_named(small: Corpus) -> None:
    told = explain(trace(small, "37 patients [T1, G1] and more [V9]."), 2)
    assert "T1  glioma, p. 1: glioma_p001_c00\n    The glioma trial enrolled 37 patients." in told
    assert "G1  glioma, p. 1: triple:0\n    glioma trial enrolled 37 patients\n" in told
    assert (
        "Sent, not cited: T2 (glioma, p. 1), T3 (glioma, p. 2), G2 (glioma, p. 1) and V1 (table, glioma, p. 1)." in told
    )
    assert "Cited, never sent: V9." in told


@pytest.mark.parametrize(
    ("answer", "changes", "says"),
    [
        (
            "The evidence does not answer this.",
            {"abstained": True},
            "The generator found no answer in 3 passages, 2 facts",
        ),
        ("37 patients", {}, "Cites none of the evidence sent: 3 passages, 2 facts and 1 crop."),
        ("", {"finish": "error", "error": "No key: set OPENAI_API_KEY."}, "No answer: No key: set OPENAI_API_KEY."),
        ("37 pat", {"finish": "length", "notice": "The end is missing."}, "37 pat (The end is missing.)"),
        ("37", {"usage": Usage(None, None, None, "reported"), "cost_usd": None}, "Unknown tokens in, unknown out; cost unknown;"),
        ("37", {"usage": None, "finish": "cancelled"}, "Tokens unknown."),
    ],
)  # fmt: skip
def test_every_end_of_an_answer_is_told(small: Corpus, answer: str, changes: dict, says: str) -> None:
    assert says in explain(trace(small, answer, **changes), 1)


def test_the_trail_holds_everything(small: Corpus) -> None:
    shown = trace(small, images=(SentImage("V1", "glioma_p001_table0", "0" * 64, "image/png", 200, 100, 4_321, True),),
                  estimate=Estimate("extractive", 400, 400, 0, 40, 0.0, 0.0), reason="end_turn")  # fmt: skip
    shown = replace(shown, excluded=("triple:2",), refill=True, question_type="text")
    told = explain(shown, 3)
    for part in (
        shown.question,
        "Type       text",
        "System     +both (text, graph, visual)",
        shown.id,
        shown.corpus_id,
        "names none",
        "T1  1. glioma_p001_c00: score 0.01639, dense rank 1 (1), bm25 rank 1 (1)",
        "-   2. glioma_p002_figure0: score",
        "2 facts sent, 300 dropped (299 page not retrieved, 1 entity too short); mode provenance",
        "entities in the question: glioma trial, log-rank test",
        "dropped: GBSG2 study recruited 686 women (page not retrieved)",
        "The CLIP ranker is missing: no weights.",
        "Left out   triple:2 (the next-ranked moved up)",
        "V1 glioma_p001_table0, 200 x 100 px, 4,321 bytes image/png",
        "estimated before the call: 400 tokens in, $0",
        "first token after 12.0 ms; ended: end_turn",
        "encode 3.0 ms",
    ):
        assert part in told, part


def test_an_explanation_needs_nothing_but_the_trace(small: Corpus) -> None:
    """A trace from a file explains itself in the same words, without a corpus."""
    shown = trace(small)
    loaded = traces.loads(json.dumps(json.loads(traces.dumps(shown))))
    assert [explain(loaded, level) for level in range(4)] == [explain(shown, level) for level in range(4)]


def test_a_trace_without_a_prompt_or_an_answer_is_explained_too(small: Corpus) -> None:
    shown = replace(trace(small), prompt=None, generation=None, citations=(), timings_ms={})
    assert explain(shown, 3).startswith("No answer.\n\nThe prompt held no evidence.")


def test_control_characters_of_documents_do_not_reach_a_terminal(small: Corpus) -> None:
    told = explain(trace(small, "37\x1b[31m patients\x07\x9b [T1]"), 3)
    assert not any((ord(c) < 32 and c not in "\n\t") or 0x7F <= ord(c) < 0xA0 for c in told)


@pytest.mark.parametrize("level", [-1, 4])
def test_there_is_no_other_level(small: Corpus, level: int) -> None:
    with pytest.raises(UsageError, match="0 to 3"):
        explain(trace(small), level)

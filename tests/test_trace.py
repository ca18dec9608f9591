"""Traces as JSON: nothing is lost, converted or made up on the way back."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from rag import trace as traces
from rag.corpus import Corpus
from rag.errors import TraceError
from rag.generators.registry import GENERATORS
from rag.pipeline import ask
from rag.systems import SYSTEMS, tuned
from rag.types import Citation, Delta, Fact, Trace
from tests.scripted import DONE, scripted

QUESTION = "How many patients did the glioma trial enroll, says the log-rank test?"


@pytest.fixture(scope="module")
def trace(small: Corpus) -> Trace:
    *_, last = ask(QUESTION, SYSTEMS["+both"], GENERATORS["extractive"], small)
    return last


def changed(trace: Trace, *path: str | int, value: object) -> str:
    """The trace's JSON with one thing set."""
    document: Any = json.loads(traces.dumps(trace))
    place = document
    for part in path[:-1]:
        place = place[part]
    place[path[-1]] = value
    return json.dumps(document)


@pytest.mark.parametrize("name", list(SYSTEMS))
def test_every_step_of_an_answer_survives_byte_for_byte(small: Corpus, name: str) -> None:
    spec, _ = scripted(Delta("37 "), Delta("patients [T1] \U0001f9ea\x00"), DONE)
    for step in ask(QUESTION, SYSTEMS[name], spec, small, exclude=["glioma_p001_c00"]):
        text = traces.dumps(step)
        loaded = traces.loads(text)
        assert loaded == step
        assert traces.dumps(loaded) == text
        assert traces.loads(traces.dumps(step, indent=1).encode()) == step


@pytest.mark.parametrize(
    "knobs",
    [
        {"text_k": 20, "visual_depth": 30, "captions_k": 10, "max_facts": 50, "graph_mode": "open"},
        {"max_facts": 0, "fusion": "rank_mean", "text_ranker": "bm25"},
        {"fusion": "score_mean", "payload": "pixels"},
        {"fusion": "borda", "text_ranker": "dense", "visual_ranker": "proxy"},
    ],
)
def test_settings_survive(demo: Corpus, knobs: dict[str, Any]) -> None:
    question = "In the figure of survival curves, what does the Kaplan-Meier estimate show?"
    *_, last = ask(question, tuned(SYSTEMS["+both"], **knobs), GENERATORS["extractive"], demo)
    text = traces.dumps(last)
    assert traces.loads(text) == last
    assert traces.dumps(traces.loads(text)) == text


def test_a_field_that_is_left_out_has_its_default(trace: Trace) -> None:
    document = json.loads(traces.dumps(trace))
    del document["excluded"], document["system"]["fusion"]
    assert traces.loads(json.dumps(document)) == trace


@pytest.mark.parametrize(
    ("path", "value", "says"),
    [
        (("extra",), 1, "unknown field 'extra'"),
        (("system", "alpha"), 1, "unknown field 'system.alpha'"),
        (
            ("evidence", "text", "hits", 0, "hits", 0, "weight"),
            1,
            r"unknown field 'evidence\.text\.hits\.0\.hits\.0\.weight'",
        ),
        (("system", "text_k"), "1", r"system\.text_k: .*valid integer"),
        (("system", "text_k"), 3.0, r"system\.text_k: .*valid integer"),
        (("system", "text_k"), True, r"system\.text_k: .*valid integer"),
        (("system", "text_k"), 0, r"system\.text_k: 0 is not from 1 to 20"),
        (("system", "text_k"), 21, r"system\.text_k: 21 is not from 1 to 20"),
        (("system", "text_k"), 10**400, r"system\.text_k: 1000+… is not from 1 to 20"),
        (("system", "max_facts"), -1, r"system\.max_facts: -1 is not from 0 to 50"),
        (("system", "fusion"), "sum", r"system\.fusion"),
        (("evidence", "text", "hits", 0, "rank"), -1, r"hits\.0\.rank: -1 is not from 1"),
        (("evidence", "text", "hits", 0, "rank"), 0, r"hits\.0\.rank: 0 is not from 1"),
        (("evidence", "text", "hits", 0, "score"), "0.5", r"hits\.0\.score: .*valid number"),
        (("evidence", "text", "hits", 0, "score"), True, r"hits\.0\.score"),
        (("evidence", "text", "hits", 0, "score"), 10**400, r"hits\.0\.score"),
        (("evidence", "graph", "facts", 0, "triple_ids", 0), -1, r"triple_ids\.0: -1 is not from 0"),
        (("evidence", "gate", "read_off"), 1, r"read_off: .*valid boolean"),
        (("question",), 3, r"question: .*valid string"),
        (("question",), "how\ud83d many", "lone surrogate"),
        (("prompt", "tags", "\ud83d"), "x", "lone surrogate"),
        (("timings_ms", "text"), float("nan"), "NaN is no number"),
        (("timings_ms", "text"), float("-inf"), "-Infinity is no number"),
        (("timings_ms", "text"), -1.5, r"timings_ms\.text: -1\.5 is below 0"),
        (("generation", "latency_ms"), -0.1, r"latency_ms: -0\.1 is below 0"),
        (("evidence", "graph", "mode"), "<b>", r"evidence\.graph\.mode: "),
        (("evidence", "graph", "rejected_counts"), {"<b>": 1}, r"evidence\.graph\.rejected_counts\.<b>"),
        (("format",), 2, "format 2"),
        (("format",), True, r"format: .*valid integer"),
        (("format",), 1.0, r"format: .*valid integer"),
    ],
)
def test_what_is_no_trace_is_refused_by_name(
    trace: Trace, path: tuple[str | int, ...], value: object, says: str
) -> None:
    with pytest.raises(TraceError, match=says) as caught:
        traces.loads(changed(trace, *path, value=value))
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda text: text.replace('"question":', '"question": "other", "question":', 1), "'question' comes twice"),
        (lambda text: text.replace('"format": 1', '"format": 1e999', 1), "not JSON"),
        (lambda text: text.replace('"format": 1', f'"format": 1{"0" * 5000}', 1), "not JSON"),
        (lambda text: text.encode("latin-1", "replace") + b"\xff", "not JSON"),
    ],
)
def test_what_is_no_json_is_refused(trace: Trace, change: Callable[[str], str | bytes], says: str) -> None:
    with pytest.raises(TraceError, match=says):
        traces.loads(change(traces.dumps(trace)))


def test_a_citation_before_the_answer_is_refused(trace: Trace) -> None:
    with pytest.raises(TraceError, match=r"citations\.0\.start: -1"):
        traces.loads(traces.dumps(replace(trace, citations=(Citation("T1", "", -1, 2),))))


class TestAgainstACorpus:
    """A trace from elsewhere is shown only where it tells the truth about this corpus."""

    @pytest.fixture
    def trace(self, small):
        *_, last = ask(
            "How many patients did the glioma trial enroll?", SYSTEMS["+both"], GENERATORS["extractive"], small
        )
        return last

    def test_what_ask_made_passes(self, trace, small):
        traces.check_against(traces.loads(traces.dumps(trace)), small)

    @pytest.mark.parametrize(
        ("change", "says"),
        [
            (lambda t: replace(t, corpus_id="other"), "of the corpus other"),
            (lambda t: replace(t, question="Another?"), "its prompt"),
            (lambda t: replace(t, citations=()), "its citations"),
            (lambda t: replace(t, prompt=None), "no prompt"),
            (lambda t: _with_text(t, "glioma_p999_c00"), "no chunk 'glioma_p999_c00'"),
            (lambda t: _with_crop(t, "x" * 5000), "no crop 'xxx"),
            (lambda t: _with_gate(t, "glioma_p009_figure0"), "crop that was not found"),
            (lambda t: _with_fact(t, (10**6,)), "no fact '(1000000,)'"),
            (lambda t: _with_fact(t, ()), "no fact '()'"),
            (lambda t: _with_fact(t, (0,)), "no fact 'a b c'"),
            (lambda t: replace(t, excluded=("x" * 5000,)), "no item 'xxx"),
            (lambda t: replace(t, excluded=("triple:" + "9" * 5000,)), "no item 'triple:999"),
            (lambda t: replace(t, system=SYSTEMS["+KG"]), "branches of its system"),
            (lambda t: replace(t, question_type="riddle"), "no question type 'riddle'"),
            (lambda t: replace(t, question=" "), "question is empty"),
            (lambda t: replace(t, question="word " * 300_000), "1,499,999 characters"),
            (lambda t: replace(t, question=t.question + "\x1b"), "control characters"),
            (lambda t: replace(t, generation=replace(t.generation, abstained=True)), "an abstention"),
        ],
    )
    def test_what_contradicts_the_corpus_is_refused(self, trace, small, change, says):
        with pytest.raises(TraceError, match=re.escape(says)) as refused:
            traces.check_against(change(trace), small)
        assert len(str(refused.value)) < 500


def _with_text(trace, item):
    hit = replace(trace.evidence.text.hits[0], item_id=item)
    return replace(trace, evidence=replace(trace.evidence, text=replace(trace.evidence.text, hits=(hit,))))


def _with_crop(trace, item):
    hit = replace(trace.evidence.visual.hits[0], item_id=item)
    return replace(trace, evidence=replace(trace.evidence, visual=replace(trace.evidence.visual, hits=(hit,))))


def _with_gate(trace, item):
    return replace(trace, evidence=replace(trace.evidence, gate=replace(trace.evidence.gate, item_ids=(item,))))


def _with_fact(trace, ids):
    facts = (Fact(ids, "a b c", "a", "out"),)
    return replace(trace, evidence=replace(trace.evidence, graph=replace(trace.evidence.graph, facts=facts)))

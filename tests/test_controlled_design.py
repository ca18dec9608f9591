"""The study's controlled design (section III-C): switching a branch changes no other branch's ranking, for every demo question."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rag.generators.registry import GENERATORS
from rag.pipeline import ask
from rag.settings import ASSETS
from rag.systems import SYSTEMS
from rag.types import Trace

QUESTIONS = [
    item["q"]
    for file in sorted(Path(ASSETS / "questions").glob("demo_*.json"))
    for item in json.loads(file.read_text("utf-8"))
]


@pytest.fixture(scope="module")
def traces(demo) -> dict[str, dict[str, Trace]]:
    """Question -> system -> the trace as far as the prompt; the answer plays no part here."""

    def asked(question: str, name: str) -> Trace:
        return next(t for t in ask(question, SYSTEMS[name], GENERATORS["extractive"], demo) if t.prompt)

    return {question: {name: asked(question, name) for name in SYSTEMS} for question in QUESTIONS}


def test_there_are_demo_questions_of_five_types():
    assert len(list((ASSETS / "questions").glob("demo_*.json"))) == 5 and len(QUESTIONS) >= 70


def test_text_ranking_is_identical_in_all_four_systems(traces):
    for question, by_system in traces.items():
        rankings = {name: trace.evidence.text for name, trace in by_system.items()}
        assert rankings["baseline"].hits, question
        assert all(ranking == rankings["baseline"] for ranking in rankings.values()), question


def test_visual_ranking_is_identical_in_both_systems_that_have_it(traces):
    for question, by_system in traces.items():
        assert by_system["+multimodal"].evidence.visual == by_system["+both"].evidence.visual, question
        assert by_system["+multimodal"].evidence.gate == by_system["+both"].evidence.gate, question
        assert by_system["baseline"].evidence.visual is None and by_system["+KG"].evidence.visual is None


def test_graph_facts_are_identical_in_both_systems_that_have_them(traces):
    for question, by_system in traces.items():
        assert by_system["+KG"].evidence.graph == by_system["+both"].evidence.graph, question
    assert any(by_system["+KG"].evidence.graph.facts for by_system in traces.values())


def test_prompts_differ_only_by_the_branch_that_was_switched(traces):
    def parts(trace: Trace, *kinds: str) -> list[str]:
        return [s.text for s in trace.prompt.segments if s.kind in kinds]

    base = ("instruction", "text", "question")
    for by_system in traces.values():
        prompts = [parts(trace, *base) for trace in by_system.values()]
        assert all(p == prompts[0] for p in prompts)
        assert parts(by_system["+both"], "graph") == parts(by_system["+KG"], "graph")
        assert parts(by_system["+both"], "captions", "image") == parts(by_system["+multimodal"], "captions", "image")
        assert parts(by_system["baseline"], "graph", "captions", "image") == []

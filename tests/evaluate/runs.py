"""Questions about the small corpus, plans and results for the tests of runs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from rag.evaluate.questions import Question
from rag.evaluate.runner import Plan
from rag.evaluate.store import Result, question_id
from rag.generators.registry import GENERATORS
from rag.systems import SYSTEMS

QUESTIONS = (
    Question("How many women did the GBSG2 study recruit?", ("glioma_p002",), "686", "text", "small_text"),
    Question("How many patients did the glioma trial enroll?", ("glioma_p001",), "37", "text", "small_text"),
    Question("How many women and how many patients took part?", ("glioma_p001", "glioma_p002"), "37; 686", "multihop", "small_multihop"),
    Question("What is the median survival of controls by histology?", ("glioma_p001_table0",), "11 months", "figure", "small_figure_pixel"),
    Question("What did the vaccine cost?", (), "not in the documents", "unanswerable", "small_unanswerable"),
)  # fmt: skip

TIMES = {"retrieval_ms": 0.0, "latency_ms": 0.0, "ttft_ms": None, "trace_id": "", "run": ""}


def timeless(result: Result) -> Result:
    """A result without what differs from run to run."""
    return replace(result, **TIMES)


def plan(questions: tuple[Question, ...] = QUESTIONS, **changes: Any) -> Plan:
    """The study's four systems with the embedded reader."""
    return replace(Plan(questions, tuple(SYSTEMS.values()), (GENERATORS["extractive"],)), **changes)


def result(question: Question = QUESTIONS[0], **changes: Any) -> Result:
    """A finished result with a right answer, none of it run."""
    base = Result(
        run="r", question_id=question_id(question), set=question.set, type=question.type, question=question.q,
        reference=question.answer, sources=question.sources, system="baseline", generator="extractive", state="done",
        answer=question.answer, abstained=False, input_tokens=100, output_tokens=10, tokens_source="estimated", cost_usd=0.0,
        retrieval_ms=5.0, latency_ms=20.0, ttft_ms=10.0, ranks=(1,) * len(question.sources),
        verdicts={"lexical": {"accuracy": True}}, places=("sent",) * len(question.sources),
    )  # fmt: skip
    return replace(base, **changes)

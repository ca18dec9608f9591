"""Held-out and development questions: the checker finds nothing in them, and nothing was fitted on a held-out one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from rag.corpus import Corpus
from rag.evaluate.checker import RULES, check_set, repeated
from rag.evaluate.questions import Question, load_questions
from rag.settings import ASSETS

HERE = Path(__file__).parent
MANY = {"text": 20, "multihop": 15, "figure_pixel": 15, "figure_caption": 10, "unanswerable": 15}
LEAST_ACROSS_DOCUMENTS = 6


def _held_out(kind: str) -> tuple[Question, ...]:
    return load_questions(HERE / "bench" / "held_out" / f"{kind}.json")


def _development() -> list[Path]:
    return sorted((HERE / "bench" / "development").glob("*.json"))


def _documents(question: Question) -> set[str]:
    return {source.rsplit("_p", 1)[0] for source in question.sources}


def _fitted_on() -> Iterator[Question]:
    """The questions that the reader's and the gate's weights come from."""
    for file in (*(ASSETS / "questions" / f"demo_{kind}.json" for kind in RULES), *_development()):
        yield from load_questions(file)
    gate = json.loads((HERE / "bench" / "gate_questions.json").read_text("utf-8"))
    reader = json.loads((HERE / "data" / "reader_calibration.json").read_text("utf-8"))["cases"]
    asked = [*(item["q"] for item in gate), *(case["question"] for case in reader)]
    yield from (Question(q, (), "", "", "fitted") for q in asked)


@pytest.mark.parametrize("kind", RULES)
def test_the_checker_finds_nothing(kind: str, demo: Corpus) -> None:
    questions = _held_out(kind)
    assert len(questions) == MANY[kind]
    assert check_set(questions, kind, demo) == []


@pytest.mark.parametrize("file", _development(), ids=lambda file: file.stem)
def test_the_checker_finds_nothing_in_the_development_questions(file: Path, demo: Corpus) -> None:
    questions = load_questions(file)
    assert len(questions) >= 12
    assert check_set(questions, file.stem.partition("_")[2], demo) == []


def test_no_question_is_asked_twice_or_was_fitted_on() -> None:
    fitted = list(_fitted_on())
    found = repeated([*fitted, *(question for kind in RULES for question in _held_out(kind))])
    assert [pair for pair in found if int(pair.partition(":")[0]) > len(fitted)] == []


def test_multihop_questions_cross_documents() -> None:
    assert sum(len(_documents(question)) > 1 for question in _held_out("multihop")) >= LEAST_ACROSS_DOCUMENTS


def test_every_document_is_asked_about(demo: Corpus) -> None:
    asked = set().union(*(_documents(question) for kind in RULES for question in _held_out(kind)))
    assert asked == set(demo.documents)

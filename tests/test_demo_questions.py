"""The demo's question sets: as large as they should be, and the checker finds nothing in them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rag.corpus import Corpus
from rag.evaluate.checker import RULES, check_set, repeated
from rag.evaluate.questions import Question, load_questions
from rag.settings import ASSETS

LEAST = {"text": 40, "multihop": 35, "figure_pixel": 40, "figure_caption": 40, "unanswerable": 25}
LEAST_ACROSS_DOCUMENTS = 12


def _shipped(kind: str) -> tuple[Question, ...]:
    return load_questions(ASSETS / "questions" / f"demo_{kind}.json")


def _documents(question: Question) -> set[str]:
    return {source.rsplit("_p", 1)[0] for source in question.sources}


def test_every_kind_has_a_set() -> None:
    assert LEAST.keys() == RULES.keys()
    assert {file.stem for file in (ASSETS / "questions").glob("demo_*.json")} == {f"demo_{kind}" for kind in LEAST}


@pytest.mark.parametrize("kind", LEAST)
def test_the_checker_finds_nothing(kind: str, demo: Corpus) -> None:
    assert check_set(_shipped(kind), f"demo_{kind}", demo) == []


@pytest.mark.parametrize("kind", LEAST)
def test_a_set_is_large_enough(kind: str) -> None:
    assert len(_shipped(kind)) >= LEAST[kind]


def test_no_question_is_asked_in_two_sets() -> None:
    assert repeated([question for kind in LEAST for question in _shipped(kind)]) == []


def test_multihop_questions_cross_documents() -> None:
    assert sum(len(_documents(question)) > 1 for question in _shipped("multihop")) >= LEAST_ACROSS_DOCUMENTS


SPREAD: dict[str, Callable[[Corpus], set[str]]] = {
    "text": lambda corpus: set(corpus.documents),
    "figure_pixel": lambda corpus: {
        corpus.pages[c.page_id].document for c in corpus.crops.values() if c.kind == "figure"
    },
    "figure_caption": lambda corpus: {corpus.pages[c.page_id].document for c in corpus.crops.values() if c.caption},
}


@pytest.mark.parametrize("kind", SPREAD)
def test_a_set_asks_about_every_document_that_can_answer_it(kind: str, demo: Corpus) -> None:
    asked = set().union(*(_documents(question) for question in _shipped(kind)))
    assert asked == SPREAD[kind](demo)

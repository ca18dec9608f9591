"""The parts of a question."""

from __future__ import annotations

import pytest

from rag.parts import sub_questions


@pytest.mark.parametrize(
    ("question", "parts"),
    [
        (
            "How many women took part, and in which year did the trial of tamoxifen end?",
            ("How many women took part", "in which year did the trial of tamoxifen end"),
        ),
        (
            "In the gum study, what is the odds ratio, and how many smokers went without any gum?",
            ("In the gum study, what is the odds ratio", "In the gum study, how many smokers went without any gum"),
        ),
        (
            "What is the odds ratio of the trial, and what is its standard error?",
            (
                "What is the odds ratio of the trial",
                "What is the odds ratio of the trial, and what is its standard error?",
            ),
        ),
        (
            "Which has more subjects, the colon trial or the lung trial?",
            ("Which has more subjects the colon trial", "Which has more subjects the lung trial"),
        ),
    ],
)
def test_two_parts_are_searched_apart(question: str, parts: tuple[str, ...]) -> None:
    assert sub_questions(question) == parts


@pytest.mark.parametrize(
    "question", ["", "How many women and men took part?", "Is the tree pruned or grown anew?", "and which?"]
)
def test_one_question_stays_whole(question: str) -> None:
    assert sub_questions(question) == ()

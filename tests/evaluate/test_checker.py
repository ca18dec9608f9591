"""The rules for question sets, each broken once on the demo corpus."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from rag.corpus import Corpus
from rag.errors import UsageError
from rag.evaluate.checker import RULES, answered_by, check_set, fold, parts, repeated, stands_in
from rag.evaluate.questions import Question

GOOD = {
    "text": Question(
        "To how many patients overall was the enrollment target of the blood loss study increased?",
        ("TH.data-blood_loss_report_p003",), "1500 patients", "text", "demo_text",
    ),
    "multihop": Question(
        "How many subjects were in the colon cancer clinical trial, and how many CGD patients did Genentech's trial have?",
        ("survival-concordance_p008", "survival-timedep_p005"), "929; 128", "multihop", "demo_multihop",
    ),
    "figure_pixel": Question(
        "What is the p-value of the R_income split in the happiness tree?",
        ("HSAUR3-Ch_recursive_partitioning_p012_figure0",), "0.023", "figure", "demo_figure_pixel",
    ),
    "figure_caption": Question(
        "What does level C of self-reported happiness stand for?",
        ("HSAUR3-Ch_recursive_partitioning_p012_figure0",), "somewhat happy", "figure", "demo_figure_caption",
    ),
    "unanswerable": Question(
        "What does one dose of the BCG vaccine against tuberculosis cost?", (), "not in the documents", "unanswerable",
        "demo_unanswerable",
    ),
}  # fmt: skip


BROKEN: list[tuple[str, dict[str, Any], str]] = [
    ("text", {"q": "Name the enrollment target of the blood loss study."}, "form"),
    ("text", {"q": "What was the enrollment target of the blood loss  study?"}, "form"),
    ("text", {"q": "What was the enrollment target, " + "again and " * 20 + "again, of the blood loss study?"}, "form"),
    ("text", {"answer": "1500 " + "patients " * 14}, "short answer"),
    ("text", {"q": "Which enrollment target of the blood loss study is shown?"}, "modality"),
    ("figure_pixel", {"q": "Which p-value of R_income is read off the vertical axis of the happiness tree?"}, "modality"),
    ("figure_pixel", {"q": "Which R_income split in the happiness tree stands in the left panel?"}, "modality"),
    ("text", {"q": "What was the enrollment target of the blood loss cohort in this study?"}, "self-contained"),
    ("text", {"q": "How many patients took part in all?"}, "names"),
    ("unanswerable", {"q": "What does one bottle of Bordeaux cost?"}, "names"),
    ("text", {"q": "Why was it decided to increase the enrollment target to 1500 patients overall?"}, "echo"),
    ("text", {"type": "figure"}, "type"),
    ("text", {"sources": ("TH.data-blood_loss_report_p999",)}, "sources"),
    ("text", {"sources": ("HSAUR3-Ch_recursive_partitioning_p012_figure0",)}, "sources"),
    ("multihop", {"sources": ("survival-concordance_p008",)}, "sources"),
    ("figure_pixel", {"sources": ("HSAUR3-Ch_recursive_partitioning_p012",)}, "sources"),
    ("unanswerable", {"sources": ("HSAUR3-Ch_meta_analysis_p006",)}, "sources"),
    ("text", {"answer": "1501 patients"}, "answer"),
    ("figure_caption", {"answer": "0.023"}, "answer"),
    ("multihop", {"answer": "929 and 128"}, "two facts"),
    ("multihop", {"answer": "colon cancer; clinical trial"}, "two facts"),
    ("figure_pixel", {"answer": "0.90"}, "pixels only"),
    ("figure_pixel", {"answer": "about 47"}, "pixels only"),
    ("figure_pixel", {"answer": "somewhat happy"}, "pixels only"),
    ("unanswerable", {"answer": "ten dollars"}, "answer"),
]  # fmt: skip
"""(kind of set, what is changed in its good question, the rule that this breaks)"""


@pytest.fixture(scope="module")
def problems(demo: Corpus) -> dict[str, list[str]]:
    """Of each kind, what the checker says of its good question (1) and of ``BROKEN`` in order (from 2)."""
    asked = {
        kind: [good, *(replace(good, **change) for of, change, _ in BROKEN if of == kind)]
        for kind, good in GOOD.items()
    }
    return {kind: check_set(questions, kind, demo) for kind, questions in asked.items()}


@pytest.mark.parametrize("kind", RULES)
def test_a_good_question_breaks_no_rule(kind: str, problems: dict[str, list[str]]) -> None:
    assert not [problem for problem in problems[kind] if problem.startswith(f"{kind} 1: ")]


@pytest.mark.parametrize("case", range(len(BROKEN)), ids=[f"{kind}: {rule}" for kind, _, rule in BROKEN])
def test_each_rule_names_itself(case: int, problems: dict[str, list[str]]) -> None:
    kind, _, rule = BROKEN[case]
    number = 2 + sum(of == kind for of, _, _ in BROKEN[:case])
    assert any(problem.startswith(f"{kind} {number}: {rule}: ") for problem in problems[kind]), problems[kind]


def test_a_value_that_text_nearby_gives_more_exactly_is_not_in_the_pixels_alone(demo: Corpus) -> None:
    """The vignette prints the overall coefficient of karno, -0.033771, on the page before."""
    question = Question(
        "What is the overall Cox estimate of karno in the Veteran's cancer data?",
        ("survival-timedep_p017_figure0",), "about -0.034", "figure", "demo_figure_pixel",
    )  # fmt: skip
    [problem] = check_set([question], "demo_figure_pixel", demo)
    assert '-0.033771 on survival-timedep_p016 rounds to "-0.034"' in problem


def test_a_set_is_named_by_its_kind_or_file(demo: Corpus) -> None:
    assert check_set([GOOD["text"]], "demo_text", demo) == []
    with pytest.raises(UsageError, match="figure_caption"):
        check_set([GOOD["text"]], "demo_numbers", demo)


def test_the_same_question_in_other_words_is_found() -> None:
    one = GOOD["text"]
    again = replace(one, q="The enrollment target of the blood loss study was increased to how many patients?")
    other = replace(again, q="How many patients did the blood loss study aim at in the end?", answer="1500")
    assert [problem.split(" (")[0] for problem in repeated([one, GOOD["multihop"], again])] == [
        "3: duplicate: asks the same as 1"
    ]
    assert repeated([one, GOOD["multihop"], other]) == []


def test_texts_are_compared_in_one_form() -> None:
    assert fold("10,234 Women,  aged 5–9 \u2212 ﬁve") == "10234 women, aged 5-9 - five"
    assert parts("About 1%; 646 against 128") == ["1%", "646", "128"]


@pytest.mark.parametrize(
    ("value", "text", "stands"),
    [
        ("0.4", "a survival of 0.4.", True),
        ("0.4", "0.46", False),
        ("0.4", "10.4", False),
        ("76", "n = 76, 120", True),
        ("76", "176 or 76a", False),
        ("27.5%", "about 27.5% of them", True),
    ],
)
def test_values_are_whole_tokens(value: str, text: str, stands: bool) -> None:
    assert stands_in(value, text) is stands


@pytest.mark.parametrize(
    ("answer", "text", "asked", "held"),
    [
        ("about 4 years", "a nadir at about 4 years", "", True),
        ("3 of 128", "of the 128 children 3 took steroids", "", True),
        ("3 of 129", "of the 128 children 3 took steroids", "", False),
        ("ETOP and life birth", "CIFs of ETOP (solid lines) and life births", "", True),
        ("red wine", "white wine", "", False),
        ("the leukemia trial; 646 against 128", "646 patients, 128 children", "Has the leukemia trial more?", True),
        ("646; 129", "646 patients, 128 children", "", False),
    ],
)
def test_an_answer_is_held_by_words_and_numbers(answer: str, text: str, asked: str, held: bool) -> None:
    assert answered_by(answer, text, asked) is held

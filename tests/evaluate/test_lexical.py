"""The offline accuracy judge: its rules one by one, and its agreement with hand-labelled answers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from statsmodels.stats.inter_rater import cohens_kappa

from rag.evaluate.lexical import abstains, agrees
from rag.evaluate.questions import UNANSWERABLE, load_questions
from rag.settings import ASSETS

DATA = Path(__file__).resolve().parents[1] / "data"
STUDY = Path(__file__).resolve().parents[3] / "shared" / "data" / "paper"

RULES = [
    # question, reference, right answers, wrong answers
    ("How many?", "1384", ["1,384 [T1]", "1384 people", "one thousand three hundred eighty-four"], ["138", "13840", "384", ""]),
    ("How many?", "six", ["6", "six splits"], ["sixteen", "five"]),
    ("Which share?", "0.368", ["36.8%", "roughly 0.37", ".368"], ["0.368%", "3.68", "0.36", "0.632"]),
    ("Which share?", "almost 1/3", ["about 33%", "one third"], ["a half", "1/4"]),
    ("What volume?", "about 900 ml", ["0.9 litres", "around 895 ml"], ["90 ml", "0.09 l", "900 g", "about 850 ml"]),
    ("How long?", "a year", ["12 months", "one year"], ["12 days", "400 days", "2 years"]),
    ("What dose?", "83 IU/dL", ["83 international units per decilitre", "830 IU per litre"], ["83 g/l", "83 IU/ml"]),
    ("What level?", "1293 pg/ml", ["1.293 ng/ml"], ["1293 ng/ml", "1.293 pg/ml"]),
    ("What pressure?", "1.34 kPa", ["1340 Pa"], ["1.34 Pa"]),
    ("At what rate per 100 person-years?", "12.9", ["0.129 per person-year", "12.9"], ["12.9 per 1000 person-years"]),
    ("At what age?", "59.5", ["59.5 years", "59.5"], ["59.5 months", "60.5"]),
    ("From which level upward?", "14", ["14 and above"], ["14 years"]),
    ("What range?", "12-15.5", ["between 12 and 15.5"], ["12 to 17.5", "12"]),
    ("What log odds?", "about -1.67", ["-1.7", "−1.67"], ["1.67", "-0.67"]),
    ("What p-value?", "2e-04", ["0.0002"], ["0.002"]),
    ("How many?", "over 600", ["more than 600", "600+"], ["fewer than 600", "60"]),
    ("Which days?", "days 258 and 328", ["328 and 258"], ["258", "258 and 377"]),
    ("How many and where?", "54; 1500", ["54 [T1]; 1500 [T2]"], ["54", "1500; 54", "54; 1100"]),
    ("How large is A of cats, and which B have dogs?", "3; 4", ["dogs have 4, cats have A 3"], ["cats have A 4, dogs B have 3"]),
    ("Which has more, A or mgus2?", "mgus2: 3 against 2", ["mgus2", "mgus2, with 3 rather than 2"], ["A", "A: 3 against 2"]),
    ("What is odds for A, and what is it for B?", "1.83 (1.3-2.4) for A, 2.72 for B", ["1.83 and 2.72"], ["2.72 for A; 1.83 for B"]),
    ("Who?", "Robert Kyle", ["Kyle", "Dr Robert Kyle [T1]"], ["Robert Smith", "not Kyle"]),
    ("In which city?", "Amsterdam", ["in Amsterdam, by Wassink"], ["not in Amsterdam", "It was not carried out in Amsterdam."]),
    ("Which package?", "msm", ["`msm` [T1]"], ["mstate rather than msm", "Not msm; mstate."]),
    ("Which covariates?", "age and tumor grading", ["the tumor grading and age"], ["age", "age and tumor size"]),
    ("Which method?", "the Efron approximation", ["Efron's approximation"], ["the Breslow approximation"]),
    ("Which change?", "2.5-fold increase", ["2.5 times higher"], ["2.5-fold decrease"]),
    ("In what city?", "Istanbul, Turkey", ["Istanbul"], ["Ankara, Turkey"]),
    ("Which network?", "National Broadcasting Company", ["NBC"], ["CBS"]),
    ("Which amount?", "$10.5 million", ["$10,500,000", "10.5 million dollars"], ["$10.5 billion", "10.5"]),
    ("Is it needed?", "no", ["No.", "It is not needed."], ["Yes.", "It is needed."]),
    ("Are both plants?", "yes", ["Yes.", "The answer is yes.", "Both are plants."], ["No", "They are not.", "Istanbul, Turkey"]),
    ("Which tool?", "Support Vector Machine (SVM)", ["SVM", "a support vector machine"], ["random forests"]),
    ("Before which version was it not split?", "0.8-4", ["It was not split before 0.8-4."], ["0.8-5"]),
]  # fmt: skip


@pytest.mark.parametrize(("question", "reference", "right", "wrong"), RULES, ids=[rule[1] for rule in RULES])
def test_a_rule(question: str, reference: str, right: list[str], wrong: list[str]) -> None:
    assert [answer for answer in right if not agrees(question, reference, answer)] == []
    assert [answer for answer in wrong if agrees(question, reference, answer)] == []


def test_numbers_in_bulk_are_no_answer() -> None:
    assert agrees("How many?", "7", "7 of 12")
    assert not agrees("How many?", "7", "1 2 3 4 5 6 7 8 9 10 11 12")
    assert not agrees("Which?", "radiation", "radiation " + "and other words " * 60)


@pytest.mark.parametrize(
    "answer",
    [
        "The evidence does not answer this.",
        "I cannot find this in the evidence.",
        "I don't know.",
        "The documents do not say how many.",
        "There is not enough evidence.",
        "The survey is not named.",
    ],
)
def test_an_abstention_in_any_words(answer: str) -> None:
    assert abstains(answer) and not agrees("How many?", "7", answer)


@pytest.mark.parametrize("answer", ["7", "It does not use the Efron method [T1].", "No.", ""])
def test_what_is_no_abstention(answer: str) -> None:
    assert not abstains(answer)


SETS = [
    *(f for f in sorted((ASSETS / "questions").glob("demo_*.json")) if UNANSWERABLE not in f.stem),
    *sorted(STUDY.parent.glob("*/questions_*.json")),
]


@pytest.mark.parametrize("file", SETS, ids=[file.stem for file in SETS])
def test_every_reference_is_its_own_right_answer_and_no_other_questions(file: Path) -> None:
    asked = load_questions(file)
    assert [q.answer for q in asked if not agrees(q.q, q.answer, q.answer)] == []
    assert [q.answer for q in asked if not agrees(q.q, q.answer, f"The answer is {q.answer} [T1].")] == []
    others = [(q, other) for q, other in zip(asked, asked[1:] + asked[:1], strict=True) if q.answer != other.answer]
    assert [(q.answer, other.answer) for q, other in others if agrees(q.q, q.answer, other.answer)] == []


def agreement(labels: list[bool], verdicts: list[bool]) -> tuple[float, float]:
    """Share of equal verdicts, and Cohen's kappa."""
    table = [[sum((a, b) == (i, j) for a, b in zip(labels, verdicts, strict=True)) for j in (0, 1)] for i in (0, 1)]
    return (table[0][0] + table[1][1]) / len(labels), float(cohens_kappa(table).kappa)


def test_agreement_with_the_pairs_on_the_demo_questions() -> None:
    pairs = json.loads((DATA / "answer_pairs.json").read_text("utf-8"))
    labels = [pair["correct"] for pair in pairs]
    assert len(pairs) >= 120 and 0.45 <= sum(labels) / len(labels) <= 0.55
    share, kappa = agreement(labels, [agrees(p["question"], p["reference"], p["answer"]) for p in pairs])
    print(f"demo: agreement {share:.3f}, kappa {kappa:.3f}, n = {len(pairs)}")
    assert share >= 0.97 and kappa >= 0.94


def test_agreement_with_the_pairs_on_other_questions() -> None:
    pairs = json.loads((DATA / "answer_pairs_study.json").read_text("utf-8"))
    files = {file.stem: file for file in STUDY.parent.glob("*/questions_*.json")}
    if missing := {pair["file"] for pair in pairs} - files.keys():
        pytest.skip(f"{', '.join(sorted(missing))} are not beside this checkout")
    sets = {name: load_questions(files[name]) for name in {pair["file"] for pair in pairs}}
    asked = [sets[pair["file"]][pair["entry"]] for pair in pairs]
    verdicts = [agrees(q.q, q.answer, pair["answer"]) for q, pair in zip(asked, pairs, strict=True)]
    share, kappa = agreement([pair["correct"] for pair in pairs], verdicts)
    print(f"elsewhere: agreement {share:.3f}, kappa {kappa:.3f}, n = {len(pairs)}")
    assert share >= 0.96 and kappa >= 0.92

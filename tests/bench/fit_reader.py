"""Fit the embedded reader's weights to the calibration cases ("fitted" ones), the demo questions and the development questions
(``development``, written by people who had not seen the reader); the "held out" cases are only counted.

    python tests/bench/fit_reader.py

The model is a conditional logit: of a question's candidate answers and "none", one is right. The penalised likelihood is climbed by
gradient ascent. Whether there is an answer at all is a logistic regression on top. Prints what thresholds do under cross-validation
(``FOLDS`` folds, no document in two of them), then ``WEIGHTS``, ``NONE``, ``ANSWERABLE`` and its bias for
``rag/generators/extractive/matching.py``, fitted to all folds.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

sys.path.insert(0, str(Path(__file__).parent))

from demo_scores import row_of  # noqa: E402

from rag.corpus import open_corpus  # noqa: E402
from rag.evaluate.checker import answered_by  # noqa: E402
from rag.generators.extractive import matching  # noqa: E402
from rag.generators.extractive.evidence import units  # noqa: E402
from rag.generators.extractive.questions import Question, parts  # noqa: E402
from rag.generators.extractive.reader import OTHER_PARTS, any_answered  # noqa: E402
from rag.generators.registry import GENERATORS  # noqa: E402
from rag.pipeline import ask  # noqa: E402
from rag.settings import Settings  # noqa: E402
from rag.systems import SYSTEMS  # noqa: E402
from rag.types import Prompt, Segment  # noqa: E402

PENALTY = 0.5
ANSWERABLE_PENALTY = 12.0
FOLDS = 5
THRESHOLDS = (0.3, 0.4, 0.5, 0.55, 0.6, 0.65)
TARGET = 0.85
"""The share of questions without an answer at which the lost ones are counted."""
STEPS = 800
RATE = 0.2
CALIBRATION = ROOT / "tests" / "data" / "reader_calibration.json"


@dataclass(frozen=True)
class Case:
    """A question with the prompt that the reader gets; ``expected`` is None where the prompt does not hold the answer. ``document`` is
    the first gold one or, without any, that of the first passage."""

    split: str
    question: str
    expected: str | None
    prompt: Prompt
    is_right: Callable[[str, str], bool]
    document: str


def calibration() -> Iterator[Case]:
    """The cases of the calibration file."""
    for case in json.loads(CALIBRATION.read_text("utf-8"))["cases"]:
        segments = [Segment(e["kind"], e["text"], e["tag"], e["item"]) for e in case["evidence"]]
        segments.append(Segment("question", f"Question: {case['question']}\n"))
        prompt = Prompt((), tuple(segments), {e["tag"]: e["item"] for e in case["evidence"]})
        document = document_of(case["evidence"][0]["item"])
        yield Case(case["split"], case["question"], case["expected"], prompt, is_right, document)


def asked() -> Iterator[Case]:
    """The demo questions and the development ones whose source is at hand, and the unanswerable ones. A value that is only drawn is
    not in the prompt."""
    corpus = open_corpus(Settings.from_env().corpus)
    files = [*(ROOT / "assets" / "questions").glob("demo_*.json"), *(ROOT / "tests/bench/development").glob("*.json")]
    for file in sorted(files):
        origin, _, name = file.stem.partition("_")
        for item in json.loads(file.read_text("utf-8")):
            *_, trace = ask(item["q"], SYSTEMS["+both"], GENERATORS["extractive"], corpus)
            row = row_of(name, item, trace, corpus)
            absent = item["type"] == "unanswerable"
            if trace.prompt and (absent or (row["at hand"] and not row.get("axis"))):
                expected = None if absent else item["answer"]
                right = partial(_holds, item["q"])
                sources = [item["source"]] if isinstance(item["source"], str) else item["source"]
                first = next((s.item_id for s in trace.prompt.segments if s.tag), "")
                document = document_of(sources[0] if sources and not absent else first)
                yield Case(f"{origin} {name}", item["q"], expected, trace.prompt, right, document)


def document_of(item_id: str) -> str:
    """The document of a page, chunk or crop; a fact's is its own."""
    return re.sub(r"_p\d{3}.*\Z", "", item_id)


def _holds(question: str, said: str, part: str) -> bool:
    return answered_by(part, said, question)


def is_right(said: str, part: str) -> bool:
    """Whether an answer holds the first number of what is expected, or most of its words."""
    plain = said.replace(",", "").replace("\u2212", "-").lower()
    part = part.replace(",", "").lower()
    number = re.search(r"\d+(?:\.\d+)?", part)
    if number:
        return bool(re.search(rf"(?<![\d.]){re.escape(number.group())}(?!\d|\.\d)", plain))
    words = [word for word in re.findall(r"[^\W\d_]{3,}", part) if word not in ("the", "and", "might")]
    return not words or sum(word in plain for word in words) >= 0.6 * len(words)


@dataclass(frozen=True)
class Choice:
    """Features (n, d), which candidate is right (n,), whether an answer is expected, and whether a unit of the evidence holds it."""

    x: np.ndarray
    right: np.ndarray
    expected: bool
    held: bool
    question: Question
    found: list[matching.Match]


def choices(case: Case) -> list[Choice]:
    """One choice for each part of a question."""
    evidence = matching.indexed(units(case.prompt))
    questions = parts(case.question)
    expected = [None] * len(questions) if case.expected is None else case.expected.split("; ")
    if len(expected) != len(questions):
        return []
    made = []
    for question, part in zip(questions, expected, strict=True):
        found = matching.matches(question, evidence)
        rows = [[match.features[name] for name in matching.FEATURES] for match in found]
        right = [part is not None and case.is_right(match.candidate, part) for match in found]
        held = part is not None and any(case.is_right(item.unit.text, part) for item in evidence)
        x = np.array(rows, float).reshape(-1, len(matching.FEATURES))
        made.append(Choice(x, np.array(right, bool), part is not None, held, question, found))
    return made


def fit(data: list[Choice]) -> np.ndarray:
    """Weights and the log-odds of "none": (d + 1,). Without a right candidate, "none" is what should be said."""
    width, most = len(matching.FEATURES), max(len(choice.x) for choice in data)
    rows = np.zeros((len(data), most + 1, width + 1))
    there = np.zeros((len(data), most + 1), bool)
    good = np.zeros((len(data), most + 1), bool)
    for i, choice in enumerate(data):
        rows[i, : len(choice.x), :-1] = choice.x
        rows[i, -1, -1] = 1.0
        there[i, : len(choice.x)] = there[i, -1] = True
        good[i, : len(choice.x)] = choice.right
        good[i, -1] = not choice.right.any()
    w, velocity = np.zeros(width + 1), np.zeros(width + 1)
    for _ in range(STEPS):
        odds = np.exp(rows @ w) * there
        share = odds / odds.sum(axis=1, keepdims=True)
        target = odds * good
        target /= target.sum(axis=1, keepdims=True)
        gradient = np.einsum("nk,nkd->d", target - share, rows) - PENALTY * np.r_[w[:-1], 0]
        velocity = 0.9 * velocity + RATE / len(data) * gradient
        w = w + velocity
    return w


def fit_answerable(data: list[Choice]) -> np.ndarray:
    """Weights of ``matching.ANSWERABLE`` and the bias, by penalised logistic regression on scaled signs: (d + 1,). Of an
    answer that is expected but was not retrieved nothing is learnt."""
    known = [choice for choice in data if choice.found and choice.held == choice.expected]
    signs = [(signs_of(choice), choice.expected) for choice in known]
    x, y = np.array([s for s, _ in signs]), np.array([expected for _, expected in signs], float)
    mean, scale = x.mean(axis=0), x.std(axis=0) + 1e-9
    a = np.c_[(x - mean) / scale, np.ones(len(x))]
    v = np.zeros(a.shape[1])
    for _ in range(4000):
        v -= 0.5 / len(y) * (a.T @ (1 / (1 + np.exp(-a @ v)) - y) + ANSWERABLE_PENALTY * np.r_[v[:-1], 0])
    return np.r_[v[:-1] / scale, v[-1] - (v[:-1] * mean / scale).sum()]


def signs_of(choice: Choice) -> list[float]:
    """The values of ``matching.ANSWERABLE``, by the weights in force."""
    signs = matching.weighed(choice.question, choice.found)[1]
    return [signs[name] for name in matching.ANSWERABLE]


@dataclass(frozen=True)
class Outcome:
    """What the reader makes of one question: the probability that each part is answered and whether its best answer is right;
    whether an answer is expected."""

    scores: list[float]
    right: list[bool]
    expected: bool

    @property
    def score(self) -> float:
        return any_answered(self.scores)

    def is_right(self, threshold: float) -> bool:
        kept = self.score >= threshold and min(self.scores) >= threshold * OTHER_PARTS
        return kept and all(self.right)


def outcome(data: list[Choice], answerable: np.ndarray) -> Outcome:
    """The parts of one question, by the weights in force."""
    scores, right = [], []
    for choice in data:
        logit = np.r_[signs_of(choice), 1.0] @ answerable if choice.found else -np.inf
        scores.append(float(1 / (1 + np.exp(-logit))))
        right.append(bool(choice.found) and is_quoted_right(choice))
    return Outcome(scores, right, data[0].expected)


def is_quoted_right(choice: Choice) -> bool:
    """Whether what the reader quotes holds the answer."""
    best = matching.weighed(choice.question, choice.found)[0]
    quoted = [choice.found[best], *matching.runner_up(choice.found, best)]
    return any(good for match, good in zip(choice.found, choice.right, strict=True) if match in quoted)


def fit_all(data: list[Choice]) -> np.ndarray:
    """Fits ``WEIGHTS`` and ``NONE`` and puts them in force; the weights of ``ANSWERABLE`` and the bias."""
    w = fit(data)
    matching.WEIGHTS, matching.NONE = dict(zip(matching.FEATURES, w[:-1].tolist(), strict=True)), float(w[-1])
    return fit_answerable(data)


def folds(cases: list[Case]) -> dict[str, int]:
    """The fold of each document, the largest shared out first."""
    sizes = Counter(case.document for case in cases)
    filled = [0] * FOLDS
    found = {}
    for document, size in sorted(sizes.items(), key=lambda entry: (-entry[1], entry[0])):
        found[document] = filled.index(min(filled))
        filled[found[document]] += size
    return found


def counted(title: str, found: list[Outcome]) -> None:
    """Prints what each threshold does."""
    held, absent = [o for o in found if o.expected], [o for o in found if not o.expected]
    for threshold in THRESHOLDS:
        lost, right = sum(o.score < threshold for o in held), sum(o.is_right(threshold) for o in held)
        silent = sum(o.score < threshold for o in absent)
        print(
            f"{title:22} {threshold:.2f}: of {len(held)} lost {lost}, right {right}; of {len(absent)} without an answer silent {silent}"
        )


def separated(title: str, found: list[Outcome]) -> None:
    """Prints the area under the ROC curve of the score, and the share lost where ``TARGET`` of those without an answer are silent."""
    held = np.array([o.score for o in found if o.expected])
    absent = np.array([o.score for o in found if not o.expected])
    if len(held) and len(absent):
        above = (held[:, None] > absent).mean() + (held[:, None] == absent).mean() / 2
        lost = (held <= np.quantile(absent, TARGET)).mean()
        print(f"{title:22} AUC {above:.3f}, lost at {TARGET:.2f} silent {lost:.2f}")


def crossed(cases: list[Case], made: list[list[Choice]]) -> dict[str, list[Outcome]]:
    """The outcomes of each split, each document's by weights fitted to the others."""
    fold = folds(cases)
    found: dict[str, list[Outcome]] = {}
    pairs = [(case, some) for case, some in zip(cases, made, strict=True) if case.split != "held out" and some]
    for k in range(FOLDS):
        answerable = fit_all([choice for case, some in pairs if fold[case.document] != k for choice in some])
        for case, some in pairs:
            if fold[case.document] == k:
                found.setdefault(case.split, []).append(outcome(some, answerable))
    return found


def report(title: str, splits: dict[str, list[Outcome]]) -> None:
    """Prints the counts of each split, and how far the demo's and all are told apart."""
    for split, found in splits.items():
        counted(f"{title} {split}", found)
    separated(f"{title} demo", [o for split, some in splits.items() if split.startswith("demo") for o in some])
    fresh = [o for split, some in splits.items() if split[:2] in ("a ", "b ") for o in some]
    counted(f"{title} development", fresh)
    separated(f"{title} development", fresh)
    counted(f"{title} asked", [o for split, some in splits.items() if split != "fitted" for o in some])
    separated(f"{title} all", [o for some in splits.values() for o in some])


def main() -> None:
    cases = [*calibration(), *asked()]
    made = [choices(case) for case in cases]
    report("crossed", crossed(cases, made))
    pairs = [(case, some) for case, some in zip(cases, made, strict=True) if some]
    answerable = fit_all([choice for case, some in pairs if case.split != "held out" for choice in some])
    splits: dict[str, list[Outcome]] = {}
    for case, some in pairs:
        splits.setdefault(case.split, []).append(outcome(some, answerable))
    counted("not fitted held out", splits.pop("held out"))
    report("fitted", splits)
    for name, weight in zip((*matching.FEATURES, "none"), (*matching.WEIGHTS.values(), matching.NONE), strict=True):
        print(f'    "{name}": {weight:.2f},')
    for name, weight in zip((*matching.ANSWERABLE, "bias"), answerable, strict=True):
        print(f'    "{name}": {weight:.2f},')


if __name__ == "__main__":
    main()

"""Fit the embedded reader's weights to the calibration cases ("fitted" ones) and every other demo question; the "held out" cases and the
other demo questions are only counted.

    python tests/bench/fit_reader.py

The model is a conditional logit: of a question's candidate answers and "none", one is right. The penalised likelihood is climbed by
gradient ascent. Whether there is an answer at all is a logistic regression on top. Prints ``WEIGHTS``, ``NONE``, ``ANSWERABLE`` and its
bias for ``rag/generators/extractive/matching.py``, and what thresholds would do.
"""

from __future__ import annotations

import json
import re
import sys
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
from rag.generators.registry import GENERATORS  # noqa: E402
from rag.pipeline import ask  # noqa: E402
from rag.settings import Settings  # noqa: E402
from rag.systems import SYSTEMS  # noqa: E402
from rag.types import Prompt, Segment  # noqa: E402

PENALTY = 0.5
ANSWERABLE_PENALTY = 2.0
STEPS = 800
RATE = 0.2
CALIBRATION = ROOT / "tests" / "data" / "reader_calibration.json"


@dataclass(frozen=True)
class Case:
    """A question with the prompt that the reader gets; ``expected`` is None where the prompt does not hold the answer."""

    split: str
    question: str
    expected: str | None
    prompt: Prompt
    is_right: Callable[[str, str], bool]


def calibration() -> Iterator[Case]:
    """The cases of the calibration file."""
    for case in json.loads(CALIBRATION.read_text("utf-8"))["cases"]:
        segments = [Segment(e["kind"], e["text"], e["tag"], e["item"]) for e in case["evidence"]]
        segments.append(Segment("question", f"Question: {case['question']}\n"))
        prompt = Prompt((), tuple(segments), {e["tag"]: e["item"] for e in case["evidence"]})
        yield Case(case["split"], case["question"], case["expected"], prompt, is_right)


def demo() -> Iterator[Case]:
    """The demo questions whose source is at hand, and the unanswerable ones; every other one fits, the rest is held out. A value
    that is only drawn is not in the prompt."""
    corpus = open_corpus(Settings.from_env().corpus)
    for file in sorted((ROOT / "assets" / "questions").glob("demo_*.json")):
        name = file.stem.removeprefix("demo_")
        for i, item in enumerate(json.loads(file.read_text("utf-8"))):
            *_, trace = ask(item["q"], SYSTEMS["+both"], GENERATORS["extractive"], corpus)
            row = row_of(name, item, trace, corpus)
            absent = item["type"] == "unanswerable"
            if trace.prompt and (absent or (row["at hand"] and not row.get("axis"))):
                expected = None if absent else item["answer"]
                right = partial(_holds, item["q"])
                yield Case("demo, odd" if i % 2 else "fitted", item["q"], expected, trace.prompt, right)


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
    """Features (n, d), which candidate is right (n,), which candidates say the same (n, n), whether an answer is expected, and what
    tells whether there is one (None without candidates)."""

    x: np.ndarray
    right: np.ndarray
    backers: np.ndarray
    expected: bool
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
        backers = np.zeros((len(found), len(found)), bool)
        for i, same in enumerate(matching.agreeing(found)):
            backers[i, same] = True
        x = np.array(rows, float).reshape(-1, len(matching.FEATURES))
        made.append(Choice(x, np.array(right, bool), backers, part is not None, question, found))
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
    """Weights of ``matching.ANSWERABLE`` and the bias, by penalised logistic regression on scaled signs: (d + 1,)."""
    signs = [(signs_of(choice), choice.expected) for choice in data if choice.found]
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


def outcomes(data: list[Choice], answerable: np.ndarray) -> list[tuple[float, bool, bool]]:
    """(probability that the evidence answers, whether the best answer is right, whether one is expected) of every choice."""
    found = []
    for choice in data:
        if not choice.found:
            found.append((0.0, False, choice.expected))
            continue
        best = matching.weighed(choice.question, choice.found)[0]
        logit = np.r_[signs_of(choice), 1.0] @ answerable
        found.append((float(1 / (1 + np.exp(-logit))), bool(choice.right[best]), choice.expected))
    return found


def main() -> None:
    data: dict[str, list[Choice]] = {}
    for case in (*calibration(), *demo()):
        data.setdefault(case.split, []).extend(choices(case))
    w = fit(data["fitted"])
    for name, weight in zip((*matching.FEATURES, "none"), w, strict=True):
        print(f'    "{name}": {weight:.2f},')
    matching.WEIGHTS, matching.NONE = dict(zip(matching.FEATURES, w[:-1].tolist(), strict=True)), float(w[-1])
    answerable = fit_answerable(data["fitted"])
    for name, weight in zip((*matching.ANSWERABLE, "bias"), answerable, strict=True):
        print(f'    "{name}": {weight:.2f},')
    for split, part in data.items():
        found = outcomes(part, answerable)
        for threshold in (0.2, 0.3, 0.4, 0.5, 0.6):
            held = [entry for entry in found if entry[2]]
            right = sum(p >= threshold and good for p, good, _ in held)
            answered = sum(p >= threshold for p, _, _ in held)
            silent = sum(p < threshold for p, _, expected in found if not expected)
            print(f"{split:9} {threshold:.2f}: of {len(held)} answered {answered}, right {right}; "
                  f"of {len(found) - len(held)} without an answer silent {silent}")  # fmt: skip


if __name__ == "__main__":
    main()

"""Fit the embedded reader's weights to the calibration cases ("fitted" ones; "held out" ones are only counted).

    python tests/bench/fit_reader.py

The model is a conditional logit: of a question's candidate answers and "none", one is right. The penalised likelihood is climbed by
gradient ascent. Prints ``WEIGHTS`` and ``NONE`` for ``rag/generators/extractive/matching.py``, and what thresholds would do.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from rag.generators.extractive import matching  # noqa: E402
from rag.generators.extractive.evidence import units  # noqa: E402
from rag.generators.extractive.questions import parts  # noqa: E402
from rag.types import Prompt, Segment  # noqa: E402

PENALTY = 0.5
STEPS = 800
RATE = 0.2
CALIBRATION = ROOT / "tests" / "data" / "reader_calibration.json"


def prompt_of(case: dict[str, Any]) -> Prompt:
    """The calibration case as the reader gets it."""
    segments = [Segment(e["kind"], e["text"], e["tag"], e["item"]) for e in case["evidence"]]
    segments.append(Segment("question", f"Question: {case['question']}\n"))
    return Prompt((), tuple(segments), {e["tag"]: e["item"] for e in case["evidence"]})


def is_right(said: str, part: str) -> bool:
    """Whether an answer holds the first number of what is expected, or most of its words."""
    plain = said.replace(",", "").replace("\u2212", "-").lower()
    part = part.replace(",", "").lower()
    number = re.search(r"\d+(?:\.\d+)?", part)
    if number:
        return bool(re.search(rf"(?<![\d.]){re.escape(number.group())}(?!\d|\.\d)", plain))
    words = [word for word in re.findall(r"[^\W\d_]{3,}", part) if word not in ("the", "and", "might")]
    return not words or sum(word in plain for word in words) >= 0.6 * len(words)


Choice = tuple[np.ndarray, np.ndarray, np.ndarray, bool]
"""Features (n, d), which candidate is right (n,), which candidates say the same (n, n), whether any answer is expected."""


def choices(case: dict[str, Any]) -> list[Choice]:
    """One choice for each part of a question."""
    evidence = matching.indexed(units(prompt_of(case)))
    questions = parts(case["question"])
    expected = [None] * len(questions) if case["expected"] is None else case["expected"].split("; ")
    if len(expected) != len(questions):
        return []
    found = []
    for question, part in zip(questions, expected, strict=True):
        candidates = matching.matches(question, evidence)
        rows = [[match.features[name] for name in matching.FEATURES] for match in candidates]
        right = [part is not None and is_right(match.candidate, part) for match in candidates]
        backers = np.zeros((len(candidates), len(candidates)), bool)
        for i, same in enumerate(matching.agreeing(candidates)):
            backers[i, same] = True
        x = np.array(rows, float).reshape(-1, len(matching.FEATURES))
        found.append((x, np.array(right, bool), backers, part is not None))
    return found


def fit(data: list[Choice]) -> np.ndarray:
    """Weights and the log-odds of "none": (d + 1,). Without a right candidate, "none" is what should be said."""
    width, most = len(matching.FEATURES), max(len(x) for x, *_ in data)
    rows = np.zeros((len(data), most + 1, width + 1))
    there = np.zeros((len(data), most + 1), bool)
    good = np.zeros((len(data), most + 1), bool)
    for i, (x, right, _, _) in enumerate(data):
        rows[i, : len(x), :-1] = x
        rows[i, -1, -1] = 1.0
        there[i, : len(x)] = there[i, -1] = True
        good[i, : len(x)] = right
        good[i, -1] = not right.any()
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


def outcomes(data: list[Choice], w: np.ndarray) -> list[tuple[float, bool, bool]]:
    """(probability of the best answer, whether it is right, whether an answer is expected) of every choice."""
    found = []
    for x, right, backers, expected in data:
        if not len(x):
            found.append((0.0, False, expected))
            continue
        odds = np.exp(x @ w[:-1])
        sums = backers @ odds
        best = int(np.argmax(odds + matching.BACKING * (sums - odds)))
        others = matching.RIVALRY * (odds.sum() - sums[best])
        found.append((float(sums[best] / (np.exp(w[-1]) + sums[best] + others)), bool(right[best]), expected))
    return found


def main() -> None:
    cases = json.loads(CALIBRATION.read_text("utf-8"))["cases"]
    data = {
        split: [c for case in cases if case["split"] == split for c in choices(case)]
        for split in ("fitted", "held out")
    }
    w = fit(data["fitted"])
    for name, weight in zip((*matching.FEATURES, "none"), w, strict=True):
        print(f'    "{name}": {weight:.2f},')
    folds = [data["fitted"][i::8] for i in range(8)]
    crossed = [
        entry
        for i, fold in enumerate(folds)
        for entry in outcomes(fold, fit([c for j, other in enumerate(folds) if j != i for c in other]))
    ]
    for split, found in (("crossed", crossed), *((name, outcomes(part, w)) for name, part in data.items())):
        for threshold in (0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5):
            held = [entry for entry in found if entry[2]]
            right = sum(p >= threshold and good for p, good, _ in held)
            answered = sum(p >= threshold for p, _, _ in held)
            silent = sum(p < threshold for p, _, expected in found if not expected)
            print(f"{split:9} {threshold:.2f}: of {len(held)} answered {answered}, right {right}; "
                  f"of {len(found) - len(held)} without an answer silent {silent}")  # fmt: skip


if __name__ == "__main__":
    main()

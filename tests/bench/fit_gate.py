"""Fit the gate's weights: figure questions of the demo and of ``gate_questions.json`` (a visitor's, labelled by where the answer
stands, off-topic ones as text) against text and multi-hop ones.

    python tests/bench/fit_gate.py

Prints the weights (L2-penalised logistic regression on scaled signals) and, leaving one question out at a time, how many of each type would
be sent pixels. Signals that are constant on the demo questions get no weight here.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from rag import branches, gate  # noqa: E402
from rag.corpus import open_corpus  # noqa: E402
from rag.settings import Settings  # noqa: E402
from rag.systems import SYSTEMS  # noqa: E402
from rag.types import Evidence  # noqa: E402

PENALTY = 0.3


def fit(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Weights and bias, by gradient descent. x: (n, d), y: (n,) of 0 and 1 -> (d + 1,)."""
    a = np.c_[x, np.ones(len(x))]
    w = np.zeros(a.shape[1])
    for _ in range(3000):
        w -= 0.02 * (a.T @ (1 / (1 + np.exp(-a @ w)) - y) + PENALTY * np.r_[w[:-1], 0])
    return w


def main() -> None:
    corpus = open_corpus(Settings.from_env().corpus)
    rows, types = [], []
    for file in (
        *sorted((ROOT / "assets" / "questions").glob("demo_*.json")),
        Path(__file__).with_name("gate_questions.json"),
    ):
        for item in json.loads(file.read_text("utf-8")):
            query = branches.Query.of(item["q"], corpus)
            evidence = Evidence(
                text=branches.text(query, corpus, SYSTEMS["+both"]),
                visual=branches.visual(query, corpus, SYSTEMS["+both"]),
            )
            view = gate.view_of(item["q"], evidence, corpus)
            found = [signal(view) for _, signal in gate.SIGNALS.values()]
            rows.append([value[0] if value else 0.0 for value in found])
            types.append(file.stem if file.stem.startswith("demo") else f"visitor_{item['type']}")
    x, kinds = np.array(rows), np.array(types)
    x[:, list(gate.SIGNALS).index("the question names a figure or table")] = (
        0.0  # set by hand: the demo questions avoid it by rule
    )
    scale = np.where(x.std(axis=0) > 0, x.std(axis=0), 1.0)
    y = np.array(["figure" in kind for kind in types], dtype=float)
    known = kinds != "demo_unanswerable"
    w = fit(x[known] / scale, y[known])
    for name, weight in zip(gate.SIGNALS, w[:-1] / scale, strict=True):
        print(f"{weight:+7.2f}  {name}")
    print(f"{w[-1]:+7.2f}  bias")
    pixels: Counter[str] = Counter()
    for i in range(len(x)):
        others = known.copy()
        others[i] = False
        pixels[kinds[i]] += int(np.r_[x[i] / scale, 1] @ fit(x[others] / scale, y[others]) > 0)
    for kind, count in sorted(Counter(kinds.tolist()).items()):
        print(f"{kind}: pixels for {pixels[kind]} of {count}")


if __name__ == "__main__":
    main()

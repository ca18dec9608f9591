"""Retrieval, gate and embedded reader on the demo questions, by type.

    python tests/bench/demo_scores.py [--text-ranker dense|bm25|hybrid]

Text and multi-hop questions are scored by page among the top 3 passages (share of the gold pages found, and all of them found), figure
questions by crop; ``pixels`` counts gate decisions on ``auto``; ``right`` counts answers that hold the reference answer's words, in order
and whatever the case (each part of an answer parted by ``;``); for the unanswerable it counts abstentions.
"""

from __future__ import annotations

import json
import re
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from rag.corpus import Corpus, open_corpus  # noqa: E402
from rag.generators.registry import GENERATORS  # noqa: E402
from rag.pipeline import ask  # noqa: E402
from rag.settings import Settings  # noqa: E402
from rag.systems import SYSTEMS, tuned  # noqa: E402
from rag.types import Trace  # noqa: E402


def plain(text: str) -> str:
    """Lower case, single spaces, without tags and punctuation between words."""
    text = re.sub(r"\[[TGV]\d+\]", " ", text.lower())
    return " ".join(re.findall(r"[\w%.+<>=-]+", text)).replace(". ", " ").strip(" .")


def scores(item: dict[str, Any], trace: Trace, corpus: Corpus) -> dict[str, float]:
    """One question's scores; what does not apply is left out."""
    gold = item["source"] if isinstance(item["source"], list) else [item["source"]]
    generation, evidence = trace.generation, trace.evidence
    assert generation and evidence.gate and evidence.text and evidence.visual
    found: dict[str, float] = {"pixels": evidence.gate.wanted == "pixels", "abstained": generation.abstained}
    if item["type"] == "unanswerable":
        return found | {"right": generation.abstained}
    said = f" {plain(generation.text)} "
    found["right"] = all(f" {plain(part)} " in said for part in item["answer"].split(";"))
    if gold[0] in corpus.crops:
        ranks = [hit.rank for hit in evidence.visual.hits if hit.item_id in gold]
        return found | {"recall@1": ranks[:1] == [1], "recall@3": bool(ranks) and ranks[0] <= 3}
    pages = {corpus.chunks[hit.item_id].page_id for hit in evidence.text.hits}
    shares = [page in pages for page in gold]
    return found | {"recall@3": sum(shares) / len(shares), "all@3": all(shares)}


def main() -> None:
    ranker = sys.argv[sys.argv.index("--text-ranker") + 1] if "--text-ranker" in sys.argv else "hybrid"
    corpus = open_corpus(Settings.from_env().corpus)
    system = tuned(SYSTEMS["+both"], text_ranker=ranker)
    for file in sorted((ROOT / "assets" / "questions").glob("demo_*.json")):
        sums: dict[str, float] = defaultdict(float)
        items = json.loads(file.read_text("utf-8"))
        for item in items:
            *_, trace = ask(item["q"], system, GENERATORS["extractive"], corpus)
            for name, value in scores(item, trace, corpus).items():
                sums[name] += value
        figures = "  ".join(f"{name} {value / len(items):.2f}" for name, value in sums.items())
        print(f"{file.stem:<22} n {len(items):<4} {figures}")


if __name__ == "__main__":
    main()

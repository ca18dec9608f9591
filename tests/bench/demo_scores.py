"""Retrieval, gate and embedded reader on the demo questions: the changelog's figures, by question type.

    python tests/bench/demo_scores.py [--questions FOLDER] [--text-ranker dense|bm25|hybrid] [--half even|odd] [--json FILE]

An answer is right where it holds every part of the reference answer (``rag.evaluate.checker.answered_by``), with the system
``+both`` and the gate on ``auto``. An answerable question is lost where the reader abstains though a gold page is among the passages
(or the gold crop is what the gate sent). Pixel-only questions whose value can only be read off an axis ("about ...") are kept apart from
those whose label is printed: the reader sees words and no pixels. ``--half`` takes every other question; ``--json`` writes one
row a question.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from rag.corpus import Corpus, open_corpus  # noqa: E402
from rag.evaluate.checker import RULES, answered_by  # noqa: E402
from rag.generators.registry import GENERATORS  # noqa: E402
from rag.pipeline import ask  # noqa: E402
from rag.settings import Settings  # noqa: E402
from rag.systems import SYSTEMS, tuned  # noqa: E402
from rag.types import Trace  # noqa: E402

Row = dict[str, Any]
READ_OFF_AN_AXIS = "about "


def row_of(name: str, item: dict[str, Any], trace: Trace, corpus: Corpus) -> Row:
    """One question's outcome; what does not apply is left out."""
    generation, evidence = trace.generation, trace.evidence
    assert generation and evidence.gate and evidence.text and evidence.visual
    row: Row = {"set": name, "q": item["q"], "expected": item["answer"], "said": generation.text}
    row |= {"pixels": evidence.gate.wanted == "pixels", "abstained": generation.abstained}
    if item["type"] == "unanswerable":
        return row
    row["right"] = not generation.abstained and answered_by(item["answer"], generation.text, item["q"])
    gold = item["source"] if isinstance(item["source"], list) else [item["source"]]
    if gold[0] in corpus.crops:
        ranks = [hit.rank for hit in evidence.visual.hits if hit.item_id in gold]
        row["axis"] = "pixel" in name and item["answer"].startswith(READ_OFF_AN_AXIS)
        row |= {f"recall@{k}": bool(ranks) and min(ranks) <= k for k in (1, 3)}
        row["at hand"] = any(crop in evidence.gate.item_ids for crop in gold)
        return row
    pages = [corpus.chunks[hit.item_id].page_id for hit in evidence.text.hits]
    row["recall@3"] = sum(page in pages for page in gold) / len(gold)
    row["all@3"] = all(page in pages for page in gold)
    row["at hand"] = row["recall@3"] > 0
    return row


def _share(rows: Iterable[Row], key: str) -> str:
    values = [float(row[key]) for row in rows]
    return f"{sum(values) / len(values):.2f} (n {len(values)})" if values else "- (n 0)"


FIGURES: dict[str, tuple[str, Callable[[list[Row]], str]]] = {
    "text: page among the top 3": (">= .85", lambda r: _share(_of(r, "text"), "recall@3")),
    "multihop: all gold pages among the top 3": (">= .35", lambda r: _share(_of(r, "multihop"), "all@3")),
    "pixel-only: crop at 1": (">= .60", lambda r: _share(_of(r, "figure_pixel"), "recall@1")),
    "pixel-only: crop among the top 3": (">= .80", lambda r: _share(_of(r, "figure_pixel"), "recall@3")),
    "caption: crop at 1": (">= .85", lambda r: _share(_of(r, "figure_caption"), "recall@1")),
    "text: right where the page was found": (
        ">= .60",
        lambda r: _share([x for x in _of(r, "text") if x["at hand"]], "right"),
    ),
    "pixel-only: right by text only": ("<= .05", lambda r: _share(_of(r, "figure_pixel"), "right by text")),
    "pixel-only: right by text and graph": ("<= .05", lambda r: _share(_of(r, "figure_pixel"), "right by graph")),
    "unanswerable: abstained": (">= .80", lambda r: _share(_of(r, "unanswerable"), "abstained")),
    "answerable, source at hand: lost": ("<= .10", lambda r: _share(_readable(r), "abstained")),
    "  of these text": ("", lambda r: _share(_of(_readable(r), "text"), "abstained")),
    "  of these multihop": ("", lambda r: _share(_of(_readable(r), "multihop"), "abstained")),
    "  of these caption": ("", lambda r: _share(_of(_readable(r), "figure_caption"), "abstained")),
    "  of these pixel-only, printed": ("", lambda r: _share(_of(_readable(r), "figure_pixel"), "abstained")),
    "multihop: right": ("", lambda r: _share(_of(r, "multihop"), "right")),
    "caption: right": ("", lambda r: _share(_of(r, "figure_caption"), "right")),
    "pixel-only, printed: right": ("", lambda r: _share([x for x in _of(r, "figure_pixel") if not x["axis"]], "right")),
    "pixel-only, axis: right": ("", lambda r: _share([x for x in _of(r, "figure_pixel") if x["axis"]], "right")),
    "pixel-only, axis: abstained": (
        "",
        lambda r: _share([x for x in _of(r, "figure_pixel") if x["axis"]], "abstained"),
    ),
    "gate: pixels for figure questions": ("", lambda r: _share([x for x in r if "figure" in x["set"]], "pixels")),
    "gate: pixels for text and multihop": (
        "",
        lambda r: _share([*_of(r, "text"), *_of(r, "multihop")], "pixels"),
    ),
}
"""Figure -> (what it should reach, how it is counted)."""


def _of(rows: list[Row], name: str) -> list[Row]:
    return [row for row in rows if row["set"] == name]


def _readable(rows: list[Row]) -> list[Row]:
    return [row for row in rows if row.get("at hand") and not row.get("axis")]


def measured(ranker: str, half: str, folder: Path) -> list[Row]:
    """A row for each question of the folder's sets."""
    corpus = open_corpus(Settings.from_env().corpus)
    steps = {"even": slice(0, None, 2), "odd": slice(1, None, 2), "": slice(None)}
    text_only = {"right by text": "baseline", "right by graph": "+KG"}
    rows = []
    for file in sorted(folder.glob("*.json")):
        name = next(kind for kind in RULES if file.stem.endswith(kind))
        for item in json.loads(file.read_text("utf-8"))[steps[half]]:
            traces = {}
            for key, system in {"": "+both", **(text_only if "pixel" in name else {})}.items():
                *_, traces[key] = ask(
                    item["q"], tuned(SYSTEMS[system], text_ranker=ranker), GENERATORS["extractive"], corpus
                )
            row = row_of(name, item, traces.pop(""), corpus)
            for key, trace in traces.items():
                said = trace.generation.text if trace.generation else ""
                row[key] = answered_by(item["answer"], said, item["q"])
            rows.append(row)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--text-ranker", default="hybrid", choices=("dense", "bm25", "hybrid"))
    parser.add_argument(
        "--questions", type=Path, default=ROOT / "assets" / "questions", help="such as tests/bench/held_out"
    )
    parser.add_argument("--half", default="", choices=("even", "odd"))
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows = measured(options.text_ranker, options.half, options.questions)
    for name, (target, figure) in FIGURES.items():
        print(f"{name:<42} {figure(rows):<14} {target}")
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1, ensure_ascii=False), "utf-8")


if __name__ == "__main__":
    main()

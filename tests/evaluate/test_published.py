"""The study's figures as rows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rag.errors import UsageError
from rag.evaluate.published import FILE, interval, load, shipped
from rag.evaluate.statistics import bootstrap_interval

REFERENCE = Path(__file__).resolve().parents[3] / "shared" / "reference" / "paper_results.json"


def test_the_file_is_the_one_that_the_study_published():
    if not REFERENCE.is_file():
        pytest.skip(f"{REFERENCE.name} lies beside the checkout only where the study's reference is")
    assert FILE.read_bytes() == REFERENCE.read_bytes()


def test_rows_have_the_shape_of_the_tables_of_results():
    study = shipped()
    assert len(study.ablation) == 4 * 4 * 3
    row = next(
        r for r in study.ablation
        if (r["generator"], r["system"], r["question_type"]) == ("Llama 4 Maverick", "+KG", "text")
    )  # fmt: skip
    assert (row["accuracy"], row["faithfulness"], row["relevancy"], row["n"]) == (0.714, 0.543, 0.857, 35)
    assert study.retrieval["figure_pixel"] == {"n": 35, "recall_at_1": 0.229, "recall_at_3": 0.371, "mrr": 0.286}
    tokens = {(r["generator"], r["system"]): r["input_tokens_per_question"] for r in study.efficiency}
    # The study's elevenfold variation: 9,477 tokens against 861 for the same image.
    assert round(tokens["GPT-4o-mini", "+multimodal"] / tokens["Llama 4 Scout", "+multimodal"]) == 11
    missing = next(r for r in study.protocol_accuracy if r["generator"] == "GPT-4o")
    assert (missing["caption"], missing["caption_n"], missing["pixel"], missing["pixel_n"]) == (None, 0, 0, 35)


def test_an_interval_is_that_of_the_zeros_and_ones_behind_the_share():
    # 0.714 of 35 is 25 right answers.
    assert interval(0.714, 35) == bootstrap_interval([1.0] * 25 + [0.0] * 10)
    with pytest.raises(ValueError, match="no share of 35"):
        interval(0.5, 35)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda d: d["ablation"][3].update(accuracy=1.2), "ablation.3.accuracy"),
        (lambda d: d["ablation"][3].update(accuracy=0.5), "0.5 is no share of 35"),
        (lambda d: d["question_sets"].pop("multihop"), "multihop"),
        (lambda d: d.pop("efficiency_pixel_figure_set"), "efficiency_pixel_figure_set"),
    ],
)
def test_a_damaged_file_names_the_place(tmp_path, change, words):
    found = json.loads(FILE.read_text("utf-8"))
    change(found)
    damaged = tmp_path / "paper_results.json"
    damaged.write_text(json.dumps(found), "utf-8")
    with pytest.raises(UsageError, match=words):
        load(damaged)
    with pytest.raises(UsageError, match="restore it"):
        load(tmp_path / "missing.json")

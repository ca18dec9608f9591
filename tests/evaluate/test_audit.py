"""The caption-recovery audit: the study's own sets, the demo's, and where text-only answers came from."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from rag.corpus import Corpus
from rag.evaluate.audit import Recovered, audit, audit_captions, is_cell_value, origins, recovered
from rag.evaluate.questions import Question, known_questions, load_questions
from rag.evaluate.store import Result
from rag.systems import system_named
from rag.types import Citation, Prompt, Segment, Trace

SHARED = Path(__file__).resolve().parents[3] / "shared"


@pytest.mark.parametrize(
    ("protocol", "file"), [("pixel", "questions_publaynet_figures"), ("caption", "questions_publaynet_figures_caption")]
)
def test_what_table_3_says_of_the_answers_themselves_follows_from_the_studys_files(protocol: str, file: str) -> None:
    questions, results = SHARED / "data" / "paper" / f"{file}.json", SHARED / "reference" / "paper_results.json"
    if not (questions.is_file() and results.is_file()):
        pytest.skip("the study's files are not beside this checkout")
    published = json.loads(results.read_text("utf-8"))["figure_protocols"][protocol]
    (found,) = audit_captions(load_questions(questions), {})
    row = found.row()
    assert {k: row[k] for k in ("n", "cell_value_answers", "mean_answer_chars")} == {
        k: published[k] for k in ("n", "cell_value_answers", "mean_answer_chars")
    }
    # The captions are not among the study's files, so "25/34" and "0/35" can't be counted again, and nothing pretends to.
    assert row["answer_in_caption"] is None and found.unknown == found.n


def test_the_demo_sets_keep_their_protocols(demo: Corpus) -> None:
    found = {one.set: one for one in audit(known_questions(demo), demo)}
    assert set(found) == {"demo_figure_caption", "demo_figure_pixel"}
    caption, pixel = found["demo_figure_caption"], found["demo_figure_pixel"]
    assert caption.in_caption == caption.with_caption == caption.n >= 40
    assert pixel.in_caption == 0 and pixel.n >= 40 and pixel.with_caption > 0
    assert caption.unknown == pixel.unknown == 0


@pytest.mark.parametrize(
    "answer",
    ["44.45", "1.25 (-1.28–2.22)", "93.1 ± 0.6", "approximately 20-25%", "400nm", "132 genes", "−0.089", "0 to 10 kHz", "p < 0.001",
     "about 900 ml", "0.1/year", "1,384"],
)  # fmt: skip
def test_a_cell_value(answer: str) -> None:
    assert is_cell_value(answer)


@pytest.mark.parametrize(
    "answer",
    ["Macrophage", "20% PBS/70% EICH", "RB1, CDKN1A", "rates at 1, 5 and 10 years", "Bias = 41.08", "5'- CTCAACTGG -3'",
     "2-fold decrease (from 1.0 to 0.5)", "10-12 disease terms per gene", ""],
)  # fmt: skip
def test_no_cell_value(answer: str) -> None:
    assert not is_cell_value(answer)


def test_counts_by_hand() -> None:
    asked = [
        Question("Which drug?", ("a.png",), "aspirin", "figure", "s"),
        Question("How many mice?", ("b.png",), "12 mice", "figure", "s"),
        Question("Which day?", ("c.png",), "7", "figure", "s"),
        Question("Where?", ("d.png",), "Jena", "figure", "s"),
        Question("Who?", ("p.txt",), "Kyle", "text", "t"),
    ]
    (found,) = audit_captions(asked, {"a.png": "Effect of aspirin.", "b.png": "Weights of 120 mice.", "c.png": ""})
    assert (found.n, found.with_caption, found.in_caption, found.cell_values, found.unknown) == (4, 2, 1, 2, 1)
    assert found.mean_answer_chars == (7 + 7 + 1 + 4) / 4
    assert found.row()["answer_in_caption"] == "1/2" and found.answered_in_captions == ("Which drug?",)


# --- where text-only answers came from -------------------------------------------------------------------------------


def result(
    reference: str, system: str = "baseline", right: bool = True, kind: str = "figure", state: str = "done"
) -> Result:
    return Result(
        "r", "q", "s", kind, "What?", reference, ("glioma_p001_table0",), system, "g", state, reference, False, 1, 1, "reported", 0.0,  # type: ignore[arg-type]
        1.0, 1.0, None, (1,), {"lexical": {"accuracy": right}},
    )  # fmt: skip


def trace(segments: Sequence[tuple[str, str]], system: str = "baseline", cited: str = "") -> Trace:
    made = tuple(
        Segment("graph" if i.startswith("triple") else "text", text, f"T{n}", i)
        for n, (i, text) in enumerate(segments, 1)
    )
    citations = (Citation("T1", cited, 0, 2),) if cited else ()
    return Trace("t", "", "What?", system_named(system), "g", "c", prompt=Prompt((), made, {}), citations=citations)


HERE = "glioma_p001_c00"
CAPTION = "Table 1: Median survival by histology."
CELLS = "histology Control: 11 months RIT: 33 months GBM"


@pytest.mark.parametrize(
    ("reference", "evidence", "origin", "crop"),
    [
        ("by histology", [(HERE, f"Before. {CAPTION} After.")], "caption", "glioma_p001_table0"),
        ("33 months", [(HERE, f"Before {CELLS} after")], "read-off text", "glioma_p001_table0"),
        ("37 patients", [(HERE, "The glioma trial enrolled 37 patients.")], "running text", ""),
        ("37 patients", [("triple:0", "glioma trial enrolled 37 patients")], "running text", ""),
        # What the table says too, in a sentence of its own, did not come from the table.
        ("33 months", [(HERE, "Treated patients lived for 33 months in all.")], "running text", ""),
        ("99", [(HERE, "Nothing of the kind.")], "not in the evidence", ""),
    ],
)
def test_the_part_of_the_page_that_held_the_answer(
    small: Corpus, reference: str, evidence: list[tuple[str, str]], origin: str, crop: str
) -> None:
    (found,) = recovered([result(reference)], lambda _r: trace(evidence), small)
    assert (found.origin, found.crop_id) == (origin, crop)
    assert found.item_id == (evidence[0][0] if origin != "not in the evidence" else "")


def test_what_the_answer_cites_goes_first(small: Corpus) -> None:
    evidence = [(HERE, CAPTION), ("glioma_p001_c01", "Sorted by histology of the tumour.")]

    def origin(cited: str) -> str:
        return recovered([result("by histology")], lambda _r: trace(evidence, cited=cited), small)[0].origin

    assert origin("") == origin(HERE) == "caption"
    assert origin("glioma_p001_c01") == "running text"


def test_only_right_answers_of_text_only_systems_to_figure_questions_count(small: Corpus) -> None:
    rows = [
        result("by histology"),
        result("by histology", right=False),
        result("by histology", kind="text"),
        result("by histology", state="failed"),
        result("by histology", system="+both"),
        result("by histology", system="+KG"),
    ]
    found = recovered(rows, lambda r: trace([(HERE, CAPTION)], r.system), small)
    assert [one.result.system for one in found] == ["baseline", "+KG"]
    counts = origins([*found, Recovered(rows[0], "running text")])
    assert counts["s", "g", "baseline"] == {
        "caption": 1,
        "read-off text": 0,
        "running text": 1,
        "not in the evidence": 0,
    }
    assert counts["s", "g", "+KG"]["caption"] == 1

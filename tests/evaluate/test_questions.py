"""Question files, the set of a corpus, and the place of gold evidence in a trace."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from rag.corpus import Corpus
from rag.errors import UsageError
from rag.evaluate import questions
from rag.evaluate.questions import Gold, Question, load_questions
from rag.settings import ASSETS
from tests.ui import traces as by_hand

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data"
GOOD = {"q": "How many?", "source": "p_p001", "answer": "3", "type": "text"}


def written(folder: Path, content: object) -> Path:
    file = folder / "set.json"
    file.write_text(content if isinstance(content, str) else json.dumps(content), "utf-8")
    return file


STUDY = {
    "paper/questions_publaynet_text.json": 35,
    "paper/questions_publaynet_multihop.json": 30,
    "paper/questions_publaynet_figures.json": 35,
    "paper/questions_publaynet_figures_caption.json": 35,
    "hotpotqa/questions_hotpotqa_bridge.json": 50,
    "hotpotqa/questions_hotpotqa_comparison.json": 50,
}


@pytest.mark.parametrize(("name", "count"), STUDY.items())
def test_the_studys_files_load_unchanged(name: str, count: int) -> None:
    file = SHARED / name
    if not file.is_file():
        pytest.skip(f"the study's file {name} is not beside this checkout")
    found = load_questions(file)
    raw = json.loads(file.read_text("utf-8"))
    assert len(found) == count
    assert [(q.q, q.answer, q.type) for q in found] == [(e["q"].strip(), e["answer"].strip(), e["type"]) for e in raw]
    assert all(q.sources and q.set == file.stem for q in found)


def test_the_shipped_sets_name_pages_and_crops_that_the_demo_corpus_holds(demo: Corpus) -> None:
    files = sorted((ASSETS / "questions").glob("demo_*.json"))
    known = questions.known_questions(demo)
    assert len(known) == sum(len(load_questions(file)) for file in files)
    assert all(questions.gold_of(q, demo) for q in known if q.type != questions.UNANSWERABLE)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("[", "is not JSON"),
        ("[" * 100_000, "JSON|nested"),
        ({"q": "x"}, "no list of questions"),
        ([{**GOOD, "type": "te\x1b[31mxt"}], "can't be printed"),
        ([], "no list of questions"),
        ([GOOD, 3], "set.json, entry 2 is no object"),
        ([GOOD, {**GOOD, "q": " "}], 'entry 2 has no "q"'),
        ([{**GOOD, "q": 7}], 'entry 1 has no "q"'),
        ([{**GOOD, "q": "x" * 2_001}], "2,001 characters; shorten it to 2,000"),
        ([{**GOOD, "answer": ""}], 'entry 1 has no "answer"'),
        ([{**GOOD, "source": ""}], "names no"),
        ([{**GOOD, "source": 5}], '"source" must be'),
        ([{**GOOD, "source": ["a"] * 51}], "at most 50"),
        ('[{"q": "\\ud800", "source": "a", "answer": "b", "type": "text"}]', "lone surrogate"),
    ],
)
def test_a_damaged_file_is_refused_by_entry(tmp_path: Path, content: object, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        load_questions(written(tmp_path, content))


def test_a_missing_binary_or_huge_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="can't be read"):
        load_questions(tmp_path / "nowhere.json")
    (tmp_path / "b.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match="not UTF-8"):
        load_questions(tmp_path / "b.json")
    monkeypatch.setattr(questions, "MAX_FILE_BYTES", 10)
    with pytest.raises(UsageError, match="split it"):
        load_questions(written(tmp_path, [GOOD]))


def test_an_unanswerable_question_needs_no_source(tmp_path: Path) -> None:
    (found,) = load_questions(written(tmp_path, [{**GOOD, "source": "", "type": "unanswerable"}]))
    assert found.sources == ()


def test_a_corpus_finds_its_set_by_name_and_only_what_it_holds(small: Corpus) -> None:
    def called(name: str) -> Corpus:
        return SimpleNamespace(manifest=SimpleNamespace(name=name), pages=small.pages, crops=small.crops)  # type: ignore[return-value]

    assert questions.known_questions(small) == ()
    assert questions.known_questions(called("demo")) == ()
    for name in ("", "*", "../questions/demo", "[d]emo"):
        assert questions.known_questions(called(name)) == ()


def test_a_reference_is_found_whatever_case_and_spacing(demo: Corpus) -> None:
    wanted = questions.known_questions(demo)[0]
    assert questions.reference_for("  " + wanted.q.upper().replace(" ", "\n") + " ", demo) == wanted
    assert questions.reference_for("Something else?", demo) is None


def asked(*sources: str) -> Question:
    return Question("q", sources, "a", "text", "set")


def test_gold_is_looked_up_where_the_answer_is(small: Corpus) -> None:
    trace = by_hand.trace(
        small
    )  # chunks 1 and 2 of page 1, then page 2; the table first, sent as a caption, then the figure
    found = questions.locate(
        asked("glioma_p002", "glioma_p001_table0.png", "glioma_p002_figure0", "elsewhere"), trace, small
    )
    assert found == (
        Gold("glioma_p002", "text", "found", 3, "glioma_p002_c02", True),
        Gold("glioma_p001_table0", "visual", "found", 1, "glioma_p001_table0", True),
        Gold("glioma_p002_figure0", "visual", "found", 2, "glioma_p002_figure0", False),
    )
    (best,) = questions.locate(asked("glioma_p001.txt"), trace, small)
    assert (best.source, best.rank, best.item_id) == ("glioma_p001", 1, "glioma_p001_c00")
    assert set(questions.gold_items(asked("glioma_p001.txt"), trace, small)) == {"glioma_p001_c00", "glioma_p001_c01"}


def test_gold_that_is_not_listed_is_missed_and_where_the_branch_is_off_it_is_off(small: Corpus) -> None:
    trace = by_hand.trace(small)
    assert trace.evidence.text is not None
    short = replace(trace, evidence=replace(trace.evidence, text=replace(trace.evidence.text, hits=()), visual=None))
    page, crop = questions.locate(asked("glioma_p001", "glioma_p001_table0"), short, small)
    assert (page.state, page.rank) == ("missed", None) and crop.state == "missed"
    without = replace(short, system=replace(short.system, branches=("text",)))
    assert [gold.state for gold in questions.locate(asked("glioma_p001", "glioma_p001_table0"), without, small)] == [
        "missed",
        "off",
    ]


def test_a_byte_order_mark_is_no_fault(tmp_path: Path) -> None:
    file = tmp_path / "bom.json"
    file.write_bytes(
        b"\xef\xbb\xbf" + json.dumps([{"q": "Why?", "source": "a_p001", "answer": "so", "type": "text"}]).encode()
    )
    assert load_questions(file)[0].q == "Why?"

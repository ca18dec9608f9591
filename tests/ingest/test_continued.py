"""Tables across pages: what goes on is read under its header and found by its caption, and nothing else is."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from rag.corpus import Corpus, check_corpus, open_corpus
from rag.ingest import build
from rag.ingest.build import ingest
from rag.ingest.continued import joined
from rag.ingest.pages import OpenTable, PageTask, Rows, rows_of
from rag.ingest.pdf import CropContent, PageContent, RegionContent
from rag.ingest.tables import Body, TableBox
from rag.types import Crop
from tests.ingest import hard
from tests.ingest.hard import HEADER, TABLE

REST: tuple[hard.Row, ...] = (("Medulloblastoma", "7", "5", "18.0"), ("Meningioma", "31", "1", "96.4"),
                              ("Schwannoma", "11", "0", "88.1"))  # fmt: skip


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Corpus]:
    folder = tmp_path_factory.mktemp("continued")
    (folder / "none.jsonl").write_text("")
    hard.write(
        folder / "in",
        {
            "again.pdf": hard.table_across_pages(),
            "bare.pdf": hard.table_without_its_header(REST),
            "shifted.pdf": hard.table_without_its_header(REST, shift=30),
            "other.pdf": hard.table_without_its_header(hard.OTHER_TABLE),
            "later.pdf": hard.table_without_its_header(REST, lead="The tumours of the second trial were rarer. " * 6),
            "three.pdf": hard.table_of_three_pages(),
        },
    )
    ingest([folder / "in"], folder / "out", triples_file=folder / "none.jsonl")
    assert check_corpus(folder / "out") == []
    yield open_corpus(folder / "out")


def table(corpus: Corpus, page: str) -> Crop:
    (crop,) = corpus.crops_on(page)
    assert crop.kind == "table"
    return crop


def lines_of(rows: tuple[hard.Row, ...]) -> list[str]:
    return [" | ".join(f"{name}: {cell}" for name, cell in zip(HEADER, row, strict=True)) for row in rows]


def test_what_says_its_header_again_gets_the_caption(corpus: Corpus) -> None:
    crop = table(corpus, "again_p002")
    assert (crop.caption, crop.continues) == ("Table 4: (continued)", "again_p001_table0")
    assert crop.ocr_text.splitlines() == ["Table 4: Deaths by histology.", *lines_of(TABLE[2:])]
    assert table(corpus, "again_p001").continues == ""


@pytest.mark.parametrize("name", ["bare", "shifted"])
def test_rows_without_header_and_caption_get_both(corpus: Corpus, name: str) -> None:
    crop = table(corpus, f"{name}_p002")
    assert (crop.caption, crop.continues) == ("", f"{name}_p001_table0")
    assert crop.ocr_text.splitlines() == ["Table 5: Deaths by histology, all arms.", *lines_of(REST)]
    # So does the text of the page, and every word of the table still has its place.
    text = corpus.page_text(f"{name}_p002")
    assert " ".join(lines_of(REST)) in text and "Table 5" not in text
    placed = {text[word.start : word.end] for word in corpus.words_on(f"{name}_p002")}
    assert {cell for row in REST for cell in row} <= placed
    assert any(lines_of(REST)[0] in chunk.text for chunk in corpus.chunks_on(f"{name}_p002"))


def test_it_is_found_by_the_caption_of_its_first_part(corpus: Corpus) -> None:
    found = [item for item, _ in corpus.search_proxy_words("deaths by histology Schwannoma", 10)]
    assert {"bare_p002_table0", "shifted_p002_table0"} <= set(found[:2])


@pytest.mark.parametrize("name", ["other", "later"])
def test_another_table_and_one_below_text_stand_for_themselves(corpus: Corpus, name: str) -> None:
    crop = table(corpus, f"{name}_p002")
    assert crop.continues == "" and "Histology" not in crop.ocr_text


def test_three_pages_are_a_chain(corpus: Corpus) -> None:
    first, second, third = (table(corpus, f"three_p00{n}") for n in (1, 2, 3))
    assert [first.continues, second.continues, third.continues] == ["", first.id, second.id]
    for crop, name in ((second, "Centre 1"), (third, "Ward 1")):
        title, row, *_ = crop.ocr_text.splitlines()
        assert title == "Table 6: Deaths by centre." and row.startswith(f"Histology: {name} | Patients: ")
    assert len(second.ocr_text.splitlines()) == 40


def test_tables_that_go_on_nowhere_are_written_as_before(corpus: Corpus) -> None:
    rows = [json.loads(line) for line in (corpus.root / "crops.jsonl").read_text().splitlines()]
    assert {row["id"] for row in rows if "continues" in row} == {
        "again_p002_table0", "bare_p002_table0", "shifted_p002_table0", "three_p002_table0", "three_p003_table0",
    }  # fmt: skip


# --- without a PDF ---------------------------------------------------------------------------------------------------

BEFORE = OpenTable("d", 1, "d_p001_table0", "Table 1: All.", ("Name", "Age"), ((10.0, 60.0), (100.0, 130.0)))
BOX = (10.0, 20.0, 130.0, 60.0)


def page(columns: tuple[tuple[float, float], ...] = BEFORE.columns, caption: str = "", top: bool = True) -> Rows:
    """Page 2, whose table was read with its first row for a header."""
    rows = (("Ada", "36"), ("Grace", "85"))
    box = TableBox(BOX, "typeset", rows, "Ada: Grace | 36: 85", columns, Body(columns, rows))
    crop = CropContent("table", BOX, caption, box.text, box, at_top=top, at_bottom=True)
    region = RegionContent("table", BOX, box.text, 0)
    return rows_of(TASK, PageContent("d", 2, 600, 800, (region,), box.text, (crop,)))


TASK = PageTask("pdf", "d.pdf", "d.pdf", "d", 2, "d_p002", "")


def test_header_and_caption_come_from_the_page_before_alone() -> None:
    rows, after = joined(TASK, page(), BEFORE)
    assert rows.crops[0].ocr_text == "Table 1: All.\nName: Ada | Age: 36\nName: Grace | Age: 85"
    assert rows.chunks[0].text == "Name: Ada | Age: 36 Name: Grace | Age: 85"
    assert after == replace(BEFORE, number=2, crop_id="d_p002_table0")
    assert rows.content is None  # it has done its service


@pytest.mark.parametrize(
    ("rows", "before"),
    [
        (page(), None),
        (page(), replace(BEFORE, number=3)),
        (page(), replace(BEFORE, document="e")),
        (page(caption="Table 2: Others."), BEFORE),
        (page(top=False), BEFORE),
        (page(((10.0, 60.0), (200.0, 230.0))), BEFORE),
        (page(((100.0, 160.0), (190.0, 230.0))), BEFORE),
        (page(()), BEFORE),
    ],
)
def test_what_does_not_go_on_stays_as_it_was_read(rows: Rows, before: OpenTable | None) -> None:
    same, _ = joined(TASK, rows, before)
    assert same == replace(rows, content=None)


def test_an_open_table_survives_a_journal() -> None:
    assert OpenTable.from_json(json.loads(json.dumps(asdict(BEFORE)))) == BEFORE


def test_a_run_cut_off_between_the_pages_of_a_table_goes_on_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "none.jsonl").write_text("")
    hard.write(tmp_path / "in", {"a.pdf": hard.table_without_its_header(REST)})
    keep = build._keep

    def cut(*args: object) -> None:
        keep(*args)  # type: ignore[arg-type]
        raise RuntimeError("the power went off")

    with monkeypatch.context() as patched:
        patched.setattr(build, "_keep", cut)
        with pytest.raises(RuntimeError):
            ingest([tmp_path / "in"], tmp_path / "out", triples_file=tmp_path / "none.jsonl", workers=1, resume=True)
    lines: list[str] = []
    ingest(
        [tmp_path / "in"], tmp_path / "out", triples_file=tmp_path / "none.jsonl", workers=1, resume=True,
        progress=lambda event: lines.append(str(event)),
    )  # fmt: skip
    assert any(line.startswith("read before: 1 of 2 pages") for line in lines)
    assert table(open_corpus(tmp_path / "out"), "a_p002").continues == "a_p001_table0"

"""Files that are damaged, odd or hostile: each goes in, or is refused by name, and costs no other.

All small files are read in one run, which the tests of this module look at; the file of 5,000 pages and the image of 400 million
pixels have runs of their own. It all took 45 s on two cores that had other work too, of which 8 s for the 5,000 pages.
"""

from __future__ import annotations

import io
import json
import resource
import subprocess
import sys
import tarfile
import unicodedata
from collections.abc import Iterator
from difflib import SequenceMatcher
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pymupdf
import pytest
from PIL import Image

from rag.corpus import Corpus, check_corpus, open_corpus
from rag.errors import DocumentError, OcrUnavailable, UsageError
from rag.ingest.build import ingest
from rag.ingest.fold import fold
from rag.ingest.languages import check_languages
from rag.ingest.limits import Limits
from rag.ingest.page_images import load_page_image
from rag.ingest.publaynet import read_shards
from rag.ingest.report import PageReport, Report
from rag.types import BBox, Crop, Word
from tests.ingest import hard
from tests.ingest.pages import BODY, HARD, hard_input, iou

CJK = (
    "放射免疫疗法延长了患者的生存时间。试验共纳入三十七名患者。",
    "放射免疫療法は患者の生存期間を延長した。",
    "방사선 면역 요법은 생존 기간을 늘렸다.",
)
ARABIC = "هذا نص عربي قصير يتحدث عن مرضى ورم دبقي. شارك سبعون مريضا في 3 تجارب."
MARKUP = "<img src=x onerror=alert(1)>"
LONG = "x" * 240
BODY_END = "who have to act on them."


def small_files() -> dict[str, bytes]:
    """File name -> content."""
    whole = hard.numbered_pages(6)
    files = {
        "locked": hard.encrypted("secret"),
        "readonly": hard.encrypted(""),
        "truncated": whole[: len(whole) // 2],
        "beheaded": whole[: len(whole) // 10],
        "nopages": hard.no_pages(),
        "whole": whole,
        "same": whole,
        "metres": hard.five_metres(),
        "cropped": hard.turned(0, "[30 40 570 790]"),
        "columns2": hard.columns(2)[0],
        "columns3": hard.columns(3)[0],
        "short": hard.short_columns()[0],
        "cjk": hard.html("".join(f"<p>{line}</p>" for line in CJK)),
        "arabic": hard.html(f'<p dir="rtl">{ARABIC}</p>'),
        "maths": hard.html("<p>The hazard is λ₀(t)·exp(β₁x₁ + β₂x²), where ∑ᵢ αᵢ ≤ ∞ and x ∈ ℝ, for all patients.</p>"),
        "ligatures": hard.html(
            "<p>The e\ufb03cient \ufb01rst o\ufb00er of \ufb02owers is in the o\ufb04ine \ufb01le.</p>"
        ),
        "hyphens": hard.soft_hyphens(),
        "drawn": hard.drawn_text(),
        "cid": hard.without_unicode(),
        "odd": hard.odd_unicode(),
        "bare_table": hard.table_without_rules(),
        "merged_cells": hard.table_with_merged_cells(),
        "turned_table": hard.turned_table(),
        "long_table": hard.table_across_pages(),
        "panels": hard.four_panels()[0],
        "paths": hard.many_paths()[0],
        "apart": hard.two_figures_with_one_caption("apart"),
        "beside": hard.two_figures_with_one_caption("beside"),
        "script": hard.with_script_and_attachment(),
        "bomb": hard.bomb(20, 300),
        "plan": hard.bomb(20_000, 1),
        MARKUP: hard.numbered_pages(2),
        LONG: hard.numbered_pages(1),
    }
    files |= {f"turned{degrees}": hard.turned(degrees) for degrees in (90, 180, 270)}
    files |= {f"caption_{place}": hard.captioned(place) for place in hard.CAPTION_PLACES}
    return {f"{name}.pdf": content for name, content in files.items()}


class Built(NamedTuple):
    """The corpus of all small files."""

    corpus: Corpus
    report: Report

    def page(self, document: str, number: int = 1) -> PageReport:
        (found,) = [p for p in self.report.pages if (p.document, p.number) == (document, number)]
        return found

    def text(self, document: str, number: int = 1) -> str:
        return self.corpus.page_text(f"{document}_p{number:03d}")

    def crops(self, document: str, number: int = 1) -> list[Crop]:
        return [crop for crop in self.corpus.crops.values() if crop.page_id == f"{document}_p{number:03d}"]

    def word(self, document: str, text: str) -> Word:
        page, whole = f"{document}_p001", self.text(document)
        return next(word for word in self.corpus.words_on(page) if whole[word.start : word.end] == text)

    def refusal(self, name: str) -> str:
        (line,) = [line for line in self.report.refused if name in line]
        return line


@pytest.fixture(scope="module")
def no_triples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("triples") / "none.jsonl"
    file.write_text("")
    return file


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory, no_triples: Path) -> Iterator[Built]:
    folder = tmp_path_factory.mktemp("hard")
    hard.write(folder / "in", small_files())
    found = [file for name in ("jo", "zen_of_python_corrupted") if (file := HARD / f"pdfminer-{name}.pdf").is_file()]
    report = ingest([folder / "in", *found], folder / "out", triples_file=no_triples)
    assert check_corpus(folder / "out") == []
    yield Built(open_corpus(folder / "out"), report)


def needs_tesseract() -> None:
    try:
        check_languages("eng")
    except OcrUnavailable as error:
        pytest.skip(str(error))


# --- locked, damaged, empty ------------------------------------------------------------------------------------------


def test_an_encrypted_file_goes_in_if_its_password_is_empty(built: Built) -> None:
    assert BODY_END in built.text("readonly")
    assert "needs a password" in built.refusal("locked.pdf")
    assert "locked" not in built.corpus.documents


def test_of_a_truncated_file_what_is_left_goes_in_and_is_said_to_be_incomplete(built: Built) -> None:
    assert built.text("truncated", 1).startswith("This is page 1.")
    assert any(note.startswith("truncated.pdf is damaged") and "missing" in note for note in built.report.notes)
    lost = [page for page in built.report.pages if page.document == "truncated" and page.status == "empty"]
    assert lost and all("file is damaged" in page.note for page in lost)
    assert not any("whole.pdf is damaged" in note for note in built.report.notes)


def test_a_file_damaged_beyond_repair_is_refused_without_its_place_on_the_disk(built: Built) -> None:
    refusal = built.refusal("beheaded.pdf")
    assert refusal.startswith("beheaded.pdf is damaged and can't be opened")
    assert "/" not in refusal


def test_a_file_without_pages_is_refused(built: Built) -> None:
    assert built.refusal("nopages.pdf").startswith("nopages.pdf has no pages")


def test_five_thousand_empty_pages_are_kept_and_each_is_said_to_be_blank(tmp_path: Path, no_triples: Path) -> None:
    """The pages are small, so that the time goes into the number and not into the pixels."""
    hard.write(tmp_path / "in", {"a.pdf": hard.empty_pages(5000, side=100), "b.pdf": hard.numbered_pages(1)})
    report = ingest([tmp_path / "in"], tmp_path / "out", triples_file=no_triples, workers=1)
    blank = [page for page in report.pages if page.document == "a"]
    assert [page.number for page in blank] == list(range(1, 5001))
    assert {(page.status, page.note) for page in blank} == {("empty", "This page has no text layer: it is blank.")}
    corpus = open_corpus(tmp_path / "out")
    assert len(corpus.pages) == 5001
    with Image.open(corpus.root / corpus.pages["a_p5000"].image) as image:
        assert image.convert("RGB").getextrema() == ((255, 255),) * 3
    assert corpus.page_text("b_p001").startswith("This is page 1.")


def test_empty_pages_alone_make_no_corpus(tmp_path: Path, no_triples: Path) -> None:
    hard.write(tmp_path / "in", {"a.pdf": hard.empty_pages(20)})
    with pytest.raises(DocumentError, match=r"No text could be read.*it is blank"):
        ingest([tmp_path / "in"], tmp_path / "out", triples_file=no_triples, workers=1)
    assert not (tmp_path / "out").exists()


def test_the_same_file_goes_in_once(built: Built, tmp_path: Path, no_triples: Path) -> None:
    # "same.pdf" comes before "whole.pdf".
    assert "whole" not in built.corpus.documents
    assert "whole.pdf has the same content as same.pdf and was left out." in built.report.notes
    hard.write(tmp_path / "in", {"a.pdf": hard.numbered_pages(1)})
    file = tmp_path / "in" / "a.pdf"
    report = ingest(
        [file, tmp_path / "in" / ".." / "in" / "a.pdf"], tmp_path / "out", triples_file=no_triples, workers=1
    )
    assert list(open_corpus(tmp_path / "out").pages) == ["a_p001"]
    assert report.notes == ["a.pdf was given twice and taken once."]


# --- pages of odd shapes ---------------------------------------------------------------------------------------------


def square_box(corpus: Corpus, image: str, box: BBox, turn: int = 0) -> BBox:
    """Where the blue square lies in an image that shows `box` turned clockwise by so many degrees, in points."""
    with Image.open(corpus.root / image) as opened:
        pixels = np.asarray(opened.convert("RGB").rotate(turn, expand=True)).astype(int)
    rows, columns = np.nonzero((pixels[..., 2] > 180) & (pixels[..., 0] < 90) & (pixels[..., 1] < 90))
    across, down = (box[2] - box[0]) / pixels.shape[1], (box[3] - box[1]) / pixels.shape[0]
    return (
        box[0] + float(columns.min()) * across,
        box[1] + float(rows.min()) * down,
        box[0] + float(columns.max() + 1) * across,
        box[1] + float(rows.max() + 1) * down,
    )


def close(a: BBox, b: BBox, within: float) -> bool:
    return all(abs(p - q) < within for p, q in zip(a, b, strict=True))


@pytest.mark.parametrize("degrees", [90, 180, 270])
def test_the_crop_of_a_turned_page_stands_upright(built: Built, degrees: int) -> None:
    """The plot is wider than high, and its square is at the upper right, as the page is shown."""
    (crop,) = built.crops(f"turned{degrees}")
    with Image.open(built.corpus.root / crop.image) as image:
        width, height = image.size
    x0, y0, x1, y1 = square_box(built.corpus, crop.image, (0, 0, 1, 1))
    assert width > height and x0 > 0.7 and y1 < 0.35 and x1 <= 1 and y0 >= 0


@pytest.mark.parametrize("degrees", [90, 180, 270])
def test_crops_and_words_of_a_turned_page_lie_where_they_are_before_turning(built: Built, degrees: int) -> None:
    name = f"turned{degrees}"
    page = built.corpus.pages[f"{name}_p001"]
    assert (page.width_pt, page.height_pt) == hard.SIZE
    with pymupdf.open("pdf", hard.turned(degrees)) as pdf:
        back = ~pdf[0].rotation_matrix
        (word,) = pdf[0].search_for("randomisation")  # on the page before turning
    square: BBox = tuple(pymupdf.Rect(hard.SQUARE) * back)
    (crop,) = built.crops(name)
    assert crop.caption == "Figure 1: Survival in the two arms."
    assert close(square_box(built.corpus, page.image, (0, 0, *hard.SIZE)), square, 2.5)
    assert close(square_box(built.corpus, crop.image, crop.bbox, degrees), square, 2.5)
    assert iou(built.word(name, "randomisation.").bbox, tuple(word)) > 0.7


def test_boxes_count_from_the_corner_of_the_crop_box(built: Built) -> None:
    page = built.corpus.pages["cropped_p001"]
    square: BBox = (340, 270, 360, 290)  # the crop box is 30 points in and 10 below the top
    (crop,) = built.crops("cropped")
    assert (page.width_pt, page.height_pt) == (540, 750)
    assert close(square_box(built.corpus, page.image, (0, 0, 540, 750)), square, 2.5)
    assert close(square_box(built.corpus, crop.image, crop.bbox), square, 2.5)
    assert close(built.word("cropped", "survival").bbox, (119, 122, 153, 136), 6)


def test_a_page_of_five_metres_is_read_and_its_image_stays_small(built: Built) -> None:
    page = built.corpus.pages["metres_p001"]
    assert (page.width_pt, page.height_pt) == pytest.approx((14174, 14174), abs=1)
    assert BODY_END.split()[-1] in built.text("metres")
    assert "forty metres long" in " ".join(r.text for r in built.corpus.regions.values() if r.page_id == page.id)
    width, height = built.corpus.image_size(page.image)
    assert width * height <= 16_100_000
    box = built.word("metres", "survival").bbox
    assert 1000 < box[0] < box[2] < 13_000 and box[3] - box[1] > 150


def test_an_image_of_400_million_pixels_is_refused_before_it_is_unpacked(
    built: Built, tmp_path: Path, no_triples: Path
) -> None:
    png = hard.large_png(20_000)
    assert len(png) < 1_000_000
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(DocumentError, match=r"plan\.png has too many pixels.*FUSEBOX_MAX_PIXELS"):
        load_page_image(png, name="plan.png")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 40_000  # KB; the pixels are 50,000 and up
    hard.write(tmp_path / "in", {"a.pdf": hard.numbered_pages(1), "plan.png": png})
    report = ingest([tmp_path / "in"], tmp_path / "out", triples_file=no_triples, workers=1)
    assert [line.split()[0] for line in report.refused] == ["plan.png"]
    # The same in a page of a PDF costs the page.
    assert built.page("plan").status == "refused"
    assert "20,000 x 20,000 pixels" in built.refusal("page 1 of plan") and "FUSEBOX_MAX_PIXELS" in built.refusal("plan")


# --- text ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [2, 3])
def test_columns_are_read_one_after_the_other(built: Built, count: int) -> None:
    assert built.text(f"columns{count}").split() == hard.columns(count)[1]


def test_short_columns_are_read_one_after_the_other(built: Built) -> None:
    words = hard.short_columns()[1]
    assert built.text("short").split()[: len(words)] == words


def test_chinese_japanese_and_korean(built: Built) -> None:
    assert built.text("cjk") == " ".join(CJK)


@pytest.mark.parametrize(
    ("name", "text"),
    [("pdfminer-jo", "因果交流電燈の"), ("pdfminer-zen_of_python_corrupted", "Beautiful is better than")],
)
def test_columns_of_japanese_and_a_page_on_its_side_without_a_cross_reference(
    built: Built, name: str, text: str
) -> None:
    hard_input(f"{name}.pdf")
    assert text in built.text(name)
    assert built.page(name).status == "ok"


def test_arabic_is_read_from_the_right(built: Built) -> None:
    assert built.text("arabic") == ARABIC
    x = {word: built.word("arabic", word).bbox[0] for word in ("هذا", "شارك")}
    assert x["هذا"] > x["شارك"]
    assert fold("\ufefb\ufeed") == "لاو"  # shapes of letters become letters


def test_mathematics_keeps_its_letters(built: Built) -> None:
    text = built.text("maths")
    assert "where ∑i αi ≤ ∞ and x ∈ R, for all patients." in text
    assert "λ0(t)·exp(β1x1 + β2x2)" in text


def test_ligatures_are_spelled_out_and_soft_hyphens_gone(built: Built) -> None:
    assert built.text("ligatures") == "The efficient first offer of flowers is in the offline file."
    text = built.text("hyphens")
    assert "randomised to radioimmunotherapy or to no treatment at all" in text
    assert "physicians knew" in text


@pytest.mark.parametrize("name", ["drawn", "cid"])
def test_what_has_no_usable_text_layer_is_read_from_its_pixels(built: Built, name: str) -> None:
    """Text drawn as paths, and a font without a Unicode map, of which nothing must be left."""
    needs_tesseract()
    page = built.page(name)
    assert page.status == "ocr" and built.corpus.pages[f"{name}_p001"].source == "ocr"
    read, written = built.text(name).split(), " ".join(hard.SENTENCES).split()
    assert SequenceMatcher(None, read, written, autojunk=False).ratio() > 0.9
    assert abs(len(read) - len(written)) <= 3


def test_an_unreadable_text_layer_is_no_text_where_ocr_is_missing(
    tmp_path: Path, no_triples: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TESSDATA_PREFIX", str(tmp_path))  # no model lies there
    hard.write(tmp_path / "in", {"a.pdf": hard.without_unicode(), "b.pdf": hard.numbered_pages(1)})
    report = ingest([tmp_path / "in"], tmp_path / "out", triples_file=no_triples, workers=1)
    page = report.pages[0]
    assert page.status == "empty" and page.note.startswith("The fonts of this page carry no Unicode map")
    assert open_corpus(tmp_path / "out").page_text("a_p001") == ""


def test_no_control_character_or_lone_surrogate_gets_into_a_table(built: Built) -> None:
    assert "Alpha begins the story of the trial" in built.text("odd")
    assert built.corpus.documents["odd"].title == "A title of two lines"  # its control characters are dropped
    rows = [line for table in built.corpus.root.glob("*.jsonl") for line in table.read_text("utf-8").splitlines()]
    texts = [text for row in rows for text in strings(json.loads(row))]
    assert len(texts) > 500
    bad = {char for text in texts for char in text if unicodedata.category(char) in ("Cc", "Cs", "Co", "Cn")}
    assert bad <= {"\n"}


def strings(value: object) -> Iterator[str]:
    """All texts in a JSON value."""
    if isinstance(value, str):
        yield value
    for part in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from strings(part)


# --- tables ----------------------------------------------------------------------------------------------------------


def lines_of(rows: tuple[hard.Row, ...]) -> list[str]:
    return [" | ".join(f"{name}: {cell}" for name, cell in zip(hard.HEADER, row, strict=True)) for row in rows]


def test_a_table_without_rules(built: Built) -> None:
    (crop,) = built.crops("bare_table")
    assert (crop.kind, crop.caption) == ("table", "Table 1: Deaths by histology.")
    assert crop.ocr_text.splitlines() == lines_of(hard.TABLE)


def test_a_table_with_merged_cells_says_in_each_row_what_holds_for_it(built: Built) -> None:
    (crop,) = built.crops("merged_cells")
    first, second, third, fourth = crop.ocr_text.splitlines()
    assert first.startswith("Arm: Treated | ") and "Outcome Deaths: 7 | Outcome Median: 31.0" in first
    assert second.startswith("Arm: Treated | ") and "female" in second and "Outcome Deaths: 5" in second
    assert third.startswith("Arm: Control | ") and fourth.startswith("Arm: Control | ")


def test_a_table_on_its_side_is_read_like_any_other(built: Built) -> None:
    (crop,) = built.crops("turned_table")
    assert (crop.kind, crop.caption) == ("table", "Table 3: Deaths by histology.")
    assert crop.ocr_text.splitlines() == lines_of(hard.TABLE)
    # It runs up the page: the caption stands to its left, and its rows from left to right.
    assert crop.bbox[0] > built.word("turned_table", "Table").bbox[2]
    first, last = (built.word("turned_table", label).bbox for label in ("Glioblastoma", "Ependymoma"))
    assert first[2] < last[0] and first[3] - first[1] > first[2] - first[0]


def test_a_table_across_two_pages_has_its_header_on_both(built: Built) -> None:
    first, second = (built.crops("long_table", number) for number in (1, 2))
    assert [crop.caption for crop in (*first, *second)] == ["Table 4: Deaths by histology.", "Table 4: (continued)"]
    assert first[0].ocr_text.splitlines() == lines_of(hard.TABLE[:2])
    assert second[0].ocr_text.splitlines() == ["Table 4: Deaths by histology.", *lines_of(hard.TABLE[2:])]


# --- figures ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "box", "caption"),
    [
        ("panels", hard.four_panels()[1], "Figure 2: Survival in four arms, by the product-limit method."),
        ("paths", hard.many_paths()[1], "Figure 3: Age and tumour size of all women."),
    ],
)
def test_panels_and_hundreds_of_paths_are_one_figure(built: Built, name: str, box: BBox, caption: str) -> None:
    (crop,) = built.crops(name)
    assert (crop.kind, crop.caption) == ("figure", caption)
    assert iou(crop.bbox, box) > 0.93


@pytest.mark.parametrize("place", hard.CAPTION_PLACES)
def test_a_caption_above_below_or_beside(built: Built, place: str) -> None:
    (crop,) = built.crops(f"caption_{place}")
    assert crop.caption == "Figure 4: Overall survival of the women, by hormonal therapy."
    assert crop.bbox[2] < 340  # the caption is no part of the figure


@pytest.mark.parametrize(("name", "start"), [("apart", "Figures 5 and 6: "), ("beside", "Figure 7: ")])
def test_two_figures_with_one_caption_both_have_it(built: Built, name: str, start: str) -> None:
    first, second = built.crops(name)
    assert first.caption == second.caption
    assert first.caption.startswith(start)
    assert iou(first.bbox, second.bbox) == 0.0


# --- files that mean harm --------------------------------------------------------------------------------------------


def test_scripts_and_attachments_are_left_alone(built: Built) -> None:
    assert BODY_END in built.text("script")
    everything = b"".join(file.read_bytes() for file in built.corpus.root.rglob("*") if file.is_file())
    assert b"the script ran" not in everything and b"the attachment ran" not in everything
    assert not list(built.corpus.root.parent.parent.rglob("evil.sh"))


def test_a_bomb_in_an_image_goes_off_outside_memory(built: Built) -> None:
    """300 MB of zeros in 5 KB of a page whose image says that it has 400 pixels."""
    assert BODY_END in built.text("bomb")


INGEST_ALONE = """
import resource, sys
from rag.ingest.build import ingest
ingest([sys.argv[1]], sys.argv[2], workers=1)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""


def test_a_bomb_takes_no_memory_in_its_reader(tmp_path: Path) -> None:
    """In a process of its own, whose children are this ingestion's readers and nobody else's."""
    hard.write(tmp_path, {"bomb.pdf": hard.bomb(20, 300)})
    done = subprocess.run(
        [sys.executable, "-c", INGEST_ALONE, str(tmp_path / "bomb.pdf"), str(tmp_path / "out")],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=True,
    )
    assert int(done.stdout) < 1_200_000  # KB


def test_a_name_with_markup_or_of_many_letters_is_a_name(built: Built) -> None:
    assert f"{MARKUP}_p001" in built.corpus.pages
    assert built.corpus.documents[MARKUP].file == f"{MARKUP}.pdf"
    assert BODY_END in built.text(MARKUP)
    assert built.text("x" * 100).startswith("This is page 1.")
    assert built.corpus.documents["x" * 100].file == f"{LONG}.pdf"


def test_a_name_that_no_file_system_takes_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"File name too long") as caught:
        ingest([tmp_path / f"{'x' * 300}.pdf"], tmp_path / "out")
    assert len(str(caught.value)) < 250


def test_a_path_that_climbs_out_names_a_document_and_no_place(tmp_path: Path, no_triples: Path) -> None:
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    hard.write(tmp_path, {"x.pdf": hard.numbered_pages(1)})
    report = ingest([inner / ".." / ".." / "x.pdf"], inner / "out", triples_file=no_triples, limits=Limits(files=1))
    assert list(open_corpus(inner / "out").pages) == ["x_p001"]
    assert report.refused == []
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a", "x.pdf"]
    assert [file.name for file in inner.iterdir()] == ["out"]


def test_a_source_that_climbs_out_of_json_lines_names_no_file(tmp_path: Path, no_triples: Path) -> None:
    rows = [{"source": "../../x", "text": BODY}, {"source": MARKUP, "text": "A\ud800 \x00\x1b\u202e" + BODY}]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, rows)))
    ingest([tmp_path / "a.jsonl"], tmp_path / "out", triples_file=no_triples, workers=1)
    corpus = open_corpus(tmp_path / "out")
    assert check_corpus(tmp_path / "out") == []
    assert list(corpus.pages) == ["../../x", MARKUP]
    assert not {"\x00", "\x1b", "\ud800"} & set(corpus.page_text(MARKUP))
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a.jsonl", "out"]


def test_members_of_a_shard_that_climb_out_name_pages_and_no_places(tmp_path: Path) -> None:
    """A shard is read as a stream and never unpacked; links in it lead nowhere."""
    picture = io.BytesIO()
    Image.new("L", (40, 50), 255).save(picture, "PNG")
    annotations = json.dumps({"annotations": [{"category_id": 1, "bbox": [1, 1, 9, 9]}]}).encode()
    with tarfile.open(tmp_path / "pages.tar", "w") as tar:
        for name in ("../../x", f"/etc/{MARKUP}"):
            for suffix, content in (("png", picture.getvalue()), ("json", annotations)):
                member = tarfile.TarInfo(f"{name}.{suffix}")
                member.size = len(content)
                tar.addfile(member, io.BytesIO(content))
        link = tarfile.TarInfo("link.png")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(link)
    refused: list[DocumentError] = []
    pages = list(read_shards([tmp_path / "pages.tar"], refuse=refused.append))
    assert [page.stem for page in pages] == ["x", MARKUP]
    assert [file.name for file in tmp_path.iterdir()] == ["pages.tar"]

"""Reading pages from pixels: words and where they stand, reading order, turned and askew pages, annotated regions."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from difflib import SequenceMatcher
from pathlib import Path

import pymupdf
import pytest
from PIL import Image

from rag.errors import OcrUnavailable
from rag.ingest.languages import Offer, check_languages, data_folder, offered
from rag.ingest.layout import LayoutBox
from rag.ingest.ocr import OcrWord, as_caption, page_words, read_image, reading_order, sure_in_tables
from rag.ingest.page_images import load_page_image
from rag.ingest.pdf import PageContent, render
from rag.ingest.publaynet import Annotation, AnnotationKind, read_folder
from rag.types import BBox
from tests.ingest.pages import BODY, blank, draw_plot, iou, write_text

DPI = 150
EXAMPLES = Path(__file__).resolve().parents[3] / "shared" / "data" / "publaynet-examples"


@pytest.fixture(autouse=True)
def _tesseract() -> None:
    try:
        check_languages("eng")
    except OcrUnavailable as error:
        pytest.skip(str(error))


def read(page: pymupdf.Page, regions: Sequence[tuple[AnnotationKind, BBox]] | None = None) -> PageContent:
    """The page by its pixels; `regions` in points."""
    annotations = None
    if regions is not None:
        annotations = [Annotation(kind, tuple(v * DPI / 72 for v in box)) for kind, box in regions]
    return read_image(render(page, dpi=DPI), document="d", number=3, dpi=DPI, annotations=annotations)


def alike(found: str, written: str) -> float:
    """Share of letters in common, in order, 0..1."""
    return SequenceMatcher(None, found.split(), written.split(), autojunk=False).ratio()


def plain_page() -> pymupdf.Page:
    page = blank()
    write_text(page, (72, 90, 530, 400), BODY * 4, size=11)
    return page


def test_text_and_words_where_they_stand() -> None:
    page = plain_page()
    content = read(page)
    assert (content.document, content.number, content.source, content.note) == ("d", 3, "ocr", "")
    assert (content.width_pt, content.height_pt) == pytest.approx((600, 800), abs=0.5)
    assert alike(content.text, BODY * 4) > 0.97
    first = next(box for text, box in content.words if text == "hazards")
    written = tuple(page.search_for("hazards")[0])
    # MuPDF's boxes have the height of the font, Tesseract's that of the ink.
    assert abs(first[0] - written[0]) < 2
    assert abs(first[2] - written[2]) < 2
    assert written[1] - 1 < first[1] < first[3] < written[3] + 1


@pytest.mark.parametrize("count", [2, 3])
def test_columns_are_read_one_after_the_other(count: int) -> None:
    words = [f"{BODY.split()[k % 50].strip('.,')}" for k in range(60 * count)]
    page = blank()
    width = 480 / count
    texts = [" ".join(words[60 * k : 60 * (k + 1)]) for k in range(count)]
    for k, text in enumerate(texts):
        left = 60 + k * width
        write_text(page, (left, 90, left + width - 24, 600), text, size=10)
    assert alike(read(page).text, " ".join(texts)) > 0.95


def test_words_broken_at_line_ends_are_mended() -> None:
    page = blank()
    for k, line in enumerate(("The patients were followed for a median of seven years and no treat-",
                              "ment was changed in that time unless a relapse made it necessary.")):  # fmt: skip
        page.insert_text((72, 120 + 14 * k), line, fontname="tiro", fontsize=11)
    content = read(page)
    assert "treatment was changed" in content.text
    assert {"treat-", "ment"} <= {text for text, _ in content.words}


# --- turned and askew ------------------------------------------------------------------------------------------------

# Where the point (x, y) of a page of 600 x 800 points is after turns counter-clockwise.
TURNS: dict[int, Callable[[float, float], tuple[float, float]]] = {
    90: lambda x, y: (y, 600 - x),
    180: lambda x, y: (600 - x, 800 - y),
    270: lambda x, y: (800 - y, x),
}


@pytest.mark.parametrize("degrees", sorted(TURNS))
def test_a_page_on_its_side_or_upside_down(degrees: int) -> None:
    page = plain_page()
    image = render(page, dpi=DPI).rotate(degrees, expand=True)
    content = read_image(image, document="d", number=1, dpi=DPI)
    assert alike(content.text, BODY * 4) > 0.95
    assert content.turn == degrees  # clockwise, back
    assert content.width_pt == pytest.approx(600 if degrees == 180 else 800, abs=0.5)
    found = next(box for text, box in content.words if text == "hazards")
    x0, y0, x1, y1 = page.search_for("hazards")[0]
    corners = TURNS[degrees](x0, y0), TURNS[degrees](x1, y1)
    xs, ys = (sorted(values) for values in zip(*corners, strict=True))
    assert iou(found, (xs[0], ys[0], xs[1], ys[1])) > 0.4
    assert all(0 <= box[0] <= box[2] <= content.width_pt + 0.5 for _, box in content.words)


@pytest.mark.parametrize("degrees", [-4.0, 2.5])
def test_a_page_askew(degrees: float) -> None:
    page = plain_page()
    image = render(page, dpi=DPI).rotate(degrees, Image.Resampling.BICUBIC, fillcolor="white")
    content = read_image(image, document="d", number=1, dpi=DPI)
    assert alike(content.text, BODY * 4) > 0.95
    found = next(box for text, box in content.words if text == "hazards")
    x0, y0, x1, y1 = page.search_for("hazards")[0]
    angle = math.radians(degrees)
    x, y = (x0 + x1) / 2 - 300, (y0 + y1) / 2 - 400
    expected = 300 + x * math.cos(angle) + y * math.sin(angle), 400 - x * math.sin(angle) + y * math.cos(angle)
    assert ((found[0] + found[2]) / 2, (found[1] + found[3]) / 2) == pytest.approx(expected, abs=3)


# --- annotated regions -----------------------------------------------------------------------------------------------

ROWS = (("Arm", "Patients", "Deaths"), ("Control", "120", "34"), ("Treated", "118", "21"), ("Crossover", "14", "3"))


def annotated_page() -> tuple[pymupdf.Page, list[tuple[AnnotationKind, BBox]]]:
    """A title over two columns: text and a captioned plot; a captioned table and text. Regions in no order."""
    page = blank()
    page.insert_text((60, 80), "Survival after the trial", fontname="hebo", fontsize=16)
    write_text(page, (60, 110, 280, 300), BODY, size=10)
    plot = draw_plot(page, (100, 360, 270, 480))
    page.insert_text((60, 540), "Figure 1. Survival of both arms over time.", fontname="tiro", fontsize=10)
    page.insert_text((320, 120), "Table 2. Patients and deaths by arm.", fontname="tiro", fontsize=10)
    for k, row in enumerate(ROWS):
        for x, cell in zip((320, 420, 500), row, strict=True):
            page.insert_text((x, 145 + 16 * k), cell, fontname="tiro", fontsize=10)
    write_text(page, (320, 300, 540, 500), BODY[::-1].title()[::-1], size=10)
    return page, [
        ("text", (318, 298, 542, 420)),
        ("table", (316, 134, 540, 200)),
        ("text", (318, 110, 500, 124)),
        ("figure", plot),
        ("text", (58, 530, 280, 544)),
        ("text", (58, 108, 282, 240)),
        ("title", (58, 64, 300, 86)),
    ]


def test_annotated_regions_decide() -> None:
    page, regions = annotated_page()
    content = read(page, regions)
    assert content.source == "annotated ocr"
    assert sorted(region.kind for region in content.regions) == sorted(
        ["section-header", "text", "picture", "caption", "caption", "table", "text"]
    )
    assert content.text.index("The survival curves") < content.text.index("Table 2.")
    assert content.text.startswith("Survival after the trial\n\nThe survival curves differ")
    figure, table = content.crops
    assert (figure.kind, figure.caption) == ("figure", "Figure 1. Survival of both arms over time.")
    assert figure.bbox == pytest.approx(regions[3][1], abs=0.5)
    assert "Years" in figure.ocr_text
    assert (table.kind, table.caption) == ("table", "Table 2. Patients and deaths by arm.")
    assert table.ocr_text.splitlines() == [
        "Arm: Control | Patients: 120 | Deaths: 34",
        "Arm: Treated | Patients: 118 | Deaths: 21",
        "Arm: Crossover | Patients: 14 | Deaths: 3",
    ]


def test_the_order_of_the_annotations_does_not_matter() -> None:
    page, regions = annotated_page()
    shuffled = random.Random(3).sample(regions, len(regions))
    assert read(page, shuffled).text == read(page, regions).text


def test_what_lies_outside_the_regions_is_not_read() -> None:
    page, regions = annotated_page()
    content = read(page, regions[-1:])
    assert content.text == "Survival after the trial"
    assert content.crops == ()


def test_regions_off_the_page_or_empty_are_passed_over() -> None:
    content = read(plain_page(), [("text", (700, 10, 800, 50)), ("figure", (5, 5, 5, 5)), ("text", (60, 80, 900, 400))])
    assert [region.kind for region in content.regions] == ["text"]
    assert content.regions[0].bbox[2] <= 600.5


@pytest.mark.parametrize("regions", [None, [], [("text", (50.0, 50.0, 500.0, 100.0))]])
def test_a_page_without_text_is_kept_and_said(regions: list[tuple[AnnotationKind, BBox]] | None) -> None:
    content = read(blank(), regions)
    assert (content.text, content.words) == ("", ())
    assert content.note == "No running text was found on this page by OCR."


def test_a_page_of_one_pixel() -> None:
    assert read_image(Image.new("RGB", (1, 1)), document="d", number=1, dpi=72).text == ""


def test_annotated_text_level_with_a_label_in_a_figure_is_no_running_head() -> None:
    page = blank()
    page.draw_rect((60, 40, 280, 200))
    page.insert_text((70, 60), "100", fontname="tiro", fontsize=11)
    page.insert_text((340, 60), "Allergic sensitization in asthma.", fontname="tiro", fontsize=11)
    write_text(page, (320, 90, 540, 300), BODY, size=10)
    content = read(page, [("figure", (58, 38, 282, 202)), ("text", (338, 48, 520, 64)), ("text", (318, 88, 542, 220))])
    assert content.crops[0].ocr_text == "100"
    assert [region.text for region in content.regions if region.kind == "picture"] == ["100"]
    assert [region.kind for region in content.regions if region.kind != "picture"] == ["text", "text"]
    assert content.text.startswith("Allergic sensitization in asthma.\n\nThe surv")


def test_a_page_number_that_is_annotated_as_text_is_text() -> None:
    page = plain_page()
    page.insert_text((500, 60), "117", fontname="tiro", fontsize=11)
    content = read(page, [("text", (495, 48, 525, 64)), ("text", (70, 88, 532, 402))])
    assert content.text.startswith("117\n\n")


def test_an_annotated_region_without_text_is_said() -> None:
    content = read(
        plain_page(), [("text", (60, 80, 540, 400)), ("text", (60, 600, 300, 612)), ("figure", (60, 700, 90, 720))]
    )
    assert content.note == (
        "No text was found by OCR in 1 of the annotated regions (text at 60, 600; points from the top left)."
    )
    many: list[tuple[AnnotationKind, BBox]] = [("text", (60, 500 + 20 * k, 300, 512 + 20 * k)) for k in range(5)]
    note = read(plain_page(), [("text", (60, 80, 540, 400)), *many]).note
    assert "in 5 of" in note
    assert "text at 60, 540; ...;" in note


# --- captions and cells ----------------------------------------------------------------------------------------------

FIGURE, TABLE = (LayoutBox((50.0, 100.0, 300.0, 300.0), kind) for kind in ("picture", "table"))


def words_from(text: str, top: float, confidence: float = 96.0) -> list[OcrWord]:
    """Words in a row from x = 60 on, the first one read with this confidence."""
    return [
        OcrWord(word, (60 + 30 * k, top, 85 + 30 * k, top + 8), 96.0 if k else confidence, top + 7, 9.0, 1)
        for k, word in enumerate(text.split())
    ]


def kind_of(text: str, near: LayoutBox, *, down: float = 5.0, right: float = 0.0, confidence: float = 96.0) -> str:
    """What becomes of a text region so far below a figure or table."""
    top = near.bbox[3] + down
    box = LayoutBox((55 + right, top - 1, 290 + right, top + 9), "text")
    words = [word._replace(bbox=(word.bbox[0] + right, *word.bbox[1:])) for word in words_from(text, top, confidence)]
    words = [word._replace(bbox=(word.bbox[0], word.bbox[1], word.bbox[0] + 25, word.bbox[3])) for word in words]
    return as_caption(box, [near, box], words).kind


@pytest.mark.parametrize(
    ("text", "near", "confidence"),
    [
        ("Table 5 Spearman coefficients", TABLE, 96),
        ("Table 3 - Spine radiosurgery", TABLE, 96),
        ("TABLE IV Patients", TABLE, 96),
        ("Fig. 2 Automated counting", FIGURE, 96),
        ("Fig. 7. is negatively correlated", FIGURE, 96),
        ("Fig. 1", FIGURE, 96),
        ("Rig. 1. ERG data", FIGURE, 96),
        ("Rig. l ERG data", FIGURE, 47),
        ("Tanie b: Muscles", TABLE, 0),
        ("Ficuax lk The rate", FIGURE, 7),
    ],
)
def test_text_close_to_a_crop_with_its_label_is_its_caption(text: str, near: LayoutBox, confidence: float) -> None:
    wanted = "figure-caption" if near is FIGURE else "table-caption"
    assert kind_of(text, near, confidence=confidence) == wanted
    assert kind_of(text, near, down=25.0, confidence=confidence) == "text"
    assert kind_of(text, near, right=300.0, confidence=confidence) == "text"
    assert kind_of(text, TABLE if near is FIGURE else FIGURE, confidence=confidence) == "text"


@pytest.mark.parametrize(
    "text",
    ["The rate of change", "Table 5 shows the arms", "Figure 3 shows that", "Tablets were given", "First results"],
)
@pytest.mark.parametrize("near", [FIGURE, TABLE])
def test_text_close_to_a_crop_that_goes_on_from_elsewhere_is_no_caption(text: str, near: LayoutBox) -> None:
    assert kind_of(text, near) == "text"


def test_doubtful_words_count_in_sure_lines_of_text_but_not_in_tables() -> None:
    words = words_from("Garbled cell", 150, 12.0) + words_from("Garbled line", 400, 12.0)
    assert [word.text for word in sure_in_tables(words, [TABLE])] == ["cell", "Garbled", "line"]
    assert sure_in_tables(words, [FIGURE]) == words


# --- languages -------------------------------------------------------------------------------------------------------


def test_a_language_that_is_not_installed_is_named_with_its_package() -> None:
    with pytest.raises(OcrUnavailable, match=r"'tlh_old'.*apt-get install tesseract-ocr-tlh-old`"):
        read_image(Image.new("L", (50, 50)), document="d", number=1, dpi=72, languages="eng+tlh_old")


@pytest.mark.parametrize("odd", ["../../etc", "Eng", "", "x; reboot", "e" * 10_000 + "1"])
def test_what_is_no_language_name_gets_no_command(odd: str) -> None:
    with pytest.raises(OcrUnavailable, match="is no language name") as caught:
        check_languages(f"eng+{odd}")
    assert "apt-get" not in str(caught.value)
    assert len(str(caught.value)) < 200


def test_a_data_folder_without_languages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TESSDATA_PREFIX", str(tmp_path))
    with pytest.raises(OcrUnavailable, match=r"apt-get install tesseract-ocr-eng|language data was not found"):
        check_languages("eng")


def test_without_tesseract_no_language_is_offered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TESSDATA_PREFIX", raising=False)
    monkeypatch.setenv("PATH", "")
    assert offered(("eng",)).names == ()
    assert "apt-get install tesseract-ocr`" in offered(("eng",)).missing


def test_a_tesseract_that_does_not_name_its_folder_has_it_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command, data = tmp_path / "bin" / "tesseract", tmp_path / "share" / "tesseract-ocr" / "4.00" / "tessdata"
    command.parent.mkdir()
    command.write_text("#!/bin/sh\necho 'List of available languages (1):'\necho eng\n")
    command.chmod(0o755)
    monkeypatch.delenv("TESSDATA_PREFIX", raising=False)
    monkeypatch.setenv("PATH", f"{command.parent}")
    with pytest.raises(OcrUnavailable, match="language data was not found"):
        data_folder()
    data.mkdir(parents=True)
    assert data_folder() == data


def test_languages_on_offer_are_those_wanted_and_there_or_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("swe", "eng", "osd", "deu"):
        (tmp_path / f"{name}.traineddata").touch()
    monkeypatch.setenv("TESSDATA_PREFIX", str(tmp_path))
    assert offered() == Offer(("eng", "deu", "swe"))
    assert offered(("swe", "eng")) == Offer(("swe", "eng"))
    assert offered(("tlh",)).names == ("eng", "deu", "swe") and "tesseract-ocr-tlh" in offered(("tlh",)).missing


# --- reading order ---------------------------------------------------------------------------------------------------


def test_reading_order_across_columns_and_what_spans_them() -> None:
    boxes = {
        "title": (50, 40, 550, 60),
        "left 1": (50, 80, 290, 200),
        "left 2": (50, 210, 290, 300),
        "right 1": (310, 90, 550, 180),
        "right 2": (310, 190, 550, 300),
        "wide figure": (50, 320, 550, 500),
        "lower left": (50, 520, 290, 700),
        "lower right": (310, 515, 550, 700),
    }
    wanted = list(boxes)
    for seed in range(5):
        names = random.Random(seed).sample(wanted, len(wanted))
        order = reading_order([LayoutBox(boxes[name], name) for name in names])
        assert [box.kind for box in order] == wanted
    assert reading_order([]) == []


# --- real pages ------------------------------------------------------------------------------------------------------


def real_page(stem: str, *, is_annotated: bool = False) -> tuple[PageContent, tuple[Annotation, ...], float]:
    if not EXAMPLES.is_dir():
        pytest.skip("needs publaynet-examples in ../shared/data")
    page = next(page for page in read_folder(EXAMPLES) if page.stem == stem)
    image = load_page_image(page.image)
    annotations = page.annotations if is_annotated else None
    content = read_image(image.image, document=stem, number=1, dpi=image.dpi, annotations=annotations)
    return content, page.annotations, image.dpi


def test_a_real_page_has_its_figure_with_its_caption() -> None:
    content, annotations, dpi = real_page("PMC5618295_00004")
    (crop,) = content.crops
    wanted = next(region.bbox_px for region in annotations if region.kind == "figure")
    assert iou(crop.bbox, tuple(v * 72 / dpi for v in wanted)) > 0.8
    assert crop.caption.startswith("Figure 2. Immunotoxins comprising antibodies")


def test_a_real_page_has_its_table() -> None:
    content, annotations, dpi = real_page("PMC5678782_00005")
    (crop,) = content.crops
    wanted = next(region.bbox_px for region in annotations if region.kind == "table")
    assert crop.kind == "table"
    assert iou(crop.bbox, tuple(v * 72 / dpi for v in wanted)) > 0.8
    assert crop.caption.startswith("Table 5 Spearman")


def test_an_annotated_line_by_itself_is_read() -> None:
    """Tesseract finds none in it as a block."""
    content, _, _ = real_page("PMC5678782_00005", is_annotated=True)
    assert "for this study" in content.text
    assert content.note == ""


# Words of each crop's caption that are read well, by page; tables come last.
CAPTIONS = {
    "PMC3576793_00004": ["performance of eGFR equations"],
    "PMC3654277_00006": ["glycosamimoglycans in normal prostate"],
    "PMC3777717_00006": ["group by task interaction"],
    "PMC3863500_00003": ["Seventeen Periscapular muscles"],
    "PMC3976938_00002": ["rate of sensitization", "Serum total IgE", "Allergic sensitization in asthma"],
    "PMC4527132_00004": ["pan-G protein", "image"],
    "PMC4760359_00006": ["Spine radiosurgery"],
    "PMC4954804_00001": ["through the mandibular"],
    "PMC4972521_00010": ["negatively correlated"],
    "PMC5447509_00002": ["optical data"],
    "PMC5618295_00004": ["Immunotoxins comprising antibodies"],
    "PMC5678782_00005": ["4 factors of 16PF"],
}


def test_the_real_pages_crops_have_their_captions() -> None:
    if not EXAMPLES.is_dir():
        pytest.skip("needs publaynet-examples in ../shared/data")
    right = 0
    for page in read_folder(EXAMPLES):
        if not any(region.kind in ("figure", "table") for region in page.annotations):
            continue
        image = load_page_image(page.image)
        content = read_image(image.image, document=page.stem, number=1, dpi=image.dpi, annotations=page.annotations)
        for crop, words in zip(content.crops, CAPTIONS[page.stem], strict=True):
            assert not crop.caption or words in crop.caption, (page.stem, crop.caption)
            right += bool(crop.caption)
        assert {region.kind for region in content.regions}.isdisjoint({"page-header", "page-footer"})
        if page.stem == "PMC3976938_00002":
            assert "Allergic sensitization in asthma." in content.text
    assert right >= 13


def test_words_come_with_confidence() -> None:
    words = page_words(render(plain_page(), dpi=DPI), DPI)
    assert len(words) > 150
    assert all(0 <= word.confidence <= 100 for word in words)

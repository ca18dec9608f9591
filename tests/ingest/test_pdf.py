"""Opening PDFs and reading pages: errors that name the fix, text, crops, turned and cropped pages, pixels."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pymupdf
import pytest
from PIL import Image

from rag.errors import DocumentError
from rag.ingest.pdf import MAX_PIXELS, PageContent, document_vocabulary, load_page, open_pdf, read_page, render
from rag.types import BBox
from tests.ingest.pages import blank, corpus_page, draw_plot, hard_input, iou, reopened, write_text

# --- opening ---------------------------------------------------------------------------------------------------------


def save_encrypted(path: Path, user: str) -> None:
    page = blank()
    write_text(page, (60, 60, 540, 140))
    page.parent.save(path, encryption=pymupdf.PDF_ENCRYPT_AES_256, owner_pw="owner", user_pw=user)


def test_a_file_that_is_missing_or_no_pdf_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(DocumentError, match=r"absent\.pdf: no such file"):
        open_pdf(tmp_path / "absent.pdf")
    (tmp_path / "notes.pdf").write_text("just text")
    with pytest.raises(DocumentError, match=r"notes\.pdf is not a PDF"):
        open_pdf(tmp_path / "notes.pdf")
    (tmp_path / "empty.pdf").write_bytes(b"")
    with pytest.raises(DocumentError, match=r"empty\.pdf is not a PDF"):
        open_pdf(tmp_path / "empty.pdf")


def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "broken.pdf").write_bytes(b"%PDF-1.7\n" + b"\x00garbage" * 50)
    with pytest.raises(DocumentError, match=r"broken\.pdf .*(damaged|no pages)"):
        open_pdf(tmp_path / "broken.pdf")


def test_an_encrypted_file_is_refused_with_the_way_out(tmp_path: Path) -> None:
    save_encrypted(tmp_path / "locked.pdf", user="secret")
    with pytest.raises(DocumentError, match=r"locked\.pdf is encrypted.*qpdf --decrypt"):
        open_pdf(tmp_path / "locked.pdf")


def test_a_file_that_only_forbids_editing_opens(tmp_path: Path) -> None:
    save_encrypted(tmp_path / "readonly.pdf", user="")
    with open_pdf(tmp_path / "readonly.pdf") as document:
        assert "hazards" in read_page(document[0], "readonly").text


def test_hard_inputs_open_or_say_why_not() -> None:
    with pytest.raises(DocumentError, match="needs a password"):
        open_pdf(hard_input("pikepdf-graph-encrypted.pdf"))
    with open_pdf(hard_input("pikepdf-congress.pdf")) as document:
        content = read_page(document[0], "congress")
        assert (content.text, content.crops) == ("", ())
        assert "no text layer" in content.note
    with open_pdf(hard_input("pdfminer-zen_of_python_corrupted.pdf")) as document:
        content = read_page(document[0], "zen")
        assert "Beautiful is better than ugly." in content.text
        assert all(is_on_page(region.bbox, content) for region in content.regions)
    with open_pdf(hard_input("pdfminer-jo.pdf")) as document:
        assert "因果交流電燈の" in read_page(document[0], "jo").text.replace("\n", "")


def test_a_page_tree_that_holds_itself_costs_its_page_alone(tmp_path: Path) -> None:
    (tmp_path / "loop.pdf").write_bytes(
        b"%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n"
        b"2 0 obj<</Type/Pages/Kids[2 0 R 3 0 R]/Count 2>>endobj\n"
        b"3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 200 200]>>endobj\ntrailer<</Root 1 0 R>>\n%%EOF"
    )
    with open_pdf(tmp_path / "loop.pdf") as document:
        assert document_vocabulary(document) == frozenset()
        with pytest.raises(DocumentError, match="page 1 of loop is damaged and was left out"):
            load_page(document, 0, "loop")


# --- reading ---------------------------------------------------------------------------------------------------------


def is_on_page(box: BBox, content: PageContent) -> bool:
    return -1 <= box[0] < box[2] <= content.width_pt + 1 and -1 <= box[1] < box[3] <= content.height_pt + 1


def plot_page() -> tuple[pymupdf.Page, BBox]:
    page = blank()
    write_text(page, (60, 60, 540, 140))
    box = draw_plot(page, (150, 220, 450, 420))
    page.insert_text((120, 490), "Figure 1: Survival in the two arms.", fontname="tiro", fontsize=10)
    write_text(page, (60, 530, 540, 600), text="After it comes more running text, which ends the page here.")
    return page, box


def test_a_page_with_a_plot() -> None:
    page, box = plot_page()
    content = read_page(reopened(page), "trial")
    (crop,) = content.crops
    assert (content.document, content.number, content.width_pt, content.height_pt) == ("trial", 1, 600, 800)
    assert (crop.kind, crop.caption) == ("figure", "Figure 1: Survival in the two arms.")
    assert iou(crop.bbox, box) > 0.9
    assert crop.ocr_text.splitlines() == ["Overall survival", "0 1 2 3 4", "Years", "Survival"]
    assert [region.order for region in content.regions] == list(range(len(content.regions)))
    before, caption, after = (content.text.index(t) for t in ("hazards", "Figure 1: Survival", "After it comes"))
    assert before < caption < after
    assert "Years" not in content.text
    assert content.note == ""


@pytest.mark.parametrize("rotation", [90, 180, 270])
def test_a_turned_page_has_the_boxes_of_the_page_before_turning(rotation: int) -> None:
    """The page shows upright after /Rotate; its boxes are those of the unrotated page, where it lies on its side."""
    upright, box = plot_page()
    width, height = upright.rect.width, upright.rect.height
    # What the page looks like before it is turned clockwise by `rotation`: the upright page turned back.
    turned = pymupdf.open().new_page(
        width=height if rotation != 180 else width, height=width if rotation != 180 else height
    )
    turned.show_pdf_page(turned.rect, upright.parent, 0, rotate=rotation)
    turned.set_rotation(rotation)
    page = reopened(turned)
    content = read_page(page, "turned")
    (crop,) = content.crops
    assert (content.width_pt, content.height_pt) == (turned.mediabox.width, turned.mediabox.height)
    assert all(is_on_page(region.bbox, content) for region in content.regions)
    shown = pymupdf.Rect(crop.bbox) * page.rotation_matrix
    assert iou(tuple(shown), box) > 0.9
    assert crop.caption == "Figure 1: Survival in the two arms."
    assert "restricted means" in content.text
    assert render(page, crop.bbox, upright=True).size == pytest.approx(
        (shown.width / 72 * 150, shown.height / 72 * 150), abs=2
    )
    assert render(page, dpi=72).size == (round(content.width_pt), round(content.height_pt))


def test_boxes_count_from_the_crop_boxs_corner() -> None:
    page, box = plot_page()
    page.set_cropbox(pymupdf.Rect(50, 40, 580, 700))
    content = read_page(reopened(page), "cropped")
    (crop,) = content.crops
    assert (content.width_pt, content.height_pt) == (530, 660)
    assert iou(crop.bbox, (box[0] - 50, box[1] - 40, box[2] - 50, box[3] - 40)) > 0.9


def red_pixels(image: Image.Image) -> int:
    pixels = np.asarray(image).astype(int)
    return int(((pixels[..., 0] > 200) & (pixels[..., 1] < 80) & (pixels[..., 2] < 80)).sum())


@pytest.mark.parametrize("cropbox", ["[30 40 570 790]", "[120 70 600 860]"])
@pytest.mark.parametrize("rotation", [0, 90, 180, 270])
def test_a_turned_page_with_a_crop_box(rotation: int, cropbox: str) -> None:
    """The second crop box reaches beyond the media box, whose origin is not 0, 0."""
    size = (600, 800) if rotation in (0, 180) else (800, 600)
    upright = blank(*size)
    write_text(upright, (130, 130, 500, 240))
    draw_plot(upright, (180, 270, 400, 400))
    for k in range(8):
        upright.draw_circle((200 + 25 * k, 385 - 13 * k), 4, color=(1, 0, 0), fill=(1, 0, 0))
    upright.insert_text((180, 450), "Figure 1: Survival in the two arms.", fontname="tiro", fontsize=10)
    turned = blank()
    turned.show_pdf_page(turned.rect, upright.parent, 0, rotate=rotation)
    turned.set_rotation(rotation)
    pdf = turned.parent
    if cropbox.startswith("[120"):
        (xref,) = turned.get_contents()
        pdf.update_stream(xref, b"1 0 0 1 100 50 cm " + pdf.xref_stream(xref))
        pdf.xref_set_key(turned.xref, "MediaBox", "[100 50 700 850]")
    pdf.xref_set_key(turned.xref, "CropBox", cropbox)
    page = reopened(turned)
    content = read_page(page, "cropped")
    (crop,) = content.crops
    assert is_on_page(crop.bbox, content) and all(is_on_page(region.bbox, content) for region in content.regions)
    assert render(page, dpi=72).size == (round(content.width_pt), round(content.height_pt))
    assert red_pixels(render(page, crop.bbox, dpi=72)) == red_pixels(render(page, dpi=72)) > 200
    assert crop.caption == "Figure 1: Survival in the two arms."
    assert "survival curves differ" in content.text and "who have to act on them." in content.text


def test_text_that_stands_alone_on_its_page_is_no_running_head() -> None:
    page = blank(595, 842)
    page.insert_text((50, 50), "The trial enrolled 37 patients with glioma and compared two treatments.")
    content = read_page(reopened(page), "lone")
    assert content.text == "The trial enrolled 37 patients with glioma and compared two treatments."
    assert content.note == ""


def test_a_page_without_running_text_says_so() -> None:
    page = blank()
    page.insert_text((540, 30), "17")
    content = read_page(reopened(page), "numbered")
    assert (content.text, content.note) == ("", "No running text was found on this page.")


def test_running_heads_and_page_numbers_stay_out_of_the_text() -> None:
    content = read_page(corpus_page("HSAUR3-Ch_recursive_partitioning.pdf", 11), "hsaur")
    assert "ANALYSIS USING" not in content.text
    assert content.regions[0].kind == "page-header"
    assert content.text.startswith("R> plot(glaucoma_ctree")


def test_ligatures_and_broken_words_on_a_corpus_page() -> None:
    page = corpus_page("survival-compete.pdf", 12)
    text = read_page(page, "compete", document_vocabulary(page.parent)).text
    assert "useful" in text
    assert not any(ord(char) < 32 and char != "\n" for char in text)
    page = corpus_page("survival-compete.pdf", 6)
    text = read_page(page, "compete", document_vocabulary(page.parent)).text
    assert "computes and plots the competing risks estimate" in text
    assert "affect only the axis labels" in text


def test_the_vocabulary_leaves_out_the_halves_of_broken_words() -> None:
    page = blank()
    for k, line in enumerate(["the competi-", "tion between a time-dependent", "and a fixed effect"]):
        page.insert_text((80, 100 + 12 * k), line)
    words = document_vocabulary(page.parent)
    assert {"time-dependent", "dependent", "fixed"} <= words
    assert words.isdisjoint({"competi", "tion"})


def test_a_blank_page_reads_as_nothing() -> None:
    content = read_page(reopened(blank()), "blank")
    assert (content.regions, content.text, content.crops) == ((), "", ())
    assert content.note == "This page has no text layer: it is blank."


# --- pixels ----------------------------------------------------------------------------------------------------------


def test_a_huge_page_renders_within_the_pixel_limit() -> None:
    image = render(blank(width=14400, height=7200))
    assert image.width * image.height <= MAX_PIXELS * 1.01
    assert image.width == pytest.approx(2 * image.height, abs=2)


def test_a_crop_renders_at_its_resolution() -> None:
    page = blank()
    page.draw_rect((100, 100, 172, 136), color=None, fill=(1, 0, 0))
    image = render(page, (100, 100, 172, 136), dpi=144)
    assert image.size == (144, 72)
    assert image.getpixel((70, 30)) == (255, 0, 0)

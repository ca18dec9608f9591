"""What is taken in, under which limits, and what is said of each page."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path

import pymupdf
import pytest
from PIL import Image, ImageDraw, ImageFont

from rag.corpus import check_corpus, open_corpus
from rag.errors import DocumentError, OcrUnavailable, UsageError
from rag.ingest.build import ingest
from rag.ingest.languages import check_languages
from rag.ingest.limits import UPLOADS, VARIABLES, Limits
from rag.ingest.report import PageReport, Report
from rag.ingest.sources import Plan, Source, find_sources
from rag.settings import Settings, limits_from_env
from rag.types import Progress
from tests.ingest.test_build import make_pdf, write_records

SENTENCE = "The trial enrolled 37 patients with glioma. Survival was longer in the treated group."
PUBLAYNET = Path(__file__).resolve().parents[3] / "shared" / "data" / "publaynet-examples"


def has_tesseract() -> bool:
    try:
        return bool(check_languages("eng"))
    except OcrUnavailable:
        return False


needs_tesseract = pytest.mark.skipif(not has_tesseract(), reason="needs Tesseract with its English model")


@pytest.fixture
def no_triples(tmp_path: Path) -> Path:
    file = tmp_path / "none.triples"
    file.write_text("")
    return file


def picture(text: str = SENTENCE) -> Image.Image:
    """A page of A5 at 150 dpi with text on it."""
    image = Image.new("RGB", (874, 1240), "white")
    font = ImageFont.load_default(28)
    words = text.split()
    for row in range(0, len(words), 6):
        ImageDraw.Draw(image).text((90, 120 + 9 * row), " ".join(words[row : row + 6]), fill="black", font=font)
    return image


def scanned_pdf(file: Path, rotation: int = 0) -> Path:
    with pymupdf.open() as pdf:
        page = pdf.new_page(width=420, height=595)
        stream = io.BytesIO()
        picture().save(stream, "PNG")
        page.insert_image(page.rect, stream=stream.getvalue(), rotate=rotation)
        page.set_rotation(rotation)
        pdf.save(file)
    return file


# --- kinds -----------------------------------------------------------------------------------------------------------


def kinds(folder: Path, *args: str) -> dict[str, str]:
    return {source.path.name: source.kind for source in find_sources([folder], *(args or ("auto",)), Report(folder))}


def test_a_file_is_what_its_suffix_says(tmp_path: Path) -> None:
    for name in ("a.PDF", "b.jsonl", "c.jsonl.gz", "d.png", "e.JPG", "f.jpeg", "g.tif", "h.tiff", "i.tar", "j.docx"):
        (tmp_path / name).write_bytes(b"")
    assert kinds(tmp_path) == {
        "a.PDF": "pdf", "b.jsonl": "text", "c.jsonl.gz": "text", "d.png": "image", "e.JPG": "image", "f.jpeg": "image",
        "g.tif": "image", "h.tiff": "image", "i.tar": "publaynet",
    }  # fmt: skip
    assert kinds(tmp_path, "image") == dict.fromkeys(("d.png", "e.JPG", "f.jpeg", "g.tif", "h.tiff"), "image")
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match="holds no text file"):
        kinds(tmp_path / "empty", "text")


def test_a_name_on_the_hub_is_one_only_where_the_kind_says_so(tmp_path: Path) -> None:
    (source,) = find_sources(["lhoestq/small-publaynet-wds"], "publaynet", Report(tmp_path))
    assert source == Source(Path("lhoestq/small-publaynet-wds"), "publaynet", is_hub=True)
    with pytest.raises(UsageError, match="does not exist"):
        find_sources(["lhoestq/small-publaynet-wds"], "auto", Report(tmp_path))


def coco(folder: Path, *stems: str) -> Path:
    """Annotated pages: a title and a figure on each."""
    folder.mkdir()
    boxes = ([80, 100, 700, 200], [200, 700, 400, 300])
    annotations = [
        {"image_id": n, "category_id": 2 + 3 * k, "bbox": box} for n in range(len(stems)) for k, box in enumerate(boxes)
    ]
    value = {
        "images": [{"id": n, "file_name": f"{stem}.png"} for n, stem in enumerate(stems)],
        "annotations": annotations,
        "categories": [{"id": 2, "name": "title"}, {"id": 5, "name": "figure"}],
    }
    (folder / "val.json").write_text(json.dumps(value))
    for stem in stems:
        image = picture()
        ImageDraw.Draw(image).ellipse((220, 720, 580, 980), outline="black", width=6)
        image.save(folder / f"{stem}.png")
    return folder


@needs_tesseract
def test_annotated_pages_have_the_id_of_their_file_and_shards_give_the_same(tmp_path: Path, no_triples: Path) -> None:
    folder = coco(tmp_path / "in", "PMC1_00001", "PMC2_00004")
    report = ingest([folder], tmp_path / "out", triples_file=no_triples, workers=1)
    corpus = open_corpus(tmp_path / "out")
    assert check_corpus(tmp_path / "out") == []
    assert list(corpus.pages) == list(corpus.documents) == ["PMC1_00001", "PMC2_00004"]
    assert list(corpus.crops) == ["PMC1_00001_figure0", "PMC2_00004_figure0"]
    assert corpus.manifest.kind == "publaynet"
    assert "37 patients" in corpus.page_text("PMC1_00001")
    assert {page.source for page in corpus.pages.values()} == {"annotated ocr"}
    assert [page.status for page in report.pages] == ["ocr", "ocr"]
    width, height = corpus.image_size("crops/PMC1_00001_figure0.webp")
    assert (width, height) == (pytest.approx(400, abs=2), pytest.approx(300, abs=2))
    # The same pages from a shard, in the order of the shard.
    shard = tmp_path / "pages-0000.tar"
    value = json.loads((folder / "val.json").read_text())
    with tarfile.open(shard, "w") as tar:
        for n, stem in enumerate(("PMC1_00001", "PMC2_00004")):
            tar.add(folder / f"{stem}.png", f"{stem}.png")
            own = [a for a in value["annotations"] if a["image_id"] == n]
            content = json.dumps({"annotations": own, "categories": value["categories"]}).encode()
            info = tarfile.TarInfo(f"{stem}.json")
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    ingest([shard], tmp_path / "again", name="out", triples_file=no_triples, workers=1)
    for table in ("pages", "regions", "chunks", "crops", "words"):
        assert (tmp_path / "again" / f"{table}.jsonl").read_bytes() == (
            tmp_path / "out" / f"{table}.jsonl"
        ).read_bytes()


@needs_tesseract
def test_page_images_are_read_and_their_words_placed(tmp_path: Path, no_triples: Path) -> None:
    first, second = picture(), picture("A second page speaks of hazards and of nothing else at all.")
    first.save(tmp_path / "scan.tiff", save_all=True, append_images=[second], dpi=(150, 150))
    report = ingest([tmp_path / "scan.tiff"], tmp_path / "out", triples_file=no_triples, workers=1)
    corpus = open_corpus(tmp_path / "out")
    assert check_corpus(tmp_path / "out") == []
    assert list(corpus.pages) == ["scan_p001", "scan_p002"]
    assert corpus.documents["scan"].pages == 2
    page = corpus.pages["scan_p001"]
    assert (page.width_pt, page.height_pt) == (pytest.approx(874 * 72 / 150), pytest.approx(1240 * 72 / 150))
    text = corpus.page_text("scan_p001")
    (word,) = [w for w in corpus.words_on("scan_p001") if text[w.start : w.end] == "trial"]
    assert 90 * 72 / 150 < word.bbox[0] < 300 * 72 / 150
    assert 115 * 72 / 150 < word.bbox[1] < word.bbox[3] < 160 * 72 / 150
    assert report.pages == [PageReport("scan", n, "ocr", languages="eng") for n in (1, 2)]


@needs_tesseract
@pytest.mark.parametrize("rotation", [0, 90])
def test_a_scanned_pdf_is_read_from_its_pixels(tmp_path: Path, no_triples: Path, rotation: int) -> None:
    scanned_pdf(tmp_path / "scan.pdf", rotation)
    make_pdf(tmp_path / "born.pdf", 1)
    report = ingest(
        [tmp_path / "scan.pdf", tmp_path / "born.pdf"], tmp_path / "out", triples_file=no_triples, workers=1
    )
    corpus = open_corpus(tmp_path / "out")
    assert "37 patients" in corpus.page_text("scan_p001")
    assert [(page.status, page.languages) for page in report.pages] == [("ocr", "eng"), ("ok", "")]
    assert "1 pages read by OCR (eng)" in report.summary()
    page = corpus.pages["scan_p001"]
    assert (page.source, corpus.pages["born_p001"].source) == ("ocr", "")
    assert (page.width_pt, page.height_pt) == (420, 595)
    for word in corpus.words_on("scan_p001"):
        assert 0 <= word.bbox[0] < word.bbox[2] <= 420
        assert 0 <= word.bbox[1] < word.bbox[3] <= 595
    text = corpus.page_text("scan_p001")
    (word,) = [w for w in corpus.words_on("scan_p001") if text[w.start : w.end] == "trial"]
    # The picture's first line runs along the top; on the page before turning, up its left side.
    assert (word.bbox[1] < 90) if rotation == 0 else (word.bbox[0] < 90 and word.bbox[1] > 300)


@needs_tesseract
def test_text_drawn_as_paths_is_read_from_its_pixels(tmp_path: Path, no_triples: Path) -> None:
    with pymupdf.open() as pdf:
        page = pdf.new_page(width=420, height=595)
        page.insert_textbox((40, 60, 380, 300), SENTENCE, fontsize=14)
        drawn = pymupdf.open("svg", page.get_svg_image(text_as_path=True).encode()).convert_to_pdf()
    (tmp_path / "drawn.pdf").write_bytes(drawn)
    assert pymupdf.open("pdf", drawn)[0].get_text().strip() == ""
    ingest([tmp_path / "drawn.pdf"], tmp_path / "out", triples_file=no_triples, workers=1)
    assert "37 patients" in open_corpus(tmp_path / "out").page_text("drawn_p001")


def test_a_page_that_ocr_can_not_read_is_kept_and_said(
    tmp_path: Path, no_triples: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scanned_pdf(tmp_path / "scan.pdf")
    make_pdf(tmp_path / "born.pdf", 1)
    monkeypatch.setenv("TESSDATA_PREFIX", str(tmp_path))  # no model lies there; workers inherit it
    report = ingest(
        [tmp_path / "scan.pdf", tmp_path / "born.pdf"], tmp_path / "out", triples_file=no_triples, workers=1
    )
    page = open_corpus(tmp_path / "out").pages["scan_p001"]
    assert report.pages[0].status == "empty"
    assert page.source == "" and page.note == report.pages[0].note
    assert page.note.startswith("This page has no text layer") and "esseract" in page.note


# --- limits ----------------------------------------------------------------------------------------------------------


def test_files_beyond_the_limit_are_refused_by_name(tmp_path: Path, no_triples: Path) -> None:
    sources = [write_records(tmp_path / f"{n}.jsonl", (f"{n}.txt", "Alpha")) for n in range(3)]
    report = ingest(sources, tmp_path / "out", triples_file=no_triples, limits=Limits(files=2))
    assert list(open_corpus(tmp_path / "out").documents) == ["0.txt", "1.txt"]
    assert report.refused == ["2.jsonl: at most 2 files are taken (FUSEBOX_MAX_FILES)."]


def test_megabytes_beyond_the_limit_are_refused_by_name(tmp_path: Path, no_triples: Path) -> None:
    small, other = (write_records(tmp_path / f"{n}.jsonl", (f"{n}.txt", "Alpha")) for n in "ab")
    large = write_records(tmp_path / "large.jsonl", ("large.txt", "x" * 1_000_000))
    report = ingest([small, large, other], tmp_path / "out", triples_file=no_triples, limits=Limits(mb=1))
    assert list(open_corpus(tmp_path / "out").documents) == ["a.txt", "b.txt"]
    assert report.refused == ["large.jsonl has 1.0 MB; at most 1 MB are taken in all (FUSEBOX_MAX_MB)."]


def test_pages_beyond_the_limit_are_refused_by_number(tmp_path: Path, no_triples: Path) -> None:
    sources = [make_pdf(tmp_path / "a.pdf", 2), make_pdf(tmp_path / "b.pdf", 3), make_pdf(tmp_path / "c.pdf", 1)]
    report = ingest(sources, tmp_path / "out", triples_file=no_triples, limits=Limits(pages=3))
    assert list(open_corpus(tmp_path / "out").pages) == ["a_p001", "a_p002", "b_p001"]
    assert report.refused == [
        "b.pdf: 2 pages were left out; at most 3 are taken (FUSEBOX_MAX_PAGES).",
        "c.pdf: 1 pages were left out; at most 3 are taken (FUSEBOX_MAX_PAGES).",
    ]


def test_of_a_stream_the_limit_of_pages_is_said_once(tmp_path: Path, no_triples: Path) -> None:
    source = write_records(tmp_path / "a.jsonl", *((f"{n}.txt", "Alpha") for n in range(9)))
    report = ingest([source], tmp_path / "out", triples_file=no_triples, limits=Limits(pages=3))
    assert list(open_corpus(tmp_path / "out").pages) == ["0.txt", "1.txt", "2.txt"]
    assert len(report.refused) == 1 and "FUSEBOX_MAX_PAGES" in report.refused[0]


def test_pixels_beyond_the_limit_cost_the_page(tmp_path: Path, no_triples: Path) -> None:
    with pymupdf.open(make_pdf(tmp_path / "a.pdf", 2)) as pdf:
        stream = io.BytesIO()
        Image.new("1", (3000, 1000)).save(stream, "PNG")
        pdf[0].insert_image((100, 600, 200, 700), stream=stream.getvalue())
        pdf.save(tmp_path / "b.pdf")
    Image.new("1", (3000, 1000)).save(tmp_path / "c.png")
    sources = [tmp_path / "b.pdf", tmp_path / "c.png"]
    report = ingest(sources, tmp_path / "out", triples_file=no_triples, limits=Limits(pixels=2_999_999))
    assert list(open_corpus(tmp_path / "out").pages) == ["b_p002"]
    assert [page.status for page in report.pages] == ["refused", "ok", "refused"]
    assert report.refused[0].startswith("page 1 of b holds an image of 3,000 x 1,000 pixels and was left out")
    assert all("FUSEBOX_MAX_PIXELS" in reason for reason in report.refused)


def test_a_language_that_is_not_installed_is_said_at_once(tmp_path: Path) -> None:
    with pytest.raises(OcrUnavailable, match=r"xyz|Tesseract|tesserocr"):
        ingest([make_pdf(tmp_path / "a.pdf", 1)], tmp_path / "out", languages="xyz")
    assert [file.name for file in tmp_path.iterdir()] == ["a.pdf"]


def test_limits_come_from_the_environment() -> None:
    assert Settings.from_env({}).uploads == UPLOADS
    env = {variable: str(number) for number, variable in enumerate(VARIABLES.values(), start=7)}
    assert Settings.from_env(env).uploads == Limits(files=7, mb=8, pages=9, pixels=10, page_seconds=11)
    assert limits_from_env({"FUSEBOX_MAX_PAGES": ""}, Limits()) == Limits()
    with pytest.raises(UsageError, match="FUSEBOX_MAX_MB is '0'"):
        limits_from_env({"FUSEBOX_MAX_MB": "0"}, Limits())


def test_what_an_own_limit_leaves_out_is_said(tmp_path: Path, no_triples: Path) -> None:
    def notes(*sources: Path, limit: int) -> list[str]:
        return ingest(sources, tmp_path / "out", limit=limit, triples_file=no_triples, workers=1, overwrite=True).notes

    a, b = make_pdf(tmp_path / "a.pdf", 3), make_pdf(tmp_path / "b.pdf", 2)
    assert notes(a, b, limit=1) == ["Limited to 1 page; 4 more were not read."]
    assert notes(a, b, limit=4) == ["Limited to 4 pages; 1 more were not read."]
    assert notes(a, b, limit=5) == []
    records = write_records(tmp_path / "c.jsonl", *((f"r{k}", SENTENCE) for k in range(4)))
    assert notes(records, limit=3) == ["Limited to 3 pages; at least 1 more were not read."]
    assert notes(records, limit=4) == []


def test_of_an_annotated_folder_what_a_limit_leaves_out_is_counted(tmp_path: Path) -> None:
    folder = coco(tmp_path / "in", "p1", "p2", "p3", "p4")
    (folder / "p4.png").unlink()
    refused: list[str] = []
    notes: list[str] = []
    plan = Plan(tmp_path, refused.append, limit=1, note=notes.append)
    assert len(list(plan.items([Source(folder, "publaynet")]))) == 1
    assert (refused, notes) == ([], ["Limited to 1 page; 2 more were not read."])


# --- what is said ----------------------------------------------------------------------------------------------------


def test_progress_comes_in_stages_with_counts(tmp_path: Path) -> None:
    events: list[Progress] = []
    ingest([make_pdf(tmp_path / "a.pdf", 2)], tmp_path / "out", progress=events.append)
    stages = [event.stage for event in events]
    assert list(dict.fromkeys(stages)) == ["pages", "triples", "chunk index", "crop index"]
    for stage in set(stages):
        last = [event for event in events if event.stage == stage][-1]
        assert last.done == last.total > 0
    assert events[-1].counts["pages"] == 2


def test_every_page_has_its_line_in_the_report(tmp_path: Path, no_triples: Path) -> None:
    with pymupdf.open(make_pdf(tmp_path / "a.pdf", 1)) as pdf:
        pdf.new_page()
        for xref in pdf.new_page().parent[2].get_contents():
            pdf.update_stream(xref, b"")
        pdf.save(tmp_path / "b.pdf")
    report = ingest([tmp_path / "b.pdf"], tmp_path / "out", triples_file=no_triples)
    note = "This page has no text layer: it is blank."
    assert report.pages == [
        PageReport("b", 1, "ok"),
        PageReport("b", 2, "empty", note),
        PageReport("b", 3, "empty", note),
    ]
    assert report.notes == [f"b, p. 2: {note}", f"b, p. 3: {note}"]
    # Nothing on a blank page could not be read, so the corpus says nothing of it.
    assert {page.note for page in open_corpus(tmp_path / "out").pages.values()} == {""}


def test_the_same_name_twice_is_refused(tmp_path: Path, no_triples: Path) -> None:
    make_pdf(tmp_path / "scan.pdf", 1)
    picture().save(tmp_path / "scan.png")
    report = ingest([tmp_path / "scan.pdf", tmp_path / "scan.png"], tmp_path / "out", triples_file=no_triples)
    assert any("another document is called 'scan'" in reason for reason in report.refused)
    with pytest.raises(DocumentError, match="is no PNG, JPEG or TIFF"):
        (tmp_path / "bad.png").write_text("no image")
        ingest([tmp_path / "bad.png"], tmp_path / "bad", triples_file=no_triples)


@needs_tesseract
@pytest.mark.skipif(not PUBLAYNET.is_dir(), reason="needs ../shared/data/publaynet-examples")
def test_the_annotated_examples_go_in(tmp_path: Path, no_triples: Path) -> None:
    report = ingest([PUBLAYNET], tmp_path / "out", kind="publaynet", limit=2, triples_file=no_triples)
    corpus = open_corpus(tmp_path / "out")
    assert report.counts["pages"] == len(corpus.pages) == 2
    assert all((PUBLAYNET / f"{page}.jpg").is_file() for page in corpus.pages)
    assert all(len(corpus.page_text(page)) > 500 for page in corpus.pages)

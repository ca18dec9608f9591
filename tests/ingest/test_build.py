"""Documents in, a corpus folder out."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pymupdf
import pytest

from rag.corpus import check_corpus, open_corpus
from rag.errors import CorpusError, DocumentError, UsageError
from rag.ingest.build import ingest
from rag.ingest.report import Report
from rag.ingest.sources import read_descriptions

ROOT = Path(__file__).resolve().parents[2]
HARD = ROOT.parent / "shared" / "data" / "hard-inputs"
PARAGRAPH = (
    "The trial enrolled 37 patients with glioma. Survival was longer in the treated group than in the control group. "
    * 6
)


def make_pdf(file: Path, pages: int = 2, title: str = "") -> Path:
    """A PDF with a paragraph and a ruled table on each page."""
    with pymupdf.open() as pdf:
        for number in range(1, pages + 1):
            page = pdf.new_page(width=595, height=842)
            page.insert_textbox((72, 72, 523, 300), f"Page {number}. {PARAGRAPH}", fontsize=11)
            for row in range(4):
                page.draw_line((72, 400 + 20 * row), (400, 400 + 20 * row))
                if row < 3:
                    for column, text in enumerate(
                        ("group", "deaths", "ratio") if row == 0 else (f"arm {row}", "12", "0.5")
                    ):
                        page.insert_text((80 + 110 * column, 414 + 20 * row), text, fontsize=10)
        pdf.set_metadata({"title": title})
        pdf.save(file)
    return file


@pytest.fixture(scope="module")
def no_triples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("triples") / "none.jsonl"
    file.write_text("")
    return file


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory, no_triples: Path) -> tuple[Path, Report, list[str]]:
    """Two PDFs, one described in documents.json, and one file that is no PDF."""
    folder = tmp_path_factory.mktemp("built")
    (folder / "in").mkdir()
    make_pdf(folder / "in" / "alpha.pdf", 5, title="From the\nmetadata")
    make_pdf(folder / "in" / "beta.pdf", 1)
    (folder / "in" / "gamma.pdf").write_text("no PDF at all")
    described = [{"file": "beta.pdf", "title": "Beta", "licence": "CC0-1.0", "year": 2020, "unknown": "x"}]
    (folder / "in" / "documents.json").write_text(json.dumps(described))
    lines: list[str] = []
    report = ingest(
        [folder / "in"], folder / "out", triples_file=no_triples, progress=lambda event: lines.append(str(event))
    )
    return folder / "out", report, lines


def test_a_sound_corpus_comes_out(built: tuple[Path, Report, list[str]]) -> None:
    out, report, _ = built
    assert check_corpus(out) == []
    corpus = open_corpus(out)
    assert list(corpus.pages) == [f"alpha_p00{n}" for n in range(1, 6)] + ["beta_p001"]
    assert report.counts["pages"] == 6
    assert report.counts["chunks"] == len(corpus.chunks)
    assert corpus.manifest.name == "out"
    assert corpus.manifest.kind == "pdf"


def test_documents_are_described(built: tuple[Path, Report, list[str]]) -> None:
    documents = open_corpus(built[0]).documents
    assert (documents["alpha"].title, documents["alpha"].pages, documents["alpha"].licence) == (
        "From the metadata",
        5,
        "",
    )
    assert (documents["beta"].title, documents["beta"].licence, documents["beta"].year) == ("Beta", "CC0-1.0", "2020")
    assert documents["beta"].sha256 == hashlib.sha256((built[0].parent / "in" / "beta.pdf").read_bytes()).hexdigest()


def test_a_bad_file_is_named_and_the_rest_goes_in(built: tuple[Path, Report, list[str]]) -> None:
    _, report, lines = built
    assert len(report.refused) == 1
    assert "gamma.pdf is not a PDF" in report.refused[0]
    assert "left out: gamma.pdf is not a PDF" in report.summary()
    assert "read 6 of 6 pages" in lines
    assert not any("left out" in line for line in lines)  # the summary says it


def test_images_have_the_resolution_promised(built: tuple[Path, Report, list[str]]) -> None:
    corpus = open_corpus(built[0])
    for page in corpus.pages.values():
        width, height = corpus.image_size(page.image)
        assert width == pytest.approx(page.width_pt * 110 / 72, abs=1)
        assert height == pytest.approx(page.height_pt * 110 / 72, abs=1)
    assert corpus.crops
    for crop in corpus.crops.values():
        x0, y0, x1, y1 = crop.bbox
        width, height = corpus.image_size(crop.image)
        assert (width, height) == (
            pytest.approx((x1 - x0) * 200 / 72, abs=2),
            pytest.approx((y1 - y0) * 200 / 72, abs=2),
        )


def test_chunks_name_the_regions_they_overlap(built: tuple[Path, Report, list[str]]) -> None:
    corpus = open_corpus(built[0])
    for chunk in corpus.chunks.values():
        texts = [" ".join(corpus.regions[region].text.split()) for region in chunk.region_ids]
        assert texts
        # The chunk stands in the running text that its regions make up.
        assert chunk.text in " ".join(texts)
        assert chunk.text not in " ".join(texts[1:])


def test_the_same_input_gives_the_same_bytes(
    built: tuple[Path, Report, list[str]], tmp_path: Path, no_triples: Path
) -> None:
    out = built[0]
    ingest([out.parent / "in"], tmp_path / "out", triples_file=no_triples, workers=1)
    names = sorted(file.relative_to(out) for file in out.rglob("*") if file.is_file())
    assert names == sorted(
        file.relative_to(tmp_path / "out") for file in (tmp_path / "out").rglob("*") if file.is_file()
    )
    for name in names:
        if name.name != "manifest.json":
            assert (out / name).read_bytes() == (tmp_path / "out" / name).read_bytes(), name


def test_limit_counts_pages_over_all_files(
    built: tuple[Path, Report, list[str]], tmp_path: Path, no_triples: Path
) -> None:
    source = built[0].parent / "in"
    ingest([source / "beta.pdf", source / "alpha.pdf"], tmp_path / "out", limit=3, triples_file=no_triples)
    corpus = open_corpus(tmp_path / "out")
    assert list(corpus.pages) == ["beta_p001", "alpha_p001", "alpha_p002"]
    assert corpus.documents["alpha"].pages == 2


def test_two_files_of_one_name(tmp_path: Path, no_triples: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        make_pdf(tmp_path / folder / "same.pdf", 1 + (folder == "b"))
    report = ingest([tmp_path / "a" / "same.pdf", tmp_path / "b"], tmp_path / "out", triples_file=no_triples)
    assert report.counts["documents"] == 1
    both = (
        r"same\.pdf \(pages: 2\): another document is called 'same' already \(same\.pdf, pages: 1\), with other content"
    )
    assert re.match(both, report.refused[0])


def test_one_file_given_twice_is_taken_once(tmp_path: Path, no_triples: Path) -> None:
    file = make_pdf(tmp_path / "same.pdf", 1)
    (tmp_path / "a").mkdir()
    again = tmp_path / "a" / ".." / "same.pdf"
    report = ingest([file, again], tmp_path / "out", triples_file=no_triples)
    assert (report.counts["documents"], report.refused) == (1, [])
    assert report.notes == ["same.pdf was given twice and taken once."]


def test_damaged_pages_are_left_out_by_name_and_the_rest_goes_in(tmp_path: Path, no_triples: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    # A page tree that holds itself, and a page that saves the graphics state more often than MuPDF allows.
    (folder / "loop.pdf").write_bytes(
        b"%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n"
        b"2 0 obj<</Type/Pages/Kids[2 0 R 3 0 R]/Count 2>>endobj\n"
        b"3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 200 200]>>endobj\ntrailer<</Root 1 0 R>>\n%%EOF"
    )
    with pymupdf.open(make_pdf(folder / "sound.pdf", 2)) as pdf:
        for xref in pdf[0].get_contents()[:1]:
            pdf.update_stream(xref, b"q " * 2_000_000)
        pdf.save(folder / "deep.pdf")
    report = ingest([folder], tmp_path / "out", triples_file=no_triples)
    assert {"deep_p002", "sound_p001", "sound_p002"} <= set(open_corpus(tmp_path / "out").pages)
    for page in ("page 1 of loop", "page 2 of loop", "page 1 of deep"):
        assert any(reason.startswith(f"{page} is damaged and was left out") for reason in report.refused), page
    assert check_corpus(tmp_path / "out") == []


# --- text ------------------------------------------------------------------------------------------------------------


def write_records(file: Path, *records: tuple[str, str]) -> Path:
    file.write_text("".join(json.dumps({"source": source, "text": text}) + "\n" for source, text in records))
    return file


def test_text_documents_and_their_triples(tmp_path: Path) -> None:
    text = "Kirton  End is a hamlet.\nIt lies in Boston."
    source = write_records(tmp_path / "docs.jsonl", ("a.txt", text), ("blank.txt", " \n"), ("copy.txt", text))
    md5 = hashlib.md5(b"Kirton End is a hamlet. It lies in Boston.").hexdigest()
    (tmp_path / "t.jsonl").write_text(
        json.dumps({"chunk_md5": md5, "triples": [["Kirton End", "is", "hamlet"]]}) + "\n"
    )
    report = ingest([source], tmp_path / "out", triples_file=tmp_path / "t.jsonl")
    corpus = open_corpus(tmp_path / "out")
    assert list(corpus.pages) == list(corpus.documents) == ["a.txt", "blank.txt", "copy.txt"]
    assert corpus.chunks_on("blank.txt") == ()
    assert corpus.page_text("a.txt") == "Kirton End is a hamlet. It lies in Boston."
    # A text that stands in two chunks has its triples in both.
    assert [(triple.subject, triple.chunk_id) for triple in corpus.triples] == [
        ("Kirton End", "a.txt_c00"),
        ("Kirton End", "copy.txt_c00"),
    ]
    assert report.counts["triples"] == 2
    assert corpus.manifest.kind == "text"


def test_triples_are_extracted_by_grammar_where_none_are_given(tmp_path: Path) -> None:
    source = write_records(
        tmp_path / "docs.jsonl", ("a.txt", "The trial enrolled 37 patients. The committee rejected the proposal.")
    )
    ingest([source], tmp_path / "out")
    triples = open_corpus(tmp_path / "out").triples
    assert {triple.origin for triple in triples} == {"grammar"}
    assert any("37 patients" in triple.object for triple in triples)


def test_a_bad_line_is_named_and_the_rest_goes_in(tmp_path: Path, no_triples: Path) -> None:
    source = write_records(tmp_path / "docs.jsonl", ("a.txt", "Alpha"), ("a.txt", "again"), ("../../b", "Beta"))
    report = ingest([source], tmp_path / "out", triples_file=no_triples)
    assert list(open_corpus(tmp_path / "out").pages) == ["a.txt", "../../b"]  # an id, never a path
    assert report.refused == ["docs.jsonl, line 2: the source 'a.txt' comes twice."]


# --- refusals --------------------------------------------------------------------------------------------------------


def test_nothing_readable_is_an_error_that_gives_the_reasons(tmp_path: Path, no_triples: Path) -> None:
    (tmp_path / "a.pdf").write_text("no PDF")
    with pytest.raises(DocumentError, match=r"No text could be read.*a\.pdf is not a PDF"):
        ingest([tmp_path / "a.pdf"], tmp_path / "out", triples_file=no_triples)
    with pymupdf.open() as pdf:
        pdf.new_page()
        pdf.save(tmp_path / "blank.pdf")
    with pytest.raises(DocumentError, match=r"blank, p\. 1: This page has no text layer"):
        ingest([tmp_path / "blank.pdf"], tmp_path / "out", triples_file=no_triples)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a.pdf", "blank.pdf"]


def test_sources_that_can_not_be_taken(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="does not exist"):
        ingest([tmp_path / "gone.pdf"], tmp_path / "out")
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match="holds no PDF"):
        ingest([tmp_path / "empty"], tmp_path / "out")
    (tmp_path / "notes.docx").write_text("x")
    with pytest.raises(UsageError, match="--kind"):
        ingest([tmp_path / "notes.docx"], tmp_path / "out")
    make_pdf(tmp_path / "a.pdf", 1)
    (tmp_path / "documents.json").write_text("[1]")
    with pytest.raises(UsageError, match=r"documents\.json"):
        ingest([tmp_path / "a.pdf"], tmp_path / "out")


def test_a_taken_folder_is_refused_before_anything_is_read(built: tuple[Path, Report, list[str]]) -> None:
    with pytest.raises(CorpusError, match="--overwrite"):
        ingest([built[0].parent / "in"], built[0])


@pytest.mark.skipif(not HARD.is_dir(), reason="the hard PDFs (../shared/data/hard-inputs) are not on this machine")
def test_hard_pdfs_are_named_in_the_report(tmp_path: Path, no_triples: Path) -> None:
    make_pdf(tmp_path / "good.pdf", 1)
    report = ingest([HARD, tmp_path / "good.pdf"], tmp_path / "out", triples_file=no_triples)
    assert check_corpus(tmp_path / "out") == []
    assert any("pikepdf-graph-encrypted.pdf is encrypted" in reason for reason in report.refused)
    pages = {page.document: page for page in report.pages}
    for scanned in ("pikepdf-congress", "pikepdf-jbig2"):  # where there is no Tesseract, that is said
        assert pages[scanned].status == "ocr" or "Tesseract" in pages[scanned].note


@pytest.mark.parametrize(
    ("out", "says"),
    [
        ("file/x", "lies under a file"),
        ("file/x/y", "lies under a file"),
        ("a" * 250, "too long"),
        ("a" * 5000, "too long"),
        ("\0", "null byte"),
        ("/proc/x", "can't be written"),
    ],
)
def test_an_out_that_can_not_be_written_is_refused_at_once(tmp_path: Path, out: str, says: str) -> None:
    (tmp_path / "file").write_text("x")
    source = write_records(tmp_path / "docs.jsonl", ("a.txt", "Alpha"))
    lines: list[str] = []
    with pytest.raises((UsageError, CorpusError), match=says) as caught:
        ingest([source], tmp_path / out, progress=lambda event: lines.append(str(event)))
    assert "--out" in str(caught.value) and lines == []


def test_the_working_folder_itself_can_be_the_corpus(
    tmp_path: Path, no_triples: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = write_records(tmp_path / "docs.jsonl", ("a.txt", "Alpha"))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    ingest([source], ".", triples_file=no_triples)
    assert open_corpus(tmp_path / "here").manifest.name == "here"


def test_at_least_one_worker(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="at least 1"):
        ingest([make_pdf(tmp_path / "a.pdf", 1)], tmp_path / "out", workers=0)


def test_stage_folders_of_dead_processes_are_swept(tmp_path: Path, no_triples: Path) -> None:
    source = write_records(tmp_path / "docs.jsonl", ("a.txt", "Alpha"))
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    dead, alive, other = (f".{name}.stage.{pid}.abc" for name, pid in
                          (("out", gone.pid), ("out", os.getppid()), ("another", gone.pid)))  # fmt: skip
    for name in (dead, alive, other):
        (tmp_path / name / "pages").mkdir(parents=True)
    ingest([source], tmp_path / "out", triples_file=no_triples)
    assert {file.name for file in tmp_path.iterdir()} == {"docs.jsonl", "out", alive, other}


def test_a_stage_of_a_dead_process_that_had_our_number_is_swept(tmp_path: Path, no_triples: Path) -> None:
    (tmp_path / f".out.stage.{os.getpid()}.abc").mkdir()
    source = write_records(tmp_path / "docs.jsonl", ("a.txt", "Alpha"))
    ingest([source], tmp_path / "out", triples_file=no_triples)
    assert {file.name for file in tmp_path.iterdir()} == {"docs.jsonl", "out"}


# --- descriptions ----------------------------------------------------------------------------------------------------


def test_descriptions_are_texts(tmp_path: Path) -> None:
    rows = [{"file": "a.pdf", "title": "A\ud800\nB", "year": 2020, "licence": None, "pages": [1]}]
    (tmp_path / "documents.json").write_text(json.dumps(rows))
    assert read_descriptions(tmp_path) == {"a.pdf": {"title": "A? B", "year": "2020", "licence": ""}}


@pytest.mark.parametrize(
    "content", ["[" * 100_000, "{", '{"file": 1}', *(f'[{{"file": "a", "title": {v}}}]' for v in ("{}", "[]", "true", "NaN"))]
)  # fmt: skip
def test_damaged_descriptions_are_wrong_usage(tmp_path: Path, content: str) -> None:
    (tmp_path / "documents.json").write_text(content)
    with pytest.raises(UsageError, match=r"documents\.json must be"):
        read_descriptions(tmp_path)

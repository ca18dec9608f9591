"""Opening, checking and saving a corpus folder."""

from __future__ import annotations

import base64
import io
import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import faiss
import numpy as np
import pytest
from PIL import Image

from rag import corpus_files
from rag.corpus import (
    Corpus,
    add_visual_index,
    build_visual_index,
    check_corpus,
    describe,
    licences_text,
    open_corpus,
    proxy_texts,
)
from rag.corpus import save_corpus as save
from rag.encoders import normalised
from rag.errors import CorpusError
from rag.generators.registry import GENERATORS
from rag.pipeline import ask
from rag.systems import SYSTEMS
from rag.types import Chunk, Crop, Document, Page
from ui.views import crops, markup

PAPER = Path(__file__).resolve().parents[2] / "shared" / "data" / "paper"
TEXT_INDEX = "index/text.all-MiniLM-L6-v2-int8.faiss"


@pytest.fixture(autouse=True)
def cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Notes on checked digests go here, not into the person's cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def folder(small_folder: Path, tmp_path: Path) -> Path:
    """A copy of the small corpus that a test may damage."""
    return Path(shutil.copytree(small_folder, tmp_path / "corpus"))


def edit_manifest(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    file = folder / "manifest.json"
    value = json.loads(file.read_text())
    change(value)
    file.write_text(json.dumps(value))


def rewrite(folder: Path, name: str, text: str) -> None:
    """Change a table and set its digest right, as somebody who means harm would."""
    (folder / name).write_text(text)
    edit_manifest(folder, lambda m: m["files"].update({name: corpus_files.sha256_of(folder / name)}))


def edit_rows(folder: Path, table: str, change: Callable[[dict[str, Any]], None]) -> None:
    rows = [json.loads(line) for line in (folder / f"{table}.jsonl").read_text().splitlines()]
    for row in rows:
        change(row)
    rewrite(folder, f"{table}.jsonl", "".join(json.dumps(row) + "\n" for row in rows))


# --- opening ---------------------------------------------------------------------------------------------------------


def test_open_gives_back_what_was_saved(small: Corpus) -> None:
    assert list(small.pages) == ["glioma_p001", "glioma_p002"]
    assert [chunk.id for chunk in small.chunks_on("glioma_p001")] == ["glioma_p001_c00", "glioma_p001_c01"]
    assert small.chunks_on("nowhere") == ()
    crop = small.crops["glioma_p001_table0"]
    assert small.crops_on("glioma_p001") == (crop,)
    assert crop.bbox == (72.0, 300.0, 400.0, 400.0)
    assert [region.order for region in small.regions_on("glioma_p001")] == [0, 1]
    assert small.triples[2].subject == "GBSG2 study"
    assert small.image_size(crop.image) == (200, 100)
    assert small.image(crop.image).mode == "RGB"
    assert small.digest(crop.image) == corpus_files.sha256_of(small.image_path(crop.image))
    assert small.documents["glioma"].licence == "CC0-1.0"
    assert small.id.startswith("small-")


def test_page_text_is_put_together_from_overlapping_chunks(tmp_path: Path) -> None:
    from rag.ingest.chunk import windows

    text = "".join(f"word{i:04d} " for i in range(160)).strip()
    chunks = [Chunk(f"p_c{i}", "p", window, start) for i, (start, window) in enumerate(windows(text))]
    corpus = open_corpus(save_text(tmp_path / "c", chunks))
    assert corpus.page_text("p") == text
    assert corpus.page_text("elsewhere") == ""


def save_text(out: Path, chunks: list[Chunk], **more: Any) -> Path:
    page = Page("p", "p", 1, 0, 0, "")
    return save(
        out, name="c", kind="text", documents=[Document("p", "P", "p", 1, "")], pages=[page], chunks=chunks, **more
    )


def test_a_sound_corpus_has_no_problems(folder: Path) -> None:
    assert check_corpus(folder) == []


def test_licences_say_what_is_known_without_dangling_marks() -> None:
    rows = licences_text(
        [
            Document(
                "a", "Title", "a.pdf", 1, "0", authors="A. B.", year="2020", licence="CC BY", source="https://x.y"
            ),
            Document("p", "p", "p.jpg", 1, "0"),
            Document("q", "Why?", "q.pdf", 1, "0", authors="C. D."),
        ]
    ).splitlines()
    assert rows[-3:] == [
        "- `a`: Title. A. B. 2020. Licence: CC BY. https://x.y",
        "- `p`: p. Licence: not stated.",
        "- `q`: Why? C. D. Licence: not stated.",
    ]


def test_describe(small: Corpus) -> None:
    facts = describe(small)
    assert facts["counts"] == {"documents": 1, "pages": 2, "regions": 3, "chunks": 3, "crops": 2, "triples": 4}
    assert facts["origins"] == ["grammar"]
    json.dumps(facts)


@pytest.mark.parametrize("name", ["chunks.jsonl", "triples.jsonl", "crops/glioma_p001_table0.webp", TEXT_INDEX])
def test_a_flipped_byte_is_reported_by_name(folder: Path, name: str) -> None:
    open_corpus(folder)  # a good check is remembered; the change must be seen all the same
    content = bytearray((folder / name).read_bytes())
    content[len(content) // 2] ^= 1
    stat = (folder / name).stat()
    (folder / name).write_bytes(content)
    os.utime(folder / name, ns=(stat.st_atime_ns, stat.st_mtime_ns + 1))
    assert any(f"{name} differs from its digest" in problem for problem in check_corpus(folder))
    with pytest.raises(CorpusError, match=r"differs from its digest.*python -m rag ingest"):
        open_corpus(folder)


def test_check_reads_every_file_even_when_size_and_time_are_the_same(folder: Path) -> None:
    file = folder / "chunks.jsonl"
    open_corpus(folder)
    stat = file.stat()
    file.write_text(file.read_text().replace("37 patients", "38 patients"))
    os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert any("chunks.jsonl differs" in problem for problem in check_corpus(folder))


@pytest.mark.parametrize("name", ["regions.jsonl", "pages/glioma_p002.webp", TEXT_INDEX])
def test_a_missing_file_is_reported_by_name(folder: Path, name: str) -> None:
    (folder / name).unlink()
    assert any(f"{name} is missing" in problem for problem in check_corpus(folder))
    with pytest.raises(CorpusError, match=f"{name} is missing"):
        open_corpus(folder)


def test_a_stray_file_is_reported(folder: Path) -> None:
    (folder / "index" / "old.faiss").write_bytes(b"")
    assert check_corpus(folder) == [f"{folder}: index/old.faiss is not in manifest.json; delete it."]


def test_no_corpus_and_another_format(tmp_path: Path, folder: Path) -> None:
    with pytest.raises(CorpusError, match=r"holds no corpus.*python -m rag ingest"):
        open_corpus(tmp_path / "nothing")
    edit_manifest(folder, lambda m: m.update(format=99))
    with pytest.raises(CorpusError, match="of format 99, and this Fusebox reads format 1"):
        open_corpus(folder)
    (folder / "manifest.json").write_text("{")
    with pytest.raises(CorpusError, match="can't be read"):
        open_corpus(folder)
    (folder / "manifest.json").write_text("[]")
    assert len(check_corpus(folder)) == 1


@pytest.mark.parametrize("key", ["name", "files", "indices", "counts", "documents"])
def test_a_manifest_without_a_field(folder: Path, key: str) -> None:
    edit_manifest(folder, lambda m: m.pop(key))
    with pytest.raises(CorpusError, match=f"'{key}' is missing"):
        open_corpus(folder)


def replace_index(folder: Path, width: int, rows: int, **fields: Any) -> None:
    index = faiss.IndexFlatIP(width)
    index.add(np.ones((rows, width), dtype=np.float32))
    faiss.write_index(index, str(folder / TEXT_INDEX))

    def change(manifest: dict[str, Any]) -> None:
        manifest["files"][TEXT_INDEX] = corpus_files.sha256_of(folder / TEXT_INDEX)
        manifest["indices"][0].update(fields)

    edit_manifest(folder, change)


def test_an_index_of_the_wrong_dimension(folder: Path) -> None:
    replace_index(folder, 512, 3)
    with pytest.raises(CorpusError, match=rf"{TEXT_INDEX} holds 3 vectors of dimension 512, not 3 of dimension 384"):
        open_corpus(folder)
    assert any("dimension 512" in problem for problem in check_corpus(folder))
    # A manifest that says so itself is no better: the encoder gives 384.
    replace_index(folder, 512, 3, dimension=512)
    with pytest.raises(CorpusError, match="dimension 384"):
        open_corpus(folder)


def test_an_index_of_the_wrong_count(folder: Path) -> None:
    replace_index(folder, 384, 2, count=2)
    with pytest.raises(CorpusError, match="2 vectors for 3 chunks"):
        open_corpus(folder)


def test_a_file_that_is_no_index(folder: Path) -> None:
    (folder / TEXT_INDEX).write_bytes(b"cos\nsystem\n(S'true'\ntR.")
    edit_manifest(folder, lambda m: m["files"].update({TEXT_INDEX: corpus_files.sha256_of(folder / TEXT_INDEX)}))
    with pytest.raises(CorpusError, match="no faiss index"):
        open_corpus(folder)


def test_an_index_of_another_metric(folder: Path) -> None:
    index = faiss.IndexFlatL2(384)
    index.add(np.ones((3, 384), dtype=np.float32))
    faiss.write_index(index, str(folder / TEXT_INDEX))
    edit_manifest(folder, lambda m: m["files"].update({TEXT_INDEX: corpus_files.sha256_of(folder / TEXT_INDEX)}))
    with pytest.raises(CorpusError, match="not a flat inner-product index"):
        open_corpus(folder)


def test_another_encoder_than_the_corpus_has(folder: Path) -> None:
    with pytest.raises(CorpusError, match=r"no text index of st:other \(it has all-MiniLM-L6-v2-int8\)"):
        open_corpus(folder, "st:other")


@pytest.mark.parametrize(
    ("table", "field", "value"),
    [
        ("chunks", "page_id", "glioma_p099"),
        ("crops", "page_id", "glioma_p099"),
        ("regions", "page_id", "glioma_p099"),
        ("pages", "document", "other"),
        ("triples", "chunk_id", "glioma_p099_c00"),
        ("chunks", "region_ids", ["glioma_p099_r00"]),
        ("crops", "image", "crops/other.webp"),
        ("pages", "image", "crops/glioma_p001_table0.webp"),
    ],
)
def test_an_id_that_leads_nowhere(folder: Path, table: str, field: str, value: object) -> None:
    edit_rows(folder, table, lambda row: row.update({field: value}))
    name = value[0] if isinstance(value, list) else value
    assert any(table in problem and str(name) in problem for problem in check_corpus(folder))
    with pytest.raises(CorpusError, match=str(name)):
        open_corpus(folder)


def test_an_id_that_comes_twice(folder: Path) -> None:
    edit_rows(folder, "crops", lambda row: row.update(id="same"))
    with pytest.raises(CorpusError, match="'same' comes twice in crops"):
        open_corpus(folder)


@pytest.mark.parametrize(
    "line", ["{", "[]", '{"id": "x"}', '{"id": 1, "page_id": "p", "text": "t", "start": 0, "region_ids": []}']
)
def test_a_damaged_line_is_named(folder: Path, line: str) -> None:
    rewrite(folder, "chunks.jsonl", line + "\n")
    with pytest.raises(CorpusError, match=r"chunks\.jsonl, line 1"):
        open_corpus(folder)


@pytest.mark.parametrize(
    "name",
    ["../secret.webp", "pages/../../secret.webp", "/etc/passwd", "pages\\..\\x.webp", "pages/a/b.webp", "notes.txt"],
)
def test_a_manifest_can_not_lead_out_of_the_folder(folder: Path, name: str) -> None:
    (folder.parent / "secret.webp").write_bytes(b"secret")
    edit_manifest(folder, lambda m: m["files"].update({name: "0" * 64}))
    with pytest.raises(CorpusError, match="don't use this corpus"):
        open_corpus(folder)
    assert len(check_corpus(folder)) == 1


def test_a_row_can_not_lead_out_of_the_folder(folder: Path) -> None:
    edit_rows(folder, "crops", lambda row: row.update(image="../secret.webp"))
    with pytest.raises(CorpusError, match="secret"):
        open_corpus(folder)


def test_a_link_is_refused(folder: Path, tmp_path: Path) -> None:
    image = folder / "pages" / "glioma_p001.webp"
    outside = tmp_path / "outside.webp"
    image.rename(outside)
    image.symlink_to(outside)
    with pytest.raises(CorpusError, match="is a link"):
        open_corpus(folder)


def test_images_outside_the_manifest_are_refused(small: Corpus) -> None:
    for name in ("../x.webp", "pages/none.webp", "chunks.jsonl", ""):
        with pytest.raises(CorpusError, match="no image"):
            small.image_path(name)


# --- what a table and a manifest may hold ---


@pytest.mark.parametrize(
    ("table", "field", "text"),
    [
        ("crops", "bbox", "[NaN, 0, 1, 1]"),
        ("crops", "bbox", "[0, 0, Infinity, 1]"),
        ("crops", "bbox", f"[0, 0, 1{'0' * 400}, 1]"),
        ("crops", "bbox", "[5, 0, 1, 1]"),
        ("regions", "bbox", "[0, 5, 1, 1]"),
        ("regions", "bbox", "[0, 0, true, 1]"),
        ("regions", "bbox", "[0, 0, 1000001, 1]"),
        ("pages", "width_pt", "NaN"),
        ("pages", "width_pt", "true"),
        ("pages", "height_pt", "-1"),
        ("pages", "height_pt", f"1{'0' * 400}"),
        ("pages", "number", "1.0"),
        ("pages", "number", f"1{'0' * 5000}"),
        ("regions", "order", "-1"),
        ("chunks", "start", "-1"),
        ("chunks", "start", "true"),
        ("crops", "kind", "[]"),
        ("chunks", "text", '"a\\ud800b"'),
        ("chunks", "text", '"a\\u0000b"'),
        ("chunks", "region_ids", '["\\udfff"]'),
        ("crops", "caption", '"\\udc00"'),
    ],
)
def test_a_value_that_can_not_be_is_named(folder: Path, table: str, field: str, text: str) -> None:
    lines = (folder / f"{table}.jsonl").read_text().splitlines()
    row = json.loads(lines[0]) | {field: "@@"}
    rewrite(folder, f"{table}.jsonl", "\n".join([json.dumps(row).replace('"@@"', text), *lines[1:]]) + "\n")
    with pytest.raises(CorpusError, match=rf"{table}\.jsonl, line 1: ('{field}' is|not JSON)"):
        open_corpus(folder)
    assert len(check_corpus(folder)) == 1


@pytest.mark.parametrize(
    ("table", "change", "says"),
    [
        ("pages", {"number": 0}, "'number' is not from 1"),
        ("pages", {"number": 1_000_001}, "'number' is not from 1"),
        ("pages", {"width_pt": 0}, "a page with an image has no size"),
        ("crops", {"image": ""}, "'image' is empty"),
    ],
)
def test_a_row_that_can_not_be_is_named(folder: Path, table: str, change: dict[str, Any], says: str) -> None:
    edit_rows(folder, table, lambda row: row.update(change))
    with pytest.raises(CorpusError, match=rf"{table}\.jsonl, line 1: {says}"):
        open_corpus(folder)
    assert any(says in problem for problem in check_corpus(folder))


def test_a_page_without_an_image_needs_no_size(folder: Path) -> None:
    edit_rows(folder, "pages", lambda row: row.update(image="", width_pt=0, height_pt=0.0))
    open_corpus(folder)


@pytest.mark.parametrize("value", [True, 1.0, "1", None])
def test_the_format_is_a_whole_number(folder: Path, value: object) -> None:
    edit_manifest(folder, lambda m: m.update(format=value))
    with pytest.raises(CorpusError, match="is of format"):
        open_corpus(folder)


@pytest.mark.parametrize("name", ["crops/\udc80.webp", f"crops/{'a' * 5000}.webp", f"crops/{'ü' * 126}.webp"])
def test_a_file_name_that_no_folder_holds(folder: Path, name: str) -> None:
    edit_manifest(folder, lambda m: m["files"].update({name: "0" * 64}))
    with pytest.raises(CorpusError, match=r"don't use this corpus|no text") as caught:
        open_corpus(folder)
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize("key", ["name", "tools"])
def test_text_of_the_manifest_that_is_none(folder: Path, key: str) -> None:
    edit_manifest(folder, lambda m: m.update({key: "\ud800" if key == "name" else {"\x00": "1"}}))
    with pytest.raises(CorpusError, match=r"manifest\.json holds a NUL or a lone surrogate"):
        open_corpus(folder)


def test_a_damaged_row_of_the_manifest_is_named(folder: Path) -> None:
    edit_manifest(folder, lambda m: m["documents"][0].update(pages=-1))
    with pytest.raises(CorpusError, match=r"manifest\.json, documents, row 1: 'pages'"):
        open_corpus(folder)


@pytest.mark.parametrize("table", list(corpus_files.TABLES))
def test_a_table_without_a_digest_is_not_read(folder: Path, table: str) -> None:
    edit_manifest(folder, lambda m: m["files"].pop(f"{table}.jsonl"))
    with pytest.raises(CorpusError, match=rf"{table}\.jsonl without a digest"):
        open_corpus(folder)


# --- what an index may hold ---


@pytest.mark.parametrize(
    ("which", "change", "says"),
    [
        (1, {"rows": [10**12, 1], "count": 10**12 + 1}, "'count' is missing, of the wrong type or out of range"),
        (1, {"rows": [10**30, 1], "count": 2}, "'rows' is missing, of the wrong type or out of range"),
        (1, {"rows": [10**9 - 1, 1], "count": 10**9}, "holds 2 vectors, not 1000000000"),
        (1, {"rows": [2, 0]}, "has no vector for glioma_p002_figure0"),
        (1, {"rows": [True, 1]}, "'rows' is missing"),
        (0, {"rows": [1, 1, 1]}, "an index for text, which has no 'rows'"),
        (1, {"purpose": "other"}, "is an index for 'other', not for one of text, proxy, visual"),
        (1, {"purpose": "text"}, "two text indices"),
        (1, {"file": "chunks.jsonl"}, "'chunks.jsonl' without a digest"),
        (0, {"encoder": "word2vec"}, "of the encoder 'word2vec', which this Fusebox doesn't have"),
    ],
)
def test_an_index_that_can_not_be(folder: Path, which: int, change: dict[str, Any], says: str) -> None:
    edit_manifest(folder, lambda m: m["indices"][which].update(change))
    with pytest.raises(CorpusError, match=says):
        open_corpus(folder)
    assert any(says in problem for problem in check_corpus(folder))


def rewrite_index(folder: Path, content: bytes) -> None:
    (folder / TEXT_INDEX).write_bytes(content)
    edit_manifest(folder, lambda m: m["files"].update({TEXT_INDEX: corpus_files.sha256_of(folder / TEXT_INDEX)}))


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_an_index_with_a_number_that_is_none(folder: Path, value: float) -> None:
    content = (folder / TEXT_INDEX).read_bytes()
    rewrite_index(folder, content[:-4] + np.float32(value).tobytes())
    with pytest.raises(CorpusError, match=rf"{folder}/{TEXT_INDEX} holds a vector .* not finite; build it again"):
        open_corpus(folder)


def test_a_folder_whose_name_is_not_utf8(folder: Path, tmp_path: Path) -> None:
    other = Path(shutil.copytree(folder, tmp_path / os.fsdecode(b"\xff")))
    assert check_corpus(other) == []
    assert build_visual_index(open_corpus(other), ColourEncoder()).visual_encoder_ids == ("colour",)


def test_an_index_that_promises_more_than_it_holds(folder: Path) -> None:
    content = bytearray((folder / TEXT_INDEX).read_bytes())
    content[8:16] = (2**31).to_bytes(8, "little")
    content[37:45] = (2**31 * 384).to_bytes(8, "little")
    rewrite_index(folder, bytes(content))
    with pytest.raises(CorpusError, match=rf"{folder}/{TEXT_INDEX} is no whole faiss index; build it again"):
        open_corpus(folder)


# --- images ---


def damage_image(folder: Path, name: str, content: bytes) -> None:
    (folder / name).write_bytes(content)
    edit_manifest(folder, lambda m: m["files"].update({name: corpus_files.sha256_of(folder / name)}))


def webp_header(width: int, height: int) -> bytes:
    """A WebP file (extended, then a lossless frame) of that size, without the pixels."""
    canvas = b"\x00" * 4 + (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little")
    bits = (width - 1) | (height - 1) << 14
    frame = b"\x2f" + bits.to_bytes(4, "little") + b"\x00" * 11
    chunks = b"VP8X" + len(canvas).to_bytes(4, "little") + canvas + b"VP8L" + len(frame).to_bytes(4, "little") + frame
    return b"RIFF" + (len(chunks) + 4).to_bytes(4, "little") + b"WEBP" + chunks


@pytest.mark.parametrize("kind", ["no image", "truncated", "png", "too large"])
def test_a_damaged_image_with_a_right_digest_is_named(folder: Path, kind: str) -> None:
    name = "crops/glioma_p001_table0.webp"
    png = io.BytesIO()
    Image.new("RGB", (9, 9)).save(png, "PNG")
    content = {
        "no image": b"<script>",
        "truncated": (folder / name).read_bytes()[:-20],
        "png": png.getvalue(),
        "too large": webp_header(12_000, 12_000),
    }[kind]
    damage_image(folder, name, content)
    says = "12000 x 12000 pixels" if kind == "too large" else "can't be read as an image"
    assert any(f"{folder}/{name}" in problem and says in problem for problem in check_corpus(folder))
    with pytest.raises(CorpusError, match=says):
        open_corpus(folder).image(name)


@pytest.mark.parametrize("content", [b"<script>", webp_header(12_000, 12_000)], ids=["no image", "too large"])
def test_an_answer_that_lists_a_damaged_crop_is_shown(folder: Path, content: bytes) -> None:
    damage_image(folder, "crops/glioma_p001_table0.webp", content)
    corpus = open_corpus(folder)
    question = "What is the median survival by histology?"
    *_, trace = ask(question, SYSTEMS["+both"], GENERATORS["extractive"], corpus)
    assert trace.evidence.visual is not None
    assert "glioma_p001_table0" in [hit.item_id for hit in trace.evidence.visual.hits]
    shown = crops.render(trace, corpus)
    assert shown.count("data:image/svg+xml;base64,") == 1
    assert "data:image/webp;base64," in shown  # the other crop
    path = corpus.image_path("crops/glioma_p001_table0.webp")
    drawing = base64.b64decode(markup.data_uri(path).removeprefix("data:image/svg+xml;base64,"))
    assert b"image can&#x27;t be shown" in drawing
    assert markup.data_uri(folder / "pages" / "none.webp").startswith("data:image/svg+xml")


def test_a_truncated_crop_has_a_placeholder(folder: Path) -> None:
    path = folder / "crops" / "glioma_p001_table0.webp"
    path.write_bytes(path.read_bytes()[:-20])
    uri, width, height = markup.thumbnail(path, 120)
    assert uri.startswith("data:image/svg+xml") and (width, height) == (120, 80)


# --- digests are read once -------------------------------------------------------------------------------------------


def test_files_are_hashed_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hashed: list[str] = []
    right = corpus_files.sha256_of
    monkeypatch.setattr(corpus_files, "sha256_of", lambda file: hashed.append(file.name) or right(file))
    open_corpus(folder)
    assert "chunks.jsonl" in hashed
    hashed.clear()
    open_corpus(folder)
    assert hashed == []
    (folder / "pages.jsonl").touch()
    os.utime(folder / "pages.jsonl", ns=(1, 1))
    open_corpus(folder)
    assert hashed == ["pages.jsonl"]


def test_no_note_is_written_into_the_corpus(folder: Path) -> None:
    before = sorted(folder.rglob("*"))
    for file in before:
        file.chmod(0o555 if file.is_dir() else 0o444)
    folder.chmod(0o555)
    open_corpus(folder)
    folder.chmod(0o755)
    assert sorted(folder.rglob("*")) == before


def test_a_cache_that_can_not_be_written_is_no_error(folder: Path, cache_folder: Path) -> None:
    cache_folder.parent.mkdir(exist_ok=True)
    cache_folder.write_text("a file where the folder should be")
    open_corpus(folder)


# --- saving ----------------------------------------------------------------------------------------------------------


def test_the_same_input_gives_the_same_bytes(tmp_path: Path) -> None:
    chunks = [Chunk("p_c0", "p", "some text", 0), Chunk("p_c1", "p", "more text", 450)]
    a, b = save_text(tmp_path / "a", chunks), save_text(tmp_path / "b", chunks)
    names = [file.relative_to(a) for file in sorted(a.rglob("*")) if file.is_file()]
    for name in names:
        if name.name != "manifest.json":
            assert (a / name).read_bytes() == (b / name).read_bytes(), name
    one, two = (json.loads((root / "manifest.json").read_text()) for root in (a, b))
    assert {**one, "created": ""} == {**two, "created": ""}


def test_a_failed_save_leaves_nothing_and_keeps_the_old(tmp_path: Path) -> None:
    out = save_text(tmp_path / "c", [Chunk("p_c0", "p", "first", 0)])
    before = (out / "manifest.json").read_bytes()

    class Broken:
        id, dimension = "broken", 3

        def encode(self, texts: object) -> Any:
            raise CorpusError("stop")

        def count_tokens(self, text: str) -> int:
            return 0

    with pytest.raises(CorpusError, match="stop"):
        save_text(out, [Chunk("p_c0", "p", "second", 0)], encoder=Broken(), overwrite=True)
    assert (out / "manifest.json").read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["c"]


def test_overwriting_has_to_be_asked_for(tmp_path: Path) -> None:
    chunks = [Chunk("p_c0", "p", "text", 0)]
    out = save_text(tmp_path / "c", chunks)
    with pytest.raises(CorpusError, match="--overwrite"):
        save_text(out, chunks)
    save_text(out, chunks, overwrite=True)
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "letter.txt").write_text("dear")
    with pytest.raises(CorpusError, match="is no corpus"):
        save_text(tmp_path / "home", chunks, overwrite=True)
    assert (tmp_path / "home" / "letter.txt").read_text() == "dear"


@pytest.mark.parametrize("manifest", ["{}", "{", '{"format": 1}', '{"format": 99}'])
def test_only_a_corpus_is_overwritten(tmp_path: Path, manifest: str) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "manifest.json").write_text(manifest)
    (home / "mine.txt").write_text("precious")
    with pytest.raises(CorpusError, match=r"is no corpus.*--out"):
        save_text(home, [Chunk("p_c0", "p", "text", 0)], overwrite=True)
    assert (home / "mine.txt").read_text() == "precious"
    assert (home / "manifest.json").read_text() == manifest


@pytest.mark.parametrize("name", ["mine.txt", "README.md", "crops/mine.webp", ".git/config"])
def test_a_corpus_with_files_of_somebody_else_is_not_overwritten(folder: Path, name: str) -> None:
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_text("precious")
    with pytest.raises(CorpusError, match=rf"'{name}', which is no part of its corpus.*--out"):
        save_text(folder, [Chunk("p_c0", "p", "text", 0)], overwrite=True)
    assert (folder / name).read_text() == "precious"


def test_a_file_that_comes_while_the_corpus_is_built_is_kept(folder: Path) -> None:
    def come(line: str) -> None:
        (folder / "mine.txt").write_text("precious")

    with pytest.raises(CorpusError, match=r"mine\.txt"):
        save_text(folder, [Chunk("p_c0", "p", "text", 0)], overwrite=True, progress=come)
    assert (folder / "mine.txt").read_text() == "precious"
    assert [item.name for item in folder.parent.iterdir() if item.name.startswith(".corpus")] == []


def test_a_name_that_no_file_system_takes(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="holds no corpus") as caught:
        open_corpus("a" * 5000)
    assert len(str(caught.value)) < 500
    assert len(check_corpus("a" * 5000)) == 1
    with pytest.raises(CorpusError, match="--out"):
        save_text(tmp_path / ("a" * 5000), [])


def test_special_characters_survive(tmp_path: Path) -> None:
    text = 'quote " newline \n separator \u2028 astral \U0001f9ea <script> \x01'
    corpus = open_corpus(save_text(tmp_path / "c", [Chunk("p_c0", "p", text, 0)]))
    assert corpus.chunks["p_c0"].text == text


def test_what_is_no_text_is_replaced_one_for_one(tmp_path: Path) -> None:
    corpus = open_corpus(save_text(tmp_path / "c", [Chunk("p_c0", "p", "a\x00b\ud800c", 0)]))
    assert corpus.chunks["p_c0"].text == "a\ufffdb\ufffdc"


def test_a_row_that_could_not_be_read_again_is_not_saved(tmp_path: Path) -> None:
    crop = Crop("x", "p", "table", (0, 0, 1, 1), "", "Table 1", "")
    with pytest.raises(CorpusError, match=r"crops\.jsonl, line 1: 'image' is empty"):
        save_text(tmp_path / "c", [Chunk("p_c0", "p", "text", 0)], crops=[crop])
    assert list(tmp_path.iterdir()) == []


def test_proxy_texts_carry_the_caption_in_every_window() -> None:
    def crop(caption: str, read: str) -> Crop:
        return Crop("x", "p", "table", (0, 0, 1, 1), "", caption, read)

    assert proxy_texts(crop("Table 1:  Ages", "a | b\nc")) == ("Table 1: Ages a | b c",)
    assert proxy_texts(crop("", "")) == ()
    assert proxy_texts(crop("Only caption", "")) == ("Only caption",)
    long = proxy_texts(crop("Cap", "x" * 1000))
    assert [len(text) for text in long] == [504, 504, 104]


# --- the visual index ------------------------------------------------------------------------------------------------


class ColourEncoder:
    """Mean colour of an image: an image encoder whose vectors are known by hand."""

    id, dimension = "colour", 3

    def encode_text(self, texts: Any) -> Any:
        return normalised(np.ones((len(texts), 3)))

    def encode_images(self, images: Any) -> Any:
        return normalised(np.array([np.asarray(image).reshape(-1, 3).mean(axis=0) for image in images]))


def test_a_visual_index_is_added_in_place(folder: Path) -> None:
    before = open_corpus(folder)
    lines: list[str] = []
    after = build_visual_index(before, ColourEncoder(), lines.append)
    assert after.visual_encoder_ids == ("colour",)
    assert after.id == before.id
    assert lines[-1] == "encoded 2 of 2 crops"
    assert check_corpus(folder) == []
    white = normalised(np.ones((1, 3)))[0]
    assert [score for _, score in after.search_visual(white, 9, "colour")] == pytest.approx([1.0, 1.0], abs=1e-4)
    # Building it again replaces it.
    assert build_visual_index(after, ColourEncoder()).visual_encoder_ids == ("colour",)


def test_a_visual_index_that_does_not_fit(folder: Path) -> None:
    with pytest.raises(CorpusError, match="2 crops; 3 vectors"):
        add_visual_index(open_corpus(folder), "colour", np.ones((3, 3), dtype=np.float32))


@pytest.mark.skipif(not PAPER.is_dir(), reason="the study's data (../shared/data/paper) is not on this machine")
def test_the_studys_clip_vectors_load_and_every_crop_finds_itself_first(tmp_path: Path) -> None:
    with np.load(PAPER / "clip_vit_b32_laion2b_crops.npz", allow_pickle=False) as data:
        vectors, names = data["vectors"], [str(name) for name in data["names"]]
    crops = [
        Crop(Path(name).stem, "p", "table" if "_table" in name else "figure", (0, 0, 1, 1), "", "", "")
        for name in names
    ]
    (tmp_path / "crops").mkdir()
    for i, crop in enumerate(crops):
        crops[i] = replace(crop, image=f"crops/{crop.id}.webp")
        Image.new("RGB", (1, 1)).save(tmp_path / crops[i].image, "WEBP")
    out = save_text(tmp_path / "c", [Chunk("p_c0", "p", "text", 0)], crops=crops, images=tmp_path)
    corpus = add_visual_index(open_corpus(out), "clip-vit-b-32-laion2b_s34b_b79k", normalised(vectors))
    assert len(corpus.crops) == 598
    for crop, vector in zip(crops, normalised(vectors), strict=True):
        (first, score), *_ = corpus.search_visual(vector, 5, "clip-vit-b-32-laion2b_s34b_b79k")
        assert first == crop.id
        assert score == pytest.approx(1.0, abs=1e-5)

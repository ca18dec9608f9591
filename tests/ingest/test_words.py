"""The words of a page set against its folded text, and the table that keeps them."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from rag import corpus_files
from rag.corpus import check_corpus, open_corpus, save_corpus
from rag.corpus_files import PageWords
from rag.errors import CorpusError
from rag.ingest.build import ingest
from rag.ingest.pdf import document_vocabulary, read_page
from rag.ingest.words import align
from rag.types import BBox, Chunk, Document, Page, Word
from tests.ingest.pages import DOCUMENTS, corpus_page


def box(x: float, y: float = 0.0) -> BBox:
    return x, y, x + 9.0, y + 9.0


def texts(text: str, words: tuple[Word, ...]) -> list[tuple[str, float]]:
    return [(text[word.start : word.end], word.bbox[0]) for word in words]


def test_words_in_order_have_their_own_boxes() -> None:
    text = "the cat saw the dog"
    found = [(word, box(10.0 * i)) for i, word in enumerate(text.split())]
    assert texts(text, align(text, found)) == [("the", 0), ("cat", 10), ("saw", 20), ("the", 30), ("dog", 40)]


def test_a_word_broken_at_a_line_end_is_two() -> None:
    found = [("with", box(0)), ("compet-", box(10)), ("ing", box(0, 20)), ("risks", box(10, 20))]
    text = "with competing risks"
    assert [(text[w.start : w.end], w.bbox) for w in align(text, found)] == [
        ("with", box(0)),
        ("compet", box(10)),
        ("ing", box(0, 20)),
        ("risks", box(10, 20)),
    ]
    # A compound keeps its hyphen, and a soft hyphen is none.
    text = "a time-dependent coefficient"
    found = [("a", box(0)), ("time-", box(1)), ("dependent", box(2)), ("coe\u00ad", box(3)), ("\ufb03cient", box(4))]
    assert texts(text, align(text, found)) == [("a", 0), ("time-", 1), ("dependent", 2), ("coe", 3), ("fficient", 4)]


def test_a_word_that_the_text_has_not_costs_no_other() -> None:
    text = "one two three four five"
    found = [("one", box(0)), ("stray", box(1)), ("two", box(2)), ("four", box(4)), ("five", box(5))]
    assert texts(text, align(text, found)) == [("one", 0), ("two", 2), ("four", 4), ("five", 5)]


def test_lines_without_spaces_are_words_of_one_token() -> None:
    text = "生存分析的方法很多。"
    found = [("生存分析", box(0)), ("的方法很多。", box(0, 20))]
    assert [(text[w.start : w.end], w.bbox[1]) for w in align(text, found)] == [("生存分析", 0), ("的方法很多。", 20)]


def test_a_head_repeated_in_every_row_has_one_place() -> None:
    text = "Before. arm | Deaths: 12 | Ratio: 12 arm | Deaths: 7 | Ratio: 1 After."
    heads = [("Deaths", box(110, 100)), ("Ratio", box(120, 100))]
    first = [("arm", box(100, 110)), ("12", box(110, 110)), ("12", box(120, 110))]
    second = [("arm", box(100, 120)), ("7", box(110, 120)), ("1", box(120, 120))]
    found = [("Before.", box(0)), *heads, *first, *second, ("After.", box(0, 200))]
    table = ((90.0, 95.0, 140.0, 135.0), (8, len(text) - 7))
    placed = [(text[w.start : w.end], w.bbox[:2]) for w in align(text, found, [table])]
    assert placed == [
        ("Before.", (0, 0)),
        ("arm", (100, 110)), ("Deaths", (110, 100)), ("12", (110, 110)), ("Ratio", (120, 100)), ("12", (120, 110)),
        ("arm", (100, 120)), ("Deaths", (110, 100)), ("7", (110, 120)), ("Ratio", (120, 100)), ("1", (120, 120)),
        ("After.", (0, 200)),
    ]  # fmt: skip


def test_nearly_all_of_a_real_page_is_placed() -> None:
    page = corpus_page("survival-compete.pdf", 12)
    content = read_page(page, "compete", document_vocabulary(page.parent))
    text = " ".join(content.text.split())
    placed = align(text, content.words)
    assert sum(word.end - word.start for word in placed) > 0.98 * len(text.replace(" ", ""))
    # MuPDF's own search finds them in the same places.
    once = [w for w in placed if len(text[w.start : w.end]) > 9 and len(page.search_for(text[w.start : w.end])) == 1]
    assert len(once) > 10
    for word in once:
        (hit,) = page.search_for(text[word.start : word.end])
        assert word.bbox == pytest.approx(tuple(hit), abs=1.5)


def test_a_turned_page_has_its_words_where_they_are_before_turning() -> None:
    page = corpus_page("survival-compete.pdf", 6)
    upright = read_page(page, "d").words
    page.set_rotation(90)  # the text now runs down the page, so its order differs
    turned = dict(read_page(page, "d").words)
    once = {word: place for word, place in upright if [w for w, _ in upright].count(word) == 1 and word in turned}
    assert len(once) > 50
    for word, place in once.items():
        assert turned[word] == pytest.approx(place, abs=0.5)


# --- the table -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("words")
    (folder / "none.jsonl").write_text("")
    source = DOCUMENTS / "survival-compete.pdf"
    ingest([source], folder / "out", limit=2, workers=1, triples_file=folder / "none.jsonl")
    return folder / "out"


@pytest.fixture
def folder(built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return Path(shutil.copytree(built, tmp_path / "corpus"))


def rewrite(folder: Path, lines: list[str]) -> None:
    """Change the words and set their digest right."""
    (folder / "words.jsonl").write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    manifest = corpus_files.read_manifest(folder)
    digests = {**manifest.files, "words.jsonl": corpus_files.sha256_of(folder / "words.jsonl")}
    corpus_files.write_manifest(folder, replace(manifest, files=digests))


def test_an_ingested_corpus_places_its_words(built: Path) -> None:
    corpus = open_corpus(built)
    assert check_corpus(built) == []
    for page in corpus.pages.values():
        words, text = corpus.words_on(page.id), corpus.page_text(page.id)
        assert sum(word.end - word.start for word in words) > 0.95 * len(text.replace(" ", ""))
        assert list(words) == sorted(words, key=lambda word: word.start)
        for word in words:
            assert 0 <= word.bbox[0] < word.bbox[2] <= page.width_pt
            assert 0 <= word.bbox[1] < word.bbox[3] <= page.height_pt
    assert corpus.words_on("no such page") == ()


def test_a_corpus_without_words_opens_and_has_the_same_id(folder: Path) -> None:
    before = open_corpus(folder)
    (folder / "words.jsonl").unlink()
    files = {name: digest for name, digest in before.manifest.files.items() if name != "words.jsonl"}
    assert corpus_files.corpus_id(before.manifest.name, files) == before.id
    corpus_files.write_manifest(folder, replace(corpus_files.read_manifest(folder), files=files))
    assert check_corpus(folder) == []
    assert open_corpus(folder).words_on(next(iter(before.pages))) == ()


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ('{"page_id": "survival-compete_p001", "words": [[0, 4, 1, 1, 0, 2]]}', "a word is not"),
        ('{"page_id": "survival-compete_p001", "words": [[4, 4, 1, 1, 2, 2]]}', "a word is not"),
        ('{"page_id": "survival-compete_p001", "words": [[0, 4, 1, 1, 2, NaN]]}', "a word is not"),
        ('{"page_id": "survival-compete_p001", "words": {}}', "not an object with"),
        ('{"page_id": "survival-compete_p001", "words": [[0,', "not JSON"),
    ],
)
def test_a_damaged_line_is_named(folder: Path, line: str, says: str) -> None:
    rewrite(folder, [line])
    with pytest.raises(CorpusError, match=f"page survival-compete_p001: {says}"):
        open_corpus(folder).words_on("survival-compete_p001")
    assert any(f"line 1: {says}" in problem for problem in check_corpus(folder))


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        (['{"page_id": "elsewhere", "words": []}'], "names the page 'elsewhere', which does not exist"),
        (['{"page_id": "survival-compete_p001", "words": [[0, 99999, 1, 1, 2, 2]]}'], "outside its text"),
        (['{"page_id": "survival-compete_p001", "words": []}'] * 2, "line 2: no page, or one that came before"),
        (['{"words": [], "page_id": "survival-compete_p001"}'], "line 1: no page"),
    ],
)
def test_words_that_can_not_be_are_found_by_the_check(folder: Path, lines: list[str], says: str) -> None:
    rewrite(folder, lines)
    assert any(says in problem for problem in check_corpus(folder))


def test_words_of_a_saved_corpus_come_back(tmp_path: Path) -> None:
    page = Page('p "1"\u00e9', "d", 1, 100.0, 100.0, "", "ocr", "Half of it is torn off.")
    words = (Word(0, 3, (1.26, 2.0, 3.04, 4.0)), Word(4, 8, (5.0, 2.0, 9.0, 4.0)))
    out = save_corpus(
        tmp_path / "out",
        name="n",
        kind="image",
        documents=[Document("d", "D", "d.png", 1, "0" * 64)],
        pages=[page],
        chunks=[Chunk("c", page.id, "Two word", 0)],
        words=[PageWords(page.id, words)],
    )
    corpus = open_corpus(out)
    assert corpus.pages[page.id] == page
    assert corpus.words_on(page.id) == (Word(0, 3, (1.3, 2.0, 3.0, 4.0)), words[1])
    assert check_corpus(out) == []

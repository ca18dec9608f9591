"""The demo's question files: their format, their words, and that every answer stands in its source."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from rag.corpus import Corpus, open_corpus
from rag.settings import DEMO_CORPUS

FOLDER = Path(__file__).parents[1] / "assets" / "questions"
SETS = {
    "demo_text": ("text", 16),
    "demo_multihop": ("multihop", 12),
    "demo_figure_pixel": ("figure", 14),
    "demo_figure_caption": ("figure", 12),
    "demo_unanswerable": ("unanswerable", 12),
}
MODALITY = re.compile(
    r"\b(?:figures?|tables?|charts?|plots?|plotted|panels?|graphs?|graphics?|diagrams?|curves?|drawn|drawings?|images?|pictures?|"
    r"boxplots?|histograms?|axis|axes|captions?|shown|row|column|crops?)\b",
    re.I,
)
PIXELS_ONLY = frozenset({"about 0.46", "about 0.78", "female, diagnosis at age 60"})
"""Answers read off the height of a curve: no text holds them."""


def _questions() -> Iterator[tuple[str, dict]]:
    for name in SETS:
        for entry in json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8")):
            yield name, entry


ALL = list(_questions())


def _sources(entry: dict) -> list[str]:
    return [entry["source"]] if isinstance(entry["source"], str) else entry["source"]


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    return open_corpus(DEMO_CORPUS)


@pytest.mark.parametrize("name", SETS)
def test_a_set_is_a_list_of_questions_of_its_type(name: str) -> None:
    kind, least = SETS[name]
    entries = [entry for of, entry in ALL if of == name]
    assert len(entries) >= least
    for entry in entries:
        assert set(entry) == {"q", "source", "answer", "type"}
        assert entry["type"] == kind
        assert entry["q"].endswith("?") and entry["q"] == " ".join(entry["q"].split())
        assert bool(entry["answer"]) == (kind != "unanswerable") or entry["answer"] == "not in the documents"
        assert all(_sources(entry)) == (kind != "unanswerable")
    assert len({entry["q"] for entry in entries}) == len(entries)


def test_no_question_gives_its_modality_away() -> None:
    assert not [entry["q"] for _, entry in ALL if MODALITY.search(entry["q"])]


def test_several_multihop_questions_cross_documents() -> None:
    documents = [{source.rsplit("_p", 1)[0] for source in _sources(e)} for name, e in ALL if name == "demo_multihop"]
    assert sum(len(names) > 1 for names in documents) >= 4
    assert all(
        (len(_sources(e)) == 2 and "; " in e["answer"]) or "against" in e["answer"]
        for n, e in ALL
        if n == "demo_multihop"
    )


def test_sources_exist(corpus: Corpus) -> None:
    known = corpus.pages.keys() | corpus.crops.keys()
    assert not [source for _, e in ALL for source in _sources(e) if source and source not in known]


def test_figure_questions_name_crops_and_text_questions_pages(corpus: Corpus) -> None:
    for name, entry in ALL:
        place = corpus.crops if entry["type"] == "figure" else corpus.pages
        assert all(source in place for source in _sources(entry) if source), (name, entry["q"])


def test_answers_stand_in_their_sources(corpus: Corpus) -> None:
    missing = []
    for name, entry in ALL:
        if entry["type"] == "unanswerable" or entry["answer"] in PIXELS_ONLY:
            continue
        crops = [corpus.crops[source] for source in _sources(entry) if source in corpus.crops]
        read = [crop.caption if name == "demo_figure_caption" else crop.ocr_text for crop in crops]
        pages = [corpus.page_text(source) for source in _sources(entry) if source in corpus.pages]
        if not _holds(" ".join([*read, *pages]), entry["answer"], strict=entry["type"] == "figure"):
            missing.append((entry["q"], entry["answer"]))
    assert not missing


def test_pixel_answers_stand_in_no_caption(corpus: Corpus) -> None:
    for name, entry in ALL:
        if name == "demo_figure_pixel":
            captions = " ".join(corpus.crops[source].caption for source in _sources(entry))
            assert not re.search(rf"(?<![\w.]){re.escape(entry['answer'])}(?![\w.])", captions), entry["q"]


def test_pixel_answers_of_drawings_stand_in_no_running_text_of_their_page(corpus: Corpus) -> None:
    for name, entry in ALL:
        if name == "demo_figure_pixel":
            for crop in (corpus.crops[source] for source in _sources(entry)):
                text = corpus.page_text(crop.page_id) if crop.kind == "figure" else ""
                assert not re.search(rf"(?<![\w.]){re.escape(entry['answer'])}(?![\w.])", text), entry["q"]


def _holds(text: str, answer: str, strict: bool) -> bool:
    """Numbers of the answer stand in the text, and (loosely) its other words; one word of two where it is not strict."""
    text = " ".join(text.replace("\u2013", "-").replace(",", "").split()).lower()
    words = re.findall(r"[^\W\d_]{3,}|\d+(?:\.\d+)?", answer.replace("\u2013", "-").replace(",", "").lower())
    numbers = [word for word in words if word[0].isdigit()]
    letters = [word for word in words if not word[0].isdigit() and word not in ("the", "and", "about", "against")]
    found = sum(word in text for word in letters)
    return all(word in text for word in numbers) and found >= len(letters) * (0.8 if strict else 0.5)

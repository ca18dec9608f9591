"""A caption that a model wrote stands beside the author's, under the model's name, wherever a crop is shown."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rag.corpus import Corpus
from rag.types import Crop
from tests.ui.test_views import HOSTILE, Shape
from tests.ui.traces import trace
from ui.views import crops
from ui.views.corpus import _crop as corpus_page_crop

TABLE = "glioma_p001_table0"


def captioned(corpus: Corpus, said: str, model: str) -> tuple[Corpus, Crop]:
    """The corpus with a model's caption on its table."""
    crop = replace(corpus.crops[TABLE], model_caption=said, captioned_by=model)
    return replace(corpus, crops={**corpus.crops, TABLE: crop}), crop


def test_both_captions_are_shown_and_told_apart(small: Corpus) -> None:
    corpus, crop = captioned(small, "A table of months by arm.", "gpt-4o")
    shown = trace(small)
    for page in (
        crops.render(shown, corpus),
        crops.full(shown, corpus, TABLE),
        crops.full(None, corpus, TABLE),
        corpus_page_crop(corpus, crop),
    ):
        author, _, rest = page.partition("<small>by <bdi>gpt-4o</bdi>:</small>")
        assert "Median" in author and "by histology" in author
        assert "arm." in rest and "Median survival by" not in rest.partition("</p>")[0]
    assert "<small>by" not in crops.full(shown, small, TABLE)


def test_what_was_sent_and_where_a_word_stands_name_the_model(small: Corpus) -> None:
    corpus, crop = captioned(small, "A table of months by arm.", "gpt-4o")
    assert crops.payload(crop, trace(small), corpus) == (
        f"caption: {len(crop.caption)} characters",
        "caption by gpt-4o: 25 characters",
    )
    (match,) = crops.matches(crop, "Which arm?", corpus)
    assert match.places == ("caption by gpt-4o",)


def test_a_models_caption_stands_in_for_none(small: Corpus) -> None:
    crop = replace(small.crops["glioma_p002_figure0"], model_caption="A tree.", captioned_by="m")
    assert list(crops._words_sent(crop, False)) == ["caption by m: 7 characters"]


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_captions_and_names_stay_words(small: Corpus, kind: str) -> None:
    def pages(said: str, model: str) -> tuple[str, ...]:
        corpus, crop = captioned(small, said, model)
        shown = trace(small)
        return crops.full(shown, corpus, TABLE), crops.render(shown, corpus), corpus_page_crop(corpus, crop)

    for attacked, harmless in zip(pages(f"glioma {HOSTILE[kind]}", HOSTILE[kind]), pages("glioma x", "x"), strict=True):
        assert _bare(attacked) == _bare(harmless)


def _bare(document: str) -> list[tuple[str, tuple[str, ...]]]:
    """The skeleton, but for the marks on words and what a long name is wrapped in."""
    return [tag for tag in Shape(document).tags if tag[0] not in Shape.IGNORED]

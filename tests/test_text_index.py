"""A text index for another encoder, beside the one a corpus was built with."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from rag.branches import Query, text
from rag.corpus import add_text_index, check_corpus, open_corpus
from rag.encoders import MINILM, Vectors, text_encoder
from rag.errors import Stopped
from rag.types import Progress, System


class Initials:
    """A text is where its words' first letters stand in the alphabet; known to nobody else."""

    id = "st:initials"
    dimension = 26

    def encode(self, texts: Sequence[str]) -> Vectors:
        rows = np.full((len(texts), 26), 1e-3, dtype=np.float32)
        for row, words in enumerate(texts):
            for word in words.lower().split():
                if "a" <= word[0] <= "z":
                    rows[row, ord(word[0]) - 97] += 1
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)

    def count_tokens(self, text: str) -> int:
        return len(text.split())


@pytest.fixture
def folder(small_folder: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(small_folder, tmp_path / "corpus"))


def test_both_indices_are_there_and_the_corpus_is_the_same(folder: Path) -> None:
    before = open_corpus(folder)
    told: list[Progress] = []
    after = add_text_index(folder, Initials(), told.append)
    assert (after.id, after.text_encoder_id) == (before.id, "st:initials")
    assert [event.stage for event in told] == ["chunk index", "crop index"]
    assert [(e.purpose, e.encoder) for e in after.manifest.indices] == [
        ("text", MINILM), ("proxy", MINILM), ("text", "st:initials"), ("proxy", "st:initials"),
    ]  # fmt: skip
    for chunk in after.chunks.values():
        (best, cosine), *_ = after.search_text(Initials().encode([chunk.text])[0], 1)
        assert best == chunk.id and cosine == pytest.approx(1)
    question = Query.of("How many women?", open_corpus(folder, MINILM))
    system = System("x", text_ranker="dense")
    assert text(question, open_corpus(folder, MINILM), system) == text(question, before, system)
    assert check_corpus(folder) == []


def test_an_index_that_is_there_is_not_built_again(folder: Path) -> None:
    told: list[Progress] = []
    assert add_text_index(folder, text_encoder(MINILM), told.append).text_encoder_id == MINILM
    assert told == []


def test_stopped_it_leaves_nothing_behind(folder: Path) -> None:
    files = sorted(folder.rglob("*"))

    def stop(event: Progress) -> None:
        if event.stage == "crop index":
            raise Stopped("enough")

    with pytest.raises(Stopped):
        add_text_index(folder, Initials(), stop)
    assert sorted(folder.rglob("*")) == files
    assert [e.encoder for e in open_corpus(folder).manifest.indices] == [MINILM, MINILM]

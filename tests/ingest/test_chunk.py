"""Windows of a page's text."""

from __future__ import annotations

import gzip
import hashlib
import json
from pathlib import Path

import pytest

from rag.ingest.chunk import fold_whitespace, windows

HOTPOTQA = Path(__file__).resolve().parents[3] / "shared" / "data" / "hotpotqa"


def test_windows_step_to_the_end_of_the_page() -> None:
    text = "".join(chr(ord("a") + i % 26) for i in range(1000))
    assert list(windows(text)) == [(0, text[:500]), (450, text[450:950]), (900, text[900:])]


def test_the_last_window_may_lie_within_the_one_before() -> None:
    assert [start for start, _ in windows("x" * 451)] == [0, 450]
    assert [start for start, _ in windows("x" * 450)] == [0]


def test_white_space_is_folded_first() -> None:
    assert list(windows(" a\n\n b\tc\u00a0d ")) == [(0, "a b c d")]
    assert fold_whitespace("\x0b \u2003") == ""


def test_a_blank_page_has_no_window() -> None:
    assert list(windows("")) == []
    assert list(windows(" \n\t ")) == []


@pytest.mark.skipif(not HOTPOTQA.is_dir(), reason="the study's data (../shared/data/hotpotqa) is not on this machine")
def test_the_studys_documents_give_the_studys_windows() -> None:
    with gzip.open(HOTPOTQA / "triples_by_chunk_md5.jsonl.gz", "rt", encoding="utf-8") as file:
        known = {json.loads(line)["chunk_md5"] for line in file}
    with gzip.open(HOTPOTQA / "docs.jsonl.gz", "rt", encoding="utf-8") as file:
        texts = [json.loads(line)["text"] for line in file]
    found = [window for text in texts for _, window in windows(text)]
    assert (len(texts), len(found)) == (2964, 5128)
    assert {hashlib.md5(window.encode()).hexdigest() for window in found} == known

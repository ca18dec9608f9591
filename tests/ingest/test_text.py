"""JSON-lines documents."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from rag.errors import DocumentError
from rag.ingest.text import TextRecord, read_records

GOOD = '{"source": "a.txt", "text": "Alpha"}\n\n{"source": "b.txt", "text": "", "more": 1}\n'


@pytest.mark.parametrize("name", ["docs.jsonl", "docs.jsonl.gz"])
def test_records_in_order(tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    file.write_bytes(gzip.compress(GOOD.encode()) if name.endswith(".gz") else GOOD.encode())
    assert list(read_records(file)) == [TextRecord("a.txt", "Alpha"), TextRecord("b.txt", "")]


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("{", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("[1]", "must be an object"),
        ('{"text": "x"}', '"source" is missing'),
        ('{"source": "x"}', '"text" is missing'),
        ('{"source": 7, "text": "x"}', '"source" is missing or no string'),
        ('{"source": " ", "text": "x"}', "printable"),
        ('{"source": "a\\u0000b", "text": "x"}', "printable"),
        ('{"source": "a.txt", "text": "x"}', "comes twice"),
    ],
)
def test_a_bad_line_is_named_and_the_rest_goes_in(tmp_path: Path, line: str, fault: str) -> None:
    file = tmp_path / "docs.jsonl"
    file.write_text(f'{{"source": "a.txt", "text": "A"}}\n{line}\n{{"source": "c.txt", "text": "C"}}\n')
    with pytest.raises(DocumentError, match=rf"docs\.jsonl, line 2: .*{fault}"):
        list(read_records(file))
    refused: list[DocumentError] = []
    assert [record.source for record in read_records(file, refused.append)] == ["a.txt", "c.txt"]
    assert len(refused) == 1


def test_a_lone_surrogate_becomes_a_question_mark(tmp_path: Path) -> None:
    file = tmp_path / "docs.jsonl"
    file.write_text('{"source": "a", "text": "x\\ud800y"}\n')
    assert [record.text for record in read_records(file)] == ["x?y"]


def test_a_byte_that_is_not_utf_8_costs_its_line_alone(tmp_path: Path) -> None:
    file = tmp_path / "docs.jsonl"
    file.write_bytes(
        b'{"source": "a", "text": "A"}\n{"source": "b", "text": "caf\xe9"}\n{"source": "c", "text": "C"}\n'
    )
    refused: list[DocumentError] = []
    assert [record.source for record in read_records(file, refused.append)] == ["a", "c"]
    assert [str(error) for error in refused] == ["docs.jsonl, line 2: it is not UTF-8 (invalid continuation byte)."]


@pytest.mark.parametrize(
    "content", [b"no gzip", gzip.compress(GOOD.encode(), mtime=0)[:-12]], ids=["no gzip", "cut off"]
)
def test_a_file_that_can_not_be_read_is_named(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "docs.jsonl.gz"
    file.write_bytes(content)
    with pytest.raises(DocumentError, match=rf"{file.name} can't be read"):
        list(read_records(file))
    with pytest.raises(DocumentError, match=r"gone\.jsonl"):
        list(read_records(tmp_path / "gone.jsonl"))

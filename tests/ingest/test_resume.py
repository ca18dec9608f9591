"""A run that was cut off goes on: nothing finished is done again, nothing is lost."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from rag import corpus_files
from rag.corpus import check_corpus
from rag.errors import Stopped
from rag.ingest.build import ingest
from rag.ingest.stage import Journal
from rag.types import Progress
from tests.ingest.test_build import make_pdf, write_records

ROOT = Path(__file__).resolve().parents[2]
PAGES = 24


def rows(folder: Path, table: str) -> list[str]:
    return (folder / f"{table}.jsonl").read_text().splitlines()


def all_bytes(folder: Path) -> dict[str, bytes]:
    """Content of every file but the manifest, which holds the time; of that, all else."""
    found = {str(f.relative_to(folder)): f.read_bytes() for f in folder.rglob("*") if f.is_file()}
    manifest = json.loads(found.pop("manifest.json"))
    del manifest["created"]
    return found | {"manifest": json.dumps(manifest).encode()}


# --- the journal -----------------------------------------------------------------------------------------------------


def test_what_is_behind_the_last_entry_is_cut_off(tmp_path: Path) -> None:
    with ExitStack() as stack:
        journal = Journal(tmp_path, "j", ("a", "b"), stack)
        journal.add({"n": 1}, {"a": ["a1\n"], "b": ["b1\n", "b2\n"]})
        journal.add({"n": 2}, {"a": ["a2\n"]})
    with (tmp_path / "b.jsonl").open("a") as table, (tmp_path / "j.journal").open("a") as file:
        table.write("b3\nb4 is torn")  # written, and then the run was killed before its entry was whole
        file.write('{"n": 3, "ends": {"a"')
    with ExitStack() as stack:
        journal = Journal(tmp_path, "j", ("a", "b"), stack)
        assert journal.entries == [{"n": 1}, {"n": 2}]
        journal.add({"n": 4}, {"b": ["b5\n"]})
    assert rows(tmp_path, "a") == ["a1", "a2"]
    assert rows(tmp_path, "b") == ["b1", "b2", "b5"]
    with ExitStack() as stack:
        assert Journal(tmp_path, "j", ("a", "b"), stack).entries == [{"n": 1}, {"n": 2}, {"n": 4}]


def test_an_entry_whose_rows_are_gone_does_not_count(tmp_path: Path) -> None:
    with ExitStack() as stack:
        journal = Journal(tmp_path, "j", ("a",), stack)
        journal.add({"n": 1}, {"a": ["a1\n"]})
        journal.add({"n": 2}, {"a": ["a2\n"]})
    (tmp_path / "a.jsonl").write_text("a1\na")
    with ExitStack() as stack:
        assert Journal(tmp_path, "j", ("a",), stack).entries == [{"n": 1}]
    assert rows(tmp_path, "a") == ["a1"]


# --- runs ------------------------------------------------------------------------------------------------------------


def test_after_a_kill_the_rest_is_read_and_the_result_is_the_same(tmp_path: Path) -> None:
    source = make_pdf(tmp_path / "long.pdf", PAGES)
    whole, out = tmp_path / "whole" / "c", tmp_path / "cut" / "c"
    ingest([source], whole, name="c", workers=1)
    process = subprocess.Popen(
        [sys.executable, "-m", "rag", "ingest", str(source), "--out", str(out), "--workers", "1"],
        cwd=ROOT, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stderr is not None
    assert process.stderr.readline().startswith(f"read 10 of {PAGES}")
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stderr.close()
    (stage,) = out.parent.iterdir()
    finished = len((stage / "pages.journal").read_bytes().splitlines())
    assert 10 <= finished < PAGES
    kept = {file.name: file.stat().st_mtime_ns for file in (stage / "pages").iterdir()}
    events: list[Progress] = []
    report = ingest([source], out, workers=1, resume=True, progress=events.append)
    assert next(event.done for event in events if event.stage == "pages") >= 10
    assert str(events[0]).startswith("read before: ")
    assert all_bytes(out) == all_bytes(whole)
    assert check_corpus(out) == []
    assert [page.number for page in report.pages] == list(range(1, PAGES + 1))
    assert report.counts["pages"] == PAGES
    # The images of finished pages were not written again.
    for number in range(1, 11):
        name = f"long_p{number:03d}.webp"
        assert (out / "pages" / name).stat().st_mtime_ns == kept[name]
    assert [file.name for file in out.parent.iterdir()] == ["c"]


class Cut(Exception):
    """Stands for a fault in the middle, such as a full disk."""


@pytest.mark.parametrize("at", ["triples", "chunk index"])
def test_a_run_cut_off_behind_the_pages_goes_on_there(tmp_path: Path, at: str) -> None:
    texts = [(f"d{n}.txt", f"The trial enrolled {n} patients. The committee rejected proposal {n}.") for n in range(70)]
    source = write_records(tmp_path / "docs.jsonl", *texts)
    ingest([source], tmp_path / "whole" / "c")

    def cut(event: Progress) -> None:
        if event.stage == at and event.done:
            raise Cut

    out = tmp_path / "cut" / "c"
    with pytest.raises(Cut):
        ingest([source], out, resume=True, progress=cut)
    (stage,) = out.parent.iterdir()
    before = rows(stage, "triples")
    assert before
    events: list[Progress] = []
    ingest([source], out, resume=True, progress=events.append)
    assert all_bytes(out) == all_bytes(tmp_path / "whole" / "c")
    assert rows(out, "triples")[: len(before)] == before
    extracted = [event.done for event in events if event.stage == "triples" and event.done]
    assert extracted == ([64, 70] if at == "triples" else [])


def test_other_sources_or_options_are_not_gone_on_with(tmp_path: Path) -> None:
    source = write_records(tmp_path / "docs.jsonl", ("a.txt", "Alpha"), ("b.txt", "Beta"))

    def cut(event: Progress) -> None:
        if event.stage == "triples":
            raise Cut

    out = tmp_path / "o" / "c"
    with pytest.raises(Cut):
        ingest([source], out, resume=True, progress=cut)
    events: list[Progress] = []
    ingest([source], out, limit=1, resume=True, progress=events.append)
    assert not any(str(event).startswith("read before") for event in events)
    assert len(corpus_files.read_manifest(out).documents) == 1
    assert [file.name for file in out.parent.iterdir()] == ["c"]


def test_without_resume_nothing_stays_of_a_run_that_fails(tmp_path: Path) -> None:
    def cut(event: Progress) -> None:
        raise Cut

    with pytest.raises(Cut):
        ingest([write_records(tmp_path / "docs.jsonl", ("a.txt", "Alpha"))], tmp_path / "o" / "c", progress=cut)
    assert list((tmp_path / "o").iterdir()) == []


@pytest.mark.parametrize("at", ["pages", "triples", "chunk index"])
def test_stop_leaves_nothing_behind(tmp_path: Path, at: str) -> None:
    reached: list[str] = []
    texts = [(f"{n}.txt", "The trial enrolled 37 patients.") for n in range(12)]
    with pytest.raises(Stopped, match="stopped"):
        ingest(
            [write_records(tmp_path / "docs.jsonl", *texts)],
            tmp_path / "o" / "c",
            progress=lambda event: reached.append(event.stage),
            stopped=lambda: at in reached,
            resume=True,
        )
    assert reached[-1] == at
    assert list((tmp_path / "o").iterdir()) == []

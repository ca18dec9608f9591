"""The command line as a process."""

from __future__ import annotations

import json
import os
import re
import select
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pymupdf
import pytest

from rag import trace as traces

ROOT = Path(__file__).resolve().parents[1]


def rag(*args: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "rag", *map(str, args)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_ask_json_is_one_trace_on_standard_output(small_folder):
    done = rag("ask", "How many women did the GBSG2 study recruit?", "--corpus", small_folder, "--json")
    assert done.returncode == 0 and done.stderr == ""
    trace = traces.loads(done.stdout)
    assert "686" in trace.generation.text and trace.system.name == "+both"


def test_ask_in_words_at_every_level(small_folder):
    question = ("ask", "How many women did the GBSG2 study recruit?", "--corpus", small_folder)
    bare, default, full = rag(*question, "--explain", 0), rag(*question), rag(*question, "--explain", 3)
    assert (bare.returncode, default.returncode, full.returncode) == (0, 0, 0)
    assert re.fullmatch(r"686[^\n]*\n", bare.stdout) and default.stdout.startswith(bare.stdout)
    assert "Sources\nT" in default.stdout and "glioma, p. 2" in default.stdout and "\nGate " not in default.stdout
    for part in ("Gate ", "Text ", "Graph ", "Visual ", "$0", "tokens in", "Times "):
        assert part in full.stdout
    without = rag(*question, "--explain", 3, "--exclude", "triple:2")
    assert "Left out   triple:2 (nothing moved up)" in without.stdout and "Left out" not in full.stdout


def test_knobs_reach_the_request(small_folder):
    done = rag("ask", "How many?", "--corpus", small_folder, "--json", "--text-k", 2, "--text-ranker", "dense", "--graph-mode", "bridge",
               "--visual-ranker", "proxy", "--payload", "captions", "--max-facts", 1, "--exclude", "glioma_p001_c00")  # fmt: skip
    trace = traces.loads(done.stdout)
    system = trace.system
    assert (system.text_k, system.text_ranker, system.graph_mode, system.visual_ranker, system.payload, system.max_facts) == (
        2, "dense", "bridge", "proxy", "captions", 1,
    )  # fmt: skip
    assert trace.excluded == ("glioma_p001_c00",)
    assert len(trace.evidence.text.hits) == 2 and trace.evidence.graph.mode == "bridge"


@pytest.mark.parametrize(
    ("args", "status", "says"),
    [
        (("ask", ""), 2, "question is empty"),
        (("ask", "x" * 10_000), 2, "shorten it"),
        (("ask", "q", "--system", "magic"), 2, "baseline"),
        (("ask", "q", "--generator", "magic"), 2, "extractive"),
        (("ask", "q", "--text-k", "0"), 2, "from 1 to 20"),
        (("ask", "q", "--type", "magic"), 2, "multihop"),
        (("ask", "q", "--exclude", "magic"), 2, "triple:N"),
        (("ask", "q", "--explain", "4"), 2, "--explain"),
        (("ask", "q", "--exclude", "triple:999999"), 2, "triple:999999"),
        (("ingest", "assets/documents", "--out", "build/x", "--encoder", "magic"), 1, "all-MiniLM-L6-v2-int8"),
        (("ask", "q", "--text-ranker", "magic"), 2, "hybrid"),
        (("ask",), 2, "usage"),
        (("ask", "q", "--corpus", "tests"), 1, "corpus"),
        (("corpus", "no-such-folder"), 1, "no-such-folder"),
        (("ingest", "no-such.pdf", "--out", "build/x"), 2, "no-such.pdf"),
        (("ingest", "assets/documents", "--out", "README.md/x"), 2, "--out"),
        (("ingest", "assets/documents", "--out", "build/x", "--workers", "0"), 2, "--workers"),
    ],
)
def test_wrong_usage_is_2_and_failure_1_each_with_a_sentence_and_no_traceback(args, status, says):
    done = rag(*args)
    assert done.returncode == status, done.stderr
    assert says in done.stderr and "Traceback" not in done.stderr and done.stdout == ""


def test_torch_is_not_imported_by_ask(small_folder):
    code = (
        "import sys; from rag.__main__ import main; "
        f"status = main(['ask', 'How many women?', '--corpus', {str(small_folder)!r}, '--json']); "
        "sys.exit(status or ('torch' in sys.modules and 3) or ('gradio' in sys.modules and 4) or 0)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr


def test_corpus_describes_and_checks(small_folder, tmp_path):
    facts = json.loads(rag("corpus", small_folder, "--json").stdout)
    assert "CC0-1.0" in json.dumps(facts)
    assert rag("corpus", small_folder, "--check").returncode == 0
    broken = tmp_path / "broken"
    shutil.copytree(small_folder, broken)
    target = broken / "chunks.jsonl"
    data = bytearray(target.read_bytes())
    data[40] ^= 1
    target.write_bytes(data)
    done = rag("corpus", broken, "--check")
    assert done.returncode == 1 and "chunks.jsonl" in done.stderr


def test_clip_that_cannot_be_had_says_so_in_one_sentence(small_folder, tmp_path):
    empty = tmp_path / "no-weights.pt"
    done = subprocess.run(
        [sys.executable, "-m", "rag", "corpus", str(small_folder), "--add-clip"],
        cwd=ROOT, capture_output=True, text=True, timeout=300, check=False,
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "FUSEBOX_CLIP_WEIGHTS": str(empty)},
    )  # fmt: skip
    assert done.returncode == 1 and "no-weights.pt" in done.stderr and len(done.stderr.strip().splitlines()) == 1
    done = rag("ask", "How many?", "--corpus", small_folder, "--visual-ranker", "clip", "--json")
    trace = traces.loads(done.stdout)
    assert trace.evidence.visual.hits == () and "CLIP" in trace.evidence.visual.note


def _pdf(file: Path, *pages: str, **save: object) -> None:
    with pymupdf.open() as document:
        for text in pages:
            page = document.new_page()
            if text:
                page.insert_textbox(pymupdf.Rect(72, 72, 540, 700), text)
        document.save(file, **save)


def test_bad_documents_are_named_and_the_rest_goes_in(tmp_path):
    sources = tmp_path / "sources"
    sources.mkdir()
    _pdf(sources / "good.pdf", "The trial enrolled 37 patients with glioma and compared two treatments. " * 8, "")
    _pdf(sources / "locked.pdf", "secret", encryption=pymupdf.PDF_ENCRYPT_AES_256, user_pw="user", owner_pw="owner")
    (sources / "damaged.pdf").write_bytes(b"%PDF-1.7\n garbage")
    (sources / "empty.pdf").write_bytes(b"")
    (sources / "letter.pdf").write_text("Dear reader")
    out = tmp_path / "corpus"
    done = rag("ingest", sources, "--out", out, "--workers", 1)
    assert done.returncode == 0, done.stderr
    for name in ("locked.pdf", "damaged.pdf", "empty.pdf", "letter.pdf"):
        assert done.stderr.count(f"left out: {name}") == 1
    assert "qpdf" in done.stderr and "good, p. 2" in done.stderr and "no text layer" in done.stderr
    assert done.stdout == "" and "Traceback" not in done.stderr
    answer = rag("ask", "How many patients did the trial enroll?", "--corpus", out)
    assert "37" in answer.stdout.splitlines()[0]
    again = rag("ingest", sources, "--out", out)
    assert again.returncode == 1 and "--overwrite" in again.stderr


def test_nothing_readable_leaves_nothing_behind(tmp_path):
    source = tmp_path / "damaged.pdf"
    source.write_bytes(b"%PDF-1.7\n garbage")
    done = rag("ingest", source, "--out", tmp_path / "corpus")
    assert done.returncode == 1 and "damaged.pdf" in done.stderr
    assert [f.name for f in tmp_path.iterdir()] == ["damaged.pdf"]


def _children(pid: int) -> list[int]:
    """File descriptors of the processes that `pid` has started, readable once they have ended."""
    return [os.pidfd_open(int(child)) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.mark.skipif(sys.platform != "linux", reason="finds the workers by /proc, which is not here")
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_a_stopped_ingestion_leaves_nothing_running_and_nothing_behind(tmp_path, how):
    source = tmp_path / "long.pdf"
    _pdf(source, *["The trial enrolled 37 patients with glioma and compared two treatments. " * 8] * 200)
    out = tmp_path / "out" / "corpus"
    process = subprocess.Popen(
        [sys.executable, "-m", "rag", "ingest", str(source), "--out", str(out), "--workers", "2"],
        cwd=ROOT, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stderr.readline().startswith("read 10 of 200")
    children = _children(process.pid)
    assert len(children) >= 2
    process.send_signal(how)
    errors = process.stderr.read()
    process.stderr.close()
    status = process.wait(timeout=60)
    for child in children:
        assert select.select([child], [], [], 60)[0]
        os.close(child)
    if how == signal.SIGKILL:
        assert len(list(out.parent.iterdir())) == 1
        assert rag("ingest", source, "--limit", 1, "--out", out).returncode == 0
        assert [file.name for file in out.parent.iterdir()] == ["corpus"]
        return
    assert status == {signal.SIGTERM: 143, signal.SIGINT: 130}[how]
    assert errors.splitlines()[-1] == "Stopped." and "Traceback" not in errors
    assert list(out.parent.iterdir()) == []


def test_a_reader_that_leaves_early_gets_no_traceback(small_folder):
    process = subprocess.Popen(
        [sys.executable, "-u", "-m", "rag", "ask", "How many women?", "--corpus", str(small_folder)],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    process.stdout.close()
    errors = process.stderr.read()
    process.stderr.close()
    process.wait(timeout=300)
    assert "Traceback" not in errors and "Exception" not in errors

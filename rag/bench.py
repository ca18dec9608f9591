"""``python -m rag bench``: time per stage on a corpus, start of the page, memory. Figures are medians over the questions timed."""

from __future__ import annotations

import json
import os
import platform
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from rag.corpus import Corpus, open_corpus
from rag.errors import FuseboxError
from rag.generators.registry import GENERATORS
from rag.pipeline import ask
from rag.settings import ASSETS, Settings
from rag.systems import SYSTEMS

APP = Path(__file__).resolve().parent.parent / "app.py"
START_LIMIT_S = 120

_FALLBACK_QUESTIONS = (
    "What does the proportional hazards assumption mean?",
    "How many patients were randomised to the treatment?",
    "Which variable has the largest coefficient?",
)


def bench(corpus_folder: Path, repeat: int = 20) -> dict[str, Any]:
    """Time every stage of ``repeat`` questions through ``+both`` with the embedded reader.

    Returns:
        Nested figures: milliseconds per stage (median, p95), seconds to start, MB resident, corpus size, the machine.
    """
    begin = time.perf_counter()
    corpus = open_corpus(corpus_folder, Settings.from_env().text_encoder)
    opened = time.perf_counter() - begin
    stages = _stages(corpus, repeat)
    encode, retrieval = (
        stages["encode"]["median"],
        sum(stages[s]["median"] for s in ("encode", "text", "graph", "visual")),
    )
    return {
        "corpus": {
            "id": corpus.id,
            "pages": len(corpus.pages),
            "chunks": len(corpus.chunks),
            "triples": len(corpus.triples),
            "crops": len(corpus.crops),
        },
        "open_s": round(opened, 3),
        "stage_ms": stages,
        "retrieval_over_encoding": round(retrieval / encode, 3) if encode else None,
        "ask_process_mb": _resident_mb(os.getpid()),
        "torch_imported": "torch" in sys.modules,
        "page": _page(corpus_folder),
        "machine": {"cores": os.cpu_count(), "python": platform.python_version(), "processor": platform.machine()},
    }


def _stages(corpus: Corpus, repeat: int) -> dict[str, dict[str, float]]:
    questions = _questions()
    samples: dict[str, list[float]] = {}
    run = [questions[i % len(questions)] for i in range(repeat + 1)]
    for number, question in enumerate(run):
        *_, trace = ask(question, SYSTEMS["+both"], GENERATORS["extractive"], corpus)
        if number:  # the first question loads the encoder
            for stage, value in trace.timings_ms.items():
                samples.setdefault(stage, []).append(value)
    return {
        stage: {"median": round(median(values), 3), "p95": round(sorted(values)[int(0.95 * (len(values) - 1))], 3)}
        for stage, values in samples.items()
    }


def _questions() -> list[str]:
    files = sorted((ASSETS / "questions").glob("*.json"))
    return [item["q"] for file in files for item in json.loads(file.read_text("utf-8"))] or list(_FALLBACK_QUESTIONS)


def _page(corpus_folder: Path) -> dict[str, float | None]:
    """Start the page as its own process: seconds to the first HTTP answer, and memory."""
    begin = time.perf_counter()
    with _served(corpus_folder) as (process, url):
        while True:
            if process.poll() is not None or time.perf_counter() - begin > START_LIMIT_S:
                raise FuseboxError("The page did not start; run `python app.py` to see why.")
            try:
                with urllib.request.urlopen(url, timeout=5):
                    break
            except (urllib.error.URLError, OSError):
                time.sleep(0.05)
        return {"http_answers_s": round(time.perf_counter() - begin, 2), "resident_mb": _resident_mb(process.pid)}


@contextmanager
def _served(corpus_folder: Path) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    env = {**os.environ, "FUSEBOX_CORPUS": str(corpus_folder), "FUSEBOX_PORT": str(port), "FUSEBOX_HOST": "127.0.0.1"}
    process = subprocess.Popen(
        [sys.executable, str(APP)], env=env, cwd=APP.parent, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        yield process, f"http://127.0.0.1:{port}/"
    finally:
        process.terminate()
        process.wait(timeout=30)


def _resident_mb(pid: int) -> float | None:
    """Resident memory in MB, or ``None`` where the system does not tell."""
    status = Path(f"/proc/{pid}/status")
    if not status.exists():
        return None
    for line in status.read_text().splitlines():
        if line.startswith("VmRSS:"):
            return round(int(line.split()[1]) / 1024, 1)
    return None

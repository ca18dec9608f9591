"""How fast documents go in, and how much memory it takes: run `python -m tests.bench.ingest_speed` on an idle machine.

The demo's PDFs are repeated under other names until there are as many pages as asked for; for OCR their pages are made into
images. Each size is a run of the command line in a process of its own. Memory is the largest that its processes had at one
time, read twice a second from /proc (Linux). Processor seconds don't depend on what else the machine does.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pymupdf

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = sorted((ROOT / "assets" / "documents").glob("*.pdf"))
OCR_PAGES_DPI = 200


def copies(folder: Path, pages: int) -> None:
    """So many pages at least of the demo's documents, the later ones under other names."""
    copied, turn = 0, 0
    while copied < pages:
        for file in DOCUMENTS:
            if copied < pages:
                # With a remark at its end, as the same file is not taken twice.
                (folder / f"{file.stem}-{turn}.pdf").write_bytes(file.read_bytes() + b"\n%% copy %d\n" % turn)
                with pymupdf.open(file) as pdf:
                    copied += pdf.page_count
        turn += 1


def scans(folder: Path, pages: int) -> None:
    """So many pages as images."""
    made = 0
    for file in DOCUMENTS:
        with pymupdf.open(file) as pdf:
            for page in pdf:
                if made == pages:
                    return
                page.get_pixmap(dpi=OCR_PAGES_DPI).save(folder / f"{file.stem}-{page.number:03d}.png")
                made += 1


def resident_mb(process: int) -> tuple[float, float]:
    """Resident memory of a process and of all its children, in MB."""
    found = []
    try:
        children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
        for number in (str(process), *children):
            status = Path(f"/proc/{number}/status").read_text()
            found.append(float(status.split("VmRSS:")[1].split()[0]) / 1024)
    except (OSError, IndexError):  # it has just ended
        return 0.0, 0.0
    return found[0], sum(found[1:])


def measure(folder: Path, pages: int, workers: int) -> str:
    """A line of figures on one run."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "rag", "ingest", str(folder), "--out", str(folder / "out" / "corpus")]
    start, marks, peak = time.perf_counter(), {}, (0.0, 0.0)
    process = subprocess.Popen(
        [*command, "--limit", str(pages), "--workers", str(workers)], cwd=ROOT, stderr=subprocess.PIPE, text=True
    )
    ended = threading.Event()

    def watch() -> None:
        nonlocal peak
        while not ended.wait(0.5):
            peak = tuple(map(max, peak, resident_mb(process.pid)))

    watcher = threading.Thread(target=watch)
    watcher.start()
    assert process.stderr is not None
    for line in process.stderr:
        marks[line.split(" ", 1)[0]] = time.perf_counter() - start
    status = process.wait()
    ended.set()
    watcher.join()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = time.perf_counter() - start
    processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    read = marks.get("read", seconds)
    return (
        f"{pages:5,} pages, status {status}: read at {pages / read:.2f} pages/s, all at {pages / seconds:.2f} pages/s "
        f"({seconds:.0f} s, {processor / pages:.2f} s of processor a page); at most {peak[0]:.0f} MB in the main process, "
        f"{peak[1]:.0f} MB in {workers} workers"
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pages", type=int, nargs="*", default=[50, 500, 1000], help="born-digital pages a run")
    parser.add_argument("--ocr", type=int, nargs="*", default=[20], help="pages read from pixels a run")
    parser.add_argument("--workers", type=int, default=2)
    args = parser.parse_args()
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    for what, make, sizes in (("born-digital", copies, args.pages), ("OCR", scans, args.ocr)):
        for pages in sizes:
            with tempfile.TemporaryDirectory() as folder:
                make(Path(folder), pages)
                print(f"{what}: {measure(Path(folder), pages, args.workers)}", flush=True)


if __name__ == "__main__":
    main()

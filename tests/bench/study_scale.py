"""Retrieval at the study's scale: 1,000 pages, 7,307 chunks, some 36,000 triples, 598 crops.

    python tests/bench/study_scale.py [--json]

Text and triples are HotpotQA's (../shared/data/hotpotqa beside the checkout), topped up with demo chunks; crops are the demo's,
repeated. Prints median milliseconds per branch, the graph in two modes, and their sum over the time of encoding the question alone.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import shutil
import sys
import tempfile
from dataclasses import replace
from itertools import cycle, islice
from pathlib import Path
from statistics import median
from time import perf_counter

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from rag import branches  # noqa: E402
from rag.corpus import Corpus, open_corpus, save_corpus  # noqa: E402
from rag.ingest.chunk import windows  # noqa: E402
from rag.systems import SYSTEMS, tuned  # noqa: E402
from rag.types import Chunk, Document, Page, Triple  # noqa: E402

HOTPOT = ROOT.parent / "shared" / "data" / "hotpotqa"
PAGES, CHUNKS, CROPS = 1_000, 7_307, 598


def study_scale(out: Path, demo: Corpus) -> Corpus:
    """A corpus of the study's size, from real text."""
    with gzip.open(HOTPOT / "docs.jsonl.gz", "rt", encoding="utf-8") as file:
        texts = [window for line in file for _, window in windows(json.loads(line)["text"])]
    texts = list(islice([*texts, *(c.text for c in demo.chunks.values()), *texts], CHUNKS))
    pages = [Page(f"p{i:04d}", "study", i + 1, 612, 792, "") for i in range(PAGES)]
    chunks = [Chunk(f"c{i:05d}", pages[i % PAGES].id, text, 0) for i, text in enumerate(texts)]
    by_md5 = {hashlib.md5(c.text.encode(), usedforsecurity=False).hexdigest(): c for c in chunks}
    triples = []
    with gzip.open(HOTPOT / "triples_by_chunk_md5.jsonl.gz", "rt", encoding="utf-8") as file:
        for line in file:
            row = json.loads(line)
            if chunk := by_md5.get(row["chunk_md5"]):
                triples += [Triple(*t, chunk.id, chunk.page_id, "study") for t in row["triples"]]
    crops = []
    images = out.parent / "images"
    (images / "crops").mkdir(parents=True)
    for i, crop in enumerate(islice(cycle(demo.crops.values()), CROPS)):
        crops.append(replace(crop, id=f"v{i:03d}", page_id=pages[i].id, image=f"crops/v{i:03d}.webp"))
        shutil.copy(demo.image_path(crop.image), images / crops[i].image)
    document = Document("study", "study scale", "-", PAGES, "0" * 64)
    save_corpus(
        out,
        name="study-scale",
        kind="text",
        documents=[document],
        pages=pages,
        chunks=chunks,
        crops=crops,
        triples=triples,
        images=images,
    )
    return open_corpus(out)


def main() -> None:
    demo = open_corpus(ROOT / "assets" / "corpora" / "demo")
    questions = [
        item["q"]
        for name in ("bridge", "comparison")
        for item in json.loads((HOTPOT / f"questions_hotpotqa_{name}.json").read_text("utf-8"))
    ]
    with tempfile.TemporaryDirectory() as folder:
        corpus = study_scale(Path(folder) / "corpus", demo)
        samples: dict[str, list[float]] = {"encode": [], "text": [], "graph": [], "bridge": [], "visual": []}
        for number, question in enumerate([questions[0], *questions]):
            laps = [perf_counter()]
            query = branches.Query.of(question, corpus)
            laps.append(perf_counter())
            text = branches.text(query, corpus, SYSTEMS["+both"])
            laps.append(perf_counter())
            query = query.after(text, corpus)
            branches.graph(query, corpus, SYSTEMS["+both"])
            laps.append(perf_counter())
            branches.graph(query, corpus, tuned(SYSTEMS["+both"], graph_mode="bridge"))
            laps.append(perf_counter())
            branches.visual(query, corpus, SYSTEMS["+both"])
            laps.append(perf_counter())
            if number:  # the first question builds what is built lazily
                for stage, begin, end in zip(samples, laps, laps[1:], strict=False):
                    samples[stage].append(1000 * (end - begin))
        medians = {stage: round(median(values), 3) for stage, values in samples.items()}
    figures = {
        "questions": len(questions),
        "chunks": len(corpus.chunks),
        "triples": len(corpus.triples),
        "crops": len(corpus.crops),
        "median_ms": medians,
        "retrieval_over_encoding": _ratio(medians, "bridge"),
        "with_bridges_over_encoding": _ratio(medians, "graph"),
    }
    print(json.dumps(figures) if "--json" in sys.argv else json.dumps(figures, indent=2))


def _ratio(medians: dict[str, float], other_mode: str) -> float:
    """All stages but the graph's other mode, over encoding the question."""
    return round(sum(ms for stage, ms in medians.items() if stage != other_mode) / medians["encode"], 3)


if __name__ == "__main__":
    main()

"""Corpora the tests share."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image

from rag.corpus import Corpus, open_corpus, save_corpus
from rag.settings import DEMO_CORPUS
from rag.types import Chunk, Crop, Document, Page, Region, Triple


@pytest.fixture(scope="session")
def demo() -> Corpus:
    """The demo corpus as it ships."""
    return open_corpus(DEMO_CORPUS)


@pytest.fixture(scope="session")
def small_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus of two pages, three chunks, four triples and two crops, written by hand."""
    folder = tmp_path_factory.mktemp("small")
    images = folder / "images"
    for name in ("pages", "crops"):
        (images / name).mkdir(parents=True)
    pages = [Page(f"glioma_p00{n}", "glioma", n, 612.0, 792.0, f"pages/glioma_p00{n}.webp") for n in (1, 2)]
    for page in pages:
        Image.new("RGB", (306, 396), "white").save(images / page.image, "WEBP")
    texts = (
        "The glioma trial enrolled 37 patients. Radioimmunotherapy was compared with standard care by the log-rank test.",
        "Survival was longer in the treated group. The log-rank test is robust.",
        "The GBSG2 study recruited 686 women with node positive breast cancer between 1984 and 1989.",
    )
    places = ((0, 0), (0, 100), (1, 0))
    regions = [
        Region(
            f"{pages[p].id}_r{i:02d}", pages[p].id, "text", (72.0, 72.0 + 40 * i, 540.0, 104.0 + 40 * i), texts[i], i
        )
        for i, (p, _) in enumerate(places)
    ]
    chunks = [
        Chunk(f"{pages[p].id}_c0{i}", pages[p].id, texts[i], start, (regions[i].id,))
        for i, (p, start) in enumerate(places)
    ]
    triples = [
        Triple("glioma trial", "enrolled", "37 patients", chunks[0].id, pages[0].id, "grammar"),
        Triple("log-rank test", "is", "robust", chunks[1].id, pages[0].id, "grammar"),
        Triple("GBSG2 study", "recruited", "686 women", chunks[2].id, pages[1].id, "grammar"),
        Triple("survival", "was longer in", "treated group", chunks[1].id, pages[0].id, "grammar"),
    ]
    crops = [
        Crop(
            "glioma_p001_table0", pages[0].id, "table", (72.0, 300.0, 400.0, 400.0), "crops/glioma_p001_table0.webp",
            "Table 1: Median survival by histology.",
            "histology | Control: 11 months | RIT: 33 months\nGBM | Control: 8 months | RIT: 30 months",
        ),
        Crop(
            "glioma_p002_figure0", pages[1].id, "figure", (72.0, 300.0, 400.0, 500.0), "crops/glioma_p002_figure0.webp",
            "", "Node 6 (n = 144)\npnodes > 3",
        ),
    ]  # fmt: skip
    for crop in crops:
        Image.new("RGB", (200, 100), "white").save(images / crop.image, "WEBP")
    save_corpus(
        folder / "corpus",
        name="small",
        kind="pdf",
        documents=[Document("glioma", "Glioma", "glioma.pdf", 2, "0" * 64, licence="CC0-1.0")],
        pages=pages,
        regions=regions,
        chunks=chunks,
        crops=crops,
        triples=triples,
        images=images,
    )
    return folder / "corpus"


@pytest.fixture(scope="session")
def small(small_folder: Path) -> Corpus:
    return open_corpus(small_folder)

"""The branches over a small corpus, and over the study's HotpotQA documents."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rag import branches, encoders
from rag.branches import FUSION_DEPTH, Query
from rag.corpus import Corpus, build_visual_index, open_corpus, save_corpus
from rag.encoders import OpenClipEncoder, normalised, text_encoder
from rag.search import VectorIndex, WordIndex, words
from rag.types import Chunk, Document, Fused, Hit, Page, System

ROOT = Path(__file__).resolve().parents[1]
HOTPOTQA = ROOT.parent / "shared" / "data" / "hotpotqa"
SYSTEM = System("test", ("text", "graph", "visual"), text_ranker="dense", visual_ranker="proxy")
RANKERS = ("dense", "bm25", "hybrid")


def ids(hits: tuple[Fused, ...]) -> list[str]:
    return [hit.item_id for hit in hits]


# --- searches --------------------------------------------------------------------------------------------------------


def test_words() -> None:
    assert words("Does exp(coef) of TH.data fit pnodes = 0.035?") == [
        "exp",
        "coef",
        "th.data",
        "th",
        "data",
        "fit",
        "pnode",
        "0.035",
    ]
    assert words("time-dependent covariates") == ["time-depend", "time", "depend", "covari"]
    assert words("The of and") == []


def test_word_index_matches_bm25_by_hand() -> None:
    index = WordIndex(["red fox", "red red hen", "blue whale sings"])
    found = dict(index.search("red", 10))
    # Lucene's BM25: idf = ln(1 + (N - n + 0.5) / (n + 0.5)); N = 3, n = 2; lengths 2 and 3, mean 8/3.
    idf = np.log(1 + (3 - 2 + 0.5) / (2 + 0.5))

    def score(tf: int, length: int) -> float:
        return float(idf * tf / (tf + 1.5 * (1 - 0.75 + 0.75 * length / (8 / 3))))

    assert found == {0: pytest.approx(score(1, 2), rel=1e-5), 1: pytest.approx(score(2, 3), rel=1e-5)}


def test_word_index_finds_nothing_where_nothing_is_shared() -> None:
    index = WordIndex(["red fox", "", "blue whale"])
    assert index.search("submarine", 5) == []
    assert index.search("", 5) == []
    assert index.search("red", 0) == []
    assert WordIndex([]).search("red", 5) == []
    assert WordIndex(["", "of the"]).search("red", 5) == []


def test_word_index_cut_keeps_the_order() -> None:
    index = WordIndex([f"common word{i % 7} word{i % 3}" for i in range(400)])
    everything = index.search("common word1 word2", 400)
    assert everything[:10] == index.search("common word1 word2", 10)
    assert [score for _, score in everything] == sorted((score for _, score in everything), reverse=True)


def test_vector_index_is_the_inner_product() -> None:
    rng = np.random.default_rng(5)
    rows, query = normalised(rng.normal(size=(40, 16))), normalised(rng.normal(size=(1, 16)))[0]
    index = VectorIndex(16)
    index.add(rows)
    expected = np.argsort(-(rows @ query))
    assert [row for row, _ in index.search(query, 40)] == expected.tolist()
    assert [row for row, _ in index.search(query, 7)] == expected[:7].tolist()
    assert len(index.search(query, 1000)) == 40
    assert index.search(query, 0) == []
    assert VectorIndex(16).search(query, 3) == []


def test_an_item_of_several_vectors_counts_by_its_best() -> None:
    rng = np.random.default_rng(6)
    owners = [0, 0, 0, 2, 3, 3]  # item 1 has none
    rows, query = normalised(rng.normal(size=(6, 8))), normalised(rng.normal(size=(1, 8)))[0]
    index = VectorIndex(8, owners)
    index.add(rows)
    scores = rows @ query
    best = {0: scores[:3].max(), 2: scores[3], 3: scores[4:].max()}
    found = index.search(query, 10)
    assert [item for item, _ in found] == sorted(best, key=lambda item: -best[item])
    assert dict(found) == {item: pytest.approx(score, abs=1e-6) for item, score in best.items()}
    assert index.search(query, 1) == found[:1]


# --- text ------------------------------------------------------------------------------------------------------------


def test_dense_is_the_cosine_of_question_and_chunk(small: Corpus) -> None:
    question = "How many women took part in the breast cancer study?"
    evidence = branches.text(Query.of(question, small), small, SYSTEM)
    vectors = text_encoder().encode([question, *(chunk.text for chunk in small.chunks.values())])
    cosines = dict(zip(small.chunks, vectors[1:] @ vectors[0], strict=True))
    assert ids(evidence.hits) == sorted(cosines, key=lambda chunk: -cosines[chunk])
    assert ids(evidence.hits)[0] == "glioma_p002_c02"
    for rank, hit in enumerate(evidence.hits, start=1):
        assert hit.score == pytest.approx(cosines[hit.item_id], abs=1e-5)
        assert hit.hits == (Hit(hit.item_id, "text", "dense", rank, hit.score),)


def test_hybrid_keeps_all_hits(small: Corpus) -> None:
    system = replace(SYSTEM, text_ranker="hybrid")
    best = branches.text(Query.of("Is the log-rank test robust?", small), small, system).hits[0]
    assert best.item_id == "glioma_p001_c01"
    assert [(hit.ranker, hit.rank) for hit in best.hits] == [("dense", 1), ("bm25", 1)]
    assert best.score == pytest.approx(2 / 61)


def test_hybrid_searches_a_question_of_two_parts_part_by_part(small: Corpus) -> None:
    first, second = "How robust is the exact log-rank test", "how many women with breast cancer had a recurrence"
    system = replace(SYSTEM, text_ranker="hybrid", text_k=2)
    alone = [branches.text(Query.of(part, small), small, system).hits[0] for part in (first, second)]
    found = branches.text(Query.of(f"{first}, and {second}?", small), small, system).hits
    assert ids(found) == ids(tuple(alone))
    assert [hit.score for hit in found] == [1 / 61, 1 / 62]
    assert [hit.hits for hit in found] == [hit.hits for hit in alone]
    assert len({small.chunks[item].page_id for item in ids(found)}) == 2


@pytest.mark.parametrize("ranker", RANKERS)
def test_k_above_the_number_of_chunks(small: Corpus, ranker: Any) -> None:
    query = Query.of("log-rank test of women with breast cancer and glioma", small)
    found = branches.text(query, small, replace(SYSTEM, text_ranker=ranker, text_k=20)).hits
    assert sorted(ids(found)) == sorted(small.chunks)
    assert [hit.rank for hit in found] == [1, 2, 3]
    assert branches.text(query, small, replace(SYSTEM, text_ranker=ranker, text_k=0)).hits == ()
    fewer = branches.text(query, small, replace(SYSTEM, text_ranker=ranker, text_k=2)).hits
    assert fewer == found[:2]


@pytest.mark.parametrize("ranker", RANKERS)
@pytest.mark.parametrize("question", ["", " \n\t "])
def test_an_empty_question_finds_nothing(small: Corpus, ranker: Any, question: str) -> None:
    query = Query.of(question, small)
    assert branches.text(query, small, replace(SYSTEM, text_ranker=ranker)).hits == ()
    assert branches.visual(query, small, SYSTEM).hits == ()
    assert branches.graph(query, small, SYSTEM).facts == ()


@pytest.mark.parametrize("ranker", RANKERS)
@pytest.mark.parametrize("question", ["???", "the of and", "日本語", "[SEP]", "\u200b", "x" * 5000])
def test_odd_questions_give_chunks_that_exist(small: Corpus, ranker: Any, question: str) -> None:
    found = branches.text(Query.of(question, small), small, replace(SYSTEM, text_ranker=ranker, text_k=10)).hits
    assert set(ids(found)) <= set(small.chunks)
    assert len(set(ids(found))) == len(found)


def test_a_corpus_without_chunks_or_crops(tmp_path: Path) -> None:
    page = Page("p", "p", 1, 0, 0, "")
    corpus = open_corpus(
        save_corpus(tmp_path / "c", name="c", kind="text", documents=[Document("p", "", "p", 1, "")], pages=[page])
    )
    query = Query.of("anything at all?", corpus)
    for ranker in RANKERS:
        assert branches.text(query, corpus, replace(SYSTEM, text_ranker=ranker)).hits == ()
    for visual in ("auto", "clip", "proxy", "fused"):
        assert branches.visual(query, corpus, replace(SYSTEM, visual_ranker=visual)).hits == ()


# --- visual ----------------------------------------------------------------------------------------------------------


def test_proxy_finds_a_table_by_its_cells_and_keeps_all_hits(small: Corpus) -> None:
    evidence = branches.visual(Query.of("Median survival of GBM with RIT?", small), small, SYSTEM)
    best = evidence.hits[0]
    assert best.item_id == "glioma_p001_table0"
    assert {hit.ranker for hit in best.hits} == {"proxy-dense", "proxy-bm25", "proxy-mentions"}
    assert all(hit.branch == "visual" for hit in best.hits)
    assert evidence.rankings["proxy"][0] == Hit(best.item_id, "visual", "proxy", 1, best.score)
    assert evidence.ranker == "proxy"
    assert evidence.note == ""


def test_proxy_finds_a_figure_without_a_caption_by_what_is_written_in_it(small: Corpus) -> None:
    assert branches.visual(Query.of("pnodes in node 6", small), small, SYSTEM).hits[0].item_id == "glioma_p002_figure0"


@pytest.mark.parametrize("wanted", ["clip", "fused"])
def test_clip_that_is_asked_for_and_missing_is_not_replaced(small: Corpus, wanted: Any) -> None:
    evidence = branches.visual(Query.of("survival curve", small), small, replace(SYSTEM, visual_ranker=wanted))
    assert evidence.hits == ()
    assert evidence.ranker == wanted
    assert "no index of its crops' pixels" in evidence.note


def test_auto_without_clip_is_proxy_and_says_so(small: Corpus) -> None:
    query = Query.of("survival curve", small)
    evidence = branches.visual(query, small, replace(SYSTEM, visual_ranker="auto"))
    assert evidence.hits == branches.visual(query, small, SYSTEM).hits
    assert evidence.ranker == "proxy"
    assert "CLIP ranker is missing" in evidence.note


@pytest.fixture(scope="module")
def clip_corpus(small_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    """The small corpus with more crops of different colours and an index of a tiny CLIP with random weights."""
    import shutil

    from PIL import Image

    from rag.types import Crop

    old = open_corpus(small_folder)
    folder = tmp_path_factory.mktemp("clip")
    shutil.copytree(small_folder / "pages", folder / "images" / "pages")
    (folder / "images" / "crops").mkdir()
    crops = []
    for i in range(12):
        crop = Crop(
            f"glioma_p001_figure{i}", "glioma_p001", "figure", (0, 0, 9, 9), f"crops/f{i}.webp", f"Figure {i}: hue", ""
        )
        noise = np.random.default_rng(i).integers(0, 255, (24, 24, 3), dtype=np.uint8)
        Image.fromarray(noise).save(folder / "images" / crop.image, "WEBP", lossless=True)
        crops.append(crop)
    save_corpus(
        folder / "corpus",
        name="clip",
        kind="pdf",
        documents=tuple(old.documents.values()),
        pages=old.pages.values(),
        regions=old.regions.values(),
        chunks=old.chunks.values(),
        crops=crops,
        images=folder / "images",
    )
    return build_visual_index(open_corpus(folder / "corpus"), tiny_clip())


def tiny_clip() -> OpenClipEncoder:
    open_clip = pytest.importorskip("open_clip", reason="open_clip_torch is not installed")
    import torch

    torch.manual_seed(11)
    model = open_clip.CLIP(
        embed_dim=32,
        vision_cfg={"image_size": 32, "layers": 1, "width": 64, "patch_size": 8},
        text_cfg={"context_length": 77, "vocab_size": 49408, "width": 64, "heads": 2, "layers": 1},
    )
    return OpenClipEncoder(
        "tiny-clip", model, open_clip.image_transform(32, is_train=False), open_clip.get_tokenizer("ViT-B-32")
    )


@pytest.fixture
def with_tiny_clip(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setitem(encoders.IMAGE_ENCODERS, "tiny-clip", lambda download: tiny_clip())
    encoders.forget_image_failures()
    yield
    encoders._image_encoders.pop("tiny-clip", None)
    encoders.forget_image_failures()


@pytest.mark.usefixtures("with_tiny_clip")
def test_clip_ranks_by_cosine_of_question_and_pixels(clip_corpus: Corpus) -> None:
    question = "a red survival curve"
    evidence = branches.visual(
        Query.of(question, clip_corpus), clip_corpus, replace(SYSTEM, visual_ranker="clip", visual_depth=12)
    )
    clip = tiny_clip()
    crops = list(clip_corpus.crops.values())
    cosines = clip.encode_images([clip_corpus.image(crop.image) for crop in crops]) @ clip.encode_text([question])[0]
    expected = [crops[i].id for i in np.argsort(-cosines)]
    assert ids(evidence.hits) == expected
    assert [hit.score for hit in evidence.hits] == pytest.approx(sorted(cosines.tolist(), reverse=True), abs=1e-5)
    assert [hit.item_id for hit in evidence.rankings["clip"]] == expected


@pytest.mark.usefixtures("with_tiny_clip")
def test_fused_is_the_fusion_of_clip_and_proxy_with_every_hit(clip_corpus: Corpus) -> None:
    query = Query.of("Figure 7: hue", clip_corpus)

    def run(ranker: Any, depth: int = 12) -> Any:
        return branches.visual(query, clip_corpus, replace(SYSTEM, visual_ranker=ranker, visual_depth=depth))

    clip, proxy, fused, auto = (run(ranker) for ranker in ("clip", "proxy", "fused", "auto"))
    assert auto == fused
    assert fused.rankings == {"clip": clip.rankings["clip"], "proxy": proxy.rankings["proxy"]}
    rank = {name: {hit.item_id: hit.rank for hit in ranking} for name, ranking in fused.rankings.items()}
    for item in fused.hits:
        assert item.score == pytest.approx(sum(1 / (60 + found[item.item_id]) for found in rank.values()))
        assert [hit.ranker for hit in item.hits] == ["clip", "proxy", "proxy-dense", "proxy-bm25", "proxy-mentions"]
    assert run("fused", 3).hits == fused.hits[:3]
    assert len(run("fused", 3).rankings["clip"]) == 3


def test_an_index_whose_encoder_is_missing(clip_corpus: Corpus) -> None:
    query = Query.of("Figure 7: hue", clip_corpus)
    auto = branches.visual(query, clip_corpus, replace(SYSTEM, visual_ranker="auto"))
    assert auto.ranker == "proxy"
    assert "tiny-clip" in auto.note
    assert branches.visual(query, clip_corpus, replace(SYSTEM, visual_ranker="clip")).hits == ()


def test_no_torch_where_there_is_no_clip_index(small_folder: Path) -> None:
    code = (
        "import sys; from rag import branches; from rag.corpus import open_corpus; from rag.types import System\n"
        "corpus = open_corpus(sys.argv[1]); query = branches.Query.of('survival', corpus)\n"
        "for ranker in ('auto', 'clip', 'fused', 'proxy'): branches.visual(query, corpus, System('x', visual_ranker=ranker))\n"
        "sys.exit(any(name in sys.modules for name in ('torch', 'open_clip')))"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "-c", code, str(small_folder)], check=True, cwd=ROOT, env=environment)


# --- depth and fusion ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def long_corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    """120 chunks that share words with each other."""
    page = Page("p", "p", 1, 0, 0, "")
    topics = ("survival", "hazard", "relapse", "tumour", "nodes", "age")
    chunks = [
        Chunk(f"p_c{i:02d}", "p", f"{topics[i % 6]} of patients and {topics[i % 5]} in year {1900 + i}", 450 * i)
        for i in range(120)
    ]
    out = tmp_path_factory.mktemp("long") / "c"
    return open_corpus(
        save_corpus(out, name="c", kind="text", documents=[Document("p", "", "p", 1, "")], pages=[page], chunks=chunks)
    )


@pytest.mark.parametrize("ranker", RANKERS)
@pytest.mark.parametrize("fusion", ["rrf", "borda", "score_mean", "rank_mean"])
def test_k_changes_how_much_is_shown_and_never_the_order(long_corpus: Corpus, ranker: Any, fusion: Any) -> None:
    query = Query.of("hazard of relapse in 1950", long_corpus)
    system = replace(SYSTEM, text_ranker=ranker, fusion=fusion)
    twenty = branches.text(query, long_corpus, replace(system, text_k=20)).hits
    assert len(twenty) == 20
    for k in (1, 3, 7):
        assert branches.text(query, long_corpus, replace(system, text_k=k)).hits == twenty[:k]
    assert FUSION_DEPTH >= 20


# --- the study -------------------------------------------------------------------------------------------------------

needs_hotpotqa = pytest.mark.skipif(
    not HOTPOTQA.is_dir(), reason="the study's data (../shared/data/hotpotqa) is not on this machine"
)


@pytest.fixture(scope="session")
def hotpotqa(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    """The study's 2,964 documents with its triples."""
    from rag.ingest.build import ingest

    out = tmp_path_factory.mktemp("hotpotqa") / "corpus"
    ingest([HOTPOTQA / "docs.jsonl.gz"], out, triples_file=HOTPOTQA / "triples_by_chunk_md5.jsonl.gz")
    return open_corpus(out)


@needs_hotpotqa
def test_hotpotqa_has_the_studys_size(hotpotqa: Corpus) -> None:
    assert (len(hotpotqa.pages), len(hotpotqa.chunks), len(hotpotqa.triples)) == (2964, 5128, 36447)


@needs_hotpotqa
@pytest.mark.parametrize(("kind", "partial", "complete"), [("bridge", 0.50, 0.18), ("comparison", 0.80, 0.62)])
def test_hotpotqa_recall_of_the_study(hotpotqa: Corpus, kind: str, partial: float, complete: float) -> None:
    questions = json.loads((HOTPOTQA / f"questions_hotpotqa_{kind}.json").read_text("utf-8"))
    recalls = []
    for question in questions:
        hits = branches.text(
            Query.of(question["q"], hotpotqa), hotpotqa, replace(SYSTEM, text_ranker="dense", text_k=3)
        ).hits
        pages = {hotpotqa.chunks[hit.item_id].page_id for hit in hits}
        recalls.append(len(pages & set(question["source"])) / len(question["source"]))
    assert np.mean(recalls) == pytest.approx(partial, abs=0.03)
    assert np.mean([recall == 1 for recall in recalls]) == pytest.approx(complete, abs=0.03)

"""The crops: why one ranked, what of it was sent, one in full, and what CLIP looked at."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from rag.branches import Query, visual
from rag.corpus import Corpus, add_visual_index, open_corpus
from rag.encoders import Vectors
from rag.errors import EncoderUnavailable
from rag.occlusion import Occlusion
from rag.systems import SYSTEMS
from rag.types import Fused, Hit, PromptImage, SentImage, Trace
from tests.ui.test_views import HOSTILE, Shape, hostile_corpus
from tests.ui.traces import QUESTION, trace
from ui import viewer_desk
from ui.handlers import Handlers
from ui.shelf import Shelf
from ui.views import crops

TABLE, FIGURE = "glioma_p001_table0", "glioma_p002_figure0"


# --- why -------------------------------------------------------------------------------------------------------------


def test_matched_words_say_where_they_stand(small: Corpus) -> None:
    found = crops.matches(small.crops[TABLE], "What was the median survival of GBM in months, by histology?", small)
    assert {m.word: m.places for m in found} == {
        "median": ("caption",),
        "survival": ("caption",),
        "GBM": ("row “GBM”",),
        "months": ("row “histology”", "row “GBM”"),
        "histology": ("caption", "row “histology”"),
    }
    assert [m.score for m in found] == sorted((m.score for m in found), reverse=True)
    assert crops.matches(small.crops[FIGURE], "nodes?", small)[0].places == ("words in the figure",)
    assert crops.matches(small.crops[FIGURE], "What about histology?", small) == ()


def test_many_rows_are_counted(small: Corpus) -> None:
    many = "\n".join(f"{n} | Control: 8 months" for n in range(9))
    corpus = replace(small, crops={**small.crops, TABLE: replace(small.crops[TABLE], ocr_text=many)})
    assert crops.matches(corpus.crops[TABLE], "months", corpus)[0].places == ("9 rows",)


@pytest.mark.parametrize(
    "question",
    [
        "How many lung cancer patients were medium smokers in the study by Schairer and Schöniger?",
        "What is the p-value of the R_income split in the happiness tree?",
        "Which smokers smoke, and what do smokers smoke?",
    ],
)
def test_the_parts_add_up_to_the_crops_bm25_score(demo: Corpus, question: str) -> None:
    found = visual(Query.of(question, demo), demo, SYSTEMS["+both"])
    ranked = [(fused, hit) for fused in found.hits for hit in fused.hits if hit.ranker == "proxy-bm25"]
    assert ranked
    for fused, hit in ranked:
        parts = crops.matches(demo.crops[fused.item_id], question, demo)
        assert sum(part.score for part in parts) == pytest.approx(hit.score, rel=1e-4)


def test_a_crop_without_a_word_of_the_question_says_so(small: Corpus) -> None:
    document = crops.render(trace(small, question="Anything?"), small)
    assert document.count("matched by meaning only") == 2 and "No word of the question" in document


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_words_in_question_and_crop_stay_words(small: Corpus, kind: str) -> None:
    poisoned = hostile_corpus(small, HOSTILE[kind])
    shown = trace(poisoned, question=f"{QUESTION} {HOSTILE[kind]}")
    for document in (crops.render(shown, poisoned), crops.full(shown, poisoned, TABLE)):
        for table in re.findall(r'<table class="fb-table fb-matched">.*?</table>', document):
            assert {tag for tag, _ in Shape(table).tags} <= {"table", "thead", "tbody", "tr", "th", "td"}
            assert {names for _, names in Shape(table).tags} <= {(), ("class",), ("scope",)}


# --- what was sent ---------------------------------------------------------------------------------------------------


def _with_pixels(shown: Trace, corpus: Corpus, *sent: SentImage) -> Trace:
    image = PromptImage("V1", TABLE, corpus.crops[TABLE].image, "0" * 64, 200, 100)
    gate = replace(shown.evidence.gate, payload="pixels")
    return replace(
        shown,
        evidence=replace(shown.evidence, gate=gate),
        prompt=replace(shown.prompt, images=(image,)),
        generation=replace(shown.generation, images=sent),
    )


def test_the_payload_tells_pixels_bytes_and_words(small: Corpus) -> None:
    shown, crop = trace(small), small.crops[TABLE]
    caption = f"caption: {len(crop.caption)} characters"
    assert crops.payload(crop, shown, small) == (caption,)
    size = max(1, round(small.image_path(crop.image).stat().st_size / 1000))
    planned = _with_pixels(shown, small)
    assert crops.payload(crop, planned, small) == (f"pixels: 200 × 100 px, file of {size} kB", caption)
    sent = _with_pixels(shown, small, SentImage("V1", TABLE, "1" * 64, "image/png", 200, 100, 84_321, True))
    assert crops.payload(crop, sent, small)[0] == "pixels: 200 × 100 px, 84 kB, image/png, encoded anew"
    read = replace(shown, evidence=replace(shown.evidence, gate=replace(shown.evidence.gate, read_off=True)))
    assert crops.payload(crop, read, small)[1] == f"read-off text: {len(crop.ocr_text)} characters"
    assert crops.payload(small.crops[FIGURE], shown, small) == ()
    assert crops.payload(crop, replace(shown, excluded=(TABLE,)), small) == ()


def test_the_payload_is_what_the_prompt_holds(small: Corpus) -> None:
    """A crop without a caption is described by the start of its read-off text, and the payload says so."""
    bare = replace(small, crops={**small.crops, TABLE: replace(small.crops[TABLE], caption="")})
    shown = trace(bare)
    assert crops.payload(bare.crops[TABLE], shown, bare) == ("no caption; the start of its read-off text",)
    assert any("No caption; it reads:" in segment.text for segment in shown.prompt.segments)


# --- in full ---------------------------------------------------------------------------------------------------------


def test_a_crop_in_full_has_its_own_pixels_and_a_way_to_its_page(small: Corpus) -> None:
    document = crops.full(trace(small), small, TABLE)
    source = re.search(r'<img src="data:image/webp;base64,([^"]+)" width="200" height="100"', document)
    assert source
    assert 'data-page="glioma_p001" data-focus="glioma_p001_table0"' in document
    assert "fb-heat" not in document and "data-occlude" not in document
    text = html.unescape("".join(Shape(document).text))
    assert "Table 1: Median survival by histology." in text and "caption: 38 characters" in text


def test_rankers_stand_side_by_side_with_a_dash_where_one_did_not_list_the_crop(small: Corpus) -> None:
    shown = trace(small)
    first, second = shown.evidence.visual.hits
    lone = Fused(second.item_id, 2, 0.01, (Hit(second.item_id, "visual", "proxy-dense", 4, 0.5),))
    shown = replace(shown, evidence=replace(shown.evidence, visual=replace(shown.evidence.visual, hits=(first, lone))))
    document = crops.full(shown, small, FIGURE)
    assert "<th scope=row>proxy-dense</th><td>4</td><td>0.50</td>" in document
    assert "<th scope=row>proxy-bm25</th><td>–</td><td>–</td>" in document
    assert "<th scope=row>fused</th><td>2</td>" in document


@pytest.mark.parametrize("crop", ["nowhere", "<b>", "../../etc/passwd"])
def test_a_crop_that_does_not_exist_is_a_sentence(small: Corpus, crop: str) -> None:
    document = crops.full(None, small, crop)
    assert "no such figure or table" in document and "<b>" not in document


def _opened(corpus: Corpus, shown: Trace | None, data: object) -> str:
    request, event = SimpleNamespace(session_hash="s"), SimpleNamespace(_data=data)
    return Handlers(Shelf(corpus)).open_page(request, shown, event)  # type: ignore[arg-type]


def test_a_click_opens_the_crop_and_not_its_page(small: Corpus) -> None:
    wanted = {"page": "", "focus": "", "crop": TABLE, "occlude": ""}
    assert f'data-crop-id="{TABLE}"' in _opened(small, trace(small), wanted)
    assert f'data-crop-id="{TABLE}"' in _opened(small, None, wanted)
    assert "data-page-id" in _opened(small, trace(small), {"page": "glioma_p001", "focus": TABLE, "crop": ""})
    assert "no such figure" in _opened(small, trace(small), {"crop": ["x"], "occlude": {"a": 1}})


# --- what CLIP looked at -----------------------------------------------------------------------------------------------


class LeftHalf:
    """An encoder that sees how white the left half of a picture is."""

    id, dimension = "left-half", 2

    def encode_text(self, texts: Sequence[str]) -> Vectors:
        return np.array([[1.0, 0.0]] * len(texts), dtype=np.float32)

    def encode_images(self, images: Sequence[Image.Image]) -> Vectors:
        white = [float(np.asarray(i.convert("L"))[:, : i.width // 2].mean()) / 255 for i in images]
        return np.array([[w, np.sqrt(1 - w**2)] for w in white], dtype=np.float32)


@pytest.fixture
def seen(small_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Corpus:
    """The small corpus with a visual index of ``LeftHalf``, whose weights are at hand."""
    import shutil

    folder = tmp_path / "seen"
    shutil.copytree(small_folder, folder)
    corpus = open_corpus(folder)
    images = [corpus.image(crop.image) for crop in corpus.crops.values()]
    corpus = add_visual_index(corpus, LeftHalf.id, LeftHalf().encode_images(images))
    monkeypatch.setattr(viewer_desk, "image_encoder", lambda encoder_id, download: LeftHalf())
    return corpus


def _ranked_by_clip(corpus: Corpus) -> Trace:
    shown = trace(corpus)
    hit = Fused(TABLE, 1, 0.9, (Hit(TABLE, "visual", "clip", 1, 0.9),))
    return replace(shown, evidence=replace(shown.evidence, visual=replace(shown.evidence.visual, hits=(hit,), note="")))


def test_the_map_is_offered_only_where_clip_ranked_the_crop(seen: Corpus, small: Corpus) -> None:
    assert "data-occlude" in crops.full(_ranked_by_clip(seen), seen, TABLE)
    assert "data-occlude" not in crops.full(trace(seen), seen, TABLE)
    assert "data-occlude" not in crops.full(_ranked_by_clip(small), small, TABLE)


def test_the_map_is_drawn_over_the_crop(seen: Corpus) -> None:
    document = _opened(seen, _ranked_by_clip(seen), {"crop": TABLE, "occlude": "true"})
    assert 'class="fb-heat" viewBox="0 0 8 4"' in document and "data-occlude" not in document
    cells = {
        (int(x), int(y)): float(opacity)
        for x, y, opacity in re.findall(
            r'<rect x="(\d)" y="(\d)" width="1" height="1" fill-opacity="([\d.]+)"', document
        )
    }
    assert len(cells) == 32
    assert all(cells[0, y] == 0.75 and cells[7, y] == 0 for y in range(4))
    assert "Cosine of question and crop: 1.000" in html.unescape(document)


def test_without_weights_the_dialog_says_why(seen: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(encoder_id: str, download: bool) -> None:
        raise EncoderUnavailable("The CLIP weights are not on this machine.")

    monkeypatch.setattr(viewer_desk, "image_encoder", gone)
    document = _opened(seen, _ranked_by_clip(seen), {"crop": TABLE, "occlude": "true"})
    assert "The CLIP weights are not on this machine." in document and "fb-heat" not in document
    assert "--add-clip" in html.unescape(viewer_desk.viewed(_ranked_by_clip(seen), replace(seen, manifest=replace(
        seen.manifest, indices=())), {"crop": TABLE, "occlude": "true"}))  # fmt: skip


def test_one_map_is_made_at_a_time(seen: Corpus) -> None:
    with viewer_desk._making:
        document = _opened(seen, _ranked_by_clip(seen), {"crop": TABLE, "occlude": "true"})
    assert "try again in a moment" in document
    assert "fb-heat" in _opened(seen, _ranked_by_clip(seen), {"crop": TABLE, "occlude": "true"})


def test_a_map_that_nothing_lowers_is_clear(small: Corpus) -> None:
    document = crops.full(trace(small), small, TABLE, Occlusion(0.2, ((-0.1, 0.0), (0.0, -0.2))))
    assert "fb-heat" in document and "fill-opacity" not in document

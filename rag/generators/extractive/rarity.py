"""How rare a word is in English at large: a name that the question turns on is rare, whatever the documents at hand are about."""

from __future__ import annotations

import math
from functools import lru_cache

from tokenizers import Tokenizer

from rag.settings import ASSETS

COMMON = 2000
"""The embedded encoder's vocabulary (30,522 WordPieces of BERT) lists its words from about here on by falling frequency."""

RAREST = 30522
TWO_PIECES = 0.9
"""A word of two pieces is rarer than most of the vocabulary; one of three or more is as rare as can be."""


def rarity(word: str) -> float:
    """0 (in everybody's mouth) to 1 ("lenalidomide")."""
    pieces = _tokenizer().encode(word, add_special_tokens=False).ids
    if len(pieces) != 1:
        return TWO_PIECES if len(pieces) == 2 else 1.0 if pieces else 0.0
    return max(0.0, math.log(pieces[0] / COMMON) / math.log(RAREST / COMMON)) if pieces[0] > COMMON else 0.0


@lru_cache(maxsize=1)
def _tokenizer() -> Tokenizer:
    return Tokenizer.from_file(str(ASSETS / "encoders" / "all-MiniLM-L6-v2" / "tokenizer.json"))

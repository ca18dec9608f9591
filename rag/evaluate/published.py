"""The study's published figures, as rows like those of ``rag.evaluate.tables``.

The study gives shares and the size of each set, and no intervals. A bootstrap interval of a mean of zeros and ones depends on how many ones
there are and on nothing else, so that it follows from share and n; it is worked out here, in the same way as for results of one's own.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from rag.errors import UsageError
from rag.evaluate.statistics import bootstrap_interval
from rag.evaluate.tables import METRICS, MULTIMODAL, TEXT_ONLY, Row
from rag.settings import ASSETS

FILE = ASSETS / "study" / "paper_results.json"
PIXEL_ONLY = "figure_pixel"
JUDGES = "DeepSeek-Chat, Claude Haiku 4.5 on figures"
"""Whose verdicts the study's figures are."""
_ROUNDED = 0.0006
"""Shares are given to three digits."""

_Share = Annotated[float, Field(ge=0, le=1)]
_Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class _Scores(_Model):
    generator: str
    system: str
    accuracy: _Share
    faithfulness: _Share
    relevancy: _Share
    question_type: str = PIXEL_ONLY


class _Efficiency(_Model):
    generator: str
    access: str
    system: str
    input_tokens_per_question: _Amount
    usd_per_100_questions: _Amount


class _Protocol(_Model):
    n: int
    answer_in_caption: str
    cell_value_answers: str
    mean_answer_chars: int


class _ByProtocol(_Model):
    generator: str
    caption: _Share | None
    pixel: _Share | None


class _Protocols(_Model):
    caption: _Protocol
    pixel: _Protocol
    text_only_accuracy: tuple[_ByProtocol, ...]
    multimodal_accuracy: tuple[_ByProtocol, ...]


class _Latency(_Model):
    gemini_range: tuple[_Amount, _Amount]
    maverick_range: tuple[_Amount, _Amount]


class _File(_Model):
    source: str
    question_sets: dict[str, Annotated[int, Field(gt=0)]]
    retrieval: dict[str, dict[str, _Share]]
    ablation: tuple[_Scores, ...]
    figure_protocols: _Protocols
    diagnostic: tuple[_Scores, ...]
    efficiency_pixel_figure_set: tuple[_Efficiency, ...]
    latency_ms: _Latency


@dataclass(frozen=True, slots=True)
class Published:
    """Tables II (``ablation``), III (``protocols`` has the sets, ``protocol_accuracy`` a row per generator and system), IV
    (``diagnostic``) and V (``efficiency``); ``retrieval`` by question type; ``latency_ms`` generator -> (shortest, longest)."""

    source: str
    ablation: tuple[Row, ...]
    protocols: tuple[Row, ...]
    protocol_accuracy: tuple[Row, ...]
    diagnostic: tuple[Row, ...]
    efficiency: tuple[Row, ...]
    retrieval: dict[str, Row]
    latency_ms: dict[str, tuple[float, float]]


def load(file: Path = FILE) -> Published:
    """Read and check the study's figures.

    Raises:
        UsageError: the file is missing or is not what it should be; names the place.
    """
    try:
        found = _File.model_validate(json.loads(file.read_text("utf-8")))
        return _published(found)
    except (OSError, ValueError, KeyError) as error:
        where = "; ".join(_places(error)) if isinstance(error, ValidationError) else str(error)
        raise UsageError(f"{file.name} does not hold the study's figures ({where}); restore it.") from error


@lru_cache(maxsize=1)
def shipped() -> Published:
    """What ships with Fusebox."""
    return load()


def _places(error: ValidationError) -> list[str]:
    return [f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors()[:3]]


def _published(found: _File) -> Published:
    sizes = found.question_sets
    return Published(
        source=found.source,
        ablation=tuple(_scores(row, sizes) for row in found.ablation),
        protocols=tuple(
            {"set": name} | getattr(found.figure_protocols, name).model_dump() for name in ("caption", "pixel")
        ),
        protocol_accuracy=tuple(_protocol_rows(found)),
        diagnostic=tuple(_scores(row, sizes) for row in found.diagnostic),
        efficiency=tuple(
            row.model_dump() | {"question_type": PIXEL_ONLY, "n": sizes[PIXEL_ONLY]}
            for row in found.efficiency_pixel_figure_set
        ),
        retrieval={kind: {"n": sizes[kind], **row} for kind, row in found.retrieval.items()},
        latency_ms={
            "Gemini 3.1 Flash-Lite": found.latency_ms.gemini_range,
            "Llama 4 Maverick": found.latency_ms.maverick_range,
        },
    )


def _scores(row: _Scores, sizes: dict[str, int]) -> Row:
    n = sizes[row.question_type]
    filled: Row = row.model_dump() | {"n": n}
    for metric in METRICS:
        low, high = interval(filled[metric], n)
        filled |= {f"{metric}_low": low, f"{metric}_high": high}
    return filled


def _protocol_rows(found: _File) -> list[Row]:
    """A row per generator and system; each share with its n and interval."""
    rows, protocols = [], found.figure_protocols
    for system, given in ((TEXT_ONLY, protocols.text_only_accuracy), (MULTIMODAL, protocols.multimodal_accuracy)):
        for each in given:
            row: Row = {"generator": each.generator, "system": system}
            for name in ("caption", "pixel"):
                share, n = getattr(each, name), getattr(protocols, name).n
                low, high = (None, None) if share is None else interval(share, n)
                row |= {name: share, f"{name}_n": 0 if share is None else n, f"{name}_low": low, f"{name}_high": high}
            rows.append(row)
    return rows


@lru_cache(maxsize=256)
def interval(share: float, n: int) -> tuple[float, float]:
    """The bootstrap interval of a share of ``n`` that was given to three digits.

    Raises:
        ValueError: no count out of ``n`` rounds to it.
    """
    right = round(share * n)
    if abs(right / n - share) > _ROUNDED:
        raise ValueError(f"{share} is no share of {n}")
    return bootstrap_interval([1.0] * right + [0.0] * (n - right))

"""The gate: may the visual branch send pixels, captions or nothing, and why (section III-C3, sigma in eq. 4).

The study sends pixels only for figure questions and knows which those are. Here a person can say so, an evaluation can pass the
question's type, and ``auto`` decides from the question's wording and the rankings. Every signal that counted is kept with its
value and its weight.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rag.corpus import Corpus
from rag.types import Evidence, Fused, GateDecision, Payload, Signal, System

FIGURE_TYPES = frozenset({"figure", "figure_pixel", "figure_caption"})
"""Question types whose gold source is a crop."""

QUESTION_TYPES = frozenset({"text", "multihop", "unanswerable"}) | FIGURE_TYPES
"""Every type a question file may give."""

_MODALITY = re.compile(
    r"\b(figures?|fig\.|plots?|plotted|charts?|diagrams?|axis|axes|legend|"
    r"(?:in|of|from|does|which|what) (?:the )?tables?|tables? \d+)(?!\w)",
    re.I,
)
_SECOND_PART = re.compile(r",? and (?:what|which|who|whose|how|from|at|in|to|when|where)\b", re.I)


@dataclass(frozen=True, slots=True)
class _View:
    """What the signals look at: the question, and the rankings with the pages of their items."""

    question: str
    crops: tuple[Fused, ...]
    chunks: tuple[Fused, ...]
    crop_page: str = ""
    chunk_pages: frozenset[str] = frozenset()


USUAL_COSINE = 0.52
"""Cosine of the best crop at which it speaks neither for nor against the crop; a question off the topic has far less."""

_Signal = tuple[float, str]
"""A value, and its words."""


def _ranked_by(items: Sequence[Fused], ranker: str) -> bool:
    """Whether a ranker (``dense`` or ``bm25``, of either branch) took part in ranking these items."""
    return any(hit.ranker.endswith(ranker) for item in items for hit in item.hits)


def _best(items: Sequence[Fused], ranker: str) -> float:
    """The best score a ranker gave to one of the items; 0 where it took part and found none of them."""
    return max((hit.score for item in items for hit in item.hits if hit.ranker.endswith(ranker)), default=0.0)


def _cosines(view: _View) -> _Signal | None:
    if not (_ranked_by(view.crops, "dense") and _ranked_by(view.chunks, "dense")):
        return None
    crop, chunk = _best(view.crops[:1], "dense"), _best(view.chunks, "dense")
    return crop - chunk, f"{crop:.2f} against {chunk:.2f}"


def _cosine(view: _View) -> _Signal | None:
    if not _ranked_by(view.crops, "dense"):
        return None
    crop = _best(view.crops[:1], "dense")
    return min(0.6, crop) - USUAL_COSINE, f"{crop:.2f}, usual is {USUAL_COSINE}"


def _words(view: _View) -> _Signal | None:
    if not (_ranked_by(view.crops, "bm25") and _ranked_by(view.chunks, "bm25")):
        return None
    crop, chunk = _best(view.crops[:1], "bm25"), _best(view.chunks, "bm25")
    return math.log((crop + 1) / (chunk + 1)), f"{crop:.1f} against {chunk:.1f}"


def _lead(view: _View) -> _Signal | None:
    if not _ranked_by(view.crops, "dense"):
        return None
    first, second = _best(view.crops[:1], "dense"), _best(view.crops[1:2], "dense")
    return min(0.2, max(0.0, first - second)), f"{first:.2f} against {second:.2f}"


def _agreement(view: _View) -> _Signal | None:
    ranks = {hit.ranker: hit.rank for hit in view.crops[0].hits}
    if len({hit.ranker for crop in view.crops for hit in crop.hits}) < 2:
        return None
    agreed = len(ranks) > 1 and all(rank == 1 for rank in ranks.values())
    return float(agreed), ", ".join(f"{name} puts it at {rank}" for name, rank in ranks.items())


def _same_page(view: _View) -> _Signal:
    same = view.crop_page in view.chunk_pages
    return float(same), "yes" if same else "no"


def _two_parts(view: _View) -> _Signal:
    found = _SECOND_PART.search(view.question)
    return float(found is not None), "yes" if found else "no"


def _wording(view: _View) -> _Signal:
    found = _MODALITY.search(view.question)
    return float(found is not None), f"it says {found.group().lower()!r}" if found else "it does not"


SIGNALS: dict[str, tuple[float, Callable[[_View], _Signal | None]]] = {
    "crop 1, cosine": (19.5, _cosine),
    "crop 1 against the best passage, cosine": (7.7, _cosines),
    "crop 1 against the best passage, BM25": (5.5, _words),
    "crop 1 against crop 2, cosine": (6.3, _lead),
    "the rankers agree on crop 1": (0.3, _agreement),
    "crop 1 stands on a page of the passages": (1.9, _same_page),
    "the question has two parts": (-3.3, _two_parts),
    "the question names a figure or table": (3.0, _wording),
}
"""Signal -> (weight, function to its value and its words). Weighted values are log-odds of a question whose gold source is a crop: a
logistic model fitted by ``tests/bench/fit_gate.py``, save for the last, which those questions avoid by rule."""

BIAS = -0.8
"""Log-odds before any signal counts. ``auto`` sends pixels where the sum is above 0."""


def decide(
    question: str, evidence: Evidence, system: System, corpus: Corpus, *, vision: bool, question_type: str | None = None
) -> GateDecision:
    """Decide what the visual branch sends.

    Args:
        question: as asked.
        evidence: text and visual evidence; the gate never looks at the graph.
        system: its ``branches``, ``payload`` and ``captions_k`` count.
        corpus: where the items' pages are.
        vision: whether the generator takes pixels. If not, pixels become the caption and the read-off text of the same crop.
        question_type: the question's type, where an evaluation knows it; it then decides, as in the study.
    """
    if "visual" not in system.branches:
        return GateDecision("nothing", (), "Figures & tables are off: nothing visual goes along.", (), "nothing", "off")
    crops = evidence.visual.hits if evidence.visual else ()
    if not crops:
        note = evidence.visual.note if evidence.visual and evidence.visual.note else "No crop was found."
        return GateDecision("nothing", (), f"Nothing visual goes along. {note}", (), "nothing", system.payload)
    wanted, why, signals, mode = _wanted(question, evidence, system, corpus, question_type)
    return _deliver(wanted, why, signals, mode, crops, system, corpus, vision)


def _wanted(
    question: str, evidence: Evidence, system: System, corpus: Corpus, question_type: str | None
) -> tuple[Payload, str, tuple[Signal, ...], str]:
    if system.payload != "auto":
        return system.payload, f"you chose {system.payload}", (), "manual"
    if question_type is not None:
        figure = question_type in FIGURE_TYPES
        why = f"the question's type is {question_type}"
        return ("pixels" if figure else "captions"), why, (Signal("question type", question_type),), "question type"
    total, signals = weigh(view_of(question, evidence, corpus))
    kept = (
        *(Signal(name, f"{words} ({weight:+.2f})") for name, (weight, words) in signals.items()),
        Signal("sum", f"{total:+.2f}, with {BIAS:+.2f} to begin with; pixels above 0"),
    )
    if total > 0:
        strongest = max(signals, key=lambda name: signals[name][0])
        words = signals[strongest][1]
        why = strongest if words == "yes" else f"{strongest}: {words}"
        return "pixels", f"a crop looks like the source ({why})", kept, "auto"
    return (
        "captions",
        f"the passages look like the source (signals add up to {total:+.1f}, pixels above 0)",
        kept,
        "auto",
    )


def delivered_to(evidence: Evidence, system: System, corpus: Corpus, *, vision: bool) -> GateDecision | None:
    """The decision that was made, as a generator with or without ``vision`` would get it: to compare what the same question costs."""
    decision = evidence.gate
    if decision is None or evidence.visual is None or decision.payload == "nothing":
        return decision
    hits = evidence.visual.hits
    return _deliver(decision.wanted, "as decided before", decision.signals, decision.mode, hits, system, corpus, vision)


def view_of(question: str, evidence: Evidence, corpus: Corpus) -> _View:
    """What the signals look at."""
    crops = evidence.visual.hits if evidence.visual else ()
    chunks = evidence.text.hits if evidence.text else ()
    pages = frozenset(corpus.chunks[hit.item_id].page_id for hit in chunks)
    return _View(question, crops, chunks, corpus.crops[crops[0].item_id].page_id if crops else "", pages)


def weigh(view: _View) -> tuple[float, dict[str, _Signal]]:
    """The sum of log-odds, and each signal's share of it with its value in words. A signal whose ranker did not run is left out."""
    signals = {}
    for name, (weight, signal) in SIGNALS.items():
        if (found := signal(view)) is not None:
            signals[name] = (weight * found[0], found[1])
    return BIAS + sum(share for share, _ in signals.values()), signals


def _deliver(
    wanted: Payload,
    why: str,
    signals: tuple[Signal, ...],
    mode: str,
    crops: tuple[Fused, ...],
    system: System,
    corpus: Corpus,
    vision: bool,
) -> GateDecision:
    if wanted == "pixels" and vision:
        return GateDecision(
            "pixels", (crops[0].item_id,), f"Crop 1 goes along as pixels: {why}.", signals, wanted, mode
        )
    if wanted == "pixels":
        reason = f"Crop 1 goes along as text, its caption and the words read off it, since this generator takes no images: {why}."
        return GateDecision("captions", (crops[0].item_id,), reason, signals, wanted, mode, read_off=True)
    sent = tuple(crop.item_id for crop in crops[: system.captions_k])
    count = "The caption of 1 crop goes" if len(sent) == 1 else f"The captions of {len(sent)} crops go"
    bare = sum(not corpus.crops[item].captions for item in sent)
    stand_in = f" ({bare} without one by the start of the words read off)" if bare else ""
    return GateDecision("captions", sent, f"{count} along{stand_in}, no pixels: {why}.", signals, wanted, mode)

"""The gate: may the visual branch send pixels, captions or nothing, and why (section III-C3, sigma in eq. 4).

The study sends pixels only for figure questions and knows which those are. Here a person can say so, an evaluation can pass the
question's type, and ``auto`` decides from the question's wording and the rankings. Every signal that counted is kept with its
value and its weight.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from rag.types import Evidence, Fused, GateDecision, Payload, Signal, System

FIGURE_TYPES = frozenset({"figure", "figure_pixel", "figure_caption"})
"""Question types whose gold source is a crop."""

THRESHOLD = 1.0
"""``auto`` sends pixels from this sum of weights on; see the signals' weights below."""

_MODALITY = re.compile(
    r"\b(figures?|fig\.|tables?|plots?|plotted|charts?|graphs?|diagrams?|panels?|axis|axes|legend|drawn|depicted|shown)\b", re.I
)
_CELL_VALUE = re.compile(
    r"\b(how many|how much|what (?:is|was|are|were) the (?:\S+ ){0,6}?(?:value|values|coefficient|estimate|number|percentage|"
    r"proportion|p-value|mean|median|ratio|statistic|standard error|limit|bound|interval|count|size|range|maximum|minimum)|"
    r"which (?:\S+ ){0,4}?(?:highest|lowest|largest|smallest)|what (?:value|number|percentage|proportion))\b",
    re.I,
)


@dataclass(frozen=True, slots=True)
class _View:
    """What the signals look at."""

    question: str
    crops: tuple[Fused, ...]
    chunks: tuple[Fused, ...]


def _score(fused: Fused | None, ranker: str) -> float:
    if fused is None:
        return 0.0
    return max((hit.score for hit in fused.hits if hit.ranker.endswith(ranker)), default=0.0)


def _wording(view: _View) -> tuple[float, str]:
    found = _MODALITY.search(view.question)
    return (1.5, f"names a {found.group().lower()!r}") if found else (0.0, "names none")


def _cell_value(view: _View) -> tuple[float, str]:
    found = _CELL_VALUE.search(view.question)
    return (0.4, f"asks {found.group().lower()!r}") if found else (0.0, "no")


def _against_text(view: _View) -> tuple[float, str]:
    crop = max((_score(c, "dense") for c in view.crops[:1]), default=0.0)
    chunk = max((_score(c, "dense") for c in view.chunks), default=0.0)
    weight = 4.0 * (crop - chunk)
    return max(-1.0, min(1.0, weight)), f"{crop:.2f} against {chunk:.2f}"


def _lead(view: _View) -> tuple[float, str]:
    first, second = (_score(c, "dense") for c in (*view.crops[:2], *(None, None))[:2])
    return max(0.0, min(0.6, 3.0 * (first - second))), f"{first:.2f} against {second:.2f}"


def _agreement(view: _View) -> tuple[float, str]:
    ranks = {hit.ranker: hit.rank for hit in view.crops[0].hits}
    agree = len(ranks) > 1 and all(rank == 1 for rank in ranks.values())
    return (0.4 if agree else 0.0), ", ".join(f"{name} {rank}" for name, rank in ranks.items())


SIGNALS: dict[str, Callable[[_View], tuple[float, str]]] = {
    "the wording": _wording,
    "asks for a single value": _cell_value,
    "best crop against best passage (cosine)": _against_text,
    "crop 1 against crop 2 (cosine)": _lead,
    "the rankers' places for crop 1": _agreement,
}
"""Each signal gives its weight and its value in words."""


def decide(
    question: str, evidence: Evidence, system: System, *, vision: bool, question_type: str | None = None
) -> GateDecision:
    """Decide what the visual branch sends.

    Args:
        question: as asked.
        evidence: text and visual evidence; the gate never looks at the graph.
        system: its ``branches``, ``payload`` and ``captions_k`` count.
        vision: whether the generator takes pixels. If not, pixels become the caption and the read-off text of the same crop.
        question_type: the question's type, where an evaluation knows it; it then decides, as in the study.
    """
    if "visual" not in system.branches:
        return GateDecision("nothing", (), "Figures & tables are off, so nothing visual was sent.", (), "nothing", "off")
    crops = evidence.visual.hits if evidence.visual else ()
    if not crops:
        note = evidence.visual.note if evidence.visual and evidence.visual.note else "No crop was found."
        return GateDecision("nothing", (), f"Nothing visual was sent. {note}", (), "nothing", system.payload)
    wanted, why, signals, mode = _wanted(question, evidence, system, question_type)
    return _deliver(wanted, why, signals, mode, crops, system, vision)


def _wanted(
    question: str, evidence: Evidence, system: System, question_type: str | None
) -> tuple[Payload, str, tuple[Signal, ...], str]:
    if system.payload != "auto":
        return system.payload, f"you chose {system.payload}", (), "manual"
    if question_type is not None:
        figure = question_type in FIGURE_TYPES
        why = f"the question's type is {question_type}"
        return ("pixels" if figure else "captions"), why, (Signal("question type", question_type),), "question type"
    assert evidence.visual is not None
    view = _View(question, evidence.visual.hits, evidence.text.hits if evidence.text else ())
    votes = {name: signal(view) for name, signal in SIGNALS.items()}
    total = sum(weight for weight, _ in votes.values())
    signals = (
        *(Signal(name, f"{value} ({weight:+.2f})") for name, (weight, value) in votes.items()),
        Signal("sum", f"{total:+.2f}; pixels from {THRESHOLD:+.2f}"),
    )
    strongest = max(votes, key=lambda name: votes[name][0])
    if total >= THRESHOLD:
        return "pixels", f"this looks like a question for a figure or table ({strongest}: {votes[strongest][1]})", signals, "auto"
    return "captions", f"the passages look like enough (sum {total:.2f}, pixels from {THRESHOLD:.2f})", signals, "auto"


def _deliver(
    wanted: Payload, why: str, signals: tuple[Signal, ...], mode: str, crops: tuple[Fused, ...], system: System, vision: bool
) -> GateDecision:
    if wanted == "pixels" and vision:
        return GateDecision("pixels", (crops[0].item_id,), f"Sent crop 1 as pixels: {why}.", signals, wanted, mode)
    if wanted == "pixels":
        reason = f"Sent crop 1 as text, caption and read-off words, since this generator takes no images: {why}."
        return GateDecision("captions", (crops[0].item_id,), reason, signals, wanted, mode, read_off=True)
    sent = tuple(crop.item_id for crop in crops[: system.captions_k])
    count = "the caption of 1 crop" if len(sent) == 1 else f"the captions of {len(sent)} crops"
    return GateDecision("captions", sent, f"Sent {count}, no pixels: {why}.", signals, wanted, mode)

"""Caption-recovery audit (section IV-G, Table III): does a set of figure questions measure looking, or finding captions?

A question whose answer stands in the crop's caption can be answered without the picture. The upper half of Table III counts such
questions; ``recovered`` looks at the answers that text-only systems got right and says which words of the page they came from.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import mean
from typing import Literal

from rag.corpus import Corpus
from rag.evaluate.checker import answered_by, fold
from rag.evaluate.questions import Question, resolve
from rag.evaluate.store import Result
from rag.gate import FIGURE_TYPES
from rag.types import Crop, Trace

Origin = Literal["caption", "read-off text", "running text", "not in the evidence"]
ORIGINS: tuple[Origin, ...] = ("caption", "read-off text", "running text", "not in the evidence")

_NUMBER = r"[-+]?\.?\d[\d.,]*(?:e[-+]?\d+)?"
_SPREAD = rf"(?: ?\((?:{_NUMBER}|[-+,;±% ]|to|sd|se|ci)+\)| ?(?:±|\+/-) ?{_NUMBER})?"
_CELL = re.compile(
    rf"(?:(?:about|approximately|around|roughly|nearly|almost|p) ?|[~≈<>=≤≥] ?)*{_NUMBER}(?: ?(?:-|to) ?{_NUMBER})?{_SPREAD}"
    rf"(?: ?[-/]?[^\W\d_]\S*(?: \S+)?| ?%)?{_SPREAD}"
)
"""One value as a cell or a reading gives it: number or range, its spread, and a unit of one or two words."""


@dataclass(frozen=True, slots=True)
class Audit:
    """The upper half of Table III for one set. ``with_caption`` counts questions whose crop has a caption: ``in_caption`` is out of
    these. ``cell_values`` and ``mean_answer_chars`` are over all ``n``. ``unknown`` questions name no crop of the corpus."""

    set: str
    n: int
    with_caption: int
    in_caption: int
    cell_values: int
    mean_answer_chars: float
    unknown: int = 0
    answered_in_captions: tuple[str, ...] = ()

    def row(self) -> dict[str, object]:
        """In the shape of ``figure_protocols`` of the study's figures; a share without anything to look at is ``None``."""
        return {
            "set": self.set,
            "n": self.n,
            "answer_in_caption": f"{self.in_caption}/{self.with_caption}" if self.with_caption else None,
            "cell_value_answers": f"{self.cell_values}/{self.n}",
            "mean_answer_chars": round(self.mean_answer_chars),
            "unknown": self.unknown,
        }


def is_cell_value(answer: str) -> bool:
    """Whether an answer is one value (see ``_CELL``), as a table's cell or a reading off an axis gives it. The study does not state its
    rule; this one was chosen among plain ones because it gives the study's counts on its two sets, 23 of 35 and 1 of 35."""
    return _CELL.fullmatch(fold(answer).rstrip(".")) is not None


def audit(questions: Sequence[Question], corpus: Corpus) -> tuple[Audit, ...]:
    """One audit per set, of its figure questions."""
    captions = {
        source: corpus.crops[crop].caption
        for question in questions
        for source in question.sources
        if (crop := resolve(source, corpus)) in corpus.crops
    }
    return audit_captions(questions, captions)


def audit_captions(questions: Iterable[Question], captions: Mapping[str, str]) -> tuple[Audit, ...]:
    """As ``audit``, from captions by the sources' names; an empty caption is none, a source that is missing is unknown."""
    sets: dict[str, list[Question]] = {}
    for question in questions:
        if question.type in FIGURE_TYPES:
            sets.setdefault(question.set, []).append(question)
    return tuple(_audit(name, asked, captions) for name, asked in sets.items())


def _audit(name: str, asked: Sequence[Question], captions: Mapping[str, str]) -> Audit:
    caption = {q.q: " ".join(captions.get(s, "") for s in q.sources).strip() for q in asked}
    found = tuple(q.q for q in asked if caption[q.q] and answered_by(q.answer, caption[q.q], q.q))
    return Audit(
        set=name,
        n=len(asked),
        with_caption=sum(bool(text) for text in caption.values()),
        in_caption=len(found),
        cell_values=sum(is_cell_value(q.answer) for q in asked),
        mean_answer_chars=mean(len(q.answer) for q in asked),
        unknown=sum(not any(s in captions for s in q.sources) for q in asked),
        answered_in_captions=found,
    )


# --- where text-only answers came from -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Recovered:
    """A figure question that a text-only system got right, and the evidence that held the reference: ``origin`` says what part of the
    page it was, ``item_id`` which chunk or fact of the prompt, ``crop_id`` whose caption or read-off text."""

    result: Result
    origin: Origin
    item_id: str = ""
    crop_id: str = ""


def recovered(
    results: Iterable[Result], trace_of: Callable[[Result], Trace], corpus: Corpus, judge: str = "lexical"
) -> tuple[Recovered, ...]:
    """Where the right answers of text-only systems to figure questions came from.

    Args:
        results: of one run, or of several.
        trace_of: ``Store.trace``.
        corpus: the corpus of the run.
        judge: whose accuracy says that an answer is right.
    """
    return tuple(
        _recovered(result, trace, corpus)
        for result in results
        if result.state == "done" and result.type in FIGURE_TYPES and result.verdicts.get(judge, {}).get("accuracy")
        for trace in [trace_of(result)]
        if "visual" not in trace.system.branches
    )


def origins(found: Iterable[Recovered]) -> dict[tuple[str, str, str], dict[Origin, int]]:
    """(set, generator, system) -> how many right answers came from where."""
    counts: dict[tuple[str, str, str], Counter[Origin]] = {}
    for one in found:
        key = (one.result.set, one.result.generator, one.result.system)
        counts.setdefault(key, Counter())[one.origin] += 1
    return {key: {origin: count[origin] for origin in ORIGINS} for key, count in counts.items()}


def _recovered(result: Result, trace: Trace, corpus: Corpus) -> Recovered:
    """The most telling of the pieces that hold the reference; what the answer cites goes before what it doesn't."""
    cited = {citation.item_id for citation in trace.citations}
    found = [
        Recovered(result, origin, item, crop)
        for item, text in _evidence(trace)
        if answered_by(result.reference, text, result.question)
        for origin, crop in [_origin(result, item, text, corpus)]
    ]
    ranked = sorted(found, key=lambda one: (one.item_id not in cited, ORIGINS.index(one.origin)))
    return ranked[0] if ranked else Recovered(result, "not in the evidence")


def _evidence(trace: Trace) -> Iterator[tuple[str, str]]:
    """(item, words) of every piece of evidence in the prompt."""
    for segment in trace.prompt.segments if trace.prompt else ():
        if segment.item_id and segment.kind in ("text", "graph"):
            yield segment.item_id, segment.text


def _origin(result: Result, item: str, text: str, corpus: Corpus) -> tuple[Origin, str]:
    """Whether a piece has the answer from a caption or from the text read off a crop of its page: it stands there too, and the piece
    shares most of that text's words."""
    crops = corpus.crops_on(_page_of(item, corpus))
    for origin, words_of in _CROP_TEXTS.items():
        for crop in crops:
            held = words_of(crop)
            if held and answered_by(result.reference, held, result.question) and _overlap(held, text):
                return origin, crop.id
    return "running text", ""


_CROP_TEXTS: Mapping[Origin, Callable[[Crop], str]] = {
    "caption": lambda crop: crop.caption,
    "read-off text": lambda crop: crop.ocr_text,
}
_SHINGLE = 4


def _overlap(held: str, text: str) -> bool:
    """Whether the two share a run of words: a window may hold but a part of a caption, and a table's cells are joined differently."""
    return bool(_runs(held) & _runs(text))


def _runs(text: str) -> set[tuple[str, ...]]:
    found = re.findall(r"\w+", fold(text))
    size = min(_SHINGLE, max(1, len(found)))
    return {tuple(found[i : i + size]) for i in range(len(found) - size + 1)}


def _page_of(item: str, corpus: Corpus) -> str:
    kind, _, number = item.partition(":")
    return corpus.triples[int(number)].page_id if kind == "triple" and number else corpus.chunks[item].page_id

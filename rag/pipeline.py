"""``ask``: the straight way of a question. The only code that knows the order of the steps (eq. 4).

The page, the comparison, the command line and the API all call it; there is no second path.
"""

from __future__ import annotations

import time
import unicodedata
import uuid
from collections.abc import Callable, Collection, Generator, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import TypeVar

from rag import branches, gate, prompt
from rag.corpus import Corpus
from rag.errors import CorpusError, UsageError
from rag.generators.access import OPERATOR, Access
from rag.generators.answer import answer
from rag.generators.spec import GeneratorSpec
from rag.types import (
    Bridge,
    Evidence,
    GateDecision,
    GraphEvidence,
    Prompt,
    PromptImage,
    System,
    TextEvidence,
    Trace,
    VisualEvidence,
)

MAX_QUESTION_CHARS = 2_000

_KEPT_CONTROLS = "\n\t"


def clean_question(text: str) -> str:
    """The question as it goes on: control characters and lone surrogates out, ends stripped.

    Raises:
        UsageError: nothing is left, or it is longer than ``MAX_QUESTION_CHARS``.
    """
    kept = "".join(
        c if c in _KEPT_CONTROLS or unicodedata.category(c) not in ("Cc", "Cs") else " " for c in text
    ).strip()
    if not kept:
        raise UsageError("The question is empty; type one, or pick an example.")
    if len(kept) > MAX_QUESTION_CHARS:
        raise UsageError(
            f"The question has {len(kept):,} characters; shorten it to {MAX_QUESTION_CHARS:,}, it is a question and not a document."
        )
    return kept


@dataclass(slots=True)
class _Stopwatch:
    """Milliseconds per stage."""

    timings: dict[str, float] = field(default_factory=dict)
    _last: float = field(default_factory=time.perf_counter)

    def lap(self, stage: str) -> None:
        now = time.perf_counter()
        self.timings[stage] = round(1000 * (now - self._last), 3)
        self._last = now


def ask(
    question: str,
    system: System,
    generator: GeneratorSpec,
    corpus: Corpus,
    *,
    exclude: Collection[str] = (),
    refill: bool = False,
    question_type: str | None = None,
    stopped: Callable[[], bool] = lambda: False,
    access: Access = OPERATOR,
) -> Generator[Trace, None, None]:
    """Answer ``question``, yielding fuller and fuller traces: evidence, prompt, the growing answer, the finished one.

    Args:
        question: free text.
        system: what is retrieved and how.
        generator: who answers.
        corpus: an open corpus.
        exclude: item ids (chunk, ``triple:N``, crop) that retrieval may find but the prompt leaves out.
        refill: the next-ranked items move up into the places of those left out; without it the prompt gets shorter.
        question_type: the type where an evaluation knows it; it then decides what the gate lets through.
        stopped: asked between pieces of the answer and while nothing comes; once true, the request is aborted and the answer ends
            as ``cancelled`` and stays partial.
        access: with whose keys, and within which cap, the generator is called.

    Raises:
        UsageError: an empty or overlong question, an unknown type, an item to leave out that the corpus does not hold.
        EncoderUnavailable: the corpus's text encoder can't be loaded.
    """
    check_choice(exclude, question_type, corpus)
    trace = Trace(
        id=uuid.uuid4().hex,
        created=datetime.now(UTC).isoformat(timespec="milliseconds"),
        question=clean_question(question),
        system=system,
        generator=generator.name,
        corpus_id=corpus.id,
        excluded=tuple(sorted(set(exclude))),
        refill=refill and bool(exclude),
        question_type=question_type,
    )
    watch = _Stopwatch()
    trace = _retrieve(trace, generator.vision, corpus, watch)
    yield trace
    yield from _generate(trace, generator, corpus, watch, stopped, access)


def ask_again(
    trace: Trace,
    generator: GeneratorSpec,
    corpus: Corpus,
    *,
    exclude: Collection[str] = (),
    stopped: Callable[[], bool] = lambda: False,
    access: Access = OPERATOR,
) -> Iterator[Trace]:
    """Answer the question of ``trace`` from the very evidence it holds, without ``exclude``; nothing is retrieved anew, so two
    answers differ by what was left out and by nothing else.

    Raises:
        UsageError: an item to leave out that the corpus does not hold.
        CorpusError: the trace is of another corpus.
    """
    if trace.corpus_id != corpus.id:
        raise CorpusError(f"This trace is of the corpus {trace.corpus_id}, and {corpus.id} is open; open that one.")
    check_choice(exclude, trace.question_type, corpus)
    again = replace(
        trace,
        id=uuid.uuid4().hex,
        created=datetime.now(UTC).isoformat(timespec="milliseconds"),
        generator=generator.name,
        evidence=trace.evidence
        if generator.name == trace.generator
        else replace(trace.evidence, gate=_delivered(trace, generator, corpus)),
        excluded=tuple(sorted(set(exclude))),
        prompt=None,
        generation=None,
        citations=(),
        timings_ms={},
    )
    yield from _generate(again, generator, corpus, _Stopwatch(), stopped, access)


def _generate(
    trace: Trace,
    generator: GeneratorSpec,
    corpus: Corpus,
    watch: _Stopwatch,
    stopped: Callable[[], bool],
    access: Access,
) -> Iterator[Trace]:
    """From the evidence to the answer."""
    sent = prompt.build(trace.question, trace.evidence, corpus, trace.excluded)
    watch.lap("prompt")
    trace = replace(trace, prompt=sent, timings_ms=dict(watch.timings))
    yield trace
    with closing(answer(sent, generator, access, partial(_pixels, corpus), stopped)) as generations:
        for generation in generations:
            citations = prompt.parse_citations(generation.text, sent.tags)
            trace = replace(trace, generation=generation, citations=citations)
            yield trace
    watch.lap("generation")
    yield replace(trace, timings_ms=dict(watch.timings))


def prompt_for(trace: Trace, generator: GeneratorSpec, corpus: Corpus) -> Prompt:
    """The prompt that ``generator`` would get for the question and evidence of ``trace``: the same but for pixels or words."""
    decision = _delivered(trace, generator, corpus)
    return prompt.build(trace.question, replace(trace.evidence, gate=decision), corpus, trace.excluded)


def _delivered(trace: Trace, generator: GeneratorSpec, corpus: Corpus) -> GateDecision | None:
    found = _without(trace.evidence, trace.excluded if trace.refill else ())
    return gate.delivered_to(found, trace.system, corpus, vision=generator.vision)


def check_choice(exclude: Collection[str], question_type: str | None, corpus: Corpus) -> None:
    """That these items can be left out, and that there is such a type.

    Raises:
        UsageError: an unknown type, an item that the corpus does not hold.
    """
    if question_type is not None and question_type not in gate.QUESTION_TYPES:
        known = ", ".join(sorted(gate.QUESTION_TYPES))
        raise UsageError(f"There is no question type {question_type!r}; it is one of {known}.")
    for item in exclude:
        number = item.removeprefix("triple:")
        # Longer numbers can't be read at all.
        written = number != item and number.isascii() and number.isdigit() and len(number) < 12
        is_triple = written and int(number) < len(corpus.triples)
        if not (is_triple or item in corpus.chunks or item in corpus.crops):
            raise UsageError(
                f"There is no item {item!r} to leave out; name a chunk, a crop, or triple:N of {corpus.id}."
            )


_F = TypeVar("_F")


def _refilled(
    find: Callable[[int], _F], items: Callable[[_F], Iterable[str]], wanted: int, left_out: frozenset[str]
) -> _F:
    """What ``find`` gives down to the depth at which ``wanted`` items are not left out (or there are no more)."""
    extra = 0
    while True:
        found = find(wanted + extra)
        gone = sum(item in left_out for item in items(found))
        if gone <= extra:
            return found
        extra = gone


def _without(evidence: Evidence, left_out: Collection[str]) -> Evidence:
    """The evidence as the gate sees it where the next-ranked move up."""
    text, visual = evidence.text, evidence.visual
    if text is not None:
        text = replace(text, hits=tuple(hit for hit in text.hits if hit.item_id not in left_out))
    if visual is not None:
        visual = replace(visual, hits=tuple(hit for hit in visual.hits if hit.item_id not in left_out))
    return replace(evidence, text=text, visual=visual)


def _retrieve(trace: Trace, vision: bool, corpus: Corpus, watch: _Stopwatch) -> Trace:
    """The branches and the gate. No branch looks at another's switch; the graph sees the text hits because that is its
    definition (eq. 3)."""
    system, evidence = trace.system, trace.evidence
    left_out = frozenset(trace.excluded if trace.refill else ())
    query = branches.Query.of(trace.question, corpus)
    watch.lap("encode")
    text = _refilled(
        lambda k: branches.text(query, corpus, replace(system, text_k=k)), _hit_items, system.text_k, left_out
    )
    query = query.after(text, corpus)
    evidence = replace(evidence, text=text)
    watch.lap("text")
    if "graph" in system.branches:
        evidence = replace(evidence, graph=graph_evidence(query, corpus, system, left_out))
        watch.lap("graph")
    if "visual" in system.branches:
        crops = _refilled(
            lambda k: branches.visual(query, corpus, replace(system, visual_depth=k)),
            _hit_items,
            system.visual_depth,
            left_out,
        )
        evidence = replace(evidence, visual=crops)
        watch.lap("visual")
    seen = _without(evidence, left_out)
    decision = gate.decide(trace.question, seen, system, corpus, vision=vision, question_type=trace.question_type)
    watch.lap("gate")
    return replace(trace, evidence=replace(evidence, gate=decision), timings_ms=dict(watch.timings))


def graph_evidence(
    query: branches.Query, corpus: Corpus, system: System, left_out: frozenset[str] = frozenset()
) -> GraphEvidence:
    """What the graph branch finds after the text branch; the next-ranked of its facts and bridges move up into the places of
    ``left_out``."""
    bridged = _refilled(
        lambda n: branches.bridges(query, corpus, system, n), _bridge_items, branches.MAX_BRIDGES, left_out
    )
    return _refilled(
        lambda k: branches.graph(query, corpus, replace(system, max_facts=k), bridged),
        _fact_items,
        system.max_facts,
        left_out,
    )


def _bridge_items(found: tuple[Bridge, ...]) -> Iterator[str]:
    return (bridge.hit.item_id for bridge in found)


def _hit_items(found: TextEvidence | VisualEvidence) -> Iterator[str]:
    return (hit.item_id for hit in found.hits)


def _fact_items(found: GraphEvidence) -> Iterator[str]:
    return (prompt.triple_item(fact.triple_ids[0]) for fact in found.facts)


def _pixels(corpus: Corpus, image: PromptImage) -> bytes:
    """The bytes of an image of the prompt.

    Raises:
        CorpusError: the file is gone.
    """
    try:
        return corpus.image_path(image.file).read_bytes()
    except OSError as error:
        raise CorpusError(f"{image.file} can't be read ({error.strerror}); build the corpus again.") from error

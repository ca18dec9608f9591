"""Traces as JSON, both ways without loss."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Any, NoReturn

from pydantic import TypeAdapter, ValidationError

from rag import prompt
from rag.errors import TraceError, UsageError
from rag.graph import fact_text
from rag.pipeline import check_choice, clean_question
from rag.systems import LIMITS
from rag.types import Trace

if TYPE_CHECKING:
    from rag.corpus import Corpus

MAX_TRACE_BYTES = 10_000_000
FORMAT = 1

_CHOOSE = "Choose a file saved with 'Download trace'."
_LARGEST = 2**53
"""Whole numbers beyond this are not the same in every reader of JSON."""
_RANGES: dict[str, tuple[int, int]] = {"rank": (1, _LARGEST), **LIMITS}
"""Field -> inclusive range of its whole number; any other is from 0 to ``_LARGEST``."""

_AMOUNT = re.compile(r"_(?:ms|usd)(?:\.|$)")
"""Where in a trace a time or an amount of money stands."""


@cache
def _adapter() -> TypeAdapter[Trace]:
    return TypeAdapter(Trace)


def dumps(trace: Trace, *, indent: int | None = None) -> str:
    """The trace as a JSON document."""
    return json.dumps(_adapter().dump_python(trace, mode="json"), ensure_ascii=False, indent=indent)


def loads(text: str | bytes) -> Trace:
    """A trace from what ``dumps`` wrote. Nothing is converted or dropped: ``dumps`` of it says the same again.

    Raises:
        TraceError: too large, no JSON, or not a trace of this version; names the first field that is wrong.
    """
    size = len(text.encode("utf-8", "replace") if isinstance(text, str) else text)
    if size > MAX_TRACE_BYTES:
        raise TraceError(
            f"This file has {size / 1e6:.0f} MB; a trace has at most {MAX_TRACE_BYTES / 1e6:.0f} MB. {_CHOOSE}"
        )
    try:
        value = json.loads(text, parse_constant=_no_number, object_pairs_hook=_once)
        # pydantic is strict about JSON only in JSON; there, lists are tuples and objects dataclasses.
        document = json.dumps(value, allow_nan=False, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise TraceError(f"This is not a trace: it holds a lone surrogate, which is no text. {_CHOOSE}") from None
    except RecursionError:
        raise TraceError(f"This file is nested too deeply to be a trace. {_CHOOSE}") from None
    except ValueError as error:
        raise TraceError(f"This is not JSON ({_cut(str(error))}). {_CHOOSE}") from None
    found = value.get("format", FORMAT) if isinstance(value, dict) else FORMAT
    if type(found) is int and found != FORMAT:
        raise TraceError(f"This trace has format {found}; this version reads format {FORMAT}. Ask the question again.")
    try:
        trace = _adapter().validate_json(document, strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(_cut(str(part)) for part in first["loc"]) or "the document"
        raise TraceError(f"This is not a trace: {where}: {_cut(first['msg'])}. {_CHOOSE}") from None
    read = _adapter().dump_python(trace, mode="json")
    for problem in (*_lost(value, read, ""), *_out_of_range(read, "")):
        raise TraceError(f"This is not a trace: {problem}. {_CHOOSE}")
    return trace


def check_against(trace: Trace, corpus: Corpus) -> None:
    """That a trace from elsewhere can be shown with this corpus: it names only items that are there, in the corpus's words, its
    question can be asked, its prompt is the one that its evidence gives, and its citations are those in its answer. Scores, counts
    and the answer itself are whatever the file says.

    Raises:
        TraceError: it can't; says what is wrong.
    """
    for problem in _contradictions(trace, corpus):
        raise TraceError(
            f"This trace can't be shown: {problem}. It was changed, or saved by another version. {_CHOOSE}"
        )


def _contradictions(trace: Trace, corpus: Corpus) -> Iterator[str]:
    if trace.corpus_id != corpus.id:
        yield f"it is of the corpus {_cut(trace.corpus_id)}, and {corpus.id} is open"
    for kind, item, known in _named_items(trace, corpus):
        if not known:
            yield f"the corpus has no {kind} {_cut(item)!r}"
    try:
        check_choice(trace.excluded, trace.question_type, corpus)
        clean = clean_question(trace.question)
    except UsageError as error:
        yield _cut(str(error)).rstrip(".")
        return
    if clean != trace.question:
        yield "its question holds control characters"
    found = trace.evidence
    listed = {hit.item_id for hit in found.visual.hits} if found.visual else set()
    if found.gate and not listed.issuperset(found.gate.item_ids):
        yield "its gate sends a crop that was not found"
    if trace.prompt is None:
        if trace.generation is not None:
            yield "it has an answer and no prompt"
        return
    ran = {"text": found.text, "graph": found.graph, "visual": found.visual}
    if {branch for branch, evidence in ran.items() if evidence is not None} != set(trace.system.branches):
        yield "its evidence is not from the branches of its system"
    if prompt.build(trace.question, found, corpus, trace.excluded) != trace.prompt:
        yield "its prompt is not the one that its evidence gives"
    answer = trace.generation
    said = answer.text if answer else ""
    if prompt.parse_citations(said, trace.prompt.tags) != trace.citations:
        yield "its citations are not those in its answer"
    if answer and answer.abstained != (answer.finish == "stop" and prompt.is_abstention(said)):
        yield "it is wrong about whether its answer is an abstention"


def _named_items(trace: Trace, corpus: Corpus) -> Iterator[tuple[str, str, bool]]:
    """(kind, id, whether the corpus has it) of everything that the evidence names."""
    found = trace.evidence
    for hit in found.text.hits if found.text else ():
        yield "chunk", hit.item_id, hit.item_id in corpus.chunks
    if found.visual:
        ranked = (hit.item_id for ranking in found.visual.rankings.values() for hit in ranking)
        for item in (*(hit.item_id for hit in found.visual.hits), *ranked):
            yield "crop", item, item in corpus.crops
    if found.graph:
        for fact in (*found.graph.facts, *(rejected.fact for rejected in found.graph.rejected)):
            known = bool(fact.triple_ids) and all(n < len(corpus.triples) for n in fact.triple_ids)
            yield "fact", str(fact.triple_ids), known
            yield "fact", fact.text, fact.text == fact_text(corpus.triples[fact.triple_ids[0]])
        for bridge in found.graph.bridges:
            yield "chunk", bridge.hit.item_id, bridge.hit.item_id in corpus.chunks
            for step in bridge.path:
                # An entity's name is shown as text and looked up by nobody.
                yield "chunk", step.name, step.kind == "entity" or step.name in corpus.chunks
                yield "fact", str(step.triple_id), step.triple_id is None or step.triple_id < len(corpus.triples)


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number of JSON")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object in which no field comes twice."""
    found = dict(pairs)
    if len(found) != len(pairs):
        (name, _), *_ = Counter(name for name, _ in pairs).most_common(1)
        raise ValueError(f"the field {_cut(name)!r} comes twice")
    return found


def _cut(text: str) -> str:
    return text if len(text) <= 200 else f"{text[:200]}…"


def _lost(given: object, read: object, where: str) -> Iterator[str]:
    """A phrase for each thing in the document that the trace read from it does not hold; a field that the document
    leaves out has its default."""
    if isinstance(given, dict) and isinstance(read, dict):
        for name, item in given.items():
            if name in read:
                yield from _lost(item, read[name], _join(where, name))
            else:
                yield f"unknown field {_join(where, name)!r}"
    elif isinstance(given, list) and isinstance(read, list) and len(given) == len(read):
        for i, (one, other) in enumerate(zip(given, read, strict=True)):
            yield from _lost(one, other, _join(where, str(i)))
    elif given != read or isinstance(given, bool) != isinstance(read, bool):
        yield f"{where or 'the document'}: {_cut(repr(given))} can't be kept as it is"


def _out_of_range(value: object, where: str, name: str = "") -> Iterator[str]:
    """A phrase for each number that can't be."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _out_of_range(item, _join(where, key), key)
    elif isinstance(value, list):
        for i, item in enumerate(value):
            yield from _out_of_range(item, _join(where, str(i)), name)
    elif isinstance(value, int) and not isinstance(value, bool):
        low, high = _RANGES.get(name, (0, _LARGEST))
        if not low <= value <= high:
            yield f"{where}: {_cut(str(value))} is not from {low} to {high}"
    elif isinstance(value, float) and value < 0 and _AMOUNT.search(where):
        yield f"{where}: {value} is below 0"


def _join(where: str, name: str) -> str:
    return f"{where}.{_cut(name)}" if where else _cut(name)

"""A trace in words, at four levels: nothing but the answer, one line, its sources, the full trail.

Built from the trace alone, so that one that was loaded explains itself like one that has just been made.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from textwrap import indent

from rag.errors import UsageError
from rag.prompt import quote, triple_item
from rag.types import Bridge, Fused, Segment, Trace

LEVELS = ("none", "one line", "sources", "full trail")
"""The names of the levels, in order."""

MAX_DROPPED = 10
"""Dropped facts listed in the full trail; all of them are counted."""

_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_NOUNS = {"text": "passage", "graph": "fact", "captions": "crop"}
_BRIDGED = "bridged passage"
_ALL_NOUNS = ("passage", "fact", _BRIDGED, "crop")
_LABEL = 10


def explain(trace: Trace, level: int) -> str:
    """The answer and, by ``level``, what it rests on; plain text without control characters.

    Raises:
        UsageError: there is no such level.
    """
    if level not in range(len(LEVELS)):
        raise UsageError(f"There is no explanation level {level}; choose from 0 to {len(LEVELS) - 1}.")
    parts = (_answer, _one_line, _sources, _trail)[: level + 1]
    return _CONTROLS.sub(" ", "\n\n".join(filter(None, (part(trace) for part in parts))))


def _answer(trace: Trace) -> str:
    generation = trace.generation
    if generation is None:
        return "No answer."
    if generation.finish == "error":
        return f"No answer: {generation.error}"
    end = f"({generation.notice})" if generation.partial and generation.notice else ""
    return f"{generation.text or 'No answer.'} {end}".strip()


# --- one line --------------------------------------------------------------------------------------------------------


def _one_line(trace: Trace) -> str:
    cited = _cited(trace)
    held = _counted(_evidence(trace))
    if cited:
        rests = f"Rests on {_named(cited, trace)}, of {held} sent."
    elif trace.generation is not None and trace.generation.abstained:
        rests = f"The generator found no answer in {held}."
    elif trace.generation is None or not trace.generation.text:
        rests = f"The prompt held {held}."
    else:
        rests = f"Cites none of the evidence sent: {held}."
    return f"{rests} {_took(trace)}"


def _evidence(trace: Trace) -> list[Segment]:
    """The prompt's pieces of evidence, one segment an item."""
    return [s for s in trace.prompt.segments if s.kind in _NOUNS] if trace.prompt else []


def _cited(trace: Trace) -> list[Segment]:
    """The pieces of evidence that the answer cites, in the order of its citations."""
    by_item = {segment.item_id: segment for segment in _evidence(trace)}
    items = dict.fromkeys(citation.item_id for citation in trace.citations)
    return [by_item[item] for item in items if item in by_item]


def _counted(segments: Sequence[Segment]) -> str:
    counts = Counter(map(_noun, segments))
    named = [f"{counts[noun]} {noun}{'' if counts[noun] == 1 else 's'}" for noun in _ALL_NOUNS if counts[noun]]
    return _joined(named) or "no evidence"


def _noun(segment: Segment) -> str:
    """What a piece of evidence is called."""
    return _BRIDGED if segment.kind == "graph" and segment.is_passage else _NOUNS[segment.kind]


def _joined(parts: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(parts[:-1]), *parts[-1:])))


def _parts(segment: Segment, trace: Trace) -> tuple[str, str]:
    """Where the prompt says that a piece of evidence comes from, and its words."""
    head, _, words = segment.text.removeprefix(f"[{segment.tag}] ").strip().partition("\n")
    for fact in trace.evidence.graph.facts if trace.evidence.graph else ():
        if segment.item_id == triple_item(fact.triple_ids[0]):
            words = quote(fact.text)
            head = head.removeprefix(words).strip()
    return head.removeprefix("(").removesuffix(")"), words


def _named(segments: Sequence[Segment], trace: Trace) -> str:
    return _joined([f"{segment.tag} ({_parts(segment, trace)[0]})" for segment in segments])


def _took(trace: Trace) -> str:
    generation = trace.generation
    if generation is None or generation.usage is None:
        return "Tokens unknown."
    about = "about " if generation.usage.source == "estimated" else ""
    into, out = (
        "unknown" if n is None else f"{n:,}" for n in (generation.usage.input_tokens, generation.usage.output_tokens)
    )
    cost = "cost unknown" if generation.cost_usd is None else f"${generation.cost_usd:g}"
    retrieval = sum(ms for stage, ms in trace.timings_ms.items() if stage != "generation")
    tokens = f"{about}{into} tokens in, {out} out; {cost}; "
    return tokens[0].upper() + tokens[1:] + f"retrieval {retrieval:.0f} ms, answer {generation.latency_ms or 0:.0f} ms."


# --- sources ---------------------------------------------------------------------------------------------------------


def _sources(trace: Trace) -> str:
    """Every cited piece of evidence with its words as they were sent; what was sent besides, by name."""
    cited = _cited(trace)
    lines = []
    for segment in cited:
        place, words = _parts(segment, trace)
        lines.append(f"{segment.tag}  {place}: {segment.item_id}\n{indent(words, '    ')}")
    others = [segment for segment in _evidence(trace) if segment not in cited]
    lines += [f"Sent, not cited: {_named(others, trace)}."] if others else []
    invented = dict.fromkeys(citation.tag for citation in trace.citations if not citation.item_id)
    lines += [f"Cited, never sent: {_joined(list(invented))}."] if invented else []
    return "\n".join(["Sources", *lines]) if lines else ""


# --- the full trail --------------------------------------------------------------------------------------------------


def _trail(trace: Trace) -> str:
    parts = (_request, _gate, _text, _graph, _visual, _left_out, _sent, _tokens)
    return "\n".join(line for part in parts for line in part(trace))


def _row(label: str, told: object) -> str:
    return f"{label:<{_LABEL}} {told}"


def _rows(label: str, lines: Sequence[str]) -> Iterator[str]:
    """Lines under one label."""
    for number, line in enumerate(lines):
        yield _row("" if number else label, line)


def _request(trace: Trace) -> Iterator[str]:
    system = trace.system
    yield _row("Question", trace.question)
    yield from [_row("Type", trace.question_type)] if trace.question_type else []
    settings = (
        f"text {system.text_ranker}, {system.text_k} chunks; graph {system.graph_mode}, at most {system.max_facts} facts; "
        f"visual {system.visual_ranker}, depth {system.visual_depth}, payload {system.payload}; fusion {system.fusion}"
    )
    yield _row("System", f"{system.name} ({', '.join(system.branches)}): {settings}")
    yield _row("Generator", trace.generator)
    yield _row("Corpus", trace.corpus_id)
    yield _row("Trace", f"{trace.id}, {trace.created}")


def _gate(trace: Trace) -> Iterator[str]:
    gate = trace.evidence.gate
    if gate is not None:
        signals = [f"{signal.name}: {signal.value}" for signal in gate.signals]
        wanted = [f"wanted {gate.wanted}, got {gate.payload}"] if gate.wanted != gate.payload else []
        yield from _rows("Gate", [gate.reason, *wanted, *signals])


def _tag(trace: Trace, item_id: str) -> str:
    tags = trace.prompt.tags if trace.prompt else {}
    return next((tag for tag, item in tags.items() if item == item_id), "-")


def _ranking(trace: Trace, hits: Sequence[Fused]) -> list[str]:
    """A line for each ranked item: tag, or a dash where it was not sent, rank and score by every ranker."""
    return [
        f"{_tag(trace, fused.item_id):<4}{fused.rank}. {fused.item_id}: "
        + ", ".join([f"score {fused.score:.4g}", *(f"{h.ranker} rank {h.rank} ({h.score:.4g})" for h in fused.hits)])
        for fused in hits
    ]


def _text(trace: Trace) -> Iterator[str]:
    text = trace.evidence.text
    if text is not None:
        parts = [f"searched: {part}" for part in text.parts]
        yield from _rows("Text", [f"ranked by {text.ranker}", *parts, *_ranking(trace, text.hits)])


def _graph(trace: Trace) -> Iterator[str]:
    graph = trace.evidence.graph
    if graph is None:
        return
    facts = [f"{_tag(trace, triple_item(fact.triple_ids[0])):<4}{fact.text}" for fact in graph.facts]
    sent = sum(not fact.startswith("- ") for fact in facts)
    dropped = sum(graph.rejected_counts.values())
    reasons = ", ".join(f"{count:,} {reason}" for reason, count in graph.rejected_counts.items() if count)
    lines = [
        f"{sent} fact{'' if sent == 1 else 's'} sent, {dropped:,} dropped{f' ({reasons})' if reasons else ''}; mode {graph.mode}"
    ]
    lines += [f"entities in the question: {', '.join(graph.entities)}"] if graph.entities else []
    lines += facts
    lines += [line for bridge in graph.bridges for line in _bridge(trace, bridge)]
    lines += [f"dropped: {r.fact.text} ({r.reason})" for r in graph.rejected[:MAX_DROPPED]]
    yield from _rows("Graph", lines)


def _bridge(trace: Trace, bridge: Bridge) -> Iterator[str]:
    """A passage that the walk brought in: its ranks, and the way to it from the question."""
    yield from _ranking(trace, [bridge.hit])
    yield f"    by {' > '.join(step.name for step in bridge.path)}"


def _visual(trace: Trace) -> Iterator[str]:
    visual = trace.evidence.visual
    if visual is not None:
        note = [visual.note] if visual.note else []
        yield from _rows("Visual", [f"ranked by {visual.ranker}", *note, *_ranking(trace, visual.hits)])


def _left_out(trace: Trace) -> Iterator[str]:
    if trace.excluded:
        how = "the next-ranked moved up" if trace.refill else "nothing moved up"
        yield _row("Left out", f"{', '.join(trace.excluded)} ({how})")


def _sent(trace: Trace) -> Iterator[str]:
    """What went out as pixels: the very bytes where the generator said so, else the crop's file."""
    if trace.generation is not None and trace.generation.images:
        images = [
            f"{image.tag} {image.crop_id}, {image.width} x {image.height} px, {image.bytes:,} bytes {image.media_type}"
            for image in trace.generation.images
        ]
    else:
        images = [
            f"{image.tag} {image.crop_id}, {image.width} x {image.height} px"
            for image in (trace.prompt.images if trace.prompt else ())
        ]
    yield from _rows("Pixels", images)


def _tokens(trace: Trace) -> Iterator[str]:
    generation = trace.generation
    if generation is not None:
        usage = generation.usage
        lines = [f"{_took(trace)} Counts {usage.source if usage else 'unknown'}."]
        if usage and usage.reasoning_tokens:
            lines.append(f"of the output, reasoning {usage.reasoning_tokens:,}")
        if generation.estimate is not None:
            estimate = generation.estimate
            cost = "unknown" if estimate.cost_usd is None else f"${estimate.cost_usd:g}"
            into = "unknown" if estimate.input_tokens is None else f"{estimate.input_tokens:,}"
            lines.append(f"estimated before the call: {into} tokens in, {cost}")
        first = "unknown" if generation.ttft_ms is None else f"{generation.ttft_ms:.1f} ms"
        lines.append(f"first token after {first}; ended: {generation.reason or generation.finish or 'not yet'}")
        yield from _rows("Tokens", lines)
    yield _row("Times", ", ".join(f"{stage} {ms:.1f} ms" for stage, ms in trace.timings_ms.items()) or "unknown")

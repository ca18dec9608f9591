"""A trace told in plain text, for the command line; built from the trace and the corpus alone."""

from __future__ import annotations

from rag.corpus import Corpus
from rag.prompt import triple_item
from rag.types import Page, Trace


def tell(trace: Trace, corpus: Corpus) -> str:
    """Answer, the gate's decision, the evidence by branch, and what it took."""
    lines = [_answer(trace), ""]
    evidence = trace.evidence
    sent = set(trace.prompt.tags.values()) if trace.prompt else set()
    if evidence.gate:
        lines += [f"Gate     {evidence.gate.reason}"]
    if evidence.text:
        lines += [
            f"Text     {len(evidence.text.hits)} of {len(corpus.chunks):,} chunks, ranked by {evidence.text.ranker}"
        ]
        for hit in evidence.text.hits:
            lines.append(f"  T{hit.rank}  {hit.score:.3f}  {_place(corpus.pages[corpus.chunks[hit.item_id].page_id])}")
    if evidence.graph:
        dropped = sum(evidence.graph.rejected_counts.values())
        inside = sum(triple_item(fact.triple_ids[0]) in sent for fact in evidence.graph.facts)
        lines += [f"Graph    {inside} facts sent, {dropped} dropped"]
        lines += [f"  G{number}  {fact.text}" for number, fact in enumerate(evidence.graph.facts, 1)]
        lines += [
            f"  -   {count} dropped: {reason}" for reason, count in evidence.graph.rejected_counts.items() if count
        ]
    if evidence.visual:
        lines += [
            f"Visual   {len(evidence.visual.hits)} of {len(corpus.crops):,} crops, ranked by {evidence.visual.ranker}"
        ]
        lines += [f"         {evidence.visual.note}"] if evidence.visual.note else []
        for hit in evidence.visual.hits:
            lines.append(
                f"  V{hit.rank}  {hit.score:.3f}  {hit.item_id} ({'sent' if hit.item_id in sent else 'not sent'})"
            )
    if trace.excluded:
        lines += [f"Left out {', '.join(trace.excluded)}"]
    lines += ["", _took(trace)]
    return "\n".join(lines)


def _answer(trace: Trace) -> str:
    generation = trace.generation
    if generation is None:
        return "No answer."
    if generation.finish == "error":
        return f"No answer: {generation.error}"
    return generation.text


def _place(page: Page) -> str:
    return f"{page.document}, p. {page.number}"


def _took(trace: Trace) -> str:
    generation = trace.generation
    if generation is None or generation.usage is None:
        return "Tokens unknown."
    about = "about " if generation.usage.source == "estimated" else ""
    cost = "cost unknown" if generation.cost_usd is None else f"${generation.cost_usd:g}"
    retrieval = sum(ms for stage, ms in trace.timings_ms.items() if stage != "generation")
    return (
        f"{about}{generation.usage.input_tokens} tokens in, {generation.usage.output_tokens} out; {cost}; "
        f"retrieval {retrieval:.0f} ms, answer {generation.latency_ms or 0:.0f} ms"
    )

"""The text column: the chunks that were sent, with place, score and marked words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from rag.corpus import Corpus
from rag.types import Fused, Hit, Trace
from ui import text as words
from ui.views import marks
from ui.views.markup import (
    bdi,
    column,
    empty,
    esc,
    leave_out,
    left_out_tags,
    licence_link,
    page_button,
    plural,
    tag_badge,
    tags_by_item,
)


def render(trace: Trace | None, corpus: Corpus) -> str:
    """The column for a trace, or what it will hold."""
    total = plural(len(corpus.chunks), "chunk")
    if trace is None or trace.evidence.text is None:
        return column("text", "Text", total, empty(words.WAITING["text"]))
    hits = trace.evidence.text.hits
    if not hits:
        return column("text", "Text", f"0 of {total}", empty(words.NOTHING["text"]))
    stems = marks.question_stems(trace.question)
    tags = tags_by_item(trace.prompt) | left_out_tags(trace)
    best = best_scores(hits)
    items = "".join(_item(hit, tags.get(hit.item_id, ""), best, stems, trace, corpus) for hit in hits)
    gone = sum(hit.item_id in trace.excluded for hit in hits)
    count = f"{len(hits)} of {total}" + (f" · {gone} left out" if gone else "")
    parts = " · ".join(bdi(part) for part in trace.evidence.text.parts)
    searched = f'<p class="fb-hint" data-parts>{esc(words.SEARCHED_IN_PARTS)} {parts}</p>' if parts else ""
    return column("text", "Text", count, f'{searched}<ol class="fb-items">{items}</ol>')


def _item(hit: Fused, tag: str, best: Mapping[str, float], stems: frozenset[str], trace: Trace, corpus: Corpus) -> str:
    chunk = corpus.chunks[hit.item_id]
    page = corpus.pages[chunk.page_id]
    cited = marks.cited_spans(chunk.text, marks.cited_sentences(trace, chunk.id))
    return (
        f'<li class="fb-item text" data-item="{esc(chunk.id)}" tabindex="-1">'
        f'<div class="fb-meta">{tag_badge(tag, "text", hit.rank)}'
        f"{page_button(page, corpus, chunk.id)}{licence_link(page, corpus)}"
        f"{leave_out(chunk.id, tag, chunk.id in trace.excluded)}</div>"
        f'<p class="fb-passage" dir="auto">{marks.marked(chunk.text, stems, cited, "text")}</p>{ranks(hit, best)}</li>'
    )


RANKERS = {"dense": "dense", "bm25": "BM25", "proxy-dense": "dense", "proxy-bm25": "BM25", "clip": "CLIP"}
"""Rankers whose scores say how near an item is. A fused score says only how high others ranked it: it is almost the same for
all items listed, so it gets no bar."""


def best_scores(hits: Iterable[Fused]) -> dict[str, float]:
    """Each ranker's best score among the items listed."""
    best: dict[str, float] = {}
    for hit in (h for fused in hits for h in fused.hits):
        best[hit.ranker] = max(best.get(hit.ranker, 0.0), hit.score)
    return best


def ranks(fused: Fused, best: Mapping[str, float]) -> str:
    """A bar and the score for each ranker; each ranker's rank, and the fused score, on demand."""
    bars = "".join(_bar(hit, best[hit.ranker]) for hit in fused.hits if hit.ranker in RANKERS)
    rows = "".join(
        f"<tr><th scope=row>{esc(h.ranker)}</th><td>{h.rank}</td><td>{score(h.score)}</td></tr>" for h in fused.hits
    )
    if len(fused.hits) > 1:
        rows += f"<tr><th scope=row>fused</th><td>{fused.rank}</td><td>{score(fused.score)}</td></tr>"
    return (
        f'<details class="fb-ranks"><summary title="{esc(words.BARS)}"><span class="fb-bars">{bars}</span></summary>'
        f'<table class="fb-table"><thead><tr><th scope=col>ranker</th><th scope=col>rank</th>'
        f'<th scope=col>score</th></tr></thead>{rows}</table><p class="fb-hint">{esc(words.BARS)}</p></details>'
    )


def _bar(hit: Hit, best: float) -> str:
    width = 100 * max(0.0, hit.score) / best if best > 0 else 0.0
    return (
        f'<span class="fb-own">{esc(RANKERS[hit.ranker])}</span>'
        f'<span class="fb-bar"><i style="width:{width:.0f}%"></i></span><span class="fb-score">{score(hit.score)}</span>'
    )


def score(value: float) -> str:
    """A score with three digits; scales differ from ranker to ranker."""
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}" if abs(value) >= 0.1 else f"{value:.3f}"

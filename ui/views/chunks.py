"""The text column: the chunks that were sent, with place, score and marked words."""

from __future__ import annotations

from rag.corpus import Corpus
from rag.types import Fused, Trace
from ui import text as words
from ui.views import marks
from ui.views.markup import column, empty, esc, licence_link, page_button, plural, tag_badge, tags_by_item


def render(trace: Trace | None, corpus: Corpus) -> str:
    """The column for a trace, or what it will hold."""
    total = plural(len(corpus.chunks), "chunk")
    if trace is None or trace.evidence.text is None:
        return column("text", "Text", total, empty(words.WAITING["text"]))
    hits = trace.evidence.text.hits
    if not hits:
        return column("text", "Text", f"0 of {total}", empty(words.NOTHING["text"]))
    stems = marks.question_stems(trace.question)
    tags = tags_by_item(trace.prompt)
    best = max(abs(hit.score) for hit in hits) or 1.0
    items = "".join(_item(hit, tags.get(hit.item_id, ""), best, stems, trace, corpus) for hit in hits)
    return column("text", "Text", f"{len(hits)} of {total}", f'<ol class="fb-items">{items}</ol>')


def _item(hit: Fused, tag: str, best: float, stems: frozenset[str], trace: Trace, corpus: Corpus) -> str:
    chunk = corpus.chunks[hit.item_id]
    page = corpus.pages[chunk.page_id]
    cited = marks.cited_spans(chunk.text, marks.cited_sentences(trace, chunk.id))
    return (
        f'<li class="fb-item text" data-item="{esc(chunk.id)}" tabindex="-1">'
        f'<div class="fb-meta">{tag_badge(tag, "text", hit.rank)}'
        f"{page_button(page, corpus, chunk.id)}{licence_link(page, corpus)}</div>"
        f'<p class="fb-passage" dir="auto">{marks.marked(chunk.text, stems, cited, "text")}</p>{ranks(hit, best)}</li>'
    )


def ranks(hit: Fused, best: float) -> str:
    """Score bar, and each ranker's own rank and score on demand."""
    width = max(2.0, min(100.0, 100 * hit.score / best))
    own = " · ".join(f"{esc(h.ranker)} {h.rank}" for h in hit.hits)
    rows = "".join(
        f"<tr><th scope=row>{esc(h.ranker)}</th><td>{h.rank}</td><td>{score(h.score)}</td></tr>" for h in hit.hits
    )
    return (
        f'<details class="fb-ranks"><summary><span class="fb-bar"><i style="width:{width:.0f}%"></i></span>'
        f'<span class="fb-score">{score(hit.score)}</span><span class="fb-own">{own}</span></summary>'
        f'<table class="fb-table"><thead><tr><th scope=col>ranker</th><th scope=col>rank</th>'
        f"<th scope=col>score</th></tr></thead>{rows}</table></details>"
    )


def score(value: float) -> str:
    """A score with three significant digits; scales differ from ranker to ranker."""
    return f"{value:.3g}" if abs(value) >= 1 else f"{value:.3f}"

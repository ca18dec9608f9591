"""The visual column: crops in rank order, what each ranker thought, what was sent and how."""

from __future__ import annotations

from collections.abc import Mapping

from rag.corpus import Corpus
from rag.types import Crop, Fused, Trace
from ui import text as words
from ui.views import marks
from ui.views.chunks import best_scores, ranks
from ui.views.markup import (
    column,
    empty,
    esc,
    leave_out,
    left_out_tags,
    licence_link,
    page_button,
    page_label,
    plural,
    shorten,
    tag_badge,
    tags_by_item,
    thumbnail,
)

FIRST_WIDTH = 640
OTHER_WIDTH = 360
MAX_CAPTION_CHARS = 220
MAX_READ_OFF_CHARS = 3_000


def render(trace: Trace | None, corpus: Corpus) -> str:
    """The column for a trace, or what it will hold."""
    total = plural(len(corpus.crops), "crop")
    if trace is None:
        return column("visual", "Visual", total, empty(words.WAITING["visual"]))
    if "visual" not in trace.system.branches:
        return column("visual", "Visual", "off", empty(words.OFF["visual"]))
    visual = trace.evidence.visual
    if visual is None:
        return column("visual", "Visual", total, empty(words.WAITING["visual"]))
    note = _note(visual.note, trace, corpus)
    if not visual.hits:
        return column("visual", "Visual", f"0 of {total}", note + empty(words.NOTHING["visual"]))
    tags = tags_by_item(trace.prompt) | left_out_tags(trace)
    best = best_scores(visual.hits)
    items = "".join(_item(hit, tags.get(hit.item_id, ""), best, trace, corpus) for hit in visual.hits)
    count = f"{len(visual.hits)} of {total}"
    return column("visual", "Visual", count, f'{note}<ol class="fb-items fb-crops">{items}</ol>')


def _note(note: str, trace: Trace, corpus: Corpus) -> str:
    """That a ranker is missing: aloud to those who chose it, in one quiet line to all others."""
    if not note:
        return ""
    if trace.system.visual_ranker in ("clip", "fused"):
        return f'<p class="fb-note" role="note">{esc(note)}</p>'
    short = note if corpus.visual_encoder_ids else words.NO_CLIP_INDEX
    return f'<p class="fb-aside" title="{esc(note)}">{esc(short)}</p>'


def sent_as(trace: Trace, crop_id: str) -> str:
    """What of a crop went into the prompt."""
    gate = trace.evidence.gate
    if trace.prompt is not None and any(image.crop_id == crop_id for image in trace.prompt.images):
        return "sent as pixels"
    if gate is None or crop_id not in gate.item_ids or crop_id in trace.excluded:
        return "left out" if crop_id in trace.excluded else "not sent"
    return "sent as text" if gate.read_off else "caption sent"


def _item(hit: Fused, tag: str, best: Mapping[str, float], trace: Trace, corpus: Corpus) -> str:
    crop = corpus.crops[hit.item_id]
    page = corpus.pages[crop.page_id]
    sent = sent_as(trace, crop.id)
    state = "kept" if sent in ("not sent", "left out") else "sent"
    uri, width, height = thumbnail(corpus.image_path(crop.image), FIRST_WIDTH if hit.rank == 1 else OTHER_WIDTH)
    caption = _marked(shorten(crop.caption, MAX_CAPTION_CHARS), crop.id, trace) or f"<i>{esc(words.NO_CAPTION)}</i>"
    alt = esc(f"{crop.kind} {hit.rank}, {page_label(page, corpus)}")
    return (
        f'<li class="fb-item visual {state}" data-item="{esc(crop.id)}" tabindex="-1">'
        f'<div class="fb-meta">{tag_badge(tag, "visual", hit.rank)}'
        f'<span class="fb-sent {state}">{sent}</span>{leave_out(crop.id, tag, crop.id in trace.excluded)}</div>'
        f'<button type="button" class="fb-crop" data-page="{esc(page.id)}" data-focus="{esc(crop.id)}"'
        f' aria-label="Open {alt}">'
        f'<img src="{uri}" width="{width}" height="{height}" alt="{alt}" loading="lazy" decoding="async"></button>'
        f'<p class="fb-caption" dir="auto" title="{esc(shorten(crop.caption, 600))}">{caption}</p>'
        f'<div class="fb-meta">{page_button(page, corpus, crop.id)}{licence_link(page, corpus)}'
        f"</div>{ranks(hit, best)}{_read_off(crop, trace)}</li>"
    )


def _marked(text: str, crop_id: str, trace: Trace) -> str:
    """Words of a crop with those of the question and those that the answer took marked."""
    cited = marks.cited_spans(text, marks.cited_sentences(trace, crop_id))
    return marks.marked(text, marks.question_stems(trace.question), cited, "visual")


def _read_off(crop: Crop, trace: Trace) -> str:
    """What was read off the pixels, on demand."""
    if not crop.ocr_text:
        return ""
    text = shorten(crop.ocr_text, MAX_READ_OFF_CHARS)
    return (
        f'<details class="fb-read-off"><summary>read-off text</summary>'
        f'<pre dir="auto" tabindex="0">{_marked(text, crop.id, trace)}</pre></details>'
    )

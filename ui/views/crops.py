"""The visual column: crops in rank order, what each ranker thought and why, what was sent and how; and one crop in full."""

from __future__ import annotations

import string
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from rag import search
from rag.corpus import Corpus
from rag.errors import CorpusError
from rag.occlusion import Occlusion
from rag.types import Crop, Fused, Hit, Page, Trace
from ui import text as words
from ui.views import marks
from ui.views.chunks import best_scores, ranks, score
from ui.views.markup import (
    column,
    data_uri,
    empty,
    esc,
    leave_out,
    left_out_tags,
    licence_link,
    name,
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
MAX_PLACES = 2
"""So many rows of a table are named for a matched word; more are counted."""
MAX_ROW_CHARS = 40


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
        f'<button type="button" class="fb-crop" data-crop="{esc(crop.id)}" aria-label="Open {alt}">'
        f'<img src="{uri}" width="{width}" height="{height}" alt="{alt}" loading="lazy" decoding="async"></button>'
        f'<p class="fb-caption" dir="auto" title="{esc(shorten(crop.caption, 600))}">{caption}</p>'
        f"{by_model(crop, trace, MAX_CAPTION_CHARS)}{continues(crop)}"
        f'<div class="fb-meta">{page_button(page, corpus, crop.id)}{licence_link(page, corpus)}'
        f"</div>{ranks(hit, best)}{_why(hit, crop, trace, corpus)}{_read_off(crop, trace)}</li>"
    )


def by_model(crop: Crop, trace: Trace | None = None, length: int = 1_000) -> str:
    """The caption that a model wrote, under the model's name; nothing where there is none."""
    if not crop.model_caption:
        return ""
    text = shorten(crop.model_caption, length)
    said = _marked(text, crop.id, trace) if trace else esc(text)
    return f'<p class="fb-caption" dir="auto"><small>by {name(crop.captioned_by)}:</small> {said}</p>'


def continues(crop: Crop) -> str:
    """A way to the first part of a table that goes on in this crop; nothing where there is none."""
    if not crop.continues:
        return ""
    before = esc(crop.continues)
    return f'<p class="fb-hint">{esc(words.CONTINUES)} <button type="button" class="fb-link" data-crop="{before}">{before}</button></p>'


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


# --- why it ranked ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Match:
    """A word of the question that a crop's words hold: what it adds to the crop's BM25 score, and where it stands."""

    word: str
    score: float
    places: tuple[str, ...]


def matches(crop: Crop, question: str, corpus: Corpus) -> tuple[Match, ...]:
    """The words of the question that the crop's caption or read-off text holds, the one that adds most first.

    BM25 is a sum over words, so that one word's part is the score of a question of this word alone.
    """
    found: list[Match] = []
    seen: set[str] = set()
    for word in question.split():
        terms = set(search.words(word))
        if terms and not terms <= seen:
            seen |= terms
            part = dict(corpus.search_proxy_words(word, len(corpus.crops))).get(crop.id)
            if part is not None:
                found.append(Match(word.strip(string.punctuation), part, tuple(_places(terms, crop))))
    return tuple(sorted(found, key=lambda match: -match.score))


def _places(terms: set[str], crop: Crop) -> Iterator[str]:
    """Where a word stands: in the caption, in which rows of a table, or in a figure's text."""
    if terms & set(search.words(crop.caption)):
        yield "caption"
    if terms & set(search.words(crop.model_caption)):
        yield f"caption by {shorten(crop.captioned_by)}"
    rows = [line for line in crop.ocr_text.splitlines() if terms & set(search.words(line))]
    if crop.kind == "figure":
        yield from ["words in the figure"] if rows else []
    elif len(rows) > MAX_PLACES:
        yield f"{len(rows)} rows"
    else:
        yield from (f"row “{shorten(row.split(' | ')[0], MAX_ROW_CHARS)}”" for row in rows)


def _why(hit: Fused, crop: Crop, trace: Trace, corpus: Corpus) -> str:
    """The matched words in a line; each one's part, where it stands, and what went into the prompt, on demand."""
    found = matches(crop, trace.question, corpus)
    told = f"{words.MATCHED}: {' · '.join(match.word for match in found)}" if found else words.NO_WORD
    return (
        f'<details class="fb-why"><summary>{esc(shorten(told))}</summary>'
        f"{_matched(hit, found)}{_payload(crop, trace, corpus)}</details>"
    )


def _matched(hit: Fused, found: tuple[Match, ...]) -> str:
    if not found:
        return f'<p class="fb-hint fb-matched">{esc(words.NO_WORD_WHY)}</p>'
    rows = "".join(
        f"<tr><th scope=row><bdi>{esc(shorten(m.word))}</bdi></th><td>{score(m.score)}</td>"
        f"<td><bdi>{esc(', '.join(m.places))}</bdi></td></tr>"
        for m in found
    )
    total = next((h.score for h in hit.hits if h.ranker == "proxy-bm25"), None)
    sum_ = f"<tr><th scope=row>in all</th><td>{score(total)}</td><td></td></tr>" if total is not None else ""
    head = "<thead><tr><th scope=col>word</th><th scope=col>BM25</th><th scope=col>found in</th></tr></thead>"
    return f'<table class="fb-table fb-matched">{head}<tbody>{rows}{sum_}</tbody></table>'


# --- what was sent ---------------------------------------------------------------------------------------------------


def payload(crop: Crop, trace: Trace, corpus: Corpus) -> tuple[str, ...]:
    """What of a crop went into the prompt, one line each; empty where nothing did."""
    gate = trace.evidence.gate
    if gate is None or sent_as(trace, crop.id) in ("not sent", "left out"):
        return ()
    return (*_pixels(crop, trace, corpus), *_words_sent(crop, gate.read_off))


def _pixels(crop: Crop, trace: Trace, corpus: Corpus) -> Iterator[str]:
    """The very bytes sent where the generator told them, else those of the crop's file."""
    sent = trace.generation.images if trace.generation else ()
    for image in (image for image in sent if image.crop_id == crop.id):
        again = ", encoded anew" if image.reencoded else ""
        yield f"pixels: {image.width} × {image.height} px, {_kilobytes(image.bytes)}, {image.media_type}{again}"
        return
    for planned in (image for image in (trace.prompt.images if trace.prompt else ()) if image.crop_id == crop.id):
        size = _file_size(crop, corpus)
        yield f"pixels: {planned.width} × {planned.height} px" + (f", file of {_kilobytes(size)}" if size else "")


def _words_sent(crop: Crop, read_off: bool) -> Iterator[str]:
    if crop.caption:
        yield f"caption: {plural(len(crop.caption), 'character')}"
    if crop.model_caption:
        yield f"caption by {shorten(crop.captioned_by)}: {plural(len(crop.model_caption), 'character')}"
    if not crop.captions and not read_off and crop.ocr_text:
        yield words.STAND_IN
    if read_off and crop.ocr_text:
        yield f"read-off text: {plural(len(crop.ocr_text), 'character')}"


def _file_size(crop: Crop, corpus: Corpus) -> int:
    try:
        return corpus.image_path(crop.image).stat().st_size
    except (CorpusError, OSError):
        return 0


def _kilobytes(size: int) -> str:
    return f"{max(1, round(size / 1000)):,} kB"


def _payload(crop: Crop, trace: Trace, corpus: Corpus) -> str:
    lines = payload(crop, trace, corpus)
    if not lines:
        return ""
    return f'<p class="fb-payload"><b>sent</b> {"<br>".join(map(esc, lines))}</p>'


# --- one crop in full ------------------------------------------------------------------------------------------------


def full(
    trace: Trace | None, corpus: Corpus, crop_id: str, occlusion: Occlusion | None = None, problem: str = ""
) -> str:
    """The dialog's content for one crop: its pixels at full size, with what CLIP looked at if ``occlusion`` is given; caption,
    ranks by every ranker, matched words, payload, read-off text; a way to its page.

    Args:
        trace: the answer that ranked it, if there is one.
        corpus: where the crop is.
        crop_id: an id of the corpus; anything else gives a sentence.
        occlusion: drawn over the pixels.
        problem: why there is no ``occlusion``, in one sentence.
    """
    crop = corpus.crops.get(crop_id)
    if crop is None:
        return f'<p class="fb-empty" role="alert">{esc(words.NO_CROP)}</p>'
    page = corpus.pages[crop.page_id]
    visual = trace.evidence.visual if trace else None
    hit = next((h for h in visual.hits if h.item_id == crop.id), None) if visual else None
    facts = _facts(hit, crop, trace, corpus) if trace is not None and hit is not None else ""
    caption = _marked(crop.caption, crop.id, trace) if trace else esc(crop.caption)
    read = _read_off(crop, trace) if trace else ""
    told = f'<p class="fb-note" role="alert">{esc(problem)}</p>' if problem else ""
    asked = _occluder(crop, hit, corpus, occlusion)
    return (
        f'<div class="fb-viewer fb-full" data-crop-id="{esc(crop.id)}">{_bar(crop, page, corpus)}'
        f"{told}{asked}{_picture(crop, corpus, occlusion)}"
        f'<div class="fb-full-facts" tabindex="0" role="region" aria-label="About this crop">'
        f'<p class="fb-caption" dir="auto">{caption or f"<i>{esc(words.NO_CAPTION)}</i>"}</p>'
        f"{by_model(crop, trace)}{continues(crop)}{facts}{read}</div></div>"
    )


def _bar(crop: Crop, page: Page, corpus: Corpus) -> str:
    zooms = "".join(
        f'<button type="button" class="fb-small" data-zoom="{step}" aria-label="{label}">{sign}</button>'
        for step, label, sign in (("out", "Zoom out", "−"), ("fit", "Fit the width", "fit"), ("in", "Zoom in", "+"))
    )
    title = f"{crop.kind.capitalize()}, {page_label(page, corpus)}"
    return (
        f'<header class="fb-viewer-bar"><h2 id="fb-viewer-title"><bdi>{esc(title)}</bdi></h2>'
        f'<button type="button" class="fb-small" data-page="{esc(page.id)}" data-focus="{esc(crop.id)}">Its page</button>'
        f'<span class="fb-buttons">{zooms}</span>'
        f'<button type="button" class="fb-small" data-close aria-label="Close">✕</button></header>'
    )


def _picture(crop: Crop, corpus: Corpus, occlusion: Occlusion | None) -> str:
    path = corpus.image_path(crop.image)
    try:
        width, height = corpus.image_size(crop.image)
    except CorpusError:
        width, height = 240, 80  # the placeholder of data_uri
    alt = esc(f"{crop.kind} at {width} × {height} pixels")
    over = _heat(occlusion) if occlusion else ""
    return (
        f'<div class="fb-sheet" tabindex="0" role="region" aria-label="Crop, scrollable">'
        f'<div class="fb-paper" style="--natural:{width}px">'
        f'<img src="{data_uri(path)}" width="{width}" height="{height}" alt="{alt}">{over}</div></div>'
    )


def _heat(occlusion: Occlusion) -> str:
    """A cell for each value of the map, the stronger the more its part matters; what raises the cosine stays clear."""
    most = max(max(row) for row in occlusion.drops)
    cells = "".join(
        f'<rect x="{x}" y="{y}" width="1" height="1" fill-opacity="{0.75 * max(0.0, drop) / most:.3f}"/>'
        for y, row in enumerate(occlusion.drops)
        for x, drop in enumerate(row)
        if most > 0
    )
    rows, columns = len(occlusion.drops), len(occlusion.drops[0])
    return f'<svg class="fb-heat" viewBox="0 0 {columns} {rows}" preserveAspectRatio="none" aria-hidden="true">{cells}</svg>'


def _occluder(crop: Crop, hit: Fused | None, corpus: Corpus, occlusion: Occlusion | None) -> str:
    """The button that asks for a map, where CLIP ranked this crop; below a map, what it says."""
    if occlusion is not None:
        drop, row, column_ = max((v, r, c) for r, line in enumerate(occlusion.drops) for c, v in enumerate(line))
        told = words.OCCLUSION.format(
            cosine=f"{occlusion.cosine:.3f}", drop=f"{drop:.4f}", row=row + 1, column=column_ + 1,
            rows=len(occlusion.drops), columns=len(occlusion.drops[0]),
        )  # fmt: skip
        return f'<p class="fb-hint">{esc(told)}</p>'
    if hit is None or not corpus.visual_encoder_ids or all(h.ranker != "clip" for h in hit.hits):
        return ""
    return (
        f'<p class="fb-hint"><button type="button" class="fb-small" data-crop="{esc(crop.id)}" data-occlude="true">'
        f"{esc(words.OCCLUDE)}</button></p>"
    )


def _facts(hit: Fused, crop: Crop, trace: Trace, corpus: Corpus) -> str:
    return (
        f'<div class="fb-facts-grid">{_rankers(hit, trace)}{_matched(hit, matches(crop, trace.question, corpus))}'
        f"{_payload(crop, trace, corpus) or f'<p class=fb-payload>{esc(sent_as(trace, crop.id))}</p>'}</div>"
    )


def _rankers(hit: Fused, trace: Trace) -> str:
    """Rank and score by every ranker of the answer, side by side; a dash where one did not list the crop."""
    visual = trace.evidence.visual
    by_ranker: dict[str, Hit | None] = {h.ranker: None for fused in (visual.hits if visual else ()) for h in fused.hits}
    by_ranker |= {h.ranker: h for h in hit.hits}
    rows = "".join(
        f"<tr><th scope=row>{esc(name)}</th>"
        + (f"<td>{h.rank}</td><td>{score(h.score)}</td></tr>" if h else "<td>–</td><td>–</td></tr>")
        for name, h in by_ranker.items()
    )
    rows += (
        f"<tr><th scope=row>fused</th><td>{hit.rank}</td><td>{score(hit.score)}</td></tr>" if len(by_ranker) > 1 else ""
    )
    head = "<thead><tr><th scope=col>ranker</th><th scope=col>rank</th><th scope=col>score</th></tr></thead>"
    return f'<table class="fb-table">{head}<tbody>{rows}</tbody></table>'

"""The Corpus page: what a corpus is made of, page by page, and how a visitor's documents become one."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Literal

from rag.corpus import Corpus
from rag.encoders import CLIP_WEIGHTS, clip_absent
from rag.ingest.languages import Offer
from rag.ingest.limits import Limits
from rag.ingest.report import PageReport
from rag.types import Chunk, Crop, Page, Progress, Region, Triple
from ui import text as words
from ui.views import marks
from ui.views.crops import by_model, continues
from ui.views.markup import (
    bdi,
    data_uri,
    esc,
    heading,
    licence_link,
    name,
    page_label,
    plural,
    short_title,
    shorten,
    thumbnail,
    title_of,
)

Scope = Literal["chunks", "crops", "pages"]
PER_LIST = 24
MAX_TITLES = 200
"""A choice of documents is offered for this many; of more, pages are found by name."""
MAX_FACTS = 200
USUAL_WIDTH_PT = 612
MAX_REPORTED = 300
MAX_SNIPPET_CHARS = 220
MAX_READ_OFF_CHARS = 4_000
MAX_LANGUAGES = 4
"""That one reading by OCR goes by: its time grows with each."""


@dataclass(frozen=True, slots=True)
class Browse:
    """What is looked at: the pages of a document (or of all), or what a search found; ``start`` counts list entries from 0."""

    q: str = ""
    scope: Scope = "chunks"
    document: str = ""
    start: int = 0
    page: str = ""


@dataclass(frozen=True, slots=True)
class _Group:
    """Kinds of region that are drawn alike. They are told apart by the letters on them and by their lines, not by colour alone."""

    label: str
    letters: str
    kinds: tuple[str, ...]


GROUPS: dict[str, _Group] = {
    "text": _Group("text", "T", ("text",)),
    "heading": _Group("heading", "H", ("section-header", "title")),
    "list": _Group("list", "L", ("list-item", "list")),
    "caption": _Group("caption", "C", ("caption",)),
    "formula": _Group("formula", "fx", ("formula",)),
    "margin": _Group("margin", "M", ("page-header", "page-footer", "footnote")),
    "table": _Group("table", "table", ("table",)),
    "figure": _Group("figure", "figure", ("picture", "figure")),
    "other": _Group("other", "?", ()),
}
_GROUP_OF = {kind: group for group, row in GROUPS.items() for kind in row.kinds}

SOURCES = {
    "": "text layer",
    "text layer": "text layer",
    "ocr": "read by OCR",
    "annotated ocr": "regions given, text by OCR",
}
"""``Page.source`` -> in words."""

STATUSES = {
    "ok": "ok",
    "ocr": "no text layer: read by OCR",
    "empty": "kept, without text",
    "refused": "left out",
}


# --- the corpus as a whole --------------------------------------------------------------------------------------------


def state(corpus: Corpus, own: bool, may_build: bool, told: str = "", bad: bool = False, running: bool = False) -> str:
    """The card about the corpus.

    Args:
        corpus: the one that is looked at.
        own: whether it is this visitor's.
        may_build: whether a missing index may be built from the page.
        told: how the building of one goes, or what came of it.
        bad: whether that is a failure.
        running: whether it still goes on.
    """
    counts = " · ".join(
        plural(len(rows), noun)
        for rows, noun in (
            (corpus.documents, "document"),
            (corpus.pages, "page"),
            (corpus.regions, "region"),
            (corpus.chunks, "chunk"),
            (corpus.crops, "figure or table"),
            (corpus.triples, "fact"),
        )
    ).replace("figure or tables", "figures and tables")
    private = f'<p class="fb-hint">{esc(words.OWN_NOTE)} {_remove(corpus)}</p>' if own else ""
    return (
        f'<section class="fb-card fb-corpus-state" data-corpus="{esc(corpus.id)}"><header>'
        f"<h2>{bdi(heading(shorten(corpus.manifest.name, 80)))}</h2>"
        f'</header><p class="fb-hint">{esc(counts)}</p><p class="fb-hint">{esc(_sources(corpus))} Text index: '
        f"{bdi(corpus.text_encoder_id)}.</p>{private}{_clip(corpus, may_build and not running)}"
        f"{_told(told, bad)}{_stop('index') if running else ''}</section>"
    )


def _remove(corpus: Corpus) -> str:
    return (
        f'<button type="button" class="fb-link" data-corpus-remove="{esc(corpus.id)}">{esc(words.OWN_REMOVE)}</button>'
    )


def _sources(corpus: Corpus) -> str:
    found = Counter(SOURCES.get(page.source, page.source) for page in corpus.pages.values())
    return "Pages: " + ", ".join(f"{count:,} {source}" for source, count in found.most_common()) + "."


def _clip(corpus: Corpus, may_build: bool) -> str:
    """What to do about CLIP: nothing where it is there, the button where it helps, else why not."""
    if not corpus.crops or any(not clip_absent(encoder) for encoder in corpus.visual_encoder_ids):
        return ""
    encoder = buildable_clip(corpus)
    if encoder and may_build:
        return (
            f'<p class="fb-hint">{esc(words.CLIP_MISSING)}</p><button type="button" class="fb-small" data-index="clip">'
            f"{esc(words.CLIP_BUILD.format(crops=plural(len(corpus.crops), 'crop')))}</button>"
        )
    command = (
        words.CLIP_COMMAND if encoder or not corpus.visual_encoder_ids else clip_absent(corpus.visual_encoder_ids[0])
    )
    return f'<details class="fb-quiet"><summary>{esc(words.CLIP_WITHOUT)}</summary><p class="fb-hint">{esc(command)}</p></details>'


def buildable_clip(corpus: Corpus) -> str:
    """The CLIP encoder that is on this machine and has no index in the corpus yet, or nothing."""
    here = (
        encoder for encoder in CLIP_WEIGHTS if encoder not in corpus.visual_encoder_ids and not clip_absent(encoder)
    )
    return next(here, "")


def notice(message: str, index: str = "", told: str = "", running: bool = False) -> str:
    """What went wrong with the choice of a corpus, over the page, with the one action that helps; ``index`` is the corpus that
    could be indexed again from here."""
    act = ""
    if index and not running:
        act = f'<button type="button" class="fb-button" data-index="text" data-corpus="{esc(index)}">{esc(words.INDEX_AGAIN)}</button>'
    return (
        f'<section class="fb-card fb-notice" role="alert"><p>{esc(message)}</p>{_told(told, bad=False)}<p class="fb-buttons">{act}'
        f"{_stop('index') if running else ''}"
        f'<button type="button" class="fb-button" data-notice-close>Close</button></p></section>'
    )


def _told(told: str, bad: bool) -> str:
    kind = "fb-told bad" if bad else "fb-told"
    return f'<p class="{kind}" role="{"alert" if bad else "status"}">{esc(told)}</p>' if told else ""


def _stop(what: str) -> str:
    return f'<button type="button" class="fb-small fb-stop" data-corpus-stop="{what}">{esc(words.STOP)}</button>'


# --- finding ---------------------------------------------------------------------------------------------------------


def form(corpus: Corpus) -> str:
    """Search words, where to search, and which document."""
    scopes = "".join(f'<option value="{scope}">{esc(label)}</option>' for scope, label in words.SCOPES.items())
    listed = list(corpus.documents)[:MAX_TITLES] if 1 < len(corpus.documents) <= MAX_TITLES else []
    titles = "".join(f'<option value="{esc(d)}">{esc(shorten(short_title(d, corpus), 90))}</option>' for d in listed)
    documents = (
        f'<select name="document" aria-label="Document"><option value="">{esc(words.ALL_DOCUMENTS)}</option>{titles}</select>'
        if listed
        else ""
    )
    return (
        '<form class="fb-corpus-form" role="search" data-corpus-form><div><input type="search" name="q" maxlength="300" '
        f'placeholder="{esc(words.CORPUS_SEARCH)}" aria-label="Search the corpus" autocomplete="off">'
        '<button type="submit" class="fb-button">Search</button></div>'
        f'<div><select name="scope" aria-label="Search in">{scopes}</select>{documents}</div></form>'
    )


def listing(corpus: Corpus, browse: Browse, found: Sequence[str]) -> str:
    """One screen of what was found, or of a document's pages: ``found`` are ids of pages, chunks or crops."""
    shown = found[browse.start : browse.start + PER_LIST]
    scope = browse.scope if browse.q else "pages"
    draw = {"pages": _page_tiles, "chunks": _chunk_rows, "crops": _crop_rows}[scope]
    title = words.FOUND[scope] if browse.q else "Pages"
    body = draw(corpus, browse, shown) if shown else f'<p class="fb-empty">{esc(words.NOT_FOUND)}</p>'
    count = f"{browse.start + 1:,}–{browse.start + len(shown):,} of {len(found):,}" if shown else "none"
    back = ""
    if browse.q:
        everything = replace(browse, q="", start=0)
        back = f'<button type="button" class="fb-small" {_to(everything)}>{esc(words.ALL_PAGES)}</button>'
    return (
        f'<section class="fb-card fb-corpus-list" aria-label="{esc(title)}" data-listed="{esc(browse.q)}"><header>'
        f"<h2>{esc(title)}</h2>{back}"
        f'<span class="fb-count" role="status">{count}</span></header>{body}{_pager(browse, len(found))}</section>'
    )


def unread(corpus: Corpus) -> str:
    """In place of the list until somebody opens the tab: most visitors never do, and its pictures weigh more than all the rest."""
    first = json.dumps({"page": next(iter(corpus.pages), "")})
    return f'<section class="fb-card" data-unread="{esc(first)}"><p class="fb-empty">{esc(words.CORPUS_OPENS)}</p></section>'


def _to(browse: Browse) -> str:
    """The attribute of a button that leads there."""
    given = {field: value for field, value in asdict(browse).items() if value}
    return f'data-browse="{esc(json.dumps(given))}"'


def _pager(browse: Browse, total: int) -> str:
    if total <= PER_LIST:
        return ""
    last = (total - 1) // PER_LIST * PER_LIST
    steps = (
        ("First", "«", 0, browse.start > 0),
        ("Previous", "‹", max(0, browse.start - PER_LIST), browse.start > 0),
        ("Next", "›", min(last, browse.start + PER_LIST), browse.start < last),
        ("Last", "»", last, browse.start < last),
    )
    buttons = "".join(
        f'<button type="button" class="fb-small" {_to(replace(browse, start=start))} aria-label="{label} entries"'
        f"{'' if there else ' disabled'}>{sign}</button>"
        for label, sign, start, there in steps
    )
    return f'<nav class="fb-buttons fb-pager" aria-label="More entries">{buttons}</nav>'


def _current(browse: Browse, page_id: str) -> str:
    return ' aria-current="true"' if browse.page == page_id else ""


def _page_tiles(corpus: Corpus, browse: Browse, shown: Sequence[str]) -> str:
    several = len(corpus.documents) > 1 and not browse.document
    return (
        f'<ul class="fb-page-tiles">{"".join(_page_tile(corpus, browse, corpus.pages[i], several) for i in shown)}</ul>'
    )


def _page_tile(corpus: Corpus, browse: Browse, page: Page, titled: bool) -> str:
    alone = page.document == page.id
    title = "" if alone or not titled else f"<small>{name(shorten(short_title(page.document, corpus), 60))}</small>"
    badges = "".join(
        f'<i title="{esc(told)}" aria-hidden="true">{sign}</i><span class="fb-sr">{esc(told)}</span>'
        for sign, told in _badges(page)
    )
    number = f'<b class="id">{esc(shorten(page.id, 40))}</b>' if alone else f"<b>p. {page.number}</b>"
    return (
        f'<li><button type="button" {_to(replace(browse, page=page.id))}{_current(browse, page.id)}'
        f' title="{esc(page_label(page, corpus))}">{_thumb(corpus, page.image, 96)}'
        f"<span>{number}{badges}</span>{title}</button></li>"
    )


def _badges(page: Page) -> list[tuple[str, str]]:
    """Signs on a page, with what they mean."""
    read = [("OCR", SOURCES.get(page.source, page.source))] if "ocr" in page.source else []
    return read + ([("!", page.note)] if page.note else [])


def _thumb(corpus: Corpus, image: str, width: int) -> str:
    if not image:
        return '<span class="fb-no-thumb" aria-hidden="true">no picture</span>'
    source, across, down = thumbnail(corpus.image_path(image), width)
    return f'<img src="{source}" width="{across}" height="{down}" alt="" loading="lazy">'


def _chunk_rows(corpus: Corpus, browse: Browse, shown: Sequence[str]) -> str:
    stems = marks.question_stems(browse.q)
    rows = "".join(_row(corpus, browse, corpus.chunks[i], _snippet(corpus.chunks[i].text, stems)) for i in shown)
    return f'<ol class="fb-found" start="{browse.start + 1}">{rows}</ol>'


def _snippet(text: str, stems: frozenset[str]) -> str:
    return marks.marked(shorten(text, MAX_SNIPPET_CHARS), stems, [], "text")


def _crop_rows(corpus: Corpus, browse: Browse, shown: Sequence[str]) -> str:
    stems = marks.question_stems(browse.q)
    rows = []
    for crop in (corpus.crops[i] for i in shown):
        said = _snippet(crop.captions or crop.ocr_text or words.NO_CAPTION, stems)
        rows.append(_row(corpus, browse, crop, said, _thumb(corpus, crop.image, 120)))
    return f'<ol class="fb-found crops" start="{browse.start + 1}">{"".join(rows)}</ol>'


def _row(corpus: Corpus, browse: Browse, item: Chunk | Crop, said: str, picture: str = "") -> str:
    page = corpus.pages[item.page_id]
    return (
        f'<li><button type="button" {_to(replace(browse, page=page.id))}{_current(browse, page.id)}>{picture}<span>'
        f'<b>{bdi(_short_label(page, corpus))}</b><span dir="auto">{said}</span></span></button></li>'
    )


def _short_label(page: Page, corpus: Corpus) -> str:
    title = shorten(short_title(page.document, corpus), 90)
    return title if page.document == page.id else f"{title}, p. {page.number}"


# --- a page ----------------------------------------------------------------------------------------------------------


def page(corpus: Corpus, browse: Browse, facts: Sequence[tuple[int, Triple]]) -> str:
    """A page with its regions drawn over it, and what the corpus holds of it; ``facts`` are its triples with their numbers.

    Raises:
        CorpusError: an image of the corpus is damaged.
    """
    found = corpus.pages.get(browse.page)
    if found is None:
        return f'<section class="fb-card"><p class="fb-empty">{esc(words.NO_SUCH_PAGE)}</p></section>'
    regions = corpus.regions_on(found.id)
    return (
        f'<section class="fb-card fb-corpus-page" data-shown-page="{esc(found.id)}">{_page_head(corpus, browse, found)}'
        f'<div class="fb-corpus-split"><div class="fb-regions">{_kinds(regions)}{_picture(corpus, found, regions)}</div>'
        f'<div class="fb-corpus-parts">{_parts(corpus, found, facts)}</div></div></section>'
    )


def _page_head(corpus: Corpus, browse: Browse, shown: Page) -> str:
    siblings = [p.id for p in corpus.pages.values() if p.document == shown.document]
    if len(siblings) == 1:  # page images, each its own document
        siblings = list(corpus.pages)
    at = siblings.index(shown.id)
    before, after = siblings[at - 1] if at else "", siblings[at + 1] if at + 1 < len(siblings) else ""
    steps = "".join(
        f'<button type="button" class="fb-small" {_to(replace(browse, page=other)) if other else "disabled"} aria-label="{label}">'
        f"{sign}</button>"
        for other, label, sign in ((before, "Page before", "‹"), (after, "Page after", "›"))
    )
    note = f'<p class="fb-note">{bdi(shown.note)}</p>' if shown.note else ""
    source = esc(SOURCES.get(shown.source, shown.source))
    return (
        f'<header><h2 tabindex="-1">{bdi(page_label(shown, corpus))}</h2><span class="fb-buttons">{steps}'
        f'<button type="button" class="fb-small" data-page="{esc(shown.id)}" aria-label="Open the page larger">⤢</button></span></header>'
        f'<p class="fb-meta"><code>{esc(shown.id)}</code><span>{source}</span>{licence_link(shown, corpus)}</p>{note}'
    )


def _kinds(regions: Iterable[Region]) -> str:
    """The legend, whose ticks show and hide a kind."""
    counts = Counter(_GROUP_OF.get(region.kind, "other") for region in regions)
    rows = "".join(
        f'<label class="k-{group}"><input type="checkbox" value="{group}" checked><svg width="20" height="12" aria-hidden="true">'
        f'<rect class="k-{group}" x="1" y="1" width="18" height="10"/></svg>{esc(GROUPS[group].label)} <b>{counts[group]}</b></label>'
        for group in GROUPS
        if group in counts
    )
    return f'<fieldset class="fb-kinds"><legend class="fb-sr">Regions shown</legend>{rows}</fieldset>' if rows else ""


def _picture(corpus: Corpus, shown: Page, regions: Sequence[Region]) -> str:
    if not shown.image:
        return f'<p class="fb-hint">{esc(words.NO_IMAGE)}</p><p class="fb-page-text" dir="auto">{esc(corpus.page_text(shown.id))}</p>'
    largest_first = sorted(regions, key=lambda r: -(r.bbox[2] - r.bbox[0]) * (r.bbox[3] - r.bbox[1]))
    turn = marks.turn(corpus.words_on(shown.id), corpus.page_text(shown.id))
    shapes = "".join(_shape(region, shown.width_pt / USUAL_WIDTH_PT, turn) for region in largest_first)
    alt = esc(f"Picture of {page_label(shown, corpus)}")
    picture = (
        f'<img src="{data_uri(corpus.image_path(shown.image))}" alt="{alt}">'
        f'<svg viewBox="0 0 {shown.width_pt:g} {shown.height_pt:g}" preserveAspectRatio="none" aria-hidden="true">{shapes}</svg>'
    )
    if not turn:
        return f'<div class="fb-paper">{picture}</div>'
    size = f"--w:{shown.width_pt:g};--h:{shown.height_pt:g};--turn:{turn}deg"
    side = "side" if turn % 180 else "over"
    return f'<div class="fb-paper fb-turned {side}" style="{size}"><div>{picture}</div></div>'


def _shape(region: Region, scale: float, turn: int = 0) -> str:
    """A region and its letters, which are as large on a wide page as on a usual one, and upright on one that is shown turned by
    ``turn`` degrees."""
    x0, y0, x1, y1 = region.bbox
    group = _GROUP_OF.get(region.kind, "other")
    letters = GROUPS[group].letters
    width, height = scale * (4.3 * len(letters) + 4), scale * 9
    left = max(0.0, x0 - width)
    upright = f'<g transform="rotate({-turn} {left + width / 2:.1f} {y0 + height / 2:.1f})">' if turn else ""
    return (
        f'<g class="k-{group}" data-region="{esc(region.id)}"><title>{esc(region.kind)}</title>'
        f'<rect x="{x0:.1f}" y="{y0:.1f}" width="{max(1.0, x1 - x0):.1f}" height="{max(1.0, y1 - y0):.1f}"/>'
        f'{upright}<rect class="letters" x="{left:.1f}" y="{y0:.1f}" width="{width:.1f}" height="{height:.1f}"/>'
        f'<text x="{left + width / 2:.1f}" y="{y0 + 0.76 * height:.1f}" font-size="{scale * 7:.1f}" text-anchor="middle">'
        f"{esc(letters)}</text></g>{'</g>' if turn else ''}"
    )


def _parts(corpus: Corpus, shown: Page, facts: Sequence[tuple[int, Triple]]) -> str:
    chunks, crops = corpus.chunks_on(shown.id), corpus.crops_on(shown.id)
    return (
        _fold("text", "Chunks", len(chunks), "".join(map(_chunk, chunks)), "ol")
        + _fold("visual", "Figures and tables", len(crops), "".join(_crop(corpus, crop) for crop in crops), "ul")
        + _fold("graph", "Facts", len(facts), "".join(_fact(triple) for _, triple in facts[:MAX_FACTS]), "ul")
    )


def _fold(branch: str, title: str, count: int, body: str, tag: str) -> str:
    inside = f'<p class="fb-empty">{esc(words.NONE_ON_PAGE)}</p>'
    if count:
        inside = f'<{tag} tabindex="0" aria-label="{esc(title)}">{body}</{tag}>'
    return (
        f'<details class="fb-part {branch}"{" open" if count else ""}><summary>{esc(title)} '
        f'<span class="fb-count">{count:,}</span></summary>{inside}</details>'
    )


def _chunk(chunk: Chunk) -> str:
    return (
        f'<li data-regions="{esc(" ".join(chunk.region_ids))}" tabindex="0"><span dir="auto">{esc(chunk.text)}</span> '
        f"<small>{plural(len(chunk.text), 'character')} from {chunk.start:,}</small></li>"
    )


def _crop(corpus: Corpus, crop: Crop) -> str:
    caption = (
        f'<span dir="auto">{esc(shorten(crop.caption, 400))}</span>'
        if crop.caption
        else f"<i>{esc(words.NO_CAPTION)}</i>"
    )
    read = ""
    if crop.ocr_text:
        text = esc(shorten(crop.ocr_text, MAX_READ_OFF_CHARS))
        read = f'<details class="fb-read-off"><summary>read-off text</summary><pre dir="auto">{text}</pre></details>'
    return (
        f'<li><button type="button" class="fb-crop" data-crop="{esc(crop.id)}" aria-label="Open {esc(crop.id)} in full">'
        f'{_thumb(corpus, crop.image, 320)}</button><p class="fb-caption"><b>{crop.kind}</b> {caption}</p>'
        f"{by_model(crop)}{continues(crop)}{read}</li>"
    )


def _fact(triple: Triple) -> str:
    return f'<li>{name(triple.subject)} <span class="fb-relation">{name(triple.relation)}</span> {name(triple.object)}</li>'


# --- own documents ---------------------------------------------------------------------------------------------------


def upload(limits: Limits, allowed: bool, accept: Sequence[str], languages: Offer) -> str:
    """The card in which a visitor adds documents; ``languages`` are what scans can be read in."""
    if not allowed:
        return (
            f'<section class="fb-card fb-upload"><header><h2>{esc(words.UPLOAD)}</h2></header>'
            f'<p class="fb-hint">{esc(words.UPLOAD_OFF)}</p></section>'
        )
    parts = [
        f"{count:,} {what}"
        for count, what in ((limits.files, "files"), (limits.mb, "MB together"), (limits.pages, "pages"))
        if count is not None
    ]
    most = f"At most {', '.join(parts)}." if parts else ""
    return (
        f'<section class="fb-card fb-upload" data-max-files="{limits.files or 0}" data-max-mb="{limits.mb or 0}">'
        f'<header><h2>{esc(words.UPLOAD)}</h2></header><label class="fb-drop" data-drop><input type="file" multiple '
        f'accept="{esc(",".join(accept))}" data-files aria-describedby="fb-upload-rule"><b>{esc(words.UPLOAD_CHOOSE)}</b>'
        f"<span>{esc(words.UPLOAD_KINDS)} {esc(most)}</span></label>"
        f'{_languages(languages)}<p class="fb-hint" id="fb-upload-rule">{esc(words.UPLOAD_RULE)}</p>'
        '<p class="fb-told" role="status" data-upload-told></p>'
        '<div class="fb-sending" hidden><progress max="1" value="0" aria-label="Sent"></progress>'
        f'<button type="button" class="fb-small fb-stop" data-upload-stop>{esc(words.STOP)}</button></div></section>'
    )


def _languages(offer: Offer) -> str:
    """The choice of languages, where there is one; and what is missing."""
    missing = f'<p class="fb-note">{esc(offer.missing)}</p>' if offer.missing else ""
    if not offer.names:
        return f'<p class="fb-hint">{esc(words.NO_SCANS)}</p>{missing}'
    told = f"{esc(words.SCANS)} <b data-languages-told>{esc(language_names(offer.names[0]))}</b>"
    if len(offer.names) == 1:
        return f'<p class="fb-hint">{told}.</p>{missing}'
    boxes = "".join(
        f'<label><input type="checkbox" value="{esc(code)}"{" checked" if code == offer.names[0] else ""}>'
        f"<span>{esc(language_names(code))}</span></label>"
        for code in offer.names
    )
    rule = words.SCANS_RULE.format(most=MAX_LANGUAGES)
    return (
        f'<details class="fb-quiet fb-languages" data-languages data-most="{MAX_LANGUAGES}"><summary>{told}</summary>'
        f'<p class="fb-hint">{esc(rule)}</p><fieldset><legend class="fb-sr">{esc(words.SCANS)}</legend>{boxes}</fieldset>'
        f"</details>{missing}"
    )


def language_names(languages: str) -> str:
    """Tesseract's names, joined by +, in words."""
    return ", ".join(words.LANGUAGES.get(code, code) for code in languages.split("+"))


STAGES: dict[str, str] = {
    "pages": "Read pages",
    "triples": "Extract facts",
    "chunk index": "Index chunks",
    "crop index": "Index figures and tables",
}


def waiting(ahead: int) -> str:
    """Others build before."""
    line = words.BUILD_WAITING.format(ahead=plural(ahead, "other visitor"))
    return f'<section class="fb-card fb-build" data-building><p role="status">{esc(line)}</p>{_stop("build")}</section>'


def progress(event: Progress | None, done: Mapping[str, str]) -> str:
    """How far the building is.

    Args:
        event: the newest; None before the first.
        done: lines of the finished stages.
    """
    rows = "".join(_stage(stage, label, event, done) for stage, label in STAGES.items())
    counts = event.counts if event else {}
    told = " · ".join(plural(count, table.removesuffix("s")) for table, count in counts.items() if count)
    return (
        f'<section class="fb-card fb-build" data-building aria-label="{esc(words.BUILDING)}"><header><h2>{esc(words.BUILDING)}</h2>'
        f'{_stop("build")}</header><ol class="fb-stages">{rows}</ol><p class="fb-count">{esc(told)}</p></section>'
    )


def _stage(stage: str, label: str, event: Progress | None, done: Mapping[str, str]) -> str:
    if stage != (event.stage if event else "pages"):
        kind, sign, said = ("done", "✓", done[stage]) if stage in done else ("ahead", "·", "")
        return f'<li class="{kind}"><i aria-hidden="true">{sign}</i>{esc(label)} <small>{esc(said)}</small></li>'
    bar = "<progress></progress>"
    if event is not None and event.total:
        bar = f'<progress max="{event.total}" value="{event.done}"></progress>'
    bar = bar.replace("<progress", f'<progress aria-label="{esc(label)}"', 1)
    line = event.line if event else words.BUILD_STARTS
    return f'<li class="now"><i aria-hidden="true">▸</i>{esc(label)} <small role="status">{esc(line)}</small>{bar}</li>'


def report(
    title: str, pages: Sequence[PageReport], refused: Sequence[str], notes: Sequence[str], titles: Mapping[str, str]
) -> str:
    """What became of every page.

    Args:
        title: what the corpus is called.
        pages: all pages in order.
        refused: sentences on files that were left out.
        notes: sentences on files that went in otherwise than expected.
        titles: document id -> what the visitor calls it.
    """
    counts = Counter(page.status for page in pages)
    summary = ", ".join(f"{count:,} {STATUSES[status]}" for status, count in counts.items())
    said = "".join(f'<li class="refused">{bdi(sentence)}</li>' for sentence in refused[:50])
    said += "".join(f"<li>{bdi(sentence)}</li>" for sentence in notes[:50])
    listed = sorted(pages, key=lambda page: page.status == "ok")[:MAX_REPORTED]
    rows = "".join(
        f'<tr class="{page.status}"><th scope="row">{name(titles.get(page.document, page.document))}</th><td>{page.number}</td>'
        f"<td>{esc(_outcome(page))}{f'<small>{bdi(page.note)}</small>' if page.note else ''}</td></tr>"
        for page in listed
    )
    cut = f"{len(listed):,} of {len(pages):,} pages are listed; what could not be read comes first."
    more = f'<p class="fb-hint">{cut}</p>' if len(listed) < len(pages) else ""
    return (
        f'<section class="fb-card fb-build" data-built><header><h2>{esc(words.BUILT)}</h2></header>'
        f'<p role="status">{name(title)}: {esc(plural(len(pages), "page"))} ({esc(summary)}). {esc(words.BUILT_NEXT)}</p>'
        f'<p><button type="button" class="fb-button" data-explore>{esc(words.BUILT_ASK)}</button></p>'
        f"{f'<ul class=fb-refused>{said}</ul>' if said else ''}"
        f"<details{' open' if counts['refused'] or counts['empty'] else ''}><summary>{esc(words.PER_PAGE)}</summary>"
        '<div class="fb-scroll" tabindex="0" role="region" aria-label="Report, scrollable"><table class="fb-table">'
        "<thead><tr><th scope=col>document</th><th scope=col>page</th><th scope=col>what became of it</th>"
        f"</tr></thead><tbody>{rows}</tbody></table></div>{more}</details></section>"
    )


def _outcome(page: PageReport) -> str:
    """What became of a page, and in which languages OCR read it."""
    return STATUSES[page.status] + (f" ({language_names(page.languages)})" if page.languages else "")


def failed(message: str) -> str:
    """The documents did not become a corpus."""
    return (
        f'<section class="fb-card fb-build" data-built><p class="fb-told bad" role="alert">{esc(message)}</p></section>'
    )


def titles(corpus: Corpus) -> dict[str, str]:
    """Document id -> title."""
    return {document: title_of(document, corpus) for document in corpus.documents}

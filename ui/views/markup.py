"""Small pieces of HTML that every view uses, and the one place where untrusted text is made safe for them."""

from __future__ import annotations

import base64
import html
import io
import itertools
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from PIL import Image

from rag.corpus import Corpus, image_size, open_image
from rag.errors import CorpusError
from rag.prompt import triple_item
from rag.types import Branch, Page, Prompt, Segment, Trace

BRANCH_OF_TAG: dict[str, Branch] = {"T": "text", "G": "graph", "V": "visual"}

BRANCH_OF_SEGMENT: dict[str, str] = {
    "instruction": "frame",
    "question": "frame",
    "text": "text",
    "graph": "graph",
    "captions": "visual",
    "image": "visual",
}

MAX_NAME_CHARS = 120
"""Names (entities, titles) are cut here on the page; the full one is in the tooltip, itself cut at
``MAX_TOOLTIP_CHARS``."""

MAX_TOOLTIP_CHARS = 600
MIN_SHARED_CHARS = 20
MAX_COMPARED_TITLES = 500
_BREAK = re.compile(r"[,:–—-] ")

_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_SURROGATES = re.compile(r"[\ud800-\udfff]")


def clean(text: str) -> str:
    """Text that every sink can carry, character for character: control characters become spaces, lone surrogates
    (which can't be
    encoded) U+FFFD."""
    return _SURROGATES.sub("\N{REPLACEMENT CHARACTER}", _CONTROLS.sub(" ", text))


def esc(text: object) -> str:
    """Text for HTML content and for quoted attributes."""
    return html.escape(clean(str(text)), quote=True)


def bdi(text: object) -> str:
    """Untrusted text inside a line of ours: its writing direction stays its own affair."""
    return f"<bdi>{esc(text)}</bdi>"


def shorten(text: str, limit: int = MAX_NAME_CHARS) -> str:
    """``text`` cut at ``limit`` characters, with an ellipsis where something is missing."""
    return text if len(text) <= limit else text[: limit - 1].rstrip() + "…"


def name(text: str) -> str:
    """A name from a document, cut, with the rest in its tooltip."""
    if len(text) <= MAX_NAME_CHARS:
        return bdi(text)
    return f'<bdi title="{esc(shorten(text, MAX_TOOLTIP_CHARS))}">{esc(shorten(text))}</bdi>'


def heading(name: str) -> str:
    """A corpus's name with a capital letter."""
    return name[:1].upper() + name[1:]


def plural(count: int, noun: str) -> str:
    """``1 chunk``, ``1,481 chunks``."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def milliseconds(value: float | None) -> str:
    """A time as people read it."""
    if value is None:
        return "unknown"
    if value < 9.95:
        return f"{value:.1f} ms"
    return f"{value:.0f} ms" if value < 1000 else f"{value / 1000:.1f} s"


def money(usd: float | None) -> str:
    """USD with enough digits to tell prices apart; ``None`` is unknown and never $0."""
    if usd is None:
        return "unknown"
    if usd == 0:
        return "$0"
    digits = 2 if usd >= 0.0995 else 1 - math.floor(math.log10(usd))
    return f"${usd:,.{min(digits, 8)}f}"


def tag_chip(tag: str, item_id: str) -> str:
    """A citation chip: jumps to its item, or says that the answer made the tag up."""
    if not item_id:
        title = "The answer cites this tag, but the prompt held no such evidence."
        return f'<span class="fb-tag invented" title="{title}">{esc(tag)}<span class="fb-sr"> invented</span></span>'
    branch = BRANCH_OF_TAG.get(tag[:1], "text")
    return f'<button type="button" class="fb-tag {branch}" data-jump="{esc(item_id)}">{esc(tag)}</button>'


def tag_badge(tag: str, branch: Branch, rank: int) -> str:
    """The tag of a listed item, or its bare rank where the prompt does not hold it."""
    if tag:
        return f'<span class="fb-tag {branch}">{esc(tag)}</span>'
    return f'<span class="fb-tag none" title="not in the prompt">{rank}</span>'


def leave_out(item_id: str, tag: str, left_out: bool = False) -> str:
    """The tick that leaves an item of the prompt out of the next ask (``assets/theme/whatif.js``); nothing where the item has no
    tag, for then it is not in the prompt. ``left_out``: it was left out of this answer already."""
    if not tag:
        return ""
    return (
        f'<label class="fb-leave" title="Leave {esc(tag)} out and ask again"><input type="checkbox" data-leave="{esc(item_id)}"'
        f' data-tag="{esc(tag)}" aria-label="Leave {esc(tag)} out"{" checked" if left_out else ""}>'
        '<span aria-hidden="true">leave out</span></label>'
    )


def tags_by_item(prompt: Prompt | None) -> dict[str, str]:
    """Item id -> tag, as the prompt holds them."""
    return {item: tag for tag, item in prompt.tags.items()} if prompt else {}


def left_out_tags(trace: Trace) -> dict[str, str]:
    """Item id -> tag of what was left out of the prompt, in the prompt's order; the tag is the one it had when it was in."""
    found = trace.evidence
    ranked = [("T", hit.item_id, hit.rank) for hit in (found.text.hits if found.text else ())]
    ranked += [
        ("G", triple_item(fact.triple_ids[0]), n) for n, fact in enumerate(found.graph.facts if found.graph else (), 1)
    ]
    facts = len(found.graph.facts) if found.graph else 0
    ranked += [("G", b.hit.item_id, facts + b.hit.rank) for b in (found.graph.bridges if found.graph else ())]
    ranked += [("V", hit.item_id, hit.rank) for hit in (found.visual.hits if found.visual else ())]
    left_out = frozenset(trace.excluded)
    return {item: f"{letter}{rank}" for letter, item, rank in ranked if item in left_out}


def title_of(document_id: str, corpus: Corpus) -> str:
    """A document's title, or its id where it has none."""
    document = corpus.documents.get(document_id)
    return shorten(document.title if document and document.title else document_id, 160)


@lru_cache(maxsize=8)
def _shared_starts(titles: tuple[str, ...]) -> dict[str, str]:
    """Title -> the start it shares with another one, up to a comma, colon or dash: a book's name before its
    chapters'."""
    starts = {}
    ordered = sorted(set(titles))
    for before, title, after in zip(["", *ordered], ordered, [*ordered[1:], ""], strict=False):
        shared = max((_shared(title, other) for other in (before, after)), key=len)
        cuts = [match.end() for match in _BREAK.finditer(shared)]
        if cuts and cuts[-1] >= MIN_SHARED_CHARS:
            starts[title] = title[: cuts[-1]]
    return starts


def _shared(one: str, other: str) -> str:
    same = itertools.takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False))
    return "".join(character for character, _ in same)


def short_title(document_id: str, corpus: Corpus) -> str:
    """The title without the book's name that other chapters share."""
    title = title_of(document_id, corpus)
    if len(corpus.documents) > MAX_COMPARED_TITLES:
        return title
    titles = tuple(title_of(other, corpus) for other in corpus.documents)
    return title.removeprefix(_shared_starts(titles).get(title, ""))


def page_label(page: Page, corpus: Corpus) -> str:
    """``Concordance, p. 6``; a page that is its own document has no number."""
    title = title_of(page.document, corpus)
    return title if page.document == page.id else f"{title}, p. {page.number}"


def page_button(page: Page, corpus: Corpus, item_id: str = "", label: str | None = None) -> str:
    """Opens the page with the boxes of this answer's evidence."""
    item = f' data-focus="{esc(item_id)}"' if item_id else ""
    number = "" if page.document == page.id else f"<span>· p. {page.number}</span>"
    shown = f"<bdi>{esc(short_title(page.document, corpus))}</bdi>{number}" if label is None else bdi(label)
    document = corpus.documents.get(page.document)
    licence = f" (licence: {document.licence})" if document and document.licence else ""
    title = esc(f"Open {page_label(page, corpus)}{licence}")
    return f'<button type="button" class="fb-link" data-page="{esc(page.id)}"{item} title="{title}">{shown}</button>'


def licence_link(page: Page, corpus: Corpus) -> str:
    """The document's licence, short; leads to the full entry on About."""
    document = corpus.documents.get(page.document)
    if document is None or not document.licence:
        return '<span class="fb-licence">licence unknown</span>'
    title = f"{document.title}: {document.licence}"
    if document.authors:
        title = f"{title}. {document.authors}"
    short = shorten(document.licence.split(";")[0].split("(")[0].strip(), 24)
    shown = esc(short or "licence")
    return (
        f'<button type="button" class="fb-licence" data-about="{esc(document.id)}" title="{esc(shorten(title, 300))}"'
        f' aria-label="Licence: {esc(document.licence)}">{shown}</button>'
    )


def column(branch: Branch, title: str, count: str, body: str) -> str:
    """One of the three evidence columns."""
    return (
        f'<section class="fb-column {branch}" aria-labelledby="fb-{branch}-title">'
        f'<header><h2 id="fb-{branch}-title">{esc(title)}</h2><span class="fb-count">{esc(count)}</span>'
        f"</header>{body}</section>"
    )


def empty(words: str) -> str:
    """Why a column holds nothing."""
    return f'<p class="fb-empty">{esc(words)}</p>'


@dataclass(frozen=True, slots=True)
class Share:
    """A branch's (or the frame's) part of the prompt."""

    kind: str
    label: str
    tokens: int


_SHARES = {
    "instruction": ("frame", "instruction"),
    "text": ("text", "text"),
    "graph": ("graph", "graph"),
    "captions": ("visual", "visual"),
    "image": ("visual", "visual"),
    "question": ("frame", "question"),
}


def shares(segments: Sequence[Segment], tokens: Sequence[int]) -> tuple[Share, ...]:
    """Tokens by kind of segment, in the order of the prompt; kinds without a segment are left out."""
    totals: dict[tuple[str, str], int] = {}
    for segment, count in zip(segments, tokens, strict=True):
        key = _SHARES[segment.kind]
        totals[key] = totals.get(key, 0) + count
    return tuple(Share(kind, label, count) for (kind, label), count in totals.items())


NO_PICTURE = "image can't be shown"
_PLACEHOLDER_SIZE = (240, 80)


def data_uri(path: Path) -> str:
    """A corpus image (webp) as a data URI: no folder of the machine has to be opened to browsers for it. One that
    can't be read or has too many pixels for a browser too gives a placeholder that says so."""
    try:
        image_size(path)
        content = path.read_bytes()
    except (CorpusError, OSError):
        return _placeholder(*_PLACEHOLDER_SIZE)
    return "data:image/webp;base64," + base64.b64encode(content).decode("ascii")


@lru_cache(maxsize=512)
def thumbnail(path: Path, width: int) -> tuple[str, int, int]:
    """A crop scaled down to ``width`` pixels at most, as data URI with its size; the file on disk never changes
    while it is open. One that can't be shown gives a placeholder that says so: the answer does not depend on it.

    Returns:
        URI, width, height in pixels.
    """
    try:
        image = open_image(path)
    except CorpusError:
        across, down = _PLACEHOLDER_SIZE
        size = min(width, across), down
        return _placeholder(*size), *size
    # Reduced by a whole factor first, and packed with little effort: five of these are on the way to an answer.
    image.thumbnail((width, image.height), Image.Resampling.LANCZOS, reducing_gap=2.0)
    buffer = io.BytesIO()
    image.save(buffer, "WEBP", quality=80, method=1)
    return "data:image/webp;base64," + base64.b64encode(buffer.getvalue()).decode("ascii"), image.width, image.height


def _placeholder(width: int, height: int) -> str:
    """A picture of the words ``NO_PICTURE``, as data URI."""
    drawing = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 240 80">'
        '<rect width="240" height="80" fill="#eee"/><text x="120" y="45" text-anchor="middle" fill="#333"'
        f' font-family="sans-serif" font-size="15">{esc(NO_PICTURE)}</text></svg>'
    )
    return "data:image/svg+xml;base64," + base64.b64encode(drawing.encode()).decode("ascii")

"""The graph column: the question with its entities marked, a drawing in a sandboxed frame, and tables that say the same to
those who can't use it.

The drawing's data travels in the frame's URL fragment, which no server sees; the frame (``ui/frame.py``) reads it as
JSON and hands labels and tooltips to vis-network as text. What a click asks for (``ui/graph_desk.py``) is drawn by
``statement``, ``around`` and ``other_mode``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2s
from itertools import pairwise
from typing import Any
from urllib.parse import quote

from rag.corpus import Corpus
from rag.graph import Match, Neighbours, fold
from rag.prompt import triple_item
from rag.statement import stated, widened
from rag.types import Bridge, Fact, GraphEvidence, Step, Trace, Triple
from ui import text as words
from ui.views import chunks, marks
from ui.views.markup import (
    bdi,
    clean,
    column,
    empty,
    esc,
    leave_out,
    licence_link,
    name,
    page_button,
    page_label,
    plural,
    shorten,
    tag_chip,
    tags_by_item,
)

FRAME_URL = "fusebox/graph"
MAX_DRAWN_DROPPED = 12
MAX_LISTED_DROPPED = 50
"""Dropped facts in the drawing and in the table, of each reason."""
MAX_LABEL_CHARS = 24
MAX_EDGE_LABEL_CHARS = 22
MAX_TITLE_CHARS = 100
MAX_LANES = 3

DASHES: dict[str, tuple[int, ...]] = {
    "sent": (),
    "left out": (12, 5),
    "over the limit": (8, 4),
    "page not retrieved": (4, 4),
    "entity too short": (1, 4),
    "duplicate": (9, 3, 2, 3),
    "bridge": (3, 2),
    "neighbour": (),
}
"""Layer of the drawing -> dash pattern of its edges, in pixels; ``sent`` is twice as thick as ``neighbour``."""

ZOOMS = (("out", "Zoom the drawing out", "−"), ("fit", "Fit the drawing", "fit"), ("in", "Zoom the drawing in", "+"))
"""Offered once neighbours crowd the drawing."""

_BIDI = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def render(trace: Trace | None, corpus: Corpus) -> str:
    """The column for a trace, or what it will hold."""
    total = plural(len(corpus.triples), "triple")
    if trace is None:
        return column("graph", "Graph", total, empty(words.WAITING["graph"]))
    if "graph" not in trace.system.branches:
        return column("graph", "Graph", "off", empty(words.OFF["graph"]))
    found = trace.evidence.graph
    if found is None or trace.prompt is None:
        return column("graph", "Graph", total, empty(words.WAITING["graph"]))
    dropped = sum(found.rejected_counts.values())
    items = set(trace.prompt.tags.values())
    sent = sum(item_of(fact) in items for fact in found.facts)
    bridged = sum(bridge.hit.item_id in items for bridge in found.bridges)
    left = len(found.facts) + len(found.bridges) - sent - bridged
    parts = (
        plural(sent, "fact") + (f" and {plural(bridged, 'bridged passage')}" if bridged else "") + " sent",
        f"{left:,} left out" if left else "",
        f"{dropped:,} dropped",
    )
    count = " · ".join(part for part in parts if part)
    if not found.entities and not found.rejected and not found.bridges:
        return column("graph", "Graph", count, empty(words.NOTHING["graph"]) + _mode(found))
    body = (
        _entities(found, trace, corpus)
        + _drawing(found, trace, corpus)
        + _kept(found, trace, corpus)
        + _bridges(found, trace, corpus)
        + _mode(found)
        + _dropped(found, corpus)
    )
    return column("graph", "Graph", count, body)


def item_of(fact: Fact) -> str:
    """A fact's item id."""
    return triple_item(fact.triple_ids[0])


# --- the question ----------------------------------------------------------------------------------------------------


def _entities(found: GraphEvidence, trace: Trace, corpus: Corpus) -> str:
    chips = "".join(f"<li>{_chip(n, entity, corpus)}</li>" for n, entity in enumerate(found.entities))
    shown = f'<ul class="fb-entities" aria-label="Entities in the question">{chips}</ul>' if chips else ""
    none = f'<p class="fb-hint">{esc(words.NO_FACT)}</p>' if found.entities and not found.facts else ""
    return _question(trace, corpus) + shown + none


def _chip(number: int, entity: str, corpus: Corpus) -> str:
    total = corpus.graph.neighbours(entity, 0).total
    return _around_button(f"q:{number}", entity, total, "fb-entity")


def _around_button(reference: str, entity: str, total: int, kind: str) -> str:
    """Shows and takes away the neighbours of an entity."""
    title = f"{plural(total, 'fact')} of the whole corpus; show its neighbours, or take them away"
    return (
        f'<button type="button" class="{kind}" data-around="{esc(reference)}" data-node="{node_id(entity)}"'
        f' aria-pressed="false" title="{esc(title)}">{name(entity)} <span class="fb-degree">{total:,}</span></button>'
    )


def _question(trace: Trace, corpus: Corpus) -> str:
    """The question with every place marked where an entity stands; places that overlap are underlined one below the other."""
    matches = corpus.graph.match(trace.question, 1)
    if not matches:
        return ""
    least = trace.system.min_entity_chars
    short = {match for match in matches if len(fold(match.entity)) < least}
    spans = [
        Marked(match.start, match.end, f"{'short' if match in short else 'entity'}-{lane}", _told(match, least, short))
        for match, lane in zip(matches, lanes(matches), strict=True)
    ]
    return f'<p class="fb-asked" dir="auto">{layered(trace.question, spans)}</p>'


def _told(match: Match, least: int, short: Iterable[Match]) -> str:
    entity = shorten(match.entity, MAX_TITLE_CHARS)
    return f"{entity} (not looked up: shorter than {least} characters)" if match in short else entity


def lanes(matches: Sequence[Match]) -> list[int]:
    """For each match (by start) the first of ``MAX_LANES`` underlines that no other one needs there; the last is shared."""
    ends = [0] * MAX_LANES
    taken = []
    for match in matches:
        lane = next((n for n, end in enumerate(ends) if end <= match.start), MAX_LANES - 1)
        ends[lane] = max(ends[lane], match.end)
        taken.append(lane)
    return taken


@dataclass(frozen=True, slots=True)
class Marked:
    """A run of a text, the classes that mark it, and what its tooltip says."""

    start: int
    end: int
    kind: str
    title: str


def layered(text: str, spans: Sequence[Marked]) -> str:
    """``text`` as HTML with runs marked, which may overlap: a piece that several share has the classes of all."""
    shown = clean(text)
    bounds = sorted({0, len(text), *(edge for span in spans for edge in (span.start, span.end))})
    pieces = []
    for left, right in pairwise(bounds):
        over = [span for span in spans if span.start <= left and right <= span.end]
        piece = esc(shown[left:right])
        if over:
            kind = " ".join(dict.fromkeys(span.kind for span in over))
            title = " · ".join(dict.fromkeys(span.title for span in over))
            piece = f'<mark class="fb-layer {esc(kind)}" title="{esc(title)}">{piece}</mark>'
        pieces.append(piece)
    return "".join(pieces)


# --- the drawing -----------------------------------------------------------------------------------------------------


def _drawing(found: GraphEvidence, trace: Trace, corpus: Corpus) -> str:
    data = payload(found, trace, corpus)
    source = f"{FRAME_URL}#{quote(json.dumps(data, ensure_ascii=True, separators=(',', ':')), safe='')}"
    title = f"Drawing of {plural(len(found.facts), 'fact')}; the tables below say the same"
    return (
        f'<div class="fb-graph"><iframe sandbox="allow-scripts" tabindex="-1" src="{esc(source)}" title="{esc(title)}"'
        f' referrerpolicy="no-referrer" loading="lazy"></iframe>{_layers(data, found)}'
        f'<p class="fb-sr" role="status" data-graph-status></p><div data-graph-said></div><div data-graph-around></div>'
        f"</div>"
    )


def _layers(data: Mapping[str, Any], found: GraphEvidence) -> str:
    """Legend of the drawing; what was dropped can be switched on and off, reason by reason."""
    drawn: dict[str, int] = {}
    for edge in data["edges"]:
        drawn[edge["kind"]] = drawn.get(edge["kind"], 0) + 1
    dropped: dict[str, int] = dict(found.rejected_counts.items())
    rows = []
    for kind in DASHES:
        if kind not in drawn and kind != "neighbour":
            continue
        if kind not in dropped:
            count = f" <b>{drawn[kind]}</b>" if kind in drawn else ""
            only = ' class="fb-around-only"' if kind == "neighbour" else ""
            rows.append(f"<span{only}>{_line(kind)}{esc(kind)}{count}</span>")
            continue
        total = dropped[kind]
        count = f"{drawn[kind]} of {total:,}" if drawn[kind] < total else f"{total:,}"
        checked = " checked" if kind in data["on"] else ""
        box = f'<input type="checkbox" data-layer="{esc(kind)}"{checked}>'
        rows.append(f'<label class="fb-check">{box}{_line(kind)}{esc(kind)} <b>{count}</b></label>')
    zooms = "".join(
        f'<button type="button" class="fb-small" data-graph-zoom="{step}" aria-label="{label}">{sign}</button>'
        for step, label, sign in ZOOMS
    )
    rows.append(f'<span class="fb-buttons fb-graph-zoom">{zooms}</span>')
    return f'<div class="fb-layers" role="group" aria-label="The drawing">{"".join(rows)}</div>'


def _line(kind: str) -> str:
    """How the edges of a layer look in the drawing."""
    dashes = " ".join(map(str, DASHES[kind]))
    return (
        f'<svg class="fb-line {kind.replace(" ", "-")}" viewBox="0 0 30 6" aria-hidden="true">'
        f'<line x1="1" y1="3" x2="29" y2="3" stroke-dasharray="{dashes}"/></svg>'
    )


def node_id(entity: str) -> str:
    """What an entity is called in the drawing: the same for every spelling, and short for names of any length."""
    return blake2s(fold(entity).encode("utf-8", "replace"), digest_size=6).hexdigest()


def payload(found: GraphEvidence, trace: Trace, corpus: Corpus) -> dict[str, Any]:
    """Nodes and edges for the frame, and which layers are on; every string is cut and clean, and stays text there."""
    tags = tags_by_item(trace.prompt)
    nodes: dict[str, dict[str, Any]] = {}
    matched = {node_id(entity) for entity in found.entities}
    edges = [
        _edge(nodes, fact.triple_ids[0], kind, corpus, tags.get(item_of(fact), "")) for fact, kind in drawn(found, tags)
    ]
    for bridge in found.bridges:
        edges += _way_drawn(bridge, nodes, edges, tags, corpus)
    for number, entity in enumerate(found.entities):
        _node(nodes, entity, f"q:{number}")
    for node in nodes.values():
        node["matched"] = node["id"] in matched
    on = ["sent", "left out", "bridge", "neighbour", *(() if found.facts else found.rejected_counts)]
    return {"nodes": list(nodes.values()), "edges": edges, "on": on, "dashes": DASHES}


def drawn(found: GraphEvidence, tags: Mapping[str, str]) -> Iterator[tuple[Fact, str]]:
    """The facts of the drawing with the layer that each is in."""
    for fact in found.facts:
        yield fact, "sent" if item_of(fact) in tags else "left out"
    counts: dict[str, int] = {}
    for rejected in found.rejected:
        counts[rejected.reason] = counts.get(rejected.reason, 0) + 1
        if counts[rejected.reason] <= MAX_DRAWN_DROPPED:
            yield rejected.fact, rejected.reason


def _node(nodes: dict[str, dict[str, Any]], entity: str, reference: str) -> str:
    key = node_id(entity)
    label = _told_name(entity)
    nodes.setdefault(
        key,
        {
            "id": key,
            "ref": reference,
            "label": shorten(label, MAX_LABEL_CHARS),
            "title": shorten(label, 300),
            "matched": False,
        },
    )
    return key


def _told_name(text: str) -> str:
    """Text for the drawing, which knows no markup: clean, and without the characters that turn the writing direction
    round for whatever follows."""
    return clean(_BIDI.sub("", text))


def _edge(nodes: dict[str, dict[str, Any]], triple_id: int, kind: str, corpus: Corpus, tag: str = "") -> dict[str, Any]:
    triple = corpus.triples[triple_id]
    parts = (triple.subject, triple.relation, triple.object)
    # First-strong isolates, so that names of another writing direction keep their place between the dots.
    told = " · ".join(f"\u2068{shorten(_told_name(part), MAX_TITLE_CHARS)}\u2069" for part in parts)
    why = "" if kind == "sent" else f" ({kind})" if kind in ("left out", "neighbour") else f" (dropped: {kind})"
    return {
        "id": triple_item(triple_id),
        "from": _node(nodes, triple.subject, f"s:{triple_id}"),
        "to": _node(nodes, triple.object, f"o:{triple_id}"),
        "label": shorten(_told_name(triple.relation), MAX_EDGE_LABEL_CHARS),
        "title": f"{tag} {told}{why}".strip(),
        "kind": kind,
    }


def _way_drawn(
    bridge: Bridge,
    nodes: dict[str, dict[str, Any]],
    drawn_before: Sequence[dict[str, Any]],
    tags: Mapping[str, str],
    corpus: Corpus,
) -> list[dict[str, Any]]:
    """The way to a bridge as edges, passages being nodes; what is to be seen already is not drawn again."""
    known = {edge["id"] for edge in drawn_before}
    seen = {edge["id"] for edge in drawn_before if edge["kind"] in ("sent", "left out", "bridge")}
    linked = {(edge["from"], edge["to"]) for edge in drawn_before if edge["kind"] == "bridge"}
    edges = []
    for before, step in pairwise(bridge.path):
        if step.triple_id is None:
            continue
        if before.kind == step.kind == "entity":
            edge = _edge(nodes, step.triple_id, "bridge", corpus)
            again = edge["id"] in seen
        else:
            edge = _stated_there((before, step), step.triple_id, nodes, tags, corpus)
            again = (edge["from"], edge["to"]) in linked
        if again:
            continue
        if edge["id"] in known:
            # A fact, whose layer may be off, or another stretch of the way has the triple's own edge.
            edge["id"] = f"{edge['id']}:{edge['to']}"
        known.add(edge["id"])
        edges.append(edge)
    return edges


def _stated_there(
    stops: Sequence[Step],
    triple_id: int,
    nodes: dict[str, dict[str, Any]],
    tags: Mapping[str, str],
    corpus: Corpus,
) -> dict[str, Any]:
    """The edge between an entity and a passage that names it."""
    before, there = (_stop(nodes, stop, triple_id, tags, corpus) for stop in stops)
    told = _told_name(corpus.triples[triple_id].relation)
    return {
        "id": triple_item(triple_id),
        "from": before,
        "to": there,
        "label": "",
        "title": f"bridge: stated there ({shorten(told, MAX_TITLE_CHARS)})",
        "kind": "bridge",
    }


def _stop(nodes: dict[str, dict[str, Any]], stop: Step, triple_id: int, tags: Mapping[str, str], corpus: Corpus) -> str:
    """The node of a stop on a way, which stands in the triple or holds it."""
    if stop.kind == "entity":
        end = "s" if node_id(stop.name) == node_id(corpus.triples[triple_id].subject) else "o"
        return _node(nodes, stop.name, f"{end}:{triple_id}")
    key, tag = node_id(f"chunk {stop.name}"), tags.get(stop.name, "passage")
    place = page_label(corpus.pages[corpus.chunks[stop.name].page_id], corpus)
    title = _told_name(shorten(f"{tag}: passage of {place}", 300))
    nodes.setdefault(key, {"id": key, "ref": "", "label": tag, "title": title, "matched": False})
    return key


# --- tables ----------------------------------------------------------------------------------------------------------


def _kept(found: GraphEvidence, trace: Trace, corpus: Corpus) -> str:
    """The facts that retrieval kept: in the prompt, or left out of it."""
    if not found.facts:
        return ""
    tags = tags_by_item(trace.prompt)
    rows = []
    for number, fact in enumerate(found.facts, 1):
        item = item_of(fact)
        tag = tags.get(item, "")
        badge = f'<span class="fb-tag graph">{esc(tag)}</span>' if tag else '<span class="fb-tag none">left out</span>'
        tick = leave_out(item, f"G{number}", item in trace.excluded)
        state = "" if tag else " left-out"
        rows.append(
            f'<tr class="fb-item graph{state}" data-item="{esc(item)}" tabindex="-1"><td>{badge}</td>'
            f"<td>{_fact(fact, corpus)}</td><td>{_place(fact.triple_ids[0], corpus)}{tick}</td></tr>"
        )
    head = "<thead><tr><th scope=col>tag</th><th scope=col>fact</th><th scope=col>from</th></tr></thead>"
    return (
        f'<table class="fb-table fb-facts"><caption class="fb-sr">Facts in the prompt</caption>{head}'
        f"<tbody>{''.join(rows)}</tbody></table>"
    )


def _bridges(found: GraphEvidence, trace: Trace, corpus: Corpus) -> str:
    """The passages that the walk brought in, each under the way to it."""
    if not found.bridges:
        return ""
    tags, stems = tags_by_item(trace.prompt), marks.question_stems(trace.question)
    best = chunks.best_scores(bridge.hit for bridge in found.bridges)
    rows = []
    for number, bridge in enumerate(found.bridges, len(found.facts) + 1):
        chunk = corpus.chunks[bridge.hit.item_id]
        page, tag = corpus.pages[chunk.page_id], tags.get(chunk.id, "")
        badge = f'<span class="fb-tag graph">{esc(tag)}</span>' if tag else '<span class="fb-tag none">left out</span>'
        taken = marks.cited_spans(chunk.text, marks.cited_sentences(trace, chunk.id))
        rows.append(
            f'<tr class="fb-item graph{"" if tag else " left-out"}" data-item="{esc(chunk.id)}" tabindex="-1">'
            f'<td>{badge}</td><td><div class="fb-meta">{page_button(page, corpus, chunk.id)}{licence_link(page, corpus)}'
            f"{leave_out(chunk.id, f'G{number}', chunk.id in trace.excluded)}</div>"
            f'<p class="fb-way">{_way(bridge, tags, corpus)}</p><p class="fb-passage" dir="auto">'
            f"{marks.marked(chunk.text, stems, taken, 'graph')}</p>{chunks.ranks(bridge.hit, best)}</td></tr>"
        )
    head = "<thead><tr><th scope=col>tag</th><th scope=col>bridged passage</th></tr></thead>"
    return (
        f'<table class="fb-table fb-facts fb-bridges"><caption class="fb-hint">{esc(words.BRIDGES)}</caption>{head}'
        f"<tbody>{''.join(rows)}</tbody></table>"
    )


def _way(bridge: Bridge, tags: Mapping[str, str], corpus: Corpus) -> str:
    """The stops from the question to a passage; what links two opens the sentence that says so. A fact that was walked from its object
    has its arrows turned."""
    found = ""
    for number, step in enumerate(bridge.path):
        if step.triple_id is not None:
            triple = corpus.triples[step.triple_id]
            before = bridge.path[number - 1]
            against = before.kind == step.kind == "entity" and triple.subject == step.name != before.name
            arrow = f' <span class="fb-arrow" aria-hidden="true">{"←" if against else "→"}</span> '
            found += (
                f'{arrow}<button type="button" class="fb-relation" data-said="{triple_item(step.triple_id)}"'
                f' aria-expanded="false" title="the sentence that says so">{name(triple.relation.strip() or "…")}</button>{arrow}'
            )
        elif number:
            found += ' <span class="fb-arrow" aria-hidden="true">→</span> '
        if step.kind == "entity":
            found += f"<b>{name(step.name)}</b>" if number == 0 else name(step.name)
        elif number + 1 < len(bridge.path):
            found += f"passage {tag_chip(tags[step.name], step.name)}" if step.name in tags else "a passage"
        else:
            found += "this passage"
    return found


def _fact(fact: Fact, corpus: Corpus) -> str:
    times = len(fact.triple_ids)
    more = f' <span class="fb-times" title="stated {times} times">×{times}</span>' if times > 1 else ""
    return _stated(fact.triple_ids[0], corpus) + more


def _stated(triple_id: int, corpus: Corpus) -> str:
    """Subject, relation, object; the relation opens the sentence that states them."""
    triple = corpus.triples[triple_id]
    relation = name(triple.relation if triple.relation.strip() else "…")
    button = (
        f'<button type="button" class="fb-relation" data-said="{triple_item(triple_id)}" aria-expanded="false"'
        f' title="the sentence that says so">{relation}</button>'
    )
    return f"{name(triple.subject)} {button} {name(triple.object)}"


def _place(triple_id: int, corpus: Corpus) -> str:
    page = corpus.pages[corpus.triples[triple_id].page_id]
    short = None if page.document == page.id else f"p. {page.number}"
    return page_button(page, corpus, triple_item(triple_id), short)


def _dropped(found: GraphEvidence, corpus: Corpus) -> str:
    total = sum(found.rejected_counts.values())
    if not total:
        return ""
    counts = {reason: count for reason, count in found.rejected_counts.items() if count}
    summary = "".join(f"<li>{esc(reason)} <b>{count:,}</b></li>" for reason, count in counts.items())
    groups, listed = "", 0
    for reason, count in counts.items():
        facts = [r.fact for r in found.rejected if r.reason == reason][:MAX_LISTED_DROPPED]
        listed += len(facts)
        groups += _group(reason, count, facts, corpus)
    more = f'<p class="fb-hint">{listed} of {total:,} are listed.</p>' if listed < total else ""
    head = "<thead><tr><th scope=col>fact</th><th scope=col>from</th></tr></thead>"
    table = (
        f'<table class="fb-table fb-facts dropped"><caption class="fb-sr">Facts dropped</caption>{head}{groups}</table>'
    )
    return (
        f'<details class="fb-dropped"><summary>{total:,} dropped <ul class="fb-reasons">{summary}</ul>'
        f"</summary>{table if listed else ''}{more}</details>"
    )


def _group(reason: str, count: int, facts: Sequence[Fact], corpus: Corpus) -> str:
    if not facts:
        return ""
    shown = f"{len(facts)} of {count:,}" if len(facts) < count else f"{count:,}"
    rows = "".join(
        f'<tr class="fb-dropped-fact"><td>{_fact(fact, corpus)}</td><td>{_place(fact.triple_ids[0], corpus)}</td></tr>'
        for fact in facts
    )
    return f'<tbody><tr><th colspan="2" scope="rowgroup">{esc(reason)} <b>{shown}</b></th></tr>{rows}</tbody>'


# --- what a click asks for -------------------------------------------------------------------------------------------


def statement(trace: Trace, corpus: Corpus, triple_id: int) -> str:
    """A triple with the sentence that states it, its page, and the way to the neighbours of both ends."""
    triple = corpus.triples[triple_id]
    item = triple_item(triple_id)
    fate = _fate(trace, triple_id)
    ends = "".join(
        _around_button(f"{end}:{triple_id}", entity, corpus.graph.neighbours(entity, 0).total, "fb-neighbour")
        for end, entity in (("s", triple.subject), ("o", triple.object))
        if entity.strip()
    )
    page = page_button(corpus.pages[triple.page_id], corpus, item)
    return (
        f'<div class="fb-said" data-fact="{esc(item)}"><p class="fb-said-head">{_words_of(triple)}'
        f'<span class="fb-fate">{esc(fate)}</span></p>{_sentence(triple, corpus)}'
        f'<p class="fb-said-foot"><span>Page: {page}</span><span class="fb-ends">Neighbours of {ends}</span></p></div>'
    )


def _words_of(triple: Triple) -> str:
    return f'<span>{name(triple.subject)} <span class="fb-relation">{name(triple.relation)}</span> {name(triple.object)}</span>'


def _fate(trace: Trace, triple_id: int) -> str:
    """What became of a triple in this answer."""
    found, tags = trace.evidence.graph, tags_by_item(trace.prompt)
    if found is None:
        return ""
    for fact in found.facts:
        if triple_id in fact.triple_ids:
            tag = tags.get(item_of(fact), "")
            return f"sent as {tag}" if tag else "left out"
    reason = next((r.reason for r in found.rejected if triple_id in r.fact.triple_ids), "")
    return f"dropped: {reason}" if reason else "a neighbour, not looked up for this question"


def _sentence(triple: Triple, corpus: Corpus) -> str:
    chunk = corpus.chunks[triple.chunk_id]
    said = stated(triple, chunk.text)
    if said is None:
        return f'<p class="fb-hint">{esc(words.NO_SENTENCE)}</p><blockquote dir="auto">{esc(chunk.text)}</blockquote>'
    page_text = corpus.page_text(chunk.page_id)
    start, end = widened(said, chunk, page_text)
    whole = (
        page_text[start:end] if page_text[chunk.start :].startswith(chunk.text) else chunk.text[said.start : said.end]
    )
    shift = chunk.start - start
    marks = [
        Marked(left + shift, right + shift, kind, kind)
        for kind, spans in (("subject", said.subject), ("object", said.object))
        for left, right in spans
    ]
    hint = "" if said.verbatim else f'<p class="fb-hint">{esc(words.CLOSEST_SENTENCE)}</p>'
    return f'{hint}<blockquote dir="auto">{layered(whole, marks)}</blockquote>'


def around(found: Neighbours, corpus: Corpus, matched: Iterable[str]) -> str:
    """The edges of one entity as a table, with the same for the drawing.

    Args:
        found: the edges, up to the limit.
        corpus: where they are.
        matched: the question's entities, which the drawing shows in their own way.
    """
    nodes: dict[str, dict[str, Any]] = {}
    edges = [_edge(nodes, triple_id, "neighbour", corpus) for triple_id in found.triple_ids]
    known = {node_id(entity) for entity in matched}
    for node in nodes.values():
        node["matched"] = node["id"] in known
    data = json.dumps({"nodes": list(nodes.values()), "edges": edges}, separators=(",", ":"))
    shown = len(found.triple_ids)
    count = f"showing {shown} of {found.total:,}" if shown < found.total else f"all {found.total:,}"
    rows = "".join(f"<tr><td>{_stated(n, corpus)}</td><td>{_place(n, corpus)}</td></tr>" for n in found.triple_ids)
    close = (
        '<button type="button" class="fb-small" data-around-close aria-label="Take these neighbours away">✕</button>'
    )
    return (
        f'<section class="fb-around" data-node="{node_id(found.entity)}" data-drawn="{esc(data)}"'
        f' data-told="{esc(f"Neighbours of {shorten(clean(found.entity))}: {count}")}">'
        f"<header><p>Neighbours of <b>{name(found.entity)}</b> <span>{count}</span></p>{close}</header>"
        f'<div class="fb-scroll" tabindex="0" role="region" aria-label="Neighbours, scrollable">'
        f'<table class="fb-table fb-facts dropped"><caption class="fb-sr">Neighbours</caption>'
        f"<thead><tr><th scope=col>fact</th><th scope=col>from</th></tr></thead><tbody>{rows}</tbody></table></div></section>"
    )


def _mode(found: GraphEvidence) -> str:
    """Where this answer's facts may come from, and a question about the other way."""
    asks = " ".join(
        f'<button type="button" class="fb-link" data-other-mode="{esc(other)}" aria-expanded="false">'
        f"What would “{esc(words.GRAPH_MODES[other])}” have sent?</button>"
        for other in others(found.mode)
    )
    return (
        f'<div class="fb-mode"><p>Facts from <b>{esc(words.GRAPH_MODES[found.mode])}</b>. {asks}</p>'
        f"<div data-graph-other></div></div>"
    )


def others(mode: str) -> tuple[str, ...]:
    """The other graph modes."""
    return tuple(other for other in words.GRAPH_MODES if other != mode)


def other_mode(trace: Trace, corpus: Corpus, mode: str, there: GraphEvidence) -> str:
    """What the lookup in another mode, just made, would have put into the prompt, against what this answer got.

    Args:
        trace: the answer.
        corpus: where the triples are.
        mode: the other mode.
        there: what would have been sent.
    """
    tags = tags_by_item(trace.prompt)
    found = trace.evidence.graph
    here = {fold(fact.text): fact for fact in (found.facts if found else ()) if item_of(fact) in tags}
    then = {fold(fact.text): fact for fact in there.facts}
    come = [fact for key, fact in then.items() if key not in here]
    go = [fact for key, fact in here.items() if key not in then]
    label = words.GRAPH_MODES[mode]
    told = (
        f"Looked up just now: “{label}” would have sent {plural(len(there.facts), 'fact')} instead of {len(here):,}; "
        f"{len(here) - len(go):,} the same, {len(come):,} new, {len(go):,} gone."
    )
    held = [b for b in (found.bridges if found else ()) if b.hit.item_id in tags]
    if there.bridges or held:
        told += f" Bridged passages: {len(there.bridges)} instead of {len(held)}."
    groups = _compared("new", come, corpus) + _compared("gone", go, corpus)
    groups += _bridged("bridged passages", there.bridges, corpus) + _bridged(
        "bridges gone", held, corpus, there.bridges
    )
    head = "<thead><tr><th scope=col>fact</th><th scope=col>from</th></tr></thead>"
    table = (
        f'<div class="fb-scroll" tabindex="0" role="region" aria-label="Differences, scrollable">'
        f'<table class="fb-table fb-facts dropped"><caption class="fb-sr">Differences</caption>{head}{groups}</table></div>'
    )
    return (
        f'<div class="fb-other" data-mode="{esc(mode)}"><p class="fb-hint">{esc(told)}</p>{table if groups else ""}'
        f'<p><button type="button" class="fb-small" data-set-mode="{esc(mode)}">Use “{esc(label)}” from the next question on'
        f"</button></p></div>"
    )


def _compared(what: str, facts: Sequence[Fact], corpus: Corpus) -> str:
    rows = "".join(
        f"<tr><td>{_fact(fact, corpus)}</td><td>{_place(fact.triple_ids[0], corpus)}</td></tr>" for fact in facts
    )
    return (
        f'<tbody><tr><th colspan="2" scope="rowgroup">{what} <b>{len(facts)}</b></th></tr>{rows}</tbody>'
        if rows
        else ""
    )


def _bridged(what: str, bridges: Sequence[Bridge], corpus: Corpus, but: Sequence[Bridge] = ()) -> str:
    """Passages by their first words, without those of ``but``."""
    known = {bridge.hit.item_id for bridge in but}
    listed = [corpus.chunks[b.hit.item_id] for b in bridges if b.hit.item_id not in known]
    rows = "".join(
        f"<tr><td>{bdi(shorten(chunk.text))}</td><td>{page_button(corpus.pages[chunk.page_id], corpus, chunk.id)}</td></tr>"
        for chunk in listed
    )
    head = f'<tr><th colspan="2" scope="rowgroup">{esc(what)} <b>{len(listed)}</b></th></tr>'
    return f"<tbody>{head}{rows}</tbody>" if rows else ""


def mode_set(mode: str) -> str:
    """The control was set."""
    return (
        f'<p class="fb-hint" data-mode-set="{esc(mode)}">{esc(words.MODE_SET.format(mode=words.GRAPH_MODES[mode]))}</p>'
    )


def refusal(message: str) -> str:
    """Why a click has no answer."""
    return f'<p class="fb-hint" role="alert" data-refused>{bdi(message)}</p>'

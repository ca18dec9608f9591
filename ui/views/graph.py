"""The graph column: a drawing in a sandboxed frame, and a table that says the same to those who can't use it.

The drawing's data travels in the frame's URL fragment, which no server sees; the frame (``ui/frame.py``) reads it as
JSON and hands labels and tooltips to vis-network as text.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import quote

from rag.corpus import Corpus
from rag.prompt import triple_item
from rag.types import Fact, GraphEvidence, Trace, Triple
from ui import text as words
from ui.views.markup import (
    clean,
    column,
    empty,
    esc,
    name,
    page_button,
    plural,
    shorten,
    tags_by_item,
)

FRAME_URL = "fusebox/graph"
MAX_DRAWN_DROPPED = 12
MAX_LISTED_DROPPED = 200
MAX_LABEL_CHARS = 24
MAX_EDGE_LABEL_CHARS = 22


def render(trace: Trace | None, corpus: Corpus) -> str:
    """The column for a trace, or what it will hold."""
    total = plural(len(corpus.triples), "triple")
    if trace is None:
        return column("graph", "Graph", total, empty(words.WAITING["graph"]))
    if "graph" not in trace.system.branches:
        return column("graph", "Graph", "off", empty(words.OFF["graph"]))
    found = trace.evidence.graph
    if found is None:
        return column("graph", "Graph", total, empty(words.WAITING["graph"]))
    dropped = sum(found.rejected_counts.values())
    count = f"{plural(len(found.facts), 'fact')} sent · {dropped:,} dropped"
    if not found.entities and not found.rejected:
        return column("graph", "Graph", count, empty(words.NOTHING["graph"]))
    body = _entities(found) + _drawing(found, trace, corpus) + _sent(found, trace, corpus) + _dropped(found, corpus)
    return column("graph", "Graph", count, body)


def _entities(found: GraphEvidence) -> str:
    if not found.entities:
        return ""
    chips = "".join(f"<li>{name(entity)}</li>" for entity in found.entities)
    none = f'<p class="fb-hint">{esc(words.NO_FACT)}</p>' if not found.facts else ""
    return f'<ul class="fb-entities" aria-label="Entities in the question">{chips}</ul>{none}'


def _drawing(found: GraphEvidence, trace: Trace, corpus: Corpus) -> str:
    data = payload(found, trace, corpus)
    source = f"{FRAME_URL}#{quote(json.dumps(data, ensure_ascii=True, separators=(',', ':')), safe='')}"
    drawn = sum(1 for edge in data["edges"] if not edge["sent"])
    total = sum(found.rejected_counts.values())
    toggle = ""
    if drawn:
        limit = f"{drawn} of {total:,}" if drawn < total else f"{total:,}"
        state = "" if found.facts else " checked"
        box = f'<input type="checkbox" data-graph-dropped{state}>'
        toggle = f'<label class="fb-check">{box} draw dropped facts ({limit})</label>'
    title = f"Drawing of {plural(len(found.facts), 'fact')}; the table below says the same"
    return (
        f'<div class="fb-graph"><iframe sandbox="allow-scripts" tabindex="-1" src="{esc(source)}" title="{esc(title)}"'
        f' referrerpolicy="no-referrer" '
        f'loading="lazy"></iframe>{toggle}</div>'
    )


def payload(found: GraphEvidence, trace: Trace, corpus: Corpus) -> dict[str, Any]:
    """Nodes and edges for the frame; every string is cut and clean, and stays text there."""
    tags = tags_by_item(trace.prompt)
    matched = {entity.casefold() for entity in found.entities}
    nodes: dict[str, dict[str, Any]] = {}
    edges: list[dict[str, Any]] = []
    sent = [(fact, "") for fact in found.facts]
    dropped = [(r.fact, r.reason) for r in found.rejected if r.reason != "duplicate"][:MAX_DRAWN_DROPPED]
    for fact, reason in (*sent, *dropped):
        triple = corpus.triples[fact.triple_ids[0]]
        ends = [_node(nodes, end, matched, sent=not reason) for end in (triple.subject, triple.object)]
        edges.append(_edge(ends, fact, triple, reason, tags))
    for entity in found.entities:
        if entity.casefold() not in nodes:
            _node(nodes, entity, matched, sent=True)
    return {"nodes": list(nodes.values()), "edges": edges, "dropped": not found.facts}


def _node(nodes: dict[str, dict[str, Any]], entity: str, matched: Iterable[str], *, sent: bool) -> int:
    key = " ".join(entity.split()).casefold()
    node = nodes.setdefault(
        key,
        {
            "id": len(nodes),
            "label": shorten(clean(entity), MAX_LABEL_CHARS),
            "title": shorten(clean(entity), 300),
            "matched": key in matched,
            "sent": False,
        },
    )
    node["sent"] = node["sent"] or sent
    identity: int = node["id"]
    return identity


def _edge(ends: list[int], fact: Fact, triple: Triple, reason: str, tags: Mapping[str, str]) -> dict[str, Any]:
    item = triple_item(fact.triple_ids[0])
    tag = "" if reason else tags.get(item, "")
    told = f"{triple.subject} · {triple.relation} · {triple.object}"
    return {
        "from": ends[0],
        "to": ends[1],
        "label": shorten(clean(triple.relation), MAX_EDGE_LABEL_CHARS),
        "title": shorten(clean(f"{tag} {told}".strip() + (f" (dropped: {reason})" if reason else "")), 400),
        "sent": not reason,
        "item": item,
    }


def _sent(found: GraphEvidence, trace: Trace, corpus: Corpus) -> str:
    if not found.facts:
        return ""
    tags = tags_by_item(trace.prompt)
    rows = []
    for fact in found.facts:
        item = triple_item(fact.triple_ids[0])
        tag = tags.get(item, "")
        badge = f'<span class="fb-tag graph">{esc(tag)}</span>' if tag else ""
        rows.append(
            f'<tr class="fb-item graph" data-item="{esc(item)}" tabindex="-1"><td>{badge}</td>'
            f"<td>{_fact(fact, corpus)}</td>"
            f"<td>{_place(fact, corpus)}</td></tr>"
        )
    head = "<thead><tr><th scope=col>tag</th><th scope=col>fact sent</th><th scope=col>from</th></tr></thead>"
    return (
        f'<table class="fb-table fb-facts"><caption class="fb-sr">Facts in the prompt</caption>{head}'
        f"<tbody>{''.join(rows)}</tbody></table>"
    )


def _fact(fact: Fact, corpus: Corpus) -> str:
    triple = corpus.triples[fact.triple_ids[0]]
    parts = (name(triple.subject), f'<span class="fb-relation">{name(triple.relation)}</span>', name(triple.object))
    times = (
        f' <span class="fb-times" title="stated {len(fact.triple_ids)} times">×{len(fact.triple_ids)}</span>'
        if len(fact.triple_ids) > 1
        else ""
    )
    return f"{' '.join(parts)}{times}"


def _place(fact: Fact, corpus: Corpus) -> str:
    page = corpus.pages[corpus.triples[fact.triple_ids[0]].page_id]
    item = triple_item(fact.triple_ids[0])
    short = None if page.document == page.id else f"p. {page.number}"
    return page_button(page, corpus, item, short)


def _dropped(found: GraphEvidence, corpus: Corpus) -> str:
    total = sum(found.rejected_counts.values())
    if not total:
        return ""
    counts = "".join(
        f"<li>{esc(reason)} <b>{count:,}</b></li>" for reason, count in found.rejected_counts.items() if count
    )
    listed = found.rejected[:MAX_LISTED_DROPPED]
    rows = "".join(
        f"<tr><td>{_fact(r.fact, corpus)}</td><td class=fb-dropwhy>{esc(r.reason)}</td><td>{_place(r.fact, corpus)}</td></tr>"
        for r in listed
    )
    more = f'<p class="fb-hint">{len(listed)} of {total:,} are listed.</p>' if len(listed) < total else ""
    head = "<thead><tr><th scope=col>fact</th><th scope=col>why it was dropped</th><th scope=col>from</th></tr></thead>"
    table = (
        '<table class="fb-table fb-facts dropped"><caption class="fb-sr">Facts dropped</caption>'
        f"{head}<tbody>{rows}</tbody></table>"
    )
    return (
        f'<details class="fb-dropped"><summary>{total:,} dropped <ul class="fb-reasons">{counts}</ul>'
        f"</summary>{table if rows else ''}{more}</details>"
    )

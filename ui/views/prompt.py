"""The prompt exactly as it was sent, segment by segment, and the trace to take along."""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence

from rag import trace as traces
from rag.types import Segment, Trace
from ui.views.markup import BRANCH_OF_SEGMENT, esc, plural

_UNSAFE_IN_NAMES = re.compile(r"[^a-z0-9]+")


def render(trace: Trace, tokens: Sequence[int], unfinished: bool = False) -> str:
    """A fold-out with every segment, its tag and its estimated tokens; the trace to take along once it is ``unfinished`` no
    more."""
    if trace.prompt is None:
        return ""
    segments = trace.prompt.segments
    rows = "".join(_segment(segment, count) for segment, count in zip(segments, tokens, strict=True))
    told = f"{plural(len(segments), 'segment')} · ≈ {sum(tokens):,} tokens"
    return (
        f'<section class="fb-card fb-prompt" aria-label="Prompt and trace"><details><summary><h2>Prompt as sent</h2>'
        f'<span class="fb-count">{told}</span></summary><div class="fb-segments">{rows}</div>'
        f"</details>{'' if unfinished else _download(trace)}</section>"
    )


def empty() -> str:
    """Before the first question there is nothing to show."""
    return ""


def _segment(segment: Segment, tokens: int) -> str:
    kind = BRANCH_OF_SEGMENT[segment.kind]
    tag = f'<span class="fb-tag {kind}">{esc(segment.tag)}</span>' if segment.tag else ""
    count = "not known" if segment.kind == "image" and not tokens else f"≈ {tokens:,}"
    return (
        f'<div class="fb-segment {kind}"><div class="fb-meta"><span>{esc(segment.kind)}</span>{tag}'
        f'<span class="fb-score">{count}</span></div>'
        f'<pre dir="auto">{esc(segment.text)}</pre></div>'
    )


def file_name(trace: Trace) -> str:
    """A name that tells questions apart and that every file system takes."""
    slug = _UNSAFE_IN_NAMES.sub("-", trace.question.casefold())[:48].strip("-") or "question"
    day = _UNSAFE_IN_NAMES.sub("-", trace.created[:10])
    return f"fusebox-{day}-{slug}-{trace.id[:8]}.json"


def _download(trace: Trace) -> str:
    """The trace inside its own link: no temporary file, nothing left on the server."""
    document = traces.dumps(trace).encode("utf-8", "replace")
    data = base64.b64encode(document).decode("ascii")
    return (
        f'<a class="fb-button" id="fb-trace" download="{esc(file_name(trace))}"'
        f' href="data:application/json;base64,{data}">'
        f"Download trace <span>JSON, {len(document) / 1000:.0f} kB</span></a>"
    )

"""The prompt exactly as it was sent, segment by segment; what changed in it since the previous ask; the trace to take along."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from rag import trace as traces
from rag.types import Segment, Trace
from ui import text as words
from ui.views.markup import BRANCH_OF_SEGMENT, bdi, esc, plural, shorten

_UNSAFE_IN_NAMES = re.compile(r"[^a-z0-9]+")


State = Literal["came", "went", "moved", "changed", "stayed"]

SIGNS: dict[State, str] = {"came": "+", "went": "−", "moved": "↕", "changed": "≠", "stayed": "="}


@dataclass(frozen=True, slots=True)
class Change:
    """What became of a segment: ``before`` and ``after`` with their estimated tokens, ``None`` where a prompt did not hold it.
    ``moved``: the same words under another tag."""

    state: State
    before: tuple[Segment, int] | None
    after: tuple[Segment, int] | None

    @property
    def tokens(self) -> int:
        """Tokens more than before."""
        return (self.after[1] if self.after else 0) - (self.before[1] if self.before else 0)


def difference(before: Iterable[tuple[Segment, int]], after: Iterable[tuple[Segment, int]]) -> tuple[Change, ...]:
    """Segments with their tokens, of two prompts -> one change each, in the order of the later prompt; what went stands behind
    what it followed."""
    old, new = ({(segment.kind, segment.item_id): (segment, n) for segment, n in side} for side in (before, after))
    followers: dict[tuple[str, str] | None, list[Change]] = {}
    last: tuple[str, str] | None = None
    for key, held in old.items():
        if key in new:
            last = key
        else:
            followers.setdefault(last, []).append(Change("went", held, None))
    changes = followers.get(None, [])
    for key, held in new.items():
        changes.append(Change(_state(old.get(key), held), old.get(key), held))
        changes += followers.get(key, [])
    return tuple(changes)


def _state(before: tuple[Segment, int] | None, after: tuple[Segment, int]) -> State:
    if before is None:
        return "came"
    old, new = before[0], after[0]
    if old.text == new.text:
        return "stayed"
    same = old.text.removeprefix(f"[{old.tag}]") == new.text.removeprefix(f"[{new.tag}]")
    return "moved" if same and old.tag != new.tag else "changed"


def render(
    trace: Trace,
    tokens: Sequence[int],
    unfinished: bool = False,
    previous: Trace | None = None,
    before: Sequence[int] = (),
    told: str = "",
) -> str:
    """A fold-out with every segment, its tag and its estimated tokens; the trace to take along once it is ``unfinished`` no
    more.

    Args:
        trace: finished or not.
        tokens: estimated tokens per segment of its prompt.
        unfinished: whether it goes on.
        previous: the ask to compare with, if that is wanted.
        before: estimated tokens per segment of the previous prompt.
        told: why there is nothing to compare with, in one sentence.
    """
    if trace.prompt is None:
        return ""
    segments = trace.prompt.segments
    compared = previous is not None and previous.prompt is not None
    if previous is not None and previous.prompt is not None:
        held = tuple(zip(previous.prompt.segments, before, strict=True))
        rows = _compared(previous, difference(held, zip(segments, tokens, strict=True)), sum(before), sum(tokens))
    else:
        rows = "".join(_segment(segment, count) for segment, count in zip(segments, tokens, strict=True))
    counted = f"{plural(len(segments), 'segment')} · ≈ {sum(tokens):,} tokens"
    return (
        f'<section class="fb-card fb-prompt" aria-label="Prompt and trace">'
        f'<details data-keep="prompt"{" open" if compared or told else ""}><summary><h2>Prompt as sent</h2>'
        f'<span class="fb-count">{counted}</span></summary>{"" if unfinished else _toggle(compared, told)}'
        f'<div class="fb-segments">{rows}</div></details>{"" if unfinished else _download(trace)}</section>'
    )


def _toggle(compared: bool, told: str) -> str:
    state = " checked" if compared else ""
    note = f'<p class="fb-hint" role="status">{esc(told)}</p>' if told else ""
    return f'<label class="fb-check"><input type="checkbox" data-compare-prompt{state}> {esc(words.COMPARED)}</label>{note}'


def _compared(previous: Trace, changes: Sequence[Change], before: int, after: int) -> str:
    counts = {state: sum(change.state == state for change in changes) for state in SIGNS}
    parts = ", ".join(f"{count} {state}" for state, count in counts.items() if count)
    sums = f"≈ {before:,} → {after:,} tokens ({_more(after - before) or '±0'})"
    head = f'<p class="fb-hint">{bdi(shorten(previous.question))} ({esc(previous.system.name)}): {esc(parts)}; {esc(sums)}</p>'
    return head + "".join(map(_change, changes))


def _more(tokens: int) -> str:
    """A signed count, or nothing where nothing changed."""
    return f"{tokens:+,}".replace("-", "−") if tokens else ""


def _change(change: Change) -> str:
    """What stayed in one line, all else with its words, crossed out where they went."""
    held = change.after or change.before
    if held is None:
        return ""
    kind = BRANCH_OF_SEGMENT[held[0].kind]
    texts = ""
    if change.before and change.state in ("went", "changed"):
        texts += f'<pre dir="auto"><del>{esc(change.before[0].text.rstrip())}</del></pre>'
    if change.after and change.state in ("came", "changed"):
        texts += f'<pre dir="auto"><ins>{esc(change.after[0].text.rstrip())}</ins></pre>'
    tags = dict.fromkeys(side[0].tag for side in (change.before, change.after) if side and side[0].tag)
    chips = " → ".join(f'<span class="fb-tag {kind}">{esc(tag)}</span>' for tag in tags)
    return (
        f'<div class="fb-segment {kind} {change.state}"><div class="fb-meta">'
        f'<span class="fb-sign" aria-hidden="true">{SIGNS[change.state]}</span><span>{esc(held[0].kind)}</span>{chips}'
        f'<span>{change.state}</span><span class="fb-score">{_more(change.tokens)}</span></div>{texts}</div>'
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

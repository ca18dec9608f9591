"""This session's questions, and the ways in and out: load a trace, copy a link."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass

from rag import trace as traces
from rag.types import Trace
from ui import text as words
from ui.views.markup import bdi, esc, plural, shorten

MAX_SHOWN_CHARS = 140


@dataclass(frozen=True, slots=True)
class Entry:
    """An answered question as a session keeps it: packed, since a session keeps many and a process many sessions."""

    id: str
    question: str
    system: str
    generator: str
    answer: str
    time: str
    packed: bytes
    loaded: bool = False

    @classmethod
    def of(cls, trace: Trace, loaded: bool = False, label: str = "") -> Entry:
        """The entry of a trace; ``loaded`` from a file and not answered here, ``label`` the name of its generator on the page."""
        generation = trace.generation
        said = "" if generation is None else generation.error if generation.finish == "error" else generation.text
        left_out = f" without {plural(len(trace.excluded), 'item')}" if trace.excluded else ""
        packed = zlib.compress(traces.dumps(trace).encode("utf-8", "replace"))
        return cls(
            trace.id,
            shorten(trace.question, MAX_SHOWN_CHARS),
            trace.system.name + left_out,
            label or trace.generator,
            shorten(said, MAX_SHOWN_CHARS),
            trace.created[11:19],
            packed,
            loaded,
        )

    def trace(self) -> Trace:
        """The trace again, whole."""
        return traces.loads(zlib.decompress(self.packed))


def render(entries: Sequence[Entry], shown: str = "", told: str = "", bad: bool = False) -> str:
    """The card.

    Args:
        entries: newest last.
        shown: id of the answer that stands above.
        told: what the last load or link came to, in a sentence.
        bad: whether that is a refusal.
    """
    role = "alert" if bad else "status"
    line = f'<p class="fb-told{" bad" if bad else ""}" role="{role}">{esc(told)}</p>' if told else ""
    return (
        f'<section class="fb-card fb-history" aria-label="Questions of this session">{_list(entries, shown)}{line}'
        f'<div class="fb-buttons"><button type="button" class="fb-button" data-trace-load>{esc(words.LOAD_TRACE)}</button>'
        f'<input type="file" accept=".json,application/json" hidden data-trace-file aria-label="{esc(words.LOAD_TRACE)}">'
        f'<button type="button" class="fb-button" data-copy-link>{esc(words.COPY_LINK)}</button>'
        f'<input type="text" class="fb-link-field" readonly hidden data-link aria-label="Link">'
        f'<span class="fb-told" role="status" data-link-told></span></div></section>'
    )


def _list(entries: Sequence[Entry], shown: str) -> str:
    if not entries:
        return ""
    rows = "".join(_row(entry, entry.id == shown) for entry in reversed(entries))
    head = "".join(f"<th scope=col>{name}</th>" for name in ("question", "system", "generator", "answer", "UTC", ""))
    return (
        f'<details><summary><h2>{esc(words.HISTORY)}</h2><span class="fb-count">{len(entries)}</span></summary>'
        f'<div class="fb-scroll" tabindex="0" role="region" aria-label="{esc(words.HISTORY)}"><table class="fb-table">'
        f"<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div></details>"
    )


def _row(entry: Entry, shown: bool) -> str:
    if shown:
        restore = '<span class="fb-count">shown</span>'
    else:
        label = esc(f"Restore: {shorten(entry.question, 60)}")
        restore = f'<button type="button" class="fb-small" data-restore="{esc(entry.id)}" aria-label="{label}">restore</button>'
    origin = f'<span class="fb-count">{esc(words.FROM_FILE)}</span> ' if entry.loaded else ""
    cells = (
        origin + bdi(entry.question),
        esc(entry.system),
        esc(shorten(entry.generator, 40)),
        bdi(entry.answer),
        esc(entry.time),
    )
    return f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}<td>{restore}</td></tr>"

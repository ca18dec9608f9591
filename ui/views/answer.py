"""The answer card: answer, abstention, partial answer and error, each told apart at a glance, and the gate's
decision."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from rag.difference import Span
from rag.types import Citation, GateDecision, Trace
from ui import text as words
from ui.views import settings
from ui.views.markup import esc, left_out_tags, plural, tag_chip

_SEPARATOR = re.compile(r"\s*[,;]?\s*")

ICONS = {"gate": "◧", "abstained": "∅", "error": "!", "partial": "◔", "waiting": "◷"}


def empty(documents: int) -> str:
    """Before the first question."""
    steps = "".join(
        f'<li class="{branch}"><b>{esc(title)}</b> {esc(told)}</li>' for branch, (title, told) in words.BRANCHES.items()
    )
    intro = esc(words.EMPTY.format(documents=plural(documents, "document")))
    return _card("empty", "Answer", "", f'<p class="fb-lead">{intro}</p><ul class="fb-branches">{steps}</ul>', "")


def problem(message: str) -> str:
    """A request that never became a trace: says what is wrong and what to do."""
    return _card("error", "No answer", "", _error(message), message)


def reading() -> str:
    """From the click until the evidence is there."""
    return _card("reading", *_TITLES["reading"], _WAIT, "")


def render(trace: Trace, generator_label: str, running: bool, origin: str = "") -> str:
    """The card for a trace, finished or not; ``origin`` says where it comes from, if it was not answered here."""
    kind = state(trace, running)
    title, status = _TITLES[kind]
    waiting = trace.generation.waiting if running and trace.generation else ""
    if kind in _WITHHELD and not (trace.generation and trace.generation.text.strip()):
        title, status = _WITHHELD[kind]
    body = _BODIES.get(kind, _said)(trace)
    gate = gate_line(trace.evidence.gate)
    spoken = waiting if running else f"{title}. {trace.generation.text if trace.generation else ''}"
    warning = f'<p class="fb-note" role="note">{esc(origin)}</p>' if origin else ""
    body = warning + body + _left_out(trace) + gate
    # The system too, since the switches may have been moved since.
    shown = " · ".join(filter(None, (trace.system.name, generator_label, status)))
    asked = "" if running else settings.asked_with(trace, generator_label)
    return _card(kind, title, shown, body, spoken, trace.id, asked)


def _left_out(trace: Trace) -> str:
    """That this answer is one of less evidence than was found."""
    if not trace.excluded:
        return ""
    tags = ", ".join(left_out_tags(trace).values()) or plural(len(trace.excluded), "item")
    return f'<p class="fb-hint">{esc(words.ANSWERED_WITHOUT[trace.refill].format(tags=tags))}</p>'


def side(trace: Trace, changed: Sequence[Span] = (), element: str = "ins", running: bool = False) -> str:
    """The answer alone, for a comparison; ``changed`` words are marked as ``element`` (``ins`` or ``del``)."""
    kind = state(trace, running)
    if kind == "answered":
        return _said(trace, changed, element)
    return _SAID_NOTHING if kind == "abstained" else _BODIES[kind](trace)


def face(trace: Trace, running: bool = False) -> str:
    """What kind of end this is, in a few words; empty for a whole answer."""
    kind = state(trace, running)
    said = bool(trace.generation and trace.generation.text.strip())
    title, status = _TITLES[kind] if said or kind not in _WITHHELD else _WITHHELD[kind]
    return " · ".join(word for word in (title if title != "Answer" else "", status) if word)


def state(trace: Trace, running: bool) -> str:
    """Which of the card's faces this trace has."""
    generation = trace.generation
    if running and (generation is None or generation.finish is None):
        return "reading" if generation is None or not generation.text else "streaming"
    if generation is None:
        return "stopped" if trace.prompt is None else "unasked"
    if generation.finish in ("error", None):
        return "error"
    if generation.abstained:
        return "abstained"
    return {"length": "cut", "content_filter": "filtered", "cancelled": "stopped"}.get(generation.finish, "answered")


_TITLES: dict[str, tuple[str, str]] = {
    "reading": ("Answer", "reading the evidence …"),
    "streaming": ("Answer", "writing …"),
    "answered": ("Answer", ""),
    "abstained": ("No answer in the evidence", ""),
    "stopped": ("Partial answer", "stopped"),
    "cut": ("Partial answer", "cut at the token limit"),
    "filtered": ("Partial answer", "cut by the provider's filter"),
    "error": ("No answer", "failed"),
    "unasked": ("Not answered", "nobody was asked"),
}


_WITHHELD: dict[str, tuple[str, str]] = {
    "cut": ("No answer", "reached the token limit"),
    "filtered": ("No answer", "withheld by the provider's filter"),
    "stopped": ("No answer", "stopped"),
}
"""Ends without a word of an answer: there is nothing partial about them."""


def _said(trace: Trace, changed: Sequence[Span] = (), element: str = "ins") -> str:
    text = trace.generation.text if trace.generation else ""
    if not text.strip():
        return ""
    return f'<p class="fb-answer" dir="auto">{with_chips(text, trace.citations, changed, element)}</p>'


def _unasked(trace: Trace) -> str:
    return f'<p class="fb-hint">{esc(words.UNASKED)}</p>'


def _answered(trace: Trace) -> str:
    if any(citation.item_id for citation in trace.citations):
        return _said(trace)
    return f'{_said(trace)}<p class="fb-hint">{esc(words.UNCITED)}</p>'


_WAIT = '<p class="fb-answer"><span class="fb-caret"></span></p>'


def _reading(trace: Trace) -> str:
    waiting = trace.generation.waiting if trace.generation else ""
    if not waiting:
        return _WAIT
    icon = f'<span class="fb-icon" aria-hidden="true">{ICONS["waiting"]}</span>'
    return f'{_WAIT}<p class="fb-hint fb-waiting">{icon}{esc(waiting)}</p>'


def _streaming(trace: Trace) -> str:
    return _said(trace).replace("</p>", '<span class="fb-caret"></span></p>')


_SAID_NOTHING = f'<p class="fb-answer"><span class="fb-icon">{ICONS["abstained"]}</span>{esc(words.ABSTAINED)}</p>'


def _abstained(trace: Trace) -> str:
    return f'{_SAID_NOTHING}<p class="fb-hint">{esc(_what_to_try(trace))}</p>'


def _what_to_try(trace: Trace) -> str:
    off = [words.SWITCHES[branch] for branch in ("graph", "visual") if branch not in trace.system.branches]
    return words.TRY_SWITCH.format(switches=" or ".join(off)) if off else words.TRY_MORE


def _partial(trace: Trace) -> str:
    said = trace.generation.notice if trace.generation else ""
    shown = _said(trace)
    why = said or (words.PARTIAL if shown else words.EMPTY_END)[state(trace, running=False)]
    return f'{shown}<p class="fb-hint fb-why"><span class="fb-icon">{ICONS["partial"]}</span>{esc(why)}</p>'


def _failed(trace: Trace) -> str:
    message = trace.generation.error if trace.generation else ""
    said = _said(trace)
    return _error(message or words.ERROR_UNKNOWN) + (
        f'<p class="fb-hint">{esc(words.BEFORE_ERROR)}</p>{said}' if said else ""
    )


def _error(message: str) -> str:
    icon = f'<span class="fb-icon" aria-hidden="true">{ICONS["error"]}</span>'
    return f'<p class="fb-answer" role="alert">{icon}<span dir="auto">{esc(message)}</span></p>'


_BODIES = {
    "answered": _answered,
    "reading": _reading,
    "streaming": _streaming,
    "abstained": _abstained,
    "stopped": _partial,
    "cut": _partial,
    "filtered": _partial,
    "error": _failed,
    "unasked": _unasked,
}


def with_chips(
    text: str,
    citations: tuple[Citation, ...],
    changed: Sequence[Span] = (),
    element: str = "ins",
    chip: Callable[[str, str], str] = tag_chip,
) -> str:
    """The answer with a chip (made from tag and item id) in place of every cited tag; ``[T1, G2]`` becomes two chips. Spans of
    ``text`` that ``changed`` names are marked as ``element``."""
    pieces, position = [], 0
    for number, citation in enumerate(citations):
        between = text[position : citation.start]
        if not number or not _SEPARATOR.fullmatch(between):
            start = position + (number > 0 and between.startswith("]"))
            end = citation.start - between.endswith("[")
            pieces.append(_marked(text, start, end, changed, element))
        pieces.append(chip(citation.tag, citation.item_id))
        position = citation.end
    start = position + (bool(citations) and text.startswith("]", position))
    pieces.append(_marked(text, start, len(text), changed, element))
    return "".join(pieces)


def _marked(text: str, start: int, end: int, changed: Sequence[Span], element: str) -> str:
    pieces = []
    for first, last in changed:
        first, last = max(first, start), min(last, end)
        if first < last:
            pieces.append(f"{esc(text[start:first])}<{element}>{esc(text[first:last])}</{element}>")
            start = last
    return "".join(pieces) + esc(text[start:end])


def gate_line(gate: GateDecision | None) -> str:
    """The decision in one sentence, its signals on demand."""
    if gate is None:
        return ""
    sentence = f'<span class="fb-icon" aria-hidden="true">{ICONS["gate"]}</span>{esc(gate.reason)}'
    if not gate.signals:
        return f'<div class="fb-gate"><p>{sentence}</p></div>'
    rows = "".join(f"<div><dt>{esc(s.name)}</dt><dd>{esc(s.value)}</dd></div>" for s in gate.signals)
    return (
        f'<div class="fb-gate"><p>{sentence}</p><details><summary>signals</summary>'
        f'<dl class="fb-signals" aria-label="What the gate looked at">{rows}</dl></details></div>'
    )


def _card(kind: str, title: str, status: str, body: str, spoken: str, trace_id: str = "", asked: str = "") -> str:
    # Filled by the page's script, once the controls say something else than they said when this was asked.
    outdated = '<p class="fb-hint fb-outdated" data-outdated hidden></p>' if asked else ""
    return (
        f'<section class="fb-card fb-answer-card {kind}" data-state="{kind}" data-spoken="{esc(spoken)}"'
        f' data-trace="{esc(trace_id)}" data-asked="{esc(asked)}" aria-labelledby="fb-answer-title">'
        f'<header><h2 id="fb-answer-title">{esc(title)}</h2><span class="fb-count">{esc(status)}</span>'
        f"</header>{outdated}{body}</section>"
    )

"""The answer card: answer, abstention, partial answer and error, each told apart at a glance, and the gate's
decision."""

from __future__ import annotations

import re

from rag.types import Citation, GateDecision, Trace
from ui import text as words
from ui.views.markup import esc, plural, tag_chip

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


def stopped_early() -> str:
    """Stopped before anything was found."""
    return _card(
        "stopped", *_TITLES["stopped"], f'<p class="fb-hint">{esc(words.STOPPED_EARLY)}</p>', words.STOPPED_EARLY
    )


def render(trace: Trace, generator_label: str, running: bool) -> str:
    """The card for a trace, finished or not."""
    kind = state(trace, running)
    title, status = _TITLES[kind]
    waiting = trace.generation.waiting if running and trace.generation else ""
    if kind in _WITHHELD and not (trace.generation and trace.generation.text.strip()):
        title, status = _WITHHELD[kind]
    body = _BODIES.get(kind, _said)(trace)
    gate = gate_line(trace.evidence.gate)
    spoken = waiting if running else f"{title}. {trace.generation.text if trace.generation else ''}"
    return _card(kind, title, generator_label if not status else f"{generator_label} · {status}", body + gate, spoken)


def state(trace: Trace, running: bool) -> str:
    """Which of the card's faces this trace has."""
    generation = trace.generation
    if running and (generation is None or generation.finish is None):
        return "reading" if generation is None or not generation.text else "streaming"
    if generation is None:
        return "stopped"
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
}


_WITHHELD: dict[str, tuple[str, str]] = {
    "cut": ("No answer", "reached the token limit"),
    "filtered": ("No answer", "withheld by the provider's filter"),
    "stopped": ("No answer", "stopped"),
}
"""Ends without a word of an answer: there is nothing partial about them."""


def _said(trace: Trace) -> str:
    text = trace.generation.text if trace.generation else ""
    return f'<p class="fb-answer" dir="auto">{with_chips(text, trace.citations)}</p>' if text.strip() else ""


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


def _abstained(trace: Trace) -> str:
    return (
        f'<p class="fb-answer"><span class="fb-icon">{ICONS["abstained"]}</span>{esc(words.ABSTAINED)}</p>'
        f'<p class="fb-hint">{esc(_what_to_try(trace))}</p>'
    )


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
}


def with_chips(text: str, citations: tuple[Citation, ...]) -> str:
    """The answer with a chip in place of every cited tag; ``[T1, G2]`` becomes two chips."""
    pieces, position = [], 0
    for number, citation in enumerate(citations):
        between = text[position : citation.start]
        first = not number or not _SEPARATOR.fullmatch(between)
        if first:
            pieces.append(esc(_closed(between, number).removesuffix("[")))
        pieces.append(tag_chip(citation.tag, citation.item_id))
        position = citation.end
    pieces.append(esc(_closed(text[position:], len(citations))))
    return "".join(pieces)


def _closed(between: str, number: int) -> str:
    """Text after a chip without the bracket that closed its tag."""
    return between.removeprefix("]") if number else between


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


def _card(kind: str, title: str, status: str, body: str, spoken: str) -> str:
    return (
        f'<section class="fb-card fb-answer-card {kind}" data-state="{kind}" data-spoken="{esc(spoken)}"'
        f' aria-labelledby="fb-answer-title">'
        f'<header><h2 id="fb-answer-title">{esc(title)}</h2><span class="fb-count">{esc(status)}</span>'
        f"</header>{body}</section>"
    )

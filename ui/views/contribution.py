"""Did the graph and the figures help? The four systems' answers to one question, and what each branch did in one sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rag import compare
from rag.contribution import ALONE, OTHER, Contribution, Effect, right
from rag.evaluate.questions import UNANSWERABLE, Question
from rag.generators.spec import GeneratorSpec
from rag.types import Trace
from ui import text as words
from ui.views import answer
from ui.views.markup import bdi, esc, milliseconds, plural, shorten

MAX_ANSWER_CHARS = 140
STRENGTH: tuple[Effect, ...] = ("same", "changed", "righted", "wronged")
"""From the least that can be said of a branch to the most."""


def offer(trace: Trace, reader: GeneratorSpec | None) -> str:
    """What can be found out about a finished answer, and who would be asked; nothing where nobody can be asked for free, or part of the
    evidence was left out by hand."""
    if reader is None or trace.excluded or trace.prompt is None or not (trace.generation and trace.generation.finish):
        return ""
    told = words.HELPED_OFFER.format(reader=reader.label)
    button = f'<button type="button" class="fb-button fb-strong" data-helped="ask">{esc(words.HELPED)}</button>'
    return _card("offer", trace.id, f'<p class="fb-hint">{esc(told)}</p>{button}')


def asking(trace: Trace) -> str:
    """From the press until all four have answered."""
    return _card(
        "running", trace.id, f'<p class="fb-hint">{esc(words.HELPED_ASKING)}<span class="fb-caret"></span></p>'
    )


def problem(message: str, of: str = "") -> str:
    """Nothing could be asked: says what is wrong and what to do."""
    return _card("problem", of, f'<p class="fb-note" role="alert">{bdi(message)}</p>{_CLOSE}')


def render(
    shown: Trace, traces: Sequence[Trace], found: Sequence[Contribution], reference: Question | None, label: str
) -> str:
    """The verdict on ``shown``.

    Args:
        shown: the answer on the page.
        traces: the four systems' answers, in their order.
        found: what each branch did; empty where a call failed.
        reference: the question's entry in the question set, if it has one.
        label: the generator's that answered the four.
    """
    by_name = {trace.system.name: trace for trace in traces}
    headline = headline_of(by_name, found, reference)
    lines = "".join(f'<li class="{one.branch} {strongest(one)}">{esc(sentence(one))}</li>' for one in found)
    cells = "".join(_cell(number, trace, shown, reference) for number, trace in enumerate(traces))
    given = f" · {esc(words.HELPED_REFERENCE)} <b>{bdi(shorten(reference.answer, 60))}</b>" if reference else ""
    by = f'<span class="fb-count">{esc(plural(len(traces), "answer"))} by {esc(label)}{given}</span>'
    copied = "\n".join((f"“{shown.question}”", headline, *map(sentence, found)))
    data = f'data-question="{esc(shown.question)}" data-copied="{esc(copied)}"'
    copy = f'<button type="button" class="fb-small" data-helped="copy" {data}>{esc(words.COPY)}</button>'
    return _card(
        "done",
        shown.id,
        f'<header><h2>{esc(words.HELPED)}</h2>{by}<span class="fb-buttons">{copy}{_CLOSE}</span></header>'
        f'<p class="fb-summary">{esc(headline)}</p><ul class="fb-helped-lines">{lines}</ul>'
        f'<ol class="fb-helped-four">{cells}</ol><p class="fb-hint" data-helped-told hidden></p>',
    )


_CLOSE = '<button type="button" class="fb-small" data-helped="close">Close</button>'


def _card(state: str, of: str, body: str) -> str:
    return (
        f'<section class="fb-card fb-helped {state}" data-of="{esc(of)}" data-helped-state="{state}" tabindex="-1"'
        f' aria-label="{esc(words.HELPED)}">{body}</section>'
    )


# --- in words ---------------------------------------------------------------------------------------------------------


def headline_of(traces: Mapping[str, Trace], found: Sequence[Contribution], reference: Question | None) -> str:
    """The verdict on all evidence beside the text, in one sentence."""
    effects = {effect for one in found for effect in (one.alone, one.on_top)}
    if not found or "unknown" in effects:
        return words.HELPED_HEADLINES["unknown"]
    verdicts = [right(trace, reference) for trace in traces.values()]
    if "righted" in effects:
        return words.HELPED_HEADLINES["mixed" if "wronged" in effects else "righted"]
    if "wronged" in effects:
        return words.HELPED_HEADLINES["wronged"]
    if all(verdicts):
        declined = reference is not None and reference.type == UNANSWERABLE
        return words.HELPED_HEADLINES["declined" if declined else "enough"]
    if reference is not None:
        return words.HELPED_HEADLINES["all wrong"]
    return words.HELPED_HEADLINES["changed" if "changed" in effects else "same"]


def sentence(one: Contribution) -> str:
    """What a branch did and what it took, in one sentence."""
    name, effect = words.SWITCHES[one.branch], strongest(one)
    if not one.items:
        return words.HELPED_NOTHING_SENT.format(name=name)
    tokens = plural(one.input_tokens, "token") if one.input_tokens and one.input_tokens > 0 else ""
    lookup = f"{milliseconds(one.lookup_ms)} of search" if one.lookup_ms else ""
    took = " and ".join(filter(None, (tokens, lookup)))
    where = ""
    if effect not in ("same", "unknown") and one.alone != one.on_top:
        where = words.HELPED_ONLY[one.alone == effect].format(other=words.SWITCHES[OTHER[one.branch]])
    return words.HELPED_EFFECTS[effect].format(name=name, where=where, took=took or "nothing")


def strongest(one: Contribution) -> Effect:
    """The one effect to name, where a branch had two."""
    if "unknown" in (one.alone, one.on_top):
        return "unknown"
    return max(one.alone, one.on_top, key=STRENGTH.index)


# --- the four answers -------------------------------------------------------------------------------------------------


def _cell(number: int, trace: Trace, shown: Trace, reference: Question | None) -> str:
    generation = trace.generation
    said = generation.text if generation else ""
    if generation and generation.abstained:
        said = words.ABSTAINED
    verdict = {True: ("right", "✓ right"), False: ("wrong", "✗ wrong"), None: ("", answer.face(trace))}[
        right(trace, reference)
    ]
    tokens = compare.input_tokens(trace)
    counted = "" if tokens is None else f"{tokens:,} tokens"
    here = trace.system.name == shown.system.name and trace.generator == shown.generator
    button = (
        '<span class="fb-count">shown</span>'
        if here
        else f'<button type="button" class="fb-small" data-helped="show" data-cell="{number}"'
        f' aria-label="{esc(f"Show the answer of {trace.system.name}")}">show</button>'
    )
    title = "text alone" if trace.system.name == ALONE else trace.system.label
    return (
        f'<li class="{verdict[0]}"><h3 title="{esc(title)}">{esc(trace.system.name)}</h3>'
        f'<p dir="auto">{esc(shorten(said, MAX_ANSWER_CHARS))}</p>'
        f'<footer><b>{esc(verdict[1])}</b><span class="fb-count">{esc(counted)}</span>{button}</footer></li>'
    )

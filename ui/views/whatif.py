"""What if an item had not been there: the bar of what is ticked, two answers side by side, and the influence of each item."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rag.corpus import Corpus
from rag.difference import difference
from rag.generators.spec import GeneratorSpec
from rag.influence import Influence
from rag.types import Estimate, Generation, Trace
from ui import text as words
from ui.views import answer
from ui.views.markup import (
    BRANCH_OF_TAG,
    bdi,
    esc,
    left_out_tags,
    milliseconds,
    money,
    page_button,
    plural,
    shorten,
    tag_chip,
    tags_by_item,
)

MAX_ITEM_CHARS = 160
MINUS = "\N{MINUS SIGN}"


def bar() -> str:
    """The bar that the page's script shows while something is ticked or on its way; it is never drawn anew, so that its buttons
    keep the focus."""
    places = "".join(
        f'<label><input type="radio" name="fb-refill" value="{value}"{checked}> {esc(label)}</label>'
        for value, checked, label in (("", " checked", "leave the gap"), ("1", "", "let the next-ranked move up"))
    )
    return (
        '<section class="fb-whatif-bar" aria-label="Leave out and ask again" hidden><p role="status"></p>'
        f'<fieldset><legend class="fb-sr">What takes the places of those left out</legend>{places}</fieldset>'
        '<span class="fb-buttons"><button type="button" class="fb-button fb-strong" data-whatif="ask">Ask again without</button>'
        '<button type="button" class="fb-button" data-whatif="clear">Clear</button>'
        f'<button type="button" class="fb-button fb-halt" data-whatif="stop" hidden>{esc(words.STOP)}</button></span></section>'
    )


# --- two answers side by side ----------------------------------------------------------------------------------------


def problem(message: str, of: str = "") -> str:
    """Nothing could be asked: says what is wrong and what to do."""
    body = f'<p class="fb-note" role="alert">{esc(message)}</p>'
    return _panel("Ask again without", "", body, of, "problem", _CLOSE)


def asking(before: Trace) -> str:
    """From the click until the prompt is there."""
    return _panel("Ask again without", "reading the evidence …", "", before.id, "running", "", running="Asking again …")


def render(before: Trace, after: Trace, corpus: Corpus, label: str, running: bool) -> str:
    """Old and new answer with the words that changed, what it took, and what left and came.

    Args:
        before: the answer on the page.
        after: the answer without some of its evidence, finished or not.
        corpus: where the items' words are.
        label: the generator's.
        running: whether ``after`` still grows.
    """
    without = f"Without {tags}" if (tags := ", ".join(left_out_tags(after).values())) else "With all of the evidence"
    verdict = "running" if running else verdict_of(before, after)
    gone, new = spans(before, after) if verdict in ("changed", "cites") else ((), ())
    sides = (
        _side("Before", answer.face(before), answer.side(before, gone, "del")),
        _side(without, answer.face(after, running), answer.side(after, new, "ins", running)),
    )
    told = "" if running else f'<p class="fb-verdict {verdict}">{esc(_verdict(verdict, before, after))}</p>'
    took = "" if running else f'<div class="fb-sides">{_costs(before, after)}{_moved(before, after, corpus)}</div>'
    body = f'{told}<div class="fb-sides">{"".join(sides)}</div>{took}'
    status = f"{label} · {words.WHATIF_PLACES[after.refill]}" if after.excluded else label
    buttons = "" if running else _SHOW + _CLOSE
    return _panel(without, status, body, before.id, verdict, buttons, f"{without}: asking again …" if running else "")


def verdict_of(before: Trace, after: Trace) -> str:
    """A key of ``words.VERDICTS``."""
    old, new = before.generation, after.generation
    if new is None or not new.counts:
        ends = {"error": "failed", "cancelled": "stopped", None: "stopped"}
        return ends.get(new.finish if new else None, "cut")
    if old is None or not old.counts:
        return "before"
    if old.abstained != new.abstained:
        return "abstains" if new.abstained else "answers"
    if not old.abstained and difference(old.text, new.text).changed:
        return "changed"
    return "unchanged" if _cited(before) == _cited(after) else "cites"


def spans(before: Trace, after: Trace) -> tuple[Sequence[tuple[int, int]], Sequence[tuple[int, int]]]:
    """Where the old and the new answer differ."""
    assert before.generation is not None and after.generation is not None
    found = difference(before.generation.text, after.generation.text)
    return found.removed, found.added


def _cited(trace: Trace) -> frozenset[str]:
    return frozenset(citation.item_id or citation.tag for citation in trace.citations)


def _verdict(verdict: str, before: Trace, after: Trace) -> str:
    share = 0.0
    if verdict == "changed" and before.generation and after.generation:
        share = difference(before.generation.text, after.generation.text).share
    tags = ", ".join(dict.fromkeys(citation.tag for citation in after.citations)) or "nothing"
    return words.VERDICTS[verdict].format(share=share, tags=tags)


def _side(title: str, face: str, body: str) -> str:
    status = f'<span class="fb-count">{esc(face)}</span>' if face else ""
    return f'<section class="fb-side"><header><h3>{esc(title)}</h3>{status}</header>{body}</section>'


@dataclass(frozen=True, slots=True)
class _Measure:
    """A row of the table of what two answers took; ``counted``: it rests on token counts, which may be estimates."""

    label: str
    of: Callable[[Generation], float | None]
    say: Callable[[float], str]
    counted: bool = True

    def told(self, trace: Trace) -> str:
        """The value in words; an estimate is marked as one, and unknown is never 0."""
        found = trace.generation
        value = self.of(found) if found else None
        if found is None or value is None:
            return "unknown"
        about = self.counted and value and (found.usage is None or found.usage.source == "estimated")
        return f"≈ {self.say(value)}" if about else self.say(value)

    def change(self, before: Trace, after: Trace) -> str:
        """What was saved or spent."""
        old, new = (self.of(trace.generation) if trace.generation else None for trace in (before, after))
        return "unknown" if old is None or new is None else _signed(new - old, self.say)


def _count(value: float) -> str:
    return f"{value:,.0f}"


_MEASURES = (
    _Measure("input tokens", lambda g: g.usage.input_tokens if g.usage else None, _count),
    _Measure("output tokens", lambda g: g.usage.output_tokens if g.usage else None, _count),
    _Measure("time to answer", lambda g: g.latency_ms, milliseconds, counted=False),
    _Measure("cost", lambda g: g.cost_usd, money),
)


def _costs(before: Trace, after: Trace) -> str:
    rows = "".join(
        f"<tr><th scope=row>{one.label}</th><td>{esc(one.told(before))}</td><td>{esc(one.told(after))}</td>"
        f"<td>{esc(one.change(before, after))}</td></tr>"
        for one in _MEASURES
    )
    return (
        '<div><table class="fb-table fb-whatif-costs"><caption class="fb-sr">What the two answers took</caption><thead><tr>'
        "<th scope=col>took</th><th scope=col>before</th><th scope=col>now</th><th scope=col>difference</th></tr></thead>"
        f"<tbody>{rows}</tbody></table></div>"
    )


def _signed(change: float, say: Callable[[float], str]) -> str:
    if change == 0:
        return "±0"
    return f"{'+' if change > 0 else MINUS}{say(abs(change))}"


def _moved(before: Trace, after: Trace, corpus: Corpus) -> str:
    """What left the prompt and what came into it."""
    old, new = tags_by_item(before.prompt), tags_by_item(after.prompt)
    lists = []
    for title, found in (
        ("Left the prompt", {item: tag for item, tag in old.items() if item not in new}),
        ("Came into the prompt", {item: tag for item, tag in new.items() if item not in old}),
    ):
        rows = "".join(f"<li>{_item(item, tag, corpus)}</li>" for item, tag in found.items())
        if rows:
            lists.append(f'<section><h3>{title}</h3><ul class="fb-moved">{rows}</ul></section>')
    return f'<div class="fb-moves">{"".join(lists)}</div>'


def _item(item: str, tag: str, corpus: Corpus) -> str:
    if item.startswith("triple:"):
        triple = corpus.triples[int(item.removeprefix("triple:"))]
        page_id, told = triple.page_id, f"{triple.subject} · {triple.relation} · {triple.object}"
    elif item in corpus.chunks:
        page_id, told = corpus.chunks[item].page_id, corpus.chunks[item].text
    else:
        crop = corpus.crops[item]
        page_id, told = crop.page_id, crop.caption or f"{crop.kind} without a caption"
    branch = BRANCH_OF_TAG.get(tag[:1], "text")
    return (
        f'<span class="fb-tag {branch}">{esc(tag)}</span> {bdi(shorten(" ".join(told.split()), MAX_ITEM_CHARS))} '
        f"{page_button(corpus.pages[page_id], corpus, item)}"
    )


_SHOW = '<button type="button" class="fb-button fb-strong" data-whatif="show">Show this answer’s evidence</button>'
_CLOSE = '<button type="button" class="fb-button" data-whatif="close">Close</button>'


def _panel(title: str, status: str, body: str, of: str, verdict: str, buttons: str, running: str = "") -> str:
    foot = f'<footer class="fb-buttons">{buttons}</footer>' if buttons else ""
    busy = f' data-running="{esc(running)}"' if running else ""
    return (
        f'<section class="fb-card fb-whatif" data-of="{esc(of)}" data-verdict="{verdict}"{busy} tabindex="-1"'
        f' aria-labelledby="fb-whatif-title"><header><h2 id="fb-whatif-title">{esc(title)}</h2>'
        f'<span class="fb-count">{esc(status)}</span></header>{body}{foot}</section>'
    )


# --- influence -------------------------------------------------------------------------------------------------------


def offer(trace: Trace, spec: GeneratorSpec) -> str:
    """The quiet line that offers to measure; nothing where there is no whole answer to compare with."""
    items = len(trace.prompt.tags) if trace.prompt else 0
    if trace.generation is None or not trace.generation.counts or not items:
        return ""
    more = "" if spec.access == "embedded" else " …"
    hint = words.INFLUENCE.format(items=plural(items, "item"))
    return _influence(trace, f'<p class="fb-hint">{esc(hint)}</p>', _button("measure", f"Measure influence{more}"))


def price(trace: Trace, spec: GeneratorSpec, estimate: Estimate) -> str:
    """What measuring would take on a generator that is paid, to be agreed to."""
    calls = len(trace.prompt.tags) if trace.prompt else 0
    tokens = "an unknown number of" if estimate.input_tokens is None else f"about {estimate.input_tokens:,}"
    cost = _about(estimate.cost_usd)
    most = "" if not estimate.limit_usd else f", at most {money(estimate.limit_usd)}"
    told = words.INFLUENCE_PRICE.format(calls=plural(calls, "call"), label=spec.label, tokens=tokens, price=cost + most)
    buttons = _button("agree", f"Measure for {cost}", strong=True) + _button("forget", "Not now")
    return _influence(trace, f'<p class="fb-hint">{esc(told)}</p>', buttons)


def _about(usd: float | None) -> str:
    return "an unknown price" if usd is None else "nothing" if usd == 0 else f"about {money(usd)}"


def measured(trace: Trace, known: Sequence[Influence], spec: GeneratorSpec, running: bool, error: str = "") -> str:
    """A bar per item and the same in words.

    Args:
        trace: the answer on the page.
        known: the items measured so far, in the prompt's order.
        spec: the generator that answered.
        running: whether more will come.
        error: why it ended early, if it did.
    """
    total = len(trace.prompt.tags) if trace.prompt else 0
    rows = "".join(_row(one, running) for one in known)
    hints = [summary(known, total, running)]
    if known and not running:
        same = len(known) == total and all(one.outcome == "unchanged" for one in known)
        hints += [words.INFLUENCE_NONE] if same else []
        hints += [words.INFLUENCE_BAR] + ([words.INFLUENCE_PAID] if spec.access != "embedded" else [])
    told = f'<p class="fb-summary">{esc(hints[0])}</p>' + "".join(f'<p class="fb-hint">{esc(h)}</p>' for h in hints[1:])
    wrong = f'<p class="fb-note" role="alert">{esc(error)}</p>' if error else ""
    progress = f"Influence: {len(known)} of {total} left out in turn …" if running else ""
    body = f'{wrong}{told}<ol class="fb-influences">{rows}</ol>'
    return _influence(trace, body, "" if running else _button("forget", "Close"), progress)


def summary(known: Sequence[Influence], total: int, running: bool) -> str:
    """The counts in words."""
    if not known:
        return "Leaving the first item out …" if running else "Nothing was measured."
    changed = [one.tag for one in known if one.changed]
    failed = sum(one.outcome == "failed" for one in known)
    rest = len(known) - len(changed) - failed
    if changed:
        others = {0: "", 1: "; the other one makes no difference"}.get(rest, f"; the other {rest} make no difference")
        parts = [f"Without {', '.join(changed)} the answer changes{others}"]
    else:
        none = "No item changes the answer when it is left out"
        parts = [f"{none}, of {plural(rest, 'item')} measured"] if rest else []
    if failed:
        parts.append(f"{plural(failed, 'call')} failed and {'are' if failed != 1 else 'is'} not counted")
    if len(known) < total:
        parts.append(f"{total - len(known)} of {total} not measured{' yet' if running else ''}")
    return "; ".join(parts) + "."


def _row(one: Influence, running: bool) -> str:
    branch = BRANCH_OF_TAG.get(one.tag[:1], "text")
    width = 100 * (one.difference or 0.0)
    measured = "" if one.difference is None else f"{one.difference:.2f}"
    return (
        f'<li class="fb-influence-row {branch} {one.outcome}">{tag_chip(one.tag, one.item_id)}'
        f'<span class="fb-bar" aria-hidden="true"><i style="width:{width:.0f}%"></i></span>'
        f'<span class="fb-score">{measured}</span><span class="fb-outcome">{words.OUTCOMES[one.outcome]}</span>'
        f"{'' if running else _new_answer(one)}</li>"
    )


def _new_answer(one: Influence) -> str:
    """What came instead, on demand."""
    found = one.generation
    told = found.error or found.notice if one.outcome == "failed" else found.text
    title = "why" if one.outcome == "failed" else "answer"
    spoken = f'<span class="fb-sr"> without {esc(one.tag)}</span>'
    return f'<details><summary>{title}{spoken}</summary><p dir="auto">{esc(told or words.ERROR_UNKNOWN)}</p></details>'


def _button(act: str, label: str, strong: bool = False) -> str:
    kind = "fb-button fb-strong" if strong else "fb-button"
    return f'<button type="button" class="{kind}" data-influence="{act}">{esc(label)}</button>'


def _influence(trace: Trace, body: str, buttons: str, running: str = "") -> str:
    busy = f' data-running="{esc(running)}"' if running else ""
    return (
        f'<section class="fb-card fb-influence" data-of="{esc(trace.id)}"{busy} aria-labelledby="fb-influence-title">'
        f'<div><h2 id="fb-influence-title">Influence</h2>{body}</div><span class="fb-buttons">{buttons}</span></section>'
    )

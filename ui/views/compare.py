"""The Compare tab: one row per generator, one cell per system, each with its answer, what it took and what it added.

The first cell of a row is the one that the others are held against.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby

from rag import compare
from rag.compare import Added, CellState
from rag.contribution import contributions
from rag.corpus import Corpus
from rag.evaluate.questions import Gold, Question, gold_items, gold_of, locate
from rag.generators.spec import GeneratorSpec
from rag.types import Branch, Estimate, Fused, Page, Trace
from ui import text as words
from ui.views import answer, contribution, settings
from ui.views.markup import (
    bdi,
    esc,
    milliseconds,
    money,
    page_button,
    page_label,
    plural,
    tag_badge,
    tag_chip,
    tags_by_item,
)

ICONS = {**answer.ICONS, "gold": "★", "missed": "○"}


@dataclass(frozen=True, slots=True)
class Shown:
    """What all cells of a comparison share; ``reference`` is set where the question is of the corpus's question set."""

    corpus: Corpus
    reference: Question | None
    running: bool


def empty() -> str:
    """Before the first comparison."""
    return f'<div class="fb-card fb-cmp-empty"><p class="fb-lead">{esc(words.COMPARE_EMPTY)}</p></div>'


def problem(message: str) -> str:
    """Nothing was compared: says why and what to do."""
    icon = f'<span class="fb-icon" aria-hidden="true">{ICONS["error"]}</span>'
    return f'<div class="fb-card fb-cmp-problem" data-compare="error"><p role="alert">{icon}{bdi(message)}</p></div>'


def render(states: Sequence[CellState], corpus: Corpus, reference: Question | None, running: bool) -> str:
    """All cells as they are now, under the question's reference."""
    shown = Shown(corpus, reference, running)
    numbered = list(enumerate(states))
    rows = [list(row) for _, row in groupby(numbered, key=lambda pair: pair[1].cell.generator.name)]
    body = "".join(_row(row, rows[0], shown) for row in rows)
    done = sum(state.done for state in states)
    told = esc(f"{done} of {plural(len(states), 'answer')}" if running else _outcome(states))
    state = "running" if running else "done"
    return (
        f'<div class="fb-cmp" data-compare="{state}">{_asked(states)}{with_settings([one.cell for one in states])}'
        f"{_reference(reference, corpus)}"
        f'<p class="fb-sr" role="status">{told}</p>{body}</div>'
    )


def _asked(states: Sequence[CellState]) -> str:
    """The question that these cells answer: the box above may hold the next one by now."""
    question = next((state.trace.question for state in states if state.trace is not None), "")
    return f'<p class="fb-cmp-asked"><bdi>{esc(question)}</bdi></p>' if question else ""


def with_settings(cells: Sequence[compare.Cell]) -> str:
    """Which settings all cells were asked with."""
    told = words.COMPARE_SETTINGS.format(settings=settings.line(cells[0].system)) if cells else ""
    return f'<p class="fb-hint fb-cmp-settings">{esc(told)}</p>'


def estimates(cells: Sequence[compare.Cell], found: Sequence[Estimate]) -> str:
    """What every cell would take, before anything is sent."""
    pairs = list(zip(cells, found, strict=True))
    rows = "".join(
        _shell(label, f'<div class="fb-cmp-cells">{"".join(_estimate(cell, estimate) for cell, estimate in row)}</div>')
        for label, row in groupby(pairs, key=lambda pair: pair[0].generator.label)
    )
    about, limit = (total([getattr(e, name) for e in found]) for name in ("cost_usd", "limit_usd"))
    told = words.COMPARE_ESTIMATE.format(answers=plural(len(cells), "answer"), about=money(about), limit=money(limit))
    return (
        f'<div class="fb-cmp" data-compare="estimate"><p class="fb-cmp-told" role="status">{esc(told)}</p>'
        f"{with_settings(cells)}{rows}</div>"
    )


def total(amounts: Sequence[float | None]) -> float | None:
    """The sum, unknown where a part of it is."""
    known = [amount for amount in amounts if amount is not None]
    return sum(known) if len(known) == len(amounts) else None


def _estimate(cell: compare.Cell, estimate: Estimate) -> str:
    tokens = "unknown" if estimate.input_tokens is None else f"≈ {estimate.input_tokens:,}"
    cost = "$0" if estimate.cost_usd == 0 else f"≈ {money(estimate.cost_usd)}, at most {money(estimate.limit_usd)}"
    note = f'<p class="fb-hint">{esc(estimate.note)}</p>' if estimate.note else ""
    figures = _figures((("tokens in", tokens, ""), ("cost", cost, "")))
    return f'<article class="fb-card fb-cmp-cell estimate"><header><h4>{esc(cell.system.name)}</h4></header>{figures}{note}</article>'


def _outcome(states: Sequence[CellState]) -> str:
    failed = sum(_face(state, False) == "error" for state in states)
    return f"{plural(len(states), 'answer')}, {failed} failed"


# --- the reference ------------------------------------------------------------------------------------------------------


def _reference(reference: Question | None, corpus: Corpus) -> str:
    if reference is None:
        return ""
    places = "".join(f"<li>{_place_button(source, corpus)}</li>" for source in gold_of(reference, corpus))
    gold = f'<ul class="fb-cmp-places" aria-label="Gold evidence">{places}</ul>' if places else ""
    star = f'<span class="fb-icon" aria-hidden="true">{ICONS["gold"]}</span>'
    return (
        f'<div class="fb-card fb-cmp-reference"><p>{star}<b>Reference answer</b> <bdi>{esc(reference.answer)}</bdi></p>'
        f'<span class="fb-count">{esc(reference.type)}</span>{gold}</div>'
    )


def _page_of(source: str, corpus: Corpus) -> Page:
    return corpus.pages[corpus.crops[source].page_id] if source in corpus.crops else corpus.pages[source]


def _place_button(source: str, corpus: Corpus) -> str:
    crop = corpus.crops.get(source)
    kind = f'<span class="fb-cmp-kind">{esc(crop.kind)} on</span> ' if crop else ""
    return kind + page_button(_page_of(source, corpus), corpus, source if crop else "")


# --- rows and cells -----------------------------------------------------------------------------------------------------


def _row(row: Sequence[tuple[int, CellState]], top: Sequence[tuple[int, CellState]], shown: Shown) -> str:
    """One generator's cells; ``top`` is the first row, whose evidence is not told again where it is the same."""
    first = row[0][1]
    above = [None if row is top else state for _, state in top]
    cells = "".join(_cell(number, state, first, over, shown) for (number, state), over in zip(row, above, strict=True))
    said = "" if shown.running else _verdict([state for _, state in row], shown.reference)
    return _shell(first.cell.generator.label, said + f'<div class="fb-cmp-cells">{cells}</div>')


def _verdict(states: Sequence[CellState], reference: Question | None) -> str:
    """What graph and figures each did for this generator, where all four systems of the study answered."""
    traces = {state.trace.system.name: state.trace for state in states if state.trace is not None}
    found = contributions(traces, reference)
    if not found:
        return ""
    told = (contribution.headline_of(traces, found, reference), *map(contribution.sentence, found))
    return f'<p class="fb-cmp-summary"><b>{esc(told[0])}</b> {esc(" ".join(told[1:]))}</p>'


def _shell(label: str, body: str) -> str:
    return f'<section class="fb-cmp-row" aria-label="{esc(label)}"><h3>{esc(label)}</h3>{body}</section>'


def _face(state: CellState, running: bool) -> str:
    """Which of the faces of an answer the cell has; ``waiting`` is one that has not begun."""
    if state.error:
        return "error"
    if state.trace is None:
        return "stopped" if state.done else "waiting"
    return answer.state(state.trace, running and not state.done)


def _cell(number: int, state: CellState, first: CellState, above: CellState | None, shown: Shown) -> str:
    face, trace, system = _face(state, shown.running), state.trace, state.cell.system
    against = None if state is first or first.trace is None else first.trace
    body = _said(state, face, shown.corpus)
    if trace is not None and trace.prompt is not None:
        body += _took(trace, against, state.done and first.done, state.cell.generator, first.cell.system.name)
        body += _same_as(state, above) or (
            _found(trace, shown) + _evidence(trace, against, first.cell.system.name, shown)
        )
        if not shown.running:
            body += f'<button type="button" class="fb-small" data-open-cell="{number}">Open in Explore</button>'
    label = esc(f"{system.name}, {state.cell.generator.label}")
    return (
        f'<article class="fb-card fb-cmp-cell {face}" data-state="{face}" data-cell="{number}" aria-label="{label}">'
        f'<header><h4 title="{esc(system.label)}">{esc(system.name)}</h4>'
        f'<span class="fb-count">{esc(words.CELL_STATES[face])}</span></header>{body}</article>'
    )


def _said(state: CellState, face: str, corpus: Corpus) -> str:
    """Answer, abstention, partial answer or failure, told apart as on Explore."""
    trace = state.trace
    generation = trace.generation if trace else None
    said = ""
    if trace is not None and generation is not None and generation.text.strip() and face != "abstained":
        chips = answer.with_chips(generation.text, trace.citations, chip=partial(_chip, corpus=corpus))
        caret = '<span class="fb-caret"></span>' if face == "streaming" else ""
        said = f'<p class="fb-answer" dir="auto">{chips}{caret}</p>'
    if face == "abstained":
        return f'<p class="fb-answer">{_icon("abstained")}{esc(words.ABSTAINED)}</p>'
    if face in ("waiting", "reading"):
        why = generation.waiting if generation else ""
        return f'<p class="fb-answer"><span class="fb-caret"></span></p>{_hint("waiting", why) if why else ""}'
    if face == "error":
        why = state.error or (generation.error if generation else "") or words.ERROR_UNKNOWN
        return f'<p class="fb-answer fb-cmp-error">{_icon("error")}{bdi(why)}</p>{said}'
    if face in words.PARTIAL:
        why = (generation.notice if generation else "") or (words.PARTIAL if said else words.EMPTY_END)[face]
        return said + _hint("partial", why)
    return said


def _icon(name: str) -> str:
    return f'<span class="fb-icon" aria-hidden="true">{ICONS[name]}</span>'


def _hint(icon: str, why: str) -> str:
    return f'<p class="fb-hint fb-why">{_icon(icon)}{esc(why)}</p>'


# --- what it took -------------------------------------------------------------------------------------------------------


def _took(trace: Trace, against: Trace | None, both: bool, spec: GeneratorSpec, baseline: str) -> str:
    """Tokens, cost and time, each with its difference to the first cell, once both are done."""
    generation = trace.generation
    usage = generation.usage if generation else None
    about = "≈ " if usage and usage.source == "estimated" else ""
    more = compare.difference(trace, against) if both and against is not None else None
    cost = "$0" if spec.access == "embedded" else money(generation.cost_usd if usage and generation else None)
    figures = _figures(
        (
            (
                "tokens in",
                about + _whole(compare.input_tokens(trace)),
                _signed(more.input_tokens if more else None, _count),
            ),
            (
                "tokens out",
                about + _whole(compare.output_tokens(trace)),
                _signed(more.output_tokens if more else None, _count),
            ),
            ("cost", about * (cost not in ("$0", "unknown")) + cost, _signed(more.cost_usd if more else None, money)),
            ("time", milliseconds(compare.total_ms(trace)), _signed(more.total_ms if more else None, milliseconds)),
        )
    )
    if usage is None:
        return ""
    if more is None or more.answer_changed is None:
        return figures
    told = words.ANSWER_CHANGED if more.answer_changed else words.ANSWER_SAME
    kind = "changed" if more.answer_changed else "same"
    return f'{figures}<p class="fb-cmp-verdict {kind}">{esc(told.format(baseline=baseline))}</p>'


def _figures(figures: Sequence[tuple[str, str, str]]) -> str:
    rows = "".join(
        f"<div><dt>{esc(label)}</dt><dd>{esc(value)}{f'<small>{esc(more)}</small>' if more else ''}</dd></div>"
        for label, value, more in figures
    )
    return f'<dl class="fb-cmp-took">{rows}</dl>'


def _whole(count: int | None) -> str:
    return "unknown" if count is None else f"{count:,}"


def _count(value: float) -> str:
    return f"{value:,.0f}"


def _signed(value: float | None, form: object) -> str:
    assert callable(form)
    if value is None or value == 0:
        return ""
    return f"{'+' if value > 0 else '−'}{form(abs(value))}"


# --- gold ---------------------------------------------------------------------------------------------------------------


def _found(trace: Trace, shown: Shown) -> str:
    """For each gold source, where it came in the ranking of its branch, and that ranking with it marked."""
    if shown.reference is None or not shown.reference.sources:
        return ""
    marked = set(gold_items(shown.reference, trace, shown.corpus))
    rows = "".join(_gold(gold, trace, marked, shown.corpus) for gold in locate(shown.reference, trace, shown.corpus))
    return f'<ul class="fb-cmp-gold">{rows}</ul>'


def _gold(gold: Gold, trace: Trace, marked: set[str], corpus: Corpus) -> str:
    crop = corpus.crops.get(gold.source)
    kind = crop.kind if crop else "page"
    hits = _ranking(trace, gold.branch)
    told = {
        "found": words.GOLD_FOUND.format(kind=kind, rank=gold.rank, sent="sent" if gold.sent else "not sent"),
        "missed": words.GOLD_MISSED.format(kind=kind, listed=plural(len(hits), "crop" if crop else "chunk")),
        "off": words.GOLD_OFF.format(kind=kind),
    }[gold.state]
    if gold.bridged:
        told = f"{told}{words.GOLD_BRIDGED.format(tag=tags_by_item(trace.prompt).get(gold.bridged, ''))}"
    icon = _icon("gold" if gold.state == "found" or gold.bridged else "missed")
    place = esc(page_label(_page_of(gold.source, corpus), corpus))
    ranking = _ranks(hits, gold.branch, trace, marked)
    return f'<li class="{gold.branch} {gold.state}" title="{place}">{icon}<span>{esc(told)}</span>{ranking}</li>'


def _ranking(trace: Trace, branch: Branch) -> tuple[Fused, ...]:
    found = trace.evidence.visual if branch == "visual" else trace.evidence.text
    return found.hits if found else ()


def _ranks(hits: Sequence[Fused], branch: Branch, trace: Trace, marked: set[str]) -> str:
    if not hits:
        return ""
    tags = tags_by_item(trace.prompt)
    pieces = "".join(_rank(hit, tags.get(hit.item_id, ""), branch, hit.item_id in marked) for hit in hits)
    return f'<ol class="fb-cmp-ranking" aria-label="Ranking of the {branch} branch">{pieces}</ol>'


def _rank(hit: Fused, tag: str, branch: Branch, gold: bool) -> str:
    mark = ' class="gold"' if gold else ""
    said = '<span class="fb-sr">gold</span>' if gold else ""
    return f"<li{mark}>{tag_badge(tag, branch, hit.rank)}{said}</li>"


# --- evidence -----------------------------------------------------------------------------------------------------------


def _same_as(state: CellState, above: CellState | None) -> str:
    """That the prompt holds the very items of the cell above, and in which form its crops go where that differs."""
    if above is None or state.trace is None or above.trace is None:
        return ""
    mine, other = state.trace.prompt, above.trace.prompt
    if mine is None or other is None or dict(mine.tags) != dict(other.tags):
        return ""
    told = words.EVIDENCE_ABOVE.format(generator=above.cell.generator.label)
    if bool(mine.images) != bool(other.images):
        told += words.AS_PIXELS if mine.images else words.AS_WORDS
    return f'<p class="fb-hint">{esc(told)}</p>'


def _evidence(trace: Trace, against: Trace | None, baseline: str, shown: Shown) -> str:
    """The prompt's evidence by branch and page: all of it in the first cell, elsewhere what it has beyond the first."""
    new = compare.added(trace, against)
    shared = len(trace.prompt.tags if trace.prompt else ()) - len(new)
    same = words.SAME_EVIDENCE.format(items=plural(shared, "item"), baseline=baseline)
    gold = set(gold_of(shown.reference, shown.corpus)) if shown.reference else set()
    lines = "".join(_branch(branch, items, gold, shown.corpus) for branch, items in _by_branch(new))
    nothing = f'<p class="fb-hint">{esc(words.NOTHING_ADDED)}</p>' if against is not None and not new else ""
    kept = f'<p class="fb-hint">{esc(same)}</p>' if against is not None and shared else ""
    return f'<div class="fb-cmp-evidence">{kept}{lines}{nothing}</div>'


def _by_branch(items: Sequence[Added]) -> Iterator[tuple[Branch, list[Added]]]:
    for branch, group in groupby(items, key=lambda item: item.branch):
        yield branch, list(group)


def _branch(branch: Branch, items: Sequence[Added], gold: set[str], corpus: Corpus) -> str:
    pages: dict[str, list[Added]] = {}
    for item in items:
        pages.setdefault(_page_id(item, corpus), []).append(item)
    rows = "".join(_on_page(corpus.pages[page], group, gold, corpus) for page, group in pages.items())
    title = f"{words.BRANCHES[branch][0]} {'+' if branch != 'text' else ''}{len(items)}"
    return f'<div class="{branch}"><h5>{esc(title)}</h5><ul>{rows}</ul></div>'


def _on_page(page: Page, items: Sequence[Added], gold: set[str], corpus: Corpus) -> str:
    chips = "".join(_chip(item.tag, item.item_id, corpus=corpus) for item in items)
    marked = (page.id in gold and items[0].branch != "visual") or any(item.item_id in gold for item in items)
    star = (
        f'<span class="fb-cmp-star" title="gold evidence">{ICONS["gold"]}<span class="fb-sr"> gold</span></span>'
        if marked
        else ""
    )
    return f"<li><span>{chips}</span>{page_button(page, corpus, items[0].item_id)}{star}</li>"


def _page_id(item: Added, corpus: Corpus) -> str:
    """The page of a chunk, also of one that the graph brought in, of a crop or of a fact."""
    if item.item_id in corpus.chunks:
        return corpus.chunks[item.item_id].page_id
    if item.item_id in corpus.crops:
        return corpus.crops[item.item_id].page_id
    return corpus.triples[int(item.item_id.removeprefix("triple:"))].page_id


def _chip(tag: str, item_id: str, *, corpus: Corpus) -> str:
    """A tag that opens its item's page; one that the answer made up says so."""
    if not item_id:
        return tag_chip(tag, item_id)
    branch = compare.BRANCH_OF_TAG[tag[0]]
    page = corpus.pages[_page_id(Added(branch, tag, item_id), corpus)]
    title = esc(f"{tag}: open {page_label(page, corpus)}")
    return (
        f'<button type="button" class="fb-tag {branch}" data-page="{esc(page.id)}" data-focus="{esc(item_id)}"'
        f' title="{title}">{esc(tag)}</button>'
    )

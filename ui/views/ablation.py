"""The Ablation tab: charts and tables, the questions behind a cell, runs and their progress."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from rag.evaluate import tables
from rag.evaluate.runner import RunProgress
from rag.evaluate.store import Result, Run
from rag.evaluate.tables import METRICS, QUESTION_TYPES
from ui import text as words
from ui.ablation_data import BETWEEN, STUDY_LABEL, Board, Key, Panel
from ui.views import ablation_tables as sheet
from ui.views import charts
from ui.views.markup import bdi, esc, plural, shorten

if TYPE_CHECKING:
    import plotly.graph_objects as go

MAX_QUESTIONS = 500
WIDE_FROM = 3
"""A heatmap with more question types than this takes the place of two."""


@dataclass(frozen=True, slots=True)
class Chart:
    """A figure with its title, what a reader must know, and a name for its files."""

    title: str
    name: str
    figure: go.Figure
    note: str = ""


def chart(one: Chart) -> str:
    """A figure to be drawn by the page's script, with its ways out."""
    height = int(one.figure.layout.height or charts.MIN_PX)
    hint = f'<p class="fb-hint">{esc(one.note)}</p>' if one.note else ""
    buttons = "".join(
        f'<button type="button" class="fb-small" data-chart-as="{form}" aria-label="{esc(one.title)} as {form.upper()}">'
        f"{form.upper()}</button>"
        for form in ("png", "svg")
    )
    wide = " wide" if any(t.type == "heatmap" and len(t.x) > WIDE_FROM for t in one.figure.data) else ""
    return (
        f'<figure class="fb-card fb-chart-card{wide}"><figcaption><header><h4>{esc(one.title)}</h4><span>{buttons}</span></header>{hint}'
        f'</figcaption><div class="fb-chart" style="height:{height}px" data-name="{esc(one.name)}" data-title="{esc(one.title)}"'
        f' data-note="{esc(one.note)}"></div><code hidden>{_figure_json(one.figure)}</code>'
        f"{_legend(one.figure)}</figure>"
    )


def _legend(figure: go.Figure) -> str:
    entries = charts.legend(figure)
    lines = "".join(
        f'<li><i class="{esc(one.look)}" style="--c:{esc(one.colour)}" aria-hidden="true"></i>{bdi(one.name)}</li>'
        for one in entries
    )
    return f'<ul class="fb-abl-legend">{lines}</ul>' if entries else ""


def _figure_json(figure: go.Figure) -> str:
    """The figure as JSON without any sign that HTML would take for its own: it holds names of documents and models."""
    found = str(figure.to_json(engine="json"))
    return found.translate({ord(sign): f"\\u{ord(sign):04x}" for sign in "<>&"})


def board(found: Board) -> str:
    """Everything."""
    if not found.panels and not found.efficiency:
        return (
            f'<div class="fb-card fb-abl-told" role="status"><p class="fb-hint">{esc(words.ABLATION_NOTHING)}</p></div>'
        )
    sections = [
        _section("accuracy", "Accuracy", *(_accuracy(n, panel) for n, panel in enumerate(found.panels) if panel.rows)),
        _section("cost", "Cost against accuracy", _grid(*(_cost(n, p, found) for n, p in enumerate(found.panels)))),
        _section("tokens", "Tokens and time", _grid(*_tokens(found))),
        _section("errors", "What became of the questions", _grid(*_errors(found))),
        _section("tables", "Tables", *_tables(found)),
    ]
    return f'<div class="fb-abl" data-ablation="drawn">{_contents()}{_notes(found)}{"".join(sections)}</div>'


def hint(told: str) -> str:
    """A line that explains."""
    return f'<p class="fb-hint">{esc(told)}</p>'


def reading() -> str:
    """Before the first board."""
    return f'<div class="fb-abl-told" role="status">{esc(words.ABLATION_READING)}</div>'


def _contents() -> str:
    places = (
        ("accuracy", "Accuracy"),
        ("cost", "Cost"),
        ("tokens", "Tokens and time"),
        ("errors", "Errors"),
        ("tables", "Tables"),
    )
    links = "".join(
        f'<button type="button" class="fb-link" data-abl-go="abl-{name}">{head}</button>' for name, head in places
    )
    return f'<nav class="fb-abl-nav" aria-label="On this page">{links}<span class="fb-hint">{esc(words.ABLATION_LEGEND)}</span></nav>'


def _notes(found: Board) -> str:
    """What a reader of the runs' figures must know: that CLIP was missing, say."""
    lines = "".join(f"<p><b>{bdi(label)}</b>: {bdi(' '.join(note.splitlines()))}</p>" for label, note in found.notes)
    return f'<div class="fb-abl-notes fb-hint">{lines}</div>' if lines else ""


def _section(name: str, title: str, *inside: str) -> str:
    return f'<section class="fb-abl-section" id="abl-{name}" tabindex="-1"><h2>{esc(title)}</h2>{"".join(inside)}</section>'


def _head(title: str, judge: str = "") -> str:
    return f'<h3 class="fb-abl-head">{esc(title)} <small>{esc(judge)}</small></h3>'


def _grid(*shown: Chart, small: bool = False) -> str:
    return f'<div class="fb-abl-grid{" small" if small else ""}">{"".join(chart(one) for one in shown)}</div>'


def _judged(panel: Panel) -> str:
    """Who gave the verdicts on accuracy."""
    judges = dict.fromkeys(
        row["judges"].get("accuracy") or panel.judge if row.get("judges") else row["judge"] for row in panel.rows
    )
    return f"Judged by {'; '.join(judges) or panel.judge}."


def _accuracy(n: int, panel: Panel) -> str:
    """Heatmaps, one per generator and source; then bars with intervals, one figure per question type."""
    heats, seen = [], dict[tuple[str, str], None]()
    for row in panel.rows:
        seen.setdefault((row["source"], row["generator"]))
    for place, (source, generator) in enumerate(seen):
        rows = [row for row in panel.rows if (row["source"], row["generator"]) == (source, generator)]
        heats.append(
            Chart(f"{generator}, {shorten(source, 30)}", f"accuracy-heatmap-{n + 1}-{place + 1}", charts.heatmap(rows))
        )
    bars = [
        Chart(
            f"Accuracy: {charts.type_words(kind)}",
            f"accuracy-{kind}-{n + 1}",
            charts.accuracy_bars([row for row in panel.rows if row["question_type"] == kind]),
            _judged(panel),
        )
        for kind in _kinds(panel)
    ]
    return f'<div class="fb-abl-panel">{_head(panel.title, panel.judge)}{_grid(*heats, small=True)}{_grid(*bars)}</div>'


def _kinds(panel: Panel) -> list[str]:
    found = dict.fromkeys(row["question_type"] for row in panel.rows)
    return sorted(found, key=lambda kind: QUESTION_TYPES.index(kind) if kind in QUESTION_TYPES else len(QUESTION_TYPES))


def _cost(n: int, panel: Panel, found: Board) -> Chart:
    inside = {row["source"] for row in panel.rows}
    ceilings = {key: row for key, row in found.ceilings.items() if key[0] in inside}
    note = f"{_judged(panel)} One crop's pixels are sent, so Recall@1 is the ceiling of retrieval."
    return Chart(
        f"Cost and accuracy, pixel-only ({panel.title.lower()})",
        f"figure-2-{n + 1}",
        charts.cost_accuracy(panel.priced, ceilings),
        note,
    )


def _tokens(found: Board) -> list[Chart]:
    pixels = [row for row in found.efficiency if row["question_type"] == "figure_pixel"]
    note = "The same text and image for every generator; what tokens an image takes is the provider's affair."
    times = _over_types(found.efficiency)
    return [
        Chart("Input tokens per question, pixel-only", "figure-3", charts.tokens(pixels), note),
        Chart(
            "Time to the answer",
            "latency",
            charts.latency(times, found.latency, STUDY_LABEL),
            words.ABLATION_TIMES,
        ),
    ]


def _over_types(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Times of the question type with most questions: medians of several can't be joined."""
    best: dict[tuple[str, str, str], dict[str, Any]] = {}
    for row in rows:
        place = (row["source"], row["generator"], row["system"])
        if place not in best or row["n"] > best[place]["n"]:
            best[place] = dict(row)
    return list(best.values())


def _errors(found: Board) -> list[Chart]:
    shown: list[Chart] = []
    for n, panel in enumerate(found.panels, start=1):
        if panel.causes:
            end, systems = panel.title.lower(), " and ".join(dict.fromkeys(r["system"] for r in panel.causes_by_type))
            by_type = charts.taxonomy(panel.causes_by_type, lambda row: charts.type_words(row["question_type"]))
            shown += [
                Chart(f"Causes ({end})", f"errors-{n}", charts.taxonomy(panel.causes), _judged(panel)),
                Chart(f"Causes by question type, {systems} ({end})", f"errors-by-type-{n}", by_type, _judged(panel)),
            ]
    return shown or [Chart("Causes", "errors", charts.taxonomy(()))]


def _tables(found: Board) -> list[str]:
    """Those that no judge is needed for, then those of each panel."""
    parts = [
        _head(words.ABLATION_ANY_JUDGE),
        sheet.retrieval(found.retrieval),
        sheet.pages(found.pages),
        sheet.bridged(found.bridged),
        sheet.protocol_sets(found.protocol_sets),
        sheet.efficiency(found.efficiency),
    ]
    for n, panel in enumerate(found.panels, start=1):
        end, judge = f"-{n}" if len(found.panels) > 1 else "", panel.judge
        parts += [
            _head(panel.title, judge),
            sheet.ablation(panel.rows, f"table-2{end}", judge),
            sheet.differences(panel.differences, f"differences{end}", judge),
            sheet.protocols(panel.protocols, f"table-3{end}", judge),
            sheet.origins(panel.origins, f"origins{end}", judge),
            sheet.diagnostic(panel.diagnostic, f"table-4{end}", judge),
            sheet.given(panel.given, f"given{end}", judge),
            sheet.causes(panel.causes, f"causes{end}", judge),
        ]
    return parts


# --- the questions behind a cell -------------------------------------------------------------------------------------


def questions(
    key: Key,
    generator: str,
    source: str,
    results: Sequence[Result],
    judges: Sequence[str],
    cause: str = "",
    judge: str = "",
) -> str:
    """The questions of a cell, each with verdicts and a way to its trace; ``judge`` says what became of them."""
    _, _, system, kinds = key
    of = [charts.type_words(kind) for kind in kinds.split(BETWEEN) if kind] + [cause] * bool(cause)
    head = f"{plural(len(results), 'question')} of {', '.join([system, generator, *of, source])}"
    shown = "".join(_question(result, judges, judge) for result in results[:MAX_QUESTIONS])
    columns = ("Question", "Answer", "Reference", "Verdicts", "Gold rank", "Became", "")
    heads = "".join(f'<th scope="col">{esc(name) or "<span class=fb-sr>Trace</span>"}</th>' for name in columns)
    names = ", ".join(judges)
    return (
        f'<section class="fb-card fb-abl-table fb-abl-questions" id="abl-questions" tabindex="-1" data-ablation="questions"><header>'
        f'<h3>{bdi(head)}</h3><button type="button" class="fb-small" data-abl-close>Close</button></header>'
        f'<p class="fb-hint">Judged by {esc(names)}. A question opens in Explore as it was answered.</p>'
        f'<div class="fb-abl-scroll" tabindex="0" role="region" aria-label="Questions"><table><thead><tr>{heads}</tr></thead>'
        f"<tbody>{shown}</tbody></table></div></section>"
    )


def _question(result: Result, judges: Sequence[str], judge: str) -> str:
    ranks = "branch off" if "off" in result.places else _ranks(result)
    accurate = judge or next((name for name in judges if "accuracy" in result.verdicts.get(name, {})), "")
    became = "failed" if result.state == "failed" else tables.cause(result, accurate)
    wanted = esc(json.dumps([result.run, result.question_id, result.system, result.generator]))
    label = esc(f"Open: {shorten(result.question, 80)}")
    answer = result.error if result.state == "failed" else result.answer
    return (
        f"<tr><td>{bdi(result.question)}{_parts(result)}</td><td>{bdi(shorten(answer, 300))}</td>"
        f"<td>{bdi(shorten(result.reference, 200))}</td>"
        f"<td>{_verdicts(result, judges)}</td><td>{esc(ranks)}</td><td>{esc(became)}</td>"
        f'<td><button type="button" class="fb-small" data-abl-question="{wanted}" aria-label="{label}">Open</button></td></tr>'
    )


def _ranks(result: Result) -> str:
    """The rank of each gold source. One that the graph brought into the prompt was there, wherever the text ranking had it."""
    shown = []
    for rank, place in zip_longest(result.ranks, result.places):
        ranked = "" if rank is None else str(rank)
        shown.append(" ".join(filter(None, (ranked, "bridged" * (place == "bridged")))) or "not found")
    return ", ".join(shown) or "–"


def _parts(result: Result) -> str:
    """What was searched instead of the whole question, where it was searched part by part."""
    if not result.parts:
        return ""
    listed = "".join(f"<li>{bdi(part)}</li>" for part in result.parts)
    return f'<details class="fb-abl-parts"><summary>searched in {len(result.parts)} parts</summary><ol>{listed}</ol></details>'


def _verdicts(result: Result, judges: Sequence[str]) -> str:
    found = [
        (metric, name, result.verdicts[name][metric])
        for metric in METRICS
        for name in judges
        if metric in result.verdicts.get(name, {})
    ]
    if not found:
        return '<span class="fb-hint">not judged</span>'
    several = len({metric for metric, _, _ in found}) < len(found)
    return "".join(
        f'<span class="fb-abl-verdict {look}" title="{esc(f"{metric}, by {name}")}"><span aria-hidden="true">{sign}</span> '
        f"{metric[:5]}.{f' {esc(name)}' * several}<span class=fb-sr> {said}</span></span>"
        for metric, name, verdict in found
        for sign, look, said in [_LOOKS[verdict]]
    )


_LOOKS = {True: ("✓", "yes", "yes"), False: ("✗", "no", "no"), None: ("?", "unclear", "unparseable")}


# --- runs ------------------------------------------------------------------------------------------------------------


def runs(found: Sequence[Run], may_start: bool, going: bool) -> str:
    """The runs that are not in any comparison, and why; with ways to go on where that is allowed."""
    lines = "".join(_run(run, may_start, going) for run in found if run.state != "complete")
    return f'<ul class="fb-abl-runs">{lines}</ul>' if lines else ""


def _run(run: Run, may_start: bool, going: bool) -> str:
    failed = f", {run.failed:,} failed" if run.failed else ""
    state = f"{run.done:,} of {run.planned:,} done{failed}"
    resume = ""
    if may_start and not going and run.state == "incomplete":
        label = esc(f"Resume {run.label or run.id}")
        resume = f'<button type="button" class="fb-small" data-abl-resume="{esc(run.id)}" aria-label="{label}">Resume</button>'
    told = words.ABLATION_RUNNING if run.state == "running" else words.ABLATION_INCOMPLETE
    return (
        f'<li data-run="{esc(run.id)}"><span class="fb-abl-state {esc(run.state)}">{esc(run.state)}</span> {bdi(run_label(run))}: '
        f"{esc(state)}. {esc(told)} {resume}</li>"
    )


def run_label(run: Run) -> str:
    """A run's name as the page has it: its label, else its id, and its day."""
    return f"{shorten(run.label, 60) or run.id} ({run.created[:10]})"


def progress(state: RunProgress | None, told: str = "", bad: bool = False, judging: str = "") -> str:
    """How far the run is, or what came of it; empty before the first."""
    if state is None and not told:
        return ""
    if state is None or told:
        look = "fb-abl-told bad" if bad else "fb-abl-told"
        return f'<div class="{look}" role="{"alert" if bad else "status"}">{esc(told)}</div>'
    asked = state.done + state.failed
    line = judging or state.line
    return (
        f'<div class="fb-abl-told" data-ablation="running"><label>{esc(line)}'
        f'<progress max="{max(1, state.total)}" value="{asked}"></progress></label></div>'
    )

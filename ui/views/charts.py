"""Rows of ``rag.evaluate.tables`` and ``rag.evaluate.published`` -> plotly figures.

Every row has, besides what its table gives it, ``source`` (the study or a run, as the page names it), ``published`` (whether it is the
study's) and ``key`` (source, generator, system, question type: what a click sends). Published and own stand apart by pattern or open
marker and by words, never by colour alone. Colours are names of the page's CSS variables, which the browser fills in (``ablation.js``),
so that a figure is drawn for day and night without being sent twice. A figure that can't be drawn says why.
"""

from __future__ import annotations

import html
import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rag.evaluate.published import PIXEL_ONLY
from rag.evaluate.tables import CAUSES, MULTIMODAL, Row
from ui.views.markup import clean, shorten

if TYPE_CHECKING:
    import plotly.graph_objects as go

INK, MUTED, LINE, HEAT = "var(--fb-ink)", "var(--fb-muted)", "var(--fb-line)", "var(--fb-heat)"
CLEAR = "rgba(0,0,0,0)"

SYSTEM_COLOURS: Mapping[str, str] = {
    "baseline": "var(--fb-text)",
    "+KG": "var(--fb-graph)",
    "+multimodal": "var(--fb-visual)",
    "+both": "var(--fb-both)",
}
"""A system has the colour of the branch that it adds."""

CAUSE_LOOKS: Mapping[str, tuple[str, str]] = dict(
    zip(
        (*CAUSES, "unjudged"),
        (
            ("var(--fb-graph)", ""),
            (LINE, ""),
            ("var(--fb-visual)", ""),
            ("var(--fb-visual)", "/"),
            ("var(--fb-visual)", "x"),
            ("var(--fb-text)", ""),
            ("var(--fb-text)", "/"),
            ("var(--fb-text)", "x"),
            (LINE, "."),
        ),
        strict=True,
    )
)
"""Cause -> colour and pattern: found by none, lost on the way to the prompt (orange), lost by the generator (blue)."""

TYPE_WORDS: Mapping[str, str] = {
    "text": "text",
    "multihop": "multi-hop",
    "figure_pixel": "figure, pixel-only",
    "figure_caption": "figure, in caption",
    "unanswerable": "unanswerable",
}

BAR_PX, GROUP_PX, FRAME_PX, MIN_PX = 13, 14, 46, 104
"""Heights: of a bar, between groups, of the axis with its title, of a figure at least."""
COST_PX = 320
SOURCE_CHARS = 20
"""Names of sources are cut here in figures."""
NEAR = 1.5
"""Prices within this factor are so near each other that labels above them would meet."""
LEVEL = 0.02
"""Accuracies that differ by less are so near each other that labels beside them would meet."""


def type_words(kind: str) -> str:
    """A question type in words."""
    return TYPE_WORDS.get(kind, clean(kind))


def plain(text: object) -> str:
    """Untrusted text inside a figure, where ``<b>`` and its like would be markup."""
    return clean(str(text)).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def empty(why: str) -> go.Figure:
    """A figure that says why it isn't drawn."""
    note = {"text": plain(why), "showarrow": False, "xref": "paper", "yref": "paper", "x": 0.5, "y": 0.5}
    return _figure([], MIN_PX, {"visible": False}, {"visible": False}, annotations=[note])


def _figure(
    traces: Sequence[Any], height: float, x: Mapping[str, Any], y: Mapping[str, Any], **layout: Any
) -> go.Figure:
    """A figure in the page's looks; ``x`` and ``y`` are what its axes have of their own."""
    import plotly.graph_objects as go

    axis = {
        "gridcolor": LINE,
        "linecolor": LINE,
        "zerolinecolor": LINE,
        "automargin": True,
        "fixedrange": True,
        "ticks": "",
    }
    looks = {
        "template": {},
        "height": height,
        "paper_bgcolor": CLEAR,
        "plot_bgcolor": CLEAR,
        "font": {"color": INK, "size": 12},
        "margin": {"l": 8, "r": 12, "t": 8, "b": 8},
        "legend": _LEGEND,
        "showlegend": False,
        "hoverlabel": {"bgcolor": "var(--fb-card)", "bordercolor": LINE, "font": {"color": INK}},
        "xaxis": {**axis, **x},
        "yaxis": {**axis, **y},
    }
    return go.Figure(list(traces), {**looks, **layout})


# Shown in what is exported; the page has its own (``legend``), which wraps on a phone.
_LEGEND = {
    "orientation": "h",
    "xref": "container",
    "x": 0.01,
    "yref": "container",
    "y": 0.0,
    "yanchor": "bottom",
    "font": {"size": 11},
    "traceorder": "normal",
}
_SMALL = {"size": 11}
_GROUPS = {"autorange": "reversed", "showgrid": False, "tickfont": _SMALL}


@dataclass(frozen=True, slots=True)
class Entry:
    """A line of a legend: how a trace is drawn (``hatched``, ``dotted``, ``open`` or ``crossed``, else plain), and what it is."""

    name: str
    colour: str
    look: str


_PATTERNS = {"/": "hatched", "x": "crossed", ".": "dotted"}


def legend(figure: go.Figure) -> tuple[Entry, ...]:
    """What the page says beside a figure of several traces, or of one whose name says something."""
    found = []
    for trace in figure.data:
        if trace.name is None:
            continue
        shape = trace.marker.pattern.shape if trace.type == "bar" else ""
        look = _PATTERNS.get(str(shape), "")
        if trace.type == "scatter":
            look = "open" if str(trace.marker.symbol).endswith("-open") else str(trace.marker.symbol)
        found.append(Entry(html.unescape(trace.name), str(trace.marker.color), look))
    return tuple(found)


def _who(row: Row) -> str:
    """Generator, and source with n, on two lines of an axis."""
    n = f", n {row['n']}" if "n" in row else ""
    return f"{plain(row['generator'])}<br>{plain(_source(row))}{n}"


def _source(row: Row) -> str:
    """The source in few letters."""
    return shorten(row["source"], SOURCE_CHARS)


def _known(rows: Iterable[Row], name: str) -> list[Row]:
    return [row for row in rows if row.get(name) is not None]


def _share(row: Row, name: str = "accuracy") -> str:
    """A share with its interval and n."""
    low, high = row.get(f"{name}_low"), row.get(f"{name}_high")
    interval = "" if low is None or high is None else f" [{low:.2f}, {high:.2f}]"
    return f"{row[name]:.3f}{interval}, n = {row['n']}"


# --- accuracy --------------------------------------------------------------------------------------------------------


def heatmap(rows: Sequence[Row]) -> go.Figure:
    """Accuracy of one generator of one source: systems down, question types across, n in every cell."""
    import plotly.graph_objects as go

    known = _known(rows, "accuracy")
    if not known:
        return empty("No answer of this generator has been judged yet.")
    kinds, systems = _ordered(known, "question_type"), _ordered(known, "system")
    cell = {(row["system"], row["question_type"]): row for row in known}
    grid = [[cell.get((system, kind)) for kind in kinds] for system in systems]
    drawn = go.Heatmap(
        x=[_HEADS.get(kind, type_words(kind)) for kind in kinds],
        y=[plain(system) for system in systems],
        z=[[row and row["accuracy"] for row in line] for line in grid],
        text=[[f"{row['accuracy']:.2f}<br>n {row['n']}" if row else "" for row in line] for line in grid],
        hovertext=[[_share(row) if row else "" for row in line] for line in grid],
        customdata=[[row and row["key"] for row in line] for line in grid],
        texttemplate="%{text}",
        hovertemplate="%{y}, %{x}: %{hovertext}<extra></extra>",
        textfont={"size": 11, "color": INK},
        colorscale=[[0, "var(--fb-sunken)"], [1, HEAT]],
        zmin=0,
        zmax=1,
        showscale=False,
        xgap=2,
        ygap=2,
    )
    across = {"side": "top", "showgrid": False, "tickangle": 0, "tickfont": {"size": 10.5}}
    return _figure([drawn], 44 + 40 * len(systems), across, _GROUPS)


_HEADS = {
    "multihop": "multi-<br>hop",
    "figure_pixel": "pixel-<br>only",
    "figure_caption": "in<br>caption",
    "unanswerable": "unanswer-<br>able",
}


def accuracy_bars(rows: Sequence[Row], metric: str = "accuracy") -> go.Figure:
    """One question type: a bar per generator, source and system, with its 95% interval."""
    known = _known(rows, metric)
    if not known:
        return empty("None of the chosen results has a verdict on these questions.")

    def ends(found: Sequence[Row]) -> dict[str, Any]:
        above = [max(0.0, row[f"{metric}_high"] - row[metric]) for row in found]
        below = [max(0.0, row[metric] - row[f"{metric}_low"]) for row in found]
        spread = {"type": "data", "symmetric": False, "array": above, "arrayminus": below}
        return {"error_x": {**spread, "color": INK, "thickness": 1, "width": 2}}

    return _bars(known, metric, lambda row: _share(row, metric), {"range": [0, 1.02], "tickformat": ".1f"}, ends)


def _bars(
    rows: Sequence[Row],
    name: str,
    words: Callable[[Row], str],
    x: Mapping[str, Any],
    more: Callable[[Sequence[Row]], dict[str, Any]],
) -> go.Figure:
    """Grouped horizontal bars: a trace per system, published apart from own."""
    import plotly.graph_objects as go

    traces = []
    systems = _ordered(rows, "system")
    for published in (True, False):
        for system in systems:
            found = [row for row in rows if row["system"] == system and row["published"] is published]
            if not found:
                continue
            traces.append(
                go.Bar(
                    x=[row[name] for row in found],
                    y=[_who(row) for row in found],
                    name=plain(system) + (", published" if published else ""),
                    orientation="h",
                    # Own and published bars of a system share a place in the group: their generators differ in source.
                    offsetgroup=system,
                    marker=_marker(system, published),
                    customdata=[row["key"] for row in found],
                    hovertext=[words(row) for row in found],
                    hovertemplate=f"{plain(system)}, %{{y}}: %{{hovertext}}<extra></extra>",
                    **more(found),
                )
            )
    groups = len({_who(row) for row in rows})
    height = max(MIN_PX, FRAME_PX + groups * (GROUP_PX + BAR_PX * len(systems)))
    return _figure(traces, height, x, _GROUPS, barmode="group", bargap=0.22)


def _marker(system: str, published: bool) -> dict[str, Any]:
    colour = SYSTEM_COLOURS.get(system, MUTED)
    if not published:
        return {"color": colour}
    # Hatched: the pattern's lines in the colour on nothing.
    pattern = {"shape": "/", "size": 5, "solidity": 0.35, "fgcolor": colour, "bgcolor": CLEAR, "fillmode": "replace"}
    return {"color": colour, "pattern": pattern, "line": {"color": colour, "width": 1}}


def _ordered(rows: Iterable[Row], name: str) -> list[str]:
    """Values in the order of the study's tables."""
    known = [*TYPE_WORDS, *SYSTEM_COLOURS]
    found = dict.fromkeys(str(row[name]) for row in rows)
    return sorted(found, key=lambda value: known.index(value) if value in known else len(known))


# --- cost, tokens, time ----------------------------------------------------------------------------------------------


def cost_accuracy(rows: Sequence[Row], ceilings: Mapping[tuple[str, bool], Row]) -> go.Figure:
    """Figure 2: USD per 100 questions against accuracy on pixel-only questions, under what retrieval allows.

    Args:
        rows: with ``accuracy`` and ``usd_per_100_questions``.
        ceilings: (source, published) -> retrieval of the same questions: the first crop's pixels alone are sent, so Recall@1 is the
            operational ceiling; Recall@3 is drawn too.
    """

    known = [r for r in _known(rows, "accuracy") if r["question_type"] == PIXEL_ONLY and "usd_per_100_questions" in r]
    multimodal = [row for row in known if row["system"] == MULTIMODAL]
    known = multimodal or known
    priced = [dict(row) for row in _known(known, "usd_per_100_questions")]
    if not priced:
        why = (
            "the price of none of them is known"
            if known
            else "there is no judged answer to pixel-only figure questions"
        )
        return empty(f"Not drawn: {why}.")
    paid = [row["usd_per_100_questions"] for row in priced if row["usd_per_100_questions"] > 0]
    free_at = min(paid, default=0.01) / 3
    for row in priced:
        row["at"] = row["usd_per_100_questions"] or free_at
    traces = [
        _points([row for row in priced if (row["system"], row["source"]) == group], priced)
        for group in dict.fromkeys((row["system"], row["source"]) for row in priced)
    ]
    highest = [row["accuracy"] for row in priced]
    highest += [row[name] for row in ceilings.values() for name in ("recall_at_1", "recall_at_3") if row.get(name)]
    y = {"title": _title("accuracy"), "range": [-0.03, min(1.05, max(highest) * 1.12 + 0.03)]}
    figure = _figure(traces, COST_PX, _money_axis(paid, free_at if len(paid) < len(priced) else None), y)
    for (_, published), row in ceilings.items():
        _ceiling(figure, published, row)
    return figure


def _points(found: Sequence[Row], others: Sequence[Row]) -> go.Scatter:
    """The generators of one source with one system."""
    import plotly.graph_objects as go

    first = found[0]
    source = "published (open)" if first["published"] else plain(_source(first))
    return go.Scatter(
        x=[row["at"] for row in found],
        y=[row["accuracy"] for row in found],
        mode="markers+text",
        text=[plain(row["generator"]) for row in found],
        textposition=[_beside(row, others) for row in found],
        textfont=_SMALL,
        name=f"{plain(first['system'])}, {source}, n {first['n']}",
        marker={
            "symbol": "circle-open" if first["published"] else "circle",
            "size": 11,
            "color": SYSTEM_COLOURS.get(first["system"], MUTED),
            "line": {"width": 2, "color": SYSTEM_COLOURS.get(first["system"], MUTED)},
        },
        customdata=[row["key"] for row in found],
        hovertext=[f"{row['usd_per_100_questions']:.4f} USD per 100 questions, {_share(row)}" for row in found],
        hovertemplate="%{text}: %{hovertext}<extra></extra>",
        cliponaxis=False,
    )


def _beside(row: Row, others: Sequence[Row]) -> str:
    """Where a point's label stands: right of it, but for the dearest, where there is no room; of two that are next to each other the one
    stands higher than the other."""
    dearest = row["at"] == max(other["at"] for other in others)
    across, level = ("center", 1.0) if dearest else ("right", LEVEL)
    near = [other["accuracy"] - row["accuracy"] for other in others if 1 / NEAR < row["at"] / other["at"] < NEAR]
    near = [above for above in near if abs(above) < level]
    if max(near) > 0:
        return f"bottom {across}"
    return f"{'top' if dearest or min(near) < 0 else 'middle'} {across}"


def _ceiling(figure: go.Figure, published: bool, row: Row) -> None:
    for name, words, dash in (("recall_at_1", "Recall@1", "dash"), ("recall_at_3", "Recall@3", "dot")):
        if row.get(name) is None:
            continue
        figure.add_hline(
            y=row[name],
            line={"color": MUTED, "dash": dash, "width": 1 if published else 1.8},
            annotation={
                "text": f"{words} {row[name]:.3f}, {plain(_source(row))}",
                "font": {"size": 10.5, "color": MUTED},
                "xanchor": "left" if published else "right",
                "x": 0 if published else 1,
            },
        )


def _money_axis(paid: Sequence[float], free_at: float | None) -> dict[str, Any]:
    """A logarithmic axis; what is free has its own place left of it, since a logarithm has no zero."""
    low, high = min(paid, default=free_at or 1.0), max(paid, default=free_at or 1.0)
    ticks = [10.0**n * m for n in range(-5, 3) for m in (1, 3) if paid and low / 2 <= 10.0**n * m <= high * 2]
    labels = [f"{tick:g}" for tick in ticks]
    if free_at is not None:
        ticks, labels = [free_at, *ticks], ["free", *labels]
    ends = [math.log10(value) for value in (free_at or low, high)]
    return {
        "type": "log",
        "title": _title("USD per 100 questions, logarithmic"),
        "tickvals": ticks,
        "ticktext": labels,
        "range": [ends[0] - 0.35, ends[1] + 0.45],
    }


def tokens(rows: Sequence[Row]) -> go.Figure:
    """Figure 3: input tokens per question; estimated counts are marked with ``≈``."""
    known = _known(rows, "input_tokens_per_question")
    if not known:
        return empty(
            "Not drawn: no tokens were counted on these questions; the study gives them for pixel-only figure questions."
        )

    def words(row: Row) -> str:
        about = "≈ " if row.get("tokens_source", "reported") != "reported" else ""
        return f"{about}{row['input_tokens_per_question']:,.0f} tokens, n = {row['n']}"

    def labels(found: Sequence[Row]) -> dict[str, Any]:
        return {
            "text": [words(row).split(" tokens")[0] for row in found],
            "textposition": "outside",
            "textfont": {"size": 10},
            "cliponaxis": False,
        }

    most = max(row["input_tokens_per_question"] for row in known)
    x = {"range": [0, most * 1.18], "title": _title("input tokens per question"), "tickformat": ",d", "nticks": 5}
    return _bars(known, "input_tokens_per_question", words, x, labels)


def _title(words: str) -> dict[str, Any]:
    return {"text": words, "font": _SMALL}


def latency(rows: Sequence[Row], ranges: Mapping[str, tuple[float, float]], source: str) -> go.Figure:
    """Medians of the time to the whole answer; of the study, which gives ranges over its conditions, bars from the shortest to the
    longest.

    Args:
        rows: of ``efficiency``.
        ranges: generator -> (shortest, longest) in ms, as published.
        source: what the published ones are called.
    """
    import plotly.graph_objects as go

    own = [row for row in _known(rows, "latency_ms") if not row["published"]]
    if not own and not ranges:
        return empty("Not drawn: none of the chosen sources has times.")
    traces: list[Any] = [
        go.Bar(
            x=[high - low for low, high in ranges.values()],
            base=[low for low, _ in ranges.values()],
            y=[_who({"generator": name, "source": source}) for name in ranges],
            name="published: range over its conditions",
            orientation="h",
            width=0.4,
            marker=_marker("", True),
            hovertext=[f"{low:,.0f} to {high:,.0f} ms" for low, high in ranges.values()],
            hovertemplate="%{y}: %{hovertext}<extra></extra>",
        )
    ]
    for system, symbol in zip(_ordered(own, "system"), itertools.cycle(_SYMBOLS), strict=False):
        found = [row for row in own if row["system"] == system]
        traces.append(
            go.Scatter(
                x=[row["latency_ms"] for row in found],
                y=[_who(row) for row in found],
                mode="markers",
                name=plain(system),
                marker={"symbol": symbol, "size": 10, "color": SYSTEM_COLOURS.get(system, MUTED), "opacity": 0.85},
                customdata=[row["key"] for row in found],
                hovertext=[
                    f"{row['latency_ms']:,.0f} ms, and retrieval {row['retrieval_ms']:,.0f} ms" for row in found
                ],
                hovertemplate=f"{plain(system)}, %{{y}}: %{{hovertext}}<extra></extra>",
            )
        )
    groups = len(ranges) + len({_who(row) for row in own})
    x = {"title": _title("ms to the whole answer"), "rangemode": "tozero", "tickformat": ",d", "nticks": 5}
    return _figure(traces, max(MIN_PX, FRAME_PX + 16 + 42 * groups), x, _GROUPS)


_SYMBOLS = ("circle", "diamond", "square", "triangle-up")


# --- errors ----------------------------------------------------------------------------------------------------------


def taxonomy(rows: Sequence[Row], of: Callable[[Row], str] = lambda row: str(row["system"])) -> go.Figure:
    """What became of the questions: shares of n per generator and what ``of`` says, stacked."""
    import plotly.graph_objects as go

    known = [row for row in rows if row["n"]]
    if not known:
        return empty("Not drawn: the study publishes no causes, and no judged run is chosen.")
    places = [f"{plain(of(row))}, {plain(row['generator'])}<br>{plain(_source(row))}, n {row['n']}" for row in known]
    traces = []
    for cause, (colour, shape) in CAUSE_LOOKS.items():
        counts = [row["causes"].get(cause, 0) for row in known]
        if any(counts):
            pattern: dict[str, Any] = {
                "shape": shape,
                "size": 5,
                "solidity": 0.45,
                "fgcolor": "var(--fb-card)",
                "bgcolor": colour,
            }
            traces.append(
                go.Bar(
                    x=[count / row["n"] for count, row in zip(counts, known, strict=True)],
                    y=places,
                    orientation="h",
                    name=cause,
                    marker={"color": colour, "pattern": pattern},
                    customdata=[(*row["key"], cause, row["by"]) for row in known],
                    hovertext=[f"{count} of {row['n']}" for count, row in zip(counts, known, strict=True)],
                    hovertemplate=f"{cause}: %{{hovertext}}<extra></extra>",
                )
            )
    x = {"range": [0, 1], "tickformat": ".0%"}
    return _figure(traces, FRAME_PX + 38 * len(known), x, _GROUPS, barmode="stack", bargap=0.3)

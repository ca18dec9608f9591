"""Rows of ``rag.evaluate.tables`` and ``rag.evaluate.published`` -> plotly figures.

Every row has, besides what its table gives it, ``source`` (the study or a run, as the page names it), ``published`` (whether it is the
study's) and ``key`` (source, generator, system, question type: what a click sends). Published and own stand apart by pattern or open
marker and by words, never by colour alone. Colours are names of the page's CSS variables, which the browser fills in (``ablation.js``),
so that a figure is drawn for day and night without being sent twice. A figure that can't be drawn says why.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rag.evaluate.published import PIXEL_ONLY
from rag.evaluate.tables import CAUSES, MULTIMODAL, Row
from ui.views.markup import clean

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

BAR_PX, GROUP_PX, FRAME_PX, MIN_PX = 13, 14, 84, 170
"""Heights: of a bar, between groups, of axis and legend, of a figure at least."""
COST_PX = 340


def type_words(kind: str) -> str:
    """A question type in words."""
    return TYPE_WORDS.get(kind, clean(kind))


def plain(text: object) -> str:
    """Untrusted text inside a figure, where ``<b>`` and its like would be markup."""
    return clean(str(text)).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def empty(why: str) -> go.Figure:
    """A figure that says why it isn't drawn."""
    note = {"text": plain(why), "showarrow": False, "xref": "paper", "yref": "paper", "x": 0.5, "y": 0.5}
    figure = _figure([], MIN_PX, annotations=[note])
    return figure.update_xaxes(visible=False).update_yaxes(visible=False)


def _figure(traces: Sequence[Any], height: float, **layout: Any) -> go.Figure:
    import plotly.graph_objects as go

    figure = go.Figure(list(traces))
    figure.update_layout(
        template={},
        height=height,
        paper_bgcolor=CLEAR,
        plot_bgcolor=CLEAR,
        font={"color": INK, "size": 12},
        margin={"l": 8, "r": 12, "t": 8, "b": 8},
        legend={"orientation": "h", "x": 0, "y": -0.02, "yref": "container", "yanchor": "bottom", "font": {"size": 11}},
        hoverlabel={"bgcolor": "var(--fb-card)", "bordercolor": LINE, "font": {"color": INK}},
        **layout,
    )
    axis = {"gridcolor": LINE, "linecolor": LINE, "zerolinecolor": LINE, "automargin": True, "fixedrange": True}
    return figure.update_xaxes(**axis).update_yaxes(**axis)


def _who(row: Row) -> str:
    """Generator and source, on two lines of an axis."""
    return f"{plain(row['generator'])}<br>{plain(row['source'])}"


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
        x=[type_words(kind).replace(", ", ",<br>") for kind in kinds],
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
    figure = _figure([drawn], 44 + 40 * len(systems))
    figure.update_yaxes(autorange="reversed", showgrid=False)
    return figure.update_xaxes(side="top", showgrid=False, tickangle=0, tickfont={"size": 11})


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

    figure = _bars(known, metric, lambda row: _share(row, metric), ends)
    return figure.update_xaxes(range=[0, 1.02], tickformat=".1f")


def _bars(rows: Sequence[Row], name: str, words: Any, more: Any = lambda found: {}, **looks: Any) -> go.Figure:
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
                    **looks,
                    **more(found),
                )
            )
    groups = len({_who(row) for row in rows})
    height = max(MIN_PX, FRAME_PX + groups * (GROUP_PX + BAR_PX * len(systems)))
    figure = _figure(traces, height, barmode="group", bargap=0.22)
    return figure.update_yaxes(autorange="reversed", showgrid=False, tickfont={"size": 11})


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
    import plotly.graph_objects as go

    known = [r for r in _known(rows, "accuracy") if r["question_type"] == PIXEL_ONLY and "usd_per_100_questions" in r]
    multimodal = [row for row in known if row["system"] == MULTIMODAL]
    known = multimodal or known
    priced = _known(known, "usd_per_100_questions")
    if not priced:
        why = (
            "the price of none of them is known"
            if known
            else "there is no judged answer to pixel-only figure questions"
        )
        return empty(f"Not drawn: {why}.")
    paid = [row["usd_per_100_questions"] for row in priced if row["usd_per_100_questions"] > 0]
    free_at = min(paid, default=0.01) / 3
    traces = []
    for published in (True, False):
        for system in _ordered(priced, "system"):
            found = [row for row in priced if row["system"] == system and row["published"] is published]
            if found:
                words = [f"{_usd(row)} per 100 questions, {_share(row)}" for row in found]
                traces.append(
                    go.Scatter(
                        x=[row["usd_per_100_questions"] or free_at for row in found],
                        y=[row["accuracy"] for row in found],
                        mode="markers+text",
                        text=[plain(row["generator"]) for row in found],
                        textposition=["top center", "bottom center"] * (len(found) // 2)
                        + ["top center"] * (len(found) % 2),
                        textfont={"size": 11},
                        name=f"{plain(system)}, {'published (open)' if published else plain(found[0]['source'])}",
                        marker={
                            "symbol": "circle-open" if published else "circle",
                            "size": 11,
                            "color": SYSTEM_COLOURS.get(system, MUTED),
                            "line": {"width": 2},
                        },
                        customdata=[row["key"] for row in found],
                        hovertext=words,
                        hovertemplate="%{text}: %{hovertext}<extra></extra>",
                        cliponaxis=False,
                    )
                )
    figure = _figure(traces, COST_PX)
    for (source, published), row in ceilings.items():
        _ceiling(figure, source, published, row)
    highest = [row["accuracy"] for row in priced]
    highest += [row[name] for row in ceilings.values() for name in ("recall_at_1", "recall_at_3") if row.get(name)]
    figure.update_yaxes(title={"text": "accuracy, pixel-only"}, range=[-0.02, min(1.05, max(highest) * 1.12 + 0.03)])
    return _money_axis(figure, paid, free_at if len(paid) < len(priced) else None)


def _usd(row: Row) -> str:
    return f"{row['usd_per_100_questions']:.4f} USD"


def _ceiling(figure: go.Figure, source: str, published: bool, row: Row) -> None:
    for name, words, dash in (("recall_at_1", "Recall@1", "dash"), ("recall_at_3", "Recall@3", "dot")):
        if row.get(name) is None:
            continue
        figure.add_hline(
            y=row[name],
            line={"color": MUTED, "dash": dash, "width": 1 if published else 1.8},
            annotation={
                "text": f"{words} {row[name]:.3f}, {plain(source)}",
                "font": {"size": 10.5, "color": MUTED},
                "xanchor": "left" if published else "right",
                "x": 0 if published else 1,
            },
        )


def _money_axis(figure: go.Figure, paid: Sequence[float], free_at: float | None) -> go.Figure:
    """A logarithmic axis; what is free has its own place left of it, since a logarithm has no zero."""
    import math

    ticks = [
        10.0**n * m
        for n in range(-4, 3)
        for m in (1, 3)
        if min(paid, default=1) / 2 <= 10.0**n * m <= max(paid, default=1) * 2
    ]
    labels = [f"{tick:g}" for tick in ticks]
    if free_at is not None:
        ticks, labels = [free_at, *ticks], ["free", *labels]
    ends = [math.log10(value) for value in (free_at or min(paid, default=1), max(paid, default=free_at or 1))]
    return figure.update_xaxes(
        type="log",
        title={"text": "USD per 100 questions (log)"},
        tickvals=ticks,
        ticktext=labels,
        range=[ends[0] - 0.35, ends[1] + 0.45],
    )


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
            "cliponaxis": False,
        }

    figure = _bars(known, "input_tokens_per_question", words, labels, textfont={"size": 10})
    most = max(row["input_tokens_per_question"] for row in known)
    return figure.update_xaxes(range=[0, most * 1.15], title={"text": "input tokens per question"}, tickformat=",d")


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
    spans = [
        go.Bar(
            x=[high - low for low, high in ranges.values()],
            base=[low for low, _ in ranges.values()],
            y=[_who({"generator": name, "source": source}) for name in ranges],
            name="published: range over conditions",
            orientation="h",
            marker={**_marker("", True)},
            hovertext=[f"{low:,.0f} to {high:,.0f} ms" for low, high in ranges.values()],
            hovertemplate="%{y}: %{hovertext}<extra></extra>",
        )
    ]
    figure = _bars(
        own,
        "latency_ms",
        lambda row: f"{row['latency_ms']:,.0f} ms (retrieval {row['retrieval_ms']:,.0f}), n = {row['n']}",
    )
    if ranges:
        figure.add_traces(spans)
        figure.update_layout(height=figure.layout.height + len(ranges) * (GROUP_PX + BAR_PX))
    return figure.update_xaxes(title={"text": "ms to the whole answer, median"}, rangemode="tozero", tickformat=",d")


# --- errors ----------------------------------------------------------------------------------------------------------


def taxonomy(rows: Sequence[Row]) -> go.Figure:
    """What became of the questions: shares of n per generator and system, stacked."""
    import plotly.graph_objects as go

    known = [row for row in rows if row["n"]]
    if not known:
        return empty("Not drawn: the study publishes no causes, and no judged run is chosen.")
    places = [f"{plain(row['system'])}, {plain(row['generator'])}<br>{plain(row['source'])}" for row in known]
    traces = []
    for cause, (colour, shape) in CAUSE_LOOKS.items():
        counts = [row["causes"].get(cause, 0) for row in known]
        if any(counts):
            pattern = {"shape": shape, "size": 5, "solidity": 0.4, "fgcolor": "var(--fb-card)"} if shape else {}
            traces.append(
                go.Bar(
                    x=[count / row["n"] for count, row in zip(counts, known, strict=True)],
                    y=places,
                    orientation="h",
                    name=cause,
                    marker={"color": colour, "pattern": pattern},
                    customdata=[row["key"] for row in known],
                    hovertext=[f"{count} of {row['n']}" for count, row in zip(counts, known, strict=True)],
                    hovertemplate=f"{cause}: %{{hovertext}}<extra></extra>",
                )
            )
    figure = _figure(traces, FRAME_PX + 40 + 34 * len(known), barmode="stack", bargap=0.3)
    figure.update_xaxes(range=[0, 1], tickformat=".0%")
    return figure.update_yaxes(autorange="reversed", showgrid=False, tickfont={"size": 11})

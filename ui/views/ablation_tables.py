"""Tables of the Ablation tab as HTML, each with its rows as CSV to download."""

from __future__ import annotations

import base64
import csv
import io
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rag.evaluate.audit import ORIGINS
from rag.evaluate.tables import CAUSES, METRICS, Row
from ui.views.charts import type_words
from ui.views.markup import clean, esc

_FORMULA = tuple("=+-@|%＝＋－＠")
"""Excel takes full-width signs for the usual ones where the language has them."""
NUMBER = re.compile(r"[+-]?\d+(?:\.\d+)?(?:e[+-]?\d+)?", re.I)


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table: ``name`` of the rows' field, heading, and how a value is written. ``interval``: the fields ``_low`` and
    ``_high`` go with it. ``opens``: a press on the value lists the questions that it counts."""

    name: str
    head: str
    write: Callable[[Any], str] = str
    interval: bool = False
    opens: bool = False


def share(value: float) -> str:
    """Three digits, as in the study."""
    return f"{value:.3f}"


def signed(value: float) -> str:
    """A difference."""
    return f"{value:+.3f}"


def decimal(value: float) -> str:
    """A mean of counts."""
    return f"{value:.2f}"


def whole(value: float) -> str:
    """A rounded number."""
    return f"{value:,.0f}"


def usd(value: float) -> str:
    """USD as in the study's Table V."""
    return f"{value:.4f}"


WHO = (Column("source", "Source"), Column("generator", "Generator"), Column("system", "System"))
KIND = Column("question_type", "Questions", type_words)
N = Column("n", "n", whole)


# --- CSV -------------------------------------------------------------------------------------------------------------


def safe(value: object) -> object:
    """A value that a spreadsheet takes for what it is: text that it would take for a formula gets an apostrophe before it. A system
    called ``+KG`` is such a text, a negative number is none."""
    if value is None:
        return ""
    if isinstance(value, (bool, int)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else ""
    if isinstance(value, (Mapping, list, tuple)):
        value = json.dumps(value, ensure_ascii=False)
    text = clean(str(value))
    return f"'{text}" if text.lstrip()[:1] in _FORMULA and not NUMBER.fullmatch(text) else text


def to_csv(rows: Iterable[Row], columns: Sequence[str]) -> str:
    """Rows as CSV with a heading; what is unknown is empty."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")
    writer.writerow(columns)
    writer.writerows([safe(row.get(name)) for name in columns] for row in rows)
    return out.getvalue()


def csv_link(rows: Sequence[Row], columns: Sequence[str], name: str) -> str:
    """A link that holds the file itself. With a byte order mark, without which Excel takes UTF-8 for something else."""
    content = base64.b64encode(b"\xef\xbb\xbf" + to_csv(rows, columns).encode()).decode("ascii")
    return (
        f'<a class="fb-small" download="fusebox-{esc(name)}.csv" href="data:text/csv;charset=utf-8;base64,{content}"'
        f' aria-label="{esc(name.replace("-", " "))} as CSV">CSV</a>'
    )


def fields(columns: Sequence[Column]) -> list[str]:
    """Names of a table's columns in its CSV."""
    ends = ("", "_low", "_high")
    return [f"{column.name}{end}" for column in columns for end in (ends if column.interval else ends[:1])]


# --- HTML ------------------------------------------------------------------------------------------------------------


def table(title: str, name: str, rows: Sequence[Row], columns: Sequence[Column], note: str = "") -> str:
    """A table with its CSV, or nothing where there are no rows."""
    if not rows:
        return ""
    head = "".join(f'<th scope="col">{esc(column.head)}</th>' for column in columns)
    body = "".join(f"<tr>{''.join(_cell(row, column) for column in columns)}</tr>" for row in rows)
    return _framed(
        title, name, f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody>", csv_link(rows, fields(columns), name), note
    )


def _framed(title: str, name: str, inside: str, link: str, note: str) -> str:
    hint = f'<p class="fb-hint">{esc(note)}</p>' if note else ""
    return (
        f'<section class="fb-card fb-abl-table" id="abl-{esc(name)}"><details open data-abl-fold="{esc(name)}"><summary>'
        f'<h3>{esc(title)}</h3></summary>{hint}<div class="fb-abl-scroll" tabindex="0" role="region" aria-label="{esc(title)}">'
        f"<table>{inside}</table></div></details>{link}</section>"
    )


def _cell(row: Row, column: Column) -> str:
    value = row.get(column.name)
    if value is None:
        return '<td class="none"><span aria-label="not known">–</span></td>'
    number = isinstance(value, (int, float))
    words = f"<bdi>{esc(column.write(value))}</bdi>"
    if column.name in ("source", "judge"):
        look = "fb-abl-pub" if row.get("published") else "fb-abl-own"
        words = f'<span class="{look}" title="{esc(value)}">{words}</span>'
    if column.opens and value:
        words = _opening([*row["key"], column.name, row["by"]], f"Questions of {row['system']}: {column.name}", words)
    if column.interval:
        words += _interval(row, column.name)
    return f"<td{' class=number' if number else ''}>{words}</td>"


def _opening(cell: Sequence[str], title: str, words: str) -> str:
    return f'<button type="button" class="fb-link" data-abl-cell="{esc(json.dumps(cell))}" title="{esc(title)}">{words}</button>'


def _interval(row: Row, name: str) -> str:
    low, high = row.get(f"{name}_low"), row.get(f"{name}_high")
    return "" if low is None or high is None else f" <small>[{low:.2f}, {high:.2f}]</small>"


def ablation(rows: Sequence[Row], name: str, judge: str) -> str:
    """Table II: generators and systems down, question types across; the best system of a generator on a type in bold. A cell of a run
    opens its questions."""
    if not rows:
        return ""
    kinds = list(dict.fromkeys(row["question_type"] for row in rows))
    cell = {(row["source"], row["generator"], row["system"], row["question_type"]): row for row in rows}
    lines = list(dict.fromkeys(key[:3] for key in cell))
    best = _best(rows)
    head = "".join(f'<th scope="col">{esc(type_words(kind))}</th>' for kind in kinds)
    body = []
    for source, generator, system in lines:
        found = [cell.get((source, generator, system, kind)) for kind in kinds]
        published = any(row["published"] for row in found if row)
        cells = "".join(_scores(row, best) for row in found)
        look = "fb-abl-pub" if published else "fb-abl-own"
        body.append(
            f'<tr><td><span class="{look}" title="{esc(source)}"><bdi>{esc(source)}</bdi></span></td><td><bdi>{esc(generator)}</bdi></td>'
            f'<th scope="row">{esc(system)}</th>{cells}</tr>'
        )
    heads = f'<th scope="col">Source</th><th scope="col">Generator</th><th scope="col">System</th>{head}'
    columns = [
        *("source", "generator", "system", "question_type", "n", "failed"),
        *(f"{metric}{end}" for metric in METRICS for end in ("", "_low", "_high")),
        *("judge", "judges", "unparseable", "unjudged"),
    ]
    note = (
        f"Judged by {judge}. Accuracy with its 95% bootstrap interval and n, below it faithfulness and relevancy; best system of each "
        "generator in bold."
    )
    inside = f"<thead><tr>{heads}</tr></thead><tbody>{''.join(body)}</tbody>"
    return _framed(
        "Table II: four systems, by generator and question type", name, inside, csv_link(rows, columns, name), note
    )


def _best(rows: Iterable[Row]) -> dict[tuple[str, str, str], float]:
    best: dict[tuple[str, str, str], float] = {}
    for row in rows:
        if row["accuracy"] is not None:
            place = (row["source"], row["generator"], row["question_type"])
            best[place] = max(best.get(place, 0.0), row["accuracy"])
    return best


_BESIDES = {"faithfulness": "faith.", "relevancy": "rel."}


def _scores(row: Row | None, best: Mapping[tuple[str, str, str], float]) -> str:
    if row is None or row["accuracy"] is None:
        return '<td class="none"><span aria-label="not known">–</span></td>'
    top = best[row["source"], row["generator"], row["question_type"]]
    tag = "b" if row["accuracy"] == top > 0 else "span"
    words = f"<{tag}>{share(row['accuracy'])}</{tag}>"
    if not row["published"]:
        title = f"Questions of {row['system']}, {type_words(row['question_type'])}"
        words = _opening([*row["key"], "", row["judges"].get("accuracy", "")], title, words)
    others = " · ".join(f"{short} {share(row[name])}" for name, short in _BESIDES.items() if row.get(name) is not None)
    unclear = "".join(_counted(row, name) for name in ("failed", "unparseable", "unjudged"))
    besides = f'<small class="fb-abl-besides">{others}</small>{unclear}'
    return f"<td>{words}{_interval(row, 'accuracy')} <small>n {row['n']}</small>{besides}</td>"


def _counted(row: Row, name: str) -> str:
    """What a reader must know of a cell besides its shares."""
    counts = row.get(name) or 0
    count = counts if isinstance(counts, int) else counts.get("accuracy", 0)
    return f'<small class="fb-abl-warn">{count} {name}</small>' if count else ""


def protocol_sets(rows: Sequence[Row]) -> str:
    """Table III, upper half: what the two kinds of figure question are like."""
    columns = (
        Column("source", "Source"), Column("set", "Set"), N, Column("answer_in_caption", "Answer in caption"),
        Column("cell_value_answers", "Cell values"), Column("mean_answer_chars", "Mean answer, characters", whole),
    )  # fmt: skip
    return table(
        "Table III, upper half (caption-recovery audit): two kinds of figure question", "table-3-sets", rows, columns
    )


def protocols(rows: Sequence[Row], name: str, judge: str) -> str:
    """Table III, lower half: what text-only and multimodal systems make of them."""
    columns = (
        *WHO, Column("caption", "In caption", share, True), Column("caption_n", "n", whole),
        Column("pixel", "Pixel-only", share, True), Column("pixel_n", "n", whole),
    )  # fmt: skip
    title = "Table III, lower half: accuracy on figure questions, text-only and multimodal"
    return table(title, name, rows, columns, f"Judged by {judge}.")


def diagnostic(rows: Sequence[Row], name: str, judge: str) -> str:
    """Table IV."""
    columns = (*WHO, N, *(Column(metric, metric.capitalize(), share, True) for metric in METRICS))
    note = f"Judged by {judge}. GPT-4o is the study's dearer model; runs have the same two systems of their own generators."
    return table("Table IV: higher-cost diagnostic on pixel-only figure questions", name, rows, columns, note)


def efficiency(rows: Sequence[Row]) -> str:
    """Table V."""
    columns = (
        *WHO, KIND, N, Column("input_tokens_per_question", "Input tokens", whole),
        Column("output_tokens_per_question", "Output tokens", whole), Column("usd_per_100_questions", "USD per 100", usd),
        Column("retrieval_ms", "Retrieval, ms", whole), Column("latency_ms", "Answer, ms", whole),
        Column("ttft_ms", "First token, ms", whole), Column("tokens_source", "Counted"),
    )  # fmt: skip
    return table("Table V: tokens, cost and time per question", "table-5", rows, columns, "Times are medians.")


def retrieval(rows: Sequence[Row]) -> str:
    """Recall and MRR (eq. 5, 6)."""
    shares = (("recall_at_1", "Recall@1"), ("recall_at_3", "Recall@3"), ("recall_at_5", "Recall@5"), ("mrr", "MRR"))
    columns = (
        Column("source", "Source"), KIND, N, *(Column(name, head, share, True) for name, head in shares),
        Column("all_found_at_3", "All gold at 3", share, True),
    )  # fmt: skip
    note = "In the ranking of the modality that holds the answer; no judge is needed."
    return table("Retrieval", "retrieval", rows, columns, note)


def pages(rows: Sequence[Row]) -> str:
    """Precision and recall at 10 over pages."""
    shares = (("precision_at_10", "Precision@10"), ("recall_at_10", "Recall@10"))
    columns = (
        Column("source", "Source"), KIND, N, Column("gold_pages", "Gold pages", decimal),
        *(Column(name, head, share, True) for name, head in shares),
    )  # fmt: skip
    note = (
        "Pages in the order of their best passage; the page of a gold crop is gold too. With one gold page precision is at "
        "most 0.1."
    )
    return table("Retrieval of pages", "retrieval-pages", rows, columns, note)


def bridged(rows: Sequence[Row]) -> str:
    """The text ranking alone beside its first three with the passages that the graph brought in (mode ``bridge``)."""
    shares = (
        ("all_found_at_3", "All gold at 3"), ("all_found_at_5", "All gold at 5"), ("all_found_bridged", "All gold, 3 and bridges"),
        ("recall_bridged", "Recall, 3 and bridges"),
    )  # fmt: skip
    columns = (WHO[0], WHO[2], KIND, N, *(Column(name, head, share, True) for name, head in shares))
    note = "Text questions of runs in graph mode bridge: at most two bridged passages, so five documents either way."
    return table("Retrieval with bridged passages", "retrieval-bridged", rows, columns, note)


def given(rows: Sequence[Row], name: str, judge: str) -> str:
    """What the generator makes of the evidence once all of it is there."""
    columns = (
        *WHO, KIND, N, Column("n_sent", "All gold sent", whole), Column("accuracy_sent", "Right of these", share, True),
        Column("abstained_sent", "Abstained of these", share, True), Column("abstained", "Abstained of all", share, True),
    )  # fmt: skip
    title = "Answers and abstentions where all gold evidence was in the prompt"
    return table(title, name, rows, columns, f"Judged by {judge}.")


def origins(rows: Sequence[Row], name: str, judge: str) -> str:
    """The caption-recovery audit of a run: what text-only answers to figure questions rest on."""
    columns = (
        Column("source", "Source"), Column("set", "Set"), *WHO[1:], Column("n", "Right", whole),
        *(Column(origin, origin.capitalize(), whole) for origin in ORIGINS),
    )  # fmt: skip
    note = (
        "Right answers of systems without figures to figure questions, by the part of the page that held the reference. "
        f"Judged by {judge}."
    )
    return table("Caption-recovery audit: where text-only answers came from", name, rows, columns, note)


def differences(rows: Sequence[Row], name: str, judge: str) -> str:
    """Accuracy against the baseline on the same questions."""
    columns = (
        *WHO, KIND, N, Column("difference", "Difference to baseline", signed, True),
        Column("only_system", "Right with it alone", whole), Column("only_baseline", "Right without it alone", whole),
        Column("p", "p (exact McNemar)", share),
    )  # fmt: skip
    return table("Accuracy against the baseline, same questions", name, rows, columns, f"Judged by {judge}.")


def causes(rows: Sequence[Row], name: str, judge: str) -> str:
    """What became of the questions."""
    shown = [cause for cause in (*CAUSES, "unjudged") if any(cause in row["causes"] for row in rows)]
    flat = [{**row, **{cause: row["causes"].get(cause, 0) for cause in shown}} for row in rows]
    columns = (*WHO, N, *(Column(cause, cause.capitalize(), whole, opens=True) for cause in shown))
    return table("What became of the questions, all types", name, flat, columns, f"Judged by {judge}.")

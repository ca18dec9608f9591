"""Tables as text for the command line."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from rag.evaluate.audit import ORIGINS, Origin
from rag.evaluate.store import Run
from rag.evaluate.tables import CAUSES, METRICS, Row

_CONDITION = ("generator", "system", "question_type")


def render(run: Run, tables: Mapping[str, Any], *others: Mapping[str, Any]) -> str:
    """A run and ``rag.evaluate.tables.summary`` of its results, to be read at 120 columns; ``others`` are by other judges."""
    parts = [_head(run), *_tables(tables)]
    for judged in others:
        parts += _tables({name: found if name in _JUDGED else {} for name, found in judged.items()})
    return "\n\n".join(parts)


_JUDGED = ("ablation", "differences", "given_evidence", "figure_protocols", "taxonomy")


def _tables(tables: Mapping[str, Any]) -> Iterable[str]:
    for title, lines in (
        ("Retrieval, by the modality that holds the answer", _retrieval(tables["retrieval"])),
        (
            "Retrieval of pages, by their best passage (one gold page: precision at most 0.1)",
            _pages(tables["page_retrieval"]),
        ),
        ("Retrieval of text alone, and of its first 3 with bridged passages: 5 documents", _bridged(tables)),
        ("Answers (share of n, 95% bootstrap interval)", _ablation(tables["ablation"])),
        ("Accuracy against the baseline, same questions (exact McNemar)", _differences(tables["differences"])),
        ("Answers and abstentions where all gold evidence was in the prompt", _given(tables["given_evidence"])),
        ("Figure questions by protocol, accuracy", _protocols(tables["figure_protocols"])),
        ("Tokens, cost and time per question (medians of ms)", _efficiency(tables["efficiency"])),
        ("What became of the questions", _taxonomy(tables["taxonomy"])),
    ):
        if len(lines) > 1:
            yield f"{title}\n{columns(lines)}"


def as_json(run: Run, tables: Mapping[str, Any], *others: Mapping[str, Any]) -> str:
    """The same as one JSON document; ``others`` under ``tables_by_other_judges``."""
    more = {"tables_by_other_judges": others} if others else {}
    return json.dumps({"run": asdict(run), "tables": tables, **more}, ensure_ascii=False)


def render_audit(
    rows: Sequence[Mapping[str, object]], run: Run | None, came: Mapping[tuple[str, str, str], Mapping[Origin, int]]
) -> str:
    """The caption-recovery audit: the upper half of the study's Table III and, of a run, what the right text-only answers rest on."""
    heads = ["set", "n", "answer in caption", "cell-value answers", "mean answer chars", "unknown crops"]
    parts = [columns([heads, *([str("–" if cell is None else cell) for cell in row.values()] for row in rows)])]
    if run is not None:
        lines = [["set", "generator", "system", *ORIGINS]]
        lines += [[*key, *(str(count[origin]) for origin in ORIGINS)] for key, count in came.items()]
        title = f"Right answers of text-only systems to figure questions in run {run.id}, by what they came from"
        parts.append(f"{title}\n{columns(lines)}" if came else f"{title}: there are none.")
    return "\n\n".join(parts)


def audit_as_json(
    rows: Sequence[Mapping[str, object]], came: Mapping[tuple[str, str, str], Mapping[Origin, int]]
) -> str:
    """The same as one JSON document."""
    names = ("set", "generator", "system")
    listed = [dict(zip(names, key, strict=True)) | {"origins": count} for key, count in came.items()]
    return json.dumps({"audit": rows, "recovered": listed}, ensure_ascii=False)


def columns(lines: Sequence[Sequence[str]]) -> str:
    """Lines of cells, the first one the headings, in columns."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
    )


def _head(run: Run) -> str:
    failed = f", {run.failed} failed and kept out" if run.failed else ""
    label = f" ({run.label})" if run.label else ""
    return "\n".join(
        [
            f"Run {run.id}{label}: {run.state}, {run.done} of {run.planned} done{failed}",
            f"Corpus {run.corpus_id}; judges: {', '.join(run.judges) or 'none yet'}",
            *run.note.splitlines(),
        ]
    )


def _share(row: Row, name: str) -> str:
    if row.get(name) is None:
        return "–"
    return f"{row[name]:.3f} [{row[f'{name}_low']:.2f}, {row[f'{name}_high']:.2f}]"


def _number(value: float | None, form: str) -> str:
    return "unknown" if value is None else format(value, form)


def _table(rows: Iterable[Row], names: Sequence[str], shares: Sequence[str]) -> list[list[str]]:
    heads = ["type" if name == "question_type" else name for name in names]
    body = [[str(row[name]) for name in names] + [_share(row, name) for name in shares] for row in rows]
    return [[*heads, *shares], *body]


def _retrieval(found: Mapping[str, Row]) -> list[list[str]]:
    names = ("recall_at_1", "recall_at_3", "recall_at_5", "mrr", "all_found_at_3")
    return _table([{"question_type": kind} | row for kind, row in found.items()], ("question_type", "n"), names)


def _pages(found: Mapping[str, Row]) -> list[list[str]]:
    names = ("precision_at_10", "recall_at_10")
    return _table([{"question_type": kind} | row for kind, row in found.items()], ("question_type", "n"), names)


def _bridged(tables: Mapping[str, Any]) -> list[list[str]]:
    names = ("all_found_at_3", "all_found_at_5", "all_found_bridged", "recall_bridged")
    return _table(tables.get("bridged_retrieval", ()), ("system", "question_type", "n"), names)


def _ablation(rows: Sequence[Row]) -> list[list[str]]:
    judges = rows[0]["judges"] if rows else {}
    lines = _table(rows, (*_CONDITION, "n", "failed"), METRICS)
    lines[0][5:] = [f"{metric} ({judges.get(metric, 'no judge')})" for metric in METRICS]
    lines[0] += ["unparseable", "unjudged"]
    for line, row in zip(lines[1:], rows, strict=True):
        line += [str(sum(row[name].values())) for name in ("unparseable", "unjudged")]
    return lines


def _differences(rows: Sequence[Row]) -> list[list[str]]:
    lines = _table(rows, (*_CONDITION, "n", "only_system", "only_baseline"), ("difference",))
    lines[0].append("p")
    for line, row in zip(lines[1:], rows, strict=True):
        line[-1] = f"{row['difference']:+.3f} [{row['difference_low']:+.2f}, {row['difference_high']:+.2f}]"
        line.append(f"{row['p']:.3f}")
    return lines


def _given(rows: Sequence[Row]) -> list[list[str]]:
    return _table(rows, (*_CONDITION, "n", "n_sent"), ("accuracy_sent", "abstained_sent", "abstained"))


def _protocols(found: Row) -> list[list[str]]:
    lines = [["generator", "system", "caption-answerable", "n", "pixel-only", "n"]]
    for name, system in (("text_only_accuracy", "text-only"), ("multimodal_accuracy", "multimodal")):
        for row in found[name]:
            cells = [cell for kind in ("caption", "pixel") for cell in (_share(row, kind), str(row[f"{kind}_n"]))]
            lines.append([row["generator"], system, *cells])
    return lines


def _efficiency(rows: Sequence[Row]) -> list[list[str]]:
    names = (
        ("input_tokens_per_question", ".0f"), ("output_tokens_per_question", ".0f"), ("usd_per_100_questions", ".4f"),
        ("retrieval_ms", ".0f"), ("latency_ms", ".0f"),
    )  # fmt: skip
    lines = [
        ["generator", "system", "type", "n", "tokens in", "tokens out", "USD/100", "retrieval", "answer", "tokens"]
    ]
    for row in rows:
        cells = [_number(row[name], form) for name, form in names]
        lines.append([*(str(row[name]) for name in (*_CONDITION, "n")), *cells, row["tokens_source"]])
    return lines


def _taxonomy(rows: Sequence[Row]) -> list[list[str]]:
    shown = [name for name in (*CAUSES, "unjudged") if any(name in row["causes"] for row in rows)]
    lines = [["generator", "system", "type", "n", *shown]]
    for row in rows:
        lines.append([*(str(row[name]) for name in (*_CONDITION, "n")), *(str(row["causes"].get(c, 0)) for c in shown)])
    return lines

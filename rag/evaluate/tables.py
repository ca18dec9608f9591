"""Summaries of results in the shape of the study's published tables (``assets/study/paper_results.json``), with n and intervals.

Only results that are done count; what failed is kept out and counted (``failed``), and so is what a judge has not judged yet
(``unjudged``). An unparseable verdict counts 0 and is counted (``unparseable``). Every row names its judges; offline judges and language
models are never mixed in one. An interval is the 95% bootstrap interval of the mean (``rag.evaluate.statistics``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import mean, median
from typing import Any

from rag.errors import UsageError
from rag.evaluate import metrics
from rag.evaluate.judges import OFFLINE
from rag.evaluate.questions import UNANSWERABLE
from rag.evaluate.statistics import bootstrap_interval, mcnemar, paired_difference
from rag.evaluate.store import Result
from rag.gate import FIGURE_TYPES

Row = dict[str, Any]

METRICS = ("accuracy", "faithfulness", "relevancy")
QUESTION_TYPES = ("text", "multihop", "figure_pixel", "figure_caption", UNANSWERABLE)
"""Question types in the order in which tables list them; any other comes after."""
PAGE_DEPTH = 10
"""Page-level precision and recall are over so many pages, as the page-image systems give them."""
TEXT_ONLY, MULTIMODAL = "baseline", "+multimodal"
"""The systems of the study's Table III."""
OFFLINE_NAMES = tuple(judge.name for judge in OFFLINE)

CAUSES = (
    "right",
    "branch off",
    "retrieval miss",
    "part of the evidence missed",
    "found but not sent",
    "wrong abstention",
    "generator misread",
    "answered the unanswerable",
)
"""What became of a question, from its places, its answer and the accuracy judge; the first that holds is counted."""


def question_type(result: Result) -> str:
    """The type as the tables name it: a ``figure`` question is of the caption protocol where its set's name says so, else pixel-only."""
    if result.type != "figure":
        return result.type
    return "figure_caption" if "caption" in result.set.lower() else "figure_pixel"


def done(results: Iterable[Result]) -> tuple[Result, ...]:
    """Those that may be scored."""
    return tuple(result for result in results if result.state == "done")


# --- verdicts --------------------------------------------------------------------------------------------------------


def _chosen(judges: str | Sequence[str] | None) -> tuple[str, ...]:
    """The judges that a table goes by.

    Raises:
        UsageError: offline judges and language models together.
    """
    names = (judges,) if isinstance(judges, str) else tuple(judges or OFFLINE_NAMES)
    offline = [name for name in names if name in OFFLINE_NAMES]
    if offline and len(offline) < len(names):
        raise UsageError(
            f"{' and '.join(names)} can't share a table: offline judges and language models measure different things."
        )
    return names


def _judge_of(metric: str, results: Sequence[Result], judges: Sequence[str]) -> str:
    """The first of the judges that gives verdicts on the metric; empty where none does."""
    return next((name for name in judges if any(metric in r.verdicts.get(name, {}) for r in results)), "")


def verdict(result: Result, metric: str, judge: str) -> float | None:
    """1.0 or 0.0, the latter also for an unparseable verdict; ``None`` where there is none yet."""
    found = result.verdicts.get(judge, {})
    return float(bool(found[metric])) if metric in found else None


def _groups(results: Iterable[Result], *keys: Callable[[Result], str]) -> dict[tuple[str, ...], list[Result]]:
    found: dict[tuple[str, ...], list[Result]] = {}
    for result in results:
        found.setdefault(tuple(key(result) for key in keys), []).append(result)
    return found


def _by_condition(results: Iterable[Result]) -> dict[tuple[str, ...], list[Result]]:
    """(generator, system, question type) -> results, in the order of the study's Table II."""
    groups = _groups(results, lambda r: r.generator, lambda r: r.system, question_type)
    generators = list(dict.fromkeys(generator for generator, _, _ in groups))
    systems = list(dict.fromkeys(system for _, system, _ in groups))
    return dict(
        sorted(
            groups.items(),
            key=lambda item: (generators.index(item[0][0]), systems.index(item[0][1]), _place(item[0][2])),
        )
    )


def _place(kind: str) -> tuple[int, str]:
    return (QUESTION_TYPES.index(kind) if kind in QUESTION_TYPES else len(QUESTION_TYPES), kind)


def _condition(key: tuple[str, ...]) -> Row:
    return dict(zip(("generator", "system", "question_type"), key, strict=True))


def _with_interval(row: Row, name: str, values: Sequence[float]) -> None:
    """The mean under ``name``, and its interval; all ``None`` where there is nothing to average."""
    low, high = bootstrap_interval(values) if values else (None, None)
    row |= {name: mean(values) if values else None, f"{name}_low": low, f"{name}_high": high}


# --- the tables ------------------------------------------------------------------------------------------------------


def ablation(results: Iterable[Result], judge: str | Sequence[str] | None = None) -> tuple[Row, ...]:
    """Table II: accuracy, faithfulness and relevancy of every generator, system and question type, with n and intervals.

    Args:
        results: of one run; those of several would count a question as often as it was asked.
        judge: one judge, or several of which each metric takes the first that gives it; the offline ones if not given.

    Returns:
        Rows with ``generator``, ``system``, ``question_type``, ``n``, ``failed``; per metric its mean (``None`` without verdicts),
        ``_low``, ``_high``; ``judges`` (metric -> name), ``unparseable`` and ``unjudged`` (metric -> count).

    Raises:
        UsageError: offline judges and language models together.
    """
    everything = tuple(results)
    names = _chosen(judge)
    judge_of = {metric: _judge_of(metric, everything, names) for metric in METRICS}
    rows = []
    for key, group in _by_condition(everything).items():
        scored = done(group)
        row = _condition(key) | {"n": len(scored), "failed": len(group) - len(scored)}
        row |= {"judges": {m: name for m, name in judge_of.items() if name}, "unparseable": {}, "unjudged": {}}
        for metric, name in judge_of.items():
            values = [value for r in scored if (value := verdict(r, metric, name)) is not None]
            _with_interval(row, metric, values)
            if name:
                row["unparseable"][metric] = sum(r.verdicts.get(name, {}).get(metric, True) is None for r in scored)
                row["unjudged"][metric] = len(scored) - len(values)
        rows.append(row)
    return tuple(rows)


def retrieval(results: Iterable[Result]) -> dict[str, Row]:
    """Recall@1/3/5, MRR (eq. 5, 6) and all gold found at 3 by question type, of the first system that ranks the modality which holds the
    answer: rankings depend on no switch, so systems with the same rankers all give the same.

    Returns:
        Question type -> ``n``, ``system`` and, each with ``_low`` and ``_high``, ``recall_at_1``, ``recall_at_3``, ``recall_at_5``,
        ``mrr``, ``all_found_at_3``.
    """
    ranked = [r for r in done(results) if r.ranks and "off" not in r.places]
    found: dict[str, Row] = {}
    for (kind,), group in sorted(_groups(ranked, question_type).items(), key=lambda item: _place(item[0][0])):
        once = _once(group)
        row: Row = {"n": len(once), "system": group[0].system}
        for k in (1, 3, 5):
            _with_interval(row, f"recall_at_{k}", [metrics.recall_at(r.ranks, k) for r in once])
        _with_interval(row, "mrr", [metrics.reciprocal_rank(r.ranks) for r in once])
        _with_interval(row, "all_found_at_3", [float(metrics.all_found(r.ranks, 3)) for r in once])
        found[kind] = row
    return found


def page_retrieval(results: Iterable[Result]) -> dict[str, Row]:
    """Precision@10 and Recall@10 at page level by question type: pages in the order of their best chunk in the text ranking, the page
    of a gold crop being gold too. Of the first system whose text ranking was looked at, as ``retrieval``.

    Returns:
        Question type -> ``n``, ``system``, ``gold_pages`` (mean) and, each with ``_low`` and ``_high``, ``precision_at_10`` and
        ``recall_at_10``.
    """
    found: dict[str, Row] = {}
    ranked = [r for r in done(results) if r.page_ranks]
    for (kind,), group in sorted(_groups(ranked, question_type).items(), key=lambda item: _place(item[0][0])):
        once = _once(group)
        row: Row = {"n": len(once), "system": group[0].system, "gold_pages": mean(len(r.page_ranks) for r in once)}
        _with_interval(row, "precision_at_10", [metrics.precision_at(r.page_ranks, PAGE_DEPTH) for r in once])
        _with_interval(row, "recall_at_10", [metrics.recall_at(r.page_ranks, PAGE_DEPTH) for r in once])
        found[kind] = row
    return found


TEXT_BESIDE_BRIDGES = 3
"""So many of the text ranking stand beside the bridges where both together are counted: with the two that there may be, 5 documents."""


def bridged_retrieval(results: Iterable[Result]) -> tuple[Row, ...]:
    """Text questions in systems whose graph brought gold sources in (graph mode ``bridge``): the text ranking alone at 3 and at 5, and
    its first 3 with the bridges, at most 5 documents too. No rows where no graph brought any in.

    Returns:
        Rows with ``system``, ``question_type``, ``n`` and, each with ``_low`` and ``_high``, ``all_found_at_3``, ``all_found_at_5`` and
        ``all_found_bridged``; the same of ``recall``.
    """
    ranked = [r for r in done(results) if r.ranks and "off" not in r.places and question_type(r) not in FIGURE_TYPES]
    systems = {r.system for r in ranked if "bridged" in r.places}
    rows = []
    groups = _groups([r for r in ranked if r.system in systems], lambda r: r.system, question_type)
    for (system, kind), group in sorted(groups.items(), key=lambda item: (item[0][0], _place(item[0][1]))):
        once = _once(group)
        row: Row = {"system": system, "question_type": kind, "n": len(once)}
        k = TEXT_BESIDE_BRIDGES
        union = [metrics.with_bridges(r.ranks, [place == "bridged" for place in r.places], k) for r in once]
        for name, rule in (("all_found", metrics.all_found), ("recall", metrics.recall_at)):
            for depth in (3, 5):
                _with_interval(row, f"{name}_at_{depth}", [float(rule(r.ranks, depth)) for r in once])
            _with_interval(row, f"{name}_bridged", [float(rule(ranks, k + 1)) for ranks in union])
        rows.append(row)
    return tuple(rows)


def _once(group: Sequence[Result]) -> list[Result]:
    """Each question once, of the first system."""
    return list({r.question_id: r for r in group if r.system == group[0].system}.values())


def figure_protocols(results: Iterable[Result], judge: str | Sequence[str] | None = None) -> Row:
    """Table III, lower half: accuracy of the text-only and the multimodal system on both kinds of figure question. The upper half is
    ``rag.evaluate.audit``'s.

    Returns:
        ``caption`` and ``pixel``: ``n`` and ``mean_answer_chars`` of the set; ``text_only_accuracy`` and ``multimodal_accuracy``: a row per
        generator with ``caption`` and ``pixel``, each with ``_n``, ``_low`` and ``_high``; ``judge``.
    """
    everything = tuple(r for r in results if r.type in FIGURE_TYPES)
    protocols = {"caption": "figure_caption", "pixel": "figure_pixel"}
    rows = {(r["generator"], r["system"], r["question_type"]): r for r in ablation(everything, judge)}
    found: Row = {"judge": next((r["judges"].get("accuracy", "") for r in rows.values()), "")}
    for name, kind in protocols.items():
        answers = {r.question_id: r.reference for r in everything if question_type(r) == kind}
        found[name] = {
            "n": len(answers),
            "mean_answer_chars": round(mean(map(len, answers.values()))) if answers else None,
        }
    for name, system in (("text_only_accuracy", TEXT_ONLY), ("multimodal_accuracy", MULTIMODAL)):
        found[name] = []
        for generator in dict.fromkeys(r.generator for r in everything):
            line: Row = {"generator": generator}
            for protocol, kind in protocols.items():
                row = rows.get((generator, system, kind), {})
                line |= {protocol: row.get("accuracy"), f"{protocol}_n": row.get("n", 0)}
                line |= {f"{protocol}_{end}": row.get(f"accuracy_{end}") for end in ("low", "high")}
            found[name].append(line)
    return found


def efficiency(results: Iterable[Result]) -> tuple[Row, ...]:
    """Table V for every question type: input and output tokens per question, USD per 100 questions, median times in ms.

    Returns:
        Rows with ``generator``, ``system``, ``question_type``, ``n``, ``input_tokens_per_question``, ``output_tokens_per_question``,
        ``usd_per_100_questions`` (each ``None`` where it is not known of every question), ``tokens_source`` (``reported``,
        ``estimated`` or ``mixed``), ``retrieval_ms``, ``latency_ms``, ``ttft_ms``.
    """
    rows = []
    for key, group in _by_condition(done(results)).items():
        sources = {r.tokens_source for r in group}
        cost = _mean_if_known([r.cost_usd for r in group])
        first = [r.ttft_ms for r in group if r.ttft_ms is not None]
        rows.append(
            _condition(key)
            | {
                "n": len(group),
                "input_tokens_per_question": _mean_if_known([r.input_tokens for r in group]),
                "output_tokens_per_question": _mean_if_known([r.output_tokens for r in group]),
                "usd_per_100_questions": None if cost is None else 100 * cost,
                "tokens_source": sources.pop() if len(sources) == 1 else "mixed",
                "retrieval_ms": median(r.retrieval_ms for r in group),
                "latency_ms": median(r.latency_ms for r in group),
                "ttft_ms": median(first) if first else None,
            }
        )
    return tuple(rows)


def _mean_if_known(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return mean(known) if known and len(known) == len(values) else None


def _in_prompt(result: Result) -> set[str]:
    """The places of a question's gold sources; what the graph brought in was sent like the rest."""
    return {"sent" if place == "bridged" else place for place in result.places}


def cause(result: Result, judge: str) -> str:
    """Which of ``CAUSES`` a result is, or ``unjudged``."""
    right = verdict(result, "accuracy", judge)
    if right is None:
        return "unjudged"
    places = _in_prompt(result)
    for name, holds in (
        ("right", right == 1.0),
        ("answered the unanswerable", not result.sources),
        ("branch off", "off" in places),
        ("retrieval miss", bool(places) and places == {"missed"}),
        ("part of the evidence missed", "missed" in places or {"sent", "found"} <= places),
        ("found but not sent", "found" in places),
        ("wrong abstention", result.abstained),
    ):
        if holds:
            return name
    return "generator misread"


def taxonomy(results: Iterable[Result], judge: str | Sequence[str] | None = None) -> tuple[Row, ...]:
    """What became of the questions: rows with ``generator``, ``system``, ``question_type``, ``n``, ``judge`` and ``causes`` (cause ->
    count, see ``CAUSES``)."""
    everything = done(results)
    name = _judge_of("accuracy", everything, _chosen(judge))
    rows = []
    for key, group in _by_condition(everything).items():
        found = [cause(result, name) for result in group]
        counts = {each: found.count(each) for each in (*CAUSES, "unjudged") if each in found}
        rows.append(_condition(key) | {"n": len(group), "judge": name, "causes": counts})
    return tuple(rows)


def differences(
    results: Iterable[Result], judge: str | Sequence[str] | None = None, baseline: str = TEXT_ONLY
) -> tuple[Row, ...]:
    """Accuracy of each system against ``baseline`` on the questions that both answered.

    Returns:
        Rows with ``generator``, ``system``, ``question_type``, ``baseline``, ``judge``, ``n`` (pairs), ``difference``, ``difference_low``,
        ``difference_high``, ``only_system`` and ``only_baseline`` (questions that one alone has right), ``p`` (exact McNemar).
    """
    everything = done(results)
    name = _judge_of("accuracy", everything, _chosen(judge))
    groups = _by_condition(everything)
    rows = []
    for (generator, system, kind), group in groups.items():
        base = {r.question_id: verdict(r, "accuracy", name) for r in groups.get((generator, baseline, kind), [])}
        pairs = [
            (mine, other)
            for r in group
            if (mine := verdict(r, "accuracy", name)) is not None and (other := base.get(r.question_id)) is not None
        ]
        if system == baseline or not pairs:
            continue
        difference, low, high = paired_difference([other for _, other in pairs], [mine for mine, _ in pairs])
        test = mcnemar([other > 0 for _, other in pairs], [mine > 0 for mine, _ in pairs])
        rows.append(
            _condition((generator, system, kind))
            | {
                "baseline": baseline, "judge": name, "n": len(pairs), "difference": difference, "difference_low": low,
                "difference_high": high, "only_system": test.only_second, "only_baseline": test.only_first, "p": test.p,
            }
        )  # fmt: skip
    return tuple(rows)


def given_evidence(results: Iterable[Result], judge: str | Sequence[str] | None = None) -> tuple[Row, ...]:
    """What the generator makes of the evidence: accuracy and abstentions where all gold evidence was in the prompt, and abstentions in
    all.

    Returns:
        Rows with ``generator``, ``system``, ``question_type``, ``n``, ``abstained`` (share of all); ``n_sent`` (all gold sources in the
        prompt) and, of those, ``accuracy_sent`` and ``abstained_sent`` with intervals; ``judge``.
    """
    everything = done(results)
    name = _judge_of("accuracy", everything, _chosen(judge))
    rows = []
    for key, group in _by_condition(everything).items():
        sent = [r for r in group if _in_prompt(r) == {"sent"}]
        row = _condition(key) | {"n": len(group), "n_sent": len(sent), "judge": name}
        _with_interval(row, "abstained", [float(r.abstained) for r in group])
        _with_interval(row, "abstained_sent", [float(r.abstained) for r in sent])
        _with_interval(row, "accuracy_sent", [v for r in sent if (v := verdict(r, "accuracy", name)) is not None])
        rows.append(row)
    return tuple(rows)


def summary(results: Sequence[Result], judge: str | Sequence[str] | None = None) -> Mapping[str, Any]:
    """Every table by its name."""
    return {
        "retrieval": retrieval(results),
        "page_retrieval": page_retrieval(results),
        "bridged_retrieval": bridged_retrieval(results),
        "ablation": ablation(results, judge),
        "differences": differences(results, judge),
        "given_evidence": given_evidence(results, judge),
        "figure_protocols": figure_protocols(results, judge),
        "efficiency": efficiency(results),
        "taxonomy": taxonomy(results, judge),
    }

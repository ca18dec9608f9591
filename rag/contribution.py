"""What graph and visual evidence each did to one answer: the study's four systems against each other, question by question.

A branch is held against its absence twice, on top of the text alone and on top of the other branch. All else is the same, since no
ranking depends on which branches are on, so what differs between two answers is what the branch did.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from rag import compare
from rag.evaluate.judges import LexicalJudge
from rag.evaluate.questions import Question
from rag.systems import SYSTEMS, preset_for
from rag.types import Branch, System, Trace

Effect = Literal["same", "changed", "righted", "wronged", "unknown"]
"""``righted``: wrong without the branch and right with it, by the reference; ``wronged`` the other way round. ``unknown``: one of the two
answers is not whole."""

ALONE, BOTH = preset_for(False, False), preset_for(True, True)
WITH: dict[Branch, str] = {"visual": preset_for(False, True), "graph": preset_for(True, False)}
"""Branch -> the study's name of the system that adds it to the text alone."""

OTHER: dict[Branch, Branch] = {"visual": "graph", "graph": "visual"}


@dataclass(frozen=True, slots=True)
class Contribution:
    """What one branch did. ``items`` of it went into the prompt beside the text; ``input_tokens`` are what the prompt took more than the
    text alone, ``None`` where that is unknown; ``lookup_ms`` is the time of finding them."""

    branch: Branch
    items: int
    input_tokens: int | None
    lookup_ms: float | None
    alone: Effect
    on_top: Effect


def systems_like(system: System) -> tuple[System, ...]:
    """The four systems of the study with the settings of ``system``."""
    return tuple(replace(system, name=p.name, branches=p.branches, label=p.label) for p in SYSTEMS.values())


def right(trace: Trace, reference: Question | None) -> bool | None:
    """Whether the answer agrees with the reference, by the ``lexical`` judge; ``None`` without a reference or a whole answer."""
    generation = trace.generation
    if reference is None or generation is None or not generation.counts:
        return None
    asked = replace(trace, question_type=reference.type)
    return LexicalJudge().judge(trace.question, reference.answer, generation.text, asked)["accuracy"]


def contributions(traces: Mapping[str, Trace], reference: Question | None) -> tuple[Contribution, ...]:
    """What each branch did, visual first.

    Args:
        traces: the four systems' finished traces of one question by one generator, by the study's names.
        reference: its entry of the question set, where there is one.

    Returns:
        Nothing where one of the four is missing.
    """
    if not set(traces) >= {ALONE, BOTH, *WITH.values()}:
        return ()
    return tuple(_contribution(branch, traces, reference) for branch in WITH)


def _contribution(branch: Branch, traces: Mapping[str, Trace], reference: Question | None) -> Contribution:
    without, added = traces[ALONE], traces[WITH[branch]]
    # The four may have run at the same time and waited for each other: the shorter time is the nearer one to what the search takes.
    lookups = [trace.timings_ms[branch] for trace in (added, traces[BOTH]) if branch in trace.timings_ms]
    return Contribution(
        branch,
        len(compare.added(added, without)),
        compare.difference(added, without).input_tokens,
        min(lookups, default=None),
        _effect(without, added, reference),
        _effect(traces[WITH[OTHER[branch]]], traces[BOTH], reference),
    )


def _effect(without: Trace, added: Trace, reference: Question | None) -> Effect:
    changed = compare.difference(added, without).answer_changed
    if changed is None:
        return "unknown"
    before, after = right(without, reference), right(added, reference)
    if before is not None and after is not None and before != after:
        return "righted" if after else "wronged"
    return "changed" if changed else "same"

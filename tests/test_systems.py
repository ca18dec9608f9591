from __future__ import annotations

import pytest

from rag.errors import UsageError
from rag.systems import CHOICES, LIMITS, SYSTEMS, preset_for, system_named, tuned


def test_the_studys_four_systems_differ_only_in_their_branches():
    assert {name: s.branches for name, s in SYSTEMS.items()} == {
        "baseline": ("text",),
        "+KG": ("text", "graph"),
        "+multimodal": ("text", "visual"),
        "+both": ("text", "graph", "visual"),
    }
    stripped = {tuned(s, text_k=3).__repr__().split("text_ranker")[1].split("label")[0] for s in SYSTEMS.values()}
    assert len(stripped) == 1


@pytest.mark.parametrize("graph", [False, True])
@pytest.mark.parametrize("visual", [False, True])
def test_switch_positions_name_the_system_with_those_branches(graph, visual):
    branches = SYSTEMS[preset_for(graph, visual)].branches
    assert ("graph" in branches, "visual" in branches) == (graph, visual)


def test_every_knob_is_a_range_or_a_choice():
    assert set(LIMITS) == {"text_k", "visual_depth", "captions_k", "max_facts", "min_entity_chars"}
    assert set(CHOICES) == {"text_ranker", "visual_ranker", "payload", "graph_mode", "fusion"}


@pytest.mark.parametrize(
    ("knobs", "says"),
    [
        ({"text_k": 0}, "from 1 to 20"),
        ({"text_k": 3.0}, "whole number"),
        ({"text_k": True}, "whole number"),
        ({"text_ranker": "magic"}, "dense, bm25, hybrid"),
        ({"branches": ("text",)}, "no setting 'branches'"),
        ({"colour": "red"}, "no setting 'colour'"),
    ],
)
def test_wrong_knobs_are_refused_with_what_is_allowed(knobs, says):
    with pytest.raises(UsageError, match=says):
        tuned(SYSTEMS["baseline"], **knobs)


def test_unknown_system_lists_the_known():
    with pytest.raises(UsageError, match=r"baseline, \+KG, \+multimodal, \+both"):
        system_named("+everything")

"""The walk of the graph mode ``bridge``: by hand on a tiny graph, against networkx, and as the branch that it feeds."""

from __future__ import annotations

from dataclasses import replace

import networkx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag import branches, prompt, trace
from rag.branches import MAX_BRIDGES, Query
from rag.compare import Added, added
from rag.corpus import Corpus
from rag.evaluate.questions import Question, locate
from rag.explain import explain
from rag.generators.extractive.evidence import units
from rag.generators.registry import GENERATORS
from rag.graph import Graph
from rag.influence import influence
from rag.pipeline import ask, ask_again
from rag.systems import SYSTEMS, tuned
from rag.types import Bridge, Step, Trace, Triple
from rag.walk import DAMPING, TOLERANCE, Walk, pagerank, transitions
from ui.views import page as page_view
from ui.views.markup import left_out_tags

BRIDGE = tuned(SYSTEMS["+KG"], graph_mode="bridge")
READER = GENERATORS["extractive"]
QUESTION = (
    "How many subjects does the mgus2 data set contain, and how many pregnant women does the abortion data set hold?"
)

KIRTON = (
    Triple("Kirton End", "is in", "Boston", "kirton_c00", "kirton", "hand"),
    Triple("Boston", "has", "35,124 people", "boston_c00", "boston", "hand"),
    Triple("Hull", "broke up", "", "hull_c00", "hull", "hand"),
)
"""Entities 0 Kirton End, 1 Boston, 2 35,124 people, 3 Hull, 4 the nameless one; chunks 5 kirton, 6 boston, 7 hull."""


def test_pagerank_by_hand() -> None:
    # Three nodes in a row, 0 - 1 - 2, and all walkers start at 0. Half of those at a node go on, along its links in equal parts:
    #   a = 1/2 + 1/2 * (1/2 b)        everybody who starts anew, and half of b's that go on
    #   b = 1/2 * (a + c)              both ends have no other way
    #   c = 1/2 * (1/2 b)
    # c = b/4, a = 1/2 + b/4, b = 1/2 * (1/2 + b/2) = 1/4 + b/4, so b = 1/3, a = 7/12, c = 1/12.
    steps = transitions(np.array([0, 1]), np.array([1, 2]), 3)
    assert steps.toarray().tolist() == [[0, 0.5, 0], [1, 0, 1], [0, 0.5, 0]]
    assert DAMPING == 0.5
    found = pagerank(steps, np.array([1.0, 0, 0]), tolerance=1e-15)
    assert found == pytest.approx([7 / 12, 1 / 3, 1 / 12], abs=1e-12)


def test_a_link_given_twice_weighs_double_and_one_to_itself_nothing() -> None:
    steps = transitions(np.array([0, 0, 1, 1]), np.array([1, 2, 0, 1]), 3)
    assert steps.toarray() == pytest.approx(np.array([[0, 1, 1], [2 / 3, 0, 0], [1 / 3, 0, 0]]))


LINKS = st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7)), min_size=1, max_size=25)


@settings(max_examples=60, deadline=None)
@given(LINKS, st.lists(st.floats(0.1, 1), min_size=8, max_size=8), st.floats(0.1, 0.9))
def test_pagerank_is_that_of_networkx(links: list[tuple[int, int]], weights: list[float], damping: float) -> None:
    # A ring, so that no node is without a link.
    every = [*links, *((n, (n + 1) % 8) for n in range(8))]
    graph = networkx.Graph()
    graph.add_nodes_from(range(8))
    for one, other in every:
        if one != other:
            weight = graph.get_edge_data(one, other, {"weight": 0})["weight"]
            graph.add_edge(one, other, weight=weight + 1)
    seeds = np.array(weights) / sum(weights)
    steps = transitions(np.array([a for a, _ in every]), np.array([b for _, b in every]), 8)
    expected = networkx.pagerank(graph, damping, dict(enumerate(seeds)), tol=1e-13, max_iter=2000)
    precise = pagerank(steps, seeds, damping, 1e-13)
    assert precise == pytest.approx([expected[n] for n in range(8)], abs=1e-9)
    assert precise.sum() == pytest.approx(1)
    error = np.abs(pagerank(steps, seeds) - pagerank(steps, seeds, tolerance=1e-13)).sum()
    assert error <= 2 * TOLERANCE


def test_the_walk_goes_from_a_questions_entity_to_the_passage_behind_it() -> None:
    graph = Graph(KIRTON)
    walk = graph.walk
    assert (walk.entities, walk.chunks) == (5, ("kirton_c00", "boston_c00", "hull_c00"))
    known = graph.seeds("Where is Kirton End?")
    assert known == {0: "Kirton End"}
    # Links: Kirton End - Boston, each with kirton_c00; Boston - 35,124 people, each with boston_c00; Hull - hull_c00.
    assert walk.spread.tolist() == [2, 4, 2, 1, 0, 2, 2, 1]
    seeds = walk.seeds(list(known), ["kirton_c00", "no such chunk"])
    assert seeds.tolist() == [0.5, 0, 0, 0, 0, 0.5, 0, 0]
    (found,) = walk.rank(seeds, 5, frozenset({"kirton_c00"}))
    assert found[0] == "boston_c00"  # nobody comes to Hull
    # Two ways lead there, over Boston from Kirton End or from kirton_c00, equally likely: the lower node goes first.
    way = walk.path("boston_c00", seeds)
    assert way == (0, 1, 6)
    told = graph.told(way, known)
    assert told == (Step("entity", "Kirton End"), Step("entity", "Boston", 0), Step("chunk", "boston_c00", 1))


def test_seeds_are_shared_and_weighed() -> None:
    walk = Graph(KIRTON).walk
    both = walk.seeds([0, 1], ["kirton_c00", "boston_c00"])
    # Kirton End has 2 links and Boston 4, so 1/2 to 1/4; the hits are at rank 1 and 2, so 1 to 1/2.
    assert both[[0, 1, 5, 6]] == pytest.approx([1 / 3, 1 / 6, 1 / 3, 1 / 6])
    assert walk.seeds([3], []).tolist() == [0, 0, 0, 1, 0, 0, 0, 0]
    assert walk.seeds([], ["hull_c00"])[7] == 1
    nothing = walk.seeds([], [])
    assert not nothing.any() and walk.rank(nothing, 5, frozenset()) == []
    assert walk.path("hull_c00", walk.seeds([0], [])) == ()


def test_limits_of_the_ranking() -> None:
    walk = Graph(KIRTON).walk
    seeds = walk.seeds([0], [])
    assert walk.rank(seeds, 0, frozenset()) == []
    assert [chunk for chunk, _ in walk.rank(seeds, 99, frozenset())] == ["kirton_c00", "boston_c00"]
    empty = Walk.over(0, np.zeros(0, np.int64), np.zeros(0, np.int64), (), -1)
    assert empty.rank(empty.seeds([], ["a"]), 3, frozenset()) == []


# --- the branch and what follows it ----------------------------------------------------------------------------------


def last(question: str, corpus: Corpus, exclude: tuple[str, ...] = (), refill: bool = False) -> Trace:
    *_, shown = ask(question, BRIDGE, READER, corpus, exclude=exclude, refill=refill)
    return shown


def bridges_of(shown: Trace) -> tuple[Bridge, ...]:
    assert shown.evidence.graph is not None
    return shown.evidence.graph.bridges


def chunk_ids(shown: Trace) -> list[str]:
    return [bridge.hit.item_id for bridge in bridges_of(shown)]


def test_bridges_are_of_other_pages_one_a_page_and_leave_the_text_ranking_alone(demo: Corpus) -> None:
    shown = last(QUESTION, demo)
    *_, usual = ask(QUESTION, SYSTEMS["+KG"], READER, demo)
    assert shown.evidence.text == usual.evidence.text
    assert usual.evidence.graph is not None and usual.evidence.graph.bridges == ()
    assert shown.evidence.text is not None and shown.evidence.graph is not None
    assert (shown.evidence.graph.mode, usual.evidence.graph.mode) == ("bridge", "provenance")
    pages = [demo.chunks[chunk].page_id for chunk in chunk_ids(shown)]
    assert len(set(pages)) == len(pages) == MAX_BRIDGES
    hit_pages = {demo.chunks[hit.item_id].page_id for hit in shown.evidence.text.hits}
    assert not hit_pages & set(pages)
    # Facts of the bridges' pages count as retrieved.
    allowed = hit_pages | set(pages)
    assert all(demo.triples[fact.triple_ids[0]].page_id in allowed for fact in shown.evidence.graph.facts)
    for bridge in bridges_of(shown):
        assert [hit.ranker for hit in bridge.hit.hits] == ["walk", "dense"]
        assert bridge.path[-1] == Step("chunk", bridge.hit.item_id, bridge.path[-1].triple_id)
        assert bridge.path[0].triple_id is None and all(step.triple_id is not None for step in bridge.path[1:])
        for step, nxt in zip(bridge.path, bridge.path[1:], strict=False):
            triple = demo.triples[nxt.triple_id or 0]
            for stop in (step, nxt):
                held = (triple.chunk_id,) if stop.kind == "chunk" else (triple.subject, triple.object)
                assert stop.name.casefold() in [" ".join(name.split()).casefold() for name in held]


def test_the_prompt_holds_bridges_as_graph_evidence_and_is_the_same_from_a_stored_trace(demo: Corpus) -> None:
    shown = last(QUESTION, demo)
    assert shown.prompt is not None and shown.evidence.graph is not None
    facts = len(shown.evidence.graph.facts)
    for number, chunk in enumerate(chunk_ids(shown), facts + 1):
        assert shown.prompt.tags[f"G{number}"] == chunk
        (segment,) = [s for s in shown.prompt.segments if s.item_id == chunk]
        assert segment.kind == "graph" and segment.is_passage and demo.chunks[chunk].text[:60] in segment.text
    stored = trace.loads(trace.dumps(shown))
    assert stored == shown
    trace.check_against(stored, demo)
    assert prompt.build(stored.question, stored.evidence, demo) == shown.prompt
    with pytest.raises(Exception, match="no chunk 'nowhere'"):
        gone = replace(bridges_of(shown)[0], path=(Step("chunk", "nowhere"),))
        graph = replace(shown.evidence.graph, bridges=(gone, *bridges_of(shown)[1:]))
        trace.check_against(replace(shown, evidence=replace(shown.evidence, graph=graph)), demo)


def test_a_trace_from_before_the_mode_loads(demo: Corpus) -> None:
    *_, shown = ask(QUESTION, SYSTEMS["+KG"], READER, demo)
    older = trace.dumps(shown).replace(', "bridges": []', "")
    assert '"bridges"' not in older and trace.loads(older) == shown


def test_a_bridge_can_be_left_out_and_the_next_moves_up(demo: Corpus) -> None:
    shown = last(QUESTION, demo)
    first, second = chunk_ids(shown)
    without = last(QUESTION, demo, (first,))
    assert without.prompt is not None and chunk_ids(without) == [first, second]
    assert first not in without.prompt.tags.values() and second in without.prompt.tags.values()
    refilled = last(QUESTION, demo, (first,), refill=True)
    assert refilled.prompt is not None and chunk_ids(refilled)[:2] == [first, second]
    assert len(chunk_ids(refilled)) == MAX_BRIDGES + 1 and chunk_ids(refilled)[2] in refilled.prompt.tags.values()
    *_, again = ask_again(shown, READER, demo, exclude=[second])
    assert again.prompt is not None and second not in again.prompt.tags.values()


def test_the_full_trail_tells_the_way(demo: Corpus) -> None:
    shown = last(QUESTION, demo)
    told = explain(shown, 3)
    assert "mode bridge" in told and f"{MAX_BRIDGES} bridged passages" in explain(shown, 1)
    for bridge in bridges_of(shown):
        assert " > ".join(step.name for step in bridge.path) in told and "walk rank" in told


def test_what_follows_knows_a_bridge_as_graph_evidence(demo: Corpus) -> None:
    shown = last(QUESTION, demo)
    *_, usual = ask(QUESTION, SYSTEMS["baseline"], READER, demo)
    assert shown.prompt is not None
    tags = {item: tag for tag, item in shown.prompt.tags.items()}
    first = chunk_ids(shown)[0]
    assert Added("graph", tags[first], first) in added(shown, usual)
    page = demo.chunks[first].page_id
    question = Question(QUESTION, (page,), "1384; 1186", "multihop", "demo_multihop")
    (gold,) = locate(question, shown, demo)
    assert (gold.state, gold.rank, gold.sent, gold.bridged) == ("missed", None, False, first)
    (gold,) = locate(question, usual, demo)
    assert (gold.state, gold.bridged) == ("missed", "")
    boxes = [box for box in page_view.boxes(shown, demo, page) if box.item_id == first]
    assert boxes and {(box.branch, box.label, box.sent) for box in boxes} == {("graph", tags[first], True)}
    without = last(QUESTION, demo, (first,))
    assert left_out_tags(without) == {first: tags[first]}
    measured = [one.item_id for *_, known in [tuple(influence(shown, READER, demo))] for one in known]
    assert measured == list(shown.prompt.tags.values())


def test_the_reader_takes_an_answer_from_a_bridge_and_cites_it(demo: Corpus) -> None:
    shown = last(QUESTION, demo)
    assert shown.prompt is not None
    chunk = chunk_ids(shown)[0]
    alone = tuple(s for s in shown.prompt.segments if s.kind in ("instruction", "question") or s.item_id == chunk)
    (tag,) = [s.tag for s in alone if s.item_id == chunk]
    read = units(replace(shown.prompt, segments=alone))
    assert len(read) > 1 and {unit.tag for unit in read} == {tag} and "fact" not in {unit.kind for unit in read}


def test_the_same_question_gives_the_same_bridges(demo: Corpus) -> None:
    again = replace(demo)  # nothing of the first one's is kept
    assert bridges_of(last(QUESTION, demo)) == bridges_of(last(QUESTION, again))


def test_no_bridges_without_the_mode_or_a_question_or_room(demo: Corpus) -> None:
    query = Query.of(QUESTION, demo)
    query = query.after(branches.text(query, demo, BRIDGE), demo)
    assert branches.bridges(query, demo, BRIDGE, 0) == ()
    assert branches.bridges(query, demo, tuned(BRIDGE, graph_mode="open")) == ()
    assert branches.bridges(Query.of(" ", demo), demo, BRIDGE) == ()
    every = branches.bridges(query, demo, BRIDGE, 10_000)
    pages = [demo.chunks[bridge.hit.item_id].page_id for bridge in every]
    assert len(set(pages)) == len(pages) > 10 and not set(pages) & set(query.text_pages)
    assert branches.bridges(query, demo, BRIDGE, 10)[:2] == branches.bridges(query, demo, BRIDGE)

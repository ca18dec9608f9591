"""The graph column: what is marked, drawn and told, and what a click may and may not ask for."""

from __future__ import annotations

import html
import json
import re
from dataclasses import replace
from itertools import permutations
from types import SimpleNamespace
from urllib.parse import unquote

import gradio as gr
import pytest

from rag import prompt
from rag.corpus import Corpus
from rag.generators.registry import GENERATORS
from rag.graph import MODES, Match, fact_text
from rag.pipeline import ask
from rag.systems import system_named, tuned
from rag.types import Fact, RejectedFact, Step, Trace
from tests.ui.test_views import HOSTILE, Shape, hostile_corpus
from tests.ui.traces import trace
from ui import graph_desk
from ui import text as words
from ui.graph_desk import MAX_NEIGHBOURS, GraphDesk, would_send
from ui.shelf import Shelf
from ui.views import graph

TWO_DATA_SETS = next(example.question for example in words.EXAMPLES["demo"] if example.kind == "two facts")


def text_of(document: str) -> str:
    return " ".join("".join(Shape(document).text).split())


def without(shown: Trace, corpus: Corpus, *items: str) -> Trace:
    return replace(shown, excluded=items, prompt=prompt.build(shown.question, shown.evidence, corpus, items))


def click(corpus: Corpus, shown: Trace | None, data: object) -> tuple[str, object]:
    request = SimpleNamespace(session_hash="a")
    return GraphDesk(Shelf(corpus)).answer(request, shown, SimpleNamespace(_data=data))  # type: ignore[arg-type]


def last(question: str, corpus: Corpus, exclude: tuple[str, ...] = (), refill: bool = False, **knobs: object) -> Trace:
    *_, shown = ask(
        question,
        tuned(system_named("+KG"), **knobs),
        GENERATORS["extractive"],
        corpus,
        exclude=exclude,
        refill=refill,
    )
    return shown


# --- the question ----------------------------------------------------------------------------------------------------


def test_entities_that_overlap_are_both_marked_in_the_questions_words(demo: Corpus) -> None:
    document = graph.render(last(TWO_DATA_SETS, demo), demo)
    asked = re.search(r'<p class="fb-asked"[^>]*>(.*?)</p>', document).group(1)
    assert "".join(Shape(asked).text) == TWO_DATA_SETS
    pieces = re.findall(r'<mark class="fb-layer ([^"]*)" title="([^"]*)">([^<]*)</mark>', asked)
    assert ("entity-0", "mgus2 data set", "mgus2 ") in pieces
    inner = next(piece for piece in pieces if piece[2] == "data" and "mgus2" in piece[1])
    assert inner[0].split() == ["entity-0", "entity-1", "short-2"]
    assert inner[1] == "mgus2 data set · data set · data (not looked up: shorter than 5 characters)"


def test_lanes_part_what_overlaps_and_are_used_again() -> None:
    places = [(0, 10), (2, 6), (4, 8), (5, 7), (11, 12)]
    assert graph.lanes([Match("", start, end) for start, end in places]) == [0, 1, 2, 2, 0]


def test_layered_text_is_the_text() -> None:
    spans = [graph.Marked(0, 3, "a", "A"), graph.Marked(2, 5, "b", "B<"), graph.Marked(9, 9, "c", "C")]
    document = graph.layered("<b>&\x00xy", spans[:2])
    assert "".join(Shape(document).text) == "<b>& xy"
    assert re.findall(r'class="fb-layer ([^"]*)" title="([^"]*)"', document) == [
        ("a", "A"),
        ("a b", "A · B&lt;"),
        ("b", "B&lt;"),
    ]


# --- layers ----------------------------------------------------------------------------------------------------------


def test_a_fact_that_was_left_out_is_not_sent(small: Corpus) -> None:
    document = graph.render(without(trace(small), small, "triple:0"), small)
    assert "1 fact sent · 1 left out · 300 dropped" in text_of(document)
    row = re.search(r'<tr class="fb-item graph left-out" data-item="triple:0".*?</tr>', document).group()
    assert ">left out</span>" in row and " checked" in row
    assert "left-out" not in re.search(r'<tr[^>]*data-item="triple:1"', document).group()
    data = payload_of(document)
    assert [edge["kind"] for edge in data["edges"][:2]] == ["left out", "sent"]
    assert "(left out)" in data["edges"][0]["title"]


def payload_of(document: str) -> dict:
    source = next(link for link in Shape(document).links if link.startswith(graph.FRAME_URL))
    return json.loads(unquote(source.split("#", 1)[1]))


def test_every_reason_has_a_switch_and_every_layer_its_own_line(small: Corpus) -> None:
    document = graph.render(without(trace(small), small, "triple:0"), small)
    assert re.findall(r'data-layer="([^"]*)"( checked)?', document) == [
        ("page not retrieved", ""),
        ("entity too short", ""),
    ]
    looks = [(dashes, kind in ("sent", "left out")) for kind, dashes in graph.DASHES.items()]
    assert len(set(looks)) == len(looks)  # no two layers differ by colour alone
    none = replace(trace(small).evidence.graph, facts=())
    only = replace(trace(small), evidence=replace(trace(small).evidence, graph=none))
    assert all(checked for _, checked in re.findall(r'data-layer="([^"]*)"( checked)?', graph.render(only, small)))


def test_bridged_passages_stand_under_their_way_and_are_drawn(demo: Corpus) -> None:
    shown = last(TWO_DATA_SETS, demo, graph_mode="bridge")
    bridges, tags = shown.evidence.graph.bridges, {item: tag for tag, item in shown.prompt.tags.items()}
    document = graph.render(shown, demo)
    assert f"and {len(bridges)} bridged passages sent" in text_of(document)
    data = payload_of(document)
    labels = {node["label"] for node in data["nodes"]}
    ends = {edge["id"]: edge for edge in data["edges"]}
    assert len(ends) == len(data["edges"]) and "bridge" in data["on"]
    assert {edge["kind"] for edge in data["edges"]} >= {"bridge"}
    listed = set(re.findall(r'data-said="(triple:\d+)"', document))
    for bridge in bridges:
        item = bridge.hit.item_id
        assert f'data-item="{item}"' in document and f'data-leave="{item}"' in document and tags[item] in labels
        assert {f"triple:{step.triple_id}" for step in bridge.path[1:]} <= listed
    left_out = graph.render(without(shown, demo, bridges[0].hit.item_id), demo)
    assert "1 left out" in text_of(left_out) and f'data-item="{bridges[0].hit.item_id}"' in left_out


def test_the_arrows_of_a_way_follow_the_fact(demo: Corpus) -> None:
    shown = last(TWO_DATA_SETS, demo, graph_mode="bridge")
    evidence = shown.evidence.graph
    assert evidence is not None
    number, triple = next(
        (n, t) for n, t in enumerate(demo.triples) if graph.node_id(t.subject) != graph.node_id(t.object)
    )

    def told(start: str, end: str) -> str:
        way = (Step("entity", start), Step("entity", end, number), Step("chunk", triple.chunk_id, number))
        bridges = (replace(evidence.bridges[0], path=way),)
        return " ".join(
            text_of(
                graph.render(
                    replace(shown, evidence=replace(shown.evidence, graph=replace(evidence, bridges=bridges))), demo
                )
            ).split()
        )

    assert f"{triple.subject} → {triple.relation} → {triple.object}" in told(triple.subject, triple.object)
    assert f"{triple.object} ← {triple.relation} ← {triple.subject}" in told(triple.object, triple.subject)


def test_a_way_is_drawn_whole_and_once(demo: Corpus) -> None:
    shown = last(TWO_DATA_SETS, demo, graph_mode="bridge")
    found = shown.evidence.graph
    assert found is not None
    number, triple = next(
        (n, t) for n, t in enumerate(demo.triples) if graph.node_id(t.subject) != graph.node_id(t.object)
    )
    subject, chunk, object_ = (
        Step("entity", triple.subject), Step("chunk", triple.chunk_id, number), Step("entity", triple.object, number)
    )  # fmt: skip
    target = Step("chunk", found.bridges[0].hit.item_id, number)
    hidden = RejectedFact(Fact((number,), fact_text(triple), triple.subject, "out"), "page not retrieved")

    def drawn(*ways: tuple[Step, ...]) -> list[tuple[str, str]]:
        bridges = tuple(replace(found.bridges[0], path=way) for way in ways)
        edges = graph.payload(replace(found, facts=(), rejected=(hidden,), bridges=bridges), shown, demo)["edges"]
        assert len({edge["id"] for edge in edges}) == len(edges) and all(
            re.match(rf"triple:{number}(:|$)", edge["id"]) for edge in edges
        )
        return [(edge["from"], edge["to"]) for edge in edges if edge["kind"] == "bridge"]

    # The same triple leads into its passage and out of it, and two ways begin alike.
    through = drawn((subject, chunk, object_, target), (subject, chunk, object_))
    assert len(through) == len(set(through)) == 3
    # The fact that links the two is dropped, and its layer hidden.
    assert len(drawn((subject, object_))) == 1


def test_everything_drawn_stands_in_a_table(demo: Corpus) -> None:
    for example in words.EXAMPLES["demo"]:
        shown = last(example.question, demo)
        document = graph.render(shown, demo)
        if "<iframe" not in document:
            continue
        listed = set(re.findall(r'data-said="(triple:\d+)"', document))
        assert {edge["id"] for edge in payload_of(document)["edges"]} <= listed


# --- clicks ----------------------------------------------------------------------------------------------------------


def test_a_click_on_an_edge_shows_its_sentence_page_and_fate(small: Corpus) -> None:
    document, mode = click(small, trace(small), {"fact": "triple:0"})
    assert mode == gr.skip()
    assert '<mark class="fb-layer subject" title="subject">glioma trial</mark>' in document
    assert '<mark class="fb-layer object" title="object">37 patients</mark>' in document
    assert "The glioma trial enrolled 37 patients." in text_of(document) and "sent as G1" in document
    assert 'data-page="glioma_p001" data-focus="triple:0"' in document
    assert "dropped: page not retrieved" in click(small, trace(small), {"fact": "triple:2"})[0]
    assert "left out" in click(small, without(trace(small), small, "triple:0"), {"fact": "triple:0"})[0]


def test_neighbours_come_up_to_a_stated_limit(demo: Corpus) -> None:
    shown = last(TWO_DATA_SETS, demo)
    number = shown.evidence.graph.entities.index("data set")
    document, _ = click(demo, shown, {"around": f"q:{number}"})
    total = demo.graph.neighbours("data set", 0).total
    assert total > MAX_NEIGHBOURS and f"showing {MAX_NEIGHBOURS} of {total}" in document
    data = json.loads(html.unescape(re.search(r'data-drawn="([^"]*)"', document).group(1)))
    assert [edge["id"] for edge in data["edges"]] == re.findall(r'data-said="(triple:\d+)"', document)
    assert len(data["edges"]) == MAX_NEIGHBOURS
    matched = {node["title"].casefold() for node in data["nodes"] if node["matched"]}
    assert "data set" in matched and matched <= {entity.casefold() for entity in shown.evidence.graph.entities}
    # The same entity, from the other end of a triple.
    triple = next(n for n, t in enumerate(demo.triples) if t.object == "data set")
    again, _ = click(demo, shown, {"around": f"o:{triple}"})
    assert again == document
    small_one, _ = click(demo, shown, {"around": f"s:{triple}"})
    assert demo.triples[triple].subject in text_of(small_one)


@pytest.mark.parametrize(("mode", "other"), list(permutations(MODES, 2)))
@pytest.mark.parametrize("refill", [False, True])
@pytest.mark.parametrize("question", [example.question for example in words.EXAMPLES["demo"]])
def test_another_mode_would_have_sent_what_it_sends(
    demo: Corpus, question: str, refill: bool, mode: str, other: str
) -> None:
    """What the lookup on demand says is what asking again in the other mode puts into the prompt."""
    first = last(question, demo, graph_mode=mode, max_facts=4)
    found = first.evidence.graph
    left_out = (*map(graph.item_of, found.facts[:2]), *(bridge.hit.item_id for bridge in found.bridges[:1]))
    shown = last(question, demo, left_out, refill, graph_mode=mode, max_facts=4)
    asked = last(question, demo, left_out, refill, graph_mode=other, max_facts=4)
    sent = [item for tag, item in asked.prompt.tags.items() if tag.startswith("G")]
    would = would_send(shown, demo, other)
    assert [*map(graph.item_of, would.facts), *(bridge.hit.item_id for bridge in would.bridges)] == sent


def test_the_other_mode_is_told_as_looked_up_and_sets_the_control(demo: Corpus) -> None:
    shown = last(TWO_DATA_SETS, demo)
    document, mode = click(demo, shown, {"other": "open"})
    there, here = would_send(shown, demo, "open").facts, shown.evidence.graph.facts
    new = {f.text for f in there} - {f.text for f in here}
    assert mode == gr.skip()
    assert f"would have sent {len(there)} facts instead of {len(here)}" in text_of(document)
    assert f"{len(new)} new" in text_of(document) and f"new {len(new)}" in text_of(document)
    told, mode = click(demo, shown, {"set": "open"})
    assert mode == "open" and "everywhere" in told


@pytest.mark.parametrize(
    "data",
    [
        None,
        "fact",
        [],
        {},
        {"fact": "triple:4"},
        {"fact": "triple:-1"},
        {"fact": "triple:٣"},
        {"fact": {"a": 1}},
        {"fact": "<img src=x onerror=alert(1)>"},
        {"around": "q:2"},
        {"around": "s:999999999"},
        {"around": "x:0"},
        {"around": "s:" + "9" * 10_000},
        {"other": "evil"},
        {"set": "<script>"},
    ],
)
def test_what_a_browser_sends_is_not_trusted(small: Corpus, data: object) -> None:
    document, mode = click(small, trace(small), data)
    assert mode == gr.skip() and "data-refused" in document and "onerror" not in document


def test_without_an_answer_or_with_anothers_corpus_there_is_nothing_to_look_into(small: Corpus) -> None:
    assert "data-refused" in click(small, None, {"fact": "triple:0"})[0]
    assert "data-refused" in click(small, replace(trace(small), corpus_id="another"), {"fact": "triple:0"})[0]


# --- names that nobody should trust --------------------------------------------------------------------------------------


def answers(corpus: Corpus) -> dict[str, str]:
    shown = trace(corpus)
    wanted = ({"fact": "triple:0"}, {"around": "s:0"}, {"around": "q:1"}, {"other": "open"})
    return {str(data): click(corpus, shown, data)[0] for data in wanted}


@pytest.mark.parametrize("kind", HOSTILE)
def test_answers_to_clicks_hold_hostile_names_as_text(small: Corpus, kind: str) -> None:
    plain = answers(hostile_corpus(small, "word"))
    for name, document in answers(hostile_corpus(small, HOSTILE[kind])).items():
        document.encode("utf-8")
        assert "data-refused" not in document
        assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", document), name
        assert Shape(document).tags == Shape(plain[name]).tags, name
        assert Shape(document).links == []


def test_the_drawing_gets_no_character_that_turns_the_writing_direction(small: Corpus) -> None:
    poison = "\u202eevil\u202c \u2066x \u0627\u0644\u0639 \u2069\u200f"
    corpus = hostile_corpus(small, poison)
    data = payload_of(graph.render(trace(corpus), corpus))
    for part in (*data["nodes"], *data["edges"]):
        assert not re.search("[\u202a-\u202e\u2066\u2067\u200e\u200f]", part["label"] + part["title"])
    for edge in data["edges"]:
        assert edge["title"].count("\u2068") == edge["title"].count("\u2069") == 3
    assert not re.search("[\u2068\u2069]", "".join(node["title"] for node in data["nodes"]))


def test_replies_are_known_to_the_page() -> None:
    """Each kind of question has an answer, and the desk knows no mode that the page can't name."""
    assert set(graph_desk._ANSWERS) == {"fact", "around", "other", "set"}
    assert set(words.GRAPH_MODES) == set(graph_desk.MODES)

"""The knowledge graph against graphs written out by hand, per-node regular expressions, and the study's own triples."""

from __future__ import annotations

import gzip
import hashlib
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag.errors import UsageError
from rag.graph import MAX_REJECTED, Graph, fold
from rag.types import Triple

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
PAPER = DATA / "paper"
HOTPOTQA = DATA / "hotpotqa"

needs_paper = pytest.mark.skipif(not PAPER.is_dir(), reason="the study's triples (../shared/data/paper) are not there")
needs_hotpotqa = pytest.mark.skipif(
    not HOTPOTQA.is_dir(), reason="the study's HotpotQA triples (../shared/data/hotpotqa) are not there"
)


def triple(subject: str, relation: str, object_: str, page: str = "p1") -> Triple:
    return Triple(subject, relation, object_, f"{page}_c00", page, "hand")


#       id  subject              relation         object               page
HAND = (
    triple("Log-rank test", "compares", "survival curves", "p1"),  # 0
    triple("log-rank test", "compares", "Survival  curves", "p2"),  # 1: states 0 again, on another page
    triple("glioma", "is a", "brain tumour", "p2"),  # 2
    triple("glioma", "is treated by", "radioimmunotherapy", "p3"),  # 3
    triple("survfit", "draws", "survival curves", "p3"),  # 4
    triple("age", "predicts", "death", "p1"),  # 5: "age" has three characters
    triple("test", "has", "p value", "p1"),  # 6
    triple("log-rank test", "is a", "test", "p1"),  # 7
    triple("glioma", "resembles", "glioma", "p1"),  # 8: a loop
    triple("glioma", "is a", "brain tumour", "p1"),  # 9: states 2 again
)
QUESTION = "Does the log-rank test compare survival curves of glioma by age?"


def summary(facts: Sequence[Any]) -> list[tuple[tuple[int, ...], str, str, str]]:
    return [(fact.triple_ids, fact.text, fact.entity, fact.via) for fact in facts]


def test_matches_are_where_the_entities_stand() -> None:
    graph = Graph(HAND)
    assert [(m.entity, m.start, m.end) for m in graph.match(QUESTION)] == [
        ("log-rank test", 9, 22),
        ("survival curves", 31, 46),
        ("glioma", 50, 56),
    ]
    assert [m.entity for m in graph.match(QUESTION, min_chars=1)] == [
        "log-rank test",
        "test",
        "survival curves",
        "glioma",
        "age",
    ]


def test_facts_in_order_of_page_rank_then_longer_entity_then_triple() -> None:
    evidence = Graph(HAND).facts(QUESTION, ["p2", "p1"], max_facts=3)
    assert evidence.entities == ("log-rank test", "survival curves", "glioma")
    assert evidence.mode == "provenance"
    # p2 first: triple 1 by "survival curves" (15 characters; "log-rank test" has 13), which 0 on p1 repeats;
    # then 2 by "glioma", which 9 repeats; then p1: 7 by "log-rank test". The loop 8 is over the limit of 3.
    assert summary(evidence.facts) == [
        ((1, 0), "log-rank test | compares | Survival  curves", "survival curves", "in"),
        ((2, 9), "glioma | is a | brain tumour", "glioma", "out"),
        ((7,), "log-rank test | is a | test", "log-rank test", "out"),
    ]
    # 5 by "age" and 6 by "test" are too short. 7 touches "test" too, but is reached by a long entity already.
    assert [(r.reason, *summary([r.fact])[0]) for r in evidence.rejected] == [
        ("duplicate", (0,), "Log-rank test | compares | survival curves", "survival curves", "in"),
        ("duplicate", (9,), "glioma | is a | brain tumour", "glioma", "out"),
        ("over the limit", (8,), "glioma | resembles | glioma", "glioma", "out"),
        ("page not retrieved", (4,), "survfit | draws | survival curves", "survival curves", "in"),
        ("page not retrieved", (3,), "glioma | is treated by | radioimmunotherapy", "glioma", "out"),
        ("entity too short", (5,), "age | predicts | death", "age", "out"),
        ("entity too short", (6,), "test | has | p value", "test", "out"),
    ]
    assert evidence.rejected_counts == {
        "duplicate": 2,
        "over the limit": 1,
        "page not retrieved": 2,
        "entity too short": 2,
    }


def test_open_mode_looks_at_no_page() -> None:
    evidence = Graph(HAND).facts("What treats glioma?", ["p1"], mode="open")
    assert summary(evidence.facts) == [
        ((2, 9), "glioma | is a | brain tumour", "glioma", "out"),
        ((3,), "glioma | is treated by | radioimmunotherapy", "glioma", "out"),
        ((8,), "glioma | resembles | glioma", "glioma", "out"),
    ]
    assert evidence.rejected_counts == {"duplicate": 1}
    closed = Graph(HAND).facts("What treats glioma?", ["p1"])
    assert [fact.triple_ids for fact in closed.facts] == [(8,), (9,)]
    assert closed.rejected_counts == {"page not retrieved": 2}


def test_a_repetition_on_another_page_does_not_pass_the_page_filter() -> None:
    evidence = Graph(HAND).facts("What is glioma?", ["p2"])
    assert [fact.triple_ids for fact in evidence.facts] == [(2,)]
    assert {r.fact.triple_ids: r.reason for r in evidence.rejected} == {
        (3,): "page not retrieved",
        (8,): "page not retrieved",
        (9,): "page not retrieved",
    }


@pytest.mark.parametrize(
    "question", ["", "   ", "?", "What is this?", "gliomas", "preglioma", "glioma_grade", "glio ma", "log rank test"]
)
def test_no_whole_word_no_match(question: str) -> None:
    graph = Graph(HAND)
    assert graph.match(question) == ()
    evidence = graph.facts(question, ["p1", "p2", "p3"])
    assert (evidence.entities, evidence.facts) == ((), ())


@pytest.mark.parametrize(
    ("entity", "question", "expected"),
    [
        ("CD4+ cells", "Are CD4+ cells fewer?", (4, 14)),
        ("52% of patients", "Did (52% of patients) relapse?", (5, 20)),
        ("CD4+ T", "CD4+ Treg", None),
        ("(naive)", "a (naive) estimate", (2, 9)),
        ("(naive)", "est(naive) of", None),
        ("Cox   model", "the cox\n\tMODEL, again", (4, 14)),
        ("straße", "In der STRASSE dort", (7, 14)),
        ("strasse", "In der Straße dort", (7, 13)),
        ("İstanbul", "to İSTANBUL?", (3, 11)),
        ("stanbul", "to İstanbul?", None),
        ("sstraße", "Das ßtraße", (4, 10)),
        ("straße", "Das ßtraße", None),
        ("Ὀδυσσεύς", "was ὈΔΥΣΣΕΎΣ there", (4, 12)),
        ("naïve estimate", "ß: naïve  estimate", (3, 18)),
        ("中文字符号", "the 中文字符号 text", (4, 9)),
    ],
)
def test_whole_words_in_any_spelling(entity: str, question: str, expected: tuple[int, int] | None) -> None:
    matches = Graph([triple(entity, "is", "here")]).match(question)
    assert [(m.start, m.end) for m in matches] == ([expected] if expected else [])
    assert all(m.entity == question[m.start : m.end] for m in matches)


def test_overlapping_matches_are_all_kept() -> None:
    graph = Graph([triple("survival analysis", "of", "analysis plan"), triple("data-data", "has", "survival")])
    assert [m.entity for m in graph.match("survival analysis plan, data-data-data")] == [
        "survival analysis",
        "survival",
        "analysis plan",
        "data-data",
        "data-data",
    ]


def test_parallel_edges_and_directions_are_kept() -> None:
    graph = Graph(
        [triple("Alpha", "knows", "Beta"), triple("ALPHA", "likes", "beta"), triple("Beta", "knows", "Alpha")]
    )
    assert (graph.number_of_entities, graph.number_of_edges, graph.entities) == (2, 3, ("Alpha", "Beta"))
    evidence = graph.facts("alpha?", ["p1"])
    assert [(fact.triple_ids, fact.via) for fact in evidence.facts] == [((0,), "out"), ((1,), "out"), ((2,), "in")]
    exported = graph.to_networkx()
    assert sorted(exported.edges(keys=True)) == [("alpha", "beta", 0), ("alpha", "beta", 1), ("beta", "alpha", 2)]
    assert exported.nodes["alpha"]["label"] == "Alpha"
    assert exported.edges["alpha", "beta", 1]["relation"] == "likes"


def test_neighbours_say_how_many_there_are() -> None:
    graph = Graph(HAND)
    some = graph.neighbours("GLIOMA", limit=3)
    assert (some.entity, some.triple_ids, some.total) == ("glioma", (2, 3, 8), 4)
    assert graph.neighbours("survival curves").triple_ids == (0, 1, 4)
    assert graph.neighbours("nobody").total == 0
    assert graph.neighbours("").total == 0


def test_nothing_in_a_name_breaks_the_graph() -> None:
    names = [
        "<script>alert('x')</script>",
        'quoted "name" \\ with $1 and (?P<group>',
        "control \x00\x07\x1b\x1f characters",
        "lone \ud800 surrogate",
        "n" * 5000,
        "long " * 1000,
        "[a-z]+ .* pattern",
    ]
    graph = Graph([triple(name, "is", "name | with | bars") for name in names])
    assert graph.skipped == 0
    for index, name in enumerate(names):
        evidence = graph.facts(f"what about {name}?", ["p1"])
        assert (index,) in [fact.triple_ids for fact in evidence.facts], name
        assert graph.neighbours(name).triple_ids == (index,)
    assert graph.to_networkx().number_of_edges() == len(names)


def test_blank_names() -> None:
    graph = Graph([triple("", "has", "entity"), triple(" \t", "has", "entity"), triple("the band", "broke up", "")])
    assert (graph.skipped, graph.number_of_edges, graph.number_of_entities) == (2, 1, 2)
    evidence = graph.facts("When did the band break up?", ["p1"])
    # Ids stay indices into the sequence that was given.
    assert summary(evidence.facts) == [((2,), "the band | broke up", "the band", "out")]
    assert graph.match("an entity", 1) == ()
    assert graph.match("  ", 0) == ()


def test_an_empty_graph_answers() -> None:
    graph = Graph([])
    evidence = graph.facts("anything at all", ["p1"])
    assert (evidence.entities, evidence.facts, evidence.rejected, evidence.rejected_counts) == ((), (), (), {})
    assert graph.to_networkx().number_of_nodes() == 0


def test_the_list_of_rejected_facts_is_cut_and_the_counts_are_not() -> None:
    triples = [triple("x", "r", f"node {i}", "p9") for i in range(3000)]
    triples += [triple("patients", "r", f"node {i}", "p9") for i in range(500)] + [triple("patients", "r", "x")]
    evidence = Graph(triples).facts("x in patients", ["p1"])
    assert [fact.triple_ids for fact in evidence.facts] == [(3500,)]
    assert evidence.rejected_counts == {"page not retrieved": 500, "entity too short": 3000}
    listed = [(r.reason, r.fact.triple_ids) for r in evidence.rejected]
    assert listed == [
        *(("page not retrieved", (i,)) for i in range(3000, 3000 + MAX_REJECTED)),
        *(("entity too short", (i,)) for i in range(MAX_REJECTED)),
    ]


def test_limits() -> None:
    graph = Graph(HAND)
    none = graph.facts("glioma", ["p1", "p2", "p3"], max_facts=0)
    assert (none.facts, none.rejected_counts) == ((), {"duplicate": 1, "over the limit": 3})
    with pytest.raises(UsageError, match="can't be negative"):
        graph.facts("glioma", [], max_facts=-1)
    with pytest.raises(UsageError, match="provenance, open"):
        graph.facts("glioma", [], mode="closed")  # type: ignore[arg-type]


class _Unscannable(dict[str, Any]):
    """A mapping that can be asked about one key, and not be gone through."""

    def _refuse(self, *_: object) -> Any:
        raise AssertionError("the lookup went through all nodes")

    __iter__ = keys = values = items = _refuse


def test_the_lookup_does_not_scan_the_nodes() -> None:
    graph = Graph(HAND)
    expected = graph.facts(QUESTION, ["p1"])
    graph._nodes = _Unscannable(graph._nodes)
    graph._lengths = _Unscannable(graph._lengths)
    assert graph.facts(QUESTION, ["p1"]) == expected


def places_by_definition(graph: Graph, question: str) -> set[tuple[str, int, int]]:
    """Every span that folds to an entity and touches no further word character."""
    keys = {fold(name) for name in graph.entities} - {""}
    word = re.compile(r"\w")
    found = set()
    for start in range(len(question)):
        for end in range(start + 1, len(question) + 1):
            span = question[start:end]
            if span[0].isspace() or span[-1].isspace() or fold(span) not in keys:
                continue
            if (start and word.match(question[start - 1])) or (end < len(question) and word.match(question[end])):
                continue
            found.add((span, start, end))
    return found


def places_by_regex(key: str, question: str, left: str, right: str) -> set[tuple[int, int]]:
    """Where a per-node expression stands, places that overlap with themselves included."""
    pattern = re.compile(left + re.escape(key) + right)
    found: set[tuple[int, int]] = set()
    at = pattern.search(question)
    while at:
        found.add(at.span())
        at = pattern.search(question, at.start() + 1)
    return found


LETTERS = "abAB_1 \t\n-+(%)'.ßẞİıſKΣςσ\u0307\u0345ǅﬁŉ中"
names = st.text(LETTERS, min_size=1, max_size=9)


@settings(max_examples=300, deadline=None)
@given(st.lists(names, min_size=1, max_size=8), st.lists(names, max_size=8))
def test_matches_are_those_of_the_definition(entities: list[str], parts: list[str]) -> None:
    graph = Graph([triple(entity, "r", entity) for entity in entities])
    question = "".join(part + entity for part, entity in zip(parts, entities + parts, strict=False))
    found = {(m.entity, m.start, m.end) for m in graph.match(question, 0)}
    assert found == places_by_definition(graph, question)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.text("ab_1-+(%). ", min_size=1, max_size=8), min_size=1), st.text("ab_1-+(%). ", max_size=30))
def test_matches_are_those_of_a_regular_expression_per_node(entities: list[str], question: str) -> None:
    graph = Graph([triple(entity, "r", entity) for entity in entities])
    question = fold(question)
    expected = {
        place for name in graph.entities if name for place in places_by_regex(name, question, r"(?<!\w)", r"(?!\w)")
    }
    assert {(m.start, m.end) for m in graph.match(question, 0)} == expected


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(*[st.sampled_from(["alpha", "beta gamma", "delta", "x", "yz"])] * 3, st.sampled_from("123"))),
    st.integers(0, 4),
    st.sampled_from(["provenance", "open"]),
)
def test_every_touched_edge_is_given_or_rejected_once(rows: list[Any], limit: int, mode: Any) -> None:
    graph = Graph([triple(s, r, o, page) for s, r, o, page in rows])
    evidence = graph.facts("Alpha, x and beta gamma yz", ["2", "1"], mode=mode, max_facts=limit)
    touched = [i for i, (s, _, o, _) in enumerate(rows) if {s, o} != {"delta"}]
    rejected = [r.fact.triple_ids[0] for r in evidence.rejected]
    assert sorted([fact.triple_ids[0] for fact in evidence.facts] + rejected) == touched
    assert sum(evidence.rejected_counts.values()) == len(rejected)
    assert len(evidence.facts) <= limit
    if mode == "provenance":
        assert all(rows[i][3] in "12" for fact in evidence.facts for i in fact.triple_ids)


def study_triples(folder: Path) -> dict[str, list[list[str]]]:
    with gzip.open(folder / "triples_by_chunk_md5.jsonl.gz", "rt", encoding="utf-8") as lines:
        return {row["chunk_md5"]: row["triples"] for row in map(json.loads, lines)}


@needs_hotpotqa
def test_the_studys_hotpotqa_triples_keep_every_edge() -> None:
    by_md5 = study_triples(HOTPOTQA)
    triples = []
    with gzip.open(HOTPOTQA / "docs.jsonl.gz", "rt", encoding="utf-8") as lines:
        for record in map(json.loads, lines):
            text = " ".join(record["text"].split())
            for start in range(0, len(text), 450):
                md5 = hashlib.md5(text[start : start + 500].encode()).hexdigest()
                triples += [Triple(s, r, o, md5, record["source"], "study") for s, r, o in by_md5[md5]]
    graph = Graph(triples)
    assert (len(triples), graph.number_of_edges, graph.number_of_entities) == (36_447, 36_447, 40_117)
    exported = graph.to_networkx()
    assert (exported.number_of_edges(), exported.number_of_nodes()) == (36_447, 40_117)
    # The study's own graph keeps one edge for each pair of nodes.
    assert len(set(exported.edges())) == 35_749


@needs_paper
def test_matches_on_the_studys_questions_are_those_of_a_regular_expression_per_node() -> None:
    rows = [(md5, *parts) for md5, triples in study_triples(PAPER).items() for parts in triples]
    graph = Graph([Triple(s, r, o, md5, md5, "study") for md5, s, r, o in rows])
    keys = {fold(name) for name in graph.entities if name}
    files = [PAPER / f"questions_publaynet_{kind}.json" for kind in ("text", "multihop", "figures")]
    questions = [fold(row["q"]) for file in files for row in json.loads(file.read_text(encoding="utf-8"))]
    assert len(questions) == 100
    matched = 0
    for question in questions:
        expected: set[tuple[int, int]] = set()
        for key in keys:
            if key in question:  # a whole word is a substring; this only saves compiling 50,000 expressions
                expected |= places_by_regex(key, question, r"(?<!\w)", r"(?!\w)")
        found = graph.match(question, 0)
        assert {(m.start, m.end) for m in found} == expected
        # Plain word boundaries agree on every name that begins and ends in a word character.
        plain = {m for m in found if re.match(r"\w", m.entity) and re.search(r"\w$", m.entity)}
        assert all((m.start, m.end) in places_by_regex(m.entity, question, r"\b", r"\b") for m in plain)
        matched += len([m for m in found if len(m.entity) >= 5])
    assert matched > 300

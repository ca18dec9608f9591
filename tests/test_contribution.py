"""What a branch did, from answers written by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rag import prompt
from rag.contribution import contributions, right, systems_like
from rag.corpus import Corpus
from rag.evaluate.questions import Question, reference_for
from rag.generators.registry import GENERATORS
from rag.pipeline import ask
from rag.systems import SYSTEMS, tuned
from rag.types import Delta, Generation, Trace, Usage
from tests.scripted import DONE, scripted
from tests.ui import traces as by_hand
from ui.text import EXAMPLES

REFERENCE = Question(by_hand.QUESTION, ("glioma_p001",), "37 patients", "text", "small")
NOTHING = Question(by_hand.QUESTION, (), "not in the documents", "unanswerable", "small")
ABSTAINS = "The evidence does not answer this."


def answered(corpus: Corpus, name: str, text: str, tokens: int | None = 100, finish: str = "stop") -> Trace:
    """The trace of one system by hand: the branches that it lacks are taken out of evidence and prompt."""
    trace = by_hand.trace(corpus)
    on = SYSTEMS[name].branches
    evidence = replace(
        trace.evidence,
        graph=trace.evidence.graph if "graph" in on else None,
        visual=trace.evidence.visual if "visual" in on else None,
        gate=trace.evidence.gate if "visual" in on else None,
    )
    generation = Generation(text, Usage(tokens, 5, None, "reported"), finish=finish, abstained=text == ABSTAINS)
    return replace(
        trace,
        system=SYSTEMS[name],
        evidence=evidence,
        prompt=prompt.build(trace.question, evidence, corpus),
        generation=generation,
        timings_ms={"graph": 2.0, "visual": 4.0} if name == "+both" else {"graph": 3.0, "visual": 5.0},
    )


def four(corpus: Corpus, *texts: str, **options: object) -> dict[str, Trace]:
    return {name: answered(corpus, name, text, **options) for name, text in zip(SYSTEMS, texts, strict=True)}  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("texts", "reference", "visual", "graph"),
    [
        (("37", "37", "37", "37"), REFERENCE, ("same", "same"), ("same", "same")),
        # Tags are no part of what an answer says.
        (("37 [T1]", "37 [G1]", "37 [V1]", "37"), REFERENCE, ("same", "same"), ("same", "same")),
        ((ABSTAINS, ABSTAINS, "37", "37"), REFERENCE, ("righted", "righted"), ("same", "same")),
        (("37", "40", "37", "37"), REFERENCE, ("same", "righted"), ("wronged", "same")),
        (("40", "37", "37", "37"), REFERENCE, ("righted", "same"), ("righted", "same")),
        (("40", "41", "40", "40"), REFERENCE, ("same", "changed"), ("changed", "same")),
        (("37", "37", "40", "40"), None, ("changed", "changed"), ("same", "same")),
        # Of a question without an answer the abstention is right.
        ((ABSTAINS, "37", ABSTAINS, "37"), NOTHING, ("same", "same"), ("wronged", "wronged")),
    ],
)
def test_an_effect_is_told_alone_and_on_top_of_the_other_branch(
    small: Corpus,
    texts: tuple[str, ...],
    reference: Question | None,
    visual: tuple[str, str],
    graph: tuple[str, str],
) -> None:
    found = contributions(four(small, *texts), reference)
    assert [(one.branch, (one.alone, one.on_top)) for one in found] == [("visual", visual), ("graph", graph)]


def test_items_tokens_and_time_are_those_beside_the_text(small: Corpus) -> None:
    traces = four(small, "37", "37", "37", "37")
    tokens = {"baseline": 100, "+KG": 118, "+multimodal": 160, "+both": 178}
    for name, count in tokens.items():
        traces[name] = answered(small, name, "37", count)
    visual, graph = contributions(traces, None)
    # Two facts and one caption are in the prompts written by hand; the shorter of two times counts.
    assert (graph.items, graph.input_tokens, graph.lookup_ms) == (2, 18, 2.0)
    assert (visual.items, visual.input_tokens, visual.lookup_ms) == (1, 60, 4.0)


def test_what_is_not_known_stays_unknown(small: Corpus) -> None:
    traces = four(small, "37", "37", "37", "37")
    assert contributions({name: traces[name] for name in list(traces)[:3]}, REFERENCE) == ()
    traces["+KG"] = answered(small, "+KG", "37", None, finish="length")
    visual, graph = contributions(traces, REFERENCE)
    assert (graph.alone, graph.on_top, graph.input_tokens) == ("unknown", "same", None)
    assert (visual.alone, visual.on_top) == ("same", "unknown")
    assert right(traces["+KG"], REFERENCE) is None and right(traces["baseline"], None) is None
    assert right(traces["baseline"], REFERENCE) is True


@pytest.mark.parametrize(("kind", "branch"), [("pixels", "visual"), ("graph", "graph")])
def test_the_examples_that_need_a_branch_are_right_with_it_alone(demo: Corpus, kind: str, branch: str) -> None:
    """What the page promises a visitor holds for the embedded reader."""
    question = next(one.question for one in EXAMPLES["demo"] if one.kind == kind)
    traces = {name: list(ask(question, system, GENERATORS["extractive"], demo))[-1] for name, system in SYSTEMS.items()}
    found = {one.branch: (one.alone, one.on_top) for one in contributions(traces, reference_for(question, demo))}
    assert found.pop(branch) == ("righted", "righted")
    assert list(found.values()) == [("same", "same")]


def test_the_four_systems_keep_the_settings_and_differ_in_their_branches_alone(small: Corpus) -> None:
    system = tuned(SYSTEMS["+KG"], text_k=1, max_facts=1, text_ranker="bm25")
    spec, _ = scripted(Delta("37"), DONE)
    systems = systems_like(system)
    assert [one.name for one in systems] == list(SYSTEMS)
    assert [replace(one, name="", branches=(), label="") for one in systems] == [
        replace(system, name="", branches=(), label="")
    ] * 4
    for one in systems:
        *_, trace = ask(by_hand.QUESTION, one, spec, small)
        assert {tag[0] for tag in trace.prompt.tags} <= {branch[0].upper() for branch in one.branches}  # type: ignore[union-attr]

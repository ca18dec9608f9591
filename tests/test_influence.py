"""Each item of a prompt left out in turn: what is asked, what counts as a change, what it would cost, and when it ends."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest

from rag import pricing, prompt
from rag.budget import Budget
from rag.corpus import Corpus
from rag.errors import CorpusError, GeneratorError, UsageError
from rag.generators.access import Access
from rag.generators.registry import GENERATORS
from rag.generators.spec import GeneratorSpec
from rag.influence import Influence, cost, influence
from rag.pipeline import ask
from rag.systems import SYSTEMS
from rag.types import Delta, Finish, GeneratorEvent, Prompt, Trace, Usage
from tests.scripted import DONE, scripted
from tests.ui.traces import trace as written
from ui.text import EXAMPLES


class Reads:
    """Answers from which items it was shown: with the first chunk 37, else what its table says for the tag that is missing."""

    def __init__(self, without: dict[str, Sequence[GeneratorEvent | Exception]]) -> None:
        self.without, self.prompts = without, list[Prompt]()

    def stream(self, sent: Prompt) -> Iterator[GeneratorEvent]:
        self.prompts.append(sent)
        for tag, events in self.without.items():
            if tag not in sent.tags:
                for event in events:
                    if isinstance(event, Exception):
                        raise event
                    yield event
                return
        yield from (Delta("37 patients [T1]"), DONE)


def reader(without: dict[str, Sequence[GeneratorEvent | Exception]], **changes: object) -> tuple[GeneratorSpec, Reads]:
    generator = Reads(without)
    spec, _ = scripted()
    return replace(spec, maker=lambda spec, call: generator, **changes), generator  # type: ignore[arg-type]


def measured(trace: Trace, spec: GeneratorSpec, corpus: Corpus, **options: object) -> dict[str, Influence]:
    *_, last = influence(trace, spec, corpus, **options)  # type: ignore[arg-type]
    return {one.tag: one for one in last}


def test_every_outcome_is_told_apart(small: Corpus) -> None:
    trace = replace(written(small), generator="scripted")
    spec, generator = reader(
        {
            "T1": (Delta("36 patients [T2]"), DONE),
            "T2": (Delta(prompt.ABSTENTION), DONE),
            "G1": (Delta("37 pat"), GeneratorError("The provider hung up.")),
            "V1": (Delta("37 pat"), Finish(Usage(1, 1, None, "reported"), "length")),
            "G2": (Delta("37 patients. [G1]"), DONE),
        }
    )
    found = measured(trace, spec, small)
    assert {tag: one.outcome for tag, one in found.items()} == {
        "T1": "changed", "T2": "abstains", "T3": "unchanged", "G1": "failed", "G2": "unchanged", "V1": "failed",
    }  # fmt: skip
    assert found["T1"].difference == pytest.approx(1 - 2 / 4) and found["T3"].difference == 0
    assert found["G1"].difference is None and "hung up" in found["G1"].generation.error
    assert {tag for tag, one in found.items() if one.changed} == {"T1", "T2"}
    assert trace.prompt is not None
    left_out = [set(trace.prompt.tags) - set(sent.tags) for sent in generator.prompts]
    assert left_out == [{tag} for tag in trace.prompt.tags]


def test_an_abstention_that_becomes_an_answer_is_a_change(small: Corpus) -> None:
    trace = replace(written(small, prompt.ABSTENTION, abstained=True), generator="scripted")
    spec, _ = reader({"T1": (Delta("37 [T2]"), DONE), "T2": (Delta(f'"{prompt.ABSTENTION}"'), DONE)})
    found = measured(trace, spec, small)
    assert found["T1"].outcome == "answers" and found["T1"].changed
    assert found["T2"].outcome == "unchanged" and found["T2"].difference == 0


def test_the_demo_tree_is_read_off_its_figure_and_nothing_else(demo: Corpus) -> None:
    question = next(example.question for example in EXAMPLES["demo"] if example.kind == "pixels")
    *_, trace = ask(question, SYSTEMS["+both"], GENERATORS["extractive"], demo)
    found = measured(trace, GENERATORS["extractive"], demo)
    assert {tag for tag, one in found.items() if one.changed} == {"V1"} and found["V1"].outcome == "abstains"
    assert trace.prompt is not None and list(found) == list(trace.prompt.tags)


def test_what_was_left_out_before_stays_left_out(small: Corpus) -> None:
    before = replace(written(small), generator="scripted", excluded=("glioma_p001_c01",))
    trace = replace(before, prompt=prompt.build(before.question, before.evidence, small, before.excluded))
    spec, generator = reader({})
    assert "T2" not in measured(trace, spec, small)
    assert all("T2" not in sent.tags and len(sent.tags) == 4 for sent in generator.prompts)


def test_the_cost_is_the_sum_over_the_prompts_without_each_item(small: Corpus) -> None:
    trace = replace(written(small), generator="scripted")
    spec, generator = reader({}, usd_per_million_input=3.0, usd_per_million_output=5.0)
    measured(trace, spec, small)
    each = [pricing.estimate(sent, spec) for sent in generator.prompts]
    told = cost(trace, spec, small)
    assert told.input_tokens == sum(one.input_tokens or 0 for one in each)
    assert told.cost_usd == pytest.approx(sum(one.cost_usd or 0 for one in each)) and told.cost_usd
    assert told.limit_usd == pytest.approx(sum(one.limit_usd or 0 for one in each))
    assert cost(trace, replace(spec, usd_per_million_input=None), small).cost_usd is None


def test_a_cap_that_is_reached_fails_the_calls_and_counts_for_nothing(small: Corpus) -> None:
    trace = replace(written(small), generator="scripted")
    spec, generator = reader({}, usd_per_million_input=3.0, usd_per_million_output=5.0)
    limit = cost(trace, spec, small).limit_usd or 0
    access = Access(session="a", budget=Budget(limit, None))
    assert {one.outcome for one in measured(trace, spec, small, access=access).values()} == {"unchanged"}
    poor = Access(session="a", budget=Budget(limit / 600, None))
    asked = len(generator.prompts)
    assert {one.outcome for one in measured(trace, spec, small, access=poor).values()} == {"failed"}
    assert len(generator.prompts) == asked


def test_stop_ends_the_call_on_its_way_and_those_to_come(small: Corpus) -> None:
    trace = replace(written(small), generator="scripted")
    pressed: list[bool] = []
    spec, generator = reader({"T2": [Delta("word ")] * 50})
    running = influence(trace, spec, small, stopped=lambda: bool(pressed))
    for known in running:
        if known:
            pressed.append(True)
    assert [one.tag for one in known] == ["T1"] and len(generator.prompts) <= 2


@pytest.mark.parametrize("change", [{"finish": "cancelled"}, {"finish": "length"}, {"finish": "error", "error": "x"}])
def test_an_answer_that_is_not_whole_is_nothing_to_compare_with(small: Corpus, change: dict[str, str]) -> None:
    spec, generator = reader({})
    trace = replace(written(small, **change), generator="scripted")
    for act in (lambda: list(influence(trace, spec, small)), lambda: cost(trace, spec, small)):
        with pytest.raises(UsageError, match="no whole answer"):
            act()
    assert generator.prompts == []


def test_a_prompt_without_evidence_and_a_foreign_trace_are_refused(small: Corpus) -> None:
    spec, _ = reader({})
    trace = replace(written(small), generator="scripted")
    bare = replace(
        trace, prompt=prompt.build(trace.question, replace(trace.evidence, text=None, graph=None, gate=None), small)
    )
    with pytest.raises(UsageError, match="no evidence"):
        list(influence(bare, spec, small))
    with pytest.raises(CorpusError):
        list(influence(replace(trace, corpus_id="other"), spec, small))

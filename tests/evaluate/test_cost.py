"""Cost before a run: the generators' calls and the judges', from real prompts, by the prices of those who are asked."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rag import pricing
from rag.errors import UsageError
from rag.evaluate.cost import VERDICT_TOKENS, CostEstimate, check_budget, estimate_cost
from rag.evaluate.judges import DEEPSEEK, HAIKU, OFFLINE, ModelJudge
from rag.evaluate.runner import evaluate
from rag.evaluate.store import Store
from rag.pipeline import ask
from rag.systems import SYSTEMS
from rag.types import Delta
from tests.evaluate.runs import QUESTIONS, plan
from tests.scripted import DONE, scripted

PAID = {"usd_per_million_input": 1.0, "usd_per_million_output": 10.0}
FREE = {"usd_per_million_input": 0.0, "usd_per_million_output": 0.0}


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path) as opened:
        yield opened


def model_judge(**changes):
    """DeepSeek-Chat and Claude Haiku 4.5, which nobody asks."""
    return ModelJudge(replace(DEEPSEEK, **changes), replace(HAIKU, **changes), lambda image: b"")


def test_the_estimate_is_from_the_real_prompts_and_of_what_is_missing(store, small):
    spec, _ = scripted(Delta("686 [T1]"), DONE, price=None)
    free = plan()
    assert (estimate_cost(free, small).calls, estimate_cost(free, small).limit_usd) == (20, 0)
    paid = replace(spec, **PAID)
    asked = plan(QUESTIONS[:2], generators=(paid,))
    found = estimate_cost(asked, small)
    by_hand = 0.0
    for job in asked.jobs():
        *_, trace = ask(job.question.q, job.system, paid, small, question_type="text")
        by_hand += trace.generation.estimate.cost_usd
    assert found.cost_usd == pytest.approx(by_hand) and (found.calls, found.sampled, found.questions) == (8, 2, 2)
    one = frozenset(job.key for job in asked.jobs() if job.question == QUESTIONS[0])
    assert estimate_cost(asked, small, one).calls == 4
    assert estimate_cost(asked, small, sample=1).sampled == 1 and estimate_cost(asked, small, sample=1).cost_usd > 0
    unknown = estimate_cost(plan(generators=(spec,)), small)
    assert unknown.cost_usd is None and unknown.unknown == ("scripted",)


def test_a_run_above_its_cap_does_not_start():
    check_budget(CostEstimate(8, 2, 2, 100, 0.01, 0.05), 0.05)
    check_budget(CostEstimate(8, 2, 2, 100, 0.01, 0.05), None)
    with pytest.raises(UsageError, match=r"at most \$0\.0500.*cap of \$0\.04"):
        check_budget(CostEstimate(8, 2, 2, 100, 0.01, 0.05), 0.04)
    with pytest.raises(UsageError, match="not known for gpt"):
        check_budget(CostEstimate(8, 2, 2, None, None, None, ("gpt",)), 5.0)


def test_a_judge_is_reckoned_by_its_own_prompts_and_prices(store, small):
    judge, asked = model_judge(), plan(QUESTIONS[:2], systems=(SYSTEMS["baseline"],))
    run = evaluate(asked, store, small)
    done = frozenset(store.finished(run.id))
    found = estimate_cost(asked, small, done, judges=(judge, *OFFLINE), store=store, run_id=run.id)
    tokens = count = 0
    for result in store.results(run.id):
        for model, prompt in judge.calls(
            result.question, result.reference, result.answer, store.trace(result)
        ).values():
            assert model.name == "deepseek-chat"
            tokens += sum(pricing.default_counter()(message.content) for message in prompt.messages)
            count += 1
    assert (found.calls, found.judging.calls, count) == (0, 6, 6)
    # $0.28 for a million tokens in, $0.42 for a million out.
    assert found.judging.input_tokens == tokens
    assert found.total_usd == found.judging.cost_usd == pytest.approx((0.28 * tokens + 0.42 * 6 * VERDICT_TOKENS) / 1e6)
    assert found.judging.limit_usd > found.judging.cost_usd
    assert "Judging: 6 calls, about $" in found.line


def test_what_is_judged_is_not_reckoned_again_unless_all_is_judged_anew(store, small):
    judge, asked = model_judge(), plan(QUESTIONS[:2], systems=(SYSTEMS["baseline"],))
    run = evaluate(asked, store, small)
    first = store.results(run.id)[0]
    store.judged(first, {judge.name: {"accuracy": True}})

    def calls(**more):
        return estimate_cost(
            asked, small, frozenset(store.finished(run.id)), judges=(judge,), store=store, run_id=run.id, **more
        ).judging.calls

    assert (calls(), calls(again=True)) == (3, 6)


def test_an_answer_to_come_is_reckoned_as_short_and_at_most_as_the_longest(small):
    asked = plan(QUESTIONS[:1], systems=(SYSTEMS["baseline"],))
    found = estimate_cost(asked, small, judges=(model_judge(),)).judging
    longer = replace(asked, generators=(replace(asked.generators[0], max_output_tokens=5_000),))
    more = estimate_cost(longer, small, judges=(model_judge(),)).judging
    assert found.calls == 3 and more.cost_usd == found.cost_usd
    # Three prompts with 4,488 words more each, of 1.25 tokens at most.
    assert more.limit_usd - found.limit_usd == pytest.approx(3 * 4_488 * 1.25 * 0.28 / 1e6, rel=0.01)


def test_pixels_are_reckoned_by_the_judge_that_sees(small):
    spec, _ = scripted(Delta("11 months [V1]"), DONE)
    asked = plan(QUESTIONS[3:4], systems=(SYSTEMS["+multimodal"],), generators=(replace(spec, vision=True),))
    found = estimate_cost(asked, small, judges=(model_judge(),)).judging
    blind = estimate_cost(asked, small, judges=(ModelJudge(DEEPSEEK, None, lambda image: b""),)).judging
    assert (found.calls, blind.calls) == (3, 2) and found.cost_usd > blind.cost_usd + 1e-4


@pytest.mark.parametrize(("side", "tokens"), [(200, 54), (1000, 1334), (1092, 1590), (4000, 1600)])
def test_image_tokens_of_the_judge_that_sees_are_those_its_provider_lists(side, tokens):
    assert pricing.IMAGE_RULES["claude"].tokens(side, side) == tokens


def test_what_a_judge_without_price_costs_is_unknown_and_a_free_one_adds_nothing(small):
    asked = plan(QUESTIONS[:1], systems=(SYSTEMS["baseline"],))
    unknown = estimate_cost(asked, small, judges=(model_judge(usd_per_million_input=None),))
    assert unknown.total_limit_usd is None and unknown.judging.unknown == ("deepseek-chat",)
    with pytest.raises(UsageError, match="not known for deepseek-chat"):
        check_budget(unknown, 5.0)
    check_budget(unknown, None)
    assert estimate_cost(asked, small, judges=(model_judge(**FREE),)).judging is None


def test_generators_and_judges_count_against_one_cap():
    both = CostEstimate(8, 2, 2, 100, 0.01, 0.05, judging=CostEstimate(24, 2, 2, 900, 0.02, 0.04))
    assert both.total_usd == pytest.approx(0.03)
    check_budget(both, 0.1)
    with pytest.raises(UsageError, match=r"Judging: 24 calls.*above the cap of \$0\.0800"):
        check_budget(both, 0.08)

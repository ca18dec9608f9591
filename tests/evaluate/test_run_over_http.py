"""A run and its judge against a real HTTP server that misbehaves at first."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rag.evaluate import tables
from rag.evaluate.judges import ModelJudge
from rag.evaluate.runner import Plan, evaluate, judge_run
from rag.evaluate.store import Store
from rag.generators.access import Access
from rag.systems import SYSTEMS
from tests.evaluate.runs import QUESTIONS, plan
from tests.generators.helpers import KEY, QUICK, FakeTime, at
from tests.generators.servers import openai as say
from tests.generators.servers.base import ScriptedServer, stream


@pytest.fixture
def access(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    return Access(policy=FakeTime().policy(), timeouts=QUICK)


def test_refused_cut_and_blocked_calls_are_made_again_and_no_key_is_kept(small, tmp_path, access):
    bad = (
        say.error(401),
        replace(stream(*say.pieces(say.text("68"))), cut=True),
        stream(*say.pieces(say.text("68"), say.end("content_filter"), say.usage(100, 5))),
        say.error(500), say.error(500), say.error(500), say.error(500),
    )  # fmt: skip
    with Store(tmp_path) as store:
        with ScriptedServer(*bad, say.answer("686 [T1]")) as server:
            asked = plan(QUESTIONS[:2], generators=(at("gpt-4o-mini", server.url),))
            run = evaluate(asked, store, small, access, limits={"OpenAI": 1})
            assert (run.state, run.done, run.failed) == ("incomplete", 4, 4)
            errors = [result.error for result in store.results(run.id) if result.state == "failed"]
            assert "401" in errors[0] and "500" in errors[3] and all(errors)
            (row,) = [r for r in tables.ablation(store.results(run.id)) if r["system"] == "baseline"]
            assert (row["n"], row["failed"]) == (1, 1)
            again = Plan.stored(store, run.id, {"gpt-4o-mini": asked.generators[0]})
            assert evaluate(again, store, small, access, run_id=run.id).state == "complete"
            assert len(server.requests) == len(bad) + 4 + 4
        result = store.results(run.id)[0]
        assert (result.answer, result.input_tokens, result.tokens_source) == ("686 [T1]", 100, "reported")
    assert all(KEY.encode() not in file.read_bytes() for file in tmp_path.iterdir())


def test_a_judge_that_mumbles_counts_0_and_one_that_is_away_is_asked_again(small, tmp_path, access):
    begun = [say.answer("yes"), say.answer("Well, in a way.")]
    replies = [say.answer("686 [T1]"), *begun, say.error(401), *begun, say.answer("no")]
    with Store(tmp_path) as store, ScriptedServer(*replies) as server:
        spec = at("gpt-4o-mini", server.url)
        run = evaluate(plan(QUESTIONS[:1], systems=(SYSTEMS["baseline"],), generators=(spec,)), store, small, access)
        judge = ModelJudge(replace(spec, name="judge", model="judge"), None, lambda image: b"", access)
        assert any("401" in reason for reason in judge_run(store, run.id, (judge,)))
        assert store.results(run.id)[0].verdicts == {}
        assert judge_run(store, run.id, (judge,)) == ()
        (row,) = tables.ablation(store.results(run.id), "judge")
    assert (row["accuracy"], row["faithfulness"], row["relevancy"]) == (1.0, 0.0, 0.0)
    assert row["unparseable"] == {"accuracy": 0, "faithfulness": 1, "relevancy": 0}

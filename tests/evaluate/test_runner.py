"""Runs: the same whatever the order, stopped and resumed, never scored where a call failed."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import threading
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from rag import branches
from rag.errors import CorpusError, GeneratorError, UsageError
from rag.evaluate.questions import Question, load_questions, locate
from rag.evaluate.runner import Plan, RunProgress, evaluate, judge_run
from rag.evaluate.store import Store, question_id
from rag.generators.registry import GENERATORS
from rag.parts import sub_questions
from rag.settings import ASSETS
from rag.systems import SYSTEMS, tuned
from rag.types import Delta, Finish, Usage
from tests.evaluate.runs import QUESTIONS, plan, timeless
from tests.scripted import DONE, scripted

ROOT = Path(__file__).resolve().parents[2]
PAID = {"usd_per_million_input": 1.0, "usd_per_million_output": 10.0}


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path) as opened:
        yield opened


def _failing(times: int, *, on: str = ""):
    """A generator that fails its first calls (those whose prompt holds ``on``), then answers "686"."""
    spec, generator = scripted(Delta("686 [T1]"), DONE)
    lock, left = threading.Lock(), [times]

    class Flaky:
        def stream(self, prompt):
            generator.prompts.append(prompt)
            with lock:
                fails = left[0] > 0 and on in prompt.messages[-1].content
                left[0] -= fails
            if fails:
                raise GeneratorError("The provider was away; ask again.")
            yield from (Delta("686 [T1]"), DONE)

    return replace(spec, maker=lambda spec, call: Flaky()), generator.prompts


def test_every_question_goes_through_every_system_and_generator(store, small):
    other, prompts = scripted(Delta("37 [T1]"), DONE)
    run = evaluate(plan(generators=(GENERATORS["extractive"], other)), store, small)
    results = store.results(run.id)
    assert (run.state, run.planned, run.done, run.failed) == ("complete", 40, 40, 0)
    assert [(r.question, r.system, r.generator) for r in results] == [
        (q.q, system, generator) for q in QUESTIONS for system in SYSTEMS for generator in ("extractive", "scripted")
    ]
    assert len(prompts.prompts) == 20
    first = results[0]
    trace = store.trace(first)
    assert (trace.id, trace.question, trace.question_type, trace.system) == (
        first.trace_id, first.question, "text", SYSTEMS["baseline"],
    )  # fmt: skip
    assert (first.answer, first.input_tokens) == (trace.generation.text, trace.generation.usage.input_tokens)
    # 100 tokens in and 10 out at $1 a million
    assert results[1].cost_usd == pytest.approx(110e-6) and results[1].tokens_source == "reported"


def test_places_and_ranks_are_those_of_the_modality_that_holds_the_answer(store, small):
    run = evaluate(plan(), store, small)
    found = {(r.question, r.system): r for r in store.results(run.id)}
    figure = QUESTIONS[3].q
    assert (found[figure, "baseline"].ranks, found[figure, "baseline"].places) == ((None,), ("off",))
    assert (found[figure, "+multimodal"].ranks, found[figure, "+both"].places) == ((1,), ("sent",))
    two = found[QUESTIONS[2].q, "+KG"]
    assert sorted(two.ranks) == [1, 2] and two.places == ("sent", "sent")
    assert found[QUESTIONS[4].q, "+both"].ranks == ()


def test_sources_are_ranked_deeper_than_the_prompt_takes(store, small):
    one = tuned(SYSTEMS["baseline"], text_k=1)
    question = replace(QUESTIONS[0], sources=("glioma_p001", "glioma_p002"))
    run = evaluate(plan((question,), systems=(one,)), store, small)
    (found,) = store.results(run.id)
    assert found.places == ("found", "sent") and found.ranks == (2, 1)


def test_gold_pages_are_ranked_among_distinct_pages_and_a_crop_counts_for_its_page(store, small):
    run = evaluate(plan(systems=(SYSTEMS["+both"],)), store, small)
    found = {r.question: r for r in store.results(run.id)}
    for asked in QUESTIONS:
        kept = store.trace(found[asked.q])
        deep = branches.text(
            branches.Query.of(asked.q, small), small, replace(kept.system, text_k=branches.FUSION_DEPTH)
        )
        ranked = list(dict.fromkeys(small.chunks[hit.item_id].page_id for hit in deep.hits))
        gold = dict.fromkeys(small.crops[s].page_id if s in small.crops else s for s in asked.sources)
        assert found[asked.q].page_ranks == tuple(ranked.index(page) + 1 for page in gold)
        # What was searched part by part is kept with the result, as in its trace.
        assert found[asked.q].parts == kept.evidence.text.parts == sub_questions(asked.q)
    assert found[QUESTIONS[3].q].page_ranks and not found[QUESTIONS[4].q].page_ranks
    two = "How many women did GBSG2 recruit, and how many patients did the glioma trial enroll?"
    run = evaluate(plan((replace(QUESTIONS[2], q=two),), systems=(SYSTEMS["baseline"],)), store, small)
    assert len(store.results(run.id)[0].parts) == 2


def test_the_gate_goes_by_the_type_or_by_its_signals(store, small):
    modes = {}
    for by_type in (True, False):
        run = evaluate(plan(QUESTIONS[3:4], systems=(SYSTEMS["+both"],), by_type=by_type), store, small)
        modes[by_type] = store.trace(store.results(run.id)[0]).evidence.gate.mode
        assert ("as in the study" in run.note) == by_type and "CLIP" in run.note
    assert modes == {True: "question type", False: "auto"}


def test_a_type_that_the_gate_does_not_know_is_about_text(store, small):
    strange = (replace(QUESTIONS[0], type="hotpot_bridge"), replace(QUESTIONS[2], type="hotpot_bridge"))
    run = evaluate(plan(strange, systems=(SYSTEMS["+both"],)), store, small)
    found = store.results(run.id)
    assert [store.trace(result).question_type for result in found] == ["text", "multihop"]
    assert {result.type for result in found} == {"hotpot_bridge"}


def test_results_are_the_same_in_any_order_and_at_any_concurrency(store, demo):
    chosen = tuple(
        question for file in sorted((ASSETS / "questions").glob("demo_*.json")) for question in load_questions(file)[:3]
    )
    straight = evaluate(plan(chosen), store, demo, limits={"Fusebox": 1})
    shuffled = list(chosen)
    random.Random(7).shuffle(shuffled)
    systems = tuple(reversed(SYSTEMS.values()))
    other = evaluate(plan(tuple(shuffled), systems=systems), store, demo, limits={"Fusebox": 6})

    def key(result):
        return result.question_id, result.system

    one, two = (sorted(map(timeless, store.results(run.id)), key=key) for run in (straight, other))
    assert len(one) == 4 * len(chosen) and one == two
    # The deeper ranking begins with the one that was shown.
    asked = {question_id(question): question for question in chosen}
    for result in store.results(straight.id):
        shown = locate(asked[result.question_id], store.trace(result), demo)
        assert all(gold.rank in (None, rank) for gold, rank in zip(shown, result.ranks, strict=True))


def test_a_failed_call_is_never_scored_and_made_again_on_resume(store, small):
    spec, prompts = _failing(3)
    asked = plan(QUESTIONS[:2], generators=(spec,))
    run = evaluate(asked, store, small)
    assert (run.state, run.planned, run.done, run.failed) == ("incomplete", 8, 5, 3)
    failed = [r for r in store.results(run.id) if r.state == "failed"]
    assert {r.error for r in failed} == {"The provider was away; ask again."}
    judge_run(store, run.id, (_Judge(),))
    assert all((r.state == "done") == bool(r.verdicts) for r in store.results(run.id))
    before = len(prompts)
    again = evaluate(Plan.stored(store, run.id, {"scripted": spec}), store, small, run_id=run.id)
    assert (again.id, again.state, again.done, again.failed) == (run.id, "complete", 8, 0)
    assert len(prompts) - before == 3


@pytest.mark.parametrize(
    "events",
    [
        (Finish(Usage(100, 0, None, "reported"), "content_filter", notice="The provider blocked the answer."),),
        (Delta("686"), Finish(Usage(100, 9, None, "reported"), "length", notice="The answer was cut.")),
        (DONE,),
        (Delta("686"),),
    ],
    ids=["blocked", "cut", "empty", "no end"],
)
def test_what_is_no_whole_answer_is_not_scored(store, small, events):
    spec, _ = scripted(*events)
    run = evaluate(plan(QUESTIONS[:1], systems=(SYSTEMS["baseline"],), generators=(spec,)), store, small)
    (result,) = store.results(run.id)
    assert (result.state, run.state) == ("failed", "incomplete") and result.error


@dataclass
class _Gate:
    """Answers until ``after`` answers were given, then waits to be stopped."""

    after: int
    reached: threading.Event = field(default_factory=threading.Event)
    given: int = 0

    def stream(self, prompt):
        from rag.types import Waiting

        self.given += 1
        while self.given > self.after:
            self.reached.set()
            yield Waiting()
        yield from (Delta("686 [T1]"), DONE)


def test_stop_drops_what_is_under_way_and_resume_does_the_rest(store, small):
    gate = _Gate(5)
    spec, _ = scripted()
    blocked = replace(spec, maker=lambda spec, call: gate)
    lines = []
    run = evaluate(
        plan(generators=(blocked,)),
        store,
        small,
        stopped=gate.reached.is_set,
        progress=lines.append,
        limits={"Fusebox": 1},
    )
    assert (run.state, run.done, run.failed) == ("incomplete", 5, 0)
    assert [line.done for line in lines] == [0, 1, 2, 3, 4, 5] and lines[-1].seconds_left >= 0
    free, _ = scripted(Delta("686 [T1]"), DONE)
    lines.clear()
    run = evaluate(Plan.stored(store, run.id, {"scripted": free}), store, small, run_id=run.id, progress=lines.append)
    assert (run.state, run.done) == ("complete", 20) and (lines[0].done, lines[-1].done) == (5, 20)


_CHILD = """
import sys
from dataclasses import replace
from pathlib import Path
from rag.corpus import open_corpus
from rag.evaluate.runner import evaluate
from rag.evaluate.store import Store
from rag.types import Delta
from tests.evaluate.runs import plan
from tests.scripted import DONE, scripted

class Blocking:
    given = 0
    def stream(self, prompt):
        Blocking.given += 1
        if Blocking.given > 7:
            print("seven are done", flush=True)
            sys.stdin.read()
        yield from (Delta("686 [T1]"), DONE)

spec = replace(scripted()[0], maker=lambda spec, call: Blocking())
evaluate(plan(generators=(spec,)), Store(Path(sys.argv[1])), open_corpus(Path(sys.argv[2])), limits={"Fusebox": 1})
"""


def test_kill_minus_nine_loses_nothing_that_was_finished(tmp_path, small, small_folder):
    child = subprocess.Popen(
        [sys.executable, "-c", _CHILD, str(tmp_path), str(small_folder)],
        cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    with child:
        assert child.stdout.readline() == "seven are done\n"
        with Store(tmp_path) as store:
            assert store.runs()[0].state == "running"
        child.send_signal(signal.SIGKILL)
        child.stdin.close()
        child.wait(timeout=60)
    spec, generator = scripted(Delta("686 [T1]"), DONE)
    with Store(tmp_path) as store:
        (run,) = store.runs()
        assert (run.state, run.done, run.failed) == ("incomplete", 7, 0)
        kept = store.results(run.id)
        assert [store.trace(result).id for result in kept] == [result.trace_id for result in kept]
        whole = evaluate(Plan.stored(store, run.id, {"scripted": spec}), store, small, run_id=run.id)
        assert whole.state == "complete" and len(generator.prompts) == 13
        assert store.results(run.id)[:7] == kept
        fresh = evaluate(plan(generators=(spec,)), store, small)
        assert list(map(timeless, store.results(run.id))) == list(map(timeless, store.results(fresh.id)))


def test_no_more_calls_at_once_than_a_provider_allows(store, small):
    most, lock, now = [0], threading.Lock(), [0]
    spec, _ = scripted()

    class Counting:
        def stream(self, prompt):
            with lock:
                now[0] += 1
                most[0] = max(most[0], now[0])
            yield Delta("686 [T1]")
            with lock:
                now[0] -= 1
            yield DONE

    evaluate(plan(generators=(replace(spec, maker=lambda s, c: Counting()),)), store, small, limits={"Fusebox": 2})
    assert 1 <= most[0] <= 2


def test_a_run_stops_at_its_cap(store, small):
    spec, generator = scripted(Delta("686 [T1]"), DONE)
    paid = replace(spec, **PAID)
    # each call costs 100 x $1/M + 10 x $10/M = $0.0002
    run = evaluate(plan(generators=(paid,)), store, small, budget_usd=0.0005, limits={"Fusebox": 1})
    assert (run.state, run.done, len(generator.prompts)) == ("incomplete", 3, 3)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"questions": ()}, "no question"),
        ({"generators": ()}, "no generator"),
        ({"questions": QUESTIONS[:1] * 2}, "comes twice"),
        ({"systems": (SYSTEMS["+KG"], tuned(SYSTEMS["+KG"], text_k=5))}, r"'\+KG' comes twice"),
        ({"questions": (replace(QUESTIONS[0], sources=("elsewhere_p001",)),)}, "None of the sources"),
    ],
)
def test_a_plan_that_can_measure_nothing_is_refused(store, small, changes, says):
    with pytest.raises(UsageError, match=says):
        evaluate(plan(**changes), store, small)
    assert store.runs() == ()


def test_a_source_of_another_corpus_counts_as_missed_and_is_said(store, small):
    strange = Question("How many dogs took part?", ("elsewhere_p001",), "3", "text", "small_text")
    run = evaluate(plan((QUESTIONS[0], strange), systems=(SYSTEMS["baseline"],)), store, small)
    assert store.results(run.id)[1].places == ("missed",) and "1 questions name sources" in run.note


def test_changed_retrieval_is_said(store, small):
    systems = (tuned(SYSTEMS["baseline"], text_k=5), tuned(SYSTEMS["+KG"], text_k=5, text_ranker="dense"))
    note = evaluate(plan(QUESTIONS[:1], systems=systems), store, small).note
    assert note.splitlines()[1:] == [
        "Retrieval differs from what is usual: text_k is 5, not 3.",
        "Retrieval differs from what is usual: text_ranker is dense, not hybrid.",
    ]


def test_a_run_goes_on_with_its_own_corpus_alone(store, small, demo):
    run = evaluate(plan(QUESTIONS[:1]), store, small)
    with pytest.raises((CorpusError, UsageError), match="corpus"):
        evaluate(Plan.stored(store, run.id), store, demo, run_id=run.id)


def test_progress_in_words():
    assert RunProgress(10, 2, 40, 0.0123, 250.0).line == "12 of 40 asked, 2 failed, $0.0123 spent, about 4 min left"
    assert RunProgress(0, 0, 40).line == "0 of 40 asked"


@dataclass
class _Judge:
    """Says what it is told to."""

    says: bool | None = True
    away: bool = False
    name: str = "scripted-judge"
    metrics: tuple[str, ...] = ("accuracy",)
    asked: list[str] = field(default_factory=list)
    price: float | None = None

    @property
    def paid(self):
        return self.price is not None

    @property
    def spent_usd(self):
        return len(self.asked) * (self.price or 0.0)

    def judge(self, question, reference, answer, trace):
        self.asked.append(trace.question)
        if self.away:
            raise GeneratorError("The judge was away; judge again.")
        return {"accuracy": self.says}


def test_judging_is_redone_on_stored_traces_and_asks_no_generator(store, small):
    spec, generator = scripted(Delta("686 [T1]"), DONE)
    run = evaluate(plan(QUESTIONS[:2], generators=(spec,)), store, small)
    asked = len(generator.prompts)
    away = _Judge(away=True)
    assert judge_run(store, run.id, (away,)) == ("The judge was away; judge again.",)
    assert not any(result.verdicts for result in store.results(run.id))
    first = _Judge(None)
    assert judge_run(store, run.id, (first,)) == () and len(first.asked) == 8
    assert {r.verdicts["scripted-judge"]["accuracy"] for r in store.results(run.id)} == {None}
    second = _Judge(True)
    judge_run(store, run.id, (second,))
    assert second.asked == []
    judge_run(store, run.id, (second,), again=True, at_once=3)
    assert {r.verdicts["scripted-judge"]["accuracy"] for r in store.results(run.id)} == {True}
    assert len(generator.prompts) == asked


def test_judges_that_cost_something_stop_at_the_cap_and_the_others_go_on(store, small):
    run = evaluate(plan(QUESTIONS[:2]), store, small)
    dear, free = _Judge(name="dear", price=0.01), _Judge(name="free")
    (why,) = judge_run(store, run.id, (dear, free), budget_usd=0.025)
    assert "cap was reached" in why and (len(dear.asked), len(free.asked)) == (3, 8)
    assert judge_run(store, run.id, (dear, free), budget_usd=None) == () and (len(dear.asked), len(free.asked)) == (
        8,
        8,
    )
    nothing = _Judge(name="third", price=0.01)
    assert judge_run(store, run.id, (nothing,), budget_usd=0.0) != () and nothing.asked == []


def test_gold_that_the_graph_brought_in_has_its_own_place_and_leaves_the_text_ranks_alone(store, small):
    both = Question(
        "How many did the glioma trial enroll, and the GBSG2 study recruit?",
        ("glioma_p001", "glioma_p002"), "37; 686", "multihop", "small_multihop",
    )  # fmt: skip
    found = {}
    for mode in ("provenance", "bridge"):
        systems = (tuned(SYSTEMS["+KG"], text_k=1, graph_mode=mode, text_ranker="bm25"),)
        run = evaluate(plan((both,), systems=systems), store, small)
        (found[mode],) = store.results(run.id)
        assert (f"graph_mode is {mode}, not provenance" in run.note) == (mode == "bridge")
    assert found["bridge"].ranks == found["provenance"].ranks
    assert set(found["provenance"].places) == {"sent", "found"}
    assert set(found["bridge"].places) == {"sent", "bridged"}
    assert found["bridge"].page_ranks == found["provenance"].page_ranks

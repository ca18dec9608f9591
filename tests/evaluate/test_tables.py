"""Tables against arithmetic by hand, on a dozen results."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from rag.errors import UsageError
from rag.evaluate import report, tables
from rag.evaluate.judges import by_kind, judges_named
from rag.evaluate.questions import Question
from rag.evaluate.store import Store
from rag.systems import SYSTEMS
from tests.evaluate.runs import plan, result

TEXT = [Question(f"How many in trial {n}?", (f"p{n}",), str(n), "text", "demo_text") for n in range(4)]
PIXEL = [Question(f"Which value has arm {n}?", (f"c{n}",), "1.25", "figure", "demo_figure_pixel") for n in range(2)]
CAPTION = Question("Which arm does better?", ("c9",), "the treated", "figure", "demo_figure_caption")
TWO = Question("How many, and when?", ("p0", "p1"), "4; 1984", "multihop", "demo_multihop")
NONE = Question("What did it cost?", (), "not in the documents", "unanswerable", "demo_unanswerable")


def accurate(value, **changes):
    return {"verdicts": {"lexical": {"accuracy": value}, "grounded": {"faithfulness": True}}} | changes


def row(rows, **wanted):
    (found,) = [r for r in rows if all(r[name] == value for name, value in wanted.items())]
    return found


def test_accuracy_is_the_mean_of_what_is_done_and_counts_the_unparseable_as_0():
    results = [
        result(TEXT[0], **accurate(True)),
        result(TEXT[1], **accurate(False)),
        result(TEXT[2], **accurate(None)),
        result(TEXT[3], **accurate(True, state="failed", error="away", verdicts={})),
    ]
    (found,) = tables.ablation(results)
    assert (found["n"], found["failed"], found["accuracy"]) == (3, 1, pytest.approx(1 / 3))
    assert (found["unparseable"], found["unjudged"]) == (
        {"accuracy": 1, "faithfulness": 0},
        {"accuracy": 0, "faithfulness": 0},
    )
    assert found["faithfulness"] == 1.0 and found["relevancy"] is None and found["relevancy_low"] is None
    assert found["judges"] == {"accuracy": "lexical", "faithfulness": "grounded"}
    assert 0.0 <= found["accuracy_low"] <= 1 / 3 <= found["accuracy_high"] <= 1.0


def test_what_is_not_judged_is_left_out_and_counted():
    (found,) = tables.ablation([result(TEXT[0]), result(TEXT[1], verdicts={})])
    assert (found["n"], found["unjudged"]["accuracy"], found["accuracy"]) == (2, 1, 1.0)


def test_rows_come_in_the_order_of_table_two():
    results = [
        result(question, system=system, generator=generator)
        for question in (CAPTION, PIXEL[0], TWO, TEXT[0])
        for system in ("baseline", "+KG")
        for generator in ("b", "a")
    ]
    found = [(r["generator"], r["system"], r["question_type"]) for r in tables.ablation(results)]
    kinds = ("text", "multihop", "figure_pixel", "figure_caption")
    assert found == [(g, s, kind) for g in ("b", "a") for s in ("baseline", "+KG") for kind in kinds]


def test_offline_judges_and_language_models_never_share_a_table():
    mixed = [result(TEXT[0], verdicts={"lexical": {"accuracy": True}, "deepseek-chat": {"accuracy": False}})]
    assert tables.ablation(mixed)[0]["accuracy"] == 1.0
    assert tables.ablation(mixed, "deepseek-chat")[0]["accuracy"] == 0.0
    for table in (tables.ablation, tables.taxonomy, tables.differences, tables.given_evidence, tables.figure_protocols):
        with pytest.raises(UsageError, match="can't share a table"):
            table(mixed, ("lexical", "deepseek-chat"))


@pytest.mark.parametrize(
    ("kind", "name", "wanted"),
    [
        ("figure", "demo_figure_caption", "figure_caption"),
        ("figure", "questions_publaynet_figures_caption", "figure_caption"),
        ("figure", "questions_publaynet_figures", "figure_pixel"),
        ("figure_caption", "mine", "figure_caption"),
        ("figure_pixel", "mine", "figure_pixel"),
        ("multihop", "captions", "multihop"),
    ],
)
def test_the_protocol_of_a_figure_question_is_in_its_type_or_set(kind, name, wanted):
    assert tables.question_type(result(replace(PIXEL[0], type=kind, set=name))) == wanted


def test_retrieval_is_scored_once_per_question_where_its_modality_is_ranked():
    results = [
        result(q, system=s, ranks=(rank,))
        for s in ("baseline", "+both")
        for q, rank in zip(TEXT, (1, 4, 2, None), strict=True)
    ]
    results += [result(TWO, ranks=(5, 2)), result(NONE)]
    for n, question in enumerate(PIXEL):
        results += [result(question, ranks=(None,), places=("off",)), result(question, system="+both", ranks=(n + 1,))]
    found = tables.retrieval(results)
    text, two, pixel = found["text"], found["multihop"], found["figure_pixel"]
    assert list(found) == ["text", "multihop", "figure_pixel"]
    assert (text["n"], text["recall_at_1"], text["recall_at_3"], text["recall_at_5"]) == (4, 0.25, 0.5, 0.75)
    assert text["mrr"] == pytest.approx((1 + 1 / 4 + 1 / 2) / 4)
    assert (two["recall_at_3"], two["recall_at_5"], two["all_found_at_3"], two["mrr"]) == (0.5, 1.0, 0.0, 0.5)
    assert (pixel["system"], pixel["n"], pixel["recall_at_1"], pixel["mrr"]) == ("+both", 2, 0.5, 0.75)


def test_pages_are_scored_to_the_tenth_once_per_question():
    results = [
        result(TEXT[0], page_ranks=(1,)),
        result(TEXT[0], system="+KG", page_ranks=(1,)),
        result(TEXT[1], page_ranks=(11,)),
        result(TWO, page_ranks=(2, None)),
        result(NONE, page_ranks=()),
        result(TEXT[2], page_ranks=(1,), state="failed", error="away"),
    ]
    found = tables.page_retrieval(results)
    assert list(found) == ["text", "multihop"]
    # One of the ten pages is gold for the first question, none for the second.
    text, two = found["text"], found["multihop"]
    assert (text["n"], text["precision_at_10"], text["recall_at_10"]) == (2, pytest.approx(1 / 20), 1 / 2)
    assert (two["n"], two["precision_at_10"], two["recall_at_10"], two["gold_pages"]) == (1, 1 / 10, 1 / 2, 2)
    assert text["precision_at_10_low"] <= text["precision_at_10"] <= text["precision_at_10_high"]


def test_figure_protocols_like_table_three():
    results = [
        result(PIXEL[0], **accurate(False)), result(PIXEL[1], **accurate(False)), result(CAPTION, **accurate(True)),
        result(PIXEL[0], **accurate(True, system="+multimodal")), result(PIXEL[1], **accurate(False, system="+multimodal")),
        result(CAPTION, **accurate(True, system="+multimodal")), result(TEXT[0]),
    ]  # fmt: skip
    found = tables.figure_protocols(results)
    assert (found["pixel"], found["caption"]) == ({"n": 2, "mean_answer_chars": 4}, {"n": 1, "mean_answer_chars": 11})
    (only,), (multi,) = found["text_only_accuracy"], found["multimodal_accuracy"]
    assert (only["generator"], only["pixel"], only["pixel_n"], only["caption"]) == ("extractive", 0.0, 2, 1.0)
    assert (multi["pixel"], multi["caption"], multi["caption_n"], found["judge"]) == (0.5, 1.0, 1, "lexical")


def test_efficiency_never_takes_unknown_for_0():
    results = [
        result(TEXT[0], input_tokens=100, cost_usd=0.001, latency_ms=10.0, ttft_ms=None),
        result(TEXT[1], input_tokens=300, cost_usd=0.003, latency_ms=30.0, tokens_source="reported", ttft_ms=4.0),
        result(TWO, input_tokens=100, cost_usd=0.001), result(TWO, input_tokens=None, cost_usd=None, system="+KG"),
    ]  # fmt: skip
    rows = tables.efficiency(results)
    text = row(rows, question_type="text")
    assert (text["n"], text["input_tokens_per_question"], text["latency_ms"], text["ttft_ms"]) == (2, 200, 20.0, 4.0)
    assert text["usd_per_100_questions"] == pytest.approx(0.2) and text["tokens_source"] == "mixed"
    unknown = row(rows, system="+KG")
    assert unknown["usd_per_100_questions"] is None and unknown["input_tokens_per_question"] is None


@pytest.mark.parametrize(
    ("question", "changes", "wanted"),
    [
        (TEXT[0], accurate(True, places=("missed",)), "right"),
        (TEXT[0], accurate(False, places=("missed",)), "retrieval miss"),
        (TEXT[0], accurate(False, places=("found",)), "found but not sent"),
        (TEXT[0], accurate(False, abstained=True), "wrong abstention"),
        (TEXT[0], accurate(None), "generator misread"),
        (TEXT[0], {"verdicts": {}}, "unjudged"),
        (TWO, accurate(False, places=("sent", "missed")), "part of the evidence missed"),
        (TWO, accurate(False, places=("sent", "found")), "part of the evidence missed"),
        (TWO, accurate(False, places=("missed", "missed")), "retrieval miss"),
        (PIXEL[0], accurate(False, places=("off",)), "branch off"),
        (NONE, accurate(False), "answered the unanswerable"),
        (NONE, accurate(True, abstained=True), "right"),
    ],
)
def test_what_became_of_a_question(question, changes, wanted):
    found = result(question, **changes)
    assert tables.cause(found, "lexical") == wanted and wanted in (*tables.CAUSES, "unjudged")
    (line,) = tables.taxonomy([found, replace(found, state="failed")], "lexical")
    assert line["n"] == 1 and line["causes"] == ({wanted: 1} if found.verdicts else {"unjudged": 1})


def test_differences_are_over_the_questions_both_answered():
    mine, base = (True, True, True, False), (True, False, False, True)
    results = [result(q, **accurate(b)) for q, b in zip(TEXT, base, strict=True)]
    results += [result(q, **accurate(m, system="+KG")) for q, m in zip(TEXT, mine, strict=True)]
    results += [result(TWO, **accurate(True, system="+KG"))]
    (found,) = tables.differences(results)
    assert (found["system"], found["n"], found["only_system"], found["only_baseline"]) == ("+KG", 4, 2, 1)
    # 3/4 - 2/4; of 3 discordant pairs, P(at most 1 on one side) = (1 + 3) / 8, twice that is 1
    assert found["difference"] == 0.25 and found["p"] == 1.0
    assert found["difference_low"] < 0.25 < found["difference_high"]
    failed = [replace(r, state="failed") if r.system == "+KG" and r.question == TEXT[0].q else r for r in results]
    assert tables.differences(failed)[0]["n"] == 3


def test_given_the_evidence():
    results = [
        result(TEXT[0], **accurate(True)),
        result(TEXT[1], **accurate(False, abstained=True)),
        result(TEXT[2], **accurate(False, places=("missed",), abstained=True)),
        result(TWO, **accurate(False, places=("sent", "missed"))),
        result(NONE, **accurate(True, abstained=True)),
    ]
    rows = tables.given_evidence(results)
    text = row(rows, question_type="text")
    assert (text["n"], text["n_sent"], text["accuracy_sent"], text["abstained_sent"]) == (3, 2, 0.5, 0.5)
    assert text["abstained"] == pytest.approx(2 / 3)
    assert (
        row(rows, question_type="multihop")["n_sent"] == 0
        and row(rows, question_type="multihop")["accuracy_sent"] is None
    )
    assert row(rows, question_type="unanswerable")["abstained"] == 1.0


def test_judges_of_two_kinds_have_tables_of_their_own(tmp_path):
    judges = judges_named(["offline", "deepseek-chat", "claude-haiku-4.5"], ["extractive"])
    kinds = by_kind(judges)
    assert kinds == (("lexical", "grounded", "similar"), ("deepseek-chat",), ("claude-haiku-4.5",))
    verdicts = {"lexical": {"accuracy": True}, "deepseek-chat": {"accuracy": False}, "claude-haiku-4.5": {}}
    with Store(tmp_path) as store:
        run = store.create(plan((TEXT[0],), systems=(SYSTEMS["baseline"],)), "c")
        store.add(result(TEXT[0], run=run.id, verdicts=verdicts), None)
        found = [tables.summary(store.results(run.id), names) for names in kinds]
        run = store.run(run.id)
    told = report.render(run, *found)
    # What no judge says anything about is told once.
    assert told.count("\nRetrieval, by the modality") == told.count("\nTokens, cost") == 1
    assert [told.count(f"accuracy ({name})") for name in ("lexical", "deepseek-chat", "no judge")] == [1, 1, 1]
    document = json.loads(report.as_json(run, *found))
    assert document["tables"]["ablation"][0]["accuracy"] == 1.0
    assert [t["ablation"][0]["accuracy"] for t in document["tables_by_other_judges"]] == [0.0, None]
    assert "tables_by_other_judges" not in json.loads(report.as_json(run, found[0]))


def test_tables_of_nothing_are_empty():
    found = tables.summary([])
    assert found["retrieval"] == {} and found["ablation"] == () and found["figure_protocols"]["pixel"]["n"] == 0


def test_what_the_graph_brought_in_is_counted_apart_from_the_text_ranking():
    other = replace(TWO, q="How many, and where?")
    results = [
        # One source first in the text ranking; the other nowhere, or too far down, and brought in by the graph.
        result(TWO, system="+KG", ranks=(1, None), places=("sent", "bridged")),
        result(other, system="+KG", ranks=(4, 2), places=("bridged", "sent")),
        result(replace(TWO, q="When, and where?"), system="+KG", ranks=(1, 4), places=("sent", "found")),
        result(TWO, ranks=(1, None), places=("sent", "missed")),
    ]
    (found,) = tables.bridged_retrieval(results)
    assert (found["system"], found["question_type"], found["n"]) == ("+KG", "multihop", 3)
    assert (found["all_found_at_3"], found["recall_at_3"]) == (0.0, 0.5)
    assert (found["all_found_at_5"], found["recall_at_5"]) == (pytest.approx(2 / 3), pytest.approx(5 / 6))
    assert (found["all_found_bridged"], found["recall_bridged"]) == (pytest.approx(2 / 3), pytest.approx(5 / 6))
    # The text ranking's own figures know nothing of the graph, and what came through the graph was sent.
    assert tables.retrieval(results)["multihop"]["all_found_at_3"] == 0.0
    assert [tables.cause(r, "lexical") for r in results] == ["right"] * 4
    wrong = replace(results[0], verdicts={"lexical": {"accuracy": False}})
    assert tables.cause(wrong, "lexical") == "generator misread"
    assert row(tables.given_evidence(results), system="+KG")["n_sent"] == 2
    assert tables.bridged_retrieval(results[2:]) == ()

"""Figures of the Ablation tab."""

from __future__ import annotations

from typing import Any

from rag.evaluate.tables import CAUSES
from ui.views import charts


def row(**changes: Any) -> dict[str, Any]:
    base: dict[str, Any] = {
        "source": "demo run", "published": False, "generator": "Reader", "system": "+multimodal", "question_type": "figure_pixel",
        "n": 40, "accuracy": 0.25, "accuracy_low": 0.125, "accuracy_high": 0.4, "judge": "lexical",
    }  # fmt: skip
    made = base | changes
    return made | {"key": (made["source"], made["generator"], made["system"], made["question_type"])}


def test_a_heatmap_has_n_in_every_cell_and_sends_the_cell_that_was_clicked() -> None:
    rows = [row(system="baseline", question_type="text", n=35, accuracy=0.657), row(), row(system="+KG", accuracy=None)]
    drawn = charts.heatmap(rows).data[0]
    assert drawn.y == ("baseline", "+multimodal") and drawn.x == ("text", "pixel-<br>only")
    assert drawn.text == (["0.66<br>n 35", ""], ["", "0.25<br>n 40"])
    assert list(drawn.customdata[1][1]) == ["demo run", "Reader", "+multimodal", "figure_pixel"]
    assert drawn.z[0][1] is None and (drawn.zmin, drawn.zmax) == (0, 1)


def test_published_bars_are_hatched_and_called_published_and_own_are_plain() -> None:
    figure = charts.accuracy_bars([row(), row(source="the study", published=True, n=35)])
    published, own = figure.data
    assert (published.name, own.name) == ("+multimodal, published", "+multimodal")
    assert published.marker.pattern.shape == "/" and own.marker.pattern.shape is None
    assert published.y == ("Reader<br>the study, n 35",) and own.y == ("Reader<br>demo run, n 40",)
    # 0.25 with the interval from 0.125 to 0.4
    assert own.error_x.array[0] == 0.4 - 0.25 and own.error_x.arrayminus[0] == 0.125
    assert [(e.name, e.look) for e in charts.legend(figure)] == [
        ("+multimodal, published", "hatched"),
        ("+multimodal", ""),
    ]


def test_cost_against_accuracy_has_a_ceiling_and_a_place_for_what_is_free() -> None:
    rows = [
        row(usd_per_100_questions=0.0),
        row(source="the study", published=True, usd_per_100_questions=0.03, accuracy=0.1, n=35),
        row(source="the study", published=True, usd_per_100_questions=0.3, accuracy=0.2, n=35),
        row(system="baseline", usd_per_100_questions=0.01, accuracy=0.0),
    ]
    ceilings = {("the study", True): {"recall_at_1": 0.229, "recall_at_3": 0.371, "source": "the study"}}
    figure = charts.cost_accuracy(rows, ceilings)
    own, published = figure.data
    # A third of the lowest price, since a logarithm has no zero; the text-only system is not in the study's figure.
    assert own.x == (0.03 / 3,) and published.x == (0.03, 0.3)
    assert figure.layout.xaxis.ticktext[0] == "free" and figure.layout.xaxis.tickvals[0] == 0.03 / 3
    assert (own.marker.symbol, published.marker.symbol) == ("circle", "circle-open")
    assert [shape.y0 for shape in figure.layout.shapes] == [0.229, 0.371]
    assert figure.layout.annotations[0].text == "Recall@1 0.229, the study"
    assert "n 35" in published.name


def test_labels_stand_beside_their_points_and_of_neighbours_on_two_sides() -> None:
    rows = [
        row(generator="low", usd_per_100_questions=0.017, accuracy=0.05),
        row(generator="high", usd_per_100_questions=0.019, accuracy=0.09),
        row(generator="just above", usd_per_100_questions=0.019, accuracy=0.06),
        row(generator="far", usd_per_100_questions=0.2, accuracy=0.02),
    ]
    found = charts.cost_accuracy(rows, {}).data[0].textposition
    assert found == ("bottom right", "middle right", "top right", "top center")


def test_estimated_tokens_are_marked() -> None:
    rows = [
        row(input_tokens_per_question=861, published=True, source="the study"),
        row(input_tokens_per_question=677.4, tokens_source="estimated"),
        row(input_tokens_per_question=None, system="+KG"),
    ]
    published, own = charts.tokens(rows).data
    assert (published.text, own.text) == (("861",), ("≈ 677",))


def test_published_times_are_ranges_and_own_are_medians() -> None:
    own = row(latency_ms=31.0, retrieval_ms=12.0)
    ranges, points = charts.latency([own], {"Gemini": (440.0, 876.0)}, "the study").data
    assert (ranges.base, ranges.x) == ((440.0,), (436.0,))
    assert points.x == (31.0,) and points.hovertext == ("31 ms, and retrieval 12 ms",)


def test_causes_add_up_and_no_two_look_the_same() -> None:
    figure = charts.taxonomy([row(n=4, causes={"right": 1, "retrieval miss": 3}, by="lexical")])
    assert [(trace.name, trace.x) for trace in figure.data] == [("right", (0.25,)), ("retrieval miss", (0.75,))]
    # A press lists the questions of the cause alone.
    assert list(figure.data[1].customdata[0][4:]) == ["retrieval miss", "lexical"]
    by_type = charts.taxonomy([row(n=4, causes={"right": 4}, by="lexical")], lambda r: r["question_type"])
    assert by_type.data[0].y[0].startswith("figure_pixel, Reader")
    looks = list(charts.CAUSE_LOOKS.values())
    assert list(charts.CAUSE_LOOKS) == [*CAUSES, "unjudged"] and len(set(looks)) == len(looks)


def test_a_figure_that_cannot_be_drawn_says_why() -> None:
    unpriced = row(usd_per_100_questions=None)
    for figure, why in (
        (charts.heatmap([row(accuracy=None)]), "has been judged"),
        (charts.accuracy_bars([]), "has a verdict"),
        (charts.cost_accuracy([unpriced], {}), "price of none of them is known"),
        (
            charts.cost_accuracy([row(question_type="text", usd_per_100_questions=1.0)], {}),
            "no judged answer to pixel-only",
        ),
        (charts.tokens([row(input_tokens_per_question=None)]), "no tokens were counted"),
        (charts.latency([], {}, "the study"), "has times"),
        (charts.taxonomy([]), "publishes no causes"),
    ):
        assert figure.data == () and why in figure.layout.annotations[0].text


def test_names_are_text_in_a_figure() -> None:
    attack = "<b>x</b><a href='javascript:alert(1)'>"
    figure = charts.accuracy_bars([row(generator=attack, system="<i>s", source="<u>r")])
    drawn = figure.to_json()
    for markup in ("<b>x", "<a href", "<i>s", "<u>r"):
        assert markup not in drawn
    assert "&lt;b&gt;x" in drawn
    assert charts.legend(figure)[0].name == "<i>s"

"""Views are pure functions: what they say, what they never say, and that nothing from outside becomes markup."""

from __future__ import annotations

import base64
import html
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from urllib.parse import unquote

import pytest

from rag import pricing
from rag import trace as traces
from rag.corpus import Corpus
from rag.explain import explain as explained
from rag.generators.registry import GENERATORS
from rag.types import Citation, Estimate, Evidence, Fused, Hit, PromptImage, Segment, Trace, Usage
from tests.ui.traces import QUESTION, trace
from ui import text as words
from ui.views import about, answer, chunks, counters, crops, explain, generators, graph, marks, markup, page, prompt

EXTRACTIVE = GENERATORS["extractive"]

LONG = "pneumonoultramicroscopic" * 209
HOSTILE = {
    "markup": "<script>alert(1)</script><img src=x onerror=alert(1)>",
    "quotes": "\" onmouseover=\"alert(1)\" ' onfocus='alert(1)' x=`",
    "closing": "</script></p></section></iframe></title><svg/onload=alert(1)>",
    "href": '<a href="javascript:alert(1)">href</a>',
    "entities": "&lt;b&gt; &amp;quot; &#60;script&#62;",
    "controls": "a\x00b\x01c\x1b[31md\x7fe\x85f",
    "right to left": "\u202eevil\u202c \u0627\u0644\u0639\u0631\u0628\u064a\u0629 \u2066x",
    "line separators": "a\u2028b\u2029c",
    "lone surrogates": "x\ud800y\udfffz",
    "long": LONG[:5000],
    "tag": "[T1] [G1] [V9] [T1, T2]",
}


class Shape(HTMLParser):
    """The skeleton of a document: tags with their attribute names, and what attributes could run or fetch something."""

    IGNORED = frozenset({"mark", "title", "bdi"})

    def __init__(self, document: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, tuple[str, ...]]] = []
        self.text: list[str] = []
        self.links: list[str] = []
        self.feed(document)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = tuple(sorted(name for name, _ in attrs if name != "title"))
        if tag not in self.IGNORED:
            self.tags.append((tag, names))
        self.links += [
            value or "" for name, value in attrs if name in ("href", "src", "xlink:href", "srcdoc", "action")
        ]

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def hostile_corpus(corpus: Corpus, poison: str) -> Corpus:
    """Every string that a document can bring, poisoned."""
    documents = {
        key: replace(
            d, title=f"T {poison}", licence=f"L {poison}", authors=f"A {poison}", copyright=poison, source=poison
        )
        for key, d in corpus.documents.items()
    }
    return replace(
        corpus,
        documents=documents,
        chunks={key: replace(c, text=f"patients {poison} {c.text}") for key, c in corpus.chunks.items()},
        crops={key: replace(c, caption=f"C {poison}", ocr_text=f"O {poison}") for key, c in corpus.crops.items()},
        triples=tuple(
            replace(t, subject=f"S{i} {poison}", relation=f"R {poison}", object=f"O{i} {poison}")
            for i, t in enumerate(corpus.triples)
        ),
    )


def everything(shown: Trace, corpus: Corpus) -> dict[str, str]:
    """All views of one trace, by name."""
    tokens = [7] * len(shown.prompt.segments)
    focus = next(iter(corpus.crops))
    return {
        "answer": answer.render(shown, "Reader", False),
        "counters": counters.render(shown, tokens, True),
        "text": chunks.render(shown, corpus),
        "graph": graph.render(shown, corpus),
        "visual": crops.render(shown, corpus),
        "page": page.render(shown, corpus, next(iter(corpus.pages)), focus),
        "crop": crops.full(shown, corpus, focus),
        "explain": explain.render(shown),
        "prompt": prompt.render(shown, tokens),
        "about": about.render(corpus, [EXTRACTIVE]),
        "header": about.header(corpus),
    }


def without_matches(document: str) -> str:
    """Without the table of matched words, which has a row for every word that question and crop share (tests/ui/test_crops.py)."""
    return re.sub(r'<(table|p) class="[^"]* fb-matched">.*?</\1>', "", document)


@pytest.mark.parametrize("kind", HOSTILE)
def test_nothing_from_outside_becomes_markup(small: Corpus, kind: str) -> None:
    poison = HOSTILE[kind]
    harmless, poisoned = hostile_corpus(small, "word"), hostile_corpus(small, poison)
    plain = everything(trace(harmless, "answer word [T1]"), harmless)
    attacked = trace(
        poisoned, f"answer {poison} [T1]".replace("[T1] [G1] [V9] [T1, T2]", ""), question=f"{QUESTION} {poison}"
    )
    for name, document in everything(attacked, poisoned).items():
        document.encode("utf-8")
        assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", document), name
        shape = Shape(without_matches(document))
        assert shape.tags == Shape(without_matches(plain[name])).tags, name
        for link in shape.links:
            assert link.startswith(
                ("data:image/webp;base64,", "data:application/json;base64,", f"{graph.FRAME_URL}#")
            ), name


def test_the_page_says_what_it_was_given_even_if_it_looks_like_markup(small: Corpus) -> None:
    poisoned = hostile_corpus(small, HOSTILE["markup"])
    text = "".join(Shape(chunks.render(trace(poisoned), poisoned)).text)
    assert HOSTILE["markup"] in text


@pytest.mark.parametrize("kind", HOSTILE)
def test_the_frames_data_is_json_in_a_fragment_with_short_clean_strings(small: Corpus, kind: str) -> None:
    poisoned = hostile_corpus(small, HOSTILE[kind])
    document = graph.render(trace(poisoned), poisoned)
    source = next(link for link in Shape(document).links if link.startswith(graph.FRAME_URL))
    assert re.fullmatch(r"[A-Za-z0-9%._~#/-]+", source)
    data = json.loads(unquote(source.split("#", 1)[1]))
    assert [edge["kind"] for edge in data["edges"]] == ["sent", "sent", "page not retrieved", "entity too short"]
    for part in (*data["nodes"], *data["edges"]):
        assert len(part["label"]) <= graph.MAX_LABEL_CHARS
        assert len(part["title"]) <= 400
        assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]", part["label"] + part["title"])


def test_the_frame_may_run_scripts_and_nothing_else(small: Corpus) -> None:
    frame = re.search(r"<iframe[^>]*>", graph.render(trace(small), small))
    assert frame and re.findall(r'sandbox="([^"]*)"', frame.group()) == ["allow-scripts"]


# --- the answer ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "kind", "words"),
    [
        ({}, "answered", "37 patients"),
        ({"abstained": True}, "abstained", "abstention, not a failure"),
        ({"finish": "cancelled"}, "stopped", "You stopped this answer"),
        ({"finish": "length"}, "cut", "token limit"),
        ({"finish": "length", "notice": "The model stopped at 512 tokens."}, "cut", "stopped at 512 tokens"),
        ({"finish": "content_filter"}, "filtered", "content filter"),
        ({"finish": "error", "error": "No key: set OPENAI_API_KEY."}, "error", "set OPENAI_API_KEY"),
    ],
)
def test_every_end_of_an_answer_looks_like_what_it_is(small: Corpus, changes: dict, kind: str, words: str) -> None:
    document = answer.render(trace(small, **changes), "Reader", False)
    assert f'data-state="{kind}"' in document
    assert words in html.unescape(document)
    assert ('role="alert"' in document) == (kind == "error")


def test_what_was_written_before_a_failure_stays(small: Corpus) -> None:
    document = answer.render(
        trace(small, "37 pat", finish="error", error="The line broke; ask again."), "Reader", False
    )
    assert "The line broke" in document and "37 pat" in document


def test_a_growing_answer_is_marked_as_such(small: Corpus) -> None:
    growing = trace(small, "37 pat", finish=None, usage=None)
    assert 'data-state="streaming"' in answer.render(growing, "Reader", True)
    assert 'data-spoken=""' in answer.render(growing, "Reader", True)
    assert "the provider asks for patience" in answer.render(
        trace(small, "", finish=None, waiting="the provider asks for patience"), "Reader", True
    )


def test_chips_replace_tags_and_invented_ones_are_marked() -> None:
    text = "A [T1, G2]; b [V9]."
    cited = (Citation("T1", "c1", 3, 5), Citation("G2", "triple:1", 7, 9), Citation("V9", "", 15, 17))
    document = answer.with_chips(text, cited)
    assert re.findall(r'data-jump="([^"]+)"', document) == ["c1", "triple:1"]
    assert document.count("invented") == 2
    visible = "".join(Shape(document).text)
    assert visible == "A T1G2; b V9 invented."
    assert list(re.findall(r'class="fb-tag (\w+)"', document)) == ["text", "graph", "invented"]


@pytest.mark.parametrize(
    ("said", "told"), [("37 patients [T1]", False), ("37 patients", True), ("37 patients [T9]", True)]
)
def test_an_answer_without_a_citation_says_so(small: Corpus, said: str, told: bool) -> None:
    assert (words.UNCITED in answer.render(trace(small, said), "Reader", False)) is told


def test_brackets_that_are_no_tags_stay() -> None:
    assert answer.with_chips("array[0] and [T1]", (Citation("T1", "c1", 14, 16),)).startswith("array[0] and <button")


def test_the_gate_says_its_reason_and_keeps_its_signals_folded(small: Corpus) -> None:
    document = answer.render(trace(small), "Reader", False)
    assert "Sent the caption of 1 crop." in document
    assert re.search(r"<details><summary>signals</summary>.*names none", document)


# --- counters --------------------------------------------------------------------------------------------------------


def _tiles(document: str) -> list[str]:
    return [html.unescape(tile) for tile in re.findall(r'<div class="fb-tile[^"]*"><b>(.*?)</b>', document)]


@pytest.mark.parametrize(
    ("changes", "embedded", "expected"),
    [
        ({}, True, ["412", "9", "40 ms", "$0"]),
        ({"usage": Usage(412, 9, None, "estimated")}, True, ["≈ 412", "≈ 9", "40 ms", "$0"]),
        (
            {"usage": Usage(None, None, None, "reported"), "cost_usd": None},
            False,
            ["unknown", "unknown", "40 ms", "unknown"],
        ),
        ({"cost_usd": 0.00123}, False, ["412", "9", "40 ms", "$0.0012"]),
        (
            {"usage": Usage(412, 9, None, "estimated"), "cost_usd": 0.00123},
            False,
            ["≈ 412", "≈ 9", "40 ms", "≈ $0.0012"],
        ),
        ({"finish": None, "usage": None, "latency_ms": None, "cost_usd": None}, False, ["≈ 412", "–", "–", "–"]),
    ],
)
def test_counters_show_what_is_known_and_say_what_is_not(
    small: Corpus, changes: dict, embedded: bool, expected: list[str]
) -> None:
    shown = trace(small, **changes)
    document = counters.render(shown, pricing.split(shown.prompt, EXTRACTIVE, 412), embedded)
    assert _tiles(document) == expected
    assert ("nothing leaves this machine" in document) == (expected[3] == "$0")


def test_a_cost_is_told_per_hundred_questions(small: Corpus) -> None:
    assert "$0.12 per 100 questions" in counters.render(trace(small, cost_usd=0.00123), (), False)


def test_the_split_adds_up_to_the_input_tokens(small: Corpus) -> None:
    shown = trace(small)
    document = counters.render(shown, pricing.split(shown.prompt, EXTRACTIVE, 412), True)
    legend = document.split("fb-legend")[1]
    assert sum(int(n.replace(",", "")) for n in re.findall(r"<b>([\d,]+)</b>", legend)) == 412
    widths = [float(w) for w in re.findall(r"width:([\d.]+)%", document)]
    assert sum(widths) == pytest.approx(100, abs=0.1)


@pytest.mark.parametrize(
    ("usd", "shown"),
    [
        (None, "unknown"),
        (0, "$0"),
        (12.5, "$12.50"),
        (0.22, "$0.22"),
        (0.0995, "$0.10"),
        (0.0068, "$0.0068"),
        (6.8e-5, "$0.000068"),
    ],
)
def test_money_is_readable_and_unknown_is_never_nothing(usd: float | None, shown: str) -> None:
    assert markup.money(usd) == shown


def test_other_generators_are_estimated_cheapest_first_unknown_last(small: Corpus) -> None:
    shown = trace(small)
    specs = [s for s in GENERATORS.values() if s.access != "embedded"]
    unpriced = replace(specs[0], name="x", label="Unpriced", usd_per_million_input=None)
    estimates = [(s.label, pricing.estimate(shown.prompt, s)) for s in (unpriced, *specs)]
    document = counters.render(shown, (), True, estimates)
    labels = re.findall(r"<tr[^>]*><th scope=row>(.*?)</th>", document)
    assert labels[0] == "Llama 4 Scout" and labels[-1] == "Unpriced" and len(labels) == len(estimates)


def test_an_estimate_stands_against_what_was_reported(small: Corpus) -> None:
    """Estimated 450 and $0.0011, reported 412 and $0.00123: 38 too many, 9 % of 412."""
    before = Estimate("x", 450, 450, 0, 40, 0.0011, 0.01)
    shown = trace(small, estimate=before, cost_usd=0.00123, usage=Usage(412, 132, 120, "reported"))
    document = "".join(Shape(counters.render(shown, (), False)).text)
    for told in (
        "input tokens, reported",
        "estimated ≈ 450 (+9 %)",
        "estimated ≈ $0.0011",
        "reasoning 120 · answer 12",
    ):
        assert told in document
    guessed = trace(small, estimate=before, cost_usd=0.00123, usage=Usage(412, 9, None, "estimated"))
    assert "reported" not in counters.render(guessed, (), False)
    unknown = replace(before, input_tokens=None, image_tokens=None, cost_usd=None)
    assert "not estimated before" in counters.render(trace(small, estimate=unknown), (), False)


def test_estimates_for_the_cards_say_unknown_and_free(small: Corpus) -> None:
    found = {
        "a": Estimate("a", None, 400, None, 40, None, None, "How many tokens an image takes is not known."),
        "b": Estimate("b", 1_400, 400, 1_000, 40, 0.0, 0.0),
        "c": Estimate("c", 400, 400, 0, 40, 0.00013, 0.01),
    }
    data = json.loads(html.unescape(re.search(r'data-estimates="([^"]+)"', generators.estimates(found)).group(1)))
    assert data["a"] == {
        "price": "price unknown",
        "tokens": "? in",
        "note": "How many tokens an image takes is not known.",
    }
    assert (data["b"]["price"], data["b"]["tokens"], data["c"]["price"]) == ("free", "1,400 in", "≈ $0.00013")


def test_key_fields_hold_no_value_and_one_for_each_variable() -> None:
    document = generators.key_fields(GENERATORS.values())
    assert re.findall(r'<div class="fb-key" data-variable="(\w+)"', document) == [
        "DEEPINFRA_TOKEN",
        "OPENAI_API_KEY",
        "GEMINI_API_KEY",
    ]
    inputs = re.findall(r"<input[^>]*>", document)
    assert all('type="password"' in one and 'autocomplete="off"' in one and " value" not in one for one in inputs)


# --- text ------------------------------------------------------------------------------------------------------------


def test_chunks_tell_place_rankers_licence_and_both_kinds_of_marks(small: Corpus) -> None:
    document = chunks.render(trace(small), small)
    assert "3 of 3 chunks" in document
    first = document.split("<li")[1]
    assert 'data-item="glioma_p001_c00"' in first and ">T1<" in first
    assert re.findall(r'<mark class="fb-hit">(\w+)</mark>', first)[:4] == ["glioma", "trial", "enrolled", "patients"]
    assert re.search(r'<mark class="fb-cited text"[^>]*>37 <mark class="fb-hit">patients</mark></mark>', first)
    assert re.findall(r'fb-own">(\w+)<', first) == ["dense", "BM25"]
    assert 'data-page="glioma_p001"' in first and "CC0-1.0" in first
    assert "fb-cited" not in document.split("<li")[2]


def test_a_question_searched_part_by_part_says_so(small: Corpus) -> None:
    shown = trace(small)
    assert shown.evidence.text is not None and "data-parts" not in chunks.render(shown, small)
    parts = ("How many women?", "<b>how many patients?")
    told = replace(shown, evidence=replace(shown.evidence, text=replace(shown.evidence.text, parts=parts)))
    column = chunks.render(told, small)
    assert words.SEARCHED_IN_PARTS in column and "How many women?" in column and "&lt;b&gt;how many" in column
    assert "searched: How many women?" in explained(told, 3)


def test_only_runs_that_mean_something_count_as_cited() -> None:
    passage = "It is the case that the mean of the group was 12.5 in 1998."
    assert [passage[a:b] for a, b in marks.cited_spans(passage, ["the group was"])] == ["the group was"]
    assert [passage[a:b] for a, b in marks.cited_spans(passage, ["It rose to 12.5 units"])] == ["12.5"]
    assert marks.cited_spans(passage, ["is the"]) == []


def test_marks_never_change_the_words() -> None:
    passage = "Nodes & <nodes>: positive nodes, 3 nodes"
    document = marks.marked(passage, marks.question_stems("positive nodes"), [(0, 5), (17, 31)], "text")
    assert "".join(Shape(document).text) == passage


def test_items_left_out_of_the_prompt_show_their_rank_instead_of_a_tag(small: Corpus) -> None:
    shown = trace(small)
    sent = replace(shown.prompt, tags={tag: item for tag, item in shown.prompt.tags.items() if tag != "T2"})
    second = chunks.render(replace(shown, prompt=sent), small).split("<li")[2]
    assert '<span class="fb-tag none" title="not in the prompt">2</span>' in second


def test_bars_are_each_rankers_score_against_its_best_listed() -> None:
    """Cosines 0.8 and 0.6: the second bar has 75 % of the first; BM25 found only the second."""
    first = Fused("a", 1, 0.0328, (Hit("a", "text", "dense", 1, 0.8),))
    second = Fused("b", 2, 0.0323, (Hit("b", "text", "dense", 2, 0.6), Hit("b", "text", "bm25", 1, 12.0)))
    best = chunks.best_scores((first, second))
    assert best == {"dense": 0.8, "bm25": 12.0}
    document = chunks.ranks(second, best)
    assert re.findall(r"width:(\d+)%", document) == ["75", "100"]
    assert re.findall(r'fb-score">([\d.]+)<', document) == ["0.60", "12.0"]
    assert "<th scope=row>fused</th><td>2</td><td>0.032</td>" in document
    below = Fused("c", 3, 0.03, (Hit("c", "text", "dense", 3, -0.2),))
    assert "width:0%" in chunks.ranks(below, chunks.best_scores((below,)))


def test_a_fused_score_gets_no_bar() -> None:
    fused = Fused("a", 1, 0.03, (Hit("a", "visual", "proxy", 1, 0.0328), Hit("a", "visual", "proxy-dense", 1, 0.7)))
    document = chunks.ranks(fused, chunks.best_scores((fused,)))
    assert document.count("fb-bar") == 2 and "0.70" in document  # the box of the bars and one bar


# --- graph -----------------------------------------------------------------------------------------------------------


def test_the_graph_column_counts_lists_and_gives_reasons(small: Corpus) -> None:
    document = graph.render(trace(small), small)
    text = "".join(Shape(document).text)
    assert "2 facts sent · 300 dropped" in text
    assert "page not retrieved 299" in text and "entity too short 1" in text and "duplicate" not in text
    assert "2 of 300 are listed." in text and "page not retrieved 1 of 299" in text
    assert re.findall(r'data-item="(triple:\d)"', document) == ["triple:0", "triple:1"]


def test_no_entity_is_explained(small: Corpus) -> None:
    shown = trace(small)
    none = replace(shown.evidence.graph, entities=(), facts=(), rejected=(), rejected_counts={})
    document = graph.render(replace(shown, evidence=replace(shown.evidence, graph=none)), small)
    assert "No entity of the graph stands in this question" in document and "<iframe" not in document


def test_matched_entities_without_an_edge_are_drawn_too(small: Corpus) -> None:
    shown = trace(small)
    alone = replace(shown.evidence.graph, entities=("glioma trial", "nowhere else"))
    data = graph.payload(alone, shown, small)
    assert [node["label"] for node in data["nodes"] if node["matched"]] == ["glioma trial", "nowhere else"]


# --- visual ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("payload", "read_off", "images", "excluded", "expected"),
    [
        ("captions", False, False, False, ["caption sent", "not sent"]),
        ("captions", True, False, False, ["sent as text", "not sent"]),
        ("pixels", False, True, False, ["sent as pixels", "not sent"]),
        ("captions", False, False, True, ["left out", "not sent"]),
    ],
)
def test_crops_say_what_of_them_was_sent(
    small: Corpus, payload: str, read_off: bool, images: bool, excluded: bool, expected: list[str]
) -> None:
    shown = trace(small)
    first = next(iter(small.crops))
    gate = replace(shown.evidence.gate, payload=payload, read_off=read_off)
    pictures = (PromptImage("V1", first, small.crops[first].image, "0" * 64, 200, 100),) if images else ()
    shown = replace(
        shown,
        evidence=replace(shown.evidence, gate=gate),
        prompt=replace(shown.prompt, images=pictures),
        excluded=(first,) if excluded else (),
    )
    document = crops.render(shown, small)
    assert re.findall(r'class="fb-sent \w+">([^<]+)<', document) == expected
    assert "The CLIP ranker is missing: no weights." in document and "fb-note" not in document
    assert words.NO_CLIP_INDEX in document and "2 of 2 crops" in document


@pytest.mark.parametrize(("ranker", "loud"), [("auto", False), ("proxy", False), ("clip", True), ("fused", True)])
def test_a_missing_ranker_is_said_aloud_only_to_those_who_chose_it(small: Corpus, ranker: str, loud: bool) -> None:
    shown = trace(small)
    document = crops.render(replace(shown, system=replace(shown.system, visual_ranker=ranker)), small)
    assert ('class="fb-note"' in document, 'class="fb-aside"' in document) == (loud, not loud)


def test_thumbnails_are_scaled_down_and_never_up(small: Corpus) -> None:
    path = small.image_path(next(iter(small.crops.values())).image)
    assert markup.thumbnail(path, 50)[1:] == (50, 25)
    assert markup.thumbnail(path, 5000)[1:] == (200, 100)


@pytest.mark.parametrize(("system", "branch"), [("+KG", "visual"), ("+multimodal", "graph"), ("baseline", "graph")])
def test_a_branch_that_is_off_is_explained(small: Corpus, system: str, branch: str) -> None:
    from rag.systems import SYSTEMS

    shown = replace(trace(small), system=SYSTEMS[system], evidence=Evidence(text=trace(small).evidence.text))
    document = {"graph": graph, "visual": crops}[branch].render(shown, small)
    assert ">off<" in document and "Off: switch" in document


def test_before_the_first_question_every_column_says_what_it_will_hold(small: Corpus) -> None:
    for view in (chunks, graph, crops):
        assert 'class="fb-empty"' in view.render(None, small)
    assert "1 documents" not in answer.empty(1)


# --- the page viewer -------------------------------------------------------------------------------------------------


def test_boxes_of_all_branches_lie_where_the_evidence_is(small: Corpus) -> None:
    drawn = page.boxes(trace(small), small, "glioma_p001")
    found = {(box.branch, box.item_id, box.label, box.sent): box.bbox for box in drawn}
    assert found == {
        ("text", "glioma_p001_c00", "T1", True): (72.0, 72.0, 540.0, 104.0),
        ("text", "glioma_p001_c01", "T2", True): (72.0, 112.0, 540.0, 144.0),
        ("graph", "triple:0", "G1", True): (72.0, 72.0, 540.0, 104.0),
        ("graph", "triple:1", "G2", True): (72.0, 112.0, 540.0, 144.0),
        ("visual", "glioma_p001_table0", "V1", True): (72.0, 300.0, 400.0, 400.0),
    }
    assert {(b.label, b.sent) for b in page.boxes(trace(small), small, "glioma_p002") if b.branch == "visual"} == {
        ("crop 2", False)
    }


def test_the_viewer_draws_in_points_of_the_page_and_steps_through_the_document(small: Corpus) -> None:
    document = page.render(trace(small), small, "glioma_p001", "glioma_p001_table0")
    assert 'viewBox="0 0 612 792"' in document
    assert re.search(
        r'<rect class="visual focus" data-box="glioma_p001_table0" x="72.0" y="300.0" width="328.0"', document
    )
    assert 'data-page="" aria-label="Previous page" disabled' in document
    assert 'data-page="glioma_p002" aria-label="Next page"' in document


def test_boxes_at_one_place_become_rings_so_that_every_colour_is_seen(small: Corpus) -> None:
    document = page.render(trace(small), small, "glioma_p001")
    assert re.search(r'<rect class="text" data-box="glioma_p001_c00" x="72.0"', document)
    assert re.search(r'<rect class="graph outer" data-box="triple:0" x="69.5"', document)


@pytest.mark.parametrize("wanted", ["", "nowhere", "../../etc/passwd", "<b>"])
def test_a_page_that_does_not_exist_is_a_sentence(small: Corpus, wanted: str) -> None:
    document = page.render(None, small, wanted)
    assert "no such page" in document and "<b>" not in document


def test_a_corpus_without_pictures_shows_the_pages_text(small: Corpus) -> None:
    bare = replace(small, pages={key: replace(p, image="") for key, p in small.pages.items()})
    document = page.render(trace(small), bare, "glioma_p001")
    assert "The glioma trial enrolled 37 patients." in "".join(Shape(document).text) and "<img" not in document
    assert '<mark class="fb-cited text"' in document


# --- the prompt ------------------------------------------------------------------------------------------------------


def test_the_prompt_is_shown_word_for_word(small: Corpus) -> None:
    shown = trace(small)
    document = prompt.render(shown, pricing.split(shown.prompt, EXTRACTIVE, 412))
    shown_text = [html.unescape(text) for text in re.findall(r'<pre dir="auto">(.*?)</pre>', document, re.S)]
    assert shown_text == [segment.text for segment in shown.prompt.segments]
    assert "≈ 412 tokens" in document


def test_the_trace_in_the_link_is_the_trace(small: Corpus) -> None:
    shown = trace(small)
    document = prompt.render(shown, pricing.split(shown.prompt, EXTRACTIVE, 412))
    data = re.search(r'href="data:application/json;base64,([^"]+)"', document)
    assert data and traces.loads(base64.b64decode(data.group(1))) == shown


@pytest.mark.parametrize("question", [*HOSTILE.values(), "???", "a/../b", "How many?"])
def test_file_names_suit_every_file_system(small: Corpus, question: str) -> None:
    name = prompt.file_name(replace(trace(small), question=question))
    assert re.fullmatch(r"fusebox-2026-11-30-[a-z0-9-]{1,48}-01234567\.json", name)


def test_tokens_of_an_image_are_told_where_a_rule_gives_them(small: Corpus) -> None:
    shown = trace(small)
    image = Segment("image", "crops/a.webp (200 x 100 px)", "V1", next(iter(small.crops)))
    shown = replace(shown, prompt=replace(shown.prompt, segments=(*shown.prompt.segments, image)))
    texts = len(shown.prompt.segments) - 1
    assert "≈ 255<" in prompt.render(shown, (*[7] * texts, 255))
    assert "not known<" in prompt.render(shown, (*[7] * texts, 0))


def test_the_trace_is_offered_once_it_is_whole(small: Corpus) -> None:
    shown = trace(small)
    tokens = [7] * len(shown.prompt.segments)
    assert "fb-trace" not in prompt.render(shown, tokens, True) and "fb-trace" in prompt.render(shown, tokens)


# --- About -----------------------------------------------------------------------------------------------------------


def test_about_names_licences_encoders_and_what_is_missing(small: Corpus) -> None:
    document = about.render(small, GENERATORS.values())
    for part in (
        "CC0-1.0",
        "all-MiniLM-L6-v2-int8",
        "The CLIP ranker is missing",
        small.id,
        "grammar",
        "OPENAI_API_KEY",
        "the study, Table I (prices at the time of its experiments), read 2026-11-30",
        "FUSEBOX_ENDPOINTS",
        "85 tokens and 170 for each 512 px tile",
        "--add-clip",
    ):
        assert part in document
    assert 'data-document="glioma"' in document


def test_chapters_lose_the_name_of_their_book(small: Corpus) -> None:
    book = "A Handbook of Everything, Ch. {}: {}"
    one = small.documents["glioma"]
    documents = {
        "glioma": replace(one, title=book.format(1, "Trees")),
        "b": replace(one, id="b", title=book.format(2, "Forests")),
        "c": replace(one, id="c", title="Alone"),
    }
    corpus = replace(small, documents=documents)
    assert [markup.short_title(key, corpus) for key in documents] == ["Ch. 1: Trees", "Ch. 2: Forests", "Alone"]
    assert "A Handbook of Everything, Ch. 1: Trees, p. 1" in markup.page_button(small.pages["glioma_p001"], corpus)


def test_words_read_off_a_crop_are_there_with_the_cited_ones_marked(small: Corpus) -> None:
    document = crops.render(trace(small, "RIT: 33 months [V1]"), small)
    assert document.count("<summary>read-off text") == 2
    assert re.search(r'<mark class="fb-cited visual"[^>]*>RIT: 33 months</mark>', document)

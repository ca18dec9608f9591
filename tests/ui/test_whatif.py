"""Leave out and ask again, and influence: what the page sends, what is asked, and what is shown."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import gradio as gr
import pytest

from rag import prompt
from rag.corpus import Corpus
from rag.errors import GeneratorError
from rag.generators.access import Access
from rag.generators.registry import GENERATORS
from rag.generators.spec import GeneratorSpec
from rag.keys import SessionKeys
from rag.types import Delta, Finish, Trace, Usage
from tests.scripted import DONE, Scripted, scripted
from tests.ui.conftest import ATTACK
from tests.ui.test_handlers import DEFAULTS, QUESTION, named, session
from tests.ui.traces import trace as written
from ui import text as words
from ui.handlers import Handlers
from ui.shelf import Shelf
from ui.views import answer, chunks, crops, whatif
from ui.views.markup import esc, left_out_tags
from ui.whatif_desk import WhatIfDesk


def desk_with(corpus: Corpus, *events: object, **changes: object) -> tuple[WhatIfDesk, Scripted]:
    spec, generator = scripted(*events)  # type: ignore[arg-type]
    spec = replace(spec, **changes)  # type: ignore[arg-type]
    return WhatIfDesk(Handlers(Shelf(corpus), {spec.name: spec})), generator


def event(**data: object) -> gr.EventData:
    return SimpleNamespace(_data=data)  # type: ignore[return-value]


def shown(corpus: Corpus, answer: str = "37 patients [T1]", **changes: Any) -> Trace:
    return replace(written(corpus, answer), generator="scripted", **changes)


def again(desk: WhatIfDesk, trace: Trace | None, **data: object) -> tuple[str, Trace | None]:
    *_, last = desk.again(session(), trace, event(**data))
    return last


def verdict(panel: str) -> str:
    found = re.search(r'data-verdict="(\w+)"', panel)
    return found.group(1) if found else ""


# --- ask again -------------------------------------------------------------------------------------------------------


def test_what_is_ticked_leaves_the_prompt_and_nothing_moves_up(small: Corpus) -> None:
    desk, generator = desk_with(small, Delta("36 patients [T2]"), DONE)
    before = shown(small)
    items = ["glioma_p001_c00", "triple:1", "glioma_p001_table0"]
    panel, after = again(desk, before, items=items, refill=False)
    assert after is not None and after.prompt is not None and before.prompt is not None
    assert set(before.prompt.tags.values()) - set(after.prompt.tags.values()) == set(items)
    assert after.evidence == before.evidence and generator.prompts == [after.prompt]
    assert after.excluded == tuple(sorted(items)) and not after.refill
    assert "Without T1, G2, V1" in panel and verdict(panel) == "changed"
    assert "<del>37</del>" in panel and "<ins>36</ins>" in panel
    assert "<td>412</td><td>100</td><td>−312</td>" in panel


def test_the_next_ranked_move_up_only_when_asked_to(small: Corpus) -> None:
    desk, _ = desk_with(small, Delta("37 patients [T2]"), DONE)
    spec = desk.handlers.spec("scripted")
    *_, last = desk.handlers.ask(
        session(), QUESTION, False, False, spec.name, "auto", "hybrid", 1, "provenance", 8, "auto", 5
    )
    before = named(last)["trace"]
    first = before.evidence.text.hits[0].item_id
    _, gap = again(desk, before, items=[first], refill=False)
    panel, moved = again(desk, before, items=[first], refill=True)
    assert gap is not None and moved is not None and gap.prompt is not None and moved.prompt is not None
    assert list(gap.prompt.tags) == [] and list(moved.prompt.tags) == ["T2"]
    assert moved.refill and "Came into the prompt" in panel and "moved up" in panel
    # And back: from one with a refill, the gap is that of the question's own ranking.
    _, back = again(desk, moved, items=[first], refill=False)
    assert back is not None and back.prompt == gap.prompt and not back.refill


def test_a_cited_tag_alone_is_no_changed_answer(small: Corpus) -> None:
    panel, _ = again(desk_with(small, Delta("37 patients. [T2]"), DONE)[0], shown(small), items=["glioma_p001_c00"])
    assert verdict(panel) == "cites" and "cited from T2" in panel and "<ins>" not in panel
    panel, _ = again(desk_with(small, Delta("37 patients [T1]"), DONE)[0], shown(small), items=["triple:1"])
    assert verdict(panel) == "unchanged"


@pytest.mark.parametrize(
    ("events", "expected", "said"),
    [
        ((Delta(prompt.ABSTENTION), DONE), "abstains", words.ABSTAINED),
        ((Delta("37 pat"), GeneratorError("The provider hung up.")), "failed", "The provider hung up."),
        ((Delta("37 pat"), Finish(Usage(1, 1, None, "reported"), "length")), "cut", "token limit"),
        ((Delta("37 pat"), Finish(Usage(1, 1, None, "reported"), "content_filter")), "cut", "filter"),
    ],
)
def test_every_end_is_told_apart(small: Corpus, events: tuple[object, ...], expected: str, said: str) -> None:
    panel, after = again(desk_with(small, *events)[0], shown(small), items=["triple:1"])
    assert verdict(panel) == expected and said in panel and after is not None
    assert words.VERDICTS[expected] in panel and "<ins>" not in panel


def test_stop_keeps_what_was_written_and_compares_nothing(small: Corpus) -> None:
    desk, _ = desk_with(small, *[Delta(f"word{n} ") for n in range(1_000)], DONE)
    running = desk.again(session(), shown(small), event(items=["triple:1"]))
    for _ in range(2):
        next(running)
    desk.stop(session())
    *_, (panel, after) = running
    assert verdict(panel) == "stopped" and "word0" in panel and "word999" not in panel
    assert after.generation.finish == "cancelled" and desk._runs == {}


def test_another_question_makes_it_out_of_date(small: Corpus) -> None:
    """It ends, and draws nothing over the new answer."""
    desk, _ = desk_with(small, *[Delta(f"word{n} ") for n in range(1_000)], DONE)
    running = desk.again(session(), shown(small), event(items=["triple:1"]))
    next(running), next(running)
    next(desk.handlers.ask(session(), QUESTION, True, True, "scripted", *DEFAULTS))
    assert all('data-verdict="running"' in panel for panel, _ in running)


@pytest.mark.parametrize(
    "data",
    [{}, {"items": None}, {"items": "triple:0"}, {"items": ["triple:3", "nobody", 5, None, ["x"]]}, {"items": []}],
)
def test_what_a_browser_sends_is_not_trusted(small: Corpus, data: dict[str, object]) -> None:
    desk, generator = desk_with(small, DONE)
    panel, after = again(desk, shown(small), **data)
    assert verdict(panel) == "problem" and words.WHATIF_NOTHING in panel
    assert after is None and generator.prompts == []


@pytest.mark.parametrize("trace", [None, "running"])
def test_without_a_finished_answer_nothing_is_asked(small: Corpus, trace: object) -> None:
    desk, generator = desk_with(small, DONE)
    before = None if trace is None else shown(small, generation=None)
    for last in (again(desk, before, items=["triple:1"])[0], list(desk.measure(session(), before, event()))[-1]):
        assert "no finished answer" in last
    assert generator.prompts == []


def test_all_can_be_put_back(small: Corpus) -> None:
    desk, _ = desk_with(small, Delta("37 patients [T1]"), DONE)
    _, less = again(desk, shown(small), items=["glioma_p001_c00"])
    panel, back = again(desk, less, items=[])
    assert back is not None and back.prompt == shown(small).prompt and back.excluded == ()
    assert "With all of the evidence" in panel


def test_the_answer_can_take_the_page(small: Corpus) -> None:
    desk, _ = desk_with(small, Delta("36 patients [T2]"), DONE)
    _, after = again(desk, shown(small), items=["glioma_p001_c00", "glioma_p001_table0"])
    update = named(desk.show(session(), after))
    assert update["trace"] is after and update["whatif"] == "" and "36 patients" in update["answer"]
    assert "Answered without T1, V1" in update["answer"]
    assert re.search(r'data-leave="glioma_p001_c00"[^>]* checked', update["text"])
    assert (
        re.search(r'data-leave="glioma_p001_table0"[^>]* checked', update["visual"]) and "left out" in update["visual"]
    )
    assert not re.search(r'data-leave="glioma_p001_c01"[^>]* checked', update["text"])
    assert all(value == gr.skip() for value in desk.show(session(), None))


def test_every_item_of_the_prompt_has_a_tick_and_no_other(small: Corpus) -> None:
    trace = shown(small)
    page = "".join(named(desk_with(small)[0].handlers.show(trace, "s"))[view] for view in ("text", "graph", "visual"))
    assert trace.prompt is not None
    assert re.findall(r'data-leave="([^"]+)" data-tag="([^"]+)"', page) == [
        (i, t) for t, i in trace.prompt.tags.items()
    ]
    assert chunks.render(replace(trace, prompt=None), small).count("data-leave") == 0
    assert crops.render(trace, small).count("data-leave") == 1


def test_tags_of_what_was_left_out_are_those_it_had(small: Corpus) -> None:
    trace = shown(small, excluded=("glioma_p001_c01", "triple:0", "glioma_p002_figure0", "triple:3"))
    assert list(left_out_tags(trace).values()) == ["T2", "G1", "V2"]


# --- influence -------------------------------------------------------------------------------------------------------


def test_the_embedded_reader_is_measured_at_once(small: Corpus) -> None:
    desk, generator = desk_with(small, Delta("37 patients [T1]"), DONE)
    trace = shown(small)
    first, *_, last = desk.measure(session(), trace, event())
    assert "data-running" in first and "data-running" not in last and len(generator.prompts) == 6
    assert re.findall(r'data-jump="([^"]+)"', last) == list(trace.prompt.tags.values())  # type: ignore[union-attr]
    assert last.count(">unchanged<") == 6 and words.INFLUENCE_NONE in last


def test_a_paid_generator_is_asked_only_after_its_price_was_agreed_to(small: Corpus) -> None:
    desk, generator = desk_with(
        small, Delta("37 patients [T1]"), DONE, access="closed", usd_per_million_input=3.0, usd_per_million_output=5.0
    )
    trace = shown(small)
    for data in ({"agreed": True}, {}, {"agreed": "true"}, {"agreed": 1}):
        (card,) = desk.measure(session(), trace, event(**data))
        assert (
            re.search(r"Measure for about \$0\.00\d+", card) and "6 calls of Scripted" in card and "at most $" in card
        )
    assert generator.prompts == []
    *_, last = desk.measure(session(), trace, event(agreed=True))
    assert len(generator.prompts) == 6 and esc(words.INFLUENCE_PAID) in last


def test_an_unknown_price_is_not_nothing(small: Corpus) -> None:
    desk, _ = desk_with(small, DONE, access="open", usd_per_million_input=None)
    (card,) = desk.measure(session(), shown(small), event())
    assert "Measure for an unknown price" in card
    desk, _ = desk_with(small, DONE, access="open", usd_per_million_input=0, usd_per_million_output=0)
    (card,) = desk.measure(session(), shown(small), event())
    assert "Measure for nothing" in card


def test_failed_calls_are_said_and_not_counted(small: Corpus) -> None:
    desk, _ = desk_with(small, GeneratorError("The provider <hung> up."))
    *_, last = desk.measure(session(), shown(small), event())
    assert "6 calls failed and are not counted" in last and "No item changes" not in last
    assert last.count("The provider &lt;hung&gt; up.") == 6 and words.INFLUENCE_NONE not in last


def test_stop_ends_the_measuring_and_says_how_far_it_came(small: Corpus) -> None:
    desk, generator = desk_with(small, Delta("37 patients [T1]"), DONE)
    running: Iterator[Any] = desk.measure(session(), shown(small), event())
    next(running)
    desk.stop(session())
    *_, last = running
    assert len(generator.prompts) <= 1 and "Nothing was measured." in last and desk._runs == {}


def test_it_is_measured_with_the_keys_of_its_session(small: Corpus) -> None:
    owners: list[str] = []

    def maker(spec: GeneratorSpec, call: Any) -> Scripted:
        owners.append(call.credential.secret.reveal() if call.credential and call.credential.secret else "")
        return Scripted([Delta("37 [T1]"), DONE])

    spec = replace(scripted(DONE)[0], key_env="SCRIPTED_KEY", maker=maker)
    keys = SessionKeys()
    keys.put("a", "SCRIPTED_KEY", "key-of-a-1234")
    desk = WhatIfDesk(Handlers(Shelf(small), {spec.name: spec}, Access(keys=keys)))
    list(desk.measure(session("a"), shown(small), event()))
    list(desk.again(session("b"), shown(small), event(items=["triple:1"])))
    assert owners == ["key-of-a-1234"] * 6 + [""]


def test_influence_is_offered_where_there_is_something_to_compare_with(small: Corpus) -> None:
    spec = GENERATORS["extractive"]
    assert "6 items" in whatif.offer(shown(small), spec)
    for change in ({"finish": "cancelled"}, {"finish": "error"}, {"text": " "}):
        assert whatif.offer(replace(shown(small), generation=replace(written(small).generation, **change)), spec) == ""  # type: ignore[type-var]


# --- untrusted text --------------------------------------------------------------------------------------------------


def test_markup_in_answers_and_items_stays_text(small: Corpus) -> None:
    chunk = next(iter(small.chunks.values()))
    hostile = replace(small, chunks={**small.chunks, chunk.id: replace(chunk, text=ATTACK)})
    desk, _ = desk_with(hostile, Delta(f"now {ATTACK} [T2]"), DONE)
    before = shown(hostile, f"37 {ATTACK[:40]} [T1]")
    panel, after = again(desk, before, items=[chunk.id, "triple:0"])
    assert after is not None and "<script" not in panel and "<img" not in panel
    *_, card = desk.measure(session(), before, event())
    assert "<script" not in card and "<img" not in card


def test_changed_words_are_marked_around_chips(small: Corpus) -> None:
    text = "37 patients [T1], 12 women [T2; G9]"
    citations = prompt.parse_citations(text, {"T1": "a", "T2": "b"})
    html = answer.with_chips(text, citations, [(0, 2), (18, 26)], "del")
    plain = re.sub(r"<button[^>]*>(\w+)</button>|<span.*?</span></span>", r"{\1}", html)
    assert plain == "<del>37</del> patients {T1}, <del>12 women</del> {T2}{}"

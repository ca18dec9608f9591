"""The prompt against the one before, and every demo question's prompt and citations."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace

import pytest

from rag import prompt as prompts
from rag import trace as traces
from rag.corpus import Corpus
from rag.generators.registry import GENERATORS
from rag.pipeline import ask
from rag.settings import ASSETS
from rag.systems import SYSTEMS
from rag.types import Segment, Trace
from tests.ui.traces import trace
from ui import text as words
from ui.handlers import Handlers
from ui.prompt_desk import PromptDesk, before
from ui.shelf import Shelf
from ui.views import marks, prompt
from ui.views.history import Entry


def seg(kind: str, text: str, tag: str = "", item: str = "") -> Segment:
    return Segment(kind, text, tag, item)  # type: ignore[arg-type]


OLD = (
    (seg("instruction", "Answer."), 10),
    (seg("text", "[T1] (a) one", "T1", "c1"), 20),
    (seg("text", "[T2] (a) two", "T2", "c2"), 30),
    (seg("graph", "[G1] fact", "G1", "triple:1"), 5),
    (seg("question", "Question: Who?"), 4),
)
NEW = (
    (seg("instruction", "Answer."), 10),
    (seg("text", "[T1] (a) two", "T1", "c2"), 30),
    (seg("text", "[T2] (a) three", "T2", "c3"), 25),
    (seg("captions", "[V1] crop", "V1", "v1"), 7),
    (seg("question", "Question: Where?"), 6),
)


def test_every_segment_came_went_moved_changed_or_stayed() -> None:
    found = [
        (c.state, (c.after or c.before)[0].item_id or (c.after or c.before)[0].kind, c.tokens)  # type: ignore[index]
        for c in prompt.difference(OLD, NEW)
    ]
    assert found == [
        ("stayed", "instruction", 0),
        ("went", "c1", -20),
        ("moved", "c2", 0),
        ("went", "triple:1", -5),
        ("came", "c3", 25),
        ("came", "v1", 7),
        ("changed", "question", 2),
    ]
    assert sum(c.tokens for c in prompt.difference(OLD, NEW)) == sum(n for _, n in NEW) - sum(n for _, n in OLD)


def test_a_prompt_against_itself_and_against_nothing() -> None:
    assert {c.state for c in prompt.difference(OLD, OLD)} == {"stayed"}
    assert [c.state for c in prompt.difference((), NEW)] == ["came"] * len(NEW)
    assert [c.state for c in prompt.difference(OLD, ())] == ["went"] * len(OLD)


def test_the_view_tells_what_changed_and_by_how_many_tokens(small: Corpus) -> None:
    shown = trace(small)
    earlier = replace(shown, prompt=prompts.build(shown.question, shown.evidence, small, ("glioma_p001_c00",)))
    tokens, held = [7] * len(shown.prompt.segments), [7] * len(earlier.prompt.segments)
    document = prompt.render(shown, tokens, previous=earlier, before=held)
    assert "1 came, 7 stayed; ≈ 49 → 56 tokens (+7)" in html.unescape(document)
    assert re.findall(r"<ins>(.*?)</ins>", document, re.S)[0].startswith("[T1] (glioma, p. 1)")
    back = prompt.render(earlier, held, previous=shown, before=tokens)
    assert "1 went" in back and "<del>[T1]" in back and "checked" in back
    assert "<ins>" not in prompt.render(shown, tokens) and "<details data-keep" in prompt.render(shown, tokens)


def _compare(entries: tuple[Entry, ...], shown: Trace | None, data: object, corpus: Corpus) -> object:
    desk = PromptDesk(Handlers(Shelf(corpus)))
    return desk.compare(SimpleNamespace(session_hash="s"), shown, entries, SimpleNamespace(_data=data))  # type: ignore[arg-type]


def test_the_previous_ask_is_the_one_before_in_the_history(small: Corpus) -> None:
    first, second = trace(small), replace(trace(small, question="And the women?"), id="2" * 16)
    entries = (Entry.of(first), Entry.of(second))
    assert before(entries, second.id) == first and before(entries, first.id) is None
    assert before(entries, "another") == second
    document = _compare(entries, second, {"compare": True}, small)
    assert "1 changed" in str(document) and "<del>Question: How many patients" in str(document)
    assert words.NO_PREVIOUS in html.unescape(str(_compare(entries, first, {"compare": True}, small)))


@pytest.mark.parametrize("data", [None, {}, {"compare": False}, {"compare": "yes"}, "x", 5])
def test_anything_else_shows_the_prompt_as_sent(small: Corpus, data: object) -> None:
    document = str(_compare((Entry.of(trace(small)),), replace(trace(small), id="2" * 16), data, small))
    assert "<del>" not in document and document.count("<pre") == len(trace(small).prompt.segments)


# --- every demo question ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def answered(demo: Corpus) -> tuple[Trace, ...]:
    """Every demo question through +both with the embedded reader."""
    asked: Iterator[str] = (
        question["q"]
        for file in sorted((ASSETS / "questions").glob("demo_*.json"))
        for question in json.loads(file.read_text("utf-8"))
    )
    found = []
    for question in asked:
        *_, last = ask(question, SYSTEMS["+both"], GENERATORS["extractive"], demo)
        found.append(last)
    return tuple(found)


def test_the_prompt_rebuilt_from_every_trace_is_byte_identical(demo: Corpus, answered: tuple[Trace, ...]) -> None:
    assert len(answered) >= 60
    for shown in answered:
        loaded = traces.loads(traces.dumps(shown))
        again = prompts.build(loaded.question, loaded.evidence, demo, loaded.excluded)
        assert again == shown.prompt
        assert [m.content.encode() for m in again.messages] == [m.content.encode() for m in shown.prompt.messages]


def test_every_citation_points_to_the_item_whose_text_holds_the_cited_words(answered: tuple[Trace, ...]) -> None:
    """Words of the question aside ("the mgus2 data set: 1384 subjects") and a "Yes"; a sentence over two windows cites both."""
    checked = 0
    for shown in answered:
        text = shown.generation.text
        asked = {t.text.casefold() for t in marks.tokens(shown.question)} | {"yes", "no"}
        for citation in shown.citations:
            assert shown.prompt.tags[citation.tag] == citation.item_id
        for group in re.finditer(r"\[([TGV\d, ]+)\]", text):
            items = {c.item_id for c in shown.citations if group.start() <= c.start < group.end()}
            have = {
                t.text.casefold() for s in shown.prompt.segments if s.item_id in items for t in marks.tokens(s.text)
            }
            for item in items:
                # an item may be cited for one thing here and for another there
                said = [
                    {t.text.casefold() for t in marks.tokens(one)} - asked for one in marks.cited_sentences(shown, item)
                ]
                assert any(words_said <= have for words_said in said), (shown.question, text, said)
                checked += 1
    assert checked >= 30

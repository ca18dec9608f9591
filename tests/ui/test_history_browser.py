"""History, traces from files and links, in a real browser."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from rag.pipeline import MAX_QUESTION_CHARS
from tests.ui.conftest import SETTLED, Visit
from ui import text as words

pytestmark = pytest.mark.browser

QUESTION = "What does one dose of the BCG vaccine cost?"


def _ask(page: Page, question: str, count: int) -> None:
    page.fill("#question textarea", question)
    page.click("#ask")
    expect(page.locator("#history .fb-count").first).to_have_text(str(count))
    expect(page.locator(SETTLED)).to_be_visible()


def test_an_earlier_answer_comes_back_with_its_settings(visit: Visit) -> None:
    page = visit.page
    _ask(page, QUESTION, 1)
    page.check('#preset input[value="baseline"]')
    _ask(page, "How many subjects does the mgus2 data set contain?", 2)
    page.click("#history summary")
    page.click("#history [data-restore]")
    expect(page.locator("#question textarea")).to_have_value(QUESTION)
    expect(page.locator("#switch-graph input")).to_be_checked()
    expect(page.locator('#answer [data-state="abstained"]')).to_be_visible()
    expect(page.locator("#history .fb-count").first).to_have_text("2")
    expect(page.locator("#history tbody tr").first).to_contain_text("Extractive reader")


def test_a_trace_goes_out_and_comes_in_again_elsewhere(visit: Visit, tmp_path: Path) -> None:
    page = visit.page
    _ask(page, QUESTION, 1)
    with page.expect_download() as download:
        page.click("#fb-trace")
    file = tmp_path / "trace.json"
    download.value.save_as(file)
    visit.open()
    expect(page.locator("#answer .fb-answer-card.empty")).to_be_visible()
    page.set_input_files("[data-trace-file]", file)
    expect(page.locator("#answer .fb-note")).to_have_text(words.TRACE_LOADED)
    expect(page.locator("#question textarea")).to_have_value(QUESTION)
    with page.expect_download() as again:
        page.click("#fb-trace")
    assert json.loads(Path(again.value.path()).read_text("utf-8")) == json.loads(file.read_text("utf-8"))
    page.set_input_files("[data-trace-file]", file)
    expect(page.locator("[data-link-told]")).to_have_text("")


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"[1, 2", "This is not JSON"),
        (b'{"hello": "world"}', "This is not a trace"),
        (b"\xff\xfe\x00", "This is not JSON"),
        (b" " * 50_000_000, "This file has 50 MB"),
        (b"<img src=x onerror='window.pwned=1'>", "This is not JSON"),
    ],
)
def test_a_file_that_is_no_trace_is_refused_and_nothing_changes(
    visit: Visit, tmp_path: Path, content: bytes, says: str
) -> None:
    page = visit.page
    _ask(page, QUESTION, 1)
    file = tmp_path / "x.json"
    file.write_bytes(content)
    page.set_input_files("[data-trace-file]", file)
    expect(page.locator("#history .fb-told.bad")).to_contain_text(says)
    expect(page.locator('#answer [data-state="abstained"]')).to_be_visible()
    assert page.evaluate("window.pwned") is None


def test_a_link_sets_the_controls_and_asks_nothing(visit: Visit) -> None:
    page = visit.page
    page.goto(f"{visit.url}/?q=What+is+mgus2%3F&system=%2BKG&text_k=5&generator=endless&api_key=sk-canary")
    expect(page.locator("#history .fb-told").first).to_have_text(words.LINK_FOLLOWED)
    expect(page.locator("#question textarea")).to_have_value("What is mgus2?")
    expect(page.locator("#switch-visual input")).not_to_be_checked()
    expect(page.locator("#generator input:checked")).to_have_value("endless")
    expect(page.locator("#answer .fb-answer-card.empty")).to_be_visible()
    page.click("[data-copy-link]")
    expect(page.locator("[data-link]")).to_have_value(
        f"{visit.url}/?q=What+is+mgus2%3F&system=%2BKG&generator=endless&text_k=5"
    )


@pytest.mark.parametrize(
    "query", ["system=%2Beverything&generator=gpt-9&text_k=0", f"q={'x' * (MAX_QUESTION_CHARS + 1)}"]
)
def test_a_link_with_unknown_names_says_so_and_leaves_the_defaults(visit: Visit, query: str) -> None:
    page = visit.page
    page.goto(f"{visit.url}/?{query}")
    expect(page.locator("#history .fb-told.bad")).to_contain_text("Not followed from the link")
    expect(page.locator("#question textarea")).to_have_value("")
    expect(page.locator("#preset input:checked")).to_have_value("+both")

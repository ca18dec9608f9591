"""Marks on pages, explanation levels and the prompt comparison in a real browser."""

from __future__ import annotations

import json

import pytest
from playwright.sync_api import Browser, expect

from rag import trace as traces
from rag.explain import explain
from tests.ui.conftest import Server, Visit, visiting
from tests.ui.controls import TEXT_QUESTION
from tests.ui.test_explore_browser import serious
from ui import text as words

pytestmark = pytest.mark.browser

TABLE_QUESTION = next(example.question for example in words.EXAMPLES["demo"] if example.kind == "table")
NEXT_QUESTION = words.EXAMPLES["demo"][-1].question


def test_the_cited_words_are_marked_on_the_page_and_other_pages_are_a_click_away(visit: Visit) -> None:
    page = visit.page
    trace = visit.ask(TEXT_QUESTION)
    cited = trace["citations"][0]["item_id"]
    page.locator(f'[data-item="{cited}"] .fb-link').click()
    dialog = page.locator("#fb-dialog")
    mark = dialog.locator("rect.mark.text").first
    expect(mark).to_be_visible()
    inside, outside = mark.bounding_box(), dialog.locator(".fb-paper").bounding_box()
    assert inside and outside
    assert outside["x"] < inside["x"] and inside["x"] + inside["width"] < outside["x"] + outside["width"]
    chip = dialog.locator(".fb-elsewhere-pages button").first
    tag, place = chip.inner_text(), chip.get_attribute("data-page")
    chip.click()
    expect(dialog.locator(f'[data-page-id="{place}"]')).to_be_visible()
    focused = trace["prompt"]["tags"][tag]
    expect(dialog.locator(f'[data-focus="{focused}"]')).to_have_count(0)
    expect(dialog.locator("rect.focus").first).to_be_visible()


def test_the_level_is_chosen_copied_and_kept_for_the_next_answer(visit: Visit) -> None:
    page = visit.page
    visit.context.grant_permissions(["clipboard-read", "clipboard-write"], origin=visit.url)
    visit.ask(TEXT_QUESTION)
    assert page.locator("#explain pre:visible").count() == 0
    page.locator("#explain input").first.focus()
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    shown = page.locator("#explain pre:visible")
    expect(shown).to_have_count(1)
    page.locator("[data-copy-explanation]").click()
    expect(page.locator("[data-copy-explanation]")).to_have_text("Copied")
    trace = traces.loads(json.dumps(visit.trace()))
    assert page.evaluate("navigator.clipboard.readText()").replace("\r\n", "\n") == explain(trace, 3)
    visit.ask(NEXT_QUESTION)
    expect(page.locator("#explain pre:visible")).to_contain_text("Gate")


def test_the_prompt_is_compared_with_the_ask_before_and_goes_on_being(visit: Visit) -> None:
    page = visit.page
    visit.ask(TEXT_QUESTION)
    page.locator("#prompt summary").first.click()
    box = page.locator("[data-compare-prompt]")
    box.check()
    expect(page.locator("#prompt [role=status]")).to_contain_text("first ask of this session")
    visit.ask(TABLE_QUESTION)
    expect(page.locator("#prompt details")).to_have_attribute("open", "")
    page.locator("[data-compare-prompt]").check()
    expect(page.locator("#prompt .fb-segment.changed del")).to_contain_text(TEXT_QUESTION)
    visit.ask(NEXT_QUESTION)
    expect(page.locator("#prompt .fb-segment.changed del")).to_contain_text(TABLE_QUESTION)
    page.locator("[data-compare-prompt]").uncheck()
    expect(page.locator("#prompt del")).to_have_count(0)


@pytest.mark.parametrize(("scheme", "width"), [("light", 1440), ("dark", 390)])
def test_no_serious_axe_violation_in_a_crop_and_a_comparison(
    browser: Browser, app: Server, scheme: str, width: int
) -> None:
    options = {"color_scheme": scheme, "reduced_motion": "reduce", "viewport": {"width": width, "height": 900}}
    with visiting(browser, app.url, **options) as window:
        page = window.open().page
        window.ask(TEXT_QUESTION)
        window.ask(TABLE_QUESTION)
        page.locator("#prompt summary").first.click()
        page.locator("[data-compare-prompt]").check()
        expect(page.locator("#prompt .fb-segment.changed")).to_be_visible()
        page.locator(".fb-levels label").last.click()
        assert serious(page) == []
        page.locator("#visual .fb-crop").first.click()
        expect(page.locator("#fb-dialog .fb-full img")).to_be_visible()
        assert serious(page) == []
        wide = page.evaluate(
            "document.querySelector('#fb-dialog').scrollWidth - document.querySelector('#fb-dialog').clientWidth"
        )
        assert wide <= 0
        assert window.watch.elsewhere == []

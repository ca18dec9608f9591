"""The Compare tab in a real browser."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.ui.conftest import Server, Visit, visiting
from tests.ui.controls import number, radio
from tests.ui.test_explore_browser import serious
from ui import text as words

pytestmark = pytest.mark.browser

TEXT_QUESTION = words.EXAMPLES["demo"][0].question
FIGURE_QUESTION = next(example.question for example in words.EXAMPLES["demo"] if example.kind == "pixels")
STUDY = ["baseline", "+KG", "+multimodal", "+both"]


def opened(page: Page) -> Page:
    page.get_by_role("tab", name="Compare").click()
    page.wait_for_selector("#compare-question textarea")
    return page


@pytest.fixture
def page(visit: Visit) -> Iterator[Page]:
    yield opened(visit.page)


def tick(page: Page, group: str, label: str) -> None:
    box = page.locator(f"#compare-{group} label").filter(has_text=label).first.locator("input")
    before = box.is_checked()
    box.click()
    expect(box).to_be_checked(checked=not before)


def fill(page: Page, question: str) -> None:
    page.fill("#compare-question textarea", question)


def run(page: Page, question: str) -> None:
    fill(page, question)
    page.click("#compare-ask")
    page.wait_for_selector("[data-compare=done]")


def test_four_cells_fill_with_reference_gold_and_differences(page: Page, visit: Visit) -> None:
    run(page, FIGURE_QUESTION)
    cells = page.locator(".fb-cmp-cell")
    assert cells.locator("h4").all_inner_texts() == STUDY
    expect(page.locator(".fb-cmp-reference")).to_contain_text("0.023")
    expect(cells.nth(0)).to_contain_text("this system has no figures and tables")
    expect(cells.nth(3)).to_contain_text("gold figure: rank 1, sent")
    expect(cells.nth(3).locator(".fb-cmp-verdict")).to_have_text("Says something else than baseline.")
    expect(page.locator(".fb-cmp-summary")).to_contain_text("Figures & tables made the answer right, for 307 tokens")
    expect(cells.nth(3).locator(".fb-cmp-evidence .visual .fb-tag").first).to_be_visible()
    colour = cells.nth(3).locator(".fb-cmp-evidence .visual h5").evaluate("one => getComputedStyle(one).color")
    assert colour == "rgb(189, 65, 12)"
    visit.shot("compare", full_page=True)


def test_a_question_of_the_set_is_picked_and_the_keyboard_compares(page: Page) -> None:
    picker = page.locator("#compare-picker input")
    expect(picker).to_have_attribute("placeholder", "Pick a question, or type a part of one …")
    picker.click()
    picker.press_sequentially("How many subjects diagnosed")
    page.get_by_role("option").filter(has_text="How many subjects diagnosed").first.click()
    expect(page.locator("#compare-question textarea")).to_have_value(TEXT_QUESTION)
    page.locator("#compare-question textarea").press("Control+Enter")
    page.wait_for_selector("[data-compare=done]")
    expect(page.locator(".fb-cmp-reference")).to_contain_text("1384")
    expect(page.locator("#answer [data-state=empty]")).to_be_attached()


def test_explores_settings_are_used_and_named(page: Page, visit: Visit) -> None:
    visit.page.get_by_role("tab", name="Explore").click()
    number("#text-k", 1)(visit.page)
    radio("#text-ranker", "BM25")(visit.page)
    opened(page)
    run(page, FIGURE_QUESTION)
    expect(page.locator(".fb-cmp-settings")).to_contain_text("text ranker BM25, chunks 1, facts from retrieved pages")
    expect(page.locator(".fb-cmp-cell").first.locator(".fb-cmp-evidence .text .fb-tag")).to_have_text(["T1"])
    page.locator(".fb-cmp-cell").first.get_by_role("button", name="Open in Explore").click()
    expect(page.locator("#answer [data-trace]")).to_be_visible()
    expect(page.locator("#text-k input[type=number]")).to_have_value("1")
    assert (visit.trace()["system"]["text_k"], visit.trace()["system"]["text_ranker"]) == (1, "bm25")


def test_the_question_of_explore_comes_along_where_there_is_none(visit: Visit) -> None:
    page = visit.page
    page.fill("#question textarea", TEXT_QUESTION)
    opened(page)
    expect(page.locator("#compare-question textarea")).to_have_value(TEXT_QUESTION)
    fill(page, FIGURE_QUESTION)
    page.get_by_role("tab", name="Explore").click()
    opened(page)
    expect(page.locator("#compare-question textarea")).to_have_value(FIGURE_QUESTION)


def test_two_systems_of_choice_and_a_failing_row_that_fails_alone(page: Page) -> None:
    tick(page, "systems", "+KG")
    tick(page, "systems", "+multimodal")
    tick(page, "generators", "Failing")
    tick(page, "generators", "Broken")
    run(page, TEXT_QUESTION)
    rows = page.locator(".fb-cmp-row")
    assert rows.locator("h3").all_inner_texts() == ["Extractive reader", "Failing", "Broken"]
    assert rows.nth(0).locator("[data-state=answered] h4").all_inner_texts() == ["baseline", "+both"]
    expect(rows.nth(1).locator("[data-state=error]")).to_have_count(2)
    expect(rows.nth(1)).to_contain_text("The provider hung up; ask again")
    expect(rows.nth(2).locator("[data-state=error]")).to_have_count(2)
    expect(rows.nth(2)).to_contain_text("Fusebox itself failed in this cell")


def test_a_paid_run_is_priced_first_and_a_change_asks_anew(page: Page) -> None:
    tick(page, "generators", "GPT-4o-mini")
    fill(page, TEXT_QUESTION)
    page.click("#compare-ask")
    expect(page.locator("[data-compare=estimate]")).to_contain_text("Nothing has been sent")
    expect(page.locator("#compare-ask")).to_contain_text("Ask for ≈ $")
    tick(page, "systems", "+KG")
    expect(page.locator("#compare-ask")).to_have_text(words.COMPARE_ASK)
    page.click("#compare-ask")
    expect(page.locator("#compare-ask")).to_contain_text("Ask for ≈ $")
    page.click("#compare-ask")
    page.wait_for_selector("[data-compare=done]")
    expect(page.locator(".fb-cmp-row").nth(1)).to_contain_text("OPENAI_API_KEY")


def test_stop_ends_every_cell_and_leaves_nothing_behind(page: Page, app: Server) -> None:
    tick(page, "generators", "Extractive")
    tick(page, "generators", "Endless")
    fill(page, TEXT_QUESTION)
    page.click("#compare-ask")
    expect(page.locator("[data-state=streaming]")).to_have_count(4)
    expect(page.locator("#compare-ask")).to_be_hidden()
    page.click("#compare-stop")
    expect(page.locator(".fb-cmp-cell[data-state=stopped]")).to_have_count(4)
    expect(page.locator("#compare-ask")).to_be_visible()
    while "closed, 0 open" not in app.read_until("closed,"):
        pass


def test_a_closed_window_ends_every_cell(browser: Browser, app: Server) -> None:
    with visiting(browser, app.url) as window:
        page = opened(window.open().page)
        tick(page, "generators", "Endless")
        tick(page, "generators", "Extractive")
        fill(page, TEXT_QUESTION)
        page.click("#compare-ask")
        expect(page.locator("[data-state=streaming]")).to_have_count(4)
    while "closed, 0 open" not in app.read_until("closed,"):
        pass


def test_a_chip_opens_its_page_with_the_cells_evidence(page: Page, visit: Visit) -> None:
    visit.page.get_by_role("tab", name="Explore").click()
    visit.ask(FIGURE_QUESTION)
    opened(page)
    run(page, TEXT_QUESTION)
    page.locator(".fb-cmp-cell").nth(1).locator(".fb-cmp-evidence .graph .fb-tag").first.click()
    dialog = page.locator("#fb-dialog")
    expect(dialog.locator("img")).to_be_visible()
    expect(dialog.locator("rect.graph").first).to_be_attached()
    page.keyboard.press("Escape")
    page.get_by_role("tab", name="Explore").click()
    page.locator("#text .fb-link").first.click()
    expect(dialog.locator("img")).to_be_visible()
    expect(dialog.locator("h2")).to_contain_text("Recursive Partitioning")


def test_a_cell_opens_in_explore_with_its_controls(page: Page, visit: Visit) -> None:
    run(page, TEXT_QUESTION)
    page.locator(".fb-cmp-cell").nth(1).get_by_role("button", name="Open in Explore").click()
    expect(page.locator("#answer [data-state=answered]")).to_contain_text("1384")
    assert visit.trace()["system"]["name"] == "+KG"
    expect(page.locator("#preset label.selected")).to_have_text("+KG")
    expect(page.locator("#question textarea")).to_have_value(TEXT_QUESTION)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_serious_axe_violation_and_nothing_wider_than_a_phone(browser: Browser, app: Server, scheme: str) -> None:
    with visiting(browser, app.url, color_scheme=scheme, reduced_motion="reduce") as window:
        page = opened(window.open().page)
        assert serious(page) == []
        tick(page, "generators", "Failing")
        tick(page, "generators", "GPT-4o-mini")
        fill(page, FIGURE_QUESTION)
        page.click("#compare-ask")
        page.wait_for_selector("[data-compare=estimate]")
        assert serious(page) == []
        page.click("#compare-ask")
        page.wait_for_selector("[data-compare=done]")
        assert serious(page) == []
        page.set_viewport_size({"width": 390, "height": 844})
        boxes = [cell.bounding_box() for cell in page.locator(".fb-cmp-cells").first.locator(".fb-cmp-cell").all()]
        assert len({box["x"] for box in boxes if box}) == 1 and len({box["y"] for box in boxes if box}) == 4
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert serious(page) == []
        window.shot(f"compare-390-{scheme}", full_page=True)


def test_a_hostile_corpus_is_text(browser: Browser, hostile_app: Server) -> None:
    with visiting(browser, hostile_app.url) as window:
        page = opened(window.open().page)
        run(page, "How many patients did the glioma trial enroll?")
        expect(page.locator(".fb-cmp-cell[data-state=answered]").first).to_be_visible()
        expect(page.locator(".fb-cmp-evidence").first).to_contain_text("<img src=x")
        assert page.evaluate("window.pwned") is None
        assert window.watch == type(window.watch)()

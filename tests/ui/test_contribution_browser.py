"""Did it help? One press asks the four systems and says what graph and figures did, in a real browser."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.ui.conftest import Server, Visit, visiting
from tests.ui.controls import number, radio
from tests.ui.test_explore_browser import serious
from ui import text as words

pytestmark = pytest.mark.browser

FIGURE_QUESTION = next(example.question for example in words.EXAMPLES["demo"] if example.kind == "pixels")
TEXT_QUESTION = words.EXAMPLES["demo"][0].question
UNANSWERABLE = words.EXAMPLES["demo"][-1].question
CARD = "#helped .fb-helped"


def press(page: Page) -> None:
    page.get_by_role("button", name=words.HELPED).click()
    page.wait_for_selector(f"{CARD}.done")


def test_two_clicks_tell_what_the_figures_did(visit: Visit) -> None:
    page = visit.page
    expect(page.locator(CARD)).to_have_count(0)
    page.get_by_role("button", name="p-value in a tree").click()
    press(page)
    expect(page.locator(f"{CARD} .fb-summary")).to_have_text("It helped: text alone gets this wrong.")
    expect(page.locator(f"{CARD} li.visual.righted")).to_contain_text(
        "Figures & tables made the answer right, for 307 tokens"
    )
    expect(page.locator(f"{CARD} li.graph.same")).to_contain_text("Knowledge graph found nothing to send")
    assert page.locator(f"{CARD} ol h3").all_inner_texts() == ["baseline", "+KG", "+multimodal", "+both"]
    assert [text.split()[-1] for text in page.locator(f"{CARD} footer b").all_inner_texts()] == [
        "wrong",
        "wrong",
        "right",
        "right",
    ]
    expect(page.locator(f"{CARD} header")).to_contain_text("reference 0.023")
    expect(page.locator(CARD)).to_be_focused()
    expect(page.locator("#fb-helped-live")).to_contain_text("It helped")
    visit.shot("did-it-help")


def test_two_clicks_tell_what_the_graph_did(visit: Visit) -> None:
    page = visit.page
    page.get_by_role("button", name="graph: on steroids").click()
    press(page)
    expect(page.locator(f"{CARD} li.graph.righted")).to_contain_text("Knowledge graph made the answer right, for")
    expect(page.locator(f"{CARD} li.visual.same")).to_contain_text("changed nothing")


@pytest.mark.parametrize(
    ("question", "headline"),
    [
        (TEXT_QUESTION, "Text alone was enough: all four answers are right."),
        (UNANSWERABLE, "Nothing here answers this, and all four rightly say so."),
        ("How many subjects are in the mgus2 data?", "It made no difference: all four answers are the same."),
    ],
)
def test_evidence_that_only_cost_tokens_is_said_to(visit: Visit, question: str, headline: str) -> None:
    visit.ask(question)
    press(visit.page)
    expect(visit.page.locator(f"{CARD} .fb-summary")).to_have_text(headline)
    for line in visit.page.locator(f"{CARD} .fb-helped-lines li").all():
        expect(line).to_contain_text("changed nothing")


def test_one_of_the_four_is_shown_with_its_controls_and_the_card_stays(visit: Visit) -> None:
    page = visit.page
    number("#text-k", 2)(page)
    visit.ask(FIGURE_QUESTION)
    press(page)
    before = visit.trace_id()
    page.get_by_role("button", name="Show the answer of baseline").click()
    visit.wait_for_another(before)
    system = visit.trace()["system"]
    assert (system["name"], system["text_k"]) == ("baseline", 2)
    expect(page.locator("#answer [data-state=abstained]")).to_be_visible()
    expect(page.locator("#preset label.selected")).to_have_text("baseline")
    expect(page.locator("#answer [data-outdated]")).to_be_hidden()
    expect(page.locator(f"{CARD}.done ol li").first).to_contain_text("shown")
    expect(page.locator("#history .fb-count").first).to_have_text("2")
    page.locator(CARD).get_by_role("button", name="Close").click()
    expect(page.locator(f"{CARD}.offer")).to_be_visible()


def test_a_generator_that_costs_is_not_asked(visit: Visit) -> None:
    page = visit.page
    radio("#generator", "GPT-4o-mini")(page)
    visit.ask(FIGURE_QUESTION)
    expect(page.locator(CARD)).to_contain_text("by the Extractive reader, free")
    press(page)
    expect(page.locator(f"{CARD} header")).to_contain_text("4 answers by Extractive reader")
    expect(page.locator(f"{CARD} .fb-small[data-helped=show]")).to_have_count(4)


def test_another_answer_takes_the_verdict_away(visit: Visit) -> None:
    visit.ask(FIGURE_QUESTION)
    press(visit.page)
    visit.ask(TEXT_QUESTION)
    expect(visit.page.locator(f"{CARD}.done")).to_have_count(0)
    expect(visit.page.locator(f"{CARD}.offer")).to_be_visible()


def test_the_verdict_and_a_link_are_copied(browser: Browser, app: Server) -> None:
    with visiting(browser, app.url, permissions=["clipboard-read", "clipboard-write"]) as window:
        page = window.open().page
        window.ask(FIGURE_QUESTION)
        press(page)
        page.locator(CARD).get_by_role("button", name="Copy").click()
        expect(page.locator("[data-helped-told]")).to_contain_text("Copied")
        copied = page.evaluate("navigator.clipboard.readText()")
        assert copied.startswith(f"“{FIGURE_QUESTION}”\nIt helped: text alone gets this wrong.\nFigures & tables made")
        page.goto(copied.splitlines()[-1])
        page.wait_for_selector("#ask")
        expect(page.locator("#question textarea")).to_have_value(FIGURE_QUESTION)


@pytest.mark.parametrize(("scheme", "width"), [("light", 1440), ("dark", 390)])
def test_no_serious_axe_violation(browser: Browser, app: Server, scheme: str, width: int) -> None:
    viewport = {"width": width, "height": 900}
    with visiting(browser, app.url, color_scheme=scheme, viewport=viewport, reduced_motion="reduce") as window:
        window.open().ask(FIGURE_QUESTION)
        press(window.page)
        assert serious(window.page) == []
        assert window.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        window.shot(f"did-it-help-{width}")


def test_a_hostile_corpus_is_text(browser: Browser, hostile_app: Server) -> None:
    with visiting(browser, hostile_app.url) as window:
        page = window.open().page
        window.ask("How many patients did the glioma trial enroll?")
        press(page)
        expect(page.locator(f"{CARD} ol")).to_contain_text("37")
        assert page.evaluate("window.pwned") is None
        assert window.watch == type(window.watch)()

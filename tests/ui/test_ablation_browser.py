"""The Ablation tab in a real browser, over the shipped run and the study's figures."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path

import pytest
from PIL import Image
from playwright.sync_api import Browser, Locator, Page, expect
from playwright.sync_api import TimeoutError as TimedOut

from rag.evaluate.store import SHIPPED_RUN
from tests.ui.conftest import Server, Visit, free_port, serving, visiting
from tests.ui.test_explore_browser import serious
from ui import text as words

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(not SHIPPED_RUN.is_file(), reason=f"{SHIPPED_RUN.name} is missing; make demo-run writes it"),
]


@pytest.fixture(scope="module")
def server(demo_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The page with a folder of runs of its own."""
    port, runs = free_port(), tmp_path_factory.mktemp("runs")
    with serving("-m", "tests.ui.server", str(demo_folder), str(port), port=port, FUSEBOX_RUNS=str(runs)) as started:
        yield started


@pytest.fixture
def window(browser: Browser, server: Server) -> Iterator[Visit]:
    with visiting(browser, server.url, reduced_motion="reduce") as visit:
        visit.open()
        opened(visit.page)
        yield visit
        assert visit.watch == type(visit.watch)()


def opened(page: Page) -> Page:
    page.get_by_role("tab", name="Ablation").click()
    page.wait_for_selector("[data-ablation=drawn]")
    return page


def drawn(page: Page) -> None:
    """Wait until every chart is drawn: those out of sight are, too, when there is time."""
    page.wait_for_function(
        "document.querySelectorAll('.fb-chart').length === document.querySelectorAll('.fb-chart[data-drawn]').length",
        timeout=120_000,
    )


def saved(page: Page, way_out: Locator, folder: Path) -> Path:
    """The file that a press gives. Headless Chromium drops about one in 300 downloads of data: addresses: a second press is allowed."""
    try:
        with page.expect_download(timeout=15_000) as waiting:
            way_out.click()
    except TimedOut:
        with page.expect_download() as waiting:
            way_out.click()
    waiting.value.save_as(file := folder / waiting.value.suggested_filename)
    return file


def tick(page: Page, group: str, label: str) -> None:
    page.locator(f"#ablation-{group} label").filter(has_text=label).first.locator("input").click()


def test_first_start_shows_the_study_and_the_shipped_run_and_fetches_nothing_from_elsewhere(window: Visit) -> None:
    page = window.page
    drawn(page)
    assert page.locator("#ablation-sources .token").count() == 2
    expect(page.locator("#abl-accuracy")).to_contain_text("Judged by language models")
    expect(page.locator("#abl-accuracy")).to_contain_text("Judged offline lexical, grounded, similar")
    assert page.locator(".fb-chart-card.failed").count() == 0
    # Tokens are judged by nobody: the study's hatched bars and the run's in one figure.
    tokens = page.locator("[data-name=figure-3]")
    assert tokens.locator("g.bars path[style*='url(']").count() == 20 and tokens.locator("g.bars path").count() == 24
    assert tokens.text_content() and "9,477" in str(tokens.text_content())


def test_charts_take_the_colours_of_the_night(window: Visit) -> None:
    page = window.page
    title = page.locator("[data-name=accuracy-heatmap-1-1] text").first
    expect(title).to_be_visible()
    fill = "one => getComputedStyle(one).fill"
    assert title.evaluate(fill) == "rgb(25, 28, 34)"
    page.click("#fb-theme")
    page.wait_for_function(
        "getComputedStyle(document.querySelector('[data-name=accuracy-heatmap-1-1] text')).fill === 'rgb(232, 234, 238)'"
    )


def test_charts_go_out_as_png_and_svg_and_tables_as_csv(window: Visit, tmp_path: Path) -> None:
    page = window.page
    card = page.locator(".fb-chart-card").filter(has=page.locator("[data-name=figure-2-1]"))
    chart = saved(page, card.get_by_role("button", name="PNG"), tmp_path)
    assert chart.name == "fusebox-figure-2-1.png"
    image = Image.open(chart)
    assert image.width >= 960 and len(image.convert("RGB").getcolors(1 << 20) or []) > 20
    drawing = saved(page, card.get_by_role("button", name="SVG"), tmp_path).read_text("utf-8")
    assert drawing.startswith("<svg") and "Recall@1 0.229" in drawing and "Cost and accuracy" in drawing
    assert "published (open)" in drawing and "var(--" not in drawing
    table = saved(page, page.locator("#abl-table-5").get_by_role("link"), tmp_path)
    rows = list(csv.DictReader(io.StringIO(table.read_text("utf-8-sig"))))
    assert rows[1]["system"] == "'+KG" and rows[2]["input_tokens_per_question"] == "9477.0"


def test_every_chart_and_every_table_can_be_taken_away(window: Visit, tmp_path: Path) -> None:
    page = window.page
    drawn(page)
    taken = []
    for card in page.locator(".fb-chart-card").all():
        for form in ("PNG", "SVG"):
            taken.append((file := saved(page, card.get_by_role("button", name=form), tmp_path)).name)
            if form == "PNG":
                assert len(Image.open(file).convert("RGB").getcolors(1 << 20) or []) > 20, file.name
            else:
                drawing = file.read_text("utf-8")
                assert drawing.startswith("<svg") and "var(--" not in drawing and drawing.count("<text") > 2, file.name
    for table in page.locator("#abl-tables .fb-abl-table").all():
        taken.append((file := saved(page, table.get_by_role("link"), tmp_path)).name)
        rows = list(csv.reader(io.StringIO(file.read_text("utf-8-sig"))))
        assert len(rows) == 1 + table.locator("tbody tr").count() or "table-2" in file.name, file.name
        assert all(not cell.startswith(("=", "+", "@")) for row in rows for cell in row), file.name
    assert len(taken) == len(set(taken)) and {
        "fusebox-given-2.csv",
        "fusebox-origins-2.csv",
        "fusebox-errors-2.svg",
    } <= set(taken)


def test_filters_redraw(window: Visit) -> None:
    page = window.page
    before = page.locator(".fb-chart").count()
    tick(page, "types", "multi-hop")
    expect(page.locator(".fb-chart")).not_to_have_count(before)
    expect(page.locator("#abl-table-2-2 thead")).not_to_contain_text("unanswerable")
    page.locator("[data-name=figure-3]").scroll_into_view_if_needed()
    expect(page.locator("[data-name=figure-3]")).to_contain_text("Not drawn: no tokens were counted")
    tick(page, "types", "multi-hop")
    expect(page.locator(".fb-chart")).to_have_count(before)
    drawn(page)
    expect(page.locator("[data-name=figure-3]")).to_contain_text("9,477")
    bars = page.locator("[data-name=accuracy-text-1] g.points path")
    expect(bars).to_have_count(16)
    tick(page, "systems", "+KG")
    expect(bars).to_have_count(4)
    page.locator("#ablation-generators input").click()
    page.get_by_role("option", name="GPT-4o-mini").click()
    expect(bars).to_have_count(1)
    expect(page.locator("#abl-accuracy")).not_to_contain_text("Judged offline")
    tick(page, "systems", "+KG")
    expect(bars).to_have_count(4)


def test_a_cell_opens_its_questions_and_a_question_opens_in_explore(window: Visit) -> None:
    page = window.page
    cell = page.locator("#abl-table-2-2 [data-abl-cell]").first
    cell.focus()
    cell.press("Enter")
    questions = page.locator("#abl-questions")
    expect(questions).to_contain_text("questions of baseline, Extractive reader, text")
    expect(questions).to_be_focused()
    assert serious(page) == []
    asked = questions.locator("tbody tr td").first.inner_text()
    window.shot("ablation-questions")
    questions.get_by_role("button", name="Open:").first.click()
    expect(page.locator("#question textarea")).to_have_value(asked)
    expect(page.locator("#answer [data-state]").first).to_be_visible()
    assert window.trace()["question"] == asked
    page.get_by_role("tab", name="Ablation").click()
    # What became of questions lists those of a cause.
    missed = page.locator("#abl-causes-2 tbody tr").last.locator("[data-abl-cell*='generator misread']")
    count = missed.inner_text()
    missed.click()
    expect(questions).to_contain_text(f"{count} questions of +both, Extractive reader, generator misread")
    expect(questions.locator("tbody tr")).to_have_count(int(count))
    # The same by the mouse, on the heatmap; one of the study has no questions.
    heat = page.locator("[data-name=accuracy-heatmap-2-1]")
    heat.scroll_into_view_if_needed()
    expect(heat).to_have_attribute("data-drawn", "true")
    heat.locator(".nsewdrag").first.click(position={"x": 12, "y": 60})
    expect(questions).to_contain_text("questions of +KG, Extractive reader, text")
    study = page.locator("[data-name=accuracy-heatmap-1-1]")
    study.scroll_into_view_if_needed()
    expect(study).to_have_attribute("data-drawn", "true")
    study.locator(".nsewdrag").first.click(position={"x": 12, "y": 12})
    expect(page.locator("#ablation-questions")).to_contain_text(words.ABLATION_PUBLISHED)


def choose(page: Page, generator: str) -> None:
    page.get_by_role("button", name="Start a run").click()
    tick(page, "run-sets", "unanswerable")
    for system in ("+KG", "+multimodal", "+both"):
        tick(page, "run-systems", system)
    if generator != "Extractive reader":
        tick(page, "run-generators", "Extractive reader")
        tick(page, "run-generators", generator)


def test_a_run_is_started_watched_and_joins_the_charts(window: Visit) -> None:
    page = window.page
    page.get_by_role("button", name="Start a run").click()
    study = page.locator("#ablation-run-judges label").filter(has_text="the study's")
    expect(study).to_contain_text("needs DEEPSEEK_API_KEY and ANTHROPIC_API_KEY")
    expect(study.locator("input")).to_be_disabled()
    page.click("#ablation-start")
    told = page.locator("#ablation-progress [role=alert]")
    expect(told).to_contain_text("There is no question to run")
    page.get_by_role("button", name="Start a run").click()
    choose(page, "Extractive reader")
    expect(told).to_have_count(0)
    page.click("#ablation-start")
    expect(page.locator("#ablation-progress")).to_contain_text("is complete: 30 results", timeout=120_000)
    expect(page.locator("#ablation-sources .token")).to_have_count(3)
    expect(page.locator("#abl-table-2-2")).to_contain_text("unanswerable: Extractive reader")
    expect(page.locator("#ablation-start")).to_be_visible()
    expect(page.locator("#ablation-runs")).not_to_contain_text("unanswerable: Extractive reader")


def test_a_stopped_run_is_incomplete_and_in_no_chart_and_another_window_sees_it_too(
    window: Visit, browser: Browser, server: Server
) -> None:
    page = window.page
    choose(page, "Endless")
    page.click("#ablation-start")
    expect(page.locator("#ablation-progress progress")).to_be_visible()
    expect(page.locator("#ablation-runs")).to_contain_text("running")
    with visiting(browser, server.url) as other:
        opened(other.open().page)
        expect(other.page.locator("#ablation-progress progress")).to_be_visible()
        page.click("#ablation-stop")
        expect(page.locator("#ablation-progress")).to_contain_text("is incomplete")
        expect(other.page.locator("#ablation-progress")).to_contain_text("is incomplete")
    runs = page.locator("#ablation-runs li")
    expect(runs).to_contain_text("Kept out of all comparisons")
    expect(runs.get_by_role("button", name="Resume")).to_be_visible()
    expect(page.locator("#ablation-board")).not_to_contain_text("unanswerable: Endless")


def test_a_paid_run_needs_a_key_before_anything_else(window: Visit) -> None:
    page = window.page
    choose(page, "GPT-4o-mini")
    page.click("#ablation-start")
    expect(page.locator("#ablation-progress [role=alert]")).to_contain_text("OPENAI_API_KEY")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_serious_axe_violation_and_nothing_wider_than_a_phone(browser: Browser, server: Server, scheme: str) -> None:
    with visiting(browser, server.url, color_scheme=scheme, reduced_motion="reduce") as window:
        page = opened(window.open().page)
        page.get_by_role("button", name="Start a run").click()
        # Nobody scrolls: every chart is there all the same, as for a print.
        drawn(page)
        assert serious(page) == []
        window.shot(f"ablation-{scheme}", full_page=True)
        page.set_viewport_size({"width": 390, "height": 844})
        page.reload()
        opened(page)
        drawn(page)
        tables = page.locator("#abl-tables details")
        assert tables.count() > 10 and page.locator("#abl-tables details[open]").count() == 0
        opened_one = page.locator("#abl-table-2-2 details")
        opened_one.locator("summary").click()
        tick(page, "types", "multi-hop")
        expect(page.locator("#abl-table-2-2 thead")).not_to_contain_text("unanswerable")
        expect(opened_one).to_have_attribute("open", "")
        tick(page, "types", "multi-hop")
        expect(page.locator("#abl-table-2-2 thead")).to_contain_text("unanswerable")
        drawn(page)
        page.wait_for_function(
            "[...document.querySelectorAll('.fb-chart .main-svg')].every((one) => one.clientWidth <= 390)"
        )
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert serious(page) == []
        window.shot(f"ablation-390-{scheme}", full_page=True)
        assert window.watch == type(window.watch)()

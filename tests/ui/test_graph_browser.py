"""The graph column in a real browser: what the drawing and the tables can be asked, by mouse and by keyboard."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Frame, Page, expect

from rag.corpus import save_corpus
from rag.types import Chunk, Document, Triple
from rag.types import Page as CorpusPage
from tests.ui.conftest import ATTACK, OUTPUT, Server, Visit, free_port, serving, visiting
from tests.ui.test_explore_browser import TEXT_QUESTION, serious
from ui import text as words

pytestmark = pytest.mark.browser

ONLY_DROPPED = next(example.question for example in words.EXAMPLES["demo"] if example.kind == "pixels")
INK_AT_THE_EDGES = """() => {
    const { width, height } = document.querySelector("canvas");
    const pixels = (x) => document.querySelector("canvas").getContext("2d").getImageData(x, 0, 2, height).data;
    return [...pixels(0), ...pixels(width - 2)].filter((_, i) => i % 4 === 3 && _ > 0).length;
}"""


def drawing(visit: Visit) -> Frame:
    """The frame, drawn and at rest."""
    visit.graph_ready()
    return next(frame for frame in visit.page.frames if "fusebox/graph" in frame.url)


def edges(frame: Frame) -> int:
    frame.wait_for_selector("html[data-settled]")
    return int(frame.locator("html").get_attribute("data-drawn") or -1)


def press(visit: Visit, frame: Frame, item: str) -> None:
    """Click on a node, or on the middle of an edge."""
    visit.page.locator(".fb-graph iframe").scroll_into_view_if_needed()
    frame.wait_for_selector("html[data-settled]")
    frame.locator("canvas").click(position=frame.evaluate("(id) => placeOf(id)", item))


def test_what_was_dropped_is_drawn_reason_by_reason(visit: Visit) -> None:
    trace = visit.ask(TEXT_QUESTION)
    found = trace["evidence"]["graph"]
    frame = drawing(visit)
    shown = edges(frame)
    assert shown == len(found["facts"])
    for reason in found["rejected_counts"]:
        box = visit.page.locator(f'[data-layer="{reason}"]')
        box.check()
        listed = sum(one["reason"] == reason for one in found["rejected"])
        shown += min(12, listed)
        expect(frame.locator("html")).to_have_attribute("data-drawn", str(shown))
    box.uncheck()
    expect(frame.locator("html")).to_have_attribute("data-drawn", str(shown - min(12, listed)))


def test_an_edge_shows_its_sentence_and_leads_to_its_page(visit: Visit) -> None:
    page = visit.page
    trace = visit.ask(TEXT_QUESTION)
    frame = drawing(visit)
    fact = next(f for f in trace["evidence"]["graph"]["facts"] if f["text"] == "condition | known as | monoclonal")
    item = f"triple:{fact['triple_ids'][0]}"
    press(visit, frame, item)
    said = page.locator("#graph [data-graph-said] .fb-said")
    expect(said).to_contain_text("sent as G")
    assert said.locator("mark.subject").all_inner_texts() == ["condition"]
    assert "monoclonal" in said.locator("mark.object").all_inner_texts()
    said.locator("[data-page]").click()
    expect(page.locator(f'#fb-dialog [data-box="{item}"]').first).to_be_visible()
    page.keyboard.press("Escape")


def test_a_node_shows_its_neighbours_and_takes_them_away_again(visit: Visit) -> None:
    page = visit.page
    visit.ask(TEXT_QUESTION)
    frame = drawing(visit)
    before = edges(frame)
    chip = page.locator("#graph .fb-entity", has_text="mgus2 data set")
    press(visit, frame, chip.get_attribute("data-node") or "")
    section = page.locator("#graph section.fb-around")
    expect(section).to_contain_text("all 3")
    expect(chip).to_have_attribute("aria-pressed", "true")
    page.locator("#graph .fb-entity", has_text="subjects").click()
    expect(section.first).to_contain_text("showing 30 of")
    expect(frame.locator("html")).not_to_have_attribute("data-drawn", str(before))
    assert edges(frame) >= 30
    node = chip.get_attribute("data-node") or ""
    fitted = frame.locator("html").get_attribute("data-scale") or ""
    page.get_by_role("button", name="Zoom the drawing in").click()
    expect(frame.locator("html")).to_have_attribute(
        "data-scale", re.compile("|".join(f"{1.4 * float(fitted) + d:.3f}" for d in (-0.001, 0.0, 0.001)))
    )
    page.get_by_role("button", name="Fit the drawing").click()
    expect(frame.locator("html")).to_have_attribute("data-scale", fitted)
    press(visit, frame, node)
    expect(section).to_have_count(1)
    section.get_by_role("button", name="Take these neighbours away").click()
    expect(section).to_have_count(0)
    expect(frame.locator("html")).to_have_attribute("data-drawn", str(before))
    expect(page.locator("#graph .fb-entity", has_text="subjects")).to_be_focused()


def test_the_tables_do_by_keyboard_what_the_drawing_does(visit: Visit) -> None:
    page = visit.page
    visit.ask(TEXT_QUESTION)
    drawing(visit)
    relation = page.locator("#graph tr.fb-item .fb-relation").first
    relation.focus()
    page.keyboard.press("Enter")
    row = page.locator("#graph tr.fb-item + tr.fb-said-row")
    expect(row.locator("mark.subject").first).to_be_visible()
    expect(relation).to_have_attribute("aria-expanded", "true")
    page.keyboard.press("Tab")
    while not row.locator(".fb-neighbour").first.evaluate("one => one === document.activeElement"):
        assert page.evaluate("document.activeElement.closest('#graph') !== null")
        page.keyboard.press("Tab")
    page.keyboard.press("Space")
    expect(page.locator("#graph section.fb-around")).to_be_visible()
    expect(page.locator("[data-graph-status]")).to_contain_text("Neighbours of")
    relation.focus()
    page.keyboard.press("Enter")
    expect(row).to_have_count(0)


def test_the_other_mode_is_looked_up_and_set(visit: Visit) -> None:
    page = visit.page
    trace = visit.ask(TEXT_QUESTION)
    assert trace["system"]["graph_mode"] == "provenance"
    page.locator("#graph [data-other-mode=bridge]").click()
    expect(page.locator("#graph .fb-other")).to_contain_text("Bridged passages: 2 instead of 0")
    page.locator("#graph [data-other-mode=open]").click()
    expect(page.locator("#graph .fb-other[data-mode=open]")).to_contain_text("Looked up just now")
    expect(page.locator("#graph [data-other-mode][aria-expanded=true]")).to_have_count(1)
    page.locator("#graph [data-set-mode]").click()
    expect(page.locator("#graph [data-mode-set]")).to_be_visible()
    assert visit.ask()["system"]["graph_mode"] == "open"
    expect(page.locator("#graph .fb-mode")).to_contain_text("Facts from everywhere")


@pytest.mark.parametrize(("scheme", "width"), [("light", 1440), ("dark", 390)])
def test_bridged_passages_are_shown_with_their_way(browser: Browser, app: Server, scheme: str, width: int) -> None:
    size = {"width": width, "height": 1060}
    with visiting(browser, app.url, color_scheme=scheme, viewport=size) as window:
        window.url = f"{app.url}/?graph_mode=bridge"
        page = window.open().page
        trace = window.ask(TEXT_QUESTION)
        bridges = trace["evidence"]["graph"]["bridges"]
        rows = page.locator("#graph .fb-bridges tr.fb-item")
        expect(rows).to_have_count(len(bridges))
        frame = drawing(window)
        drawn = frame.locator("html").get_attribute("data-names") or ""
        tags = {item: tag for tag, item in trace["prompt"]["tags"].items()}
        assert all(f"{tags[bridge['hit']['item_id']]}: passage of" in drawn for bridge in bridges)
        rows.first.locator(".fb-relation").first.click()
        expect(page.locator("#graph .fb-bridges .fb-said-row blockquote")).to_be_visible()
        assert serious(page) == []
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        inside = "(part) => part.getBoundingClientRect().right <= part.closest('#graph').getBoundingClientRect().right"
        parts = page.locator("#graph .fb-bridges :is(.fb-meta, .fb-meta > *, .fb-way, .fb-passage, .fb-ranks)")
        assert all(part.evaluate(inside) for part in parts.all())
        OUTPUT.mkdir(parents=True, exist_ok=True)
        page.locator("#graph").screenshot(path=OUTPUT / f"bridges-{scheme}-{width}.png")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_serious_axe_violation_with_everything_open(browser: Browser, app: Server, scheme: str) -> None:
    with visiting(browser, app.url, color_scheme=scheme, reduced_motion="reduce") as window:
        page = window.open().page
        window.ask(TEXT_QUESTION)
        frame = drawing(window)
        page.locator("#graph .fb-entity").first.click()
        expect(page.locator("#graph .fb-around")).to_be_visible()
        page.locator("#graph tr.fb-item .fb-relation").first.click()
        expect(page.locator("#graph .fb-said")).to_be_visible()
        page.locator("#graph [data-other-mode]").first.click()
        expect(page.locator("#graph .fb-other")).to_be_visible()
        page.locator("#graph .fb-dropped > summary").click()
        edges(frame)
        assert serious(page) == []
        assert window.watch == type(window.watch)()


def test_no_label_is_cut_at_the_edge_of_a_phone(browser: Browser, app: Server) -> None:
    with visiting(browser, app.url, viewport={"width": 390, "height": 844}) as window:
        window.open().ask(ONLY_DROPPED)
        frame = drawing(window)
        assert edges(frame) == 12 and frame.evaluate(INK_AT_THE_EDGES) == 0
        window.ask(TEXT_QUESTION)
        frame = drawing(window)
        expect(frame.locator("html")).to_have_attribute("data-drawn", "5")
        assert edges(frame) == 5 and frame.evaluate(INK_AT_THE_EDGES) == 0
        window.page.locator("#graph .fb-entity").first.click()
        expect(window.page.locator("#graph .fb-around")).to_be_visible()
        expect(frame.locator("html")).to_have_attribute("data-drawn", "35")
        edges(frame)
        assert frame.evaluate(INK_AT_THE_EDGES) == 0
        assert window.page.evaluate("document.documentElement.scrollWidth") <= 390


# --- names that nobody should trust ------------------------------------------------------------------------------------

NAMES = {
    "markup": f"O {ATTACK}",
    "quotes": "\" onmouseover=\"window.pwned=1\" ' onfocus='window.pwned=1' x=`",
    "href": "javascript:window.pwned=1",
    "closing": "</script></title></iframe><svg/onload=parent.pwned=1>",
    "controls": "a\x00b\x01c\x1b[31md\x7fe\u2028f",
    "right to left": "\u202eevil\u202c \u0627\u0644\u0639\u0631\u0628\u064a\u0629 \u2066x",
    "long": "pneumonoultramicroscopic" * 209,
}


@pytest.fixture(scope="module")
def named_app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The page over a corpus whose entities have names that try something."""
    folder: Path = tmp_path_factory.mktemp("named") / "corpus"
    text = "The glioma trial enrolled 37 patients. " + " ".join(NAMES.values())[:2000]
    save_corpus(
        folder,
        name="named",
        kind="text",
        documents=[Document("d", "T", "d.pdf", 1, "0" * 64, "CC0-1.0")],
        pages=[CorpusPage("d_p001", "d", 1, 612.0, 792.0, "")],
        regions=[],
        chunks=[Chunk("d_p001_c00", "d_p001", text, 0)],
        crops=[],
        triples=[Triple("glioma trial", f"r {name}", name, "d_p001_c00", "d_p001", "hand") for name in NAMES.values()],
        images=tmp_path_factory.mktemp("none"),
    )
    port = free_port()
    with serving("-m", "tests.ui.server", str(folder), str(port), port=port) as server:
        yield server


def test_nothing_runs_whatever_an_entity_is_called(browser: Browser, named_app: Server) -> None:
    with visiting(browser, named_app.url) as window:
        page = window.open().page
        trace = window.ask("How many patients did the glioma trial enroll?")
        assert len(trace["evidence"]["graph"]["facts"]) == len(NAMES)
        frame = drawing(window)
        for fact in trace["evidence"]["graph"]["facts"]:
            item = f"triple:{fact['triple_ids'][0]}"
            press(window, frame, item)
            expect(page.locator("#graph [data-graph-said] .fb-said")).to_have_attribute("data-fact", item)
            box = page.locator("#graph [data-graph-said] .fb-neighbour").last
            box.click()
            expect(page.locator("#graph section.fb-around")).to_contain_text("all 1")
            edges(frame)
            box.click()
            expect(page.locator("#graph section.fb-around")).to_have_count(0)
        hover(page)
        assert page.evaluate("window.pwned") is None and frame.evaluate("window.pwned") is None
        assert page.locator("#graph a, #graph img, #graph script").count() == 0
        assert page.evaluate("document.documentElement.scrollWidth") <= 1440
        assert window.watch == type(window.watch)()


def hover(page: Page) -> None:
    """Over the whole drawing, so that every tooltip has been up."""
    box = page.locator(".fb-graph iframe").bounding_box()
    assert box
    for x in range(10, int(box["width"]), 40):
        for y in range(10, int(box["height"]), 40):
            page.mouse.move(box["x"] + x, box["y"] + y)

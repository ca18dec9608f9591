"""The Explore page in a real browser."""

from __future__ import annotations

import itertools
import json
import re
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.ui.conftest import ATTACK, OUTPUT, ROOT, SETTLED, Server, Visit, free_port, serving, visiting
from tests.ui.controls import TEXT_QUESTION, radio
from ui import text as words

pytestmark = pytest.mark.browser

FIGURE_QUESTION = "How many patients fall in node 6 of the conditional inference tree for the GBSG2 data?"
EVERYTHING_STORED = """async () => {
    const stores = [JSON.stringify(localStorage), JSON.stringify(sessionStorage), document.cookie, location.href];
    const done = (request) => new Promise((resolve, reject) => {
        request.onsuccess = () => resolve(request.result);
        request.onerror = reject;
    });
    for (const { name } of await indexedDB.databases()) {
        const db = await done(indexedDB.open(name));
        for (const store of db.objectStoreNames)
            stores.push(JSON.stringify(await done(db.transaction(store).objectStore(store).getAll())));
    }
    return stores.join("\\n");
}"""
AXE = (ROOT / "tests" / "vendor" / "axe.min.js").read_text("utf-8")


# --- asking ----------------------------------------------------------------------------------------------------------


def test_an_example_is_asked_answered_and_accounted_for(visit: Visit) -> None:
    page = visit.page
    expect(page.locator("#answer [data-state=empty]")).to_be_visible()
    page.get_by_role("button", name="size of a data set").click()
    page.wait_for_selector(SETTLED)
    visit.wait_for_another("")
    assert page.input_value("#question textarea") == TEXT_QUESTION
    trace = visit.trace()
    assert trace["question"] == TEXT_QUESTION and trace["system"]["name"] == "+both"
    expect(page.locator("#answer")).to_contain_text("1384")
    expect(page.locator("#answer")).to_contain_text(trace["evidence"]["gate"]["reason"])
    expect(page.locator("#counters")).to_contain_text("nothing leaves this machine")
    expect(page.locator("#text .fb-count")).to_contain_text(f"{len(trace['evidence']['text']['hits'])} of")
    expect(page.locator("#visual .fb-count")).to_contain_text(f"{len(trace['evidence']['visual']['hits'])} of")
    expect(page.locator("#text li.fb-item").first.locator("mark.fb-hit").first).to_be_visible()
    expect(page.locator("#fb-live")).to_contain_text("1384")
    assert page.locator("#text .fb-tag").all_inner_texts() == [t for t in trace["prompt"]["tags"] if t.startswith("T")]


@pytest.mark.parametrize("key", ["Enter", "Control+Enter"])
def test_the_keyboard_asks(visit: Visit, key: str) -> None:
    assert visit.ask(TEXT_QUESTION, key)["question"] == TEXT_QUESTION


def test_the_trace_downloads_under_a_name_that_tells(visit: Visit) -> None:
    trace = visit.ask(TEXT_QUESTION)
    with visit.page.expect_download() as started:
        visit.page.click("#fb-trace")
    assert (
        started.value.suggested_filename.startswith("fusebox-") and "mgus" not in started.value.suggested_filename[:12]
    )
    assert json.loads(Path(started.value.path()).read_text("utf-8")) == trace


def test_the_prompt_is_shown_as_sent(visit: Visit) -> None:
    trace = visit.ask(TEXT_QUESTION)
    visit.page.click("#prompt summary")
    shown = visit.page.locator("#prompt pre").evaluate_all("all => all.map(one => one.textContent)")
    assert shown == [segment["text"] for segment in trace["prompt"]["segments"]]


def test_a_branch_that_is_off_says_so_in_its_column(visit: Visit) -> None:
    radio("#preset", "baseline")(visit.page)
    visit.ask(TEXT_QUESTION)
    for column in ("#graph", "#visual"):
        expect(visit.page.locator(column)).to_contain_text("Off: switch")


# --- stop, failure, abstention ---------------------------------------------------------------------------------------


def test_stop_ends_the_answer_and_leaves_nothing_behind(visit: Visit, app: Server) -> None:
    page = visit.page
    radio("#generator", "Endless")(page)
    page.fill("#question textarea", TEXT_QUESTION)
    page.press("#question textarea", "Enter")
    expect(page.locator("#answer [data-state=streaming]")).to_contain_text("word word")
    expect(page.locator("#ask")).to_be_hidden()
    visit.shot("stop")
    page.click("#stop")
    expect(page.locator("#answer [data-state=stopped]")).to_contain_text("You stopped this answer")
    assert "0 open" in app.read_until("closed,")
    expect(page.locator("#ask")).to_be_visible()
    radio("#generator", "Extractive")(page)
    visit.ask(TEXT_QUESTION)
    expect(page.locator("#answer [data-state=answered]")).to_contain_text("1384")


def test_a_failure_looks_different_and_keeps_the_evidence(visit: Visit) -> None:
    radio("#generator", "Failing")(visit.page)
    visit.ask(TEXT_QUESTION)
    card = visit.page.locator("#answer [data-state=error]")
    expect(card.get_by_role("alert")).to_contain_text("The provider hung up; ask again")
    expect(card).to_contain_text("Half an ans")
    visit.shot("error")


def test_a_closed_window_leaves_nothing_running(browser: Browser, app: Server) -> None:
    with visiting(browser, app.url) as window:
        page = window.open().page
        radio("#generator", "Endless")(page)
        page.fill("#question textarea", TEXT_QUESTION)
        page.press("#question textarea", "Enter")
        expect(page.locator("#answer [data-state=streaming]")).to_contain_text("word word")
    assert "0 open" in app.read_until("closed,")


def test_a_bug_is_said_to_be_one_and_the_page_goes_on(browser: Browser, app: Server) -> None:
    with visiting(browser, app.url) as window:
        page = window.open().page
        radio("#generator", "Broken")(page)
        page.fill("#question textarea", TEXT_QUESTION)
        page.press("#question textarea", "Enter")
        expect(page.locator("#answer [data-state=error]")).to_contain_text("Fusebox itself failed")
        radio("#generator", "Extractive")(page)
        assert window.ask(TEXT_QUESTION)["generator"] == "extractive"


def test_an_empty_question_is_answered_with_what_to_do(visit: Visit) -> None:
    visit.page.click("#ask")
    expect(visit.page.locator("#answer [data-state=error]")).to_contain_text("type one, or pick an example")
    expect(visit.page.locator("#ask")).to_be_visible()


def test_an_abstention_is_no_answer_and_no_failure(visit: Visit) -> None:
    visit.ask(words.EXAMPLES["demo"][-1].question)
    expect(visit.page.locator("#answer [data-state=abstained]")).to_contain_text("abstention, not a failure")
    visit.shot("abstention")


def test_the_gates_signals_stay_as_the_person_left_them(visit: Visit) -> None:
    fold = visit.page.locator("#answer .fb-gate details")
    visit.ask(TEXT_QUESTION)
    expect(fold).not_to_have_attribute("open", "")
    fold.locator("summary").click()
    expect(fold).to_have_attribute("open", "")
    visit.ask(FIGURE_QUESTION)
    expect(fold).to_have_attribute("open", "")
    fold.locator("summary").click()
    visit.ask(TEXT_QUESTION)
    expect(fold).not_to_have_attribute("open", "")


def test_the_graph_switch_says_what_the_graph_mode_adds(visit: Visit) -> None:
    note = visit.page.locator("#switch-graph")
    expect(note).to_contain_text(words.GRAPH_NOTES["provenance"])
    visit.page.get_by_role("button", name="Retrieval settings").click()
    visit.page.locator("#graph-mode label", has_text=words.GRAPH_MODES["bridge"]).click()
    expect(note).to_contain_text(words.GRAPH_NOTES["bridge"])
    expect(note.locator("input")).to_be_checked()
    visit.page.click("#reset")
    expect(note).to_contain_text(words.GRAPH_NOTES["provenance"])


# --- chips, graph, page viewer ---------------------------------------------------------------------------------------


def test_a_chip_jumps_to_its_item_and_flashes_it(visit: Visit) -> None:
    trace = visit.ask(TEXT_QUESTION)
    chip = visit.page.locator("#answer button.fb-tag").first
    item = trace["prompt"]["tags"][chip.inner_text()]
    chip.click()
    target = visit.page.locator(f'[data-item="{item}"]')
    expect(target).to_be_focused()
    expect(target).to_be_in_viewport()


def test_the_graph_is_drawn_in_a_frame_without_rights(visit: Visit) -> None:
    page = visit.page
    trace = visit.ask(TEXT_QUESTION)
    assert trace["evidence"]["graph"]["facts"]
    visit.graph_ready()
    frame = next(f for f in page.frames if "fusebox/graph" in f.url)
    assert frame.evaluate("self.origin") == "null"
    assert (
        frame.evaluate("() => { try { return String(parent.document) } catch (e) { return e.name } }")
        == "SecurityError"
    )
    assert frame.evaluate("fetch('/config').then(() => 'reached', () => 'refused')") == "refused"
    visit.watch.complaints.clear()  # the browser reports the refusal
    frame.wait_for_selector("canvas")
    assert int(frame.evaluate("document.documentElement.dataset.drawn")) >= len(trace["evidence"]["graph"]["facts"])
    rows = page.locator("#graph tr.fb-item")
    assert rows.count() == len(trace["evidence"]["graph"]["facts"])


def test_a_page_opens_with_boxes_steps_zooms_and_closes(visit: Visit) -> None:
    page = visit.page
    trace = visit.ask(TEXT_QUESTION)
    opener = page.locator("#text .fb-link").first
    opener.click()
    dialog = page.locator("#fb-dialog")
    expect(dialog.locator("img")).to_be_visible()
    first = trace["evidence"]["text"]["hits"][0]["item_id"]
    expect(dialog.locator(f'rect.text.focus[data-box="{first}"]').first).to_be_visible()
    colour = dialog.locator("rect.text.focus").first.evaluate("one => getComputedStyle(one).stroke")
    assert colour == "rgb(29, 95, 224)"
    visit.shot("page-viewer")
    title = dialog.locator("h2").inner_text()
    width = dialog.locator(".fb-paper").bounding_box()["width"]  # type: ignore[index]
    dialog.get_by_role("button", name="Zoom in").click()
    assert dialog.locator(".fb-paper").bounding_box()["width"] > width  # type: ignore[index]
    dialog.get_by_role("button", name="Fit").click()
    step = dialog.get_by_role("button", name="Next page")
    step.focus()
    page.keyboard.press("Enter")
    expect(dialog.locator("h2")).not_to_have_text(title)
    expect(dialog.get_by_role("button", name="Next page")).to_be_focused()
    page.keyboard.press("ArrowLeft")
    expect(dialog.locator("h2")).to_have_text(title)
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    expect(opener).to_be_focused()


def test_a_crop_opens_in_full_and_leads_to_its_page_by_keyboard(visit: Visit) -> None:
    page = visit.page
    visit.ask(FIGURE_QUESTION)
    crop = page.locator("#visual .fb-crop").first
    crop.focus()
    page.keyboard.press("Enter")
    dialog = page.locator("#fb-dialog")
    picture = dialog.locator(".fb-full .fb-paper img")
    expect(picture).to_be_visible()
    assert picture.evaluate("image => image.naturalWidth") == int(picture.get_attribute("width") or 0)
    width = picture.bounding_box()["width"]  # type: ignore[index]
    page.keyboard.press("+")
    assert picture.bounding_box()["width"] > width  # type: ignore[index]
    dialog.get_by_role("button", name="Its page").press("Enter")
    expect(dialog.locator("rect.visual.focus")).to_be_visible()
    page.get_by_role("button", name="Close").click()
    expect(crop).to_be_focused()


def test_a_licence_leads_to_its_document_on_about(visit: Visit) -> None:
    visit.ask(TEXT_QUESTION)
    visit.page.locator("#text .fb-licence").first.click()
    expect(visit.page.locator("tr[data-document]:focus")).to_contain_text("GPL")
    visit.shot("about", full_page=True)


# --- safety ----------------------------------------------------------------------------------------------------------


def test_a_hostile_question_is_text(visit: Visit) -> None:
    trace = visit.ask(f"How many patients? {ATTACK}")
    assert ATTACK in trace["question"]
    assert visit.page.evaluate("window.pwned") is None
    visit.page.click("#prompt summary")
    expect(visit.page.locator("#prompt pre").last).to_contain_text("<script>window.pwned=1")


def test_a_hostile_corpus_is_text(browser: Browser, hostile_app: Server) -> None:
    with visiting(browser, hostile_app.url) as window:
        page = window.open().page
        trace = window.ask("How many patients did the glioma trial enroll?")
        assert trace["evidence"]["graph"]["facts"]
        window.graph_ready()
        frame = next(f for f in page.frames if "fusebox/graph" in f.url)
        frame.wait_for_selector("canvas")
        page.mouse.move(*_middle(page, ".fb-graph iframe"))
        page.locator("#text .fb-link").first.click()
        expect(page.locator("#fb-dialog rect").first).to_be_visible()
        page.keyboard.press("Escape")
        page.get_by_role("tab", name="About").click()
        expect(page.locator("#about")).to_contain_text("<script>window.pwned=1")
        assert page.evaluate("window.pwned") is None and frame.evaluate("window.pwned") is None
        assert window.watch == type(window.watch)()


def _middle(page: Page, selector: str) -> tuple[float, float]:
    box = page.locator(selector).bounding_box()
    assert box
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def test_two_sessions_never_see_each_others_answers(browser: Browser, app: Server) -> None:
    with visiting(browser, app.url) as mine, visiting(browser, app.url) as yours:
        mine.open(), yours.open()
        mine.ask(TEXT_QUESTION)
        yours.page.locator("#question textarea").wait_for()
        expect(yours.page.locator("#answer [data-state=empty]")).to_be_visible()
        other = yours.ask(FIGURE_QUESTION)
        mine.page.locator("#text .fb-link").first.click()
        expect(mine.page.locator("#fb-dialog rect.text.focus").first).to_be_visible()
        assert yours.page.locator("#fb-dialog").count() == 0
        assert mine.trace()["id"] != other["id"]


def test_nothing_asked_stays_in_the_browser(visit: Visit) -> None:
    secret = "what is the zyzzyva dose"
    visit.ask(secret)
    assert "zyzzyva" not in visit.page.evaluate(EVERYTHING_STORED)


def test_no_endpoint_is_exposed_that_was_not_planned(app: Server) -> None:
    with urllib.request.urlopen(f"{app.url}/gradio_api/info") as answer:
        info = json.load(answer)
    assert set(info["named_endpoints"]) == {"/ask", "/compare", "/retrieve", "/corpus_info"}
    assert info["unnamed_endpoints"] == {}


def test_no_file_of_the_corpus_is_served(app: Server, demo_folder: Path) -> None:
    for file in (demo_folder / "manifest.json", ROOT / "app.py"):
        with pytest.raises(urllib.error.HTTPError):
            urllib.request.urlopen(f"{app.url}/gradio_api/file={file}")


# --- looks -----------------------------------------------------------------------------------------------------------


def serious(page: Page) -> list[str]:
    """axe-core's violations of level serious or critical."""
    page.evaluate(AXE)
    found = page.evaluate("axe.run(document, { resultTypes: ['violations'] })")["violations"]
    return [
        f"{v['id']} ({v['impact']}): {v['help']}: {[n['html'][:160] for n in v['nodes'][:4]]}"
        for v in found
        if v["impact"] in ("serious", "critical")
    ]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_serious_axe_violation(browser: Browser, app: Server, scheme: str) -> None:
    with visiting(browser, app.url, color_scheme=scheme, reduced_motion="reduce") as window:
        page = window.open().page
        assert serious(page) == []
        window.ask(TEXT_QUESTION)
        page.get_by_role("button", name="Retrieval settings").click()
        radio("#generator", "GPT-4o-mini")(page)
        page.get_by_role("button", name="Your own key").click()
        expect(page.locator(".fb-key input:visible")).to_be_visible()
        page.evaluate("document.querySelectorAll('#main details').forEach((fold) => (fold.open = true))")
        assert serious(page) == []
        page.locator("#text .fb-link").first.click()
        expect(page.locator("#fb-dialog img")).to_be_visible()
        assert serious(page) == []
        page.keyboard.press("Escape")
        radio("#generator", "Extractive")(page)
        window.ask(words.EXAMPLES["demo"][-1].question)
        assert serious(page) == []
        page.get_by_role("tab", name="About").click()
        expect(page.locator("#about")).to_be_visible()
        assert serious(page) == []
        assert window.watch.elsewhere == []


@pytest.mark.parametrize(("width", "height"), [(390, 844), (768, 1024), (1440, 1060), (1920, 1080)])
def test_nothing_sticks_out_at_any_width(browser: Browser, app: Server, width: int, height: int) -> None:
    with visiting(browser, app.url, viewport={"width": width, "height": height}) as window:
        page = window.open().page
        window.ask(FIGURE_QUESTION)
        if page.locator(".fb-graph iframe").count():
            window.graph_ready()
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        page.evaluate("scrollTo(0, 0)")
        window.shot(f"explore-{width}", full_page=True)
        page.get_by_role("tab", name="About").click()
        expect(page.locator("#about")).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        # What is cut off without a way to scroll there does not count towards the document's width.
        cards = page.locator("#about .fb-card").evaluate_all(
            "(all) => all.map((card) => card.getBoundingClientRect().right)"
        )
        assert cards and max(cards) <= width


def test_columns_stack_and_controls_come_first_on_a_phone(browser: Browser, app: Server) -> None:
    with visiting(browser, app.url, viewport={"width": 390, "height": 844}) as window:
        page = window.open().page
        window.ask(TEXT_QUESTION)
        tops = [
            page.locator(s).bounding_box()["y"]
            for s in ("#controls", "#question", "#answer", "#counters", "#text", "#graph", "#visual")
        ]  # type: ignore[index]
        assert tops == sorted(tops) and len(set(tops)) == len(tops)


def test_the_theme_follows_the_system_until_told_and_remembers(visit: Visit) -> None:
    page = visit.page
    dark = "document.body.classList.contains('dark')"
    assert page.evaluate(dark) is False
    page.emulate_media(color_scheme="dark")
    page.wait_for_function(dark)
    page.get_by_role("button", name="Switch between light and dark").click()
    page.wait_for_function(f"!{dark}")
    page.reload()
    page.wait_for_selector("#ask")
    assert page.evaluate(dark) is False
    visit.context.set_offline(True)
    page.get_by_role("button", name="Switch between light and dark").click()
    page.wait_for_function(dark)
    visit.context.set_offline(False)


def test_the_graph_is_that_of_the_last_question(visit: Visit) -> None:
    def drawn() -> str:
        visit.graph_ready()
        frame = next(f for f in visit.page.frames if "fusebox/graph" in f.url)
        frame.wait_for_selector("canvas")
        return str(frame.locator("html").get_attribute("data-names"))

    first = visit.ask(TEXT_QUESTION)
    assert first["evidence"]["graph"]["entities"][0] in drawn()
    other = visit.ask("What is meant by the sojourn time for a cause of death?")
    assert set(other["evidence"]["graph"]["entities"]) - set(first["evidence"]["graph"]["entities"])
    visit.page.wait_for_selector(".fb-graph iframe[data-ready]")
    frame = next(f for f in visit.page.frames if "fusebox/graph" in f.url)
    # By its markup, for the frame's policy lets no test evaluate an expression again and again.
    for entity in other["evidence"]["graph"]["entities"]:
        expect(frame.locator("html")).to_have_attribute("data-names", re.compile(re.escape(entity)))


@pytest.mark.parametrize("example", [0, 1, 4], ids=lambda number: words.EXAMPLES["demo"][number].kind)
def test_no_name_in_the_drawing_is_cut_or_lies_on_another_on_a_phone(
    browser: Browser, app: Server, example: int
) -> None:
    with visiting(browser, app.url, viewport={"width": 390, "height": 844}) as window:
        window.open().ask(words.EXAMPLES["demo"][example].question)
        window.graph_ready()
        frame = next(f for f in window.page.frames if "fusebox/graph" in f.url)
        width, height = frame.evaluate("[innerWidth, innerHeight]")
        boxes = frame.evaluate("boxes()")
        assert len(boxes) > 3
        for left, top, right, bottom in boxes:
            assert left >= 0 and top >= 0 and right <= width and bottom <= height
        for one, other in itertools.combinations(boxes, 2):
            apart = one[2] <= other[0] or other[2] <= one[0] or one[3] <= other[1] or other[3] <= one[1]
            assert apart, (one, other)


def test_torch_is_not_loaded_by_the_page_and_its_first_answer(visit: Visit, app: Server) -> None:
    visit.ask(TEXT_QUESTION)
    loaded = Path(f"/proc/{app.process.pid}/maps").read_text()
    assert "onnxruntime" in loaded and "libtorch" not in loaded


def test_nobody_can_leave_a_file_here(app: Server) -> None:
    body = b'--x\r\nContent-Disposition: form-data; name="files"; filename="a.txt"\r\n\r\nhello\r\n--x--\r\n'
    request = urllib.request.Request(
        f"{app.url}/gradio_api/upload", data=body, headers={"Content-Type": "multipart/form-data; boundary=x"}
    )
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(request)
    assert refused.value.code == 403


def test_the_graph_follows_the_theme(visit: Visit) -> None:
    page = visit.page
    assert visit.ask(TEXT_QUESTION)["evidence"]["graph"]["entities"]
    visit.graph_ready()
    page.get_by_role("button", name="Switch between light and dark").click()
    frame = next(f for f in page.frames if "fusebox/graph" in f.url)
    frame.wait_for_function("document.documentElement.style.colorScheme === 'dark'")


def test_the_keyboard_reaches_everything_in_order(visit: Visit) -> None:
    page = visit.page
    visit.ask(TEXT_QUESTION)
    page.locator("#question textarea").focus()
    expected = ["ask", "examples", "answer", "counters", "helped", "text", "graph", "visual", "prompt"]
    where = f"document.activeElement.closest('{', '.join(f'#{name}' for name in expected)}')?.id ?? ''"
    reached: list[str] = []
    while "prompt" not in reached and len(reached) < 200:
        page.keyboard.press("Tab")
        reached.append(page.evaluate(where))
    assert [name for name, _ in itertools.groupby(filter(None, reached))] == expected
    ring = "getComputedStyle(document.activeElement).outlineStyle"
    page.locator("#ask").focus()
    page.keyboard.press("Shift+Tab")
    assert page.evaluate(ring) == "solid"


def test_app_py_serves_the_corpus_of_the_environment(demo_folder: Path) -> None:
    port = free_port()
    with (
        serving("app.py", port=port, FUSEBOX_CORPUS=str(demo_folder), FUSEBOX_PORT=str(port)) as server,
        urllib.request.urlopen(server.url) as answer,
    ):
        assert "Fusebox" in answer.read().decode("utf-8")


def test_app_py_says_what_is_wrong_and_ends(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="holds no corpus"):
        port = free_port()
        with serving("app.py", port=port, FUSEBOX_CORPUS=str(tmp_path), FUSEBOX_PORT=str(port)):
            pass


def test_screenshots_were_kept() -> None:
    assert {p.name for p in OUTPUT.glob("*.png")} >= {"explore-390.png", "explore-1440.png", "page-viewer.png"}

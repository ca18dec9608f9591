"""The Corpus page in a real browser: look around, switch, and documents of one's own from upload to answer."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pymupdf
import pytest
from PIL import Image, ImageDraw, ImageFont
from playwright.sync_api import Browser, Page, Route, expect

from rag.corpus import open_corpus, save_corpus
from rag.ingest.languages import data_folder
from tests.ui.conftest import Server, Visit, free_port, serving, visiting
from tests.ui.test_explore_browser import serious
from ui import text as words

pytestmark = pytest.mark.browser

BUILD_MS = 180_000
"""Two cores may be busy with other things."""

SCANNED = (
    "The lighthouse of Brindlemoor\nwas built in 1874 by Harriet Olsen.\nIts lamp burned 312 litres of oil a year."
)


@pytest.fixture(scope="module")
def temporary(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("uploads")


@pytest.fixture(scope="module")
def own_app(
    demo_folder: Path, small_folder: Path, tmp_path_factory: pytest.TempPathFactory, temporary: Path
) -> Iterator[Server]:
    """The page with a second corpus, and little room for visitors' documents."""
    small = open_corpus(small_folder)
    second = save_corpus(
        tmp_path_factory.mktemp("second") / "corpus",
        name="glioma",
        kind="pdf",
        documents=list(small.documents.values()),
        pages=small.pages.values(),
        regions=small.regions.values(),
        chunks=small.chunks.values(),
        crops=small.crops.values(),
        triples=small.triples,
        images=small.root,
    )
    port, data = free_port(), tmp_path_factory.mktemp("tessdata")
    # English under a second name: a second language need not be installed.
    for name, model in (("eng", "eng"), ("deu", "eng"), ("osd", "osd")):
        (data / f"{name}.traineddata").symlink_to(data_folder() / f"{model}.traineddata")
    env = {
        "FUSEBOX_CORPORA": str(second), "FUSEBOX_MAX_MB": "2", "TMPDIR": str(temporary),
        "FUSEBOX_LANGUAGES": "eng+deu+tlh", "TESSDATA_PREFIX": str(data),
    }  # fmt: skip
    with serving("-m", "tests.ui.server", str(demo_folder), str(port), port=port, **env) as server:
        yield server


@pytest.fixture
def visit(browser: Browser, own_app: Server) -> Iterator[Visit]:
    with visiting(browser, own_app.url) as window:
        window.open().page.get_by_role("tab", name="Corpus").click()
        expect(window.page.locator("#corpus-page .fb-paper img")).to_be_visible()
        yield window
        assert window.watch.elsewhere == []
        assert window.watch.complaints == []
        assert window.watch.dialogs == []


@pytest.fixture(scope="module")
def scan(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A PDF of one picture of a typed page."""
    page = Image.new("RGB", (1654, 2339), "white")
    font = ImageFont.load_default(52)
    ImageDraw.Draw(page).multiline_text((150, 260), SCANNED, fill="black", font=font, spacing=30)
    file = tmp_path_factory.mktemp("scan") / "lighthouse.pdf"
    page.save(file, resolution=200)
    return file


def long_pdf(folder: Path, pages: int) -> Path:
    document = pymupdf.open()
    for n in range(pages):
        document.new_page().insert_textbox((72, 72, 520, 700), f"Page {n}: the harbour cost {n} crowns. " * 40)
    document.save(folder / "long.pdf")
    return folder / "long.pdf"


def upload(page: Page, *files: Path) -> None:
    page.set_input_files("[data-files]", files)


def files_in(folder: Path) -> list[Path]:
    """Of visitors; libraries keep files of theirs in the temporary folder too."""
    return [path for path in folder.glob("fusebox-uploads.*/**/*") if path.is_file()]


def wait_until(page: Page, holds: Callable[[], bool]) -> None:
    """Look once a frame."""
    for _ in range(1_800):
        if holds():
            return
        page.evaluate("new Promise(requestAnimationFrame)")
    raise AssertionError("it never came to hold")


# --- looking ---------------------------------------------------------------------------------------------------------


def test_pages_are_found_opened_and_stepped_through_by_keyboard(visit: Visit) -> None:
    page = visit.page
    page.fill("#corpus-form input", "monoclonal gammopathy")
    page.keyboard.press("Enter")
    listed = page.locator(".fb-corpus-list[data-listed='monoclonal gammopathy']")
    expect(listed.locator("mark").first).to_be_visible()
    first = listed.locator("li button").first
    first.focus()
    page.keyboard.press("Enter")
    expect(listed.locator("button[aria-current]").first).to_be_focused()
    shown = page.locator("[data-shown-page]")
    before = shown.get_attribute("data-shown-page")
    page.get_by_role("button", name="Page after").focus()
    page.keyboard.press("Enter")
    expect(shown).not_to_have_attribute("data-shown-page", str(before))
    expect(page.get_by_role("button", name="Page after")).to_be_focused()
    page.get_by_role("button", name="All pages").click()
    expect(page.locator(".fb-page-tiles li")).to_have_count(24)
    page.get_by_role("button", name="Last entries").click()
    expect(page.locator("#corpus-list .fb-count")).to_contain_text("of 339")
    expect(page.get_by_role("button", name="Next entries")).to_be_disabled()


def test_a_page_asked_for_while_another_is_on_its_way_is_shown(visit: Visit) -> None:
    page, held = visit.page, list[Route]()
    tiles = page.locator(".fb-page-tiles button")
    wanted = json.loads(tiles.nth(5).get_attribute("data-browse") or "")["page"]
    page.route("**/run/predict*", lambda route: held.append(route), times=1)
    with page.expect_request("**/run/predict*"):
        tiles.nth(2).click()
    tiles.nth(5).click()
    held[0].continue_()
    expect(page.locator("[data-shown-page]")).to_have_attribute("data-shown-page", wanted)
    expect(tiles.nth(5)).to_have_attribute("aria-current", "true")


def test_kinds_of_region_are_shown_and_hidden(visit: Visit) -> None:
    page = visit.page
    page.select_option("#corpus-form [name=scope]", "pages")
    page.fill("#corpus-form input", "party-party_p007")
    page.keyboard.press("Enter")
    page.locator(".fb-corpus-list[data-listed='party-party_p007'] li button").click()
    figures = page.locator("#corpus-page g.k-figure")
    expect(figures.first).to_be_visible()
    page.locator(".fb-kinds input[value=figure]").uncheck()
    expect(figures.first).to_be_hidden()
    expect(page.locator("#corpus-page g.k-text").first).to_be_visible()
    page.locator("#corpus-page [data-crop]").first.click()
    expect(page.locator("#fb-dialog img")).to_be_visible()


def test_another_corpus_empties_the_page_and_refuses_answers_of_the_one_before(visit: Visit) -> None:
    page = visit.page
    page.get_by_role("tab", name="Explore").click()
    visit.ask("What does one dose of the BCG vaccine cost?")
    expect(page.locator("#history .fb-count").first).to_have_text("1")
    page.select_option("[data-corpus-choice]", label="Glioma")
    expect(page.locator("#answer [data-state=empty]")).to_be_visible()
    expect(page.locator("#header")).to_contain_text("1 document · 2 pages")
    expect(page.locator("#examples")).to_be_hidden()
    assert page.locator("#fb-trace").count() == 0 and page.locator("#generator .fb-tokens").count() == 0
    visit.ask("How many women did the GBSG2 study recruit?")
    expect(page.locator("#answer")).to_contain_text("686")
    page.click("#history summary")
    page.locator("#history [data-restore]").last.click()
    expect(page.locator("#history .fb-told.bad")).to_contain_text("This answer is of the corpus demo-")
    page.get_by_role("tab", name="About").click()
    expect(page.locator("#about")).to_contain_text("glioma")
    page.get_by_role("tab", name="Compare").click()
    expect(page.locator("#compare-picker")).to_be_hidden()
    page.select_option("[data-corpus-choice]", label="Demo")
    expect(page.locator("#compare-picker")).to_be_visible()
    page.get_by_role("tab", name="Explore").click()
    expect(page.locator("#examples")).to_be_visible()


# --- own documents ---------------------------------------------------------------------------------------------------


def test_a_scan_is_read_asked_about_and_gone_with_the_session(
    browser: Browser, own_app: Server, scan: Path, temporary: Path
) -> None:
    with visiting(browser, own_app.url) as other:
        other.open()
        with visiting(browser, own_app.url) as window:
            page = window.open().page
            page.get_by_role("tab", name="Corpus").click()
            expect(page.locator("#corpus-upload")).to_contain_text("Run `sudo apt-get install tesseract-ocr-tlh`.")
            page.locator("[data-languages] summary").click()
            page.get_by_label("German").check()
            expect(page.locator("[data-languages-told]")).to_have_text("English, German")
            page.get_by_label("English").uncheck()
            page.get_by_label("German").click()  # one at least
            expect(page.locator("[data-languages-told]")).to_have_text("German")
            upload(page, scan)
            expect(page.locator(".fb-stages .now")).to_contain_text("Read pages")
            expect(page.locator("[data-built]")).to_contain_text("read by OCR (German)", timeout=BUILD_MS)
            expect(page.locator("#header")).to_contain_text("1 document · 1 page")
            expect(page.locator("[data-shown-page] .fb-meta")).to_contain_text("read by OCR")
            window.shot("corpus-upload")
            page.get_by_role("button", name=words.BUILT_ASK).click()
            expect(page.locator("#question textarea")).to_be_focused()
            trace = window.ask("Who built the lighthouse of Brindlemoor?")
            assert "Harriet Olsen" in trace["generation"]["text"]
            page.locator("#text .fb-link").first.click()
            expect(page.locator("#fb-dialog rect.mark").first).to_be_visible()
            page.keyboard.press("Escape")
            assert files_in(temporary)
            other.page.reload()
            other.page.wait_for_selector("#ask")
            assert "Yours" not in other.page.locator("#header").inner_text()
            answer = other.ask("Who built the lighthouse of Brindlemoor?")
            assert "Olsen" not in answer["generation"]["text"]
            assert window.watch.complaints == []
        wait_until(other.page, lambda: files_in(temporary) == [])


def test_what_is_too_large_is_refused_before_it_is_sent(visit: Visit, tmp_path: Path, temporary: Path) -> None:
    file = tmp_path / "large.pdf"
    file.write_bytes(b"%PDF" + bytes(3_000_000))
    upload(visit.page, file)
    told = visit.page.locator("[data-upload-told]")
    expect(told).to_contain_text("These have 4 MB; all files together may have 2 MB (FUSEBOX_MAX_MB)")
    upload(visit.page, *(_small(tmp_path, n) for n in range(21)))
    expect(told).to_contain_text("at most 20 are taken (FUSEBOX_MAX_FILES)")
    assert files_in(temporary) == []


def _small(folder: Path, number: int) -> Path:
    file = folder / f"{number}.png"
    picture = io.BytesIO()
    Image.new("RGB", (8, 8)).save(picture, "PNG")
    file.write_bytes(picture.getvalue())
    return file


def test_the_servers_own_refusal_is_shown(visit: Visit, tmp_path: Path) -> None:
    file = tmp_path / "<img src=x onerror=alert(1)>.docx"
    file.write_bytes(b"x")
    # Chromium logs every answer of status 400 as an error of the page.
    upload(visit.page, file)
    expect(visit.page.locator("[data-upload-told].bad")).to_contain_text(
        "onerror=alert(1)>.docx is no PDF, PNG, JPEG or TIFF"
    )
    assert all("400" in complaint for complaint in visit.watch.complaints)
    visit.watch.complaints.clear()


def test_stop_ends_the_reading_and_deletes(visit: Visit, tmp_path: Path, temporary: Path) -> None:
    page = visit.page
    upload(page, long_pdf(tmp_path, 80))
    expect(page.locator("#corpus-build .fb-count")).to_contain_text("pages", timeout=BUILD_MS)
    page.get_by_role("button", name="Stop", exact=True).locator("visible=true").click()
    expect(page.locator("[data-built]")).to_contain_text(words.BUILD_STOPPED)
    wait_until(page, lambda: files_in(temporary) == [])
    expect(page.locator("#header")).to_contain_text("339 pages")


def test_the_process_takes_the_documents_with_it(demo_folder: Path, scan: Path, tmp_path: Path) -> None:
    port = free_port()
    with serving("-m", "tests.ui.server", str(demo_folder), str(port), port=port, TMPDIR=str(tmp_path)) as server:
        headers = {"Content-Type": "application/octet-stream", "X-Fusebox-Session": "s", "X-Fusebox-Name": "a.pdf"}
        reply = httpx.post(f"{server.url}/fusebox/upload", content=scan.read_bytes(), headers=headers)
        assert reply.json() == {"files": 1} and len(files_in(tmp_path)) == 1
    assert list(tmp_path.glob("fusebox-uploads.*")) == []


def test_an_operator_can_switch_documents_off(browser: Browser, demo_folder: Path) -> None:
    port = free_port()
    with (
        serving("-m", "tests.ui.server", str(demo_folder), str(port), port=port, FUSEBOX_UPLOADS="0") as server,
        visiting(browser, server.url) as window,
    ):
        page = window.open().page
        page.get_by_role("tab", name="Corpus").click()
        expect(page.locator("#corpus-upload")).to_contain_text(words.UPLOAD_OFF)
        assert page.locator("[data-files]").count() == 0
        headers = {"Content-Type": "application/octet-stream", "X-Fusebox-Session": "s", "X-Fusebox-Name": "a.pdf"}
        reply = httpx.post(f"{server.url}/fusebox/upload", content=b"%PDF", headers=headers)
        assert reply.status_code == 400 and "switched adding documents off" in reply.json()["error"]


# --- everybody -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("scheme", "width"), [("light", 1440), ("dark", 390)])
def test_no_serious_axe_violation_and_nothing_wider_than_the_screen(
    browser: Browser, own_app: Server, scheme: str, width: int
) -> None:
    size = {"width": width, "height": 900}
    with visiting(browser, own_app.url, color_scheme=scheme, viewport=size, reduced_motion="reduce") as window:
        page = window.open().page
        page.get_by_role("tab", name="Corpus").click()
        expect(page.locator("#corpus-page .fb-paper img")).to_be_visible()
        page.fill("#corpus-form input", "happiness tree")
        page.select_option("#corpus-form [name=scope]", "crops")
        page.locator("#corpus-list.fb-view .fb-found button").first.click()
        expect(page.locator(".fb-found button[aria-current]").first).to_be_visible()
        page.locator("[data-languages] summary").click()
        assert serious(page) == []
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        window.shot(f"corpus-{scheme}-{width}", full_page=width < 800)


def test_nothing_of_a_hostile_corpus_runs(browser: Browser, hostile_app: Server) -> None:
    with visiting(browser, hostile_app.url) as window:
        page = window.open().page
        page.get_by_role("tab", name="Corpus").click()
        expect(page.locator("[data-shown-page] .fb-part.graph li")).to_contain_text("onerror")
        page.fill("#corpus-form input", "glioma <img src=x onerror='window.pwned=1'>")
        page.keyboard.press("Enter")
        expect(page.locator("#corpus-list .fb-found li")).to_have_count(1)
        page.locator("#corpus-list .fb-found button").click()
        expect(page.locator(".fb-found button[aria-current]")).to_be_visible()
        assert page.evaluate("window.pwned") is None and window.watch.elsewhere == []
        assert page.locator("#corpus img[src=x]").count() == 0

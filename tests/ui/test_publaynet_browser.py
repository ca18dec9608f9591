"""Twenty pages of PubLayNet, from the folder with its annotation file to answers in the page."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from rag.corpus import open_corpus
from rag.ingest.build import ingest
from tests.ui.conftest import Server, Visit, free_port, serving, visiting

EXAMPLES = Path(__file__).resolve().parents[3] / "shared" / "data" / "publaynet-examples"
TABLE_PAGE = "PMC3863500_00003"

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(not EXAMPLES.is_dir(), reason="needs ../shared/data/publaynet-examples"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("publaynet") / "corpus"
    ingest([EXAMPLES], place, kind="publaynet", name="publaynet")
    return place


@pytest.fixture(scope="module")
def publaynet_app(folder: Path) -> Iterator[Server]:
    port = free_port()
    with serving("-m", "tests.ui.server", str(folder), str(port), port=port) as server:
        yield server


@pytest.fixture
def visit(browser: Browser, publaynet_app: Server) -> Iterator[Visit]:
    with visiting(browser, publaynet_app.url) as window:
        yield window.open()
        assert (window.watch.elsewhere, window.watch.complaints, window.watch.dialogs) == ([], [], [])


def test_every_annotated_page_figure_and_table_goes_in_under_its_stem(folder: Path) -> None:
    coco = json.loads((EXAMPLES / "samples.json").read_text())
    names = {category["id"]: category["name"] for category in coco["categories"]}
    annotated = Counter(names[annotation["category_id"]] for annotation in coco["annotations"])
    corpus = open_corpus(folder)
    assert set(corpus.pages) == {Path(image["file_name"]).stem for image in coco["images"]}
    assert {page.source for page in corpus.pages.values()} == {"annotated ocr"}
    assert Counter(crop.kind for crop in corpus.crops.values()) == {
        kind: annotated[kind] for kind in ("figure", "table")
    }


def test_regions_of_a_page_are_shown_as_annotated(visit: Visit) -> None:
    page = visit.page
    page.get_by_role("tab", name="Corpus").click()
    page.select_option("#corpus-form [name=scope]", "pages")
    page.fill("#corpus-form input", TABLE_PAGE)
    page.keyboard.press("Enter")
    page.locator(f".fb-corpus-list[data-listed='{TABLE_PAGE}'] li button").first.click()
    shown = page.locator(f"[data-shown-page='{TABLE_PAGE}']")
    expect(shown.locator(".fb-meta")).to_contain_text("regions given, text by OCR")
    expect(shown.locator("g.k-table")).to_have_count(1)
    visit.shot("publaynet-corpus")


@pytest.mark.parametrize(
    ("question", "answer", "page_id", "crop_id"),
    [
        ("Which muscle has its insertion at ribs 9-12?", "Serratus anterior", TABLE_PAGE, f"{TABLE_PAGE}_table0"),
        (
            "Which generation of the fusion protein has a bacterial or viral effector in the figure of immunotoxins?",
            "3rd generation",
            "PMC5618295_00004",
            "PMC5618295_00004_figure0",
        ),
        (
            "Which assessment should have a consequence in rehabilitation programs for scoliosis?",
            "introversion trait",
            "PMC5678782_00005",
            "",
        ),
    ],
)
def test_questions_are_answered_and_the_page_opens_with_its_marks(
    visit: Visit, question: str, answer: str, page_id: str, crop_id: str
) -> None:
    trace = visit.ask(question)
    assert answer in trace["generation"]["text"]
    assert crop_id in (trace["evidence"]["visual"]["hits"][0]["item_id"], "")
    visit.page.locator("#text .fb-link", has_text=page_id[:10]).first.click()
    expect(visit.page.locator("#fb-dialog rect.mark").first).to_be_visible()
    visit.shot(f"publaynet-{page_id}")

"""Events of the Corpus page, without a browser."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gradio as gr
import numpy as np
import pymupdf
import pytest
from PIL import Image
from starlette.applications import Starlette
from starlette.testclient import TestClient

from rag.corpus import Corpus, open_corpus
from rag.encoders import CLIP_WEIGHTS, MINILM
from rag.errors import CorpusError
from rag.ingest.languages import Offer, data_folder, offered
from rag.ingest.limits import Limits
from rag.keys import SessionKeys
from rag.types import Crop
from tests.test_text_index import Initials
from tests.ui.test_corpus_shelf import foreign_folder, named_folder  # noqa: F401  fixtures
from ui import corpus_desk as module
from ui import text as words
from ui.corpus_desk import OUTPUTS, SEARCH_DEPTH, CorpusDesk, found, read_browse
from ui.handlers import OUTPUTS as EXPLORE
from ui.handlers import Handlers
from ui.keydesk import COOKIE, KeyDesk
from ui.shelf import Shelf
from ui.tabs.compare import choices_of
from ui.uploads import UPLOAD_URL, Uploads
from ui.views import corpus as view
from ui.views.corpus import PER_LIST, Browse


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where uploads go."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def desk_of(corpus: Corpus, *folders: Path, allowed: bool = True, **limits: int) -> CorpusDesk:
    keys = KeyDesk(SessionKeys(), ())
    handlers = Handlers(Shelf(corpus, folders=folders), desk=keys)
    desk = CorpusDesk(handlers, Uploads(keys, Limits(**limits), allowed), choices_of)
    handlers.left = desk.leave
    return desk


class Visitor:
    """A browser with a page open."""

    def __init__(self, desk: CorpusDesk, session: str = "a") -> None:
        self.desk, self.session = desk, session
        self.browser = TestClient(Starlette(routes=[desk.uploads.route()]))

    @property
    def request(self) -> gr.Request:
        cookies = {COOKIE: self.browser.cookies.get(COOKIE, "")}
        return SimpleNamespace(session_hash=self.session, request=SimpleNamespace(cookies=cookies))  # type: ignore[return-value]

    def send(self, content: bytes, name: str) -> dict[str, Any]:
        headers = {
            "content-type": "application/octet-stream",
            "x-fusebox-session": self.session,
            "x-fusebox-name": name,
        }
        reply: dict[str, Any] = self.browser.post(UPLOAD_URL, content=content, headers=headers).json()
        return reply

    def build(self, *languages: str) -> Iterator[dict[str, Any]]:
        return map(named, self.desk.build(self.request, event({"languages": list(languages)})))


def event(data: object) -> gr.EventData:
    return SimpleNamespace(_data=data)  # type: ignore[return-value]


def named(update: tuple[Any, ...]) -> dict[str, Any]:
    """What an update changes, by name; Explore's with ``explore.`` before it."""
    rest = len(update) - len(EXPLORE)
    names = [*OUTPUTS, *(f"other{n}" for n in range(rest - len(OUTPUTS))), *(f"explore.{name}" for name in EXPLORE)]
    return {n: v for n, v in zip(names, update, strict=True) if not (isinstance(v, dict) and v == gr.skip())}


def pdf(pages: int = 2) -> bytes:
    document = pymupdf.open()
    for n in range(pages):
        text = f"Page {n + 1}. The lighthouse of Brindlemoor was built in {1874 + n} by Harriet Olsen. It stands by the sea."
        document.new_page().insert_text((72, 100), text)
    return bytes(document.tobytes())


# --- looking ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "sent", [None, 5, [], {"q": None, "scope": ["x"], "start": "1"}, {"start": -1}, {"start": True}, {"start": 10**9}]
)
def test_what_a_browser_sends_is_brought_within_bounds(sent: object) -> None:
    assert read_browse(sent) == Browse()


def test_long_words_are_cut() -> None:
    assert len(read_browse({"q": "x" * 10_000}).q) == module.MAX_TEXT


def test_pages_by_document_and_by_name(small: Corpus) -> None:
    assert found(small, Browse()) == tuple(small.pages)
    assert found(small, Browse(document="nothing")) == ()
    assert found(small, Browse(q="P002", scope="pages")) == ("glioma_p002",)
    assert found(small, Browse(q="glioma.PDF", scope="pages")) == tuple(small.pages)


def test_search_is_by_the_corpuss_own_rankers(small: Corpus, demo: Corpus) -> None:
    assert found(small, Browse(q="How many women did the GBSG2 study recruit?"))[0] == "glioma_p002_c02"
    assert found(small, Browse(q="median survival by histology", scope="crops"))[0] == "glioma_p001_table0"
    assert len(found(demo, Browse(q="survival"))) == SEARCH_DEPTH
    inside = found(demo, Browse(q="survival", document="party-party"))
    assert len(inside) == min(SEARCH_DEPTH, sum(c.page_id.startswith("party-party") for c in demo.chunks.values()))
    assert all(demo.chunks[i].page_id.startswith("party-party") for i in inside)


def test_a_list_has_so_many_entries_and_leads_to_the_others(demo: Corpus) -> None:
    desk = desk_of(demo)
    listed, page = desk.browse(Visitor(desk).request, event({"start": PER_LIST, "page": "party-party_p007"}))
    assert f"{PER_LIST + 1}–{2 * PER_LIST} of {len(demo.pages)}" in listed
    starts = [json.loads(sent).get("start", 0) for sent in _attributes(listed, "data-browse")]
    assert {0, 2 * PER_LIST, len(demo.pages) // PER_LIST * PER_LIST} <= set(starts)
    assert 'data-shown-page="party-party_p007"' in page
    assert page.count("data-region=") == len(demo.regions_on("party-party_p007"))
    for crop in demo.crops_on("party-party_p007"):
        assert f'data-crop="{crop.id}"' in page
    listed, page = desk.browse(Visitor(desk).request, event({"q": "zzz", "scope": "pages"}))
    assert words.NOT_FOUND in listed and isinstance(page, dict)


def test_a_page_that_is_not_there_says_so(small: Corpus) -> None:
    desk = desk_of(small)
    _, page = desk.browse(Visitor(desk).request, event({"page": "<b>"}))
    assert words.NO_SUCH_PAGE in page


def _attributes(html: str, name: str) -> list[str]:
    values: list[str] = []

    class Reader(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            values.extend(value or "" for key, value in attrs if key == name)

    Reader().feed(html)
    return values


# --- choosing --------------------------------------------------------------------------------------------------------


def test_choosing_empties_the_answers_and_shows_the_other_corpus(small: Corpus, named_folder: Path) -> None:  # noqa: F811
    desk = desk_of(small, named_folder)
    desk.examples = (small.id,)
    second = desk.handlers.shelf.choices("a")[1].id
    turn = desk.handlers.turn("a")
    changed = named(desk.choose(Visitor(desk).request, event({"corpus": second})))
    assert set(OUTPUTS) <= set(changed)
    assert f'<option value="{second}" selected>Second' in changed["header"]
    assert changed["other0"] == gr.update(visible=False)
    assert changed["explore.trace"] is None and "2 pages" in changed["header"]
    assert desk.handlers.turn("a") > turn


@pytest.mark.parametrize("sent", [None, {}, {"corpus": "elsewhere"}, {"corpus": ["x"]}])
def test_a_corpus_that_is_not_there_changes_nothing_else(small: Corpus, sent: object) -> None:
    desk = desk_of(small)
    changed = named(desk.choose(Visitor(desk).request, event(sent)))
    assert set(changed) == {"notice"} and "no such corpus" in changed["notice"]


def test_a_corpus_of_another_encoder_offers_to_be_indexed_and_is(small: Corpus, foreign_folder: Path) -> None:  # noqa: F811
    desk = desk_of(small, foreign_folder)
    foreign = desk.handlers.shelf.choices("a")[1].id
    visitor = Visitor(desk)
    offered = named(desk.choose(visitor.request, event({"corpus": foreign})))["notice"]
    assert "--add-text" in offered and _attributes(offered, "data-index") == ["text"]
    assert str(foreign_folder) not in offered
    *_, last = map(named, desk.index(visitor.request, event({"index": "text", "corpus": foreign})))
    assert words.INDEX_DONE in last["state"] and last["notice"] == ""
    assert desk.handlers.shelf.of("a").text_encoder_id == MINILM
    assert {e.encoder for e in open_corpus(foreign_folder, MINILM).manifest.indices} == {MINILM, Initials.id}


def test_where_visitors_may_not_build_only_the_command_is_named(small: Corpus, foreign_folder: Path) -> None:  # noqa: F811
    desk = desk_of(small, foreign_folder, allowed=False)
    foreign = desk.handlers.shelf.choices("a")[1].id
    offered = named(desk.choose(Visitor(desk).request, event({"corpus": foreign})))["notice"]
    assert "--add-text" in offered and _attributes(offered, "data-index") == []
    (only,) = map(named, desk.index(Visitor(desk).request, event({"index": "text", "corpus": foreign})))
    assert words.UPLOAD_OFF in only["notice"]


class Clip:
    """An image is what its mean colour is."""

    id = next(iter(CLIP_WEIGHTS))
    dimension = 512

    def encode_images(self, images: list[Image.Image]) -> np.ndarray:
        rows = np.ones((len(images), 512), dtype=np.float32)
        for row, image in enumerate(images):
            rows[row, 0] += np.asarray(image).mean()
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def test_a_missing_clip_index_is_built_where_clip_is_there(
    small_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus = open_corpus(shutil.copytree(small_folder, tmp_path / "corpus"))
    desk = desk_of(corpus)
    assert _attributes(view.state(corpus, own=False, may_build=True), "data-index") == []  # no weights here
    monkeypatch.setattr(view, "clip_absent", lambda encoder_id: "" if encoder_id == Clip.id else "absent")
    monkeypatch.setattr(module, "image_encoder", lambda encoder_id, download: Clip())
    assert _attributes(view.state(corpus, own=False, may_build=True), "data-index") == ["clip"]
    assert _attributes(view.state(corpus, own=False, may_build=False), "data-index") == []
    updates = [named(update) for update in desk.index(Visitor(desk).request, event({"index": "clip"}))]
    assert "encoded 2 of 2 crops" in "".join(update["state"] for update in updates)
    assert words.INDEX_DONE in updates[-1]["state"] and "data-index" not in updates[-1]["state"]
    assert desk.handlers.shelf.of("a").visual_encoder_ids == (Clip.id,)
    assert desk.handlers.shelf.default.visual_encoder_ids == (Clip.id,)


# --- own documents ---------------------------------------------------------------------------------------------------


def test_documents_become_a_corpus_of_this_session_until_it_ends(small: Corpus, temporary: Path) -> None:
    desk = desk_of(small)
    visitor, other = Visitor(desk), Visitor(desk, "b")
    visitor.send(pdf(), "../light<b>house.pdf")
    visitor.send(b"%PDF-1.4 nothing", "broken.pdf")
    updates = list(visitor.build())
    assert "data-building" in updates[0]["build"]
    last = updates[-1]
    assert "light&lt;b&gt;house.pdf" in last["build"] and "<b>house" not in last["build"]
    assert "2 ok" in last["build"] and "broken.pdf" in last["build"] and "document0" not in last["build"]
    corpus = desk.handlers.shelf.of("a")
    assert len(corpus.pages) == 2 and "Yours: light" in last["header"] and last["explore.trace"] is None
    assert desk.handlers.shelf.of("b") is small
    assert "Yours" not in "".join(str(c) for c in desk.handlers.shelf.choices("b"))
    refused = named(desk.choose(other.request, event({"corpus": corpus.id})))
    assert "no such corpus" in refused["notice"]
    assert not list(temporary.rglob("document01.pdf"))  # the originals are not kept
    stranger = Visitor(desk, "a")  # who knows the session's name
    assert "another browser" in stranger.desk.browse(stranger.request, event({}))[0]
    assert corpus.root.exists()
    desk.handlers.leave(visitor.request)
    assert not corpus.root.exists() and [p for p in temporary.rglob("*") if p.is_file()] == []


def test_deleting_ones_documents_shows_the_first_corpus_again(small: Corpus, temporary: Path) -> None:
    desk = desk_of(small)
    visitor = Visitor(desk)
    picture = pymupdf.open(stream=pdf(1))[0].get_pixmap(dpi=200).tobytes("png")
    visitor.send(picture, "scan.png")
    *_, last = visitor.build()
    corpus = desk.handlers.shelf.of("a")
    assert "read by OCR (English)" in last["build"] and "lighthouse" in corpus.page_text("document01_p001")
    changed = named(desk.remove(visitor.request, event({"remove": corpus.id})))
    assert words.OWN_REMOVED in changed["build"] and desk.handlers.shelf.of("a") is small
    assert not corpus.root.exists()


@pytest.mark.parametrize(
    ("content", "name", "limits", "says"),
    [
        (b"%PDF-1.4 nothing", "broken.pdf", {}, "broken.pdf"),
        (
            pdf(3),
            "three.pdf",
            {"pages": 2},
            "three.pdf: 1 pages were left out; at most 2 are taken (FUSEBOX_MAX_PAGES)",
        ),
    ],
)
def test_what_can_not_be_taken_in_is_named(
    small: Corpus, temporary: Path, content: bytes, name: str, limits: dict[str, int], says: str
) -> None:
    desk = desk_of(small, **limits)
    visitor = Visitor(desk)
    visitor.send(content, name)
    *_, last = visitor.build()
    assert says in last["build"]
    desk.handlers.leave(visitor.request)
    assert [p for p in temporary.rglob("*") if p.is_file()] == []


def test_a_language_that_is_not_here_is_named_with_its_package(small: Corpus, temporary: Path) -> None:
    desk = desk_of(small)
    visitor = Visitor(desk)
    visitor.send(pdf(), "a.pdf")
    (only,) = visitor.build("eng", "tlh")
    assert "no language &#x27;tlh&#x27; here" in only["build"] and "apt-get install tesseract-ocr-tlh`" in only["build"]
    (only,) = visitor.build("../../etc")
    assert "is no language name" in only["build"]
    for sent in ([*"abcde"], ["a+b+c+d+e"]):
        (only,) = visitor.build(*sent)
        assert words.SCANS_TOO_MANY.format(most=4) in only["build"]
    *_, last = visitor.build()  # what was sent is still there
    assert "2 ok" in last["build"]


def test_scans_are_read_in_the_languages_that_were_chosen(
    small: Corpus, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """German is English under another name here: a second one need not be installed for the test."""
    data = temporary / "tessdata"
    data.mkdir()
    for name in ("eng", "deu"):
        (data / f"{name}.traineddata").symlink_to(data_folder() / "eng.traineddata")
    monkeypatch.setenv("TESSDATA_PREFIX", str(data))
    desk = desk_of(small)
    desk.uploads.languages = offered(("deu", "eng", "fra"))
    assert desk.uploads.languages.names == ("deu", "eng")
    assert "Run `sudo apt-get install tesseract-ocr-fra`." in desk.uploads.languages.missing
    visitor = Visitor(desk)
    picture = pymupdf.open(stream=pdf(1))[0].get_pixmap(dpi=200).tobytes("png")
    for chosen, told in (((), "(German)"), (("eng", "deu"), "(English, German)")):
        visitor.send(picture, "scan.png")
        *_, last = visitor.build(*chosen)
        assert f"read by OCR {told}" in last["build"]
        assert "lighthouse" in desk.handlers.shelf.of("a").page_text("document01_p001")
    desk.handlers.leave(visitor.request)


def test_the_card_offers_the_languages_that_are_here() -> None:
    several = view.upload(Limits(), True, [".pdf"], Offer(("deu", "eng", "tlh")))
    assert _attributes(several, "value") == ["deu", "eng", "tlh", "0"]  # the last is the bar's
    assert "<b data-languages-told>German</b>" in several and several.count(" checked") == 1
    alone = view.upload(Limits(), True, [".pdf"], Offer(("eng",), "Tesseract has no <b>."))
    assert "checkbox" not in alone and "English" in alone and "Tesseract has no &lt;b&gt;." in alone
    assert "read here, only PDFs with a text layer" in view.upload(Limits(), True, [".pdf"], Offer((), "Nothing."))


def test_one_waits_for_the_other_and_can_stop(small: Corpus, temporary: Path) -> None:
    desk = desk_of(small)
    ticket = object()
    desk._line.join(ticket)  # somebody else's documents
    visitor = Visitor(desk)
    visitor.send(pdf(), "a.pdf")
    updates = visitor.build()
    assert "data-building" in next(updates)["build"]
    assert "1 other visitor first" in next(updates)["build"]
    (twice,) = visitor.build()
    assert words.BUILD_RUNNING in twice["build"]
    desk.stop(visitor.request, event({"stop": "build"}))
    assert [words.BUILD_STOPPED in update["build"] for update in updates] == [True]
    assert desk._line.ahead(ticket) == 0 and desk._builds == {}
    assert [p for p in temporary.rglob("*") if p.is_file()] == []


def test_a_corpus_makes_room_for_another_visitors_unless_it_is_just_being_made(small: Corpus, temporary: Path) -> None:
    desk = desk_of(small)
    visitor = Visitor(desk)
    visitor.send(pdf(1), "a.pdf")
    updates = visitor.build()
    next(updates)
    desk.uploads.crowded_out("a")  # too early
    *_, last = updates
    assert "1 ok" in last["build"]
    own = desk.handlers.shelf.of("a")
    desk.uploads.crowded_out("a")
    assert not own.root.exists() and [p for p in temporary.rglob("*") if p.is_file()] == []
    with pytest.raises(CorpusError, match="after ten idle minutes where others need the place; add them again"):
        desk.handlers.shelf.of("a")
    assert desk.handlers.shelf.choices("a")[1:] == ()


def test_nothing_sent_nothing_built(small: Corpus) -> None:
    (only,) = Visitor(desk_of(small)).build()
    assert "no documents to read" in only["build"]


def test_a_page_closed_while_it_builds_leaves_nothing(small: Corpus, temporary: Path) -> None:
    desk = desk_of(small)
    visitor = Visitor(desk)
    visitor.send(pdf(30), "a.pdf")
    updates = visitor.build()
    next(updates)
    desk.handlers.leave(visitor.request)
    *_, last = updates
    assert words.BUILD_STOPPED in last["build"]
    assert desk.handlers.shelf.choices("a")[1:] == ()
    assert [p for p in temporary.rglob("*") if p.is_file()] == []


def test_a_bug_is_said_and_blocks_nobody(small: Corpus, temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: CorpusDesk, build: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(CorpusDesk, "_ingested", broken)
    desk = desk_of(small)
    visitor = Visitor(desk)
    visitor.send(pdf(), "a.pdf")
    *_, last = visitor.build()
    assert words.BUILD_BUG in last["build"] and desk._builds == {} and not desk._line._waiting
    assert [p for p in temporary.rglob("*") if p.is_file()] == []


# --- drawing ---------------------------------------------------------------------------------------------------------


def test_kinds_of_region_have_letters_and_a_legend(demo: Corpus) -> None:
    kinds = {region.kind for region in demo.regions.values()}
    assert kinds <= set(view._GROUP_OF)
    page = view.page(demo, Browse(page="party-party_p012"), [])
    assert ">figure</text>" in page and 'input type="checkbox" value="figure" checked' in page
    letters = [group.letters for group in view.GROUPS.values()]
    assert len(set(letters)) == len(letters)


def test_a_crop_without_a_caption_says_so(small: Corpus) -> None:
    crop: Crop = small.crops["glioma_p002_figure0"]
    assert crop.caption == ""
    assert words.NO_CAPTION in view.page(small, Browse(page=crop.page_id), [])

"""The page viewer on words with known places: what is marked, where, and what turned pages and odd crop boxes do to it."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pymupdf
import pytest

from rag import prompt
from rag.corpus import Corpus, open_corpus
from rag.ingest.build import ingest
from rag.systems import SYSTEMS
from rag.types import Evidence, Fused, Generation, Hit, Page, TextEvidence, Trace, Word
from tests.ui.traces import trace
from ui.views import corpus as corpus_view
from ui.views import marks, page

WIDTH, LINE = 5.0, 12.0


def laid_out(text: str, left: float, top: float, per_line: int) -> tuple[Word, ...]:
    """Words of a text in lines of ``per_line`` words; a character is 5 points wide, a line 10 high and 12 from the next."""
    placed, starts = [], [match.start() for match in re.finditer(r"\S+", text)]
    for number, match in enumerate(re.finditer(r"\S+", text)):
        line = number // per_line
        begun = starts[line * per_line]
        x0 = left + WIDTH * (match.start() - begun)
        y0 = top + LINE * line
        placed.append(Word(*match.span(), (x0, y0, x0 + WIDTH * len(match.group()), y0 + 10)))
    return tuple(placed)


@pytest.fixture
def lined(small: Corpus, monkeypatch: pytest.MonkeyPatch) -> Corpus:
    """The small corpus with its first page in lines of six words from (72, 72)."""
    words = {"glioma_p001": laid_out(small.page_text("glioma_p001"), 72.0, 72.0, 6)}
    monkeypatch.setattr(Corpus, "words_on", lambda self, page_id: words.get(page_id, ()))
    return small


def test_the_cited_words_are_marked_one_box_a_line(lined: Corpus) -> None:
    """Line 1: The glioma trial enrolled 37 patients. Line 2: Radioimmunotherapy was compared with standard care"""
    found = page.cited(trace(lined, "enrolled 37 patients. Radioimmunotherapy was compared [T1]"), lined, "glioma_p001")
    # cited is what stands between the sentence before and the tag
    assert [(m.branch, m.item_id, m.bbox) for m in found] == [
        ("text", "glioma_p001_c00", (72.0, 84.0, 72.0 + WIDTH * 31, 94.0))
    ]
    found = page.cited(
        trace(lined, "it enrolled 37 patients Radioimmunotherapy was compared [T1]"), lined, "glioma_p001"
    )
    start = 72 + WIDTH * len("The glioma trial ")
    assert [m.bbox for m in found] == [
        (start, 72.0, start + WIDTH * len("enrolled 37 patients."), 82.0),
        (72.0, 84.0, 72 + WIDTH * len("Radioimmunotherapy was compared"), 94.0),
    ]
    document = page.render(trace(lined, "it enrolled 37 patients [T1]"), lined, "glioma_p001")
    assert document.count('<rect class="mark text"') == 1 and "words the answer took" in document


def test_nothing_is_marked_that_nobody_cites_or_whose_place_is_unknown(lined: Corpus, small: Corpus) -> None:
    assert page.cited(trace(lined, "37 patients"), lined, "glioma_p001") == ()
    assert page.cited(trace(lined, "37 patients [T1]"), lined, "glioma_p002") == ()
    assert page.cited(None, lined, "glioma_p001") == ()


def test_a_fact_is_boxed_by_its_sentence_and_by_its_passage_where_words_are_unknown(lined: Corpus) -> None:
    """triple:0 is stated in the first sentence, which is the first line; the second page has no words."""
    drawn = page.boxes(trace(lined), lined, "glioma_p001")
    assert [b.bbox for b in drawn if b.item_id == "triple:0"] == [
        (72.0, 72.0, 72 + WIDTH * len("The glioma trial enrolled 37 patients."), 82.0)
    ]
    elsewhere = page.boxes(trace(lined), lined, "glioma_p002", "triple:2")
    assert [(b.label, b.sent, b.bbox) for b in elsewhere if b.branch == "graph"] == [
        ("dropped", False, (72.0, 152.0, 540.0, 184.0))
    ]


def test_a_fact_stated_twice_is_boxed_twice(small: Corpus) -> None:
    shown = trace(small)
    twice = replace(shown.evidence.graph.facts[0], triple_ids=(0, 1))
    graph = replace(shown.evidence.graph, facts=(twice,))
    drawn = page.boxes(replace(shown, evidence=replace(shown.evidence, graph=graph)), small, "glioma_p001")
    assert {(b.item_id, b.bbox[1]) for b in drawn if b.branch == "graph"} == {("triple:0", 72.0), ("triple:0", 112.0)}


@pytest.mark.parametrize(
    ("focus", "label", "branch"),
    [
        ("triple:3", "dropped", "graph"),
        ("glioma_p001_c01", "chunk", "text"),
        ("glioma_p001_table0", "crop", "visual"),
    ],
)
def test_what_was_clicked_is_boxed_even_if_the_answer_did_without_it(
    small: Corpus, focus: str, label: str, branch: str
) -> None:
    shown = trace(small)
    bare = replace(shown, evidence=replace(shown.evidence, text=None, visual=None))
    asked = [b for b in page.boxes(bare, small, "glioma_p001", focus) if b.item_id == focus]
    assert [(b.label, b.branch, b.sent) for b in asked] == [(label, branch, False)]
    assert page.boxes(None, small, "glioma_p001", focus)
    assert re.search(rf'<rect class="{branch}( unsent)? focus', page.render(bare, small, "glioma_p001", focus))


@pytest.mark.parametrize(
    "focus", ["triple:", "triple:x", "triple:-1", "triple:4", "triple:²", "triple:" + "9" * 5_000, "nothing", "<b>"]
)
def test_a_focus_that_is_no_item_draws_nothing(small: Corpus, focus: str) -> None:
    assert page.boxes(None, small, "glioma_p001", focus) == ()


def test_what_was_sent_from_other_pages_is_one_click_away(small: Corpus) -> None:
    document = page.render(trace(small), small, "glioma_p001")
    assert re.findall(r'data-page="(\w+)" data-focus="(\w+)" title="[^"]+">(\w+)<', document) == [
        ("glioma_p002", "glioma_p002_c02", "T3")
    ]


def test_words_of_a_crop_are_marked_where_they_are_text_of_the_page(
    small: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The table's box is (72, 300, 400, 400): words of the page's text that stand there count as the table's."""
    text = small.page_text("glioma_p001")
    words = tuple(
        replace(w, bbox=(w.bbox[0], w.bbox[1] + 230, w.bbox[2], w.bbox[3] + 230)) for w in laid_out(text, 72, 72, 6)
    )
    monkeypatch.setattr(Corpus, "words_on", lambda self, page_id: words)
    found = page.cited(trace(small, "it enrolled 37 patients [V1]"), small, "glioma_p001")
    start = 72 + WIDTH * len("The glioma trial ")
    assert [(m.branch, m.bbox) for m in found] == [
        ("visual", (start, 302.0, start + WIDTH * len("enrolled 37 patients."), 312.0))
    ]  # fmt: skip


# --- lines -----------------------------------------------------------------------------------------------------------


def test_words_of_two_columns_and_of_two_lines_stay_apart() -> None:
    words = (
        Word(0, 3, (10, 10, 40, 20)),
        Word(4, 7, (45, 11, 70, 20)),  # a space away, a point lower
        Word(8, 9, (300, 10, 320, 20)),  # another column
        Word(10, 12, (10, 22, 40, 32)),  # the next line
    )
    assert marks.line_boxes(words) == ((10, 10, 70, 20), (300, 10, 320, 20), (10, 22, 40, 32))


def test_lines_of_a_turned_page_run_up_and_down() -> None:
    words = (
        Word(0, 3, (10, 70, 20, 100)),
        Word(4, 7, (10, 40, 20, 65)),  # reading upwards
        Word(8, 12, (22, 70, 32, 100)),  # the next line, to the right
    )
    assert marks.line_boxes(words) == ((10, 40, 20, 100), (22, 70, 32, 100))
    # "31" alone is as high as it is wide; the page says how it runs
    assert marks.line_boxes((Word(0, 1, (10, 10, 15, 20)), Word(2, 3, (17, 10, 22, 20))), words[:0]) != ()
    upright = (Word(0, 9, (10, 10, 90, 20)),)
    assert marks.line_boxes((Word(0, 1, (10, 10, 15, 20)), Word(2, 3, (17, 10, 22, 20))), upright) == (
        (10, 10, 22, 20),
    )


# --- pages that are shown turned, or cut ------------------------------------------------------------------------------

SENTENCE = "The trial enrolled exactly 4711 volunteers."
FILLER = "Nothing of interest happened during the remaining months of the year. "
# /Rotate, a crop box elsewhere, and whether the words were written so that they run to the right once the page is turned.
CASES = [
    (0, False, True),
    (0, True, True),
    (90, False, False),
    (90, True, False),
    (180, True, False),
    (270, True, False),
    (90, False, True),
    (90, True, True),
    (180, False, True),
    (270, True, True),
]


@pytest.fixture(scope="module")
def turned(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    """Pages with the sentence in bold black among grey text, one for each of ``CASES``."""
    folder = tmp_path_factory.mktemp("turned")
    with pymupdf.open() as source, pymupdf.open() as document:
        upright = source.new_page(width=500, height=400)
        upright.insert_textbox((120, 90, 420, 140), FILLER * 2, fontsize=11, color=(0.6, 0.6, 0.6))
        upright.insert_text((120, 180), SENTENCE, fontname="hebo", fontsize=11)
        upright.insert_textbox((120, 210, 420, 280), FILLER * 3, fontsize=11, color=(0.6, 0.6, 0.6))
        for rotation, cut, as_shown in CASES:
            quarter = as_shown and rotation % 180
            sheet = document.new_page(width=400 if quarter else 500, height=500 if quarter else 400)
            sheet.show_pdf_page(sheet.rect, source, 0, rotate=rotation if as_shown else 0)
            if cut:
                left, top, right, bottom = sheet.rect
                sheet.set_cropbox(pymupdf.Rect(left + 60, top + 50, right - 30, bottom - 60))
            sheet.set_rotation(rotation)
        document.save(folder / "turned.pdf")
    ingest([folder / "turned.pdf"], folder / "corpus", kind="pdf", workers=1)
    return open_corpus(folder / "corpus")


def citing(corpus: Corpus, page_id: str) -> Trace:
    """An answer that cites the chunk of the page that holds the sentence."""
    chunk = next(c for c in corpus.chunks_on(page_id) if "4711" in c.text)
    found = Evidence(text=TextEvidence((Fused(chunk.id, 1, 1.0, (Hit(chunk.id, "text", "dense", 1, 1.0),)),), "dense"))
    sent = prompt.build("How many?", found, corpus)
    answer = f"{SENTENCE.rstrip('.')} [T1]"
    shown = Trace("0" * 32, "2026-11-30", "How many?", SYSTEMS["baseline"], "extractive", corpus.id, found, sent)
    return replace(
        shown, generation=Generation(answer, finish="stop"), citations=prompt.parse_citations(answer, sent.tags)
    )


@pytest.mark.parametrize("number", range(1, len(CASES) + 1), ids=map(str, CASES))
def test_marks_lie_on_the_ink_of_the_cited_words(turned: Corpus, number: int) -> None:
    """The cited sentence is all that is black on the page: its marks hold every black pixel, and they are as tight as a line."""
    shown = turned.pages[f"turned_p{number:03d}"]
    found = page.cited(citing(turned, shown.id), turned, shown.id)
    assert found
    ink = np.asarray(turned.image(shown.image).convert("L")) < 90
    down, across = ink.shape[0] / shown.height_pt, ink.shape[1] / shown.width_pt
    assert abs(down - across) < 0.05 * down
    marked = np.zeros_like(ink)
    for x0, y0, x1, y1 in (mark.bbox for mark in found):
        marked[round((y0 - 1) * down) : round((y1 + 1) * down), round((x0 - 1) * across) : round((x1 + 1) * across)] = (
            True
        )
    assert ink.sum() > 500
    assert (ink & marked).sum() / ink.sum() > 0.995
    assert all(min(m.bbox[2] - m.bbox[0], m.bbox[3] - m.bbox[1]) < 20 for m in found)
    assert marked.mean() < 0.12
    document = page.render(citing(turned, shown.id), turned, shown.id)
    assert f'viewBox="0 0 {shown.width_pt:g} {shown.height_pt:g}"' in document


@pytest.mark.parametrize("number", range(1, len(CASES) + 1), ids=map(str, CASES))
def test_a_turned_page_is_shown_as_it_is_read(turned: Corpus, number: int) -> None:
    rotation, _, as_shown = CASES[number - 1]
    rotation = rotation if as_shown else 0
    shown = turned.pages[f"turned_p{number:03d}"]
    assert marks.turn(turned.words_on(shown.id), turned.page_text(shown.id)) == rotation
    document = page.render(citing(turned, shown.id), turned, shown.id)
    assert (f"--turn:{rotation}deg" in document) is ("matrix(" in document) is bool(rotation)
    browsed = corpus_view.page(turned, corpus_view.Browse(page=shown.id), [])
    assert (f"--turn:{rotation}deg" in browsed) is (f"rotate(-{rotation} " in browsed) is bool(rotation)


def test_labels_of_a_turned_page_stand_upright_at_the_shown_corner() -> None:
    """A 200 x 400 page shown turned by 90: the box (20, 300, 60, 380) is shown at (20, 20, 100, 60) of 400 x 200."""
    sheet = Page("p", "d", 1, 200.0, 400.0, "")
    drawn = page._turned_labels((page.Box("text", "c", "T1", (20, 300, 60, 380), True),), sheet, 90)
    assert '<g transform="matrix(0 -1 1 0 0 400)">' in drawn and '<rect x="20.0" y="9.0"' in drawn


@pytest.mark.parametrize("text", ["\u0645\u0631\u062d\u0628\u0627", "\u7e26\u66f8\u304d"])
def test_scripts_that_run_otherwise_are_left_as_they_are(text: str) -> None:
    leftwards = tuple(Word(i, i + 1, (100.0 - 10 * i, 10.0, 108.0 - 10 * i, 20.0)) for i in range(3))
    downwards = tuple(Word(i, i + 1, (10.0, 10.0 + 10 * i, 20.0, 18.0 + 10 * i)) for i in range(3))
    assert marks.turn(leftwards, text) == marks.turn(downwards, text) == 0
    assert marks.turn(leftwards, "abc") == 180 and marks.turn(downwards, "abc") == 270 and marks.turn((), "") == 0


def test_credits_of_any_length_leave_room_for_the_page(small: Corpus) -> None:
    document = replace(next(iter(small.documents.values())), authors="<i>" * 2_000, licence="L" * 5_000)
    told = page.credit(document)
    assert len(told) < 5_000 and "<i>" not in told and "&lt;i&gt;" in told

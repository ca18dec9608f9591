"""Makers of small files that are hard to read, or that mean harm. Each gives the bytes of a file, or writes it."""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path

import pymupdf
from PIL import Image

from rag.types import BBox
from tests.ingest.pages import BODY, blank, draw_plot, write_text

SIZE = (600.0, 800.0)
PLOT: BBox = (180, 270, 400, 400)
SQUARE: BBox = (370, 280, 390, 300)


def saved(page: pymupdf.Page, **options: object) -> bytes:
    """The document of the page as a file."""
    return bytes(page.parent.tobytes(**options))


def raw_pdf(*objects: bytes) -> bytes:
    """A PDF of objects 1, 2, ..., of which the first is the catalogue."""
    body, offsets = b"%PDF-1.7\n", []
    for number, content in enumerate(objects, start=1):
        offsets.append(len(body))
        body += b"%d 0 obj\n%s\nendobj\n" % (number, content)
    table = b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    count = len(objects) + 1
    return body + (
        b"xref\n0 %d\n0000000000 65535 f \n%strailer\n<</Size %d/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF\n"
        % (count, table, count, len(body))
    )


def stream(content: bytes, entries: bytes = b"") -> bytes:
    """A stream object."""
    return b"<<%s/Length %d>>\nstream\n%s\nendstream" % (entries, len(content), content)


# --- files that are locked, damaged or empty -------------------------------------------------------------------------


def encrypted(user: str) -> bytes:
    """A page of text, encrypted for this user password."""
    page = blank(*SIZE)
    write_text(page, (60, 60, 540, 140))
    return saved(page, encryption=pymupdf.PDF_ENCRYPT_AES_256, owner_pw="owner", user_pw=user)


def numbered_pages(count: int) -> bytes:
    """Pages of text, each of which says its number."""
    with pymupdf.open() as pdf:
        for number in range(1, count + 1):
            write_text(pdf.new_page(width=600, height=800), (60, 60, 540, 160), f"This is page {number}. {BODY}")
        return bytes(pdf.tobytes())


def no_pages() -> bytes:
    """A PDF whose page tree is empty."""
    return raw_pdf(b"<</Type/Catalog/Pages 2 0 R>>", b"<</Type/Pages/Kids[]/Count 0>>")


def empty_pages(count: int, side: int = 800) -> bytes:
    """So many square pages with nothing on them."""
    kids = b" ".join(b"%d 0 R" % number for number in range(3, count + 3))
    return raw_pdf(
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[%s]/Count %d/MediaBox[0 0 %d %d]>>" % (kids, count, side, side),
        *[b"<</Type/Page/Parent 2 0 R/Resources<<>>>>"] * count,
    )


# --- pages of odd shapes ---------------------------------------------------------------------------------------------


def turned(rotation: int, cropbox: str = "") -> bytes:
    """A page that shows upright after /Rotate: text, a plot with a filled blue square in its corner, a caption."""
    width, height = SIZE if rotation % 180 == 0 else SIZE[::-1]
    upright = blank(width, height)
    write_text(upright, (130, 130, 500, 240))
    draw_plot(upright, PLOT)
    upright.draw_rect(SQUARE, color=(0, 0, 1), fill=(0, 0, 1))
    upright.insert_text((180, 450), "Figure 1: Survival in the two arms.", fontname="tiro", fontsize=10)
    page = blank(*SIZE)
    page.show_pdf_page(page.rect, upright.parent, 0, rotate=rotation)
    page.set_rotation(rotation)
    if cropbox:
        page.parent.xref_set_key(page.xref, "CropBox", cropbox)
    return saved(page)


def five_metres() -> bytes:
    """A page of 5 x 5 m, which needs a /UserUnit, with text in proportion and in ordinary size."""
    page = blank(7087, 7087)  # of 2 points each
    write_text(page, (500, 500, 6500, 2500), size=100)
    write_text(
        page, (500, 3000, 1600, 3200), "The small print of the plan says that the bridge is forty metres long.", 24
    )
    page.parent.xref_set_key(page.xref, "UserUnit", "2")
    return saved(page)


def large_png(side: int) -> bytes:
    """A white image of side x side pixels in one bit each, made without having it in memory."""
    row, packer = b"\0" + b"\xff" * (-(-side // 8)), zlib.compressobj(1)
    data = b"".join(packer.compress(row * 100) for _ in range(side // 100)) + packer.flush()
    header = struct.pack(">IIBBBBB", side, side, 1, 0, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", data), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
        for kind, content in chunks
    )


# --- text ------------------------------------------------------------------------------------------------------------

SENTENCES = (
    "Alpha begins the story of the trial and names its patients.",
    "Beta describes how they were assigned to the two arms.",
    "Gamma reports what became of them within seven years.",
    "Delta weighs the findings against those of earlier work.",
    "Epsilon closes with what a physician should do next.",
)


def columns(count: int) -> tuple[bytes, list[str]]:
    """A page of so many columns under a title, and its words in the order of reading."""
    page, width = blank(*SIZE), 480 / count
    title = "A trial of radioimmunotherapy in patients with glioma"
    page.insert_text((110, 70), title, fontname="tibo", fontsize=16)
    words = title.split()
    for column in range(count):
        left = 60 + column * width
        top = 100.0
        for part in range(4):
            text = " ".join((f"Part {column + 1}.{part + 1}.", *(SENTENCES[(column + part + k) % 5] for k in range(4))))
            box = pymupdf.Rect(left, top, left + width - 18, 760)
            left_over = page.insert_textbox(box, text, fontname="tiro", fontsize=10, align=pymupdf.TEXT_ALIGN_JUSTIFY)
            top = 765 - left_over
            words += text.split()
    return saved(page), words


def short_columns() -> tuple[bytes, list[str]]:
    """Two columns of a few lines each, which the layout model takes for one."""
    page, words = blank(*SIZE), []
    write_text(page, (60, 400, 540, 480))
    for column in range(2):
        text = " ".join((f"Part {column + 1}.", *(SENTENCES[(column + k) % 5] for k in range(3))))
        write_text(page, (60 + 240 * column, 80, 280 + 240 * column, 280), text)
        words += text.split()
    return saved(page), words


def html(text: str, box: BBox = (60, 60, 540, 740)) -> bytes:
    """A page set by MuPDF with the fonts it carries for the scripts of the world."""
    page = blank(*SIZE)
    page.insert_htmlbox(pymupdf.Rect(box), text)
    return saved(page)


def soft_hyphens() -> bytes:
    """Words broken at soft hyphens, which stay in the text layer."""
    page = blank(*SIZE)
    page.insert_font("F0", fontbuffer=pymupdf.Font("tiro").buffer)
    lines = (
        "The patients were random\u00adised to radio\u00adimmuno\u00adtherapy or to no treat\u00ad",
        "ment at all, and the physi\u00adcians knew which of the two it was to be.",
    )
    for number, line in enumerate(lines):
        page.insert_text((60, 100 + 14 * number), line, fontname="F0", fontsize=11)
    return saved(page)


def drawn_text() -> bytes:
    """A page whose text is drawn as paths."""
    page = blank(420, 595)
    page.insert_textbox((40, 60, 380, 400), " ".join(SENTENCES), fontsize=14)
    return bytes(pymupdf.open("svg", page.get_svg_image(text_as_path=True).encode()).convert_to_pdf())


def with_unicode_map(change: Callable[[pymupdf.Document, int], None], text: str = " ".join(SENTENCES)) -> bytes:
    """A page whose font was embedded by glyph numbers; `change` gets the document and the font's number."""
    page = blank(420, 595)
    page.insert_font("F0", fontbuffer=pymupdf.Font("tiro").buffer)
    page.insert_textbox((40, 60, 380, 400), text, fontname="F0", fontsize=14)
    (font, *_) = (entry[0] for entry in page.get_fonts())
    change(page.parent, font)
    return saved(page)


def without_unicode() -> bytes:
    """A page whose font does not say which glyph is which character: readers write `(cid:N)`."""

    def remove(pdf: pymupdf.Document, font: int) -> None:
        pdf.xref_set_key(font, "ToUnicode", "null")
        descendant = int(pdf.xref_get_key(font, "DescendantFonts")[1].strip("[]").split()[0])
        pdf.xref_set_key(descendant, "CIDSystemInfo", "<</Registry(Adobe)/Ordering(Identity)/Supplement 0>>")

    return with_unicode_map(remove)


def odd_unicode() -> bytes:
    """A page whose font maps letters to control characters and to halves of surrogate pairs."""
    glyphs = pymupdf.Font("tiro")
    codes = {"q": "0001", "z": "D800", "x": "0085"}
    lines = [f"<{glyphs.has_glyph(ord(letter)):04X}> <{code}>" for letter, code in codes.items()]
    plain = sorted({letter for sentence in SENTENCES for letter in sentence} - set(codes))
    lines += [f"<{glyphs.has_glyph(ord(letter)):04X}> <{ord(letter):04X}>" for letter in plain]
    cmap = (
        "/CIDInit /ProcSet findresource begin 12 dict begin begincmap /CMapName /odd def /CMapType 2 def "
        "1 begincodespacerange <0000> <FFFF> endcodespacerange "
        f"{len(lines)} beginbfchar {' '.join(lines)} endbfchar endcmap end end"
    )

    def replace(pdf: pymupdf.Document, font: int) -> None:
        pdf.update_stream(int(pdf.xref_get_key(font, "ToUnicode")[1].split()[0]), cmap.encode())

    page = with_unicode_map(replace, " ".join(SENTENCES) + " qqq zzz xxx")
    with pymupdf.open("pdf", page) as pdf:
        pdf.set_metadata({"title": "\u0410"})
        info = int(pdf.xref_get_key(-1, "Info")[1].split()[0])
        title = "\ufeffA\x01\x1b title\nof two lines".encode("utf-16-be").hex()
        pdf.update_object(info, f"<</Title<{title}>>>")
        return bytes(pdf.tobytes())


# --- tables ----------------------------------------------------------------------------------------------------------

Row = tuple[str, ...]
HEADER: Row = ("Histology", "Patients", "Deaths", "Median")
TABLE: tuple[Row, ...] = (
    ("Glioblastoma", "21", "17", "14.2"),
    ("Astrocytoma", "16", "4", "33.5"),
    ("Oligodendroglioma", "12", "3", "41.0"),
    ("Ependymoma", "9", "2", "52.7"),
)
_LEFTS = (80.0, 220.0, 300.0, 380.0)


def set_table(page: pymupdf.Page, rows: Sequence[Row], top: float, rules: Sequence[float] = ()) -> None:
    """Rows of a table in Times, 16 points apart, and rules over these rows."""
    for number, row in enumerate(rows):
        for left, cell in zip(_LEFTS, row, strict=True):
            page.insert_text((left, top + 16 * number), cell, fontname="tiro", fontsize=10)
    for rule in rules:
        page.draw_line((75, top - 12 + 16 * rule), (430, top - 12 + 16 * rule), width=0.6)


def caption(page: pymupdf.Page, x: float, y: float, text: str) -> None:
    page.insert_text((x, y), text, fontname="tiro", fontsize=10)


def table_without_rules() -> bytes:
    page = blank(*SIZE)
    write_text(page, (60, 60, 540, 140))
    caption(page, 80, 190, "Table 1: Deaths by histology.")
    set_table(page, (HEADER, *TABLE), 215)
    write_text(page, (60, 330, 540, 420))
    return saved(page)


def table_with_merged_cells() -> bytes:
    """A name over two columns, and a row label that holds for two rows."""
    page = blank(*SIZE)
    write_text(page, (60, 60, 540, 140))
    caption(page, 80, 190, "Table 2: Deaths by arm.")
    page.insert_text((325, 215), "Outcome", fontname="tiro", fontsize=10)
    page.draw_line((295, 219), (430, 219), width=0.6)
    rows = (("Arm", "Sex", "Deaths", "Median"), ("Treated", "male", "7", "31.0"), ("", "female", "5", "38.5"),
            ("Control", "male", "12", "11.2"), ("", "female", "9", "13.9"))  # fmt: skip
    set_table(page, rows, 231, rules=(1, 5))
    page.draw_line((75, 203), (430, 203), width=0.6)
    write_text(page, (60, 350, 540, 440))
    return saved(page)


def turned_table() -> bytes:
    """A wide table set on its side on an upright page, as journals do."""
    inner = blank(800, 600)
    caption(inner, 80, 190, "Table 3: Deaths by histology.")
    set_table(inner, (HEADER, *TABLE), 215, rules=(0, 1, 5))
    page = blank(*SIZE)
    page.show_pdf_page(page.rect, inner.parent, 0, rotate=90)
    return saved(page)


def table_across_pages() -> bytes:
    """The second page says the header again."""
    pdf = pymupdf.open()
    for _ in range(2):
        pdf.new_page(width=SIZE[0], height=SIZE[1])
    first, second = pdf[0], pdf[1]
    write_text(first, (60, 60, 540, 140))
    caption(first, 80, 690, "Table 4: Deaths by histology.")
    set_table(first, (HEADER, *TABLE[:2]), 715, rules=(0, 1, 3))
    caption(second, 80, 70, "Table 4: (continued)")
    set_table(second, (HEADER, *TABLE[2:]), 95, rules=(0, 1, 3))
    write_text(second, (60, 200, 540, 300))
    return saved(first)


OTHER_TABLE: tuple[Row, ...] = (("Country", "Hospitals", "Nurses", "Beds"), ("Norway", "3", "70", "410"),
                                ("Denmark", "2", "55", "380"))  # fmt: skip


def table_without_its_header(second: Sequence[Row], lead: str = "", shift: float = 0.0) -> bytes:
    """A table that ends its page, and on the next page these rows without a caption, below a paragraph or not."""
    pdf = pymupdf.open()
    for _ in range(2):
        pdf.new_page(width=SIZE[0], height=SIZE[1])
    first, rest = pdf[0], blank(*SIZE)
    write_text(first, (60, 60, 540, 140))
    caption(first, 80, 640, "Table 5: Deaths by histology, all arms.")
    set_table(first, (HEADER, *TABLE), 665, rules=(0, 1, 5))
    top = 95
    if lead:
        write_text(rest, (60, 60, 540, 150), lead)
        top = 190
    set_table(rest, second, top, rules=(0, len(second)))
    write_text(rest, (60, 400, 540, 500))
    pdf[1].show_pdf_page(pymupdf.Rect(shift, 0, SIZE[0] + shift, SIZE[1]), rest.parent, 0)
    return saved(first)


def table_of_three_pages() -> bytes:
    """The second page is the table's alone."""
    pdf = pymupdf.open()
    for _ in range(3):
        pdf.new_page(width=SIZE[0], height=SIZE[1])
    write_text(pdf[0], (60, 60, 540, 140))
    caption(pdf[0], 80, 640, "Table 6: Deaths by centre.")
    set_table(pdf[0], (HEADER, *TABLE), 665, rules=(0, 1))
    set_table(pdf[1], [(f"Centre {n}", str(20 + n), str(n), f"{30 + n}.5") for n in range(1, 40)], 80)
    set_table(pdf[2], [(f"Ward {n}", str(40 + n), str(n), f"{50 + n}.5") for n in range(1, 6)], 80, rules=(5,))
    write_text(pdf[2], (60, 400, 540, 500))
    return saved(pdf[0])


# --- figures ---------------------------------------------------------------------------------------------------------


def four_panels() -> tuple[bytes, BBox]:
    """Two by two plots under one caption, and the box round all of them."""
    page = blank(*SIZE)
    write_text(page, (60, 40, 540, 110))
    for number in range(4):
        left, top = 110 + 230 * (number % 2), 170 + 215 * (number // 2)
        draw_plot(page, (left, top, left + 170, top + 110), title=f"({'abcd'[number]}) Arm {number + 1}")
    caption(page, 110, 560, "Figure 2: Survival in four arms, by the product-limit method.")
    write_text(page, (60, 590, 540, 680))
    return saved(page), (88, 148, 514, 531)


def many_paths() -> tuple[bytes, BBox]:
    """A scatter of hundreds of small circles in axes."""
    page = blank(*SIZE)
    write_text(page, (60, 40, 540, 110))
    box = draw_plot(page, (150, 190, 450, 440))
    for number in range(600):
        x, y = 160 + 280 * ((number * 0.618) % 1), 200 + 230 * ((number * 0.382 + number / 600) % 1)
        page.draw_circle((x, y), 1.5, color=(0, 0, 1))
    caption(page, 120, 510, "Figure 3: Age and tumour size of all women.")
    write_text(page, (60, 540, 540, 620))
    return saved(page), box


# Where a caption of two lines stands beside a plot in PLOT_BESIDE.
PLOT_BESIDE: BBox = (110, 220, 330, 400)
CAPTION_PLACES: dict[str, tuple[float, float]] = {"above": (110, 180), "below": (110, 460), "beside": (365, 300)}


def captioned(place: str) -> bytes:
    """A plot with a caption above, below or beside it, between two paragraphs."""
    page = blank(*SIZE)
    write_text(page, (60, 40, 540, 120))
    draw_plot(page, PLOT_BESIDE, title="")
    x, y = CAPTION_PLACES[place]
    caption(page, x, y, "Figure 4: Overall survival of")
    caption(page, x, y + 12, "the women, by hormonal therapy.")
    write_text(page, (60, 520, 540, 620))
    return saved(page)


def two_figures_with_one_caption(place: str) -> bytes:
    """Two plots, "apart" (running text between them, and a caption that names both) or "beside" each other."""
    page = blank(*SIZE)
    if place == "apart":
        write_text(page, (60, 30, 540, 90))
        draw_plot(page, (150, 130, 450, 260), title="")
        write_text(page, (60, 320, 540, 400))
        draw_plot(page, (150, 440, 450, 570), title="")
        caption(page, 110, 640, "Figures 5 and 6: Overall survival, and survival without relapse.")
        write_text(page, (60, 670, 540, 750))
    else:
        write_text(page, (60, 30, 540, 90))
        draw_plot(page, (90, 150, 210, 300), title="")
        draw_plot(page, (370, 150, 490, 300), title="")
        caption(page, 130, 370, "Figure 7: Overall survival, and to the right survival without relapse.")
        write_text(page, (60, 420, 540, 500))
    return saved(page)


# --- files that mean harm --------------------------------------------------------------------------------------------


def with_script_and_attachment() -> bytes:
    """A page of text in a document that runs JavaScript when it opens, and carries a file whose name climbs out."""
    page = blank(*SIZE)
    write_text(page, (60, 60, 540, 140))
    pdf = page.parent
    pdf.embfile_add("../../evil.sh", b"#!/bin/sh\necho the attachment ran\n", filename="../../evil.sh")
    script = pdf.get_new_xref()
    pdf.update_object(script, "<</S/JavaScript/JS(app.alert\\('the script ran'\\))>>")
    pdf.xref_set_key(pdf.pdf_catalog(), "OpenAction", f"{script} 0 R")
    return bytes(pdf.tobytes())


def bomb(stated: int, megabytes: int) -> bytes:
    """A page of text with an image that says it has stated x stated pixels, and whose data unpack twice, to so many
    megabytes of zeros, from a few thousand bytes."""
    packer = zlib.compressobj(9)
    once = b"".join(packer.compress(bytes(1_000_000)) for _ in range(megabytes)) + packer.flush()
    page = blank(*SIZE)
    write_text(page, (60, 60, 540, 140))
    picture = io.BytesIO()
    Image.new("L", (8, 8)).save(picture, "PNG")
    xref = page.insert_image((100, 300, 300, 500), stream=picture.getvalue())
    pdf = page.parent
    pdf.update_stream(xref, zlib.compress(once, 9), new=False, compress=False)
    for key, value in (
        ("Filter", "[/FlateDecode/FlateDecode]"),
        ("DecodeParms", "null"),
        ("Width", str(stated)),
        ("Height", str(stated)),
        ("ColorSpace", "/DeviceGray"),
        ("BitsPerComponent", "8"),
    ):
        pdf.xref_set_key(xref, key, value)
    return bytes(pdf.tobytes())


def write(folder: Path, files: dict[str, bytes]) -> None:
    """Files of these names in the folder."""
    folder.mkdir(exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)

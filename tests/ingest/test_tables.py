"""Tables on small made pages, with the expected rows written out, and on pages of the demo documents."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pymupdf
import pytest

from rag.ingest.console import Char, console_lines, find_console_tables
from rag.ingest.layout import LayoutBox, page_layout
from rag.ingest.tables import TableBox, find_tables, read_off
from rag.types import BBox

DOCUMENTS = Path(__file__).resolve().parents[2] / "assets" / "documents"
PITCH = 12.0
FONT_SIZE = 10.0
ADVANCE = 6.0  # Courier: 600/1000 of the size
LEFT, FIRST_BASELINE = 72.0, 100.0


def console_page(listing: str) -> pymupdf.Page:
    """A page with `listing` in Courier, one line every `PITCH` points; the first line's base line is at 100."""
    page = pymupdf.open().new_page()
    for number, line in enumerate(listing.strip("\n").splitlines()):
        page.insert_text((LEFT, FIRST_BASELINE + number * PITCH), line, fontname="cour", fontsize=FONT_SIZE)
    return page


def console_tables(listing: str) -> list[TableBox]:
    return find_tables(console_page(listing), [])


def typeset_page(
    cells: Sequence[tuple[float, float, str]], rules: Sequence[tuple[float, float, float]] = ()
) -> pymupdf.Page:
    """A page with texts in Helvetica at (x, base line) and horizontal rules (x0, x1, y)."""
    page = pymupdf.open().new_page()
    for x, y, text in cells:
        page.insert_text((x, y), text, fontname="helv", fontsize=FONT_SIZE)
    for x0, x1, y in rules:
        page.draw_line((x0, y), (x1, y), width=0.4)
    return page


def overlap(a: BBox, b: BBox) -> float:
    """Intersection over union."""
    common = max(0.0, min(a[2], b[2]) - max(a[0], b[0])) * max(0.0, min(a[3], b[3]) - max(a[1], b[1]))
    area = sum((box[2] - box[0]) * (box[3] - box[1]) for box in (a, b))
    return common / (area - common)


# --- read-off --------------------------------------------------------------------------------------------------------


def test_read_off_keeps_value_with_row_and_column():
    rows = (("", "coef", "Pr(>|z|)", ""), ("age", "0.020", "0.0377", "*"), ("sex", "", "0.0028", ""))
    assert read_off(rows, "Coefficients:") == (
        "Coefficients:\nage | coef: 0.020 | Pr(>|z|): 0.0377 | *\nsex | Pr(>|z|): 0.0028"
    )


def test_read_off_names_the_labels_and_doubles_no_colon():
    assert read_off((("from", "Events:"), ("CR", "159"))) == "from: CR | Events: 159"


# --- console tables --------------------------------------------------------------------------------------------------


def test_coefficient_table_with_stars_and_names_of_two_words():
    (table,) = console_tables("""
> summary(fit)
Call:
lm(formula = y ~ Hb + F1)

Coefficients:
             Estimate Std. Error t value Pr(>|t|)
(Intercept)   99.9810     0.8174 122.321  < 2e-16 ***
PPHyes        -4.0274     1.2230  -3.293  0.00102 **
---
Signif. codes:  0 '***' 0.001 '**' 0.01 '*' 0.05 '.' 0.1 ' ' 1

Residual standard error: 21.95 on 1301 degrees of freedom
""")
    assert table.kind == "console"
    assert table.rows == (
        ("", "Estimate", "Std. Error", "t value", "Pr(>|t|)", ""),
        ("(Intercept)", "99.9810", "0.8174", "122.321", "< 2e-16", "***"),
        ("PPHyes", "-4.0274", "1.2230", "-3.293", "0.00102", "**"),
    )
    assert table.text == (
        "Coefficients:\n"
        "(Intercept) | Estimate: 99.9810 | Std. Error: 0.8174 | t value: 122.321 | Pr(>|t|): < 2e-16 | ***\n"
        "PPHyes | Estimate: -4.0274 | Std. Error: 1.2230 | t value: -3.293 | Pr(>|t|): 0.00102 | **"
    )


def test_box_runs_from_header_to_last_row():
    (table,) = console_tables("""
> head(d)
   id age
1   7  61
2   8  58
> plot(d)
""")
    # Lines 2 to 4 of the listing, 9 columns of 6 points from x = 72.
    assert overlap(table.bbox, (72.0, 100 + 12 - 8, 72 + 9 * 6, 100 + 3 * 12 + 2)) > 0.8
    assert table.bbox[0] == pytest.approx(72.0, abs=0.1)
    assert table.bbox[2] == pytest.approx(126.0, abs=0.1)


def test_column_names_with_a_number_in_them():
    (table,) = console_tables("""
> summary(fit1)
                resid.ds=1
 time n.risk survival lower 95% CI upper 95% CI
  0.0     11    1.000        1.000            1
  1.0     10    0.909        0.754            1
""")
    assert table.rows == (
        ("time", "n.risk", "survival", "lower 95% CI", "upper 95% CI"),
        ("0.0", "11", "1.000", "1.000", "1"),
        ("1.0", "10", "0.909", "0.754", "1"),
    )
    assert table.text.startswith("resid.ds=1\n")


def test_cross_table_with_names_of_both_factors():
    (table,) = console_tables("""
> fit$transitions
         to
from       CR SCT (censored)
  (s0)    443 106         29
  CR        0 159        110
  relapse   0  99         28
> levels(x)
""")
    assert table.rows == (
        ("from", "to CR", "to SCT", "to (censored)"),
        ("(s0)", "443", "106", "29"),
        ("CR", "0", "159", "110"),
        ("relapse", "0", "99", "28"),
    )


def test_count_table_whose_column_names_are_numbers():
    (table,) = console_tables("""
> table(temp)
temp
  0   1   2
325 454 364
""")
    assert table.rows == (("temp 0", "temp 1", "temp 2"), ("325", "454", "364"))


def test_flat_table_with_grouped_columns_and_row_names_below_the_header():
    (table,) = console_tables("""
> ftable(x)
    cause Surv             CVD
           50% 2.5% 97.5%  50% 2.5% 97.5%
tfD
3          2.8  2.7   2.9  0.1  0.0   0.2
12         9.3  9.2   9.4  0.9  0.8   1.0
""")
    assert table.rows == (
        (
            "tfD",
            "cause Surv 50%",
            "cause Surv 2.5%",
            "cause Surv 97.5%",
            "cause CVD 50%",
            "cause CVD 2.5%",
            "cause CVD 97.5%",
        ),
        ("3", "2.8", "2.7", "2.9", "0.1", "0.0", "0.2"),
        ("12", "9.3", "9.2", "9.4", "0.9", "0.8", "1.0"),
    )


def test_row_labels_of_two_columns_are_filled_down():
    (table,) = console_tables("""
> round(stime, 2)
              50% 2.5% 97.5%
tfd   cause
 5 yr Surv   2.77 2.72  2.81
      OAD    1.45 1.40  1.50
10 yr Surv   4.32 4.21  4.42
      OAD    3.64 3.54  3.75
""")
    assert [row[:3] for row in table.rows] == [
        ("tfd", "cause", "50%"),
        ("5 yr", "Surv", "2.77"),
        ("5 yr", "OAD", "1.45"),
        ("10 yr", "Surv", "4.32"),
        ("10 yr", "OAD", "3.64"),
    ]


def test_wrapped_table_is_put_together_again():
    (table,) = console_tables("""
> fit
                             coef se(coef)
sexmale                   0.22784  0.13883
pspline(age, df = 4), lin 0.06682  0.00703
pspline(age, df = 4), non
                             Chisq   DF      p
sexmale                    2.69335 1.00   0.10
pspline(age, df = 4), lin 90.22974 1.00 <2e-16
pspline(age, df = 4), non  3.44005 3.05   0.34

Iterations: 5 outer, 16 Newton-Raphson
     Theta= 0.851
""")
    assert table.rows == (
        ("", "coef", "se(coef)", "Chisq", "DF", "p"),
        ("sexmale", "0.22784", "0.13883", "2.69335", "1.00", "0.10"),
        ("pspline(age, df = 4), lin", "0.06682", "0.00703", "90.22974", "1.00", "<2e-16"),
        ("pspline(age, df = 4), non", "", "", "3.44005", "3.05", "0.34"),
    )
    assert "pspline(age, df = 4), non | Chisq: 3.44005 | DF: 3.05 | p: 0.34" in table.text


def test_blank_cells_stay_blank():
    (table,) = console_tables("""
> anova(a, b)
Analysis of Deviance Table
 Model 1: ~ age + sex
 Model 2: ~ age + sex + wt.loss
   loglik  Chisq Df Pr(>|Chi|)
1 -673.06
2 -672.88 0.3473  1     0.5557
""")
    assert table.rows == (
        ("", "loglik", "Chisq", "Df", "Pr(>|Chi|)"),
        ("1", "-673.06", "", "", ""),
        ("2", "-672.88", "0.3473", "1", "0.5557"),
    )


def test_columns_without_a_name():
    (table,) = console_tables("""
> ci
                   2.5 %   97.5 %
Hb.prae  1.009682 1.0006 1.018868
F1.prae  0.941312 0.8385 1.056776
""")
    assert table.rows == (
        ("", "", "2.5 %", "97.5 %"),
        ("Hb.prae", "1.009682", "1.0006", "1.018868"),
        ("F1.prae", "0.941312", "0.8385", "1.056776"),
    )


def test_string_entries_and_row_labels_with_blanks():
    (table,) = console_tables("""
> d
              trt tstop   event priorcr
low risk        A    44      CR       0
high risk       B   113 relapse       1
""")
    assert table.rows == (
        ("", "trt", "tstop", "event", "priorcr"),
        ("low risk", "A", "44", "CR", "0"),
        ("high risk", "B", "113", "relapse", "1"),
    )


def test_two_tables_with_prose_between_them_are_two():
    first, second = console_tables("""
> ctest
n= 137
     concordance     se
fit4      0.7119 0.0224
fit5      0.7384 0.0210

     concordant discordant tied.x
fit4       6261       2529     14
fit5       6499       2301      4
""")
    assert first.rows[0] == ("", "concordance", "se")
    assert second.rows == (
        ("", "concordant", "discordant", "tied.x"),
        ("fit4", "6261", "2529", "14"),
        ("fit5", "6499", "2301", "4"),
    )


def test_knitr_output_behind_comment_signs():
    (table,) = console_tables("""
summary(m)
## Residuals:
##     Min      1Q  Median
## -84.981 -14.954  -2.954
##
## Residual standard error: 21.95 on 1301 degrees of freedom
""")
    assert table.rows == (("Min", "1Q", "Median"), ("-84.981", "-14.954", "-2.954"))
    assert table.bbox[0] == pytest.approx(LEFT, abs=0.1)  # the signs are printed with the table


@pytest.mark.parametrize(
    "listing",
    [
        "> x\n [1] 0.57 0.25 0.16\n [4] 0.11 0.12 0.13",
        "> str(d)\n'data.frame':  10 obs. of 2 variables:\n $ age: num  61 58 57\n $ sex: num  1 2 1",
        "> fit\nn= 228, number of events= 165\nLikelihood ratio test=14.7  on 3 df, p=0.00212\nn= 214",
        "> f <- function(n) {\n      connect[1, 2:3] <- 1\n      connect[2, 4] <- 1\n  }",
        "> plot(fit, lty=c(3,3,2,2,1,1), lwd=2,\n       xlab='Years')\n> legend(240, .65, c(1, 2),\n       lty=1)",
        "Iterations: 5 outer, 16 Newton-Raphson\n     Theta= 0.851\nDegrees of freedom for terms= 1.0 4.1",
        "12     18       1    0.739\n13     17       1    0.696\n16     15       0    0.696",
        "> dim(x)\nstates\n     4",
    ],
    ids=["vector", "str", "prose", "assignments", "arguments", "iterations", "rows-without-header", "single-value"],
)
def test_output_that_is_no_table(listing: str):
    assert console_tables(listing) == []


def test_code_words_within_a_sentence_are_no_console_lines():
    page = pymupdf.open().new_page()
    for number, (word, value) in enumerate([("time", "status"), ("5", "1"), ("8", "0")]):
        y = FIRST_BASELINE + number * PITCH
        page.insert_text((72, y), "The pair", fontname="helv", fontsize=FONT_SIZE)
        page.insert_text((72 + 45, y), f"{word:>6} {value:>6}", fontname="cour", fontsize=FONT_SIZE)
        page.insert_text((72 + 45 + 13 * ADVANCE + 3, y), "is used.", fontname="helv", fontsize=FONT_SIZE)
    assert find_tables(page, []) == []


def chars_of(lines: Sequence[str], font: str, advance: float) -> list[Char]:
    """Characters as a Type 3 font gives them: no flag says that the advances are equal."""
    return [
        Char(
            char,
            (font, 10.0),
            72 + column * advance,
            100 + 12.0 * row,
            advance,
            92 + 12.0 * row,
            102 + 12.0 * row,
            False,
        )
        for row, line in enumerate(lines)
        for column, char in enumerate(line)
        if char != " "
    ]


def test_equal_advances_tell_a_console_font_and_ligature_codes_are_spelled_out():
    lines = ["           estimate  p.", "first fit:     0.28 0.1", "\x1cnal fit:     12.50 0.2"]
    (table,) = find_console_tables(console_lines(chars_of(lines, "F49", 5.23)))
    assert table.rows == (("", "estimate", "p."), ("first fit:", "0.28", "0.1"), ("final fit:", "12.50", "0.2"))


def test_equal_digits_alone_do_not_make_a_console_font():
    # The digits of most proportional fonts are equally wide; so are Helvetica's a, e and g.
    assert console_lines(chars_of(["0  10 20", "1  40 50", "   age  "], "Helvetica", 5.56)) == []


# --- typeset tables --------------------------------------------------------------------------------------------------

CAPTION = (100.0, 100.0, "Table 1: Odds ratios for prepartal blood parameters.")
BOOKTABS = [
    (100.0, 130.0, "Parameter"), (200.0, 130.0, "OR"), (260.0, 130.0, "p-value"),
    (100.0, 146.0, "Hb.prae"), (200.0, 146.0, "1.010"), (260.0, 146.0, "0.037"),
    (100.0, 158.0, "F1.prae"), (200.0, 158.0, "0.941"), (260.0, 158.0, "0.306"),
    (100.0, 170.0, "F2.prae"), (200.0, 170.0, "1.008"), (260.0, 170.0, "< 0.001"),
]  # fmt: skip
BOOKTABS_RULES = [(95.0, 305.0, 118.0), (95.0, 305.0, 135.0), (95.0, 305.0, 175.0)]
BOOKTABS_ROWS = (
    ("Parameter", "OR", "p-value"),
    ("Hb.prae", "1.010", "0.037"),
    ("F1.prae", "0.941", "0.306"),
    ("F2.prae", "1.008", "< 0.001"),
)


def test_ruled_table_from_a_layout_box_without_its_caption():
    page = typeset_page([CAPTION, *BOOKTABS], BOOKTABS_RULES)
    (table,) = find_tables(page, [LayoutBox((101, 121, 292, 172), "table"), LayoutBox((100, 90, 350, 103), "caption")])
    assert table.kind == "typeset"
    assert table.rows == BOOKTABS_ROWS
    assert overlap(table.bbox, (95, 118, 305, 175)) > 0.97
    assert table.text.splitlines()[2] == "Parameter: F2.prae | OR: 1.008 | p-value: < 0.001"


def test_ruled_table_that_the_layout_takes_for_text():
    page = typeset_page([CAPTION, *BOOKTABS], BOOKTABS_RULES)
    (table,) = find_tables(page, [LayoutBox((95, 90, 305, 175), "text")])
    assert table.rows == BOOKTABS_ROWS


def test_headers_of_two_lines_over_groups_of_columns():
    page = typeset_page(
        [
            (185, 112, "cumtdc"), (285, 112, "cumevent"),
            (100, 124, "interval"), (170, 124, "asthma"), (225, 124, "IBD"), (275, 124, "asthma"), (325, 124, "IBD"),
            (100, 140, "(0, 5]"), (185, 140, "0"), (230, 140, "0"), (290, 140, "1"), (330, 140, "0"),
            (100, 152, "(5, 6]"), (185, 152, "1"), (230, 152, "0"), (290, 152, "0"), (330, 152, "1"),
        ],
        [(95, 350, 129)],
    )  # fmt: skip
    (table,) = find_tables(page, [LayoutBox((98, 103, 345, 155), "table")])
    assert table.rows == (
        ("interval", "cumtdc asthma", "cumtdc IBD", "cumevent asthma", "cumevent IBD"),
        ("(0, 5]", "0", "0", "1", "0"),
        ("(5, 6]", "1", "0", "0", "1"),
    )


def test_parts_with_titles_and_labels_printed_once():
    page = typeset_page(
        [
            (110, 112, "Females"),
            (100, 126, "Cut-off"), (170, 126, "Group"), (230, 126, "50-54"), (290, 126, "55-59"),
            (100, 142, "500"), (170, 142, "Low"), (230, 142, "738"), (290, 142, "638"),
            (170, 154, "High"), (230, 154, "32"), (290, 154, "30"),
            (115, 172, "Males"),
            (100, 186, "500"), (170, 186, "Low"), (230, 186, "658"), (290, 186, "553"),
        ],
        [(95, 330, 131)],
    )  # fmt: skip
    (table,) = find_tables(page, [LayoutBox((98, 117, 325, 190), "table")])
    assert table.rows == (
        ("Cut-off", "Group", "50-54", "55-59"),
        ("Females 500", "Low", "738", "638"),
        ("Females 500", "High", "32", "30"),
        ("Males 500", "Low", "658", "553"),
    )
    assert table.bbox[1] < 112  # the first part's title belongs to the table, though the layout leaves it out


CONTENTS = [
    *((100.0, 110 + 14.0 * n, text) for n, text in enumerate(["1.1", "1.2", "1.3", "2.1"])),
    *((130.0, 110 + 14.0 * n, text) for n, text in enumerate(["Overview", "Curves", "Cox models", "Data"])),
    *((400.0, 110 + 14.0 * n, text) for n, text in enumerate(["3", "7", "12", "12"])),
]
EQUATIONS = [
    *((100.0, 110 + 14.0 * n, text) for n, text in enumerate(["h(t)", "H(t)", "S(t)"])),
    *((160.0, 110 + 14.0 * n, text) for n, text in enumerate(["= h0(t) exp(xb)", "= H0(t) exp(xb)", "= exp(-H(t))"])),
    *((400.0, 110 + 14.0 * n, text) for n, text in enumerate(["(4)", "(5)", "(6)"])),
]


@pytest.mark.parametrize("cells", [CONTENTS, EQUATIONS], ids=["contents", "equations"])
def test_layout_tables_that_are_none(cells: list[tuple[float, float, str]]):
    assert find_tables(typeset_page(cells), [LayoutBox((98, 98, 420, 160), "table")]) == []


def test_a_plot_in_a_layout_table_box_is_none():
    page = typeset_page(BOOKTABS)
    for step in range(40):
        page.draw_circle((110 + 4 * step, 130 + step), 3)
    assert find_tables(page, [LayoutBox((95, 115, 305, 178), "table")]) == []


def test_console_output_in_a_layout_table_box_is_found_once_and_as_console():
    page = console_page("> head(d)\n   id age\n1   7  61\n2   8  58")
    (table,) = find_tables(page, [LayoutBox((70, 90, 130, 140), "table")])
    assert (table.kind, table.rows) == ("console", (("", "id", "age"), ("1", "7", "61"), ("2", "8", "58")))


def test_rules_round_a_title_or_a_listing_are_no_table():
    rules = [(95, 305, 110), (95, 305, 170)]
    title = typeset_page([(150, 130, "CHAPTER 9"), (120, 150, "Recursive Partitioning")], rules)
    assert find_tables(title, []) == []
    listing = console_page("R> plot(x,\n+       y)")
    for y in (90, 120):
        listing.draw_line((72, y), (300, y), width=0.4)
    assert find_tables(listing, []) == []


def test_blank_page_has_no_tables():
    assert find_tables(pymupdf.open().new_page(), []) == []


# --- pages of the demo documents -------------------------------------------------------------------------------------


def tables_of(document: str, page: int) -> list[TableBox]:
    with pymupdf.open(DOCUMENTS / document) as opened:
        return find_tables(opened[page - 1], page_layout(opened[page - 1]))


def test_typeset_table_in_two_parts_survival_adjcurve_page_5():
    (table,) = tables_of("survival-adjcurve.pdf", 5)
    assert table.kind == "typeset"
    assert table.rows[0] == (
        "FLC group", "Age 50–54", "Age 55–59", "Age 60–64", "Age 65–69", "Age 70–74", "Age 75–79", "Age 80–89",
        "Age 90+",
    )  # fmt: skip
    assert table.rows[1] == ("Females Low", "738", "638", "490", "442", "376", "254", "224", "24")
    assert table.rows[6] == ("Males High", "26", "33", "39", "61", "66", "65", "74", "15")
    assert len(table.rows) == 7


def test_typeset_tables_blood_loss_page_11():
    first, second = tables_of("TH.data-blood_loss_report.pdf", 11)
    assert first.rows[0] == ("Cut-off", "Parameter", "OR", "lower", "upper", "p-value")
    assert first.rows[4] == ("All", "F13.Akt.prae", "1.011", "1.006", "1.016", "< 0.001")
    assert first.rows[16] == ("1000", "F13.Akt.prae", "1.010", "0.999", "1.021", "0.06605")
    assert second.rows[8] == ("VCmodeCesarean Sectio:F13.Akt.prae", "1.008", "1.001", "1.014", "0.02420")


def test_type_3_console_tables_survival_page_16():
    counts, transitions, subjects = tables_of("survival-survival.pdf", 16)
    assert counts.rows == (("Unique identifiers", "Observations", "Transitions"), ("41", "89", "48"))
    assert transitions.rows == (("from", "to 1", "to (censored)"), ("(s0)", "24", "17"), ("1", "24", "24"))
    assert subjects.rows[2] == ("(any)", "17", "9", "8", "5", "2")
    assert {table.kind for table in (counts, transitions, subjects)} == {"console"}


def test_wrapped_data_frame_timedep_page_6():
    (table,) = tables_of("survival-timedep.pdf", 6)
    assert table.rows[0] == (
        "", "id", "center", "random", "treat", "sex", "age", "height", "weight", "inherit", "steroids", "propylac",
        "hos.cat", "futime", "etime1", "etime2", "etime3", "etime4", "etime5", "etime6", "etime7",
    )  # fmt: skip
    assert table.rows[2] == (
        "2", "2", "204", "82888", "0", "1", "15", "159", "47.5", "2", "2", "1", "2", "439", "8", "26", "152", "241",
        "249", "322", "350",
    )  # fmt: skip
    assert len(table.rows) == 5


def test_contents_and_equations_are_no_tables():
    assert tables_of("survival-survival.pdf", 2) == []
    assert tables_of("survival-compete.pdf", 13) == []


def test_no_control_characters_in_any_table_of_a_document():
    with pymupdf.open(DOCUMENTS / "survival-concordance.pdf") as document:
        texts = [table.text for page in document for table in find_tables(page, [])]
    assert len(texts) > 15
    assert all(char.isprintable() or char == "\n" for text in texts for char in text)

"""Folding: every kind of glyph code met in the demo documents and in trackers of PDF readers."""

import pytest

from rag.ingest.fold import fold, join_lines, map_ligatures, words_of


@pytest.mark.parametrize(
    ("raw", "plain"),
    [
        ("\x1cnal", "final"),  # T1 codes, as Type 3 fonts without a Unicode map give them
        ("e\x1bect", "effect"),
        ("in\x1duence", "influence"),
        ("coe\x1ecient", "coefficient"),
        ("ba\x1fe", "baffle"),
        ("\ufb01nal e\ufb00ect coe\ufb03cient re\ufb02ect ba\ufb04e", "final effect coefficient reflect baffle"),
        ("\x10balanced\x11 65\x1585% \x16 so", "“balanced” 65–85% — so"),
        ("\x88 first", "• first"),
    ],
)
def test_ligatures_quotes_and_dashes_are_spelled_out(raw: str, plain: str) -> None:
    assert fold(raw) == plain


def test_ligature_codes_are_mapped_before_white_space_is_split() -> None:
    # \x1c..\x1f match \s, so folding in the other order would give "coe cient".
    assert fold("su\x1ecient\t \n\x1crst") == "sufficient first"
    assert map_ligatures("a\tb\n") == "a\tb\n"


@pytest.mark.parametrize(
    ("raw", "plain"),
    [
        ("M\u00a8uller", "Müller"),
        ("na\u00a8\u0131ve", "naïve"),
        ("Hal\u00b4asz", "Halász"),
        ("y \u02dc x", "y ~ x"),  # R's tilde, not an accent
        ("\uff21\uff22 \u2460 \u00bd", "AB 1 1⁄2"),
    ],
)
def test_accents_and_compatibility_forms(raw: str, plain: str) -> None:
    assert fold(raw) == plain


@pytest.mark.parametrize("code", ["\x00", "\x0c", "\x07", "\u00ad", "\u200b", "\ufeff", "\uf8eb", "\ufffd", "\x9f"])
def test_codes_without_a_meaning_are_dropped(code: str) -> None:
    assert fold(f"haz{code}ard").replace(" ", "") == "hazard"


def test_unmapped_glyph_names_never_reach_the_text() -> None:
    assert fold("(cid:17)(cid:4) rate") == "rate"


def test_a_word_broken_at_a_line_end_is_joined() -> None:
    assert join_lines(["the competi-", "ng risks"]) == "the competing risks"
    assert join_lines(["the coe\x1e-", "cients"]) == "the coefficients"
    assert join_lines(["hyphen\u00ad", "ation"]) == "hyphenation"


def test_a_line_end_hyphen_stays_where_it_is_the_words_own() -> None:
    assert join_lines(["an F-", "test of"]) == "an F- test of"  # capital: no broken word
    assert join_lines(["in 10-", "year survival"]) == "in 10- year survival"
    assert join_lines(["a time-", "dependent one"], words_of("time-dependent covariates")) == "a time-dependent one"
    assert join_lines(["a case-", "cohort one"], words_of("each case in the cohort")) == "a case-cohort one"


def test_the_vocabulary_prefers_the_joined_word() -> None:
    assert join_lines(["under-", "stand"], words_of("understand under stand")) == "understand"


def test_words_of_knows_compounds_and_their_parts() -> None:
    assert words_of("Time-dependent F-test, 12 rats") == {
        "time-dependent",
        "time",
        "dependent",
        "f-test",
        "f",
        "test",
        "rats",
    }


def test_scripts_without_word_spaces_are_joined_without() -> None:
    assert join_lines(["因果交流", "電燈の"]) == "因果交流電燈の"
    assert join_lines(["", "  ", "one", "two"]) == "one two"

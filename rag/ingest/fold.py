"""Folding the text of a PDF into plain, searchable text.

Fonts made by TeX in the T1 ("Cork") encoding, when the file carries no Unicode map, come out of every PDF reader as raw
code points: U+001B..U+001F for the ligatures ff, fi, fl, ffi, ffl and U+0010..U+0016 for quotes and dashes (Knappen,
"The release 1.2 of the Cork encoded DC fonts", TUGboat 17(2), 1996). Those are control codes, and U+001C..U+001F even
match ``\\s``, so they have to be mapped before anything splits on white space.
"""

import re
import unicodedata
from collections.abc import Collection, Sequence

CORK_CODES: dict[int, str] = {
    0x10: "\u201c",
    0x11: "\u201d",
    0x15: "\u2013",
    0x16: "\u2014",
    0x1B: "ff",
    0x1C: "fi",
    0x1D: "fl",
    0x1E: "ffi",
    0x1F: "ffl",
    # TS1 (the companion of T1) has its bullet here; in Unicode it is an unused C1 control.
    0x88: "\u2022",
}

_LIGATURES: dict[int, str] = CORK_CODES | {
    0xFB00: "ff",
    0xFB01: "fi",
    0xFB02: "fl",
    0xFB03: "ffi",
    0xFB04: "ffl",
    0xFB05: "st",
    0xFB06: "st",
}

# Accents that TeX's older fonts set as glyphs of their own before the letter they belong on, with the combining
# accent for each. The tilde, circumflex and grave stay apart: code uses them as characters.
_ACCENTS = {
    "\u00a8": "\u0308",
    "\u00b4": "\u0301",
    "\u02c7": "\u030c",
    "\u02d8": "\u0306",
    "\u02d9": "\u0307",
    "\u02da": "\u030a",
    "\u02dd": "\u030b",
}
_ACCENTED = re.compile(f"([{''.join(_ACCENTS)}])[ ]?([^\\W\\d_])")
# What NFKC would turn into a space and a combining accent.
_LONE_ACCENTS = str.maketrans({"\u02dc": "~", "\u02c6": "^", "\u00b4": "'", "\u00a8": '"'})

# Control, format (soft hyphen, zero-width), surrogate and private-use characters carry no text; a private-use code is
# a glyph without a meaning, such as the pieces of a tall bracket. U+FFFD stands for a glyph with no Unicode value.
_DROPPED_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Co", "Cn"})
_REPLACEMENT = "\ufffd"
_CID = re.compile(r"\(cid:\d+\)")
_SPACE = re.compile(r"\s+")
_HYPHEN_END = re.compile(r"([^\W\d_]*[a-z])[-\u2010\u00ad]$")
_LOWER_START = re.compile(r"([a-z][^\W\d_]*)")
_WORD = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)*")


def map_ligatures(text: str) -> str:
    """Spell out ligatures, whether Unicode's (U+FB00..) or T1's raw codes (U+001B..), and T1's quotes and dashes."""
    return text.translate(_LIGATURES)


def fold(text: str) -> str:
    """Plain text on one line: ligatures spelled out, accents on their letters, NFKC, no control characters, single
    spaces, none at the ends."""
    text = _ACCENTED.sub(_put_accent, map_ligatures(_CID.sub(" ", text)))
    text = unicodedata.normalize("NFKC", text.translate(_LONE_ACCENTS))
    kept = (" " if char.isspace() else char for char in text if char.isspace() or not _is_dropped(char))
    return _SPACE.sub(" ", "".join(kept)).strip()


def _put_accent(match: re.Match[str]) -> str:
    letter = "i" if match[2] == "\u0131" else match[2]
    return letter + _ACCENTS[match[1]]


def _is_dropped(char: str) -> bool:
    return char == _REPLACEMENT or unicodedata.category(char) in _DROPPED_CATEGORIES


def words_of(text: str) -> set[str]:
    """The lower-case words of folded text, hyphenated ones whole and in parts: the vocabulary `join_lines` asks."""
    found: set[str] = set()
    for word in _WORD.findall(text.lower()):
        found.add(word)
        found.update(word.split("-"))
    return found


def join_lines(lines: Sequence[str], vocabulary: Collection[str] = ()) -> str:
    """Running text from the lines of a paragraph, with words that were hyphenated at a line end made whole.

    A line that ends in a lower-case letter and a hyphen, before one that starts in lower case, is either a word broken
    by the typesetter ("competi-/ng") or a compound broken at its own hyphen ("time-/dependent"). `vocabulary` (words of
    the document in lower case, see `words_of`) decides: the joined word or the compound if the document has it
    elsewhere, the compound if both of its parts are words of the document, else the joined word.
    """
    joined = ""
    for line in lines:
        # The soft hyphen would be gone after folding, and with it the sign that the word goes on.
        folded = fold(line.rstrip().removesuffix("\u00ad") + "-" if line.rstrip().endswith("\u00ad") else line)
        if not folded:
            continue
        left, right = _HYPHEN_END.search(joined), _LOWER_START.match(folded)
        if left and right:
            joined = (joined[:-1] if _is_broken_word(left[1], right[1], vocabulary) else joined) + folded
        elif joined and not (_is_ideographic(joined[-1]) and _is_ideographic(folded[0])):
            joined = f"{joined} {folded}"
        else:
            joined += folded
    return joined


def _is_ideographic(char: str) -> bool:
    """Whether a script without word spaces has this character (Han, kana, their punctuation)."""
    return "\u3000" <= char <= "\u9fff" or "\uf900" <= char <= "\ufaff" or "\uff00" <= char <= "\uff65"


def _is_broken_word(left: str, right: str, vocabulary: Collection[str]) -> bool:
    left, right = left.lower(), right.lower()
    if left + right in vocabulary:
        return True
    if f"{left}-{right}" in vocabulary:
        return False
    return not (len(left) > 2 and len(right) > 2 and left in vocabulary and right in vocabulary)

"""Colours that can be read, files that ask nobody, and a frame that can't."""

from __future__ import annotations

import re

import pytest

from rag.settings import ASSETS
from ui import frame, theme

PAIRS = [
    *((words, ground) for words in ("ink", "muted") for ground in ("page", "card", "sunken")),
    *((branch, ground) for branch in theme.BRANCHES for ground in ("card", f"{branch}-tint")),
    ("invert", "ink"),
    ("ink", "mark"),
    ("warn", "card"),
    ("error", "error-tint"),
    *(("ink", f"{branch}-tint") for branch in theme.BRANCHES),
    *(("muted", f"{branch}-tint") for branch in ("graph", "visual")),
]


def luminance(colour: str) -> float:
    """Relative luminance (WCAG 2.2)."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_luminance_is_that_of_the_standard() -> None:
    assert luminance("#ffffff") == pytest.approx(1) and luminance("#000000") == 0
    assert luminance("#777777") == pytest.approx(0.184, abs=0.001)


@pytest.mark.parametrize("mode", ["light", "dark"])
@pytest.mark.parametrize(("words", "ground"), PAIRS)
def test_words_stand_out_from_their_ground(words: str, ground: str, mode: str) -> None:
    one, other = (luminance(getattr(theme.COLOURS[name], mode)) for name in (words, ground))
    assert (max(one, other) + 0.05) / (min(one, other) + 0.05) >= 4.5


@pytest.mark.parametrize("name", ["fusebox.css", "fusebox.js", "graph.html", "favicon.svg"])
def test_our_files_name_no_other_origin(name: str) -> None:
    text = (ASSETS / "theme" / name).read_text("utf-8").replace("http://www.w3.org/2000/svg", "")
    assert not re.search(r"https?:|//[a-z0-9-]+\.|@import|url\(", text)


def test_fonts_are_local_only() -> None:
    assert not theme.gradio_theme()._stylesheets
    assert "url(" not in "".join(theme.gradio_theme()._font_css)


def test_the_frame_carries_its_library_and_may_call_nobody() -> None:
    answer = frame.serve(None)  # type: ignore[arg-type]
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy and "sandbox allow-scripts" in policy and "allow-same-origin" not in policy
    assert "connect-src" not in policy and "'self'" not in policy
    assert "vis.Network" in frame.page() and "/*VIS-NETWORK*/" not in frame.page()
    assert not re.search(r"<(script|link|img)[^>]+(src|href)=", frame.page())

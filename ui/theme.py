"""Colours, Gradio's theme, the style sheet and the script of the page.

One colour per evidence branch everywhere, as in the study's figure 1: text blue, graph green, visual orange. Nothing
here is fetched from another origin: fonts are the reader's own.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import gradio as gr

from rag.settings import ASSETS
from rag.types import Branch

BRANCHES: tuple[Branch, ...] = ("text", "graph", "visual")

FONTS = (
    "Inter",
    "system-ui",
    "-apple-system",
    "Segoe UI",
    "Roboto",
    "Helvetica Neue",
    "Liberation Sans",
    "Arial",
    "sans-serif",
)
MONO = ("ui-monospace", "SFMono-Regular", "Menlo", "Consolas", "Liberation Mono", "monospace")


@dataclass(frozen=True, slots=True)
class Tone:
    """A colour by day and by night."""

    light: str
    dark: str


COLOURS: dict[str, Tone] = {
    # surfaces
    "page": Tone("#f7f7f5", "#0f1114"),
    "card": Tone("#ffffff", "#17191e"),
    "sunken": Tone("#f2f2ef", "#1f2228"),
    "line": Tone("#e5e4df", "#2b2f37"),
    "line-strong": Tone("#8a8f98", "#6d7480"),
    # words
    "ink": Tone("#191c22", "#e8eaee"),
    "muted": Tone("#5b6472", "#a3abb8"),
    "invert": Tone("#ffffff", "#0f1114"),
    # branches: the line and the words in it, and the tint behind it
    "text": Tone("#1d5fe0", "#82acff"),
    "text-tint": Tone("#e9f0fe", "#1b2740"),
    "graph": Tone("#15793b", "#5fcf8f"),
    "graph-tint": Tone("#e7f5ec", "#16301f"),
    "visual": Tone("#bd410c", "#ff9f6b"),
    "visual-tint": Tone("#fdeee4", "#3a2417"),
    # the instruction and the question in the prompt
    "frame": Tone("#8d8b80", "#8b8f97"),
    # marks and states
    "mark": Tone("#fff0b3", "#4d4313"),
    "warn": Tone("#8a5a00", "#e9b949"),
    "warn-tint": Tone("#fdf5e0", "#2e2614"),
    "error": Tone("#b42318", "#ff8f85"),
    "error-tint": Tone("#fdeceb", "#3a1b19"),
}


def variables() -> str:
    """The palette as CSS custom properties, light on ``:root`` and dark on Gradio's ``body.dark``."""
    light = "".join(f"--fb-{name}:{tone.light};" for name, tone in COLOURS.items())
    dark = "".join(f"--fb-{name}:{tone.dark};" for name, tone in COLOURS.items())
    fonts = f"--fb-font:{_stack(FONTS)};--fb-mono:{_stack(MONO)};"
    return (
        f":root{{color-scheme:light;{fonts}{light}}}\n:root:has(body.dark){{color-scheme:dark}}\nbody.dark{{{dark}}}\n"
    )


def _stack(names: tuple[str, ...]) -> str:
    return ",".join(f'"{name}"' if " " in name else name for name in names)


def style_sheet() -> str:
    """All CSS of the page: the palette, the frame of the page, then each feature's own."""
    return variables() + "\n".join(_assets("css"))


def head() -> str:
    """What goes into ``<head>``: the icon and the script, inline, so that nothing further is fetched."""
    return "".join(f"<script>\n{script}\n</script>" for script in _assets("js"))


def favicon() -> Path:
    """The three squares."""
    return ASSETS / "theme" / "favicon.svg"


def gradio_theme() -> gr.themes.Base:
    """Gradio's own components in our colours, with local fonts only (Gradio's default asks Google for them)."""
    both = {
        "body_background_fill": "page",
        "body_text_color": "ink",
        "body_text_color_subdued": "muted",
        "background_fill_primary": "card",
        "background_fill_secondary": "sunken",
        "block_background_fill": "card",
        "block_border_color": "line",
        "block_label_text_color": "muted",
        "block_title_text_color": "ink",
        "block_info_text_color": "muted",
        "border_color_primary": "line",
        "border_color_accent": "line-strong",
        "input_background_fill": "card",
        "input_border_color": "line-strong",
        "input_placeholder_color": "muted",
        "link_text_color": "text",
        "button_primary_background_fill": "ink",
        "button_primary_text_color": "invert",
        "button_secondary_background_fill": "card",
        "button_secondary_text_color": "ink",
        "button_secondary_border_color": "line",
        "checkbox_background_color": "card",
        "slider_color": "ink",
    }
    values = {name: f"var(--fb-{colour})" for name, colour in both.items()}
    values |= {f"{name}_dark": value for name, value in values.items()}
    theme = gr.themes.Base(font=list(FONTS), font_mono=list(MONO), radius_size=gr.themes.sizes.radius_md)
    return theme.set(block_shadow="none", block_border_width="0px", input_shadow="none", **values)


def _assets(suffix: str) -> list[str]:
    """The theme's files of one kind, the one that the others build on first."""
    files = sorted((ASSETS / "theme").glob(f"*.{suffix}"), key=lambda file: (file.stem != "fusebox", file.stem))
    return [file.read_text(encoding="utf-8") for file in files]

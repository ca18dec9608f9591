"""The explanation of an answer at the level a person wants, as text to copy."""

from __future__ import annotations

from rag.explain import LEVELS, explain
from rag.types import Trace
from ui import text as words
from ui.views.markup import esc


def empty() -> str:
    """Before the first question there is nothing to explain."""
    return ""


def render(trace: Trace, unfinished: bool = False) -> str:
    """A row of levels with the chosen one's text below it; the texts come with the end of the answer."""
    choices = "".join(
        f'<label><input type="radio" name="fb-level" value="{level}" data-keep="level"{"" if level else " checked"}>'
        f"<span>{esc(name)}</span></label>"
        for level, name in enumerate(LEVELS)
    )
    texts = (
        ""
        if unfinished
        else "".join(
            f'<pre data-level="{level}" dir="auto" tabindex="0" role="region" aria-label="Explanation: {esc(name)}">'
            f"{esc(explain(trace, level))}</pre>"
            for level, name in enumerate(LEVELS)
        )
    )
    waits = " disabled" if unfinished else ""
    return (
        f'<section class="fb-explain" aria-label="Explanation"><div class="fb-explain-bar">'
        f'<fieldset class="fb-levels"><legend>{esc(words.EXPLAIN)}</legend>{choices}</fieldset>'
        f'<button type="button" class="fb-small" data-copy-explanation{waits}>{esc(words.COPY)}</button></div>{texts}</section>'
    )

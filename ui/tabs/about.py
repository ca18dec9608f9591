"""The About tab."""

from __future__ import annotations

from collections.abc import Iterable

import gradio as gr

from rag.corpus import Corpus
from rag.generators.registry import GeneratorSpec
from ui.views import about


def build(corpus: Corpus, generators: Iterable[GeneratorSpec]) -> gr.HTML:
    """What is running and whose documents these are."""
    return gr.HTML(about.render(corpus, generators), elem_id="about", apply_default_css=False, js_on_load=None)

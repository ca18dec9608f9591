"""The Compare tab: one question through several systems and generators at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import gradio as gr

from rag.corpus import Corpus
from rag.evaluate.questions import known_questions
from rag.generators.registry import GeneratorSpec
from rag.systems import SYSTEMS
from ui import text as words
from ui.compare_desk import CompareDesk
from ui.handlers import KNOBS, Handlers
from ui.views import compare
from ui.views.markup import plural, shorten

if TYPE_CHECKING:
    from ui.tabs.explore import Explore

STUDY = ("baseline", "+KG", "+multimodal", "+both")

WIRES = {
    "page": "window.fusebox.onComparePage = (wanted) => trigger('click', wanted);",
    "cell": "window.fusebox.onCompareCell = (wanted) => trigger('click', wanted);",
}
"""What the page's script sends by: a page of a cell, a cell to open in Explore."""


def build(
    handlers: Handlers, specs: Sequence[GeneratorSpec], concurrency: int, explore: Explore, tab: gr.Tab
) -> list[Any]:
    """All components of the tab, and their wiring.

    Returns:
        What is of a corpus: the picker, the cells and their traces.
    """
    desk = CompareDesk(handlers)
    with gr.Column(elem_id="compare"):
        question, ask, stop = _question_row()
        picker = _picker(handlers.shelf.default)
        with gr.Row(elem_id="compare-choices"):
            systems = _chips(list(SYSTEMS), list(STUDY), "Systems", "compare-systems")
            generators = _chips(
                [(spec.label, spec.name) for spec in specs], [specs[0].name], "Generators", "compare-generators"
            )
        cells = _html(compare.empty(), "compare-cells")
    shown, agreed = gr.State(()), gr.State(None)
    outputs = [cells, shown, agreed, ask, stop]
    knobs = [explore.controls[name] for name in KNOBS]
    asked = gr.on(
        [ask.click, question.submit],
        desk.ask,
        [question, systems, generators, agreed, *knobs],
        outputs,
        show_progress="hidden",
        concurrency_limit=concurrency,
        trigger_mode="once",
        api_visibility="private",
    )
    quiet: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private", "queue": False}
    asked.failure(desk.broke, None, outputs, **quiet)
    stop.click(desk.stop, None, outputs, **quiet)
    tab.select(None, [question, explore.question], question, js="(own, asked) => own || asked", **quiet)
    picker.input(None, picker, question, js="(picked) => picked ?? ''", **quiet)
    for changed in (question, systems, generators, *knobs):
        # The estimate on the button was for what stood there before.
        changed.change(None, None, ask, js=f"() => {words.COMPARE_ASK!r}", **quiet)
    _wire(desk, shown, explore, quiet)
    return [picker, cells, shown]


def _wire(desk: CompareDesk, shown: gr.State, explore: Explore, quiet: dict[str, Any]) -> None:
    pages, opened = (_html("", f"compare-{name}", script) for name, script in WIRES.items())
    pages.click(desk.open_page, [shown], explore.viewer, **quiet).then(
        None, js="() => window.fusebox.showPage()", **quiet
    )
    opened.click(desk.open_cell, [shown], [*explore.outputs, *explore.restored], **quiet).success(
        None, js="() => window.fusebox.toExplore()", **quiet
    )


def _question_row() -> tuple[gr.Textbox, gr.Button, gr.Button]:
    with gr.Row(elem_id="compare-row", elem_classes=["fb-ask-row"], equal_height=True):
        question = gr.Textbox(
            label="Question to compare",
            placeholder="Ask all systems …",
            lines=1,
            max_lines=4,
            max_length=2_000,
            container=False,
            scale=1,
            elem_id="compare-question",
        )
        ask = gr.Button(words.COMPARE_ASK, variant="primary", elem_id="compare-ask", scale=0, min_width=104)
        stop = gr.Button(words.STOP, variant="stop", elem_id="compare-stop", scale=0, min_width=84, visible=False)
    return question, ask, stop


def choices_of(corpus: Corpus) -> dict[str, Any]:
    """The picker's properties for a corpus: its questions, and whether there are any."""
    choices = [(f"{question.type}: {shorten(question.q, 160)}", question.q) for question in known_questions(corpus)]
    label = words.PICKER.format(questions=plural(len(choices), "question"))
    return {"choices": choices, "value": None, "label": label, "visible": bool(choices)}


def _picker(corpus: Corpus) -> gr.Dropdown:
    return gr.Dropdown(**choices_of(corpus), filterable=True, elem_id="compare-picker")


def _chips(choices: list[Any], value: list[str], label: str, elem_id: str) -> gr.CheckboxGroup:
    return gr.CheckboxGroup(choices, value=value, label=label, elem_id=elem_id, elem_classes=["fb-ticks"])


def _html(value: str, elem_id: str, script: str | None = None) -> gr.HTML:
    return gr.HTML(value, elem_id=elem_id, elem_classes=["fb-view"], apply_default_css=False, js_on_load=script)

"""The Ablation tab: the study's published figures and runs of one's own, in the same charts and tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import gradio as gr

from rag.generators.registry import GeneratorSpec
from rag.settings import Settings
from rag.systems import SYSTEMS
from ui import text as words
from ui.ablation_data import OFFLINE
from ui.ablation_desk import FILTERS, OUTPUTS, AblationDesk, judge_choices, run_judge_choices, type_choices
from ui.handlers import Handlers
from ui.views import ablation as view

if TYPE_CHECKING:
    from ui.tabs.explore import Explore

WIRES = ("AblationCell", "AblationQuestion", "AblationResume")
"""What the page's script sends by: ``window.fusebox.on<name>(wanted)``."""
POLL_S = 1.0
"""A run's progress is looked at this often, while one goes on."""
CAP_USD = 1.0


def build(
    handlers: Handlers, specs: Sequence[GeneratorSpec], settings: Settings, explore: Explore, tab: gr.Tab
) -> AblationDesk:
    """All components of the tab, and their wiring."""
    desk = AblationDesk(handlers, settings.evaluate, settings.runs)
    parts: dict[str, Any] = {}
    with gr.Column(elem_id="ablation"):
        with gr.Row(elem_id="ablation-filters"):
            parts |= _filters()
        parts["runs"] = _html("ablation-runs")
        with gr.Accordion("Start a run", open=False, elem_id="ablation-start-card", visible=settings.evaluate):
            parts |= _run_form(specs, run_judge_choices(handlers.access))
        with gr.Row(elem_id="ablation-going"):
            parts["progress"] = _html("ablation-progress")
            parts["stop"] = gr.Button(
                words.STOP, variant="stop", elem_id="ablation-stop", scale=0, min_width=84, visible=False
            )
        parts["questions"] = _html("ablation-questions")
        parts["board"] = gr.HTML(
            view.reading(), elem_id="ablation-board", elem_classes=["fb-view"], apply_default_css=False
        )
    parts |= {"agreed": gr.State(None), "timer": gr.Timer(POLL_S, active=False)}
    _wire(desk, parts, explore, tab)
    return desk


def _filters() -> dict[str, Any]:
    return {
        "sources": gr.Dropdown(
            [], value=[], multiselect=True, label="Results", elem_id="ablation-sources", min_width=0, scale=2
        ),
        "types": _chips(type_choices(), [], "Question types (none: all)", "ablation-types"),
        "systems": _chips(list(SYSTEMS), [], "Systems (none: all)", "ablation-systems"),
        "generators": gr.Dropdown(
            [],
            value=[],
            multiselect=True,
            label="Generators (none: all)",
            elem_id="ablation-generators",
            min_width=0,
            scale=2,
        ),
        "judge": gr.Dropdown(
            judge_choices(()), value="", label="Judge", elem_id="ablation-judge", min_width=0, scale=1
        ),
    }


def _run_form(specs: Sequence[GeneratorSpec], judges: list[tuple[str, str]]) -> dict[str, Any]:
    parts: dict[str, Any] = {}
    parts["sets"] = _chips([], [], "Question sets", "ablation-run-sets")
    parts["run_systems"] = _chips(list(SYSTEMS), list(SYSTEMS), "Systems to run", "ablation-run-systems")
    choices = [(spec.label, spec.name) for spec in specs]
    parts["run_generators"] = _chips(choices, [specs[0].name], "Generators to run", "ablation-run-generators")
    parts["run_judges"] = _chips(judges, [OFFLINE], words.ABLATION_JUDGES, "ablation-run-judges")
    parts["judges_more"] = _html("ablation-judges-more")
    with gr.Row(elem_id="ablation-start-row"):
        parts["cap"] = gr.Number(
            CAP_USD, label="Cap in USD", minimum=0, maximum=10_000, elem_id="ablation-cap", min_width=0, scale=0
        )
        parts["start"] = gr.Button(
            words.ABLATION_START, variant="primary", elem_id="ablation-start", scale=0, min_width=104
        )
    return parts


def _wire(desk: AblationDesk, parts: dict[str, Any], explore: Explore, tab: gr.Tab) -> None:
    outputs, filters = [parts[name] for name in OUTPUTS], [parts[name] for name in FILTERS]
    quiet: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private", "queue": False}
    tab.select(desk.open, filters, outputs, **quiet)
    for each in filters:
        each.input(desk.draw, filters, outputs, trigger_mode="always_last", **quiet)
    wish = [parts[name] for name in ("sets", "run_systems", "run_generators", "run_judges")]
    parts["start"].click(
        desk.start,
        [*wish, parts["cap"], parts["agreed"]],
        outputs,
        show_progress="hidden",
        api_visibility="private",
        trigger_mode="once",
    )
    for each in (*wish, parts["cap"]):
        # The estimate on the button, and what was refused, were for what stood there before.
        each.input(desk.changed, None, outputs, trigger_mode="always_last", **quiet)
    parts["stop"].click(desk.stop, None, outputs, **quiet)
    parts["timer"].tick(desk.tick, filters, outputs, **quiet)
    wires = {name: _html(f"ablation-wire-{name.lower()}", name) for name in WIRES}
    wires["AblationCell"].click(desk.open_cell, None, parts["questions"], **quiet).then(
        None, js="() => window.fusebox.showQuestions()", **quiet
    )
    opened = [*explore.outputs, *explore.restored]
    wires["AblationQuestion"].click(desk.open_question, None, opened, **quiet).success(
        None, js="() => window.fusebox.toExplore()", **quiet
    )
    wires["AblationResume"].click(
        desk.resume,
        [parts["run_judges"], parts["cap"]],
        outputs,
        show_progress="hidden",
        api_visibility="private",
        trigger_mode="once",
    )


def _chips(choices: list[Any], value: list[str], label: str, elem_id: str) -> gr.CheckboxGroup:
    return gr.CheckboxGroup(choices, value=value, label=label, elem_id=elem_id, elem_classes=["fb-ticks"])


def _html(elem_id: str, wire: str = "") -> gr.HTML:
    script = f"window.fusebox.on{wire} = (wanted) => trigger('click', wanted);" if wire else None
    return gr.HTML("", elem_id=elem_id, elem_classes=["fb-view"], apply_default_css=False, js_on_load=script)

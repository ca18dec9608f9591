"""The Explore tab: controls left, answer and evidence right."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import gradio as gr

from rag.generators.registry import GeneratorSpec
from rag.systems import CHOICES, LIMITS, SYSTEMS
from ui import graph_desk
from ui import text as words
from ui.contribution_desk import ContributionDesk
from ui.handlers import DEFAULT_SYSTEM, KNOBS, OUTPUTS, Handlers
from ui.history_desk import HistoryDesk
from ui.prompt_desk import PromptDesk
from ui.shelf import Shelf
from ui.views import answer, chunks, counters, crops, explain, generators, graph
from ui.whatif_desk import WhatIfDesk

DEFAULT = SYSTEMS[DEFAULT_SYSTEM]

PRESETS_JS = json.dumps({name: ["graph" in s.branches, "visual" in s.branches] for name, s in SYSTEMS.items()})

# Both run in the browser, so that switches and preset agree at once, whatever the line is like.
SWITCHES_OF_PRESET = f"(preset) => ({PRESETS_JS})[preset]"
PRESET_OF_SWITCHES = (
    f"(kg, visual) => Object.entries({PRESETS_JS}).find(([, on]) => on[0] === kg && on[1] === visual)[0]"
)

OPEN_PAGE_ON_LOAD = "window.fusebox.onPage = (wanted) => trigger('click', wanted);"


@dataclass(frozen=True, slots=True)
class Knob:
    """A retrieval setting as the page offers it."""

    label: str
    info: str
    names: Mapping[str, str] | None = None


SETTINGS: dict[str, Knob] = {
    "text_ranker": Knob("Text ranker", "dense is the study's; hybrid fuses both", {"bm25": "BM25"}),
    "text_k": Knob("Chunks", "passages sent"),
    "graph_mode": Knob(
        "Graph facts from",
        "everywhere drops the page filter; bridged adds two passages by a walk over the graph",
        words.GRAPH_MODES,
    ),
    "max_facts": Knob("Facts at most", "sent to the generator"),
    "visual_ranker": Knob("Visual ranker", "auto is fused where CLIP is there, else proxy", {"clip": "CLIP"}),
    "visual_depth": Knob("Crops scored", "listed; what is sent is the gate's affair"),
}

PAYLOAD = Knob("Visual payload", "auto lets the gate decide")


@dataclass(frozen=True, slots=True)
class Explore:
    """The tab's components, for those that act on them from elsewhere: ``outputs`` in the order of ``handlers.OUTPUTS``, ``inputs``
    of ``Handlers.ask``; ``asked`` is the event of an answered question."""

    question: gr.Textbox
    controls: Mapping[str, Any]
    trace: gr.State
    inputs: list[Any]
    outputs: list[Any]
    asked: Any
    viewer: gr.HTML
    examples: Mapping[str, gr.Row]
    """By the id of the corpus that they are about."""

    @property
    def restored(self) -> list[Any]:
        """What a link or a stored answer sets: question, preset, switches, generator and the settings in the order of ``KNOBS``."""
        return [self.question, *(self.controls[name] for name in ("preset", "graph", "visual", "generator", *KNOBS))]


def build(handlers: Handlers, specs: Iterable[GeneratorSpec], concurrency: int, page: gr.Blocks) -> Explore:
    """All components of the tab, and their wiring; ``page`` is the whole, for its own events."""
    own_keys = handlers.desk is not None and handlers.desk.open
    with gr.Row(elem_id="explore", equal_height=False):
        with gr.Column(scale=0, min_width=0, elem_id="controls"):
            controls = _controls(list(specs), own_keys)
        with gr.Column(scale=1, min_width=0, elem_id="main"):
            question, ask, stop = _question_row()
            examples, chips = _examples(handlers.shelf)
            views = _views(handlers)
            history = HistoryDesk.card()
    viewer = gr.HTML("", elem_id="viewer", apply_default_css=False, js_on_load=OPEN_PAGE_ON_LOAD)
    trace = gr.State(None)
    outputs = [{**views, "trace": trace, "ask": ask, "stop": stop}[name] for name in OUTPUTS]
    inputs = [
        question,
        controls["graph"],
        controls["visual"],
        controls["generator"],
        *(controls[name] for name in KNOBS),
    ]
    asking = gr.on(
        [ask.click, question.submit],
        handlers.ask,
        inputs,
        outputs,
        show_progress="hidden",
        concurrency_limit=concurrency,
        trigger_mode="once",
        api_visibility="private",
    )
    asking.failure(handlers.broke, None, outputs, show_progress="hidden", api_visibility="private", queue=False)
    quiet: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private", "queue": False}
    # Not cancelled from outside: the question ends itself, so that what it came to is counted.
    stop.click(handlers.stop, None, outputs, **quiet)
    for chip, example in chips:
        chip.click(None, None, question, js=f"() => {json.dumps(example.question)}", **quiet).then(
            None, js="() => window.fusebox.ask()", **quiet
        )
    opening = viewer.click(
        handlers.open_page, [trace], viewer, show_progress="hidden", api_visibility="private", queue=False
    )
    opening.then(None, js="() => window.fusebox.showPage()", **quiet)
    graph_desk.wire(handlers, trace, controls["graph_mode"], quiet)
    _agree(controls, quiet)
    _watch(question, controls, page, quiet)
    page.load(handlers.session, None, _html("", "session"), **quiet)
    page.unload(handlers.leave)
    explore = Explore(question, controls, trace, inputs, outputs, asking, viewer, examples)
    showing = WhatIfDesk(handlers).wire(explore, views["whatif"], views["influence"], concurrency)
    chosen = ContributionDesk(handlers).wire(views["helped"], explore, concurrency)
    entries = HistoryDesk(handlers).wire(history, explore, page, showing, chosen)
    PromptDesk(handlers).wire(views["prompt"], trace, entries)
    return explore


def _agree(controls: Mapping[str, gr.components.Component], quiet: Mapping[str, Any]) -> None:
    """Preset and switches follow each other; ``input`` fires for a person only, so nothing goes round in circles."""
    switches = [controls["graph"], controls["visual"]]
    controls["preset"].input(None, controls["preset"], switches, js=SWITCHES_OF_PRESET, **quiet)
    for switch in switches:
        switch.input(None, switches, controls["preset"], js=PRESET_OF_SWITCHES, **quiet)
    knobs = ("payload", *SETTINGS)
    tuned = [controls[name] for name in knobs]
    defaults = json.dumps([getattr(DEFAULT, name) for name in knobs])
    controls["reset"].click(None, None, tuned, js=f"() => {defaults}", **quiet)
    controls["graph_mode"].change(_graph_note, controls["graph_mode"], controls["graph"], **quiet)


def _graph_note(mode: str) -> Any:
    """The graph switch's note, in the words of the mode."""
    return gr.update(info=words.GRAPH_NOTES.get(mode, ""))


def _watch(question: gr.Textbox, controls: Mapping[str, Any], page: gr.Blocks, quiet: Mapping[str, Any]) -> None:
    """The browser knows what the controls say, and marks the answer that was given with other settings."""
    watched = {"question": question, **{name: controls[name] for name in ("preset", "generator", *KNOBS)}}
    gr.on(
        [page.load, *(one.change for one in watched.values())],
        None,
        list(watched.values()),
        js=f"(...now) => window.fusebox.moved(now, {json.dumps(list(watched))})",
        **quiet,
    )


def _controls(specs: list[GeneratorSpec], own_keys: bool) -> dict[str, Any]:
    specs = sorted(specs, key=lambda spec: list(words.ACCESS).index(spec.access))
    built: dict[str, Any] = {}
    with gr.Column(elem_id="card-system", min_width=0):
        built["preset"] = gr.Radio(list(SYSTEMS), value=DEFAULT.name, label="System", elem_id="preset")
        for branch, label in words.SWITCHES.items():
            built[branch] = gr.Checkbox(
                branch in DEFAULT.branches,
                label=label,
                info=words.SWITCH_NOTES[branch],
                elem_id=f"switch-{branch}",
                elem_classes=["fb-switch", branch],
                container=False,
            )
    built["generator"] = gr.Radio(
        [(generators.card(spec), spec.name) for spec in specs],
        value=specs[0].name,
        label="Generator",
        info=generators.BEFORE,
        elem_id="generator",
    )
    built["payload"] = _choice("payload", PAYLOAD, CHOICES["payload"], "payload")
    with gr.Accordion("Retrieval settings", open=False, elem_id="settings"):
        for name, knob in SETTINGS.items():
            built[name] = (
                _slider(name, knob) if name in LIMITS else _choice(name, knob, CHOICES[name], name.replace("_", "-"))
            )
        built["reset"] = gr.Button("Reset to defaults", size="sm", elem_id="reset")
    if own_keys:
        with gr.Accordion("Your own key", open=False, elem_id="own-key"):
            _html(generators.key_fields(specs), "keys")
    return built


def _choice(name: str, knob: Knob, choices: Iterable[str], elem_id: str) -> gr.Radio:
    named = [((knob.names or {}).get(choice, choice), choice) for choice in choices]
    named.sort(key=lambda pair: pair[1] != "auto")
    return gr.Radio(
        named,
        value=getattr(DEFAULT, name),
        label=knob.label,
        info=knob.info,
        elem_id=elem_id,
        elem_classes=["fb-segmented"],
    )


def _slider(name: str, knob: Knob) -> gr.Slider:
    low, high = LIMITS[name]
    return gr.Slider(
        low,
        high,
        value=getattr(DEFAULT, name),
        step=1,
        label=knob.label,
        info=knob.info,
        elem_id=name.replace("_", "-"),
        buttons=[],
    )


def _question_row() -> tuple[gr.Textbox, gr.Button, gr.Button]:
    with gr.Row(elem_id="ask-row", equal_height=True):
        question = gr.Textbox(
            label="Question",
            placeholder="Ask about the documents …",
            lines=1,
            max_lines=4,
            max_length=2_000,
            container=False,
            scale=1,
            elem_id="question",
        )
        ask = gr.Button("Ask", variant="primary", elem_id="ask", scale=0, min_width=84)
        stop = gr.Button(words.STOP, variant="stop", elem_id="stop", scale=0, min_width=84, visible=False)
    return question, ask, stop


def _examples(shelf: Shelf) -> tuple[dict[str, gr.Row], list[tuple[gr.Button, words.Example]]]:
    """A row for every corpus that has examples, of which one is seen; and all buttons."""
    rows: dict[str, gr.Row] = {}
    chips = []
    for choice in shelf.choices(""):
        examples = words.EXAMPLES.get(choice.name, ())
        if not examples:
            continue
        shown = choice.id == shelf.default.id
        with gr.Row(elem_id="examples" if shown else None, elem_classes=["fb-examples"], visible=shown) as row:
            chips += [(_example(example), example) for example in examples]
        rows[choice.id] = row
    return rows, chips


def _example(example: words.Example) -> gr.Button:
    label = f"{example.kind}: {example.label}"
    return gr.Button(label, size="sm", elem_classes=["fb-chip"], min_width=0, scale=0)


def _views(handlers: Handlers) -> dict[str, gr.HTML]:
    corpus = handlers.shelf.default
    with gr.Row(elem_id="top", equal_height=True):
        views = {
            "answer": _html(answer.empty(len(corpus.documents)), "answer"),
            "counters": _html(counters.empty(), "counters"),
            "helped": ContributionDesk.card(),
        }
    views["explain"] = _html(explain.empty(), "explain")
    views["whatif"] = WhatIfDesk.panel()
    with gr.Row(elem_id="columns", equal_height=True):
        views["text"] = _html(chunks.render(None, corpus), "text")
        views["graph"] = _html(graph.render(None, corpus), "graph")
        views["visual"] = _html(crops.render(None, corpus), "visual")
    WhatIfDesk.bar()
    views["influence"] = WhatIfDesk.influence()
    views["prompt"] = PromptDesk.card()
    views["estimates"] = _html("", "estimates")
    return views


def _html(value: str, elem_id: str) -> gr.HTML:
    return gr.HTML(value, elem_id=elem_id, elem_classes=["fb-view"], apply_default_css=False, js_on_load=None)

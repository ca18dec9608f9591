"""The Corpus tab: choose a corpus, look through it page by page, add documents of one's own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import gradio as gr

from rag.ingest.limits import UPLOADS
from rag.keys import SessionKeys
from ui.corpus_desk import OUTPUTS, CorpusDesk
from ui.handlers import Handlers
from ui.keydesk import KeyDesk
from ui.tabs.compare import choices_of
from ui.uploads import KINDS, Uploads
from ui.views import about
from ui.views import corpus as view

if TYPE_CHECKING:
    from ui.tabs.explore import Explore

WIRES = ("Choose", "Browse", "Build", "Remove", "Index", "CorpusStop")
"""What the page's script sends by: ``window.fusebox.on<name>(wanted)``."""


@dataclass(frozen=True, slots=True)
class Top:
    """What stands over all tabs, and what the page's script sends by: a tab's own components are not there before it is opened."""

    header: gr.HTML
    notice: gr.HTML
    wires: dict[str, gr.HTML]


@dataclass(frozen=True, slots=True)
class Tab:
    """The tab's components by their names in ``corpus_desk.OUTPUTS``."""

    desk: CorpusDesk
    views: dict[str, gr.HTML]


def header(handlers: Handlers) -> Top:
    """The header with the choice of corpora, and the place for what goes wrong with it."""
    value = about.header(handlers.shelf.default, handlers.shelf.choices(""))
    top = gr.HTML(value, elem_id="header", apply_default_css=False, js_on_load=None)
    wires = {name: _html("", f"corpus-wire-{name.lower()}", name) for name in WIRES}
    return Top(top, _html("", "corpus-notice"), wires)


def build(handlers: Handlers, uploads: Uploads | None) -> Tab:
    """All components of the tab."""
    uploads = uploads or _closed()
    desk = CorpusDesk(handlers, uploads, choices_of)
    corpus = handlers.shelf.default
    views: dict[str, gr.HTML] = {}
    with gr.Row(elem_id="corpus", equal_height=False):
        with gr.Column(scale=0, min_width=0, elem_id="corpus-side"):
            views["state"] = _html(view.state(corpus, own=False, may_build=uploads.allowed), "corpus-state")
            _html(view.upload(uploads.limits, uploads.allowed, KINDS, uploads.languages), "corpus-upload")
            views["build"] = _html("", "corpus-build")
            views["form"] = _html(view.form(corpus), "corpus-form")
            views["list"] = _html(view.unread(corpus), "corpus-list")
        with gr.Column(scale=1, min_width=0, elem_id="corpus-main"):
            views["page"] = _html("", "corpus-page")
    return Tab(desk, views)


def _closed() -> Uploads:
    """Where the page is served without a way in for documents."""
    return Uploads(KeyDesk(SessionKeys(allowed=False), ()), UPLOADS, allowed=False)


def wire(tab: Tab, top: Top, told: gr.HTML, compared: list[Any], explore: Explore) -> None:
    """What the tab's events do to the whole page."""
    desk, wires = tab.desk, top.wires
    desk.examples = tuple(explore.examples)
    desk.handlers.left = desk.leave
    if desk.handlers.desk is not None:
        desk.handlers.desk.forgotten = desk.evict
    views = {**tab.views, "header": top.header, "notice": top.notice, "about": told}
    outputs = [*(views[name] for name in OUTPUTS), *explore.examples.values(), *compared, *explore.outputs]
    quiet: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private", "queue": False}
    queued = {**quiet, "queue": True, "trigger_mode": "once", "concurrency_limit": None}
    shown = "() => window.fusebox.corpusShown()"
    another = "() => window.fusebox.corpusShown(true)"
    wires["Choose"].click(desk.choose, None, outputs, **quiet).then(None, js=another, **quiet)
    wires["Remove"].click(desk.remove, None, outputs, **quiet).then(None, js=another, **quiet)
    wires["Browse"].click(desk.browse, None, [views["list"], views["page"]], **quiet).then(
        None, js="() => window.fusebox.corpusBrowsed()", **quiet
    )
    wires["Build"].click(desk.build, None, outputs, **queued).then(None, js=another, **quiet)
    wires["Index"].click(desk.index, None, outputs, **queued).then(None, js=shown, **quiet)
    wires["CorpusStop"].click(desk.stop, None, None, **quiet)


def _html(value: str, elem_id: str, wire: str = "") -> gr.HTML:
    script = f"window.fusebox.on{wire} = (wanted) => trigger('click', wanted);" if wire else None
    return gr.HTML(value, elem_id=elem_id, elem_classes=["fb-view"], apply_default_css=False, js_on_load=script)

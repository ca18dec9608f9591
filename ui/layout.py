"""The page: header, tabs, and how it is served."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Mapping
from types import FrameType
from typing import Any

import gradio as gr
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from rag.corpus import Corpus
from rag.generators.access import Access
from rag.generators.registry import GENERATORS, GeneratorSpec
from rag.ingest.languages import offered
from rag.keys import SessionKeys
from rag.settings import Settings
from ui import api, charts_route, frame, theme
from ui import text as words
from ui.handlers import Handlers
from ui.keydesk import KeyDesk
from ui.shelf import Shelf
from ui.tabs import ablation, about, compare, explore
from ui.tabs import corpus as corpus_tab
from ui.uploads import Uploads, clear


def _refuse_upload(request: Request) -> PlainTextResponse:
    return PlainTextResponse("This page takes no uploads.", status_code=403)


NO_UPLOADS = Route("/gradio_api/upload", _refuse_upload, methods=["POST"])
"""Gradio takes files from anybody, whether a component wants one or not; they would fill the disk."""


def serve(corpus: Corpus, settings: Settings, generators: Mapping[str, GeneratorSpec] = GENERATORS) -> None:
    """Serve the page until stopped: one way to the generators and one desk for visitors' keys per process."""
    access = Access.of(settings)
    keys = access.keys or SessionKeys(allowed=False)
    desk = KeyDesk(keys, {spec.key_env for spec in generators.values() if spec.key_env})
    shelf = Shelf(corpus, folders=settings.corpora, encoder_id=settings.text_encoder)
    handlers = Handlers(shelf, generators, access, desk)
    for example in words.EXAMPLES.get(corpus.manifest.name, ()):
        handlers.warm(example.question)
    handlers.warm(words.WARMING)
    uploads = Uploads(desk, settings.uploads, settings.take_uploads, offered(settings.languages))
    # Ended from outside, the process ends as it does by Ctrl-C, and visitors' documents with it.
    signal.signal(signal.SIGTERM, _end)
    build(handlers, settings, uploads).launch(**launch_options(settings, desk, uploads))


def _end(number: int, frame: FrameType | None) -> None:
    """End the process; a generator that does not let go of its thread is not waited for longer than ``GRACE_S``."""

    def at_last() -> None:
        clear()
        os._exit(1)

    timer = threading.Timer(GRACE_S, at_last)
    timer.daemon = True
    timer.start()
    sys.exit(0)


GRACE_S = 10.0


def build(handlers: Handlers, settings: Settings, uploads: Uploads | None = None) -> gr.Blocks:
    """All tabs."""
    corpus, specs = handlers.shelf.default, list(handlers.generators.values())
    with gr.Blocks(title=words.TITLE, fill_width=True, analytics_enabled=False) as page:
        top = corpus_tab.header(handlers)
        api.wire(handlers, settings.concurrency, page)
        with gr.Tabs(elem_id="tabs"):
            with gr.Tab("Explore", id="explore"):
                explored = explore.build(handlers, specs, settings.concurrency, page)
            with gr.Tab("Compare", id="compare") as side_by_side:
                compared = compare.build(handlers, specs, settings.concurrency, explored, side_by_side)
            with gr.Tab("Ablation", id="ablation") as measured:
                ablation.build(handlers, specs, settings, explored, measured)
            with gr.Tab("Corpus", id="corpus"):
                browsed = corpus_tab.build(handlers, uploads)
            with gr.Tab("About", id="about"):
                told = about.build(corpus, specs)
        corpus_tab.wire(browsed, top, told, compared, explored)
    page.queue(default_concurrency_limit=settings.concurrency, api_open=False)
    return page


def launch_options(settings: Settings, desk: KeyDesk, uploads: Uploads | None = None) -> dict[str, Any]:
    """Arguments of ``launch``: our address and looks, nothing from elsewhere, no inputs kept in browsers, no folder
    served."""
    routes = [
        frame.route(),
        charts_route.route(),
        NO_UPLOADS,
        *([desk.route()] if desk.open else []),
        *([uploads.route()] if uploads else []),
    ]
    return {
        "server_name": settings.host,
        "server_port": settings.port,
        "theme": theme.gradio_theme(),
        "css": theme.style_sheet(),
        "head": theme.head(),
        "favicon_path": theme.favicon(),
        "footer_links": [],
        "run_history": False,
        "share": False,
        "mcp_server": api.mcp_installed(),
        "ssr_mode": False,
        "show_error": False,
        "max_file_size": "50mb",
        # A session keeps its last answer; with the default of 10,000 those of a busy day would fill the memory.
        "state_session_capacity": 500,
        "app_kwargs": {"routes": routes},
    }

"""The app as a process and a browser that may talk to it and to nobody else."""

from __future__ import annotations

import base64
import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from playwright.sync_api import Browser, BrowserContext, Page, Route, expect, sync_playwright

from rag.corpus import save_corpus
from rag.settings import DEMO_CORPUS
from rag.types import Chunk, Crop, Document, Region, Triple
from rag.types import Page as CorpusPage

ROOT = Path(__file__).resolve().parents[2]
OUTPUT = ROOT / "tests" / "output"
CHROMIUM = Path("/usr/bin/chromium")
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
KEYS = ("OPENAI_API_KEY", "DEEPINFRA_TOKEN", "GEMINI_API_KEY")

PATIENCE_MS = 30_000

SETTLED = ", ".join(
    f'#answer [data-state="{state}"]' for state in ("answered", "abstained", "stopped", "cut", "filtered", "error")
)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@dataclass
class Server:
    """A running app; ``lines`` are read as they come."""

    process: subprocess.Popen[str]
    url: str

    def read_until(self, words: str) -> str:
        """Block until a line of the process's output holds ``words``."""
        assert self.process.stdout is not None
        seen = []
        for line in self.process.stdout:
            seen.append(line)
            if words in line:
                return line
        raise AssertionError(f"the app ended before it said {words!r}:\n{''.join(seen)}")


@contextmanager
def serving(*command: str, port: int, **env: str) -> Iterator[Server]:
    """Start a process and wait until it says that it serves."""
    clean = {name: value for name, value in os.environ.items() if name not in KEYS}
    process = subprocess.Popen(
        [sys.executable, "-u", *command],
        cwd=ROOT,
        env={**clean, "GRADIO_ANALYTICS_ENABLED": "False", **env},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    server = Server(process, f"http://127.0.0.1:{port}")
    try:
        server.read_until("Running on local URL")
        yield server
    finally:
        process.terminate()
        process.wait()


@pytest.fixture(scope="session")
def demo_folder() -> Path:
    return Path(os.environ.get("FUSEBOX_CORPUS") or DEMO_CORPUS)


@pytest.fixture(scope="session")
def app(demo_folder: Path) -> Iterator[Server]:
    """The page over the demo corpus."""
    port = free_port()
    with serving("-m", "tests.ui.server", str(demo_folder), str(port), port=port) as server:
        yield server


ATTACK = "<img src=x onerror=\"window.top.pwned=1\"><script>window.pwned=1;parent.postMessage('pwned','*')</script>"


@pytest.fixture(scope="session")
def hostile_app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The page over a corpus in which every string is an attack."""
    folder = tmp_path_factory.mktemp("hostile")
    (folder / "pages").mkdir(), (folder / "crops").mkdir()
    Image.new("RGB", (306, 396), "white").save(folder / "pages" / "a.webp", "WEBP")
    Image.new("RGB", (100, 100), "white").save(folder / "crops" / "a.webp", "WEBP")
    box = (72.0, 72.0, 540.0, 104.0)
    text = f"glioma trial {ATTACK} enrolled 37 patients"
    save_corpus(
        folder / "corpus",
        name=f"n {ATTACK}",
        kind="pdf",
        documents=[Document("d", f"T {ATTACK}", "d.pdf", 1, "0" * 64, ATTACK, ATTACK, ATTACK, ATTACK, ATTACK)],
        pages=[CorpusPage("d_p001", "d", 1, 612.0, 792.0, "pages/a.webp")],
        regions=[Region("d_p001_r00", "d_p001", "text", box, text, 0)],
        chunks=[Chunk("d_p001_c00", "d_p001", text, 0, ("d_p001_r00",))],
        crops=[Crop("d_p001_figure0", "d_p001", "figure", box, "crops/a.webp", f"glioma {ATTACK}", f"trial {ATTACK}")],
        triples=[Triple("glioma trial", f"enrolled {ATTACK}", f"37 {ATTACK}", "d_p001_c00", "d_p001", ATTACK)],
        images=folder,
    )
    port = free_port()
    with serving("-m", "tests.ui.server", str(folder / "corpus"), str(port), port=port) as server:
        yield server


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    if not CHROMIUM.is_file():
        pytest.fail("chromium is missing; `make test` installs it (packages of tests/system_packages.sh)")
    # As patient as the contexts: a machine may be busy.
    expect.set_options(timeout=PATIENCE_MS)
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=str(CHROMIUM), args=ARGUMENTS)
        yield launched
        launched.close()


@dataclass
class Watch:
    """What a page did that it should not have done."""

    elsewhere: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)
    dialogs: list[str] = field(default_factory=list)


@dataclass
class Visit:
    """A browser window on the app."""

    page: Page
    context: BrowserContext
    watch: Watch
    url: str

    def open(self) -> Visit:
        self.page.goto(self.url)
        self.page.wait_for_selector("#ask")
        return self

    def ask(self, question: str | None = None, key: str = "Enter") -> dict[str, Any]:
        """Ask, wait for the end and give the trace; without a question, the last one again."""
        before = self.trace_id()
        box = self.page.locator("#question textarea")
        if question is not None:
            box.fill(question)
        box.press(key)
        self.wait_for_another(before)
        return self.trace()

    def wait_for_another(self, before: str) -> None:
        """Wait for the end of an answer that is not the one before."""
        self.page.wait_for_function(
            "([before, settled]) => document.querySelector(settled) && document.querySelector('#fb-trace')"
            " && document.querySelector('#fb-trace').download !== before"
            " && !document.querySelector('#stop')?.checkVisibility()",
            arg=[before, SETTLED],
        )

    def trace_id(self) -> str:
        link = self.page.locator("#fb-trace")
        return link.get_attribute("download") or "" if link.count() else ""

    def trace(self) -> dict[str, Any]:
        """The trace in the download link."""
        link = self.page.get_attribute("#fb-trace", "href") or ""
        decoded: dict[str, Any] = json.loads(base64.b64decode(link.split(",", 1)[1]))
        return decoded

    def graph_ready(self) -> None:
        self.page.locator(".fb-graph iframe").scroll_into_view_if_needed()
        self.page.wait_for_selector(".fb-graph iframe[data-ready]")
        frame = next(frame for frame in self.page.frames if "fusebox/graph" in frame.url)
        frame.wait_for_selector("html[data-settled]")

    def shot(self, name: str, **options: Any) -> None:
        OUTPUT.mkdir(parents=True, exist_ok=True)
        self.page.screenshot(path=OUTPUT / f"{name}.png", **options)


@contextmanager
def visiting(browser: Browser, url: str, **options: Any) -> Iterator[Visit]:
    """A window of its own: cookies, storage and session are nobody else's. Requests to other origins are blocked and noted."""
    context = browser.new_context(**{"viewport": {"width": 1440, "height": 1060}, "color_scheme": "light", **options})
    context.set_default_timeout(PATIENCE_MS)
    watch = Watch()

    def guard(route: Route) -> None:
        if re.match(rf"{re.escape(url)}(/|$)|data:|blob:", route.request.url):
            route.continue_()
        else:
            watch.elsewhere.append(route.request.url)
            route.abort()

    context.route("**/*", guard)
    page = context.new_page()
    page.on("console", lambda m: watch.complaints.append(m.text) if m.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: watch.complaints.append(str(error)))
    page.on("websocket", lambda socket: watch.elsewhere.append(socket.url) if "127.0.0.1" not in socket.url else None)

    def dismiss(dialog: Any) -> None:
        watch.dialogs.append(dialog.message)
        dialog.dismiss()

    page.on("dialog", dismiss)
    try:
        yield Visit(page, context, watch, url)
    finally:
        context.close()


@pytest.fixture
def visit(browser: Browser, app: Server) -> Iterator[Visit]:
    """A fresh window, and at the end of every test: nobody else was called and nothing complained."""
    with visiting(browser, app.url) as window:
        yield window.open()
        assert window.watch.elsewhere == []
        assert window.watch.complaints == []
        assert window.watch.dialogs == []

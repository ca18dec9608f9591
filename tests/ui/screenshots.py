"""Write the README's screenshots: ``python -m tests.ui.screenshots``, with FUSEBOX_CORPUS for another corpus than the demo."""

from __future__ import annotations

import io
import os
import tempfile
from pathlib import Path
from typing import Literal

from PIL import Image
from playwright.sync_api import Browser, sync_playwright

from rag.settings import ASSETS, DEMO_CORPUS
from tests.ui.conftest import ARGUMENTS, CHROMIUM, free_port, serving, visiting
from ui.text import EXAMPLES, HELPED

TARGET = ASSETS / "screenshots"
QUESTION, DRAWN = (next(e.question for e in EXAMPLES["demo"] if e.kind == kind) for kind in ("table", "pixels"))

ENDPOINTS = """
[[endpoint]]
name = "llama-cpp"
label = "llama.cpp, ours"
base_url = "http://127.0.0.1:8080/v1"
model = "llama-3.2-3b-instruct"
usd_per_million_input = 0.0
usd_per_million_output = 0.0
"""


def main() -> None:
    """The page in both themes, and the list of generators with estimates for a prompt with pixels."""
    TARGET.mkdir(exist_ok=True)
    corpus = Path(os.environ.get("FUSEBOX_CORPUS") or DEMO_CORPUS)
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as folder:
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=ARGUMENTS)
        endpoints, port = Path(folder) / "endpoints.toml", free_port()
        endpoints.write_text(ENDPOINTS, "utf-8")
        env = {"FUSEBOX_CORPUS": str(corpus), "FUSEBOX_PORT": str(port)}
        with serving("app.py", port=port, **env) as server:
            for scheme in ("light", "dark"):
                explore(browser, server.url, scheme)
            compare(browser, server.url)
            ablation(browser, server.url)
        with serving("app.py", port=port, FUSEBOX_ENDPOINTS=str(endpoints), **env) as server:
            generators(browser, server.url)
        browser.close()


def explore(browser: Browser, url: str, scheme: Literal["light", "dark"]) -> None:
    """The first screen after a question that a drawing answers, with the verdict on what helped."""
    with visiting(browser, url, color_scheme=scheme, reduced_motion="reduce") as window:
        window.open().ask(DRAWN)
        # Once more, so that the times are those of a process that has warmed up.
        window.ask(DRAWN)
        window.page.get_by_role("button", name=HELPED).click()
        window.page.wait_for_selector("#helped .fb-helped.done")
        window.graph_ready()
        page = window.page
        page.wait_for_function("[...document.images].every((image) => image.complete)")
        next(f for f in page.frames if "fusebox/graph" in f.url).wait_for_selector("html[data-settled]")
        page.evaluate("scrollTo(0, 0); document.activeElement.blur()")
        keep(page.screenshot(), f"explore-{scheme}")


def compare(browser: Browser, url: str) -> None:
    """Four systems on the question of a table."""
    with visiting(browser, url, viewport={"width": 1440, "height": 900}, reduced_motion="reduce") as window:
        page = window.open().page
        page.get_by_role("tab", name="Compare").click()
        page.fill("#compare-question textarea", QUESTION)
        page.click("#compare-ask")
        page.wait_for_function("document.querySelectorAll('#compare [data-state=answered]').length > 1")
        page.wait_for_selector("#compare-ask", state="visible")
        page.evaluate("document.activeElement.blur()")
        keep(page.screenshot(), "compare")


def ablation(browser: Browser, url: str) -> None:
    """The study's published results beside the run that ships."""
    with visiting(browser, url, viewport={"width": 1440, "height": 1500}, reduced_motion="reduce") as window:
        page = window.open().page
        page.get_by_role("tab", name="Ablation").click()
        page.wait_for_selector("[data-ablation=drawn]")
        page.wait_for_function(
            "[...document.querySelectorAll('.fb-chart')].every("
            "(box) => box.dataset.drawn || box.getBoundingClientRect().top > innerHeight)"
        )
        keep(page.screenshot(), "ablation")


def generators(browser: Browser, url: str) -> None:
    """The list after a question whose crop would go along as pixels: nobody has a key here, so nothing but the estimates
    comes of it."""
    with visiting(browser, url, device_scale_factor=2, reduced_motion="reduce") as window:
        page = window.open().page
        page.locator("#generator label", has_text="GPT-4o-mini").click()
        page.locator("#payload label", has_text="pixels").click()
        window.ask(QUESTION)
        page.wait_for_selector("#generator .fb-tokens")
        page.evaluate("document.activeElement.blur()")
        keep(page.locator("#generator").screenshot(), "generators")


def keep(shot: bytes, name: str) -> None:
    """256 colours keep the files small."""
    image = Image.open(io.BytesIO(shot)).convert("RGB").quantize(256, dither=Image.Dither.NONE)
    image.save(TARGET / f"{name}.png", optimize=True)


if __name__ == "__main__":
    main()

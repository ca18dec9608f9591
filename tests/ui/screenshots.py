"""Write the README's screenshots: ``python -m tests.ui.screenshots``, with FUSEBOX_CORPUS for another corpus than the demo."""

from __future__ import annotations

import io
import os
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

from rag.settings import ASSETS, DEMO_CORPUS
from tests.ui.conftest import ARGUMENTS, CHROMIUM, free_port, serving, visiting
from ui.text import EXAMPLES

TARGET = ASSETS / "screenshots"
QUESTION = next(example.question for example in EXAMPLES["demo"] if example.kind == "table")


def main() -> None:
    """Ask the question of a table in both themes; 256 colours keep the files small."""
    TARGET.mkdir(exist_ok=True)
    port, corpus = free_port(), Path(os.environ.get("FUSEBOX_CORPUS") or DEMO_CORPUS)
    with (
        serving("app.py", port=port, FUSEBOX_CORPUS=str(corpus), FUSEBOX_PORT=str(port)) as server,
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=ARGUMENTS)
        for scheme in ("light", "dark"):
            with visiting(browser, server.url, color_scheme=scheme, reduced_motion="reduce") as window:
                window.open().ask(QUESTION)
                # Once more, so that the times are those of a process that has warmed up.
                window.ask(QUESTION)
                window.graph_ready()
                page = window.page
                page.wait_for_function("[...document.images].every((image) => image.complete)")
                next(f for f in page.frames if "fusebox/graph" in f.url).wait_for_function("window.settled")
                page.evaluate("scrollTo(0, 0); document.activeElement.blur()")
                shot = Image.open(io.BytesIO(page.screenshot()))
                shot.convert("RGB").quantize(256, dither=Image.Dither.NONE).save(
                    TARGET / f"explore-{scheme}.png", optimize=True
                )
        browser.close()


if __name__ == "__main__":
    main()

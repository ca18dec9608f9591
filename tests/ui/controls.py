"""How a test works the controls of the Explore page."""

from __future__ import annotations

from collections.abc import Callable

from playwright.sync_api import Page, expect

from ui import text as words

TEXT_QUESTION = words.EXAMPLES["demo"][0].question


def radio(group: str, label: str) -> Callable[[Page], None]:
    return lambda page: page.locator(f"{group} label", has_text=label).first.click()


def settings(act: Callable[[Page], None]) -> Callable[[Page], None]:
    def opened(page: Page) -> None:
        page.get_by_role("button", name="Retrieval settings").click()
        act(page)

    return opened


def number(group: str, value: int) -> Callable[[Page], None]:
    def fill(page: Page) -> None:
        box, slider = page.locator(f"{group} input[type=number]"), page.locator(f"{group} input[type=range]")
        for _ in range(10):  # what is typed while the fold-out is still being built is lost
            box.fill(str(value))
            box.press("Tab")
            try:
                expect(slider).to_have_value(str(value), timeout=2_000)
            except AssertionError:
                continue
            return
        expect(slider).to_have_value(str(value))

    return settings(fill)


def switch(branch: str) -> Callable[[Page], None]:
    return lambda page: page.locator(f"#switch-{branch} input").click()

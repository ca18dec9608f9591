"""Every control of the Explore page changes the request it says it changes, read from the trace that the page gives out."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from rag.generators.registry import GENERATORS
from rag.systems import CHOICES, SYSTEMS
from tests.ui.conftest import SETTLED, Server, Visit, visiting
from tests.ui.controls import TEXT_QUESTION, number, radio, settings, switch
from tests.ui.test_explore_browser import serious
from ui import text as words
from ui.handlers import KNOBS
from ui.tabs import explore

pytestmark = pytest.mark.browser

CONTROLS: list[tuple[str, Callable[[Page], None], dict[str, Any]]] = [
    ("preset baseline", radio("#preset", "baseline"), {"name": "baseline", "branches": ["text"]}),
    ("preset +KG", radio("#preset", "+KG"), {"name": "+KG", "branches": ["text", "graph"]}),
    ("preset +multimodal", radio("#preset", "+multimodal"), {"name": "+multimodal", "branches": ["text", "visual"]}),
    ("graph off", switch("graph"), {"name": "+multimodal"}),
    ("visual off", switch("visual"), {"name": "+KG"}),
    ("pixels", radio("#payload", "pixels"), {"payload": "pixels"}),
    ("captions", radio("#payload", "captions"), {"payload": "captions"}),
    ("dense", settings(radio("#text-ranker", "dense")), {"text_ranker": "dense"}),
    ("bm25", settings(radio("#text-ranker", "BM25")), {"text_ranker": "bm25"}),
    ("chunks", number("#text-k", 6), {"text_k": 6}),
    ("graph mode", settings(radio("#graph-mode", "everywhere")), {"graph_mode": "open"}),
    ("bridge", settings(radio("#graph-mode", "bridged")), {"graph_mode": "bridge"}),
    ("facts", number("#max-facts", 1), {"max_facts": 1}),
    ("visual ranker", settings(radio("#visual-ranker", "proxy")), {"visual_ranker": "proxy"}),
    ("fused", settings(radio("#visual-ranker", "fused")), {"visual_ranker": "fused"}),
    ("clip", settings(radio("#visual-ranker", "CLIP")), {"visual_ranker": "clip"}),
    ("depth", number("#visual-depth", 2), {"visual_depth": 2}),
]


@pytest.mark.parametrize(("act", "expected"), [c[1:] for c in CONTROLS], ids=[c[0] for c in CONTROLS])
def test_a_control_changes_the_request(visit: Visit, act: Callable[[Page], None], expected: dict[str, Any]) -> None:
    act(visit.page)
    system = visit.ask(TEXT_QUESTION)["system"]
    default = {name: getattr(explore.DEFAULT, name) for name in system}
    changed = {name: value for name, value in system.items() if value != json.loads(json.dumps(default[name]))}
    assert {name: system[name] for name in expected} == expected
    assert set(changed) - {"label", "name", "branches"} == set(expected) - {"name", "branches"}


def test_the_generator_chosen_is_the_one_asked_and_says_what_it_needs(visit: Visit) -> None:
    radio("#generator", "GPT-4o-mini")(visit.page)
    assert visit.ask(TEXT_QUESTION)["generator"] == "gpt-4o-mini"
    expect(visit.page.locator("#answer [data-state=error]")).to_contain_text("OPENAI_API_KEY")
    expect(visit.page.locator("#text li.fb-item").first).to_be_visible()


def test_preset_and_switches_always_agree(visit: Visit) -> None:
    page = visit.page

    def shown() -> tuple[str, bool, bool]:
        chosen = page.locator("#preset label.selected").inner_text()
        return (
            chosen,
            page.locator("#switch-graph input").is_checked(),
            page.locator("#switch-visual input").is_checked(),
        )

    def becomes(*state: object) -> None:
        page.wait_for_function(
            "([name, kg, visual]) => document.querySelector('#preset label.selected')?.innerText === name"
            " && document.querySelector('#switch-graph input').checked === kg"
            " && document.querySelector('#switch-visual input').checked === visual",
            arg=list(state),
        )
        assert shown() == state

    becomes("+both", True, True)
    for name, state in {"baseline": (False, False), "+KG": (True, False), "+multimodal": (False, True)}.items():
        radio("#preset", name)(page)
        becomes(name, *state)
    switch("graph")(page)
    becomes("+both", True, True)
    switch("visual")(page)
    becomes("+KG", True, False)
    switch("graph")(page)
    becomes("baseline", False, False)


# --- an answer from before the controls were moved ----------------------------------------------------------------------

OUTDATED = "#answer [data-outdated]"


@pytest.mark.parametrize(
    ("there", "back", "told"),
    [
        (radio("#preset", "+KG"), radio("#preset", "+both"), "from +both, Extractive reader;"),
        (switch("visual"), switch("visual"), "from +both, Extractive reader;"),
        (radio("#generator", "Failing"), radio("#generator", "Extractive"), "from +both, Extractive reader;"),
        (radio("#payload", "pixels"), radio("#payload", "auto"), "from +both, Extractive reader, visual payload auto;"),
        (number("#text-k", 5), lambda page: page.click("#reset"), "from +both, Extractive reader, chunks 3;"),
    ],
    ids=["preset", "switch", "generator", "payload", "knob"],
)
def test_an_answer_says_that_the_settings_were_moved_until_they_are_put_back(
    visit: Visit, there: Callable[[Page], None], back: Callable[[Page], None], told: str
) -> None:
    page = visit.page
    visit.ask(TEXT_QUESTION)
    expect(page.locator(OUTDATED)).to_be_hidden()
    there(page)
    expect(page.locator(OUTDATED)).to_have_text(f"This answer is {told} press Ask for the present settings.")
    expect(page.locator("#fb-outdated-live")).to_have_text(page.locator(OUTDATED).inner_text())
    back(page)
    expect(page.locator(OUTDATED)).to_be_hidden()
    expect(page.locator("#fb-outdated-live")).to_be_empty()


def test_an_answer_to_another_question_says_so_until_it_is_asked(visit: Visit) -> None:
    page = visit.page
    visit.ask(TEXT_QUESTION)
    page.fill("#question textarea", "What does one dose of the BCG vaccine cost?")
    expect(page.locator(OUTDATED)).to_contain_text("is to the question asked before")
    assert serious(page) == []
    visit.ask()
    expect(page.locator(OUTDATED)).to_be_hidden()
    page.fill("#question textarea", "  What does one dose of the  BCG vaccine cost? ")
    expect(page.locator(OUTDATED)).to_be_hidden()


# --- by keyboard ---------------------------------------------------------------------------------------------------------


def test_a_link_skips_to_the_question_and_a_group_is_one_stop(visit: Visit) -> None:
    page = visit.page
    page.keyboard.press("Tab")
    skip = page.get_by_role("link", name="Skip to the question")
    expect(skip).to_be_focused()
    expect(skip).to_be_in_viewport()
    page.keyboard.press("Enter")
    expect(page.locator("#question textarea")).to_be_focused()
    page.get_by_role("button", name="Switch between light and dark").focus()
    where = "document.activeElement.closest('#question, #preset, #generator, #payload')?.id ?? ''"
    stops: list[str] = []
    while "question" not in stops and len(stops) < 60:
        page.keyboard.press("Tab")
        stops.append(page.evaluate(where))
    assert [stops.count(group) for group in ("preset", "generator", "payload")] == [1, 1, 1]
    assert len(stops) <= 14


def test_arrow_keys_choose_within_a_group(visit: Visit) -> None:
    page = visit.page
    group = page.get_by_role("radiogroup", name="System")
    group.locator("input:checked").focus()
    page.keyboard.press("ArrowLeft")
    expect(page.locator("#preset label.selected")).to_have_text("+multimodal")
    expect(page.locator("#switch-graph input")).not_to_be_checked()
    page.keyboard.press("ArrowUp")
    expect(page.locator("#preset label.selected")).to_have_text("+KG")
    page.get_by_role("radiogroup", name="Generator").locator("input:checked").focus()
    page.keyboard.press("ArrowDown")
    trace = visit.ask(TEXT_QUESTION)
    assert trace["system"]["name"] == "+KG" and trace["generator"] == "llama-4-scout"


def test_reset_brings_the_defaults_back(visit: Visit) -> None:
    number("#text-k", 9)(visit.page)
    radio("#text-ranker", "dense")(visit.page)
    radio("#payload", "pixels")(visit.page)
    visit.page.click("#reset")
    expect(visit.page.locator("#text-k input[type=number]")).to_have_value("3")
    system = visit.ask(TEXT_QUESTION)["system"]
    assert (system["text_k"], system["text_ranker"], system["payload"]) == (3, "hybrid", "auto")


def test_the_table_above_knows_every_control() -> None:
    """Each setting, each of its words but the default, each preset, both switches."""
    turned = [(knob, value) for _, _, expected in CONTROLS for knob, value in expected.items()]
    assert set(KNOBS) <= {knob for knob, _ in turned}
    for knob in set(KNOBS) & set(CHOICES):
        assert {value for name, value in turned if name == knob} == set(CHOICES[knob]) - {
            getattr(explore.DEFAULT, knob)
        }
    assert {value for name, value in turned if name == "name"} == set(SYSTEMS) - {explore.DEFAULT.name}
    assert {"graph off", "visual off"} <= {name for name, _, _ in CONTROLS}


@pytest.mark.parametrize("spec", [s for s in GENERATORS.values() if s.key_env], ids=lambda spec: spec.name)
def test_every_generator_is_the_one_that_is_asked(visit: Visit, spec: Any) -> None:
    """None has a key here, so that each says what it needs instead of answering."""
    visit.page.locator(f'#generator input[value="{spec.name}"]').check(force=True)
    assert visit.ask(TEXT_QUESTION)["generator"] == spec.name
    expect(visit.page.locator("#answer [data-state=error]")).to_contain_text(spec.key_env)


# --- leave out and ask again ------------------------------------------------------------------------------------------

BAR = ".fb-whatif-bar"


def tick(page: Page, tag: str) -> None:
    """By keyboard."""
    box = page.get_by_label(f"Leave {tag} out", exact=True)
    box.focus()
    page.keyboard.press("Space")
    expect(box).to_be_checked()


def ask_without(page: Page) -> str:
    """Press the button, wait for the end and give the verdict."""
    page.get_by_role("button", name="Ask again with").click()
    return verdict(page)


def verdict(page: Page) -> str:
    page.wait_for_selector("#whatif .fb-verdict")
    expect(page.locator(f'{BAR} [data-whatif="stop"]')).to_be_hidden()
    return page.locator("#whatif .fb-whatif").get_attribute("data-verdict") or ""


def show(visit: Visit) -> dict[str, Any]:
    before = visit.trace_id()
    visit.page.get_by_role("button", name="Show this answer’s evidence").click()
    visit.wait_for_another(before)
    return visit.trace()


@pytest.mark.parametrize("tags", [["T1"], ["G1"], ["V1"], ["T2", "G2", "V3"]], ids=" ".join)
@pytest.mark.parametrize("refill", [False, True], ids=["gap", "moved up"])
def test_a_ticked_item_is_not_in_the_next_prompt(visit: Visit, tags: list[str], refill: bool) -> None:
    page = visit.page
    before = visit.ask(TEXT_QUESTION)
    expect(page.locator(BAR)).to_be_hidden()
    for tag in tags:
        tick(page, tag)
    expect(page.locator(f"{BAR} p")).to_have_text(f"{len(tags)} left out: {', '.join(tags)}")
    expect(page.get_by_label("leave the gap")).to_be_checked()
    if refill:
        page.get_by_label("let the next-ranked move up").check()
    ask_without(page)
    assert visit.trace() == before
    after = show(visit)
    items = sorted(before["prompt"]["tags"][tag] for tag in tags)
    assert (after["excluded"], after["refill"]) == (items, refill)
    assert not set(items) & set(after["prompt"]["tags"].values())
    if not refill:
        assert after["evidence"] == before["evidence"]
        assert after["prompt"]["tags"] == {t: i for t, i in before["prompt"]["tags"].items() if t not in tags}
    for name in ("question", "system", "generator", "corpus_id"):
        assert after[name] == before[name]
    for tag in tags:
        expect(page.get_by_label(f"Leave {tag} out", exact=True)).to_be_checked()
    expect(page.locator("#answer")).to_contain_text(f"Answered without {', '.join(tags)}")


def test_ticks_survive_the_end_of_an_answer_and_end_with_the_question(visit: Visit) -> None:
    page = visit.page
    visit.ask(TEXT_QUESTION)
    tick(page, "T1"), tick(page, "T3")
    page.get_by_role("button", name="Clear").click()
    expect(page.locator(BAR)).to_be_hidden()
    expect(page.get_by_label("Leave T3 out", exact=True)).to_be_focused()
    expect(page.get_by_label("Leave T1 out", exact=True)).not_to_be_checked()
    tick(page, "T1")
    ask_without(page)
    visit.ask(words.EXAMPLES["demo"][2].question)
    expect(page.get_by_label("Leave T1 out", exact=True)).not_to_be_checked()
    expect(page.locator("#whatif .fb-whatif")).to_have_count(0)
    expect(page.locator(BAR)).to_be_hidden()


def test_two_answers_stand_side_by_side_and_the_new_one_can_be_kept(visit: Visit) -> None:
    page = visit.page
    visit.ask(words.EXAMPLES["demo"][2].question)
    tick(page, "V1")
    assert ask_without(page) == "abstains"
    panel = page.locator("#whatif .fb-whatif")
    expect(panel).to_be_focused()
    expect(panel).to_be_in_viewport()
    assert panel.locator("h3").all_inner_texts()[:2] == ["Before", "Without V1"]
    expect(panel.locator(".fb-side").first).to_contain_text("0.023")
    expect(panel.locator(".fb-side").last).to_contain_text(words.ABSTAINED)
    expect(page.locator("#fb-whatif-live")).to_contain_text("Now it abstains")
    show(visit)
    expect(page.locator("#answer [data-state=abstained]")).to_be_visible()
    expect(page.locator("#history [data-restore]")).to_have_count(1)  # the one before; this one is on the page
    tick_box = page.get_by_label("Leave V1 out", exact=True)
    tick_box.uncheck()
    expect(page.locator(f"{BAR} p")).to_have_text("Nothing left out any more")
    assert ask_without(page) == "answers"


def test_stop_ends_the_second_answer_and_leaves_nothing_behind(visit: Visit, app: Server) -> None:
    page = visit.page
    radio("#generator", "Endless")(page)
    page.fill("#question textarea", TEXT_QUESTION)
    page.press("#question textarea", "Enter")
    expect(page.locator("#answer [data-state=streaming]")).to_contain_text("word word")
    page.click("#stop")
    page.wait_for_selector(SETTLED)
    assert "0 open" in app.read_until("closed,")
    tick(page, "T1")
    page.get_by_role("button", name="Ask again without").click()
    expect(page.locator("#whatif [data-verdict=running]")).to_contain_text("word word")
    page.locator(f'{BAR} [data-whatif="stop"]').click()
    assert verdict(page) == "stopped"
    assert "0 open" in app.read_until("closed,")


def test_a_second_answer_that_fails_is_told_from_one_that_changed(visit: Visit) -> None:
    page = visit.page
    radio("#generator", "Failing")(page)
    visit.ask(TEXT_QUESTION)
    expect(page.locator("#influence .fb-influence")).to_have_count(0)
    tick(page, "T1")
    assert ask_without(page) == "failed"
    expect(page.locator("#whatif .fb-side").last).to_contain_text("The provider hung up")


def test_influence_names_the_one_item_that_matters(visit: Visit) -> None:
    page = visit.page
    trace = visit.ask(words.EXAMPLES["demo"][2].question)
    page.get_by_role("button", name="Measure influence").click()
    expect(page.locator("#influence .fb-summary")).to_have_text(
        "Without V1 the answer changes; the other 3 make no difference."
    )
    rows = page.locator("#influence .fb-influence-row")
    assert rows.locator("button.fb-tag").all_inner_texts() == list(trace["prompt"]["tags"])
    rows.last.locator("summary").click()
    expect(rows.last).to_contain_text(words.ABSTAINED)
    rows.last.locator("button.fb-tag").click()
    expect(page.locator(f'[data-item="{trace["prompt"]["tags"]["V1"]}"]')).to_be_focused()
    page.locator('[data-influence="forget"]').click()
    expect(page.get_by_role("button", name="Measure influence")).to_be_visible()


@pytest.mark.parametrize(("scheme", "width"), [("light", 1440), ("dark", 390)])
def test_no_serious_axe_violation_while_leaving_out(browser: Browser, app: Server, scheme: str, width: int) -> None:
    viewport = {"width": width, "height": 900}
    with visiting(browser, app.url, color_scheme=scheme, viewport=viewport, reduced_motion="reduce") as window:
        window.open().ask(words.EXAMPLES["demo"][2].question)
        page = window.page
        tick(page, "T1"), tick(page, "V1")
        ask_without(page)
        page.get_by_role("button", name="Measure influence").click()
        page.wait_for_selector('[data-influence="forget"]')
        page.locator("#influence summary").last.click()
        window.shot(f"whatif-{scheme}-{width}", full_page=True)
        assert serious(page) == []
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")

"""Hosted generators through the page, in a real browser: llama.cpp's own server as an operator's endpoint, and visitors' keys."""

from __future__ import annotations

import gc
import io
import json
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import pytest
from PIL import Image
from playwright.sync_api import Browser, Page, expect

from tests.generators.helpers import KEY
from tests.generators.servers import openai
from tests.generators.servers.base import Gate, Hang, Reply, Request, ScriptedServer, stream
from tests.generators.servers.llama import ANSWER, LlamaServer, write_model
from tests.ui.conftest import OUTPUT, Server, free_port, serving, visiting
from tests.ui.test_explore_browser import EVERYTHING_STORED, TEXT_QUESTION, radio, serious
from ui.keydesk import COOKIE

pytestmark = pytest.mark.browser

SAID = " ".join(word.strip() for word in ANSWER[:-1])
VARIABLE = "SCRIPTED_KEY"


def endpoint(name: str, url: str, extra: str = "") -> str:
    return f'[[endpoint]]\nname = "{name.lower()}"\nlabel = "{name}"\nbase_url = "{url}"\nmodel = "tiny"\n{extra}\n'


PRICED = "usd_per_million_input = 1.0\nusd_per_million_output = 2.0\nprices_read = 2026-11-30\n"
KEYED = f'key_env = "{VARIABLE}"\n{PRICED}'


@contextmanager
def app_with(demo_folder: Path, folder: Path, toml: str, **env: str) -> Iterator[tuple[Server, Path]]:
    """The app with an operator's endpoints, its temporary files in a folder of their own, and its output in a file."""
    file, port = folder / "endpoints.toml", free_port()
    file.write_text(toml, "utf-8")
    temp = folder / "temp"
    temp.mkdir()
    ours = {"FUSEBOX_ENDPOINTS": str(file), "FUSEBOX_CORPUS": str(demo_folder), "FUSEBOX_PORT": str(port)}
    with serving("app.py", port=port, TMPDIR=str(temp), GRADIO_TEMP_DIR=str(temp / "gradio"), **ours, **env) as server:
        yield server, temp


def choose(page: Page, label: str) -> None:
    radio("#generator", label)(page)


def enter_key(page: Page, key: str) -> None:
    """Type a key into the field of the chosen generator."""
    fold = page.get_by_role("button", name="Your own key")
    if not page.locator("#keys").is_visible():
        fold.click()
    field = page.locator(".fb-key input:visible")
    field.fill(key)
    field.press("Enter")
    expect(page.locator(".fb-key-told")).to_contain_text("Your key is used")
    expect(field).to_have_value("")


def tile(page: Page, number: int) -> str:
    return page.locator("#counters .fb-tile").nth(number).inner_text()


# --- llama.cpp -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def llama(demo_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The app with two llama.cpp servers: one answers, one never ends."""
    folder = tmp_path_factory.mktemp("llama")
    context = 131_072
    # A token of its model is a byte, so that a prompt takes thousands of them.
    answering = LlamaServer(write_model(folder / "answers.gguf", context=context), context=context)
    model = write_model(folder / "endless.gguf", (" on", " and"), endless=True, context=context)
    unending = LlamaServer(model, context=context, parallel=1)
    toml = endpoint("Tiny", answering.base_url, PRICED)
    toml += endpoint("Unending", unending.base_url, f"max_output_tokens = 100000\n{PRICED}")
    with app_with(demo_folder, folder, toml) as (server, _):
        yield server
    del answering, unending
    gc.collect()


def test_an_answer_of_llama_cpp_streams_and_fills_the_counters(browser: Browser, llama: Server) -> None:
    with visiting(browser, llama.url) as window:
        page = window.open().page
        choose(page, "Tiny")
        generation = window.ask(TEXT_QUESTION)["generation"]
        usage, before = generation["usage"], generation["estimate"]
        expect(page.locator("#answer [data-state=answered]")).to_contain_text(SAID)
        expect(page.locator("#answer button.fb-tag")).to_have_text("T1")
        assert usage["source"] == "reported" and usage["output_tokens"] == len(ANSWER) + 1
        off = 100 * (before["input_tokens"] - usage["input_tokens"]) / usage["input_tokens"]
        assert tile(page, 0).split("\n") == [
            f"{usage['input_tokens']:,}",
            "input tokens, reported",
            f"estimated ≈ {before['input_tokens']:,} ({off:+.0f} %)",
        ]
        assert tile(page, 1).split("\n")[0] == str(usage["output_tokens"])
        cost = (usage["input_tokens"] * 1.0 + usage["output_tokens"] * 2.0) / 1e6
        assert generation["cost_usd"] == pytest.approx(cost)
        assert tile(page, 3).startswith("$0.00") and "estimated ≈ $0.00" in tile(page, 3)
        parts = page.locator("#counters .fb-legend b").all_inner_texts()
        assert sum(int(part.replace(",", "")) for part in parts) == usage["input_tokens"]
        assert window.watch.elsewhere == [] and window.watch.complaints == []


def test_stop_ends_an_answer_of_llama_cpp_and_frees_it_for_the_next(browser: Browser, llama: Server) -> None:
    """Its server has one slot, and its answer would run for a hundred thousand tokens."""
    with visiting(browser, llama.url) as window:
        page = window.open().page
        choose(page, "Unending")
        radio("#preset", "baseline")(page)
        for _ in range(2):
            page.fill("#question textarea", TEXT_QUESTION)
            page.press("#question textarea", "Enter")
            expect(page.locator("#answer [data-state=streaming]")).to_contain_text("on and")
            page.click("#stop")
            expect(page.locator("#answer [data-state=stopped]")).to_contain_text("Partial answer")
            expect(page.locator("#ask")).to_be_visible()
            generation = window.trace()["generation"]
            assert (generation["finish"], generation["usage"]["source"]) == ("cancelled", "estimated")
            assert tile(page, 1).startswith("≈ ") and tile(page, 3).startswith("≈ $")


def test_the_list_shows_what_this_prompt_takes_on_every_generator(browser: Browser, llama: Server) -> None:
    with visiting(browser, llama.url, device_scale_factor=2) as window:
        page = window.open().page
        cards = page.locator("#generator label")
        assert "price of 100 questions" in page.inner_text("#generator")
        choose(page, "Tiny")
        trace = window.ask(TEXT_QUESTION)
        tokens = f"{trace['generation']['estimate']['input_tokens']:,} in"
        expect(cards.locator(".fb-tokens")).to_have_text([tokens] * cards.count())
        assert "this prompt: tokens in, price" in page.inner_text("#generator")
        text = trace["generation"]["estimate"]["input_tokens"]
        mini = cards.filter(has_text="GPT-4o-mini").locator(".fb-price").inner_text()
        assert float(mini.removeprefix("≈ $")) == pytest.approx((text * 0.15 + 40 * 0.6) / 1e6, rel=0.05)
        expect(cards.filter(has_text="Extractive").locator(".fb-price")).to_have_text("free")
        rows = page.locator("#counters .fb-elsewhere tbody tr")
        assert rows.count() == cards.count() - 2  # neither the one asked nor the embedded one
        assert serious(page) == []
        page.locator("#counters .fb-elsewhere summary").click()
        page.evaluate("scrollTo(0, 0); document.activeElement.blur()")
        OUTPUT.mkdir(parents=True, exist_ok=True)
        page.locator("#generator").screenshot(path=OUTPUT / "generators.png")


# --- visitors' keys --------------------------------------------------------------------------------------------------


def test_a_key_is_used_and_found_nowhere_afterwards(browser: Browser, demo_folder: Path, tmp_path: Path) -> None:
    with (
        ScriptedServer(
            openai.answer("Paris is it [T1]"), openai.error(401), openai.error(400, f"no {KEY}")
        ) as provider,
        ExitStack() as windows,
    ):
        toml = endpoint("Scripted", f"{provider.url}/v1", KEYED)
        with app_with(demo_folder, tmp_path, toml) as (server, temp):
            mine = windows.enter_context(visiting(browser, server.url)).open()
            requests: list[str] = []
            mine.page.on("request", lambda sent: requests.append(f"{sent.url}\n{sent.post_data or ''}"))
            choose(mine.page, "Scripted")
            enter_key(mine.page, f"  {KEY}\n".strip())
            expect(mine.page.locator("#generator label", has_text="Scripted")).to_contain_text("your key")
            traces = [mine.ask(TEXT_QUESTION) for _ in range(3)]
            states = [trace["generation"]["finish"] for trace in traces]
            assert states == ["stop", "error", "error"]
            assert [r.headers["authorization"] for r in provider.requests] == [f"Bearer {KEY}"] * 3

            # The key left the browser once, to the desk, and stays in nothing that the browser keeps or shows.
            assert [url.split("\n")[0] for url in requests if KEY in url] == [f"{server.url}/fusebox/key"]
            everywhere = (
                "document.documentElement.outerHTML + [...document.querySelectorAll('input')].map((i) => i.value)"
            )
            assert KEY not in mine.page.evaluate(everywhere)
            assert KEY not in mine.page.evaluate(EVERYTHING_STORED)
            assert all(KEY not in json.dumps(trace) for trace in traces)
            with mine.page.expect_download() as started:
                mine.page.click("#fb-trace")
            assert KEY not in Path(started.value.path()).read_text("utf-8")
            assert not mine.page.evaluate(f"document.cookie.includes('{COOKIE}')")

            # Another session sees nothing of it and can't use it.
            yours = windows.enter_context(visiting(browser, server.url)).open()
            choose(yours.page, "Scripted")
            expect(yours.page.locator("#generator label", has_text="Scripted")).to_contain_text(f"needs {VARIABLE}")
            refused = yours.ask(TEXT_QUESTION)
            assert f"set {VARIABLE}" in refused["generation"]["error"] and len(provider.requests) == 3
            assert KEY not in yours.page.content() and KEY not in httpx.get(server.url).text
            assert KEY not in httpx.get(f"{server.url}/config").text

            # Nor does the process keep it on disk or in its environment.
            for file in (*temp.rglob("*"), Path(f"/proc/{server.process.pid}/environ")):
                assert not file.is_file() or KEY.encode() not in file.read_bytes()
            mine.page.get_by_role("button", name="Forget").click()
            expect(mine.page.locator(".fb-key-told")).to_have_text("Forgotten.")
            assert f"set {VARIABLE}" in mine.ask(TEXT_QUESTION)["generation"]["error"]
            server.process.terminate()
            assert server.process.stdout is not None and KEY not in server.process.stdout.read()


def test_two_sessions_ask_at_once_each_with_its_own_key(browser: Browser, demo_folder: Path, tmp_path: Path) -> None:
    """Both requests are at the provider at the same time before either is answered."""
    gates = {key: Gate() for key in ("first-key-abcdef", "second-key-abcdef")}

    def reply(request: Request) -> Reply:
        owner = request.headers["authorization"].removeprefix("Bearer ")
        said = openai.pieces(openai.text(f"for {owner[:5]} [T1]"), openai.end(), openai.usage(100, 5))
        return stream(*said, openai.DONE, before=(gates[owner],))

    with (
        ScriptedServer(reply) as provider,
        app_with(demo_folder, tmp_path, endpoint("Scripted", f"{provider.url}/v1", KEYED)) as (server, _),
        ExitStack() as windows,
    ):
        visits = [windows.enter_context(visiting(browser, server.url)).open() for _ in gates]
        for window, key in zip(visits, gates, strict=True):
            choose(window.page, "Scripted")
            enter_key(window.page, key)
        for window in visits:
            window.page.fill("#question textarea", TEXT_QUESTION)
            window.page.press("#question textarea", "Enter")
        for window in visits:
            window.page.wait_for_selector("#stop:visible")
        assert all(gate.reached.wait(20) for gate in gates.values())
        for gate in gates.values():
            gate.opened.set()
        for window, key in zip(visits, gates, strict=True):
            expect(window.page.locator("#answer [data-state=answered]")).to_contain_text(f"for {key[:5]}")
        assert {r.headers["authorization"] for r in provider.requests} == {f"Bearer {key}" for key in gates}


def test_a_stolen_session_name_opens_nothing(browser: Browser, demo_folder: Path, tmp_path: Path) -> None:
    """Whoever knows a session's hash but has not its browser's cookie can neither ask with its key, nor replace or forget it."""
    with (
        ScriptedServer(openai.answer()) as provider,
        app_with(demo_folder, tmp_path, endpoint("Scripted", f"{provider.url}/v1", KEYED)) as (server, _),
        visiting(browser, server.url) as window,
    ):
        page = window.open().page
        joined: list[dict[str, object]] = []
        page.on("request", lambda sent: joined.append(sent.post_data_json) if "/queue/join" in sent.url else None)
        choose(page, "Scripted")
        enter_key(page, KEY)
        window.ask(TEXT_QUESTION)
        stolen = next(one for one in joined if TEXT_QUESTION in str(one["data"]))
        session = str(stolen["session_hash"])
        taken = httpx.post(
            f"{server.url}/fusebox/key", json={"session": session, "variable": VARIABLE, "key": "other-key-123"}
        )
        assert taken.status_code == 400 and "another browser" in taken.json()["error"]
        with httpx.Client(timeout=20) as thief:
            thief.post(f"{server.url}/gradio_api/queue/join", json=stolen).raise_for_status()
            with thief.stream("GET", f"{server.url}/gradio_api/queue/data?session_hash={session}") as answer:
                told = next(line for line in answer.iter_lines() if "another browser" in line)
        assert told and len(provider.requests) == 1
        assert window.ask(TEXT_QUESTION)["generation"]["finish"] == "stop"
        assert provider.requests[-1].headers["authorization"] == f"Bearer {KEY}"


def test_closing_the_page_forgets_its_key(browser: Browser, demo_folder: Path, tmp_path: Path) -> None:
    with (
        ScriptedServer(openai.answer()) as provider,
        app_with(demo_folder, tmp_path, endpoint("Scripted", f"{provider.url}/v1", KEYED)) as (server, _),
        visiting(browser, server.url) as window,
    ):
        page = window.open().page
        choose(page, "Scripted")
        enter_key(page, KEY)
        page.reload()
        page.wait_for_selector("#ask")
        choose(page, "Scripted")
        assert f"set {VARIABLE}" in window.ask(TEXT_QUESTION)["generation"]["error"]
        assert provider.requests == []


def test_switched_off_there_is_no_field_and_no_desk(browser: Browser, demo_folder: Path, tmp_path: Path) -> None:
    toml = endpoint("Scripted", "http://127.0.0.1:9/v1", KEYED)
    with (
        app_with(demo_folder, tmp_path, toml, FUSEBOX_VISITOR_KEYS="0") as (server, _),
        visiting(browser, server.url) as window,
    ):
        page = window.open().page
        assert page.locator("#own-key").count() == 0 and page.locator("input[type=password]").count() == 0
        sent = {"session": "a", "variable": VARIABLE, "key": KEY}
        assert httpx.post(f"{server.url}/fusebox/key", json=sent).status_code in (404, 405)


# --- what a provider's failure looks like ----------------------------------------------------------------------------


def test_waiting_cut_filtered_failed_and_stopped_look_like_what_they_are(
    browser: Browser, demo_folder: Path, tmp_path: Path
) -> None:
    patience, silence = Gate(), Hang()
    replies = [
        openai.error(429, retry_after="0.2"),
        stream(
            *openai.pieces(openai.text("at last [T1]"), openai.end(), openai.usage(90, 20, 12)),
            openai.DONE,
            before=(patience,),
        ),
        openai.answer("half an ans", "length"),
        openai.answer("", "content_filter"),
        openai.error(404, "no such model"),
        stream(*openai.pieces(openai.text("begun ")), silence),
    ]
    with ScriptedServer(*replies) as provider:
        toml = endpoint("Scripted", f"{provider.url}/v1", KEYED)
        with (
            app_with(demo_folder, tmp_path, toml, **{VARIABLE: "operators-key-1"}) as (server, _),
            visiting(browser, server.url) as window,
        ):
            page = window.open().page
            choose(page, "Scripted")
            expect(page.locator("#generator label", has_text="Scripted")).to_contain_text("key set")
            page.fill("#question textarea", TEXT_QUESTION)
            page.press("#question textarea", "Enter")
            expect(page.locator("#answer .fb-waiting")).to_contain_text("waiting for the provider (429), 2 of 4")
            window.shot("waiting")
            patience.opened.set()
            expect(page.locator("#answer [data-state=answered]")).to_contain_text("at last")
            expect(page.locator("#counters .fb-tile").nth(1)).to_contain_text("reasoning 12 · answer 8")
            window.ask()
            expect(page.locator("#answer [data-state=cut]")).to_contain_text(
                "cut the answer off at the limit of 512 tokens"
            )
            window.ask()
            expect(page.locator("#answer [data-state=filtered]")).to_contain_text("withheld the answer")
            expect(page.locator("#answer h2")).to_have_text("No answer")
            window.ask()
            expect(page.locator("#answer [data-state=error]")).to_contain_text("Scripted does not know the model tiny")
            window.shot("provider-error")
            page.press("#question textarea", "Enter")
            expect(page.locator("#answer [data-state=streaming]")).to_contain_text("begun")
            page.click("#stop")
            expect(page.locator("#answer [data-state=stopped]")).to_contain_text("You stopped this answer")
            assert silence.gone.wait(20), "the provider's request goes on"
            assert re.match("operators-key", provider.requests[-1].headers["authorization"].removeprefix("Bearer "))


def test_the_screenshot_of_the_list_was_kept() -> None:
    with Image.open(io.BytesIO((OUTPUT / "generators.png").read_bytes())) as shot:
        assert shot.width > 400

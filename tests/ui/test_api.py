"""The endpoints and MCP tools: one answer whichever way it is asked for, keys out of reach, errors that say what to do."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import anyio
import gradio as gr
import httpx
import pytest
from gradio_client import Client
from gradio_client.exceptions import AppError
from mcp import ClientSession
from mcp.client.streamable_http import streamablehttp_client
from mcp.types import CallToolResult, TextContent, Tool

from rag import trace as traces
from rag.budget import Budget
from rag.corpus import Corpus
from rag.generators.access import Access
from rag.generators.registry import GENERATORS
from rag.generators.spec import Call
from rag.keys import SessionKeys
from rag.settings import Settings
from rag.systems import SYSTEMS
from rag.types import Delta, Prompt, Trace
from tests.scripted import DONE, Scripted, scripted
from tests.ui.conftest import ROOT, Server, free_port
from ui import api
from ui.api import Endpoints
from ui.handlers import KNOBS, OUTPUTS, Handlers
from ui.keydesk import KeyDesk
from ui.layout import build, launch_options
from ui.shelf import Shelf
from ui.text import EXAMPLES

QUESTION = "How many patients did the glioma trial enroll?"
PUBLIC = {"ask", "compare", "retrieve", "corpus_info"}


def request(session: str = "a") -> gr.Request:
    return SimpleNamespace(session_hash=session, request=None)  # type: ignore[return-value]


def endpoints(corpus: Corpus, **handlers: Any) -> Endpoints:
    return Endpoints(Handlers(Shelf(corpus), **handlers))


# --- one answer, four ways ------------------------------------------------------------------------------------------------


def by_page(corpus: Corpus, question: str, system: str) -> Trace:
    handlers = Handlers(Shelf(corpus))
    branches = SYSTEMS[system].branches
    usual = [getattr(SYSTEMS[system], name) for name in KNOBS]
    *_, last = handlers.ask(request(), question, "graph" in branches, "visual" in branches, "extractive", *usual)
    trace: Trace = dict(zip(OUTPUTS, last, strict=True))["trace"]
    return trace


def by_command(question: str, system: str) -> Trace:
    command = [sys.executable, "-m", "rag", "ask", question, "--system", system, "--json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return traces.loads(done.stdout)


def by_http(app: Server, question: str, system: str) -> Trace:
    client = Client(app.url, verbose=False, analytics_enabled=False)
    return traces.loads(client.predict(question=question, system=system, api_name="/ask"))


def waited_for(call: Callable[[], Awaitable[Any]]) -> Any:
    """In a thread of its own: the browser's driver has an event loop running in this one."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(anyio.run, call).result()


def by_mcp(app: Server, name: str, **arguments: Any) -> CallToolResult:
    async def call() -> CallToolResult:
        async with (
            streamablehttp_client(f"{app.url}/gradio_api/mcp/") as (read, write, _),
            ClientSession(read, write) as session,
        ):
            await session.initialize()
            return await session.call_tool(name, arguments)

    return waited_for(call)


def told(result: CallToolResult) -> str:
    (content,) = result.content
    assert isinstance(content, TextContent)
    return content.text


@pytest.mark.browser
@pytest.mark.parametrize(
    ("question", "system"),
    [
        (EXAMPLES["demo"][0].question, "+both"),
        (EXAMPLES["demo"][2].question, "+multimodal"),
        (EXAMPLES["demo"][5].question, "+KG"),
    ],
)
def test_page_command_endpoint_and_mcp_give_the_same(app: Server, demo: Corpus, question: str, system: str) -> None:
    found = {
        "page": by_page(demo, question, system),
        "command": by_command(question, system),
        "http": by_http(app, question, system),
        "mcp": traces.loads(told(by_mcp(app, "ask", question=question, system=system))),
    }
    page = found.pop("page")
    assert page.generation is not None and page.generation.finish == "stop"
    for way, trace in found.items():
        assert trace.generation is not None, way
        assert trace.generation.text == page.generation.text, way
        assert trace.generation.usage == page.generation.usage, way
        assert (trace.prompt, trace.evidence, trace.citations) == (page.prompt, page.evidence, page.citations), way
        assert (trace.question, trace.system, trace.generator) == (page.question, page.system, page.generator), way


@pytest.mark.browser
def test_compare_and_retrieve_agree_with_ask_over_http_and_mcp(app: Server) -> None:
    question = EXAMPLES["demo"][0].question
    client = Client(app.url, verbose=False, analytics_enabled=False)
    asked = json.loads(client.predict(question=question, api_name="/ask"))
    compared = json.loads(client.predict(question=question, api_name="/compare"))
    cells = {cell["system"]: cell for cell in compared["cells"]}
    assert list(cells) == ["baseline", "+KG", "+multimodal", "+both"]
    assert cells["+both"]["trace"]["prompt"] == asked["prompt"]
    assert cells["+both"]["trace"]["generation"]["text"] == asked["generation"]["text"]
    assert compared["reference"]["answer"] == "1384" and cells["baseline"]["gold"][0]["state"] == "found"
    assert cells["baseline"]["difference"] is None and cells["+KG"]["difference"]["input_tokens"] > 0
    retrieved = json.loads(told(by_mcp(app, "retrieve", question=question)))
    assert (retrieved["evidence"], retrieved["prompt"]) == (asked["evidence"], asked["prompt"])
    assert retrieved["generation"] is None
    info = json.loads(told(by_mcp(app, "corpus_info")))
    assert info["counts"]["documents"] == 14 and info["generators"]["extractive"]["ready"] is True


# --- what is served -------------------------------------------------------------------------------------------------------


@pytest.mark.browser
def test_four_endpoints_and_tools_and_no_event_of_the_page(app: Server) -> None:
    schema = httpx.get(f"{app.url}/gradio_api/info").json()
    assert set(schema["named_endpoints"]) == {f"/{name}" for name in PUBLIC} and not schema["unnamed_endpoints"]

    async def tools() -> list[Tool]:
        async with (
            streamablehttp_client(f"{app.url}/gradio_api/mcp/") as (read, write, _),
            ClientSession(read, write) as session,
        ):
            await session.initialize()
            return (await session.list_tools()).tools

    found = {tool.name: tool for tool in waited_for(tools)}
    assert set(found) == PUBLIC
    for name, tool in found.items():
        assert tool.description and "Args:" not in tool.description, name
        inputs = tool.inputSchema["properties"]
        assert not any("key" in one or "file" in one or "path" in one for one in inputs)
        assert all(one.get("description") for one in inputs.values()), name
        assert all("type" in one or "oneOf" in one for one in inputs.values()), name
    assert found["ask"].inputSchema["required"] == ["question"]


@pytest.mark.browser
@pytest.mark.parametrize(
    ("endpoint", "arguments", "told_as"),
    [
        ("/ask", {"question": " "}, "The question is empty"),
        ("/ask", {"question": "x" * 2_001}, "2,001 characters"),
        ("/ask", {"question": QUESTION, "system": "+sound"}, "no system '+sound'"),
        ("/ask", {"question": QUESTION, "generator": "nobody"}, "no generator 'nobody'"),
        ("/ask", {"question": QUESTION, "exclude": ["nothing"]}, "no item 'nothing'"),
        ("/ask", {"question": QUESTION, "settings": {"text_k": 999}}, "text_k is 999"),
        ("/compare", {"question": QUESTION, "systems": ["+sound"]}, "no system"),
        ("/retrieve", {"question": ""}, "The question is empty"),
    ],
)
def test_a_wrong_request_is_told_over_http(app: Server, endpoint: str, arguments: dict[str, Any], told_as: str) -> None:
    client = Client(app.url, verbose=False, analytics_enabled=False)
    with pytest.raises(AppError, match=told_as.replace("+", r"\+")):
        client.predict(api_name=endpoint, **arguments)


@pytest.mark.browser
def test_a_wrong_request_is_told_over_mcp(app: Server) -> None:
    result = by_mcp(app, "ask", question=QUESTION, system="+sound")
    assert result.isError and "no system '+sound'" in told(result)


@pytest.mark.browser
def test_a_bug_tells_strangers_nothing_of_the_machine(app: Server) -> None:
    client = Client(app.url, verbose=False, analytics_enabled=False)
    with pytest.raises(AppError) as failed:
        client.predict(question=EXAMPLES["demo"][0].question, generator="broken", api_name="/ask")
    assert "a bug" not in str(failed.value) and "ZeroDivision" not in str(failed.value)


# --- the endpoints themselves -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [
        {"question": {"path": "/etc/passwd"}},
        {"question": QUESTION, "system": ["+KG"]},
        {"question": QUESTION, "generator": 3},
        {"question": QUESTION, "exclude": "glioma_p001_c00"},
        {"question": QUESTION, "exclude": [{"path": "x"}]},
        {"question": QUESTION, "exclude": ["x"] * 201},
        {"question": QUESTION, "exclude": ["x" * 501]},
        {"question": QUESTION, "refill": "yes"},
        {"question": QUESTION, "settings": "text_k=5"},
        {"question": QUESTION, "settings": {"name": "x"}},
        {"question": QUESTION, "settings": {"branches": ["graph"]}},
    ],
)
def test_inputs_of_another_type_are_refused(small: Corpus, arguments: dict[str, Any]) -> None:
    with pytest.raises(gr.Error) as refused:
        endpoints(small).ask(request(), **arguments)
    assert refused.value.title == "UsageError"


def test_every_input_reaches_the_request(small: Corpus) -> None:
    answered = endpoints(small).ask(
        request(), QUESTION, "+KG", "extractive", ["glioma_p001_c00"], True, {"text_k": 2, "text_ranker": "dense"}
    )
    trace = traces.loads(answered)
    assert (trace.system.name, trace.system.text_k, trace.system.text_ranker) == ("+KG", 2, "dense")
    assert trace.excluded == ("glioma_p001_c00",) and trace.refill


def test_retrieve_calls_no_generator(small: Corpus) -> None:
    spec, generator = scripted(Delta("37"), DONE)
    found = traces.loads(endpoints(small, generators={spec.name: spec}).retrieve(QUESTION, generator="scripted"))
    assert generator.prompts == [] and found.generation is None and found.prompt is not None


def test_a_failed_cell_of_compare_says_why_and_the_others_stand(small: Corpus) -> None:
    specs = {name: GENERATORS[name] for name in ("extractive", "gpt-4o-mini")}
    report = json.loads(
        endpoints(small, generators=specs).compare(request(), QUESTION, ["baseline", "+KG"], list(specs))
    )
    assert [(c["generator"], c["trace"]["generation"]["finish"]) for c in report["cells"]] == [
        ("extractive", "stop"),
        ("extractive", "stop"),
        ("gpt-4o-mini", "error"),
        ("gpt-4o-mini", "error"),
    ]


def test_a_visitors_key_and_allowance_are_out_of_reach(small: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    used: list[str | None] = []

    def maker(spec: object, call: Call) -> Scripted:
        secret = call.credential.secret if call.credential else None
        used.append(secret.reveal() if secret else None)
        return Scripted([Delta("37"), DONE])

    spec = replace(GENERATORS["gpt-4o-mini"], maker=maker, usd_per_million_input=1e3)
    keys, budget = SessionKeys(allowed=True), Budget(session_usd=100.0)
    for name in ("a", "api a"):
        keys.put(name, "OPENAI_API_KEY", "sk-" + "v" * 40)
    access = Access(keys=keys, budget=budget)
    endpoints(small, generators={spec.name: spec}, access=access).ask(request("a"), QUESTION, generator=spec.name)
    assert used == [None]
    monkeypatch.setenv("OPENAI_API_KEY", "sk-" + "o" * 40)
    endpoints(small, generators={spec.name: spec}, access=access).ask(request("a"), QUESTION, generator=spec.name)
    assert used[1] == "sk-" + "o" * 40
    assert budget.spent("a")[0] == 0.0 < budget.spent("api a")[0]


@pytest.mark.browser
def test_a_generator_is_stopped_when_its_client_hangs_up(small: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it were not, it would write on for ever."""
    monkeypatch.setattr(api, "MAX_SECONDS", float("inf"))
    begun, closed = threading.Event(), threading.Event()

    class Endless:
        def stream(self, prompt: Prompt) -> Iterator[Delta]:
            try:
                while not closed.wait(0.01):
                    begun.set()
                    yield Delta("word ")
            finally:
                closed.set()

    spec = replace(GENERATORS["extractive"], name="endless", maker=lambda spec, call: Endless())
    handlers, settings = Handlers(Shelf(small), {"endless": spec}), Settings()
    options = launch_options(settings, KeyDesk(SessionKeys(), ())) | {"server_port": free_port(), "mcp_server": False}
    page = build(handlers, settings)
    try:
        _, url, _ = page.launch(**options, prevent_thread_lock=True, quiet=True)
        asked = {"data": [QUESTION, "+both", "endless", None, False, None]}
        event = httpx.post(f"{url}gradio_api/call/ask", json=asked).json()["event_id"]
        with httpx.stream("GET", f"{url}gradio_api/call/ask/{event}") as reply:
            assert reply.status_code == 200 and begun.wait(60) and not closed.is_set()
        assert closed.wait(60)
    finally:
        closed.set()
        page.close()


def test_without_the_package_the_page_says_so_and_serves(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(api.importlib.util, "find_spec", lambda name: None)
    assert api.mcp_installed() is False and "without MCP" in caplog.text

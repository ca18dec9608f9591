"""The OpenAI protocol as llama.cpp's own server speaks it: nothing here is scripted."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from rag import pricing
from rag import prompt as prompts
from rag.generators import endpoints
from rag.generators.access import Access
from rag.generators.answer import answer
from rag.generators.registry import LISTED
from rag.generators.spec import GeneratorSpec
from rag.types import Delta
from tests.generators.helpers import QUICK, FakeTime, call, crop, key, picture, prompt, told, until_delta
from tests.generators.servers.llama import ANSWER, LlamaServer, write_model

SAID = "".join(ANSWER).strip()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("llama")


@pytest.fixture(scope="module")
def model(folder: Path) -> Path:
    return write_model(folder / "answers.gguf")


@pytest.fixture(scope="module")
def server(model: Path) -> LlamaServer:
    return LlamaServer(model)


def endpoint(folder: Path, server: LlamaServer, extra: str = "") -> GeneratorSpec:
    """The server as an operator configures it."""
    file = folder / f"endpoint-{abs(hash((server.base_url, extra)))}.toml"
    file.write_text(
        f'[[endpoint]]\nname = "tiny"\nlabel = "Tiny"\nbase_url = "{server.base_url}"\nmodel = "tiny"\n'
        f"usd_per_million_input = 1.0\nusd_per_million_output = 2.0\n{extra}"
    )
    return endpoints.load(file, LISTED)["tiny"]


def test_an_answer_streams_in_pieces_with_usage(folder: Path, server: LlamaServer) -> None:
    events = list(endpoint(folder, server).make().stream(prompt()))
    pieces = [event.text for event in events if isinstance(event, Delta)]
    text, _, finish = told(events)
    assert text.strip() == SAID and len(pieces) == len(ANSWER)
    assert (finish.finish, finish.reason, finish.usage.source) == ("stop", "stop", "reported")
    # The answer's words and the end of the text.
    assert finish.usage.output_tokens == len(ANSWER) + 1
    assert finish.usage.input_tokens and finish.usage.input_tokens > sum(len(m.content) for m in prompt().messages) // 2


def test_the_whole_way_with_cost_split_and_citation(folder: Path, server: LlamaServer) -> None:
    spec, asked = endpoint(folder, server), prompt()
    *_, last = answer(asked, spec, Access("one"), lambda _: b"")
    assert last.counts and last.usage is not None and last.usage.input_tokens and last.usage.output_tokens
    assert last.cost_usd == pytest.approx((last.usage.input_tokens * 1.0 + last.usage.output_tokens * 2.0) / 1e6)
    assert sum(pricing.split(asked, spec, last.usage.input_tokens)) == last.usage.input_tokens
    (citation,) = prompts.parse_citations(last.text, asked.tags)
    assert (citation.tag, citation.item_id) == ("T1", "d_p001_c00")


def test_the_token_limit_is_told_as_a_cut(folder: Path, server: LlamaServer) -> None:
    text, _, finish = told(endpoint(folder, server, "max_output_tokens = 2\n").make().stream(prompt()))
    assert (text.strip(), finish.finish, finish.usage.output_tokens) == ("Paris is", "length", 2)
    assert finish.notice == "Tiny cut the answer off at the limit of 2 tokens (length); it is partial."


def test_many_ask_at_once_and_each_gets_a_whole_answer(folder: Path, server: LlamaServer) -> None:
    spec = endpoint(folder, server)
    with ThreadPoolExecutor(6) as pool:
        texts = list(pool.map(lambda n: told(spec.make().stream(prompt(f"Question {n}?")))[0], range(6)))
    assert [text.strip() for text in texts] == [SAID] * 6


def test_stop_frees_the_only_slot_of_the_server(folder: Path) -> None:
    """The first answer would run for a hundred thousand tokens; while it runs, the second could not even begin."""
    context = 131_072
    model = write_model(folder / "endless.gguf", (" on", " and"), endless=True, context=context)
    only = LlamaServer(model, context=context, parallel=1)
    seen = endpoint(folder, only, "max_output_tokens = 100000\n").make(call()).stream(prompt())
    assert until_delta(seen).text.strip() == "on"
    seen.close()
    text, _, finish = told(endpoint(folder, only, "max_output_tokens = 3\n").make(call()).stream(prompt()))
    assert (text.split(), finish.finish) == (["on", "and", "on"], "length")


def test_a_server_with_a_key_takes_the_right_one_and_refuses_others(folder: Path, model: Path) -> None:
    guarded = LlamaServer(model, api_key="right-key-1234")
    spec = endpoint(folder, guarded, 'key_env = "TINY_KEY"\n')
    assert told(spec.make(call(credential=key("right-key-1234"))).stream(prompt()))[2].finish == "stop"
    _, waits, finish = told(spec.make(call(credential=key("wrong-key-1234"))).stream(prompt()))
    assert (finish.error, waits, finish.refused) == (
        "Tiny refused the key (401). Check the key that you entered.",
        [],
        True,
    )


def test_a_prompt_longer_than_the_context_is_refused_with_the_servers_reason(folder: Path, model: Path) -> None:
    small = LlamaServer(model, context=256, parallel=1)
    _, waits, finish = told(endpoint(folder, small).make(call()).stream(prompt("Why? " * 200)))
    assert (finish.finish, waits, finish.refused) == ("error", [], True)
    assert "Tiny refused the request (400)" in finish.error and "context" in finish.error


def test_pixels_for_a_model_without_eyes_are_an_error_that_says_so(folder: Path, server: LlamaServer) -> None:
    seeing = replace(endpoint(folder, server), vision=True)
    time = FakeTime()
    _, _, finish = told(seeing.make(call(time, picture(64, 64), QUICK)).stream(prompt(image=crop(64, 64))))
    assert finish.finish == "error" and finish.error.startswith("Tiny ") and not finish.usage.input_tokens

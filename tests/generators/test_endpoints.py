"""The operator's file of servers and prices."""

from __future__ import annotations

from pathlib import Path

import pytest

from rag.errors import GeneratorError, UsageError
from rag.generators import endpoints
from rag.generators.registry import GENERATORS, LISTED, generator_named
from rag.types import Usage
from tests.generators.helpers import FakeTime, call, prompt, told
from tests.generators.servers import openai as say
from tests.generators.servers.base import ScriptedServer

MINIMAL = """
[[endpoint]]
name = "local"
base_url = "http://127.0.0.1:8080/v1"
model = "tiny"
"""

FULL = """
[[endpoint]]
name = "ours"
label = "Our server"
base_url = "https://llm.example/v1"
model = "m-1"
key_env = "OUR_KEY"
vision = true
usd_per_million_input = 0.5
usd_per_million_output = 1
prices_read = 2026-05-01
image_rule = "flat:1000"
max_output_tokens = 64

[[endpoint]]
name = "second"
base_url = "http://127.0.0.1:9/v1"
model = "m-2"

[prices."gpt-4o-mini"]
usd_per_million_input = 0.2
usd_per_million_output = 0.8
prices_read = 2026-06-01
"""


def write(folder: Path, text: str) -> Path:
    file = folder / "endpoints.toml"
    file.write_text(text)
    return file


def test_endpoints_follow_the_listed_generators(tmp_path: Path) -> None:
    loaded = endpoints.load(write(tmp_path, FULL), LISTED)
    assert list(loaded) == [*LISTED, "ours", "second"]
    ours = loaded["ours"]
    assert (ours.label, ours.provider, ours.model, ours.base_url) == (
        "Our server",
        "Our server",
        "m-1",
        "https://llm.example/v1",
    )
    assert (ours.access, ours.vision, ours.needs, ours.key_env) == ("open", True, "a key: OUR_KEY", "OUR_KEY")
    assert (ours.usd_per_million_input, ours.usd_per_million_output, ours.prices_read) == (0.5, 1, "2026-05-01")
    assert (ours.image_rule, ours.max_output_tokens) == ("flat:1000", 64)


def test_what_is_left_out_is_unknown_and_not_free(tmp_path: Path) -> None:
    spec = endpoints.load(write(tmp_path, MINIMAL), LISTED)["local"]
    assert (spec.usd_per_million_input, spec.usd_per_million_output, spec.image_rule) == (None, None, "")
    assert (spec.vision, spec.key_env, spec.needs) == (False, "", "nothing: the operator's server")


def test_prices_of_a_listed_generator_can_be_brought_up_to_date(tmp_path: Path) -> None:
    mini = endpoints.load(write(tmp_path, FULL), LISTED)["gpt-4o-mini"]
    assert (mini.usd_per_million_input, mini.usd_per_million_output, mini.prices_read) == (0.2, 0.8, "2026-06-01")
    assert mini.prices_source == "the operator's FUSEBOX_ENDPOINTS"
    assert LISTED["gpt-4o-mini"].usd_per_million_input == 0.15


def test_the_registry_reads_the_file_that_the_variable_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FUSEBOX_ENDPOINTS", raising=False)
    assert list(GENERATORS) == list(LISTED)
    monkeypatch.setenv("FUSEBOX_ENDPOINTS", str(write(tmp_path, MINIMAL)))
    assert list(GENERATORS) == [*LISTED, "local"] and generator_named("local").model == "tiny"
    with pytest.raises(UsageError, match=r"There is no generator 'nobody'; choose one of extractive, .*, local"):
        generator_named("nobody")


@pytest.mark.parametrize(
    ("text", "told_as"),
    [
        ("[[endpoint]\n", "is not TOML"),
        ("[endpoint]\nname = 'x'\n", "two brackets"),
        ("[[server]]\n", "has 'server'"),
        ("endpoint = [1]\n", "endpoint 1 is not a table"),
        ("prices = 1\n", r"write \[prices.NAME\]"),
        (MINIMAL.replace('model = "tiny"', ""), "endpoint 1: model is missing"),
        (MINIMAL.replace('"local"', '"a b"'), "name must be letters"),
        (MINIMAL.replace('"local"', '"gpt-4o"'), "the name 'gpt-4o' is taken"),
        (MINIMAL + MINIMAL, "endpoint 2: the name 'local' is taken"),
        (MINIMAL.replace("http://127.0.0.1:8080/v1", "file:///etc/passwd"), "base_url must be an http"),
        (MINIMAL.replace("http://127", "http://user:secret@127"), "base_url must be an http"),
        (MINIMAL.replace("/v1", "/v1?key=secret"), "base_url must be an http"),
        (MINIMAL.replace("8080", "99999"), "base_url must be an http"),
        (MINIMAL.replace("127.0.0.1", "a b"), "base_url must be an http"),
        (MINIMAL.replace('"http://127.0.0.1:8080/v1"', "1"), "base_url must be an http"),
        (MINIMAL + "colour = 1\n", "there is no 'colour'; there are name, base_url"),
        (MINIMAL + "vision = 1\n", "vision must be true or false"),
        (MINIMAL + "usd_per_million_input = -1\n", "usd_per_million_input must be a number from 0"),
        (MINIMAL + "usd_per_million_input = nan\n", "usd_per_million_input must be a number from 0"),
        (MINIMAL + "image_rule = 'guess'\n", "image_rule must be one of gpt-4o, "),
        (MINIMAL + "prices_read = '1 May'\n", "prices_read must be a date"),
        (MINIMAL + "max_output_tokens = true\n", "max_output_tokens must be a whole number"),
        (MINIMAL + "key_env = 'sk-not-a-variable'\n", "key_env must be the name of a variable"),
        ("[prices.nobody]\nusd_per_million_input = 1\n", "no such generator"),
    ],
)
def test_mistakes_are_named_with_their_place(tmp_path: Path, text: str, told_as: str) -> None:
    with pytest.raises(UsageError, match=told_as) as caught:
        endpoints.load(write(tmp_path, text), LISTED)
    assert "FUSEBOX_ENDPOINTS" in str(caught.value) and "secret" not in str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"nowhere.toml can't be read"):
        endpoints.load(tmp_path / "nowhere.toml", LISTED)


def test_an_endpoint_answers_with_its_key_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with ScriptedServer(say.answer("Yes [T1]", counts=say.usage(40, 4))) as server:
        file = write(tmp_path, FULL.replace("https://llm.example", server.url))
        spec = endpoints.load(file, LISTED)["ours"]
        monkeypatch.delenv("OUR_KEY", raising=False)
        with pytest.raises(GeneratorError, match="Our server needs a key for Our server: set OUR_KEY"):
            spec.make()
        monkeypatch.setenv("OUR_KEY", "key-of-our-server")
        text, _, finish = told(spec.make().stream(prompt()))
    assert (text, finish.usage) == ("Yes [T1]", Usage(40, 4, None, "reported"))
    assert server.requests[0].headers["authorization"] == "Bearer key-of-our-server"
    assert (server.requests[0].body["model"], server.requests[0].body["max_tokens"]) == ("m-1", 64)


def test_an_endpoint_without_a_key_is_told_apart_in_its_errors(tmp_path: Path) -> None:
    with ScriptedServer(say.error(401)) as server:
        spec = endpoints.load(write(tmp_path, MINIMAL.replace("http://127.0.0.1:8080", server.url)), LISTED)["local"]
        _, _, finish = told(spec.make(call(FakeTime())).stream(prompt()))
    assert finish.error == "local refused the key (401). Check the key that you entered."
    with ScriptedServer(say.error(401)) as server:
        spec = endpoints.load(write(tmp_path, MINIMAL.replace("http://127.0.0.1:8080", server.url)), LISTED)["local"]
        _, _, finish = told(spec.make().stream(prompt()))
    assert "Check whether this server needs a key (key_env in the file of FUSEBOX_ENDPOINTS)" in finish.error

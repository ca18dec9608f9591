"""The operator's own servers and prices: the TOML file named by ``FUSEBOX_ENDPOINTS``.

.. code-block:: toml

    [[endpoint]]                       # any number of OpenAI-compatible servers: llama.cpp, Ollama, vLLM ...
    name = "local-llama"               # letters, digits, dots, dashes, underscores; unique
    base_url = "http://127.0.0.1:8080/v1"
    model = "llama-3.2-3b-instruct"
    label = "Llama 3.2 3B (ours)"      # default: the name
    key_env = "LOCAL_LLAMA_KEY"        # variable that holds its key; leave out where it needs none
    vision = false                     # default: false
    usd_per_million_input = 0.0        # leave out what is not known
    usd_per_million_output = 0.0
    prices_read = 2026-11-30
    image_rule = "llama-4"             # a rule of rag.pricing, or "flat:1000" for 1,000 tokens an image
    max_output_tokens = 512            # default: 512

    [prices."gpt-4o-mini"]             # prices of a listed generator that differ from the study's
    usd_per_million_input = 0.15
    usd_per_million_output = 0.60
    prices_read = 2026-11-30

Visitors can't name an address: this file is the only way to one.
"""

from __future__ import annotations

import datetime
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from rag import pricing
from rag.errors import UsageError
from rag.generators import openai_chat
from rag.generators.spec import GeneratorSpec

MAX_FILE_BYTES = 1_000_000
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def _url(value: Any) -> bool:
    if not isinstance(value, str):
        return False
    try:
        parts = urlsplit(value)
        plain = parts.username is None and not parts.query and value.isprintable() and " " not in value
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0 and plain
    except ValueError:
        return False


def _price(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < float("inf")


def _text(value: Any) -> bool:
    return isinstance(value, str) and 0 < len(value) <= 200 and value.isprintable()


@dataclass(frozen=True, slots=True)
class _Field:
    valid: Callable[[Any], bool]
    wanted: str
    required: bool = False


_PRICES = {
    "usd_per_million_input": _Field(_price, "a number from 0"),
    "usd_per_million_output": _Field(_price, "a number from 0"),
    "prices_read": _Field(lambda value: type(value) is datetime.date, "a date such as 2026-11-30, without quotes"),
}
_ENDPOINT = {
    "name": _Field(lambda v: isinstance(v, str) and bool(_NAME.fullmatch(v)), "letters, digits, . _ -", required=True),
    "base_url": _Field(_url, "an http or https address without user, password and query", required=True),
    "model": _Field(_text, "the model's name", required=True),
    "label": _Field(_text, "a short text"),
    "key_env": _Field(lambda v: isinstance(v, str) and bool(_VARIABLE.fullmatch(v)), "the name of a variable"),
    "vision": _Field(lambda v: isinstance(v, bool), "true or false"),
    "image_rule": _Field(
        lambda v: isinstance(v, str) and pricing.image_rule(v) is not None,
        f"one of {', '.join(pricing.IMAGE_RULES)}, or flat: and a number",
    ),
    "max_output_tokens": _Field(lambda v: type(v) is int and 1 <= v <= 100_000, "a whole number from 1 to 100000"),
    **_PRICES,
}


def load(path: Path, listed: Mapping[str, GeneratorSpec]) -> dict[str, GeneratorSpec]:
    """``listed`` with the file's prices, followed by the file's endpoints.

    Raises:
        UsageError: the file can't be read, or something in it is wrong; names the file, the place and what is wanted.
    """
    try:
        raw = path.read_bytes()
        if len(raw) > MAX_FILE_BYTES:
            raise UsageError(
                f"FUSEBOX_ENDPOINTS: {path} has more than {MAX_FILE_BYTES:,} bytes; it is not the file you mean."
            )
        document = tomllib.loads(raw.decode())
    except OSError as error:
        raise UsageError(f"FUSEBOX_ENDPOINTS: {path} can't be read ({error.strerror}); correct the path.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"FUSEBOX_ENDPOINTS: {path} is not TOML ({error}); correct the file.") from error
    where = f"FUSEBOX_ENDPOINTS: {path}"
    unknown = sorted(set(document) - {"endpoint", "prices"})
    if unknown:
        raise UsageError(f"{where} has {unknown[0]!r}; it may have [[endpoint]] and [prices.NAME] tables.")
    generators = _priced(document.get("prices", {}), listed, where)
    tables = document.get("endpoint", [])
    if not isinstance(tables, list):
        raise UsageError(f"{where}: write [[endpoint]] with two brackets.")
    for number, table in enumerate(tables, 1):
        spec = _endpoint(_checked(table, _ENDPOINT, f"{where}, endpoint {number}"))
        if spec.name in generators:
            raise UsageError(f"{where}, endpoint {number}: the name {spec.name!r} is taken; choose another.")
        generators[spec.name] = spec
    return generators


def _checked(table: Any, fields: Mapping[str, _Field], where: str) -> dict[str, Any]:
    if not isinstance(table, dict):
        raise UsageError(f"{where} is not a table.")
    for name, value in table.items():
        if name not in fields:
            raise UsageError(f"{where}: there is no {name!r}; there are {', '.join(fields)}.")
        if not fields[name].valid(value):
            raise UsageError(f"{where}: {name} must be {fields[name].wanted}.")
    for name, field in fields.items():
        if field.required and name not in table:
            raise UsageError(f"{where}: {name} is missing: {field.wanted}.")
    return table


def _endpoint(table: Mapping[str, Any]) -> GeneratorSpec:
    key_env = table.get("key_env", "")
    spec = GeneratorSpec(
        name=table["name"],
        label=table.get("label", table["name"]),
        access="open",
        vision=table.get("vision", False),
        needs=f"a key: {key_env}" if key_env else "nothing: the operator's server",
        usd_per_million_input=None,
        usd_per_million_output=None,
        maker=openai_chat.make,
        provider=table.get("label", table["name"]),
        model=table["model"],
        image_rule=table.get("image_rule", ""),
        key_env=key_env,
        base_url=table["base_url"],
        max_output_tokens=table.get("max_output_tokens", 512),
    )
    return _with_prices(spec, table)


def _with_prices(spec: GeneratorSpec, table: Mapping[str, Any]) -> GeneratorSpec:
    read = table.get("prices_read")
    return replace(
        spec,
        usd_per_million_input=table.get("usd_per_million_input"),
        usd_per_million_output=table.get("usd_per_million_output"),
        prices_read=read.isoformat() if read else "",
        prices_source="the operator's FUSEBOX_ENDPOINTS",
    )


def _priced(tables: Any, listed: Mapping[str, GeneratorSpec], where: str) -> dict[str, GeneratorSpec]:
    if not isinstance(tables, dict):
        raise UsageError(f"{where}: write [prices.NAME] for the prices of a generator.")
    generators = dict(listed)
    for name, table in tables.items():
        if name not in listed:
            raise UsageError(
                f"{where}: prices for {name!r}, but there is no such generator; there are {', '.join(listed)}."
            )
        generators[name] = _with_prices(listed[name], _checked(table, _PRICES, f"{where}, prices.{name}"))
    return generators

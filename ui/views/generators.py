"""The generator list: a card for each, what a prompt would take on it, and the fields for a visitor's own keys.

Gradio's radio buttons carry one text each, so a card is lines of text that the page's script sets, and what changes
later comes as data beside it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from rag.generators.registry import GeneratorSpec
from rag.keys import MAX_KEY_CHARS, from_environment
from rag.pricing import ASSUMED_OUTPUT_TOKENS, cost_usd
from rag.types import Estimate
from ui import text as words
from ui.views.markup import esc, money

TYPICAL_INPUT_TOKENS = 700
"""Three chunks, a few facts and a caption; a crop's pixels come on top."""

BEFORE = f"≈ price of 100 questions of {TYPICAL_INPUT_TOKENS} tokens"
AFTER = "≈ this prompt: tokens in, price"


def card(spec: GeneratorSpec) -> str:
    """A generator in four lines: access, name, price, needs. The script of the page sets them as a card under its
    access."""
    sight = "vision · " if spec.vision else ""
    return "\n".join((words.ACCESS[spec.access][0], spec.label, price(spec), sight + needs(spec)))


def needs(spec: GeneratorSpec) -> str:
    """What it takes to ask this generator here, now."""
    if not spec.key_env:
        return spec.needs.removeprefix("nothing: ")
    return "key set" if from_environment(spec.key_env).secret else f"needs {spec.key_env}"


def price(spec: GeneratorSpec) -> str:
    """USD for 100 typical questions, ``free``, or unknown."""
    cost = cost_usd(spec, TYPICAL_INPUT_TOKENS, ASSUMED_OUTPUT_TOKENS)
    return _price(None if cost is None else 100 * cost)


def _price(usd: float | None) -> str:
    return "price unknown" if usd is None else "free" if usd == 0 else f"≈ {money(usd)}"


def estimates(found: Mapping[str, Estimate]) -> str:
    """What the prompt would take on every generator, as data that the page's script writes onto the cards.

    Args:
        found: estimates by the generators' names.
    """
    cards = {
        name: {
            "price": _price(estimate.cost_usd),
            "tokens": "? in" if estimate.input_tokens is None else f"{estimate.input_tokens:,} in",
            "note": estimate.note,
        }
        for name, estimate in found.items()
    }
    return f'<i data-estimates="{esc(json.dumps(cards))}" data-told="{esc(AFTER)}"></i>'


def session(name: str) -> str:
    """The session's name as data."""
    return f'<i data-session="{esc(name)}"></i>'


def key_fields(specs: Iterable[GeneratorSpec]) -> str:
    """A field for each key that some generator needs. The page's script shows the one of the chosen generator, sends what is typed
    there past Gradio's events, and empties it."""
    asked = {spec.name: spec for spec in specs if spec.key_env}
    providers: dict[str, list[str]] = {}
    for spec in asked.values():
        providers.setdefault(spec.key_env, []).append(spec.label)
    variables = {name: spec.key_env for name, spec in asked.items()}
    fields = "".join(_key_field(variable, labels) for variable, labels in providers.items())
    return (
        f'<div class="fb-keys" data-variables="{esc(json.dumps(variables))}">'
        f'<p class="fb-hint" data-no-key>{esc(words.NO_KEY_NEEDED)}</p>{fields}'
        f'<p class="fb-hint fb-key-told" role="status"></p><p class="fb-hint" data-key-rule hidden>{esc(words.KEY_RULE)}</p></div>'
    )


def _key_field(variable: str, labels: list[str]) -> str:
    name = esc(variable)
    return (
        f'<div class="fb-key" data-variable="{name}" hidden><label for="fb-key-{name}">Key for {esc(", ".join(labels))}</label>'
        f'<div class="fb-key-row"><input id="fb-key-{name}" type="password" autocomplete="off" autocapitalize="off"'
        f' spellcheck="false" maxlength="{MAX_KEY_CHARS}" placeholder="{name}" data-1p-ignore data-lpignore="true">'
        '<button type="button" class="fb-small" data-key-use>Use</button>'
        '<button type="button" class="fb-small" data-key-forget hidden>Forget</button></div></div>'
    )

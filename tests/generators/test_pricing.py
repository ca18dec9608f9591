"""Image tokens by hand arithmetic, estimates, costs, and splits that add up."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag import pricing
from rag.generators.registry import GENERATORS, LISTED
from rag.types import Usage
from tests.generators.helpers import crop, prompt

RESULTS = Path(__file__).resolve().parents[3] / "shared" / "reference" / "paper_results.json"
SIDES = st.integers(min_value=1, max_value=6_000)


def words(text: str) -> int:
    return len(text.split())


def tokens(rule: str, width: int, height: int) -> int:
    found = pricing.image_rule(rule)
    assert found is not None
    return found.tokens(width, height)


@pytest.mark.parametrize(
    ("width", "height", "tiles"),
    [
        (512, 512, 1),
        (300, 200, 1),
        (1, 1, 1),
        (513, 512, 2),
        (1024, 1024, 4),  # shorter side to 768: 768 x 768, 2 x 2
        (2048, 4096, 6),  # OpenAI's own example: to 1024 x 2048, to 768 x 1536, 2 x 3
        (4096, 8192, 6),
        (2048, 100, 4),
        (6000, 6000, 4),
    ],
)
def test_openai_tiles(width: int, height: int, tiles: int) -> None:
    assert tokens("gpt-4o", width, height) == 85 + 170 * tiles
    assert tokens("gpt-4o-mini", width, height) == 2833 + 5667 * tiles


def test_one_tile_on_gpt_4o_mini_is_about_33_times_gpt_4o() -> None:
    assert tokens("gpt-4o-mini", 500, 400) / tokens("gpt-4o", 500, 400) == pytest.approx(33.33, abs=0.01)


@pytest.mark.parametrize(
    ("width", "height", "expected"),
    [(384, 384, 258), (385, 100, 258), (768, 768, 258), (769, 768, 2 * 258), (1000, 1000, 4 * 258)],
)
def test_gemini_2_tiles(width: int, height: int, expected: int) -> None:
    assert tokens("gemini-2", width, height) == expected


def test_gemini_3_is_the_same_for_every_size() -> None:
    assert tokens("gemini-3", 10, 10) == tokens("gemini-3", 3000, 2000) == 1120


@pytest.mark.parametrize(
    ("width", "height", "tiles"),
    [
        (336, 336, 1),
        (100, 80, 1),
        (672, 336, 2),  # fits two tiles side by side exactly
        (336, 672, 2),
        (337, 336, 2),  # one pixel too wide for one tile: two take it without shrinking
        (672, 672, 4),
        (300, 200, 1),  # one tile enlarges it 1.12 times, two tiles side by side 1.68 times: least enlargement
        (5000, 5000, 16),  # must shrink: 4 x 4 shrinks least
    ],
)
def test_llama_4_tiles(width: int, height: int, tiles: int) -> None:
    whole = 144 + 3
    assert tokens("llama-4", width, height) == (whole if tiles == 1 else whole + 145 * tiles)


@given(SIDES, SIDES)
def test_rules_hold_for_any_size(width: int, height: int) -> None:
    assert 1 <= (tokens("gpt-4o", width, height) - 85) / 170 <= 8
    assert (tokens("gpt-4o-mini", width, height) - 2833) // 5667 == (tokens("gpt-4o", width, height) - 85) // 170
    assert 147 <= tokens("llama-4", width, height) <= 147 + 16 * 145
    assert tokens("gemini-2", width, height) % 258 == 0


def test_rules_reproduce_the_studys_input_tokens_of_a_figure_question() -> None:
    """The study's image tokens (+multimodal less baseline, table V) lie between those of a small and of a middling crop."""
    if not RESULTS.is_file():
        pytest.skip(f"{RESULTS.name} is not beside the checkout")
    rows = json.loads(RESULTS.read_text())["efficiency_pixel_figure_set"]
    counts = {(row["generator"], row["system"]): row["input_tokens_per_question"] for row in rows}
    seen = {name: counts[name, "+multimodal"] - counts[name, "baseline"] for name, _ in counts}
    assert tokens("gpt-4o-mini", 500, 400) <= seen["GPT-4o-mini"] <= tokens("gpt-4o-mini", 700, 500)
    assert tokens("gpt-4o", 500, 400) <= seen["GPT-4o"] <= tokens("gpt-4o", 700, 500)
    assert tokens("llama-4", 300, 200) <= seen["Llama 4 Scout"] <= tokens("llama-4", 700, 500)
    assert seen["Gemini 3.1 Flash-Lite"] == pytest.approx(tokens("gemini-3", 500, 400), rel=0.05)


def test_every_rule_names_its_source_and_every_listed_generator_with_vision_has_one() -> None:
    assert all(rule.source for rule in pricing.IMAGE_RULES.values())
    assert {spec.image_rule for spec in LISTED.values() if spec.vision} <= set(pricing.IMAGE_RULES)


def test_prices_are_those_of_table_1() -> None:
    if not RESULTS.is_file():
        pytest.skip(f"{RESULTS.name} is not beside the checkout")
    table = {row["name"]: row for row in json.loads(RESULTS.read_text())["generators"]}
    listed = {spec.label: spec for spec in LISTED.values() if spec.access != "embedded"}
    assert set(listed) == set(table)
    for label, row in table.items():
        spec = listed[label]
        assert (spec.usd_per_million_input, spec.usd_per_million_output) == (
            row["usd_per_million_input"],
            row["usd_per_million_output"],
        )
        assert (spec.access, bool(spec.prices_read and spec.prices_source)) == (row["access"], True)


def test_cost_of_known_and_unknown() -> None:
    mini = LISTED["gpt-4o-mini"]
    assert pricing.cost_usd(mini, 9_477, 12) == pytest.approx((9_477 * 0.15 + 12 * 0.60) / 1e6)
    assert pricing.cost_usd(mini, None, 12) is None and pricing.cost_usd(mini, 12, None) is None
    unpriced = replace(mini, usd_per_million_output=None)
    assert pricing.cost_usd(unpriced, 12, 12) is None
    assert pricing.cost_usd(LISTED["extractive"], None, None) == 0.0


def test_estimate_by_hand() -> None:
    asked, mini = prompt(image=crop(500, 400)), LISTED["gpt-4o-mini"]
    text = sum(words(message.content) for message in asked.messages)
    told = pricing.estimate(asked, mini, words)
    assert (told.text_tokens, told.image_tokens, told.input_tokens) == (text, 8_500, text + 8_500)
    assert told.cost_usd == pytest.approx((0.15 * (text + 8_500) + 0.60 * told.output_tokens) / 1e6)
    assert told.limit_usd is not None and told.cost_usd is not None and told.limit_usd > told.cost_usd
    assert told.note == ""


def test_estimates_for_every_generator_from_one_count_of_the_text() -> None:
    counted: list[str] = []

    def count(text: str) -> int:
        counted.append(text)
        return words(text)

    asked = prompt(image=crop(500, 400))
    told = {e.generator: e for e in pricing.estimates(asked, GENERATORS.values(), count)}
    assert len(counted) == len(asked.messages) and set(told) == set(GENERATORS)
    assert told["gpt-4o"].image_tokens == 255 and told["gemini-3.1-flash-lite"].image_tokens == 1120
    assert told["extractive"].image_tokens == 0 and told["extractive"].cost_usd == 0.0
    assert "takes no images" in told["extractive"].note


def test_an_unknown_rule_leaves_the_sum_unknown_but_not_the_text() -> None:
    unknown = replace(LISTED["gpt-4o-mini"], image_rule="")
    told = pricing.estimate(prompt(image=crop(500, 400)), unknown, words)
    assert (told.input_tokens, told.image_tokens, told.cost_usd, told.limit_usd) == (None, None, None, None)
    assert told.text_tokens > 0 and "not known" in told.note
    without = pricing.estimate(prompt(), unknown, words)
    assert without.input_tokens == without.text_tokens and without.cost_usd is not None


def test_an_image_is_counted_at_the_size_it_is_sent_with() -> None:
    mini = LISTED["gpt-4o-mini"]
    shrunk = replace(mini, image_limits=replace(mini.image_limits, max_side=400))
    big = prompt(image=crop(1000, 1000))
    assert pricing.estimate(big, mini, words).image_tokens == 2833 + 5667 * 4
    assert pricing.estimate(big, shrunk, words).image_tokens == 2833 + 5667


@given(st.integers(min_value=0, max_value=20_000))
def test_split_adds_up_and_gives_the_image_its_share(total: int) -> None:
    asked = prompt(image=crop(500, 400))
    parts = pricing.split(asked, LISTED["gpt-4o-mini"], total, words)
    assert sum(parts) == total and len(parts) == len(asked.segments)
    share = next(n for n, s in zip(parts, asked.segments, strict=True) if s.kind == "image")
    text = sum(words(s.text) for s in asked.segments if s.kind != "image")
    assert share == pytest.approx(total * 8_500 / (8_500 + text), abs=1)


def test_split_without_a_rule_gives_the_image_what_the_text_leaves() -> None:
    asked = prompt(image=crop(500, 400))
    text = sum(words(s.text) for s in asked.segments if s.kind != "image")
    unknown = replace(LISTED["gpt-4o-mini"], image_rule="")
    parts = pricing.split(asked, unknown, text + 1_000, words)
    assert [n for n, s in zip(parts, asked.segments, strict=True) if s.kind == "image"] == [1_000]
    assert pricing.split(asked, unknown, None, words)[3] == 0


def test_registry_and_estimates_import_no_providers_package() -> None:
    code = (
        "import sys, rag.generators.registry as r, rag.pipeline; list(r.GENERATORS.values());"
        "print([m for m in ('openai', 'google.genai', 'httpx2', 'torch') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        cwd=Path(__file__).resolve().parents[2],
        check=False,
    )
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_a_real_tokenizer_survives_special_tokens_in_the_text() -> None:
    asked = prompt("What is <|endoftext|> [CLS] [SEP] <|image|>?")
    told = pricing.estimate(asked, LISTED["gpt-4o"])
    assert (
        told.input_tokens is not None and told.input_tokens > pricing.estimate(prompt(""), LISTED["gpt-4o"]).text_tokens
    )


def test_usage_says_that_thinking_is_part_of_the_output() -> None:
    gemini = LISTED["gemini-3.1-flash-lite"]
    usage = Usage(1_000, 50, 40, "reported")
    assert pricing.cost_usd(gemini, usage.input_tokens, usage.output_tokens) == pytest.approx(
        (1_000 * 0.1 + 50 * 0.4) / 1e6
    )

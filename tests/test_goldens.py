"""Golden traces: demo questions through +both with the embedded reader.

``FUSEBOX_REGENERATE_GOLDENS=1`` writes them anew, and the test then fails, so that a regenerating run can't pass for a checking one.
Ids, times and dates are left out, and scores too: int8 sums differ in the last digits from processor to processor. Ranks stay.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from rag import prompt as prompts
from rag import trace as traces
from rag.generators.registry import GENERATORS
from rag.pipeline import ask
from rag.settings import ASSETS
from rag.systems import SYSTEMS

GOLDENS = Path(__file__).parent / "goldens"
PER_TYPE = 3
VARYING = {"id", "created", "timings_ms", "ttft_ms", "latency_ms", "signals", "reason", "score"}
"""``reason`` and ``signals`` quote scores in words."""


def _questions() -> list[tuple[str, str]]:
    return [
        (f"{file.stem}_{i}", item["q"])
        for file in sorted((ASSETS / "questions").glob("demo_*.json"))
        for i, item in enumerate(json.loads(file.read_text("utf-8"))[:PER_TYPE])
    ]


def _stable(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _stable(v) for k, v in value.items() if k not in VARYING}
    return [_stable(v) for v in value] if isinstance(value, list) else value


@pytest.mark.parametrize(("name", "question"), _questions())
def test_golden_trace(demo, name, question):
    *_, trace = ask(question, SYSTEMS["+both"], GENERATORS["extractive"], demo)
    assert prompts.build(trace.question, trace.evidence, demo, trace.excluded) == trace.prompt
    got = _stable(json.loads(traces.dumps(trace)))
    file = GOLDENS / f"{name}.json"
    if os.environ.get("FUSEBOX_REGENERATE_GOLDENS"):
        GOLDENS.mkdir(exist_ok=True)
        file.write_text(json.dumps(got, ensure_ascii=False, indent=1) + "\n", "utf-8")
        pytest.fail("golden written; unset FUSEBOX_REGENERATE_GOLDENS to check")
    assert file.exists(), "no golden yet; see CONTRIBUTING.md"
    assert got == json.loads(file.read_text("utf-8"))

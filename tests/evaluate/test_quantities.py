"""Numbers with units: how they are read, and that nothing an answer holds can break the reading."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag.evaluate.lexical import abstains, agrees
from rag.evaluate.quantities import normalised, quantities, same

ODD = st.text(st.sampled_from("0123456789.,-/%e+ ()[]<>~½²µ٣\n\u202ehalfoneyrsmlkgthird"), max_size=60) | st.text(
    max_size=60
)


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("nine hundred twenty-nine", [(929, "")]),
        ("one third of a year", [(1 / 3, ""), (1, "time")]),
        ("0.5, 0.75 and 1 litre", [(0.5, "volume"), (0.75, "volume"), (1, "volume")]),
        ("7-14 weeks", [(7, "time"), (14, "time")]),
        ("2e-04", [(2e-4, "")]),
        ("node4 of v1.2.3", []),
        ("the 27th week", [(27, "")]),
        ("42 401", [(42, ""), (42401, ""), (401, "")]),
        ("10 per 100 person-years", [(10, "/time")]),
        ("5 per 0 years", [(5, "/time")]),
        ("3/0", [(3, "")]),
        ("9" * 400, []),
        ("1e400", []),
    ],
)
def test_what_is_read(text: str, read: list[tuple[float, str]]) -> None:
    assert [(q.value, q.dimension) for q in quantities(normalised(text))] == read


@given(ODD, ODD)
@settings(max_examples=400, deadline=None)
def test_any_text_can_be_judged(reference: str, answer: str) -> None:
    assert agrees("How many?", reference, answer) in (True, False)
    assert abstains(answer) in (True, False)
    for one in quantities(normalised(reference)):
        assert same(one, one)

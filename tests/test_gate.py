from __future__ import annotations

from rag import gate
from rag.systems import SYSTEMS, tuned
from rag.types import Evidence, Fused, Hit, TextEvidence, VisualEvidence


def _fused(item: str, branch: str, rank: int, dense: float, bm25_rank: int | None = None) -> Fused:
    hits = (Hit(item, branch, "dense", rank, dense), Hit(item, branch, "bm25", bm25_rank or rank, 5.0))
    return Fused(item, rank, 1 / (60 + rank), hits)


def _evidence(crops: tuple[float, ...], chunks: tuple[float, ...], note: str = "") -> Evidence:
    return Evidence(
        text=TextEvidence(tuple(_fused(f"c{i}", "text", i, s) for i, s in enumerate(chunks, 1)), "hybrid"),
        visual=VisualEvidence(tuple(_fused(f"v{i}", "visual", i, s) for i, s in enumerate(crops, 1)), "proxy", note=note),
    )


CLEAR = _evidence((0.8, 0.3, 0.2, 0.1), (0.4, 0.3, 0.2))
UNCLEAR = _evidence((0.3, 0.3, 0.2, 0.1), (0.7, 0.6, 0.5))
BOTH = SYSTEMS["+both"]


def test_off_sends_nothing_and_says_so():
    decision = gate.decide("q?", CLEAR, SYSTEMS["+KG"], vision=True)
    assert (decision.payload, decision.item_ids, decision.mode) == ("nothing", (), "off")
    assert "off" in decision.reason


def test_a_crop_that_wins_clearly_goes_as_pixels_and_only_the_first():
    decision = gate.decide("How many patients were in node 6?", CLEAR, BOTH, vision=True)
    assert (decision.payload, decision.item_ids, decision.mode) == ("pixels", ("v1",), "auto")
    assert [s.name for s in decision.signals] == [*gate.SIGNALS, "sum"]


def test_passages_that_win_leave_captions_of_the_top_three():
    decision = gate.decide("Why are hazards assumed proportional?", UNCLEAR, BOTH, vision=True)
    assert (decision.payload, decision.item_ids) == ("captions", ("v1", "v2", "v3"))
    assert not decision.read_off


def test_the_signals_add_up_to_the_sum_that_is_stated():
    decision = gate.decide("How many patients were in node 6?", CLEAR, BOTH, vision=True)
    weights = [float(s.value.rsplit("(", 1)[1].rstrip(")")) for s in decision.signals[:-1]]
    stated = float(decision.signals[-1].value.split(";")[0])
    assert abs(sum(weights) - stated) < 0.03


def test_without_vision_pixels_become_the_same_crops_words():
    decision = gate.decide("How many patients were in node 6?", CLEAR, BOTH, vision=False)
    assert (decision.payload, decision.wanted, decision.item_ids, decision.read_off) == ("captions", "pixels", ("v1",), True)
    assert "takes no images" in decision.reason


def test_a_person_overrides():
    assert gate.decide("Why?", UNCLEAR, tuned(BOTH, payload="pixels"), vision=True).payload == "pixels"
    decision = gate.decide("How many in node 6?", CLEAR, tuned(BOTH, payload="captions", captions_k=2), vision=True)
    assert (decision.payload, decision.item_ids, decision.mode) == ("captions", ("v1", "v2"), "manual")


def test_an_evaluation_uses_the_questions_type():
    assert gate.decide("Why?", UNCLEAR, BOTH, vision=True, question_type="figure").payload == "pixels"
    assert gate.decide("How many in node 6?", CLEAR, BOTH, vision=True, question_type="multihop").payload == "captions"


def test_no_crops_gives_the_branchs_own_note():
    decision = gate.decide("Why?", _evidence((), (0.5,), note="CLIP weights are not here."), BOTH, vision=True)
    assert decision.payload == "nothing"
    assert "CLIP weights are not here." in decision.reason

from __future__ import annotations

from types import SimpleNamespace

import pytest

from rag import gate
from rag.systems import SYSTEMS, tuned
from rag.types import Evidence, Fused, Hit, TextEvidence, VisualEvidence


def _fused(item: str, branch: str, rank: int, dense: float, bm25_rank: int | None = None) -> Fused:
    hits = (Hit(item, branch, "dense", rank, dense), Hit(item, branch, "bm25", bm25_rank or rank, 5.0))
    return Fused(item, rank, 1 / (60 + rank), hits)


def _evidence(crops: tuple[float, ...], chunks: tuple[float, ...], note: str = "") -> Evidence:
    return Evidence(
        text=TextEvidence(tuple(_fused(f"c{i}", "text", i, s) for i, s in enumerate(chunks, 1)), "hybrid"),
        visual=VisualEvidence(
            tuple(_fused(f"v{i}", "visual", i, s) for i, s in enumerate(crops, 1)), "proxy", note=note
        ),
    )


class _AnyItem(dict):
    """Stands in for a corpus's mappings: every chunk is on page p1, every crop on page p2."""

    def __init__(self, page: str) -> None:
        self.page = page

    def __getitem__(self, key: str) -> SimpleNamespace:
        return SimpleNamespace(page_id=self.page, captions="Figure 1")


CORPUS = SimpleNamespace(chunks=_AnyItem("p1"), crops=_AnyItem("p2"))


def decide(question, evidence, system, **options):
    return gate.decide(question, evidence, system, CORPUS, **options)


CLEAR = _evidence((0.8, 0.3, 0.2, 0.1), (0.4, 0.3, 0.2))
UNCLEAR = _evidence((0.3, 0.3, 0.2, 0.1), (0.7, 0.6, 0.5))
BOTH = SYSTEMS["+both"]


def test_off_sends_nothing_and_says_so():
    decision = decide("q?", CLEAR, SYSTEMS["+KG"], vision=True)
    assert (decision.payload, decision.item_ids, decision.mode) == ("nothing", (), "off")
    assert "off" in decision.reason


def test_a_crop_that_wins_clearly_goes_as_pixels_and_only_the_first():
    decision = decide("How many patients were in node 6?", CLEAR, BOTH, vision=True)
    assert (decision.payload, decision.item_ids, decision.mode) == ("pixels", ("v1",), "auto")
    assert [s.name for s in decision.signals] == [*gate.SIGNALS, "sum"]


def test_passages_that_win_leave_captions_of_the_top_three():
    decision = decide("Why are hazards assumed proportional?", UNCLEAR, BOTH, vision=True)
    assert (decision.payload, decision.item_ids) == ("captions", ("v1", "v2", "v3"))
    assert not decision.read_off


def test_the_signals_add_up_to_the_sum_that_is_stated():
    decision = decide("How many patients were in node 6?", CLEAR, BOTH, vision=True)
    weights = [float(s.value.rsplit("(", 1)[1].rstrip(")")) for s in decision.signals[:-1]]
    stated = float(decision.signals[-1].value.split(",")[0])
    assert sum(weights) + gate.BIAS == pytest.approx(stated, abs=0.04)


def test_without_vision_pixels_become_the_same_crops_words():
    decision = decide("How many patients were in node 6?", CLEAR, BOTH, vision=False)
    assert (decision.payload, decision.wanted, decision.item_ids, decision.read_off) == (
        "captions",
        "pixels",
        ("v1",),
        True,
    )
    assert "takes no images" in decision.reason


def test_a_person_overrides():
    assert decide("Why?", UNCLEAR, tuned(BOTH, payload="pixels"), vision=True).payload == "pixels"
    decision = decide("How many in node 6?", CLEAR, tuned(BOTH, payload="captions", captions_k=2), vision=True)
    assert (decision.payload, decision.item_ids, decision.mode) == ("captions", ("v1", "v2"), "manual")


def test_an_evaluation_uses_the_questions_type():
    assert decide("Why?", UNCLEAR, BOTH, vision=True, question_type="figure").payload == "pixels"
    assert decide("How many in node 6?", CLEAR, BOTH, vision=True, question_type="multihop").payload == "captions"


def test_no_crops_gives_the_branchs_own_note():
    decision = decide("Why?", _evidence((), (0.5,), note="CLIP weights are not here."), BOTH, vision=True)
    assert decision.payload == "nothing"
    assert "CLIP weights are not here." in decision.reason


@pytest.mark.parametrize(
    ("question", "names"),
    [
        ("What does Figure 3 say?", True),
        ("What is in table 2?", True),
        ("Which tables list deaths?", True),
        ("Which package addresses panel data?", False),
        ("Is the estimate stable and suitable?", False),
    ],
)
def test_wording_that_names_a_modality(question, names):
    view = gate.view_of(question, CLEAR, CORPUS)
    assert gate.weigh(view)[1]["the question names a figure or table"][0] == (3.0 if names else 0.0)


def test_a_crop_on_a_page_of_the_passages_counts_for_it():
    same = SimpleNamespace(chunks=_AnyItem("p1"), crops=_AnyItem("p1"))
    name = "crop 1 stands on a page of the passages"
    assert (
        gate.weigh(gate.view_of("q", CLEAR, same))[1][name][0]
        > gate.weigh(gate.view_of("q", CLEAR, CORPUS))[1][name][0]
    )


@pytest.mark.parametrize(
    ("chunks_by", "crops_by", "left_out"),
    [
        (("dense", "bm25"), ("dense", "bm25"), set()),
        (("dense",), ("dense", "bm25"), {"crop 1 against the best passage, BM25"}),
        (("bm25",), ("dense", "bm25"), {"crop 1 against the best passage, cosine"}),
        (
            ("dense", "bm25"),
            ("clip",),
            {
                "crop 1 against the best passage, BM25",
                "crop 1 against the best passage, cosine",
                "crop 1 against crop 2, cosine",
                "crop 1, cosine",
                "the rankers agree on crop 1",
            },
        ),
    ],
)
def test_a_ranker_that_did_not_run_gives_no_signal_instead_of_a_zero(chunks_by, crops_by, left_out):
    def ranked(prefix: str, branch: str, rankers: tuple[str, ...]) -> tuple[Fused, ...]:
        return tuple(
            Fused(f"{prefix}{i}", i, 0.5, tuple(Hit(f"{prefix}{i}", branch, r, i, 0.5) for r in rankers))
            for i in (1, 2)
        )

    evidence = Evidence(
        text=TextEvidence(ranked("c", "text", chunks_by), "any"),
        visual=VisualEvidence(ranked("v", "visual", crops_by), "any"),
    )
    signals = gate.weigh(gate.view_of("q", evidence, CORPUS))[1]
    assert set(gate.SIGNALS) - set(signals) == left_out


def test_captions_that_crops_do_not_have_are_not_claimed():
    bare = SimpleNamespace(chunks=_AnyItem("p1"), crops=_AnyItem("p2"))
    bare.crops.__class__ = type(
        "Bare", (_AnyItem,), {"__getitem__": lambda self, key: SimpleNamespace(page_id="p2", captions="")}
    )
    reason = gate.decide("Why?", UNCLEAR, BOTH, bare, vision=True).reason
    assert "3 without one" in reason
    assert "without one" not in decide("Why?", UNCLEAR, BOTH, vision=True).reason


def test_a_crop_far_from_an_off_topic_question_is_no_source():
    far = _evidence((0.22, 0.21, 0.2), (0.19, 0.18, 0.17))
    assert decide("What is the capital of France?", far, BOTH, vision=True).payload == "captions"

"""Traces written by hand over the small corpus, with something of everything a view can meet."""

from __future__ import annotations

from dataclasses import replace

from rag import prompt
from rag.corpus import Corpus
from rag.systems import SYSTEMS
from rag.types import (
    Evidence,
    Fact,
    Fused,
    GateDecision,
    Generation,
    GraphEvidence,
    Hit,
    RejectedFact,
    Signal,
    TextEvidence,
    Trace,
    Usage,
    VisualEvidence,
)

QUESTION = "How many patients did the glioma trial enroll?"


def _fused(item: str, branch: str, rank: int, *rankers: str) -> Fused:
    return Fused(item, rank, 1 / (60 + rank), tuple(Hit(item, branch, ranker, rank, 1 / rank) for ranker in rankers))


def evidence(corpus: Corpus) -> Evidence:
    """All chunks, two facts, two dropped ones (of 300), both crops; the table's caption is sent."""
    chunks, crops = list(corpus.chunks), list(corpus.crops)
    facts = [Fact((i,), f"{t.subject} {t.relation} {t.object}", t.subject, "out") for i, t in enumerate(corpus.triples)]
    rejected = (RejectedFact(facts[2], "page not retrieved"), RejectedFact(facts[3], "entity too short"))
    return Evidence(
        text=TextEvidence(tuple(_fused(c, "text", n, "dense", "bm25") for n, c in enumerate(chunks, 1)), "hybrid"),
        graph=GraphEvidence(
            (corpus.triples[0].subject, corpus.triples[1].subject),
            tuple(facts[:2]),
            rejected,
            {"page not retrieved": 299, "entity too short": 1, "duplicate": 0},
            "provenance",
        ),
        visual=VisualEvidence(
            tuple(_fused(c, "visual", n, "proxy-dense", "proxy-bm25") for n, c in enumerate(crops, 1)),
            "proxy",
            note="The CLIP ranker is missing: no weights.",
        ),
        gate=GateDecision(
            "captions",
            (crops[0],),
            "Sent the caption of 1 crop.",
            (Signal("the wording", "names none"),),
            "captions",
            "auto",
        ),
    )


def trace(corpus: Corpus, answer: str = "37 patients [T1]", *, question: str = QUESTION, **generation: object) -> Trace:
    """A finished trace; ``generation`` changes fields of its generation."""
    found = evidence(corpus)
    sent = prompt.build(question, found, corpus)
    done = Generation(answer, Usage(412, 9, None, "reported"), 12.0, 34.0, 0.0, "stop")
    return Trace(
        "0123456789abcdef",
        "2026-11-30T12:00:00.000+00:00",
        question,
        SYSTEMS["+both"],
        "extractive",
        corpus.id,
        found,
        sent,
        replace(done, **generation),
        prompt.parse_citations(answer, sent.tags),
        {"encode": 3.0, "text": 1.0, "graph": 0.5, "visual": 1.5, "gate": 0.1, "prompt": 0.1, "generation": 34.0},
    )

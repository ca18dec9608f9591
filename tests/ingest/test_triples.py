"""Grammatical extraction on sentences with known facts, and reading triples from a file."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from rag.errors import CorpusError
from rag.ingest.chunk import windows
from rag.ingest.triples import ORIGIN, extract, load_triples
from rag.types import Chunk, Region, Triple

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
STUDY = DATA / "hotpotqa" / "triples_by_chunk_md5.jsonl.gz"


def page(text: str, page_id: str = "d_p001") -> list[Chunk]:
    return [Chunk(f"{page_id}_c{i:02d}", page_id, window, start) for i, (start, window) in enumerate(windows(text))]


def facts(text: str, regions: Sequence[Region] = ()) -> list[str]:
    return [f"{t.subject} | {t.relation} | {t.object}" for t in extract(page(text), regions)]


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        # subject, verb, object; what hangs between goes to the relation
        (
            "The log-rank test compares the survival of glioma patients.",
            ["log-rank test | compares survival of | glioma patients"],
        ),
        # passive, with its agent
        ("The glioma patients were treated by a surgeon.", ["glioma patients | were treated by | surgeon"]),
        ("The new drug was compared with placebo.", ["new drug | was compared with | placebo"]),
        # copula
        ("Concordance is a measure of association.", ["Concordance | is measure of | association"]),
        ("The hazard ratio is constant.", ["hazard ratio | is | constant"]),
        # prepositional object
        ("The data set consists of 686 women.", ["data set | consists of | 686 women"]),
        # conjunctions on both sides
        (
            "Age and sex predict death and relapse.",
            ["Age | predict | death", "sex | predict | death", "Age | predict | relapse", "sex | predict | relapse"],
        ),
        # a second verb keeps the subject, negation stays
        (
            "The model contains three covariates and does not include a frailty term.",
            ["model | contains | three covariates", "model | does not include | frailty term"],
        ),
        # adverbs that deny stay too
        ("The test is rarely used by statisticians.", ["test | is rarely used by | statisticians"]),
        ("The model no longer needs a frailty term.", ["model | no longer needs | frailty term"]),
        # a relative pronoun stands for what comes before it
        (
            "The tmerge function, which creates time intervals, is popular.",
            ["tmerge function | is | popular", "tmerge function | creates | time intervals"],
        ),
        # a participle
        ("Patients treated with tamoxifen lived longer.", ["Patients | treated with | tamoxifen"]),
        # one verb leads to the next
        ("The cox.zph function is used to test proportional hazards.", [
            "cox.zph function | is used to test | proportional hazards"
        ]),
        # who writes is left out
        ("We can use a Cox model to estimate the hazard ratio.", [
            "Cox model | can be used to estimate | hazard ratio"
        ]),
        # appositions
        ("Free light chain (FLC) predicts mortality.", [
            "Free light chain | predicts | mortality",
            "Free light chain | is abbreviated | FLC",
        ]),
        ("Methods such as logistic regression need data.", [
            "Methods | such as | logistic regression",
        ]),
        # numbers behind a noun belong to it
        ("Figure 3 shows the survival curves.", ["Figure 3 | shows | survival curves"]),
    ],
)  # fmt: skip
def test_facts_of_a_sentence(sentence: str, expected: list[str]) -> None:
    found = facts(sentence)
    assert [fact for fact in expected if fact not in found] == []
    assert len(found) <= len(expected) + 1


@pytest.mark.parametrize(
    "text",
    [
        "",
        "   ",
        "It contains three covariates.",
        "This model contains three covariates.",
        "These patients received a transplant.",
        "Does the model contain three covariates?",
        "If the model contains a frailty term, the estimate uses an approximation.",
        "Assume that the model contains three covariates.",
        "There is a model in the package.",
        "Fit the model to the data.",
        "Neither age nor sex predicts mortality.",
        "The model includes neither age nor sex.",
        "12 contains 13.",
        "> fit <- coxph(Surv(time, status) ~ age, data = lung) > summary(fit)",
        "n= 228, number of events= 165 coef exp(coef) se(coef) z Pr(>|z|) age 0.018 1.019 0.009 2.03 0.042",
        "yes | Vaginal delivery (677): 111 | Planned Cesarean (409): 0 | Unplanned Cesarean (223): 0",
    ],
)
def test_nothing_is_made_of(text: str) -> None:
    assert facts(text) == []


def test_code_beside_prose_does_not_reach_the_facts() -> None:
    text = (
        "The survfit function computes survival curves. > fit <- survfit(Surv(time, status) ~ 1, data = lung) "
        "> plot(fit, xlab = 'Days') The coxph function fits Cox models."
    )
    assert facts(text) == [
        "survfit function | computes | survival curves",
        "coxph function | fits | Cox models",
    ]


def test_regions_part_headings_and_tables_from_prose() -> None:
    parts = [
        ("section-header", "2.1 Survival curves contain steps"),
        ("text", "The log-rank test compares survival curves."),
        ("table", "Model A | uses | three covariates"),
        ("text", "Model objects\ncontain coefficients."),
        ("caption", "Figure 4.2: Cumulative risks of death."),
    ]
    regions = [
        Region(f"d_p001_r{i:02d}", "d_p001", kind, (0.0, 0.0, 1.0, 1.0), text, i)
        for i, (kind, text) in enumerate(parts)
    ]
    assert facts("\n\n".join(text for _, text in parts), regions) == [
        "log-rank test | compares | survival curves",
        "Figure 4.2 | shows cumulative risks of | death",
    ]


def test_windows_of_a_page_are_read_together_and_facts_named_after_the_first_that_holds_them() -> None:
    filler = "The weather was fine. " * 20  # 440 characters
    text = filler + "The log-rank test compares survival curves. " + "Nothing else happened here. " * 10
    chunks = page(text)
    assert len(chunks) == 2
    assert "log-rank test compares survival curves" in chunks[0].text
    # The second window holds it only from its middle on.
    assert chunks[1].text.startswith("-rank test") or "log-rank" not in chunks[1].text
    found = [t for t in extract(chunks) if t.subject == "log-rank test"]
    assert found == [Triple("log-rank test", "compares", "survival curves", "d_p001_c00", "d_p001", ORIGIN)]


def test_sentences_cut_by_the_end_of_a_window_give_no_half_facts() -> None:
    lonely = Chunk("d_p001_c01", "d_p001", "zph function tests proportional hazards. The strata term cre", 450)
    assert list(extract([lonely])) == []


def test_a_fact_is_kept_once_a_page() -> None:
    text = "The log-rank test compares survival curves. "
    chunks = page(text * 20, "d_p001") + page(text, "d_p002")
    assert [(t.chunk_id, t.subject) for t in extract(chunks)] == [
        ("d_p001_c00", "log-rank test"),
        ("d_p002_c00", "log-rank test"),
    ]


def test_entities_stand_in_their_chunk_and_keep_their_limits() -> None:
    text = (
        "The Kaplan-Meier estimate of the survival function for all patients in the randomized clinical trial of the "
        "new and very expensive radioimmunotherapy drug is a step function. Time-dependent covariates, such as the "
        "cumulative dose, change their values at many points. The 'strange' “quotes” (and brackets) survive the day. "
    ) * 3
    chunks = {chunk.id: chunk for chunk in page(text)}
    found = list(extract(chunks.values()))
    assert found
    for fact in found:
        assert fact.subject in chunks[fact.chunk_id].text
        assert fact.object in chunks[fact.chunk_id].text
        assert max(len(fact.subject), len(fact.object)) <= 80
        assert max(len(fact.subject.split()), len(fact.object.split())) <= 8


@pytest.mark.parametrize(
    "text",
    [
        "\x00\x01\x02 control \x1b characters",
        "<script>alert(1)</script> is markup.",
        "word " * 3000,
        "z" * 20_000,
        "(" * 3000,
    ],
)
def test_nothing_in_a_text_breaks_the_extraction(text: str) -> None:
    assert all(fact.origin == ORIGIN for fact in extract(page(text)))


def test_extraction_is_deterministic_whatever_the_batch() -> None:
    chunks = [
        c for i in range(12) for c in page("The log-rank test compares survival curves. " * (i + 1), f"d_p{i:03d}")
    ]
    assert list(extract(chunks, batch_size=1)) == list(extract(chunks, batch_size=64))


def write(path: Path, *rows: object) -> Path:
    path.write_text("\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows), encoding="utf-8")
    return path


def test_triples_from_a_file(tmp_path: Path) -> None:
    file = write(
        tmp_path / "triples.jsonl",
        {"chunk_md5": "aa", "triples": [["the band", "broke up", ""], ["Q", "is", "novel"]]},
        "",
        {"chunk_md5": "bb", "triples": []},
    )
    assert load_triples(file, origin="some-model") == {
        "aa": (
            Triple("the band", "broke up", "", "aa", "", "some-model"),
            Triple("Q", "is", "novel", "aa", "", "some-model"),
        ),
        "bb": (),
    }
    packed = tmp_path / "triples.jsonl.gz"
    packed.write_bytes(gzip.compress(file.read_bytes()))
    assert [t.origin for t in load_triples(packed)["aa"]] == ["study", "study"]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", r"t\.jsonl, line 2: not JSON"),
        ("[]", r"t\.jsonl, line 2: expected .*chunk_md5"),
        ('{"chunk_md5": 1, "triples": []}', "line 2: expected"),
        ('{"chunk_md5": "a"}', "line 2: expected"),
        ('{"chunk_md5": "a", "triples": [["s", "r"]]}', r'line 2: \["s", "r"\] is not a triple'),
        ('{"chunk_md5": "a", "triples": [["s", "r", 3]]}', "line 2: .* is not a triple"),
        ('{"chunk_md5": "a", "triples": ["srt"]}', "line 2: .* is not a triple"),
    ],
)
def test_a_faulty_line_is_named(tmp_path: Path, line: str, message: str) -> None:
    file = write(tmp_path / "t.jsonl", {"chunk_md5": "x", "triples": []}, line)
    with pytest.raises(CorpusError, match=message):
        load_triples(file)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "t.jsonl.gz").write_bytes(b"not gzip")
    (tmp_path / "cut.jsonl.gz").write_bytes(gzip.compress(b'{"chunk_md5": "x", "triples": []}\n' * 99)[:40])
    (tmp_path / "latin.jsonl").write_bytes(b'{"chunk_md5": "\xe9"}')
    for name in ("t.jsonl.gz", "cut.jsonl.gz", "latin.jsonl", "missing.jsonl"):
        with pytest.raises(CorpusError, match=name):
            load_triples(tmp_path / name)


@pytest.mark.skipif(not STUDY.is_file(), reason="the study's triples (../shared/data/hotpotqa) are not there")
def test_the_studys_file() -> None:
    by_md5 = load_triples(STUDY)
    assert len(by_md5) == 5_122
    assert sum(map(len, by_md5.values())) == 36_427
    assert all(md5 == triple.chunk_id for md5, triples in by_md5.items() for triple in triples)

"""The three branches: one signature, ``(query, corpus, system) -> evidence``. No branch looks at which branches are on.

An empty question finds nothing, in every branch; ``k`` above the number of items gives all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest

from rag.corpus import Corpus, Scored
from rag.encoders import ImageEncoder, Vectors, image_encoder
from rag.errors import EncoderUnavailable
from rag.fusion import FUSIONS, RRF_K, Ranking, as_ranking, single
from rag.parts import sub_questions
from rag.types import Branch, Bridge, Fused, GraphEvidence, Hit, System, TextEvidence, VisualEvidence

FUSION_DEPTH = 30
"""Rankings are cut here before they are fused, so that ``k`` changes how much is shown and never the order."""

MAX_BRIDGES = 2
"""Chunks that the graph mode ``bridge`` may bring in: with the usual three text hits, five documents at most."""


@dataclass(frozen=True, slots=True, eq=False)
class Query:
    """A question as the branches need it: its vector (dimension,) by the corpus's text encoder and, for the graph,
    the pages of the text hits and their chunks, best first."""

    question: str
    vector: Vectors
    text_pages: tuple[str, ...] = ()
    text_chunks: tuple[str, ...] = ()

    @classmethod
    def of(cls, question: str, corpus: Corpus) -> Query:
        """Encode ``question`` once for all branches.

        Raises:
            EncoderUnavailable: the corpus's text encoder can't be loaded.
        """
        return cls(question, corpus.text_encoder.encode([question])[0])

    def after(self, text: TextEvidence, corpus: Corpus) -> Query:
        """The same question after the text branch found this."""
        chunks = tuple(hit.item_id for hit in text.hits)
        pages = tuple(dict.fromkeys(corpus.chunks[chunk].page_id for chunk in chunks))
        return replace(self, text_pages=pages, text_chunks=chunks)

    @property
    def empty(self) -> bool:
        """Whether the question has no character but white space."""
        return not self.question.strip()


def text(query: Query, corpus: Corpus, system: System) -> TextEvidence:
    """Text branch (eq. 1): the ``text_k`` best chunks by ``dense``, ``bm25``, or ``hybrid``, the fusion of both. ``hybrid`` goes
    beyond the study in one more thing: a question of two parts is searched part by part (``_by_parts``)."""
    if query.empty:
        return TextEvidence((), system.text_ranker)
    k = max(system.text_k, 0)
    if system.text_ranker == "hybrid":
        pieces = sub_questions(query.question)
        vectors = corpus.text_encoder.encode(list(pieces)) if pieces else ()
        parts = [Query(piece, vector) for piece, vector in zip(pieces, vectors, strict=True)]
        found = _by_parts(parts, corpus, system) if parts else _hybrid(query, corpus, system)
        return TextEvidence(found[:k], system.text_ranker, pieces)
    rankings = _text_rankings(query, corpus, _depth(k))
    return TextEvidence(single(rankings[system.text_ranker]()[:k]), system.text_ranker)


def _text_rankings(query: Query, corpus: Corpus, n: int) -> dict[str, Callable[[], Ranking]]:
    return {
        "dense": lambda: _hits("text", "dense", corpus.search_text(query.vector, n)),
        "bm25": lambda: _hits("text", "bm25", corpus.search_text_words(query.question, n)),
    }


def _hybrid(query: Query, corpus: Corpus, system: System) -> tuple[Fused, ...]:
    depth = _depth(system.text_k)
    return _merge({name: rank() for name, rank in _text_rankings(query, corpus, depth).items()}, system, depth)


def _by_parts(parts: Sequence[Query], corpus: Corpus, system: System) -> tuple[Fused, ...]:
    """The parts' rankings, each the fusion of ``dense`` and ``bm25``, in turns: the best of every part, then the second ... Passages
    of pages that are there already come after those of other pages, since two parts seldom stand on one page. The score is
    that of reciprocal rank fusion at the place reached."""
    rankings = [_hybrid(part, corpus, system) for part in parts]
    items: dict[str, Fused] = {}
    for item in (item for place in zip_longest(*rankings) for item in place if item is not None):
        items.setdefault(item.item_id, item)
    pages: set[str] = set()
    fresh: list[Fused] = []
    again: list[Fused] = []
    for item in items.values():
        page = corpus.chunks[item.item_id].page_id
        (again if page in pages else fresh).append(item)
        pages.add(page)
    return tuple(
        replace(item, rank=rank, score=1 / (RRF_K + rank)) for rank, item in enumerate((*fresh, *again), start=1)
    )


def graph(query: Query, corpus: Corpus, system: System, bridged: tuple[Bridge, ...] | None = None) -> GraphEvidence:
    """Graph branch (eq. 3): facts about the entities in the question, from the pages of the text hits; beyond the study, in the
    mode ``bridge``, chunks of other pages (``bridges``, or those given), whose pages count as retrieved too."""
    found = bridges(query, corpus, system) if bridged is None else bridged
    pages = (*query.text_pages, *(corpus.chunks[bridge.hit.item_id].page_id for bridge in found))
    evidence = corpus.graph.facts(query.question, pages, system.graph_mode, system.max_facts, system.min_entity_chars)
    return replace(evidence, bridges=found)


def bridges(query: Query, corpus: Corpus, system: System, n: int = MAX_BRIDGES) -> tuple[Bridge, ...]:
    """The ``n`` best chunks of pages that hold no text hit, one a page, by a walk from the question's entities and the text hits
    (``rag.walk``) fused with their likeness to the question: the walk says what hangs together, not what was asked. Nothing in
    any other graph mode."""
    if system.graph_mode != "bridge" or query.empty or n <= 0:
        return ()
    known, walk = corpus.graph.seeds(query.question, system.min_entity_chars), corpus.graph.walk
    seeds = walk.seeds(list(known), query.text_chunks)
    there = frozenset(chunk.id for page in query.text_pages for chunk in corpus.chunks_on(page))
    walked = walk.rank(seeds, _depth(n), there)
    rankings = {
        "walk": _hits("graph", "walk", walked),
        "dense": _hits("graph", "dense", corpus.text_scores(query.vector, [chunk for chunk, _ in walked])),
    }
    by_page: dict[str, Fused] = {}
    for item in _merge(rankings, system, len(walked)):
        by_page.setdefault(corpus.chunks[item.item_id].page_id, item)
    best = [replace(item, rank=rank) for rank, item in enumerate(list(by_page.values())[:n], start=1)]
    return tuple(Bridge(item, corpus.graph.told(walk.path(item.item_id, seeds), known)) for item in best)


def visual(query: Query, corpus: Corpus, system: System) -> VisualEvidence:
    """Visual branch (eq. 2): the ``visual_depth`` best crops by ``clip`` (question against pixels), ``proxy``
    (question against caption and read-off text by vector and by words, and by words with the sentences that mention the crop),
    ``fused`` (both), or ``auto``: ``fused``
    where CLIP is there, else ``proxy``. A ranker that can't be had is named in ``note`` and never replaced."""
    wanted, depth = system.visual_ranker, max(system.visual_depth, 0)
    if query.empty or not corpus.crops:
        return VisualEvidence((), "proxy" if wanted == "auto" else wanted)
    clip, note = _clip(corpus) if wanted != "proxy" else (None, "")
    if wanted == "auto":
        wanted = "proxy" if clip is None else "fused"
    if clip is None and wanted != "proxy":
        return VisualEvidence((), wanted, note=note)
    rankings: dict[str, Ranking] = {}
    if clip is not None:
        vector = clip.encode_text([query.question])[0]
        rankings["clip"] = _hits("visual", "clip", corpus.search_visual(vector, _depth(depth), clip.id))
    proxy: tuple[Fused, ...] = ()
    if wanted != "clip":
        proxy = _proxy(query, corpus, system, depth if wanted == "proxy" else _depth(depth))
        rankings["proxy"] = as_ranking(proxy, "proxy")
    hits = {
        "clip": lambda: single(rankings["clip"][:depth]),
        "proxy": lambda: proxy,
        "fused": lambda: _with_ingredients(_merge(rankings, system, depth), proxy),
    }[wanted]()
    shown = {name: tuple(ranking[:depth]) for name, ranking in rankings.items()}
    return VisualEvidence(hits, wanted, shown, note)


def _proxy(query: Query, corpus: Corpus, system: System, n: int) -> tuple[Fused, ...]:
    rankings = {
        "proxy-dense": _hits("visual", "proxy-dense", corpus.search_proxy(query.vector, _depth(n))),
        "proxy-bm25": _hits("visual", "proxy-bm25", corpus.search_proxy_words(query.question, _depth(n))),
        "proxy-mentions": _hits("visual", "proxy-mentions", corpus.search_proxy_mentions(query.question, _depth(n))),
    }
    return _merge(rankings, system, n)


def _clip(corpus: Corpus) -> tuple[ImageEncoder | None, str]:
    """The image encoder of the corpus's visual index, or None and why not. torch is imported only where there is an
    index."""
    if not corpus.visual_encoder_ids:
        return None, (
            "The CLIP ranker is missing: this corpus has no index of its crops' pixels "
            "(python -m rag corpus FOLDER --add-clip makes one)."
        )
    reason = ""
    for encoder_id in corpus.visual_encoder_ids:
        try:
            return image_encoder(encoder_id, download=False), ""
        except EncoderUnavailable as error:
            reason = reason or str(error)
    return None, f"The CLIP ranker is missing: {reason}"


def _with_ingredients(fused: tuple[Fused, ...], proxy: tuple[Fused, ...]) -> tuple[Fused, ...]:
    """Each item with the hits behind its proxy hit as well."""
    ingredients = {item.item_id: item.hits for item in proxy}
    return tuple(replace(item, hits=(*item.hits, *ingredients.get(item.item_id, ()))) for item in fused)


def _merge(rankings: Mapping[str, Ranking], system: System, n: int) -> tuple[Fused, ...]:
    return FUSIONS[system.fusion](list(rankings.values()), n)


def _depth(k: int) -> int:
    return max(k, FUSION_DEPTH)


def _hits(branch: Branch, ranker: str, scored: Scored) -> tuple[Hit, ...]:
    return tuple(Hit(item, branch, ranker, rank, score) for rank, (item, score) in enumerate(scored, start=1))

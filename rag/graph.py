r"""The knowledge graph: entities, parallel edges, whole-word lookup and the page filter (eq. 3).

A node is an entity name after folding: runs of white space become one space, and case is folded (``str.casefold``). On
the study's HotpotQA triples this gives the study's own 40,117 nodes. Edges are the triples themselves, directed, and
parallel ones are kept.

An entity stands in a question where a span of it folds to the entity's key and touches no further word character on
either side, as ``(?<!\w)entity(?!\w)`` would find it. For names that begin and end in word characters this is the plain
``\bentity\b``; for others ("52%", "(a)", "CD4+") ``\b`` would ask for a word character right next to the name, which is
never what is meant.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, get_args

import numpy as np
from numpy.typing import NDArray

from rag.errors import UsageError
from rag.types import Fact, GraphEvidence, GraphMode, RejectedFact, RejectionReason, Step, Triple
from rag.walk import Walk

if TYPE_CHECKING:
    import networkx

MODES: tuple[GraphMode, ...] = get_args(GraphMode)

MAX_REJECTED = 100
"""``GraphEvidence.rejected`` lists at most this many dropped facts of each reason; ``rejected_counts`` counts all of them."""

_PREFIX = 6
"""Entities at least this long are found by their first characters, shorter ones by themselves."""

_NO_PAGE = np.iinfo(np.int64).max

_Ids = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Match:
    """An entity where it stands in a question: ``entity == question[start:end]``."""

    entity: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Neighbours:
    """The edges of one entity, in triple order: ``triple_ids`` are the first of ``total``."""

    entity: str
    triple_ids: tuple[int, ...]
    total: int


def fold(name: str) -> str:
    """The key under which a name is one entity: white space folded to single spaces, case folded."""
    return " ".join(name.split()).casefold()


class Graph:
    """A directed multigraph over ``triples``; edge ids are indices into that sequence.

    A triple without a subject is no edge: ``skipped`` counts those. A triple without an object ("The band | broke up")
    is one, into the nameless entity, which no question can match.
    """

    def __init__(self, triples: Sequence[Triple]) -> None:
        self.triples: tuple[Triple, ...] = tuple(triples)
        self._nodes: dict[str, int] = {}
        self._names: list[str] = []
        folded: dict[str, str] = {}
        pages: dict[str, int] = {}
        groups: dict[tuple[int, str, int], int] = {}
        rows: list[tuple[int, int, int, int, int]] = []
        for edge, triple in enumerate(self.triples):
            subject = self._node(triple.subject, folded)
            if subject is None:
                continue
            target = self._node(triple.object, folded, blank=True)
            assert target is not None
            relation = _memo(triple.relation, folded)
            group = groups.setdefault((subject, relation, target), len(groups))
            rows.append((edge, subject, target, pages.setdefault(triple.page_id, len(pages)), group))
        self.skipped: int = len(self.triples) - len(rows)
        self._pages = pages
        table = np.asarray(rows, dtype=np.int64).reshape(-1, 5)
        self._edge, self._subject, self._object, self._page, self._group = np.ascontiguousarray(table.T)
        self._out = _Adjacency(self._subject, len(self._names))
        self._in = _Adjacency(self._object, len(self._names))
        self._lengths = _lengths_by_prefix(self._nodes)

    def _node(self, name: str, folded: dict[str, str], *, blank: bool = False) -> int | None:
        key = _memo(name, folded)
        if not key and not blank:
            return None
        node = self._nodes.setdefault(key, len(self._names))
        if node == len(self._names):
            self._names.append(" ".join(name.split()))
        return node

    @property
    def number_of_edges(self) -> int:
        """Edges, parallel ones counted one by one."""
        return int(self._edge.size)

    @property
    def number_of_entities(self) -> int:
        """Distinct folded names, the nameless one included where a triple lacks its object."""
        return len(self._names)

    @cached_property
    def entities(self) -> tuple[str, ...]:
        """Every entity as first spelt, in order of appearance."""
        return tuple(self._names)

    def match(self, question: str, min_chars: int = 5) -> tuple[Match, ...]:
        """Every place where an entity of at least ``min_chars`` (folded) characters stands in the question.

        Overlapping places are all kept. Ordered by start, the longer first.
        """
        return tuple(place for place, _, length in self._places(question) if length >= min_chars)

    def facts(
        self,
        question: str,
        pages: Iterable[str],
        mode: GraphMode = "provenance",
        max_facts: int = 8,
        min_entity_chars: int = 5,
    ) -> GraphEvidence:
        """Edges out of and into the entities that stand in the question (eq. 3).

        ``pages`` are the retrieved pages, best first: those of the text hits and, in the mode ``bridge``, of the bridges
        after them. All modes but ``open``, which looks at no page, keep facts of those pages only, ordered by the page's
        rank, then the longer entity, then the triple. A fact that several triples
        state is given once and holds all their ids; the repetitions are rejected as duplicates. Facts that were
        dropped come in the order duplicate, over the limit, page not retrieved, entity too short.

        Raises UsageError for an unknown mode or a negative limit.
        """
        if mode not in MODES:
            raise UsageError(f"There is no graph mode {mode!r}. Choose one of: {', '.join(MODES)}.")
        if max_facts < 0:
            raise UsageError(f"The number of facts can't be negative ({max_facts}). Give 0 or more.")
        entities = self._matched(question)
        used = [entity for entity in entities if entity.length >= min_entity_chars]
        reached = self._reach(used)
        seen = np.zeros(self.number_of_edges, dtype=bool)
        seen[reached.rows] = True
        short = self._reach([entity for entity in entities if entity.length < min_entity_chars], seen)

        rank = np.zeros_like(reached.rows) if mode == "open" else self._page_rank(pages, reached.rows)
        order = np.lexsort((reached.rows, -reached.length, rank))
        on_page = order[rank[order] != _NO_PAGE]
        off_page = order[rank[order] == _NO_PAGE]

        first: dict[int, int] = {}
        repeats: dict[int, list[int]] = {}
        for place, group in zip(on_page.tolist(), self._group[reached.rows[on_page]].tolist(), strict=True):
            if group in first:
                repeats.setdefault(group, []).append(place)
            else:
                first[group] = place
        distinct = list(first.items())
        kept = [(place, *repeats.get(group, ())) for group, place in distinct[:max_facts]]
        dropped: tuple[tuple[RejectionReason, _Reached, Sequence[int] | _Ids], ...] = (
            ("duplicate", reached, [place for places in repeats.values() for place in places]),
            ("over the limit", reached, [place for _, place in distinct[max_facts:]]),
            ("page not retrieved", reached, off_page),
            ("entity too short", short, np.argsort(short.rows)),
        )
        return GraphEvidence(
            entities=tuple(entity.text for entity in sorted(used, key=lambda entity: entity.start)),
            facts=self._merged(reached, kept),
            rejected=self._rejected(dropped),
            rejected_counts={reason: len(places) for reason, _, places in dropped if len(places)},
            mode=mode,
        )

    @cached_property
    def walk(self) -> Walk:
        """The walk over this graph and the chunks of its triples."""
        chunks = [self.triples[edge].chunk_id for edge in self._edge.tolist()]
        return Walk.over(len(self._names), self._subject, self._object, chunks, self._nodes.get("", -1))

    def seeds(self, question: str, min_chars: int = 5) -> dict[int, str]:
        """The entities at which a walk for this question starts: node -> name as the question holds it."""
        return {entity.node: entity.text for entity in self._matched(question) if entity.length >= min_chars}

    def told(self, way: Sequence[int], seeds: Mapping[int, str]) -> tuple[Step, ...]:
        """A way of the walk in words: each node, and the triple that links it to the one before.

        Args:
            way: nodes of ``walk``, each linked to the next.
            seeds: as ``seeds`` gives them.
        """
        stops = []
        for before, node in zip((None, *way), way, strict=False):
            linked = None if before is None else self._link(before, node)
            if node < self.number_of_entities:
                name = self._names[node] if linked is not None else seeds.get(node, self._names[node])
                stops.append(Step("entity", name, linked))
            else:
                stops.append(Step("chunk", self.walk.chunks[node - self.number_of_entities], linked))
        return tuple(stops)

    def _link(self, one: int, other: int) -> int:
        """The first triple that links two nodes of the walk."""
        entity, end = min(one, other), max(one, other)
        rows = np.union1d(self._out.rows(entity), self._in.rows(entity))
        if end < self.number_of_entities:
            linking = rows[(self._subject[rows] == end) | (self._object[rows] == end)]
        else:
            chunk = self.walk.chunks[end - self.number_of_entities]
            linking = np.asarray([row for row in rows.tolist() if self.triples[self._edge[row]].chunk_id == chunk])
        return int(self._edge[linking[0]])

    def neighbours(self, entity: str, limit: int = 50) -> Neighbours:
        """The first ``limit`` edges out of and into an entity (any spelling that folds to it), and how many there are.

        An unknown entity has none.
        """
        node = self._nodes.get(fold(entity))
        if node is None:
            return Neighbours(entity, (), 0)
        rows = np.union1d(self._out.rows(node), self._in.rows(node))
        return Neighbours(self._names[node], tuple(self._edge[rows[: max(limit, 0)]].tolist()), int(rows.size))

    def to_networkx(self) -> networkx.MultiDiGraph[str]:
        """The whole graph for networkx: nodes are folded names with a ``label``, edge keys are triple ids."""
        import networkx

        graph: networkx.MultiDiGraph[str] = networkx.MultiDiGraph()
        keys = list(self._nodes)
        graph.add_nodes_from((key, {"label": self._names[node]}) for key, node in self._nodes.items())
        for edge, subject, target in zip(self._edge.tolist(), self._subject, self._object, strict=True):
            triple = self.triples[edge]
            graph.add_edge(keys[subject], keys[target], key=edge, relation=triple.relation, page_id=triple.page_id)
        return graph

    def _places(self, question: str) -> list[tuple[Match, int, int]]:
        """(place, node, folded length) of every entity in the question, by start, the longer first.

        The nodes are never scanned: at each start of a word only the lengths are tried that some entity with the same
        first characters has.
        """
        text = _Folded.of(question)
        found = []
        for start in text.starts:
            lengths: Iterable[int] = range(1, _PREFIX)
            longer = self._lengths.get(text.key[start : start + _PREFIX])
            for length in (*lengths, *longer) if longer else lengths:
                end = start + length
                if end not in text.ends:
                    continue
                node = self._nodes.get(text.key[start:end])
                if node is not None:
                    left, right = text.origin[start], text.origin[end - 1] + 1
                    found.append((Match(question[left:right], left, right), node, length))
        found.sort(key=lambda place: (place[0].start, -place[0].end))
        return found

    def _matched(self, question: str) -> list[_Entity]:
        """Each entity in the question once, as it stands there first; the longer first, then the earlier."""
        entities: dict[int, _Entity] = {}
        for place, node, length in self._places(question):
            entities.setdefault(node, _Entity(node, place.entity, place.start, length))
        return sorted(entities.values(), key=lambda entity: (-entity.length, entity.start))

    def _reach(self, entities: Sequence[_Entity], seen: NDArray[np.bool_] | None = None) -> _Reached:
        """The edges of the entities, each once, by the first entity that reaches it; edges in ``seen`` are left out."""
        taken = np.zeros(self.number_of_edges, dtype=bool) if seen is None else seen.copy()
        parts: list[tuple[_Ids, int, bool]] = []
        for index, entity in enumerate(entities):
            for out, adjacency in ((True, self._out), (False, self._in)):
                rows = adjacency.rows(entity.node)
                rows = rows[~taken[rows]]
                taken[rows] = True
                parts.append((rows, index, out))
        sizes = [rows.size for rows, _, _ in parts]
        return _Reached(
            entities=entities,
            rows=np.concatenate([rows for rows, _, _ in parts]) if parts else np.zeros(0, dtype=np.int64),
            entity=np.repeat(np.asarray([index for _, index, _ in parts], dtype=np.int64), sizes),
            length=np.repeat(np.asarray([entities[index].length for _, index, _ in parts], dtype=np.int64), sizes),
            out=np.repeat(np.asarray([out for _, _, out in parts], dtype=bool), sizes),
        )

    def _page_rank(self, pages: Iterable[str], rows: _Ids) -> _Ids:
        """Each edge's place in the text ranking, from 0; ``_NO_PAGE`` where its page was not retrieved."""
        by_page = np.full(len(self._pages), _NO_PAGE, dtype=np.int64)
        for rank, page in enumerate(dict.fromkeys(pages)):
            if page in self._pages:
                by_page[self._pages[page]] = rank
        ranks: _Ids = by_page[self._page[rows]]
        return ranks

    def _facts(self, reached: _Reached, places: Sequence[int] | _Ids) -> list[Fact]:
        at = np.asarray(places, dtype=np.int64)
        edges, entities = self._edge[reached.rows[at]].tolist(), reached.entity[at].tolist()
        return [
            Fact((edge,), fact_text(self.triples[edge]), reached.entities[entity].text, "out" if out else "in")
            for edge, entity, out in zip(edges, entities, reached.out[at].tolist(), strict=True)
        ]

    def _merged(self, reached: _Reached, places: Iterable[Sequence[int]]) -> tuple[Fact, ...]:
        """One fact for each group of places that state the same; the first one gives the wording."""
        merged = []
        for group in places:
            facts = self._facts(reached, group)
            merged.append(replace(facts[0], triple_ids=tuple(edge for fact in facts for edge in fact.triple_ids)))
        return tuple(merged)

    def _rejected(
        self, dropped: Iterable[tuple[RejectionReason, _Reached, Sequence[int] | _Ids]]
    ) -> tuple[RejectedFact, ...]:
        rejected: list[RejectedFact] = []
        for reason, reached, places in dropped:
            rejected += [RejectedFact(fact, reason) for fact in self._facts(reached, places[:MAX_REJECTED])]
        return tuple(rejected)


@dataclass(frozen=True, slots=True)
class _Entity:
    """A matched entity: ``text`` and ``start`` as in the question, ``length`` in folded characters."""

    node: int
    text: str
    start: int
    length: int


@dataclass(frozen=True, slots=True)
class _Reached:
    """Edges with the entity that reached them; ``rows``, ``entity``, ``length`` and ``out`` have one shape (n,)."""

    entities: Sequence[_Entity]
    rows: _Ids
    entity: _Ids
    length: _Ids
    out: NDArray[np.bool_]


class _Adjacency:
    """Edges grouped by one of their ends (compressed sparse rows): a few arrays instead of a list per node."""

    def __init__(self, ends: _Ids, nodes: int) -> None:
        self._order: _Ids = np.argsort(ends, kind="stable")
        self._first: list[int] = np.searchsorted(ends[self._order], np.arange(nodes + 1)).tolist()

    def rows(self, node: int) -> _Ids:
        return self._order[self._first[node] : self._first[node + 1]]


@dataclass(frozen=True, slots=True)
class _Folded:
    """A question folded like a name, with the way back.

    ``origin[i]`` is the index in the question of folded character ``i`` (one character may fold to several, and several
    white spaces to one). ``starts`` are the folded offsets where a whole word may start, ``ends`` where one may end;
    both fall between characters of the question, never inside the folding of one.
    """

    key: str
    origin: Sequence[int]
    starts: tuple[int, ...]
    ends: frozenset[int]

    @classmethod
    def of(cls, question: str) -> _Folded:
        key: list[str] = []
        origin: list[int] = []
        starts: list[int] = []
        ends: list[int] = []
        word_before = space_before = False
        for index, character in enumerate(question):
            word, space = _is_word(character), character.isspace()
            if space and space_before:
                continue
            if not word_before and not space:
                starts.append(len(key))
            if not word:
                ends.append(len(key))
            pieces = " " if space else character.casefold()
            key += pieces
            origin += [index] * len(pieces)
            word_before, space_before = word, space
        ends.append(len(key))
        return cls("".join(key), origin, tuple(starts), frozenset(ends))


def _is_word(character: str) -> bool:
    """Whether ``\\w`` matches the character."""
    return character.isalnum() or character == "_"


def fact_text(triple: Triple) -> str:
    """ "subject | relation | object", without the parts that are blank."""
    return " | ".join(part for part in (triple.subject, triple.relation, triple.object) if part.strip())


def _memo(name: str, folded: dict[str, str]) -> str:
    key = folded.get(name)
    if key is None:
        key = folded[name] = fold(name)
    return key


def _lengths_by_prefix(keys: Iterable[str]) -> dict[str, tuple[int, ...]]:
    """First ``_PREFIX`` characters -> the lengths of the keys that begin with them."""
    lengths: dict[str, set[int]] = {}
    for key in keys:
        if len(key) >= _PREFIX:
            lengths.setdefault(key[:_PREFIX], set()).add(len(key))
    return {prefix: tuple(sorted(found)) for prefix, found in lengths.items()}

"""The walk of the graph mode ``bridge``: personalised PageRank over entities and chunks.

After HippoRAG (Gutiérrez et al., 2024, arXiv:2405.14831), whose seeds are the question's entities and whose walk starts anew
with probability one half; that chunks are nodes beside the entities, and seeds too, is from HippoRAG 2 (arXiv:2502.14802).

A triple links its subject, its object and its chunk with each other, whatever its direction; a link that several triples make
weighs as many. Every node has a link, so no walker is ever stuck.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from scipy.sparse import csr_array

DAMPING = 0.5
"""Probability that the walk goes on along a link; else it starts anew at a seed."""
TOLERANCE = 1e-3
"""The walk is followed until a further step moves less than this share of the walkers."""

_Floats = NDArray[np.float64]
_Ids = NDArray[np.int64]


def transitions(one: _Ids, other: _Ids, nodes: int) -> csr_array:
    """(nodes, nodes) step probabilities of undirected links: ``[to, from]``, each column adding up to 1. A link that is given
    several times weighs as many; one from a node to itself counts for nothing."""
    from scipy.sparse import csr_array, diags_array

    apart = one != other
    # Indices of half the size: a step of the walk is bound by memory.
    links = np.stack([one[apart], other[apart]]).astype(np.int32)
    ends = np.concatenate([links[0], links[1]]), np.concatenate([links[1], links[0]])
    weights = csr_array((np.ones(ends[0].size), ends), shape=(nodes, nodes))
    weights.sum_duplicates()
    degree = weights.sum(axis=0)
    inverse = np.divide(1.0, degree, out=np.zeros(nodes), where=degree > 0)
    return csr_array(weights @ diags_array(inverse))


def pagerank(steps: csr_array, seeds: _Floats, damping: float = DAMPING, tolerance: float = TOLERANCE) -> _Floats:
    """(nodes,) share of the walkers at each node, by power iteration.

    Args:
        steps: as ``transitions`` gives them.
        seeds: (nodes,) where the walk starts, adding up to 1.
        damping: probability of going on.
        tolerance: see ``TOLERANCE``; the error is at most twice this.
    """
    here = seeds
    while True:
        there: _Floats = damping * (steps @ here) + (1 - damping) * seeds
        if np.abs(there - here).sum() < tolerance:
            return there
        here = there


@dataclass(frozen=True, slots=True, eq=False)
class Walk:
    """The walk over a graph's entities (nodes from 0) and, after them, the chunks that triples are from (``chunks``, in the order
    of their first triple)."""

    entities: int
    chunks: tuple[str, ...]
    node_of: Mapping[str, int]
    spread: _Ids
    """(nodes,) links of each node, to weigh seeds by."""
    steps: csr_array

    @classmethod
    def over(cls, entities: int, subjects: _Ids, objects: _Ids, chunks: Sequence[str], nameless: int) -> Walk:
        """The walk over triples.

        Args:
            entities: number of entities.
            subjects: (triples,) the entity that each triple is about.
            objects: (triples,) the one that it leads to.
            chunks: the chunk of each triple.
            nameless: the entity without a name, which links nothing; -1 where there is none.
        """
        node_of: dict[str, int] = {}
        for chunk in chunks:
            node_of.setdefault(chunk, entities + len(node_of))
        held = np.asarray([node_of[chunk] for chunk in chunks], dtype=np.int64)
        named = objects != nameless
        one = np.concatenate([subjects[named], subjects, objects[named]])
        other = np.concatenate([objects[named], held, held[named]])
        steps = transitions(one, other, entities + len(node_of))
        return cls(entities, tuple(node_of), node_of, np.diff(steps.indptr).astype(np.int64), steps)

    def seeds(self, entities: Sequence[int], chunks: Sequence[str]) -> _Floats:
        """(nodes,) where the walk starts: half at the question's entities, each weighed by one over its links (HippoRAG's node
        specificity), half at the text hits, by one over their rank. Where one of them is missing, the other has all; without
        either nothing starts."""
        start = np.zeros(self.steps.shape[0])
        places = [self.node_of[chunk] for chunk in chunks if chunk in self.node_of]
        weights = [(entities, [1 / self.spread[node] for node in entities]), (places, [1 / n for n in _ranks(places)])]
        sides = [(nodes, np.asarray(shares)) for nodes, shares in weights if nodes]
        for nodes, shares in sides:
            np.add.at(start, np.asarray(nodes), shares / shares.sum() / len(sides))
        return start

    def rank(self, seeds: _Floats, n: int, without: frozenset[str]) -> list[tuple[str, float]]:
        """The ``n`` chunks (fewer if the walk reaches fewer) with most walkers, but for those of ``without``; best first."""
        if not seeds.any() or n <= 0:
            return []
        # Beyond the tolerance the last digits are the machine's.
        shares = np.round(pagerank(self.steps, seeds)[self.entities :], 9)
        order = np.argsort(-shares, kind="stable")
        best: list[tuple[str, float]] = []
        for row in order[shares[order] > 0].tolist():
            if len(best) == n:
                break
            if self.chunks[row] not in without:
                best.append((self.chunks[row], float(shares[row])))
        return best

    def path(self, chunk: str, seeds: _Floats) -> tuple[int, ...]:
        """The way by which most walkers come from a seed to the chunk: its nodes, the seed first (Dijkstra's algorithm backwards, a
        step being as long as it is improbable). Empty where there is none."""
        target = self.node_of[chunk]
        nearest: dict[int, float] = {target: 0.0}
        onward: dict[int, int] = {}
        done: set[int] = set()
        # (length, whether it has come to a seed, node)
        heap: list[tuple[float, bool, int]] = [(0.0, False, target)]
        while heap:
            length, arrived, node = heapq.heappop(heap)
            if arrived:
                way = [node]
                while way[-1] != target:
                    way.append(onward[way[-1]])
                return tuple(way)
            if node in done:
                continue
            done.add(node)
            if seeds[node] > 0:
                heapq.heappush(heap, (length - math.log(seeds[node]), True, node))
            row = slice(self.steps.indptr[node], self.steps.indptr[node + 1])
            for before, share in zip(self.steps.indices[row].tolist(), self.steps.data[row].tolist(), strict=True):
                further = length - math.log(DAMPING * share)
                if further < nearest.get(before, math.inf):
                    nearest[before], onward[before] = further, node
                    heapq.heappush(heap, (further, False, before))
        return ()


def _ranks(items: Sequence[object]) -> range:
    return range(1, len(items) + 1)

"""The two searches that rank a corpus: exact inner product over unit vectors (faiss) and BM25 (bm25s)."""

from __future__ import annotations

import os
import re
import struct
import threading
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rag.corpus_files import REBUILD
from rag.errors import CorpusError

if TYPE_CHECKING:
    import Stemmer

    from rag.encoders import Vectors

Ranked = list[tuple[int, float]]
"""(row, score), best first; only rows that exist, never -1."""

_HEADER = struct.Struct("<4siqqqBiQ")
"""Of a flat index file of faiss: kind, dimension, vectors, two fillers, trained, metric, float32 numbers that follow."""
_CHECKED_AT_ONCE = 16_384

# --- vectors ---------------------------------------------------------------------------------------------------------


class VectorIndex:
    """A flat inner-product index; row i belongs to item ``owners[i]``, so that one item may have several vectors."""

    def __init__(self, dimension: int, owners: Sequence[int] | NDArray[np.int64] | None = None) -> None:
        import faiss

        self._index: Any = faiss.IndexFlatIP(dimension)
        self._owners = None if owners is None else np.asarray(owners, dtype=np.int64)

    @classmethod
    def read(cls, file: Path, counts: Sequence[int] = ()) -> VectorIndex:
        """Read an index file; ``counts`` says how many vectors each item has, empty: one each.

        Raises:
            CorpusError: the file is no flat inner-product index of faiss, holds a number that is not finite, or other
                than ``sum(counts)`` vectors.
        """
        import faiss

        _check_header(file)
        try:
            # Not read_index: faiss takes no path that isn't UTF-8.
            index = faiss.deserialize_index(np.fromfile(file, dtype=np.uint8))
        except (OSError, RuntimeError, MemoryError) as error:
            raise CorpusError(f"{file} is no faiss index; {REBUILD}") from error
        if not isinstance(index, faiss.IndexFlat) or index.metric_type != faiss.METRIC_INNER_PRODUCT:
            raise CorpusError(f"{file} is a {type(index).__name__}, not a flat inner-product index; {REBUILD}")
        # Compared with what is there before room is made for it.
        if counts and sum(counts) != index.ntotal:
            raise CorpusError(f"{file} holds {index.ntotal} vectors, not {sum(counts)}; {REBUILD}")
        loaded = cls(index.d, np.repeat(np.arange(len(counts)), counts) if counts else None)
        loaded._index = index
        for start in range(0, index.ntotal, _CHECKED_AT_ONCE):
            if not np.isfinite(index.reconstruct_n(start, min(_CHECKED_AT_ONCE, index.ntotal - start))).all():
                raise CorpusError(f"{file} holds a vector with a number that is not finite; {REBUILD}")
        return loaded

    def write(self, file: Path) -> None:
        """Write the index; the same vectors give the same bytes."""
        import faiss

        file.write_bytes(faiss.serialize_index(self._index).tobytes())

    def add(self, vectors: Vectors) -> None:
        """Append (n, dimension) rows."""
        self._index.add(np.ascontiguousarray(vectors, dtype=np.float32))

    @property
    def dimension(self) -> int:
        """Length of a vector."""
        return int(self._index.d)

    @property
    def rows(self) -> int:
        """Number of vectors."""
        return int(self._index.ntotal)

    def vectors(self) -> Vectors:
        """(rows, dimension) float32: a copy of all vectors."""
        found: Vectors = self._index.reconstruct_n(0, self.rows)
        return found

    def scores(self, vector: Vectors, rows: Sequence[int]) -> list[float]:
        """Inner product of ``vector`` (dimension,) with each of the vectors of these ``rows``, in their order."""
        if not rows:
            return []
        found: Vectors = self._index.reconstruct_batch(np.asarray(rows, dtype=np.int64))
        return [float(score) for score in found @ vector]

    def search(self, vector: Vectors, n: int) -> Ranked:
        """The ``n`` items (fewer if there are fewer) whose best vector is nearest to ``vector`` (dimension,)."""
        wanted = min(n, self.rows) if self._owners is None else self.rows
        if wanted <= 0 or n <= 0:
            return []
        found, rows = self._index.search(vector.reshape(1, -1), wanted)
        scores, items = found[0], rows[0]
        if self._owners is not None:
            # The rows come best first, so an item's first row is its best.
            items, first = np.unique(self._owners[items], return_index=True)
            scores = scores[first]
        best = np.lexsort((items, -scores))[:n]
        return list(zip(items[best].tolist(), scores[best].tolist(), strict=True))


def _check_header(file: Path) -> None:
    """Refuse a file whose header names another kind of index, or more vectors than the file has room for, before
    faiss makes room for them.

    Raises:
        CorpusError: see above.
    """
    try:
        with file.open("rb") as content:
            header, size = content.read(_HEADER.size), os.fstat(content.fileno()).st_size
    except OSError as error:
        raise CorpusError(f"{file} can't be read ({type(error).__name__}); {REBUILD}") from error
    if len(header) < _HEADER.size or not header.startswith(b"Ix"):
        raise CorpusError(f"{file} is no faiss index; {REBUILD}")
    kind, dimension, rows, *_, numbers = _HEADER.unpack(header)
    if kind != b"IxFI":
        raise CorpusError(f"{file} is an index of kind {kind!r}, not a flat inner-product index; {REBUILD}")
    if numbers != dimension * rows or size != _HEADER.size + 4 * numbers:
        raise CorpusError(f"{file} is no whole faiss index; {REBUILD}")


# --- words -----------------------------------------------------------------------------------------------------------

# A word with its inner dots, hyphens and apostrophes: "exp(coef)" gives exp and coef, "TH.data" stays whole.
_WORD = re.compile(r"[^\W_]+(?:[.\-'\u2019_][^\W_]+)*")
_PART = re.compile(r"[^\W_]+")
_STOPWORD_LIST = """
a an and are as at be been but by did do does for from had has have how if in into is it its no not of on or such than
that the their then there these they this to was were what when where which who whom whose why will with
"""
_STOPWORDS = frozenset(_STOPWORD_LIST.split())
_stemming = threading.Lock()


@cache
def _stemmer() -> Stemmer.Stemmer:
    import Stemmer

    return Stemmer.Stemmer("english")


def words(text: str) -> list[str]:
    """Index terms: case folded, without stop words, stemmed (Snowball English). A dotted or hyphenated name stands
    whole and in its parts; a number stays whole."""
    terms: list[str] = []
    for word in _WORD.findall(text.casefold()):
        if word in _STOPWORDS:
            continue
        terms.append(word)
        if not word.isalnum() and not word.replace(".", "").isdigit():
            terms += [part for part in _PART.findall(word) if part not in _STOPWORDS]
    with _stemming:  # a stemmer keeps a cache of words and is not safe to share
        return list(_stemmer().stemWords(terms))


class WordIndex:
    """BM25 (Lucene's variant, k1 = 1.5, b = 0.75) over texts; a text that shares no word with the query is not
    found."""

    def __init__(self, texts: Sequence[str]) -> None:
        import bm25s

        ids: dict[str, int] = {}
        documents = [[ids.setdefault(word, len(ids)) for word in words(text)] for text in texts]
        self._ids = ids
        self._bm25 = bm25s.BM25(method="lucene", k1=1.5, b=0.75)
        if ids:
            self._bm25.index((documents, ids), show_progress=False, create_empty_token=False)

    def search(self, query: str, n: int) -> Ranked:
        """The ``n`` best texts with a score above 0."""
        known = sorted({self._ids[word] for word in words(query) if word in self._ids})
        if not known or n <= 0:
            return []
        scores: NDArray[np.float32] = self._bm25.get_scores_from_ids(known)
        found = np.flatnonzero(scores)
        if len(found) > 4 * n:  # sorting the best few is cheaper than sorting all
            least = np.partition(scores[found], -n)[-n]
            found = found[scores[found] >= least]
        best = found[np.lexsort((found, -scores[found]))][:n]
        return list(zip(best.tolist(), scores[best].tolist(), strict=True))

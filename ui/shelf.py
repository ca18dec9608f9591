"""Which corpus a session looks at."""

from __future__ import annotations

import threading
from collections.abc import Mapping

from rag.corpus import Corpus
from rag.errors import CorpusError


class Shelf:
    """The open corpora of this process: the operator's, which all sessions share, and for each session which one it chose.

    Thread-safe. A session that chose none has the first.
    """

    def __init__(self, *corpora: Corpus) -> None:
        self._shared = {corpus.id: corpus for corpus in corpora}
        self._default = corpora[0]
        self._chosen: dict[str, str] = {}
        self._lock = threading.Lock()

    @property
    def default(self) -> Corpus:
        """The corpus of a session that chose none."""
        return self._default

    def available(self, session: str) -> Mapping[str, Corpus]:
        """Corpus id -> corpus, as far as ``session`` may use it."""
        return dict(self._shared)

    def of(self, session: str) -> Corpus:
        """The corpus that ``session`` looks at."""
        with self._lock:
            chosen = self._chosen.get(session, "")
        return self.available(session).get(chosen, self._default)

    def named(self, corpus_id: str, session: str) -> Corpus:
        """The corpus with this id, as a trace names it.

        Raises:
            CorpusError: this session has no such corpus open.
        """
        found = self.available(session).get(corpus_id)
        if found is None:
            raise CorpusError(
                f"This trace is of the corpus {corpus_id}, which is not open here; open it, then load the trace again."
            )
        return found

    def choose(self, session: str, corpus_id: str) -> Corpus:
        """``session`` looks at this corpus from now on.

        Raises:
            CorpusError: it has no such corpus.
        """
        found = self.named(corpus_id, session)
        with self._lock:
            self._chosen[session] = corpus_id
        return found

    def leave(self, session: str) -> None:
        """The session ended."""
        with self._lock:
            self._chosen.pop(session, None)

"""Which corpora a session may look at, and which one it does: the operator's, which all share, and its own documents."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from rag import corpus_files as files
from rag.corpus import Corpus, open_corpus
from rag.encoders import text_encoder
from rag.errors import CorpusError, EncoderUnavailable, FuseboxError
from ui.views.markup import thumbnail

LIFETIME_S = 3600
"""A visitor's documents are removed after this long at the latest."""

MAX_OWN = 3
"""Corpora of its own that a session keeps; the oldest makes room."""


class NeedsIndex(CorpusError):
    """No encoder that is here can search this corpus: it has to be indexed again."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A corpus that a session may choose; ``own`` are the session's documents, which nobody else sees."""

    id: str
    name: str
    own: bool = False


@dataclass(slots=True)
class _Shared:
    """An operator's corpus, opened when somebody wants it."""

    choice: Choice
    folder: Path
    corpus: Corpus | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)


@dataclass(frozen=True, slots=True)
class _Own:
    """A session's corpus; ``delete`` removes its files."""

    corpus: Corpus
    delete: Callable[[], None]
    timer: threading.Timer


class Shelf:
    """The corpora of this process. Thread-safe.

    Args:
        corpora: open ones; a session that chose none has the first.
        folders: further ones, opened when they are first chosen.
        encoder_id: text encoder of the operator's choice.
    """

    def __init__(self, *corpora: Corpus, folders: Iterable[Path] = (), encoder_id: str = "") -> None:
        self._default, self._encoder_id = corpora[0], encoder_id
        shared = [_Shared(Choice(c.id, c.manifest.name), c.root, c) for c in corpora]
        shared += [_Shared(_choice(folder, number), folder) for number, folder in enumerate(folders, start=1)]
        self._shared: dict[str, _Shared] = {}
        for one in shared:
            self._shared.setdefault(one.choice.id, one)
        self._own: dict[str, dict[str, _Own]] = {}
        self._chosen: dict[str, str] = {}
        self._lock = threading.Lock()

    @property
    def default(self) -> Corpus:
        """The corpus of a session that chose none."""
        return self._default

    def choices(self, session: str) -> tuple[Choice, ...]:
        """What ``session`` may look at, the operator's first."""
        with self._lock:
            own = [Choice(name, one.corpus.manifest.name, own=True) for name, one in self._own.get(session, {}).items()]
        return (*(one.choice for one in self._shared.values()), *own)

    def of(self, session: str) -> Corpus:
        """The corpus that ``session`` looks at.

        Raises:
            CorpusError: it was the session's own, and is gone.
        """
        with self._lock:
            chosen = self._chosen.get(session, self._default.id)
            own = self._own.get(session, {}).get(chosen)
        if own is not None:
            return own.corpus
        shared = self._shared.get(chosen)
        if shared is None or shared.corpus is None:
            raise CorpusError(
                f"Your documents ({chosen}) have been removed, as they are after an hour, or after ten idle minutes where others need "
                "the place; add them again on the Corpus page, or choose another corpus at the top."
            )
        return shared.corpus

    def named(self, corpus_id: str, session: str) -> Corpus:
        """The corpus that ``session`` looks at, if it is the one that a trace names.

        Raises:
            CorpusError: it is another one; says which one is wanted.
        """
        corpus = self.of(session)
        if corpus.id == corpus_id:
            return corpus
        if any(choice.id == corpus_id for choice in self.choices(session)):
            raise CorpusError(
                f"This answer is of the corpus {corpus_id}, and the page shows {corpus.id}; choose that corpus at the top first."
            )
        raise CorpusError(
            f"This trace is of the corpus {corpus_id}, which is not open here; open it, then load the trace again."
        )

    def choose(self, session: str, corpus_id: str) -> Corpus:
        """``session`` looks at this corpus from now on; it is opened if nobody had it yet.

        Raises:
            NeedsIndex: it has to be indexed for an encoder that is here.
            CorpusError: there is no such corpus for this session, or it can't be opened.
        """
        with self._lock:
            own = self._own.get(session, {}).get(corpus_id)
        if own is not None:
            corpus = own.corpus
        elif corpus_id in self._shared:
            corpus = self._open(self._shared[corpus_id])
        else:
            raise CorpusError("There is no such corpus here any more; choose another one at the top.")
        with self._lock:
            self._chosen[session] = corpus_id
        return corpus

    def _open(self, shared: _Shared) -> Corpus:
        with shared.lock:
            if shared.corpus is None:
                corpus = open_corpus(shared.folder, self._usable_encoder(shared.folder))
                corpus.warm()
                shared.corpus = corpus
            return shared.corpus

    def _usable_encoder(self, folder: Path) -> str:
        """The encoder to search a corpus with: the operator's, else the first of its own that is here."""
        indexed = [entry.encoder for entry in files.read_manifest(folder).indices if entry.purpose == "text"]
        wanted, reasons = [self._encoder_id] if self._encoder_id else indexed, []
        for encoder_id in wanted:
            try:
                if encoder_id not in indexed:
                    raise EncoderUnavailable(f"it has no text index of {encoder_id}, but of {', '.join(indexed)}.")
                return text_encoder(encoder_id).id
            except FuseboxError as error:
                reasons.append(str(error))
        why = " ".join(f"{reason.rstrip('.')}." for reason in reasons)
        raise NeedsIndex(
            f"{folder.name} can't be searched here: {why} "
            f"Index it for {self.remedy}: python -m rag corpus FOLDER --add-text {self.remedy}"
        )

    def without_paths(self, message: str) -> str:
        """A message for a visitor, who need not know where the operator keeps the corpora."""
        for shared in self._shared.values():
            message = message.replace(str(shared.folder), shared.folder.name)
        return message

    @property
    def remedy(self) -> str:
        """The text encoder for which a corpus is indexed that can't be searched otherwise."""
        return self._encoder_id or self._default.text_encoder_id

    def folder(self, corpus_id: str) -> Path:
        """Where an operator's corpus is.

        Raises:
            CorpusError: there is none of that id.
        """
        if corpus_id not in self._shared:
            raise CorpusError("There is no such corpus here; choose another one at the top.")
        return self._shared[corpus_id].folder

    def replace(self, session: str, corpus: Corpus) -> None:
        """Put a corpus that was opened anew, with one index more, in the place of the same one."""
        with self._lock:
            own = self._own.get(session, {}).get(corpus.id)
            if own is not None:
                self._own[session][corpus.id] = _Own(corpus, own.delete, own.timer)
        if corpus.id in self._shared:
            self._shared[corpus.id].corpus = corpus
            if corpus.id == self._default.id:
                self._default = corpus

    # --- a session's own documents ---

    def take(self, session: str, corpus: Corpus, delete: Callable[[], None]) -> None:
        """Keep a corpus for ``session`` alone until it leaves, for an hour at most; then ``delete`` removes its files."""
        timer = threading.Timer(LIFETIME_S, self.remove, (session, corpus.id))
        timer.daemon = True
        with self._lock:
            own = self._own.setdefault(session, {})
            gone = [own.pop(corpus.id)] if corpus.id in own else []
            own[corpus.id] = _Own(corpus, delete, timer)
            gone += [own.pop(name) for name in list(own)[:-MAX_OWN]]
        timer.start()
        _delete(gone)

    def remove(self, session: str, corpus_id: str) -> None:
        """Delete one of the session's own corpora, if it has it."""
        with self._lock:
            own = self._own.get(session, {}).pop(corpus_id, None)
        _delete([own] if own else [])

    def leave(self, session: str) -> None:
        """The session ended: its documents are deleted."""
        with self._lock:
            self._chosen.pop(session, None)
            own = self._own.pop(session, {})
        _delete(own.values())


def _delete(own: Iterable[_Own]) -> None:
    for one in own:
        one.timer.cancel()
        one.delete()
        thumbnail.cache_clear()  # pictures of the documents are in it


def _choice(folder: Path, number: int) -> Choice:
    """Id and name of a corpus that is not open; one that can't be read is named by its folder, and says why when it is chosen.
    The id goes to the browser, so it holds no path."""
    try:
        manifest = files.read_manifest(folder)
    except CorpusError:
        return Choice(f"folder:{number}", folder.name)
    return Choice(manifest.id, manifest.name)

"""Events of the Corpus page: choose a corpus, look through it, make one of a visitor's documents, build a missing index."""

from __future__ import annotations

import logging
import queue
import shutil
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import gradio as gr

from rag.branches import Query, text, visual
from rag.corpus import Corpus, build_visual_index, open_corpus
from rag.encoders import image_encoder, text_encoder
from rag.errors import FuseboxError, Stopped, UsageError
from rag.ingest.languages import USUAL, check_languages, split_languages
from rag.ingest.report import Report
from rag.types import Progress, System
from ui import text as words
from ui.handlers import OUTPUTS as EXPLORE_OUTPUTS
from ui.handlers import Handlers
from ui.shelf import NeedsIndex
from ui.uploads import Batch, Line, Uploads
from ui.views import about, compare
from ui.views import corpus as view
from ui.views.corpus import Browse, Scope
from ui.views.markup import shorten

SEARCH_DEPTH = 96
"""Chunks or crops that a search gives."""
MAX_WAITING = 10
MAX_TEXT = 300
LOOK_S = 0.5
SCOPES: tuple[Scope, ...] = ("chunks", "crops", "pages")

OUTPUTS = ("header", "notice", "state", "form", "list", "page", "build", "about")
"""What the page's events change, in the order of its outputs; after these come the examples, Compare's and Explore's."""

Update = tuple[Any, ...]

_log = logging.getLogger(__name__)


def read_browse(sent: object) -> Browse:
    """What a browser asks to see; whatever it sends, this is within bounds."""
    given: Mapping[str, Any] = sent if isinstance(sent, Mapping) else {}
    scope = str(given.get("scope", ""))
    start = given.get("start", 0)
    inside = isinstance(start, int) and not isinstance(start, bool) and 0 <= start < 10**7
    return Browse(
        q=str(given.get("q") or "")[:MAX_TEXT].strip(),
        scope=next((known for known in SCOPES if known == scope), "chunks"),
        document=str(given.get("document") or "")[:MAX_TEXT],
        start=start if inside else 0,
        page=str(given.get("page") or "")[:MAX_TEXT],
    )


def found(corpus: Corpus, browse: Browse) -> tuple[str, ...]:
    """Ids of what is asked for: pages without search words, else by the corpus's own rankers, or by name.

    Raises:
        EncoderUnavailable: the corpus's text encoder can't be had.
    """
    if not browse.q or browse.scope == "pages":
        wanted = browse.q.casefold()
        names = {d.id: f"{d.title} {d.file}".casefold() for d in corpus.documents.values()} if wanted else {}
        return tuple(
            page.id
            for page in corpus.pages.values()
            if browse.document in ("", page.document)
            and (wanted in page.id.casefold() or wanted in names.get(page.document, ""))
        )
    query = Query.of(browse.q, corpus)
    items: Mapping[str, Any] = corpus.chunks if browse.scope == "chunks" else corpus.crops
    depth = len(items) if browse.document else SEARCH_DEPTH  # the rankers know no documents
    if browse.scope == "chunks":
        hits = text(query, corpus, System("browse", text_ranker="hybrid", text_k=depth)).hits
    else:
        hits = visual(query, corpus, System("browse", visual_ranker="proxy", visual_depth=depth)).hits
    pages = {hit.item_id: corpus.pages[items[hit.item_id].page_id] for hit in hits}
    return tuple(item for item, page in pages.items() if browse.document in ("", page.document))[:SEARCH_DEPTH]


@dataclass(slots=True)
class _Build:
    """One session's corpus on its way. ``events`` carries progress, how many are ahead, and at last the outcome."""

    batch: Batch
    languages: str
    stop: threading.Event = field(default_factory=threading.Event)
    events: queue.Queue[Progress | int | FuseboxError | _Built] = field(default_factory=queue.Queue)


@dataclass(frozen=True, slots=True)
class _Built:
    corpus: Corpus
    report: Report


@dataclass(slots=True)
class CorpusDesk:
    """Handlers of the page. Per session at most one corpus is being made, in the process one at a time."""

    handlers: Handlers
    uploads: Uploads
    questions: Callable[[Corpus], dict[str, Any]] = lambda corpus: {}
    """Properties of Compare's picker for a corpus."""
    examples: tuple[str, ...] = ()
    """Ids of the corpora that have examples."""
    _line: Line = field(default_factory=Line)
    _builds: dict[str, _Build] = field(default_factory=dict)
    _index_stops: dict[str, threading.Event] = field(default_factory=dict)
    _indexing: threading.Lock = field(default_factory=threading.Lock)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.uploads.crowded_out = self.make_room

    # --- choosing ----------------------------------------------------------------------------------------------------

    def choose(self, request: gr.Request, event: gr.EventData) -> Update:
        """The session looks at another corpus; answers of the one before leave the page."""
        wanted = str(_sent(event).get("corpus", ""))[:1_000]
        session = str(request.session_hash)
        try:
            self.handlers.admit(request)
            corpus = self.handlers.shelf.choose(session, wanted)
        except FuseboxError as error:
            may = wanted if self.uploads.allowed and isinstance(error, NeedsIndex) else ""
            return self._update(notice=view.notice(self.handlers.shelf.without_paths(str(error)), may))
        return self._shown(session, corpus)

    def remove(self, request: gr.Request, event: gr.EventData) -> Update:
        """Delete one of the session's own corpora; the first corpus takes its place."""
        session, shelf = str(request.session_hash), self.handlers.shelf
        try:
            self.handlers.admit(request)
            shelf.remove(session, str(_sent(event).get("remove", ""))[:1_000])
            corpus = shelf.choose(session, shelf.default.id)
        except FuseboxError as error:
            return self._update(notice=view.notice(str(error)))
        told = f'<section class="fb-card fb-build"><p role="status" class="fb-told">{words.OWN_REMOVED}</p></section>'
        return self._shown(session, corpus, build=told)

    def _shown(self, session: str, corpus: Corpus, **more: Any) -> Update:
        """Everything on the page that is of a corpus."""
        views = {
            "header": self._header(session),
            "notice": "",
            "state": self._state(session, corpus),
            "form": view.form(corpus),
            "build": gr.skip() if session in self._builds else "",
            "about": about.render(corpus, self.handlers.generators.values()),
            **self._browsed(corpus, Browse(page=next(iter(corpus.pages), ""))),
        }
        examples = tuple(gr.update(visible=known == corpus.id) for known in self.examples)
        compared = (gr.update(**self.questions(corpus)), compare.empty(), ())
        explore = self.handlers.cleared(session, corpus)
        return (*self._own_update(**{**views, **more}), *examples, *compared, *explore)

    def _header(self, session: str) -> str:
        shelf = self.handlers.shelf
        return about.header(shelf.of(session), shelf.choices(session))

    def _state(self, session: str, corpus: Corpus, **told: Any) -> str:
        own = any(choice.own and choice.id == corpus.id for choice in self.handlers.shelf.choices(session))
        return view.state(corpus, own, self.uploads.allowed, **told)

    # --- looking -----------------------------------------------------------------------------------------------------

    def browse(self, request: gr.Request, event: gr.EventData) -> tuple[Any, Any]:
        """The list and the page that are asked for."""
        try:
            self.handlers.admit(request)
            views = self._browsed(self.handlers.shelf.of(str(request.session_hash)), read_browse(_sent(event)))
        except FuseboxError as error:
            return view.failed(str(error)), gr.skip()
        return views["list"], views["page"]

    @staticmethod
    def _browsed(corpus: Corpus, browse: Browse) -> dict[str, Any]:
        listed = found(corpus, browse)
        page: Any = gr.skip()
        if browse.page:
            facts = [(n, triple) for n, triple in enumerate(corpus.triples) if triple.page_id == browse.page]
            page = view.page(corpus, browse, facts)
        return {"list": view.listing(corpus, browse, listed), "page": page}

    # --- own documents -----------------------------------------------------------------------------------------------

    def build(self, request: gr.Request, event: gr.EventData) -> Iterator[Update]:
        """Make a corpus of what the session has sent; yields updates as it goes on."""
        session = str(request.session_hash)
        try:
            self.handlers.admit(request)
            build = self._begin(session, self._languages(_sent(event).get("languages")))
        except FuseboxError as error:
            yield self._update(build=view.failed(str(error)))
            return
        try:
            yield from self._followed(session, build)
        finally:
            build.stop.set()  # where the browser went away this is all that ends the work

    def _languages(self, sent: object) -> str:
        """What scans are to be read in, of what a browser sends.

        Raises:
            UsageError: it is too much.
            OcrUnavailable: one of them is not here; names its package.
        """
        # One of a browser's names may hold several.
        chosen = split_languages("+".join(map(str, sent))) if isinstance(sent, list) and sent else ()
        if len(chosen) > view.MAX_LANGUAGES:
            raise UsageError(words.SCANS_TOO_MANY.format(most=view.MAX_LANGUAGES))
        if not set(chosen) <= {*self.uploads.languages.names}:
            check_languages("+".join(chosen))
        return "+".join(chosen or self.uploads.languages.names[:1]) or USUAL

    def _begin(self, session: str, languages: str) -> _Build:
        with self._lock:
            if session in self._builds:
                raise UsageError(words.BUILD_RUNNING)
            if len(self._builds) > MAX_WAITING:
                raise UsageError(words.BUILD_FULL)
            build = self._builds[session] = _Build(self.uploads.hand_over(session), languages)
        threading.Thread(target=self._work, args=(session, build), daemon=True).start()
        return build

    def _followed(self, session: str, build: _Build) -> Iterator[Update]:
        done: dict[str, str] = {}
        last: Progress | None = None
        yield self._update(build=view.progress(None, done))
        while True:
            event = build.events.get()
            match event:
                case _Built(corpus, report):
                    pages = [replace(page, note=build.batch.named(page.note)) for page in report.pages]
                    told = view.report(
                        corpus.manifest.name, pages, *_sentences(report, build.batch), view.titles(corpus)
                    )
                    yield self._shown(session, self.handlers.shelf.choose(session, corpus.id), build=told)
                    return
                case FuseboxError():
                    yield self._update(build=view.failed(build.batch.named(str(event))))
                    return
                case int():
                    yield self._update(build=view.waiting(event) if event else view.progress(None, done))
                case Progress():
                    if last is not None and last.stage != event.stage:
                        done[last.stage] = last.line
                    last = event
                    if build.events.empty():  # what was overtaken is not drawn
                        yield self._update(build=view.progress(event, done))

    def _work(self, session: str, build: _Build) -> None:
        """In a thread of its own: wait for the turn, build, hand the corpus over."""
        outcome: FuseboxError | _Built = Stopped(words.BUILD_STOPPED)
        self._line.join(build)
        try:
            self._wait(build)
            outcome = self._ingested(build)
        except Stopped:
            pass
        except FuseboxError as error:
            outcome = error
        except Exception:  # noqa: BLE001  a bug must not leave the visitor waiting and the line blocked
            _log.exception("documents could not be taken in")
            outcome = UsageError(words.BUILD_BUG)
        finally:
            self._line.leave(build)
            with self._lock:
                self._builds.pop(session, None)
                if isinstance(outcome, _Built) and build.stop.is_set():
                    outcome = Stopped(words.BUILD_STOPPED)
                if isinstance(outcome, _Built):
                    self.handlers.shelf.take(
                        session, outcome.corpus, lambda: self.uploads.release(session, build.batch)
                    )
            if not isinstance(outcome, _Built):
                self.uploads.release(session, build.batch)
            build.events.put(outcome)

    def _wait(self, build: _Build) -> None:
        told = 0
        while ahead := self._line.ahead(build, LOOK_S):
            if build.stop.is_set():
                raise Stopped(words.BUILD_STOPPED)
            if ahead != told:
                told = ahead
                build.events.put(ahead)
        if told:
            build.events.put(0)

    def _ingested(self, build: _Build) -> _Built:
        from rag.ingest.build import ingest

        batch = build.batch
        batch.describe()
        first, *others = batch.names.values()
        name = shorten(first, 60) + (f" and {len(others)} more" if others else "")
        report = ingest(
            sorted(file for file in batch.files.iterdir() if file.suffix != ".json"),
            batch.folder / "corpus",
            name=name,
            languages=build.languages,
            limits=self.uploads.limits,
            workers=1,  # the other core is for those who ask meanwhile
            progress=build.events.put,
            stopped=build.stop.is_set,
        )
        shutil.rmtree(batch.files)
        corpus = open_corpus(batch.folder / "corpus")
        corpus.warm()
        return _Built(corpus, report)

    def stop(self, request: gr.Request, event: gr.EventData) -> None:
        """End what is being built for this session, or the index that it started; the rest is said by that itself."""
        session = str(request.session_hash)
        build, index = self._builds.get(session), self._index_stops.get(session)
        if _sent(event).get("stop") == "index" and index is not None:
            index.set()
        elif build is not None:
            build.stop.set()

    def leave(self, session: str) -> None:
        """The page was closed: what it has sent and what is made of it is deleted."""
        with self._lock:
            build = self._builds.get(session)
            if build is not None:
                build.stop.set()
        index = self._index_stops.get(session)
        if index is not None:
            index.set()
        self.uploads.forget(session)

    def make_room(self, session: str) -> None:
        """The session's corpora go for another's sake, unless one is just being made."""
        if session in self._builds or session in self._index_stops:
            return
        for choice in self.handlers.shelf.choices(session):
            if choice.own:
                self.handlers.shelf.remove(session, choice.id)

    def evict(self, session: str) -> None:
        """The session made room for others, and nothing binds it to its browser any more."""
        self.leave(session)
        self.handlers.shelf.leave(session)

    # --- indices -----------------------------------------------------------------------------------------------------

    def index(self, request: gr.Request, event: gr.EventData) -> Iterator[Update]:
        """Build the index that is missing, ``clip`` of the corpus that is looked at or ``text`` of one that could not be opened."""
        session, sent = str(request.session_hash), _sent(event)
        kind, wanted = str(sent.get("index", "")), str(sent.get("corpus", ""))[:1_000]
        show = self._clip_told if kind == "clip" else self._text_told
        if not self.uploads.allowed or not self._indexing.acquire(blocking=False):
            yield self._update(notice=view.notice(words.INDEX_BUSY if self.uploads.allowed else words.UPLOAD_OFF))
            return
        stop = self._index_stops[session] = threading.Event()
        try:
            self.handlers.admit(request)
            work = self._clip_work(session) if kind == "clip" else self._text_work(wanted)
            yield show(session, wanted, words.INDEX_STARTS, True)
            for line in _lines(work, stop):
                if isinstance(line, Corpus):
                    self.handlers.shelf.replace(session, line)
                    corpus = self.handlers.shelf.choose(session, line.id)
                    state = self._state(session, corpus, told=words.INDEX_DONE)
                    yield self._update(state=state) if kind == "clip" else self._shown(session, corpus, state=state)
                else:
                    yield show(session, wanted, line, True)
        except FuseboxError as error:
            yield show(session, wanted, str(error), False)
        finally:
            stop.set()
            self._index_stops.pop(session, None)
            self._indexing.release()

    def _clip_told(self, session: str, wanted: str, told: str, running: bool) -> Update:
        corpus = self.handlers.shelf.of(session)
        return self._update(state=self._state(session, corpus, told=told, running=running, bad=not running))

    def _text_told(self, session: str, wanted: str, told: str, running: bool) -> Update:
        return self._update(notice=view.notice(told, "" if running else wanted, running=running))

    def _clip_work(self, session: str) -> Callable[[Callable[[str], None]], Corpus]:
        corpus = self.handlers.shelf.of(session)
        encoder_id = view.buildable_clip(corpus)
        if not encoder_id:
            raise UsageError(words.CLIP_COMMAND)
        return lambda tell: build_visual_index(corpus, image_encoder(encoder_id, download=False), tell)

    def _text_work(self, wanted: str) -> Callable[[Callable[[str], None]], Corpus]:
        from rag.corpus import add_text_index

        shelf = self.handlers.shelf
        folder, encoder_id = shelf.folder(wanted), shelf.remedy
        return lambda tell: add_text_index(folder, text_encoder(encoder_id), lambda event: tell(str(event)))

    # --- all ---------------------------------------------------------------------------------------------------------

    def _update(self, **changes: Any) -> Update:
        rest = len(self.examples) + 3 + len(EXPLORE_OUTPUTS)
        return (*self._own_update(**changes), *(gr.skip() for _ in range(rest)))

    @staticmethod
    def _own_update(**changes: Any) -> Update:
        return tuple(changes.get(name, gr.skip()) for name in OUTPUTS)


def _lines(work: Callable[[Callable[[str], None]], Corpus], stop: threading.Event) -> Iterator[str | Corpus]:
    """Run ``work`` in a thread; what it tells as it comes, and at last what it gives.

    Raises:
        FuseboxError: it failed, or was stopped.
    """
    events: queue.Queue[str | Corpus | BaseException] = queue.Queue()

    def tell(line: str) -> None:
        if stop.is_set():
            raise Stopped(words.INDEX_STOPPED)
        events.put(line)

    def run() -> None:
        try:
            events.put(work(tell))
        except BaseException as error:  # noqa: BLE001  raised again by who waits for it
            events.put(error)

    threading.Thread(target=run, daemon=True).start()
    while True:
        event = events.get()
        if isinstance(event, BaseException):
            raise event
        yield event
        if isinstance(event, Corpus):
            return


def _sentences(report: Report, batch: Batch) -> tuple[list[str], list[str]]:
    """What was left out and is no page of the report, and notes on files."""
    of_pages = {page.note for page in report.pages} | {
        f"{page.document}, p. {page.number}: {page.note}" for page in report.pages
    }
    return tuple(
        [batch.named(line) for line in lines if line not in of_pages] for lines in (report.refused, report.notes)
    )  # type: ignore[return-value]


def _sent(event: gr.EventData) -> Mapping[str, Any]:
    sent = getattr(event, "_data", None)
    return sent if isinstance(sent, Mapping) else {}

"""Where a visitor's documents come in: ``POST /fusebox/upload``, apart from Gradio's own way, which takes anything from anybody.

A request carries one file as its body. It is written to a folder of the session as it comes, and refused as soon as the
limits are passed. The file's name is a heading and no more: on disk files have numbers.
"""

from __future__ import annotations

import asyncio
import atexit
import json
import os
import re
import secrets
import shutil
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import IO
from urllib.parse import unquote

from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from rag.errors import UsageError
from rag.ingest.languages import Offer
from rag.ingest.limits import VARIABLES, Limits
from rag.ingest.page_images import SUFFIXES
from rag.ingest.stage import is_running
from ui.keydesk import COOKIE, MAX_SESSION_CHARS, KeyDesk, address_of, cookie, from_here
from ui.keydesk import IDLE_S as DESK_IDLE_S
from ui.views.markup import clean, shorten

UPLOAD_URL = "fusebox/upload"
KINDS = (".pdf", *SUFFIXES)
MAX_NAME_CHARS = 120
MAX_SESSIONS = 20
"""Sessions that may have documents here at the same time; with the limits of one, what uploads can take of the disk."""
MAX_PER_ADDRESS = 5
"""Of these, those of one address."""
IDLE_S = 60
"""Files of which no corpus is made are removed this long after the last one came."""
ABANDONED_S = 5
"""The same where somebody else needs the place: the page asks for its corpus at once."""
RECEIVE_S = 600
"""One file has to come in within this time."""
SILENT_S, LEAST_BYTES = 15, 64_000
"""In any such time, so many bytes of it (or its end) must come."""

_ENGLISH = Offer()
_PREFIX = "fusebox-uploads"
_roots: set[Path] = set()
"""Of this very process: its number alone doesn't tell them from those of a dead one that had the same."""
_ELSEWHERE = "Documents can be added on Fusebox's own page only; open it and add them there."
_NOT_READ = "This request is not one of Fusebox's page; reload the page and add the documents again."
_OFF = "The operator has switched adding documents off; run Fusebox on your own machine to add yours."
_FULL = "Too many visitors have documents here at the moment; try again in a while, or run Fusebox on your own machine."
_FULL_THERE = (
    "Documents were added from {most} other windows of your network already; close one of them, try again in a while, or run "
    "Fusebox on your own machine."
)
_TOO_MANY = "{name}: at most {most} files are taken ({variable}); leave some out."
_TOO_LARGE = "{name}: all files together may have {most:,} MB ({variable}); leave some out, or split the file."
_EMPTY = "{name} is empty; choose another file."
_OTHER_KIND = "{name} is no PDF, PNG, JPEG or TIFF; convert it to one of them."
_CUT = "The upload was cut off; add the documents again."
_SLOW = "The upload came too slowly and was given up; add the documents again, or fewer of them at a time."


@dataclass(slots=True)
class Batch:
    """Files of one session that are to become one corpus. ``folder`` holds all there is of them; ``names`` are what the visitor
    calls them, by the stem they have on disk. ``coming`` counts those on their way; with none, it rests ``since`` (seconds)."""

    folder: Path
    names: dict[str, str] = field(default_factory=dict)
    bytes: int = 0
    coming: int = 0
    since: float = 0.0
    timer: threading.Timer | None = None

    @property
    def files(self) -> Path:
        """Where the files are."""
        return self.folder / "files"

    def add(self, name: str, size: int) -> Path:
        """The place for one more file."""
        place = self.files / f"document{len(self.names) + 1:02d}{_suffix(name)}"
        self.names[place.stem] = name
        self.bytes += size
        return place

    def describe(self) -> None:
        """Write down the titles, as the ingestion reads them."""
        rows = [{"file": file.name, "title": self.names[file.stem]} for file in sorted(self.files.iterdir())]
        (self.files / "documents.json").write_text(json.dumps(rows), encoding="utf-8")

    def named(self, sentence: str) -> str:
        """A sentence about numbered files, with their names, and without the folder, which is nobody else's business."""
        sentence = sentence.replace(f"{self.files}{os.sep}", "")
        return re.sub(r"\b(document\d\d+)(\.\w+)?", lambda found: self.names.get(found[1], found[0]), sentence)


class Uploads:
    """Takes visitors' files in.

    Args:
        desk: binds a session to its browser.
        limits: of one corpus; the pages' are the ingestion's affair.
        allowed: whether the operator lets visitors add documents.
        languages: those that scans can be read in.
        clock: seconds.
    """

    def __init__(
        self,
        desk: KeyDesk,
        limits: Limits,
        allowed: bool = True,
        languages: Offer = _ENGLISH,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.limits, self.allowed, self.languages = limits, allowed, languages
        self.crowded_out: Callable[[str], None] = lambda session: None
        """Told of a session, idle for long, whose corpora must go for another's sake; it calls ``release``."""
        self._desk, self._clock = desk, clock
        self._root: Path | None = None
        self._batches: dict[str, Batch] = {}
        self._holders: dict[str, int] = {}
        self._lock = threading.RLock()

    def route(self) -> Route:
        """To be handed to the server."""
        return Route(f"/{UPLOAD_URL}", self.serve, methods=["POST"])

    async def serve(self, request: Request) -> JSONResponse:
        """Take one file; the answer is ``{"files": how many there are now}`` or ``{"error": sentence}``."""
        known, headers = request.cookies.get(COOKIE), {"Cache-Control": "no-store"}
        token = known or secrets.token_urlsafe(32)
        try:
            session, name, size, first = self._asked(request)
            self._desk.bind(session, token, address_of(request))
            if not known:  # a refused file binds the session as well
                headers["Set-Cookie"] = cookie(request, token)
            files = await self._take(request, session, name, size, first)
        except UsageError as error:
            return JSONResponse({"error": str(error)}, 400, headers | {"Connection": "close"})
        return JSONResponse({"files": files}, 200, headers)

    def _asked(self, request: Request) -> tuple[str, str, int, bool]:
        """Session, file name, stated size, and whether this is the first file of a new selection.

        Raises:
            UsageError: from elsewhere, switched off, or not what the page sends.
        """
        if not self.allowed:
            raise UsageError(_OFF)
        if not from_here(request):
            raise UsageError(_ELSEWHERE)
        headers = request.headers
        session, size = headers.get("x-fusebox-session", ""), headers.get("content-length", "")
        # A form of another site can send neither this type nor these headers without asking first.
        right_type = headers.get("content-type", "") == "application/octet-stream"
        if not right_type or not 0 < len(session) <= MAX_SESSION_CHARS or not re.fullmatch(r"[0-9]{1,15}", size):
            raise UsageError(_NOT_READ)
        name = shown_name(unquote(headers.get("x-fusebox-name", "")))
        if not _suffix(name):
            raise UsageError(_OTHER_KIND.format(name=name))
        return session, name, int(size), headers.get("x-fusebox-first") == "1"

    async def _take(self, request: Request, session: str, name: str, size: int, first: bool) -> int:
        batch, place = self._room(session, name, size, first)
        try:
            with place.open("wb") as file:
                # Of a batch that was deleted, an open file would still take room.
                await _receive(request, file, size, lambda: self._batches.get(session) is batch)
        except (UsageError, ClientDisconnect, OSError) as error:
            self._refuse(session, batch)
            raise error if isinstance(error, UsageError) else UsageError(_CUT) from error
        finally:
            self._rest(session, batch)
        return len(batch.names)

    def _room(self, session: str, name: str, size: int, first: bool) -> tuple[Batch, Path]:
        """A place for a file of the stated size; a batch that is refused anything is refused altogether, so that nobody asks
        a corpus in which a document is missing.

        Raises:
            UsageError: a limit is passed; names it.
        """
        if first:
            self.forget(session)
        with self._lock:
            batch = self._batches.get(session)
            problem = self._problem(session, batch, name, size)
            if not problem:
                batch = batch or self._new_batch(session)
                batch.coming += 1
                if batch.timer is not None:
                    batch.timer.cancel()
                return batch, batch.add(name, size)
        self.forget(session)
        raise UsageError(problem)

    def _problem(self, session: str, batch: Batch | None, name: str, size: int) -> str:
        files, taken = (len(batch.names), batch.bytes) if batch else (0, 0)
        if size == 0:
            return _EMPTY.format(name=name)
        if self.limits.files is not None and files >= self.limits.files:
            return _TOO_MANY.format(name=name, most=self.limits.files, variable=VARIABLES["files"])
        if self.limits.mb is not None and taken + size > self.limits.mb * 1_000_000:
            return _TOO_LARGE.format(name=name, most=self.limits.mb, variable=VARIABLES["mb"])
        return "" if batch else self._no_place(session)

    def _no_place(self, session: str) -> str:
        """Says why there is no place for one more session, where no idle one can make it."""
        taken, address = {*self._batches, *self._holders}, self._desk.address(session)
        neighbours = {other for other in taken if address and self._desk.address(other) == address}
        if len(neighbours) >= MAX_PER_ADDRESS:
            return "" if self._place_made(neighbours) else _FULL_THERE.format(most=MAX_PER_ADDRESS)
        return "" if len(taken) < MAX_SESSIONS or self._place_made(taken) else _FULL

    def _place_made(self, crowd: Collection[str]) -> bool:
        """Whether one of these sessions made room: one that left its files lying or, if there is none, one that has not used its
        corpora for long."""
        now = self._clock()
        waiting = {session: batch for session, batch in self._batches.items() if session in crowd and not batch.coming}
        for session in sorted(waiting, key=lambda session: waiting[session].since):
            if now - waiting[session].since >= ABANDONED_S and session not in self._holders:
                self.forget(session)
                return True
        for session in sorted(self._holders.keys() & crowd, key=self._desk.idle_s, reverse=True):
            if self._desk.idle_s(session) >= DESK_IDLE_S:
                self.crowded_out(session)
                if session not in self._holders and session not in self._batches:
                    return True
        return False

    def _new_batch(self, session: str) -> Batch:
        if self._root is None:
            self._root = _new_root()
        batch = self._batches[session] = Batch(Path(tempfile.mkdtemp(dir=self._root)))
        batch.files.mkdir()
        return batch

    def _rest(self, session: str, batch: Batch) -> None:
        """A file has come, or failed to: from now on the batch lies idle, unless another one comes."""
        with self._lock:
            batch.coming -= 1
            batch.since = self._clock()
            if batch.coming or self._batches.get(session) is not batch:
                return
            batch.timer = threading.Timer(IDLE_S, self._refuse, (session, batch))
            batch.timer.daemon = True
            batch.timer.start()

    def _refuse(self, session: str, batch: Batch) -> None:
        """Delete a batch, unless it is somebody else's by now."""
        with self._lock:
            if self._batches.get(session) is not batch:
                return
            del self._batches[session]
        _delete(batch)

    def hand_over(self, session: str) -> Batch:
        """The files of a session, whose folder is the caller's from now on.

        Raises:
            UsageError: it has none.
        """
        with self._lock:
            batch = self._batches.pop(session, None)
            if batch is None:
                raise UsageError("There are no documents to read; choose them again.")
            self._holders[session] = self._holders.get(session, 0) + 1
        if batch.timer is not None:
            batch.timer.cancel()
        return batch

    def release(self, session: str, batch: Batch) -> None:
        """Delete what was handed over."""
        _delete(batch)
        with self._lock:
            left = self._holders.pop(session, 1) - 1
            if left > 0:
                self._holders[session] = left

    def forget(self, session: str) -> None:
        """Delete the files of a session of which no corpus was made."""
        with self._lock:
            batch = self._batches.pop(session, None)
        if batch is not None:
            _delete(batch)


class Line:
    """One builds, the others wait their turn, first come first served. Thread-safe."""

    def __init__(self) -> None:
        self._waiting: deque[object] = deque()
        self._changed = threading.Condition()

    def join(self, ticket: object) -> None:
        """Stand at the end."""
        with self._changed:
            self._waiting.append(ticket)

    def ahead(self, ticket: object, wait_s: float = 0.0) -> int:
        """How many are before ``ticket``; waits for a change that long where there are any."""
        with self._changed:
            if wait_s and self._waiting[0] is not ticket:
                self._changed.wait(wait_s)
            return self._waiting.index(ticket)

    def leave(self, ticket: object) -> None:
        """Done, or given up."""
        with self._changed:
            self._waiting.remove(ticket)
            self._changed.notify_all()


def shown_name(name: str) -> str:
    """The last part of a file name as a heading: cut in the middle, on one line, without what no text can carry."""
    last = " ".join(clean(name.replace("\\", "/").rpartition("/")[2]).split()) or "document"
    suffix = PurePosixPath(last).suffix[:10]
    return last if len(last) <= MAX_NAME_CHARS else shorten(last, MAX_NAME_CHARS - len(suffix)) + suffix


def _suffix(name: str) -> str:
    """The ending, of those that are taken."""
    return next((kind for kind in KINDS if name.lower().endswith(kind)), "")


async def _receive(request: Request, file: IO[bytes], size: int, wanted: Callable[[], bool]) -> None:
    """Write down a file of ``size`` bytes, as long as it is ``wanted``.

    Raises:
        UsageError: it has more or fewer, or comes too slowly: who sends nothing must not hold the place of one who would.
    """
    clock = asyncio.get_running_loop().time
    end, received, counted = clock() + RECEIVE_S, 0, 0
    try:
        async with asyncio.timeout(min(SILENT_S, RECEIVE_S)) as patience:
            async for piece in request.stream():
                received += len(piece)
                if received > size:  # the room was given for what was stated
                    raise UsageError(_NOT_READ)
                if not wanted():
                    raise UsageError(_CUT)
                if received - counted >= LEAST_BYTES:
                    counted = received
                    patience.reschedule(min(end, clock() + SILENT_S))
                await asyncio.to_thread(_write, file, piece)
    except TimeoutError as error:
        raise UsageError(_SLOW) from error
    if received < size:
        raise UsageError(_CUT)


def _write(file: IO[bytes], piece: bytes) -> None:
    file.write(piece)


def _delete(batch: Batch) -> None:
    if batch.timer is not None:
        batch.timer.cancel()
    shutil.rmtree(batch.folder, ignore_errors=True)


def clear() -> None:
    """Delete all that this process holds of visitors' documents, now."""
    for root in _roots:
        shutil.rmtree(root, ignore_errors=True)


def _new_root() -> Path:
    """This process's folder, which goes with it; those of processes that were killed go now."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}.*.*"):
        process = folder.name.split(".")[1]
        if folder not in _roots and process.isdigit() and (int(process) == os.getpid() or not is_running(int(process))):
            shutil.rmtree(folder, ignore_errors=True)
    root = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}.{os.getpid()}."))
    _roots.add(root)
    atexit.register(shutil.rmtree, root, ignore_errors=True)
    return root

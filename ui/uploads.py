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
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import IO
from urllib.parse import unquote

from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from rag.errors import UsageError
from rag.ingest.limits import VARIABLES, Limits
from rag.ingest.page_images import SUFFIXES
from rag.ingest.stage import is_running
from ui.keydesk import COOKIE, MAX_SESSION_CHARS, KeyDesk, cookie, from_here
from ui.views.markup import clean, shorten

UPLOAD_URL = "fusebox/upload"
KINDS = (".pdf", *SUFFIXES)
MAX_NAME_CHARS = 120
MAX_SESSIONS = 20
"""Sessions that may have documents here at the same time; with the limits of one, what uploads can take of the disk."""
IDLE_S = 600
"""Files of which no corpus is made are removed after this time."""
RECEIVE_S = 600
"""One file has to come in within this time."""

_PREFIX = "fusebox-uploads"
_roots: set[Path] = set()
"""Of this very process: its number alone doesn't tell them from those of a dead one that had the same."""
_ELSEWHERE = "Documents can be added on Fusebox's own page only; open it and add them there."
_NOT_READ = "This request is not one of Fusebox's page; reload the page and add the documents again."
_OFF = "The operator has switched adding documents off; run Fusebox on your own machine to add yours."
_FULL = "Too many visitors have documents here at the moment; try again in a while, or run Fusebox on your own machine."
_TOO_MANY = "{name}: at most {most} files are taken ({variable}); leave some out."
_TOO_LARGE = "{name}: all files together may have {most:,} MB ({variable}); leave some out, or split the file."
_EMPTY = "{name} is empty; choose another file."
_OTHER_KIND = "{name} is no PDF, PNG, JPEG or TIFF; convert it to one of them."
_CUT = "The upload was cut off; add the documents again."


@dataclass(slots=True)
class Batch:
    """Files of one session that are to become one corpus. ``folder`` holds all there is of them; ``names`` are what the visitor
    calls them, by the stem they have on disk."""

    folder: Path
    names: dict[str, str] = field(default_factory=dict)
    bytes: int = 0
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
    """

    def __init__(self, desk: KeyDesk, limits: Limits, allowed: bool = True) -> None:
        self.limits, self.allowed = limits, allowed
        self._desk = desk
        self._root: Path | None = None
        self._batches: dict[str, Batch] = {}
        self._holders: dict[str, int] = {}
        self._lock = threading.Lock()

    def route(self) -> Route:
        """To be handed to the server."""
        return Route(f"/{UPLOAD_URL}", self.serve, methods=["POST"])

    async def serve(self, request: Request) -> JSONResponse:
        """Take one file; the answer is ``{"files": how many there are now}`` or ``{"error": sentence}``."""
        known, headers = request.cookies.get(COOKIE), {"Cache-Control": "no-store"}
        token = known or secrets.token_urlsafe(32)
        try:
            session, name, size, first = self._asked(request)
            self._desk.bind(session, token)
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
            received = 0
            with place.open("wb") as file:
                async with asyncio.timeout(RECEIVE_S):  # TimeoutError is an OSError
                    async for piece in request.stream():
                        received += len(piece)
                        if received > size:  # the room was given for what was stated
                            raise UsageError(_NOT_READ)
                        if self._batches.get(session) is not batch:  # deleted, and open it would still take room
                            raise UsageError(_CUT)
                        await asyncio.to_thread(_write, file, piece)
            if received < size:
                raise UsageError(_CUT)
        except (UsageError, ClientDisconnect, OSError) as error:
            self._refuse(session, batch)
            raise error if isinstance(error, UsageError) else UsageError(_CUT) from error
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
            problem = self._problem(batch, name, size)
            if not problem:
                batch = batch or self._new_batch(session)
                return batch, batch.add(name, size)
        self.forget(session)
        raise UsageError(problem)

    def _problem(self, batch: Batch | None, name: str, size: int) -> str:
        files, taken = (len(batch.names), batch.bytes) if batch else (0, 0)
        if size == 0:
            return _EMPTY.format(name=name)
        if self.limits.files is not None and files >= self.limits.files:
            return _TOO_MANY.format(name=name, most=self.limits.files, variable=VARIABLES["files"])
        if self.limits.mb is not None and taken + size > self.limits.mb * 1_000_000:
            return _TOO_LARGE.format(name=name, most=self.limits.mb, variable=VARIABLES["mb"])
        return "" if batch or len({*self._batches, *self._holders}) < MAX_SESSIONS else _FULL

    def _new_batch(self, session: str) -> Batch:
        if self._root is None:
            self._root = _new_root()
        batch = self._batches[session] = Batch(Path(tempfile.mkdtemp(dir=self._root)))
        batch.files.mkdir()
        batch.timer = threading.Timer(IDLE_S, self._refuse, (session, batch))
        batch.timer.daemon = True
        batch.timer.start()
        return batch

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

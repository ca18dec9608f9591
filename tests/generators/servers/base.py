"""A scripted HTTP server on a port of its own: it gives the replies it was told to, records what it got, and can misbehave.

It is a real server over real sockets: the clients under test are not touched.
"""

from __future__ import annotations

import json
import select
import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

PATIENCE_S = 30.0
"""No wait of a test is longer; reaching it fails the test."""


@dataclass(eq=False)
class Gate:
    """A place in a reply where the server stops until the test opens it. ``reached`` tells that it got there."""

    reached: threading.Event = field(default_factory=threading.Event)
    opened: threading.Event = field(default_factory=threading.Event)

    def pass_through(self) -> None:
        self.reached.set()
        assert self.opened.wait(PATIENCE_S), "the test never opened the gate"


@dataclass(eq=False)
class Hang:
    """A place in a reply where the server stays silent until the client hangs up; ``gone`` tells that it did."""

    reached: threading.Event = field(default_factory=threading.Event)
    gone: threading.Event = field(default_factory=threading.Event)

    def until_hung_up(self, connection: socket.socket) -> None:
        self.reached.set()
        readable, _, _ = select.select([connection], [], [], PATIENCE_S)
        try:
            if readable and connection.recv(1) == b"":
                self.gone.set()
        except ConnectionError:
            self.gone.set()


Piece = bytes | Gate | Hang


@dataclass(frozen=True)
class Reply:
    """A reply: status, headers, and the body piece by piece, each flushed on its own. ``before`` comes before the status line;
    ``cut`` breaks the connection off without the end of the body."""

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    pieces: Sequence[Piece] = ()
    before: Sequence[Gate | Hang] = ()
    cut: bool = False


@dataclass(frozen=True)
class Request:
    """A request as the server got it; header names in lower case."""

    path: str
    headers: Mapping[str, str]
    body: Any


class ScriptedServer:
    """Replies in order; the last is repeated. A reply may be a function of the request."""

    def __init__(self, *replies: Reply | Callable[[Request], Reply]) -> None:
        self.requests: list[Request] = []
        self._replies = list(replies)
        self._lock = threading.Lock()
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._http.daemon_threads = True
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    def __enter__(self) -> ScriptedServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._http.server_close()

    def reply_to(self, request: Request) -> Reply:
        with self._lock:
            self.requests.append(request)
            reply = self._replies.pop(0) if len(self._replies) > 1 else self._replies[0]
        return reply if isinstance(reply, Reply) else reply(request)

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                raw = self.rfile.read(int(self.headers.get("content-length", 0)))
                headers = {name.lower(): value for name, value in self.headers.items()}
                reply = server.reply_to(Request(self.path, headers, json.loads(raw)))
                try:
                    self._answer(reply)
                except ConnectionError:
                    self.close_connection = True

            def _answer(self, reply: Reply) -> None:
                for piece in reply.before:
                    self._pause(piece)
                self.send_response(reply.status)
                for name, value in reply.headers.items():
                    self.send_header(name, value)
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                for part in reply.pieces:
                    if isinstance(part, bytes):
                        self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
                        self.wfile.flush()
                    else:
                        self._pause(part)
                if reply.cut:
                    self.close_connection = True
                    self.connection.shutdown(socket.SHUT_RDWR)
                else:
                    self.wfile.write(b"0\r\n\r\n")

            def _pause(self, piece: Gate | Hang) -> None:
                if isinstance(piece, Gate):
                    piece.pass_through()
                else:
                    piece.until_hung_up(self.connection)

            def log_message(self, format: str, *args: object) -> None:
                """Silent."""

        return Handler


def refused(status: int, body: Any, **headers: str) -> Reply:
    """A refusal with a JSON body; ``retry_after="1"`` becomes the header Retry-After."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Reply(status, {"Content-Type": "application/json", **named}, (json.dumps(body).encode(),))


def events(*values: Any, end: bytes = b"") -> tuple[bytes, ...]:
    """Values as server-sent events."""
    return (*(b"data: " + json.dumps(value).encode() + b"\n\n" for value in values), *([end] if end else []))


def stream(*pieces: Piece, before: Sequence[Gate | Hang] = (), cut: bool = False) -> Reply:
    """A stream of events."""
    return Reply(200, {"Content-Type": "text/event-stream"}, pieces, before, cut)

"""Where a visitor's own key comes in: ``POST /fusebox/key``, apart from Gradio's events.

A component's value travels through Gradio's queue, which keeps, diffs and may record what passes through it. So the key is no
component's value: the page sends it here and empties the field, and from here it goes into ``rag.keys.SessionKeys`` and
nowhere else. Nothing ever gives it back; the answer says only whether there is one.

A session is named by the hash that its page carries, which also stands in addresses. So that nobody who has seen one can put
a key into somebody else's session or ask with somebody else's key, the first key binds the session to the browser, by a cookie
that no script can read.

There is room for so many sessions, and for so many of one address. A session in use keeps its place: one that has been idle for
long makes room, and where there is none, who comes later is refused.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import json
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import gradio as gr
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from rag.errors import UsageError
from rag.keys import MAX_SESSIONS, SessionKeys

KEY_URL = "fusebox/key"
COOKIE = "fusebox-visitor"
MAX_BODY_BYTES = 4_096
MAX_SESSION_CHARS = 64
MAX_PER_ADDRESS = 100
"""Sessions of one address: a school behind one has room, and a script that opens thousands crowds out itself alone."""
IDLE_S = 600
"""Only a session that did nothing for so long makes room for another."""

_ELSEWHERE = "A key can be entered on Fusebox's own page only; open it and enter the key there."
_NOT_READ = "This request is not one of Fusebox's page; reload the page and enter the key again."
_NOT_YOURS = "This session belongs to another browser; reload the page to get one of your own."
_FULL = "Too many visitors have keys or documents here at the moment; try again in ten minutes, or run Fusebox on your own machine."
_NO_SUCH_VARIABLE = "No generator here needs such a key; reload the page and choose one that needs a key."


@dataclass(slots=True)
class _Owner:
    """The browser that a session belongs to (digest of its cookie), from where it came, and when it was last used (seconds)."""

    digest: bytes
    address: str
    used: float


class KeyDesk:
    """Takes visitors' keys in and checks who may use them.

    Args:
        keys: where keys are kept.
        variables: names of the keys that some generator needs; no other name is taken.
        clock: seconds.
    """

    def __init__(
        self, keys: SessionKeys, variables: Collection[str], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._keys, self._variables, self._clock = keys, frozenset(variables), clock
        self._owners: OrderedDict[str, _Owner] = OrderedDict()
        """The longest idle first."""
        self._lock = threading.RLock()
        self.forgotten: Callable[[str], None] = lambda session: None
        """Told of a session that made room for others: what else it has must go with what binds it."""

    @property
    def open(self) -> bool:
        """Whether visitors may bring keys, and there is a generator that needs one."""
        return self._keys.allowed and bool(self._variables)

    def route(self) -> Route:
        """To be handed to Gradio's server."""
        return Route(f"/{KEY_URL}", self.serve, methods=["POST"])

    async def serve(self, request: Request) -> JSONResponse:
        """Keep or (an empty key) forget one key; says whether the session now has it."""
        known, headers = request.cookies.get(COOKIE), {"Cache-Control": "no-store"}
        token = known or secrets.token_urlsafe(32)
        try:
            session, variable, key = await _read(request)
            held = self.take(session, variable, key, token, address_of(request))
        except UsageError as error:
            return JSONResponse({"error": str(error)}, 400, headers)
        return JSONResponse({"held": held}, 200, headers if known else headers | {"Set-Cookie": cookie(request, token)})

    def take(self, session: str, variable: str, key: str, token: str, address: str = "") -> bool:
        """Keep ``key`` for a session, or forget it where it is empty.

        Returns:
            Whether the session now has this key.

        Raises:
            UsageError: no key, no such variable, own keys are switched off, there is no room, or the session is another browser's.
        """
        if variable not in self._variables:
            raise UsageError(_NO_SUCH_VARIABLE)
        self.bind(session, token, address)
        self._keys.put(session, variable, key)
        return self._keys.get(session, variable) is not None

    def admit(self, request: gr.Request) -> None:
        """Let a session's question pass.

        Raises:
            UsageError: the session has keys and the request comes from another browser than they.
        """
        session = str(request.session_hash)
        with self._lock:
            owner = self._owners.get(session)
            if owner is None:
                return
        if not hmac.compare_digest(owner.digest, _digest(_cookies(request).get(COOKIE, ""))):
            raise UsageError(_NOT_YOURS)
        self._use(session)

    def _use(self, session: str) -> None:
        with self._lock:
            if owner := self._owners.get(session):
                owner.used = self._clock()
                self._owners.move_to_end(session)

    def forget(self, session: str) -> None:
        """Drop a session's keys: its page was closed. It stays bound to its browser, since its answers outlive the page and anybody
        who knows its name can say that it was closed."""
        self._keys.forget(session)

    def bind(self, session: str, token: str, address: str = "") -> None:
        """Bind a session to the browser that has ``token`` in its cookie; ``address`` is where it is (see ``address_of``).

        Raises:
            UsageError: it is another browser's, or there is no room for one more.
        """
        digest = _digest(token)
        with self._lock:
            owner = self._owners.get(session)
            if owner is None:
                self._make_room(address)
                self._owners[session] = _Owner(digest, address, self._clock())
            elif not hmac.compare_digest(owner.digest, digest):
                raise UsageError(_NOT_YOURS)
            self._use(session)

    def address(self, session: str) -> str:
        """Where a session came from; empty where nobody knows."""
        owner = self._owners.get(session)
        return owner.address if owner else ""

    def idle_s(self, session: str) -> float:
        """Seconds since a session was last used; endless where it is not bound."""
        owner = self._owners.get(session)
        return self._clock() - owner.used if owner else float("inf")

    def _make_room(self, address: str) -> None:
        neighbours = [session for session, owner in self._owners.items() if address and owner.address == address]
        crowd: Iterable[str] = neighbours
        if len(neighbours) < MAX_PER_ADDRESS:
            if len(self._owners) < MAX_SESSIONS:
                return
            crowd = self._owners
        longest_idle = next(iter(crowd))
        if self.idle_s(longest_idle) < IDLE_S:
            raise UsageError(_FULL)
        del self._owners[longest_idle]
        self._keys.forget(longest_idle)
        self.forgotten(longest_idle)


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "replace")).digest()


def _cookies(request: gr.Request) -> Mapping[str, str]:
    inner = request.request
    return inner.cookies if inner is not None else {}


async def _read(request: Request) -> tuple[str, str, str]:
    """Session, variable and key of a request.

    Raises:
        UsageError: from elsewhere, too large, or not what the page sends; the message repeats nothing of it.
    """
    if not from_here(request):
        raise UsageError(_ELSEWHERE)
    # A form of another site can't send this type without asking first.
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise UsageError(_NOT_READ)
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > MAX_BODY_BYTES:
            raise UsageError(_NOT_READ)
    try:
        found: Any = json.loads(body)
    except (ValueError, RecursionError):
        raise UsageError(_NOT_READ) from None
    match found:
        case {"session": str(session), "variable": str(variable), "key": str(key)} if (
            0 < len(session) <= MAX_SESSION_CHARS
        ):
            return session, variable, key
    raise UsageError(_NOT_READ)


def from_here(request: Request) -> bool:
    """Whether a page of this server sent the request, as far as browsers say; what is no browser has nobody's cookie."""
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        return site == "same-origin"
    origin = request.headers.get("origin")
    return origin is None or urlsplit(origin).netloc == request.headers.get("host")


def address_of(request: Request) -> str:
    """Whom a request counts for: the public address it came from or, through a proxy of this network, the last public one that the
    proxy names; of IPv6 the network, all of whose 2^64 addresses one person has. Empty where nobody can tell visitors apart."""
    peer = request.client.host if request.client else ""
    named = request.headers.get("x-forwarded-for", "").split(",")
    # Who connects from outside can write into the heading what they like; a proxy adds whom it saw at the end.
    known = (_public(name.strip()) for name in ([peer] if _public(peer) else reversed(named)))
    return next(filter(None, known), "")


def _public(name: str) -> str:
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return ""
    # A socket for both versions gives every IPv4 address as one of a single IPv6 network.
    address = getattr(address, "ipv4_mapped", None) or address
    if not address.is_global:
        return ""
    return str(ipaddress.ip_network((address, 64), strict=False)) if address.version == 6 else str(address)


def cookie(request: Request, token: str) -> str:
    """Over HTTPS the page may be shown inside another site (Hugging Face Spaces), which only this kind of cookie survives."""
    forwarded = request.headers.get("x-forwarded-proto", "").partition(",")[0].strip()
    secure = (forwarded or request.url.scheme) == "https"
    rules = "SameSite=None; Secure; Partitioned" if secure else "SameSite=Strict"
    return f"{COOKIE}={token}; Path=/; HttpOnly; {rules}"

"""API keys: the operator's from the environment, a visitor's own in memory for as long as the session lives.

A key is a ``Secret`` from the moment it is read: it shows itself in no ``repr``, format, log line, pickle or copy, and
only the call that needs it reveals it. Nothing here writes anything anywhere.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, NoReturn

from rag.errors import GeneratorError, UsageError

MAX_KEY_CHARS = 512
MAX_SESSIONS = 2_000
IDLE_S = 2 * 60 * 60
"""A session's keys are forgotten after two hours without a call."""

_HIDDEN = "[key]"
_KEY = re.compile(r"[!-~]{8,}")
_KEY_LOOKALIKE = re.compile(r"\b(?:sk|pk|rk|gsk|hf|key)[-_][\w*.-]{6,}|\bAIza[\w*.-]{6,}|\bBearer\s+[\w*.-]{8,}")


class Secret:
    """A key that does not show itself. Two secrets are equal only if they are the same object."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """The key itself, for the request that needs it."""
        return self._value

    def __repr__(self) -> str:
        return "Secret()"

    __str__ = __repr__

    def __reduce__(self) -> NoReturn:
        raise TypeError("A key can't be pickled or copied.")


def parse_key(text: str) -> Secret:
    """A key as typed or pasted.

    Raises:
        UsageError: it is no key; the message never repeats what was typed.
    """
    stripped = text.strip()
    if len(stripped) > MAX_KEY_CHARS or not _KEY.fullmatch(stripped):
        raise UsageError(
            f"This does not look like an API key: it must be 8 to {MAX_KEY_CHARS} letters, digits and signs without spaces. Paste it again."
        )
    return Secret(stripped)


def redact(text: str, secret: Secret | None = None) -> str:
    """``text`` without the key, and without anything that looks like one (providers quote keys in part)."""
    if secret is not None and secret.reveal():
        text = text.replace(secret.reveal(), _HIDDEN)
    return _KEY_LOOKALIKE.sub(_HIDDEN, text)


@dataclass(frozen=True, slots=True)
class Credential:
    """A key and whose it is; ``none`` where a generator needs none or there is none."""

    secret: Secret | None
    owner: Literal["visitor", "operator", "none"]


def from_environment(variable: str, env: Mapping[str, str] | None = None) -> Credential:
    """The operator's key, if ``variable`` is set.

    Raises:
        GeneratorError: the variable holds something that can't be a key.
    """
    value = (os.environ if env is None else env).get(variable, "").strip() if variable else ""
    if not value:
        return Credential(None, "none")
    try:
        return Credential(parse_key(value), "operator")
    except UsageError:
        raise GeneratorError(
            f"{variable} does not hold an API key (8 to {MAX_KEY_CHARS} characters, no spaces); set it again."
        ) from None


class SessionKeys:
    """Visitors' keys by session and variable, in this process's memory only.

    Bounded: the session idle for longest goes first, and every session after ``idle_s`` seconds without a call.
    """

    def __init__(
        self,
        *,
        allowed: bool = True,
        idle_s: float = IDLE_S,
        max_sessions: int = MAX_SESSIONS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.allowed = allowed
        self._idle_s, self._max_sessions, self._clock = idle_s, max_sessions, clock
        self._keys: OrderedDict[str, tuple[float, dict[str, Secret]]] = OrderedDict()
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"SessionKeys(sessions={len(self._keys)})"

    def put(self, session: str, variable: str, text: str) -> None:
        """Keep a visitor's key; an empty text forgets it.

        Raises:
            UsageError: visitors' keys are switched off, there is no session, or it is no key.
        """
        if not self.allowed:
            raise UsageError(
                "Own keys are switched off here (FUSEBOX_VISITOR_KEYS=0); choose a generator that needs none."
            )
        if not session or not variable:
            raise UsageError(
                "A key belongs to a session and a generator that needs one; reload the page and choose one."
            )
        secret = parse_key(text) if text.strip() else None
        with self._lock:
            self._expire()
            _, keys = self._keys.pop(session, (0.0, {}))
            keys = {name: kept for name, kept in keys.items() if name != variable}
            if secret is not None:
                keys[variable] = secret
            if keys:
                self._keys[session] = (self._clock(), keys)
            while len(self._keys) > self._max_sessions:
                self._keys.popitem(last=False)

    def get(self, session: str, variable: str) -> Secret | None:
        """The visitor's key, if this session has one."""
        with self._lock:
            self._expire()
            if not self.allowed or session not in self._keys:
                return None
            _, keys = self._keys[session]
            self._keys[session] = (self._clock(), keys)
            self._keys.move_to_end(session)
            return keys.get(variable)

    def forget(self, session: str) -> None:
        """Drop all keys of a session (its page was closed)."""
        with self._lock:
            self._keys.pop(session, None)

    def _expire(self) -> None:
        horizon = self._clock() - self._idle_s
        while self._keys and next(iter(self._keys.values()))[0] < horizon:
            self._keys.popitem(last=False)

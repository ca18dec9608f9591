"""When a failed call is made again, and what the person reads meanwhile and in the end.

A provider's refusal (400, 401, 402, 403, 404, ...) is final; 429 and 5xx are tried again, after the time that the
provider names or with exponential backoff and jitter, as long as the whole stays under ``total_s``. Clock, sleep
and chance are arguments.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from rag.types import Waiting

QUOTE_CHARS = 200


def _now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """At most ``attempts`` calls, and no wait that would end more than ``total_s`` seconds after the first began."""

    attempts: int = 4
    total_s: float = 30.0
    base_s: float = 1.0
    longest_s: float = 8.0
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    chance: Callable[[], float] = random.random

    def wait_s(self, attempt: int, retry_after_s: float | None) -> float:
        """Seconds to wait after the ``attempt``-th call failed (from 1)."""
        if retry_after_s is not None:
            return retry_after_s
        most = min(self.longest_s, self.base_s * 2.0 ** (attempt - 1))
        return most * (0.5 + 0.5 * self.chance())

    def next_wait(self, failure: Failure, attempt: int, began: float) -> float | None:
        """Seconds until the next call, or ``None`` if there is to be none."""
        if not failure.retryable or attempt >= self.attempts:
            return None
        wait = self.wait_s(attempt, failure.retry_after_s)
        return wait if self.clock() - began + wait <= self.total_s else None

    def waiting(self, failure: Failure, attempt: int) -> Waiting:
        """What to show while waiting after the ``attempt``-th call."""
        return Waiting(f"waiting for the provider ({failure.status}), {attempt + 1} of {self.attempts}")


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a call failed. ``cause`` and ``remedy`` are clauses without a full stop; ``status`` is the HTTP status or
    0."""

    cause: str
    remedy: str
    status: int = 0
    retryable: bool = False
    retry_after_s: float | None = None

    def sentence(self, provider: str, calls: int = 1) -> str:
        """Provider, cause, and what to do."""
        tried = f", {calls} times" if calls > 1 else ""
        asked = ""
        if self.retryable and self.retry_after_s is not None and calls == 1:
            asked = f"; it asks to wait {self.retry_after_s:.0f} s"
        return f"{provider} {self.cause}{tried}{asked}. {self.remedy[:1].upper()}{self.remedy[1:]}."


_LATER = "ask again in a while, or choose another generator"

REFUSALS: dict[int, tuple[str, str]] = {
    400: (
        "refused the request",
        "change the question or the settings; if it stays, the model may not take this kind of input",
    ),
    401: ("refused the key", "check {key}"),
    402: ("wants to be paid first: the account has no credit", "top it up, or choose another generator"),
    403: ("does not allow this key to use the model {model}", "use a key that may, or choose another generator"),
    404: ("does not know the model {model} at this address", "check the model's name and the base URL"),
    413: ("finds the request too large", "leave evidence out, or send captions instead of pixels"),
    422: (
        "refused the request",
        "change the question or the settings; if it stays, the model may not take this kind of input",
    ),
    429: ("is limiting requests", _LATER),
}
"""Status -> cause and remedy."""

_QUOTED = frozenset({400, 404, 413, 422})
"""Statuses whose message from the provider is worth quoting; those about keys never are."""


def from_status(
    status: int,
    *,
    model: str,
    key: str,
    message: str = "",
    headers: Mapping[str, str] | None = None,
    exhausted: bool = False,
    now: Callable[[], datetime] = _now,
) -> Failure:
    """The failure that an HTTP status means.

    Args:
        status: the status, 400 or more.
        model: the model asked for.
        key: where the key comes from, as a noun.
        message: the provider's own words, already free of keys.
        headers: the response's; ``Retry-After`` counts.
        exhausted: the provider says that the quota is used up, so that waiting is of no use.
        now: the time by which a date in ``Retry-After`` is measured.
    """
    if exhausted:
        return Failure(
            f"says that the quota is used up ({status})", "top the account up, or choose another generator", status
        )
    server = status >= 500
    cause, remedy = REFUSALS.get(status, ("failed" if server else "refused the request", _LATER))
    cause = f"{cause.format(model=model)} ({status})"
    if message and status in _QUOTED:
        cause += f": {message[:QUOTE_CHARS].rstrip(' .')}"
    retryable = server or status == 429
    after = retry_after_s(headers or {}, now) if retryable else None
    return Failure(cause, remedy.format(key=key), status, retryable, after)


def retry_after_s(headers: Mapping[str, str], now: Callable[[], datetime] = _now) -> float | None:
    """Seconds that ``retry-after-ms`` or ``Retry-After`` (a number or a date) asks for; ``None`` if neither can be
    read."""
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        seconds = _number(headers.get(name, ""))
        if seconds is not None:
            return seconds * unit
    try:
        when = parsedate_to_datetime(headers.get("retry-after", ""))
    except ValueError:
        return None
    # A date without a zone is in UTC (RFC 9110, 5.6.7).
    when = when if when.tzinfo else when.replace(tzinfo=UTC)
    return max(0.0, (when - now()).total_seconds())


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if 0 <= value < float("inf") else None

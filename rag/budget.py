"""Spending caps on the operator's keys: per session and per day (UTC), checked before a call is made.

The dearest that a call can come to is set aside first and put right afterwards, so that calls that run at the same time
can't pass a cap together. Sums live in memory: a restart begins anew.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from datetime import UTC, date, datetime

from rag.errors import GeneratorError

MAX_SESSIONS = 10_000


def _today() -> date:
    return datetime.now(UTC).date()


class Reservation:
    """Money set aside for one call; ``settle`` puts in its place what the call came to. Settling twice counts once."""

    def __init__(self, budget: Budget, session: str, day: date, usd: float) -> None:
        self._budget, self._session, self._day, self._usd = budget, session, day, usd
        self._open = True

    def settle(self, usd: float | None) -> None:
        """The call came to ``usd``; ``None`` (unknown) leaves what was set aside."""
        if self._open:
            self._open = False
            if usd is not None:
                self._budget._add(self._session, self._day, usd - self._usd)


class Budget:
    """What may still be spent.

    Args:
        session_usd: cap per session, ``None`` for none.
        day_usd: cap per day over all sessions, ``None`` for none.
        today: the date by which days are told apart.
    """

    def __init__(
        self, session_usd: float | None = None, day_usd: float | None = None, *, today: Callable[[], date] = _today
    ) -> None:
        self.session_usd, self.day_usd = session_usd, day_usd
        self._today = today
        self._day = today()
        self._day_spent = 0.0
        self._session_spent: OrderedDict[str, float] = OrderedDict()
        self._lock = threading.Lock()

    @property
    def capped(self) -> bool:
        """Whether there is any cap."""
        return self.session_usd is not None or self.day_usd is not None

    def spent(self, session: str) -> tuple[float, float]:
        """USD spent or set aside: in this session, and today."""
        with self._lock:
            self._turn_day()
            return self._session_spent.get(session, 0.0), self._day_spent

    def reserve(self, session: str, usd: float | None, label: str) -> Reservation:
        """Set ``usd`` aside for a call of ``label``.

        Raises:
            GeneratorError: the call could pass a cap, or nobody knows what it costs while there is one.
        """
        if usd is None:
            if self.capped:
                raise GeneratorError(
                    f"{label} was not called: there is a spending cap and what this call costs is not known. Name its prices (0 if it is "
                    "free) and its image-token rule in the file of FUSEBOX_ENDPOINTS, or choose another generator."
                )
            usd = 0.0
        with self._lock:
            self._turn_day()
            mine = self._session_spent.get(session, 0.0)
            self._check("this session", "FUSEBOX_BUDGET_USD_SESSION", mine, usd, self.session_usd, label)
            self._check("today", "FUSEBOX_BUDGET_USD_DAY", self._day_spent, usd, self.day_usd, label)
            self._change(session, usd)
            return Reservation(self, session, self._day, usd)

    @staticmethod
    def _check(period: str, variable: str, spent: float, usd: float, cap: float | None, label: str) -> None:
        # A free call goes through even when nothing is left.
        if cap is not None and usd > 0 and spent + usd > cap:
            raise GeneratorError(
                f"{label} was not called: the call may cost up to ${usd:.4f}, and of the ${cap:.2f} for {period} ({variable}) "
                f"${max(0.0, cap - spent):.4f} is left. Use your own key, or choose the extractive reader."
            )

    def _add(self, session: str, day: date, usd: float) -> None:
        with self._lock:
            self._turn_day()
            if day == self._day:
                self._change(session, usd)
            elif session in self._session_spent:
                self._session_spent[session] += usd

    def _change(self, session: str, usd: float) -> None:
        self._day_spent += usd
        self._session_spent[session] = self._session_spent.pop(session, 0.0) + usd
        while len(self._session_spent) > MAX_SESSIONS:
            self._session_spent.popitem(last=False)

    def _turn_day(self) -> None:
        today = self._today()
        if today != self._day:
            self._day, self._day_spent = today, 0.0

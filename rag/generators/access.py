"""With whose key a session calls a generator, and within which spending cap."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from rag.budget import Budget, Reservation
from rag.generators.retry import RetryPolicy
from rag.generators.spec import Call, GeneratorSpec, Timeouts
from rag.keys import Credential, SessionKeys, from_environment
from rag.settings import Settings
from rag.types import Estimate, PromptImage


@dataclass(frozen=True, slots=True)
class Access:
    """One session's way to the generators; the default is the operator's own, without a cap.

    ``keys`` and ``budget`` are shared by all sessions, ``session`` tells them apart.
    """

    session: str = ""
    keys: SessionKeys | None = None
    budget: Budget | None = None
    policy: RetryPolicy = field(default_factory=RetryPolicy)
    timeouts: Timeouts = field(default_factory=Timeouts)

    @classmethod
    def of(cls, settings: Settings) -> Access:
        """The way as the operator set it up, for no session yet; see ``for_session``."""
        return cls(
            keys=SessionKeys(allowed=settings.visitor_keys),
            budget=Budget(settings.budget_usd_session, settings.budget_usd_day),
        )

    def for_session(self, session: str) -> Access:
        """The same way for one session."""
        return replace(self, session=session)

    def credential(self, spec: GeneratorSpec) -> Credential:
        """The visitor's key if this session has one for ``spec``, else the operator's, else none.

        Raises:
            GeneratorError: the operator's variable holds no key.
        """
        if self.keys is not None and self.session and spec.key_env:
            own = self.keys.get(self.session, spec.key_env)
            if own is not None:
                return Credential(own, "visitor")
        return from_environment(spec.key_env)

    def ready(self, spec: GeneratorSpec) -> bool:
        """Whether ``spec`` can be called now: it needs no key, or there is one."""
        return not spec.key_env or self.credential(spec).secret is not None

    def reserve(self, spec: GeneratorSpec, estimate: Estimate, credential: Credential) -> Reservation | None:
        """Set aside what the call may cost at most; a visitor who pays is not capped.

        Raises:
            GeneratorError: the call could pass a cap.
        """
        if self.budget is None or credential.owner == "visitor":
            return None
        return self.budget.reserve(self.session, estimate.limit_usd, spec.label)

    def call(self, credential: Credential, read_image: Callable[[PromptImage], bytes]) -> Call:
        """How one call with ``credential`` is made."""
        own_keys = self.keys is not None and self.keys.allowed
        return Call(credential, read_image, self.policy, self.timeouts, own_keys)


OPERATOR = Access()

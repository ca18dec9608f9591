"""What a generator is, and what one call of it needs besides the prompt: plain values, no provider's package."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from rag.errors import GeneratorError
from rag.generators.images import ImageLimits
from rag.generators.retry import RetryPolicy
from rag.keys import Credential, from_environment
from rag.types import Generator, PromptImage

Access = Literal["embedded", "open", "closed", "diagnostic"]


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Seconds until a call is given up: to connect, between two pieces of the answer (the first included), in all."""

    connect_s: float = 10.0
    read_s: float = 60.0
    total_s: float = 300.0


def _no_images(image: PromptImage) -> bytes:
    raise GeneratorError(f"The pixels of {image.crop_id} can't be read here: no corpus was given with the prompt.")


@dataclass(frozen=True, slots=True)
class Call:
    """How one call is made. ``credential`` ``None`` means the operator's key from the environment; ``own_keys`` says that
    whoever calls could have entered one on the page."""

    credential: Credential | None = None
    read_image: Callable[[PromptImage], bytes] = _no_images
    policy: RetryPolicy = field(default_factory=RetryPolicy)
    timeouts: Timeouts = field(default_factory=Timeouts)
    own_keys: bool = False


@dataclass(frozen=True, slots=True)
class GeneratorSpec:
    """One generator as the page lists it.

    Prices are USD per million tokens, ``None`` is unknown; ``prices_read`` is the day they were read (ISO) and
    ``prices_source`` where. ``image_rule`` names a rule of ``rag.pricing``, or is empty where none is known.
    ``key_env`` is the variable with the operator's key, empty where no key is needed. ``maker`` builds the generator;
    callers use ``make``.
    """

    name: str
    label: str
    access: Access
    vision: bool
    needs: str
    usd_per_million_input: float | None
    usd_per_million_output: float | None
    maker: Callable[[GeneratorSpec, Call], Generator]
    provider: str = ""
    model: str = ""
    prices_read: str = ""
    prices_source: str = ""
    image_rule: str = ""
    image_limits: ImageLimits = field(default_factory=ImageLimits)
    key_env: str = ""
    base_url: str = ""
    max_output_tokens: int = 512

    def make(self, call: Call | None = None) -> Generator:
        """A generator for one call; nothing is shared between two of them.

        Raises:
            GeneratorError: it needs a key and there is none; names the variable.
        """
        return self.maker(self, call or Call())

    def credential(self, call: Call) -> Credential:
        """The key to use.

        Raises:
            GeneratorError: one is needed and there is none; names the variable.
        """
        found = call.credential if call.credential is not None else from_environment(self.key_env)
        if self.key_env and found.secret is None:
            own = ", or enter your own key on the page" if call.own_keys else ""
            raise GeneratorError(
                f"{self.label} needs a key for {self.provider}: set {self.key_env} where Fusebox runs{own}."
            )
        return found

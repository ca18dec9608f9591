"""What all hosted generators have in common: images, tries, time-outs, and what the end of an answer means.

A ``Wire`` speaks one protocol: it makes one call and gives pieces of text, token counts and the provider's finish
reason. Everything else is here, so that both protocols fail in the same words.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from rag import pricing
from rag.generators import bridge
from rag.generators.images import EncodedImage, encode
from rag.generators.retry import Failure
from rag.generators.spec import Call, GeneratorSpec
from rag.keys import Credential, redact
from rag.types import Delta, Finish, FinishReason, GeneratorEvent, Prompt, Sent, Usage

if TYPE_CHECKING:
    import httpx2

MAX_ANSWER_CHARS = 40_000
"""A server that does not keep to the token limit is cut off here."""

UNKNOWN = Usage(None, None, None, "estimated")


@dataclass(frozen=True, slots=True)
class Ended:
    """The provider's finish reason, in its own word."""

    reason: str


Piece = str | Usage | Ended


class ProtocolError(ValueError):
    """What came is not what the protocol says; the text is a clause for the person."""


class Wire(Protocol):
    """One protocol, for one call with one key."""

    reasons: Mapping[str, FinishReason]
    """The protocol's finish reasons; one that is not in it is an error."""

    @property
    def errors(self) -> tuple[type[Exception], ...]:
        """What a call may raise."""

    def pieces(self, prompt: Prompt, images: tuple[EncodedImage, ...]) -> AsyncGenerator[Piece, None]:
        """Make the call."""

    def failure(self, error: Exception) -> Failure:
        """What an error of ``errors`` means."""


@dataclass(slots=True)
class _Answer:
    """One call's answer as it comes in."""

    text: str = ""
    usage: Usage | None = None
    reason: str | None = None

    def take(self, piece: Piece) -> None:
        match piece:
            case str():
                self.text += piece
            case Usage():
                self.usage = piece
            case Ended(reason):
                self.reason = reason


class RemoteGenerator:
    """A `rag.types.Generator` over a wire. Its ``repr`` shows no key, and it lives for one call."""

    def __init__(self, spec: GeneratorSpec, call: Call, wire: Wire) -> None:
        self._spec, self._call, self._wire = spec, call, wire

    def __repr__(self) -> str:
        return f"RemoteGenerator({self._spec.name!r})"

    def stream(self, prompt: Prompt) -> Iterator[GeneratorEvent]:
        """The answer as it comes; closing the iterator aborts the provider's request.

        Raises:
            GeneratorError: an image can't be read or brought under the provider's limits.
        """
        wanted = prompt.images if self._spec.vision else ()
        images = tuple(encode(i, self._call.read_image(i), self._spec.image_limits) for i in wanted)
        yield Sent(tuple(image.sent for image in images))
        yield from bridge.run(lambda: self._tries(prompt, images))

    async def _tries(self, prompt: Prompt, images: tuple[EncodedImage, ...]) -> AsyncGenerator[GeneratorEvent, None]:
        policy, attempt = self._call.policy, 0
        began = policy.clock()
        while True:
            attempt += 1
            answer, failure = _Answer(), None
            async with contextlib.aclosing(self._once(prompt, images, answer)) as events:
                async for event in events:
                    if isinstance(event, Failure):
                        failure = event
                    else:
                        yield event
            if failure is None:
                yield self._finish(prompt, answer)
                return
            # Once text has been shown, another call would show it twice.
            wait = None if answer.text else policy.next_wait(failure, attempt, began)
            if wait is None:
                yield self._failed(prompt, answer, failure, attempt)
                return
            yield policy.waiting(failure, attempt)
            await policy.sleep(wait)

    async def _once(
        self, prompt: Prompt, images: tuple[EncodedImage, ...], answer: _Answer
    ) -> AsyncGenerator[Delta | Failure, None]:
        """One call. The failure is given on, not raised: an exception would carry the request, and with it the key."""
        total_s, joiner = self._call.timeouts.total_s, SurrogateJoiner()
        failure: Failure | None = None
        try:
            async with asyncio.timeout(total_s), contextlib.aclosing(self._wire.pieces(prompt, images)) as pieces:
                async for piece in pieces:
                    whole = joiner.feed(piece) if isinstance(piece, str) else piece
                    answer.take(whole)
                    if isinstance(whole, str) and whole:
                        yield Delta(whole)
                    if len(answer.text) > MAX_ANSWER_CHARS:
                        answer.reason = "length"
                        break
        except TimeoutError:
            failure = Failure(f"did not finish within {total_s:g} s", "ask again, or choose another generator")
        except self._wire.errors as error:
            failure = self._wire.failure(error)
        if rest := joiner.rest():
            answer.take(rest)
            yield Delta(rest)
        if failure is None and answer.reason is None:
            failure = _BROKEN if answer.text else _SILENT
        if failure is not None:
            yield failure

    def _usage(self, prompt: Prompt, answer: _Answer) -> Usage:
        """As reported; else an estimate, marked as one."""
        if answer.usage is not None:
            return answer.usage
        counter = pricing.default_counter()
        guess = pricing.estimate(prompt, self._spec, counter)
        return Usage(guess.input_tokens, counter(answer.text), None, "estimated")

    def _failed(self, prompt: Prompt, answer: _Answer, failure: Failure, calls: int) -> Finish:
        usage = self._usage(prompt, answer) if answer.text else answer.usage or UNKNOWN
        refused = failure.status >= 300 and not answer.text
        sentence = failure.sentence(self._spec.provider, calls)
        return Finish(usage, "error", sentence, reason=answer.reason or "", refused=refused)

    def _finish(self, prompt: Prompt, answer: _Answer) -> Finish:
        reason, usage = answer.reason or "", self._usage(prompt, answer)
        finish = self._wire.reasons.get(reason)
        provider, empty = self._spec.provider, not answer.text.strip()
        if finish is None:
            return Finish(usage, "error", _ODD_END.format(provider=provider, reason=reason[:60]), reason)
        if finish == "stop" and empty:
            return Finish(usage, "error", _EMPTY.format(provider=provider, reason=reason), reason)
        notice = _NOTICES.get((finish, empty), "").format(
            provider=provider, reason=reason, limit=self._spec.max_output_tokens, thinking=_thinking(usage)
        )
        return Finish(usage, finish, "", reason, notice)


_BROKEN = Failure("broke off in the middle of the answer; what there is of it is partial", "ask again")
_SILENT = Failure("ended the answer before it began", "ask again; if it stays, check the base URL and the server's log")
_EMPTY = "{provider} gave an empty answer ({reason}). Ask again, or choose another generator."
_ODD_END = "{provider} ended the answer for a reason of its own ({reason}). Ask again, or choose another generator."
_NOTICES = {
    ("length", False): "{provider} cut the answer off at the limit of {limit} tokens ({reason}); it is partial.",
    ("length", True): "{provider} reached the limit of {limit} tokens before any answer came ({reason}){thinking}.",
    (
        "content_filter",
        False,
    ): "The content filter of {provider} ended the answer ({reason}); what there is of it is partial.",
    ("content_filter", True): "The content filter of {provider} withheld the answer ({reason}).",
}
"""(finish, whether there is no text) -> what it means for the answer."""


def _thinking(usage: Usage) -> str:
    return f": {usage.reasoning_tokens:,} of them went into thinking" if usage.reasoning_tokens else ""


class SurrogateJoiner:
    """Puts together characters that a provider cut in half: JSON escapes of one character in two chunks."""

    def __init__(self) -> None:
        self._half = ""

    def feed(self, text: str) -> str:
        """``text`` with the half kept from before, without a half at its end."""
        text = self._half + text
        self._half = text[-1:] if "\ud800" <= text[-1:] <= "\udbff" else ""
        return _whole(text[: len(text) - len(self._half)])

    def rest(self) -> str:
        """What a half that was never completed looks like."""
        half, self._half = self._half, ""
        return _whole(half)


def _whole(text: str) -> str:
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


# --- for wires -------------------------------------------------------------------------------------------------------


def http_client(call: Call) -> httpx2.AsyncClient:
    """A client for one call. It follows no redirect: a key goes to the address that was configured and nowhere else."""
    import httpx2

    limits = call.timeouts
    timeout = httpx2.Timeout(limits.read_s, connect=limits.connect_s)
    return httpx2.AsyncClient(timeout=timeout, follow_redirects=False)


def network_failure(error: BaseException | None, call: Call) -> Failure:
    """What an error of the connection means."""
    import httpx2

    match error:
        case httpx2.ConnectTimeout():
            return Failure(f"could not be reached within {call.timeouts.connect_s:g} s", _NETWORK)
        case httpx2.TimeoutException():
            return Failure(f"sent nothing for {call.timeouts.read_s:g} s", "ask again, or choose another generator")
        case httpx2.ConnectError() | httpx2.UnsupportedProtocol() | httpx2.InvalidURL():
            return Failure("could not be reached", _NETWORK)
        case _:
            return Failure("broke the connection off", "ask again; what there is of the answer is partial")


_NETWORK = "check the network and the base URL, or choose another generator"


def not_the_protocol(what: str) -> Failure:
    """The server speaks, but something else."""
    return Failure(
        f"sent something that is not of its protocol ({what})", "check the base URL; if it is right, ask again"
    )


def whose(spec: GeneratorSpec, credential: Credential) -> str:
    """Where the key came from, as a noun for error messages."""
    if credential.owner == "visitor":
        return "the key that you entered"
    return spec.key_env or "whether this server needs a key (key_env in the file of FUSEBOX_ENDPOINTS)"


def clean(message: Any, credential: Credential) -> str:
    """A provider's message on one line, without keys; empty if it is no text."""
    return redact(" ".join(message.split()), credential.secret) if isinstance(message, str) else ""


def token_count(value: Any) -> int | None:
    """A count as reported; anything but a whole number from 0 is unknown."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def runs(prompt: Prompt, with_images: bool) -> Iterator[str | int]:
    """The user message as runs of text with the images, by number, at their place: after the segment that has their
    tag."""
    text, number = "", 0
    for segment in prompt.segments:
        if segment.kind == "image":
            if with_images:
                yield text
                yield number
                text = ""
            number += 1
        elif segment.kind != "instruction":
            text += segment.text
    yield text

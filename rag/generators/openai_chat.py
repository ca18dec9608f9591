"""The OpenAI protocol (chat completions, streamed) through the package ``openai``: OpenAI itself, DeepInfra, any
compatible server.

The package is imported when a call is made, not before.
"""

from __future__ import annotations

import base64
from collections.abc import AsyncGenerator, Mapping
from typing import Any

from rag.generators.images import EncodedImage
from rag.generators.remote import (
    Ended,
    Piece,
    ProtocolError,
    RemoteGenerator,
    clean,
    http_client,
    network_failure,
    not_the_protocol,
    runs,
    token_count,
    whose,
)
from rag.generators.retry import Failure, from_status
from rag.generators.spec import Call, GeneratorSpec
from rag.keys import Credential
from rag.types import FinishReason, Generator, Prompt, Usage

REASONS: dict[str, FinishReason] = {
    "stop": "stop",
    "eos": "stop",
    "length": "length",
    "content_filter": "content_filter",
    "refusal": "content_filter",
}
"""Finish reasons; ``refusal`` is ours, for an answer that came as the protocol's ``refusal``."""

_NO_KEY = "none"
"""The package insists on a key, and takes OPENAI_API_KEY from the environment where it is given none."""


def make(spec: GeneratorSpec, call: Call) -> Generator:
    """A generator for one call.

    Raises:
        GeneratorError: it needs a key and there is none.
    """
    return RemoteGenerator(spec, call, OpenAIWire(spec, call))


class OpenAIWire:
    """One call over the OpenAI protocol."""

    reasons: Mapping[str, FinishReason] = REASONS

    def __init__(self, spec: GeneratorSpec, call: Call) -> None:
        self._spec, self._call = spec, call
        self._credential: Credential = spec.credential(call)

    @property
    def errors(self) -> tuple[type[Exception], ...]:
        """Of the package, of the connection, and of what can't be parsed (a ``ValueError``)."""
        import httpx2
        import openai

        return (openai.OpenAIError, httpx2.HTTPError, httpx2.InvalidURL, ValueError)

    async def pieces(self, prompt: Prompt, images: tuple[EncodedImage, ...]) -> AsyncGenerator[Piece, None]:
        """Make the call."""
        import openai

        secret = self._credential.secret
        # The environment's organisation belongs to the operator's OpenAI account, which this call may have nothing to
        # do with.
        headers: Any = {"OpenAI-Organization": openai.omit, "OpenAI-Project": openai.omit}
        async with (
            http_client(self._call) as http,
            openai.AsyncOpenAI(
                api_key=secret.reveal() if secret else _NO_KEY,
                base_url=self._spec.base_url,
                max_retries=0,
                default_headers=headers,
                http_client=http,
            ) as client,
            await client.chat.completions.create(**self._request(prompt, images)) as stream,
        ):
            _check_content_type(stream.response.headers.get("content-type", ""))
            refused = False
            async for chunk in stream:
                for piece in _read(chunk):
                    if isinstance(piece, _Refusal):
                        refused = True
                        yield piece.text
                    else:
                        yield Ended("refusal") if refused and isinstance(piece, Ended) else piece

    def _request(self, prompt: Prompt, images: tuple[EncodedImage, ...]) -> dict[str, Any]:
        return {
            "model": self._spec.model,
            "messages": [
                {
                    "role": message.role,
                    "content": _content(prompt, images) if message.role == "user" else message.content,
                }
                for message in prompt.messages
            ],
            "temperature": 0,
            "max_tokens": self._spec.max_output_tokens,
            "stream": True,
            "stream_options": {"include_usage": True},
        }

    def failure(self, error: Exception) -> Failure:
        """What an error means."""
        import openai

        match error:
            case openai.APIStatusError():
                return self._refused(error.status_code, error.body, error.message, error.response.headers)
            case openai.APIConnectionError():
                return network_failure(error.__cause__, self._call)
            case openai.APIError():
                return self._refused(_status_of(error.body), error.body, error.message, {})
            case ProtocolError():
                return not_the_protocol(str(error))
            case ValueError():
                return not_the_protocol("broken JSON")
            case _:
                return network_failure(error, self._call)

    def _refused(self, status: int, body: object, message: object, headers: Mapping[str, str]) -> Failure:
        code = body.get("code") if isinstance(body, dict) else None
        said = clean(body.get("message") if isinstance(body, dict) else message, self._credential)
        if not 300 <= status <= 599:
            return Failure(f"reported an error: {said[:200]}" if said else "reported an error", "ask again")
        return from_status(
            status,
            model=self._spec.model,
            key=whose(self._spec, self._credential),
            message=said,
            headers=headers,
            exhausted=code == "insufficient_quota",
        )


def _content(prompt: Prompt, images: tuple[EncodedImage, ...]) -> str | list[dict[str, Any]]:
    """Plain text, or text and images in their order."""
    if not images:
        return "".join(part for part in runs(prompt, with_images=False) if isinstance(part, str))
    return [_part(part, images) for part in runs(prompt, with_images=True) if part != ""]


def _part(part: str | int, images: tuple[EncodedImage, ...]) -> dict[str, Any]:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    return {"type": "image_url", "image_url": _image(images[part])}


def _image(image: EncodedImage) -> dict[str, str]:
    # "high" is what the image-token rules are for; servers that know no detail pass over it.
    data = base64.b64encode(image.data).decode("ascii")
    return {"url": f"data:{image.sent.media_type};base64,{data}", "detail": "high"}


class _Refusal:
    """Text that the protocol marks as a refusal."""

    def __init__(self, text: str) -> None:
        self.text = text


def _check_content_type(content_type: str) -> None:
    kind = content_type.split(";")[0].strip().lower()
    if kind != "text/event-stream":
        raise ProtocolError(f"{kind or 'no content type'} instead of a stream of events")


def _read(chunk: Any) -> list[Piece | _Refusal]:
    """The pieces of one chunk. The package does not validate what it parses, so any shape may come."""
    try:
        pieces: list[Piece | _Refusal] = []
        for choice in (chunk.choices or [])[:1]:
            delta = choice.delta
            for kind, text in ((str, delta and delta.content), (_Refusal, delta and getattr(delta, "refusal", None))):
                if text is not None:
                    pieces.append(kind(_text(text)))
            if choice.finish_reason is not None:
                pieces.append(Ended(_text(choice.finish_reason)))
        if chunk.usage is not None:
            pieces.append(_usage(chunk.usage))
    except (AttributeError, TypeError, KeyError):
        raise ProtocolError("a chunk of another shape") from None
    return pieces


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ProtocolError("a chunk of another shape")
    return value


def _usage(usage: Any) -> Usage:
    details = getattr(usage, "completion_tokens_details", None)
    return Usage(
        token_count(usage.prompt_tokens),
        token_count(usage.completion_tokens),
        token_count(getattr(details, "reasoning_tokens", None)),
        "reported",
    )


def _status_of(body: object) -> int:
    """The HTTP status that an error inside a stream stands for, where it names one."""
    code = body.get("code") if isinstance(body, dict) else None
    try:
        return int(code)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return 0

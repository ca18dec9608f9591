"""Gemini, natively, through the package ``google-genai``. The package is imported when a call is made, not before.

Tokens spent on thinking are billed as output: they are counted in ``output_tokens`` and shown apart as
``reasoning_tokens``.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import AsyncGenerator, Mapping
from typing import TYPE_CHECKING, Any

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

if TYPE_CHECKING:
    import httpx2

REASONS: dict[str, FinishReason] = {
    "STOP": "stop",
    "MAX_TOKENS": "length",
    "CONTINUATION": "length",
    "SAFETY": "content_filter",
    "RECITATION": "content_filter",
    "BLOCKLIST": "content_filter",
    "PROHIBITED_CONTENT": "content_filter",
    "SPII": "content_filter",
    "LANGUAGE": "content_filter",
    "MODEL_ARMOR": "content_filter",
    "ESCALATION": "content_filter",
    "IMAGE_SAFETY": "content_filter",
    "JAILBREAK": "content_filter",
}
"""Finish reasons of a candidate and block reasons of a prompt."""

_RETRY_DELAY = re.compile(r"(\d+(?:\.\d+)?)s")


def make(spec: GeneratorSpec, call: Call) -> Generator:
    """A generator for one call.

    Raises:
        GeneratorError: it needs a key and there is none.
    """
    return RemoteGenerator(spec, call, GeminiWire(spec, call))


class GeminiWire:
    """One call over the Gemini API."""

    reasons: Mapping[str, FinishReason] = REASONS

    def __init__(self, spec: GeneratorSpec, call: Call) -> None:
        self._spec, self._call = spec, call
        self._credential: Credential = spec.credential(call)

    @property
    def errors(self) -> tuple[type[Exception], ...]:
        """Of the package, of the connection, and of what can't be parsed (a ``ValueError``)."""
        import httpx2
        from google.genai import errors

        return (errors.APIError, httpx2.HTTPError, httpx2.InvalidURL, ValueError)

    async def pieces(self, prompt: Prompt, images: tuple[EncodedImage, ...]) -> AsyncGenerator[Piece, None]:
        """Make the call."""
        from google import genai
        from google.genai import types

        async with http_client(self._call) as http:
            _keep_timeouts(http)
            secret = self._credential.secret
            options = types.HttpOptions(base_url=self._spec.base_url, httpx_async_client=http)
            client = genai.Client(api_key=secret.reveal() if secret else "none", vertexai=False, http_options=options)
            chunks: Any = await client.aio.models.generate_content_stream(
                model=self._spec.model, contents=_contents(prompt, images), config=self._config(prompt)
            )
            try:
                async with contextlib.aclosing(chunks):
                    async for chunk in chunks:
                        for piece in _read(chunk):
                            yield piece
            except (TypeError, AttributeError, KeyError):
                # The package reads what comes without checking its shape first.
                raise ProtocolError("a chunk of another shape") from None

    def _config(self, prompt: Prompt) -> Any:
        from google.genai import types

        return types.GenerateContentConfig(
            system_instruction="".join(message.content for message in prompt.messages if message.role == "system"),
            temperature=0,
            max_output_tokens=self._spec.max_output_tokens,
            automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
        )

    def failure(self, error: Exception) -> Failure:
        """What an error means."""
        from google.genai import errors

        match error:
            case errors.APIError():
                return self._refused(error)
            case ProtocolError():
                return not_the_protocol(str(error))
            case ValueError():
                return not_the_protocol("broken JSON or a chunk of another shape")
            case _:
                return network_failure(error, self._call)

    def _refused(self, error: Any) -> Failure:
        status = error.code if isinstance(error.code, int) else 0
        said = clean(error.message, self._credential)
        if not 300 <= status <= 599:
            return Failure(f"reported an error: {said[:200]}" if said else "reported an error", "ask again")
        details = _details(error.details)
        if status == 400 and any(detail.get("reason") == "API_KEY_INVALID" for detail in details):
            # Gemini says 400 where others say 401.
            status = 401
        headers = {**_retry_info(details), **_headers(error.response)}
        return from_status(
            status,
            model=self._spec.model,
            key=whose(self._spec, self._credential),
            message=said,
            headers=headers,
        )


def _keep_timeouts(http: httpx2.AsyncClient) -> None:
    """The package sends every request with ``timeout=None``, which would switch the client's time-outs off."""
    wanted = http.timeout.as_dict()

    async def set_timeouts(request: httpx2.Request) -> None:
        request.extensions["timeout"] = wanted

    http.event_hooks = {"request": [set_timeouts]}


def _contents(prompt: Prompt, images: tuple[EncodedImage, ...]) -> Any:
    from google.genai import types

    parts = [
        types.Part.from_text(text=part)
        if isinstance(part, str)
        else types.Part.from_bytes(data=images[part].data, mime_type=images[part].sent.media_type)
        for part in runs(prompt, with_images=bool(images))
        if part != ""
    ]
    return [types.Content(role="user", parts=parts)]


def _read(chunk: Any) -> list[Piece]:
    """The pieces of one chunk; thoughts are counted and not shown."""
    pieces: list[Piece] = []
    for candidate in (chunk.candidates or [])[:1]:
        for part in (candidate.content.parts if candidate.content else None) or []:
            if part.text and not part.thought:
                pieces.append(part.text)
        if candidate.finish_reason is not None:
            pieces.append(Ended(_word(candidate.finish_reason)))
    if chunk.prompt_feedback is not None and chunk.prompt_feedback.block_reason is not None:
        pieces.append(Ended(_word(chunk.prompt_feedback.block_reason)))
    if chunk.usage_metadata is not None:
        pieces.append(_usage(chunk.usage_metadata))
    return pieces


def _word(reason: Any) -> str:
    return str(getattr(reason, "value", reason))


def _usage(usage: Any) -> Usage:
    answer, thinking = token_count(usage.candidates_token_count), token_count(usage.thoughts_token_count)
    # A count of 0 is left out of the JSON; that both are missing says nothing.
    output = None if answer is None and thinking is None else (answer or 0) + (thinking or 0)
    return Usage(token_count(usage.prompt_token_count), output, thinking, "reported")


def _details(body: Any) -> list[dict[str, Any]]:
    error = body.get("error", body) if isinstance(body, dict) else {}
    details = error.get("details") if isinstance(error, dict) else None
    return [detail for detail in details if isinstance(detail, dict)] if isinstance(details, list) else []


def _retry_info(details: list[dict[str, Any]]) -> dict[str, str]:
    """``google.rpc.RetryInfo``, as the header it stands for."""
    for detail in details:
        found = _RETRY_DELAY.fullmatch(str(detail.get("retryDelay", "")))
        if found:
            return {"retry-after": found.group(1)}
    return {}


def _headers(response: Any) -> dict[str, str]:
    headers = getattr(response, "headers", None)
    return {name.lower(): value for name, value in headers.items()} if headers else {}

"""Chunks of the OpenAI protocol."""

from __future__ import annotations

from typing import Any

from tests.generators.servers.base import Piece, Reply, events, refused, stream

DONE = b"data: [DONE]\n\n"


def chunk(**fields: Any) -> dict[str, Any]:
    return {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [], **fields}


def text(content: str) -> dict[str, Any]:
    return chunk(choices=[{"index": 0, "delta": {"content": content}, "finish_reason": None}])


def end(reason: str = "stop") -> dict[str, Any]:
    return chunk(choices=[{"index": 0, "delta": {}, "finish_reason": reason}])


def usage(prompt: int, completion: int, reasoning: int | None = None) -> dict[str, Any]:
    counts: dict[str, Any] = {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
    }
    if reasoning is not None:
        counts["completion_tokens_details"] = {"reasoning_tokens": reasoning}
    return chunk(usage=counts)


def answer(content: str = "Paris [T1]", reason: str = "stop", counts: dict[str, Any] | None = None) -> Reply:
    """A whole answer in two deltas, the usage in the last chunk."""
    half = len(content) // 2
    return stream(*events(text(content[:half]), text(content[half:]), end(reason), counts or usage(100, 5), end=DONE))


def pieces(*values: Any) -> tuple[Piece, ...]:
    return events(*values)


def error(status: int, message: str = "no", code: str | None = None, **headers: str) -> Reply:
    return refused(status, {"error": {"message": message, "type": "t", "code": code}}, **headers)

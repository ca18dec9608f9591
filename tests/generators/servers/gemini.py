"""Chunks of the Gemini API."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.generators.servers.base import Reply, events, refused, stream


def text(content: str, thought: bool = False, reason: str | None = None) -> dict[str, Any]:
    part: dict[str, Any] = {"text": content}
    if thought:
        part["thought"] = True
    candidate: dict[str, Any] = {"index": 0, "content": {"role": "model", "parts": [part]}}
    if reason:
        candidate["finishReason"] = reason
    return {"candidates": [candidate]}


def end(reason: str = "STOP", counts: dict[str, Any] | None = None) -> dict[str, Any]:
    value: dict[str, Any] = {"candidates": [{"index": 0, "finishReason": reason}]}
    return value | ({"usageMetadata": counts} if counts else {})


def usage(prompt: int, answer: int | None, thoughts: int | None = None) -> dict[str, Any]:
    counts = {"promptTokenCount": prompt, "candidatesTokenCount": answer, "thoughtsTokenCount": thoughts}
    return {name: count for name, count in counts.items() if count is not None}


def answer(content: str = "Paris [T1]", reason: str = "STOP", counts: dict[str, Any] | None = None) -> Reply:
    half = len(content) // 2
    return stream(*events(text(content[:half]), text(content[half:]), end(reason, counts or usage(100, 5))))


def error(
    code: int, message: str = "no", status: str = "X", details: Sequence[dict[str, Any]] = (), **headers: str
) -> Reply:
    body = {"error": {"code": code, "message": message, "status": status, "details": list(details)}}
    return refused(code, body, **headers)

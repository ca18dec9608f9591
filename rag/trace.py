"""Traces as JSON, both ways without loss."""

from __future__ import annotations

import json
from functools import cache

from pydantic import TypeAdapter, ValidationError

from rag.errors import TraceError
from rag.types import Trace

MAX_TRACE_BYTES = 10_000_000

_CHOOSE = "Choose a file saved with 'Download trace'."


@cache
def _adapter() -> TypeAdapter[Trace]:
    return TypeAdapter(Trace)


def dumps(trace: Trace, *, indent: int | None = None) -> str:
    """The trace as a JSON document."""
    return json.dumps(_adapter().dump_python(trace, mode="json"), ensure_ascii=False, indent=indent)


def loads(text: str | bytes) -> Trace:
    """A trace from what ``dumps`` wrote.

    Raises:
        TraceError: too large, no JSON, or not a trace of this version; names the first field that is wrong.
    """
    size = len(text.encode("utf-8", "replace") if isinstance(text, str) else text)
    if size > MAX_TRACE_BYTES:
        raise TraceError(
            f"This file has {size / 1e6:.0f} MB; a trace has at most {MAX_TRACE_BYTES / 1e6:.0f} MB. {_CHOOSE}"
        )
    try:
        trace = _adapter().validate_python(_tuples(json.loads(text)))
    except RecursionError:
        raise TraceError(f"This file is nested too deeply to be a trace. {_CHOOSE}") from None
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "the document"
        raise TraceError(f"This is not a trace: {where}: {first['msg']}. {_CHOOSE}") from None
    except ValueError as error:
        raise TraceError(f"This is not JSON ({error}). {_CHOOSE}") from None
    if trace.format != 1:
        raise TraceError(f"This trace has format {trace.format}; this version reads format 1. Ask the question again.")
    return trace


def _tuples(value: object) -> object:
    """JSON knows only lists; values here are tuples."""
    if isinstance(value, list):
        return tuple(_tuples(v) for v in value)
    if isinstance(value, dict):
        return {k: _tuples(v) for k, v in value.items()}
    return value

"""An asynchronous stream as an ordinary iterator that can be stopped at any moment.

The provider's client runs in a thread with an event loop of its own. Whenever nothing has come for ``TICK_S``, the
iterator gives an empty ``Waiting``, so that whoever reads it gets to act on a Stop even while the provider is silent;
closing the iterator cancels the task, which closes the connection and so aborts the provider's request.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
from collections.abc import AsyncGenerator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait

from rag.types import Finish, GeneratorEvent, Waiting

TICK_S = 0.25

CLOSE_S = 5.0
"""How long closing waits for the connection to be gone; only a hanging name look-up takes longer, and it has no
connection yet."""


class _Producer:
    """The thread that runs the task. ``None`` among the events is the end; ``result`` then raises what went wrong."""

    def __init__(self, source: Callable[[], AsyncGenerator[GeneratorEvent, None]]) -> None:
        self._source = source
        self.events: queue.Queue[GeneratorEvent | None] = queue.Queue()
        self._ready = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="generator")
        self._future = self._pool.submit(self._run)

    def result(self) -> None:
        """Raise what the task raised; that is a bug, since failures of providers are events."""
        self._future.result()

    def close(self, finished: bool) -> None:
        """Cancel the task unless it has ``finished``, and wait until its connection is closed."""
        self._ready.wait()
        if not finished and self._loop is not None and self._task is not None:
            # The loop may have ended by itself just now.
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._task.cancel)
        wait([self._future], CLOSE_S)
        self._pool.shutdown(wait=False)

    def _run(self) -> None:
        try:
            with contextlib.suppress(asyncio.CancelledError):
                asyncio.run(self._main())
        finally:
            self._ready.set()
            self.events.put(None)

    async def _main(self) -> None:
        self._loop, self._task = asyncio.get_running_loop(), asyncio.current_task()
        self._ready.set()
        async with contextlib.aclosing(self._source()) as events:
            async for event in events:
                self.events.put(event)


def run(source: Callable[[], AsyncGenerator[GeneratorEvent, None]], tick_s: float = TICK_S) -> Iterator[GeneratorEvent]:
    """The events of ``source()``, with an empty ``Waiting`` for every ``tick_s`` seconds of silence."""
    producer = _Producer(source)
    finished = False
    try:
        while True:
            try:
                event = producer.events.get(timeout=tick_s)
            except queue.Empty:
                # After the end only the connection is being closed.
                if not finished:
                    yield Waiting()
                continue
            if event is None:
                producer.result()
                return
            finished = isinstance(event, Finish)
            yield event
    finally:
        producer.close(finished)

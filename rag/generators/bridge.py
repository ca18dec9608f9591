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
from dataclasses import dataclass

from rag.types import Finish, GeneratorEvent, Waiting

TICK_S = 0.25

CLOSE_S = 5.0
"""How long closing waits for the connection to be gone; only a hanging name look-up takes longer, and it has no
connection yet."""


@dataclass(frozen=True, slots=True)
class _End:
    """The producer is done; ``error`` is a bug or an interpreter's exit, to be raised where the events are read."""

    error: BaseException | None = None


class _Producer:
    """The thread that runs the task."""

    def __init__(self, source: Callable[[], AsyncGenerator[GeneratorEvent, None]]) -> None:
        self._source = source
        self.events: queue.Queue[GeneratorEvent | _End] = queue.Queue()
        self._ready = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._thread = threading.Thread(target=self._run, name="generator", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def cancel(self) -> None:
        """Cancel the task and wait until its connection is closed."""
        self._ready.wait()
        if self._loop is not None and self._task is not None:
            # The loop may have ended by itself just now.
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._task.cancel)
        self._thread.join(CLOSE_S)

    def _run(self) -> None:
        error: BaseException | None = None
        try:
            asyncio.run(self._main())
        except asyncio.CancelledError:
            pass
        except BaseException as raised:  # noqa: BLE001 - handed to the reader's thread, which raises it
            error = raised
        finally:
            self._ready.set()
            self.events.put(_End(error))

    async def _main(self) -> None:
        self._loop, self._task = asyncio.get_running_loop(), asyncio.current_task()
        self._ready.set()
        async with contextlib.aclosing(self._source()) as events:
            async for event in events:
                self.events.put(event)


def run(source: Callable[[], AsyncGenerator[GeneratorEvent, None]], tick_s: float = TICK_S) -> Iterator[GeneratorEvent]:
    """The events of ``source()``, with an empty ``Waiting`` for every ``tick_s`` seconds of silence."""
    producer = _Producer(source)
    producer.start()
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
            if isinstance(event, _End):
                if event.error is not None:
                    raise event.error
                return
            finished = isinstance(event, Finish)
            yield event
    finally:
        producer.cancel()

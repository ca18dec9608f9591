"""Pages read by processes of their own: one that hangs or kills its process costs itself alone."""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from itertools import chain, islice
from multiprocessing.connection import Connection
from typing import TypeVar

from pebble import ProcessExpired, ProcessPool

from rag.errors import DocumentError
from rag.ingest.limits import VARIABLES
from rag.ingest.pages import PageTask, Rows, read_task

T = TypeVar("T")
R = TypeVar("R")
Read = Callable[[PageTask], "Rows | str"]
Item = PageTask | Rows

AHEAD = 8
"""Pages a worker that may be handed out before the first of them is done, so that results don't pile up."""
_SPAWN = multiprocessing.get_context("spawn")  # threads of onnxruntime and faiss don't survive a fork
_LOOK_SECONDS = 0.2


def in_order(
    items: Iterable[Item],
    workers: int,
    seconds: int | None = None,
    look: Callable[[], None] = lambda: None,
    read: Read = read_task,
) -> Generator[tuple[Item, Rows | str], None, None]:
    """Every item with its rows, or with the sentence that says why there are none, in order; what is rows already goes
    through. ``seconds`` is the time for one page. ``look`` is called several times a second; what it raises ends the work."""
    source, pending = iter(items), deque[Item]()
    while True:
        with _pool(workers) as pool:
            try:
                ahead = _ahead(pool, chain(tuple(pending), _noted(source, pending)), workers, seconds, look, read)
                for item, result in ahead:
                    yield item, result
                    pending.popleft()
                return
            except BrokenProcessPool:  # a process died that fast that nobody knows over which page
                pass
        if pending:
            yield pending[0], _alone(pending.popleft(), seconds, read)


def _alone(item: Item, seconds: int | None, read: Read) -> Rows | str:
    """The item in a pool of its own, so that it is known what a death is due to."""
    if isinstance(item, Rows):
        return item
    with _pool(1) as pool:
        try:
            return _result(_scheduled(pool, read, item, seconds), item, seconds)
        except BrokenProcessPool:
            return _died(item)


def mapped(
    function: Callable[[T], R], items: Iterable[T], workers: int, look: Callable[[], None] = lambda: None
) -> Generator[R, None, None]:
    """``function`` of every item, in order, in processes of their own; a few items are handed out ahead.

    Raises:
        DocumentError: a process died over an item.
    """
    source = iter(items)
    with _pool(workers) as pool:
        waiting = deque(_scheduled(pool, function, item) for item in islice(source, 2 * workers))
        while waiting:
            future = waiting.popleft()
            while not wait((future,), _LOOK_SECONDS).done:
                look()
            try:
                result = future.result()
                waiting.extend(_scheduled(pool, function, item) for item in islice(source, 1))
            except (ProcessExpired, BrokenProcessPool) as error:
                raise DocumentError(f"A process that was at work ended ({error}); is there memory for it?") from error
            yield result


def _noted(source: Iterator[Item], pending: deque[Item]) -> Iterator[Item]:
    for item in source:
        pending.append(item)
        yield item


def _ahead(
    pool: ProcessPool, items: Iterator[Item], workers: int, seconds: int | None, look: Callable[[], None], read: Read
) -> Iterator[tuple[Item, Rows | str]]:
    waiting: deque[tuple[Item, Future[Rows | str] | None]] = deque()

    def hand_out(count: int) -> None:
        for item in islice(items, count):
            task = _scheduled(pool, read, item, seconds) if isinstance(item, PageTask) else None
            waiting.append((item, task))

    hand_out(AHEAD * workers)
    while waiting:
        item, future = waiting[0]
        if future is None:
            assert isinstance(item, Rows)
            result: Rows | str = item
        else:
            while not wait((future,), _LOOK_SECONDS).done:
                look()
            result = _result(future, item, seconds)
        waiting.popleft()
        look()
        yield item, result
        hand_out(1)


def _result(future: Future[Rows | str], item: Item, seconds: int | None) -> Rows | str:
    assert isinstance(item, PageTask)
    try:
        return future.result()
    except TimeoutError:
        limit = VARIABLES["page_seconds"]
        return f"page {item.number} of {item.document} took longer than {seconds} s and was left out ({limit})."
    except ProcessExpired:
        return _died(item)


def _died(item: PageTask) -> str:
    return f"page {item.number} of {item.document} could not be read (its reader died) and was left out."


def _scheduled(pool: ProcessPool, function: Callable[[T], R], item: T, seconds: int | None = None) -> Future[R]:
    try:
        with uninterrupted():
            future: Future[R] = pool.schedule(function, (item,), timeout=seconds)
    except RuntimeError as error:  # the pool's word for the same
        raise BrokenProcessPool(str(error)) from error
    return future


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Ctrl-C and SIGTERM wait for the end of this block. Their handlers raise wherever the main thread is; raised while it wakes the
    thread that waits at a queue, that thread is woken no more and the pool never ends. Other threads are not interrupted anyway."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    arrived: list[int] = []
    found = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    handlers = {number: handler for number, handler in found.items() if handler is not None}  # None: not set by Python
    try:
        for number in handlers:
            signal.signal(number, lambda number, _: arrived.append(number))
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        for late in arrived:
            signal.raise_signal(late)


@contextmanager
def _pool(workers: int) -> Iterator[ProcessPool]:
    """Worker processes that end with this block, however it is left, and with this process."""
    lifeline, end = _SPAWN.Pipe(duplex=False)
    pool = ProcessPool(workers, context=_SPAWN, initializer=_start, initargs=(lifeline,))
    try:
        yield pool
    finally:
        end.close()
        pool.stop()  # type: ignore[no-untyped-call]
        pool.join()
        lifeline.close()


def _start(lifeline: Connection) -> None:
    _watch(lifeline)
    _take_one_thread()


def _take_one_thread() -> None:
    """Models run on one thread: pages are parallel by process, and threads that spin while they wait for each other take
    the time of the next page (0.27 s of processor time a page, and 0.47 s with the threads). The layout packages make
    their sessions themselves and have no setting for it."""
    import onnxruntime

    class OneThread(onnxruntime.SessionOptions):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.intra_op_num_threads = self.inter_op_num_threads = 1

    onnxruntime.SessionOptions = OneThread


def _watch(lifeline: Connection) -> None:
    """End this worker as soon as the other end of `lifeline` is closed: the run has been stopped, or its process is
    gone. A thread waits for it, as the worker itself may be busy or waiting for work."""

    def wait_for_the_end() -> None:
        multiprocessing.connection.wait([lifeline])
        os._exit(1)

    threading.Thread(target=wait_for_the_end, daemon=True).start()

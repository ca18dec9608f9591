"""Pages read by processes of their own."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator

import pytest

from rag.errors import DocumentError, Stopped
from rag.ingest.pages import PageTask, Rows
from rag.ingest.workers import Item, in_order, mapped, uninterrupted
from rag.types import Page


def task(number: int) -> PageTask:
    return PageTask("pdf", "d.pdf", "d.pdf", "d", number, f"d_p{number:03d}", "")


def rows(number: int) -> Rows:
    return Rows(Page(f"d_p{number:03d}", "d", number, 1.0, 1.0, ""))


def read_or_die(page: PageTask) -> Rows | str:
    """A reader that dies at page 6, as a decoder that runs out of memory would, and refuses page 8."""
    if page.number == 6:
        os._exit(9)
    return "page 8 is torn" if page.number == 8 else rows(page.number)


def read_or_hang(page: PageTask) -> Rows | str:
    """A reader that never comes to an end with page 2."""
    if page.number == 2:
        threading.Event().wait()
    return rows(page.number)


def die(page: PageTask) -> Rows | str:
    os._exit(9)


def test_pages_come_in_order_and_one_that_kills_its_reader_is_left_out_alone() -> None:
    results = list(in_order(map(task, range(1, 13)), 2, read=read_or_die))
    assert [item for item, _ in results] == [task(number) for number in range(1, 13)]
    assert [r if isinstance(r, str) else r.page.number for _, r in results] == [
        *range(1, 6),
        "page 6 of d could not be read (its reader died) and was left out.",
        7,
        "page 8 is torn",
        *range(9, 13),
    ]


def test_a_page_that_takes_too_long_is_left_out_alone() -> None:
    # Two seconds are for the page that hangs; the others take none.
    results = [result for _, result in in_order(map(task, range(1, 5)), 2, seconds=2, read=read_or_hang)]
    assert results[1] == "page 2 of d took longer than 2 s and was left out (FUSEBOX_PAGE_SECONDS)."
    assert [result.page.number for result in results if isinstance(result, Rows)] == [1, 3, 4]


def test_pages_that_are_rows_already_keep_their_place() -> None:
    items: list[Item] = [rows(1), task(2), rows(3)]
    assert [result for _, result in in_order(items, 1, read=read_or_die)] == [rows(1), rows(2), rows(3)]


def test_what_the_look_raises_ends_the_work_though_a_page_hangs() -> None:
    looks = 0

    def look() -> None:
        nonlocal looks
        looks += 1
        if looks > 3:
            raise Stopped("enough")

    with pytest.raises(Stopped, match="enough"):
        list(in_order([task(2)], 1, look=look, read=read_or_hang))


def test_a_stream_is_not_read_far_ahead() -> None:
    handed_out = 0

    def stream() -> Iterator[Item]:
        nonlocal handed_out
        for number in range(9, 1009):
            handed_out += 1
            yield task(number)

    results = in_order(stream(), 1, read=read_or_die)
    for _ in range(3):
        next(results)
    results.close()
    assert handed_out < 20


def test_readers_that_all_die_cost_their_pages_each() -> None:
    results = [result for _, result in in_order(map(task, range(1, 4)), 1, read=die)]
    assert results == [f"page {n} of d could not be read (its reader died) and was left out." for n in (1, 2, 3)]


def double_or_die(number: int) -> int:
    if number < 0:
        os._exit(9)
    return 2 * number


def test_items_are_mapped_in_order_and_a_death_is_an_error() -> None:
    assert list(mapped(double_or_die, range(9), 2)) == list(range(0, 18, 2))
    with pytest.raises(DocumentError, match="process that was at work ended"):
        list(mapped(double_or_die, (1, -1), 1))


def test_a_signal_waits_for_what_must_not_be_interrupted() -> None:
    before = signal.getsignal(signal.SIGINT)
    passed = []
    with pytest.raises(KeyboardInterrupt), uninterrupted():
        signal.raise_signal(signal.SIGINT)
        passed.append("to the end")
    assert passed == ["to the end"] and signal.getsignal(signal.SIGINT) is before


def test_in_another_thread_nothing_is_put_off() -> None:
    handlers = []

    def work() -> None:
        with uninterrupted():
            handlers.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert handlers == [signal.getsignal(signal.SIGINT)]

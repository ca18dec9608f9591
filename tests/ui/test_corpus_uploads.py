"""The way in for documents: what is taken, what is refused, and that a name is never a path."""

from __future__ import annotations

import asyncio
import tempfile
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from rag.errors import UsageError
from rag.ingest.limits import Limits
from rag.keys import SessionKeys
from ui import uploads as module
from ui.keydesk import COOKIE, KeyDesk
from ui.uploads import UPLOAD_URL, Line, Uploads, shown_name

PDF = b"%PDF-1.7 or so"


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where uploads go."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def opened(**options: object) -> Uploads:
    limits = Limits(**{"files": 3, "mb": 1, **options})  # type: ignore[arg-type]
    return Uploads(KeyDesk(SessionKeys(), ()), limits)


def client(uploads: Uploads) -> TestClient:
    return TestClient(Starlette(routes=[uploads.route()]))


def headers(name: str = "a.pdf", session: str = "s1", **more: str) -> dict[str, str]:
    usual = {"content-type": "application/octet-stream", "x-fusebox-session": session, "x-fusebox-name": quote(name)}
    return usual | {key.replace("_", "-"): value for key, value in more.items()}


def left(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def test_files_come_in_under_numbers_and_keep_their_names_as_titles() -> None:
    uploads = opened()
    browser = client(uploads)
    names = ("../../x.pdf", "C:\\docs\\<b>é.PNG", "x" * 300 + ".pdf")
    for count, name in enumerate(names, start=1):
        reply = browser.post(UPLOAD_URL, content=PDF, headers=headers(name))
        assert (reply.status_code, reply.json()) == (200, {"files": count})
        assert reply.headers["cache-control"] == "no-store"
    batch = uploads.hand_over("s1")
    batch.describe()
    assert sorted(f.name for f in batch.files.iterdir()) == [
        "document01.pdf", "document02.png", "document03.pdf", "documents.json",
    ]  # fmt: skip
    assert list(batch.names.values())[:2] == ["x.pdf", "<b>é.PNG"] and len(batch.names["document03"]) <= 120
    assert batch.named("document01.pdf is bad, page 2 of document02 too") == "x.pdf is bad, page 2 of <b>é.PNG too"
    assert batch.named(f"No text in {batch.files / 'document01.pdf'}.") == "No text in x.pdf."
    assert (batch.files / "document01.pdf").read_bytes() == PDF
    uploads.release("s1", batch)
    assert not batch.folder.exists()


def test_a_new_selection_replaces_what_was_sent_before(temporary: Path) -> None:
    uploads = opened()
    browser = client(uploads)
    browser.post(UPLOAD_URL, content=PDF, headers=headers("old.pdf"))
    browser.post(UPLOAD_URL, content=PDF, headers=headers("new.pdf", x_fusebox_first="1"))
    assert len(left(temporary)) == 1
    assert list(uploads.hand_over("s1").names.values()) == ["new.pdf"]


@pytest.mark.parametrize(
    ("sent", "content", "says"),
    [
        (headers(sec_fetch_site="cross-site"), PDF, "own page only"),
        (headers(origin="https://elsewhere.example"), PDF, "own page only"),
        (headers(content_type="multipart/form-data"), PDF, "not one of Fusebox's page"),
        (headers(session=""), PDF, "not one of Fusebox's page"),
        (headers(session="x" * 65), PDF, "not one of Fusebox's page"),
        (headers(content_length="5"), PDF, "not one of Fusebox's page"),
        (headers(content_length="99"), PDF, "cut off"),
        (headers("notes.docx"), PDF, "notes.docx is no PDF, PNG, JPEG or TIFF"),
        (headers("<img src=x>"), PDF, "is no PDF"),
        (headers("empty.pdf"), b"", "empty.pdf is empty"),
        (headers("large.pdf"), b"x" * 1_000_001, "large.pdf: all files together may have 1 MB (FUSEBOX_MAX_MB)"),
    ],
)
def test_what_is_refused_says_why_and_leaves_nothing(
    sent: dict[str, str], content: bytes, says: str, temporary: Path
) -> None:
    uploads = opened()
    reply = client(uploads).post(UPLOAD_URL, content=content, headers=sent)
    assert reply.status_code == 400 and says in reply.json()["error"]
    assert left(temporary) == []
    with pytest.raises(UsageError, match="no documents"):
        uploads.hand_over("s1")


def test_files_and_bytes_are_counted_over_all_files(temporary: Path) -> None:
    browser = client(opened(files=2))
    assert browser.post(UPLOAD_URL, content=b"x" * 600_000, headers=headers("1.pdf")).status_code == 200
    reply = browser.post(UPLOAD_URL, content=b"x" * 600_000, headers=headers("2.pdf"))
    assert "2.pdf: all files together" in reply.json()["error"] and left(temporary) == []
    for name in ("1.pdf", "2.pdf"):
        assert browser.post(UPLOAD_URL, content=PDF, headers=headers(name)).status_code == 200
    reply = browser.post(UPLOAD_URL, content=PDF, headers=headers("3.pdf"))
    assert "3.pdf: at most 2 files are taken (FUSEBOX_MAX_FILES)" in reply.json()["error"]


def test_a_session_belongs_to_the_browser_that_sent_first() -> None:
    uploads = opened()
    mine = client(uploads)
    assert COOKIE in mine.post(UPLOAD_URL, content=PDF, headers=headers()).headers["set-cookie"]
    assert mine.post(UPLOAD_URL, content=PDF, headers=headers()).json() == {"files": 2}
    reply = client(uploads).post(UPLOAD_URL, content=PDF, headers=headers())
    assert "belongs to another browser" in reply.json()["error"]
    assert len(uploads.hand_over("s1").names) == 2


def test_switched_off_nothing_is_taken(temporary: Path) -> None:
    uploads = Uploads(KeyDesk(SessionKeys(), ()), Limits(), allowed=False)
    reply = client(uploads).post(UPLOAD_URL, content=PDF, headers=headers())
    assert "switched adding documents off" in reply.json()["error"] and left(temporary) == []


def test_so_many_sessions_have_documents_at_a_time() -> None:
    uploads = opened()
    for n in range(module.MAX_SESSIONS):
        assert client(uploads).post(UPLOAD_URL, content=PDF, headers=headers(session=f"s{n}")).status_code == 200
    batch = uploads.hand_over("s0")  # what a corpus is made of still counts
    late = client(uploads)
    reply = late.post(UPLOAD_URL, content=PDF, headers=headers(session="one more"))
    assert "Too many visitors" in reply.json()["error"]
    uploads.release("s0", batch)
    # The same browser again: the refusal bound the session to it, and nobody else.
    assert late.post(UPLOAD_URL, content=PDF, headers=headers(session="one more")).status_code == 200


class Clock:
    """Time that passes when it is told to."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def timed() -> tuple[Uploads, Clock]:
    clock = Clock()
    return Uploads(KeyDesk(SessionKeys(), (), clock), Limits(files=3, mb=1), clock=clock), clock


def sent_by(uploads: Uploads, session: str, address: str = "") -> httpx.Response:
    sent = headers(session=session) | ({"x-forwarded-for": address} if address else {})
    browser = client(uploads)
    browser.cookies.set(COOKIE, f"cookie of {session}".replace(" ", "-"))
    return browser.post(UPLOAD_URL, content=PDF, headers=sent)


def test_what_was_left_lying_makes_room_for_a_newcomer(temporary: Path) -> None:
    """Twenty requests without a page behind them, and then a visitor."""
    uploads, clock = timed()
    for n in range(module.MAX_SESSIONS):
        assert sent_by(uploads, f"s{n}").status_code == 200
        clock.now += 0.01
    assert "Too many visitors" in sent_by(uploads, "visitor").json()["error"]
    clock.now = module.ABANDONED_S + 0.005
    assert sent_by(uploads, "visitor").status_code == 200
    assert "Too many visitors" in sent_by(uploads, "another").json()["error"]  # s1 is not idle for that long yet
    with pytest.raises(UsageError, match="no documents"):
        uploads.hand_over("s0")
    assert uploads.hand_over("s1") and uploads.hand_over("visitor")
    assert len(left(temporary)) == module.MAX_SESSIONS


def test_one_address_has_so_many_places_and_the_others_the_rest() -> None:
    uploads, clock = timed()
    for n in range(module.MAX_PER_ADDRESS):
        assert sent_by(uploads, f"s{n}", "203.0.113.5" if n % 2 else "8.8.8.8").status_code == 200
    for n in range(module.MAX_PER_ADDRESS):
        assert sent_by(uploads, f"t{n}", "1.1.1.1").status_code == 200
    assert "5 other windows of your network" in sent_by(uploads, "t", "1.1.1.1").json()["error"]
    assert sent_by(uploads, "elsewhere", "9.9.9.9").status_code == 200
    clock.now = module.ABANDONED_S
    assert sent_by(uploads, "t", "1.1.1.1").status_code == 200
    with pytest.raises(UsageError, match="no documents"):
        uploads.hand_over("t0")
    assert uploads.hand_over("s0")  # older, and somebody else's


def test_corpora_nobody_used_for_long_make_room_and_those_in_use_do_not() -> None:
    uploads, clock = timed()
    held = {}
    for n in range(module.MAX_SESSIONS):
        sent_by(uploads, f"s{n}")
        held[f"s{n}"] = uploads.hand_over(f"s{n}")
        clock.now += 0.01
    asked: list[str] = []

    def crowded_out(session: str) -> None:
        asked.append(session)
        if session != "s0":  # whose corpus is just being made
            uploads.release(session, held[session])

    uploads.crowded_out = crowded_out
    clock.now = module.DESK_IDLE_S - 1
    assert "Too many visitors" in sent_by(uploads, "visitor").json()["error"] and asked == []
    clock.now = module.DESK_IDLE_S + 1
    assert sent_by(uploads, "visitor").status_code == 200
    assert asked == ["s0", "s1"]
    assert held["s0"].folder.exists() and not held["s1"].folder.exists() and held["s2"].folder.exists()


def test_an_upload_that_says_nothing_gives_its_place_up(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SILENT_S", 0.05)
    uploads = opened()

    async def begun() -> httpx.Response:
        async def one_piece() -> AsyncIterator[bytes]:
            yield PDF[:5]
            await asyncio.Event().wait()

        transport = httpx.ASGITransport(Starlette(routes=[uploads.route()]))
        async with httpx.AsyncClient(transport=transport, base_url="http://here") as browser:
            return await browser.post(UPLOAD_URL, content=one_piece(), headers=headers(content_length=str(len(PDF))))

    reply = run(begun())
    assert reply.status_code == 400 and "came too slowly" in reply.json()["error"]
    assert left(temporary) == []
    with pytest.raises(UsageError, match="no documents"):
        uploads.hand_over("s1")


def test_files_of_which_nothing_is_made_go(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = threading.Event()
    real = module._delete
    monkeypatch.setattr(module, "IDLE_S", 0)
    monkeypatch.setattr(module, "_delete", lambda batch: (real(batch), gone.set()))
    uploads = opened()
    client(uploads).post(UPLOAD_URL, content=PDF, headers=headers())
    assert gone.wait(30)
    assert left(temporary) == []


async def sent_in_halves(uploads: Uploads, meanwhile: Callable[[], object]) -> httpx.Response:
    """The reply to a file, between whose halves something happens."""

    async def halves() -> AsyncIterator[bytes]:
        yield PDF[:5]
        meanwhile()
        yield PDF[5:]

    transport = httpx.ASGITransport(Starlette(routes=[uploads.route()]))
    async with httpx.AsyncClient(transport=transport, base_url="http://here") as browser:
        sent = headers(content_length=str(len(PDF)))
        return await browser.post(UPLOAD_URL, content=halves(), headers=sent)


def run(work: Coroutine[Any, Any, Any]) -> Any:
    """In a thread of its own: the browser tests leave an event loop running in this one."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, work).result()


def test_a_file_whose_batch_was_deleted_is_not_received_further(temporary: Path) -> None:
    uploads = opened()
    reply = run(sent_in_halves(uploads, lambda: uploads.forget("s1")))
    assert reply.status_code == 400 and "cut off" in reply.json()["error"]
    assert left(temporary) == []


def test_what_a_corpus_is_made_of_is_not_deleted_by_a_late_file() -> None:
    uploads = opened()
    batches: list[module.Batch] = []
    reply = run(sent_in_halves(uploads, lambda: batches.append(uploads.hand_over("s1"))))
    assert reply.status_code == 400
    assert batches[0].folder.is_dir()


def test_a_file_that_never_ends_is_given_up(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RECEIVE_S", 0)
    reply = client(opened()).post(UPLOAD_URL, content=PDF, headers=headers())
    assert reply.status_code == 400 and "too slowly" in reply.json()["error"]
    assert left(temporary) == []


def test_folders_of_processes_that_were_killed_are_removed(temporary: Path) -> None:
    dead = temporary / f"{module._PREFIX}.{2**22 + 1}.x"
    alive = temporary / f"{module._PREFIX}.1.x"
    for folder in (dead, alive):
        folder.mkdir()
    client(opened()).post(UPLOAD_URL, content=PDF, headers=headers())
    assert not dead.exists() and alive.exists()


def test_one_builds_and_the_others_wait_in_order() -> None:
    line = Line()
    first, second, third = object(), object(), object()
    for ticket in (first, second, third):
        line.join(ticket)
    assert [line.ahead(ticket) for ticket in (first, second, third)] == [0, 1, 2]
    line.leave(second)  # gave up
    assert [line.ahead(ticket) for ticket in (first, third)] == [0, 1]
    line.leave(first)
    assert line.ahead(third, wait_s=30) == 0


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("", "document"),
        ("/", "document"),
        ("a\x00b\n.pdf", "a b .pdf"),
        ("\ud800.pdf", "\N{REPLACEMENT CHARACTER}.pdf"),
    ],
)
def test_names_as_headings(name: str, shown: str) -> None:
    assert shown_name(name) == shown

"""What models replied, kept by the digest of what they were asked about, so that nothing is paid for twice.

One SQLite file; every reply is committed on its own, so that a kill at any moment loses none. It holds no key and no
document, but what models wrote about documents.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from rag.errors import UsageError

FILE = "replies.sqlite"
_TABLE = """CREATE TABLE IF NOT EXISTS replies (
    task TEXT, model TEXT, digest TEXT, reply TEXT NOT NULL, PRIMARY KEY (task, model, digest)) WITHOUT ROWID"""
_WAIT_S = 30.0
"""For another process that writes."""


class Replies:
    """The replies kept in a folder; to be used by several threads at once, and by several processes.

    Raises:
        UsageError: the folder can't be written, or the file is damaged. So does every method.
    """

    def __init__(self, folder: Path) -> None:
        self._file = folder / FILE
        self._lock = threading.Lock()
        with self._told():
            self._file = folder.expanduser() / FILE
            self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            # Autocommit; the lock is ours.
            self._connection = sqlite3.connect(self._file, _WAIT_S, isolation_level=None, check_same_thread=False)
        try:
            with self._told():
                self._connection.execute("PRAGMA journal_mode=WAL")
                self._connection.execute(_TABLE)
        except UsageError:
            self._connection.close()
            raise

    def get(self, task: str, model: str, digest: str) -> str | None:
        """The reply of ``model`` to ``task`` on the item with this digest, or ``None``."""
        query = "SELECT reply FROM replies WHERE task = ? AND model = ? AND digest = ?"
        with self._lock, self._told(), closing(self._connection.execute(query, (task, model, digest))) as rows:
            row = rows.fetchone()
        return None if row is None else str(row[0])

    def add(self, task: str, model: str, digest: str, reply: str) -> None:
        """Keep a reply, in the place of an older one."""
        text = reply.encode("utf-8", "replace").decode()
        with self._lock, self._told():
            self._connection.execute("INSERT OR REPLACE INTO replies VALUES (?, ?, ?, ?)", (task, model, digest, text))

    def close(self) -> None:
        """Let go of the file."""
        with self._lock:
            self._connection.close()

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.DatabaseError as error:
            raise UsageError(
                f"The models' replies can't be kept in {self._file} ({error}). Set FUSEBOX_CACHE to another folder; a damaged file can "
                "be removed, its replies are then asked for again."
            ) from error
        except (OSError, RuntimeError) as error:  # RuntimeError: there is no home folder
            reason = getattr(error, "strerror", None) or error
            raise UsageError(
                f"{self._file.parent} can't be written ({reason}); set FUSEBOX_CACHE to a folder that can."
            ) from error

"""The folder in which a corpus is made, beside the one it will take the place of: found again after a kill, and with a
journal of what is finished."""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from rag.corpus import check_target
from rag.errors import DocumentError, Stopped, UsageError

_DIGEST = "sources.sha256"
_open: set[Path] = set()
"""Stages of this very process: its number alone doesn't tell them from those of a dead one that had the same."""


def target(given: Path, overwrite: bool) -> Path:
    """The corpus folder in full, with its parent made. What fails here would else fail after all the work.

    Raises:
        UsageError: it can't be written.
        CorpusError: it is taken.
    """
    try:
        out = given.resolve()
        check_target(out, overwrite)
        if out.is_mount():
            raise UsageError(f"{given} is a mount point and can't be replaced; give a folder inside it with --out.")
        out.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=_prefix(out), dir=out.parent):
            return out
    except (FileExistsError, NotADirectoryError) as error:
        raise UsageError(f"{given} lies under a file, not a folder; give another folder with --out.") from error
    except (OSError, RuntimeError, ValueError) as error:  # resolve: RuntimeError for a loop of links
        reason = getattr(error, "strerror", None) or error
        raise UsageError(f"{shortened(str(given))} can't be written ({reason}); give another with --out.") from error


def shortened(text: str, length: int = 100) -> str:
    """At most ``length`` characters of it, for a message."""
    return text if len(text) <= length else f"{text[: length - 3]}..."


@contextmanager
def stage(out: Path, digest: str, resume: bool) -> Iterator[Path]:
    """A folder to work in. With ``resume`` it is the one that a killed run with the same ``digest`` (of sources and options)
    left, where there is one; and it stays, should this run be cut off as well. Other stages of dead runs are removed.

    Yields:
        The folder; it is removed at the end.
    """
    folder = _left_behind(out, digest) if resume else None
    for other, process in _stages(out):
        if other != folder and not _runs(other, process):
            shutil.rmtree(other, ignore_errors=True)
    if folder is None:
        folder = Path(tempfile.mkdtemp(prefix=_prefix(out), dir=out.parent))
        (folder / _DIGEST).write_text(digest)
    else:
        folder = folder.rename(out.parent / f"{_prefix(out)}{folder.name.rpartition('.')[2]}")
    _open.add(folder)
    keep = resume
    try:
        yield folder
        keep = False
    except (DocumentError, Stopped):  # nothing to go on with; told to leave nothing
        keep = False
        raise
    finally:
        _open.discard(folder)
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)


def _prefix(out: Path) -> str:
    return f".{out.name}.stage.{os.getpid()}."


def _stages(out: Path) -> list[tuple[Path, int]]:
    pattern = re.compile(rf"\.{re.escape(out.name)}\.stage\.(\d+)\.\w+")
    matches = ((folder, pattern.fullmatch(folder.name)) for folder in sorted(out.parent.iterdir()))
    return [(folder, int(match[1])) for folder, match in matches if match]


def _left_behind(out: Path, digest: str) -> Path | None:
    for folder, process in _stages(out):
        try:
            if not _runs(folder, process) and (folder / _DIGEST).read_text() == digest:
                return folder
        except (OSError, ValueError):
            continue
    return None


def _runs(folder: Path, process: int) -> bool:
    return folder in _open if process == os.getpid() else is_running(process)


def is_running(process: int) -> bool:
    """Whether there is a process of this number."""
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:  # another person's
        return True
    return True


class Journal:
    """Tables that grow entry by entry. An entry counts once its line is in the journal; what a killed run wrote to the
    tables behind the last entry is cut off when they are opened again.

    Entries are flat JSON objects; ``entries`` are those found at opening."""

    def __init__(self, folder: Path, name: str, tables: Iterable[str], stack: ExitStack) -> None:
        self._file = folder / f"{name}.journal"
        paths = {table: folder / f"{table}.jsonl" for table in tables}
        self.entries: list[dict[str, Any]] = []
        ends, length = self._read(paths)
        for path, end in ((self._file, length), *((paths[table], end) for table, end in ends.items())):
            path.touch()
            os.truncate(path, end)
        self._journal = stack.enter_context(self._file.open("ab"))
        self._tables = {table: stack.enter_context(path.open("ab")) for table, path in paths.items()}

    def _read(self, paths: Mapping[str, Path]) -> tuple[dict[str, int], int]:
        """Where the tables and the journal itself end with the last whole entry."""
        ends, length = dict.fromkeys(paths, 0), 0
        if not self._file.exists():
            return ends, length
        sizes = {table: path.stat().st_size if path.exists() else 0 for table, path in paths.items()}
        with self._file.open("rb") as lines:
            for line in lines:
                entry = _entry(line)
                if entry is None or any(entry["ends"].get(table, size + 1) > size for table, size in sizes.items()):
                    break
                ends = entry.pop("ends")
                length += len(line)
                self.entries.append(entry)
        return ends, length

    def add(self, entry: Mapping[str, object], rows: Mapping[str, Iterable[str]]) -> None:
        """Append lines to the tables, and then the entry."""
        for table, lines in rows.items():
            self._tables[table].writelines(line.encode() for line in lines)
        for file in self._tables.values():
            file.flush()
        ends = {table: file.tell() for table, file in self._tables.items()}
        self._journal.write(json.dumps({**entry, "ends": ends}).encode() + b"\n")
        self._journal.flush()


def _entry(line: bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(line) if line.endswith(b"\n") else None
    except ValueError:
        return None
    return value if isinstance(value, dict) and isinstance(value.get("ends"), dict) else None

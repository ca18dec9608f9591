"""What went in and what did not, page by page."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

Status = Literal["ok", "ocr", "empty", "refused"]


@dataclass(frozen=True, slots=True)
class PageReport:
    """What became of a page: read from its text layer (``ok``), from its pixels (``ocr``), kept without text (``empty``), or
    left out (``refused``). ``note`` says in one sentence what is missing, and why; ``languages`` are those in which OCR read it
    (``eng+deu``), empty where it did not."""

    document: str
    number: int
    status: Status
    note: str = ""
    languages: str = ""


@dataclass(slots=True)
class Report:
    """What went in and what did not. ``refused`` names files, lines and pages that were left out, with the reason;
    ``notes`` names pages that went in with something missing; ``pages`` has all pages in order;
    ``uncaptioned`` counts figures and tables that neither the page nor a model gave a caption."""

    folder: Path
    counts: dict[str, int] = field(default_factory=dict)
    refused: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    pages: list[PageReport] = field(default_factory=list)
    uncaptioned: int = 0

    def add(self, page: PageReport) -> None:
        """Take a page in, under its status."""
        self.pages.append(page)
        if page.status == "refused":
            self.refused.append(page.note)
        elif page.note:
            self.notes.append(f"{page.document}, p. {page.number}: {page.note}")

    def summary(self) -> str:
        """A few lines for the person."""
        lines = [f"{self.folder}: " + ", ".join(f"{count:,} {name}" for name, count in self.counts.items())]
        by_status = Counter(page.status for page in self.pages)
        languages = ", ".join(sorted({page.languages for page in self.pages if page.languages}))
        said = (
            (by_status["ocr"], f"read by OCR ({languages})"),
            (by_status["empty"], "without text"),
            (by_status["refused"], "left out"),
        )
        lines += (
            [", ".join(f"{count:,} pages {what}" for count, what in said if count)] if any(c for c, _ in said) else []
        )
        lines += [f"{self.uncaptioned:,} figures and tables without a caption"] if self.uncaptioned else []
        lines += [f"left out: {reason}" for reason in self.refused]
        lines += [f"note: {note}" for note in self.notes]
        return "\n".join(lines)

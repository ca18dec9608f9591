"""The app as a process, with three generators more: one never ends, one fails, one has a bug.

Usage: python -m tests.ui.server CORPUS PORT
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from rag.corpus import open_corpus
from rag.errors import GeneratorError
from rag.generators.registry import GENERATORS
from rag.settings import Settings
from rag.types import Delta, Prompt
from ui.layout import serve


class Endless:
    """Writes a word again and again until it is closed; counts how many are open."""

    open = 0

    def stream(self, prompt: Prompt) -> Iterator[Delta]:
        Endless.open += 1
        pause = threading.Event()
        try:
            while True:
                yield Delta("word ")
                pause.wait(0.02)
        finally:
            Endless.open -= 1
            sys.stdout.write(f"closed, {Endless.open} open\n")
            sys.stdout.flush()


class Failing:
    """Writes something and fails."""

    def stream(self, prompt: Prompt) -> Iterator[Delta]:
        yield Delta("Half an ans")
        raise GeneratorError("The provider hung up; ask again, or choose the extractive reader.")


class Broken:
    """Fails as only a bug can."""

    def stream(self, prompt: Prompt) -> Iterator[Delta]:
        yield Delta("Half an ans")
        raise ZeroDivisionError("a bug")


def main(corpus: str, port: str) -> None:
    """Serve until killed."""
    base = GENERATORS["extractive"]
    extra = (("endless", "Endless", Endless), ("failing", "Failing", Failing), ("broken", "Broken", Broken))
    tests = {
        name: replace(base, name=name, label=label, access="diagnostic", maker=lambda spec, call, kind=kind: kind())
        for name, label, kind in extra
    }
    settings = replace(Settings.from_env(), corpus=Path(corpus), port=int(port))
    opened = open_corpus(settings.corpus)
    opened.warm()
    serve(opened, settings, {**GENERATORS, **tests})


if __name__ == "__main__":
    main(*sys.argv[1:])

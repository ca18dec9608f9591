"""Serve the page: settings -> corpus -> layout -> launch."""

from __future__ import annotations

import ctypes
import sys

from rag.corpus import open_corpus
from rag.errors import FuseboxError
from rag.settings import Settings

_M_ARENA_MAX = -8
"""glibc's name for it, from malloc.h."""


def main() -> None:
    """Open the corpus and serve until stopped."""
    # Not above: the processes that read visitors' pages import this module too, and need nothing of the page.
    from ui.layout import serve

    _few_arenas()
    settings = Settings.from_env()
    corpus = open_corpus(settings.corpus, settings.text_encoder)
    corpus.warm()
    serve(corpus, settings)


def _few_arenas() -> None:
    """Keep glibc from giving every thread a heap of its own: of what 40 threads once used together, 200 MB would never
    come back. Elsewhere than on Linux with glibc this does nothing."""
    if sys.platform == "linux":
        mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
        if mallopt is not None:
            mallopt(_M_ARENA_MAX, 2)


if __name__ == "__main__":
    try:
        main()
    except FuseboxError as error:
        sys.exit(str(error))

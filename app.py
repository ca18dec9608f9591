"""Serve the page: settings -> corpus -> layout -> launch."""

from __future__ import annotations

import sys

from rag.corpus import open_corpus
from rag.errors import FuseboxError
from rag.settings import Settings
from ui.layout import build, launch_options


def main() -> None:
    """Open the corpus and serve until stopped."""
    settings = Settings.from_env()
    corpus = open_corpus(settings.corpus, settings.text_encoder)
    corpus.warm()
    build(corpus, settings).launch(**launch_options(settings))


if __name__ == "__main__":
    try:
        main()
    except FuseboxError as error:
        sys.exit(str(error))

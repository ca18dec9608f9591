"""The embedded extractive reader: no key, no network, deterministic.

words      stems, stop words, other names of the same thing
rarity     how rare a word is in English
questions  what is asked: kind of answer, content words, parts
evidence   the prompt's evidence in sentences, facts, table rows, labels
rows       table rows and the labels of drawings
matching   which unit fits the question
extraction the shortest answer in a unit, with spans and naming (sentences) and cells (rows)
comparisons  questions about two things at once
reader     the parts' answers put together, or the abstention
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from rag.encoders import text_encoder
from rag.generators.extractive.questions import Answer
from rag.generators.extractive.reader import Reading, read
from rag.types import Delta, Finish, Prompt, Usage

__all__ = ["Answer", "ExtractiveReader", "Reading", "read"]

ENCODER = "all-MiniLM-L6-v2-int8"
"""Counts the tokens; compares a few sentences with the question (`matching.encoded`)."""

_WORDS_PER_DELTA = 4


class ExtractiveReader:
    """A `rag.types.Generator` that quotes the prompt's evidence."""

    def stream(self, prompt: Prompt) -> Iterator[Delta | Finish]:
        """The answer in a few deltas, then `Finish` with estimated token counts (nothing is billed)."""
        answer = read(prompt).answer
        words = re.findall(r"\S+\s*", answer)
        for start in range(0, len(words), _WORDS_PER_DELTA):
            yield Delta("".join(words[start : start + _WORDS_PER_DELTA]))
        count = text_encoder(ENCODER).count_tokens
        sent = sum(count(message.content) for message in prompt.messages)
        yield Finish(Usage(sent, count(answer), 0, "estimated"), "stop")

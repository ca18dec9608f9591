"""Questions that weigh two things against each other: "Which has more subjects, A or B?" """

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from rag.generators.extractive.questions import Kind, Question, analyse

_COMPARISON = re.compile(
    r"\A(?P<frame>.*\b(?:which|who|what)\b.*?\b(?P<how>more|most|larger|largest|higher|highest|greater|bigger|older|oldest|longer|"
    r"later|latest|fewer|fewest|less|lower|lowest|smaller|smallest|younger|youngest|shorter|earlier|first|sooner)\b.*?)"
    r"(?:,|:| -|\bof)\s+(?:the two, )?(?P<one>[^,?]+?),?\s+or\s+(?P<other>[^,?]+?)\s*\??\Z", re.I | re.S
)  # fmt: skip
_LEAST = frozenset("fewer fewest less lower lowest smaller smallest younger youngest shorter earlier first sooner".split())
_DATED = frozenset("later latest earlier first sooner older oldest younger youngest".split())
_NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?")


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to one part: its words, its tag and the estimated probability that the evidence answers it."""

    text: str
    tag: str
    score: float


def answers(question: str, ask: Callable[[Question], Answer]) -> tuple[Answer, ...]:
    """The two values with the winner first, each with its tag; () where the question compares nothing or a value is missing.

    Args:
        question: as asked.
        ask: answers one part of a question.
    """
    match = _COMPARISON.search(" ".join(question.split()))
    if not match:
        return ()
    how = match["how"].lower()
    kind: Kind = "year" if how in _DATED else "count" if how in ("more", "most", "fewer", "fewest") else "amount"
    found = []
    for option in (match["one"], match["other"]):
        part = replace(analyse(f"{match['frame']} {option}"), kind=kind, superlative="")
        reply = ask(part)
        value = _NUMBER.search(reply.text)
        if value is None or len(reply.text.split()) > MAX_WORDS:
            return ()
        found.append((float(value.group().replace(",", "")), Answer(f"{option}: {reply.text}", reply.tag, reply.score)))
    found.sort(key=lambda entry: entry[0], reverse=how not in _LEAST)
    return tuple(answer for _, answer in found)


MAX_WORDS = 6
"""A longer reply is a sentence, not a value to compare."""

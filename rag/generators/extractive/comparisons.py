"""Questions about two things at once: "Which has more subjects, A or B?" and "Are A and B both ...?"."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from rag.generators.extractive import spans
from rag.generators.extractive.questions import MAX_CHARS, Answer, Kind, Question, analyse
from rag.generators.extractive.words import index

_HOW = (
    r"more|most|larger|largest|higher|highest|greater|bigger|older|oldest|longer|later|latest|fewer|fewest|less|lower|lowest|"
    r"smaller|smallest|younger|youngest|shorter|earlier|first|sooner"
)
_AUXILIARY = r"\A(?:is|are|was|were|do|does|did|have|has|had)\b"
_RELATION = r"(?:in|from|for|by|on|at|to|of|among|under|with)"
_COMPARISONS = (
    re.compile(
        rf"\A(?P<frame>.*\b(?:which|who|what)\b.*?\b(?P<how>{_HOW})\b.*?)"
        r"(?:,|:| -|\bof)\s+(?:the two, )?(?P<one>[^,?]+?),?\s+or\s+(?P<other>[^,?]+?)\s*\??\Z", re.I | re.S),
    re.compile(
        rf"{_AUXILIARY} (?P<frame>(?P<how>{_HOW})\b[^?]*?\b{_RELATION}) (?P<one>[^,?]+?),? or (?:{_RELATION} )?(?P<other>[^?]+?)\s*\??\Z",
        re.I | re.S),
    re.compile(
        rf"{_AUXILIARY} (?P<one>[^,?]+?),? or (?P<other>[^,?]+?) (?P<frame>(?:\w+ )?(?P<how>{_HOW})\b[^?]*?)\s*\??\Z", re.I | re.S),
)  # fmt: skip
"""Which has more subjects, A or B? / Did more people take part in A or in B? / Does A or B comprise more women?"""

_NAME = r"(?:the )?[A-Z0-9\"'(][^\s,]*(?: (?:of|the|for|in|on|de|&|[A-Z0-9(\"'][^\s,]*))*"
_BOTH = re.compile(
    rf"\A(?i:is|are|was|were|do|does|did|have|has|can) (?=.*\bboth\b)(?:both )?(?:the \w+ )?(?P<one>{_NAME}),? and (?P<other>{_NAME}) "
    r"(?P<rest>.+?)\s*\??\Z"
)
_LEAST = frozenset(
    "fewer fewest less lower lowest smaller smallest younger youngest shorter earlier first sooner".split()
)
_DATED = frozenset("later latest earlier first sooner older oldest younger youngest".split())
_NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?")


def answers(question: str, ask: Callable[[Question], Answer]) -> tuple[Answer, ...]:
    """The answers to a question about two things, or () where it is about one or one of the two is not found.

    Args:
        question: as asked.
        ask: answers one part of a question.
    """
    question = " ".join(question[:MAX_CHARS].split())
    return _larger(question, ask) or _both(question, ask)


def _larger(question: str, ask: Callable[[Question], Answer]) -> tuple[Answer, ...]:
    """ "Which has more subjects, A or B?": the two values, the winner first."""
    match = next((m for pattern in _COMPARISONS if (m := pattern.search(question))), None)
    if match is None:
        return ()
    how = match["how"].lower()
    kind: Kind = "year" if how in _DATED else "count" if how in ("more", "most", "fewer", "fewest") else "amount"
    found = []
    for option in (match["one"], match["other"]):
        part = replace(analyse(f"{match['frame']} {option}"), kind=kind, superlative="")
        reply = ask(part)
        best = next(iter(spans.candidates(reply.text, part)), None)
        value = _NUMBER.search(reply.text, best.start) if best else None
        if value is None:
            return ()
        found.append((float(value.group().replace(",", "")), replace(reply, text=f"{option}: {reply.text}")))
    found.sort(key=lambda entry: entry[0], reverse=how not in _LEAST)
    return tuple(answer for _, answer in found)


def _both(question: str, ask: Callable[[Question], Answer]) -> tuple[Answer, ...]:
    """ "Are A and B both ...?": yes where what is said of each of them holds the rest of the question."""
    match = _BOTH.search(question)
    if not match:
        return ()
    rest = re.sub(r"\bboth\b", "", match["rest"], flags=re.I)
    wanted = analyse(rest).terms
    replies = [ask(replace(analyse(f"{name} {rest}"), kind="open")) for name in (match["one"], match["other"])]
    holding = all(term.in_(index(reply.text)) for reply in replies for term in wanted)
    first, second = replies
    return (replace(first, text=f"{'Yes' if holding else 'No'}: {first.text}"), second)

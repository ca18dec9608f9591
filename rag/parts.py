"""The parts of a question that asks two things: "What is X, and how many Y ...?" and "Which has more Z, A or B?"."""

from __future__ import annotations

import re

_PREPOSITION = (
    r"above|after|against|among|at|before|below|between|by|during|for|from|in|into|of|on|over|per|since|through|to|under|"
    r"until|with|within"
)
SPLIT = re.compile(
    rf",?\s+(?:and|or|but)\s+(?=(?:(?:{_PREPOSITION})\s+)?(?:what|which|how|who|whose|whom|when|where|why)\b)", re.I
)
"""The joint between two questions."""
WH = re.compile(r"\b(?:what|which|how|who|whom|whose|when|where|why)\b", re.I)
PRONOUN = re.compile(r"\b(?:it|its|they|their|theirs|them|this|these|those|the (?:corresponding|same|other))\b", re.I)
"""What leans on the part before."""
_COMPARATIVE = re.compile(
    r"\b(?:more|fewer|less|older|younger|larger|smaller|greater|bigger|higher|lower|longer|shorter|earlier|later|sooner|first|"
    r"most|fewest|least|largest|smallest|highest|lowest|longest|shortest|oldest|youngest)\b",
    re.I,
)
_EITHER = re.compile(
    r"\A(?P<frame>.+?)(?P<joint>,|:|\s(?:in|of|for|have|has|was|is|on|at))\s+(?P<one>[^,?]{4,80}?),?\s+or\s+(?P<other>[^,?]+?)\s*\?*\Z",
    re.I | re.S,
)
OWN_WORDS = 6
"""A later part with fewer words leans on the one before."""


def sub_questions(question: str) -> tuple[str, ...]:
    """What to search for each part of a question of two parts; () where it asks one thing. A part that leans on the one
    before it ("... and what is its standard error?") is the whole question again."""
    question = " ".join(question.split())
    pieces = [piece.strip(" ,?") for piece in SPLIT.split(question) if piece.strip(" ,?")]
    if len(pieces) > 1:
        wh = WH.search(pieces[0])
        setting = pieces[0][: wh.start()] if wh and " " in pieces[0][: wh.start()].strip() else ""
        return (pieces[0], *(question if _leans(piece) else f"{setting}{piece}" for piece in pieces[1:]))
    either = _EITHER.search(question) if _COMPARATIVE.search(question) else None
    if either is None:
        return ()
    frame = f"{either['frame']}{either['joint'].rstrip(',:')}"
    return tuple(f"{frame} {either[side]}" for side in ("one", "other"))


def _leans(piece: str) -> bool:
    return bool(PRONOUN.search(piece)) or len(piece.split()) < OWN_WORDS

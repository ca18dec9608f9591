"""The shortest answer in a unit of evidence: a table's cell, a span of the kind asked for, or the whole sentence."""

from __future__ import annotations

import re

from rag.generators.extractive import cells, spans
from rag.generators.extractive.evidence import Unit
from rag.generators.extractive.questions import NUMERIC, Question
from rag.generators.extractive.words import tokens

CLEAR_MARGIN = 1.15
"""A span is quoted alone when it scores so many times the next best; else the sentence that holds both is quoted."""

MIN_SENTENCE = 25
"""Characters; a shorter unit is a label or a heading."""

_REASON = re.compile(
    r"\b(?:because|since|due to|so that|therefore|reason|thus|hence|in order to|as a (?:result|consequence)|leads? to|"
    r"to (?:avoid|allow|ensure|make))\b",
    re.I,
)
_IS = re.compile(
    r"\W{0,2}(?: \w+){0,2}\W{0,2} ?"
    r"(?:\b(?:is|are|was|were|means?|denotes?|refers?|called|known as|defined|stands? for)\b|, an? )"
)
_NEGATIONS = frozenset("no not never none neither nor cannot without isn doesn don didn wasn aren can't unlike".split())


def extract(unit: Unit, question: Question) -> tuple[str, bool]:
    """The answer to quote from a unit, and whether it is of the kind that was asked for."""
    if unit.cells:
        return cells.answer(unit.cells, question)
    if question.kind in NUMERIC or question.kind == "who":
        found = spans.candidates(unit.text, question)
        if not found:
            return unit.text, False
        if len(found) == 1 or found[0].score > CLEAR_MARGIN * found[1].score:
            return spans.quoted(unit.text, found[0], question), True
        return unit.text, True
    if question.kind == "yes_no":
        return f"{_polarity(unit.text, question)}: {unit.text}", len(unit.text) >= MIN_SENTENCE
    if spans.asks_for_name(question):
        found = spans.names(unit.text, question)
        return (unit.text[found[0].start : found[0].end], True) if found else (unit.text, False)
    if question.kind == "definition":
        return unit.text, _defines(unit.text, question)
    return unit.text, unit.kind != "label" and (question.kind != "why" or bool(_REASON.search(unit.text)))


def _defines(text: str, question: Question) -> bool:
    """Whether the text says what the question's thing is: the thing, then "is", "means" or ", a ..."."""
    names = {word for term in question.terms for phrase in term.alternatives for word in phrase}
    return any(token.stem in names and _IS.match(text, token.end) for token in tokens(text))


def _polarity(text: str, question: Question) -> str:
    said = any(t.text.lower() in _NEGATIONS for t in tokens(text))
    asked = any(t.text.lower() in _NEGATIONS for t in tokens(question.text))
    return "Yes" if said == asked else "No"

"""Names asked for by their sort ("Which test ...?", "Which company ...?"): what a name of each sort looks like in running text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from rag.generators.extractive.questions import Question
from rag.generators.extractive.spans import Span, is_said, scored
from rag.generators.extractive.words import CONCEPTS, STOP_STEMS, Token, stem, stems, tokens

SORTS: Mapping[str, str] = {
    "thing": "function routine package library argument option command software",
    "method": "test model method estimator algorithm approach technique statistic procedure distribution residuals regression "
    "estimate design correction transformation criterion network",
    "body": "company university institution institute hospital clinic journal organization organisation survey agency registry "
    "institutes service office publisher",
}
"""Sort -> the nouns that ask for it. Other nouns ("which outcome") are answered by sentences too."""

_SORT_OF = {stem(noun): sort for sort, nouns in SORTS.items() for noun in nouns.split()}

_THINGS: Mapping[str, str] = {
    "function": "function|routine|command",
    "package": "package|library",
    "option": "option|argument",
}
_THING = {
    stem(word): re.compile(rf"\b([A-Za-z][\w.]*) (?:{words})\b|\b(?:{words}) ([A-Za-z][\w.]*)")
    for words in _THINGS.values()
    for word in words.split("|")
}
_MATHEMATICAL = frozenset(
    stems("survival incidence hazard distribution link influence likelihood step risk indicator density loss")
)
_CALLED = re.compile(r"(?<![\w$.])([A-Za-z]+(?:[\d_.]\w+|(?<=[a-z])[A-Z]\w*))(?= ?\()")
_CAPITALISED = re.compile(r"\b(?:[A-Z][\w.-]*\w)(?:,? (?:of |and |for |& |the )?(?:[A-Z][\w.-]*\w|Inc\.?|Ltd\.?))*")
_ADJOINING = re.compile(r"\A[ \u2019'-]{1,2}\Z")
_LIGHT = frozenset(stems("use using used perform performed apply applied applying fit fitted via compute computed new usual simple "
                         "standard other several different alternative appropriate following respective"))  # fmt: skip
_SENTENCE_START = re.compile(r"(?:\A|[.:!?\d]\s)\W*\Z")
MAX_MODIFIERS = 5


def asked(question: Question) -> str:
    """The sort of name asked for, or "" for any other question."""
    return next((_SORT_OF[word] for word in question.focus if word in _SORT_OF), "")


def names(text: str, question: Question, sort: str) -> list[Span]:
    """Names of a sort in a text, best first."""
    words = tokens(text)
    found: dict[tuple[int, int], None] = {}
    for finder in _FINDERS[sort]:
        kept = [span for span in finder(text, words, question) if not is_said(text[slice(*span)], question)]
        found = found or dict.fromkeys(kept)  # the first finder that finds anything decides
    ranked = [scored(text, *span, words, question) for span in found]
    return sorted(ranked, key=lambda s: (-s.score, s.start))


def _things(text: str, _words: tuple[Token, ...], question: Question) -> Iterator[tuple[int, int]]:
    patterns = {_THING[word] for word in question.focus if word in _THING}
    for pattern in patterns:
        for match in pattern.finditer(text):
            name = match[1] or match[2]
            ordinary = stem(name) in STOP_STEMS | _MATHEMATICAL | _LIGHT or name.istitle()
            if not ordinary and not is_said(name, question):
                yield match.span()
    for match in _CALLED.finditer(text):
        if not is_said(match[1], question):
            yield match.span(1)


def _phrases(text: str, words: tuple[Token, ...], question: Question) -> Iterator[tuple[int, int]]:
    """A noun of the sort asked for with the words that qualify it: "exact conditional test"."""
    heads = {word for word in question.focus if word in _SORT_OF}
    heads |= {other[0] for head in heads for other in CONCEPTS.get((head,), ()) if len(other) == 1}
    for i, word in enumerate(words):
        if word.stem not in heads:
            continue
        first = i
        while first > max(0, i - MAX_MODIFIERS) and _modifies(text, words, first - 1):
            first -= 1
        if first < i:
            yield words[first].start, word.end
        following = _CAPITALISED.match(text, word.end + 4) if text[word.end : word.end + 4] == " of " else None
        if following:
            yield words[first].start, following.end()


def _modifies(text: str, words: tuple[Token, ...], i: int) -> bool:
    word, following = words[i], words[i + 1]
    if text[word.end : following.start] == "-":
        return True  # "Two-Sample" is one word
    return (
        word.stem not in STOP_STEMS
        and word.stem not in _LIGHT
        and not word.is_number
        and bool(_ADJOINING.match(text[word.end : following.start]))
    )


def _called_bodies(text: str, _words: tuple[Token, ...], question: Question) -> Iterator[tuple[int, int]]:
    """Runs of capitalised words that hold the noun asked for: "Chinese Health and Family Life Survey"."""
    heads = {word for word in question.focus if word in _SORT_OF}
    for match in _CAPITALISED.finditer(text):
        if heads & set(stems(match.group())) and " " in match.group():
            yield match.span()


def _bodies(text: str, _words: tuple[Token, ...], _question: Question) -> Iterator[tuple[int, int]]:
    """Runs of capitalised words, save a single word that opens a sentence."""
    for match in _CAPITALISED.finditer(text):
        lone = " " not in match.group()
        if not (lone and (stem(match.group()) in STOP_STEMS or _SENTENCE_START.search(text[: match.start()]))):
            yield match.span()


def _methods(text: str, _words: tuple[Token, ...], _question: Question) -> Iterator[tuple[int, int]]:
    """Methods that bear their authors' names: "Kaplan-Meier"."""
    for match in re.finditer(r"\b[A-Z][a-z]+(?:[-\u2013][A-Z][a-z]+)+(?: \w+)?", text):
        yield match.span()


_FINDERS = {"thing": (_things,), "method": (_phrases, _methods), "body": (_called_bodies, _phrases, _bodies)}

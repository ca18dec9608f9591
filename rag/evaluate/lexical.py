"""Whether an answer says what a reference says, by rules: normalised words, numbers with units and tolerance, all parts, no denial.

It is strict where an answer is a value or a name, and coarse where it is a sentence in other words.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product

from rag.evaluate.quantities import HEDGE, Quantity, Unit, asked_units, normalised, quantities, same
from rag.generators.extractive.words import CONCEPTS, STOP_STEMS, Token, holds, index, stem, tokens
from rag.prompt import is_abstention

WORDS_PRESENT = 0.5
"""Share of a reference's telling words that the answer must hold."""
NAMES_PRESENT = 0.7
"""The same of the words of a proper name."""
SURE = 2
"""So many more words of its clause must stand with a part than of the other clause, for the order of the parts to be overruled."""
MAX_OTHER_NUMBERS = 8
"""An answer with more numbers than that besides those wanted is a quotation in which nothing was chosen."""
MAX_WORDS = 120
"""A longer text is no answer."""
_MANY_WAYS = 200

_TAG = re.compile(r"\[[TGV]\d[^\]]{0,40}\]")
_ASIDE = re.compile(r"\s*\([^)]*\)")
_ABBREVIATION = re.compile(r"\(([A-Z][\w-]*[A-Z][\w-]*)\)")
_CLAUSE = re.compile(r"[;:,](?=\s|$)|[.!?](?=\s|$)|\bbut\b|\bwhile\b|\n")
_PIECE = re.compile(r"[;,](?=\s|$)|[.!?](?=\s|$)|\band\b|\bwhile\b|\n")
_NOT = re.compile(
    r"\b(?:not|no|never|neither|nor|cannot|without|isn't|aren't|wasn't|weren't|doesn't|don't|didn't|can't)\b"
)
_INSTEAD = re.compile(r"\b(?:rather than|instead of|other than|except|unlike)\b")
_ABSTAINS = re.compile(
    r"\b(?:(?:evidence|documents?|context|passages?|sources?|text|information)\b[^.;]{0,60}?\b(?:not|n't|no|never|lacks?|insufficient)"
    r"|(?:not|n't|no|cannot|insufficient|not enough)\b[^.;]{0,60}?\b(?:evidence|documents?|context|passages?|sources?|information)"
    r"|(?:don't|do not|cannot|can't) (?:know|say|tell|answer|determine)|(?:is|are) not (?:named|given|stated|mentioned|specified|available)"
    r"|unknown|unanswerable)\b"
)  # fmt: skip
_GENERIC = frozenset(map(stem, "data dataset set study trial group model cohort survey package patients".split()))
"""What the options of a question have in common."""
_YES_NO = {"yes": True, "no": False}
_OPPOSITES = tuple(
    (frozenset(map(stem, one.split())), frozenset(map(stem, other.split())))
    for one, other in (
        ("increase increased rise rises rose higher more", "decrease decreased fall falls fell lower less fewer reduction"),
        ("longer", "shorter"), ("larger", "smaller"), ("largest highest greatest", "smallest lowest"), ("longest tallest", "shortest"),
        ("oldest", "youngest"), ("before", "after"), ("earlier", "later"), ("above", "below"), ("left", "right"),
        ("positive", "negative"), ("female females women woman", "male males men man"),
    )
)  # fmt: skip
_PLAIN = re.compile(r"\byes\b|\bno\b(?=\s*(?:$|[.,;:!]))")
_WHO = re.compile(
    r"\bwho(?:m|se)?\b|\b(?:which|what)\b[^,?]*\b(?:author|writer|player|director|filmmaker|actor|actress|singer|composer|character|"
    r"scientist|statistician|physician|researcher)\b",
    re.I,
)
_WHERE = re.compile(r"\bwhere\b|\b(?:which|what) (?:city|town|place|country|state|county|region)\b", re.I)
_PLACE = re.compile(r"[A-Z][\w' -]+, [A-Z][\w' -]+")
_PERSON = re.compile(r"(?:[A-Z][\w.'’-]*\s+){1,4}[A-Z][\w'’-]+")
_BODY = re.compile(
    r"\b(?:association|band|clinic|club|company|corporation|entertainment|group|inc|institute|society|survey|university)\b",
    re.I,
)
"""What a name of the form of a person's may be instead."""


def abstains(answer: str) -> bool:
    """Whether the answer says that it can't answer: in the agreed sentence, or in the usual other words and without a citation."""
    return is_abstention(answer) or (not _TAG.search(answer) and _ABSTAINS.search(answer.casefold()) is not None)


def without_tags(answer: str) -> str:
    """The answer without its citations."""
    return _TAG.sub(" ", answer)


def agrees(question: str, reference: str, answer: str) -> bool:
    """Whether ``answer`` gives every part ("a; b") of ``reference``, each with the right part of the question."""
    said = _Answer.of(answer, question)
    if not said.text or len(said.words) > MAX_WORDS:
        return False
    parts = _parts(reference, question)
    if parts[0] in _YES_NO and len(parts) == 1:
        return said.polarity(question) is _YES_NO[parts[0]]
    if _opposed(frozenset(t.stem for t in tokens(reference)), frozenset(t.stem for t in said.words)):
        return False
    wanted = [q for part in parts for q in quantities(normalised(_ASIDE.sub("", part)))]
    if len({q.value for q in said.numbers}) > len(wanted) + MAX_OTHER_NUMBERS:
        return False
    places = [list(_places(part, said, question)) for part in parts]
    if len(parts) == 1:
        return bool(places[0])
    ways = [way for way in _first(product(*places)) if len(set(way)) == len(way)]
    return any(_in_order(way, said, question) for way in ways)


def _opposed(reference: frozenset[str], said: frozenset[str]) -> bool:
    """Whether the answer says the opposite of a word of the reference, and not that word."""
    sides = (pair for one, other in _OPPOSITES for pair in ((one, other), (other, one)))
    return any(reference & one and not reference & other and said & other and not said & one for one, other in sides)


def _first(ways: product[tuple[int, ...]]) -> Iterator[tuple[int, ...]]:
    return (way for way, _ in zip(ways, range(_MANY_WAYS), strict=False))


def _parts(reference: str, question: str) -> list[str]:
    """The facts of a reference. Of a comparison ("A: 3 against 2") only what was asked for, A, is wanted. Two values for the two clauses of
    a question ("3 for A, 2 for B") are two facts."""
    parts = [part.strip().rstrip(".") for part in reference.split("; ") if part.strip()] or [reference]
    if len(parts) == 1 and len(_asked(question)) == 2:
        halves = [half for half in re.split(r", (?:and )?| and ", _ASIDE.sub("", parts[0])) if half]
        if len(halves) == 2 and all(quantities(normalised(half)) for half in halves):
            parts = halves
    if " against " in parts[-1] and (len(parts) > 1 or ":" in parts[-1]):
        parts = parts[:-1] or [parts[-1].partition(":")[0]]
    return [part.casefold() if part.casefold() in _YES_NO else part for part in parts]


@dataclass(frozen=True)
class _Answer:
    """An answer as it is compared: normalised, with its numbers and words."""

    text: str
    numbers: tuple[Quantity, ...]
    words: tuple[Token, ...]
    asked: tuple[Unit, ...]
    negative: bool

    @classmethod
    def of(cls, answer: str, question: str) -> _Answer:
        text = normalised(without_tags(answer).replace("`", "").replace("*", ""))
        return cls(text, quantities(text), tokens(text), asked_units(question), _NOT.search(question) is not None)

    def polarity(self, question: str) -> bool | None:
        """Yes or no: by the first such word, else a denial is no, and what takes up words of the question is yes."""
        if plain := _PLAIN.search(self.text):
            return _YES_NO[plain[0]]
        if _NOT.search(self.text):
            return False
        return True if _stems(question) & _stems(self.text) else None

    def clause(self, place: int, pattern: re.Pattern[str] = _CLAUSE) -> tuple[int, int]:
        """Start and end of the clause in which ``place`` lies."""
        start, end = 0, len(self.text)
        for match in pattern.finditer(self.text):
            if match.end() <= place:
                start = match.end()
            elif match.start() >= place:
                end = match.start()
                break
        return start, end

    def denied(self, place: int, *, anywhere: bool) -> bool:
        """Whether what stands at ``place`` is denied: by a negation before it in its clause (or ``anywhere`` in it). A question
        with a negation in it is answered with one."""
        if self.negative:
            return False
        start, end = self.clause(place)
        before = self.text[start:place]
        return bool(_NOT.search(self.text[start:end] if anywhere else before) or _INSTEAD.search(before))


def _places(part: str, said: _Answer, question: str) -> Iterator[int]:
    """Where in the answer a part of the reference is given."""
    if _WHERE.search(question) and _PLACE.fullmatch(part):
        part = part.partition(",")[0]  # "Istanbul, Turkey"
    bare = normalised(_ASIDE.sub("", part) or part)
    every, known = quantities(bare), {q.value for q in quantities(normalised(question))}
    names = _telling(bare, every, question)
    # A number of the question tells nothing, unless nothing else does.
    wanted = tuple(q for q in every if q.value not in known) or (() if names else every)
    for short in () if wanted else (*_ABBREVIATION.findall(part), _initials(part)):
        if short:
            yield from _word_places([[t.stem for t in tokens(short)]], said, short)
    if wanted:
        if len(names) < 3 or _share(names, said) >= WORDS_PRESENT:
            yield from _number_places(bare, wanted, said)
    elif _is_person(part, question):
        yield from _word_places([[tokens(part)[-1].stem]], said, bare)
    else:
        named = [s for s in names if s in _proper(part)]
        if not named or _share(named, said) >= _needed(named):
            yield from _word_places(_items(bare, names), said, bare)


def _is_person(part: str, question: str) -> bool:
    """Whether a part is a person's name, of which the last word will do."""
    plain = part.replace('"', "")
    return bool(_WHO.search(question) and _PERSON.fullmatch(plain) and not _BODY.search(plain))


def _initials(part: str) -> str:
    """NBC for "National Broadcasting Company"; empty where there are fewer than three words or one without a capital."""
    words = [t.text for t in tokens(part) if t.stem not in STOP_STEMS]
    return "".join(word[0] for word in words) if len(words) >= 3 and all(word[0].isupper() for word in words) else ""


def _number_places(bare: str, wanted: tuple[Quantity, ...], said: _Answer) -> Iterator[int]:
    hedged = any(q.hedged for q in wanted) or HEDGE.search(bare[: wanted[0].start]) is not None
    if hedged and len(wanted) == 2 and wanted[0].top is not None:
        wanted = wanted[:1]
    found = [
        [g.start for g in said.numbers if same(w, g, said.asked, hedged) and not said.denied(g.start, anywhere=False)]
        for w in wanted
    ]
    for way in _first(product(*found)):
        if len(set(way)) == len(way):
            yield way[0]


def _telling(bare: str, wanted: tuple[Quantity, ...], question: str) -> list[str]:
    """Stems of a part that its question doesn't hold already; all of its stems where that leaves nothing."""
    spans = [(q.start, q.end) for q in wanted]
    stems = [t.stem for t in tokens(bare) if not any(a <= t.start < b for a, b in spans)]
    content = [s for s in stems if s not in STOP_STEMS] or stems
    known = index(question)
    telling = [s for s in content if not holds((s,), known)]
    if telling or wanted:
        return telling
    # One of the options that the question names.
    return [s for s in content if s not in _GENERIC] or content


def _proper(part: str) -> frozenset[str]:
    """Stems of the proper names in a part, which no synonym and no share of words stands in for."""
    words = [(t.text, t.stem) for t in tokens(_ASIDE.sub("", part)) if len(t.text) > 1 and not t.is_number]
    begins = not all(text[0].isupper() for text, name in words if name not in STOP_STEMS)
    return frozenset(name for text, name in words[begins:] if text[0].isupper() and name not in STOP_STEMS)


def _items(bare: str, names: list[str]) -> list[list[str]]:
    """The telling stems by the items of an enumeration ("age and tumor grading"), each of which is wanted."""
    pieces = re.split(r", and |, or |, | and ", bare)
    items = [[s for s in names if s in {t.stem for t in tokens(piece)}] for piece in pieces]
    short = all(items) and all(len(piece.split()) <= 3 for piece in pieces)
    return items if short else [names]


def _said(name: str, known: frozenset[str]) -> bool:
    return any(holds(phrase, known) for phrase in (CONCEPTS.get((name,)) or ((name,),)))


def _share(names: list[str], said: _Answer) -> float:
    known = index(said.text)
    return sum(_said(name, known) for name in names) / len(names)


def _needed(names: list[str], share: float = NAMES_PRESENT) -> float:
    """Of one or two words all are needed: "the subjunctive mood" is not "the indicative mood"."""
    return 1.0 if len(names) <= 2 else share


def _word_places(items: list[list[str]], said: _Answer, bare: str) -> Iterator[int]:
    if any(not item or _share(item, said) < _needed(item, WORDS_PRESENT) for item in items):
        return
    firm = _NOT.search(bare) is None
    wanted = {name for item in items for name in item}
    for token in said.words:
        known = index(token.text)
        if any(_said(name, known) for name in wanted) and not (firm and said.denied(token.start, anywhere=True)):
            yield token.start


def _asked(question: str) -> list[str]:
    """The clauses of a question that each ask something."""
    return re.split(r",? and (?=[^,]*\b(?:how|which|what|when|who|whom|where)\b)", question, flags=re.I)


def _in_order(places: tuple[int, ...], said: _Answer, question: str) -> bool:
    """Whether each part answers its own clause of the question: told by the words around it, else by the order."""
    asked = _asked(question)
    labels = 0
    if len(asked) == len(places) == 2:
        own: Mapping[int, frozenset[str]] = {i: _stems(clause) for i, clause in enumerate(asked)}
        for i, place in enumerate(places):
            start, end = said.clause(place, _PIECE)
            around = _stems(said.text[start:end])
            labels += len(around & (own[i] - own[1 - i])) - len(around & (own[1 - i] - own[i]))
    return labels >= SURE if list(places) != sorted(places) else labels >= -SURE


def _stems(text: str) -> frozenset[str]:
    return frozenset(stem(t.text) for t in tokens(text)) - STOP_STEMS

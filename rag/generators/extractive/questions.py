"""What a question asks for: its kind of answer, its content words with their weights, and its parts."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Literal

from rag.generators.extractive.words import CONCEPTS, LONGEST_CONCEPT, STOP_STEMS, Phrase, Token, holds, stem, tokens

Kind = Literal[
    "yes_no",
    "count",
    "percent",
    "p_value",
    "interval",
    "year",
    "amount",
    "who",
    "where",
    "why",
    "definition",
    "name",
    "open",
]

_MEASURES = (
    r"age|aic|area|average|bmi|chisq|coefficient|concordance|correlation|cost|cut-?off|cut ?point|deviance|deviation|"
    r"df|degrees? of freedom|difference|dose|duration|effect|error|estimate|frequency|hazard|height|increase|incidence|"
    r"length|limit|loss|maximum|mean|median|minimum|mortality|number|odds|probability|quantile|rate|ratio|reduction|"
    r"activity|income|half-life|prevalence|reliability|sensitivity|specificity|risk|score|size|sd|slope|statistic|sum|survival|temperature|time|total|value|variance|weight|width|z|penalty|likelihood|level"
)

_VALUES = (
    r"age|bmi|coefficient|concordance|correlation|cost|cut-?off|deviance|dose|duration|fraction|hazard|length|mean|median|number|"
    r"odds|probability|quantile|rate|ratio|score|size|slope|value|variance|level|circumference"
)
_ENDS = (
    r"(?= (?:of|for|in|at|on|from|among|to|is|was|were|does|did|do|has|have|had|when|with|per|between|associated|assigned|after|"
    r"used|reported|estimated|if|by|under|needed|required|that)\b|\?|,|$)"
)

# The first pattern that is found decides. Patterns are searched in the lower-cased question.
KINDS: tuple[tuple[Kind, str], ...] = (
    ("open", r"\b(?:mean|meant|stand) (?:by|for)\b|^what (?:do|does|did) .*\b(?:mean|refer to|denote|represent)\b"),
    ("amount", r"\b(?:by|of|to) (?:how many|which|what) (?:fold|factor)\b|\bhow many fold\b"),
    ("count", r"\bhow many\b|\bwhat (?:is|was|were|are)? ?(?:the )?(?:total )?number of\b"),
    ("percent", r"\b(?:what|which) (?:\w+ )?(?:percent(?:age)?|proportion|fraction|share)\b|\bhow many percent\b"
                r"|\bwhat (?:is|was) the (?:\w+ ){0,2}(?:percentage|proportion|fraction)\b"),
    ("definition", r"^(?:what (?:is|are) an? (?!\w+ (?:of|for|value)\b)[^,]*$"
                   r"|what is (?:the )?(?!.*\b(?:its|their|this|that)\b)(?!overall|total|average|estimated)"
                   r"(?:[\w.()-]+ ){0,2}(?:" + _MEASURES + r")\?*$)"),
    ("amount", r"\b(?:at|in|after|by|until) (?:which|what) (?:weeks?|days?|months?|ages?|times?|levels?|doses?|cut-?offs?)\b"),
    ("p_value", r"\bp[- ]?value\b|^(?!.*\bwhich p[- ]?values).*\bp[- ]?values\b"),
    ("amount", r"\bhow (?:much|large|old|long|far|high|low|big|small|great|tall|wide|fast|often|strong|heavy)\b"),
    ("interval", r"\bconfidence (?:interval|limits)|\b95 ?% ci\b|\binterquartile|\biqr\b"
                 r"|\b(?:what|which) (?:(?:is|was) the )?(?:\w+ )?(?:range|interval)\b"),
    ("year", r"\b(?:what|which) years?\b|^when\b(?! (?:is|are|does|do|should|can|to)\b)"),
    ("where", r"^where\b(?! (?:is|are|can|should) (?:the )?\w+ (?:used|needed|useful)\b)"
              r"|\b(?:what|which) (?:city|town|country|county|place|region|continent)\b"),
    ("why", r"\bwhy\b|\b(?:what|which) (?:is|was|were|are)? ?(?:the )?(?:reason|purpose|motivation)"),
    ("who", r"(?:^|, |\band )(?:by |to |from )?who(?:se|m)?\b|\b(?:what|which) (?:\w+ )?(?:author|researcher|person"
            r"|statistician|epidemiologist|scientist|doctor|physician|surgeon|professor)s?\b"),
    ("amount", r"\b(?:what|which) (?:is|was|were|are) (?:the |an? )?(?!\w+ed\b)(?:[\w.()'%/-]+ ){0,4}?"
               r"(?:\w+-)*(?:" + _MEASURES + r")s?\b" + _ENDS),
    ("amount", r"\bwhat (?:(?:is|was|are|were) the )?(?:mean|median|average)\b"),
    ("amount", r"\b(?:what|which) (?:[\w.()'%/-]+ ){0,3}?(?:" + _VALUES + r")s?\b" + _ENDS),
    ("amount", r"\bat (?:which|what)\b.*\b(?:split|separated?|divided?|cut)\b"),
    ("definition", r"^what (?:is|are|was|were) (?:an? |the )?[\w.()'\u2019-]+(?: [\w.()-]+){0,2}\??$"
                   r"|^(?!.*\bwhich\b).*\bdefin(?:e|ed|ition)\b"),
    ("open", r"\bhow\b"),
    ("yes_no", r"^(?!.*\bwh(?:at|ich|o)\b)(?:.*, )?(?:is|are|was|were|do|does|did|can|could|has|have|had|should|will|would|must)\b"),
    ("open", r"\bwhat (?:is|are|was|were|do|does|did|can|could|has|have|had|will|would|should|may|might|must|the|happen\w*)\b"),
    ("name", r"\b(?:what|which)\b"),
)  # fmt: skip
_KINDS: tuple[tuple[Kind, re.Pattern[str]], ...] = tuple((kind, re.compile(pattern)) for kind, pattern in KINDS)

NUMERIC: frozenset[Kind] = frozenset({"count", "percent", "p_value", "interval", "year", "amount"})

_SPLIT = re.compile(
    r",?\s+(?:and|or|but)\s+(?=(?:(?:in|of|for|at|by|to|on|with|from|under)\s+)?(?:what|which|how|who|when|where|why)\b)",
    re.I,
)
_ASKING = frozenset("which what many much whose large high low big great".split())
# Of "which company" the evidence says "Genentech, Inc.", not "company"; of "in which year" it says "1986".
_CATEGORIES: frozenset[Kind] = frozenset({"name", "who", "where", "year", "percent", "p_value", "interval"})
MAX_FOCUS = 3
_PRONOUN = re.compile(r"\b(?:it|its|they|their|them|this|these|those|the (?:corresponding|same|other))\b", re.I)
OWN_TERMS = 3
"""A later part with fewer content words leans on the first part."""
_WH = re.compile(r"\b(?:what|which|how|who|whom|whose|when|where|why)\b", re.I)
SUPERLATIVE = re.compile(r"\b(largest|highest|greatest|biggest|most|longest|maximum|best|oldest|strongest|smallest|lowest|least|"
                          r"fewest|shortest|minimum|worst|youngest|weakest)\b", re.I)  # fmt: skip
_COMPARED = frozenset(
    "largest highest greatest biggest longest oldest strongest smallest lowest fewest shortest youngest weakest".split()
)
_LEAST = frozenset("smallest lowest least fewest shortest minimum worst youngest weakest".split())
# Words that say little about which evidence is meant: a missing one costs less.
_WEAK = frozenset(
    map(
        stem,
        """used use using value find found report reported give fit fitted result results number data show study many amount size
        estimated set mean name model analysis example case considered contain hold consist include come belong fall stand lie take
        part place carry perform conduct conducted undertake undertook serve act deal regard concern relate involve need require
        allow lead cause appear occur happen exist remain become seem tend start stop begin end follow keep get go turn bring
        mark tell say said state mention recommend suggest argue note point define refer term list assign choose select chosen
        prefer compare compared differ vary total overall whole entire certain particular specific main key important different
        very various several common usual general typical possible behind rest corresponding publish address provide create work
        depend available average high low large small new old long short good best split node leaf
        leaves branch""".split(),
    )
)
MAX_CHARS = 2000
"""A question is read up to here: what follows of a longer one is not a question any more."""


@dataclass(frozen=True, slots=True)
class Term:
    """A content word or phrase of the question, with the wordings that count as the same; ``weight`` is its say, an ``anchor``
    is a name or number, a ``category`` says what sort of thing is asked for ("which company"); ``rarity`` (0 to 1, ``rarity``) is set
    where the question meets its evidence."""

    alternatives: frozenset[Phrase]
    weight: float
    anchor: bool
    category: bool = False
    rarity: float = 0.0

    def in_(self, words: frozenset[str]) -> bool:
        """Whether an index (``words.index``) holds the term in any wording."""
        return any(holds(phrase, words) for phrase in self.alternatives)


@dataclass(frozen=True, slots=True)
class Question:
    """A question, or one part of a two-part question."""

    text: str
    kind: Kind
    terms: tuple[Term, ...]
    numbers: frozenset[str]
    focus: Phrase
    superlative: Literal["", "most", "least"]


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to one part: its words, its tag and the estimated probability that the evidence answers it. ``also`` is a sentence
    that is nearly as probable, with its tag."""

    text: str
    tag: str
    score: float
    also: tuple[tuple[str, str], ...] = ()


def parts(text: str) -> tuple[Question, ...]:
    """The question's parts: "What is X, and how many Y ...?" has two. A part that leans on the one before it ("... and what
    is its standard error?") takes over that one's words at half weight."""
    text = " ".join(text[:MAX_CHARS].split())
    pieces = [piece.strip(" ,") for piece in _SPLIT.split(text) if piece.strip(" ,?")]
    found = []
    for i, piece in enumerate(pieces):
        leans = i > 0 and (_PRONOUN.search(piece) or len(_terms(tokens(piece))) < OWN_TERMS)
        found.append(analyse(piece, pieces[0] if leans else _lead(pieces[0]) if i else ""))
    return tuple(part for part in found if part.terms) or (analyse(text),)


def _lead(piece: str) -> str:
    """The setting before the question word ("In the study of gum, what ..."): it holds for every part."""
    wh = _WH.search(piece)
    return piece[: wh.start()] if wh else ""


def analyse(text: str, setting: str = "") -> Question:
    """One part of a question; ``setting`` adds its words at half weight."""
    lowered = text.lower()
    kind: Kind = next((kind for kind, pattern in _KINDS if pattern.search(lowered)), "open")
    words = tokens(text)
    superlative = SUPERLATIVE.search(text)
    direction: Literal["", "most", "least"] = ""
    if superlative:
        direction = "least" if superlative.group().lower() in _LEAST else "most"
    focus = _focus(words)
    own = [_as_category(t) if kind in _CATEGORIES and _is_category(t, focus) else t for t in _terms(words)]
    known = {alternative for term in own for alternative in term.alternatives}
    extra = [Term(t.alternatives, t.weight / 2, False) for t in _terms(tokens(setting)) if not t.alternatives & known]
    numbers = frozenset(token.stem for token in (*words, *tokens(setting)) if token.is_number)
    return Question(text, kind, (*own, *extra), numbers, focus, direction)


def _as_category(term: Term) -> Term:
    return replace(term, weight=term.weight / 2, category=True)


def _is_category(term: Term, focus: Phrase) -> bool:
    return not term.anchor and any(word in focus for phrase in term.alternatives for word in phrase)


def _focus(words: tuple[Token, ...]) -> Phrase:
    """Stems of the noun phrase asked for: the words after "which", "how many" or "what is the"."""
    start = next((i + 1 for i, word in enumerate(words) if word.text.lower() in _ASKING), len(words))
    found: list[str] = []
    for word in words[start : start + 7]:
        if word.stem in STOP_STEMS:
            if found:
                break
            continue
        found.append(word.stem)
        if len(found) == MAX_FOCUS:
            break
    return tuple(found)


def _terms(words: tuple[Token, ...]) -> list[Term]:
    terms: list[Term] = []
    seen: set[frozenset[Phrase]] = set()
    i = 0
    while i < len(words):
        phrase = next(
            (p for n in range(LONGEST_CONCEPT, 0, -1) if (p := tuple(w.stem for w in words[i : i + n])) in CONCEPTS),
            None,
        )
        word = words[i]
        if phrase is not None and (len(phrase) > 1 or len(word.stem) > 1 or word.text.isupper()) and phrase != ("or",):
            alternatives, step = CONCEPTS[phrase], len(phrase)
        else:
            alternatives, step = frozenset({(word.stem,)}), 1
        if step > 1 or (word.stem not in STOP_STEMS and word.text.lower() not in _COMPARED):
            if alternatives not in seen:
                terms.append(Term(alternatives, _weight(word, step), _is_anchor(word, i)))
            seen.add(alternatives)
        i += step
    return terms


def _is_anchor(word: Token, position: int) -> bool:
    """A name, number or identifier: evidence without it is about something else."""
    inner_capital = any(c.isupper() for c in word.text[1:]) or (word.text[0].isupper() and position > 0)
    return inner_capital or any(c.isdigit() for c in word.text)


def _weight(word: Token, step: int) -> float:
    if step > 1:
        return 1.3
    if word.stem in _WEAK:
        return 0.4
    return 1.3 if _is_anchor(word, 1) else 1.0

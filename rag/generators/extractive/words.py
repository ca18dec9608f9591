"""Words as the reader compares them: light stems, stop words, and the statisticians' names for one and the same thing."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from functools import lru_cache

# PDFs made by TeX write an accented letter as "M \u0308uller": the accent, with or without a blank, stays in the word.
_TOKEN = re.compile(r"\d+(?:[.,]\d+)*|[^\W\d_]+(?: ?[\u0300-\u036f]+[^\W\d_]*)*(?:\d+[^\W_]*)?|[^\W_]+")

Phrase = tuple[str, ...]
"""One or more stems."""

STOP = frozenset(
    """a about above after again all also although am an and any are as at be became because been before being below between
    both but by can could did do does doing done down during each either else ever every few first for from further given gives
    had has have having he her here hers him his how however i if in into is it its itself just made make makes many may me
    might more most much must my no nor not of off on once only or other our out over own per rather same shall she should show
    shown shows since so some such than that the their theirs them themselves then there these they this those through thus to
    too two under until up upon us was we were what when where whether which while who whom whose why will with within
    without would yet you your according associated base based call called describe described document documents obtain
    obtained paper text vignette author authors answer question respectively kind type one""".split()
)

# Alternative wordings of one concept; a question's wording is met by any of them. Written as they are read, compared as stems.
_CONCEPTS: tuple[tuple[str, ...], ...] = (
    ("patients", "subjects", "participants", "individuals", "people", "persons", "women", "men"),
    ("sample size", "number of observations", "number of patients", "number of subjects", "number of women", "n"),
    ("events", "deaths", "died", "dead", "death", "fatalities"),
    ("standard error", "std error", "std err", "se", "se coef"),
    ("standard deviation", "sd", "std dev"),
    ("hazard ratio", "exp coef", "relative risk", "hr"),
    ("odds ratio", "or"),
    ("coefficient", "coef", "estimate", "estimated", "estimates", "estimation"),
    ("p value", "pr", "p"),
    ("confidence interval", "confidence limits", "ci"),
    ("lower", "lcl", "lwr"),
    ("upper", "ucl", "upr"),
    ("degrees of freedom", "df", "d f"),
    ("chi square", "chi squared", "chisq", "chi2"),
    ("z value", "z statistic", "z score", "wald z", "z"),
    ("t value", "t statistic"),
    ("average", "mean"),
    ("restricted mean", "rmean"),
    ("median", "med"),
    ("percentage", "percent", "proportion", "fraction"),
    ("probability", "prob", "p"),
    ("interquartile range", "iqr"),
    ("length", "long", "longer"),
    ("height", "tall", "taller"),
    ("age", "old", "older", "aged"),
    ("kaplan meier", "km"),
    ("aalen johansen", "aj"),
    ("cumulative incidence", "ci function"),
    ("infinitesimal jackknife", "ij"),
    ("female", "females", "woman", "women", "f"),
    ("male", "males", "man", "men", "m"),
    ("minimum", "smallest", "lowest", "min"),
    ("maximum", "largest", "highest", "max"),
    ("larger", "bigger", "greater", "higher"),
    ("smaller", "fewer", "less", "lower"),
    ("method", "approach", "technique", "procedure"),
    ("function", "routine", "command"),
    ("drug", "treatment", "therapy"),
    (
        "conduct",
        "conducted",
        "perform",
        "performed",
        "run",
        "ran",
        "undertake",
        "undertook",
        "undertaken",
        "carried out",
    ),
    ("take part", "took part", "participate", "enroll", "enrolled", "enrollment", "recruit", "recruited"),
    ("begin", "began", "begun", "start", "started"),
    ("collect", "collected", "gather", "gathered"),
    ("compute", "computed", "computation", "calculate", "calculated", "calculation"),
    ("contain", "contains", "include", "includes", "comprise", "hold", "holds"),
    ("affect", "influence", "impact", "effect"),
    ("advantage", "benefit", "strength"),
    ("disadvantage", "weakness", "drawback", "shortcoming"),
    ("problem", "issue", "difficulty"),
    ("aim", "goal", "purpose", "objective"),
    ("lead", "led", "leads"),
    ("choose", "chose", "chosen", "select", "selected"),
    ("write", "wrote", "written", "author"),
    ("important", "key", "main", "primary", "principal"),
    ("increase", "rise", "grow"),
    ("decrease", "fall", "decline", "reduce"),
)

_SUFFIXES: tuple[tuple[str, str], ...] = (
    ("ational", "ate"), ("ization", "ize"), ("isation", "ize"), ("ations", "ate"), ("ation", "ate"), ("ities", "ity"),
    ("iveness", "ive"), ("fulness", "ful"), ("ically", "ic"), ("ments", "ment"), ("ings", ""), ("edly", ""), ("ions", ""),
    ("ies", "y"), ("ing", ""), ("ion", ""), ("ied", "y"), ("ed", ""), ("ly", ""), ("es", ""), ("s", ""),
)  # fmt: skip
_KEEP = frozenset(
    {"analysis", "basis", "this", "hypothesis", "diagnosis", "species", "series", "status", "bias", "less", "class"}
)


@dataclass(frozen=True, slots=True)
class Token:
    """A word or number of a text; ``start`` and ``end`` are offsets in it."""

    text: str
    stem: str
    start: int
    end: int

    @property
    def is_number(self) -> bool:
        return self.text[0].isdigit()


@lru_cache(maxsize=16_384)
def stem(word: str) -> str:
    """A light stem: lower case, one inflection off, a final "e" or doubled consonant off. Numbers lose their commas."""
    word = word.lower()
    if not word.isascii():
        word = "".join(c for c in unicodedata.normalize("NFKD", word) if c.isalnum()) or word
    if word[0].isdigit():
        return word.replace(",", "")
    if len(word) <= 3 or word in _KEEP:
        return word
    for suffix, put in _SUFFIXES:
        if word.endswith(suffix) and len(word) - len(suffix) >= 3:
            word = word[: len(word) - len(suffix)] + put
            break
    if len(word) > 4 and word[-1] == word[-2] and word[-1] not in "ls":
        word = word[:-1]
    return word[:-1] if word.endswith("e") and len(word) > 3 else word


def tokens(text: str) -> tuple[Token, ...]:
    """The words and numbers of a text, in order."""
    return tuple(Token(m.group(), stem(m.group()), m.start(), m.end()) for m in _TOKEN.finditer(text))


def stems(text: str) -> tuple[str, ...]:
    """The stems of a text's words, in order."""
    return tuple(token.stem for token in tokens(text))


def _concept_index() -> dict[tuple[str, ...], frozenset[tuple[str, ...]]]:
    index: dict[tuple[str, ...], set[tuple[str, ...]]] = {}
    for group in _CONCEPTS:
        phrases = {stems(phrase) for phrase in group}
        for phrase in phrases:
            index.setdefault(phrase, set()).update(phrases)
    generic = {stems(phrase) for phrase in _CONCEPTS[0]}
    for sex in (stems("women"), stems("men")):  # patients may be women; women are not just any patients
        index[sex] -= generic - {sex}
    return {phrase: frozenset(alternatives) for phrase, alternatives in index.items()}


CONCEPTS = _concept_index()
LONGEST_CONCEPT = max(map(len, CONCEPTS))
STOP_STEMS = frozenset(map(stem, STOP))


def index(text: str) -> frozenset[str]:
    """The stems of a text for look-up with ``holds``; of a long one its beginning too ("progression" finds "progressed")."""
    found = stems(text)
    return frozenset(found) | {_beginning(word) for word in found if len(word) >= PREFIX}


def _beginning(word: str) -> str:
    return word[:PREFIX] + "*"


_LEVELS = ("yes", "y", "no")  # "y": what a stem keeps of "yes"


def abbreviates(short: str, first: str, second: str) -> bool:
    """Whether a variable's name is made of the beginnings of two words: "waistcirc", "pnodes", and "horthyes" with its level."""
    bare = next((short[: -len(level)] for level in _LEVELS if short.endswith(level)), short)
    for name in (short, bare):
        if len(name) >= 4 and name not in (first, second):
            for i in range(1, len(name) - 1):
                if (
                    first.startswith(name[:i])
                    and second.startswith(name[i:])
                    and len(name) >= (4 if len(name) - i >= 3 else 5)
                ):
                    return True
    return False


PREFIX = 7


def holds(phrase: Phrase, words: frozenset[str]) -> bool:
    """Whether an index holds every word of a phrase."""
    return all(word in words or (len(word) >= PREFIX and _beginning(word) in words) for word in phrase)

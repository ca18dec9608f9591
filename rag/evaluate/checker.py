"""Rules for question sets that measure something: each question stands alone, hides its modality and has its answer where its
set says, and nowhere else.

A question whose answer also stands where another branch finds it, or whose wording tells the branch, measures nothing. The
rules are mechanical and err on the strict side; that an unanswerable question has no answer only a reader can tell.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from rag.corpus import Corpus
from rag.errors import UsageError
from rag.evaluate.questions import UNANSWERABLE, Question
from rag.search import words

NO_ANSWER = "not in the documents"
MAX_ANSWER_WORDS = 14
MAX_QUESTION_WORDS = 40
COMMON_SHARE = 0.2
"""A word on more than this share of the pages does not tell which page is meant."""
ECHO_WORDS = 9
"""A run of this many words taken over from the gold source is a copied sentence."""
PARAPHRASE = 0.75
"""Two questions that share this part of their words (Jaccard) ask the same."""
SAME_ANSWER_PARAPHRASE = 0.5
"""As ``PARAPHRASE``, where gold source and answer are the same too."""
WORDS_PRESENT = 0.6
"""Share of an answer's words that its source must hold where it does not hold the answer as it stands; numbers all must."""

TELLING_CHARS = 5
"""A shorter answer ("9", "two") stands on most pages by chance."""

MODALITY = re.compile(
    r"\b(?:fig(?:ure)?s?|tables?|tabulated|charts?|(?:box|scatter|forest|funnel)?[ -]?plot(?:s|ted|ting)?|panels?|(?:sub)?graph(?:s|ics?)?"
    r"|diagrams?|curves?|drawn|draws?|drawings?|images?|pictures?|pictured|photos?|histograms?|heatmaps?|barplots?|ax[ie]s|legends?"
    r"|captions?|captioned|shown|shows?|depict(?:s|ed)?|illustrat(?:es?|ed|ions?)|displays?|displayed|rows?|columns?|crops?|pixels?"
    r"|dashed|dotted|shaded|colou?r(?:s|ed)?)\b",
    re.I,
)
DEICTIC = re.compile(
    r"\b(?:this|these|the (?:above|present|current|following|preceding|given|same)) (?:study|studies|paper|document|page|section"
    r"|chapter|example|data|model|analysis|experiment|text|output|code|result)\b"
    r"|\b(?:here|aforementioned|(?:mentioned|given|listed|described|seen) (?:above|below)|the (?:authors?|paper|document|page|text))\b",
    re.I,
)
_HEDGE = re.compile(r"^(?:about|approximately|roughly|around|nearly|almost) ")
_NUMBER = re.compile(r"(?<![\w.])[-+]?\d+(?:\.\d+)?(?![\w]|\.\d)")
_DASHES = dict.fromkeys(map(ord, "\u2010\u2011\u2012\u2013\u2014\u2212"), "-")


def fold(text: str) -> str:
    """The form in which texts are compared: case, width and kinds of dash folded, white space single, no commas in thousands."""
    text = unicodedata.normalize("NFKC", text).translate(_DASHES).casefold()
    return " ".join(re.sub(r"(?<=\d),(?=\d{3}(?!\d))", "", text).split())


def stands_in(value: str, text: str) -> bool:
    """Whether the folded ``text`` holds the folded ``value`` as whole tokens: "0.4" stands in neither "0.46" nor "10.4"."""
    return value in text and re.search(rf"(?<![\w.]){re.escape(value)}(?!\w|\.\d)", text) is not None


def answered_by(answer: str, text: str, asked: str = "") -> bool:
    """Whether ``text`` holds every part ("a; b", "a against b") of an answer: as it stands, or all of its numbers and
    ``WORDS_PRESENT`` of its words (by stem). Words of the question ``asked`` need not stand there: an answer may repeat them."""
    given = fold(text)
    numbers, stems = set(_NUMBER.findall(given)), {*words(given), *words(fold(asked))}
    return all(_part_in(part, given, numbers, stems) for part in parts(answer))


def parts(answer: str) -> list[str]:
    """The facts of an answer, folded and without hedges ("about")."""
    return [_HEDGE.sub("", part) for part in re.split(r"; | against ", fold(answer))]


def _part_in(part: str, given: str, numbers: set[str], stems: set[str]) -> bool:
    if stands_in(part, given):
        return True
    wanted = set(_NUMBER.findall(part))
    letters = set(words(part)) - wanted
    return bool(wanted or letters) and wanted <= numbers and len(letters & stems) >= WORDS_PRESENT * len(letters)


@dataclass(frozen=True, eq=False)
class _Place:
    """The corpus, with what several rules ask it for."""

    corpus: Corpus

    @cached_property
    def outside_pixels(self) -> tuple[tuple[str, str], ...]:
        """(id, folded text) of every chunk and caption."""
        chunks = [(chunk.id, fold(chunk.text)) for chunk in self.corpus.chunks.values()]
        return (*chunks, *((f"caption of {crop.id}", fold(crop.caption)) for crop in self.corpus.crops.values()))

    @cached_property
    def pages_with(self) -> Mapping[str, int]:
        """On how many pages each stem stands."""
        return Counter(stem for page in self.corpus.pages for stem in set(words(self.page(page))))

    @cached_property
    def _documents(self) -> Mapping[str, frozenset[str]]:
        found: dict[str, set[str]] = {}
        for page in self.corpus.pages.values():
            found.setdefault(page.document, set()).update(words(self.page(page.id)))
        return {name: frozenset(stems) for name, stems in found.items()}

    def page(self, page_id: str) -> str:
        """All that a page holds: its running text, and its crops' captions and read-off text."""
        crops = self.corpus.crops_on(page_id)
        return " ".join([self.corpus.page_text(page_id), *(f"{c.caption} {c.ocr_text}" for c in crops)])

    def about(self, question: Question) -> frozenset[str]:
        """Stems of the documents in which the question's sources stand; of all documents where it has none."""
        pages = [self.corpus.crops[s].page_id if s in self.corpus.crops else s for s in question.sources]
        documents = {self.corpus.pages[p].document for p in pages if p in self.corpus.pages} or self._documents
        return frozenset().union(*(self._documents[name] for name in documents))

    def around(self, question: Question) -> Iterator[str]:
        """The pages of the question's crops and those next to them, where a text would discuss the picture."""
        for crop in (self.corpus.crops[source] for source in question.sources if source in self.corpus.crops):
            here = self.corpus.pages[crop.page_id]
            for page in self.corpus.pages.values():
                if page.document == here.document and abs(page.number - here.number) <= 1:
                    yield page.id

    def gold(self, question: Question) -> Iterator[str]:
        """Text of each gold source: a page's running text, or a crop's caption."""
        for source in question.sources:
            if source in self.corpus.crops:
                yield self.corpus.crops[source].caption
            elif source in self.corpus.pages:
                yield self.corpus.page_text(source)


Rule = Callable[[Question, _Place], Iterator[str]]


def _form(question: Question, place: _Place) -> Iterator[str]:
    if not question.q.endswith("?") or question.q != " ".join(question.q.split()):
        yield "form: a question is one line that ends with a question mark"
    if len(question.q.split()) > MAX_QUESTION_WORDS:
        yield f"form: more than {MAX_QUESTION_WORDS} words"
    if len(question.answer.split()) > MAX_ANSWER_WORDS:
        yield f"short answer: more than {MAX_ANSWER_WORDS} words"


def _modality(question: Question, place: _Place) -> Iterator[str]:
    if found := MODALITY.search(question.q):
        yield f'modality: "{found[0]}" gives it away'


def _alone(question: Question, place: _Place) -> Iterator[str]:
    if found := DEICTIC.search(question.q):
        yield f'self-contained: "{found[0]}" points at what a reader of the question does not see'


def _names(question: Question, place: _Place) -> Iterator[str]:
    most = COMMON_SHARE * len(place.corpus.pages)
    telling = {stem for stem in words(question.q) if 0 < place.pages_with[stem] <= most}
    if len(telling & place.about(question)) < 2:
        yield "names: fewer than two words tell which variable, cohort or measurement is meant"


def _echo(question: Question, place: _Place) -> Iterator[str]:
    asked = re.findall(r"\w+", fold(question.q))
    runs = [" ".join(asked[i : i + ECHO_WORDS]) for i in range(len(asked) - ECHO_WORDS + 1)]
    for text in place.gold(question):
        given = " ".join(re.findall(r"\w+", fold(text)))
        if copied := next((run for run in runs if stands_in(run, given)), None):
            yield f'echo: "{copied}" is copied from the source'


def _on(kind: str, many: int) -> Rule:
    def rule(question: Question, place: _Place) -> Iterator[str]:
        if len(question.sources) != many:
            yield f"sources: {len(question.sources)} instead of {many}"
        known = place.corpus.crops if kind == "crop" else place.corpus.pages
        for source in question.sources:
            if source not in known:
                yield f"sources: {source} is no {kind} of the corpus"

    return rule


def _typed(kind: str) -> Rule:
    def rule(question: Question, place: _Place) -> Iterator[str]:
        if question.type != kind:
            yield f'type: "{question.type}" instead of "{kind}"'

    return rule


def _answered(question: Question, place: _Place) -> Iterator[str]:
    if not answered_by(question.answer, " ".join(place.gold(question)), question.q):
        yield f'answer: "{question.answer}" does not stand in the gold source'


def _both_needed(question: Question, place: _Place) -> Iterator[str]:
    facts = parts(question.answer)
    if len(facts) < 2:
        yield 'two facts: the parts of the answer are joined by "; "'
    for source, text in zip(question.sources, place.gold(question), strict=False):
        if all(len(fact) >= TELLING_CHARS and stands_in(fact, fold(text)) for fact in facts):
            yield f"two facts: {source} alone answers it"


def _pixels_only(question: Question, place: _Place) -> Iterator[str]:
    for value in _values(question.answer):
        if also := [name for name, text in place.outside_pixels if stands_in(value, text)]:
            more = f" and {len(also) - 1} more" if also[1:] else ""
            yield f'pixels only: "{value}" also stands in {also[0]}{more}'
        for page in place.around(question):
            if exact := next(
                (n for n in _NUMBER.findall(fold(place.corpus.page_text(page))) if _rounds(n, value)), None
            ):
                yield f'pixels only: {exact} on {page} rounds to "{value}"'


def _values(answer: str) -> set[str]:
    """What of an answer must stand nowhere: the answer without its hedge and, of a number with a unit, the number."""
    value = _HEDGE.sub("", fold(answer))
    numbers = _NUMBER.findall(value)
    return {value, *numbers} if len(numbers) == 1 and value.startswith(numbers[0]) else {value}


def _rounds(exact: str, value: str) -> bool:
    if not _NUMBER.fullmatch(value):
        return False
    places = len(value.partition(".")[2])
    return len(exact.partition(".")[2]) > places and f"{float(exact):.{places}f}" == value


def _no_answer(question: Question, place: _Place) -> Iterator[str]:
    if question.answer != NO_ANSWER:
        yield f'answer: an unanswerable question\'s is "{NO_ANSWER}"'


_EVERY: tuple[Rule, ...] = (_form, _modality, _alone, _names, _echo)
RULES: Mapping[str, tuple[Rule, ...]] = {
    "text": (*_EVERY, _typed("text"), _on("page", 1), _answered),
    "multihop": (*_EVERY, _typed("multihop"), _on("page", 2), _answered, _both_needed),
    "figure_pixel": (*_EVERY, _typed("figure"), _on("crop", 1), _pixels_only),
    "figure_caption": (*_EVERY, _typed("figure"), _on("crop", 1), _answered),
    "unanswerable": (*_EVERY, _typed(UNANSWERABLE), _on("page", 0), _no_answer),
}
"""The rules of each kind of set."""


def check_set(questions: Sequence[Question], name: str, corpus: Corpus) -> list[str]:
    """What breaks a rule of the set, as "name 3: RULE: what is wrong (question)", questions counted from 1.

    Args:
        questions: the set, as ``rag.evaluate.questions.load_questions`` gives it.
        name: a key of ``RULES``, or a file's stem that ends with one (``demo_figure_pixel``).
        corpus: the corpus that the sources name.

    Raises:
        UsageError: no kind of set has this name.
    """
    rules = next((RULES[kind] for kind in RULES if name == kind or name.endswith(f"_{kind}")), None)
    if rules is None:
        raise UsageError(f"{name} is no kind of question set; name it after one of {', '.join(RULES)}.")
    place = _Place(corpus)
    found = [
        f"{name} {n}: {problem} ({question.q})"
        for n, question in enumerate(questions, 1)
        for rule in rules
        for problem in rule(question, place)
    ]
    return found + [f"{name} {problem}" for problem in repeated(questions)]


def repeated(questions: Sequence[Question]) -> list[str]:
    """Pairs of questions that are the same or ask the same in other words, of one set or of several."""
    asked = [frozenset(words(question.q)) for question in questions]
    return [
        f"{j + 1}: duplicate: asks the same as {i + 1} ({questions[i].q} / {questions[j].q})"
        for j in range(len(questions))
        for i in range(j)
        if _same(questions[i], questions[j], asked[i], asked[j])
    ]


def _same(one: Question, other: Question, asked: frozenset[str], also: frozenset[str]) -> bool:
    shared = len(asked & also) / max(1, len(asked | also))
    alike = bool(one.sources) and one.sources == other.sources and fold(one.answer) == fold(other.answer)
    return shared >= (SAME_ANSWER_PARAPHRASE if alike else PARAPHRASE)

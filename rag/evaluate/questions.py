"""Question files: reading them, the set that belongs to a corpus, and where a question's gold evidence came in a ranking.

A file is a JSON list of objects with ``q``, ``source`` (a page or crop, or a list of them; empty where nothing answers it),
``answer`` and ``type``; the study's own files are of this form.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal

from rag.corpus import Corpus
from rag.errors import UsageError
from rag.pipeline import MAX_QUESTION_CHARS
from rag.settings import ASSETS
from rag.types import Branch, Trace

MAX_FILE_BYTES = 10_000_000
MAX_ANSWER_CHARS = 10_000
MAX_TYPE_CHARS = 40
MAX_SOURCES = 50

UNANSWERABLE = "unanswerable"

_FORM = (
    'a question file is a JSON list of objects like {"q": "…", "source": "PAGE or CROP", "answer": "…", "type": "text"}'
)
_SUFFIXES = (".txt", ".png", ".jpg", ".jpeg", ".webp")


@dataclass(frozen=True, slots=True)
class Question:
    """One entry. ``sources`` are names of pages and crops as the file gives them (see ``resolve``); ``set`` is the name of the
    file without its suffix."""

    q: str
    sources: tuple[str, ...]
    answer: str
    type: str
    set: str


@dataclass(frozen=True, slots=True)
class Gold:
    """One gold source and its place in the ranking of the branch that holds it.

    ``rank`` is that of the best item from the source, ``None`` where none is listed or the branch is off; ``state`` tells these
    apart. ``item_id`` is that best item, ``sent`` whether any item from the source is in the prompt. ``bridged`` is the chunk in the
    prompt that the graph brought in from a page that the text ranking missed.
    """

    source: str
    branch: Branch
    state: Literal["found", "missed", "off"]
    rank: int | None = None
    item_id: str = ""
    sent: bool = False
    bridged: str = ""


def load_questions(file: Path) -> tuple[Question, ...]:
    """The questions of a file, in its order.

    Raises:
        UsageError: it can't be read, is too large, or is no question file; names the file, the entry (from 1) and what is wrong.
    """
    try:
        if file.stat().st_size > MAX_FILE_BYTES:
            raise UsageError(
                f"{file.name} has more than {MAX_FILE_BYTES // 1_000_000} MB; split it: a question file holds questions, no documents."
            )
        found = json.loads(file.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise UsageError(f"{file} can't be read ({error.strerror}); check the path.") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{file.name} is not UTF-8 (byte {error.start}); save it as UTF-8.") from error
    except RecursionError:
        raise UsageError(f"{file.name} is nested too deeply; {_FORM}.") from None
    except ValueError as error:
        raise UsageError(f"{file.name} is not JSON ({error}); {_FORM}.") from error
    if not isinstance(found, list) or not found:
        raise UsageError(f"{file.name} holds no list of questions; {_FORM}.")
    return tuple(_question(entry, f"{file.name}, entry {n}", file.stem) for n, entry in enumerate(found, 1))


def load_sets(files: Iterable[Path]) -> tuple[Question, ...]:
    """The questions of several files, each file a set.

    Raises:
        UsageError: as ``load_questions``; or two files would be one set.
    """
    named: dict[str, Path] = {}
    for file in files:
        if (other := named.setdefault(file.stem, file)) is not file:
            raise UsageError(
                f"{other} and {file} would be one set, {file.stem!r}: a set is named after its file. Rename one of them."
            )
    return tuple(question for file in named.values() for question in load_questions(file))


def _question(entry: object, where: str, name: str) -> Question:
    if not isinstance(entry, dict):
        raise UsageError(f"{where} is no object; {_FORM}.")
    question = _text(entry, "q", where, MAX_QUESTION_CHARS)
    answer = _text(entry, "answer", where, MAX_ANSWER_CHARS)
    kind = _text(entry, "type", where, MAX_TYPE_CHARS)
    if not kind.isprintable():
        raise UsageError(f'{where}: "type" holds a character that can\'t be printed; name it in plain words.')
    given = entry.get("source", "")
    listed = given if isinstance(given, list) else [given]
    if len(listed) > MAX_SOURCES or not all(isinstance(source, str) for source in listed):
        raise UsageError(
            f'{where}: "source" must be the name of a page or crop, or a list of at most {MAX_SOURCES} of them.'
        )
    sources = tuple(dict.fromkeys(source.strip() for source in listed if source.strip()))
    if not sources and kind != UNANSWERABLE:
        raise UsageError(
            f'{where} names no "source"; name the page or crop that answers it, or set its type to "{UNANSWERABLE}".'
        )
    return Question(question, sources, answer, kind, name)


def _text(entry: dict[str, object], field: str, where: str, limit: int) -> str:
    value = entry.get(field)
    if not isinstance(value, str) or not value.strip():
        raise UsageError(f'{where} has no "{field}"; {_FORM}.')
    if len(value) > limit:
        raise UsageError(f'{where}: "{field}" has {len(value):,} characters; shorten it to {limit:,}.')
    if any(unicodedata.category(c) == "Cs" for c in value):
        raise UsageError(f'{where}: "{field}" holds a lone surrogate, which is no text; write the character itself.')
    return value.strip()


def resolve(source: str, corpus: Corpus) -> str:
    """The page or crop of the corpus that a question file means by ``source``, or an empty string. The study's files name image
    and text files, whose suffix an id may or may not have kept."""
    bare = next((source[: -len(end)] for end in _SUFFIXES if source.lower().endswith(end)), source)
    return next((name for name in (source, bare) if name in corpus.pages or name in corpus.crops), "")


def gold_of(question: Question, corpus: Corpus) -> tuple[str, ...]:
    """The pages and crops of the corpus that answer the question."""
    return tuple(dict.fromkeys(found for source in question.sources if (found := resolve(source, corpus))))


def known_questions(corpus: Corpus) -> tuple[Question, ...]:
    """The questions that ship for this corpus, in the order of their files; of another corpus with the same name, those alone
    whose sources it holds."""
    found = _shipped(corpus.manifest.name)
    answerable = {q for q in found if q.sources and all(resolve(source, corpus) for source in q.sources)}
    return tuple(q for q in found if q in answerable or (answerable and not q.sources))


@lru_cache(maxsize=16)
def _shipped(name: str) -> tuple[Question, ...]:
    # The name may come from a stranger's corpus, so it is compared and never becomes part of a path.
    files = sorted(f for f in (ASSETS / "questions").glob("*.json") if f.name.startswith(f"{name}_"))
    return tuple(question for file in files for question in load_questions(file))


def reference_for(question: str, corpus: Corpus) -> Question | None:
    """The entry of the corpus's question set with these words, whatever their case and spacing."""
    wanted = _folded(question)
    return next((known for known in known_questions(corpus) if _folded(known.q) == wanted), None)


def _folded(text: str) -> str:
    return " ".join(text.split()).casefold()


def locate(question: Question, trace: Trace, corpus: Corpus) -> tuple[Gold, ...]:
    """Where each gold source came: a page in the ranking of chunks, a crop in the ranking of crops. Sources that the corpus does
    not hold are left out."""
    return tuple(_locate(source, trace, corpus) for source in gold_of(question, corpus))


def _locate(source: str, trace: Trace, corpus: Corpus) -> Gold:
    branch: Branch = "visual" if source in corpus.crops else "text"
    found = trace.evidence.visual if branch == "visual" else trace.evidence.text
    if found is None:
        return Gold(source, branch, "missed" if branch in trace.system.branches else "off")
    sent = set(trace.prompt.tags.values()) if trace.prompt else set()
    items = [(hit.rank, hit.item_id) for hit in found.hits if source_of(hit.item_id, branch, corpus) == source]
    if not items:
        graph = trace.evidence.graph
        bridges = [bridge.hit.item_id for bridge in graph.bridges] if graph else []
        brought = [chunk for chunk in bridges if chunk in sent and corpus.chunks[chunk].page_id == source]
        return Gold(source, branch, "missed", bridged=next(iter(brought), ""))
    rank, item = min(items)
    return Gold(source, branch, "found", rank, item, any(listed in sent for _, listed in items))


def source_of(item_id: str, branch: Branch, corpus: Corpus) -> str:
    """What a question file would name as the source of an item: a chunk's page, or the crop itself."""
    return corpus.chunks[item_id].page_id if branch == "text" else item_id


def gold_items(question: Question, trace: Trace, corpus: Corpus) -> Iterator[str]:
    """Every item listed in the trace's rankings that comes from a gold source."""
    text, visual = trace.evidence.text, trace.evidence.visual
    gold = gold_of(question, corpus)
    listed: list[tuple[Branch, str]] = [("text", hit.item_id) for hit in (text.hits if text else ())]
    listed += [("visual", hit.item_id) for hit in (visual.hits if visual else ())]
    for branch, item in listed:
        if source_of(item, branch, corpus) in gold:
            yield item

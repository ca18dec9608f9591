"""Every value that crosses a module boundary, as frozen dataclasses.

``bbox`` is always x0, y0, x1, y1 in points of the unrotated page, origin top left. Times are milliseconds, money is USD.
Ranks count from 1. Sequences are tuples, so that a value can be shared between threads.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

BBox = tuple[float, float, float, float]
Branch = Literal["text", "graph", "visual"]
CropKind = Literal["figure", "table"]
Payload = Literal["pixels", "captions", "nothing"]
GraphMode = Literal["provenance", "open", "bridge"]
RejectionReason = Literal["entity too short", "page not retrieved", "duplicate", "over the limit"]
SegmentKind = Literal["instruction", "question", "text", "graph", "captions", "image"]
FinishReason = Literal["stop", "length", "content_filter", "cancelled", "error"]

# --- the corpus ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Document:
    """One source document; the licence travels with everything that is derived from it."""

    id: str
    title: str
    file: str
    pages: int
    sha256: str
    licence: str = ""
    authors: str = ""
    year: str = ""
    copyright: str = ""
    source: str = ""


@dataclass(frozen=True, slots=True)
class Page:
    """A page; ``number`` counts from 1, ``image`` is a path relative to the corpus folder or empty. ``source`` says how its
    text was got (``text layer``, ``ocr``, ``annotated ocr``, or empty where nobody said), ``note`` in one sentence what
    could not be read."""

    id: str
    document: str
    number: int
    width_pt: float
    height_pt: float
    image: str
    source: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class Word:
    """A word of a page's text and where it stands; ``start`` and ``end`` are offsets in ``Corpus.page_text``. A word broken
    at a line end is two of them, one after the other."""

    start: int
    end: int
    bbox: BBox


@dataclass(frozen=True, slots=True)
class Region:
    """A layout region in reading order (``order`` counts from 0 on each page)."""

    id: str
    page_id: str
    kind: str
    bbox: BBox
    text: str
    order: int


@dataclass(frozen=True, slots=True)
class Chunk:
    """A window of the page's folded text; ``start`` is the character offset on the page."""

    id: str
    page_id: str
    text: str
    start: int
    region_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Crop:
    """A figure or table: pixels, the author's caption (empty where the page has none) and the text read off it.
    ``model_caption`` was written by the model ``captioned_by``; both are empty where none was asked. ``continues`` is the id of
    the crop on the page before with the first part of the same table."""

    id: str
    page_id: str
    kind: CropKind
    bbox: BBox
    image: str
    caption: str
    ocr_text: str
    model_caption: str = ""
    captioned_by: str = ""
    continues: str = ""

    @property
    def captions(self) -> str:
        """The author's caption and the model's in one text, by which the crop is found."""
        return f"{self.caption} {self.model_caption}".strip()


@dataclass(frozen=True, slots=True)
class Triple:
    """Subject, relation, object; ``origin`` says who extracted it (``grammar``, or a model's name)."""

    subject: str
    relation: str
    object: str
    chunk_id: str
    page_id: str
    origin: str


# --- building a corpus ----------------------------------------------------------------------------------------------


BuildStage = Literal["pages", "captions", "triples", "chunk index", "crop index"]


@dataclass(frozen=True, slots=True)
class Progress:
    """How far the building of a corpus is: ``done`` of ``total`` items of a stage (0 where a stream doesn't say how many).
    ``counts`` are the rows so far; ``str()`` is a line for the person."""

    stage: BuildStage
    done: int
    total: int
    line: str
    counts: Mapping[str, int] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.line


# --- retrieval -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Hit:
    """One ranker's opinion of one item."""

    item_id: str
    branch: Branch
    ranker: str
    rank: int
    score: float


@dataclass(frozen=True, slots=True)
class Fused:
    """An item's place after fusion, with every hit it came from."""

    item_id: str
    rank: int
    score: float
    hits: tuple[Hit, ...]


@dataclass(frozen=True, slots=True)
class Fact:
    """A graph fact. ``triple_ids`` index ``Corpus.triples``; ``entity`` is the matched entity as the question holds it;
    ``via`` is the direction in which the edge was reached."""

    triple_ids: tuple[int, ...]
    text: str
    entity: str
    via: Literal["out", "in"]


@dataclass(frozen=True, slots=True)
class RejectedFact:
    """A fact that was considered and dropped, with the reason."""

    fact: Fact
    reason: RejectionReason


@dataclass(frozen=True, slots=True)
class Step:
    """A stop on a way through the graph: an entity by its name, or a chunk by its id. ``triple_id`` is the triple that links it to the
    stop before, ``None`` at the start."""

    kind: Literal["entity", "chunk"]
    name: str
    triple_id: int | None = None


@dataclass(frozen=True, slots=True)
class Bridge:
    """A chunk that the walk brought in from a page without a text hit. ``path`` is the likeliest way to it, from an entity as the question
    holds it, or from the chunk of a text hit."""

    hit: Fused
    path: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class TextEvidence:
    """Text branch (eq. 1): the top k chunks, best first. ``parts`` are what was searched instead of the whole question, where
    ``hybrid`` found several in it."""

    hits: tuple[Fused, ...]
    ranker: str
    parts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class GraphEvidence:
    """Graph branch (eq. 3). ``rejected`` lists at most 100 dropped facts of each reason; ``rejected_counts`` counts all. ``bridges`` are
    found in the mode of that name alone."""

    entities: tuple[str, ...]
    facts: tuple[Fact, ...]
    rejected: tuple[RejectedFact, ...]
    rejected_counts: Mapping[RejectionReason, int]
    mode: GraphMode
    bridges: tuple[Bridge, ...] = ()


@dataclass(frozen=True, slots=True)
class VisualEvidence:
    """Visual branch (eq. 2): crops down to the scoring depth. ``rankings`` keeps each ranker's own list; ``note`` says in
    one sentence why a ranker that was wanted is missing."""

    hits: tuple[Fused, ...]
    ranker: str
    rankings: Mapping[str, tuple[Hit, ...]] = field(default_factory=dict)
    note: str = ""


@dataclass(frozen=True, slots=True)
class Signal:
    """One number or word that the gate looked at."""

    name: str
    value: str


@dataclass(frozen=True, slots=True)
class GateDecision:
    """What the visual branch may send. ``wanted`` is the decision before the generator's abilities were considered;
    ``read_off`` says that the crops' read-off text goes along (a generator without vision)."""

    payload: Payload
    item_ids: tuple[str, ...]
    reason: str
    signals: tuple[Signal, ...]
    wanted: Payload
    mode: str
    read_off: bool = False


@dataclass(frozen=True, slots=True)
class Evidence:
    """All that the branches found; a branch that is off is ``None``."""

    text: TextEvidence | None = None
    graph: GraphEvidence | None = None
    visual: VisualEvidence | None = None
    gate: GateDecision | None = None


# --- prompt and generation -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Segment:
    """A run of the prompt. ``tag`` and ``item_id`` are set where the run is one piece of evidence."""

    kind: SegmentKind
    text: str
    tag: str = ""
    item_id: str = ""

    @property
    def is_passage(self) -> bool:
        """Whether this is a chunk: a text hit, or one that the graph brought in, which is no fact."""
        return bool(self.tag) and (
            self.kind == "text" or (self.kind == "graph" and not self.item_id.startswith("triple:"))
        )


@dataclass(frozen=True, slots=True)
class PromptImage:
    """A crop sent as pixels; the digest is of the file in the corpus."""

    tag: str
    crop_id: str
    file: str
    sha256: str
    width: int
    height: int


@dataclass(frozen=True, slots=True)
class Message:
    """A chat message; its content is the joined text of its segments."""

    role: Literal["system", "user"]
    content: str


@dataclass(frozen=True, slots=True)
class Prompt:
    """Exactly what a generator gets. ``tags`` maps T1, G1, V1 ... to chunk ids, ``triple:N`` (or a bridge's chunk id) and crop ids."""

    messages: tuple[Message, ...]
    segments: tuple[Segment, ...]
    tags: Mapping[str, str]
    images: tuple[PromptImage, ...] = ()


@dataclass(frozen=True, slots=True)
class SentImage:
    """An image as the provider got it: ``sha256`` and ``bytes`` are of the very bytes sent, which differ from the crop's file
    where it had to be re-encoded (``reencoded``)."""

    tag: str
    crop_id: str
    sha256: str
    media_type: str
    width: int
    height: int
    bytes: int
    reencoded: bool


@dataclass(frozen=True, slots=True)
class Usage:
    """Token counts; ``None`` is unknown and never 0. ``source`` says who counted. ``output_tokens`` is all that is billed as
    output; ``reasoning_tokens`` is the part of it that went into thinking."""

    input_tokens: int | None
    output_tokens: int | None
    reasoning_tokens: int | None
    source: Literal["reported", "estimated"]


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a call would take, before it is made (``rag.pricing.estimate``).

    ``input_tokens`` is ``text_tokens`` and ``image_tokens`` together; the sum and the latter are ``None`` where images go along and
    the provider's rule is not known.
    ``cost_usd`` supposes ``output_tokens``, ``limit_usd`` the longest answer asked for; ``None`` is unknown. ``note`` says in
    one sentence what could not be counted, or what would not be sent."""

    generator: str
    input_tokens: int | None
    text_tokens: int
    image_tokens: int | None
    output_tokens: int
    cost_usd: float | None
    limit_usd: float | None
    note: str = ""


@dataclass(frozen=True, slots=True)
class Sent:
    """The request is on its way with these images."""

    images: tuple[SentImage, ...]


@dataclass(frozen=True, slots=True)
class Waiting:
    """Nothing has come yet. ``text`` says why, or is empty: the sign that the call is still alive, at which a consumer can stop it."""

    text: str = ""


@dataclass(frozen=True, slots=True)
class Delta:
    """A piece of streamed answer text."""

    text: str


@dataclass(frozen=True, slots=True)
class Finish:
    """The end of a stream. ``reason`` is the provider's own word for it; ``notice`` says in one sentence what an end other than
    ``stop`` means for the answer; ``refused``: the provider turned the request away, so that nothing is billed."""

    usage: Usage
    finish: FinishReason
    error: str = ""
    reason: str = ""
    notice: str = ""
    refused: bool = False


GeneratorEvent = Sent | Waiting | Delta | Finish


@dataclass(frozen=True, slots=True)
class Generation:
    """An answer, complete or (while it streams, or after Stop) partial. ``estimate`` was made before the call; ``waiting`` says
    what the answer waits for, ``images`` what was sent as pixels. Where ``usage.source`` is ``estimated``, so is the cost."""

    text: str
    usage: Usage | None = None
    ttft_ms: float | None = None
    latency_ms: float | None = None
    cost_usd: float | None = None
    finish: FinishReason | None = None
    error: str = ""
    abstained: bool = False
    reason: str = ""
    notice: str = ""
    waiting: str = ""
    images: tuple[SentImage, ...] = ()
    estimate: Estimate | None = None

    @property
    def partial(self) -> bool:
        """Whether there is text that is not the whole answer."""
        return bool(self.text) and self.finish != "stop"

    @property
    def counts(self) -> bool:
        """Whether this may be scored: a whole answer and no failure, cut or blocked text."""
        return self.finish == "stop" and bool(self.text.strip())


@dataclass(frozen=True, slots=True)
class Citation:
    """A tag in the answer; ``item_id`` is empty where the answer invented the tag. ``start`` and ``end`` are offsets in the
    answer's text."""

    tag: str
    item_id: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class System:
    """A retrieval configuration; a value, so that a rival design is a row in a table. ``fusion`` names the rule that
    merges rankings, ``visual_ranker`` ``auto`` is ``fused`` where CLIP is there, else ``proxy``."""

    name: str
    branches: tuple[Branch, ...] = ("text",)
    text_ranker: Literal["dense", "bm25", "hybrid"] = "hybrid"
    text_k: int = 3
    visual_depth: int = 5
    visual_ranker: Literal["auto", "clip", "proxy", "fused"] = "auto"
    payload: Literal["auto", "pixels", "captions"] = "auto"
    captions_k: int = 3
    max_facts: int = 8
    min_entity_chars: int = 5
    graph_mode: GraphMode = "provenance"
    fusion: Literal["rrf", "borda", "score_mean", "rank_mean"] = "rrf"
    label: str = ""


@dataclass(frozen=True, slots=True)
class Trace:
    """One question's whole way. Views read this and the corpus, and nothing else. Fields fill up as ``ask`` goes on.

    ``excluded`` items were left out of the prompt; with ``refill`` the next-ranked moved up into their places. ``question_type`` is
    set where an evaluation knew it and the gate went by it."""

    id: str
    created: str
    question: str
    system: System
    generator: str
    corpus_id: str
    evidence: Evidence = field(default_factory=Evidence)
    prompt: Prompt | None = None
    generation: Generation | None = None
    citations: tuple[Citation, ...] = ()
    timings_ms: Mapping[str, float] = field(default_factory=dict)
    excluded: tuple[str, ...] = ()
    refill: bool = False
    question_type: str | None = None
    format: int = 1


class Generator(Protocol):
    """Anything that answers a prompt as a stream: any number of ``Sent``, ``Waiting`` and ``Delta`` and one ``Finish`` at the end.
    Closing the iterator aborts the call."""

    def stream(self, prompt: Prompt) -> Iterator[GeneratorEvent]: ...

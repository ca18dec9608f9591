"""Prompts, calls and time for the tests of the generators."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from PIL import Image

from rag.generators.registry import LISTED
from rag.generators.retry import RetryPolicy
from rag.generators.spec import Call, GeneratorSpec, Timeouts
from rag.keys import Credential, Secret
from rag.types import Delta, Finish, GeneratorEvent, Message, Prompt, PromptImage, Segment, Waiting

KEY = "canary-key-7f3a9c"
"""A key that must be found nowhere but in the request."""

QUICK = Timeouts(connect_s=5.0, read_s=20.0, total_s=25.0)


@dataclass
class FakeTime:
    """A clock that only sleeping moves on; ``slept`` keeps the waits."""

    now: float = 0.0
    slept: list[float] = field(default_factory=list)

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds

    def policy(self, chance: float = 1.0) -> RetryPolicy:
        return RetryPolicy(clock=lambda: self.now, sleep=self.sleep, chance=lambda: chance)


def key(text: str = KEY, owner: str = "visitor") -> Credential:
    return Credential(Secret(text), owner)  # type: ignore[arg-type]


def at(name: str, url: str) -> GeneratorSpec:
    """The listed generator ``name``, at another address."""
    return replace(LISTED[name], base_url=url)


def prompt(question: str = "Where?", image: PromptImage | None = None) -> Prompt:
    """An instruction, one chunk, perhaps a crop with its pixels, the question."""
    segments = [
        Segment("instruction", "Answer from the evidence.\n"),
        Segment("text", "[T1] (d, p. 1)\nParis is the capital.\n\n", "T1", "d_p001_c00"),
    ]
    if image is not None:
        segments.append(
            Segment("captions", f"[{image.tag}] (figure, d, p. 1)\nCaption: A map.\n\n", image.tag, image.crop_id)
        )
        segments.append(Segment("image", image.file, image.tag, image.crop_id))
    segments.append(Segment("question", f"Question: {question}\n"))
    user = "".join(s.text for s in segments if s.kind not in ("instruction", "image"))
    tags = {s.tag: s.item_id for s in segments if s.tag}
    return Prompt(
        (Message("system", segments[0].text), Message("user", user)), tuple(segments), tags, (image,) if image else ()
    )


def picture(width: int, height: int, form: str = "PNG", mode: str = "RGB") -> bytes:
    """An image file with something on it."""
    image = Image.new(mode, (width, height), "white" if mode != "RGBA" else (0, 0, 0, 0))
    image.paste("navy" if mode != "RGBA" else (0, 0, 128, 255), (0, 0, max(1, width // 2), max(1, height // 2)))
    out = io.BytesIO()
    image.save(out, form)
    return out.getvalue()


def crop(width: int, height: int) -> PromptImage:
    return PromptImage("V1", "d_p001_figure0", "crops/d_p001_figure0.png", "0" * 64, width, height)


def call(
    time: FakeTime | None = None, image: bytes = b"", timeouts: Timeouts = QUICK, credential: Credential | None = None
) -> Call:
    return Call(credential or key(), lambda _image: image, (time or FakeTime()).policy(), timeouts)


def told(events: Iterable[GeneratorEvent]) -> tuple[str, list[str], Finish]:
    """The text, what was shown while waiting, and the end."""
    seen = list(events)
    text = "".join(e.text for e in seen if isinstance(e, Delta))
    waits = [e.text for e in seen if isinstance(e, Waiting) and e.text]
    (finish,) = [e for e in seen if isinstance(e, Finish)]
    assert seen[-1] is finish
    return text, waits, finish


def until_delta(events: Iterator[GeneratorEvent]) -> Delta:
    """Read on until a piece of text comes."""
    return next(event for event in events if isinstance(event, Delta))

"""Where a document's running text speaks of its figures and tables: "As Figure 4.2 shows, ...".

A sentence that mentions a crop says what it holds in other words than its caption does.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from rag.types import Crop

_LABEL = re.compile(r"\A\W*(fig|tab)(?:ure|le)?s?\.?\s*(\d+(?:\.\d+)*)", re.I)
_MENTION = re.compile(r"\b(fig|tab)(?:ure|le)?s?\.?\s*(\d+(?:\.\d+)*)", re.I)
SIDE = 300
"""Characters before and after a mention in which its sentence is looked for."""
ALL = 900
"""Characters kept of all that mentions a crop."""
_SAME = 60  # so many characters of the caption tell it from a sentence about it


def mentions(crops: Iterable[tuple[Crop, str]], texts: Iterable[tuple[str, str]]) -> Mapping[str, str]:
    """The sentences that mention a crop by the number in its caption, in the order of the pages.

    Args:
        crops: each crop with its document's id.
        texts: (document's id, a page's text) in page order.

    Returns:
        Crop id -> its sentences in one text; crops that nothing mentions are left out.
    """
    named: dict[tuple[str, str, str], list[Crop]] = {}
    for crop, document in crops:
        if label := _LABEL.match(crop.caption):
            named.setdefault((document, label[1].lower(), label[2]), []).append(crop)
    found: dict[str, list[str]] = {}
    for document, text in texts:
        for match in _MENTION.finditer(text):
            for crop in named.get((document, match[1].lower(), match[2]), ()):
                sentence = _sentence(text, match.start(), match.end())
                sentences = found.setdefault(crop.id, [])
                if crop.caption[:_SAME] not in sentence and sentence not in sentences:
                    sentences.append(sentence)
    return {crop: " ".join(sentences)[:ALL] for crop, sentences in found.items() if sentences}


def _sentence(text: str, start: int, end: int) -> str:
    before, after = text.rfind(". ", 0, start) + 1, text.find(". ", end)
    return text[max(before, start - SIDE) : min(len(text) if after < 0 else after + 1, end + SIDE)].strip()

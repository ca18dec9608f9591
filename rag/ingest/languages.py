"""The languages that OCR can read here. No model and no PDF library is loaded for that, as the page asks it at its start."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rag.errors import OcrUnavailable

USUAL = "eng"
_NO_DATA = (
    "Tesseract's language data was not found. Install it (`sudo apt-get install tesseract-ocr`), or set "
    "TESSDATA_PREFIX to its folder."
)
_FOLDER = re.compile(r'"(.+)"')
_USUAL_FOLDERS = ("share/tesseract-ocr/*/tessdata", "share/tesseract/tessdata", "share/tessdata")
"""Of Debian, Fedora and others, beside the folder of the command."""
_LANGUAGE, _MAX_NAME_CHARS = re.compile(r"[a-z_]+"), 40
_NO_LANGUAGES = frozenset({"osd", "equ", "snum"})
"""Models that find which way a page lies, or read formulas and numbers alone."""


def data_folder() -> Path:
    """Tesseract's data folder: TESSDATA_PREFIX, else the one that its own command names or, before version 5, has beside it.

    Raises:
        OcrUnavailable: there is none.
    """
    if stated := os.environ.get("TESSDATA_PREFIX"):
        return Path(stated)
    command = shutil.which("tesseract")
    if command is None:
        raise OcrUnavailable(_NO_DATA)
    told = subprocess.run(
        [command, "--list-langs"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    ).stdout
    named = [Path(name) for name in _FOLDER.findall(told)]
    beside = (folder for usual in _USUAL_FOLDERS for folder in sorted(Path(command).parent.parent.glob(usual)))
    for folder in (*named, *beside):
        if folder.is_dir():
            return folder
    raise OcrUnavailable(_NO_DATA)


def installed_languages() -> tuple[str, ...]:
    """Tesseract's names of the languages that are installed, English first.

    Raises:
        OcrUnavailable: Tesseract's data was not found.
    """
    names = {file.stem for file in data_folder().glob("*.traineddata")} - _NO_LANGUAGES
    return tuple(sorted(names, key=lambda name: (name != USUAL, name)))


@dataclass(frozen=True, slots=True)
class Offer:
    """Languages to choose from, the usual one first, and in one sentence what is missing (or nothing)."""

    names: tuple[str, ...] = (USUAL,)
    missing: str = ""


def offered(wanted: Sequence[str] = ()) -> Offer:
    """The ``wanted`` languages as far as they are installed; all that are where none is wanted or there."""
    try:
        installed = installed_languages()
    except OcrUnavailable as error:
        return Offer((), str(error))
    missing = [name for name in wanted if name not in installed]
    here = tuple(name for name in wanted if name in installed)
    return Offer(here or installed, not_installed(missing, installed) if missing else "")


def split_languages(languages: str) -> tuple[str, ...]:
    """Names joined by + (``eng+deu``), each once."""
    return tuple(dict.fromkeys(name.strip() for name in languages.split("+")))


def check_languages(languages: str) -> str:
    """Tesseract's data folder, once it has all of the ``languages`` (``eng+deu``).

    Raises:
        OcrUnavailable: there is no such folder, or it lacks one; names the package to install.
    """
    installed, wanted = installed_languages(), split_languages(languages)
    missing = [language for language in wanted if language not in installed]
    if odd := [language for language in missing if not _LANGUAGE.fullmatch(language)]:
        raise OcrUnavailable(
            f"{', '.join(map(_quoted, odd))} is no language name. Give Tesseract's, joined by +, such as eng+deu."
        )
    if missing:
        raise OcrUnavailable(not_installed(missing, installed))
    return str(data_folder())


def not_installed(missing: Sequence[str], installed: Sequence[str]) -> str:
    """Says which languages are not there, and which Debian packages have them."""
    packages = " ".join(f"tesseract-ocr-{language.replace('_', '-')}" for language in missing)
    return (
        f"Tesseract has no language {', '.join(map(repr, missing))} here (installed: {', '.join(installed) or 'none'}). "
        f"Run `sudo apt-get install {packages}`."
    )


def _quoted(name: str) -> str:
    return repr(name[:_MAX_NAME_CHARS])

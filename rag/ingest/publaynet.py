"""Page images with annotated regions, as PubLayNet has them (Zhong, Tang and Yepes, "PubLayNet: largest dataset ever for
document layout analysis", ICDAR 2019): a folder of images with a COCO annotation file, or WebDataset tar shards.

Pages come one at a time: a folder's annotation file is read whole (the images are not), a shard as a stream. A page that
is damaged is refused by its name, and reading goes on with the next.
"""

from __future__ import annotations

import json
import math
import tarfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby, islice
from pathlib import Path, PurePosixPath
from typing import IO, Any, Literal, Protocol, get_args

from rag.errors import DocumentError
from rag.ingest.page_images import SUFFIXES
from rag.ingest.text import MAX_ID_CHARS
from rag.types import BBox

AnnotationKind = Literal["text", "title", "list", "table", "figure"]
KINDS: tuple[AnnotationKind, ...] = get_args(AnnotationKind)
# PubLayNet's category ids, for shards whose annotations carry no names.
_PUBLAYNET_IDS: dict[object, str] = dict(enumerate(KINDS, start=1))
_MAX_IMAGE_BYTES, _MAX_JSON_BYTES = 200_000_000, 20_000_000
_TAR_FAULTS = (OSError, EOFError, tarfile.TarError, zlib.error)
_SHARD_SUFFIXES = (".tar", ".tar.gz", ".tgz")
Refuse = Callable[[DocumentError], None]


class FileSystem(Protocol):
    """What is asked of a remote file system, in fsspec's terms."""

    def find(self, path: str) -> list[str]:
        """Paths of all files below `path`."""

    def open(self, path: str, mode: str) -> IO[bytes]:
        """The file, read as it comes."""


@dataclass(frozen=True)
class Annotation:
    """A region of a page image: what it is, and its box x0, y0, x1, y1 in pixels of the image, origin top left."""

    kind: AnnotationKind
    bbox_px: BBox


@dataclass(frozen=True)
class AnnotatedImage:
    """A page: `stem` of its file, the image (`image`: path of its file, or its bytes) and its regions in file order."""

    stem: str
    file: str
    image: Path | bytes
    annotations: tuple[Annotation, ...]


def _raise(error: DocumentError) -> None:
    raise error


def is_folder(folder: Path) -> bool:
    """Whether there is a COCO annotation file with images in this folder."""
    return any(_looks_like_coco(file) for file in folder.glob("*.json"))


def is_shard(file: Path) -> bool:
    """Whether the file's name is that of a tar shard."""
    return file.name.lower().endswith(_SHARD_SUFFIXES)


# --- a folder --------------------------------------------------------------------------------------------------------


def read_folder(folder: Path, limit: int | None = None, refuse: Refuse = _raise) -> Iterator[AnnotatedImage]:
    """The annotated pages of a folder, in the order of its annotation file (COCO: images, annotations, categories).

    Images lie in the folder or, as in PubLayNet's own archive, in one named like the annotation file. Images without
    an entry are left out; a page that can't be had goes to `refuse` (which raises it, by default).

    Raises:
        DocumentError: there is no annotation file, several, or a damaged one.
    """
    found = [file for file in sorted(folder.glob("*.json")) if _looks_like_coco(file)]
    if len(found) != 1:
        names = ", ".join(file.name for file in found)
        raise DocumentError(
            f"{folder.name} holds several annotation files ({names}); keep one beside the images."
            if found
            else f"{folder.name} holds no COCO annotation file (JSON with images, annotations, categories)."
        )
    yield from islice(_coco_pages(found[0], refuse), limit)


def _looks_like_coco(file: Path) -> bool:
    """By its size and start: the file itself may have gigabytes, and a folder many others."""
    try:
        with file.open("rb") as opened:
            start = opened.read(1 << 20)
        return (
            file.is_file()
            and start.lstrip()[:1] == b"{"
            and any(key in start for key in (b'"images"', b'"annotations"', b'"categories"'))
        )
    except OSError:
        return False


def _coco_pages(file: Path, refuse: Refuse) -> Iterator[AnnotatedImage]:
    coco = _parsed(file.read_bytes(), file.name)
    try:
        names = {category["id"]: category["name"] for category in coco.get("categories", ())} or _PUBLAYNET_IDS
        regions: dict[object, list[dict[str, Any]]] = {image["id"]: [] for image in coco["images"]}
        for annotation in coco["annotations"]:
            regions.setdefault(annotation["image_id"], []).append(annotation)
        images = [(str(image["file_name"]), regions[image["id"]]) for image in coco["images"]]
    except (LookupError, TypeError, AttributeError) as error:
        raise DocumentError(f"{file.name} is no COCO annotation file ({type(error).__name__}: {error}).") from error
    seen: set[str] = set()
    for name, own in images:
        plain = PurePosixPath(name.replace("\\", "/")).name  # a file elsewhere is nobody's business here
        try:
            page = AnnotatedImage(
                _stem(PurePosixPath(plain).stem, plain),
                plain,
                _image_file(file, plain),
                _annotations(own, names, plain),
            )
            if page.stem in seen:
                raise DocumentError(f"{plain}: the page {page.stem!r} comes twice in {file.name}.")
        except DocumentError as error:
            refuse(error)
            continue
        seen.add(page.stem)
        yield page


def _image_file(annotation_file: Path, name: str) -> Path:
    for folder in (annotation_file.parent, annotation_file.with_suffix("")):
        if name and (folder / name).is_file():
            return folder / name
    raise DocumentError(f"{name} is annotated in {annotation_file.name}, but there is no such image beside it.")


# --- shards ----------------------------------------------------------------------------------------------------------


def read_shards(files: Iterable[Path], limit: int | None = None, refuse: Refuse = _raise) -> Iterator[AnnotatedImage]:
    """The annotated pages of WebDataset shards: members KEY.png (or .jpg, .tif) and KEY.json, one after the other.

    KEY.json is an object with "annotations" (or that list itself): objects with "bbox" [x, y, width, height] in pixels
    and "category_id" (PubLayNet's: 1 text, 2 title, 3 list, 4 table, 5 figure) or "category_name"; "categories" may
    name the ids. Memory holds one page. A page that is damaged or incomplete goes to `refuse`, and so does what ails a
    shard; reading goes on behind it.
    """
    yield from islice(_without_twins(_all_pages(((file.name, file) for file in files), refuse), refuse), limit)


def read_hub(
    dataset: str, limit: int | None = None, refuse: Refuse = _raise, filesystem: FileSystem | None = None
) -> Iterator[AnnotatedImage]:
    """The same from a dataset on the Hugging Face hub, such as "lhoestq/small-publaynet-wds"; shards are read as they
    come over the network and stored nowhere. `filesystem` stands in for the hub's.

    Raises:
        DocumentError: the hub can't be reached, or has no such dataset or no shards in it.
    """
    from httpx2 import HTTPError  # what the hub's client raises where the network fails
    from huggingface_hub import HfFileSystem

    filesystem = filesystem or HfFileSystem()
    try:
        paths = sorted(path for path in filesystem.find(f"datasets/{dataset}") if path.endswith(_SHARD_SUFFIXES))
    except (OSError, ValueError, RuntimeError, HTTPError) as error:
        raise DocumentError(_no_hub(dataset, error)) from error
    if not paths:
        raise DocumentError(f"The hub has no tar shards under the name {dataset}. Check the name.")
    shards = ((PurePosixPath(path).name, filesystem.open(path, "rb")) for path in paths)
    yield from islice(_without_twins(_all_pages(shards, refuse), refuse), limit)


def _no_hub(dataset: str, error: Exception) -> str:
    reason = " ".join(str(error).split())[:200] or type(error).__name__
    return f"{dataset} can't be read from the hub ({reason}). Download its tar files and give those instead."


def _all_pages(shards: Iterable[tuple[str, Path | IO[bytes]]], refuse: Refuse) -> Iterator[AnnotatedImage]:
    for name, shard in shards:
        try:
            yield from _shard_pages(name, shard, refuse)
        except _TAR_FAULTS as error:
            refuse(_cut_off(name, error))


def _cut_off(shard: str, error: Exception) -> DocumentError:
    return DocumentError(f"{shard} is damaged or cut off; what follows in it was left out ({error}).")


def _without_twins(pages: Iterable[AnnotatedImage], refuse: Refuse) -> Iterator[AnnotatedImage]:
    seen: set[str] = set()
    for page in pages:
        if page.stem in seen:
            refuse(DocumentError(f"{page.file}: a page {page.stem!r} came before."))
        else:
            seen.add(page.stem)
            yield page


def _shard_pages(name: str, shard: Path | IO[bytes], refuse: Refuse) -> Iterator[AnnotatedImage]:
    opened = {"name": shard} if isinstance(shard, Path) else {"fileobj": shard}
    with tarfile.open(mode="r|*", **opened) as tar:
        for key, members in groupby(_members(tar, name), key=lambda member: member[0]):
            try:
                yield _sample(key, members, name)
            except DocumentError as error:
                refuse(error)


_Member = tuple[str, str, bytes | DocumentError]


def _members(tar: tarfile.TarFile, shard: str) -> Iterator[_Member]:
    """(key, file name, content or why there is none) of the images and annotations, in order, as a stream can't go back.
    WebDataset parts key and suffix at the first dot behind the folders. Where the shard is cut off, that comes last, so
    that the page before it is whole."""
    try:
        for member in tar:
            tar.members.clear()  # type: ignore[attr-defined]  # else the headers of all members stay in memory
            path = PurePosixPath(member.name)
            stem, _, suffix = path.name.partition(".")
            if member.isfile() and stem and f".{suffix.lower()}" in (".json", *SUFFIXES):
                yield str(path.with_name(stem)), path.name, _content(tar, member)
    except _TAR_FAULTS as error:
        yield "", shard, _cut_off(shard, error)


def _content(tar: tarfile.TarFile, member: tarfile.TarInfo) -> bytes | DocumentError:
    limit = _MAX_JSON_BYTES if member.name.lower().endswith(".json") else _MAX_IMAGE_BYTES
    if member.size > limit:
        return DocumentError(f"{member.name} has {member.size / 1e6:,.0f} MB; at most {limit // 10**6} MB are read.")
    opened = tar.extractfile(member)
    return b"" if opened is None else opened.read()


def _sample(key: str, members: Iterable[_Member], shard: str) -> AnnotatedImage:
    parts: dict[bool, tuple[str, bytes]] = {}
    for _, file, content in members:
        if isinstance(content, DocumentError):
            raise content
        is_json = file.lower().endswith(".json")
        if is_json in parts:
            raise DocumentError(f"{file} in {shard}: its page has two {'annotations' if is_json else 'images'}.")
        parts[is_json] = file, content
    if len(parts) < 2:
        missing = "image (PNG, JPEG or TIFF)" if True in parts else "annotations (.json)"
        raise DocumentError(f"{key} in {shard} has no {missing} right beside it and was left out.")
    (file, image), (json_file, annotations) = parts[False], parts[True]
    value = _parsed(annotations, f"{json_file} in {shard}", of=(dict, list))
    listed = value.get("annotations") if isinstance(value, dict) else value
    named = value.get("categories") if isinstance(value, dict) else None
    try:
        names = {category["id"]: category["name"] for category in named or ()} or _PUBLAYNET_IDS
    except (LookupError, TypeError) as error:
        raise DocumentError(f"{json_file} in {shard}: its categories need an id and a name each.") from error
    return AnnotatedImage(
        _stem(file.partition(".")[0], file), file, image, _annotations(listed, names, f"{json_file} in {shard}")
    )


# --- both ------------------------------------------------------------------------------------------------------------


def _stem(name: str, file: str) -> str:
    """`name`, the start of the `file`'s, if it can be an id."""
    stem = name.strip()
    if not stem or len(stem) > MAX_ID_CHARS or not stem.isprintable():
        raise DocumentError(
            f"{file[:MAX_ID_CHARS]!r} can't name a page: 1 to {MAX_ID_CHARS} printable characters, please."
        )
    return stem


def _parsed(content: bytes, name: str, of: tuple[type, ...] = (dict,)) -> Any:
    try:
        value = json.loads(content)
    except (ValueError, RecursionError) as error:  # UnicodeDecodeError is a ValueError
        raise DocumentError(f"{name} is not JSON ({error}).") from error
    if not isinstance(value, of):
        raise DocumentError(f"{name} holds no {' or '.join(kind.__name__ for kind in of)} of annotations.")
    return value


def _annotations(listed: object, names: dict[object, str], where: str) -> tuple[Annotation, ...]:
    if not isinstance(listed, list):
        raise DocumentError(f'{where}: "annotations" is missing or no list.')
    return tuple(_annotation(item, names, f"{where}, region {number}") for number, item in enumerate(listed, start=1))


def _annotation(item: object, names: dict[object, str], where: str) -> Annotation:
    if not isinstance(item, dict):
        raise DocumentError(f"{where} is no object.")
    kind = item.get("category_name") or _name_of(item.get("category_id", item.get("category")), names)
    kind = str(kind).lower()
    if kind not in KINDS:
        raise DocumentError(f"{where} has the unknown category {kind[:40]!r}; known are {', '.join(KINDS)}.")
    box = item.get("bbox")
    if not isinstance(box, list) or len(box) != 4 or not all(map(_is_number, box)) or min(box[2:]) < 0:
        raise DocumentError(f'{where}: "bbox" must be [x, y, width, height] in pixels.')
    x, y, width, height = map(float, box)
    return Annotation(kind, (x, y, x + width, y + height))


def _name_of(category: object, names: dict[object, str]) -> object:
    return names.get(category, category) if isinstance(category, int | str) else category


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)

"""PubLayNet: a folder with a COCO file, tar shards as streams, the hub; damage is refused by name."""

from __future__ import annotations

import io
import json
import tarfile
import tracemalloc
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Any

import pytest
from PIL import Image

from rag.errors import DocumentError
from rag.ingest.publaynet import Annotation, is_folder, is_shard, read_folder, read_hub, read_shards

EXAMPLES = Path(__file__).resolve().parents[3] / "shared" / "data" / "publaynet-examples"
REGIONS = [{"category_id": 1, "bbox": [10, 20, 30, 40]}, {"category_id": 5, "bbox": [0.5, 0, 5, 6]}]
EXPECTED = (Annotation("text", (10, 20, 40, 60)), Annotation("figure", (0.5, 0, 5.5, 6)))


def png() -> bytes:
    file = io.BytesIO()
    Image.new("L", (60, 80), 255).save(file, "PNG")
    return file.getvalue()


def shard(file: Path, members: Iterable[tuple[str, bytes | object]], mode: str = "w") -> Path:
    """A tar file of (name, bytes or value for JSON)."""
    with tarfile.open(file, mode) as tar:
        for name, content in members:
            data = content if isinstance(content, bytes) else json.dumps(content).encode()
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return file


def pages(*keys: str) -> list[tuple[str, Any]]:
    return [item for key in keys for item in ((f"{key}.png", png()), (f"{key}.json", {"annotations": REGIONS}))]


# --- a folder --------------------------------------------------------------------------------------------------------


def coco(folder: Path, **changes: object) -> Path:
    """A folder with two images and their annotations."""
    for name in ("a.png", "b.png"):
        (folder / name).write_bytes(png())
    value = {
        "images": [{"id": 7, "file_name": "b.png"}, {"id": 3, "file_name": "a.png"}],
        "annotations": [{**region, "image_id": 7} for region in REGIONS],
        "categories": [{"id": 1, "name": "text"}, {"id": 5, "name": "figure"}],
        **changes,
    }
    (folder / "val.json").write_text(json.dumps(value), encoding="utf-8")
    return folder


def test_the_pages_of_a_folder_in_the_order_of_its_file(tmp_path: Path) -> None:
    found = list(read_folder(coco(tmp_path)))
    assert [(page.stem, page.annotations) for page in found] == [("b", EXPECTED), ("a", ())]
    assert found[0].image == tmp_path / "b.png"
    assert [page.stem for page in read_folder(tmp_path, limit=1)] == ["b"]
    assert is_folder(tmp_path)
    assert not is_folder(tmp_path / "none")


def test_dots_in_the_names_of_a_folder_tell_its_pages_apart(tmp_path: Path) -> None:
    names = ("a.1.png", "a.2.png")
    coco(tmp_path, images=[{"id": id_, "file_name": name} for id_, name in zip((7, 3), names, strict=True)])
    for name in names:
        (tmp_path / name).write_bytes(png())
    assert [page.stem for page in read_folder(tmp_path)] == ["a.1", "a.2"]


def test_images_in_a_folder_named_like_the_file(tmp_path: Path) -> None:
    coco(tmp_path)
    (tmp_path / "val").mkdir()
    for name in ("a.png", "b.png"):
        (tmp_path / name).rename(tmp_path / "val" / name)
    assert [page.image for page in read_folder(tmp_path)] == [tmp_path / "val" / "b.png", tmp_path / "val" / "a.png"]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        (
            {"images": [{"id": 1, "file_name": "c.png"}]},
            r"c\.png is annotated in val\.json, but there is no such image",
        ),
        ({"images": [{"id": 1, "file_name": "../../c.png"}]}, r"c\.png is annotated"),
        ({"images": [{"id": 1, "file_name": "a.png"}, {"id": 2, "file_name": "a.png"}]}, "comes twice"),
        ({"annotations": [{"image_id": 7, "category_id": 9, "bbox": [0, 0, 1, 1]}]}, "unknown category '9'"),
        ({"annotations": [{"image_id": 7, "category_id": 1, "bbox": [0, 0, 1]}]}, "bbox"),
        ({"annotations": [{"image_id": 7, "category_id": 1, "bbox": [0, 0, -1, 1]}]}, "bbox"),
        ({"annotations": [{"image_id": 7, "category_id": 1, "bbox": [0, 0, float("nan"), 1]}]}, "bbox"),
    ],
)
def test_a_bad_page_is_refused_by_name_and_the_rest_read(tmp_path: Path, changes: Any, reason: str) -> None:
    refused: list[DocumentError] = []
    found = list(read_folder(coco(tmp_path, **changes), refuse=refused.append))
    assert len(refused) == 1
    assert refused[0].args[0]
    with pytest.raises(DocumentError, match=reason):
        raise refused[0]
    assert len(found) == len(changes.get("images", "ab")) - 1


@pytest.mark.parametrize("content", ['{"images": [], "annotations": ', '{"images": [{}], "annotations": []}'])
def test_a_damaged_annotation_file_is_named(tmp_path: Path, content: str) -> None:
    (tmp_path / "val.json").write_text(content, encoding="utf-8")
    with pytest.raises(DocumentError, match=r"val\.json is (not JSON|no COCO)"):
        list(read_folder(tmp_path))


def test_no_annotation_file_or_several(tmp_path: Path) -> None:
    with pytest.raises(DocumentError, match="no COCO annotation file"):
        list(read_folder(tmp_path))
    (coco(tmp_path) / "train.json").write_bytes((tmp_path / "val.json").read_bytes())
    with pytest.raises(DocumentError, match=r"train\.json, val\.json"):
        list(read_folder(tmp_path))


def test_the_real_pages() -> None:
    if not EXAMPLES.is_dir():
        pytest.skip("needs publaynet-examples in ../shared/data")
    found = list(read_folder(EXAMPLES))
    kinds = Counter(region.kind for page in found for region in page.annotations)
    assert len(found) == 20
    assert kinds.total() == 193
    assert (kinds["figure"], kinds["table"]) == (9, 6)


# --- shards ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "mode"), [("s.tar", "w"), ("s.tar.gz", "w:gz")])
def test_the_pages_of_shards(tmp_path: Path, name: str, mode: str) -> None:
    files = [shard(tmp_path / f"{k}{name}", pages(f"PMC{k}_00001", f"train/PMC{k}_00002"), mode) for k in range(2)]
    found = list(read_shards(files))
    assert [page.stem for page in found] == ["PMC0_00001", "PMC0_00002", "PMC1_00001", "PMC1_00002"]
    assert all(page.annotations == EXPECTED and page.image == png() for page in found)
    assert len(list(read_shards(files, limit=3))) == 3
    assert all(map(is_shard, files))


@pytest.mark.parametrize(
    "value",
    [
        REGIONS,
        {"annotations": REGIONS, "width": 60, "height": 80, "id": 4},
        {"annotations": [{"category_name": kind, "bbox": r["bbox"]} for kind, r in zip(("Text", "figure"), REGIONS, strict=True)]},
        {
            "annotations": [{**r, "category_id": r["category_id"] - 1} for r in REGIONS],
            "categories": [{"id": 0, "name": "text"}, {"id": 4, "name": "figure"}],
        },
    ],
)  # fmt: skip
def test_annotations_in_any_of_their_forms(tmp_path: Path, value: object) -> None:
    file = shard(tmp_path / "s.tar", [("k.json", value), ("k.jpg", png()), ("k.cls", b"3")])
    assert [page.annotations for page in read_shards([file])] == [EXPECTED]


def test_damaged_members_are_refused_by_name_and_the_rest_read(tmp_path: Path) -> None:
    members = [
        *pages("good1"),
        ("alone.png", png()),
        ("bare.json", {"annotations": []}),
        ("broken.png", png()),
        ("broken.json", b"{"),
        ("deep.png", png()),
        ("deep.json", b"[" * 100_000),
        ("odd.png", png()),
        ("odd.json", {"annotations": [3]}),
        ("two.png", png()),
        ("two.jpg", png()),
        ("two.json", {"annotations": []}),
        *pages("good1", "good2"),
    ]
    refused: list[DocumentError] = []
    found = list(read_shards([shard(tmp_path / "s.tar", members)], refuse=refused.append))
    assert [page.stem for page in found] == ["good1", "good2"]
    for name, error in zip(("alone", "bare", "broken", "deep", "odd", "two", "good1"), refused, strict=True):
        assert name in str(error)


def test_a_cut_shard_gives_what_it_has_and_the_next_is_read(tmp_path: Path) -> None:
    cut = shard(tmp_path / "cut.tar", pages("a", "b"))
    cut.write_bytes(cut.read_bytes()[:2600])
    noise = tmp_path / "noise.tar"
    noise.write_bytes(b"no tar at all" * 100)
    refused: list[DocumentError] = []
    found = list(read_shards([cut, noise, shard(tmp_path / "whole.tar", pages("c"))], refuse=refused.append))
    assert [page.stem for page in found] == ["a", "c"]
    assert [str(error).split()[0] for error in refused] == ["cut.tar", "noise.tar"]


def test_a_shard_is_read_as_a_stream(tmp_path: Path) -> None:
    """Memory must hold a page, not the shard: 60 pages of half a megabyte, and a few thousand members passed over."""
    image = bytes(500_000)
    members: list[tuple[str, object]] = [(f"{k:04d}.txt", b"") for k in range(3000)]
    members += [item for k in range(60) for item in ((f"p{k}.png", image), (f"p{k}.json", {"annotations": []}))]
    file = shard(tmp_path / "s.tar", members)
    tracemalloc.start()
    try:
        assert sum(len(page.image) for page in read_shards([file]) if isinstance(page.image, bytes)) == 60 * 500_000
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 5_000_000


# --- the hub ---------------------------------------------------------------------------------------------------------


class Folder:
    """A local folder behind the hub's file system calls."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def find(self, path: str) -> list[str]:
        if not (self._root / path).is_dir():
            raise FileNotFoundError(path)
        return [str(file.relative_to(self._root)) for file in (self._root / path).rglob("*") if file.is_file()]

    def open(self, path: str, mode: str) -> IO[bytes]:
        return (self._root / path).open("rb")


def test_a_dataset_of_the_hub(tmp_path: Path) -> None:
    folder = tmp_path / "datasets" / "someone" / "pages"
    folder.mkdir(parents=True)
    for k in (1, 0):
        shard(folder / f"train-{k}.tar", pages(f"p{k}"))
    (folder / "README.md").write_text("pages", encoding="utf-8")
    assert [page.stem for page in read_hub("someone/pages", filesystem=Folder(tmp_path))] == ["p0", "p1"]
    with pytest.raises(DocumentError, match=r"someone/else can't be read from the hub .*give those instead"):
        list(read_hub("someone/else", filesystem=Folder(tmp_path)))
    (tmp_path / "datasets" / "empty").mkdir()
    with pytest.raises(DocumentError, match="no tar shards under the name empty"):
        list(read_hub("empty", filesystem=Folder(tmp_path)))

"""Which corpus a session sees, and that nobody else sees its own."""

from __future__ import annotations

import os
import shutil
import threading
from pathlib import Path

import pytest

from rag import corpus_files as files
from rag.corpus import Corpus, open_corpus, save_corpus
from rag.encoders import MINILM
from rag.errors import CorpusError, UsageError
from rag.settings import Settings
from tests.test_text_index import Initials
from ui import shelf as shelves
from ui.shelf import Choice, NeedsIndex, Shelf


@pytest.fixture
def foreign_folder(small: Corpus, tmp_path: Path) -> Path:
    """The small corpus, indexed with an encoder that is not here."""
    return save_corpus(
        tmp_path / "foreign",
        name="foreign",
        kind="pdf",
        documents=list(small.documents.values()),
        pages=small.pages.values(),
        regions=small.regions.values(),
        chunks=small.chunks.values(),
        crops=small.crops.values(),
        triples=small.triples,
        images=small.root,
        encoder=Initials(),
    )


@pytest.fixture
def named_folder(small_folder: Path, tmp_path: Path) -> Path:
    """The small corpus under another name."""
    corpus = open_corpus(small_folder)
    return save_corpus(
        tmp_path / "second",
        name="second",
        kind="pdf",
        documents=list(corpus.documents.values()),
        pages=corpus.pages.values(),
        regions=corpus.regions.values(),
        chunks=corpus.chunks.values(),
        images=corpus.root,
    )


def test_operators_corpora_are_listed_and_opened_when_chosen(small: Corpus, named_folder: Path) -> None:
    shelf = Shelf(small, folders=(named_folder, small.root))
    second = files.read_manifest(named_folder).id
    assert shelf.choices("a") == (Choice(small.id, "small"), Choice(second, "second"))
    assert shelf.of("a") is small
    opened = shelf.choose("a", second)
    assert (opened.id, shelf.of("a") is opened, shelf.of("b") is small) == (second, True, True)
    assert shelf.choose("b", second) is opened
    shelf.leave("a")
    assert shelf.of("a") is small


def test_a_trace_of_another_corpus_is_refused_by_name(small: Corpus, named_folder: Path) -> None:
    shelf = Shelf(small, folders=(named_folder,))
    second = files.read_manifest(named_folder).id
    with pytest.raises(CorpusError, match=f"{second}.*the page shows {small.id}; choose"):
        shelf.named(second, "a")
    with pytest.raises(CorpusError, match="elsewhere-1, which is not open here"):
        shelf.named("elsewhere-1", "a")
    assert shelf.named(small.id, "a") is small


def test_further_corpora_and_uploads_come_from_the_environment() -> None:
    folders = os.pathsep.join(("one", "", "two"))
    settings = Settings.from_env({"FUSEBOX_CORPORA": folders, "FUSEBOX_UPLOADS": "0"})
    assert (settings.corpora, settings.take_uploads) == ((Path("one"), Path("two")), False)
    assert Settings.from_env({"FUSEBOX_LANGUAGES": "deu+eng"}).languages == ("deu", "eng")
    assert Settings.from_env({}).languages == ()
    assert (Settings.from_env({}).corpora, Settings.from_env({}).take_uploads) == ((), True)
    with pytest.raises(UsageError, match="FUSEBOX_UPLOADS"):
        Settings.from_env({"FUSEBOX_UPLOADS": "no"})


def test_a_folder_that_is_no_corpus_says_so_when_it_is_chosen(small: Corpus, tmp_path: Path) -> None:
    shelf = Shelf(small, folders=(tmp_path / "nothing", tmp_path / "other" / "nothing"))
    choice, twin = shelf.choices("a")[1:]
    assert (choice.name, twin.name) == ("nothing", "nothing") and choice.id != twin.id
    assert str(tmp_path) not in choice.id + twin.id  # visitors see it
    with pytest.raises(CorpusError, match="nothing"):
        shelf.choose("a", choice.id)
    assert shelf.of("a") is small
    assert shelf.without_paths(f"{tmp_path / 'nothing'} holds no corpus") == "nothing holds no corpus"


def test_a_corpus_of_another_encoder_names_it_and_the_command(small: Corpus, foreign_folder: Path) -> None:
    shelf = Shelf(small, folders=(foreign_folder,))
    with pytest.raises(NeedsIndex, match=f"st:initials.*--add-text {MINILM}"):
        shelf.choose("a", shelf.choices("a")[1].id)


def test_the_operators_encoder_is_the_one_that_is_wanted(small: Corpus, named_folder: Path) -> None:
    shelf = Shelf(small, folders=(named_folder,), encoder_id="st:initials")
    with pytest.raises(NeedsIndex, match=f"no text index of st:initials, but of {MINILM}.*--add-text st:initials"):
        shelf.choose("a", shelf.choices("a")[1].id)


def own(small_folder: Path, place: Path, name: str) -> Corpus:
    shutil.copytree(small_folder, place / name)
    manifest = files.read_manifest(place / name)
    corpus = open_corpus(place / name)
    object.__setattr__(corpus, "manifest", files.Manifest(**{**_fields(manifest), "id": name, "name": name}))
    return corpus


def _fields(manifest: files.Manifest) -> dict[str, object]:
    return {field: getattr(manifest, field) for field in manifest.__dataclass_fields__}


def test_a_sessions_own_documents_are_its_own(small: Corpus, small_folder: Path, tmp_path: Path) -> None:
    shelf, deleted = Shelf(small), []
    mine = own(small_folder, tmp_path, "mine")
    shelf.take("a", mine, lambda: deleted.append("mine"))
    assert shelf.choices("a")[1:] == (Choice("mine", "mine", own=True),)
    assert shelf.choices("b") == shelf.choices("") == (Choice(small.id, "small"),)
    assert shelf.choose("a", "mine") is mine and shelf.named("mine", "a") is mine
    with pytest.raises(CorpusError, match="no such corpus"):
        shelf.choose("b", "mine")
    with pytest.raises(CorpusError, match="not open here"):
        shelf.named("mine", "b")
    shelf.remove("b", "mine")
    assert deleted == []
    shelf.remove("a", "mine")
    assert deleted == ["mine"]
    with pytest.raises(CorpusError, match="have been removed"):
        shelf.of("a")
    assert shelf.choose("a", small.id) is small


def test_leaving_deletes_all_and_the_oldest_makes_room(small: Corpus, small_folder: Path, tmp_path: Path) -> None:
    shelf, deleted = Shelf(small), []
    for n in range(shelves.MAX_OWN + 1):
        shelf.take("a", own(small_folder, tmp_path, f"own{n}"), lambda n=n: deleted.append(n))
    assert deleted == [0]
    shelf.leave("a")
    assert sorted(deleted) == list(range(shelves.MAX_OWN + 1))
    assert shelf.choices("a") == (Choice(small.id, "small"),) and shelf.of("a") is small


def test_documents_go_when_their_time_is_over(
    small: Corpus, small_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shelves, "LIFETIME_S", 0)
    shelf, gone = Shelf(small), threading.Event()
    shelf.take("a", own(small_folder, tmp_path, "mine"), gone.set)
    assert gone.wait(30)
    assert shelf.choices("a") == (Choice(small.id, "small"),)

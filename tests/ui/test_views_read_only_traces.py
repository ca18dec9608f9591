"""Views draw what a trace and its corpus hold: none of them can retrieve, decide or ask."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

VIEWS = sorted((Path(__file__).parents[2] / "ui" / "views").glob("*.py"))
DECIDING = {
    "rag.pipeline",
    "rag.branches",
    "rag.fusion",
    "rag.generators.answer",
    "rag.generators.openai_chat",
    "rag.generators.gemini",
    "rag.generators.extractive.reader",
    "gradio",
}
CALLS = set(
    "ask ask_again prepare evaluate decide delivered_to text_encoder image_encoder search_text search_text_words "
    "search_visual".split()
)
"""Names of what finds or decides something. A word's own BM25 score of a crop is asked of the corpus's index (``crops``)."""


def _imports(tree: ast.AST) -> set[str]:
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


@pytest.mark.parametrize("file", VIEWS, ids=lambda file: file.stem)
def test_a_view_imports_and_calls_nothing_that_finds_or_decides(file: Path) -> None:
    tree = ast.parse(file.read_text("utf-8"))
    assert not _imports(tree) & DECIDING
    called = {
        node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
    }
    assert not called & CALLS
    looked_up = [
        ast.unparse(node)
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr == "facts" and ast.unparse(node).endswith("corpus.graph.facts")
    ]
    assert not looked_up

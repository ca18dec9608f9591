"""What is running, and whose documents these are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rag import __version__
from rag.corpus import Corpus
from rag.encoders import clip_absent
from rag.generators.registry import GeneratorSpec
from rag.pricing import image_rule
from rag.types import Document
from ui import text as words
from ui.shelf import Choice
from ui.views.markup import bdi, esc, heading, plural, shorten


def header(corpus: Corpus, choices: Sequence[Choice] = ()) -> str:
    """Brand, corpus (a choice where there are several) and the theme switch; the tabs are Gradio's and stand between them."""
    squares = "".join(f'<i class="{branch}"></i>' for branch in words.BRANCHES)
    counts = f"{plural(len(corpus.documents), 'document')} · {plural(len(corpus.pages), 'page')}"
    return (
        f'<div class="fb-brand"><span class="fb-squares" aria-hidden="true">{squares}</span><h1>{esc(words.TITLE)}'
        f"</h1></div>"
        f'<div class="fb-corner"><span class="fb-corpus" title="{esc(corpus.id)}">'
        f'{_name(corpus, choices)} <span class="fb-counts">· {counts}</span></span>'
        '<button type="button" id="fb-theme" class="fb-small"'
        ' data-theme-toggle aria-label="Switch between light and dark" '
        'title="Switch between light and dark"><svg viewBox="0 0 16 16" width="16" height="16" aria-hidden="true">'
        '<circle cx="8" cy="8" r="6.2" fill="none" stroke="currentColor" stroke-width="1.5"/>'
        '<path d="M8 1.8a6.2 6.2 0 0 1 0 12.4z" fill="currentColor"/></svg></button></div>'
    )


def _name(corpus: Corpus, choices: Sequence[Choice]) -> str:
    if len(choices) < 2:
        return f"<b>{bdi(heading(corpus.manifest.name))}</b>"
    options = "".join(
        f'<option value="{esc(choice.id)}"{" selected" if choice.id == corpus.id else ""}>'
        f"{esc(shorten(words.OWN_CORPUS.format(name=choice.name) if choice.own else heading(choice.name), 60))}</option>"
        for choice in choices
    )
    return f'<select data-corpus-choice aria-label="Corpus">{options}</select>'


def clip_state(corpus: Corpus) -> str:
    """Whether the CLIP ranker is there, in one sentence; never downloads."""
    if not corpus.visual_encoder_ids:
        return (
            "The CLIP ranker is missing: this corpus has no index of its crops' pixels; "
            "python -m rag corpus FOLDER --add-clip makes one."
        )
    reasons = [clip_absent(encoder_id) for encoder_id in corpus.visual_encoder_ids]
    if all(reasons):
        return f"The CLIP ranker is missing: {reasons[0]}"
    return f"The CLIP ranker is available: {corpus.visual_encoder_ids[reasons.index('')]}."


def render(corpus: Corpus, generators: Iterable[GeneratorSpec]) -> str:
    """The About page."""
    return (
        f'<div class="fb-about"><section class="fb-card"><h2>What this is</h2><p class="fb-lead">{esc(words.ABOUT)}</p>'
        f'<ul class="fb-branches">{_branches()}</ul></section>'
        f'<section class="fb-card"><h2>What is running</h2><div class="fb-scroll" tabindex="0" role="region"'
        f' aria-label="What is running">'
        f"{_running(corpus)}</div></section>"
        f'<section class="fb-card"><h2>Generators</h2><div class="fb-scroll" tabindex="0" role="region"'
        f' aria-label="Generators, scrollable">{_generators(generators)}</div>'
        f'<p class="fb-hint">{esc(words.PRICES)}</p></section>'
        f'<section class="fb-card"><h2>Documents</h2>{_documents(corpus)}</section></div>'
    )


def _branches() -> str:
    return "".join(
        f'<li class="{b}"><b>{esc(title)}</b> {esc(told)}</li>' for b, (title, told) in words.BRANCHES.items()
    )


def _running(corpus: Corpus) -> str:
    manifest = corpus.manifest
    origins = sorted({triple.origin for triple in corpus.triples}) or ["none"]
    captioners = sorted({crop.captioned_by for crop in corpus.crops.values() if crop.captioned_by})
    indices = [f"{e.purpose}: {e.encoder}, {e.count:,} × {e.dimension}, {e.metric}" for e in manifest.indices]
    rows: list[tuple[str, list[str]]] = [
        ("Fusebox", [f"version {__version__}"]),
        ("Corpus", [f"{manifest.id}, made {manifest.created[:10]}", _counts(corpus)]),
        ("Text encoder", [corpus.text_encoder_id]),
        ("Indices", indices),
        ("CLIP", [clip_state(corpus)]),
        ("Triples by", origins),
        ("Captions by", ["the authors", *captioners]),
        ("Made with", [", ".join(f"{tool} {version}" for tool, version in manifest.tools.items())]),
    ]
    body = "".join(
        f"<tr><th scope=row>{esc(name)}</th><td>{'<br>'.join(map(bdi, values))}</td></tr>" for name, values in rows
    )
    return f'<table class="fb-table fb-running"><caption class="fb-sr">What is running</caption>{body}</table>'


_GENERATOR_COLUMNS = ("generator", "access", "needs", "USD/M in", "USD/M out", "prices from", "tokens of an image")


def _generators(generators: Iterable[GeneratorSpec]) -> str:
    head = "".join(f"<th scope=col>{name}</th>" for name in _GENERATOR_COLUMNS)
    rows = "".join(map(_generator, generators))
    return (
        '<table class="fb-table fb-generators"><caption class="fb-sr">Generators, what they need and cost</caption>'
        f"<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
    )


def _generator(spec: GeneratorSpec) -> str:
    model = f"<br><small>{bdi(spec.model)}</small>" if spec.model and spec.model != spec.label else ""
    access, told = words.ACCESS[spec.access]
    prices = (spec.usd_per_million_input, spec.usd_per_million_output)
    read = f", read {spec.prices_read}" if spec.prices_read else ""
    source = "–" if prices == (0, 0) and not spec.prices_source else f"{spec.prices_source or 'unknown'}{read}"
    rule = image_rule(spec.image_rule)
    image = "takes none" if not spec.vision else rule.source if rule else "unknown"
    shown = "".join(f"<td>{'unknown' if usd is None else f'{usd:g}'}</td>" for usd in prices)
    return (
        f"<tr><th scope=row>{bdi(spec.label)}{model}</th><td>{esc(access)}<br><small>{esc(told)}</small></td>"
        f"<td>{bdi(spec.needs)}</td>{shown}<td>{bdi(source)}</td><td><small>{bdi(image)}</small></td></tr>"
    )


def _counts(corpus: Corpus) -> str:
    sizes = (
        (len(corpus.pages), "page"),
        (len(corpus.regions), "region"),
        (len(corpus.chunks), "chunk"),
        (len(corpus.crops), "crop"),
        (len(corpus.triples), "triple"),
    )
    return " · ".join(plural(size, noun) for size, noun in sizes)


MAX_LISTED = 500


def _documents(corpus: Corpus) -> str:
    listed = list(corpus.documents.values())[:MAX_LISTED]
    rows = "".join(map(_document, listed))
    more = (
        f'<p class="fb-hint">{len(listed)} of {len(corpus.documents):,} documents are listed.</p>'
        if len(listed) < len(corpus.documents)
        else ""
    )
    head = "".join(f"<th scope=col>{name}</th>" for name in ("document", "authors", "licence", "pages", "source"))
    return (
        '<div class="fb-scroll" tabindex="0" role="region" aria-label="Documents, scrollable">'
        '<table class="fb-table fb-documents">'
        f'<caption class="fb-sr">Documents and their licences</caption><thead><tr>{head}</tr></thead><tbody>{rows}'
        f"</tbody></table></div>{more}"
    )


def _document(document: Document) -> str:
    year = f" ({esc(document.year)})" if document.year else ""
    rights = f"<br><small>{bdi(document.copyright)}</small>" if document.copyright else ""
    return (
        f'<tr data-document="{esc(document.id)}" tabindex="-1">'
        f"<th scope=row>{bdi(document.title or document.file)}{year}</th>"
        f"<td>{bdi(document.authors or 'unknown')}</td><td>{bdi(document.licence or 'unknown')}{rights}</td>"
        f"<td>{document.pages}</td><td>{bdi(document.source or document.file)}</td></tr>"
    )

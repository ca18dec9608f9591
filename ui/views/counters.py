"""What the answer took: tokens, their split by evidence, times and money. Unknown is said, never shown as 0."""

from __future__ import annotations

from collections.abc import Sequence

from rag.types import Estimate, Generation, Trace, Usage
from ui import text as words
from ui.views.markup import Share, esc, milliseconds, money, shares

_DASH = "–"


def empty() -> str:
    """Before the first question."""
    tiles = "".join(_tile(_DASH, label) for label in ("input tokens", "output tokens", "to the first token", "cost"))
    return _card(f'<div class="fb-tiles">{tiles}</div><p class="fb-legend">{esc(words.SPLIT_EMPTY)}</p>')


def render(trace: Trace, tokens: Sequence[int], embedded: bool, elsewhere: Sequence[tuple[str, Estimate]] = ()) -> str:
    """The counters.

    Args:
        trace: finished or not.
        tokens: estimated tokens per prompt segment, adding up to the input tokens where those are known.
        embedded: whether the generator runs in this process.
        elsewhere: what the same prompt would take on other generators, by label.
    """
    generation = trace.generation
    usage = generation.usage if generation else None
    before = None if embedded or generation is None else generation.estimate
    tiles = (
        _input(usage, tokens, before),
        _tile(_count(usage.output_tokens if usage else None, usage), *_output_labels(usage)),
        _times(trace, generation),
        _cost(generation, embedded, before),
    )
    return _card(f'<div class="fb-tiles">{"".join(tiles)}</div>{_split(trace, tokens)}{_elsewhere(elsewhere)}')


def _input(usage: Usage | None, tokens: Sequence[int], before: Estimate | None) -> str:
    if usage is None and tokens:
        return _tile(f"≈ {sum(tokens):,}", "input tokens")
    labels = ["input tokens"]
    if usage and usage.source == "reported" and usage.input_tokens is not None and before is not None:
        labels = ["input tokens, reported", _against(before.input_tokens, usage.input_tokens)]
    return _tile(_count(usage.input_tokens if usage else None, usage), *labels)


def _against(estimated: int | None, reported: int) -> str:
    """The estimate from before the call, and by how much it missed what was reported."""
    if estimated is None:
        return "not estimated before"
    off = f" ({100 * (estimated - reported) / reported:+.0f} %)" if reported else ""
    return f"estimated ≈ {estimated:,}{off}"


def _count(count: int | None, usage: Usage | None) -> str:
    if usage is None:
        return _DASH
    if count is None:
        return "unknown"
    return f"≈ {count:,}" if usage.source == "estimated" else f"{count:,}"


def _output_labels(usage: Usage | None) -> tuple[str, ...]:
    if usage is None or not usage.reasoning_tokens:
        return ("output tokens",)
    reasoning = f"reasoning {usage.reasoning_tokens:,}"
    if usage.output_tokens is None:
        return "output tokens", reasoning
    return "output tokens", f"{reasoning} · answer {max(0, usage.output_tokens - usage.reasoning_tokens):,}"


def retrieval_ms(trace: Trace) -> float | None:
    """Everything before the generator, or ``None`` before it is known."""
    stages = [ms for stage, ms in trace.timings_ms.items() if stage != "generation"]
    return sum(stages) if stages else None


def _times(trace: Trace, generation: Generation | None) -> str:
    retrieval = retrieval_ms(trace)
    answer = generation.latency_ms if generation else None
    total = retrieval + answer if retrieval is not None and answer is not None else None
    first = milliseconds(generation.ttft_ms) if generation and generation.ttft_ms is not None else _DASH
    parts = f"retrieval {milliseconds(retrieval)}", f"first token {first}"
    return _tile(
        milliseconds(total) if total is not None else _DASH,
        *parts,
        f"answer {milliseconds(answer) if answer is not None else _DASH}",
    )


def _cost(generation: Generation | None, embedded: bool, before: Estimate | None) -> str:
    if generation is None or generation.finish is None:
        return _tile(_DASH, "cost")
    if embedded:
        return _tile("$0", words.EMBEDDED_COST)
    if generation.cost_usd is None:
        return _tile("unknown", "cost: no price or no count")
    about = "≈ " if generation.usage is None or generation.usage.source == "estimated" else ""
    labels = [f"{about}{money(100 * generation.cost_usd)} per 100 questions"]
    if not about and before is not None and before.cost_usd is not None:
        labels.append(f"estimated ≈ {money(before.cost_usd)}")
    return _tile(f"{about}{money(generation.cost_usd)}", *labels)


def _tile(value: str, *labels: str) -> str:
    lines = "".join(f"<span>{esc(label)}</span>" for label in labels)
    kind = " unknown" if value in (_DASH, "unknown") else ""
    return f'<div class="fb-tile{kind}"><b>{esc(value)}</b>{lines}</div>'


def _split(trace: Trace, tokens: Sequence[int]) -> str:
    if trace.prompt is None or not tokens:
        return f'<p class="fb-legend">{esc(words.SPLIT_EMPTY)}</p>'
    parts = [share for share in shares(trace.prompt.segments, tokens) if share.tokens]
    total = sum(share.tokens for share in parts)
    told = ", ".join(f"{share.label} {share.tokens}" for share in parts)
    bar = "".join(_piece(share, total) for share in parts)
    legend = "".join(f'<li class="{share.kind}">{esc(share.label)} <b>{share.tokens:,}</b></li>' for share in parts)
    return (
        f'<div class="fb-split" role="img" aria-label="Input tokens by part, estimated: {esc(told)}">{bar}</div>'
        f'<ul class="fb-legend"'
        f' title="Estimated: counted with the embedded tokenizer, scaled to the total">{legend}</ul>'
    )


def _piece(share: Share, total: int) -> str:
    percent = 100 * share.tokens / total
    return f'<i class="{share.kind}" style="width:{percent:.2f}%" title="{esc(share.label)} ≈ {share.tokens:,}"></i>'


def _elsewhere(estimates: Sequence[tuple[str, Estimate]]) -> str:
    """Costs of the same prompt on other generators, dearest last; unknown ones at the end."""
    if not estimates:
        return ""
    known = sorted(estimates, key=lambda pair: (pair[1].cost_usd is None, pair[1].cost_usd or 0.0))
    rows = "".join(
        f'<tr title="{esc(e.note)}"><th scope=row>{esc(label)}</th><td>≈ {_whole(e.input_tokens)}</td>'
        f"<td>{_about(e.cost_usd)}</td><td>{_about(e.cost_usd, 100)}</td></tr>"
        for label, e in known
    )
    head = "".join(f"<th scope=col>{name}</th>" for name in ("generator", "tokens in", "cost", "per 100"))
    return (
        f'<details class="fb-elsewhere"><summary>{esc(words.ELSEWHERE)}</summary><table class="fb-table">'
        f"<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></details>"
    )


def _whole(count: int | None) -> str:
    return "unknown" if count is None else f"{count:,}"


def _about(usd: float | None, times: int = 1) -> str:
    return "unknown" if usd is None else f"≈ {money(usd * times)}"


def _card(body: str) -> str:
    return f'<section class="fb-card fb-counters" aria-label="What it took">{body}</section>'

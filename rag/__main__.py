"""The command line: ``python -m rag ask|ingest|corpus|evaluate|bench``.

``--json`` prints one JSON document on standard output and nothing else there; progress and errors go to standard error. Exit status:
0, 1 for a failure that names its cause, 2 for wrong usage, 130 and 143 when stopped (Ctrl-C, SIGTERM).
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from rag import __version__
from rag.errors import FuseboxError, UsageError
from rag.settings import Settings, limits_from_env
from rag.systems import CHOICES, LIMITS, SYSTEMS, system_named, tuned

if TYPE_CHECKING:
    from rag.corpus import Corpus
    from rag.evaluate.questions import Question
    from rag.evaluate.runner import Plan
    from rag.evaluate.store import Store
    from rag.ingest.models import Models


def parser() -> argparse.ArgumentParser:
    """The whole grammar of the command line."""
    top = argparse.ArgumentParser(
        prog="python -m rag", description="Ask, ingest, check, evaluate and time a Fusebox corpus."
    )
    top.add_argument("--version", action="version", version=f"fusebox {__version__}")
    commands = top.add_subparsers(dest="command", required=True, metavar="ask|ingest|corpus|evaluate|bench")
    _add_ask(commands.add_parser("ask", help="answer a question and show what the answer rests on"))
    _add_ingest(commands.add_parser("ingest", help="build a corpus from documents"))
    _add_corpus(commands.add_parser("corpus", help="describe a corpus, or check it"))
    _add_evaluate(
        commands.add_parser("evaluate", help="run questions through systems and generators, and judge the answers")
    )
    _add_bench(commands.add_parser("bench", help="time every stage on a corpus"))
    return top


def _add_ask(p: argparse.ArgumentParser) -> None:
    p.add_argument("question")
    p.add_argument("--system", default="+both", help=f"one of {', '.join(SYSTEMS)} (default: +both)")
    p.add_argument("--generator", default="extractive", help="who answers (default: extractive, the embedded reader)")
    p.add_argument("--corpus", type=Path, help="corpus folder (default: FUSEBOX_CORPUS, or the demo)")
    p.add_argument("--json", action="store_true", help="print the whole trace as JSON")
    p.add_argument(
        "--explain",
        type=int,
        choices=range(4),
        default=2,
        help="0 the answer, 1 one line, 2 its sources, 3 the full trail",
    )
    p.add_argument(
        "--exclude", action="append", default=[], metavar="ITEM", help="leave an item out of the prompt (repeatable)"
    )
    p.add_argument(
        "--type", dest="question_type", help="the question's type, where known: it then decides the visual payload"
    )
    _add_knobs(p)


_KNOB_HELP = {
    "graph_mode": "graph facts of the retrieved pages (provenance, the study's), of all pages (open), or of the retrieved pages and of "
    "those of up to two passages that a walk over the graph brings in (bridge)"
}


def _add_knobs(p: argparse.ArgumentParser) -> None:
    knobs = p.add_argument_group("retrieval settings")
    for name, (low, high) in LIMITS.items():
        knobs.add_argument(f"--{name.replace('_', '-')}", type=int, metavar=f"{low}..{high}")
    for name, words in CHOICES.items():
        knobs.add_argument(f"--{name.replace('_', '-')}", metavar="|".join(words), help=_KNOB_HELP.get(name))


def _knobs(args: argparse.Namespace) -> dict[str, int | str]:
    return {name: getattr(args, name) for name in (*LIMITS, *CHOICES) if getattr(args, name) is not None}


def _add_ingest(p: argparse.ArgumentParser) -> None:
    p.add_argument(
        "sources",
        nargs="+",
        type=Path,
        metavar="SOURCE",
        help="PDF files, page images, JSON-lines files, tar shards, or folders",
    )
    p.add_argument("--out", type=Path, required=True, help="folder to write")
    p.add_argument(
        "--kind",
        choices=("auto", "pdf", "text", "image", "publaynet"),
        default="auto",
        help="what the sources are; publaynet: a folder with a COCO annotation file, tar shards, or OWNER/NAME on the hub",
    )
    p.add_argument("--languages", default="eng", metavar="CODES", help="what OCR reads, such as eng+deu (default: eng)")
    p.add_argument("--name", default="", help="name of the corpus (default: the folder's)")
    p.add_argument("--limit", type=int, help="take at most this many pages")
    p.add_argument(
        "--triples",
        type=Path,
        metavar="FILE",
        help="take these triples (JSON lines by chunk MD5) instead of extracting",
    )
    p.add_argument(
        "--captioner", default="", metavar="GENERATOR",
        help="have every figure and table captioned by a generator that sees, besides the author's caption",
    )  # fmt: skip
    p.add_argument(
        "--triple-extractor", default="", metavar="GENERATOR",
        help="have the triples extracted by a generator, as in the study, instead of by grammar",
    )  # fmt: skip
    p.add_argument(
        "--budget-usd", type=float, default=0.0, metavar="USD",
        help="ask these generators if it costs at most so much (default: only if free)",
    )  # fmt: skip
    p.add_argument("--yes", action="store_true", help="ask them whatever it costs")
    p.add_argument("--encoder", default="", help="text encoder of the index (default: the embedded one)")
    p.add_argument("--workers", type=int, help="processes that read pages (default: one per core)")
    p.add_argument("--overwrite", action="store_true", help="replace an existing corpus in --out")
    p.add_argument(
        "--resume", action="store_true", help="go on where a run with the same sources and options was cut off"
    )


def _add_corpus(p: argparse.ArgumentParser) -> None:
    p.add_argument("folder", type=Path)
    p.add_argument("--check", action="store_true", help="verify every digest and cross reference")
    p.add_argument("--add-clip", action="store_true", help="index the crops' pixels with CLIP (needs its weights)")
    p.add_argument("--add-text", metavar="ENCODER", help="index the text with another encoder too")
    p.add_argument("--json", action="store_true")


def _add_evaluate(p: argparse.ArgumentParser) -> None:
    p.add_argument(
        "--questions", nargs="+", type=Path, metavar="FILE", help="question files (default: those of the corpus)"
    )
    p.add_argument("--systems", default=",".join(SYSTEMS), metavar="A,B", help="default: the study's four")
    p.add_argument("--generators", default="extractive", metavar="A,B", help="default: extractive, the embedded reader")
    p.add_argument("--judges", default="offline", metavar="A,B", help="default: offline, three judges that ask nobody")
    p.add_argument("--corpus", type=Path, help="corpus folder (default: FUSEBOX_CORPUS, or the demo)")
    p.add_argument(
        "--out",
        type=Path,
        metavar="DIR",
        help="folder, or .sqlite file, that keeps the runs (default: FUSEBOX_RUNS, or build/runs)",
    )
    p.add_argument("--label", default="", help="a name for the run")
    p.add_argument("--limit", type=int, metavar="N", help="take at most this many questions of each file")
    p.add_argument(
        "--gate", choices=("type", "auto"), default="type",
        help="what decides the visual payload: the question's type, as in the study, or the gate's own signals",
    )  # fmt: skip
    p.add_argument(
        "--budget-usd", type=float, default=1.0, metavar="USD", help="do not start, or go on, above this (default: 1)"
    )
    p.add_argument("--yes", action="store_true", help="start whatever it costs")
    p.add_argument("--at-once", type=int, metavar="N", help="calls at once to each provider")
    p.add_argument(
        "--resume", nargs="?", const="", metavar="RUN",
        help="go on with a run (default: the newest): ask what is missing or failed, judge what is not judged",
    )  # fmt: skip
    p.add_argument("--judge-again", action="store_true", help="judge every stored answer anew")
    p.add_argument(
        "--show", nargs="?", const="", metavar="RUN",
        help="ask nobody: print the tables of a run (default: the newest; before the first, the one that ships)",
    )  # fmt: skip
    p.add_argument("--export", type=Path, metavar="FILE", help="write a compact copy of the store in the end")
    p.add_argument(
        "--audit",
        action="store_true",
        help="ask nobody: print how many answers of the figure questions stand in a caption, and where the right text-only answers of the "
        "newest run (before the first, of the one that ships) came from",
    )
    p.add_argument("--json", action="store_true", help="print the tables as JSON")
    _add_knobs(p)


def _add_bench(p: argparse.ArgumentParser) -> None:
    p.add_argument("--corpus", type=Path)
    p.add_argument("--json", action="store_true")
    p.add_argument("--repeat", type=int, default=20, help="questions timed (default: 20)")


def run_ask(args: argparse.Namespace) -> int:
    """Answer one question."""
    from rag import trace as traces
    from rag.corpus import open_corpus
    from rag.explain import explain
    from rag.generators.registry import generator_named
    from rag.pipeline import ask

    system = tuned(system_named(args.system), **_knobs(args))
    generator = generator_named(args.generator)
    settings = Settings.from_env()
    corpus = open_corpus(args.corpus or settings.corpus, settings.text_encoder)
    *_, last = ask(args.question, system, generator, corpus, exclude=args.exclude, question_type=args.question_type)
    print(traces.dumps(last) if args.json else explain(last, args.explain))
    if last.generation is None or last.generation.finish == "error":
        print(last.generation.error if last.generation else "No answer came back.", file=sys.stderr)
        return 1
    return 0


class _Terminated(KeyboardInterrupt):
    """SIGTERM: like Ctrl-C, so that workers end and temporary folders go."""


def _terminate(number: int, frame: FrameType | None) -> None:
    raise _Terminated


def run_ingest(args: argparse.Namespace) -> int:
    """Build a corpus."""
    from rag.encoders import text_encoder
    from rag.ingest.build import ingest
    from rag.ingest.limits import Limits

    for option in ("limit", "workers"):
        value = getattr(args, option)
        if value is not None and value < 1:
            raise UsageError(f"--{option} is {value}; it must be at least 1.")
    models = _models(args)
    signal.signal(signal.SIGTERM, _terminate)
    report = ingest(
        args.sources,
        args.out,
        kind=args.kind,
        name=args.name,
        limit=args.limit,
        languages=args.languages,
        limits=limits_from_env(os.environ, Limits()),
        triples_file=args.triples,
        models=models,
        workers=args.workers,
        encoder=text_encoder(args.encoder) if args.encoder else None,
        overwrite=args.overwrite,
        # What was paid for is not lost: with models a run can always be gone on with.
        resume=args.resume or models is not None,
        progress=lambda line: print(line, file=sys.stderr, flush=True),
    )
    print(report.summary(), file=sys.stderr)
    return 0


def _models(args: argparse.Namespace) -> Models | None:
    from rag.generators.registry import generator_named
    from rag.ingest.models import Models

    budget = _budget(args)
    captioner, extractor = (generator_named(n) if n else None for n in (args.captioner, args.triple_extractor))
    if captioner is None and extractor is None:
        return None
    return Models(Settings.from_env().cache, captioner, extractor, budget)


def _budget(args: argparse.Namespace) -> float | None:
    """What may be spent, in USD; ``None`` is whatever it costs.

    Raises:
        UsageError: it is no amount.
    """
    if not 0 <= args.budget_usd < float("inf"):
        raise UsageError(f"--budget-usd is {args.budget_usd}; give an amount in USD such as 0.50.")
    return None if args.yes else float(args.budget_usd)


def run_corpus(args: argparse.Namespace) -> int:
    """Describe or check a corpus."""
    from rag.corpus import check_corpus, describe, open_corpus

    if args.check:
        problems = check_corpus(args.folder)
        if args.json:
            print(json.dumps({"folder": str(args.folder), "problems": problems}, ensure_ascii=False))
        for problem in problems:
            print(problem, file=sys.stderr)
        if not problems and not args.json:
            print(f"{args.folder}: every digest and cross reference is right.")
        return 1 if problems else 0
    if args.add_clip:
        _add_clip(args.folder)
    if args.add_text:
        _add_text(args.folder, args.add_text)
    facts = describe(open_corpus(args.folder, args.add_text or ""))
    print(json.dumps(facts, ensure_ascii=False) if args.json else _table(facts))
    return 0


def _add_clip(folder: Path) -> None:
    from rag.corpus import build_visual_index, open_corpus
    from rag.encoders import image_encoder

    corpus = open_corpus(folder)
    encoder = image_encoder(f"clip-vit-b-32-{Settings.from_env().clip_pretrained}")
    build_visual_index(corpus, encoder, progress=lambda line: print(line, file=sys.stderr, flush=True))


def _add_text(folder: Path, encoder_id: str) -> None:
    from rag.corpus import add_text_index
    from rag.encoders import text_encoder

    add_text_index(folder, text_encoder(encoder_id), progress=lambda line: print(line, file=sys.stderr, flush=True))


def run_evaluate(args: argparse.Namespace) -> int:
    """Run, or go on with, an evaluation, and print its tables."""
    from rag.corpus import open_corpus
    from rag.evaluate.store import Store, ships

    settings = Settings.from_env()
    corpus = open_corpus(args.corpus or settings.corpus, settings.text_encoder)
    signal.signal(signal.SIGTERM, _terminate)
    if args.audit or args.show is not None:
        with ExitStack() as stack:
            kept = [stack.enter_context(store) for store in _kept_stores(args.out or settings.runs)]
            return _print_audit(args, kept, corpus) if args.audit else _print_kept(args, kept)
    with Store(args.out or settings.runs) as store:
        run, missing = _evaluated(args, store, corpus)
        status = _print_run(args, store, run, missing)
        if args.export and status and ships(args.export):
            print(f"Not exported: {args.export} comes with Fusebox, and this run is not whole.", file=sys.stderr)
        elif args.export:
            store.export(args.export)
    return status


def _evaluated(args: argparse.Namespace, store: Store, corpus: Corpus) -> tuple[str, tuple[str, ...]]:
    """The run, asked and judged, and why verdicts are missing."""
    from rag.evaluate.cost import check_budget, estimate_cost
    from rag.evaluate.judges import OFFLINE, check_keys, judges_named
    from rag.evaluate.runner import CALLS_AT_ONCE, Plan, RunProgress, evaluate, judge_run

    for option in ("limit", "at_once"):
        value = getattr(args, option)
        if value is not None and value < 1:
            raise UsageError(f"--{option.replace('_', '-')} is {value}; it must be at least 1.")
    budget, run_id = _budget(args), _to_resume(args, store)
    plan = Plan.stored(store, run_id) if run_id else _plan(args, corpus)
    plan.check(corpus)
    judges = judges_named(_listed(args.judges), plan.generator_names, corpus)
    check_keys(judges)
    estimate = estimate_cost(
        plan,
        corpus,
        frozenset(store.finished(run_id)) if run_id else frozenset(),
        judges=judges,
        store=store,
        run_id=run_id,
        again=args.judge_again,
    )
    print(estimate.line, file=sys.stderr)
    check_budget(estimate, budget)
    show, spent = _every_twentieth(), [0.0]

    def tell(state: RunProgress) -> None:
        spent[0] = state.spent_usd
        show(state.done + state.failed, state.total, state.line)

    run = evaluate(
        plan,
        store,
        corpus,
        progress=tell,
        run_id=run_id,
        budget_usd=budget,
        limits={spec.provider: args.at_once for spec in plan.generators} if args.at_once else None,
    )
    missing = judge_run(
        store,
        run.id,
        judges,
        progress=lambda n, of: show(n, of, f"{n:,} of {of:,} judged"),
        again=args.judge_again,
        at_once=1 if set(judges) <= set(OFFLINE) else args.at_once or CALLS_AT_ONCE,
        budget_usd=None if budget is None else budget - spent[0],
    )
    return run.id, missing


def _print_run(args: argparse.Namespace, store: Store, run_id: str, missing: Sequence[str]) -> int:
    """The tables on standard output, what is amiss on standard error; the exit status."""
    from rag.evaluate import report, tables
    from rag.evaluate.judges import by_kind, judges_named

    run, results = store.run(run_id), store.results(run_id)
    kinds = by_kind(judges_named(_listed(args.judges), run.generators))
    found = [tables.summary(results, names) for names in kinds or ((),)]
    print(report.as_json(run, *found) if args.json else report.render(run, *found))
    for reason in dict.fromkeys([*(result.error for result in results if result.state == "failed"), *missing]):
        print(reason, file=sys.stderr)
    if run.state != "complete":
        print(f"Run {run.id} is not complete; go on with --resume {run.id}.", file=sys.stderr)
    return 0 if run.state == "complete" and not missing else 1


def _kept_stores(own: Path) -> list[Store]:
    """Stores to look at: one's own where there is one, and the one that ships."""
    from rag.evaluate.store import SHIPPED_RUN, Store, file_of, ships

    files = dict.fromkeys(file for file in (file_of(own), SHIPPED_RUN) if file.is_file())
    return [Store(file, read_only=ships(file)) for file in files]


def _print_kept(args: argparse.Namespace, kept: Sequence[Store]) -> int:
    runs = {run.id: store for store in reversed(kept) for run in reversed(store.runs())}
    wanted = args.show or next(reversed(runs), "")
    if wanted not in runs:
        raise UsageError(f"There is no run {wanted!r} to show; there are: {', '.join(reversed(runs)) or 'none yet'}.")
    return _print_run(args, runs[wanted], wanted, ())


def _print_audit(args: argparse.Namespace, kept: Sequence[Store], corpus: Corpus) -> int:
    from rag.evaluate import report
    from rag.evaluate.audit import audit, origins, recovered

    found = audit(_questions(args, corpus), corpus)
    if not found:
        raise UsageError("None of these is a figure question; name a file with some (--questions).")
    store, run = next(((each, run) for each in kept for run in each.runs() if run.corpus_id == corpus.id), (None, None))
    came = origins(recovered(store.results(run.id), store.trace, corpus)) if store and run else {}
    rows = [one.row() for one in found]
    print(report.audit_as_json(rows, came) if args.json else report.render_audit(rows, run, came))
    return 0


_OF_A_NEW_RUN = ("questions", "systems", "generators", "limit", "label", "gate", *LIMITS, *CHOICES)


def _to_resume(args: argparse.Namespace, store: Store) -> str:
    """The run to go on with; empty for a new one.

    Raises:
        UsageError: there is none, or what the run asks is to be changed.
    """
    if args.resume is None:
        return ""
    default = parser().parse_args(["evaluate"])
    if changed := [name for name in _OF_A_NEW_RUN if getattr(args, name) != getattr(default, name)]:
        raise UsageError(f"--resume goes on with what the run asks; leave out --{changed[0].replace('_', '-')}.")
    if args.resume:
        return store.run(args.resume).id
    newest = next(iter(store.runs()), None)
    if newest is None:
        raise UsageError(f"{store.path} holds no run to go on with; start one without --resume.")
    return newest.id


def _plan(args: argparse.Namespace, corpus: Corpus) -> Plan:
    from rag.evaluate.runner import Plan
    from rag.generators.registry import generator_named

    return Plan(
        questions=_questions(args, corpus),
        systems=tuple(tuned(system_named(name), **_knobs(args)) for name in _listed(args.systems)),
        generators=tuple(generator_named(name) for name in _listed(args.generators)),
        by_type=args.gate == "type",
        label=args.label,
    )


def _questions(args: argparse.Namespace, corpus: Corpus) -> tuple[Question, ...]:
    """Those of the files, or of the corpus, the first ``--limit`` of each set."""
    from rag.evaluate.questions import known_questions, load_sets

    found = load_sets(args.questions) if args.questions else known_questions(corpus)
    if not found:
        raise UsageError(f"There are no questions for {corpus.id}; name a file (--questions).")
    sets = dict.fromkeys(question.set for question in found)
    return tuple(q for name in sets for q in [q for q in found if q.set == name][: args.limit])


def _listed(names: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in names.split(",") if name.strip())


def _every_twentieth() -> Callable[[int, int, str], None]:
    """Show a line of progress on standard error whenever another twentieth is done."""
    shown = [-1]

    def show(done: int, total: int, line: str) -> None:
        if (part := 20 * done // max(total, 1)) != shown[0]:
            shown[0] = part
            print(line, file=sys.stderr, flush=True)

    return show


def run_bench(args: argparse.Namespace) -> int:
    """Time every stage."""
    from rag.bench import bench

    figures = bench(args.corpus or Settings.from_env().corpus, args.repeat)
    print(json.dumps(figures) if args.json else _table(figures))
    return 0


def _table(facts: dict[str, object], indent: str = "") -> str:
    lines = []
    for name, value in facts.items():
        if isinstance(value, dict):
            lines.append(f"{indent}{name}")
            lines.append(_table(value, indent + "  "))
        elif isinstance(value, list):
            lines.append(f"{indent}{name}")
            lines.extend(f"{indent}  {item}" for item in value)
        else:
            lines.append(f"{indent}{name:<24} {value}")
    return "\n".join(lines)


COMMANDS = {
    "ask": run_ask,
    "ingest": run_ingest,
    "corpus": run_corpus,
    "evaluate": run_evaluate,
    "bench": run_bench,
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and give its exit status."""
    args = parser().parse_args(argv)
    try:
        return COMMANDS[args.command](args)
    except UsageError as error:
        print(error, file=sys.stderr)
        return 2
    except FuseboxError as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt as error:
        print("Stopped.", file=sys.stderr)
        return 143 if isinstance(error, _Terminated) else 130
    except BrokenPipeError:  # whoever read the output, `head` say, has gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


if __name__ == "__main__":
    sys.exit(main())

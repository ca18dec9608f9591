"""The command line: ``python -m rag ask|ingest|corpus|bench``.

``--json`` prints one JSON document on standard output and nothing else there; progress and errors go to standard error. Exit status:
0, 1 for a failure that names its cause, 2 for wrong usage, 130 and 143 when stopped (Ctrl-C, SIGTERM).
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from rag import __version__
from rag.errors import FuseboxError, UsageError
from rag.settings import Settings, limits_from_env
from rag.systems import CHOICES, LIMITS, SYSTEMS


def parser() -> argparse.ArgumentParser:
    """The whole grammar of the command line."""
    top = argparse.ArgumentParser(prog="python -m rag", description="Ask, ingest, check and time a Fusebox corpus.")
    top.add_argument("--version", action="version", version=f"fusebox {__version__}")
    commands = top.add_subparsers(dest="command", required=True, metavar="ask|ingest|corpus|bench")
    _add_ask(commands.add_parser("ask", help="answer a question and show what the answer rests on"))
    _add_ingest(commands.add_parser("ingest", help="build a corpus from documents"))
    _add_corpus(commands.add_parser("corpus", help="describe a corpus, or check it"))
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
    knobs = p.add_argument_group("retrieval settings")
    for name, (low, high) in LIMITS.items():
        knobs.add_argument(f"--{name.replace('_', '-')}", type=int, metavar=f"{low}..{high}")
    for name, words in CHOICES.items():
        knobs.add_argument(f"--{name.replace('_', '-')}", metavar="|".join(words))


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
    from rag.systems import system_named, tuned

    knobs = {name: getattr(args, name) for name in (*LIMITS, *CHOICES) if getattr(args, name) is not None}
    system = tuned(system_named(args.system), **knobs)
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
        workers=args.workers,
        encoder=text_encoder(args.encoder) if args.encoder else None,
        overwrite=args.overwrite,
        resume=args.resume,
        progress=lambda line: print(line, file=sys.stderr, flush=True),
    )
    print(report.summary(), file=sys.stderr)
    return 0


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


COMMANDS = {"ask": run_ask, "ingest": run_ingest, "corpus": run_corpus, "bench": run_bench}


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

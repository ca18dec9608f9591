"""Every ``FUSEBOX_*`` environment variable, declared and read in one place.

==========================  ==============================================================  ====================
variable                    meaning                                                         default
==========================  ==============================================================  ====================
FUSEBOX_CORPUS              folder of the corpus to open                                    assets/corpora/demo
FUSEBOX_HOST                address to listen on                                            127.0.0.1
FUSEBOX_PORT                port to listen on (GRADIO_SERVER_PORT is honoured too)          7860
FUSEBOX_TEXT_ENCODER        id of the text encoder; must be the one the corpus was built    the corpus's own
                            with
FUSEBOX_CLIP_PRETRAINED     CLIP weights: laion2b_s34b_b79k or openai                       laion2b_s34b_b79k
FUSEBOX_CLIP_WEIGHTS        a file with CLIP weights, instead of the cache or the hub       (none)
FUSEBOX_CONCURRENCY         questions answered at the same time                             8
FUSEBOX_ENDPOINTS           TOML file of OpenAI-compatible servers and prices               (none)
FUSEBOX_VISITOR_KEYS        1 or 0: may visitors use their own keys                         1
FUSEBOX_BUDGET_USD_SESSION  most that one session may spend on the operator's keys; who     no cap
                            opens many sessions is held by the day's cap alone
FUSEBOX_BUDGET_USD_DAY      most that all may spend on them in one day (UTC)                  no cap
FUSEBOX_CORPORA             further corpus folders to choose from in the page, separated    (none)
                            as in PATH
FUSEBOX_CACHE               folder that keeps what models replied in ingestion, by digest   ~/.cache/fusebox
FUSEBOX_EVALUATE            1 or 0: may evaluation runs be started from the page; everybody 1 where the page
                            who opens it sees them                                          is for this machine
                                                                                            alone, else 0
FUSEBOX_RUNS                folder of the evaluation runs that the page shows and starts    build/runs
FUSEBOX_UPLOADS             1 or 0: may visitors add documents of their own, and have the   1
                            page build missing indices
FUSEBOX_MAX_FILES           most files a visitor's corpus is made from                      20
FUSEBOX_MAX_MB              most megabytes they have together                               100
FUSEBOX_MAX_PAGES           most pages it has                                               300
FUSEBOX_MAX_PIXELS          most pixels of a page image, or of an image in a page           80000000
FUSEBOX_PAGE_SECONDS        most seconds for one page                                       60
FUSEBOX_LANGUAGES           languages a visitor can have scans read in, Tesseract's names   those installed,
                            joined by + (deu+eng); the first is chosen at first             English first
==========================  ==============================================================  ====================

The command line's ``ingest`` honours the five limits where they are set; else it takes any number of files and pages and
gives each page 300 seconds.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from rag.errors import UsageError
from rag.ingest.languages import split_languages
from rag.ingest.limits import UPLOADS, VARIABLES, Limits

ASSETS = Path(__file__).resolve().parent.parent / "assets"
DEMO_CORPUS = ASSETS / "corpora" / "demo"
RUNS_FOLDER = ASSETS.parent / "build" / "runs"
LOOPBACK = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True, slots=True)
class Settings:
    """What an operator can set; built once at start."""

    corpus: Path = DEMO_CORPUS
    host: str = "127.0.0.1"
    port: int = 7860
    text_encoder: str = ""
    clip_pretrained: str = "laion2b_s34b_b79k"
    clip_weights: str = ""
    concurrency: int = 8
    endpoints: str = ""
    visitor_keys: bool = True
    budget_usd_session: float | None = None
    budget_usd_day: float | None = None
    uploads: Limits = UPLOADS
    take_uploads: bool = True
    languages: tuple[str, ...] = ()
    corpora: tuple[Path, ...] = ()
    evaluate: bool = True
    runs: Path = RUNS_FOLDER
    cache: Path = Path("~/.cache/fusebox")

    @classmethod
    def from_env(cls, env: Mapping[str, str] | None = None) -> Settings:
        """Read the environment.

        Raises:
            UsageError: a number or an amount is wrong; names the variable.
        """
        env = os.environ if env is None else env
        default = cls()
        host = env.get("FUSEBOX_HOST") or env.get("GRADIO_SERVER_NAME") or default.host
        port_name = "FUSEBOX_PORT" if "FUSEBOX_PORT" in env else "GRADIO_SERVER_PORT"
        return cls(
            corpus=Path(env.get("FUSEBOX_CORPUS") or default.corpus),
            host=host,
            port=_whole_number(env, port_name, default.port, 1, 65535),
            text_encoder=env.get("FUSEBOX_TEXT_ENCODER", ""),
            clip_pretrained=env.get("FUSEBOX_CLIP_PRETRAINED") or default.clip_pretrained,
            clip_weights=env.get("FUSEBOX_CLIP_WEIGHTS", ""),
            concurrency=_whole_number(env, "FUSEBOX_CONCURRENCY", default.concurrency, 1, 256),
            endpoints=env.get("FUSEBOX_ENDPOINTS", ""),
            visitor_keys=_whole_number(env, "FUSEBOX_VISITOR_KEYS", 1, 0, 1) == 1,
            budget_usd_session=_money(env, "FUSEBOX_BUDGET_USD_SESSION"),
            budget_usd_day=_money(env, "FUSEBOX_BUDGET_USD_DAY"),
            uploads=limits_from_env(env, default.uploads),
            take_uploads=_whole_number(env, "FUSEBOX_UPLOADS", 1, 0, 1) == 1,
            languages=tuple(filter(None, split_languages(env.get("FUSEBOX_LANGUAGES", "")))),
            corpora=tuple(Path(part) for part in env.get("FUSEBOX_CORPORA", "").split(os.pathsep) if part),
            evaluate=_whole_number(env, "FUSEBOX_EVALUATE", int(host in LOOPBACK), 0, 1) == 1,
            runs=Path(env.get("FUSEBOX_RUNS") or default.runs),
            cache=_cache(env) or default.cache,
        )


def _cache(env: Mapping[str, str]) -> Path | None:
    if base := env.get("FUSEBOX_CACHE"):
        return Path(base)
    base = env.get("XDG_CACHE_HOME")
    return Path(base, "fusebox") if base else None


def limits_from_env(env: Mapping[str, str], default: Limits) -> Limits:
    """``default`` with what the environment sets.

    Raises:
        UsageError: a limit is no whole number from 1; names the variable.
    """
    found = {
        name: _whole_number(env, variable, 0, 1, 10**12) for name, variable in VARIABLES.items() if env.get(variable)
    }
    return replace(default, **found)


def _whole_number(env: Mapping[str, str], name: str, default: int, low: int, high: int) -> int:
    text = env.get(name, "")
    if not text:
        return default
    if not text.isascii() or not text.isdigit() or not low <= int(text) <= high:
        raise UsageError(f"{name} is {text!r}; set it to a whole number from {low} to {high}.")
    return int(text)


def _money(env: Mapping[str, str], name: str) -> float | None:
    text = env.get(name, "")
    if not text:
        return None
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise UsageError(f"{name} is {text!r}; set it to an amount in USD such as 0.50, or leave it out for no cap.")
    return value

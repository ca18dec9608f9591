"""The way in for a visitor's key: who may use it, what is refused, and that no reply repeats a key."""

from __future__ import annotations

import json
from types import SimpleNamespace

import gradio as gr
import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from rag.corpus import Corpus
from rag.errors import UsageError
from rag.generators.registry import GENERATORS
from rag.keys import MAX_SESSIONS, SessionKeys
from rag.pipeline import ask
from rag.systems import SYSTEMS
from ui.compare_desk import CompareDesk
from ui.graph_desk import GraphDesk
from ui.handlers import KNOBS, Handlers
from ui.history_desk import HistoryDesk
from ui.keydesk import COOKIE, KEY_URL, MAX_BODY_BYTES, KeyDesk
from ui.prompt_desk import PromptDesk
from ui.shelf import Shelf
from ui.views.history import Entry
from ui.whatif_desk import WhatIfDesk

KEY = "canary-key-7f3a9c"
SENT = {"session": "s1", "variable": "OPENAI_API_KEY", "key": KEY}


def desk(**options: bool) -> tuple[KeyDesk, SessionKeys]:
    keys = SessionKeys(**options)
    return KeyDesk(keys, {"OPENAI_API_KEY", "GEMINI_API_KEY"}), keys


def client(desk: KeyDesk, url: str = "http://testserver") -> TestClient:
    return TestClient(Starlette(routes=[desk.route()]), base_url=url)


def held(keys: SessionKeys, session: str = "s1", variable: str = "OPENAI_API_KEY") -> str | None:
    secret = keys.get(session, variable)
    return secret.reveal() if secret else None


def test_a_key_comes_in_and_an_empty_one_forgets_it() -> None:
    opened, keys = desk()
    browser = client(opened)
    reply = browser.post(KEY_URL, json=SENT)
    assert (reply.status_code, reply.json(), held(keys)) == (200, {"held": True}, KEY)
    assert reply.headers["cache-control"] == "no-store"
    reply = browser.post(KEY_URL, json={**SENT, "key": " "})
    assert (reply.json(), held(keys)) == ({"held": False}, None)


@pytest.mark.parametrize(
    ("url", "headers", "rules"),
    [
        ("http://testserver", {}, "SameSite=Strict"),
        ("https://testserver", {}, "SameSite=None; Secure; Partitioned"),
        ("http://testserver", {"x-forwarded-proto": "https"}, "SameSite=None; Secure; Partitioned"),
    ],
)
def test_the_cookie_is_out_of_reach_of_scripts_and_new_for_every_browser(
    url: str, headers: dict[str, str], rules: str
) -> None:
    opened, _ = desk()
    cookies = [client(opened, url).post(KEY_URL, json={**SENT, "session": s}, headers=headers) for s in ("a", "b")]
    first, second = (reply.headers["set-cookie"] for reply in cookies)
    assert first.startswith(f"{COOKIE}=") and first.endswith(f"; Path=/; HttpOnly; {rules}")
    assert len(first.split(";")[0]) > 40 and first != second


def test_a_session_belongs_to_the_browser_of_its_first_key() -> None:
    opened, keys = desk()
    assert client(opened).post(KEY_URL, json=SENT).status_code == 200
    for attack in ({**SENT, "key": "other-key-1234"}, {**SENT, "key": ""}):
        reply = client(opened).post(KEY_URL, json=attack)
        assert reply.status_code == 400 and "another browser" in reply.json()["error"]
    assert held(keys) == KEY


@pytest.mark.parametrize(
    "headers",
    [
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"content-type": "text/plain"},
        {"content-type": "application/x-www-form-urlencoded"},
    ],
)
def test_another_site_can_put_nothing_in(headers: dict[str, str]) -> None:
    opened, keys = desk()
    reply = client(opened).post(
        KEY_URL, content=json.dumps(SENT), headers={"content-type": "application/json", **headers}
    )
    assert reply.status_code == 400 and held(keys) is None


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"not json",
        b"[]",
        b"\xff\xfe",
        b"[" * 4_000,
        b'{"session": "s1", "variable": "OPENAI_API_KEY"}',
        json.dumps({**SENT, "key": ["canary-key-7f3a9c"]}).encode(),
        json.dumps({**SENT, "session": ""}).encode(),
        json.dumps({**SENT, "session": "s" * 65}).encode(),
        json.dumps({**SENT, "variable": "PATH"}).encode(),
        json.dumps({**SENT, "variable": "FUSEBOX_ENDPOINTS"}).encode(),
        json.dumps({**SENT, "key": "canary-key-7f3a9c with spaces"}).encode(),
        json.dumps({**SENT, "key": "canary-key-7f3a9c" * 40}).encode(),
        json.dumps({**SENT, "more": "x" * MAX_BODY_BYTES}).encode(),
    ],
)
def test_what_is_no_key_of_the_page_is_refused_and_never_repeated(body: bytes) -> None:
    opened, keys = desk()
    reply = client(opened).post(KEY_URL, content=body, headers={"content-type": "application/json"})
    assert reply.status_code == 400 and reply.json()["error"].endswith((".", "again."))
    assert KEY not in reply.text and KEY not in str(reply.headers) and held(keys) is None


def test_switched_off_nothing_comes_in() -> None:
    opened, keys = desk(allowed=False)
    assert not opened.open
    reply = client(opened).post(KEY_URL, json=SENT)
    assert reply.status_code == 400 and "FUSEBOX_VISITOR_KEYS" in reply.json()["error"] and held(keys) is None


def test_with_no_generator_that_needs_a_key_the_desk_is_closed() -> None:
    assert not KeyDesk(SessionKeys(), ()).open


def test_only_the_page_may_ask_with_its_key() -> None:
    from tests.ui.test_handlers import session

    opened, _ = desk()
    opened.admit(session("s1"))
    opened.take("s1", "OPENAI_API_KEY", KEY, "cookie-1")
    opened.admit(session("s1", "cookie-1"))
    for stranger in (session("s1"), session("s1", "cookie-2")):
        with pytest.raises(UsageError, match="another browser"):
            opened.admit(stranger)
    opened.admit(session("s2"))


def test_a_session_whose_owner_is_no_longer_known_has_no_key_either() -> None:
    """Else the next to come could take its key over."""
    opened, keys = desk()
    opened.take("first", "OPENAI_API_KEY", KEY, "cookie-1")
    opened.take("unused", "OPENAI_API_KEY", "", "cookie-1")
    for number in range(MAX_SESSIONS):
        opened.take(f"s{number}", "OPENAI_API_KEY", "", "cookie-2")
    assert held(keys, "first") is None


def test_no_event_of_the_page_answers_another_browser(small: Corpus) -> None:
    """Whoever learns a session's name sees nothing of it: every desk asks the key desk first."""
    opened, keys = desk()
    opened.take("victim", "OPENAI_API_KEY", KEY, "the victim's token")
    handlers = Handlers(Shelf(small), GENERATORS, desk=opened)
    stranger = SimpleNamespace(session_hash="victim", request=SimpleNamespace(cookies={COOKIE: "another token"}))
    *_, trace = ask("How many patients did the glioma trial enroll?", SYSTEMS["+both"], GENERATORS["extractive"], small)
    entries = (Entry.of(trace),)
    secret = ("37 patients", "glioma", trace.id)

    def event(**data: object) -> SimpleNamespace:
        return SimpleNamespace(_data=data)

    knobs = [getattr(SYSTEMS["+both"], name) for name in KNOBS]
    replies = [
        *HistoryDesk(handlers).restore(stranger, entries, trace, event(restore=trace.id)),
        PromptDesk(handlers).compare(stranger, trace, entries, event(compare=True)),
        *GraphDesk(handlers.shelf, handlers.admit).answer(stranger, trace, event(fact="triple:0")),
        handlers.open_page(stranger, trace, event(page="glioma_p001")),
        *HistoryDesk(handlers).keep(stranger, trace, entries),
        *WhatIfDesk(handlers).show(stranger, trace),
        *[cell for update in handlers.ask(stranger, "Why?", True, True, "extractive", *knobs) for cell in update],
    ]
    assert not [reply for reply in replies if any(word in str(reply) for word in secret)]
    with pytest.raises(gr.Error, match="another browser"):
        CompareDesk(handlers).open_cell(stranger, (trace,), event(cell="0"))
    handlers.leave(stranger)  # as anybody can make Gradio believe
    assert held(keys, "victim") is None
    assert trace.id not in str(HistoryDesk(handlers).restore(stranger, entries, None, event(restore=trace.id)))

"""The way in for a visitor's key: who may use it, what is refused, and that no reply repeats a key."""

from __future__ import annotations

import json
from types import SimpleNamespace

import gradio as gr
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.testclient import TestClient

from rag.corpus import Corpus
from rag.errors import UsageError
from rag.generators.registry import GENERATORS
from rag.keys import MAX_SESSIONS, SessionKeys
from rag.pipeline import ask
from rag.systems import SYSTEMS
from ui import keydesk as module
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


class Clock:
    """Time that passes when it is told to."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def timed() -> tuple[KeyDesk, SessionKeys, Clock]:
    keys, clock = SessionKeys(), Clock()
    return KeyDesk(keys, {"OPENAI_API_KEY"}, clock), keys, clock


def test_a_session_whose_owner_is_no_longer_known_has_no_key_either() -> None:
    """Else the next to come could take its key over."""
    opened, keys, clock = timed()
    gone: list[str] = []
    opened.forgotten = gone.append
    opened.take("first", "OPENAI_API_KEY", KEY, "cookie-1")
    for number in range(MAX_SESSIONS - 1):
        opened.take(f"s{number}", "OPENAI_API_KEY", "", "cookie-2")
    clock.now = module.IDLE_S
    opened.take("one more", "OPENAI_API_KEY", "", "cookie-3")
    assert held(keys, "first") is None and gone == ["first"]


def test_a_key_in_use_is_not_crowded_out_and_newcomers_are_refused() -> None:
    from tests.ui.test_handlers import session

    opened, keys, clock = timed()
    opened.take("first", "OPENAI_API_KEY", KEY, "cookie-1")
    for number in range(MAX_SESSIONS - 1):
        opened.bind(f"s{number}", f"cookie-{number}")
    with pytest.raises(UsageError, match=r"Too many visitors.*try again in ten minutes"):
        opened.take("late", "OPENAI_API_KEY", KEY, "cookie-late")
    assert held(keys, "late") is None and opened.idle_s("late") == float("inf")
    clock.now = module.IDLE_S - 1
    opened.admit(session("first", "cookie-1"))  # asks a question
    clock.now = module.IDLE_S
    opened.take("late", "OPENAI_API_KEY", KEY, "cookie-late")  # in the place of s0, idle for longest
    assert held(keys, "first") == held(keys, "late") == KEY
    assert opened.idle_s("s0") == float("inf") and opened.idle_s("s1") == module.IDLE_S


def test_a_script_that_opens_many_sessions_crowds_out_itself_alone() -> None:
    opened, keys, clock = timed()
    opened.take("first", "OPENAI_API_KEY", KEY, "cookie-1", "198.51.100.7")
    clock.now = module.IDLE_S
    for number in range(module.MAX_PER_ADDRESS):
        opened.bind(f"s{number}", "cookie-2", "203.0.113.5")
    with pytest.raises(UsageError, match="Too many visitors"):
        opened.bind("one more", "cookie-2", "203.0.113.5")
    opened.bind("neighbour", "cookie-3", "198.51.100.7")
    clock.now = 2 * module.IDLE_S
    opened.bind("one more", "cookie-2", "203.0.113.5")
    assert opened.address("s0") == "" and held(keys, "first") == KEY


@pytest.mark.parametrize(
    ("peer", "forwarded", "address"),
    [
        ("8.8.8.8", "", "8.8.8.8"),
        ("8.8.8.8", "1.1.1.1", "8.8.8.8"),  # from outside anybody can write that
        ("127.0.0.1", "1.1.1.1", "1.1.1.1"),
        ("10.0.3.4", "9.9.9.9, 1.1.1.1, 10.0.0.2", "1.1.1.1"),  # the first is what the visitor wrote
        ("10.0.3.4", "", ""),
        ("10.0.3.4", "nonsense, 192.168.1.1", ""),
        ("", "1.1.1.1", "1.1.1.1"),  # a Unix socket
        ("2606:4700:4700:1:2:3:4:5", "", "2606:4700:4700:1::/64"),
        ("::ffff:8.8.8.8", "1.1.1.1", "8.8.8.8"),  # IPv4 on a socket for both
        ("::ffff:10.0.3.4", "1.1.1.1", "1.1.1.1"),
    ],
)
def test_whom_a_request_counts_for(peer: str, forwarded: str, address: str) -> None:
    scope = {
        "type": "http",
        "client": (peer, 1) if peer else None,
        "headers": [(b"x-forwarded-for", forwarded.encode())],
    }
    assert module.address_of(Request(scope)) == address


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

"""Keys, caps, and one session's way to a generator."""

from __future__ import annotations

import base64
import copy
import hashlib
import json
import logging
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import date

import pytest

from rag import pricing, trace
from rag.budget import Budget
from rag.corpus import Corpus
from rag.errors import GeneratorError, UsageError
from rag.generators.access import Access
from rag.generators.answer import answer
from rag.generators.registry import LISTED
from rag.keys import Secret, SessionKeys, from_environment, parse_key, redact
from rag.pipeline import ask
from rag.settings import Settings
from rag.systems import SYSTEMS
from rag.types import Generation, Trace
from tests.generators.helpers import KEY, QUICK, FakeTime, at, crop, picture, prompt
from tests.generators.servers import openai as say
from tests.generators.servers.base import PATIENCE_S, Hang, Reply, ScriptedServer, stream

# --- secrets ---


def test_a_secret_shows_itself_nowhere() -> None:
    secret = Secret(KEY)
    keys = SessionKeys()
    keys.put("s", "OPENAI_API_KEY", KEY)
    shown = f"{secret} {secret!r} {[secret]} {keys!r} {Access('s', keys)!r} {{}}".format(secret)
    assert KEY not in shown and secret.reveal() == KEY
    for attempt in (pickle.dumps, copy.copy, copy.deepcopy, json.dumps):
        with pytest.raises(TypeError) as caught:
            attempt(secret)
        assert KEY not in str(caught.value)


@pytest.mark.parametrize("text", ["short", "has a space in it", "line\nbreak-in-it", "ünïcödë-kéys", "x" * 513])
def test_what_is_no_key_is_refused_without_repeating_it(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_key(text)
    assert text not in str(caught.value)


def test_pasted_white_space_is_taken_off() -> None:
    assert parse_key(f"  {KEY}\n").reveal() == KEY


def test_a_broken_variable_is_named_without_its_value() -> None:
    with pytest.raises(GeneratorError, match="OPENAI_API_KEY does not hold an API key") as caught:
        from_environment("OPENAI_API_KEY", {"OPENAI_API_KEY": "se cret"})
    assert "se cret" not in str(caught.value)
    assert from_environment("OPENAI_API_KEY", {}).owner == "none"
    assert from_environment("OPENAI_API_KEY", {"OPENAI_API_KEY": KEY}).owner == "operator"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"bad key {KEY}!", "bad key [key]!"),
        ("key sk-proj-abc***wxyz is bad", "key [key] is bad"),
        ("Bearer abcdefgh12 refused", "[key] refused"),
        ("AIzaSyD-123456789 is bad", "[key] is bad"),
        ("the keyboard skips a keyword", "the keyboard skips a keyword"),
    ],
)
def test_redaction(text: str, expected: str) -> None:
    assert redact(text, Secret(KEY)) == expected


# --- visitors' keys ---


def test_sessions_see_only_their_own_keys() -> None:
    keys = SessionKeys()
    keys.put("one", "A", "key-of-one")
    keys.put("two", "A", "key-of-two")
    found = [keys.get(session, "A") for session in ("one", "two", "three")]
    assert [secret and secret.reveal() for secret in found] == ["key-of-one", "key-of-two", None]
    assert keys.get("one", "B") is None
    keys.forget("one")
    assert keys.get("one", "A") is None and keys.get("two", "A") is not None


def test_an_empty_field_forgets_the_key() -> None:
    keys = SessionKeys()
    keys.put("one", "A", "key-of-one")
    keys.put("one", "B", "key-for-b")
    keys.put("one", "A", " ")
    assert keys.get("one", "A") is None and keys.get("one", "B") is not None


def test_keys_are_forgotten_after_idle_time_and_when_there_are_too_many() -> None:
    time = FakeTime()
    keys = SessionKeys(idle_s=10, max_sessions=2, clock=lambda: time.now)
    keys.put("one", "A", "key-of-one")
    time.now = 9
    assert keys.get("one", "A") is not None
    time.now = 18
    keys.put("two", "A", "key-of-two")
    assert keys.get("one", "A") is not None
    time.now = 27
    keys.put("three", "A", "key-of-three")
    assert keys.get("two", "A") is None, "two was idle for longest, and only two are kept"
    time.now = 29
    assert keys.get("one", "A") is None and keys.get("three", "A") is not None


def test_an_operator_can_switch_visitors_keys_off() -> None:
    keys = Access.of(Settings.from_env({"FUSEBOX_VISITOR_KEYS": "0"})).keys
    assert keys is not None
    with pytest.raises(UsageError, match="FUSEBOX_VISITOR_KEYS=0"):
        keys.put("one", "A", "key-of-one")
    assert Settings.from_env({}).visitor_keys is True


def test_a_missing_key_speaks_of_the_page_only_where_one_may_be_entered_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    ways = (
        (Access.of(Settings.from_env({})).for_session("one"), True),
        (Access.of(Settings.from_env({"FUSEBOX_VISITOR_KEYS": "0"})).for_session("one"), False),
        (Access(), False),
    )
    for access, may_enter in ways:
        *_, last = answer(prompt(), LISTED["gpt-4o"], access, lambda _image: b"")
        assert last.error is not None
        assert "set OPENAI_API_KEY" in last.error
        assert ("on the page" in last.error) is may_enter


def test_a_visitors_key_goes_before_the_operators(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "key-of-operator")
    access = Access("one", SessionKeys())
    assert access.keys is not None
    spec = LISTED["gpt-4o"]
    assert access.credential(spec).owner == "operator"
    access.keys.put("one", "OPENAI_API_KEY", KEY)
    assert access.credential(spec).owner == "visitor"
    assert access.for_session("two").credential(spec).owner == "operator"
    monkeypatch.delenv("OPENAI_API_KEY")
    assert access.ready(spec) and not access.for_session("two").ready(spec)
    assert access.for_session("two").ready(LISTED["extractive"])


# --- caps ---


def test_caps_per_session_and_per_day() -> None:
    budget = Budget(session_usd=1.0, day_usd=1.5, today=lambda: date(2026, 11, 30))
    budget.reserve("one", 0.9, "G")
    with pytest.raises(
        GeneratorError, match=r"G was not called: .* \$1.00 for this session \(.*_SESSION\) \$0.1000 is left"
    ):
        budget.reserve("one", 0.2, "G")
    budget.reserve("two", 0.5, "G")
    with pytest.raises(GeneratorError, match=r"for today \(FUSEBOX_BUDGET_USD_DAY\) \$0.1000 is left"):
        budget.reserve("three", 0.2, "G")
    budget.reserve("one", 0.0, "free")
    assert budget.spent("one") == pytest.approx((0.9, 1.4))


def test_settling_puts_right_what_was_set_aside_once() -> None:
    budget = Budget(session_usd=1.0)
    reservation = budget.reserve("one", 0.9, "G")
    reservation.settle(0.1)
    reservation.settle(0.0)
    assert budget.spent("one") == pytest.approx((0.1, 0.1))
    budget.reserve("one", 0.5, "G").settle(None)
    assert budget.spent("one") == pytest.approx((0.6, 0.6))


def test_a_new_day_begins_anew_and_yesterdays_calls_do_not_count_to_it() -> None:
    days = [date(2026, 11, 30)]
    budget = Budget(day_usd=1.0, today=lambda: days[0])
    late = budget.reserve("one", 0.9, "G")
    days[0] = date(2026, 12, 1)
    budget.reserve("two", 0.9, "G")
    late.settle(0.2)
    assert budget.spent("two") == pytest.approx((0.9, 0.9))
    assert budget.spent("one")[0] == pytest.approx(0.2)


def test_an_unknown_cost_is_refused_under_a_cap_and_let_through_without() -> None:
    Budget().reserve("one", None, "G")
    with pytest.raises(GeneratorError, match="what this call costs is not known"):
        Budget(day_usd=5.0).reserve("one", None, "G")


def test_calls_at_the_same_time_can_not_pass_a_cap_together() -> None:
    budget = Budget(session_usd=1.0)
    start = threading.Barrier(16)

    def attempt(_: int) -> bool:
        start.wait(PATIENCE_S)
        try:
            budget.reserve("one", 0.3, "G")
        except GeneratorError:
            return False
        return True

    with ThreadPoolExecutor(16) as pool:
        assert sum(pool.map(attempt, range(16))) == 3


@pytest.mark.parametrize("text", ["-1", "much", "nan", "inf"])
def test_a_cap_that_is_no_amount_is_named(text: str) -> None:
    with pytest.raises(UsageError, match="FUSEBOX_BUDGET_USD_DAY"):
        Settings.from_env({"FUSEBOX_BUDGET_USD_DAY": text})


# --- one answer ---


def run(server: ScriptedServer, access: Access, **changes: object) -> Generation:
    spec = replace(at("gpt-4o-mini", f"{server.url}/v1"), **changes)
    *_, last = answer(prompt(image=crop(300, 200)), spec, access, lambda _: picture(300, 200))
    return last


def visitor(budget: Budget | None = None) -> Access:
    keys = SessionKeys()
    keys.put("one", "OPENAI_API_KEY", KEY)
    return Access("one", keys, budget, FakeTime().policy(), QUICK)


def operator(monkeypatch: pytest.MonkeyPatch, budget: Budget) -> Access:
    monkeypatch.setenv("OPENAI_API_KEY", "key-of-operator")
    return Access("one", SessionKeys(), budget, FakeTime().policy(), QUICK)


def test_an_answer_holds_estimate_images_usage_and_cost() -> None:
    with ScriptedServer(say.answer("Paris [T1]", counts=say.usage(9_000, 10))) as server:
        generation = run(server, visitor())
    assert (generation.text, generation.finish, generation.counts, generation.partial) == (
        "Paris [T1]",
        "stop",
        True,
        False,
    )
    assert generation.cost_usd == pytest.approx((9_000 * 0.15 + 10 * 0.60) / 1e6)
    assert generation.estimate is not None and generation.estimate.image_tokens == 8_500
    assert [image.crop_id for image in generation.images] == ["d_p001_figure0"]
    assert (
        generation.ttft_ms is not None
        and generation.latency_ms is not None
        and generation.ttft_ms <= generation.latency_ms
    )


def test_waiting_is_on_the_answer_until_text_comes() -> None:
    with ScriptedServer(say.error(429), say.answer()) as server:
        spec = at("gpt-4o-mini", f"{server.url}/v1")
        seen = list(answer(prompt(), spec, visitor(), lambda _: b""))
    waits = [generation.waiting for generation in seen]
    assert "waiting for the provider (429), 2 of 4" in waits
    assert waits[-1] == "" and seen[-1].finish == "stop"


@pytest.mark.parametrize(
    "reply", [say.error(401), say.answer("Paris", "length"), say.answer("", "stop"), say.answer("Pa", "content_filter")]
)
def test_what_is_no_whole_answer_does_not_count(reply: Reply) -> None:
    with ScriptedServer(reply) as server:
        generation = run(server, visitor())
    assert not generation.counts and not generation.abstained
    assert generation.partial == bool(generation.text)


def test_stop_aborts_the_request_and_leaves_a_partial_answer_with_estimates() -> None:
    hang, stop = Hang(), threading.Event()
    with ScriptedServer(stream(*say.pieces(say.text("Paris is")), hang)) as server:
        seen = []
        for generation in answer(
            prompt(), at("gpt-4o-mini", f"{server.url}/v1"), visitor(), lambda _: b"", stop.is_set
        ):
            seen.append(generation)
            if generation.text:
                stop.set()
        assert hang.gone.wait(PATIENCE_S)
    last = seen[-1]
    assert (last.text, last.finish, last.partial, last.counts) == ("Paris is", "cancelled", True, False)
    assert last.usage is not None and (last.usage.source, last.usage.output_tokens) == ("estimated", 2)
    assert last.cost_usd is not None and last.cost_usd > 0


def test_stop_works_while_the_provider_is_silent() -> None:
    hang = Hang()
    with ScriptedServer(Reply(before=(hang,))) as server:
        spec = at("gpt-4o-mini", f"{server.url}/v1")
        *_, last = answer(prompt(), spec, visitor(), lambda _: b"", hang.reached.is_set)
        assert hang.gone.wait(PATIENCE_S)
    assert (last.text, last.finish, last.partial) == ("", "cancelled", False)


def test_leaving_in_the_middle_aborts_the_request() -> None:
    hang = Hang()
    with ScriptedServer(stream(*say.pieces(say.text("Paris is")), hang)) as server:
        seen = answer(prompt(), at("gpt-4o-mini", f"{server.url}/v1"), visitor(), lambda _: b"")
        while not next(seen).text:
            pass
        seen.close()
        assert hang.gone.wait(PATIENCE_S)


def test_a_missing_key_is_an_answer_that_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    (generation,) = answer(prompt(), LISTED["gpt-4o-mini"], Access(), lambda _: b"")
    assert generation.finish == "error" and "set OPENAI_API_KEY" in generation.error


def test_a_cap_stops_before_the_call_that_would_pass_it(monkeypatch: pytest.MonkeyPatch) -> None:
    with ScriptedServer(say.answer(counts=say.usage(9_000, 10))) as server:
        limit = pricing.estimate(prompt(image=crop(300, 200)), LISTED["gpt-4o-mini"]).limit_usd
        assert limit is not None
        access = operator(monkeypatch, Budget(session_usd=1.5 * limit))
        first, second = run(server, access), run(server, access)
    assert (first.finish, second.finish, len(server.requests)) == ("stop", "error", 1)
    assert "GPT-4o-mini was not called" in second.error and "FUSEBOX_BUDGET_USD_SESSION" in second.error
    assert access.budget is not None and access.budget.spent("one")[0] == pytest.approx(first.cost_usd)


def test_a_visitor_who_pays_is_not_capped_and_a_refused_call_costs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    with ScriptedServer(say.answer()) as server:
        assert run(server, visitor(Budget(session_usd=0.0))).finish == "stop"
    with ScriptedServer(say.error(401)) as server:
        access = operator(monkeypatch, Budget(session_usd=1.0))
        assert run(server, access).finish == "error"
        assert access.budget is not None and access.budget.spent("one") == (0.0, 0.0)


def test_a_call_that_broke_off_keeps_what_its_text_came_to(monkeypatch: pytest.MonkeyPatch) -> None:
    with ScriptedServer(stream(*say.pieces(say.text("Paris is")), cut=True)) as server:
        access = operator(monkeypatch, Budget(session_usd=1.0))
        generation = run(server, access)
    assert generation.cost_usd is not None and generation.cost_usd > 0
    assert access.budget is not None and access.budget.spent("one")[0] == pytest.approx(generation.cost_usd)


def test_free_generators_work_when_nothing_is_left() -> None:
    *_, last = answer(
        prompt("What is the capital?"), LISTED["extractive"], Access("one", None, Budget(0.0, 0.0)), lambda _: b""
    )
    assert last.finish == "stop" and last.cost_usd == 0.0


def test_the_key_is_in_no_trace_and_no_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    access = visitor()
    for reply in (say.answer(), say.error(401, f"Incorrect API key provided: {KEY}"), say.error(400, f"{KEY}?")):
        with ScriptedServer(reply) as server:
            generation = run(server, access)
        whole = Trace(
            "1", "now", "Where?", SYSTEMS["+both"], "gpt-4o-mini", "demo", prompt=prompt(), generation=generation
        )
        assert KEY not in trace.dumps(whole) and trace.loads(trace.dumps(whole)) == whole
    assert KEY not in caplog.text and KEY not in repr(access)


# --- the whole way ---


def test_a_question_asked_with_a_visitors_key_sends_the_crops_pixels_and_keeps_their_digest(small: Corpus) -> None:
    system = replace(SYSTEMS["+multimodal"], payload="pixels")
    with ScriptedServer(say.answer("33 months [V1] [T9]", counts=say.usage(9_000, 9))) as server:
        spec = at("gpt-4o-mini", f"{server.url}/v1")
        *_, last = ask("What is the median survival in the table?", system, spec, small, access=visitor())
    assert last.prompt is not None and last.generation is not None
    (image,), (sent,) = last.prompt.images, last.generation.images
    on_disk = small.image_path(image.file).read_bytes()
    assert sent.sha256 == image.sha256 == hashlib.sha256(on_disk).hexdigest() and not sent.reencoded
    assert base64.b64encode(on_disk).decode() in str(server.requests[0].body)
    assert [(citation.tag, bool(citation.item_id)) for citation in last.citations] == [("V1", True), ("T9", False)]
    assert last.generation.estimate is not None and last.generation.estimate.image_tokens == 8_500
    assert sum(pricing.split(last.prompt, spec, 9_000)) == 9_000
    assert KEY not in trace.dumps(last) and trace.loads(trace.dumps(last)) == last


def test_leaving_a_question_in_the_middle_aborts_its_request(small: Corpus) -> None:
    hang = Hang()
    with ScriptedServer(stream(*say.pieces(say.text("Paris is")), hang)) as server:
        seen = ask("Who?", SYSTEMS["baseline"], at("gpt-4o-mini", f"{server.url}/v1"), small, access=visitor())
        while not ((latest := next(seen)).generation and latest.generation.text):
            pass
        seen.close()
        assert hang.gone.wait(PATIENCE_S)

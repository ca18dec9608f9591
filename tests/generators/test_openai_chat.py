"""The OpenAI protocol against servers that speak it, and against servers that get it wrong."""

from __future__ import annotations

import base64
import hashlib
import logging
import pickle
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from rag.errors import GeneratorError
from rag.generators.images import ImageLimits
from rag.generators.registry import LISTED
from rag.generators.retry import retry_after_s
from rag.generators.spec import Call, GeneratorSpec, Timeouts
from rag.types import Delta, Finish, Sent, Usage, Waiting
from tests.generators.helpers import KEY, QUICK, FakeTime, at, call, crop, key, picture, prompt, told, until_delta
from tests.generators.servers import openai as say
from tests.generators.servers.base import PATIENCE_S, Gate, Hang, Reply, Request, ScriptedServer, events, stream

ESTIMATED = "estimated"


def spec_at(server: ScriptedServer) -> GeneratorSpec:
    return at("gpt-4o-mini", f"{server.url}/v1")


def ask(
    *replies: Reply, time: FakeTime | None = None, timeouts: Timeouts = QUICK
) -> tuple[str, list[str], Finish, list[Request]]:
    """What came of one question, and the requests it took."""
    with ScriptedServer(*replies) as server:
        text, waits, finish = told(spec_at(server).make(call(time, timeouts=timeouts)).stream(prompt()))
        return text, waits, finish, server.requests


# --- what is sent ---


def test_request_holds_the_prompt_temperature_zero_and_asks_for_usage() -> None:
    *_, (request,) = ask(say.answer())
    assert request.path == "/v1/chat/completions"
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.body == {
        "model": "gpt-4o-mini",
        "messages": [{"role": message.role, "content": message.content} for message in prompt().messages],
        "temperature": 0,
        "max_tokens": 512,
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def test_another_servers_call_carries_nothing_of_the_operators_openai_account(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "operators-openai-key")
    monkeypatch.setenv("OPENAI_ORG_ID", "org-of-the-operator")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "project-of-the-operator")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:1/elsewhere")
    with ScriptedServer(say.answer()) as server:
        keyless = replace(spec_at(server), key_env="")
        told(keyless.make(Call()).stream(prompt()))
    (request,) = server.requests
    assert "operator" not in str(request)


def test_pixels_go_out_unchanged_at_their_place_and_their_digest_is_told() -> None:
    pixels, image = picture(300, 200), crop(300, 200)
    with ScriptedServer(say.answer()) as server:
        sent, *_ = spec_at(server).make(call(image=pixels)).stream(prompt(image=image))
    before, picture_part, after = server.requests[0].body["messages"][1]["content"]
    assert before["text"].endswith("Caption: A map.\n\n") and after["text"] == "Question: Where?\n"
    head, _, data = picture_part["image_url"]["url"].partition(",")
    assert head == "data:image/png;base64" and base64.b64decode(data) == pixels
    assert picture_part["image_url"]["detail"] == "high"
    assert isinstance(sent, Sent) and len(sent.images) == 1
    assert sent.images[0].sha256 == hashlib.sha256(pixels).hexdigest()
    assert (sent.images[0].crop_id, sent.images[0].bytes, sent.images[0].reencoded) == (
        image.crop_id,
        len(pixels),
        False,
    )


def test_pixels_over_the_limits_are_reencoded_and_the_digest_is_of_the_bytes_that_went_out() -> None:
    with ScriptedServer(say.answer()) as server:
        small = replace(spec_at(server), image_limits=ImageLimits(max_side=100, max_bytes=50_000))
        sent, *_ = small.make(call(image=picture(400, 200, "WEBP", "RGBA"))).stream(prompt(image=crop(400, 200)))
    url = server.requests[0].body["messages"][1]["content"][1]["image_url"]["url"]
    data = base64.b64decode(url.partition(",")[2])
    assert isinstance(sent, Sent)
    assert sent.images[0].sha256 == hashlib.sha256(data).hexdigest()
    assert (sent.images[0].width, sent.images[0].height, sent.images[0].reencoded) == (100, 50, True)


def test_a_generator_without_vision_gets_no_pixels() -> None:
    with ScriptedServer(say.answer()) as server:
        blind = replace(spec_at(server), vision=False)
        sent, *_ = blind.make(call()).stream(prompt(image=crop(300, 200)))
    assert sent == Sent(())
    assert isinstance(server.requests[0].body["messages"][1]["content"], str)


def test_a_crop_that_is_no_image_fails_before_any_request() -> None:
    with ScriptedServer(say.answer()) as server:
        with pytest.raises(GeneratorError, match="d_p001_figure0 can't be read as an image"):
            list(spec_at(server).make(call(image=b"<html>")).stream(prompt(image=crop(9, 9))))
        assert server.requests == []


# --- what comes back ---


def test_text_usage_and_reason_come_through() -> None:
    text, waits, finish, _ = ask(say.answer("Paris [T1]", counts=say.usage(123, 7, 3)))
    assert (text, waits) == ("Paris [T1]", [])
    assert finish == Finish(Usage(123, 7, 3, "reported"), "stop", reason="stop")


def test_first_piece_is_there_before_the_last_is_sent() -> None:
    gate = Gate()
    reply = stream(
        *say.pieces(say.text("Pa")), gate, *say.pieces(say.text("ris"), say.end(), say.usage(9, 2)), say.DONE
    )
    with ScriptedServer(reply) as server:
        seen = spec_at(server).make(call()).stream(prompt())
        assert until_delta(seen) == Delta("Pa")
        assert not gate.opened.is_set()
        gate.opened.set()
        assert told(seen)[0] == "ris"


def test_slow_first_byte_gives_signs_of_life_and_then_the_answer() -> None:
    gate = Gate()
    whole = say.answer()
    with ScriptedServer(Reply(200, whole.headers, whole.pieces, before=(gate,))) as server:
        seen = spec_at(server).make(call()).stream(prompt())
        assert isinstance(next(seen), Sent)
        assert next(seen) == Waiting("") and next(seen) == Waiting("")
        gate.opened.set()
        assert told(seen)[0] == "Paris [T1]"


@pytest.mark.parametrize("counts", [(), (say.chunk(usage=None),)], ids=["no usage at all", "usage is null"])
def test_missing_usage_is_an_estimate_and_never_zero(counts: tuple) -> None:
    _, _, finish, _ = ask(stream(*say.pieces(say.text("Paris is it"), say.end(), *counts), say.DONE))
    assert finish.finish == "stop"
    assert finish.usage.source == ESTIMATED
    assert finish.usage.input_tokens and finish.usage.input_tokens > 10
    assert finish.usage.output_tokens == 3 and finish.usage.reasoning_tokens is None


@pytest.mark.parametrize("bad", ["many", -1, None, {}, 1.5])
def test_a_count_that_is_no_count_is_unknown(bad: object) -> None:
    counts = say.chunk(usage={"prompt_tokens": bad, "completion_tokens": 4, "total_tokens": 4})
    _, _, finish, _ = ask(say.answer(counts=counts))
    assert finish.usage == Usage(None, 4, None, "reported")


def test_usage_in_every_chunk_counts_once() -> None:
    running = [
        say.text("Pa") | {"usage": say.usage(50, 1)["usage"]},
        say.text("ris") | {"usage": say.usage(50, 2)["usage"]},
    ]
    _, _, finish, _ = ask(stream(*say.pieces(*running, say.end() | {"usage": say.usage(50, 2)["usage"]}), say.DONE))
    assert finish.usage == Usage(50, 2, None, "reported")


def test_characters_split_across_network_pieces_come_whole() -> None:
    line = 'data: {"id":"1","choices":[{"index":0,"delta":{"content":"Ärzte 日本 😀"}}]}\n\n'.encode()
    parts = [line[i : i + 1] for i in range(len(line))]
    text, _, finish, _ = ask(stream(*parts, *say.pieces(say.end(), say.usage(9, 2)), say.DONE))
    assert (text, finish.finish) == ("Ärzte 日本 😀", "stop")


def test_a_character_split_across_two_chunks_comes_whole() -> None:
    halves = [
        rb'data: {"id":"1","choices":[{"index":0,"delta":{"content":"%s"}}]}' % half + b"\n\n"
        for half in (rb"a\ud83d", rb"\ude00b")
    ]
    text, _, _, _ = ask(stream(*halves, *say.pieces(say.end(), say.usage(9, 2)), say.DONE))
    assert text == "a😀b"


def test_half_a_character_that_never_gets_its_other_half_is_replaced() -> None:
    half = rb'data: {"id":"1","choices":[{"index":0,"delta":{"content":"a\ud83d"}}]}' + b"\n\n"
    text, _, _, _ = ask(stream(half, *say.pieces(say.end(), say.usage(9, 2)), say.DONE))
    assert text == "a\N{REPLACEMENT CHARACTER}"


def test_comments_and_empty_deltas_between_events_are_passed_over() -> None:
    odd = say.chunk(choices=[{"index": 0, "delta": {"role": "assistant", "content": None}, "finish_reason": None}])
    text, _, finish, _ = ask(
        stream(b": ping\n\n", *say.pieces(odd, say.text(""), say.text("Yes"), say.end(), say.usage(3, 1)), say.DONE)
    )
    assert (text, finish.finish) == ("Yes", "stop")


# --- how it ends ---


@pytest.mark.parametrize(
    ("reason", "content", "finish", "told_as"),
    [
        ("length", "Paris is", "length", "cut the answer off at the limit of 512 tokens (length); it is partial"),
        ("length", "", "length", "before any answer came (length): 500 of them went into thinking"),
        (
            "content_filter",
            "Paris is",
            "content_filter",
            "ended the answer (content_filter); what there is of it is partial",
        ),
        ("content_filter", "", "content_filter", "withheld the answer (content_filter)"),
    ],
)
def test_an_end_other_than_stop_is_told_as_what_it_is(reason: str, content: str, finish: str, told_as: str) -> None:
    text, _, end, _ = ask(say.answer(content, reason, say.usage(100, 512, 500)))
    assert (text, end.finish, end.reason, end.error) == (content, finish, reason, "")
    assert told_as in end.notice and "OpenAI" in end.notice


@pytest.mark.parametrize(
    ("reason", "content", "told_as"),
    [
        ("stop", "", "OpenAI gave an empty answer (stop)"),
        ("stop", " \n", "OpenAI gave an empty answer (stop)"),
        ("tool_calls", "Paris", "OpenAI ended the answer for a reason of its own (tool_calls)"),
    ],
)
def test_empty_answers_and_odd_ends_are_errors(reason: str, content: str, told_as: str) -> None:
    _, _, end, _ = ask(say.answer(content, reason))
    assert end.finish == "error" and told_as in end.error
    assert end.usage == Usage(100, 5, None, "reported")


def test_a_refusal_is_shown_and_is_no_answer() -> None:
    refusal = say.chunk(choices=[{"index": 0, "delta": {"refusal": "I can't help."}, "finish_reason": None}])
    text, _, end, _ = ask(stream(*say.pieces(refusal, say.end(), say.usage(3, 3)), say.DONE))
    assert (text, end.finish, end.reason) == ("I can't help.", "content_filter", "refusal")


def test_a_stream_cut_in_the_middle_leaves_a_partial_answer_and_is_not_asked_again() -> None:
    text, waits, end, requests = ask(stream(*say.pieces(say.text("Paris is the")), cut=True), say.answer())
    assert (text, waits, len(requests)) == ("Paris is the", [], 1)
    assert end.finish == "error" and end.error.startswith("OpenAI broke the connection off.")
    assert end.usage.source == ESTIMATED and end.usage.output_tokens == 3


def test_a_stream_that_ends_without_a_reason_is_broken_off_and_not_complete() -> None:
    text, _, end, _ = ask(stream(*say.pieces(say.text("Paris is the")), say.DONE))
    assert (text, end.finish) == ("Paris is the", "error")
    assert "OpenAI broke off in the middle of the answer" in end.error


def test_an_empty_stream_is_an_error() -> None:
    _, _, end, _ = ask(stream(say.DONE))
    assert end.finish == "error" and "ended the answer before it began" in end.error
    assert end.usage == Usage(None, None, None, ESTIMATED)


def test_a_server_that_does_not_keep_the_limit_is_cut_off() -> None:
    hang = Hang()
    with ScriptedServer(stream(*say.pieces(say.text("word " * 10_000)), hang)) as server:
        text, _, end = told(spec_at(server).make(call()).stream(prompt()))
        assert hang.gone.wait(PATIENCE_S)
    assert len(text) == 50_000 and end.finish == "length"


@pytest.mark.parametrize(
    "junk",
    [
        b"data: {broken\n\n",
        b"data: []\n\n",
        b"data: null\n\n",
        b"data: 5\n\n",
        b'data: {"choices": 5}\n\n',
        b'data: {"choices": ["x"]}\n\n',
        b'data: {"choices": [{"index": 0, "delta": {"content": {"a": 1}}}]}\n\n',
        b'data: {"choices": [{"index": 0, "delta": 7}]}\n\n',
        b'data: {"choices": [{"index": 0, "delta": {}, "finish_reason": ["stop"]}]}\n\n',
        b'data: {"choices": [], "usage": [1]}\n\n',
        b"data: \xff\xfe\n\n",
    ],
)
def test_junk_instead_of_chunks_is_told_as_such(junk: bytes) -> None:
    text, _, end, requests = ask(
        stream(*say.pieces(say.text("Pa")), junk, *say.pieces(say.text("ris"), say.end()), say.DONE)
    )
    assert end.finish == "error", (text, end)
    assert "OpenAI sent something that is not of its protocol" in end.error
    assert (text, len(requests)) == ("Pa", 1)


@pytest.mark.parametrize(
    ("content_type", "body"),
    [("application/json", b'{"id":"1","choices":[]}'), ("text/html", b"<h1>Welcome</h1>"), ("", b"hi")],
)
def test_an_answer_that_is_no_stream_is_told_as_such(content_type: str, body: bytes) -> None:
    headers = {"Content-Type": content_type} if content_type else {}
    _, _, end, _ = ask(Reply(200, headers, (body,)))
    assert end.finish == "error" and "instead of a stream of events" in end.error and "Check the base URL" in end.error


# --- refusals and retries ---


@pytest.mark.parametrize(
    ("status", "cause", "remedy"),
    [
        (400, "refused the request (400): no such thing", "Change the question"),
        (401, "refused the key (401)", "Check the key that you entered"),
        (402, "wants to be paid first", "Top it up"),
        (403, "does not allow this key to use the model gpt-4o-mini (403)", "Use a key that may"),
        (404, "does not know the model gpt-4o-mini at this address (404): no such thing", "Check the model's name"),
        (413, "finds the request too large (413)", "Leave evidence out"),
        (307, "refused the request (307)", "Ask again in a while"),
    ],
)
def test_refusals_are_not_retried_and_name_provider_cause_and_remedy(status: int, cause: str, remedy: str) -> None:
    _, waits, end, requests = ask(say.error(status, "no such thing", location="http://127.0.0.1:1/"), say.answer())
    assert (len(requests), waits, end.finish, end.refused) == (1, [], "error", True)
    assert end.error.startswith(f"OpenAI {cause}") and remedy in end.error
    assert end.usage == Usage(None, None, None, ESTIMATED)


def test_the_operators_key_is_named_by_its_variable() -> None:
    with ScriptedServer(say.error(401)) as server:
        credential = key(owner="operator")
        _, _, end = told(spec_at(server).make(call(credential=credential)).stream(prompt()))
    assert end.error == "OpenAI refused the key (401). Check OPENAI_API_KEY."


@pytest.mark.parametrize("status", [429, 500, 502, 503, 529])
def test_busy_and_failing_servers_are_asked_again_with_growing_waits(status: int) -> None:
    time = FakeTime()
    text, waits, end, requests = ask(say.error(status), say.error(status), say.answer(), time=time)
    assert (text, end.finish, len(requests)) == ("Paris [T1]", "stop", 3)
    assert waits == [f"waiting for the provider ({status}), {n} of 4" for n in (2, 3)]
    assert time.slept == [1.0, 2.0]


def test_four_tries_are_all() -> None:
    time = FakeTime()
    _, waits, end, requests = ask(say.error(503), time=time)
    assert (len(requests), len(waits)) == (4, 3)
    assert time.slept == [1.0, 2.0, 4.0]
    assert end.error == "OpenAI failed (503), 4 times. Ask again in a while, or choose another generator."


def test_retry_after_is_kept_to() -> None:
    time = FakeTime()
    *_, end, requests = ask(
        say.error(429, retry_after="7"), say.error(429, retry_after_ms="250"), say.answer(), time=time
    )
    assert (time.slept, end.finish, len(requests)) == ([7.0, 0.25], "stop", 3)


def test_a_wait_beyond_thirty_seconds_in_all_is_not_begun() -> None:
    time = FakeTime()
    _, waits, end, requests = ask(say.error(429, retry_after="20"), say.error(429, retry_after="11"), time=time)
    assert (time.slept, len(waits), len(requests)) == ([20.0], 1, 2)
    assert "is limiting requests (429), 2 times" in end.error
    _, waits, end, requests = ask(say.error(429, retry_after="60"))
    assert (waits, len(requests)) == ([], 1)
    assert "is limiting requests (429); it asks to wait 60 s" in end.error


def test_retry_after_may_be_a_date() -> None:
    now = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
    header = format_datetime(now + timedelta(seconds=9), usegmt=True)
    assert retry_after_s({"retry-after": header}, lambda: now) == 9.0
    assert retry_after_s({"retry-after": header}, lambda: now + timedelta(hours=1)) == 0.0
    assert [retry_after_s({"retry-after": text}, lambda: now) for text in ("soon", "-1", "nan", "inf", "")] == [
        None
    ] * 5


def test_jitter_shortens_a_wait_by_half_at_most() -> None:
    policy = FakeTime().policy(chance=0.0)
    assert [policy.wait_s(attempt, None) for attempt in (1, 2, 3, 4, 9)] == [0.5, 1.0, 2.0, 4.0, 4.0]


def test_a_used_up_quota_is_not_waited_for() -> None:
    _, waits, end, requests = ask(say.error(429, "You exceeded your quota", code="insufficient_quota"), say.answer())
    assert (waits, len(requests)) == ([], 1)
    assert "OpenAI says that the quota is used up (429)" in end.error


def test_an_error_inside_the_stream_is_retried_before_text_and_not_after() -> None:
    overloaded = {"error": {"message": "busy", "code": 503}}
    time = FakeTime()
    text, waits, end, requests = ask(stream(*events(overloaded)), say.answer(), time=time)
    assert (text, len(waits), len(requests), end.finish) == ("Paris [T1]", 1, 2, "stop")
    text, waits, end, requests = ask(stream(*events(say.text("Pa"), overloaded)), say.answer())
    assert (text, waits, len(requests), end.finish) == ("Pa", [], 1, "error")
    assert "OpenAI failed (503)" in end.error and end.refused is False


def test_an_error_inside_the_stream_without_a_status_is_told() -> None:
    _, _, end, requests = ask(stream(*events({"error": {"message": "model crashed", "code": "oops"}})))
    assert (end.error, len(requests)) == ("OpenAI reported an error: model crashed. Ask again.", 1)


# --- time-outs and connections ---


def test_silence_before_the_first_byte_times_out() -> None:
    hang = Hang()
    _, _, end, _ = ask(Reply(before=(hang,)), timeouts=replace(QUICK, read_s=0.05))
    assert end.error == "OpenAI sent nothing for 0.05 s. Ask again, or choose another generator."
    assert hang.gone.wait(PATIENCE_S)


def test_silence_between_two_pieces_times_out_and_keeps_the_text() -> None:
    hang = Hang()
    text, _, end, _ = ask(stream(*say.pieces(say.text("Pa")), hang), timeouts=replace(QUICK, read_s=1.5))
    assert (text, end.finish) == ("Pa", "error")
    assert "OpenAI sent nothing for 1.5 s" in end.error
    assert hang.gone.wait(PATIENCE_S)


def test_an_answer_that_never_ends_is_given_up() -> None:
    _, _, end, _ = ask(stream(*say.pieces(say.text("Pa")), Hang()), timeouts=replace(QUICK, total_s=0.05))
    assert "OpenAI did not finish within 0.05 s" in end.error


def test_a_server_that_is_not_there_is_told() -> None:
    with ScriptedServer(say.answer()) as server:
        spec = spec_at(server)
    _, waits, end = told(spec.make(call()).stream(prompt()))
    assert (end.finish, waits) == ("error", [])
    assert end.error.startswith("OpenAI could not be reached. Check the network and the base URL")


# --- stop ---


@pytest.mark.parametrize("place", ["before the first byte", "between two pieces", "while waiting to try again"])
def test_closing_the_stream_aborts_the_request(place: str) -> None:
    hang = Hang()
    replies = {
        "before the first byte": Reply(before=(hang,)),
        "between two pieces": stream(*say.pieces(say.text("Pa")), hang),
        "while waiting to try again": say.error(503),
    }
    with ScriptedServer(replies[place]) as server:
        if place == "while waiting to try again":
            forever = replace(call().policy, sleep=_never)
            seen = spec_at(server).make(replace(call(), policy=forever)).stream(prompt())
            assert next(e for e in seen if isinstance(e, Waiting) and e.text).text.endswith("2 of 4")
            seen.close()
            assert len(server.requests) == 1
        else:
            seen = spec_at(server).make(call()).stream(prompt())
            next(seen)
            while not hang.reached.is_set():
                next(seen)
            seen.close()
            assert hang.gone.wait(PATIENCE_S)


async def _never(_seconds: float) -> None:
    import asyncio

    await asyncio.Event().wait()


# --- keys ---


def test_a_missing_key_names_the_variable_and_the_fix(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    said = "GPT-4o needs a key for OpenAI: set OPENAI_API_KEY where Fusebox runs"
    with pytest.raises(GeneratorError, match=rf"{said}\.$"):
        LISTED["gpt-4o"].make()
    with pytest.raises(GeneratorError, match=f"{said}, or enter your own key on the page"):
        LISTED["gpt-4o"].make(Call(own_keys=True))


def test_two_keys_at_once_each_reach_the_server_with_their_own() -> None:
    """Both requests are in the server before either is answered."""
    gates = {"Bearer key-of-one": Gate(), "Bearer key-of-two": Gate()}

    def reply(request: Request) -> Reply:
        whose = request.headers["authorization"]
        whole = say.answer(f"for {whose[-3:]}")
        return Reply(200, whole.headers, whole.pieces, before=(gates[whose],))

    with ScriptedServer(reply) as server, ThreadPoolExecutor(2) as pool:
        answers = [
            pool.submit(
                lambda c: told(spec_at(server).make(call(credential=c)).stream(prompt()))[0], key(f"key-of-{who}")
            )
            for who in ("one", "two")
        ]
        for gate in gates.values():
            assert gate.reached.wait(PATIENCE_S)
        for gate in gates.values():
            gate.opened.set()
        assert [answer.result() for answer in answers] == ["for one", "for two"]


@pytest.mark.parametrize(
    "reply",
    [
        say.answer(),
        say.error(401, f"Incorrect API key provided: {KEY}."),
        say.error(400, f"bad header Authorization: Bearer {KEY} in request"),
        say.error(503, f"upstream said {KEY}"),
        stream(*events({"error": {"message": f"who is {KEY}?", "code": "x"}})),
        stream(b"data: {broken " + KEY.encode() + b"\n\n"),
        Reply(200, {"Content-Type": "text/html"}, (KEY.encode(),)),
        stream(*say.pieces(say.text("Pa")), cut=True),
    ],
)
def test_the_key_is_in_no_event_repr_or_log(reply: Reply, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with ScriptedServer(reply) as server:
        made_with = call()
        generator = spec_at(server).make(made_with)
        seen = list(generator.stream(prompt()))
        assert server.requests[0].headers["authorization"].endswith(KEY)
    shown = f"{seen!r} {generator!r} {made_with!r} {made_with} {vars(generator)!r}"
    assert KEY not in shown and KEY not in caplog.text
    with pytest.raises(TypeError):
        pickle.dumps(made_with.credential)


def test_partial_keys_that_providers_quote_are_taken_out_too() -> None:
    _, _, end, _ = ask(say.error(400, "The key sk-proj-abc***********wxyz is for another project"))
    assert "[key] is for another project" in end.error and "wxyz" not in end.error

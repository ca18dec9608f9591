"""Gemini's own protocol against servers that speak it, and against servers that get it wrong."""

from __future__ import annotations

import base64
import hashlib
import logging
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from rag.errors import GeneratorError
from rag.generators.registry import LISTED
from rag.generators.spec import Timeouts
from rag.types import Delta, Finish, Sent, Usage, Waiting
from tests.generators.helpers import KEY, QUICK, FakeTime, at, call, crop, key, picture, prompt, told, until_delta
from tests.generators.servers import gemini as say
from tests.generators.servers.base import PATIENCE_S, Gate, Hang, Reply, Request, ScriptedServer, events, stream

NAME = "gemini-3.1-flash-lite"


def ask(
    *replies: Reply, time: FakeTime | None = None, timeouts: Timeouts = QUICK
) -> tuple[str, list[str], Finish, list[Request]]:
    """What came of one question, and the requests it took."""
    with ScriptedServer(*replies) as server:
        text, waits, finish = told(at(NAME, server.url).make(call(time, timeouts=timeouts)).stream(prompt()))
        return text, waits, finish, server.requests


# --- what is sent ---


def test_request_is_native_with_the_instruction_apart_and_temperature_zero() -> None:
    *_, (request,) = ask(say.answer())
    assert request.path.endswith(f"/models/{NAME}:streamGenerateContent?alt=sse")
    assert request.headers["x-goog-api-key"] == KEY and "authorization" not in request.headers
    system, user = (message.content for message in prompt().messages)
    assert request.body["systemInstruction"]["parts"] == [{"text": system}]
    assert request.body["contents"] == [{"role": "user", "parts": [{"text": user}]}]
    assert request.body["generationConfig"] == {"temperature": 0, "maxOutputTokens": 2048}


def test_the_environment_can_turn_the_call_to_no_other_account(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_API_KEY", "operators-google-key")
    monkeypatch.setenv("GOOGLE_GENAI_USE_VERTEXAI", "true")
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "operators-project")
    monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", "http://127.0.0.1:1")
    text, _, _, (request,) = ask(say.answer())
    assert text == "Paris [T1]" and request.headers["x-goog-api-key"] == KEY and "operators" not in str(request)


def test_pixels_go_out_unchanged_at_their_place_and_their_digest_is_told() -> None:
    pixels = picture(300, 200, "WEBP")
    with ScriptedServer(say.answer()) as server:
        sent, *_ = at(NAME, server.url).make(call(image=pixels)).stream(prompt(image=crop(300, 200)))
    before, inline, after = server.requests[0].body["contents"][0]["parts"]
    assert before["text"].endswith("Caption: A map.\n\n") and after["text"] == "Question: Where?\n"
    # The package spells this field in one of the two ways that the API takes.
    assert "image/webp" in inline["inlineData"].values()
    assert base64.urlsafe_b64decode(inline["inlineData"]["data"]) == pixels
    assert isinstance(sent, Sent) and sent.images[0].sha256 == hashlib.sha256(pixels).hexdigest()


# --- what comes back ---


def test_thinking_is_counted_as_output_shown_apart_and_not_part_of_the_text() -> None:
    counts = say.usage(120, 8, 40)
    text, _, finish, _ = ask(
        stream(*events(say.text("Let me see.", thought=True), say.text("Paris [T1]"), say.end(counts=counts)))
    )
    assert text == "Paris [T1]"
    assert finish == Finish(Usage(120, 48, 40, "reported"), "stop", reason="STOP")


def test_first_piece_is_there_before_the_last_is_sent() -> None:
    gate = Gate()
    reply = stream(*events(say.text("Pa")), gate, *events(say.text("ris"), say.end(counts=say.usage(9, 2))))
    with ScriptedServer(reply) as server:
        seen = at(NAME, server.url).make(call()).stream(prompt())
        assert until_delta(seen) == Delta("Pa")
        assert not gate.opened.is_set()
        gate.opened.set()
        assert told(seen)[0] == "ris"


def test_slow_first_byte_gives_signs_of_life_and_then_the_answer() -> None:
    gate = Gate()
    whole = say.answer()
    with ScriptedServer(Reply(200, whole.headers, whole.pieces, before=(gate,))) as server:
        seen = at(NAME, server.url).make(call()).stream(prompt())
        assert isinstance(next(seen), Sent)
        assert next(seen) == Waiting("") and next(seen) == Waiting("")
        gate.opened.set()
        assert told(seen)[0] == "Paris [T1]"


def test_usage_in_every_chunk_counts_once_and_the_last_counts() -> None:
    chunks = [
        say.text("Pa") | {"usageMetadata": say.usage(50, 1)},
        say.text("ris", reason="STOP") | {"usageMetadata": say.usage(50, 2)},
    ]
    _, _, finish, _ = ask(stream(*events(*chunks)))
    assert finish.usage == Usage(50, 2, None, "reported")


def test_missing_usage_is_an_estimate_and_never_zero() -> None:
    _, _, finish, _ = ask(stream(*events(say.text("Paris is it"), say.end())))
    assert (finish.finish, finish.usage.source, finish.usage.output_tokens) == ("stop", "estimated", 3)
    assert finish.usage.input_tokens and finish.usage.input_tokens > 10


def test_counts_that_are_left_out_are_unknown() -> None:
    _, _, finish, _ = ask(say.answer(counts=say.usage(50, None)))
    assert finish.usage == Usage(50, None, None, "reported")


def test_characters_split_across_network_pieces_come_whole() -> None:
    line = b'data: {"candidates":[{"content":{"parts":[{"text":"' + "Ärzte 日本 😀".encode() + b'"}]}}]}\n\n'
    parts = [line[i : i + 1] for i in range(len(line))]
    text, _, finish, _ = ask(stream(*parts, *events(say.end(counts=say.usage(9, 2)))))
    assert (text, finish.finish) == ("Ärzte 日本 😀", "stop")


# --- how it ends ---


@pytest.mark.parametrize(
    ("reason", "content", "finish", "told_as"),
    [
        (
            "MAX_TOKENS",
            "Paris is",
            "length",
            "Google cut the answer off at the limit of 2048 tokens (MAX_TOKENS); it is partial.",
        ),
        ("MAX_TOKENS", "", "length", "before any answer came (MAX_TOKENS): 2,000 of them went into thinking."),
        ("SAFETY", "Paris is", "content_filter", "The content filter of Google ended the answer (SAFETY)"),
        ("SAFETY", "", "content_filter", "The content filter of Google withheld the answer (SAFETY)."),
        ("RECITATION", "", "content_filter", "withheld the answer (RECITATION)"),
        ("PROHIBITED_CONTENT", "", "content_filter", "withheld the answer (PROHIBITED_CONTENT)"),
    ],
)
def test_an_end_other_than_stop_is_told_as_what_it_is(reason: str, content: str, finish: str, told_as: str) -> None:
    chunks = [say.text(content)] if content else []
    text, _, end, _ = ask(stream(*events(*chunks, say.end(reason, say.usage(100, 48, 2000)))))
    assert (text, end.finish, end.reason, end.error) == (content, finish, reason, "")
    assert told_as in end.notice


def test_a_blocked_prompt_is_a_filters_doing() -> None:
    blocked = {"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": say.usage(100, None)}
    _, _, end, _ = ask(stream(*events(blocked)))
    assert (end.finish, end.notice) == ("content_filter", "The content filter of Google withheld the answer (SAFETY).")


@pytest.mark.parametrize(
    ("chunks", "told_as"),
    [
        ([say.end("STOP")], "Google gave an empty answer (STOP)"),
        ([say.text("Hm.", thought=True), say.end("STOP")], "Google gave an empty answer (STOP)"),
        ([say.text("Paris"), say.end("MALFORMED_FUNCTION_CALL")], "for a reason of its own (MALFORMED_FUNCTION_CALL)"),
        ([say.text("Paris"), say.end("SOMETHING_NEW")], "for a reason of its own (SOMETHING_NEW)"),
        ([say.text("Paris is the")], "Google broke off in the middle of the answer"),
        ([], "Google ended the answer before it began"),
    ],
)
@pytest.mark.filterwarnings("ignore:SOMETHING_NEW is not a valid FinishReason")
def test_empty_answers_and_odd_ends_are_errors(chunks: list, told_as: str) -> None:
    _, _, end, _ = ask(stream(*events(*chunks)))
    assert end.finish == "error" and told_as in end.error


def test_a_stream_cut_in_the_middle_leaves_a_partial_answer_and_is_not_asked_again() -> None:
    text, waits, end, requests = ask(stream(*events(say.text("Paris is the")), cut=True), say.answer())
    assert (text, waits, len(requests)) == ("Paris is the", [], 1)
    assert end.finish == "error" and end.error.startswith("Google broke the connection off.")
    assert end.usage.source == "estimated" and end.usage.output_tokens == 3


@pytest.mark.parametrize(
    "junk",
    [
        b"data: {broken\n\n",
        b"data: 5\n\n",
        b'data: {"candidates": 5}\n\n',
        b'data: {"candidates": [{"content": {"parts": [{"text": {"a": 1}}]}}]}\n\n',
        b'data: {"candidates": [{"content": "x"}]}\n\n',
        b'data: {"candidates": [], "usageMetadata": [1]}\n\n',
        b"data: \xff\xfe\n\n",
    ],
)
def test_junk_instead_of_chunks_is_told_as_such(junk: bytes) -> None:
    text, _, end, requests = ask(stream(*events(say.text("Pa")), junk, *events(say.text("ris"), say.end())))
    assert end.finish == "error", (text, end)
    assert "Google sent something that is not of its protocol" in end.error
    assert (text, len(requests)) == ("Pa", 1)


def test_empty_events_are_passed_over() -> None:
    text, _, end, _ = ask(stream(b"data: null\n\n", *events(say.text("Pa"), {}, say.text("ris"), say.end())))
    assert (text, end.finish) == ("Paris", "stop")


@pytest.mark.parametrize(
    ("content_type", "body"),
    [("application/json", b'{"candidates":[]}'), ("text/html", b"<h1>Welcome</h1>")],
)
def test_an_answer_that_is_no_stream_is_an_error(content_type: str, body: bytes) -> None:
    _, _, end, _ = ask(Reply(200, {"Content-Type": content_type}, (body,)))
    assert end.finish == "error" and end.error.startswith("Google ")


# --- refusals and retries ---

BAD_KEY = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"}


@pytest.mark.parametrize(
    ("reply", "cause", "remedy"),
    [
        (
            say.error(400, "bad image", "INVALID_ARGUMENT"),
            "refused the request (400): bad image",
            "Change the question",
        ),
        (
            say.error(400, "API key not valid.", details=[BAD_KEY]),
            "refused the key (401)",
            "Check the key that you entered",
        ),
        (say.error(401), "refused the key (401)", "Check the key that you entered"),
        (
            say.error(403, status="PERMISSION_DENIED"),
            f"does not allow this key to use the model {NAME} (403)",
            "Use a key that may",
        ),
        (
            say.error(404, "no such model"),
            f"does not know the model {NAME} at this address (404)",
            "Check the model's name",
        ),
        (say.error(307, location="http://127.0.0.1:1/"), "refused the request (307)", "Ask again"),
    ],
)
def test_refusals_are_not_retried_and_name_provider_cause_and_remedy(reply: Reply, cause: str, remedy: str) -> None:
    _, waits, end, requests = ask(reply, say.answer())
    assert (len(requests), waits, end.finish, end.refused) == (1, [], "error", True)
    assert end.error.startswith(f"Google {cause}") and remedy in end.error


@pytest.mark.parametrize("status", [429, 500, 503])
def test_busy_and_failing_servers_are_asked_again_with_growing_waits(status: int) -> None:
    time = FakeTime()
    text, waits, end, requests = ask(say.error(status), say.error(status), say.answer(), time=time)
    assert (text, end.finish, len(requests)) == ("Paris [T1]", "stop", 3)
    assert waits == [f"waiting for the provider ({status}), {n} of 4" for n in (2, 3)]
    assert time.slept == [1.0, 2.0]


def test_four_tries_are_all() -> None:
    _, waits, end, requests = ask(say.error(503))
    assert (len(requests), len(waits)) == (4, 3)
    assert end.error == "Google failed (503), 4 times. Ask again in a while, or choose another generator."


def test_retry_after_and_retry_info_are_kept_to() -> None:
    time = FakeTime()
    info = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "3.5s"}
    ask(say.error(429, retry_after="7"), say.error(429, details=[info]), say.answer(), time=time)
    assert time.slept == [7.0, 3.5]


def test_a_wait_beyond_thirty_seconds_is_not_begun() -> None:
    info = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "45s"}
    _, waits, end, requests = ask(say.error(429, details=[info]))
    assert (waits, len(requests)) == ([], 1)
    assert "Google is limiting requests (429); it asks to wait 45 s" in end.error


def test_an_error_inside_the_stream_is_retried_before_text_and_not_after() -> None:
    overloaded = {"error": {"code": 503, "message": "busy", "status": "UNAVAILABLE"}}
    text, waits, end, requests = ask(stream(*events(overloaded)), say.answer())
    assert (text, len(waits), len(requests), end.finish) == ("Paris [T1]", 1, 2, "stop")
    text, waits, end, requests = ask(stream(*events(say.text("Pa"), overloaded)), say.answer())
    assert (text, waits, len(requests), end.finish) == ("Pa", [], 1, "error")
    assert "Google failed (503)" in end.error and end.refused is False


# --- time-outs, connections, stop ---


def test_silence_before_the_first_byte_times_out() -> None:
    hang = Hang()
    _, _, end, _ = ask(Reply(before=(hang,)), timeouts=replace(QUICK, read_s=0.05))
    assert end.error == "Google sent nothing for 0.05 s. Ask again, or choose another generator."
    assert hang.gone.wait(PATIENCE_S)


def test_silence_between_two_pieces_times_out_and_keeps_the_text() -> None:
    hang = Hang()
    text, _, end, _ = ask(stream(*events(say.text("Pa")), hang), timeouts=replace(QUICK, read_s=1.5))
    assert (text, end.finish) == ("Pa", "error")
    assert "Google sent nothing for 1.5 s" in end.error
    assert hang.gone.wait(PATIENCE_S)


def test_a_server_that_is_not_there_is_told() -> None:
    with ScriptedServer(say.answer()) as server:
        spec = at(NAME, server.url)
    _, waits, end = told(spec.make(call()).stream(prompt()))
    assert (end.finish, waits) == ("error", [])
    assert end.error.startswith("Google could not be reached. Check the network")


@pytest.mark.parametrize("place", ["before the first byte", "between two pieces"])
def test_closing_the_stream_aborts_the_request(place: str) -> None:
    hang = Hang()
    first = place == "before the first byte"
    with ScriptedServer(Reply(before=(hang,)) if first else stream(*events(say.text("Pa")), hang)) as server:
        seen = at(NAME, server.url).make(call()).stream(prompt())
        next(seen)
        while not hang.reached.is_set():
            next(seen)
        seen.close()
        assert hang.gone.wait(PATIENCE_S)


# --- keys ---


def test_a_missing_key_names_the_variable_and_the_fix(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GEMINI_API_KEY", raising=False)
    with pytest.raises(GeneratorError, match=r"needs a key for Google: set GEMINI_API_KEY where Fusebox runs\.$"):
        LISTED[NAME].make()


def test_two_keys_at_once_each_reach_the_server_with_their_own() -> None:
    gates = {"key-of-one": Gate(), "key-of-two": Gate()}

    def reply(request: Request) -> Reply:
        whose = request.headers["x-goog-api-key"]
        whole = say.answer(f"for {whose[-3:]}")
        return Reply(200, whole.headers, whole.pieces, before=(gates[whose],))

    with ScriptedServer(reply) as server, ThreadPoolExecutor(2) as pool:
        answers = [
            pool.submit(lambda c: told(at(NAME, server.url).make(call(credential=c)).stream(prompt()))[0], key(name))
            for name in gates
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
        say.error(400, f"API key {KEY} not valid"),
        say.error(503, f"upstream said {KEY}"),
        stream(*events({"error": {"message": f"who is {KEY}?", "code": 400}})),
        stream(b"data: {broken " + KEY.encode() + b"\n\n"),
        Reply(200, {"Content-Type": "text/html"}, (KEY.encode(),)),
        stream(*events(say.text("Pa")), cut=True),
    ],
)
def test_the_key_is_in_no_event_repr_or_log(reply: Reply, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with ScriptedServer(reply) as server:
        made_with = call()
        generator = at(NAME, server.url).make(made_with)
        seen = list(generator.stream(prompt()))
        assert server.requests[0].headers["x-goog-api-key"] == KEY
    shown = f"{seen!r} {generator!r} {made_with!r} {vars(generator)!r}"
    assert KEY not in shown and KEY not in caplog.text

"""What fails for a while goes out again; what does not is raised at once, without secrets."""

from __future__ import annotations

import asyncio
import json
import socket
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest

from tests.models.support import ALL, ANTHROPIC, KEY, OPENAI, Bench, Case, Sink, bench
from toolnexus.core.messages import user
from toolnexus.core.model import ModelRequest, ModelResponse
from toolnexus.errors import ConfigError, ModelConnectionError, ModelError, ModelHTTPError
from toolnexus.models.openai import OpenAIModel
from toolnexus.models.retry import RetryPolicy, with_retries
from toolnexus.models.wire import http_error, retry_after
from toolnexus.runtime.redact import Redactor
from toolnexus.testing import ScriptedEndpoint, Turn

pytestmark = pytest.mark.anyio

every_case = pytest.mark.parametrize("case", ALL, ids=str)
BOTH = [Case(OPENAI, "http", True), Case(ANTHROPIC, "http", True)]


def failure(status: int, message: str = "busy", code: str = "", **headers: str) -> Turn:
    body = {"error": {"message": message, **({"code": code} if code else {})}}
    return Turn(
        status=status, body=json.dumps(body), headers={k.replace("_", "-"): v for k, v in headers.items()}
    )


@every_case
@pytest.mark.parametrize("status", [408, 409, 429, 500, 503, 529])
async def test_passing_failures_are_tried_again(case: Case, status: int) -> None:
    """[WIRE-21] 408, 409, 429, every 5xx and 529 go out again, up to `retries` times."""
    async with bench(case, [failure(status), failure(status), Turn(text="at last")]) as b:
        assert (await b.ask()).message.text == "at last"
        assert len(b.bodies) == 3
        assert b.bodies[0] == b.bodies[1] == b.bodies[2]
        if case.streamed:
            assert [r["attempt"] for r in b.sink.retries] == [1, 2]
            assert not any(r["restarted"] for r in b.sink.retries)
            assert f"HTTP {status}: busy" in b.sink.retries[0]["reason"]


@every_case
@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
async def test_lasting_failures_are_raised_at_once(case: Case, status: int) -> None:
    """[WIRE-21] Every other 4xx is raised without another attempt."""
    async with bench(case, [failure(status, "no way")]) as b:
        with pytest.raises(ModelHTTPError, match="no way") as caught:
            await b.ask()
        assert (caught.value.status, caught.value.retryable) == (status, False)
        assert len(b.bodies) == 1


@every_case
async def test_the_last_failure_is_raised_when_retries_run_out(case: Case) -> None:
    """[WIRE-21] After the retries the last error is raised; it says that the request may succeed later."""
    async with bench(case, [failure(503, "down")] * 3) as b:
        with pytest.raises(ModelHTTPError) as caught:
            await b.ask()
        assert (caught.value.status, caught.value.retryable) == (503, True)
        assert len(b.bodies) == 3


@every_case
@pytest.mark.parametrize("code", ["insufficient_quota", "billing_hard_limit_reached"])
async def test_a_used_up_quota_is_not_tried_again(case: Case, code: str) -> None:
    """[WIRE-22] A quota that is used up does not come back within a request."""
    async with bench(case, [failure(429, "You exceeded your quota", code)]) as b:
        with pytest.raises(ModelHTTPError, match=code) as caught:
            await b.ask()
        assert not caught.value.retryable
        assert len(b.bodies) == 1


@every_case
async def test_the_servers_wait_is_kept(case: Case) -> None:
    """[WIRE-23] A `Retry-After` within the cap is waited for, in milliseconds or seconds."""
    script = [failure(429, retry_after_ms="30"), failure(429, retry_after="0.03"), Turn(text="ok")]
    async with bench(case, script) as b:
        assert (await b.ask()).message.text == "ok"
        times = [seen.time for seen in b.endpoint.requests]
        assert times[1] - times[0] >= 0.03
        assert times[2] - times[1] >= 0.03
        if case.streamed:
            assert all(0.03 <= r["delay"] < 0.05 for r in b.sink.retries)


@every_case
async def test_a_wait_beyond_the_cap_is_an_error_at_once(case: Case) -> None:
    """[WIRE-23] A longer wait than the cap is raised with the hint in its text and `retry_after`."""
    async with bench(case, [failure(429, "slow down", retry_after="3600")]) as b:
        with pytest.raises(ModelHTTPError, match="3600 s") as caught:
            await b.ask()
        assert caught.value.retry_after == 3600
        assert caught.value.retryable
        assert len(b.bodies) == 1


IMPOSSIBLE = ("Mon, 01 Jan 99999999999999999999 00:00:00 GMT", "Mon, 01 Jan 2024 00:00:00 +99999999999999")


@pytest.mark.parametrize("date", IMPOSSIBLE)
async def test_a_wait_until_an_impossible_date_is_no_hint(date: str) -> None:
    """[WIRE-23] A `Retry-After` that no calendar has leaves the request to its usual retries."""
    async with bench(Case(OPENAI), [failure(429, retry_after=date), Turn(text="ok")]) as b:
        assert (await b.ask()).message.text == "ok"


@pytest.mark.parametrize("style", [OPENAI, ANTHROPIC])
@pytest.mark.parametrize(("status", "advice"), [(401, "api_key="), (403, "api_key="), (404, "base_url")])
async def test_what_a_user_can_mend_comes_with_advice(style: str, status: int, advice: str) -> None:
    """[WIRE-44] A refused login points to the key, an unknown path or model to name and address."""
    async with bench(Case(style), [failure(status, "no")]) as b:
        with pytest.raises(ModelHTTPError, match=f"HTTP {status}: no; check the .*{advice}"):
            await b.ask()


@pytest.mark.parametrize(
    ("host", "variable"), [("api.groq.com", "GROQ_API_KEY"), ("api.openai.com:443", "OPENAI_API_KEY")]
)
def test_a_refused_key_of_a_known_host_names_its_variable(host: str, variable: str) -> None:
    """[WIRE-44] Where the key of a host comes from a variable, the error names it."""
    assert f"the variable {variable}" in str(http_error(host, 401, {}, b"{}", Redactor()))


async def test_a_refused_connection_names_the_host_once(unused_port: int) -> None:
    """[WIRE-44] Nobody listens: the error says where and why, each once."""
    host = f"127.0.0.1:{unused_port}"
    model = OpenAIModel("m", base_url=f"http://{host}/v1", retries=0)
    with pytest.raises(ModelConnectionError) as caught:
        await model.generate(ModelRequest(messages=(user("x"),)))
    await model.aclose()
    assert str(caught.value) == f"model 'm': {host}: cannot connect: Connection refused"
    assert caught.value.retryable


@pytest.fixture
def unused_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def test_waits_are_read_in_every_form() -> None:
    """[WIRE-23] Milliseconds, seconds and HTTP dates are understood; nonsense is no hint."""
    soon = datetime.now(UTC) + timedelta(seconds=100)
    dated = retry_after({"retry-after": format_datetime(soon, usegmt=True)})
    assert dated is not None and 95 < dated <= 100
    assert retry_after({"retry-after-ms": "1500", "retry-after": "9"}) == 1.5
    assert retry_after({"retry-after-ms": "soon", "retry-after": "9"}) == 9
    assert retry_after({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}) == 0
    assert retry_after({"retry-after": "-3"}) == 0
    assert retry_after({"retry-after": "later"}) is None
    for date in IMPOSSIBLE:
        assert retry_after({"retry-after": date}) is None
    assert retry_after({}) is None


def test_delays_grow_and_spread() -> None:
    """[WIRE-21] Delays double up to a ceiling, with jitter on top; a hint is never undercut."""
    policy = RetryPolicy(base=1.0)
    for attempt, base in ((1, 1), (2, 2), (3, 4), (4, 8), (9, 8)):
        delays = [policy.delay(attempt, None) for _ in range(50)]
        assert base <= min(delays) < max(delays) <= base * 1.25
    assert min([policy.delay(1, 7.0) for _ in range(50)]) >= 7


@pytest.mark.parametrize("options", [{"retries": -1}, {"base": -0.1}, {"cap": -1.0}])
def test_a_negative_policy_is_refused(options: dict[str, Any]) -> None:
    """[WIRE-21] A retry policy has no negative values."""
    with pytest.raises(ConfigError, match=next(iter(options))):
        RetryPolicy(**options)


@pytest.mark.parametrize("case", BOTH, ids=str)
async def test_no_retries_means_one_attempt(case: Case) -> None:
    """[WIRE-21] `retries=0` raises the first failure."""
    async with bench(case, [failure(503)], retries=0) as b:
        with pytest.raises(ModelHTTPError):
            await b.ask()
        assert len(b.bodies) == 1


async def test_a_wait_between_attempts_can_be_cancelled() -> None:
    """[WIRE-24] Cancelling during the wait ends the request at once."""
    policy = RetryPolicy(retries=1, base=600.0)
    async with bench(BOTH[0], [failure(503)], retries=policy) as b:
        waiting = asyncio.Event()

        class Waiting(Sink):
            def retrying(self, *, attempt: int, delay: float, reason: str, restarted: bool) -> None:
                waiting.set()

        task = asyncio.create_task(b.model.generate(ModelRequest(messages=(user("x"),), sink=Waiting())))
        await waiting.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert len(b.bodies) == 1


@every_case
async def test_an_unreachable_endpoint_is_a_connection_error(case: Case) -> None:
    """[WIRE-21] Nobody listening is tried again, then a `ModelConnectionError` that names the host."""
    async with ScriptedEndpoint([]) as endpoint:
        url = endpoint.url
    model = case.model(url)
    sink = Sink()
    try:
        with pytest.raises(ModelConnectionError, match=r"'m'.*127\.0\.0\.1"):
            await model.generate(ModelRequest(messages=(user("x"),), sink=sink if case.streamed else None))
    finally:
        await model.aclose()
    assert len(sink.retries) == (2 if case.streamed else 0)


@every_case
async def test_a_connection_closed_without_an_answer_is_tried_again(case: Case) -> None:
    """[WIRE-21] A connection that breaks before an answer goes out again."""
    async with bench(case, [Turn(text="lost", drop_after=0), Turn(text="ok")]) as b:
        assert (await b.ask()).message.text == "ok"
        assert len(b.bodies) == 2


@every_case
async def test_error_texts_name_the_endpoint_and_hide_every_secret(case: Case) -> None:
    """[WIRE-25] An error names model, host and status; key and header values are masked in it."""
    leak = f"bad key {KEY}, header tenant-secret-42, body " + "x" * 5000
    body = json.dumps({"error": {"message": leak, "type": "authentication_error"}})
    headers = {"x-tenant": "tenant-secret-42"}
    async with bench(case, [Turn(status=401, body=body)], headers=headers) as b:
        with pytest.raises(ModelHTTPError) as caught:
            await b.ask()
        text = str(caught.value)
        assert "'m'" in text and b.model.host in text and "HTTP 401 (authentication_error)" in text
        assert "bad key [redacted], header [redacted]" in text
        assert KEY not in text and "tenant-secret" not in text
        assert len(text) < 700
        assert KEY not in repr(b.model)
        assert {KEY, "tenant-secret-42"} <= set(b.model.secrets)


async def test_a_secret_at_the_end_of_the_excerpt_is_masked_whole() -> None:
    """[WIRE-25] A secret that the excerpt would cut in two is masked before the cut."""
    body = json.dumps({"error": {"message": "x" * 490 + KEY}})
    async with bench(Case(OPENAI), [Turn(status=401, body=body)]) as b:
        with pytest.raises(ModelHTTPError) as caught:
            await b.ask()
        assert KEY[:8] not in str(caught.value)


@every_case
async def test_a_body_that_is_no_json_is_shown_short_and_masked(case: Case) -> None:
    """[WIRE-25] Also the excerpt of a page that is no JSON hides secrets."""
    async with bench(case, [Turn(status=403, body=f"<html>{KEY}</html>" + "y" * 9000)]) as b:
        with pytest.raises(ModelHTTPError, match=r"<html>\[redacted\]") as caught:
            await b.ask()
        assert len(str(caught.value)) < 700


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        ('{"error": "plain text"}', "plain text"),
        ('{"message": "top level"}', "top level"),
        ('{"detail": [{"loc": ["body"]}]}', "loc"),
        ('[{"error": {"message": "in a list", "status": "INVALID_ARGUMENT"}}]', "in a list"),
        ("", "no message"),
    ],
)
async def test_error_bodies_of_other_servers_are_read(body: str, shown: str) -> None:
    """[WIRE-25] The message is found where different servers put it."""
    async with bench(Case(OPENAI), [Turn(status=400, body=body)]) as b:
        with pytest.raises(ModelHTTPError, match=shown):
            await b.ask()


@pytest.mark.parametrize("wire", ["http", "sdk"])
@pytest.mark.parametrize("style", [OPENAI, ANTHROPIC])
async def test_a_redirect_is_not_followed(style: str, wire: str) -> None:
    """[WIRE-26] A key never reaches another host: a redirect is an error that says what to do."""
    async with ScriptedEndpoint([Turn(text="caught you")]) as other:
        away = Turn(status=307, body="{}", headers={"location": other.url + "/chat/completions"})
        async with bench(Case(style, wire), [away]) as b:
            with pytest.raises(ModelHTTPError, match="redirect") as caught:
                await b.ask()
            assert caught.value.status == 307
        assert other.requests == []


async def test_the_policy_itself_gives_the_first_good_reply() -> None:
    """[WIRE-21] Only errors that may pass are tried again."""
    seen: list[int] = []

    async def attempt() -> ModelResponse:
        seen.append(1)
        raise ModelError("for good")

    with pytest.raises(ModelError, match="for good"):
        await with_retries(RetryPolicy(retries=5), attempt, ModelRequest(messages=()))
    assert seen == [1]


async def test_each_style_sends_its_own_login() -> None:
    """[WIRE-26] A bearer key for the OpenAI style, `x-api-key` and a version for Anthropic's."""
    async with bench(Case(OPENAI), [Turn(text="ok")]) as b:
        await b.ask()
        headers = b.endpoint.requests[0].headers
        assert headers["authorization"] == f"Bearer {KEY}"
        assert b.endpoint.requests[0].path == "/v1/chat/completions"
    async with bench(Case(ANTHROPIC), [Turn(text="ok")]) as b:
        await b.ask()
        headers = b.endpoint.requests[0].headers
        assert (headers["x-api-key"], headers["anthropic-version"]) == (KEY, "2023-06-01")
        assert "authorization" not in headers
        assert b.endpoint.requests[0].path == "/v1/messages"


async def test_a_base_url_without_v1_gets_the_whole_path() -> None:
    """[WIRE-26] `/v1/messages` is added to an address that does not end in `/v1`; a query stays."""
    async with ScriptedEndpoint([Turn(text="ok")] * 2) as endpoint:
        root = endpoint.url.removesuffix("/v1")
        for url in (root, root + "/proxy/?api-version=3"):
            model = Case(ANTHROPIC).model(url)
            await Bench(endpoint, model, streamed=False).ask()
            await model.aclose()
        assert [seen.path for seen in endpoint.requests] == ["/v1/messages", "/proxy/v1/messages"]


async def test_users_headers_go_along_and_replace_ours() -> None:
    """[WIRE-26] Given headers are sent with every request, in place of a standard one."""
    given = {"Authorization": "Token abcdefg", "X-Team": "blue-team"}
    async with bench(Case(OPENAI), [Turn(text="ok")], headers=given) as b:
        await b.ask()
        headers = b.endpoint.requests[0].headers
        assert (headers["authorization"], headers["x-team"]) == ("Token abcdefg", "blue-team")


@pytest.mark.parametrize("wire", ["http", "sdk"])
@pytest.mark.parametrize("style", [OPENAI, ANTHROPIC])
async def test_a_local_server_gets_no_key(style: str, wire: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """[WIRE-26] Keys in variables are for their hosts: any other host gets none unless it is given."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-must-not-leave-1")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-must-not-leave-2")
    async with bench(Case(style, wire), [Turn(text="ok")], api_key=None) as b:
        await b.ask()
        text = str(b.endpoint.requests[0].headers)
        assert "must-not-leave" not in text
        assert not {"authorization", "x-api-key"} & b.endpoint.requests[0].headers.keys()


def test_a_header_with_a_line_break_is_refused() -> None:
    """[WIRE-26] A header value is one line; the error does not show the value."""
    with pytest.raises(ConfigError) as caught:
        OpenAIModel("m", base_url="http://127.0.0.1:1", headers={"x-a": "secret\r\nx-b: 1"})
    assert "x-a" in str(caught.value) and "secret" not in str(caught.value)

"""The page for users, made of the table. `python -m tests.faults.page` writes it."""

from __future__ import annotations

from pathlib import Path

from tests.faults.matrix import table
from tests.faults.table import FAULTS, Fault

PAGE = Path(__file__).parents[2] / "docs" / "faults.md"

HEAD = """\
# When a provider fails

What an endpoint does wrong, every time it is asked, and what a run then gives. Each row is a test, in both
styles, streamed or not, at the root and in a sub-agent (`tests/faults/`); this page is made of the same
table.

At the root an error is raised: `except ModelError as error`, with the work so far in `error.result`. A
sub-agent's error is the result of its `task` call (`agent 'x' failed: …`, `is_error`), and its caller goes
on. `incomplete` is a result, with its text; a caller reads the text and `[incomplete: connection]`, or that
the deadline passed. No fault ends a run `done` without a word, none hangs, no key or header value is in any
text, and the conversation can go on behind each of them.

A request is sent up to three times (`retries=2` of a model): after 408, 409, 429, any 5xx, and when the
connection fails. Waits grow from half a second; a `Retry-After` is kept, and one above 60 s ends the
request at once with `error.retry_after` (`retries=RetryPolicy(retries, base, cap)` sets all three).
`error.retryable` says whether the same request may succeed later. Retries are `Retrying` events;
`restarted` says that the text before is void.

| the endpoint | a run, not streamed | a run, streamed |
|---|---|---|
"""

TAIL = """
A reply that is cut after text was streamed cannot be taken back, so its text is kept and the run is
`incomplete`; a call that was cut never runs. Without a reader nothing was shown, so the error is all there
is.

## Faults elsewhere

What a user gets when something else goes wrong. The marks are requirements of `spec/`; each has a test that
names it.

"""


def page() -> str:
    return HEAD + "".join([_row(fault) for fault in FAULTS]) + TAIL + table()


def _row(fault: Fault) -> str:
    whole, streamed = (fault.outcome(streamed).words for streamed in (False, True))
    if fault.only_streams:
        whole = "-"
    return f"| {fault.what} | {whole} | {'the same' if streamed == whole else streamed} |\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")

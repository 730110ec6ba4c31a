"""What fails where, and what a user gets: the second table of the page. Each cell names who shows it."""

from __future__ import annotations

HOW = ("fails", "never ends", "answers nonsense", "is gone in the middle", "is too much", "is cancelled")
"""What goes wrong, by column."""

WHERE: dict[str, tuple[str, str, str, str, str, str]] = {
    "a model": (
        "the error of its kind after retries; for a caller an error result (FLT-01, FLT-02)",
        "given up after a silence or at the run's deadline: `incomplete`, limit `seconds` (FLT-01, RUN-05)",
        "`ModelResponseError` (RUN-35)",
        "asked again; text that was shown is kept, a cut call never runs (RUN-31, RUN-33)",
        "`ModelContextError`, or notes in place of old messages; then limit `context` (CMP-21)",
        "its connection is closed, what was done is kept (RUN-60, CONV-04)",
    ),
    "a tool": (
        "an error result; the loop goes on (ODD-02)",
        "given up at the deadline, at a cancel and at a close, also when it swallows cancels (ODD-01)",
        "one result, whatever it returns (ODD-02)",
        "a cancel that it makes up is a failure, no cancel (ODD-05)",
        "head, tail and the place of the whole (RUN-40, BT-73)",
        "its call is answered, processes of `bash` are killed (RUN-66, BT-82)",
    ),
    "an MCP server": (
        "left out with a reason; a call is an error result (MCP-06, MCP-14)",
        "a call ends with its timeout (MCP-15)",
        "its call fails at once; noise is skipped (MCP-29, MCP-07)",
        "calls fail at once; it is started again, its session renewed once (MCP-18, MCP-20, MCP-21)",
        "pages, floods and large parts are read whole (MCP-07, MCP-08, MCP-13)",
        "the server is told and stays (MCP-16)",
    ),
    "a remote agent": (
        "an error result with task, state and detail (A2A-07)",
        "silence ends a request, never a task at work; a deadline cancels the task (A2A-34, A2A-30)",
        "an error (A2A-33)",
        "the task is asked, with growing pauses: nothing is lost or doubled (A2A-31, A2A-32)",
        "an error (A2A-33)",
        "its task is cancelled (A2A-30)",
    ),
    "a store": (
        "`StoreError` with the result of the run (CONV-09, ST-26, ST-52)",
        "a lock is waited for 30 s beside the loop (ST-29)",
        "torn records are set aside, the rest loads; a foreign file is not changed (ST-24, ST-25, ST-51)",
        "a lost connection is made anew; a write whose answer was lost happens once (ST-52, ST-53)",
        "what is no JSON is refused whole (ST-28)",
        "a write is whole or never happens (ST-30, ST-58)",
    ),
    "a hook": (
        "around a tool an error result, around a model the error of the run (EV-08, ROB-08)",
        "given up at the deadline: `incomplete`, limit `seconds` (ROB-08)",
        "an error that names it (ODD-03, ROB-08)",
        "a cancel that it makes up refuses the call (ODD-03)",
        "-",
        "every call is answered (ROB-08)",
    ),
    "who answers questions": (
        "an error result; the tool does not run (ASK-04)",
        "its time does not count; a cancel ends it (ASK-06, RUN-66)",
        "an error result (ASK-04)",
        "the run waits in its snapshot or conversation and goes on anywhere (RES-07, RES-50)",
        "-",
        "what was done is kept; the same answers may come again (RES-51)",
    ),
    "who reads events": (
        "the run is cancelled, the reader's own error is raised (ROB-08)",
        "nothing is lost, deltas arrive joined, the run does not wait (EV-05)",
        "-",
        "the run is cancelled, the result says what was done (EV-03, RUN-67)",
        "deltas arrive joined (EV-05)",
        "the run is cancelled with everything below (RUN-66)",
    ),
    "the process": (
        "kill -9: what is stored is whole, the run goes on elsewhere, once (ST-41, RES-07, RES-50)",
        "another process takes the run over, the first stops at its next step (RES-24)",
        "a torn state is refused before anything runs and can be given up (RES-11, RES-27)",
        "no MCP server and no child in its group survives (MCP-11)",
        "eight on one store lose and tear no turn (ST-40, PERF-07)",
        "closing ends everything in bounded time (MCP-10, BT-92)",
    ),
}


def table() -> str:
    """The matrix as Markdown."""
    lines = [f"| | {' | '.join(HOW)} |", "|---" * (len(HOW) + 1) + "|"]
    lines += [f"| **{where}** | {' | '.join(cells)} |" for where, cells in WHERE.items()]
    return "\n".join(lines) + "\n"

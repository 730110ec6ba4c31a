"""Exit codes, and the errors that become one."""

from __future__ import annotations

DONE, ERROR, USAGE, INCOMPLETE, PENDING = 0, 1, 2, 3, 4
INTERRUPTED = 130

OF_STATUS = {"done": DONE, "error": ERROR, "incomplete": INCOMPLETE, "pending": PENDING}

TABLE = (
    f"exit codes: {DONE} done, {ERROR} error, {USAGE} usage, {INCOMPLETE} incomplete (a limit), "
    f"{PENDING} pending (an open question), {INTERRUPTED} interrupted"
)


class UsageError(Exception):
    """What was asked for cannot be done as it was put. The text is for the user, whole."""

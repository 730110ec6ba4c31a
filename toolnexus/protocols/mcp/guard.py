"""A watchman process that outlives us: it kills what we started when we die without a word.

Not the parent-death signal of Linux: that one reaches only the direct child, and it fires when the
*thread* that forked ends. A pipe whose other end closes with our process has neither fault, and
works on every POSIX system.
"""

from __future__ import annotations

import logging
import os
import subprocess
import threading
from collections.abc import Generator
from contextlib import contextmanager

logger = logging.getLogger("toolnexus.mcp")

# `+ N` and `- N` on stdin keep the list of process groups; end of file means that we are gone.
_SCRIPT = """
trap '' INT TERM HUP
left=' '
while read -r what group; do
  case $what in
    +) left="$left$group " ;;
    -) left="${left%% $group *} ${left#* $group }" ;;
  esac
done
[ "$left" = ' ' ] && exit
for group in $left; do kill -s TERM -- "-$group"; done
sleep 1
for group in $left; do kill -s KILL -- "-$group"; done
"""


class Guard:
    """Knows the process groups that must not outlive us. One small shell, only while there are any."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._groups: set[int] = set()
        self._shell: subprocess.Popen[bytes] | None = None

    @contextmanager
    def ready(self) -> Generator[None]:
        """The watchman stands ready inside, so that `add` costs one write."""
        with self._lock:
            if self._shell is None:
                self._start()
        try:
            yield
        finally:
            with self._lock:
                if not self._groups:
                    self._end()

    def add(self, group: int) -> None:
        """Watch a process group from now on."""
        with self._lock:
            self._groups.add(group)
            self._tell(f"+ {group}\n")

    def drop(self, group: int) -> None:
        """Forget a process group that has ended. With the last one the watchman ends too."""
        with self._lock:
            if group not in self._groups:
                return
            self._groups.discard(group)
            self._write(f"- {group}\n")
            if not self._groups:
                self._end()

    def forget(self) -> None:
        """In a forked child: none of this is ours, and our copy of the pipe must not keep it open."""
        self._lock = threading.Lock()
        self._groups.clear()
        if self._shell is not None and self._shell.stdin is not None:
            self._shell.stdin.close()
            self._shell.returncode = 0  # not our child: nothing to wait for
        self._shell = None

    def _start(self) -> None:
        try:
            self._shell = subprocess.Popen(
                ["/bin/sh", "-c", _SCRIPT],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                bufsize=0,
                cwd="/",
                env={"PATH": os.defpath},
                start_new_session=True,
            )
        except OSError as error:
            logger.warning(
                "no watchman (%s): if this process is killed, servers live until they read end of file", error
            )

    def _tell(self, line: str) -> None:
        if not self._write(line):  # there is none yet, or somebody killed it
            self._end()
            self._start()
            self._write("".join([f"+ {group}\n" for group in self._groups]))

    def _write(self, line: str) -> bool:
        """Whether the watchman can have read it."""
        if self._shell is None or self._shell.stdin is None or self._shell.poll() is not None:
            return False
        try:
            self._shell.stdin.write(line.encode())
        except BrokenPipeError:
            return False
        return True

    def _end(self) -> None:
        shell, self._shell = self._shell, None
        if shell is None:
            return
        if shell.stdin is not None:
            shell.stdin.close()
        try:
            shell.wait(timeout=1)
        except subprocess.TimeoutExpired:
            shell.kill()
            shell.wait()


GUARD = Guard()

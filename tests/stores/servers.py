"""Servers for tests: a PostgreSQL and a Redis on loopback, in folders that are gone afterwards."""

from __future__ import annotations

import os
import random
import secrets
import shlex
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from glob import glob
from pathlib import Path
from typing import Any

PASSWORD = "sEcret/" + secrets.token_hex(6)
"""With a character that is special in a URL."""
ESCAPED = PASSWORD.replace("/", "%2F")


def postgres_programs() -> Path | None:
    """The folder of `initdb` and `postgres`."""
    places = sorted(glob("/usr/lib/postgresql/*/bin/postgres"), reverse=True)
    if (found := shutil.which("postgres")) is not None:
        places.insert(0, os.path.realpath(found))
    return next((Path(place).parent for place in places if Path(place).with_name("initdb").exists()), None)


class Server:
    """A server that listens on `port`; it can be stopped and started again.

    It leaves the process that starts it, so that tests which look for forgotten processes do not find it.
    """

    def __init__(
        self, start: Sequence[str], folder: Path, pid: Path, port: int, ready: str, **options: Any
    ) -> None:
        self.port = port
        self._start, self._log, self._pid, self._ready = start, folder / "log", pid, ready
        self._options: dict[str, Any] = {"cwd": folder, **options}

    def start(self) -> None:
        self._log.unlink(missing_ok=True)
        nowhere = subprocess.DEVNULL
        subprocess.run(self._start, stdin=nowhere, stdout=nowhere, stderr=nowhere, **self._options)
        self._wait(lambda: self._log.exists() and self._ready in self._log.read_text("utf-8", "replace"))

    def stop(self) -> None:
        with suppress(FileNotFoundError):
            os.kill(int(self._pid.read_text().split()[0]), signal.SIGINT)  # at once, whoever is connected
        self._wait(lambda: not self._pid.exists())

    def _wait(self, done: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 30
        while not done():
            if time.monotonic() > deadline:
                raise RuntimeError(self._log.read_text() if self._log.exists() else "it did not start")
            time.sleep(0.02)


@contextmanager
def _folder(user: dict[str, Any]) -> Generator[Path]:
    place = "/tmp" if user else None  # one that the other user may enter
    with tempfile.TemporaryDirectory(prefix="toolnexus-", dir=place, ignore_cleanup_errors=True) as name:
        if user:
            shutil.chown(name, user["user"])
        yield Path(name)


def _free_port() -> int:
    """Below those that systems give to whoever asks for any, so that it is free still after a restart."""
    while True:
        port = random.SystemRandom().randrange(20_000, 32_000)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


@contextmanager
def postgres(programs: Path) -> Generator[tuple[Server, str]]:
    """A running server and the address of an empty database."""
    user: dict[str, Any] = {"user": "nobody", "extra_groups": []} if os.geteuid() == 0 else {}
    with _folder(user) as folder:
        (folder / "password").write_text(PASSWORD)
        if user:
            shutil.chown(folder / "password", user["user"])
        making = [str(programs / "initdb"), "-D", str(folder / "data")]
        making += ["-U", "ann", "--pwfile", str(folder / "password"), "--auth=scram-sha-256"]
        making += ["--encoding=UTF8", "--locale=C", "--no-sync", "--no-instructions"]
        made = subprocess.run(making, capture_output=True, text=True, cwd=folder, **user)
        assert made.returncode == 0, made.stderr
        port = _free_port()
        settings = {"listen_addresses": "127.0.0.1", "port": port, "unix_socket_directories": ""}
        settings |= {"fsync": "off", "shared_buffers": "2MB", "autovacuum": "off", "max_wal_senders": 0}
        words = shlex.join([word for name, value in settings.items() for word in ("-c", f"{name}={value}")])
        start = [str(programs / "pg_ctl"), "-D", str(folder / "data"), "-l", str(folder / "log"), "-o", words]
        pid, ready = folder / "data" / "postmaster.pid", "ready to accept connections"
        server = Server([*start, "-W", "start"], folder, pid, port, ready, **user)
        server.start()
        try:
            yield server, f"postgresql://ann:{ESCAPED}@127.0.0.1:{port}/postgres"
        finally:
            server.stop()


@contextmanager
def redis(program: str) -> Generator[tuple[Server, str]]:
    """A running server and the address of an empty database."""
    with _folder({}) as folder:
        port = _free_port()
        start = [program, "--bind", "127.0.0.1", "--port", str(port), "--requirepass", PASSWORD]
        start += ["--save", "", "--appendonly", "yes", "--dir", str(folder), "--daemonize", "yes"]
        start += ["--logfile", str(folder / "log"), "--pidfile", str(folder / "pid")]
        server = Server(start, folder, folder / "pid", port, "Ready to accept connections")
        server.start()
        try:
            yield server, f"redis://:{ESCAPED}@127.0.0.1:{port}/0"
        finally:
            server.stop()

"""Servers for tests: a PostgreSQL and a Redis on loopback, in folders that are gone afterwards."""

from __future__ import annotations

import os
import random
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Generator, Sequence
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
    """One process that listens on `port`; it can be stopped and started again."""

    def __init__(self, command: Sequence[str], folder: Path, port: int, ready: bytes, **options: Any) -> None:
        self.port = port
        self._command, self._ready = command, ready
        self._options: dict[str, Any] = {"cwd": folder, **options}
        self._log = folder / "log"
        self._process: subprocess.Popen[Any] | None = None

    def start(self) -> None:
        with open(self._log, "wb") as log:
            process = subprocess.Popen(self._command, stdout=log, stderr=subprocess.STDOUT, **self._options)
        self._process = process
        deadline = time.monotonic() + 30
        while self._ready not in self._log.read_bytes():
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(self._log.read_text())
            time.sleep(0.02)

    def stop(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)  # at once, whoever is connected
            self._process.wait(30)
            self._process = None


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
        command = [str(programs / "postgres"), "-D", str(folder / "data")]
        command += [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        server = Server(command, folder, port, b"ready to accept connections", **user)
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
        command = [program, "--bind", "127.0.0.1", "--port", str(port), "--requirepass", PASSWORD]
        command += ["--save", "", "--appendonly", "yes"]
        server = Server(command, folder, port, b"Ready to accept connections")
        server.start()
        try:
            yield server, f"redis://:{ESCAPED}@127.0.0.1:{port}/0"
        finally:
            server.stop()

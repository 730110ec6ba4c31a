"""What a sandbox lets a command see and do, as arguments of bubblewrap."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from toolnexus.tools.builtin.hidden import hidden_places
from toolnexus.tools.builtin.programs import lies_in

_real = os.path.realpath

_WALLS = ("--unshare-pid", "--unshare-ipc", "--as-pid-1", "--die-with-parent", "--new-session")
_CAPABILITIES = ("CAP_DAC_OVERRIDE", "CAP_CHOWN", "CAP_FOWNER")
"""What is left of the rights of root: to work on anybody's files, where files can be written at all."""

_PRIVATE = ("/tmp", "/var/tmp", "/run", "/var/run")
"""Empty in the sandbox. The sockets of the system's services are here, and each leads out of it."""

_KEPT = ("/run/current-system",)
"""Where one system has all its programs, although it lies in a private place."""

_ROOM = 1 << 30
"""Bytes in each place that can be written to and is kept in memory."""

Mount = tuple[str, ...]


def arguments(
    program: str, *, network: bool, sized: bool, root: str | None = None, extra: Sequence[str] = ()
) -> list[str]:
    """The command line of bubblewrap up to the command.

    `root` can be written, `extra` can be read wherever it lies, `sized`: places in memory are bounded.
    """
    argv = [program, *_WALLS, "--cap-drop", "ALL"]
    if not network:
        argv.append("--unshare-net")
    if os.geteuid() == 0:
        argv += [word for name in _CAPABILITIES for word in ("--cap-add", name)]
    for mount in _mounts(network, sized, root, extra):
        argv += mount
    return argv


def _mounts(network: bool, sized: bool, root: str | None, extra: Iterable[str]) -> list[Mount]:
    """What the command sees where, each folder before what lies in it.

    /proc is read-only as well: to root, its files are switches of the whole machine.
    """
    bound = ("--size", str(_ROOM)) if sized else ()
    at: dict[str, Mount] = {
        "/": ("--ro-bind", "/", "/"),
        "/dev": ("--dev", "/dev", *bound, "--tmpfs", "/dev/shm", "--remount-ro", "/dev"),
        "/proc": ("--proc", "/proc", "--remount-ro", "/proc"),
    }
    private = [place for place in map(_real, _PRIVATE) if os.path.isdir(place)]
    at |= {place: (*bound, "--tmpfs", place) for place in private}
    resolver = [_real("/etc/resolv.conf")] if network else []
    for path in (*_KEPT, *resolver, *extra):
        if os.path.exists(path) and not lies_in(path, root):
            at.setdefault(path, ("--ro-bind", path, path))
    if root is not None:
        at[root] = ("--bind", root, root)
        ours = _real(sys.prefix)
        if ours != root and lies_in(ours, root):  # the programs and the code of the host itself
            at[ours] = ("--ro-bind", ours, ours)
    # what leads to the root through a private place is not to be written to and lost
    way = {_first_on_the_way(place, path) for path in at for place in private} - {"", *at}
    at |= {top: ("--tmpfs", top) for top in way}
    hidden = _hide(at, root, {*private, *way})
    return [at[path] for path in sorted(at, key=len)] + [("--remount-ro", top) for top in (*way, *hidden)]


def _hide(at: dict[str, Mount], root: str | None, empty: set[str]) -> list[str]:
    """Put something empty in the place of what is not to be seen; the folders among that.

    Nothing has to be done below `empty` places, nor where the root lies in what would be hidden.
    """
    empty = set(empty)
    folders: list[str] = []
    for path in sorted(set(hidden_places(root)), key=len):
        around = max((known for known in at if lies_in(path, known)), key=len)
        if not os.path.exists(path) or around in empty or (root is not None and lies_in(root, path)):
            continue
        if os.path.isdir(path):
            at[path] = ("--tmpfs", path)
            empty.add(path)
            folders.append(path)
        else:
            at[path] = ("--dev-bind", "/dev/null", path)
    return folders


def _first_on_the_way(place: str, path: str) -> str:
    """The topmost folder between `place` and something deeper in it, `""` when there is none."""
    between = Path(path).relative_to(place).parts[:-1] if lies_in(path, place) else ()
    return os.path.join(place, between[0]) if between else ""

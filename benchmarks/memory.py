"""The peak memory of this process, read without loading anything that would count."""

from __future__ import annotations

import sys


def peak_memory() -> float:
    """The most bytes that this process has had in memory so far."""
    try:
        with open("/proc/self/status") as status:
            line = next(line for line in status if line.startswith("VmHWM"))
        return int(line.split()[1]) * 1024
    except OSError:
        import resource

        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024

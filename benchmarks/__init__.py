"""Our figures beside a hand-written loop: `python -m benchmarks.run`."""

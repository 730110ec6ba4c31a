"""Pure values: no I/O, no event loop, no third party."""

"""What others see of a run: spans, log lines, counters as text. Nothing here can change one."""

"""Which tests are about a file: of the many that reach it they are tried first."""

from __future__ import annotations

import re

ABOUT = (
    ("runtime/", "properties/test_small_parts"),
    ("output|compaction|deferred|turn|costs", "loop/test_turn_values|tests/typed/|tests/compaction/|money/"),
    ("life|stream|delegate|context|asked|background", "test_ends_of_clients|behaviour/test_background"),
    (
        "masking|redact|turn",
        "observability/test_echoes|observability/test_secrets|loop/test_turn|test_translate",
    ),
    ("counts|concurrency", "observability/test_metrics|properties/test_limits"),
    ("ledger|costs|pricing|turn|models", "money/|behaviour/test_limits|properties/test_limits"),
    (
        "deadline|slots|context",
        "loop/test_stops|behaviour/test_limits|properties/test_slots|test_misbehaviour",
    ),
    (
        "snapshot|stored|record|given_up|runner|asked",
        "test_snapshot_values|test_ends_of_waiting|behaviour/test_resume",
    ),
    ("stored|record|given_up|background|snapshot", "behaviour/test_background|behaviour/test_conversations"),
    (
        "conversations|transcripts|earlier|past|life",
        "test_conversations|test_sub_agent_transcripts|test_continued",
    ),
    (
        "boundary|delegate|runner|background",
        "test_ends_of_waiting|behaviour/test_delegation|test_continued_agents",
    ),
    (
        "scope|roster|environment|view|agent|options",
        "filters/|test_definitions|whole/|behaviour/test_delegation",
    ),
    ("environment|scope|overview", "agent_files/|tests/skills|test_sub_agents_page"),
    ("output", "tests/typed/"),
    ("compaction|deferred|ranking|overview", "tests/compaction/"),
    ("threads|loop_thread|life|spill", "test_threads|whole/test_life|behaviour/test_conversations"),
    ("outbox|stream|emitter|hooks|runner|loop", "behaviour/test_events|test_misbehaviour|loop/test_stops"),
    ("questions|asks|asked|rights|relays", "behaviour/test_questions|behaviour/test_relay|test_permissions"),
    ("tracing|context|turn", "observability/test_spans"),
    ("secrets", "builtins/test_environment"),
)
"""Patterns: of the file, and of the files of tests."""


def about(file: str, tests: str) -> bool:
    """Whether a file of tests is about a file of the package."""
    name = file.partition("/")[2]
    return any(re.search(one, name) and re.search(other, tests) for one, other in ABOUT)

"""The document that a new project starts with."""

from __future__ import annotations

from pathlib import Path


def template() -> str:
    """A commented `toolnexus.toml`: it works as it is, and with any of its keys uncommented."""
    return Path(__file__).with_name("template.toml").read_text("utf-8")

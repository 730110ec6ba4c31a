"""A client as a document: TOML, JSON, YAML or a mapping. Nothing here holds behaviour of a run."""

from __future__ import annotations

from toolnexus.config.document import Document, load
from toolnexus.config.schema import json_schema
from toolnexus.config.template import template

__all__ = ["Document", "json_schema", "load", "template"]

"""Replies of models without our secrets, field by field."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from toolnexus import Message, ModelResponse, TextPart, ToolCallPart, Usage
from toolnexus.core.messages import OpaquePart, ReasoningPart
from toolnexus.engine.masking import masked
from toolnexus.runtime.redact import MASK, Redactor

KEY = "sk-secret"
REDACT = Redactor([KEY])


@dataclass
class Field:
    """A part that has `text` in one field."""

    name: str

    def part(self, text: str) -> Any:
        return {
            "text": lambda: TextPart(text),
            "text extra": lambda: TextPart("t", {"k": text}),
            "reasoning": lambda: ReasoningPart(text, "m"),
            "reasoning extra": lambda: ReasoningPart("t", "m", {"k": text}),
            "opaque": lambda: OpaquePart("m", {"k": [text]}),
            "call id": lambda: ToolCallPart(text, "n", "{}"),
            "call name": lambda: ToolCallPart("c", text, "{}"),
            "call arguments": lambda: ToolCallPart("c", "n", text),
            "call extra": lambda: ToolCallPart("c", "n", "{}", {"k": text}),
        }[self.name]()


NAMES = ["text", "reasoning", "call id", "call name", "call arguments", "opaque"]


@pytest.mark.parametrize("name", [*NAMES, "text extra", "reasoning extra", "call extra"])
def test_a_secret_is_masked_wherever_it_stands(name: str) -> None:
    """[OBS-50] In that field, and nothing else of the reply changes."""
    other, usage = TextPart("other"), Usage(prompt_tokens=1)
    field = Field(name)
    message = Message("assistant", (other, field.part(f"<{KEY}>")), "origin", {"kept": 1})
    reply = masked(ModelResponse(message=message, usage=usage), REDACT)
    assert reply.message == Message("assistant", (other, field.part(f"<{MASK}>")), "origin", {"kept": 1})
    assert reply.message.parts[0] is other and reply.usage is usage


def test_fields_of_the_reply_itself_are_masked() -> None:
    """[OBS-50] Also when its parts hold none."""
    message = Message("assistant", (TextPart("clean"),), "origin", {"k": KEY})
    reply = masked(ModelResponse(message=message), REDACT)
    assert reply.message.extra == {"k": MASK} and reply.message.parts == message.parts


@pytest.mark.parametrize("name", [*NAMES, "text extra", "reasoning extra", "call extra"])
def test_a_reply_without_secrets_is_the_same_object(name: str) -> None:
    """[OBS-54] Nothing is copied, whatever it holds, and without any secret nothing is looked at."""
    message = Message("assistant", (Field(name).part("clean"),), "origin", {"k": ["v"]})
    reply = ModelResponse(message=message)
    assert masked(reply, REDACT) is reply
    secret = ModelResponse(message=Message("assistant", (Field(name).part(KEY),)))
    assert masked(secret, Redactor()) is secret

"""How a conversation is named, for those who do not need to know more of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolnexus.core.options import expect
from toolnexus.errors import ConfigError
from toolnexus.runtime.context import ContextKey

if TYPE_CHECKING:
    from toolnexus.engine.conversations import Conversations

CONVERSATIONS: ContextKey[Conversations] = ContextKey("conversations")
"""The conversations of the client, for steps that continue one."""

CONVERSATION: ContextKey[str] = ContextKey("conversation")
"""The id of the conversation that a run is part of."""

RESERVED = "sub-agents:"
"""How the ids begin under which a store keeps the runs below a conversation."""


def check_id(conversation: object) -> None:
    """Raises `ConfigError` for what is no id; None is none."""
    if conversation is not None:
        expect("conversation", conversation, str, "give its id as text, such as str(user_id)")
    if isinstance(conversation, str) and conversation.startswith(RESERVED):
        raise ConfigError(f"conversation {conversation!r}: ids that begin with {RESERVED!r} are taken")

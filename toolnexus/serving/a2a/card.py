"""The card: who the agent is, what it can, and where it is reached."""

from __future__ import annotations

from a2a.types import (
    AgentCapabilities,
    AgentCard,
    AgentInterface,
    AgentSkill,
    HTTPAuthSecurityScheme,
    SecurityRequirement,
    SecurityScheme,
    StringList,
)

from toolnexus.client import Client
from toolnexus.core.media import IMAGES, PDF
from toolnexus.core.names import sanitize
from toolnexus.core.unicode import encodable
from toolnexus.runtime.context import Runnable
from toolnexus.serving.options import A2AOptions

JSONRPC, REST = "/", "/v1"
_INPUT = ["text/plain", "application/json", PDF, *sorted(IMAGES)]
_OUTPUT = ["text/plain", "application/json"]


def make_card(client: Client, options: A2AOptions, url: str, target: Runnable | None) -> AgentCard:
    """The card of an agent at `url`. Its skills are known once the client is open: `add_skills` then.

    Both bindings are there in both versions. Those of 0.3 put their own `/v1` behind the address.
    """
    base = url.rstrip("/")
    places = [
        (JSONRPC, "JSONRPC", "1.0"),
        (REST, "HTTP+JSON", "1.0"),
        (JSONRPC, "JSONRPC", "0.3"),
        (REST, "HTTP+JSON", "0.3"),
    ]
    card = AgentCard(
        name=options.name,
        description=options.description,
        version=options.version,
        supported_interfaces=[
            AgentInterface(url=base + path, protocol_binding=binding, protocol_version=version)
            for path, binding, version in places
        ],
        capabilities=AgentCapabilities(streaming=True, push_notifications=False),
        default_input_modes=_INPUT,
        default_output_modes=_OUTPUT,
    )
    if options.token is not None:
        bearer = SecurityScheme(http_auth_security_scheme=HTTPAuthSecurityScheme(scheme="bearer"))
        card.security_schemes["bearer"].CopyFrom(bearer)
        card.security_requirements.append(SecurityRequirement(schemes={"bearer": StringList()}))
    add_skills(card, client, target)
    return card


def add_skills(card: AgentCard, client: Client, target: Runnable | None) -> None:
    """What it can: the client's skills and agents, or `target` alone; else its own description."""
    if target is None:
        found = [(skill.name, skill.description, "skill") for skill in client.skills]
        found += [(agent.name, agent.description, "agent") for agent in client.agents]
    else:
        found = [(target.name, target.description, "agent")]
    del card.skills[:]
    for name, description, tag in found or [(card.name, card.description, "agent")]:
        name, description = encodable(name), encodable(description)
        skill = AgentSkill(id=sanitize(name), name=name, description=description or name, tags=[tag])
        card.skills.append(skill)

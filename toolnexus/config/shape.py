"""The shape of a config document: what the validation and the JSON Schema are made of.

Imports pydantic, so it is itself imported only when a document is read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, cast

from pydantic import Field, Tag, WithJsonSchema

from toolnexus.config.server_schema import SERVER
from toolnexus.config.table import (
    AgentName,
    Amount,
    Count,
    Dollars,
    Filter,
    Permissions,
    Seconds,
    Table,
    Text,
    Texts,
    by_kind,
    one_of,
)


class Retries(Table):
    """How failed requests go out again."""

    retries: Amount | None = Field(None, description="Further attempts after a failed one (2).")
    base: Seconds | None = Field(None, description="The first delay in seconds; it doubles each time (0.5).")
    cap: Seconds | None = Field(
        None, description="The longest wait in seconds that a server may ask for (60)."
    )


class Model(Table):
    """A model with its own endpoint and options."""

    name: Text = Field(
        description="'provider:name', such as 'openai:gpt-5-mini'. Providers: openai, anthropic."
    )
    base_url: Text | None = Field(None, description="Another endpoint of the provider's style.")
    api_key: str | None = Field(
        None, description="The key, as '${NAME}'. Without it the variable of a known host gives it."
    )
    headers: dict[str, str] | None = Field(None, description="Headers of every request.")
    params: dict[str, Any] | None = Field(
        None, description="Merged into every request body, such as temperature. No variables in here."
    )
    retries: (
        Annotated[
            Annotated[Amount, Tag("\0number")] | Annotated[Retries, Tag("\0table")],
            one_of("a whole number or a table", by_kind(number=int, table=dict)),
        ]
        | None
    ) = Field(None, description="Further attempts after a failed request: a number, or a table.")
    wire: Literal["sdk"] | None = Field(
        None, description="'sdk': requests go through the vendor's own client library."
    )
    structured: Literal["native", "tool", "prompt"] | None = Field(
        None, description="How typed answers are asked for. Without: in the best way that works."
    )
    hints: ClassVar[Mapping[str, str]] = {
        "body_transform": "it is code: pass a model object, load(…, model=OpenAIModel(…))"
    }


AnyModel = Annotated[
    Annotated[Text, Tag("\0text")] | Annotated[Model, Tag("\0table")],
    one_of("'provider:name' or a table with a name", by_kind(text=str, table=dict)),
]


class Ceilings(Table):
    """Ceilings for one run and everything below it."""

    requests: Amount | None = Field(None, description="Model requests.")
    tokens: Amount | None = Field(None, description="Tokens of all requests.")
    tool_calls: Amount | None = Field(None, description="Tool calls, `task` included.")
    seconds: Seconds | None = Field(None, description="Seconds, those of waiting for a person apart.")
    cost: Dollars | None = Field(
        None, description="US dollars; a model without a known price is not asked then."
    )
    hints: ClassVar[Mapping[str, str]] = {
        "concurrency": "it is set on the budget of the document, for the whole tree",
    }


class Budget(Ceilings):
    """Ceilings for each ask and everything below it."""

    concurrency: Count | None = Field(None, description="Sub-agents active at once in the whole tree (8).")


class Price(Table):
    """What a model costs, in US dollars per million tokens."""

    input: Dollars = Field(description="For input.")
    output: Dollars = Field(description="For output.")
    cached: Dollars | None = Field(None, description="For input read from a prompt cache.")
    cache_write: Dollars | None = Field(None, description="For input written to a prompt cache.")


class Skills(Table):
    """Skill folders with options."""

    paths: Texts = Field(description="Folders that hold skills (SKILL.md files).")
    filter: Filter | None = Field(None, description="Which skills: names and globs, or {name: bool}.")
    sample_limit: Annotated[int, Field(ge=-1)] | None = Field(
        None, description="Files listed with a skill: 0 for ten, -1 for none."
    )
    pre_approve: bool | None = Field(
        None, description="Whether `allowed-tools` of a loaded skill passes where a rule asks (false)."
    )


class Builtins(Table):
    """Builtin tools with options."""

    tools: Filter | None = Field(None, description="Which builtins: names and globs, or {name: bool}.")
    sandbox: (
        Annotated[
            Annotated[bool, Tag("\0flag")] | Annotated[Literal["auto"], Tag("\0text")],
            one_of("true, false or 'auto'", by_kind(flag=bool, text=str)),
        ]
        | None
    ) = Field(None, description="Whether bash runs in a sandbox; 'auto': where the system has one.")
    sandbox_network: bool | None = Field(
        None, description="Whether commands in the sandbox reach the network."
    )
    webfetch_allow: list[Text] | None = Field(
        None, description="Hosts that webfetch may reach although they are local or private."
    )
    task_continue: bool | None = Field(
        None, description="Whether `task` can go on with an earlier run of an agent."
    )
    task_background: bool | None = Field(None, description="Whether `task` can leave runs in the background.")


def _builtins_tag(value: Any) -> str | None:
    if not isinstance(value, dict):
        return by_kind(flag=bool, list=list)(value)
    known = {*Builtins.keys(), *Builtins.twins()}
    return "\0options" if known & set(cast("dict[str, Any]", value)) else "\0table"


class OpenApi(Table):
    """An API whose operations are tools."""

    document: Text | None = Field(None, description="The path of an OpenAPI document, JSON or YAML.")
    url: Text | None = Field(None, description="Instead of a path: where the document is fetched.")
    base_url: Text | None = Field(
        None, description="Where requests go, in place of the servers that the document names."
    )
    headers: dict[str, str] | None = Field(
        None, description="Headers of every request, such as { Authorization = 'Bearer ${NAME}' }."
    )
    filter: Filter | None = Field(
        None, description="Which operations: names and globs, or {name: bool}. Without: all."
    )
    timeout: Seconds | None = Field(None, description="Seconds for a call (30).")


class Http(Table):
    """One HTTP request as a tool."""

    name: Text = Field(description="The name that models use.")
    description: Text = Field(description="What it does: a model chooses by it.")
    url: Text = Field(description="The address, with {placeholders} in its path and query.")
    method: Text | None = Field(None, description="GET, HEAD, POST, PUT, PATCH, DELETE or OPTIONS (GET).")
    headers: dict[str, str] | None = Field(
        None, description="Headers of every request, such as { Authorization = 'Bearer ${NAME}' }."
    )
    query: list[Text] | None = Field(
        None, description="The arguments that go into the query. With GET: all that fill no placeholder."
    )
    body: Literal["json", "form", "raw"] | None = Field(
        None, description="How the other arguments are sent (json)."
    )
    input_schema: dict[str, Any] | None = Field(
        None, description="The JSON Schema of the arguments. Without: texts, as the url and query name them."
    )
    timeout: Seconds | None = Field(None, description="Seconds for a call (30).")
    result_mode: Literal["text", "json", "status+text"] | None = Field(
        None, description="What a model gets of an answer (text)."
    )


class Tools(Table):
    """What an agent sees of the client's tools; a kind that is not named stays whole."""

    mcp: Filter | None = Field(None, description="Servers, or tools by their final names.")
    skills: Filter | None = Field(None, description="Skills.")
    builtins: Filter | None = Field(None, description="Builtins.")
    native: Filter | None = Field(None, description="Tools given in code.")


class Agent(Table):
    """Somebody whom `task` may delegate to."""

    description: str | None = Field(None, description="What it is good at: the caller's model chooses by it.")
    system_prompt: str | None = Field(None, description="Its instructions. No variables in here.")
    model: AnyModel | None = Field(
        None,
        description="'provider:name', a name at the client's own endpoint, or a table of its own.",
    )
    tools: (
        Annotated[
            Annotated[list[str], Tag("\0list")] | Annotated[Tools, Tag("\0table")],
            one_of("a list of names and globs, or a table of filters", by_kind(list=list, table=dict)),
        ]
        | None
    ) = Field(
        None, description="Names and globs (these and nothing else), or filters by kind. Without: everything."
    )
    agents: Filter | None = Field(
        None,
        description="Whom it may delegate to: names and globs, {name: bool}, or a bool. Without: everybody; "
        "[] and false: nobody.",
    )
    max_turns: Count | None = Field(
        None, description="Model requests of one run. Without: those of its caller."
    )
    budget: Ceilings | None = Field(
        None, description="Ceilings for each of its runs and everything below it."
    )
    workdir: Text | None = Field(None, description="The folder of its file tools. Without: its caller's.")
    permissions: Permissions | None = Field(
        None,
        description="Rules about its calls and those below it, on top of its caller's; the strictest holds.",
    )
    output_type: dict[str, Any] | None = Field(
        None, description="A JSON Schema: what it answers with. Without: any text."
    )
    hints: ClassVar[Mapping[str, str]] = {
        "hooks": "it is code: make the Agent in Python",
        "name": "the name of an agent is the key of its table",
        "prompt": "the instructions go into 'system_prompt'",
    }


class NamedAgent(Agent):
    """An agent in a list."""

    name: AgentName = Field(description="The name that `task` uses.")


class RemoteAgent(Table):
    """An agent elsewhere, spoken to over A2A."""

    url: Text | None = Field(None, description="The address of the agent; its card is found there.")
    card: (
        Annotated[
            Annotated[Text, Tag("\0text")] | Annotated[dict[str, Any], Tag("\0table")],
            one_of("an address, the path of a file or a table", by_kind(text=str, table=dict)),
        ]
        | None
    ) = Field(None, description="Instead of url: the address of its card, a JSON file, or what that holds.")
    description: str | None = Field(None, description="What it is good at. Without: what its card says.")
    headers: dict[str, str] | None = Field(
        None,
        description="Headers of every request, with '${NAME}'; they go to the origin that is named here.",
    )
    skills: Filter | None = Field(
        None,
        description="Which of its skills are tools, too: true, ids and globs, or {id: bool}. Without: none.",
    )
    timeout: Seconds | None = Field(None, description="How many seconds it may be silent (60).")
    budget: Ceilings | None = Field(
        None, description="Ceilings for each of its runs, seconds and tokens above all."
    )
    hints: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(
            ("model", "system_prompt", "tools", "agents", "max_turns", "workdir", "output_type"),
            "an agent with a url or a card runs elsewhere: this is decided there",
        ),
        "name": Agent.hints["name"],
    }


class NamedRemoteAgent(RemoteAgent):
    """An agent elsewhere, in a list."""

    name: AgentName = Field(description="The name that `task` uses.")


def _where_it_runs(value: Any) -> str:
    return "\0remote" if isinstance(value, dict) and {"url", "card"} & {*value} else "\0agent"


AnyAgent = Annotated[
    Annotated[Agent, Tag("\0agent")] | Annotated[RemoteAgent, Tag("\0remote")],
    one_of("a table", _where_it_runs),
]
AnyNamedAgent = Annotated[
    Annotated[NamedAgent, Tag("\0agent")] | Annotated[NamedRemoteAgent, Tag("\0remote")],
    one_of("a table", _where_it_runs),
]


class AgentFiles(Table):
    """Agents as files, of several hosts."""

    paths: Texts = Field(description="Files of agents, folders of these, or a project folder.")
    models: dict[str, Text] | None = Field(
        None, description="What the model names in the files mean, such as sonnet = 'anthropic:…'."
    )


class A2A(Table):
    """The client as an A2A agent, with `toolnexus serve`."""

    name: Text | None = Field(None, description="What its card calls it ('toolnexus').")
    description: Text | None = Field(None, description="What its card says of it.")
    version: Text | None = Field(None, description="Its version ('1.0').")
    agent: AgentName | None = Field(None, description="Who answers. Without: the client itself.")
    token: str | None = Field(
        None, description="What callers send as bearer token, as '${NAME}'. Without: nobody needs one."
    )
    url: Text | None = Field(
        None, description="The address on its card, when that is another than it listens on."
    )
    tasks: Text | None = Field(
        None, description="The SQLite file, or the URL of a database, that keeps tasks. Without: in memory."
    )
    retention_days: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = Field(
        None, description="How long a database keeps a task after its last change (30)."
    )


class McpServer(Table):
    """The client's tools as an MCP server, with `toolnexus serve`."""

    name: Text | None = Field(None, description="What it calls itself ('toolnexus').")
    instructions: Text | None = Field(None, description="What a model of the caller should know of it.")
    tools: Filter | None = Field(None, description="Which tools: names and globs, or {name: bool}. All.")
    agents: list[AgentName] | None = Field(None, description="Agents, each as one more tool.")
    token: str | None = Field(
        None, description="What callers send as bearer token, as '${NAME}'. Without: nobody needs one."
    )


class Serve(Table):
    """Where `toolnexus serve` listens, and what it takes on."""

    host: Text | None = Field(None, description="The address to listen on (127.0.0.1).")
    port: Annotated[int, Field(ge=0, le=65535)] | None = Field(None, description="The port (8000).")
    allowed_hosts: list[Text] | None = Field(
        None, description="More names that callers may use for it; ['*']: any."
    )
    max_concurrent: Count | None = Field(None, description="Runs and tool calls at once (64).")
    max_body: Count | None = Field(None, description="Bytes of one request (20 MiB).")
    deadline: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = Field(
        None, description="Seconds of one run or call (600)."
    )


_DEPLOYMENT = (
    "this is of a deployment document, which `toolnexus serve` serves and graph.deploy(…) reads: "
    "docs/graph-deploy.md"
)
_OTHER_HOST = 'this is the MCP file of another host; name it in a document: mcp = "path/of/the/file.json"'


class Root(Table):
    """What a client is made of: its model, tools, agents and limits."""

    schema_: str | None = Field(None, alias="$schema", description="The JSON Schema, for editors.")
    model: AnyModel | None = Field(
        None, description="'provider:name', or a table. Without: the variable TOOLNEXUS_MODEL."
    )
    base_url: Text | None = Field(None, description="Another endpoint of the provider's style.")
    api_key: str | None = Field(
        None, description="The key, as '${NAME}'. Without it the variable of a known host gives it."
    )
    headers: dict[str, str] | None = Field(None, description="Headers of every request to the model.")
    system_prompt: str | None = Field(None, description="The client's instructions. No variables in here.")
    max_turns: Count | None = Field(None, description="Model requests of one run (10).")
    max_sub_agent_depth: Amount | None = Field(None, description="How deep agents may delegate (3).")
    max_sub_agents: Amount | None = Field(None, description="Runs that one ask may start below it (16).")
    max_declared_tools: Amount | None = Field(
        None, description="Of more tools than this, most are found with `tool_search` (all are declared)."
    )
    allowed_models: list[Text] | None = Field(
        None, description="The models that `task` may name. Without: those of the client and its agents."
    )
    budget: Budget | None = Field(None, description="Ceilings for each ask and everything below it.")
    prices: (
        Annotated[
            Annotated[bool, Tag("\0flag")] | Annotated[dict[Text, Price], Tag("\0table")],
            one_of("true, or a table of prices by model name", by_kind(flag=bool, table=dict)),
        ]
        | None
    ) = Field(
        None, description="What models cost, so that runs say what they cost: true, or a table by name."
    )
    mcp_servers: dict[Text, Annotated[dict[str, Any], WithJsonSchema(SERVER)]] | None = Field(
        None, alias="mcpServers", description="MCP servers by name, in the shape of other hosts."
    )
    mcp: (
        Annotated[
            Annotated[Text, Tag("\0text")] | Annotated[dict[str, Any], Tag("\0table")],
            one_of("the path of a file or a table of servers", by_kind(text=str, table=dict)),
        ]
        | None
    ) = Field(None, description="Instead of mcpServers: the MCP file of another host, or what it holds.")
    skills: (
        Annotated[
            Annotated[Text, Tag("\0text")]
            | Annotated[list[Text], Tag("\0list")]
            | Annotated[Skills, Tag("\0table")],
            one_of("a folder, a list of folders or a table", by_kind(text=str, list=list, table=dict)),
        ]
        | None
    ) = Field(None, description="Folders of skills (SKILL.md files), or a table with options.")
    builtins: (
        Annotated[
            Annotated[bool, Tag("\0flag")]
            | Annotated[list[str], Tag("\0list")]
            | Annotated[dict[str, bool], Tag("\0table")]
            | Annotated[Builtins, Tag("\0options")],
            one_of(
                "a bool, a list of names, a table of names to true or false, or a table of options",
                _builtins_tag,
            ),
        ]
        | None
    ) = Field(
        None, description="Builtin tools: true (all), false, names and globs, {name: bool}, or options."
    )
    agents: (
        Annotated[
            Annotated[dict[AgentName, AnyAgent], Tag("\0table")]
            | Annotated[list[AnyNamedAgent], Tag("\0list")],
            one_of("a table of agents by name, or a list of tables", by_kind(table=dict, list=list)),
        ]
        | None
    ) = Field(None, description="Whom `task` may delegate to: tables by name, or a list of named tables.")
    agent_files: (
        Annotated[
            Annotated[Text, Tag("\0text")]
            | Annotated[list[Text], Tag("\0list")]
            | Annotated[AgentFiles, Tag("\0table")],
            one_of("a path, a list of paths or a table", by_kind(text=str, list=list, table=dict)),
        ]
        | None
    ) = Field(None, description="Files of agents, folders of these, or a project folder.")
    permissions: Permissions | None = Field(
        None,
        description="Rules about calls: a tool, or tool(pattern), to 'allow', 'ask' or 'deny'. "
        "Without: every call is allowed.",
    )
    openapi: list[OpenApi] | None = Field(
        None, description="APIs whose operations are tools, by their OpenAPI documents."
    )
    http: list[Http] | None = Field(None, description="Single HTTP requests as tools.")
    store: Text | None = Field(
        None,
        description="Keeps conversations: a SQLite file, `postgresql://…`, `redis://…`. Without: in memory.",
    )
    workdir: Text | None = Field(
        None, description="The folder of the file tools. Without: the current one, wherever this file is."
    )
    a2a: A2A | None = Field(None, description="The client as an A2A agent, with `toolnexus serve`.")
    mcp_server: McpServer | None = Field(
        None, alias="mcpServer", description="Its tools as an MCP server, with `toolnexus serve`."
    )
    serve: Serve | None = Field(None, description="Where `toolnexus serve` listens, and its bounds.")
    instructions: (
        Annotated[
            Annotated[bool, Tag("\0flag")] | Annotated[Text, Tag("\0text")],
            one_of("true or the path of a file", by_kind(flag=bool, text=str)),
        ]
        | None
    ) = Field(
        None, description="An AGENTS.md for the system prompt; true: the nearest one of the working folder."
    )
    hints: ClassVar[Mapping[str, str]] = {
        "resources": _DEPLOYMENT,
        "runtime": _DEPLOYMENT,
        "servers": _OTHER_HOST,
        "inputs": _OTHER_HOST,
        "tools": "functions are code: load(…, tools=[…]); filters stand under 'builtins' and 'skills'",
        "hooks": "hooks are code: load(…, hooks=[…])",
    }

"""All commands and their options. Loads nothing of the package but words."""

from __future__ import annotations

import argparse

from toolnexus.cli.exits import DONE, TABLE
from toolnexus.cli.graph_parser import add_graph
from toolnexus.cli.groups import (
    Commands,
    add_client,
    add_command,
    add_display,
    add_memory,
    add_model,
    add_sources,
    port,
    reply,
    seconds,
)

FAULTS = ("kill-server", "hang", "deny", "limit")
MCP_FILES = ("toolnexus.mcp",)
"""What `config check` reports in words of its own."""
REPORTED = ("toolnexus.skills", "toolnexus.sources")
"""Loggers whose warnings `tools`, `agents` and `conformance` report in words of their own."""


def make_parser() -> argparse.ArgumentParser:
    """All commands and their options."""
    parser = argparse.ArgumentParser(
        prog="toolnexus", description="Agents with tools from everywhere, at the command line.", epilog=TABLE
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="show the version and leave")
    parser.set_defaults(command=None)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    _add_demo(commands)
    _add_run(commands)
    _add_resume(commands)
    _add_replay(commands)
    _add_chat(commands)
    _add_tools(commands)
    _add_agents(commands)
    _add_translate(commands)
    _add_serve(commands)
    _add_conformance(commands)
    add_graph(commands)
    _add_workflow(commands)
    _add_config(commands)
    _add_init(commands)
    _add_trust(commands)
    return parser


class _Version(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: object, **__: object) -> None:
        from importlib.metadata import PackageNotFoundError, version

        try:
            print(f"toolnexus {version('toolnexus')}")
        except PackageNotFoundError:
            print("toolnexus (not installed)")
        parser.exit(DONE)


def _add_demo(commands: Commands) -> None:
    demo = add_command(
        commands,
        "demo",
        "toolnexus.cli.demo.command",
        "find a planted bug with two agents at once; needs no key",
        "A lead splits a goal, two agents find a planted bug at once, one of them writes a report. "
        "The model is scripted; tools, files, the MCP server and everything else are real.",
    )
    add_display(demo)
    demo.add_argument("--fault", choices=FAULTS, help="break something in the middle and see what holds")
    demo.add_argument(
        "--live", action="store_true", help="use a real model: a key in the environment, or a local server"
    )
    demo.add_argument("--save", metavar="FILE", help="write the program that just ran to a new file")
    demo.add_argument(
        "--think",
        type=seconds,
        default=0.3,
        metavar="SECONDS",
        help="artificial thinking time of the scripted model in each turn (default %(default)s)",
    )


def _add_run(commands: Commands) -> None:
    run = add_command(
        commands,
        "run",
        "toolnexus.cli.run",
        "ask a model once, with tools and agents",
        "Ask once. The answer goes to standard output, progress to standard error. Questions of the model "
        "are asked at the terminal; elsewhere they are declined, but with --json or --conversation the run "
        "ends pending.",
    )
    run.add_argument("prompt", help="the request; - reads it from standard input")
    run.add_argument(
        "--attach", metavar="FILE", action="append", default=[], help="an image or a file; may be repeated"
    )
    add_display(run)
    run.add_argument(
        "--record", metavar="FILE", help="write all that models and tools say to FILE, for replay; private"
    )
    add_client(run)
    add_memory(run).add_argument("--conversation", metavar="ID", help="begin or continue this one")


def _add_resume(commands: Commands) -> None:
    resume = add_command(
        commands,
        "resume",
        "toolnexus.cli.resume",
        "go on with a conversation that waits for answers",
        "Go on with the run that waits in a conversation, or that a crash left open; give the options that "
        "it was begun with. At a terminal the open questions are asked; elsewhere what --approve, --decline "
        "and --answer leave open is listed, exit code 4.",
    )
    resume.add_argument("conversation", metavar="CONVERSATION", help="its id")
    replies = resume.add_argument_group(
        "answers", "the ids are in the list of open questions; may be repeated"
    )
    for option, help in (("--approve", "yes, this once"), ("--decline", "no, whatever was asked")):
        replies.add_argument(option, metavar="ID", action="append", default=[], help=help)
    replies.add_argument(
        "--answer",
        type=reply,
        metavar="ID=TEXT",
        action="append",
        default=[],
        help="the answer to a question; a JSON object fills a form in, a JSON list answers several",
    )
    add_display(resume)
    add_client(resume)
    add_memory(resume)


def _add_replay(commands: Commands) -> None:
    replay = add_command(
        commands,
        "replay",
        "toolnexus.cli.replay",
        "play a recorded run again; needs no key and no network",
        "Play what run --record wrote: the same request and options, models and tools answered from the "
        "record. Exit code as the run had; when it asks something else by now, the difference and 1.",
    )
    replay.add_argument("file", metavar="FILE", help="the record")
    add_display(replay)


def _add_chat(commands: Commands) -> None:
    chat = add_command(
        commands,
        "chat",
        "toolnexus.cli.chat",
        "talk with a model, with tools and agents",
        "Talk, one line at a time. /help lists the commands; Ctrl-C stops an answer, Ctrl-D leaves.",
    )
    chat.add_argument("--plain", action="store_true", help="plain lines instead of a live tree")
    add_client(chat)
    add_memory(chat).add_argument("--conversation", metavar="ID", help="begin or continue this one")


def _add_tools(commands: Commands) -> None:
    tools = add_command(
        commands,
        "tools",
        "toolnexus.cli.tools",
        "list the tools a model would get",
        "Connect to everything, list the tools by source, and name what is not there. Needs no model. "
        "Exit code 3 when a server or a skill is missing.",
    )
    tools.add_argument("--json", action="store_true", help="one JSON object, with the schemas")
    tools.set_defaults(reported=REPORTED)
    add_sources(tools)


def _add_agents(commands: Commands) -> None:
    agents = add_command(
        commands,
        "agents",
        "toolnexus.cli.agents",
        "list the agents that a model may delegate to",
        "List the agents with their model, their tools and whom they may delegate to. Without a document "
        "and --agents these are explore and review, which run and chat have then, too. Needs no model. "
        "Exit code 3 when a server or a skill is missing, so that the lists may be short.",
    )
    agents.add_argument("--json", action="store_true", help="one JSON object")
    agents.set_defaults(reported=REPORTED)
    add_sources(agents)


def _add_serve(commands: Commands) -> None:
    serve = add_command(
        commands,
        "serve",
        "toolnexus.cli.serve",
        "serve a document's client: as an A2A agent, as an MCP server",
        "Serve what the tables [a2a] and [mcpServer] of a document say, or the agents of a deployment "
        "document, on one port, until a signal; or the tools alone to the program that started this one "
        "(--stdio).",
    )
    serve.add_argument(
        "--workflow",
        metavar="MODULE:NAME",
        help="a workflow, or an agent, in Python: it answers over A2A, and is a tool over MCP",
    )
    where = serve.add_argument_group("where", "these take the place of what the document says")
    where.add_argument("--stdio", action="store_true", help="MCP over standard input and output, no port")
    where.add_argument("--host", metavar="ADDRESS", help="listen here (default 127.0.0.1)")
    where.add_argument("--port", type=port, metavar="N", help="on this port (default 8000; 0: any free)")
    where.add_argument("--token-env", metavar="NAME", help="the variable that holds the token of callers")
    where.add_argument("--agent", metavar="NAME", help="of a deployment document: who answers over A2A")
    where.add_argument("--allow-anonymous", action="store_true", help="let other machines in without a token")
    add_client(serve)
    add_memory(serve)


def _add_workflow(commands: Commands) -> None:
    workflow = commands.add_parser("workflow", help="draw a workflow")
    workflow.set_defaults(command=None)
    actions = workflow.add_subparsers(title="actions", metavar="ACTION", required=True)
    draw = add_command(
        actions,
        "draw",
        "toolnexus.cli.workflow_draw",
        "print a workflow as a Mermaid flowchart",
        "Import MODULE, from this folder or wherever Python finds it, and print its workflow NAME as a "
        "Mermaid flowchart. Runs the module, not the workflow.",
    )
    draw.add_argument("target", metavar="MODULE:NAME", help="such as flows.research:pipeline")


def _add_config(commands: Commands) -> None:
    config = commands.add_parser("config", help="check a config document, or print its JSON Schema")
    config.set_defaults(command=None)
    actions = config.add_subparsers(title="actions", metavar="ACTION", required=True)
    check = add_command(
        actions,
        "check",
        "toolnexus.cli.config_check",
        "say everything that is wrong in a config document",
        "Read config documents and say everything that is wrong, and what is not carried over. Starts "
        "nothing and connects to nothing. Exit code 2 when something is wrong.",
    )
    check.add_argument("files", nargs="+", metavar="FILE", help="a .toml, .json or .yaml file")
    check.add_argument("--json", action="store_true", help="one JSON object for each file, a line each")
    check.set_defaults(reported=MCP_FILES)
    add_command(
        actions,
        "schema",
        "toolnexus.cli.config_schema",
        "print the JSON Schema of config documents, for editors",
        "Print the JSON Schema of config documents.",
    )


def _add_init(commands: Commands) -> None:
    init = add_command(
        commands,
        "init",
        "toolnexus.cli.init",
        "write a commented config document to start from",
        "Write a config document with everything explained. Overwrites nothing.",
    )
    init.add_argument(
        "file", nargs="?", default="toolnexus.toml", metavar="FILE", help="default: %(default)s"
    )


def _add_trust(commands: Commands) -> None:
    trust = add_command(
        commands,
        "trust",
        "toolnexus.cli.trust",
        "trust a project folder, so that --project starts its servers",
        "Remember that you trust whoever wrote a folder: --project then loads its MCP servers and skills, "
        "which may start programs.",
    )
    trust.add_argument("folder", metavar="DIR", help="the project folder")
    trust.add_argument("--forget", action="store_true", help="trust it no longer")


def _add_translate(commands: Commands) -> None:
    translate = add_command(
        commands,
        "translate",
        "toolnexus.cli.translate",
        "send one chat completion request to any endpoint",
        "Read the JSON of a chat completion request, send it once in the words of the model's endpoint, and "
        "write the completion to standard output. No loop; tools are declared and never run.",
    )
    translate.add_argument("file", metavar="FILE", help="the request; - reads it from standard input")
    add_model(translate)


def _add_conformance(commands: Commands) -> None:
    conformance = add_command(
        commands,
        "conformance",
        "toolnexus.testing.conformance.command",
        "play the fixtures of the contract against this package or another implementation",
        "Play fixtures and say of each case whether it holds. Exit code 1 when one failed; a case that needs "
        "what an implementation says it lacks has not failed.",
    )
    conformance.add_argument(
        "paths", nargs="*", metavar="PATH", help="fixture files or folders (default: those of the package)"
    )
    conformance.add_argument(
        "--driver",
        metavar="CMD",
        action="append",
        help="a program that speaks the driver protocol, or own: this package (default); may be repeated",
    )
    conformance.add_argument(
        "--only", metavar="PATTERN", help="cases in whose 'file: name' this is found; * is any text, | or"
    )
    conformance.add_argument(
        "--seconds",
        type=seconds,
        default=10.0,
        metavar="N",
        help="most of one case (default %(default)g)",
    )
    conformance.set_defaults(reported=REPORTED)
    form = conformance.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="one JSON object a line for each case and driver")
    form.add_argument("--markdown", action="store_true", help="a page with the whole matrix")

"""The shape of the package, held by tests."""

import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import get_origin

import toolnexus

PACKAGE = Path(toolnexus.__file__).parent
LAYERS = {
    "errors": 0,
    "core": 0,
    "runtime": 1,
    "models": 2,
    "protocols": 2,
    "stores": 2,
    "telemetry": 2,
    "tools": 2,
    "engine": 3,
    "agents": 4,
    "graph": 4,
    "workflow": 4,
    "client": 5,
    "config": 6,
    "once": 6,
    "serving": 6,
    "workers": 6,
    "cli": 7,
    "__main__": 8,
}
SIDEWAYS = {("core", "errors"), ("tools", "protocols"), ("models", "protocols")}
HEAVY = (
    *("openai", "anthropic", "mcp", "a2a", "httpx", "httpx2", "aiohttp", "pydantic", "yaml", "jsonschema"),
    *("psycopg", "redis", "genai_prices", "pathlib", "urllib.parse"),
)
IMPORT = re.compile(r"^ *(?:from|import) toolnexus\.(\w+)", re.MULTILINE)
MOST_LINES = 500


@cache
def imports() -> list[tuple[str, str, Path]]:
    """Every import inside the package, also local ones and those for type checkers."""
    return [
        (file.relative_to(PACKAGE).with_suffix("").parts[0], module, file)
        for file in PACKAGE.rglob("*.py")
        for module in IMPORT.findall(file.read_text())
    ]


def test_imports_only_point_down() -> None:
    """[ARCH-01] A module imports only from lower layers or its own folder."""
    wrong = [
        f"{file.relative_to(PACKAGE)} imports {other}"
        for me, other, file in imports()
        if me not in ("__init__", "testing", other)
        and (me, other) not in SIDEWAYS
        and not LAYERS[other] < LAYERS[me]
    ]
    assert not wrong


def test_nothing_imports_the_test_kit() -> None:
    """[ARCH-02] `testing` is for users; the package does not lean on it."""
    assert not [str(file) for me, other, file in imports() if other == "testing" and me != "testing"]


def test_importing_the_package_loads_nothing_heavy() -> None:
    """[ARCH-03] `import toolnexus` and an unopened client load no third party."""
    program = (
        "import asyncio, sys\nbefore = set(sys.modules)\nimport toolnexus\n"
        "async def f(x: int) -> str:\n    'F.'\n    return ''\n"
        "model = toolnexus.OpenAIModel('m', base_url='http://localhost:9/v1', api_key='any-key-1')\n"
        "toolnexus.Client(model=model, tools=[f])\n"
        f"print([m for m in {HEAVY!r} if m in sys.modules.keys() - before])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_public_names_are_listed_and_load() -> None:
    """[ARCH-04] `__all__` is sorted, complete and true."""
    assert toolnexus.__all__ == sorted(toolnexus.__all__, key=lambda n: (n[0].islower(), n))
    assert set(toolnexus.__all__) == set(toolnexus._HOME)
    for name in toolnexus.__all__:
        value = getattr(toolnexus, name)
        assert value.__doc__ or name.islower() or get_origin(value) is not None  # an alias of a type


def test_files_stay_small() -> None:
    """[ARCH-05] A file that needs two captions is two files."""
    long = {str(f.relative_to(PACKAGE)): n for f in PACKAGE.rglob("*.py") if (n := _lines(f)) > MOST_LINES}
    assert not long


def _lines(file: Path) -> int:
    return len(file.read_text().splitlines())

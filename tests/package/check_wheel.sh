#!/usr/bin/env bash
# Installs a built wheel in an empty environment and uses it from another folder.
set -euo pipefail
wheel=$(realpath "$1")
here=$(realpath "$(dirname "$0")")
python=$(realpath .venv/bin/python)
away=$(mktemp -d)
trap 'rm -rf "$away"' EXIT
echo "toolnexus: trying the wheel in an empty environment"
"$python" -m venv "$away/venv"
"$away/venv/bin/python" -m pip install -q --disable-pip-version-check "$wheel"
cd "$away"
"$away/venv/bin/python" -I "$here/use_wheel.py"
"$away/venv/bin/toolnexus" --version
"$away/venv/bin/toolnexus" demo --plain >demo.txt
grep -q "agents" demo.txt
"$away/venv/bin/toolnexus" conformance --only "subagent-fanout|contract/builtins" >cases.txt
grep -q " 0 failed" cases.txt
echo "toolnexus: the wheel works"

#!/bin/sh
# Checks the stand-in with boto3 from PyPI, in a virtual environment that is removed afterwards. By hand: it needs the
# network. Last run: boto3 1.44.8, everything passed.
set -eu
venv=$(mktemp -d)
trap 'rm -rf "$venv"' EXIT
python3 -m venv "$venv"
"$venv/bin/pip" install --quiet boto3
"$venv/bin/python" "$(dirname "$0")/check_boto3.py"

#!/bin/sh
# Checks the cloud aws with moto from PyPI, in a virtual environment that is removed afterwards. By hand: it needs the
# network. ESPALIER names the program (espalier). Last run: moto 5.2.5, boto3 1.44.8, everything passed.
set -eu
espalier=$(command -v "${ESPALIER:-espalier}")
venv=$(mktemp -d)
trap 'rm -rf "$venv"' EXIT
python3 -m venv "$venv"
"$venv/bin/pip" install --quiet 'moto[server,ec2,ssm]' boto3
if ! "$venv/bin/python" "$(dirname "$0")/check_moto.py" "$espalier" 2>"$venv/log"; then
	tail -n 20 "$venv/log" >&2
	exit 1
fi

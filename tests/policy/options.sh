#!/bin/sh
# TAP: see options.py.
python=$(command -v python3) || { echo '1..0 # SKIP python3 is not installed'; exit 0; }
exec "$python" "$(dirname "$0")/options.py"

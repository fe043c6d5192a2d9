#!/bin/sh
# The short form of tests/bench/soak.sh.
exec sh "$(dirname "$0")/../bench/soak.sh" --exec 600 --calls 20000 2>/dev/null

#!/usr/bin/env python3
"""noop - acknowledges, and nothing else."""
import os
import sys

sys.dont_write_bytecode = True
here = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [here, os.path.join(here, "../../../sdk/python")]
import outbox_plugin as outbox  # noqa: E402


@outbox.handler("ack")
def ack(event, call):
    return outbox.ack()


outbox.run(max_in_flight=64)

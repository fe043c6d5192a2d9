#!/usr/bin/env -S python3 -B
"""hello - what to do with example.happened@v1.

-B above: nothing may be written into an installed bundle.
"""
import outbox_plugin as outbox


@outbox.handler("hello")
def hello(event, call):
    """Called in a thread; may be called again for the same event, so make
    the effect idempotent by call.idempotency_key."""
    if not isinstance(event.data, dict):
        return outbox.pause("the body is no object")
    if event.data.get("sorry"):
        return outbox.retry("not yet", after=60)

    for step in range(event.data.get("steps", 1)):
        if call.wait(0.01):  # work; true when outboxd has cancelled the call
            return outbox.retry("cancelled: %s" % call.cancel_reason)
        call.progress()

    call.log("info", "hello", event_id=event.id, attempt=call.attempt)
    return outbox.ack()


outbox.run(max_in_flight=4)

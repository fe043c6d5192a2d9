"""The handlers that worker.script, exec.script and throw.script ask for."""
import os
import subprocess
import sys
import threading
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                "../../sdk/python"))
import outbox_plugin as outbox  # noqa: E402

opened = threading.Event()


@outbox.handler("ack")
def ack(event, call):
    return outbox.ack()


@outbox.handler("retry")
def retry(event, call):
    return outbox.retry("later please", after=1.5)


@outbox.handler("pause")
def pause(event, call):
    return outbox.pause("no good")


@outbox.handler("down")
def down(event, call):
    return outbox.unavailable("target is down")


@outbox.handler("broken")
def broken(event, call):
    return None


@outbox.handler("throw")
def throw(event, call):
    raise ValueError("thrown")


@outbox.handler("facts")
def facts(e, call):
    return outbox.retry("|".join([
        e.id, e.source, e.type, e.contract_version, e.workspace, e.subject,
        e.time, e.attributes["traceparent"], call.handler,
        call.handler_version, call.subscriber, call.idempotency_key,
        "%d/%d" % (call.attempt, call.max_attempts)]))


@outbox.handler("echo")
def echo(event, call):
    return outbox.retry(event.data_text)


@outbox.handler("data")
def data(event, call):
    return outbox.retry("" + event.data["name"]["first"])


@outbox.handler("size")
def size(event, call):
    return outbox.retry(len(event.data_text))


@outbox.handler("weird")
def weird(event, call):
    return outbox.retry("a\n\"\x01\0\ud800" + "é" * 5000, after=-5)


@outbox.handler("gate")
def gate(event, call):
    opened.wait(10)
    return outbox.ack()


@outbox.handler("open")
def open_(event, call):
    opened.set()
    return outbox.ack()


@outbox.handler("wait")
def wait(event, call):
    print("waiting")
    call.progress()
    while not call.wait(10):
        pass
    return outbox.retry("cancelled: " + call.cancel_reason)


@outbox.handler("slow")
def slow(event, call):
    time.sleep(0.2)
    return outbox.ack()


@outbox.handler("progress")
def progress(event, call):
    before = call.deadline
    time.sleep(0.005)
    call.progress()
    call.progress()
    if "OUTBOX_ATTEMPT" not in os.environ and call.deadline <= before:
        return outbox.pause("the deadline did not move")
    return outbox.ack()


@outbox.handler("log")
def log(event, call):
    call.log("warn", 'two "words"', k="v")
    return outbox.ack()


@outbox.handler("print")
def print_(event, call):
    print('{"type":"result","call":"1","outcome":"pause"}')
    return outbox.ack()


@outbox.handler("child")
def child(event, call):
    got = subprocess.run("cat; { echo '{}' >&3; } 2>/dev/null", shell=True,
                         stdout=subprocess.PIPE, close_fds=False).stdout
    return outbox.pause("a child read %r" % got) if got else outbox.ack()


outbox.run(max_in_flight=4)

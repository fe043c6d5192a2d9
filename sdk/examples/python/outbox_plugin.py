"""outbox_plugin - handlers for outboxd, in Python 3.9 or newer.

One file, standard library only: copy it into the bundle.

    import outbox_plugin as outbox

    @outbox.handler("hello")
    def hello(event, call):
        print("order", event.data["order"])
        return outbox.ack()

    outbox.run(max_in_flight=4)

The same program is a worker (protocol: worker) and an exec handler
(protocol: exec); outboxd says which by OUTBOX_PROTOCOL.

A handler is called with an event and a call, and must return one of

    ack()                           it is done
    retry(reason, after=SECONDS)    not now; after: not earlier than that
    unavailable(reason)             not now, for the target is down: outboxd
                                    holds back what else would go there
    pause(reason)                   never by itself: a person must look

Anything else that it returns, None too, is a retry: nothing is acknowledged
in doubt.  An exception is a retry with its message; the traceback goes to
the log.  A handler may run more than once for one event: make the effect
idempotent by call.idempotency_key.

As a worker up to max_in_flight handlers run at once, each in a thread.  When
outboxd cancels a call (deadline, claim_lost, stop, operator), call.cancelled
turns true and call.wait() returns; what the handler then returns still has
to come, and soon.  Descriptors 1 and 2 are log lines; results go to
descriptor 3, so a print() does no harm.
"""

import json
import os
import queue
import re
import signal
import sys
import threading
import time
import traceback
from decimal import Decimal

__all__ = ["handler", "run", "ack", "retry", "unavailable", "pause",
           "Event", "Call", "Result", "Cancelled"]

REASON_MAX = 1024
CODE_MAX = 64
RETRY_AFTER_MAX_MS = 7 * 24 * 3600 * 1000
LOG_MAX = 4096
FIELD_MAX = 1024
FIELDS_MAX = 16

EX_SOFTWARE, EX_IOERR, EX_TEMPFAIL, EX_CONFIG = 70, 74, 75, 78
EX_USAGE, EX_DATAERR, EX_UNAVAILABLE = 64, 65, 69


# What a handler returns.

class Result:
    """Made by ack(), retry(), unavailable() and pause()."""

    __slots__ = ("outcome", "reason", "after", "code")

    def __init__(self, outcome, reason=None, after=None, code=None):
        self.outcome = outcome
        self.reason = reason
        self.after = after
        self.code = code

    def __repr__(self):
        return "<%s reason=%r>" % (self.outcome, self.reason)

    def members(self):
        """What it says beside the outcome, fit for a frame."""
        said = {}
        if self.after is not None:
            ms = int(float(self.after) * 1000)
            said["retry_after_ms"] = max(0, min(ms, RETRY_AFTER_MAX_MS))
        if self.reason is not None:
            said["reason"] = _clean(self.reason, REASON_MAX)
        if self.code is not None:
            said["code"] = _clean(self.code, CODE_MAX)
        return said


def ack():
    """It is done."""
    return Result("ack")


def retry(reason=None, after=None, code=None):
    """Not now.  after: seconds; outboxd's own backoff may be longer."""
    return Result("retry", reason, after, code)


def unavailable(reason=None, after=None):
    """Not now, and nothing else that goes to the same target either."""
    return Result("retry", reason, after, "unavailable")


def pause(reason=None, code=None):
    """Never by itself: the delivery waits for a person."""
    return Result("pause", reason, None, code)


# What a handler is called with.

class Event:
    """A fact, as a CloudEvents 1.0 event.

    id, source, type (the contract), contract_version, workspace, time (RFC
    3339, UTC), subject (None: none); attributes: all of them by name, also
    such as traceparent; data: the parsed body; data_text: its exact text.
    """

    def __init__(self, attributes, data_text, data=None, parsed=False):
        self.attributes = attributes
        self._data_text = data_text
        self._data = data
        self._parsed = parsed

    def _get(self, name):
        return self.attributes.get(name)

    id = property(lambda self: self._get("id"))
    source = property(lambda self: self._get("source"))
    type = property(lambda self: self._get("type"))
    contract_version = property(lambda self: self._get("contractversion"))
    workspace = property(lambda self: self._get("workspace"))
    subject = property(lambda self: self._get("subject"))
    time = property(lambda self: self._get("time"))

    @property
    def data_text(self):
        """The body, character for character."""
        if callable(self._data_text):
            self._data_text = self._data_text()
        return self._data_text

    @property
    def data(self):
        """The body, parsed by json.  Whole numbers are exact."""
        if not self._parsed:
            self._data = _loads(self.data_text)
            self._parsed = True
        return self._data

    def __repr__(self):
        return "<event %s %s@%s>" % (self.id, self.type, self.contract_version)


class Cancelled(Exception):
    """Raised by call.check()."""


class Call:
    """One attempt: who is asked, for how long, and whether still.

    handler, handler_version, subscriber; attempt (from 1), max_attempts;
    idempotency_key: equal over all attempts; deadline: by time.monotonic().
    """

    def __init__(self, host, number, handler, timeout, limits=None):
        self._host = host
        self._cancel = threading.Event()
        self._deadline_s, self._max_runtime_s = limits or (timeout, timeout)
        self._started = time.monotonic()
        self.number = number
        self.handler = handler
        self.deadline = self._started + timeout
        self.attempt = 1
        self.max_attempts = 1
        self.idempotency_key = ""
        self.handler_version = ""
        self.subscriber = ""
        self.cancel_reason = None

    @property
    def cancelled(self):
        return self._cancel.is_set()

    def remaining(self):
        """Seconds until the deadline; never below 0."""
        return max(0.0, self.deadline - time.monotonic())

    def wait(self, seconds):
        """Sleeps, but not past a cancel.  True: it is cancelled."""
        return self._cancel.wait(seconds)

    def check(self):
        """Raises Cancelled if it is."""
        if self.cancelled:
            raise Cancelled("cancelled: %s" % self.cancel_reason)

    def progress(self):
        """Says that work goes on: the deadline begins anew, until
        max_runtime is used up.  An exec handler has no such thing."""
        if self._host.progress(self):
            now = time.monotonic()
            self.deadline = max(self.deadline,
                                min(now + self._deadline_s,
                                    self._started + self._max_runtime_s))

    def log(self, level, message, **fields):
        """A line in outboxd's log; level: debug, info, warn or error."""
        if level not in ("debug", "info", "warn", "error"):
            raise ValueError("no such level: %r" % (level,))
        self._host.log(self, level, _clean(message, LOG_MAX),
                       {_clean(k, 64): _clean(v, FIELD_MAX)
                        for k, v in list(fields.items())[:FIELDS_MAX]})

    def _cancel_now(self, reason):
        if self.cancel_reason is None:
            self.cancel_reason = reason
        self._cancel.set()


# Registering and running.

_handlers = {}


def handler(name):
    """Decorator: this function is the handler of that name."""
    def register(fn):
        if name in _handlers:
            raise ValueError("two handlers named %r" % (name,))
        _handlers[name] = fn
        return fn
    return register


def run(max_in_flight=4):
    """Serves until outboxd says that it is over; does not return."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(line_buffering=True, errors="backslashreplace")
    results = int(os.environ.get("OUTBOX_RESULT_FD", "3"))
    if os.environ.get("OUTBOX_PROTOCOL") == "exec/1":
        status = _Exec(results).run()
    else:
        status = _Worker(results, max_in_flight).run()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:
        pass
    os._exit(status)  # a thread that hangs must not keep the process


def _die(status, words):
    print("outbox_plugin: %s" % words, file=sys.stderr, flush=True)
    os._exit(status)


def _call_handler(fn, event, call):
    try:
        result = fn(event, call)
    except Exception as e:  # a traceback is no reason to lose an obligation
        traceback.print_exc()
        return retry("%s: %s" % (type(e).__name__, e))
    if isinstance(result, Result):
        return result
    return retry("the handler returned %s, which is no result"
                 % type(result).__name__)


def _private_stdin():
    """Descriptor 0 moved away, so that no child of ours reads from it."""
    fd = os.dup(0)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    return fd


# exec/1

class _Exec:
    def __init__(self, results):
        self.results = results

    def progress(self, call):
        return False

    def log(self, call, level, message, fields):
        print(level, message, *("%s=%s" % f for f in fields.items()),
              file=sys.stderr)

    def read_event(self):
        with os.fdopen(_private_stdin(), "rb") as f:
            raw = f.read()
        wanted = os.environ.get("OUTBOX_INPUT_BYTES", str(len(raw)))
        if int(wanted) != len(raw):
            _die(EX_TEMPFAIL, "%d bytes of input, not %s" % (len(raw), wanted))
        return _event(raw.decode("utf-8"))

    def run(self):
        env = os.environ
        names = list(_handlers)
        name = env.get("OUTBOX_HANDLER", names[0] if len(names) == 1 else "")
        fn = _handlers.get(name)
        if fn is None:
            _die(EX_CONFIG, "there is no handler named %r" % name)
        timeout = int(env.get("OUTBOX_TIMEOUT_MS", "60000")) / 1000
        call = Call(self, "", name, timeout)
        call.attempt = int(env.get("OUTBOX_ATTEMPT", "1"))
        call.max_attempts = int(env.get("OUTBOX_MAX_ATTEMPTS", "1"))
        call.idempotency_key = env.get("OUTBOX_IDEMPOTENCY_KEY", "")
        call.handler_version = env.get("OUTBOX_HANDLER_VERSION", "")
        call.subscriber = env.get("OUTBOX_SUBSCRIBER", "")
        signal.signal(signal.SIGTERM,
                      lambda number, frame: call._cancel_now("deadline"))
        try:
            os.set_inheritable(self.results, False)
        except OSError:
            pass
        return self.finish(_call_handler(fn, self.read_event(), call))

    def finish(self, result):
        """The status alone says enough, should the words be lost."""
        said = result.members()
        if result.outcome == "ack":
            return 0
        try:
            if said:
                _write_all(self.results, _frame(said))
        except OSError:  # run by hand
            print(result.outcome, said, file=sys.stderr)
        if result.outcome == "pause":
            return EX_DATAERR
        return EX_UNAVAILABLE if result.code == "unavailable" else EX_TEMPFAIL


# worker/1

class _Term(BaseException):
    pass


class _Worker:
    def __init__(self, results, max_in_flight):
        self.results = results
        self.threads = max(1, int(max_in_flight))
        self.calls = {}  # those that are owed a result
        self.lock = threading.Condition()  # of calls, and of descriptor 3
        self.todo = queue.SimpleQueue()
        self.limits = {}

    def send(self, frame):
        line = _frame(frame)
        with self.lock:
            try:
                _write_all(self.results, line)
            except OSError as e:
                _die(EX_IOERR, "outboxd does not listen any more: %s" % e)

    def progress(self, call):
        with self.lock:
            owed = self.calls.get(call.number) is call
            if owed:
                self.send({"type": "progress", "call": call.number})
        return owed

    def log(self, call, level, message, fields):
        frame = {"type": "log", "level": level, "message": message}
        if fields:
            frame["fields"] = fields
        with self.lock:
            if self.calls.get(call.number) is call:
                frame["call"] = call.number
            self.send(frame)

    def on_hello(self, frame):
        if frame.get("protocol") != "worker/1":
            _die(EX_CONFIG, "outboxd speaks %r, not worker/1"
                 % (frame.get("protocol"),))
        names = []
        for h in frame.get("handlers", []):
            name = h["name"]
            if name not in _handlers:
                _die(EX_CONFIG, "there is no handler named %r" % name)
            deadline = h.get("deadline_ms", 60000) / 1000
            longest = h.get("max_runtime_ms", h.get("deadline_ms", 60000))
            self.limits[name] = (deadline, longest / 1000)
            names.append(name)
        theirs = frame.get("limits", {}).get("max_in_flight", self.threads)
        self.threads = max(1, min(self.threads, theirs))
        for _ in range(self.threads):
            threading.Thread(target=self.serve, daemon=True).start()
        self.send({"type": "hello", "protocol": "worker/1", "sdk": "python/1"})
        self.send({"type": "ready", "max_in_flight": self.threads,
                   "handlers": names})

    def on_deliver(self, frame, line):
        name = frame["handler"]
        call = Call(self, frame["call"], name,
                    frame.get("timeout_ms", 60000) / 1000,
                    self.limits.get(name))
        call.attempt = frame.get("attempt", 1)
        call.max_attempts = frame.get("max_attempts", 1)
        call.idempotency_key = frame.get("idempotency_key", "")
        target = frame.get("target", {})
        call.subscriber = target.get("subscriber", "")
        call.handler_version = target.get("handler_version", "")
        event = frame["event"]
        if not isinstance(event, Event):
            event = _parsed_event(
                event, lambda: _data_text(line, "event", "data"))
        with self.lock:
            self.calls[call.number] = call
        self.todo.put((call, event))

    def serve(self):
        while True:
            call, event = self.todo.get()
            fn = _handlers.get(call.handler)
            if call.cancelled:
                result = retry("cancelled before it was started")
            elif fn is None:
                result = retry("there is no handler named %r" % call.handler)
            else:
                result = _call_handler(fn, event, call)
            del event
            frame = {"type": "result", "call": call.number,
                     "outcome": result.outcome}
            frame.update(result.members())
            with self.lock:  # nothing about a call may follow its result
                self.send(frame)
                del self.calls[call.number]
                self.lock.notify_all()

    def on_frame(self, line):
        """False: drain."""
        frame = _split_frame(line)
        kind = frame.get("type")
        if kind == "deliver":
            self.on_deliver(frame, line)
        elif kind == "cancel":
            with self.lock:
                call = self.calls.get(frame.get("call"))
            if call is not None:
                call._cancel_now(frame.get("reason", "unknown"))
        elif kind == "ping":
            self.send({"type": "pong", "id": frame.get("id")})
        elif kind == "hello":
            self.on_hello(frame)
        elif kind == "drain":
            return False
        return True

    def read(self, frames):
        for line in frames:
            try:
                if not self.on_frame(line.decode("utf-8")):
                    self.drain()
            except (ValueError, KeyError, TypeError, AttributeError) as e:
                _die(EX_SOFTWARE, "outboxd sent a frame that cannot be read: "
                     "%s: %s" % (type(e).__name__, e))

    def drain(self):
        """Leaves when the last is answered; cancels still come in."""
        def leave():
            self.finish()
            os._exit(0)
        threading.Thread(target=leave, daemon=True).start()

    def finish(self):
        with self.lock:
            while self.calls:
                self.lock.wait()

    def run(self):
        if not _handlers:
            _die(EX_USAGE, "no handler is registered")
        try:
            os.set_inheritable(self.results, False)
        except OSError:
            _die(EX_USAGE, "descriptor %d is not open: this is a plugin of "
                 "outboxd; try outboxctl plugin test" % self.results)

        def on_term(number, frame):
            raise _Term()
        signal.signal(signal.SIGTERM, on_term)
        try:
            with os.fdopen(_private_stdin(), "rb", 65536) as frames:
                self.read(frames)
        except (_Term, KeyboardInterrupt):
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            with self.lock:
                for call in self.calls.values():
                    call._cancel_now("stop")
        self.finish()
        return 0


# JSON

_SCALAR = re.compile(r'[^,}\]\s]+')
_BLANKS = re.compile(r'[ \t\r\n]*')
_TOKEN = re.compile(r'["{}\[\]]')


def _whole(digits):
    try:
        return int(digits)
    except ValueError:  # more digits than int() takes: exact all the same
        return Decimal(digits)


def _loads(text):
    try:
        return json.loads(text)
    except ValueError:
        return json.loads(text, parse_int=_whole)


def _string_end(s, at):
    """Behind the string that begins at s[at]."""
    if s[at] != '"':
        raise ValueError("no string")
    begin = at + 1
    while True:
        end = s.find('"', begin)
        if end == -1:
            raise ValueError("a string has no end")
        piece = s[begin:end]
        if (len(piece) - len(piece.rstrip("\\"))) % 2 == 0:
            return end + 1
        begin = end + 1


def _value_end(s, at):
    if s[at] == '"':
        return _string_end(s, at)
    if s[at] not in "{[":
        return _SCALAR.match(s, at).end()
    depth = 0
    while True:
        m = _TOKEN.search(s, at)
        at = m.end()
        if m.group() == '"':
            at = _string_end(s, at - 1)
        elif m.group() in "{[":
            depth += 1
        else:
            depth -= 1
            if depth == 0:
                return at


def _members(s, at):
    """Where the members of the object at s[at] are: {key: (from, to)}.
    Looks no deeper, so a body's depth and numbers do not matter."""
    found = {}
    try:
        at = _BLANKS.match(s, at).end()
        if s[at] != "{":
            raise ValueError("not an object")
        at = _BLANKS.match(s, at + 1).end()
        while s[at] != "}":
            end = _string_end(s, at)
            key = json.loads(s[at:end])
            at = _BLANKS.match(s, end).end()
            if s[at] != ":":
                raise ValueError("no colon")
            begin = _BLANKS.match(s, at + 1).end()
            end = _value_end(s, begin)
            found[key] = (begin, end)
            at = _BLANKS.match(s, end).end()
            if s[at] == ",":
                at = _BLANKS.match(s, at + 1).end()
    except (IndexError, AttributeError):
        raise ValueError("not JSON") from None
    return found


def _data_text(s, *path):
    at = 0
    for key in path:
        at, end = _members(s, at)[key]
    return s[at:end]


def _parsed_event(members, data_text):
    attributes = {k: v for k, v in members.items() if k != "data"}
    return Event(attributes, data_text, members.get("data"), "data" in members)


def _event(text, at=0):
    """An event of which only the attributes are parsed now."""
    where = _members(text, at)
    attributes = {k: json.loads(text[b:e])
                  for k, (b, e) in where.items() if k != "data"}
    begin, end = where.get("data", (0, 0))
    return Event(attributes, text[begin:end] or "null")


def _split_frame(line):
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        # A body that json does not take is the handler's to look at.
        where = _members(line, 0)
        frame = {k: json.loads(line[b:e])
                 for k, (b, e) in where.items() if k != "event"}
        if "event" in where:
            frame["event"] = _event(line, where["event"][0])
        return frame


def _frame(members):
    text = json.dumps(members, separators=(",", ":"), ensure_ascii=False)
    return text.encode("utf-8") + b"\n"


def _clean(text, limit):
    """At most limit bytes of UTF-8, without NUL and lone surrogates."""
    raw = str(text).replace("\0", "\ufffd").encode("utf-8", "replace")
    return raw[:limit].decode("utf-8", "ignore")


def _write_all(fd, raw):
    view = memoryview(raw)
    while view:
        view = view[os.write(fd, view):]

"""wire.py: Redis's protocol for the rigs, as little of it as they need.

Words go out, values come back: str for a status, Refused for an error, int,
bytes, None and lists.  Nothing of the library: what checks it must not share
its mistakes.
"""

import socket


def command(words):
    """The bytes of one.  Joined, since bytes that are added to are copied each
    time."""
    text = [b"*%d\r\n" % len(words)]
    for w in words:
        b = w if isinstance(w, bytes) else str(w).encode()
        text.append(b"$%d\r\n%s\r\n" % (len(b), b))
    return b"".join(text)


class Refused(Exception):
    """An error reply."""


class Wire:
    """A connection; of a Unix path, or of a port of 127.0.0.1."""

    def __init__(self, where, timeout=10):
        if isinstance(where, int):
            self.socket = socket.create_connection(("127.0.0.1", where),
                                                   timeout)
        else:
            self.socket = socket.socket(socket.AF_UNIX)
            self.socket.settimeout(timeout)
            try:
                self.socket.connect(str(where))
            except OSError:
                self.socket.close()
                raise
        self.file = self.socket.makefile("rb")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.file.close()
        self.socket.close()

    def send(self, *words):
        self.socket.sendall(command(words))

    def reply(self):
        """The next reply; an error that is not the whole of it is a value."""
        line = self.file.readline()
        if not line.endswith(b"\r\n"):
            raise OSError("the server closed the connection")
        kind, rest = line[:1], line[1:-2]
        if kind == b"+":
            return rest.decode()
        if kind == b"-":
            return Refused(rest.decode(errors="replace"))
        if kind == b":":
            return int(rest)
        if kind == b"$":
            return None if rest == b"-1" else \
                self.file.read(int(rest) + 2)[:-2]
        if kind == b"*":
            return None if rest == b"-1" else \
                [self.reply() for _ in range(int(rest))]
        raise OSError(f"not a reply: {line!r}")

    def call(self, *words):
        self.send(*words)
        answer = self.reply()
        if isinstance(answer, Refused):
            raise answer
        return answer


def ask(where, *words, timeout=5):
    """One command on a connection of its own; raises OSError or Refused."""
    with Wire(where, timeout) as w:
        return w.call(*words)


def answers(where, *words):
    """The same; None where there is no answer or an error."""
    try:
        return ask(where, *words)
    except (OSError, Refused):
        return None

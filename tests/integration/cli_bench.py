"""A bench: a user with files and programs, on a server that is empty at first."""

import contextlib
import json
import os
import pty
import subprocess

from cli_help import LEAT, SECONDS, Home, Redis, exits, on_terminal, run


class Bench:
    """What a test works with: a user, a server, files."""

    def __init__(self, server):
        self.home = Home()
        self.server = server
        self.started = []
        server.call("FLUSHALL")

    def run(self, *args, **kw):
        kw["env"] = {"LEAT_URL": self.server.url, **kw.get("env", {})}
        return self.home.run(*args, **kw)

    def good(self, *args, **kw):
        p = self.run(*args, **kw)
        exits(p, 0)
        return p

    def json(self, *args):
        return json.loads(self.good(*args, "-o", "json").out)

    def start(self, *args, env=None, **kw):
        kw = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE,
              "stderr": subprocess.PIPE, **kw}
        p = subprocess.Popen([LEAT, *args], env=self.home.env(
            LEAT_URL=self.server.url, **(env or {})), **kw)
        self.started.append(p)
        return p

    def path(self, name):
        return os.path.join(self.home.tmp, name)

    def lines(self, name):
        try:
            with open(self.path(name)) as f:
                return f.read().splitlines()
        except FileNotFoundError:
            return []

    def script(self, text, name="program"):
        """A program; $T is its directory."""
        path = self.path(name)
        with open(path, "w") as f:
            f.write(f"#!/bin/sh\nT='{self.home.tmp}'\n{text}\n")
        os.chmod(path, 0o700)
        return path

    def topic(self, name="orders", partitions=1, lines=0):
        self.good("topic", "create", name, "-n", str(partitions))
        if lines:
            self.send(name, [f"m{i}" for i in range(lines)])

    def send(self, name, lines, *options):
        return self.good("topic", "send", name, *options,
                         stdin="".join(x + "\n" for x in lines).encode())

    def tail(self, name, *options):
        p = self.good("topic", "tail", name, "--from", "start", "-o",
                      "ndjson", *options)
        return [json.loads(x) for x in p.out.splitlines()]

    def consume(self, *options, n=0, group="g", topic="orders", **kw):
        """Until n messages are through; 0: until nothing comes."""
        end = ["--count", str(n)] if n else ["--until-idle", "1s"]
        return self.run("consume", topic, "-g", group, *end, *options, **kw)

    def dead(self, topic="orders", partition=0):
        """The dead letters of a partition, by the names of their fields."""
        rows = self.server.call("XRANGE", f"leat:{{{topic}/{partition}}}:dlq",
                                "-", "+")
        rows = [[x.decode(errors="replace") for x in r[1]] for r in rows]
        return [dict(zip(r[::2], r[1::2])) for r in rows]

    def lag(self, group="g", topic="orders"):
        return self.json("group", "info", topic, group)["lag"]

    def answer(self, question, word, *args, before=None):
        """On a terminal, to this question; the exit code.  `before` is called
        when it is asked."""
        pid, fd = pty.fork()
        if pid == 0:
            os.execve(LEAT, [LEAT, *args],
                      self.home.env(LEAT_URL=self.server.url))
        text = b""
        while question.encode() not in text:
            text += os.read(fd, 4096)    # ends by an error if it ends
        if before:
            before()
        os.write(fd, word.encode() + b"\n")
        try:
            while os.read(fd, 4096):
                pass
        except OSError:
            pass
        os.close(fd)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    def screen(self, *args, env=None, **kw):
        """On a terminal, without colours; what it showed, and the exit code."""
        return on_terminal(self.home, *args, env={
            "LEAT_URL": self.server.url, "NO_COLOR": "1", **(env or {})}, **kw)

    def close(self):
        for p in self.started:
            if p.poll() is None:
                p.kill()
            p.communicate()
        self.home.close()


def ended(p, code, seconds=SECONDS):
    out, err = p.communicate(timeout=seconds)
    assert p.returncode == code, (p.returncode, out, err)
    return (out or b"").decode(), err.decode()


def main(name, kind=Bench):
    """The tests of a module, each with a bench of this kind for its own."""
    with contextlib.closing(Redis(None, "--appendonly", "yes")) as server:
        return run(name, ("b",), lambda: kind(server))

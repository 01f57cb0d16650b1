"""TLS by the command: options, variables, contexts.

Each check is a function whose name is the promise; TAP on stdout.
Usage: LEAT_CERTS=PROGRAM cli_tls.py PATH_TO_LEAT [PATTERN]
"""

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile

from cli_help import Home, Server, equal, exits, free_port, run

CERTS = os.environ["LEAT_CERTS"]


class Secure(Server):
    """A server that also speaks TLS, and asks for certificates if told to."""

    def __init__(self, *options):
        self.certs = tempfile.mkdtemp(prefix="leat-tls-")
        subprocess.run([CERTS, self.certs], check=True)
        port = free_port()
        super().__init__(None, "--bind", "127.0.0.1", "--tls-port", str(port),
                         "--tls-cert-file", self.path("server.crt"),
                         "--tls-key-file", self.path("server.key"),
                         "--tls-ca-cert-file", self.path("ca.crt"), *options)
        self.url = f"rediss://localhost:{port}"

    def path(self, name):
        return os.path.join(self.certs, name)

    def close(self):
        super().close()
        shutil.rmtree(self.certs, ignore_errors=True)


PING = ["ping", "-c", "1"]


def a_server_is_verified_by_option_variable_and_url(h, s):
    ca = s.path("ca.crt")
    p = h.run(*PING, "-u", s.url)
    exits(p, 77)
    assert "not trusted here" in p.err and "cafile" in p.err, p.err
    exits(h.run(*PING, "-u", s.url, "--cafile", ca), 0)
    exits(h.run(*PING, "-u", s.url, env={"LEAT_CAFILE": ca}), 0)
    exits(h.run(*PING, "-u", f"{s.url}?cafile={ca}"), 0)
    exits(h.run(*PING, "-u", s.url, "--cafile", "/none"), 64)


def insecure_is_loud(h, s):
    p = h.run(*PING, "-u", s.url, "--insecure")
    exits(p, 0)
    equal(p.err.count("not verified"), 1)


def a_certificate_of_ours_is_shown(h, s):
    asking = Secure("--tls-auth-clients", "yes")
    try:
        ca, cert = asking.path("ca.crt"), asking.path("client.crt")
        key = asking.path("client.key")
        ping = [*PING, "-u", asking.url, "--cafile", ca]
        p = h.run(*ping)
        exits(p, 77)
        assert "asks for a certificate of ours" in p.err, p.err
        exits(h.run(*ping, "--cert", cert, "--cert-key", key), 0)
        os.chmod(key, 0o644)
        p = h.run(*ping, "--cert", cert, "--cert-key", key)
        exits(p, 64)
        assert "chmod 600" in p.err, p.err
    finally:
        asking.close()


def a_context_keeps_the_options_of_tls(h, s):
    ca = s.path("ca.crt")
    exits(h.run("context", "add", "shop", s.url, "--cafile", ca, "--use"), 0)
    show = json.loads(h.run("context", "show", "shop", "-o", "json").out)
    equal(show["cafile"], ca)
    equal(show["insecure"], None)
    exits(h.run(*PING), 0)
    exits(h.run("status"), 0)
    # What is kept for one server does not travel to another.
    exits(h.run(*PING, "-u", s.url), 77)
    exits(h.run("context", "add", "wild", s.url, "--insecure"), 0)
    p = h.run(*PING, "--context", "wild")
    exits(p, 0)
    assert "not verified" in p.err, p.err
    exits(h.run(*PING, "-u", s.url), 77)


def options_of_tls_do_not_hinder_a_plain_server(h, s):
    exits(h.run(*PING, "-u", "unix://" + s.socket, "--cafile", "/none"), 0)


if __name__ == "__main__":
    with contextlib.closing(Secure("--tls-auth-clients", "no")) as one:
        sys.exit(run(__name__, ("h", "s"), Home, one))

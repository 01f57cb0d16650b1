"""`leat status`: what it says of a server's durability, run as a user runs it.

Each check is a function whose name is the promise; TAP on stdout.
Usage: cli_status.py PATH_TO_LEAT [PATTERN]
"""

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile

from cli_help import (LEAT, SECONDS, Home, Redis, equal, exits, free_port,
                      on_terminal, run, wait_for)


class Tcp(Redis):
    """The same on a port, too; another program may be quicker to take it."""

    def __init__(self, *options, cluster=False):
        for _ in range(20):
            self.port = free_port()
            more = ["--cluster-enabled", "yes", "--cluster-port",
                    str(free_port())] if cluster else []
            try:
                super().__init__(None, *options, "--port", str(self.port),
                                 "--repl-diskless-sync-delay", "0", *more)
                return
            except AssertionError:
                self.close()
        raise AssertionError("no port")

    def close(self):
        self.process.kill()     # a replica that writes its first AOF stays
        super().close()


class Sentinel:
    """One that watches a master and believes itself."""

    def __init__(self, master):
        binary = shutil.which("redis-server") or shutil.which("redis-check-rdb")
        self.dir = tempfile.mkdtemp(prefix="leat-sen-")
        self.port = free_port()
        conf = os.path.join(self.dir, "conf")
        with open(conf, "w") as f:
            f.write(f"port {self.port}\nbind 127.0.0.1\ndir {self.dir}\n"
                    f"sentinel monitor mymaster 127.0.0.1 {master.port} 1\n")
        self.process = subprocess.Popen(
            ["redis-server", conf, "--sentinel"], executable=binary,
            stdout=subprocess.DEVNULL)

    def says(self, line):
        with socket.create_connection(("127.0.0.1", self.port), SECONDS) as s:
            s.sendall(line.encode() + b"\r\n")
            return s.recv(100).decode()

    def close(self):
        self.process.terminate()
        self.process.wait()
        shutil.rmtree(self.dir, ignore_errors=True)


def status(h, server, *args, code=0, **env):
    p = h.run("status", "-u", server.url, "-o", "json", *args, env=env)
    exits(p, code)
    return json.loads(p.out)


def each_policy_is_named_and_explained(h, s):
    for policy, name, words in (("no", "executed", "half minute"),
                                ("everysec", "logged", "two seconds"),
                                ("always", "synced", "takes nothing back")):
        equal(s.call("CONFIG", "SET", "appendfsync", policy), "+OK")
        got = status(h, s)
        equal((got["durability"], got["asked"]), (name, "executed"))
        assert words in got["meaning"], got
    equal(got["possible"], "synced")
    assert "min-replicas-to-write 1" in got["for_more"], got
    equal(got["warnings"], [])
    equal((got["topology"], got["nodes"]), ("single", [s.socket + " master"]))


def a_durability_that_is_lacking_is_told_by_the_exit_code(h, s):
    got = status(h, s, "--durability", "synced", code=78)
    equal((got["durability"], got["asked"]), ("logged", "synced"))
    equal(len(got["warnings"]), 1)
    assert "set appendfsync always" in got["warnings"][0], got
    status(h, s, code=78, LEAT_DURABILITY="replicated")
    status(h, s, code=0, LEAT_DURABILITY="logged")
    p = h.run("status", "-u", s.url + "?durability=synced", "-o", "json")
    exits(p, 78)
    s.call("CONFIG", "SET", "appendfsync", "always")
    equal(status(h, s, "--durability", "synced")["warnings"], [])


def a_class_that_is_asked_for_by_name_overrules_the_url(h, s):
    url = s.url + "?durability=replicated&replicas=2"
    for name in ("executed", "logged"):
        p = h.run("status", "-u", url, "--durability", name, "-o", "json")
        exits(p, 0)
        equal(json.loads(p.out)["asked"], name)


def a_context_can_ask_for_durability(h, s):
    h.write_config(f'[context.prod]\nurl = "{s.url}"\ndurability = "synced"\n')
    exits(h.run("--context", "prod", "status"), 78)
    p = h.run("--context", "prod", "topic", "ls")
    exits(p, 78)
    assert "durability 'synced' is not given" in p.err, p.err
    s.call("CONFIG", "SET", "appendfsync", "always")
    exits(h.run("--context", "prod", "topic", "ls"), 0)
    h.write_config('durability = "safe"\n')
    exits(h.run("status"), 78)


def no_other_command_runs_on_a_server_that_lacks_it(h, s):
    for words in (["topic", "ls"], ["topic", "create", "t"]):
        p = h.run(*words, "-u", s.url, "--durability", "synced")
        exits(p, 78)
        assert "set appendfsync always" in p.err, p.err
    exits(h.run("topic", "ls", "-u", s.url, "--durability", "safe"), 64)
    exits(h.run("ping", "-c", "1", "-u", s.url, "--durability", "synced"), 0)


def on_a_terminal_sentences_are_wrapped(h, s):
    text, code = on_terminal(h, "status", "-u", s.url, "--color", "never",
                             "--durability", "synced", env={"COLUMNS": "80"})
    equal(code, 78)
    lines = text.replace("\r", "").split("\n")
    at = next(i for i, x in enumerate(lines) if x.startswith("meaning "))
    assert lines[at + 1].startswith(" " * 18), lines[at:at + 2]
    assert any(x.startswith("! durability 'synced'") for x in lines), lines
    assert all(len(x) <= 80 for x in lines if s.socket not in x), lines


def replicas_and_their_state_are_shown(h, s):
    master = Tcp("--appendonly", "yes", "--appendfsync", "always",
                 "--min-replicas-to-write", "1")
    replica = Tcp()
    try:
        got = status(h, master)
        assert any("refuses writes" in w for w in got["warnings"]), got
        status(h, master, "--durability", "replicated", code=78)
        replica.call("REPLICAOF", "127.0.0.1", master.port)
        wait_for(lambda: status(h, master)["replica_lag_s"] is not None,
                 SECONDS)
        got = status(h, master, "--durability", "replicated")
        equal((got["replicas"], got["durability"], got["warnings"]),
              (1, "replicated", []))
        got = status(h, replica)
        assert any("this is a replica" in w for w in got["warnings"]), got
    finally:
        replica.close()
        master.close()


def a_failover_that_happened_is_shown(h, s):
    master, replica = Tcp("--appendonly", "yes"), Tcp("--appendonly", "yes")

    def failover(server, *args):
        got = status(h, server, *args)
        return got["failover"], got["failover_offset"]
    try:
        equal(failover(master), ("none", None))
        replica.call("REPLICAOF", "127.0.0.1", master.port)
        wait_for(lambda: b"master_link_status:up" in
                 replica.call("INFO", "replication"), SECONDS)
        equal(failover(replica), ("none", None))
        equal(replica.call("REPLICAOF", "NO", "ONE"), "+OK")
        text, offset = failover(replica)
        assert "this server took over from another master" in text, text
        info = replica.call("INFO", "replication").decode()
        assert f"second_repl_offset:{offset}\r" in info, (offset, info)
        master.call("REPLICAOF", "127.0.0.1", replica.port)
        wait_for(lambda: b"master_link_status:up" in
                 master.call("INFO", "replication"), SECONDS)
        if failover(master)[1] is not None:     # it took no whole copy
            assert "the master of this replica" in failover(master)[0]
        # Who may not ask does not know.
        replica.call("ACL", "SETUSER", "default", "-info")
        equal(failover(replica), (None, None))
    finally:
        replica.close()
        master.close()


def the_servers_behind_a_sentinel_are_shown(h, s):
    master, replica = Tcp("--appendonly", "yes"), Tcp("--appendonly", "yes")
    replica.call("REPLICAOF", "127.0.0.1", master.port)
    watch = Sentinel(master)
    try:
        url = f"redis+sentinel://127.0.0.1:{watch.port}/mymaster"

        def nodes():
            p = h.run("status", "-u", url, "-o", "json")
            got = json.loads(p.out) if p.returncode == 0 else {"nodes": []}
            return got if len(got["nodes"]) == 2 else None
        got = wait_for(nodes, 2 * SECONDS)
        equal(got["topology"], "sentinel")
        equal(sorted(got["nodes"]), sorted([
            f"127.0.0.1:{master.port} master",
            f"127.0.0.1:{replica.port} replica of 127.0.0.1:{master.port}"]))
        equal((got["failover"], got["sentinel_epoch"]), ("none", 0))
        equal(status(h, master)["sentinel_epoch"], None)
    finally:
        watch.close()
        replica.close()
        master.close()


def a_failover_that_sentinels_led_is_shown_by_their_epoch(h, s):
    master, replica = Tcp("--appendonly", "yes"), Tcp("--appendonly", "yes")
    replica.call("REPLICAOF", "127.0.0.1", master.port)
    watch = Sentinel(master)
    try:
        url = f"redis+sentinel://127.0.0.1:{watch.port}/mymaster"

        def look(epoch):
            p = h.run("status", "-u", url, "-o", "json")
            got = json.loads(p.out) if p.returncode == 0 else {}
            return got if (got.get("sentinel_epoch") == epoch and
                           len(got["nodes"]) == 2) else None
        wait_for(lambda: look(0), 2 * SECONDS)
        wait_for(lambda: "+OK" in watch.says("SENTINEL FAILOVER mymaster"),
                 2 * SECONDS)
        got = wait_for(lambda: look(1), 2 * SECONDS)
        assert "took over" in got["failover"], got
        # A server that forgets it: the sentinels still know.
        replica.call("ACL", "SETUSER", "default", "-info")
        got = wait_for(lambda: look(1), 2 * SECONDS)
        assert "the sentinels have replaced a master" in got["failover"], got
    finally:
        watch.close()
        replica.close()
        master.close()


def the_nodes_of_a_cluster_are_shown_with_their_slots(h, s):
    node = Tcp("--appendonly", "yes", cluster=True)
    try:
        equal(node.call("CLUSTER", "ADDSLOTS", *range(16384)), "+OK")
        wait_for(lambda: b"cluster_state:ok" in node.call("CLUSTER", "INFO"),
                 SECONDS)
        p = h.run("status", "-u", f"redis+cluster://127.0.0.1:{node.port}",
                  "-o", "json")
        exits(p, 0)
        got = json.loads(p.out)
        equal((got["topology"], got["nodes"], got["durability"]),
              ("cluster", [f"127.0.0.1:{node.port} master of 16384 slots"],
               "logged"))
    finally:
        node.close()


def begin(server):
    server.call("CONFIG", "SET", "appendfsync", "everysec")
    return Home()


if __name__ == "__main__":
    assert os.access(LEAT, os.X_OK)
    with contextlib.closing(Redis(None, "--appendonly", "yes")) as one:
        sys.exit(run(__name__, ("h", "s"), lambda: begin(one), one))

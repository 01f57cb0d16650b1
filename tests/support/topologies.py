"""topologies.py: Redis as more than one server, for chaos runs.

Single, Sentinel (one master, two replicas, three sentinels) and Cluster (three
masters, a replica each), of private servers on random ports of 127.0.0.1.  Each
is reached through a tcpfault of its own and announces that one's port, so all
that clients, replicas and sentinels say to a server passes its door.  Servers
dial from 127.0.0.2 (bind-source-addr): a door that bars that address parts a
server from its kind while its clients go on.

All of them have the words that a campaign needs: url, nodes, masters(), heal(),
sound(), logs of keys; what only one can do is its own.  Every process is the
rig's, which kills it when the run ends, and the kernel does if the run is
killed.
"""

import errno
import random
import signal
import socket
import subprocess
import time

from chaos import Clock, Proxy, redis_program, say, wait_for
from wire import Refused, answers, ask

SERVERS = "127.0.0.2"   # where servers dial from
SLOTS = 16384
DOWN_AFTER = 1.0        # seconds until a sentinel misses a server
NODE_TIMEOUT = 2.0
LONG = 120              # seconds for what servers do among themselves
luck = random.SystemRandom()


def free_port():
    """Outside what the kernel gives to clients, so that a server that was
    killed finds it free again."""
    for _ in range(1000):
        port = luck.randrange(10240, 32000)
        with socket.socket() as s:
            try:
                s.bind(("127.0.0.1", port))
                return port
            except OSError as e:
                if e.errno != errno.EADDRINUSE:
                    raise
    raise OSError("no free port")


def crc16(data):
    """XMODEM, as Redis Cluster has it."""
    crc = 0
    for byte in data:
        crc ^= byte << 8
        for _ in range(8):
            crc = (crc << 1 ^ 0x1021 if crc & 0x8000 else crc << 1) & 0xffff
    return crc


def slot_of(key):
    key = key.encode()
    a = key.find(b"{")
    b = key.find(b"}", a + 1)
    if a >= 0 and b > a + 1:
        key = key[a + 1:b]
    return crc16(key) % SLOTS


class Node:
    """One server: its process, its directory, its door."""

    def __init__(self, rig, name, *config, clock=None, door=True):
        self.rig, self.name = rig, name
        self.dir = rig.dir / name
        self.dir.mkdir()
        self.config = list(config)
        self.clock = clock
        self.env = clock.env if clock else None
        self.process = None
        self.proxy = None
        self.stopped = False
        for _ in range(20):     # somebody else may take the port first
            self.port = free_port()
            self.proxy = Proxy(rig, f"127.0.0.1:{self.port}",
                               f"{name}.control") if door else None
            if self.start(first=True):
                return
            if self.proxy:
                rig.end(self.proxy.process)
        raise RuntimeError(f"{name} does not start")

    @property
    def door(self):
        """The port by which the world knows it."""
        return self.proxy.port if self.proxy else self.port

    def write_config(self):
        lines = [f"port {self.port}", "bind 127.0.0.1", "protected-mode no",
                 f"bind-source-addr {SERVERS}", f"dir {self.dir}",
                 f"unixsocket {self.dir}/s", "logfile log", 'save ""',
                 "repl-diskless-sync-delay 0", "repl-timeout 10",
                 "repl-ping-replica-period 1",
                 "auto-aof-rewrite-percentage 0",
                 "replica-announce-ip 127.0.0.1",
                 f"replica-announce-port {self.door}"]
        text = "\n".join(lines + [c.format(node=self) for c in self.config])
        (self.dir / "conf").write_text(text + "\n")

    argv = ("redis-server", "conf")

    def start(self, first=False):
        """False only at first: it ended by itself.  Afterwards the port is
        waited for."""
        if first:
            self.write_config()
        end = time.monotonic() + LONG
        while True:
            self.process = self.rig.start(
                list(self.argv), executable=redis_program(), cwd=self.dir,
                stdout=subprocess.DEVNULL, env=self.env)
            wait_for(lambda: self.answers() or not self.running(), LONG,
                     f"{self.name} answers")
            if self.running():
                return True
            self.rig.end(self.process)
            if first:
                return False
            if time.monotonic() > end:
                raise TimeoutError(f"{self.name} does not start again")
            time.sleep(0.05)

    def answers(self):
        """PONG, or any error that shows that it is there."""
        try:
            self.call("PING")
        except OSError:
            return False
        except Refused:
            pass
        return True

    def running(self):
        return self.process is not None and self.process.poll() is None

    def call(self, *words):
        """By the way behind the doors."""
        return ask(str(self.dir / "s"), *words)

    def says(self, *words):
        """The same; None if there is no answer, or an error."""
        return answers(str(self.dir / "s"), *words)

    def info(self, part):
        text = self.says("INFO", part) or b""
        return dict(line.split(":", 1) for line in text.decode().split("\r\n")
                    if ":" in line)

    def log(self):
        return (self.dir / "log").read_text(errors="replace")

    def kill(self):
        if self.running():
            self.rig.kill(self.process)
        self.stopped = False

    def stop(self):
        """SIGSTOP."""
        self.process.send_signal(signal.SIGSTOP)
        self.rig.counts["pauses"] += 1
        self.stopped = True

    def go_on(self):
        if self.running() and self.stopped:
            self.process.send_signal(signal.SIGCONT)
        self.stopped = False

    def part(self):
        """From all other servers; its clients go on."""
        self.proxy.order(f"bar {SERVERS}")

    def heal(self):
        self.go_on()
        if not self.running():
            self.start()
        if self.proxy:
            self.proxy.order("bar")
            self.proxy.heal()

    def replica_of(self):
        """The door of its master, 0: it is one; None: it does not say."""
        facts = self.info("replication")
        if facts.get("role") == "master":
            return 0
        return int(facts["master_port"]) if "master_port" in facts else None

    def synced(self):
        """A replica that has all that its master had, or a master."""
        facts = self.info("replication")
        return facts.get("role") == "master" or (
            facts.get("master_link_status") == "up" and
            facts.get("master_sync_in_progress") == "0")


def durable(level, replicas):
    """The settings that the class asks of a server."""
    lines = ["appendonly " + ("yes" if level >= 1 else "no")]
    if level >= 1:
        lines.append("appendfsync " + ("always" if level >= 2 else
                                       "everysec"))
    if level == 3:
        lines += [f"min-replicas-to-write {replicas}",
                  "min-replicas-max-lag 2"]
    return lines


class Topology:
    """What all have."""

    replicas = 0        # of each master

    def __init__(self, rig, durability, replicas=None):
        self.rig = rig
        self.durability = durability
        if replicas:
            self.replicas = replicas
        self.nodes = []

    def node(self, name, *config):
        n = Node(self.rig, name, *durable(self.durability, self.replicas),
                 *config, clock=Clock(self.rig, f"{name}.clock"))
        self.nodes.append(n)
        return n

    def set(self, seconds):
        """All clocks, as Clock does one."""
        for n in self.nodes:
            n.clock.set(seconds)

    def masters(self):
        """Those that serve now, as far as is known; may be stopped or dead."""
        raise NotImplementedError

    def owner(self, key):
        """The master that has this key, by what the masters say; None."""
        raise NotImplementedError

    def sound(self):
        """All servers are there and their replicas are in step."""
        raise NotImplementedError

    def heal(self):
        """All servers run and reach each other; returns when they are sound
        again.  Their clocks stay as they are."""
        for n in self.nodes:
            n.heal()
        wait_for(self.sound, LONG, "the servers are sound again")

    def call(self, key, *words):
        """A command about a key, from the side, when all is well."""
        end = time.monotonic() + LONG
        while True:
            owner = self.owner(key)
            try:
                return owner.call(*words)
            except (AttributeError, OSError, Refused):
                if time.monotonic() > end:
                    raise
                time.sleep(0.05)

    def remember(self, master):
        """What is needed to know its successor by."""
        return master

    def everywhere(self, *words):
        for n in self.masters():
            n.says(*words)

    def failovers(self):
        """How many there were, by what the servers wrote down."""
        return 0

    def proxies(self):
        return [n.proxy for n in self.nodes]


class Single(Topology):
    def __init__(self, rig, durability=2, replicas=None):
        super().__init__(rig, durability, replicas)
        self.node("s0")
        self.url = f"redis://127.0.0.1:{self.nodes[0].door}"

    def masters(self):
        return self.nodes

    def owner(self, key):
        return self.nodes[0]

    def sound(self):
        return self.nodes[0].answers()


class SentinelNode(Node):
    argv = ("redis-server", "conf", "--sentinel")

    def __init__(self, rig, name, master_door):
        self.master_door = master_door
        super().__init__(rig, name, door=False)

    def write_config(self):
        ms = int(DOWN_AFTER * 1000)
        (self.dir / "conf").write_text("\n".join((
            f"port {self.port}", "bind 127.0.0.1", "protected-mode no",
            f"bind-source-addr {SERVERS}", f"dir {self.dir}",
            f"unixsocket {self.dir}/s", "logfile log",
            "sentinel announce-ip 127.0.0.1",
            f"sentinel monitor mymaster 127.0.0.1 {self.master_door} 2",
            f"sentinel down-after-milliseconds mymaster {ms}",
            "sentinel failover-timeout mymaster 4000",
            "sentinel parallel-syncs mymaster 2", "")))

    def start(self, first=False):
        """They look at the servers and talk about them seldom unless told."""
        started = super().start(first)
        if started:
            self.says("SENTINEL", "DEBUG", "INFO-PERIOD", 500,
                      "PUBLISH-PERIOD", 500)
        return started


class Sentinel(Topology):
    """One master, two replicas, three sentinels.

    What class 3 waits for is both replicas.  With one of them a failover that
    is asked for loses messages: the old master and the replica that was not
    promoted are still a majority of their own, until the sentinels have told
    them, and acknowledge what nobody will know of.
    """

    replicas = 2

    def __init__(self, rig, durability=2, replicas=None):
        super().__init__(rig, durability, replicas)
        first = self.node("s0")
        for i in (1, 2):
            self.node(f"s{i}", f"replicaof 127.0.0.1 {first.door}")
        self.sentinels = [SentinelNode(rig, f"sentinel{i}", first.door)
                          for i in range(3)]
        hosts = ",".join(f"127.0.0.1:{s.port}" for s in self.sentinels)
        self.url = f"redis+sentinel://{hosts}/mymaster"
        wait_for(self.sound, LONG, "the sentinels know each other")

    def named(self):
        """The door that most sentinels name; 0: they do not agree."""
        doors = [a and int(a[1]) for a in
                 (s.says("SENTINEL", "GET-MASTER-ADDR-BY-NAME", "mymaster")
                  for s in self.sentinels if s.running())]
        for d in doors:
            if d and doors.count(d) >= 2:
                return d
        return 0

    def master(self):
        door = self.named()
        return next((n for n in self.nodes if n.door == door), None)

    def masters(self):
        m = self.master()
        return [m] if m else []

    def owner(self, key):
        return self.master()

    def failovers(self):
        return max(s.log().count("+switch-master") for s in self.sentinels)

    def sentinel_facts(self, s):
        flat = s.says("SENTINEL", "MASTER", "mymaster") or []
        return {k.decode(): v.decode() for k, v in zip(flat[::2], flat[1::2])}

    def sound(self):
        m = self.master()
        if not m or m.replica_of() != 0:
            return False
        for s in self.sentinels:
            facts = self.sentinel_facts(s)
            if facts.get("flags") != "master" or \
                    facts.get("num-slaves") != "2" or \
                    facts.get("num-other-sentinels") != "2" or \
                    int(facts["port"]) != m.door:
                return False
        return all(n is m or (n.replica_of() == m.door and n.synced())
                   for n in self.nodes) and \
            m.info("replication").get("connected_slaves") == "2"

    def heal(self):
        for s in self.sentinels:
            s.heal()
        super().heal()

    def await_other(self, old, seconds=LONG):
        """Another master is named, and says that it is one."""
        def look():
            m = self.master()
            return m and m is not old and m.replica_of() == 0
        wait_for(look, seconds, "a replica is promoted")

    def failover(self):
        """As asked for; returns when it is done.  A sentinel refuses while
        one is under way, or where it finds no good replica."""
        old = self.master()
        asked = next(s for s in self.sentinels if s.running())
        wait_for(lambda: asked.says(
            "SENTINEL", "FAILOVER", "mymaster") == "OK" or
            self.master() not in (None, old), LONG, "a failover begins")
        self.await_other(old)


class Cluster(Topology):
    """Three masters, a replica each."""

    replicas = 1

    def __init__(self, rig, durability=2, replicas=None, masters=3):
        super().__init__(rig, durability, replicas)
        for i in range(2 * masters):
            self.node(f"n{i}", "cluster-enabled yes",
                      "cluster-config-file nodes.conf",
                      f"cluster-node-timeout {int(NODE_TIMEOUT * 1000)}",
                      f"cluster-port {free_port()}",
                      "cluster-require-full-coverage no",
                      "cluster-allow-replica-migration no",
                      "cluster-replica-validity-factor 0",
                      "cluster-announce-ip 127.0.0.1",
                      "cluster-announce-port {node.door}")
        self.url = "redis+cluster://" + ",".join(
            f"127.0.0.1:{n.door}" for n in self.nodes[:masters])
        self.build(masters)

    def build(self, masters):
        self.ids = {n: n.call("CLUSTER", "MYID").decode() for n in self.nodes}
        for i, n in enumerate(self.nodes):
            n.call("CLUSTER", "SET-CONFIG-EPOCH", i + 1)
        for i, n in enumerate(self.nodes[:masters]):
            n.call("CLUSTER", "ADDSLOTSRANGE", i * SLOTS // masters,
                   (i + 1) * SLOTS // masters - 1)
        first = self.nodes[0]
        for n in self.nodes[1:]:
            bus = int(n.call("CONFIG", "GET", "cluster-port")[1])
            first.call("CLUSTER", "MEET", "127.0.0.1", n.port, bus)
        wait_for(lambda: all(len(self.view(n)) == len(self.nodes)
                             for n in self.nodes), LONG, "the nodes have met")
        for i, n in enumerate(self.nodes[masters:]):
            self.persist(n, "CLUSTER", "REPLICATE", self.ids[self.nodes[i]])
        wait_for(self.sound, LONG, "the cluster is up")

    @staticmethod
    def persist(n, *words):
        """Again and again: gossip takes its time."""
        wait_for(lambda: n.says(*words) == "OK", LONG, " ".join(words))

    def view(self, n):
        """The lines of CLUSTER NODES as this one sees them, by id, without
        those of whom nothing is known but their address."""
        text = n.says("CLUSTER", "NODES") or b""
        lines = [line.split() for line in text.decode().splitlines()]
        return {w[0]: w for w in lines if "handshake" not in w[2]}

    def masters(self):
        """By the newest view: who has slots."""
        have = set()
        for n in self.nodes:
            if not n.running() or n.stopped:
                continue
            me = self.view(n).get(self.ids[n])
            if me and "master" in me[2] and len(me) > 8:
                have.add(n)
        return [n for n in self.nodes if n in have]

    def owner(self, key):
        slot = slot_of(key) if isinstance(key, str) else key
        for n in self.masters():
            for low, high in self.ranges(n):
                if low <= slot <= high:
                    return n
        return None

    def ranges(self, n):
        """The slots it says it has."""
        me = self.view(n).get(self.ids[n], [])
        return [tuple(int(x) for x in (w.split("-") * 2)[:2])
                for w in me[8:] if not w.startswith("[")]

    def replicas_of(self, master):
        return [n for n in self.nodes if n is not master and
                n.replica_of() == master.door]

    def sound(self):
        """All agree on who has what, and each master has its replica."""
        seen = set()
        for n in self.nodes:
            view = self.view(n)
            if len(view) < len(self.nodes) or any(
                    "fail" in w[2] or w[7] != "connected"
                    for w in view.values()):
                return False
            if n.info("cluster").get("cluster_enabled") != "1" or \
                    b"cluster_state:ok" not in (n.says("CLUSTER", "INFO") or
                                                b""):
                return False
            seen.add(tuple(sorted((w[0], *w[8:]) for w in view.values()
                                  if "master" in w[2])))
        masters = self.masters()
        return len(seen) == 1 and len(masters) * 2 == len(self.nodes) and all(
            n in masters or n.synced() for n in self.nodes) and all(
            m.info("replication").get("connected_slaves") == "1"
            for m in masters)

    def failovers(self):
        return sum(n.log().count("ailover election won") +
                   n.log().count("anual failover user request accepted")
                   for n in self.nodes)

    def await_other(self, old, seconds=LONG):
        """Its slots are another's."""
        low = getattr(old, "last_slot", None)
        wait_for(lambda: self.owner(low) not in (None, old), seconds,
                 "a replica is promoted")

    def remember(self, master):
        """A slot by which its successor is known."""
        ranges = self.ranges(master)
        master.last_slot = ranges[0][0] if ranges else 0
        return master

    def failover(self, master=None):
        """As asked for: the replica takes over without a loss."""
        master = self.remember(master or luck.choice(self.masters()))
        replica = self.replicas_of(master)[0]
        self.persist(replica, "CLUSTER", "FAILOVER")

        def look():
            if self.owner(master.last_slot) is replica:
                return True
            if replica.replica_of() != 0:   # it may have timed out
                replica.says("CLUSTER", "FAILOVER")
            return False
        wait_for(look, LONG, "the replica takes over")

    def move(self, slot, target=None, pause=lambda: None):
        """One slot to another master, key by key.  Returns how many keys."""
        source = self.owner(slot)
        others = [n for n in self.masters() if n is not source]
        target = target or luck.choice(others)
        target.call("CLUSTER", "SETSLOT", slot, "IMPORTING", self.ids[source])
        source.call("CLUSTER", "SETSLOT", slot, "MIGRATING", self.ids[target])
        moved = self.move_keys(slot, source, target, pause)
        for n in (target, source):
            n.call("CLUSTER", "SETSLOT", slot, "NODE", self.ids[target])
        for n in others:    # who has stepped back meanwhile refuses
            n.says("CLUSTER", "SETSLOT", slot, "NODE", self.ids[target])
        return moved

    @staticmethod
    def move_keys(slot, source, target, pause):
        """Until there are none: keys may be made meanwhile, but only by who
        asks, and those are made at the target."""
        moved = 0
        end = time.monotonic() + LONG
        while (keys := source.call("CLUSTER", "GETKEYSINSLOT", slot, 1)):
            try:
                source.call("MIGRATE", "127.0.0.1", target.port, keys[0], 0,
                            5000)
                moved += 1
            except Refused as e:    # NOREPLICAS, a busy target: again
                if time.monotonic() > end:
                    raise
                say(f"migrate: {e}")
                time.sleep(0.05)
            pause()
        return moved


TOPOLOGIES = {"single": Single, "sentinel": Sentinel, "cluster": Cluster}

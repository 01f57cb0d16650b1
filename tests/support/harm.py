"""harm.py: what is done to servers and to the ways that lead to them.

A run of chaos/ is a subclass: it has the processes, and says by cut_off() that
all of them lose the server for a while.  Each fault takes nominal seconds and the
numbers it needs, from the schedule.
"""

from chaos import Clock, Proxy, Redis
from topologies import slot_of
from wire import ask

APART = 5.0     # seconds between the clocks of two servers, at most

class OneServer:
    """A server that keeps what it acknowledged, with a clock of its own.

    Of the class that is made of this: rig, lease (in seconds), rest(), cut_off(),
    kill_consumer()."""

    # What is sent most, so that a cut finds it.
    commands = ("EVALSHA", "EVALSHA", "XREAD", "XREAD", "XADD")

    def start_server(self, rig, *config):
        """Consumers and producers come by doors of their own: a producer's
        command that is held for longer than its sender waits may land behind
        its successors, and that would be no fault of the library."""
        self.clock = Clock(rig)
        self.redis = Redis(rig, *config, clock=self.clock)
        self.proxy = Proxy(rig, self.redis.path)
        self.gate = Proxy(rig, self.redis.path, "gate")
        self.consumer_url = f"redis://127.0.0.1:{self.proxy.port}"
        self.producer_url = f"redis://127.0.0.1:{self.gate.port}"

    def doors(self):
        return (self.proxy,)

    def jumps(self):
        """Seconds that the clock may be moved by."""
        return 120, -3600, 86400

    # What is done to the server.

    def kill_redis(self, seconds, _r):
        self.cut_off()
        self.redis.kill()
        self.rest(seconds)
        self.redis.start()

    def pause_redis(self, seconds, _r):
        self.cut_off()
        self.rig.pause(self.redis.process, seconds)

    def pause_redis_long(self, seconds, _r):
        """All leases are stale at once."""
        self.cut_off()
        self.rig.pause(self.redis.process, self.lease + 2 * seconds)

    def pause_clients(self, seconds, _r):
        self.cut_off()
        self.redis.ask(f"CLIENT PAUSE {int(seconds * 1000)} ALL")
        self.rest(seconds)

    def move_clock(self, seconds, r):
        self.cut_off()
        self.clock.set(r.choice(self.jumps()))
        self.rest(seconds)
        self.clock.set(0)

    def shake_clock(self, seconds, r):
        self.cut_off()
        for _ in range(int(seconds / 0.01)):
            self.clock.set(r.uniform(-0.05, 0.05))
            self.rest(0.01)
        self.clock.set(0)

    def fill_memory(self, seconds, _r):
        """Sending is refused; all else goes on."""
        self.cut_off()
        self.redis.ask("CONFIG SET maxmemory 1mb")
        self.rest(seconds)
        self.redis.ask("CONFIG SET maxmemory 0")

    def kill_with_redis(self, seconds, r):
        """A consumer while the server is away."""
        self.cut_off()
        self.redis.kill()
        self.kill_consumer(seconds, r, same=r.random() < 0.5)
        self.redis.start()

    def flush_scripts(self, _seconds, _r):
        for _ in range(5):
            self.redis.ask("SCRIPT FLUSH")
            self.rest(0.05)

    def kill_clients(self, seconds, _r):
        self.cut_off()
        for _ in range(1 + int(seconds / 0.1)):
            self.redis.ask("CLIENT KILL TYPE normal SKIPME yes")
            self.rig.counts["cuts"] += 1
            self.rest(0.1)

    # What is done to the network.

    def both(self, line):
        for proxy in (self.proxy, self.gate):
            proxy.order(line)

    def harm(self, rule, seconds, *proxies):
        """With this rule of the proxies for a time."""
        self.cut_off()
        proxies = proxies or (self.proxy, self.gate)
        before = sum(p.fired() for p in proxies)
        for p in proxies:
            p.order("rule " + rule)
        self.rest(seconds)
        for p in proxies:
            p.order("clear")
            p.order("release")
        self.rig.counts["cuts"] += sum(p.fired() for p in proxies) - before

    def cut(self, seconds, r):
        """New connections, so that the offset is reached; the handshake is
        some 7,000 bytes down and 300 up."""
        where = r.choice(("dir=up", "dir=down"))
        what = r.choice(("cut", "reset", "blackhole", "half-open"))
        self.both("reset 0")
        self.harm(f"{where} offset={r.randrange(30000)} do={what}"
                  f" times={r.randint(1, 8)}", seconds)

    def cut_command(self, seconds, r):
        name = r.choice(self.commands)
        what = r.choice(("cut", "reset", "blackhole", "half-open"))
        place = r.choice(("after", f"plus={r.randrange(80)}"))
        self.harm(f"dir=up command={name}:{r.randint(1, 10)} {place}"
                  f" do={what} times={r.randint(1, 8)}", seconds)

    def hold(self, seconds, r):
        """Answers late, some too late."""
        self.both("reset 0")
        self.harm(f"dir=down offset={7000 + r.randrange(20000)} do=hold",
                  seconds)

    def hold_requests(self, seconds, r):
        """Some of consumers, for longer than they wait: they go on by other
        connections, and what is released then comes too late."""
        self.harm("dir=up command=EVALSHA do=hold"
                  f" times={r.randint(1, 8)}", 1.2 + 2 * seconds, self.proxy)

    def delay(self, seconds, r):
        where = r.choice(("dir=up command=EVALSHA", "dir=down frame=0"))
        self.harm(f"{where} do=delay ms={r.randint(10, 80)}", seconds)

    def split(self, seconds, r):
        self.both("reset 0")
        self.harm(f"dir={r.choice(('up', 'down'))} offset=0 do=split", seconds)
        self.both("reset 0")

    def shut_door(self, seconds, r):
        self.cut_off()
        self.both("door " + r.choice(("refuse", "reset", "hang")))
        self.both("reset 0")
        self.rig.counts["cuts"] += 1
        self.rest(seconds)
        self.both("door open")
        self.both("drop 0")

    # The end.

    def heal_servers(self):
        self.clock.set(0)
        self.redis.ask("CONFIG SET maxmemory 0")
        self.proxy.heal()
        self.gate.heal()

    def ask(self, _key, *words):
        return ask(self.redis.path, *words)


class ManyServers:
    """What is done to any servers of topologies.py.

    Of the class that is made of this: rig, place, rest(), cut_off(), struck(),
    kill_consumer(), and hot_keys(), one of each slot that is in use."""

    commands = ("EVALSHA", "XREAD", "XADD")

    def doors(self):
        return self.place.proxies()

    def kept_from_now(self):
        """What is acknowledged is kept again, by whoever is master."""

    def beside(self, seconds):
        """While others work."""
        self.rest(min(seconds, 2.0))

    # What is done to any servers.

    def victim(self, r):
        """A master, remembered by what is its own."""
        m = r.choice(self.place.masters())
        return self.place.remember(m)

    def kill_master(self, seconds, r):
        with self.struck():
            m = self.victim(r)
            m.kill()
            self.kept_from_now()
            self.place.await_other(m)
            self.beside(seconds)

    def stop_master(self, seconds, r):
        """Until another is master; then both believe it for a moment."""
        with self.struck():
            m = self.victim(r)
            m.stop()
            self.place.await_other(m)
            m.go_on()
            self.beside(2 * seconds)

    def pause_master(self, seconds, r):
        """Too short to be missed."""
        with self.struck():
            m = self.victim(r)
            m.stop()
            self.beside(seconds)
            m.go_on()

    def ask_failover(self, _seconds, _r):
        with self.struck():
            self.place.failover()

    def part_and_kill(self, seconds, r):
        """It goes on without its replicas, and then is no more."""
        with self.struck():
            m = self.victim(r)
            m.part()
            self.beside(seconds)
            m.kill()
            self.kept_from_now()
            self.place.await_other(m)

    def fill_memory(self, seconds, _r):
        """Sending is refused; all else goes on.  Replicas follow."""
        self.cut_off()
        self.place.everywhere("CONFIG", "SET", "maxmemory", "1mb")
        self.rest(seconds)
        self.place.everywhere("CONFIG", "SET", "maxmemory", "0")

    def part_clocks(self, seconds, r):
        """Each server has a clock of its own, up to five seconds from the
        next, until this comes again."""
        with self.struck():
            for n in self.place.nodes:
                n.clock.set(r.uniform(-APART / 2, APART / 2))
            self.beside(seconds)

    def flush_scripts(self, _seconds, _r):
        for _ in range(5):
            self.place.everywhere("SCRIPT", "FLUSH")
            self.rest(0.05)

    def kill_clients(self, seconds, _r):
        self.cut_off()
        for _ in range(1 + int(seconds / 0.1)):
            self.place.everywhere("CLIENT", "KILL", "TYPE", "normal")
            self.rig.counts["cuts"] += 1
            self.rest(0.1)

    def cut_command(self, seconds, r):
        """Only what clients say: replicas and sentinels use none of these."""
        name = r.choice(self.commands)
        what = r.choice(("cut", "reset", "blackhole", "half-open"))
        self.cut_off()
        for p in self.place.proxies():
            p.order(f"rule dir=up command={name}:{r.randint(1, 10)} after "
                    f"do={what} times={r.randint(1, 4)}")
        self.rest(seconds)
        for p in self.place.proxies():
            self.rig.counts["cuts"] += p.fired()
            p.order("clear")

    # Of a master with sentinels.

    def kill_sentinel(self, seconds, r):
        """Two are enough, also for a failover."""
        s = r.choice(self.place.sentinels)
        s.kill()
        self.ask_failover(seconds, r)

    def part_master(self, seconds, r):
        """From replicas and sentinels, with its clients; another is made."""
        with self.struck():
            m = self.victim(r)
            m.part()
            self.place.await_other(m)
            self.beside(2 * seconds)

    # Of a cluster.

    def move_slots(self, _seconds, r):
        """Two that are in use, key by key."""
        for key in r.sample(self.hot_keys(), 2):
            with self.struck():
                self.place.move(slot_of(key), pause=lambda: self.rest(0.02))
        self.rig.moves += 2

    def everything(self, seconds, r):
        """A slot moves while its bystander steps back and consumers die."""
        with self.struck():
            slot = slot_of(r.choice(self.hot_keys()))
            source = self.place.owner(slot)
            target, other = [m for m in self.place.masters()
                             if m is not source][:2]
            steps = iter((lambda: self.kill_consumer(seconds, r),
                          lambda: self.place.failover(other),
                          lambda: self.kill_consumer(seconds, r)))

            def pause():
                next(steps, lambda: None)()
                self.rest(0.02)
            self.place.move(slot, target, pause)
            for step in steps:
                step()
        self.rig.moves += 1

    # The end.

    def heal_servers(self):
        self.place.heal()

    def ask(self, key, *words):
        return self.place.call(key, *words)

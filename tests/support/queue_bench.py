"""queue_bench.py: a server, workers and a judge for one fault of a queue.

As scenarios.py is for topics; its main() runs a file of scenarios with this.  On
a cluster `redis` is the master that has the queue.
"""


from chaos import Clock, Rig, history_in, judge
from queues import Audit, QueueWorker, Receipts, State, burials, key_of
from scenarios import LONG, AnyBench, ends
from topic_policies import Fates
from topics import EFFECT
from topologies import Cluster
from wire import ask

BAD = ("lost", "stuck", "unexpected", "dishonest")
WRONG = ("handed_twice", "risen", "sent_twice", "usurped", "acked_twice",
         "crowded", "shared")
AT_ONCE = 10        # of a consumer, unless said otherwise


class QueueBench(AnyBench):
    """Settings are those of all workers."""

    queue = "orders"
    kills = 5       # of the server, where that is what happens

    def __init__(self, rig):
        super().__init__(rig)
        self.settings = {"visibility": 1000}
        self.fates = Fates(0, 0, 0, 0)

    def server(self, *config, clock=None, **settings):
        """And what the queue is like."""
        self.settings.update(settings)
        return super().server(*config, clock=clock)

    def clock(self):
        return Clock(self.rig)

    def with_fates(self, **shares):
        """Messages fail; `most` is the queue's max_receives."""
        self.fates = Fates(**{"poison": 0, "flaky": 0, "reject": 0,
                              "crash": 0, **shares})
        self.ledgers.doomed = self.fates.doomed
        self.settings["receives"] = self.fates.most

    @property
    def fifo(self):
        return bool(self.settings.get("fifo"))

    def worker(self, verb, role, url=None, env=None, where=None, **options):
        return QueueWorker(self.rig, verb, url or self.url, where or self.dir,
                           role, env=env, **{**self.settings, **options})

    def consume(self, role, wait=True, **options):
        """A consumer that has begun, unless it is not to be waited for."""
        fates = {k: v for k, v in self.fates.options.items() if v}
        w = self.worker("consume", role, **{"led": 1, "batch": AT_ONCE,
                                            **fates, **options})
        self.workers.append(w)
        return w.ready() if wait else w

    def produce(self, count, role="producer", **options):
        """A producer that sends so many; 0: until it is told."""
        return self.worker("produce", role, count=count, **options)

    def ask(self, _key, *words):
        return ask(self.redis.path, *words)

    def state(self):
        return State(self.ask, self.queue, self.fifo)

    def history(self):
        """All that the server wrote since this began."""
        return self.redis.history()

    def drained(self, seconds=LONG):
        """Whatever was acknowledged had its effect, and nothing is left."""
        self.wait(lambda l: l.missing == 0 and self.state().idle(), "drained",
                  seconds)

    def receipts(self, without=()):
        return Receipts(self.ledgers.read(), without)

    def end(self, producer=None, twice=None, doubled=None):
        """Drain, end all in order, judge.  twice: so many effects there may be
        again, besides those whose receipt was found to be stale; doubled: so
        many acknowledgements."""
        if producer:
            producer.terminate()
            ends(producer, 0)
        self.drained()
        for w in list(self.workers):
            self.leave(w)
        return self.judge(twice, doubled)

    def judge(self, twice=None, doubled=None):
        state = self.state()
        verdict = judge(self.rig, self.dir, 0, 0, "--unordered")
        buried = state.buried()
        verdict.update(self.receipts(buried).verdict())
        verdict.update(Audit(self.history(), self.fifo).verdict())
        verdict.update(burials(self.ledgers, self.fates, buried))
        verdict["torn"] = state.torn()
        verdict["stuck"] -= self.without_effect(buried)
        wrong = BAD + WRONG + ("torn", "undead", "innocent", "buried_twice") \
            + (("reordered",) if self.fifo else ())
        bad = {k: verdict[k] for k in wrong if verdict[k]}
        assert not bad, (bad, verdict)
        assert doubled is None or verdict["doubled"] <= doubled, verdict
        if twice is not None:
            assert verdict["duplicated"] <= twice + verdict["stale"], verdict
        return verdict

    def without_effect(self, numbers):
        """Of the dead letters, those that were handed out and had none."""
        effects = {r.id for r in self.ledgers.of(EFFECT)}
        return len(set(numbers) - effects)


class ClusterBench(QueueBench):
    """Three masters, a replica each, for all scenarios of a run; each has a
    queue of its own.  What is acknowledged is on the replica, too."""

    rig_of_all = place = None
    made = 0
    kills = 2       # a master that is back waits for two seconds

    @classmethod
    def start(cls):
        cls.rig_of_all = Rig()
        cls.place = Cluster(cls.rig_of_all, 3)

    @classmethod
    def stop(cls):
        cls.rig_of_all.__exit__()

    def server(self, *_config, clock=None, **settings):
        ClusterBench.made += 1
        self.queue = f"orders-{self.made}"
        self.url = self.place.url
        self.redis = self.place.owner(key_of(self.queue, "body"))
        self.settings.update(settings, queue=self.queue, durability=3,
                             replicas=1)
        self.before = sum(1 for _ in history_in(self.redis.dir))

    def clock(self):
        """Of all of them."""
        return self.place

    def proxy(self, _name=None):
        """The master's door."""
        self.redis.proxy.url = self.url
        return self.redis.proxy

    def ask(self, _key, *words):
        return self.redis.call(*words)

    def history(self):
        """Should another master have it now, there is none to be read."""
        if self.place.owner(key_of(self.queue, "body")) is not self.redis:
            return
        for n, words in enumerate(history_in(self.redis.dir)):
            if n >= self.before:
                yield words

"""queue_bench.py: a server, workers and a judge for one fault of a queue.

As scenarios.py is for topics; its main() runs a file of scenarios with this.
"""

import random

from chaos import Proxy, Redis, judge, wait_for
from queues import Audit, QueueWorker, Receipts, State, burials
from scenarios import LONG, ends
from topic_policies import Fates
from topics import EFFECT, Ledgers
from wire import ask

BAD = ("lost", "stuck", "unexpected", "dishonest")
WRONG = ("handed_twice", "risen", "sent_twice", "usurped", "acked_twice",
         "crowded", "shared")
AT_ONCE = 10        # of a consumer, unless said otherwise


class QueueBench:
    """The queue is `orders`; settings are those of all workers."""

    def __init__(self, rig):
        self.rig = rig
        self.dir = rig.dir / "ledgers"
        self.dir.mkdir()
        self.ledgers = Ledgers(self.dir)
        self.workers = []
        self.redis = self.url = None
        self.settings = {"visibility": 1000}
        self.fates = Fates(0, 0, 0, 0)
        self.random = random.Random(1)

    def server(self, *config, clock=None, **settings):
        """And what the queue is like."""
        self.redis = Redis(self.rig, *config, clock=clock)
        self.url = f"unix://{self.redis.path}"
        self.settings.update(settings)
        return self.redis

    def with_fates(self, **shares):
        """Messages fail; `most` is the queue's max_receives."""
        self.fates = Fates(**{"poison": 0, "flaky": 0, "reject": 0,
                              "crash": 0, **shares})
        self.ledgers.doomed = self.fates.doomed
        self.settings["receives"] = self.fates.most

    def proxy(self, name="control"):
        proxy = Proxy(self.rig, self.redis.path, name)
        proxy.url = f"redis://127.0.0.1:{proxy.port}"
        return proxy

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

    def send(self, count, **options):
        """Sent, and the outcome of each is known."""
        ends(self.produce(count, **options), 0)

    def drop(self, w):
        w.kill()
        self.workers.remove(w)

    def leave(self, w):
        w.terminate()
        self.workers.remove(w)
        ends(w, 0)

    def wait(self, look, what, seconds=LONG):
        wait_for(lambda: look(self.ledgers.read()), seconds, what)

    def flowing(self, more=50):
        """So many further effects."""
        want = self.ledgers.read().counts[EFFECT] + more
        self.wait(lambda l: l.counts[EFFECT] >= want, "messages flow")

    def ask(self, _key, *words):
        return ask(self.redis.path, *words)

    def state(self, queue="orders"):
        return State(self.ask, queue, self.fifo)

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
        verdict.update(Audit(self.redis.history(), self.fifo).verdict())
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

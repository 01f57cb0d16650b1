"""redowl_peer.py: another program at a redowl queue.

It does what redowl does, command by command, over a connection of its own, and
shares nothing with the library.  Led by lines on stdin, each answered by one:

    send QUEUE BODY [ATTRS]            the id; ATTRS is JSON
    receive QUEUE HIDE_MS MAX WAIT_S   "ID RECEIPT RC BODY ATTRS", or "none"
    dlq QUEUE                          the same, from the dead letters
    ack QUEUE RECEIPT                  "ok" or "invalid"
    change QUEUE RECEIPT MS            likewise
    requeue QUEUE                      how many
    redrive QUEUE N                    how many
    cut N                              "ok"; the next of the above is ended after
                                       N commands, and answered by "cut"
    listen CHANNEL...                  "ok"
    heard                              the next thing heard: "CHANNEL PAYLOAD"
    prefix TEXT                        "ok"; of the keys, instead of redowl
    forget                             "ok"; what it listens to, a cut, a prefix
"""

import base64
import json
import secrets
import sys
import time

from wire import Wire


class Cut(Exception):
    """It died here."""


def go_json(value):
    """As encoding/json writes it."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    for c in "<>&\u2028\u2029":
        text = text.replace(c, f"\\u{ord(c):04x}")
    return text


def now_ms():
    return int(time.time() * 1000)


class Peer:
    def __init__(self, where):
        self.wire = Wire(where, 60)
        self.where = where
        self.ear = None
        self.left = None
        self.prefix = "redowl"

    def do(self, *words):
        if self.left is not None:
            if self.left == 0:
                self.left = None
                raise Cut
            self.left -= 1
        return self.wire.call(*words)

    def tell(self, queue, kind, id, rc=None):
        event = {"type": kind, "queue": queue, "message_id": id,
                 "at_unix_ms": now_ms()}
        if rc is not None:
            event["extra"] = {"rc": str(rc)}
        self.do("PUBLISH", f"{self.prefix}:{queue}:events", go_json(event))
        self.do("PUBLISH", f"{self.prefix}:events", go_json(event))

    def send(self, queue, body, attrs="null"):
        key, id = f"{self.prefix}:{queue}", secrets.token_hex(16)
        attrs = json.loads(attrs)
        attrs = dict(sorted(attrs.items())) if attrs else None
        self.do("HSET", f"{key}:msg:{id}",
                "body", base64.b64encode(body.encode()),
                "attrs", go_json(attrs), "rc", 0, "created_at_ms", now_ms())
        self.do("RPUSH", f"{key}:ready", id)
        self.tell(queue, "sent", id)
        return id

    def requeue(self, queue, batch=100):
        key, count = f"{self.prefix}:{queue}", 0
        for r in self.do("ZRANGEBYSCORE", f"{key}:inflight", "-inf", now_ms(),
                         "LIMIT", 0, batch):
            id = self.do("HGET", f"{key}:receipt", r)
            there = id and self.do("EXISTS", f"{key}:msg:{id.decode()}")
            if there:
                self.do("LPUSH", f"{key}:ready", id)
            self.do("ZREM", f"{key}:inflight", r)
            self.do("HDEL", f"{key}:receipt", r)
            if there:
                self.tell(queue, "requeued", id.decode())
                count += 1
        return count

    def hand_out(self, queue, id, rc, hide_ms):
        key, receipt = f"{self.prefix}:{queue}", secrets.token_hex(16)
        self.do("HSET", f"{key}:receipt", receipt, id)
        if hide_ms is not None:
            self.do("ZADD", f"{key}:inflight", now_ms() + hide_ms, receipt)
        body, attrs, count = self.do("HMGET", f"{key}:msg:{id}", "body",
                                     "attrs", "rc")
        self.tell(queue, "received" if hide_ms is not None else "dlq_received",
                  id, int(count) if rc is None else rc)
        body = base64.b64decode(body, validate=True).decode()
        attrs = json.loads(attrs)
        return (f"{id} {receipt} {int(count)} {body} "
                f"{json.dumps(attrs, sort_keys=True)}")

    def pop(self, list_, wait_s):
        if wait_s > 0:
            got = self.do("BLPOP", list_, wait_s)
            return got[1].decode() if got else None
        got = self.do("LPOP", list_)
        return got.decode() if got else None

    def receive(self, queue, hide_ms, most, wait_s):
        key = f"{self.prefix}:{queue}"
        self.requeue(queue)
        for _ in range(5):
            id = self.pop(f"{key}:ready", int(wait_s))
            if id is None:
                return "none"
            if not self.do("EXISTS", f"{key}:msg:{id}"):
                continue
            rc = self.do("HINCRBY", f"{key}:msg:{id}", "rc", 1)
            if int(most) > 0 and rc > int(most):
                self.do("RPUSH", f"{key}:dlq", id)
                self.tell(queue, "to_dlq", id, rc)
                return "none"
            return self.hand_out(queue, id, rc, int(hide_ms))
        return "none"

    def dlq(self, queue):
        id = self.pop(f"{self.prefix}:{queue}:dlq", 0)
        if id is None or not self.do("EXISTS", f"{self.prefix}:{queue}:msg:{id}"):
            return "none"
        return self.hand_out(queue, id, None, None)

    def ack(self, queue, receipt):
        key = f"{self.prefix}:{queue}"
        id = self.do("HGET", f"{key}:receipt", receipt)
        if not id:
            return "invalid"
        self.do("HDEL", f"{key}:receipt", receipt)
        self.do("ZREM", f"{key}:inflight", receipt)
        self.do("DEL", f"{key}:msg:{id.decode()}")
        self.tell(queue, "acked", id.decode())
        return "ok"

    def change(self, queue, receipt, ms):
        key = f"{self.prefix}:{queue}"
        if not self.do("HGET", f"{key}:receipt", receipt):
            return "invalid"
        self.do("ZADD", f"{key}:inflight", now_ms() + int(ms), receipt)
        return "ok"

    def redrive(self, queue, n):
        key, count = f"{self.prefix}:{queue}", 0
        for _ in range(int(n)):
            id = self.do("RPOPLPUSH", f"{key}:dlq", f"{key}:ready")
            if not id:
                break
            id = id.decode()
            if not self.do("EXISTS", f"{key}:msg:{id}"):
                self.do("LREM", f"{key}:ready", 1, id)
                continue
            self.do("HSET", f"{key}:msg:{id}", "rc", 0)
            self.tell(queue, "dlq_redriven", id, 0)
            count += 1
        return count

    def cut(self, n):
        self.left = int(n)
        return "ok"

    def listen(self, channels):
        """One, which may hold blanks, or several behind each other."""
        self.ear = Wire(self.where, 60)
        for c in channels.split("events "):
            self.ear.call("SUBSCRIBE", c if c.endswith("events") else c + "events")
        return "ok"

    def forget(self):
        if self.ear:
            self.ear.close()
        self.ear = self.left = None
        self.prefix = "redowl"
        return "ok"

    def set_prefix(self, text):
        self.prefix = text
        return "ok"

    def heard(self):
        _, channel, payload = self.ear.reply()
        return f"{channel.decode()} {payload.decode()}"


VERBS = {"prefix": "set_prefix"}


def main():
    peer = Peer(sys.argv[1])
    for line in sys.stdin:
        verb, *rest = line.rstrip("\n").split(" ")
        if verb == "send" and len(rest) > 3:
            rest = rest[:2] + [" ".join(rest[2:])]
        if verb in ("listen", "prefix"):
            rest = [" ".join(rest)]
        try:
            print(getattr(peer, VERBS.get(verb, verb))(*rest), flush=True)
        except Cut:
            print("cut", flush=True)
        if verb not in ("cut", "listen", "heard", "prefix"):
            peer.left = None


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Real processes under faults, for as long as you like: a head and members that are killed, stopped and started anew while
clients ask and requests migrate all the time. Every answer has to be the undisturbed one, and nothing may be left over.

The seed draws what is asked and what happens; how that meets is up to the machine. (`./run explore` is the search that
replays: the same actors on virtual time.)
"""

import argparse
import collections
import random
import signal
import sys
import tempfile
import threading
import time

from cluster import Cluster, Failed, clean
from questions import Lost, ask, questions

FAULTS = ("kill", "kill", "terminate", "stop", "nothing")


class Clients:
    """They ask until the end and hold each answer against the undisturbed one."""

    def __init__(self, cluster, asked, calm, count, seed):
        self.cluster, self.asked, self.calm = cluster, asked, calm
        self.counts, self.wrong = collections.Counter(), []
        self.lock, self.over = threading.Lock(), threading.Event()
        self.threads = [threading.Thread(target=self.work, args=(random.Random(f"{seed}/{number}"),), daemon=True)
                        for number in range(count)]
        for thread in self.threads:
            thread.start()

    def work(self, draw):
        while not self.over.is_set():
            number = draw.randrange(len(self.asked))
            hang_up_after = draw.randrange(1, 30) if draw.random() < 0.1 else None
            head = self.cluster.head_count
            try:
                answer = ask(self.cluster.url, self.asked[number], hang_up_after)
            except Lost as lost:  # rightful where the head was killed meanwhile, and then only
                rightful = head.away or head != self.cluster.head_count
                self.note("asked again" if rightful else "wrong", number, str(lost))
                time.sleep(0.2)
                continue
            except Exception as wrong:  # pylint: disable=broad-except # whatever it is, it is no answer
                self.note("wrong", number, repr(wrong))
                return
            right = self.calm[number].startswith(answer) if hang_up_after else answer == self.calm[number]
            self.note(("hung up" if hang_up_after else "answered") if right else "wrong", number, answer)

    def note(self, what, number, said):
        with self.lock:
            self.counts[what] += 1
            if what == "wrong":
                self.wrong.append(f"request {number}: {said[:300]!r}")

    def end(self, timeout_s):
        self.over.set()
        until = time.monotonic() + timeout_s
        for thread in self.threads:
            thread.join(max(0.0, until - time.monotonic()))
        if any(thread.is_alive() for thread in self.threads):
            self.wrong.append(f"a client still waits {timeout_s} s after the last fault")


def disturb(cluster, draw, counts):
    """One fault, or a process that comes back."""
    victim = draw.choice(cluster.members)
    if not victim.runs():
        victim.start()
        return
    fault = draw.choice(FAULTS)
    if cluster.head_may_die and draw.random() < 0.05:
        kill_head(cluster, counts)
        return
    if fault == "nothing" or (fault == "terminate" and not victim.may_be_told()):
        return
    counts[fault] += 1
    if fault == "kill":
        victim.kill()
    elif fault == "terminate":
        victim.terminate()
    else:
        victim.stop_for(draw.uniform(0.1, 1.5))


def kill_head(cluster, counts):
    counts["head killed"] += 1
    cluster.kill_head()


def not_tried(clients, migrations, faults, head):
    """What a run without it would not have tested."""
    return [f"there was no {what}" for what, there in (
        ("answer", clients.counts["answered"]), ("migration", migrations), ("fault", sum(faults.values())),
        ("kill of the head", faults["head killed"] or not head)) if not there]


def left_over(cluster):
    """What the books hold once nobody asks; nothing is said where that is nothing."""
    status = cluster.status()
    found = [f"{status['requests_open']} requests open"] if status["requests_open"] else []
    found += [f"{one['kv_blocks_used']} blocks of instance {one['instance']}" for one in status["instances"]
              if one["kv_blocks_used"]]
    if status["requests_failed"]:
        found.append(f"{status['requests_failed']} requests failed")
    return found


def soak(options, folder):
    draw = random.Random(options.seed)
    asked = questions(draw)
    with Cluster(options.godwit, folder, options.members, options.flags, options.head,
                 options.roles) as cluster:
        calm = [ask(cluster.url, question) for question in asked]
        for member in cluster.members:
            member.start()
        cluster.wait_for_instances(1 + options.members, 60)
        clients, faults = Clients(cluster, asked, calm, options.clients, options.seed), collections.Counter()
        migrations, last, end = 0, 0, time.monotonic() + 60 * options.minutes
        said = time.monotonic()
        while time.monotonic() < end and not clients.wrong:
            time.sleep(draw.uniform(0.05, 1.5))
            disturb(cluster, draw, faults)
            cluster.check()
            now = cluster.moves()  # a head that was started anew counts from none
            migrations, last = migrations + (now - last if now >= last else now), now
            if time.monotonic() - said > 60:
                said = time.monotonic()
                print(line(clients, migrations, faults), file=sys.stderr, flush=True)
        if options.head and not faults["head killed"]:
            kill_head(cluster, faults)
        late = []
        for member in cluster.members:
            if member.told:  # it still moves its requests, and is no instance to wait for
                late += member.end()
            if not member.runs():
                member.start()
        if not clients.wrong:
            cluster.wait_for_instances(1 + options.members, 60)
        clients.end(120)
        problems = clients.wrong + late + not_tried(clients, migrations, faults, options.head)
        until = time.monotonic() + 15
        while (rest := left_over(cluster)) and time.monotonic() < until:
            time.sleep(0.2)
        problems += rest
        problems += cluster.end()
    return line(clients, migrations, faults), problems


def line(clients, migrations, faults):
    with clients.lock:
        counts = dict(sorted(clients.counts.items()))
    return (", ".join(f"{count} {what}" for what, count in counts.items()) +
            f"; {migrations} migrations; " + ", ".join(f"{count} x {what}" for what, count in sorted(faults.items())))


def main():
    parser = argparse.ArgumentParser(prog="./run soak", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--godwit", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--minutes", type=float, default=5.0, help="for so long (5)")
    parser.add_argument("--seed", type=int, default=1, help="of what is asked and of the faults (1)")
    parser.add_argument("--members", type=int, default=3, help="processes beside the head, one instance each (3)")
    parser.add_argument("--clients", type=int, default=10, help="that ask at a time (10)")
    parser.add_argument("--head", action="store_true", help="kill the head too: its clients ask again")
    parser.add_argument("--roles", action="store_true", help="the head prefills, members decode and prefill by turns")
    parser.add_argument("flags", nargs="*", metavar="-- FLAGS", help="for all processes, as of godwit node")
    options = parser.parse_args()
    for name, least in (("minutes", 0.01), ("members", 1), ("clients", 1)):
        if getattr(options, name) < least:
            parser.error(f"--{name} wants at least {least}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # its processes end with it
    folder = tempfile.mkdtemp(prefix="godwit-soak-")
    try:
        said, problems = soak(options, folder)
    except Failed as failed:
        said, problems = "", [str(failed)]
    if said:
        print(said)
    if problems:
        print("\n".join(f"FAILED: {problem}" for problem in problems))
        print(f"the processes' logs are in {folder}")
        return 1
    clean(folder)
    print("every answer was the undisturbed one, and nothing is left over")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""A head and members, each a process of its own, that can be killed, stopped and started anew."""

import dataclasses
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import time
import urllib.request

SETTINGS = """
[scheduler] # everybody is either too full or free enough: requests migrate all the time
migrate_below = 60
migrate_above = 60
move_gain = 0
move_cooldown = "20ms"
migration_interval = "50ms"
[frontend] # whose instance dies ever again is not given up
attempts_max = 10000
[runtime] # whoever is told to end moves its requests first, and is to be back soon
drain_timeout = "5s"
"""
# A decode instance has room: what is prefilled leaves at once, and comes back where a decode instance runs out.
SETTINGS_OF_ROLES = SETTINGS.replace("below = 60", "below = 6").replace("above = 60", "above = 20")


class Failed(Exception):
    """The cluster does not do what it should; the text says what."""


def clean(folder):
    shutil.rmtree(folder, ignore_errors=True)


def free_ports(count):
    """Below those that systems give to connections, which take one while nobody listens there."""
    found = []
    for port in random.sample(range(20000, 32000), 1000):
        with socket.socket() as one:
            try:
                one.bind(("127.0.0.1", port))
            except OSError:
                continue
        found.append(port)
        if len(found) == count:
            return found
    raise Failed(f"there are no {count} free ports")


class Process:
    """One of the cluster's processes, over all its lives."""
    JOINS_MAX = 20  # in one life: a head that is busy, or dead, may be late

    def __init__(self, name, command, folder):
        self.name, self.command, self.log = name, command, os.path.join(folder, f"{name}.log")
        self.process, self.killed, self.told, self.log_begins, self.joins = None, False, False, 0, 0

    def start(self, joins=1):
        environment = {name: value for name, value in os.environ.items() if not name.startswith("GODWIT_")}
        with open(self.log, "ab") as log:
            self.log_begins = log.tell()
            self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                            env=environment)
        self.killed, self.told, self.joins = False, False, joins

    def runs(self):
        """Throws where it ended otherwise than it was told to. One that could not join is started again."""
        if self.process is None:
            return False
        code = self.process.poll()
        if code == 1 and self.joins < self.JOINS_MAX and self.could_not_join():
            self.start(self.joins + 1)
            return True
        if code is not None and not self.ended_well(code):
            last = self.said().decode(errors="replace").strip().rpartition("\n")[2]
            raise Failed(f"{self.name} ended by itself, with {code}; its last words: {last}")
        return code is None

    def could_not_join(self):
        """Nor had it joined before: then it goes on trying by itself."""
        said = b"\n" + self.said()
        return not self.told and b"cannot join" in said and b"\njoined" not in said

    def ended_well(self, code):
        """One that is killed may have been about to end by itself."""
        return code == 0 or (self.killed and code == -signal.SIGKILL)

    def may_be_told(self):
        """To end: it can hear that (before it is ready it may not), and has not been told yet (twice means at once)."""
        return not self.told and b"\nready" in b"\n" + self.said()

    def said(self):
        """What it wrote in this life."""
        with open(self.log, "rb") as log:
            log.seek(self.log_begins)
            return log.read()

    def kill(self):
        self.killed = True
        self.process.kill()
        self.process.wait()

    def terminate(self):
        if not self.told:
            self.process.terminate()
        self.told = True

    def stop_for(self, seconds):
        self.process.send_signal(signal.SIGSTOP)
        time.sleep(seconds)
        self.process.send_signal(signal.SIGCONT)

    def end(self, timeout_s=60):
        """What was wrong with the end of one that was told to; empty where nothing was."""
        if self.process is None:
            return []
        try:
            code = self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
            return [f"{self.name} does not end within {timeout_s} s"]
        return [] if self.ended_well(code) else [f"{self.name} ended with {code}"]


@dataclasses.dataclass(frozen=True)
class HeadCount:
    """Which of its lives the head is in, and whether it takes no requests between two of them."""
    life: int = 1
    away: bool = False


class Cluster:
    """The head has an instance of its own, so that there is always one; `url` is its HTTP endpoint."""

    def __init__(self, godwit, folder, members, flags, head_may_die, roles):
        self.godwit, self.head_may_die, self.head_count = godwit, head_may_die, HeadCount()
        http, control = free_ports(2)
        self.url, self.control = f"http://127.0.0.1:{http}", f"127.0.0.1:{control}"
        settings = os.path.join(folder, "soak.toml")
        with open(settings, "w", encoding="utf-8") as file:
            file.write(SETTINGS_OF_ROLES if roles else SETTINGS)
        common = ["--config", settings, "--instances", "1", "--device", "cpu", "--threads", "1", "--kv-bytes", "8MiB",
                  *flags]
        role = lambda number: ["--roles", ("prefill", "decode")[number % 2]] if roles else []
        self.head = Process("head", [godwit, "serve", "--listen", f"127.0.0.1:{http}", "--control", self.control,
                                     *role(0), *common], folder)
        self.members = [Process(f"member{number}", [godwit, "node", "--join", self.control, *role(number + 1), *common],
                                folder) for number in range(members)]

    def __enter__(self):
        self.head.start()
        try:
            self.wait_ready(60)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for process in [self.head, *self.members]:
            if process.process is not None and process.process.poll() is None:
                process.kill()

    def kill_head(self):
        """And start it anew, on the same ports."""
        self.head_count = HeadCount(self.head_count.life, True)
        self.head.kill()
        self.head.start()
        self.wait_ready(60)
        self.head_count = HeadCount(self.head_count.life + 1)

    def wait_ready(self, timeout_s):
        until = time.monotonic() + timeout_s
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # of the environment's, none
        while time.monotonic() < until:
            if not self.head.runs():
                raise Failed("the head ended at its start")
            try:
                with opener.open(self.url + "/health", timeout=5):
                    return
            except OSError:
                time.sleep(0.1)
        raise Failed(f"the head takes no requests after {timeout_s} s")

    def wait_for_instances(self, count, timeout_s):
        until = time.monotonic() + timeout_s
        while sum(one["state"] == "ready" for one in self.status()["instances"]) < count:
            self.check()
            if time.monotonic() > until:
                raise Failed(f"{count} instances are not ready after {timeout_s} s")
            time.sleep(0.1)

    def check(self):
        for process in [self.head, *self.members]:
            process.runs()

    def status(self, patience_s=15):
        """A head that is busy may be late once: it is asked again for so long."""
        until = time.monotonic() + patience_s
        while True:
            try:
                asked = subprocess.run([self.godwit, "status", "--json", "--control", self.control],
                                       capture_output=True, text=True, timeout=30, check=False)
            except subprocess.TimeoutExpired:
                raise Failed("godwit status says nothing for 30 s") from None
            if asked.returncode == 0:
                return json.loads(asked.stdout)
            if time.monotonic() > until:
                raise Failed(f"godwit status: {asked.stderr.strip()}")
            time.sleep(0.2)

    def moves(self):
        """Migrations that the head has counted since it was started."""
        return self.status()["moves"]

    def end(self):
        """The members first, so that each can take its leave."""
        wrong = []
        for some in (self.members, [self.head]):
            for process in some:
                process.terminate()
            for process in some:
                wrong += process.end()
        return wrong

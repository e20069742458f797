"""A real run: `godwit serve` and `godwit bench` over HTTP, on this machine."""

import contextlib
import json
import os
import queue
import resource
import subprocess
import threading
import time


class Failed(Exception):
    """A command that did not end well; the text names it."""


def clean():
    """Settings from the caller's environment would change the figures."""
    return {name: value for name, value in os.environ.items() if not name.startswith("GODWIT_")}


def run(command):
    """Its standard output, and the processor seconds that it took."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, capture_output=True, text=True, env=clean(), check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != 0:
        raise Failed(f"{' '.join(command)}\n{done.stderr or done.stdout}")
    return done.stdout, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@contextlib.contextmanager
def server(binary, model, flags, start_timeout_s=120):
    """Its URL and process id, while it runs."""
    command = [binary, "serve", model, "--listen", "127.0.0.1:0", "--control", "127.0.0.1:0", "--log-level", "warning",
               *flags]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=clean())
    lines = queue.Queue()

    def read():
        for line in process.stdout:
            lines.put(line)
        lines.put("")  # it has ended

    threading.Thread(target=read, daemon=True).start()
    said, url = [], None
    try:
        while not (said and said[-1].startswith("ready")):
            try:
                said.append(lines.get(timeout=start_timeout_s))
            except queue.Empty:
                raise Failed(f"{' '.join(command)}\nis not ready after {start_timeout_s} s") from None
            if not said[-1]:
                raise Failed(f"{' '.join(command)}\n{''.join(said)}")
            if said[-1].startswith("listening on "):
                url = said[-1].split()[-1]
        yield url, process.pid
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def processor_seconds(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def machine_seconds():
    """Processor seconds of everybody, and those that a hypervisor took away."""
    with open("/proc/stat", encoding="ascii") as file:
        user, nice, system, _, _, irq, softirq, steal = [int(text) for text in file.readline().split()[1:9]]
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


class Watch:
    """How many processors others than this command's processes keep busy."""

    def __init__(self, pid=None):
        self.pid, self.began = pid, time.monotonic()
        self.before, self.own = machine_seconds(), self._own()

    def _own(self):
        mine = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        return sum(u.ru_utime + u.ru_stime for u in mine) + (processor_seconds(self.pid) if self.pid else 0)

    def others(self):
        spent = machine_seconds() - self.before - (self._own() - self.own)
        return max(0.0, spent / (time.monotonic() - self.began))


def play(binary, url, pid, load, saved):
    """One run of the workload: what each request met (left in the file `saved` too), and how many processors client,
    server and others kept busy."""
    command = [binary, "bench", "--url", url, "--json", "--no-progress", "--save", saved, *load]
    busy, watch = processor_seconds(pid), Watch(pid)
    report, client = run(command)
    busy, others = processor_seconds(pid) - busy, watch.others()
    with open(saved, encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    for row in rows:
        if row["answer_tokens"] != row["answer_tokens_asked"]:
            raise Failed(f"request {row['index']}: {row['answer_tokens']} tokens of {row['answer_tokens_asked']} asked")
    took = json.loads(report)["duration_s"]
    return rows, {"client": client / took, "server": busy / took, "others": others}

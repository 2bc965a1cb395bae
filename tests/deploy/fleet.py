"""Replicas of `acre serve` on ports of the loopback address, and what can happen to them."""

import os
import random
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / os.environ.get("BUILD", "build")
ACRE = os.environ.get("ACRE", str(BUILD / "acre"))
LOSING = str(BUILD / "tests/deploy/acre-losing")  # whose device is lost after a while
PATIENCE = 1 if BUILD.name == "build" else 10  # how much longer things may take: sanitizers
READY_SECONDS = 60
QUEUE = 4000  # tokens: a tiny model takes some seconds for so many


def free_port():
    """One that no outgoing connection gets by chance: below Linux's range of those."""
    while True:
        port = random.randrange(12000, 32000)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue


def status_of(url, timeout=1):
    """The status of a GET, or None if no reply came."""
    try:
        with urllib.request.urlopen(url, timeout=timeout) as reply:
            return reply.status
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return None


def wait_until(condition, what, seconds=READY_SECONDS):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"waited {seconds} s for {what}"
        time.sleep(0.02)


class Replica:
    """One server; it keeps its port from one process to the next."""

    def __init__(self, models, log):
        self.port = free_port()
        self.models = models
        self.log = log
        self.process = None

    def start(self, acre=ACRE, log=None, **environment):
        command = [acre, "serve", "--listen", f"127.0.0.1:{self.port}", "--models",
                   str(self.models), "--set", "threads=1", "--set", f"max_queued_tokens={QUEUE}"]
        with open(log or self.log, "a", encoding="utf-8") as errors:
            self.process = subprocess.Popen(command, stderr=errors, env=os.environ | environment)

    def is_ready(self):
        return status_of(f"http://127.0.0.1:{self.port}/health/ready") == 200

    def wait_ready(self):
        wait_until(self.is_ready, f"the replica on port {self.port}")

    def stop(self):
        """As an operator stops it; the exit status must be 0."""
        self.process.terminate()
        status = self.process.wait(timeout=60)
        assert status == 0, f"a replica ended with {status} after SIGTERM"

    def kill(self):
        self.process.kill()
        self.process.wait()

    def make_log(self):
        self.process.send_signal(signal.SIGUSR1)  # "ignored", it says

    def freeze(self):
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self):
        self.process.send_signal(signal.SIGCONT)


class Fleet:
    """Replicas that were started together."""

    def __init__(self, folder, models, n=3):
        self.replicas = [Replica(models, folder / f"replica-{i}.log") for i in range(n)]

    def __iter__(self):
        return iter(self.replicas)

    def __getitem__(self, i):
        return self.replicas[i]

    def __len__(self):
        return len(self.replicas)

    def start(self):
        for replica in self.replicas:
            replica.start()
        for replica in self.replicas:
            replica.wait_ready()

    def close(self):
        for replica in self.replicas:
            if replica.process and replica.process.poll() is None:
                replica.thaw()
                replica.kill()

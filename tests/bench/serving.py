"""The server: how fast it starts, answers one request, and serves 32 clients."""

import json
import statistics
import subprocess
import sys
import time

import hardware
import material
from acre import get, pinned

REQUEST = "I would like a cup of coffee."
BEAM, BATCH, CLIENTS = 4, 32, 32
REQUESTS = 3000  # so many that the last ones, which wait in smaller batches, count for little
QUICK_REQUESTS = 100
LOAD = 0.8  # of the closed loop's rate, for Poisson arrivals
RANDOM_LENGTH = 27  # most target tokens of a random model, which never ends by itself

# ---- Start, and one request -------------------------------------------------------------------


def milliseconds(url, model):
    body = {"q": REQUEST, "source": "en", "target": model["target"]}
    began = time.monotonic()
    get(f"{url}/translate/{model['name']}", body)
    return 1e3 * (time.monotonic() - began)


def spread(times):
    return f"{statistics.median(times):.1f} | {min(times):.1f} to {max(times):.1f}"


def report_start(settings):
    if not settings.models():
        yield f"Skipped: there are no models in {settings.folder.name}/."
        return
    starts, requests = [], {}
    for _ in range(settings.rounds):
        with settings.acre.serve(settings.folder, threads=1) as server:
            starts.append(server.ready_ms)
            for model in server.models():
                times = [milliseconds(server.url, model) for _ in range(4)]
                requests.setdefault(model["name"], []).extend(times[1:])
    yield "One thread.\n\n| what | ms, median | range |\n|---|---|---|"
    yield f"| start to ready, {len(requests)} models | {spread(starts)} |"
    for name, times in requests.items():
        yield f"| one request to {name} | {spread(times)} |"


# ---- Many requests ----------------------------------------------------------------------------


class Traffic:
    """One model, its sentences, and what the server and `acre bench` are both told."""

    def __init__(self, settings):
        self.settings = settings
        self.cpus = hardware.two_cores() or (None, None)
        self.model, self.limits = settings.served_model, {}
        if not self.model:
            self.model, self.limits = material.random_model("small"), {"max_length": RANDOM_LENGTH}
        n = 64 if settings.quick else 1000
        self.requests = QUICK_REQUESTS if settings.quick else REQUESTS
        self.lines = material.english(settings.eval, n, "served.txt")
        self.compute_type = settings.serve_type

    def serve(self):
        return self.settings.acre.serve(
            self.model, self.cpus[0], threads=1, batch_size=BATCH, compute_type=self.compute_type
        )

    def bench(self):
        return self.settings.acre.bench(
            self.model, self.lines, tokens=False, cpu=self.cpus[0], threads=1, beam_size=BEAM,
            batch_size=BATCH, compute_type=self.compute_type, **self.limits,
        )

    def send(self, server, *options):
        url = f"{server.url}/translate/{server.models()[0]['name']}"
        body = json.dumps({"beam_size": BEAM, **self.limits})
        command = [*pinned(self.cpus[1]), sys.executable, material.HERE / "load.py", url,
                   self.lines, "--body", body, "--json", *map(str, options)]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        if not result.stdout:
            raise SystemExit(f"load.py: {result.stderr.strip()}")
        return json.loads(result.stdout)


def closed_rows(traffic, rounds):
    """Yields the rows; returns the clients' sentences per second."""
    served, alone, errors = [], [], {}
    for number in range(rounds):
        with traffic.serve() as server:
            result = traffic.send(server, "--clients", CLIENTS, "--requests", traffic.requests)
        served.append(result["sentences_per_second"])
        errors.update(result["errors"])
        bench = traffic.bench()
        alone.append(bench["sentences_per_second"])
        material.progress(f"  {number + 1}/{rounds}: {served[-1]:.1f}/s, bench {alone[-1]:.1f}/s")
    ratios = [a / b for a, b in zip(served, alone)]
    yield "| what | sentences/s | range |\n|---|---|---|"
    yield f"| {CLIENTS} closed-loop clients | {spread(served)} |"
    yield f"| `acre bench` on the same sentences | {spread(alone)} |"
    yield (f"| ratio | **{statistics.median(ratios):.3f}** "
           f"| {min(ratios):.3f} to {max(ratios):.3f} |")
    yield f"\n{bench['compute_type']}, {bench['backend']}; errors: {errors or 'none'}.\n"
    return statistics.median(served)


def open_rows(traffic, rate):
    n = traffic.requests
    with traffic.serve() as server:
        lone = traffic.send(server, "--clients", 1, "--requests", max(32, n // 10))
        busy = traffic.send(server, "--rate", rate, "--requests", n)
    yield (f"Poisson arrivals at {rate:.1f} a second ({100 * LOAD:.0f} % of the clients' rate), "
           f"{n} requests; errors: {busy['errors'] or 'none'}. Latencies in ms, by words in the "
           "sentence; the last column is p99 under load by p50 alone.\n")
    yield "| words | alone p50 | requests | p50 | p90 | p95 | p99 | max | p99 / alone |"
    yield "|---|---|---|---|---|---|---|---|---|"
    for words, group in busy["words"].items():
        yield latency_row(words, group, lone["words"].get(words))
    yield latency_row("all", busy, lone)


def latency_row(words, group, alone):
    found = group["latency_ms"]
    p50, ratio = "-", "-"
    if alone:
        p50 = f"{alone['latency_ms']['p50']:.1f}"
        ratio = f"**{found['p99'] / alone['latency_ms']['p50']:.2f}**"
    cells = " | ".join(f"{value:.1f}" for value in found.values())
    return f"| {words} | {p50} | {group['requests']} | {cells} | {ratio} |"


def report_traffic(settings):
    traffic = Traffic(settings)
    where = "not pinned, for want of two cores"
    if traffic.cpus[0] is not None:
        where = "the server on one CPU, the load generator on another"
    yield (f"Model {traffic.model.name}, one thread, beam {BEAM}, batch "
           f"{BATCH}; {len(traffic.lines.read_text().splitlines())} sentences; {where}.\n")
    rate = yield from closed_rows(traffic, settings.rounds)
    yield from open_rows(traffic, LOAD * rate)

"""The `acre` command, as the bench calls it."""

import json
import os
import re
import subprocess
import threading
import time
import urllib.request

import material


def get(url, body=None):
    data = json.dumps(body).encode() if body else None
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as reply:
        return json.load(reply)


def options(values):
    """{"beam_size": 4} as ["--beam-size", "4"]; None is left out."""
    for key, value in values.items():
        if value is not None:
            yield "--" + key.replace("_", "-")
            yield str(value)


def pinned(cpu):
    return [] if cpu is None else ["taskset", "-c", str(cpu)]


def capped(level):
    """The environment for an instruction set; None is the machine's best."""
    return os.environ if level is None else {**os.environ, "ACRE_CPU": level}


def level_of(result):
    """The instruction sets that a bench used, as ACRE_CPU names them: of "cpu avx512bf16"."""
    return result["backend"].split()[1].removesuffix("bf16")


def output_of(command, level=None, cpu=None):
    command = [*pinned(cpu), *command]
    result = subprocess.run(command, env=capped(level), capture_output=True, text=True, check=False)
    if result.returncode:
        raise SystemExit(f"{' '.join(map(str, command))}: {result.stderr.strip()}")
    return result.stdout


class Acre:
    def __init__(self, binary):
        self.binary = binary

    def bench_command(self, model, source, *, tokens=True, **values):
        words = ["bench", "--model", model, "--input", source, "--json", *["--tokens"] * tokens]
        return [self.binary, *words, *options(values)]

    def bench(self, model, source, *, level=None, cpu=None, **values):
        """What `acre bench --json` prints; `values` are its options, and `tokens`."""
        return json.loads(output_of(self.bench_command(model, source, **values), level, cpu))

    def translate(self, model, source, *, tokens=False, **values):
        words = ["translate", "--model", model, source, *["--tokens"] * tokens]
        return output_of([self.binary, *words, *options(values)])

    def levels(self):
        """The instruction sets to measure, as ACRE_CPU names them, the machine's best first: with
        AMX also AVX-512, which has a promise of its own."""
        source = material.token_file(1, 1)
        found = self.bench(material.random_model("tiny"), source, max_length=1, threads=1)
        best = level_of(found)
        return ["amx", "avx512"] if best == "amx" else [best]

    def serve(self, models, cpu=None, **settings):
        return Server(self.binary, models, cpu, settings)


class Server:
    """A running `acre serve`, until the end of the `with`."""

    def __init__(self, binary, models, cpu, settings):
        sets = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
        command = [*pinned(cpu), binary, "serve", "--listen", "127.0.0.1:0", "--models", models]
        began = time.monotonic()
        self.process = subprocess.Popen([*command, *sets], stderr=subprocess.PIPE, text=True)
        log = []
        for line in self.process.stderr:
            log.append(line)
            address = re.search(r"127\.0\.0\.1:(\d+)", line)
            if address:
                self.url = f"http://127.0.0.1:{address[1]}"
                get(self.url + "/health/ready")
                self.ready_ms = 1e3 * (time.monotonic() - began)
                # A full pipe would stop the server.
                threading.Thread(target=self.process.stderr.read, daemon=True).start()
                return
        raise SystemExit("the server did not start: " + "".join(log).strip())

    def models(self):
        return get(self.url + "/models")["models"]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()

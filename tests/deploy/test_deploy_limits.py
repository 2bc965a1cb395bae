"""Limits that the replicas of compose.yaml keep together, through Valkey or Redis.

The commands are those of the file, each as its container would run it: the replicas from the root
of the image, read-only, as nobody, with one volume for their keys; all in a network of their own,
behind HAProxy.
"""

import json
import os
import re
import shutil
import subprocess
import time

import pytest
import yaml
from balancers import SYSTEM_PATH
from fleet import BUILD, ROOT, wait_until
from image_root import NOBODY, Container, build_stage, can_run, image, make_volume

VALKEY = shutil.which("valkey-server") or shutil.which("redis-server")
RATE = 30
ADDRESSES = {"acre-1": "10.9.0.1:5000", "acre-2": "10.9.0.2:5000"}  # of those that compose trusts
NETWORK = "ip link set lo up && ip address add 10.9.0.1/24 dev lo && " \
          "ip address add 10.9.0.2/24 dev lo && echo made && exec sleep infinity"
BODY = json.dumps({"q": "Hello.", "source": "en", "target": "de"})
SKIPPED = [(BUILD.name != "build", "sanitizers bring libraries of their own"),
           (not can_run(), "needs root and namespaces"),
           (not VALKEY, "neither Valkey nor Redis is installed"),
           (not shutil.which("haproxy", path=SYSTEM_PATH), "haproxy is not installed"),
           (not shutil.which("ip", path=SYSTEM_PATH), "ip is not installed")]
pytestmark = [pytest.mark.skipif(condition, reason=reason) for condition, reason in SKIPPED]


def services(**variables):
    """Of compose.yaml, with these variables set as `docker compose` would."""
    text = re.sub(r"\$\{(\w+):-(.*?)\}", lambda found: variables.get(found[1], found[2]),
                  (ROOT / "docker/compose.yaml").read_text())
    return yaml.safe_load(text)["services"]


class Network:
    """Has nobody in it but who is started within."""

    def __init__(self):
        self.holder = subprocess.Popen(
            ["unshare", "--net", "sh", "-c", NETWORK], stdout=subprocess.PIPE, text=True,
            env=os.environ | {"PATH": SYSTEM_PATH})
        self.within = ("nsenter", f"--net=/proc/{self.holder.pid}/ns/net")
        self.processes = [self.holder]
        assert self.holder.stdout.readline() == "made\n"

    def start(self, *command, **environment):
        self.processes.append(subprocess.Popen(
            [*self.within, *command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            env=os.environ | {"PATH": SYSTEM_PATH} | environment))

    def says(self, *command):
        return subprocess.run([*self.within, *command], capture_output=True, text=True,
                              check=False).stdout

    def ask(self, n, client="127.0.0.1", **headers):
        """The statuses of requests through HAProxy, one after the other, from one address."""
        words = [word for key, value in headers.items() for word in ("-H", f"{key}: {value}")]
        return self.says("curl", "-s", "--interface", client, "-d", BODY, *words,
                         "-H", "Content-Type: application/json", "-o", "/dev/null",
                         "-w", "%{http_code}\n", f"http://127.0.0.1:8080/translate?[1-{n}]").split()

    def metric(self, address, name):
        page = self.says("curl", "-s", f"http://{address}/metrics")
        found = re.search(rf"^{re.escape(name)} (\S+)$", page, re.MULTILINE)
        return float(found[1]) if found else None

    def close(self):
        for process in reversed(self.processes):
            process.kill()
            process.wait()


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """The image, with one model, in which the name valkey is known."""
    folder = image(build_stage(tmp_path_factory.mktemp("stage")), tmp_path_factory.mktemp("image"))
    shutil.copytree(ROOT / "models/en-de-token", folder / "models/en-de-token")
    (folder / "etc/hosts").write_text("127.0.0.1 valkey\n")
    return folder


@pytest.fixture
def volume(root, tmp_path):
    return make_volume(root, tmp_path / "keys")


def add_key(root, volume, *limits):
    """As README.md of docker says, within a container."""
    script = (f'mount --bind "{volume}" "{root}{Container.VOLUME}" && '
              f'exec {" ".join(Container.NOBODY_IN)} "{root}" /usr/bin/acre '
              f'keys add app --store {Container.VOLUME}/acre.db "$@"')
    done = subprocess.run(["unshare", "--mount", "--propagation", "private", "sh", "-c", script,
                           "sh", *limits], capture_output=True, text=True, check=True)
    return done.stdout.split()[-1]


@pytest.fixture
def network(root, volume):
    """Valkey, both replicas and HAProxy, as `docker compose --profile limits up` has them."""
    made = services(ACRE_RATE_LIMIT=str(RATE), ACRE_SHARED_LIMITS="redis://valkey:6379")
    network = Network()
    try:
        network.start("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups",
                      "--no-new-privs", VALKEY, *made["valkey"]["command"][1:])
        replicas = [Container(root, address, made[name]["command"], volume, network.within)
                    for name, address in ADDRESSES.items()]
        network.processes += [replica.process for replica in replicas]
        for replica in replicas:
            wait_until(replica.is_ready, "a replica")
        network.start("haproxy", "-f", ROOT / "conf/haproxy.cfg",
                      **made["haproxy"]["environment"] | {
                          f"ACRE_REPLICA_{i}": address
                          for i, address in enumerate(ADDRESSES.values(), 1)})
        for address in ADDRESSES.values():
            wait_until(lambda a=address: network.metric(a, "acre_shared_limits_up") == 1, "Valkey")
        ready = ("curl", "-sf", "http://127.0.0.1:8080/health/ready")
        wait_until(lambda: network.says(*ready), "HAProxy")
        yield network
    finally:
        network.close()


def is_rate(statuses, per_minute, seconds):
    """As many were let pass as the bucket held and got meanwhile, and no more."""
    passed = statuses.count("200")
    return (set(statuses) <= {"200", "429"} and statuses[0] == "200"
            and per_minute <= passed <= per_minute + 1 + per_minute / 60 * seconds)


def test_replicas_of_compose_keep_one_rate(network, root, volume):
    began = time.monotonic()
    statuses = network.ask(2 * RATE, client="127.0.0.2")
    assert is_rate(statuses, RATE, time.monotonic() - began), statuses
    for address in ADDRESSES.values():
        assert network.metric(address, 'acre_shared_limits_asked_total{outcome="answered"}') > 5
    assert network.ask(1, client="127.0.0.3") == ["200"], "another client has a rate of its own"

    key = add_key(root, volume, "--rate", "12")
    header = {"Authorization": f"DeepL-Auth-Key {key}"}
    wait_until(lambda: key_works(network, key), "both replicas to know the key")
    began = time.monotonic()
    statuses = network.ask(24, client="127.0.0.4", **header)
    assert is_rate(statuses, 12, time.monotonic() - began), statuses


def key_works(network, key):
    """Which both read from their one store, and which takes a token of no rate."""
    return all("character_count" in network.says(
        "curl", "-s", f"http://{address}/v2/usage?auth_key={key}")
               for address in ADDRESSES.values())

"""What operators copy: the files for balancers, compose, Prometheus, Grafana, Kubernetes, images.

Each is read by the program it is for, where Debian or PyPI has that program or its schema.
"""

import copy
import ipaddress
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import urllib.request
from pathlib import Path

import kubernetes_validate
import pytest
import scenarios
import yaml
from balancers import SYSTEM_PATH
from compose_pydantic.models import ComposeSpecification
from fleet import ROOT, free_port, status_of, wait_until
from image_root import instructions, stage

KUBERNETES = ROOT / "docker/kubernetes"
DOCKERFILES = ("Dockerfile", "Dockerfile.cuda")
SETTINGS = json.loads((ROOT / "conf/acre.json").read_text())


def run(*command, **options):
    if not shutil.which(command[0], path=SYSTEM_PATH):
        pytest.skip(f"{command[0]} is not installed")
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60,
                            cwd=ROOT, env=os.environ | {"PATH": SYSTEM_PATH}, **options)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout + result.stderr


# ---- Balancers --------------------------------------------------------------------------------


def test_haproxy_takes_its_file():
    output = run("haproxy", "-c", "-f", "conf/haproxy.cfg")
    assert "Configuration file is valid" in output and "WARNING" not in output


@pytest.mark.skipif(os.geteuid() != 0, reason="nginx opens its files as root")
def test_nginx_takes_its_file():
    output = run("nginx", "-t", "-c", ROOT / "conf/nginx.conf")
    assert "test is successful" in output and "[warn]" not in output


def test_nginx_takes_its_file_from_systemd():
    """Whose services have a socket for standard output; a name for it cannot be opened."""
    if not shutil.which("nginx", path=SYSTEM_PATH) or os.geteuid() != 0:
        pytest.skip("needs nginx, and root")
    journal, output = socket.socketpair()
    with journal, output:
        done = subprocess.run(["nginx", "-t", "-q", "-c", ROOT / "conf/nginx.conf"], stdout=output,
                              stderr=subprocess.PIPE, text=True, check=False,
                              env=os.environ | {"PATH": SYSTEM_PATH})
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to be somebody else")
def test_haproxy_is_who_it_is_told_to_be(tmp_path):
    if not shutil.which("haproxy", path=SYSTEM_PATH):
        pytest.skip("haproxy is not installed")
    environment = os.environ | {"PATH": SYSTEM_PATH, "ACRE_USER": "nobody",
                                "ACRE_GROUP": "nogroup",
                                "ACRE_BIND": f"127.0.0.1:{free_port()}",
                                "ACRE_STATS_BIND": f"127.0.0.1:{free_port()}"}
    with open(tmp_path / "log", "w", encoding="utf-8") as log:
        process = subprocess.Popen(["haproxy", "-db", "-f", ROOT / "conf/haproxy.cfg"],
                                   env=environment, stdout=log, stderr=log)
    try:
        status = Path(f"/proc/{process.pid}/status")
        wait_until(lambda: "Uid:\t65534" in status.read_text(), "HAProxy to be nobody")
        assert "Gid:\t65534\t65534" in status.read_text()
    finally:
        process.kill()
        process.wait()


def test_haproxy_takes_what_is_new_in_its_file(tmp_path):
    """As `systemctl reload haproxy` tells it."""
    if not shutil.which("haproxy", path=SYSTEM_PATH):
        pytest.skip("haproxy is not installed")
    text = (ROOT / "conf/haproxy.cfg").read_text()
    path, log = tmp_path / "haproxy.cfg", tmp_path / "log"

    def edit():
        port = free_port()
        path.write_text(text.replace("127.0.0.1:8404", f"127.0.0.1:{port}"))
        return f"http://127.0.0.1:{port}/stats"

    page = edit()
    with open(log, "w", encoding="utf-8") as output:
        process = subprocess.Popen(
            ["haproxy", "-W", "-f", path], stdout=output, stderr=output,
            env=os.environ | {"PATH": SYSTEM_PATH, "ACRE_BIND": f"127.0.0.1:{free_port()}"})

    def reload():
        """Again where it was lost, as those are that come while the master starts."""
        process.send_signal(signal.SIGUSR2)
        return "Reloading" in log.read_text()

    try:
        wait_until(lambda: status_of(page) == 200, "HAProxy", 10)
        page = edit()
        wait_until(reload, "HAProxy to reload", 10)
        wait_until(lambda: status_of(page) == 200, "what is new", 10)
    finally:
        process.terminate()
        process.wait(timeout=10)


def test_balancers_wait_longer_than_the_server():
    longest_s = SETTINGS["request_timeout_ms"] / 1000
    haproxy = (ROOT / "conf/haproxy.cfg").read_text()
    nginx = (ROOT / "conf/nginx.conf").read_text()
    assert int(re.search(r"timeout server (\d+)s", haproxy)[1]) > longest_s
    assert int(re.search(r"proxy_read_timeout (\d+)s", nginx)[1]) > longest_s
    idle_s = [int(s) for s in re.findall(r"keepalive_timeout (\d+)s;\n    }", nginx)]
    assert len(idle_s) == 2 and max(idle_s) < SETTINGS["idle_timeout_s"]
    assert int(re.search(r"client_max_body_size (\d+)m", nginx)[1]) << 20 > \
        SETTINGS["max_body_bytes"]


# ---- Prometheus and Grafana -------------------------------------------------------------------


def test_prometheus_takes_its_files():
    run("promtool", "check", "config", "docker/prometheus/prometheus.yml")
    run("promtool", "check", "rules", "docker/prometheus/rules.yml")


def test_alerts_speak_when_they_should():
    assert "SUCCESS" in run("promtool", "test", "rules", "docker/prometheus/rules_test.yml")


def test_every_alert_is_told():
    rules = (ROOT / "docker/prometheus/rules.yml").read_text()
    told = re.findall(r"`(Acre[A-Za-z]+)`", (ROOT / "docker/README.md").read_text())
    assert sorted(told) == sorted(re.findall(r"alert: (\w+)", rules))


def dashboard():
    path = ROOT / "docker/grafana/provisioning/dashboards/acre.json"
    return json.loads(path.read_text())


def expressions():
    """Of the dashboard, as Prometheus will see them."""
    for panel in dashboard()["panels"]:
        for target in panel["targets"]:
            yield target["expr"].replace("$__rate_interval", "5m").replace("$model", ".*")


def test_every_panel_asks_what_prometheus_understands(tmp_path):
    rules = [{"record": f"panel:{i}", "expr": expr} for i, expr in enumerate(expressions())]
    path = tmp_path / "panels.yml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))
    run("promtool", "check", "rules", path)
    places = [tuple(panel["gridPos"].values()) for panel in dashboard()["panels"]]
    assert len(set(places)) == len(places) >= 10


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """What Prometheus gets from a replica and from HAProxy."""
    if not shutil.which("haproxy", path=SYSTEM_PATH):
        pytest.skip("haproxy is not installed")
    stage = scenarios.Stage("haproxy", tmp_path_factory.mktemp("pages"), scenarios.SHORT,
                            n_replicas=2)
    try:
        assert stage.capacity(0.3, clients=2) > 0
        yield {name: urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10)
               .read().decode() for name, port in (("acre", stage.fleet[0].port),
                                                   ("haproxy", stage.balancer.stats_port))}
    finally:
        stage.close()


def test_metrics_are_as_prometheus_likes_them(pages):
    run("promtool", "check", "metrics", input=pages["acre"])


def test_what_rules_and_panels_ask_for_is_there(pages):
    rules = yaml.safe_load((ROOT / "docker/prometheus/rules.yml").read_text())
    asked = [rule["expr"] for group in rules["groups"] for rule in group["rules"]]
    asked += expressions()
    names = set(re.findall(r"\b(?:acre|haproxy)_[a-z_0-9]+", " ".join(asked)))
    # Of replicas with Valkey: test_deploy_limits.py reads them.
    names -= {"acre_shared_limits_up", "acre_shared_limits_asked_total"}
    missing = {name for name in names
               if not re.search(rf"^{name}[{{ ]", pages[name.split("_")[0]], re.MULTILINE)}
    assert len(names) >= 15 and not missing
    assert re.search(r'^haproxy_server_status{proxy="acre",server="one",state="DOWN"} 0',
                     pages["haproxy"], re.MULTILINE)


# ---- Containers -------------------------------------------------------------------------------


def compose():
    return yaml.safe_load((ROOT / "docker/compose.yaml").read_text())


def seconds(text):
    return float(re.fullmatch(r"(\d+)s", text)[1])


def test_compose_is_as_its_schema_says():
    known = {key: value for key, value in compose().items() if not key.startswith("x-")}
    ComposeSpecification.model_validate(known)


def test_addresses_that_are_told_are_published():
    told = re.findall(r"\| (127\.0\.0\.1:\d+)", (ROOT / "docker/README.md").read_text())
    ports = [port for service in compose()["services"].values()
             for port in service.get("ports", [])]
    assert "127.0.0.1:8404" in told and all(f"{at}:{at.split(':')[1]}" in ports for at in told)


def test_an_upgrade_replaces_every_replica(tmp_path):
    """Those that the file has now, one after the other; nothing else."""
    said = tmp_path / "said"
    services = ["haproxy", "acre-10", "acre-3", "acre-1", "acre-2", "grafana"]
    (tmp_path / "docker").write_text(f"""#!/bin/sh
case $* in
*"config --services") printf '%s\\n' {' '.join(services)} ;;
*) echo "$*" >>{said} ;;
esac
""")
    (tmp_path / "sleep").write_text("#!/bin/sh\n")
    for name in ("docker", "sleep"):
        (tmp_path / name).chmod(0o755)
    subprocess.run([ROOT / "docker/upgrade"], check=True, timeout=30,
                   env=os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"})
    lines = said.read_text().splitlines()
    assert [line.split()[-1] for line in lines] == ["acre-1", "acre-2", "acre-3", "acre-10"]
    assert all(" --wait " in line for line in lines)


@pytest.mark.parametrize("third", ["", "127.0.0.1:5003"])
def test_haproxy_has_the_third_replica_that_compose_tells(third, monkeypatch):
    assert "ACRE_REPLICA_3" in compose()["services"]["haproxy"]["environment"]
    monkeypatch.setenv("ACRE_REPLICA_3", third)
    assert "Configuration file is valid" in run("haproxy", "-c", "-f", "conf/haproxy.cfg")


def test_replicas_have_no_privileges_and_time_to_drain():
    services = compose()["services"]
    for name in ("acre-1", "acre-2"):
        replica = services[name]
        assert replica["read_only"] and replica["cap_drop"] == ["ALL"]
        assert replica["user"] == "65534:65534" and "ports" not in replica
        assert seconds(replica["stop_grace_period"]) > 3 + SETTINGS["drain_timeout_s"]
    mounted = [volume.split(":")[0] for service in services.values()
               for volume in service.get("volumes", []) if volume.startswith(".")]
    assert mounted and all((ROOT / "docker" / path).exists() for path in mounted)
    targets = yaml.safe_load((ROOT / "docker/prometheus/prometheus.yml").read_text())
    hosts = {target.split(":")[0] for job in targets["scrape_configs"]
             for config in job["static_configs"] for target in config["targets"]}
    assert hosts <= services.keys()


def test_replicas_share_keys_and_what_is_set_exists():
    services = compose()["services"]
    words = [re.sub(r"\$\{\w+:-(.*?)\}", r"\1", word) for word in services["acre-1"]["command"]]
    sets = dict(word.removeprefix("--set=").split("=", 1) for word in words
                if word.startswith("--set="))
    assert sets.keys() <= SETTINGS.keys() and sets["trusted_proxies"]
    folder = str(Path(sets["store"]).parent)
    for name in ("acre-1", "acre-2"):
        assert services[name]["volumes"] == [f"keys:{folder}"] and "keys" in compose()["volumes"]
    for name in DOCKERFILES:  # test_deploy_image.py sees that it is nobody's there
        assert any(word == "COPY" and rest.endswith(f" {folder}")
                   for word, rest in instructions(name))
    said = (ROOT / "docker/compose.yaml").read_text()
    host = re.search(r"ACRE_SHARED_LIMITS=redis://(\w+):6379", said)[1]
    assert host in services and services[host]["networks"] == services["acre-1"]["networks"]


@pytest.mark.parametrize("haproxy", ["172.18.0.2", "192.168.16.2", "fd4d:65b3:9a1c::2"])
def test_replicas_believe_haproxy(haproxy):
    """On the networks that Docker makes; HAProxy takes a replica's IPv6 where there is one."""
    trusted = next(word for word in compose()["services"]["acre-1"]["command"]
                   if word.startswith("--set=trusted_proxies="))
    assert any(ipaddress.ip_address(haproxy) in ipaddress.ip_network(network)
               for network in trusted.split("=")[2].split(","))


def test_every_variable_of_compose_is_told_with_its_default():
    used = dict(re.findall(r"\$\{(\w+):-(.*?)\}", (ROOT / "docker/compose.yaml").read_text()))
    rows = re.findall(r"^\| (`[A-Z].*?) \| (.*?) \|", (ROOT / "docker/README.md").read_text(),
                      re.MULTILINE)
    told = {name: value for names, values in rows
            for name, value in zip(re.findall(r"`([A-Z_0-9]+)`", names),
                                   values.replace("`", "").replace("none", "").split(", "))}
    assert used.items() <= told.items()


def test_files_with_secrets_are_kept_nowhere():
    for name in (".gitignore", ".dockerignore"):
        for path in ("docker/.env", "docker/acre.json"):
            assert re.search(f"^/?{path}$", (ROOT / name).read_text(), re.MULTILINE)


@pytest.mark.parametrize("name", DOCKERFILES)
def test_dockerfiles_keep_the_rules(name):
    lines = instructions(name)
    known = {"FROM", "ARG", "WORKDIR", "COPY", "RUN", "LABEL", "USER", "EXPOSE", "STOPSIGNAL",
             "HEALTHCHECK", "ENTRYPOINT", "CMD", "ENV"}
    assert {word for word, _ in lines} <= known
    stages = [rest.split(" AS ")[-1] for word, rest in lines if word == "FROM"]
    given = dict(rest.split("=", 1) for word, rest in lines if word == "ARG" and "=" in rest)
    for word, rest in lines:
        if word == "FROM":
            image = re.sub(r"\$\{(\w+)\}", lambda name: given[name[1]], rest.split()[0])
            assert image == "scratch" or image in stages or ":" in image, f"no version: {image}"
            assert not image.endswith(":latest")
        if word == "COPY":
            source = re.search(r"--from=(\S+)", rest)
            assert not source or source[1] in stages
            for path in [part for part in rest.split()[:-1] if not source]:
                assert (ROOT / path).exists(), path
        if word == "RUN" and "apt-get install" in rest:
            assert "apt-get update" in rest and "--no-install-recommends" in rest and " -y " in rest
        if word in ("ENTRYPOINT", "CMD"):
            assert isinstance(json.loads(rest), list), "the form with a shell"
    kinds = [word for word, _ in lines]
    for once in ("USER", "HEALTHCHECK", "ENTRYPOINT", "CMD", "STOPSIGNAL"):
        assert kinds.count(once) == 1
    assert dict(lines)["USER"] == "65534:65534"
    assert '"/usr/bin/acre", "health"' in dict(lines)["HEALTHCHECK"]


@pytest.mark.parametrize("name", DOCKERFILES)
def test_models_of_an_image_can_be_read(name):
    """Whatever the modes of the checkout: engines keep them."""
    models = [rest for word, rest in instructions(name) if word == "COPY" and " /models/" in rest]
    assert models and all(rest.startswith("--from=build /src/models/") for rest in models)
    assert dict(stage(name, "build"))["RUN"].endswith(" && chmod -R a+rX models")


def test_models_have_the_time_that_the_slowest_one_took_twice():
    took_s = int(re.search(r"ready in (\d+) s", (ROOT / "models/README.md").read_text())[1])
    unit = (ROOT / "conf/acre.service").read_text()
    assert int(re.search(r"^TimeoutStartSec=(\d+)min$", unit, re.MULTILINE)[1]) * 60 > 2 * took_s
    for name in DOCKERFILES:
        check = dict(instructions(name))["HEALTHCHECK"]
        assert int(re.search(r"--start-period=(\d+)m ", check)[1]) * 60 > 2 * took_s
    pod = documents("base", ["deployment.yaml"])[0]["spec"]["template"]["spec"]
    probe = pod["containers"][0]["startupProbe"]
    assert probe["periodSeconds"] * probe["failureThreshold"] > 2 * took_s


# ---- Kubernetes -------------------------------------------------------------------------------


def merge(base, patch):
    """A strategic merge, as far as our overlays need it: lists of named things merge by name."""
    if isinstance(base, dict) and isinstance(patch, dict):
        return base | {key: merge(base.get(key), value) for key, value in patch.items()}
    if isinstance(base, list) and all(isinstance(x, dict) and "name" in x for x in base + patch):
        patches = {item["name"]: item for item in patch}
        return [merge(item, patches.get(item["name"], {})) for item in base]
    return copy.deepcopy(patch)


def documents(folder, names):
    return [document for name in names
            for document in yaml.safe_load_all((KUBERNETES / folder / name).read_text())]


def overlay(name):
    """The objects that `kubectl apply -k` would send; without kubectl, merged here."""
    kubectl = next((path for path in map(shutil.which, ("kustomize", "kubectl")) if path), None)
    if kubectl:
        verb = "build" if kubectl.endswith("kustomize") else "kustomize"
        return list(yaml.safe_load_all(run(kubectl, verb, KUBERNETES / name)))
    base = yaml.safe_load((KUBERNETES / "base/kustomization.yaml").read_text())
    objects = documents("base", base["resources"])
    for patch in documents(name, ["resources.yaml"]):
        objects = [merge(item, patch) if item["kind"] == patch["kind"] else item
                   for item in objects]
    return objects


@pytest.mark.parametrize("name", ["cpu", "gpu"])
def test_kubernetes_takes_the_objects(name):
    objects = overlay(name)
    for item in objects:
        kubernetes_validate.validate(item, "1.31", strict=True)
    kinds = {item["kind"]: item for item in objects if item["metadata"]["name"] == "acre"}
    assert kinds.keys() == {"Deployment", "Service", "HorizontalPodAutoscaler",
                            "PodDisruptionBudget", "NetworkPolicy"}
    pod = kinds["Deployment"]["spec"]["template"]
    labels = pod["metadata"]["labels"]
    for selector in (kinds["Deployment"]["spec"]["selector"]["matchLabels"],
                     kinds["Service"]["spec"]["selector"],
                     kinds["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"],
                     kinds["NetworkPolicy"]["spec"]["podSelector"]["matchLabels"]):
        assert selector and selector.items() <= labels.items()
    container = pod["spec"]["containers"][0]
    assert container["securityContext"]["readOnlyRootFilesystem"]
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert container["resources"]["requests"] and container["args"][0] == "serve"
    sets = dict(word.split("=", 1) for word in container["args"] if "=" in word)
    assert sets.keys() <= SETTINGS.keys() and sets["max_files"] == sets["max_glossaries"] == "0"
    pause = container["lifecycle"]["preStop"]["sleep"]["seconds"]
    assert (pod["spec"]["terminationGracePeriodSeconds"]
            > pause + 3 + SETTINGS["drain_timeout_s"])
    assert container["livenessProbe"]["terminationGracePeriodSeconds"] < pause


def test_the_merge_here_is_that_of_kustomize(monkeypatch):
    if not (shutil.which("kubectl") or shutil.which("kustomize")):
        pytest.skip("neither kubectl nor kustomize is installed")

    def spec(objects):
        deployment = next(item for item in objects if item["kind"] == "Deployment")["spec"]
        deployment["template"]["spec"]["containers"][0].pop("image")
        return deployment

    real = {name: spec(overlay(name)) for name in ("cpu", "gpu")}
    monkeypatch.setattr(shutil, "which", lambda *args, **options: None)
    assert real == {name: spec(overlay(name)) for name in ("cpu", "gpu")}

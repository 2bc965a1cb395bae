"""HAProxy and nginx with the configurations of conf/, before a fleet."""

import csv
import io
import json
import os
import subprocess
import urllib.request

from fleet import ROOT, free_port, status_of, wait_until

NAMES = ("haproxy", "nginx")
SYSTEM_PATH = os.environ["PATH"] + ":/usr/sbin"  # where Debian has both


class HAProxy:
    """conf/haproxy.cfg as it is; its addresses come from the environment."""

    def __init__(self, fleet, folder, maxconn=64):
        self.port, self.stats_port = free_port(), free_port()
        environment = os.environ | {
            "PATH": SYSTEM_PATH,
            "ACRE_BIND": f"127.0.0.1:{self.port}",
            "ACRE_STATS_BIND": f"127.0.0.1:{self.stats_port}",
            "ACRE_MAXCONN": str(maxconn),
            "ACRE_MAXQUEUE": str(2 * maxconn),
        }
        for i, replica in enumerate(fleet, 1):
            environment[f"ACRE_REPLICA_{i}"] = f"127.0.0.1:{replica.port}"
        with open(folder / "haproxy.log", "w", encoding="utf-8") as log:
            self.process = subprocess.Popen(
                ["haproxy", "-f", ROOT / "conf/haproxy.cfg"], env=environment, stdout=log,
                stderr=log)
        wait_until(self.is_ready, "HAProxy")

    def is_ready(self):
        assert self.process.poll() is None, "HAProxy ended"
        return (status_of(f"http://127.0.0.1:{self.port}/health/ready") == 200
                and all(row["status"] == "UP" for row in self.rows() if row["svname"] != "BACKEND"))

    def rows(self):
        url = f"http://127.0.0.1:{self.stats_port}/stats;csv"
        with urllib.request.urlopen(url, timeout=10) as reply:
            text = reply.read().decode().removeprefix("# ")
        return [row for row in csv.DictReader(io.StringIO(text))
                if row["pxname"] == "acre" and row["svname"] != "FRONTEND"]

    def retries(self):
        """How many requests it sent again, to the same replica or another, by its own count."""
        return sum(int(row["wretr"]) + int(row["wredis"]) for row in self.rows()
                   if row["svname"] == "BACKEND")

    def close(self):
        self.process.terminate()
        self.process.wait(timeout=90)


class Nginx:
    """conf/nginx.conf with other addresses and files."""

    def __init__(self, fleet, folder, maxconn=None):
        del maxconn  # nginx has no queue to fill
        self.port, status_port = free_port(), free_port()
        self.log = folder / "nginx.log"
        servers = "".join(f"server 127.0.0.1:{replica.port} max_fails=0 max_conns=128;\n"
                          for replica in fleet)
        text = (ROOT / "conf/nginx.conf").read_text()
        for old, n_times, new in (
            ("pid /run/nginx.pid;", 1, f"pid {folder}/nginx.pid;"),
            ("access_log /var/log/nginx/access.log acre;", 1,
             f"access_log {self.log} acre;" + "".join(
                 f"{kind}_temp_path {folder}/{kind};"
                 for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))),
            ("server 127.0.0.1:5001 max_fails=0 max_conns=256;", 2, servers),
            ("server 127.0.0.1:5002 max_fails=0 max_conns=256;", 2, ""),
            ("listen 8080 ", 1, f"listen 127.0.0.1:{self.port} "),
            ("listen 127.0.0.1:8405;", 1, f"listen 127.0.0.1:{status_port};"),
        ):
            assert text.count(old) == n_times, f"conf/nginx.conf: expected {old!r} {n_times} times"
            text = text.replace(old, new)
        (folder / "nginx.conf").write_text(text)
        with open(folder / "nginx.err", "w", encoding="utf-8") as errors:
            self.process = subprocess.Popen(
                ["nginx", "-p", folder, "-c", folder / "nginx.conf", "-g", "daemon off;"],
                env=os.environ | {"PATH": SYSTEM_PATH}, stderr=errors)
        wait_until(self.is_ready, "nginx")

    def is_ready(self):
        assert self.process.poll() is None, "nginx ended"
        return status_of(f"http://127.0.0.1:{self.port}/health/ready") == 200

    def retries(self):
        """Its log names every replica that a request went to."""
        with open(self.log, encoding="utf-8") as lines:
            return sum(json.loads(line)["replicas"].count(", ") for line in lines)

    def close(self):
        self.process.terminate()
        self.process.wait(timeout=90)


def open_balancer(name, fleet, folder, **options):
    return {"haproxy": HAProxy, "nginx": Nginx}[name](fleet, folder, **options)

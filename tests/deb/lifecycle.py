#!/usr/bin/env python3
"""`make deb-test`: the packages and the wheel on a bare Debian 12, made by debootstrap.

The wheel translates there with python3 alone. The packages are installed, upgraded while a server
is under load, and purged; every answer is compared with the known translation, and after the
purge no file of theirs may be left. systemd does not run in a folder: the server is started here,
as the package's user, on a socket that outlives it, as acre.socket's does.

Needs root. Mirrors are those of this machine's apt.
"""

import argparse
import atexit
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import threading
import time
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SUITE = "bookworm"
MODEL = "en-de-token"
TEXTS = ["Where is the train station?", "The cat is old.", "Good morning.",
         "It rains. I stay here.", "The table is too small.", "Open the window, please."]


def run(*command, **options):
    return subprocess.run(list(map(str, command)), check=True, text=True, **options)


def said(*command, **options):
    return run(*command, stdout=subprocess.PIPE, **options).stdout


def say(text):
    print(text, flush=True)


def mirror():
    """The address that this machine's apt has Debian from."""
    for line in said("apt-get", "indextargets", "--format", "$(RELEASE) $(REPO_URI)",
                     "Created-By: Packages").splitlines():
        release, address = line.split()
        if release == SUITE:
            return address.rstrip("/")  # with a slash debootstrap finds no package
    raise SystemExit(f"apt knows no mirror of {SUITE}")


def make_root(folder, kept):
    """A minimal Debian with python3; the second time it comes out of an archive."""
    if kept.exists():
        folder.mkdir(parents=True)
        run("tar", "-C", folder, "-xf", kept)
        return
    run("debootstrap", "--variant=minbase", "--include=python3", SUITE, folder, mirror(),
        stdout=subprocess.DEVNULL)
    run("tar", "-C", folder, "-cf", kept, ".")


def inside(root, *command, **options):
    environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND": "noninteractive"}
    return said("chroot", root, *command, env=environment, **options)


def check_wheel(root, wheel, expected):
    assert not list(root.glob("usr/lib/*/libsentencepiece*")) + list(root.glob("usr/lib/*/libicu*"))
    run("python3", "-m", "zipfile", "-e", wheel, root / "srv/site")
    shutil.copytree(ROOT / "models" / MODEL, root / "srv/model")
    program = ("import sys, json; sys.path.insert(0, '/srv/site'); import acre\n"
               "with acre.Translator('/srv/model', threads=1) as t:\n"
               "    print(json.dumps(t.translate(json.loads(sys.argv[1]))))")
    found = json.loads(inside(root, "python3", "-c", program, json.dumps(TEXTS)))
    assert found == expected, found
    shutil.rmtree(root / "srv/site")
    shutil.rmtree(root / "srv/model")
    say(f"wheel: {len(found)} translations with python3 alone, as acre translate has them")


def fetch_dependencies(root, packages):
    """Downloads what the packages need and the root has not, by this machine's apt."""
    cache = root / "var/cache/apt/archives"
    for deb in cache.glob("*.deb"):  # debootstrap's own
        deb.unlink()
    options = [f"Dir::State::status={root}/var/lib/dpkg/status", f"Dir::Cache::archives={cache}",
               "APT::Sandbox::User=root"]
    run("apt-get", *[word for o in options for word in ("-o", o)], "-qq", "-y", "--download-only",
        "--no-install-recommends", "install", *packages, stdout=subprocess.DEVNULL)
    return sorted(cache.glob("*.deb"))


def install(root, packages):
    for package in packages:
        if root not in package.parents:
            shutil.copy(package, root / "srv")
    names = [f"/{p.relative_to(root)}" if root in p.parents else f"/srv/{p.name}" for p in packages]
    inside(root, "dpkg", "--force-confold", "-i", *names)


def files_of(root):
    skip = ("proc", "sys", "dev", "srv", "var/cache", "var/lib/dpkg", "var/log", "tmp", "run")
    return {str(p.relative_to(root)) for p in root.rglob("*")
            if not str(p.relative_to(root)).startswith(skip)}


class Server:
    """acre serve in the root, as the package's user, on a socket that somebody else holds."""

    def __init__(self, root, listener):
        self.listener = listener
        uid, gid = self.user(root)

        def confine():
            os.dup2(listener.fileno(), 3)
            os.set_inheritable(3, True)
            os.chroot(root)
            os.chdir("/")
            os.setgroups([])
            os.setgid(gid)
            os.setuid(uid)
            os.execve("/usr/bin/acre", ["acre", "serve", "--config", "/etc/acre/acre.json",
                                        "--set", "threads=1"],
                      {"LISTEN_FDS": "1", "LISTEN_PID": str(os.getpid())})

        self.pid = os.fork()
        atexit.register(self.kill)
        if self.pid == 0:
            try:
                confine()
            finally:
                os._exit(1)

    @staticmethod
    def user(root):
        for line in (root / "etc/passwd").read_text().splitlines():
            name, _, uid, gid, *_ = line.split(":")
            if name == "acre":
                return int(uid), int(gid)
        raise AssertionError("the package made no user acre")

    def kill(self):
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)

    def stop(self):
        os.kill(self.pid, signal.SIGTERM)
        _, status = os.waitpid(self.pid, 0)
        self.pid = None
        assert status == 0, f"the server ended with {status}"


class Load:
    """Clients that translate without a pause until they are told to stop."""

    def __init__(self, port, expected, n_clients=4):
        self.address = f"http://127.0.0.1:{port}/translate"
        self.expected = expected
        self.right = 0
        self.wrong = []
        self.is_over = False
        self.lock = threading.Lock()
        self.threads = [threading.Thread(target=self.work, args=[i], daemon=True)
                        for i in range(n_clients)]
        for thread in self.threads:
            thread.start()

    def ask(self, text):
        body = json.dumps({"q": text, "source": "en", "target": "de"}).encode()
        request = urllib.request.Request(self.address, body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=60) as reply:
            return json.load(reply)["translatedText"]

    def work(self, i):
        while not self.is_over:
            i = (i + 1) % len(TEXTS)
            try:
                found = self.ask(TEXTS[i])
            except OSError as error:
                found = repr(error)
            with self.lock:
                if found == self.expected[i]:
                    self.right += 1
                else:
                    self.wrong.append((TEXTS[i], found))

    def wait_for(self, n):
        """Until so many more were right."""
        end, goal = time.monotonic() + 300, self.right + n
        while self.right < goal and not self.wrong:
            assert time.monotonic() < end, f"{self.right} right after 300 s, wanted {goal}"
            time.sleep(0.05)

    def stop(self):
        self.is_over = True
        for thread in self.threads:
            thread.join()
        assert not self.wrong, f"{len(self.wrong)} wrong or lost: {self.wrong[:3]}"
        return self.right


def upgrade_under_load(root, packages, expected):
    config = root / "etc/acre/acre.json"
    edited = re.sub(r'"request_timeout_ms": \d+', '"request_timeout_ms": 50001', config.read_text())
    assert edited != config.read_text()
    config.write_text(edited)
    listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
    server = Server(root, listener)
    load = Load(listener.getsockname()[1], expected)
    load.wait_for(100)
    install(root, packages)
    load.wait_for(100)
    server.stop()
    server = Server(root, listener)
    load.wait_for(100)
    n = load.stop()
    server.stop()
    assert config.read_text() == edited, "the upgrade changed an edited setting"
    version = inside(root, "dpkg-query", "-W", "-f", "${Version}", "acre")
    say(f"upgrade to {version} under load, and a restart: {n} answers right, none wrong or lost; "
        "the edited acre.json is kept")


def packages_of(folder):
    packages = sorted(folder.glob("acre*_*.deb"))
    assert len(packages) == 2, f"{folder}: expected two packages, found {packages}"
    return packages


def expected_translations(acre):
    text = "".join(line + "\n" for line in TEXTS)
    lines = said(acre, "translate", "--model", ROOT / "models" / MODEL, input=text).splitlines()
    assert len(lines) == len(TEXTS)
    return lines


def check_installed(root, before):
    new = files_of(root) - before
    wanted = {"usr/bin/acre", "etc/acre/acre.json", "usr/share/man/man1/acre.1.gz",
              "usr/share/man/man5/acre.json.5.gz", f"usr/share/acre/models/{MODEL}/config.json"}
    assert wanted <= new, wanted - new
    assert inside(root, "dpkg-query", "-W", "-f", "${Conffiles}", "acre").split()[0] == \
        "/etc/acre/acre.json"
    assert inside(root, "dpkg", "--verify", "acre", "acre-models") == ""  # it tells of changes only
    inside(root, "setpriv", "--reuid=acre", "--regid=acre", "--clear-groups", "acre", "serve",
           "--config", "/etc/acre/acre.json", "--check-config")
    say(f"install: {len(new)} files, the user acre can read what it serves")


WRITTEN = ("var/lib/private/acre/acre.db", "var/log/private/acre/access.log")


def write_as_served(root):
    """What the unit's server has written: systemd makes its folders, with links to them."""
    for path in map(root.joinpath, WRITTEN):
        path.parent.mkdir(parents=True)
        path.touch()
        (path.parents[2] / "acre").symlink_to("private/acre")


def purge(root, before, dependencies):
    write_as_served(root)
    inside(root, "dpkg", "--remove", "acre")
    assert all((root / path).exists() for path in WRITTEN), "removed, but not purged"
    inside(root, "dpkg", "--purge", "acre", "acre-models")
    for deb in dependencies:
        before |= {line.split("./", 1)[1].rstrip("/").split(" -> ")[0]
                   for line in said("dpkg", "-c", deb).splitlines() if "./" in line}
    left = {path for path in files_of(root) - before if "acre" in path}
    left |= {path for folder in ("lib", "log") for path in (root / "var" / folder).rglob("acre*")
             if "dpkg" not in path.parts}
    assert not left, left
    assert "acre" not in inside(root, "dpkg-query", "-W", "-f", "${Package} ")
    say("purge: no file of theirs is left, and none that the server wrote")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=Path, help="folder with acre, wheel/, deb/ and deb-next/")
    build = parser.parse_args().build.resolve()
    root = build / "deb-root"
    shutil.rmtree(root, ignore_errors=True)
    make_root(root, build / "deb-root.tar")
    expected = expected_translations(build / "acre")
    check_wheel(root, next((build / "wheel").glob("*.whl")), expected)
    before = files_of(root)
    dependencies = fetch_dependencies(root, packages_of(build / "deb"))
    install(root, dependencies + packages_of(build / "deb"))
    check_installed(root, before)
    upgrade_under_load(root, packages_of(build / "deb-next"), expected)
    purge(root, before, dependencies)
    shutil.rmtree(root)


if __name__ == "__main__":
    main()

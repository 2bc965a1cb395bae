"""The file system of the image, made from the binary of this build, and `acre` in it."""

import json
import os
import re
import shutil
import subprocess
import sys
import time
import urllib.request
import zlib
from pathlib import Path

from fleet import ACRE, ROOT, free_port

ASSEMBLE = ROOT / "docker/assemble"
NOBODY = "65534"


def instructions(name):
    """Of a Dockerfile: pairs of a word and the rest of its line."""
    text = (ROOT / "docker" / name).read_text()
    text = re.sub(r"^#.*\n", "", text, flags=re.MULTILINE).replace("\\\n", " ")
    return [tuple(line.split(None, 1)) for line in text.splitlines() if line.strip()]


def stage(name, wanted):
    """The instructions of one stage of a Dockerfile."""
    lines, is_in = [], False
    for word, rest in instructions(name):
        is_in = rest.endswith(f" AS {wanted}") if word == "FROM" else is_in
        lines += [(word, rest)] if is_in else []
    return lines


def build_stage(folder, name="Dockerfile"):
    """What the stage `build` leaves for the next one, in `folder`."""
    for command in re.findall(r"[^&]+", dict(stage(name, "build"))["RUN"]):
        match command.split():
            case ["docker/assemble", "build/acre", path]:
                subprocess.run([ASSEMBLE, ACRE, folder / path[1:]], check=True)
            case ["mkdir", path]:
                (folder / path[1:]).mkdir()
    return folder


def health_check(name="Dockerfile"):
    """The command of the image."""
    return json.loads(dict(stage(name, "bare"))["HEALTHCHECK"].split(" CMD ")[1])


def copy(source, target, owner):
    """As engines do: what a folder has goes into the target. What is there already keeps its
    owner."""
    if source.is_dir() and not source.is_symlink():
        is_new = not target.exists()
        target.mkdir(parents=True, exist_ok=True)
        for path in source.iterdir():
            copy(path, target / path.name, owner)
    else:
        is_new = True
        shutil.copy2(source, target, follow_symlinks=False)
    if is_new and os.geteuid() == 0:
        os.chown(target, owner, owner, follow_symlinks=False)


def image(built, folder, name="Dockerfile"):
    """The root of the image without models, in `folder`, from what build_stage() left."""
    folder.mkdir(exist_ok=True)
    folder.chmod(0o755)
    for word, rest in stage(name, "bare"):
        if word == "COPY":
            *options, source, target = rest.split()
            owner = [word.removeprefix("--chown=").split(":")[0] for word in options
                     if word.startswith("--chown=")]
            copy(built / source[1:], folder / target[1:], int((owner or [0])[0]))
    return folder


def compressed_bytes(folder):
    """As a layer, but for the best compression: tar, deflate."""
    squeeze = zlib.compressobj(1)
    with subprocess.Popen(["tar", "-C", folder, "-c", "."], stdout=subprocess.PIPE) as tar:
        n = 0
        while piece := tar.stdout.read(1 << 20):
            n += len(squeeze.compress(piece))
    assert tar.returncode == 0
    return n + len(squeeze.flush())


def files(folder):
    return [path for path in Path(folder).rglob("*") if path.is_file() and not path.is_symlink()]


class Container:
    """What a container engine does: the root is read-only, nobody is in it, without privileges. A
    volume is a folder that nobody may write, on VOLUME; `within` begins the commands that run in
    its network. Without an address the settings say where it listens."""

    VOLUME = "/var/lib/acre"
    NOBODY_IN = ("chroot", f"--userspec={NOBODY}:{NOBODY}")
    SCRIPT = ('mount --bind "$0" "$0" && mount -o remount,ro,bind "$0" && '
              f'{{ [ -z "$VOLUME" ] || mount --bind "$VOLUME" "$0{VOLUME}"; }} && '
              f'exec setpriv --no-new-privs {" ".join(NOBODY_IN)} "$0" "$@"')

    def __init__(self, root, address, command=("serve", "--config", "/etc/acre/acre.json"),
                 volume="", within=()):
        self.root, self.within = root, within
        self.check = (["/usr/bin/acre", "health", f"http://{address}"] if address else
                      health_check())
        listen = ["--listen", address] if address else []
        self.began = time.monotonic()
        self.process = subprocess.Popen(
            [*within, "unshare", "--mount", "--propagation", "private", "sh", "-c", self.SCRIPT,
             root, "/usr/bin/acre", *command, *listen], stderr=subprocess.PIPE,
            text=True, env=os.environ | {"VOLUME": str(volume)})

    def health(self):
        return subprocess.run([*self.within, *self.NOBODY_IN, self.root, *self.check],
                              capture_output=True, text=True, check=False)

    def is_ready(self):
        """A server that has ended never will be: then what it said is the reason."""
        assert self.process.poll() is None, self.process.stderr.read()
        return self.health().returncode == 0

    def state(self):
        """What Linux says of the process, by name."""
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return dict(line.split(":\t", 1) for line in lines)

    def stop(self):
        self.process.terminate()
        return self.process.wait(timeout=60)


def make_volume(root, folder):
    """A folder to mount on VOLUME, of the owner that the image has for it, as engines make one."""
    folder.mkdir()
    state = (root / Container.VOLUME[1:]).stat()
    os.chown(folder, state.st_uid, state.st_gid)
    for parent in [folder, *list(folder.parents)[:-2]]:
        parent.chmod(parent.stat().st_mode | 0o011)
    return folder


def ask(port, text="Where is the train station?"):
    body = json.dumps({"q": text, "source": "en", "target": "de"}).encode()
    request = urllib.request.Request(f"http://127.0.0.1:{port}/translate", body,
                                     {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=10) as reply:
        return json.load(reply)["translatedText"]


def can_run():
    """Whether this user may make a root file system its own."""
    return os.geteuid() == 0 and subprocess.run(
        ["unshare", "--mount", "true"], capture_output=True, check=False).returncode == 0


def main():
    """Serves from the root given, as a container engine would, and says how soon."""
    state = Path(sys.argv[1] + Container.VOLUME).stat()
    assert (state.st_uid, state.st_gid) == (int(NOBODY), int(NOBODY)), "a store cannot be made"
    port = free_port()
    container = Container(sys.argv[1], f"127.0.0.1:{port}")
    while not container.is_ready():
        time.sleep(0.01)
    answer = ask(port)
    seconds = time.monotonic() - container.began
    print(f"first answer after {seconds:.2f} s: {answer}")
    return container.stop()


if __name__ == "__main__":
    sys.exit(main())

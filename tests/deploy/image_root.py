"""The file system of the image, assembled from the binary of this build, and `acre` in it."""

import json
import os
import subprocess
import sys
import time
import urllib.request
import zlib
from pathlib import Path

from fleet import ACRE, ROOT, free_port

ASSEMBLE = ROOT / "docker/assemble"
NOBODY = "65534"


def assemble(folder):
    subprocess.run([ASSEMBLE, ACRE, folder], check=True)
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
    its network."""

    VOLUME = "/var/lib/acre"
    NOBODY_IN = ("chroot", f"--userspec={NOBODY}:{NOBODY}")
    SCRIPT = ('mount --bind "$0" "$0" && mount -o remount,ro,bind "$0" && '
              f'{{ [ -z "$VOLUME" ] || mount --bind "$VOLUME" "$0{VOLUME}"; }} && '
              f'exec setpriv --no-new-privs {" ".join(NOBODY_IN)} "$0" "$@"')

    def __init__(self, root, address, command=("serve", "--config", "/etc/acre/acre.json"),
                 volume="", within=()):
        self.root, self.address, self.within = root, address, within
        self.began = time.monotonic()
        self.process = subprocess.Popen(
            [*within, "unshare", "--mount", "--propagation", "private", "sh", "-c", self.SCRIPT,
             root, "/usr/bin/acre", *command, "--listen", address], stderr=subprocess.PIPE,
            text=True, env=os.environ | {"VOLUME": str(volume)})

    def health(self):
        return subprocess.run([*self.within, *self.NOBODY_IN, self.root, "/usr/bin/acre", "health",
                               f"http://{self.address}"], capture_output=True, text=True,
                              check=False)

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

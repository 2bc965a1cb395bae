"""Where the server listens, and where its log goes."""

import os
import re
import socket
import subprocess

import pytest
from acre_server import ACRE, ROOT, Server, eventually

MODEL = ROOT / "tests/golden/models/tiny-token"


def has_ipv6():
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            return True
    except OSError:
        return False


@pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6")
def test_localhost_is_both_families():
    names = {info[4][0] for info in socket.getaddrinfo("localhost", 80, type=socket.SOCK_STREAM)}
    server = Server(MODEL, listen="localhost:0")
    try:
        for address in names:
            with socket.create_connection((address, server.port), timeout=10) as connection:
                connection.sendall(b"GET /health HTTP/1.0\r\n\r\n")
                assert connection.recv(12) == b"HTTP/1.1 200", address
        assert "".join(server.log).count(f":{server.port}") == len(names)
    finally:
        assert server.stop() == 0


def test_a_log_without_a_place_goes_nowhere(tmp_path):
    """Where standard error is closed, a socket would get its number, and the log with it."""
    port_file = tmp_path / "port"
    process = subprocess.Popen(
        ["bash", "-c", f'exec "{ACRE}" serve --listen 127.0.0.1:0 --models "{MODEL}" '
         "0<&- 1>&- 2>&-"])
    try:
        def find_port():
            table = subprocess.run(["cat", f"/proc/{process.pid}/net/tcp"], capture_output=True,
                                   text=True, check=False).stdout
            inodes = {re.sub(r"\D", "", os.readlink(f"/proc/{process.pid}/fd/{fd}"))
                      for fd in os.listdir(f"/proc/{process.pid}/fd")
                      if "socket" in os.readlink(f"/proc/{process.pid}/fd/{fd}")}
            for line in table.splitlines()[1:]:
                fields = line.split()
                if fields[3] == "0A" and fields[9] in inodes:
                    port_file.write_text(str(int(fields[1].split(":")[1], 16)))
            return port_file.exists()
        assert eventually(find_port)
        for fd in (0, 1, 2):
            assert os.readlink(f"/proc/{process.pid}/fd/{fd}") == "/dev/null"
        with socket.create_connection(("127.0.0.1", int(port_file.read_text())), 10) as connection:
            connection.sendall(b"GET /health HTTP/1.0\r\n\r\n")
            assert connection.recv(12) == b"HTTP/1.1 200"
    finally:
        process.terminate()
        assert process.wait(timeout=20) == 0

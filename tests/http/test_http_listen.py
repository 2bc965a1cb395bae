"""Where the server listens, and where its log goes."""

import json
import os
import re
import shutil
import signal
import socket
import stat
import subprocess

import pytest
from acre_server import ACRE, PATIENCE, ROOT, Server, eventually

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


@pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6")
@pytest.mark.parametrize("hosts", [("0.0.0.0", "[::]"), ("[::]", "127.0.0.1"), ("[::]",)])
def test_both_families_have_the_same_port(hosts):
    """By an address for each, or one for both."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    server = Server(MODEL, listen=",".join(f"{host}:{port}" for host in hosts))
    try:
        for address in ("127.0.0.1", "::1"):
            with socket.create_connection((address, port), timeout=10) as connection:
                connection.sendall(b"GET /health HTTP/1.0\r\n\r\n")
                assert connection.recv(12) == b"HTTP/1.1 200", address
    finally:
        assert server.stop() == 0


@pytest.mark.skipif(PATIENCE > 1, reason="a sanitizer wants to be the first library that is loaded")
def test_every_address_is_those_of_ipv4_where_there_is_no_ipv6(tmp_path):
    """Images listen at [::], and are asked for their health there, whatever the machine has."""
    library = tmp_path / "no_ipv6.so"
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, ROOT / "tests/http/no_ipv6.c",
                    "-ldl"], check=True)
    without = {"LD_PRELOAD": str(library)}
    server = Server(MODEL, listen="[::]:0", env=without)
    try:
        assert f"listening on http://0.0.0.0:{server.port}, " in "".join(server.log)
        assert server.get("/health").status_code == 200
        done = subprocess.run([ACRE, "health", f"http://[::]:{server.port}"], timeout=60,
                              check=False, env=os.environ | without)
        assert done.returncode == 0
    finally:
        assert server.stop() == 0


def links_of_files(pid):
    """What the open files of a process are. Those that it closes meanwhile are left out."""
    links = []
    for fd in os.listdir(f"/proc/{pid}/fd"):
        try:
            links.append(os.readlink(f"/proc/{pid}/fd/{fd}"))
        except FileNotFoundError:
            pass
    return links


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
            inodes = {link[len("socket:["):-1] for link in links_of_files(process.pid)
                      if link.startswith("socket:[")}
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


# ---- Several addresses, socket files, sockets of others ----------------------------------------


def ask(connection, path=b"/health"):
    connection.sendall(b"GET " + path + b" HTTP/1.0\r\n\r\n")
    data = b""
    while piece := connection.recv(65536):
        data += piece
    return data


def ask_file(path):
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(20)
        connection.connect(str(path))
        return ask(connection)


def test_several_addresses(tmp_path):
    file = tmp_path / "acre.sock"
    config = tmp_path / "acre.json"
    config.write_text(json.dumps({"listen": ["127.0.0.1:0", f"unix:{file}", "127.0.0.2:0"]}))
    server = Server(MODEL, listen=None, config=config, access_log=tmp_path / "access.log")
    try:
        assert server.get("/health").status_code == 200
        assert ask_file(file).startswith(b"HTTP/1.1 200")
        other = int(re.search(r"http://127\.0\.0\.2:(\d+)", "".join(server.log))[1])
        with socket.create_connection(("127.0.0.2", other), timeout=20) as connection:
            assert ask(connection).startswith(b"HTTP/1.1 200")
        assert f" and unix:{file} and " in "".join(server.log)
        log = tmp_path / "access.log"
        assert eventually(lambda: " local GET /health 200 " in log.read_text())
        done = subprocess.run([ACRE, "health", f"unix:{file}"], timeout=60, check=False)
        assert done.returncode == 0
    finally:
        assert server.stop() == 0
    assert not file.exists()


def test_a_socket_file_is_for_whoever_may_enter_its_folder(tmp_path):
    file = tmp_path / "acre.sock"
    mask = os.umask(0o077)
    try:
        server = Server(MODEL, listen=f"127.0.0.1:0,unix:{file}")
    finally:
        os.umask(mask)
    try:
        assert stat.S_IMODE(file.stat().st_mode) == 0o666
    finally:
        assert server.stop() == 0


def refused(*args, **kwargs):
    done = subprocess.run([ACRE, "serve", "--models", MODEL, *args], capture_output=True, text=True,
                          timeout=60, check=False, **kwargs)
    assert done.returncode != 0 and done.stdout == ""
    return done.stderr


def test_a_socket_file_left_over_is_replaced_and_one_in_use_is_not(tmp_path):
    file = tmp_path / "acre.sock"
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(file))
    server = Server(MODEL, listen=f"127.0.0.1:0,unix:{file}")
    try:
        assert ask_file(file).startswith(b"HTTP/1.1 200")
        assert refused("--listen", f"unix:{file}") == (
            f"acre: listen: expected a free address and port, found {file}: "
            "Address already in use\n")
        assert ask_file(file).startswith(b"HTTP/1.1 200")
    finally:
        assert server.stop() == 0
    file.write_text("a file of somebody else")
    assert "Address already in use" in refused("--listen", f"unix:{file}")
    assert file.read_text() == "a file of somebody else"


@pytest.mark.parametrize("listen", ["unix:", "unix:/" + "a" * 108, "fd:", "fd:x", "fd:-1", ",",
                                    "127.0.0.1:0,", "127.0.0.1:0,,127.0.0.1:0",
                                    ",".join(["127.0.0.1:0"] * 17)])
def test_what_is_no_address(listen):
    assert "--listen: expected HOST:PORT, " in refused("--listen", listen)


def test_descriptors_that_are_no_sockets():
    assert "listen: fd:99: expected a stream socket, found" in refused("--listen", "fd:99")
    assert "listen: fd:0: expected a stream socket, found" in refused("--listen", "fd:0",
                                                                      stdin=subprocess.DEVNULL)
    with socket.socket(type=socket.SOCK_DGRAM) as datagrams:
        fd = datagrams.fileno()
        assert f"fd:{fd}: expected a stream socket, found another kind" in refused(
            "--listen", f"fd:{fd}", pass_fds=[fd])


def activate(sockets, environment, *args):
    """Starts the server as systemd does, with sockets from descriptor 3 on."""
    fds = [s.fileno() for s in sockets]
    keep = "".join(f" {3 + i}<&{fd}" for i, fd in enumerate(fds))
    script = (f'exec {keep}; LISTEN_PID=$$ LISTEN_FDS={len(fds)} exec "$@"')
    return subprocess.Popen(["bash", "-c", script, "bash", ACRE, "serve", "--models", MODEL, *args],
                            pass_fds=fds, env={**os.environ, **environment},
                            stderr=subprocess.PIPE, text=True)


class Manager:
    """What systemd's side of sd_notify hears."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(path)
        self.socket.settimeout(60)

    def hears(self):
        return self.socket.recv(4096).decode()


@pytest.mark.parametrize("is_abstract", [False, True])
def test_a_manager_starts_it_and_hears_how_it_is(tmp_path, is_abstract):
    name = f"acre-test-{os.getpid()}" if is_abstract else str(tmp_path / "notify")
    manager = Manager("\0" + name if is_abstract else name)
    file = socket.socket(socket.AF_UNIX)
    file.bind(str(tmp_path / "acre.sock"))
    file.listen()
    with socket.create_server(("127.0.0.1", 0)) as port, file:
        high = [socket.fromfd(s.fileno(), s.family, s.type) for s in (port, file)]
        with socket.create_connection(port.getsockname(), timeout=60) as early:
            process = activate(high, {"NOTIFY_SOCKET": ("@" if is_abstract else "") + name,
                                      "WATCHDOG_USEC": "200000"})
            try:
                assert ask(early).startswith(b"HTTP/1.1 200")  # came before there was a server
                assert ask_file(tmp_path / "acre.sock").startswith(b"HTTP/1.1 200")
                assert manager.hears() == "READY=1"
                assert [manager.hears() for _ in range(3)] == ["WATCHDOG=1"] * 3
                process.send_signal(signal.SIGHUP)
                heard = [manager.hears()]
                while heard[-1] != "READY=1":
                    heard.append(manager.hears())
                assert any(re.fullmatch(r"RELOADING=1\nMONOTONIC_USEC=\d+", text) for text in heard)
            finally:
                process.terminate()
                assert process.wait(timeout=60) == 0
            while (text := manager.hears()) == "WATCHDOG=1":
                continue
            assert text == "STOPPING=1"
    assert (tmp_path / "acre.sock").exists()  # it is the manager's


def test_sockets_for_another_process_are_not_taken():
    with socket.create_server(("127.0.0.1", 0)) as port:
        done = subprocess.run(
            [ACRE, "serve", "--models", MODEL, "--listen", "fd:98"], capture_output=True, text=True,
            env={**os.environ, "LISTEN_PID": "1", "LISTEN_FDS": "1"}, timeout=60, check=False,
            pass_fds=[port.fileno()])
        assert "listen: fd:98: expected a stream socket" in done.stderr


# ---- The unit ------------------------------------------------------------------------------------


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd is not here")
def test_systemd_knows_what_the_units_say(tmp_path):
    for name in ("acre.service", "acre.socket"):
        text = (ROOT / "conf" / name).read_text()
        (tmp_path / name).write_text(re.sub("^ExecStart=.*", "ExecStart=/bin/true", text,
                                            flags=re.MULTILINE))
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", tmp_path / "acre.socket",
                           tmp_path / "acre.service"], capture_output=True, text=True, timeout=60,
                          check=False)
    assert done.returncode == 0 and not done.stdout + done.stderr


def test_a_server_that_cannot_start_yet_is_tried_again():
    """Its address may come late, or what it fails of may go: systemd gives up after five, else."""
    service = (ROOT / "conf/acre.service").read_text()
    unit = service.split("[Service]")[0]
    assert "\nStartLimitIntervalSec=0\n" in unit and "\nRestartSec=2\n" in service
    assert "\nFreeBind=yes\n" in (ROOT / "conf/acre.socket").read_text()


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd is not here")
def test_the_unit_is_confined(tmp_path):
    unit = tmp_path / "acre.service"
    shutil.copy(ROOT / "conf/acre.service", unit)
    done = subprocess.run(["systemd-analyze", "security", "--offline=true", "--threshold=20",
                           "--no-pager", unit], capture_output=True, text=True, timeout=60,
                          check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    exposure = re.search(r"Overall exposure level for acre.service: (\d+\.\d)", done.stdout)
    assert float(exposure[1]) <= 2.0

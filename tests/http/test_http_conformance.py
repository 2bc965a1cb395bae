"""RFC 9110 and 9112: what is HTTP is answered; what is not is refused once, and then it is over.

Every case is sent whole, byte by byte, and behind other requests. http11_cases.json has the cases
of Http11Probe's MUST level; H1SPEC those of uNetworking/h1spec, written anew; OURS what neither
has.
"""

import json
import re
import time
from pathlib import Path

import pytest
from acre_server import PATIENCE, read_reply

GOOD = json.dumps({"q": "Hello.", "source": "en", "target": "de"}).encode()
GET = b"GET /health HTTP/1.1\r\nHost: a\r\n\r\n"
POST = b"POST /translate HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
TRANSLATE = POST + b"Content-Length: %d\r\n\r\n" % len(GOOD) + GOOD
HOST = b"Host: a\r\n"
ANSWERED = "answered"  # also by an error of the handler's own, on a connection that goes on
REFUSED = (400, 499)


def http11_cases():
    """"/" is a path that this server does not have; /health and /translate stand in its place. An
    empty body is no translation, so there an ordinary error is an answer like 200."""
    text = (Path(__file__).parent / "http11_cases.json").read_text()
    for case in json.loads(text)["cases"]:
        request = case["request"].encode("latin-1")
        request = re.sub(rb"^(GET|OPTIONS) / ", rb"\1 /health ", request)
        request = re.sub(rb"^POST / ", b"POST /translate ", request)
        status = case["status"]
        yield case["id"], request, ANSWERED if status == ["2xx"] else (status[0], status[0])


LINE = b"GET /health HTTP/1.1\r\n"
H1SPEC = {
    "request without version": (b"GET /health \r\n\r\n", (400, 599)),
    "Expect": (LINE + HOST + b"Expect: 100-continue\r\n\r\n", ANSWERED),
    "valid GET": (LINE + HOST + b"\r\n", ANSWERED),
    "valid GET, oddly written": (LINE + b"hoSt:\texample.com\r\nempty:\r\n\r\n", ANSWERED),
    "invalid header name": (LINE + HOST + b"X-Invalid[]: test\r\n\r\n", REFUSED),
    "missing Host": (LINE + b"Content-Length: 5\r\n\r\n", REFUSED),
    "two Hosts": (LINE + HOST + b"Host: b\r\n\r\n", REFUSED),
    "overflowing negative length":
        (LINE + HOST + b"Content-Length: -123456789123456789123456789\r\n\r\n", REFUSED),
    "negative length": (LINE + HOST + b"Content-Length: -1234\r\n\r\n", REFUSED),
    "length of letters": (LINE + HOST + b"Content-Length: abc\r\n\r\n", REFUSED),
    "empty value": (LINE + HOST + b"X-Empty-Header: \r\n\r\n", ANSWERED),
    "control character": (LINE + HOST + b"X-Bad: test\x07\r\n\r\n", REFUSED),
    "unknown version": (b"GET /health HTTP/9.9\r\nHost: a\r\n\r\n", (400, 599)),
    "text before the method": (b"Extra lineGET /health HTTP/1.1\r\nHost: a\r\n\r\n", (400, 599)),
    "line that ends in CR": (LINE + HOST + b"\rSome-Header: Test\r\n\r\n", REFUSED),
    "valid POST":
        (b"POST /translate HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello", ANSWERED),
    "chunked POST":
        (b"POST /translate HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
         b"c\r\nHellO world1\r\n0\r\n\r\n", ANSWERED),
    "chunked with a length, in varying case":
        (b"POST /translate HTTP/1.1\r\nHost: a\r\ncontent-LengtH: 5\r\n"
         b"TransFer-Encoding: chunked\r\n\r\nc\r\nHellO world1\r\n0\r\n\r\n", REFUSED),
}
# The other 15 of its 33: of a request cut there, the server awaits the rest.
H1SPEC_CUTS = [
    b"G", b"GET ", b"GET /health", b"GET /health ", b"GET /health HTTP", b"GET /health HTTP/1.1",
    b"GET /health HTTP/1.1\r", LINE, LINE + b"Hos", LINE + b"Host:", LINE + b"Host: ",
    LINE + b"Host: localhost", LINE + b"Host: localhost\r", LINE + b"Host: localhost\r\n",
    LINE + b"Host: localhost\r\n\r",
]

CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"
CHUNK = b"%x\r\n%s\r\n" % (len(GOOD), GOOD)
OURS = {
    "empty lines before a request": (b"\r\n\r\n\n" + GET, ANSWERED),
    "blanks around values":
        (LINE + b"Host:   a \t\r\nContent-Length: 0 \r\nExpect: 100-continue \r\n\r\n", ANSWERED),
    "blanks around chunked":
        (POST + b"Transfer-Encoding:  chunked \r\n\r\n" + CHUNK + b"0\r\n\r\n", ANSWERED),
    "Chunked": (POST + b"transfer-encoding: Chunked\r\n\r\n" + CHUNK + b"0\r\n\r\n", ANSWERED),
    "chunk extension": (CHUNKED + b"5;a;b=c\r\nhello\r\n0;d=\"e f\";g\r\n\r\n", ANSWERED),
    "trailers": (CHUNKED + CHUNK + b"0\r\nX-A: b\r\nHost: c\r\n\r\n", ANSWERED),
    "absolute target": (b"GET http://b/health HTTP/1.1\r\nHost: a\r\n\r\n", ANSWERED),
    "absolute target without a path": (b"GET http://b HTTP/1.1\r\nHost: a\r\n\r\n", ANSWERED),
    "absolute target with a query": (b"GET http://b?c=/d HTTP/1.1\r\nHost: a\r\n\r\n", ANSWERED),
    "Host with a port": (LINE + b"Host: a.example:5000\r\n\r\n", ANSWERED),
    "Host with an empty port": (LINE + b"Host: a.example:\r\n\r\n", ANSWERED),
    "Host of IPv6": (LINE + b"Host: [::1]:5000\r\n\r\n", ANSWERED),
    "HTTP/1.0, kept alive":
        (b"GET /health HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", ANSWERED),
    "Expect in HTTP/1.0":
        (b"GET /health HTTP/1.0\r\nConnection: keep-alive\r\nExpect: tea\r\n\r\n", ANSWERED),
    "upgrade that nobody wants":
        (LINE + HOST + b"Connection: upgrade\r\nUpgrade: h2c\r\n\r\n", ANSWERED),
    "absolute target without a host": (b"GET http:///health HTTP/1.1\r\nHost: a\r\n\r\n", REFUSED),
    "target with a fragment": (b"GET /health#a HTTP/1.1\r\nHost: a\r\n\r\n", REFUSED),
    "target of CONNECT": (b"CONNECT a:80 HTTP/1.1\r\nHost: a\r\n\r\n", REFUSED),
    "NUL in the path": (b"GET /health%00 HTTP/1.1\r\nHost: a\r\n\r\n", REFUSED),
    "newline in the path": (b"GET /health%0a HTTP/1.1\r\nHost: a\r\n\r\n", REFUSED),
    "Host with a port of letters": (LINE + b"Host: a:b\r\n\r\n", REFUSED),
    "Host with two ports": (LINE + b"Host: a:1:2\r\n\r\n", REFUSED),
    "Host of a bad bracket": (LINE + b"Host: [::1\r\n\r\n", REFUSED),
    "NUL in a value": (LINE + HOST + b"X-A: a\0b\r\n\r\n", REFUSED),
    "CR in a value": (LINE + HOST + b"X-A: a\rb\r\n\r\n", REFUSED),
    "folded Host": (LINE + b"Host:\r\n a\r\n\r\n", REFUSED),
    "folded by a tab": (LINE + HOST + b"X-A: b\r\n\tc\r\n\r\n", REFUSED),
    "chunk head that ends in LF": (CHUNKED + b"5\nhello\r\n0\r\n\r\n", REFUSED),
    "chunk that ends in LF": (CHUNKED + b"5\r\nhello\n0\r\n\r\n", REFUSED),
    "last chunk that ends in LF": (CHUNKED + CHUNK + b"0\n\n", REFUSED),
    "chunk head of nothing": (CHUNKED + b"\r\nhello\r\n0\r\n\r\n", REFUSED),
    "chunked in HTTP/1.0, kept alive":
        (b"POST /translate HTTP/1.0\r\nConnection: keep-alive\r\n"
         b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", REFUSED),
    "two equal lengths":
        (POST + b"Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello", REFUSED),
    "preface of HTTP/2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", (400, 599)),
    "TLS": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(50), REFUSED),
}

CASES = {**{name: (request, want) for name, request, want in http11_cases()}, **H1SPEC, **OURS}


def read_one(replies):
    """(status, headers) of the next reply, whose body is read over; status None: closed."""
    lines = [line.decode("latin-1").strip() for line in iter(replies.readline, b"\r\n") if line]
    if not lines:
        return None, {}
    headers = dict(line.lower().split(": ", 1) for line in lines[1:])
    replies.read(int(headers["content-length"]))
    return int(lines[0].split()[1]), headers


def judge(connection, replies, want):
    """None if the answer to a case, which is sent, is the one wanted; else what is wrong."""
    if want == ANSWERED:
        status, headers = read_one(replies)
        if status is None or headers.get("connection") == "close":
            return f"{status} {headers}"
        connection.sendall(GET)
        status = read_one(replies)[0]
        return None if status == 200 else f"{status} for the next request"
    data = replies.read()
    statuses = [int(s) for s in re.findall(rb"^HTTP/1\.1 (\d+)", data, re.MULTILINE)]
    if len(statuses) != 1 or not want[0] <= statuses[0] <= want[1]:
        return f"expected one of {want}, found {data}"
    if b"Connection: close\r\n" not in data:
        return f"does not say that it closes: {data}"
    head, _, body = data.partition(b"\r\n\r\n")
    json.loads(body)
    return None if b"Content-Length: %d\r\n" % len(body) in head else "wrong Content-Length"


def send_slowly(connection, data):
    """In bytes. What was refused may be closed before it is all sent."""
    for i in range(len(data)):
        try:
            connection.sendall(data[i : i + 1])
        except OSError:
            return
        time.sleep(0.0005)


@pytest.mark.parametrize("name", CASES)
def test_case(server, name):
    request, want = CASES[name]
    with server.connect() as connection:
        connection.sendall(request)
        assert judge(connection, connection.makefile("rb"), want) is None


@pytest.mark.parametrize("name", CASES)
def test_case_byte_by_byte(server, name):
    request, want = CASES[name]
    with server.connect() as connection:
        send_slowly(connection, request)
        assert judge(connection, connection.makefile("rb"), want) is None


@pytest.mark.parametrize("before", [GET, TRANSLATE, 20 * GET], ids=["a GET", "a POST", "20 GETs"])
def test_cases_behind_others(server, before):
    """What comes before is answered, in the same way, and so is the case."""
    wrong = {}
    for name, (request, want) in CASES.items():
        with server.connect() as connection:
            connection.sendall(before + request)
            replies = connection.makefile("rb")
            for _ in range(before.count(b"HTTP/1.1")):
                assert read_one(replies)[0] == 200, name
            found = judge(connection, replies, want)
            if found:
                wrong[name] = found
    assert wrong == {}


@pytest.mark.parametrize("cut", H1SPEC_CUTS, ids=[repr(cut) for cut in H1SPEC_CUTS])
def test_cut_request_is_awaited(server, cut):
    whole = LINE + b"Host: localhost\r\n\r\n"
    with server.connect() as connection:
        connection.sendall(cut)
        connection.settimeout(0.2)
        with pytest.raises(TimeoutError):
            connection.recv(1)
        connection.settimeout(20 * PATIENCE)
        connection.sendall(whole[len(cut) :])
        assert read_reply(connection)[0] == 200


def test_query_is_known_and_refused(server):
    """A method that is younger than the parser: framed like POST, and the connection goes on."""
    query = (b"QUERY /translate HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
             b"Content-Length: 2\r\n\r\n{}")
    nowhere = b"QUERY /nowhere HTTP/1.1\r\nHost: a\r\n\r\n"
    with server.connect() as connection:
        for n, (request, status) in enumerate([(query, 405), (nowhere, 404), (query, 405)]):
            for at in range(0, len(request), 1000 if n else 1):
                connection.sendall(request[at:at + (1000 if n else 1)])
            found, headers, _ = read_reply(connection)
            assert found == status
            assert headers.get("allow") == ("OPTIONS, POST" if status == 405 else None)
        connection.sendall(query.replace(b"Host: a\r\n", b"Host: a\r\nContent-Length: 3\r\n"))
        assert read_reply(connection)[0] == 400

"""Writes requests to begin with into a folder: those of the HTTP tests, sent in several ways."""

import json
import sys
from pathlib import Path

cases = json.loads((Path(__file__).parents[1] / "http/http11_cases.json").read_text())["cases"]
requests = [case["request"].encode("latin-1") for case in cases] + [
    b"POST /a?b=c HTTP/1.1\r\nHost: a:1\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\nabc",
    b"POST http://a/%41 HTTP/1.1\r\nHost: [::1]:1\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"5;a=b;c=\"d\"\r\nhello\r\n0\r\nX-A: b\r\n\r\n",
    b"HEAD / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n"
    b"Connection: close\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1025\r\n\r\n" + 1025 * b"x"
    + b"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n",
]
for i, request in enumerate(requests):
    for how in (0, 1, 6, 0xF9):
        Path(sys.argv[1], f"request-{i}-{how}").write_bytes(bytes([how]) + 2 * request)

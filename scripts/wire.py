"""PostgreSQL's protocol as far as a login goes: standard library only, for the measurements beside it."""

import base64
import hashlib
import hmac
import os
import socket
import struct
import time


class Refused(Exception):
    """The server's ErrorResponse: its fields by their letters."""

    def __init__(self, fields):
        super().__init__(fields.get("M", ""))
        self.fields = fields


def startup(user, database="default"):
    pairs = [("user", user), ("database", database)]
    body = b"".join(k.encode() + b"\0" + v.encode() + b"\0" for k, v in pairs) + b"\0"
    return struct.pack(">II", len(body) + 8, 196608) + body


def message(kind, body):
    return kind + struct.pack(">I", len(body) + 4) + body


def source(number):
    """One of 16 million addresses of this machine's own."""
    number += 1
    return "127.%d.%d.%d" % (1 + number // 65536 % 250, number // 256 % 256, number % 256)


class Login:
    """One login, step by step; `times` says how long the server took for each answer."""

    def __init__(self, address, user, password, number=None, timeout=30):
        self.user, self.password, self.times = user, password, []
        self.socket = socket.socket()
        self.socket.settimeout(timeout)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if number is not None:
            self.socket.bind((source(number), 0))
        self.socket.connect(address)
        self.buffer = b""
        self.authenticate()

    def read(self):
        while len(self.buffer) < 5 or len(self.buffer) < 1 + struct.unpack(">I", self.buffer[1:5])[0]:
            more = self.socket.recv(65536)
            if not more:
                raise ConnectionError("closed by the server")
            self.buffer += more
        length = 1 + struct.unpack(">I", self.buffer[1:5])[0]
        kind, body, self.buffer = self.buffer[:1], self.buffer[5:length], self.buffer[length:]
        if kind == b"E":
            fields = dict((f[:1].decode(), f[1:].decode()) for f in body.split(b"\0") if f)
            raise Refused(fields)
        return kind, body

    def ask(self, bytes_):
        begun = time.perf_counter()
        self.socket.sendall(bytes_)
        try:
            return self.read()
        finally:
            self.times.append(time.perf_counter() - begun)

    def authenticate(self):
        kind, body = self.ask(startup(self.user))
        how = struct.unpack(">I", body[:4])[0]
        if how == 3:
            kind, body = self.ask(message(b"p", self.password.encode() + b"\0"))
        elif how == 10:
            kind, body = self.scram()
        elif how != 0:
            raise Exception("authentication method %d" % how)
        while kind != b"Z":
            kind, body = self.read()

    def scram(self):
        nonce = base64.b64encode(os.urandom(18)).decode()
        bare = "n=,r=" + nonce
        first = ("n,," + bare).encode()
        name = b"SCRAM-SHA-256\0"
        _, body = self.ask(message(b"p", name + struct.pack(">I", len(first)) + first))
        server_first = body[4:].decode()
        parts = dict(part.split("=", 1) for part in server_first.split(","))
        # Each time anew: who has just worked hard measures otherwise than who has not.
        salt = base64.b64decode(parts["s"])
        salted = hashlib.pbkdf2_hmac("sha256", self.password.encode(), salt, int(parts["i"]))
        client_key = hmac.digest(salted, b"Client Key", "sha256")
        stored = hashlib.sha256(client_key).digest()
        without_proof = "c=biws,r=" + parts["r"]
        signature = hmac.digest(stored, ",".join([bare, server_first, without_proof]).encode(), "sha256")
        proof = base64.b64encode(bytes(a ^ b for a, b in zip(client_key, signature))).decode()
        return self.ask(message(b"p", (without_proof + ",p=" + proof).encode()))

    def close(self):
        self.socket.close()


def percentile(values, p):
    values = sorted(values)
    return values[min(len(values) - 1, int(len(values) * p / 100))]

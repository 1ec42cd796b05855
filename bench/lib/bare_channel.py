"""The guest's private channel as a bare host speaks it (api/channel.md): SYNC, and as much HTTP/2 as one command takes."""
import json
import secrets
import socket
import struct
import time
import zlib

LIMIT_S = 60
DATA, HEADERS, SETTINGS = 0, 1, 4
END_STREAM, END_HEADERS = 1, 4


def connected(path):
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    sock.settimeout(LIMIT_S)
    sock.connect(path)
    return sock


def sync(epoch):
    nonce = secrets.token_bytes(16)
    head = b"SPACESYN" + struct.pack(">HHQ", 1, 1, epoch) + nonce
    head += struct.pack(">Q", time.time_ns() // 1000) + secrets.token_bytes(64)
    return nonce, head + struct.pack(">I", zlib.crc32(head)) + bytes(6)


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def head(stream, flags, **fields):
    """A request; every field spelled out, none longer than 126 bytes."""
    block = b""
    for name, value in fields.items():
        name = b":" + name.encode()
        block += b"\0" + bytes([len(name)]) + name + bytes([len(value)]) + value.encode()
    return frame(HEADERS, END_HEADERS | flags, stream, block)


class Channel:
    """Connected; the guest may not run yet. A copy that gets its devices with its host connected sees no host come or go."""

    def __init__(self, path):
        self.sock = connected(path)
        self.seen = b""

    def synchronise(self, epoch):
        """Until the daemon has answered the SYNC that was sent last; another is sent every 100 ms."""
        end = time.monotonic() + LIMIT_S
        self.sock.settimeout(0.1)
        while time.monotonic() < end:
            nonce, message = sync(epoch)
            self.sock.sendall(message)
            try:
                while not self.answers(nonce):
                    self.receive()
            except socket.timeout:
                continue
            self.sock.settimeout(LIMIT_S)
            return
        raise RuntimeError("the guest did not answer")

    def answers(self, nonce):
        answer = b"SPACEACK" + struct.pack(">H", 1) + nonce
        at = self.seen.find(answer)
        if at >= 0:
            self.seen = self.seen[at + 32:]
        return at >= 0

    def receive(self):
        got = self.sock.recv(65536)
        if not got:
            raise RuntimeError("QEMU closed the channel")
        self.seen += got

    def first_command(self, token):
        """Lets the programs of the guest go on and runs /bin/true, to its end."""
        body = json.dumps({"process": {"cmd": "/bin/true", "args": []}, "stdin": False}).encode()
        body = b"\0" + struct.pack(">I", len(body)) + body
        request = ("POST /process.Process/Start HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/connect+json\r\n"
                   f"Connect-Protocol-Version: 1\r\nX-Access-Token: {token}\r\nContent-Length: {len(body)}\r\n\r\n").encode()
        self.sock.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(SETTINGS, 0, 0) +
                          head(1, END_STREAM, method="POST", scheme="http", path="/control/thaw", authority="space") +
                          head(3, 0, method="CONNECT", authority="localhost:49983") + frame(DATA, 0, 3, request + body))
        text = b""
        while b'"exited":true' not in text.replace(b" ", b""):
            while len(self.seen) < 9 or len(self.seen) < 9 + int.from_bytes(self.seen[:3], "big"):
                self.receive()
            size, kind = int.from_bytes(self.seen[:3], "big"), self.seen[3]
            stream, payload = int.from_bytes(self.seen[5:9], "big"), self.seen[9:9 + size]
            self.seen = self.seen[9 + size:]
            if kind == DATA and stream == 3:
                text += payload
            elif kind not in (DATA, HEADERS, SETTINGS, 6, 8) or b"error" in text:
                raise RuntimeError(f"the command failed: frame {kind}, {text[-200:]}")

    def close(self):
        self.sock.close()

"""What a hostile program in the guest tries, and what its kernel tells it. Prints one JSON object.

usage: probe.py tcp ADDRESS PORT [HEX [SECONDS]]     connect, send, read until the end: {"result", "data", "ms"}
       probe.py tls ADDRESS PORT NAME [SECONDS]      a TLS handshake with this server name, no verification
       probe.py hello ADDRESS PORT HEX PIECE DELAY   send bytes in pieces of PIECE bytes, DELAY seconds apart, and read
       probe.py udp ADDRESS PORT HEX [SECONDS]       send a datagram and wait for an answer or an error
       probe.py dns ADDRESS NAME TYPE [udp|tcp]      ask ADDRESS: {"rcode", "answers", "ede"}
       probe.py raw ADDRESS PROTOCOL HEX [SOURCE]    one IP packet of this protocol number
"""
import errno
import json
import random
import socket
import ssl
import struct
import sys
import time

TYPES = {"A": 1, "CNAME": 5, "MX": 15, "TXT": 16, "AAAA": 28, "HTTPS": 65, "ANY": 255, "NULL": 10}


def family(address):
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def named(error):
    if isinstance(error, (socket.timeout, TimeoutError)):
        return "timeout"
    if isinstance(error, ConnectionResetError):
        return "reset"
    if isinstance(error, ConnectionRefusedError):
        return "refused"
    if isinstance(error, ssl.SSLError):
        return "tls:" + (error.reason or str(error))
    return errno.errorcode.get(getattr(error, "errno", None), type(error).__name__)


def timed(work):
    begin = time.monotonic()
    try:
        result = work()
    except OSError as error:
        result = {"result": named(error)}
    result["ms"] = round((time.monotonic() - begin) * 1000, 1)
    return result


def read_all(connection):
    data = b""
    try:
        while len(data) < 1 << 20:
            piece = connection.recv(65536)
            if not piece:
                return {"result": "closed", "data": data.decode("latin1")}
            data += piece
    except OSError as error:
        return {"result": named(error), "data": data.decode("latin1")}
    return {"result": "open", "data": data.decode("latin1")}


def tcp(address, port, payload="", seconds="10"):
    def work():
        with socket.socket(family(address)) as connection:
            connection.settimeout(float(seconds))
            connection.connect((address, int(port)))
            if payload:
                connection.sendall(bytes.fromhex(payload))
            return read_all(connection)
    return timed(work)


def tls(address, port, name, seconds="10"):
    def work():
        context = ssl._create_unverified_context()
        context.check_hostname = False
        with socket.socket(family(address)) as plain:
            plain.settimeout(float(seconds))
            plain.connect((address, int(port)))
            with context.wrap_socket(plain, server_hostname=name or None) as secure:
                secure.sendall(f"GET / HTTP/1.1\r\nHost: {name}\r\nConnection: close\r\n\r\n".encode("latin1"))
                return read_all(secure)
    return timed(work)


def hello(address, port, payload, piece, delay):
    def work():
        data, size = bytes.fromhex(payload), int(piece)
        with socket.socket(family(address)) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.settimeout(20)
            connection.connect((address, int(port)))
            for at in range(0, len(data), size):
                connection.sendall(data[at:at + size])
                time.sleep(float(delay))
            return read_all(connection)
    return timed(work)


def udp(address, port, payload, seconds="3"):
    def work():
        with socket.socket(family(address), socket.SOCK_DGRAM) as connection:
            connection.settimeout(float(seconds))
            connection.connect((address, int(port)))
            connection.send(bytes.fromhex(payload))
            return {"result": "answer", "data": connection.recv(65536).hex()}
    return timed(work)


def read_name(message, at):
    labels, end = [], None
    while message[at]:
        if message[at] >= 192:
            end = end or at + 2
            at = (message[at] & 63) << 8 | message[at + 1]
            continue
        labels.append(message[at + 1:at + 1 + message[at]].decode("latin1"))
        at += 1 + message[at]
    return ".".join(labels), end or at + 1


def read_answer(message):
    counts = struct.unpack_from(">HHHH", message, 4)
    at, out = 12, {"rcode": message[3] & 15, "answers": [], "ede": None, "bytes": len(message)}
    for _ in range(counts[0]):
        at = read_name(message, at)[1] + 4
    for index in range(sum(counts[1:])):
        name, at = read_name(message, at)
        kind, _, ttl, size = struct.unpack_from(">HHIH", message, at)
        data = message[at + 10:at + 10 + size]
        if kind == 41:
            option = 0
            while option + 4 <= size:
                code, length = struct.unpack_from(">HH", data, option)
                if code == 15:
                    out["ede"] = struct.unpack_from(">H", data, option + 4)[0]
                    out["text"] = data[option + 6:option + 4 + length].decode()
                option += 4 + length
        elif index < counts[1]:
            value = data.hex()
            if kind in (1, 28):
                value = socket.inet_ntop(socket.AF_INET if kind == 1 else socket.AF_INET6, data)
            elif kind == 5:
                value = read_name(message, at + 10)[0]
            out["answers"].append({"name": name, "type": kind, "ttl": ttl, "value": value})
        at += 10 + size
    return out


def receive(connection, size):
    data = b""
    while len(data) < size:
        piece = connection.recv(size - len(data))
        if not piece:
            raise ConnectionResetError
        data += piece
    return data


def dns(address, name, kind, over="udp"):
    labels = b"".join(bytes([len(label)]) + label.encode("latin1") for label in name.split(".") if label) + b"\0"
    query = struct.pack(">HHHHHH", random.randrange(65536), 0x0100, 1, 0, 0, 1) + labels + struct.pack(">HH", TYPES[kind], 1)
    query += b"\0" + struct.pack(">HHIH", 41, 1232, 0, 0)

    def work():
        with socket.socket(family(address), socket.SOCK_DGRAM if over == "udp" else socket.SOCK_STREAM) as connection:
            connection.settimeout(10)
            connection.connect((address, 53))
            if over == "udp":
                connection.send(query)
                answer = connection.recv(65536)
            else:
                connection.sendall(struct.pack(">H", len(query)) + query)
                answer = receive(connection, struct.unpack(">H", receive(connection, 2))[0])
            return {"result": "answer", **read_answer(answer)}
    return timed(work)


def raw(address, protocol, payload, source=""):
    def work():
        number = int(protocol)
        with socket.socket(family(address), socket.SOCK_RAW, socket.IPPROTO_RAW if source else number) as connection:
            connection.settimeout(2)
            data = bytes.fromhex(payload)
            if source:
                head = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 20 + len(data), 7, 0, 64, number, 0, socket.inet_aton(source), socket.inet_aton(address))
                data = head + data
            else:
                connection.connect((address, 0))
            connection.sendto(data, (address, 0))
            try:
                connection.recv(65536)
                return {"result": "answer"}
            except OSError as error:
                return {"result": named(error)}
    return timed(work)


print(json.dumps({"tcp": tcp, "tls": tls, "hello": hello, "udp": udp, "dns": dns, "raw": raw}[sys.argv[1]](*sys.argv[2:])))

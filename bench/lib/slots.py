#!/usr/bin/env python3
"""200 network slots, made through space-noded's verbs: the time of each, and the kernel's memory for one. Argument: space-noded."""
import json
import os
import socket
import struct
import subprocess
import sys
import tempfile
import time

SLOTS = 200
PROTOCOL, SLOT_CREATE, SLOT_REMOVE = 0x53504E04, 8, 9
REQUEST = struct.Struct("=IIQ24s24s72s10Q")
REPLY = struct.Struct("=IIQ10Q160s")


def call(door, verb, sandbox):
    door.send(REQUEST.pack(PROTOCOL, verb, 1, sandbox.encode(), b"", b"", *[0] * 10))
    reply = REPLY.unpack(door.recv(REPLY.size))
    if reply[1] != 0:
        sys.exit(f"slots: {reply[-1].rstrip(bytes(1)).decode()}")


def connect(path):
    for _ in range(600):
        try:
            door = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            door.settimeout(60)
            door.connect(path)
            return door
        except OSError:
            time.sleep(0.1)
    sys.exit("slots: space-noded does not answer")


def kernel_kib():
    """What the kernel holds for itself and for processes, caches left out."""
    with open("/proc/meminfo", encoding="ascii") as lines:
        info = {name: int(rest.split()[0]) for name, rest in (line.split(":") for line in lines)}
    return info["MemTotal"] - info["MemFree"] - info["Cached"] - info["Buffers"] - info["SReclaimable"]


def percentile(values, percent):
    return sorted(values)[min(len(values) - 1, int(len(values) * percent / 100))]


def say(metric, unit, values):
    line = {"bench": "egress", "metric": metric, "unit": unit, "n": len(values), "min": min(values)}
    line |= {f"p{p}": percentile(values, p) for p in (50, 90, 99)}
    print(json.dumps({key: round(v, 3) if isinstance(v, float) else v for key, v in line.items()}, separators=(",", ":")), flush=True)


def measure(door, names):
    times = {SLOT_CREATE: [], SLOT_REMOVE: []}
    before = kernel_kib()
    for verb in (SLOT_CREATE, SLOT_REMOVE):
        for name in names:
            begin = time.monotonic()
            call(door, verb, name)
            times[verb].append((time.monotonic() - begin) * 1000)
        if verb == SLOT_CREATE:
            say("slot_memory_kib", "KiB", [(kernel_kib() - before) / len(names)])
    say("slot_create_ms", "ms", times[SLOT_CREATE])
    say("slot_remove_ms", "ms", times[SLOT_REMOVE])


def main():
    with tempfile.TemporaryDirectory(prefix="space-slots-bench.") as folder:
        os.chmod(folder, 0o755)
        state, run = f"{folder}/state", f"{folder}/run"
        os.makedirs(state)
        os.makedirs(run)
        noded = subprocess.Popen([sys.argv[1], "--state", state, "--run", run, "--sandboxd-uid", "0", "--pool-mib", "512", "--vmm-program", "/bin/true"], stdout=sys.stderr)
        try:
            measure(connect(f"{run}/noded/noded.sock"), [f"ibench{n:014}" for n in range(SLOTS)])
        finally:
            noded.terminate()
            noded.wait(60)
            subprocess.run([sys.argv[1], "--state", state, "--run", run, "--unmount-pool"], stdout=sys.stderr, check=True)


if __name__ == "__main__":
    main()

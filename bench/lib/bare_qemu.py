#!/usr/bin/env python3
"""A bare QEMU next to SPACE: boots, saves itself once and restores itself as often as it is asked, with the machine line
of a sandbox that runs.

usage: bare_qemu.py LIKE_PID IMAGE_FOLDER [SNAPSHOT_FOLDER]

LIKE_PID is the QEMU of a sandbox: its command line, with files and descriptors of our own, is the one used here.
IMAGE_FOLDER holds disk.raw, vmlinuz and initramfs.img. With SNAPSHOT_FOLDER (disk.raw, mem.raw, vmstate) the image that is
restored is that one; without, it is a VM booted and saved here. Root.

Prints {"ready": true} once the files are its own. On standard input one line each: `boot`, `restore`, `restore TOKEN`, `save` or `quit`; on standard output
one JSON object for each, times in ms. A time ends when the guest's daemon has answered on the channel; with the access token that the image's
daemon knows, when it has also run /bin/true. What comes before a start (a clone of the disk, a tap in a
network namespace) is not in it.
"""
import ctypes
import fcntl
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

from bare_channel import Channel, connected

RESTORE_WORDS = ["-S", "-incoming", "defer", "-global", "migration.send-configuration=off"]


def private_tap():
    """A tap in a network namespace that holds nothing else and lives as long as the descriptor."""
    out = {}

    def make():
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.unshare(0x40000000) != 0:
            raise OSError(ctypes.get_errno(), "unshare")
        out["fd"] = os.open("/dev/net/tun", os.O_RDWR)
        fcntl.ioctl(out["fd"], 0x400454CA, struct.pack("16sH22s", b"tap0", 0x0002 | 0x1000 | 0x4000, b""))

    thread = threading.Thread(target=make)
    thread.start()
    thread.join()
    return out["fd"]


def listening(path):
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    sock.bind(path)
    sock.listen(1)
    return sock


class Qmp:
    def __init__(self, path):
        self.sock = connected(path)
        self.lines = self.sock.makefile("r")
        self.lines.readline()
        self.execute("qmp_capabilities")

    def execute(self, command, fd=None, **arguments):
        text = json.dumps({"execute": command, "arguments": arguments}).encode()
        socket.send_fds(self.sock, [text], [fd] if fd is not None else [])
        while True:
            answer = json.loads(self.lines.readline())
            if "return" in answer:
                return answer["return"]
            if "error" in answer:
                raise RuntimeError(f"{command}: {answer['error']['desc']}")

    def close(self):
        self.lines.close()
        self.sock.close()


class Machine:
    """One QEMU: its files and descriptors, made before the clock runs."""

    def __init__(self, bench, name, disk, memory):
        self.folder = f"{bench.work}/{name}"
        os.mkdir(self.folder)
        self.disk = f"{self.folder}/disk.raw"
        subprocess.run(["cp", "--reflink=auto", "--sparse=always", disk, self.disk], check=True)
        self.qmp_path, self.channel_path = f"{self.folder}/qmp", f"{self.folder}/channel"
        self.sockets = [listening(self.qmp_path), listening(self.channel_path)]
        self.fds = [sock.fileno() for sock in self.sockets] + [private_tap(), os.open(self.disk, os.O_RDWR)]
        self.words = bench.line(*self.fds, memory)
        self.process = self.qmp = self.channel = None
        self.shared = [bench.kvm] if bench.kvm is not None else []
        self.extra = []

    def start(self, more=()):
        self.process = subprocess.Popen(self.words + list(more), pass_fds=self.fds + self.extra + self.shared, stdin=subprocess.DEVNULL,
                                        stdout=sys.stderr, stderr=sys.stderr)

    def stop(self):
        for thing in (self.qmp, self.channel):
            if thing:
                thing.close()
        if self.process:
            self.process.kill()
            self.process.wait()
        for sock in self.sockets:
            sock.close()
        for fd in self.fds[2:] + self.extra:
            os.close(fd)
        shutil.rmtree(self.folder)


class Bench:
    def __init__(self, like, image, snapshot):
        self.image, self.count = image, 0
        with open(f"/proc/{like}/cmdline", "rb") as file:
            self.like = file.read().decode().split("\0")[:-1]
        uses_kvm = any(word.startswith("kvm") for word in self.like)
        self.kvm = os.open("/dev/kvm", os.O_RDWR) if uses_kvm else None
        self.work = tempfile.mkdtemp(prefix="space-bare-qemu.")
        self.loop = f"{self.work}.img"
        # A file system with cheap clones of its own, so that copies of the disk keep nobody busy while the clock runs.
        subprocess.run(f"truncate -s 8G {self.loop} && mkfs.btrfs -q {self.loop} >&2 && mount -o loop {self.loop} {self.work}",
                       shell=True, check=True)
        for name in ("disk.raw", "vmlinuz", "initramfs.img"):
            subprocess.run(["cp", "--sparse=always", f"{image}/{name}", f"{self.work}/{name}"], check=True)
        self.memory_mib = int(self.option("-m").rstrip("M"))
        self.zeros = f"{self.work}/zeros"
        with open(self.zeros, "wb") as file:
            file.truncate(self.memory_mib << 20)
        self.saved = snapshot and {name: f"{self.work}/saved-{name}" for name in ("disk.raw", "mem.raw", "vmstate")}
        for name, copy in (self.saved or {}).items():  # the product removes a snapshot when a newer one is there
            subprocess.run(["cp", "--sparse=always", f"{snapshot}/{name}", copy], check=True)
        os.sync()  # pages that are not on disk yet would count as those of who maps them

    def option(self, name):
        return self.like[self.like.index(name) + 1]

    def line(self, qmp, channel, tap, disk, memory):
        """The product's words with our descriptors and files."""
        words, take_two = [], False
        for word in self.like:
            if take_two:
                take_two = False
                continue
            if word == "-S":
                continue
            if word == "-incoming":
                take_two = True
                continue
            words.append(self.ours(word, qmp, channel, tap, disk, memory))
        words = [w for i, w in enumerate(words) if "migration.send-configuration" not in w and
                 not (w == "-global" and "migration.send-configuration" in words[i + 1])]
        words[0] = "/usr/bin/qemu-system-x86_64"
        return words

    def ours(self, word, qmp, channel, tap, disk, memory):
        parts = word.split(",")
        replaced = {"socket": None, "tap": tap}
        if parts[0] == "socket" and "id=qmp" in parts:
            replaced["socket"] = qmp
        if parts[0] == "socket" and "id=channel" in parts:
            replaced["socket"] = channel
        if parts[0] in replaced and len(parts) > 1:
            return ",".join(f"fd={replaced[parts[0]]}" if p.startswith("fd=") else p for p in parts)
        if parts[0].startswith("fd=") and "set=1" in parts:
            return f"fd={disk},set=1"
        if parts[0].startswith("fd=") and "set=2" in parts:
            return f"fd={self.kvm},set=2"
        if parts[0] == "memory-backend-file":
            return ",".join(f"mem-path={memory}" if p.startswith("mem-path=") else p for p in parts)
        return {"/kernel": f"{self.work}/vmlinuz", "/initramfs": f"{self.work}/initramfs.img"}.get(word, word)

    def machine(self, disk, memory):
        self.count += 1
        return Machine(self, f"vm{self.count}", disk, memory)

    def boot(self):
        vm = self.machine(f"{self.work}/disk.raw", self.zeros)
        try:
            begin = time.monotonic()
            vm.start()
            vm.channel = Channel(vm.channel_path)
            vm.channel.synchronise(1)
            return {"ms": (time.monotonic() - begin) * 1000}
        finally:
            vm.stop()

    def save(self):
        """Boots a VM, lets it come to rest and keeps its memory, devices and disk."""
        vm = self.machine(f"{self.work}/disk.raw", self.zeros)
        try:
            vm.start()
            vm.channel = Channel(vm.channel_path)
            vm.channel.synchronise(1)
            vm.channel.close()
            time.sleep(2)
            vm.qmp = Qmp(vm.qmp_path)
            begin = time.monotonic()
            vm.qmp.execute("stop")
            self.saved = {name: f"{self.work}/saved-{name}" for name in ("disk.raw", "mem.raw", "vmstate")}
            state = os.open(self.saved["vmstate"], os.O_WRONLY | os.O_CREAT, 0o600)
            vm.qmp.execute("add-fd", fd=state, **{"fdset-id": 9})
            vm.qmp.execute("xen-save-devices-state", filename="/dev/fdset/9", live=False)
            os.close(state)
            written = self.copy_memory(vm.process.pid)
            subprocess.run(["cp", "--reflink=auto", vm.disk, self.saved["disk.raw"]], check=True)
            os.sync()
            return {"ms": (time.monotonic() - begin) * 1000, "bytes": written}
        finally:
            vm.stop()

    def copy_memory(self, pid):
        size = self.memory_mib << 20
        with open(f"/proc/{pid}/maps") as maps:
            base = next(int(line.split("-")[0], 16) for line in maps if self.zeros in line)
        written = 0
        with open(f"/proc/{pid}/mem", "rb", 0) as memory, open(self.saved["mem.raw"], "wb") as out:
            out.truncate(size)
            for at in range(0, size, 65536):
                memory.seek(base + at)
                piece = memory.read(65536)
                if piece.count(0) != len(piece):
                    out.seek(at)
                    written += out.write(piece)
        return written

    def restore(self, token=None):
        """With a token also to the end of a first command."""
        if not self.saved:
            self.save()
        vm = self.machine(self.saved["disk.raw"], self.saved["mem.raw"])
        try:
            state = os.open(self.saved["vmstate"], os.O_RDONLY)
            vm.extra.append(state)
            begin = time.monotonic()
            vm.start(RESTORE_WORDS)
            vm.channel = Channel(vm.channel_path)
            vm.qmp = Qmp(vm.qmp_path)
            ready = time.monotonic()
            vm.qmp.execute("migrate-incoming", uri=f"fd:{state}")
            while (status := vm.qmp.execute("query-migrate").get("status")) != "completed":
                if status == "failed":
                    raise RuntimeError("the saved state did not load")
                time.sleep(0.001)
            loaded = time.monotonic()
            vm.qmp.execute("cont")
            vm.channel.synchronise(self.count)
            times = {"start_ms": ready - begin, "load_ms": loaded - ready, "wake_ms": time.monotonic() - loaded}
            if token:
                vm.channel.first_command(token)
            times["ms"] = time.monotonic() - begin
            return {name: seconds * 1000 for name, seconds in times.items()}
        finally:
            vm.stop()

    def close(self):
        subprocess.run(["umount", self.work], check=True)
        os.rmdir(self.work)
        os.remove(self.loop)


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    bench = Bench(int(sys.argv[1]), sys.argv[2], sys.argv[3] if len(sys.argv) > 3 else None)
    print(json.dumps({"ready": True}), flush=True)
    try:
        for line in sys.stdin:
            word, *arguments = line.split()
            if word == "quit":
                break
            try:
                answer = {"boot": bench.boot, "save": bench.save, "restore": bench.restore}[word](*arguments)
            except (OSError, RuntimeError, KeyError, json.JSONDecodeError) as error:
                answer = {"error": f"{word}: {error}"}
            print(json.dumps(answer), flush=True)
    finally:
        bench.close()


if __name__ == "__main__":
    main()

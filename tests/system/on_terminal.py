"""Runs a command on a terminal of its own. Standard input: JSON lines, {"type": TEXT} or {"size": [COLUMNS, ROWS]};
standard output: what the terminal shows. Ends with the command's exit code.

usage: on_terminal.py COMMAND [ARG...]
"""
import fcntl
import json
import os
import pty
import select
import struct
import sys
import termios


def resize(master, columns, rows):
    fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


def main():
    child, master = pty.fork()
    if child == 0:
        os.execvp(sys.argv[1], sys.argv[1:])
    resize(master, 80, 24)
    orders = b""
    inputs = [master, 0]
    while True:
        ready, _, _ = select.select(inputs, [], [])
        if master in ready:
            try:
                shown = os.read(master, 65536)
            except OSError:  # the command closed its side
                shown = b""
            if not shown:
                break
            os.write(1, shown)
        if 0 in ready:
            read = os.read(0, 65536)
            if not read:
                inputs.remove(0)
            orders += read
            *lines, orders = orders.split(b"\n")
            for line in lines:
                order = json.loads(line)
                if "type" in order:
                    os.write(master, order["type"].encode())
                if "size" in order:
                    resize(master, *order["size"])
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))


main()

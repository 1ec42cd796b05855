"""Every IP packet that crosses a device, one JSON line each on standard output, until standard input ends.

usage: capture.py DEVICE      Root. The first line is {"ready": true}.
"""
import json
import select
import socket
import struct
import sys

ETH_P_ALL = 3


def describe(frame):
    kind = struct.unpack_from(">H", frame, 12)[0]
    if kind == 0x0800 and len(frame) >= 34:
        head = (frame[14] & 15) * 4
        protocol, source, target = frame[23], socket.inet_ntop(socket.AF_INET, frame[26:30]), socket.inet_ntop(socket.AF_INET, frame[30:34])
        rest = frame[14 + head:]
    elif kind == 0x86DD and len(frame) >= 54:
        protocol, source, target = frame[20], socket.inet_ntop(socket.AF_INET6, frame[22:38]), socket.inet_ntop(socket.AF_INET6, frame[38:54])
        rest = frame[54:]
    else:
        return None
    packet = {"protocol": protocol, "source": source, "target": target}
    if protocol in (6, 17) and len(rest) >= 4:
        packet["sourcePort"], packet["targetPort"] = struct.unpack_from(">HH", rest)
    return packet


def main():
    tap = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
    tap.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
    tap.bind((sys.argv[1], 0))
    print(json.dumps({"ready": True}), flush=True)
    while True:
        readable, _, _ = select.select([tap, sys.stdin], [], [])
        if sys.stdin in readable and not sys.stdin.buffer.read1(1):
            return
        if tap in readable:
            packet = describe(tap.recv(65536))
            if packet:
                print(json.dumps(packet), flush=True)


main()

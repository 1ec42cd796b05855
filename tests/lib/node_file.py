"""Runs one file of Node's test runner and prints the lines of tests/README.md's protocol.

usage: node_file.py LABEL DURATIONS FILE     SPACE_TEST_PATTERN: only tests whose name matches
Of a test that passed only its line is kept, of one that failed everything that explains it. A file that says of no test
that it failed, but does not end well, is a failure of its own. Each test's seconds and name are appended to the file
DURATIONS, a tab between them.
"""
import collections
import os
import re
import subprocess
import sys

LIMIT_S = 900
RESULT = re.compile(r"(not ok|ok) \d+ - (.*)")
DURATION = re.compile(r"  duration_ms: ([\d.]+)$")
# Counts, plans and the frames of blocks: what the lines of the tests say already.
NOISE = re.compile(r"TAP version|1\.\.\d|# Subtest: |# (tests|suites|pass|fail|cancelled|skipped|todo|duration_ms) [\d.]+$"
                   r"|  (---|\.\.\.|type: .*)$")


def command(file):
    # A test that failed may leave streams open which keep its file from ending.
    words = ["timeout", "--kill-after=10", str(LIMIT_S), "node", "--test-reporter=tap"]
    if pattern := os.environ.get("SPACE_TEST_PATTERN"):
        words.append("--test-name-pattern=" + pattern)
    return words + [file]


def tell(line):
    print(line, flush=True)


def main():
    label, durations_file, file = sys.argv[1:]
    name, tests, failed = None, 0, 0
    said = collections.deque(maxlen=20)
    node = subprocess.Popen(command(file), stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    with open(durations_file, "a", encoding="utf-8") as durations:
        for raw in node.stdout:
            line = raw.decode(errors="replace").rstrip("\r\n")
            if result := RESULT.match(line):
                name = result[2]
                tests, failed = tests + 1, failed + (result[1] != "ok")
                tell(f"{result[1]} - {label} {name}")
            elif seconds := DURATION.match(line):
                durations.write(f"{float(seconds[1]) / 1000:.1f}\t{name}\n")
            elif not NOISE.match(line):
                said.append(line)
                tell(line)
    status = node.wait()
    name = f"{label} {os.path.basename(file)}"
    if status == 124:
        tell(f"not ok - {name} did not end within {LIMIT_S} s")
    elif tests == 0:
        tell(f"not ok - {name} ran no test")
    elif status != 0 and failed == 0:
        tell(f"not ok - {name} ends well (exit {status}), though each of its tests passed")
    else:
        return
    for line in said:
        tell("# " + line.removeprefix("# "))


main()

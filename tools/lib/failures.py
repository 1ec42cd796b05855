"""Repeats what explains each failed test of some logs, so that the end of a long run says why it failed.

usage: failures.py LOG...     logs of suites (tests/README.md), in the order they ran
Of one test at most LINES_OF_ONE lines, its first and last ones where it has more, of all together at most LINES_OF_ALL;
the more tests failed, the fewer of each.
"""
import pathlib
import re
import sys

LINES_OF_ONE = 40
LINES_OF_ALL = 300
WHOLE = 130  # so many lines are shared out evenly: they are what a cut log still ends with
FEWEST = 6

RESULT = re.compile(r"(not ok|ok)( \d+)? - (.*)")
SKIPPED = re.compile(r" # (skip|todo)", re.IGNORECASE)
SAID_BEFORE = 6  # lines a test printed itself
LINES_BEFORE = 20


def is_failure(result):
    return result[1] == "not ok" or SKIPPED.search(result[3])


def of_google_test(lines, name):
    """What a test printed between its begin and its end, in the log of its program."""
    case = name.split(" ")[-1]
    begin = end = None
    for i, line in enumerate(lines):
        if line == f"# [ RUN      ] {case}":
            begin = i + 1
        elif begin is not None and line.startswith(f"# [  FAILED  ] {case}"):
            end = i
            break
    if end is None:
        return []
    return [line for line in lines[begin:end] if not line.startswith('# {"ts":')] or lines[begin:end]


def below(lines, at):
    """Up to the next test: a block of Node's reporter, or the output of a program that failed."""
    found = []
    for line in lines[at + 1:]:
        if RESULT.match(line) or not line.startswith((" ", "#")):
            break
        if line.startswith("#") and found and found[-1].startswith(" "):
            break  # after a block: of the next test
        found.append(line)
    return found


def above(lines, at):
    """What it said itself, of a test of Node's: its lines come before its result."""
    begin = at
    while begin > 0 and at - begin < SAID_BEFORE and lines[begin - 1].startswith("#"):
        begin -= 1
    return lines[begin:at]


def of_node(block):
    """Without what says nothing: the runner's own frames, and both values where the error is their difference."""
    has_difference = any(line.startswith("  error: |") for line in block)
    kept, dropping = [], False
    for line in block:
        if not line.startswith("   "):
            dropping = has_difference and line.startswith(("  expected:", "  actual:"))
        if not dropping and not re.search(r"\bnode:(internal|async_hooks)", line):
            kept.append(line)
    return kept


def explain(lines, at, name):
    if found := of_google_test(lines, name):
        return found
    found = below(lines, at)
    if found and found[0].startswith("#"):
        return found
    # A suite's own line has nothing of its own; then the end of what came before is all there is.
    return above(lines, at) + of_node(found) or lines[max(0, at - LINES_BEFORE):at]


def shorten(lines, most):
    if len(lines) <= most:
        return lines
    tail = most // 3
    return lines[:most - tail - 1] + [f"# … {len(lines) - most + 1} lines left out"] + lines[len(lines) - tail:]


def failures(path):
    lines = pathlib.Path(path).read_text(encoding="utf-8", errors="replace").splitlines()
    for at, line in enumerate(lines):
        result = RESULT.match(line)
        if result and is_failure(result):
            yield path, line, explain(lines, at, result[3])


def main():
    found = [failure for path in sys.argv[1:] for failure in failures(path)]
    if not found:
        return
    most = max(FEWEST, min(LINES_OF_ONE, WHOLE // len(found)))
    told = 0
    for number, (path, line, lines) in enumerate(found):
        if told + most > LINES_OF_ALL:
            print(f"… and {len(found) - number} more: {path} and the logs beside it")
            break
        shown = shorten(lines, most - 1)
        # Not in the first column: the lines of the tests themselves are counted.
        print("\n".join(f"  {text}"[:300] for text in [line, *shown]))
        told += 1 + len(shown)


main()

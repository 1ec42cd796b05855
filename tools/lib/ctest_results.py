"""Prints `ok - NAME` / `not ok - NAME` for each GoogleTest case of a ctest run.

usage: ctest_results.py FOLDER LABEL     FOLDER holds ctest.xml (JUnit) and one GoogleTest JSON per binary.
A binary that failed without a failing case in its JSON (it crashed, hung, or wrote none) is a failure of its own;
so is one that has no cases, and a case that was skipped or disabled.
"""
import json
import pathlib
import sys
import xml.etree.ElementTree as xml


def cases(path):
    """(name, passed, message) of each case in one GoogleTest JSON."""
    for suite in json.loads(path.read_text())["testsuites"]:
        for case in suite["testsuite"]:
            messages = [failure["failure"] for failure in case.get("failures", [])]
            ran = case["status"] == "RUN" and case["result"] == "COMPLETED"
            if not ran:
                messages.append("skipped or disabled: " + case["result"])
            yield f'{suite["name"]}.{case["name"]}', not messages, "\n".join(messages)


def report(passed, name, message=""):
    print(("ok - " if passed else "not ok - ") + name)
    if not passed:
        for line in message.splitlines():
            print("# " + line)


def main():
    folder, label = pathlib.Path(sys.argv[1]), sys.argv[2]
    junit = folder / "ctest.xml"
    if not junit.exists():
        report(False, f"{label}: ctest ran", "no ctest.xml")
        return
    binaries = xml.parse(junit).getroot().findall("testcase")
    if not binaries:
        report(False, f"{label}: there are tests")
    for binary in binaries:
        name = binary.get("name")
        result = folder / f"{name}_test.json"
        try:
            found = list(cases(result))
        except (OSError, ValueError) as error:
            found = []
            print(f"# {name}: {error}")
        for case, passed, message in found:
            report(passed, f"{label} {name} {case}", message)
        ended_well = binary.get("status") == "run"
        if not found or (not ended_well and all(passed for _, passed, _ in found)):
            report(False, f"{label} {name} runs to its end", binary.findtext("system-out") or "")


main()

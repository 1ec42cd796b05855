"""Rules of the code base that a compiler does not hold: one test a rule, `ok - NAME` / `not ok - NAME` lines.

usage: check.py ROOT
"""
import pathlib
import re
import subprocess
import sys

# Who may include whom. Layers: base <- core <- net, store, vmm, crypt, priv, guest <- processes.
# Within the middle layer only what is named here; a process never includes another.
LAYERS = {
    "base": set(),
    "confine": {"base"},
    "core": {"base"},
    "net": {"base", "core"},
    "store": {"base", "core", "net"},
    "vmm": {"base", "core", "net"},
    "crypt": {"base", "core"},
    "priv": {"base", "confine", "core", "vmm"},
    "guest": {"base", "core", "net"},
    "noded": {"base", "confine", "core", "vmm", "priv"},
    "sandboxd": {"base", "confine", "core", "net", "store", "vmm"},
    "control": {"base", "confine", "core", "net", "store", "crypt"},
    "volumed": {"base", "confine", "core", "net", "crypt"},
    "credd": {"base", "confine", "core", "net", "crypt"},
    "netd": {"base", "confine", "core", "net"},
    "cli": {"base", "core", "net"},
}
FILE_LINES = 600      # hard limits; "near 400" and "near 40" are for reviewers
FUNCTION_LINES = 80
ROOT_LINES = 5990     # src/priv + src/noded, comments too, tests not: a ratchet, lower it when it falls
WORDS = re.compile(r"\b(?:" + "|".join(["TO" + "DO", "FIX" + "ME", "XX" + "X", "HA" + "CK"]) + r")\b")
NAMED_HOSTS = re.compile("|".join([r"deb\.debian" + r"\.org", "/wo" + "rk/", "/tmp" + "/s/"]))


class Tree:
    """The files of a checkout: what git tracks and what it does not ignore."""

    def __init__(self, root):
        self.root = pathlib.Path(root)
        listed = subprocess.run(
            ["git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            check=True, stdout=subprocess.PIPE).stdout.decode().split("\0")
        self.files = sorted(name for name in set(listed) if name and (self.root / name).is_file())

    def text(self, name):
        return (self.root / name).read_text(errors="replace")

    def matching(self, pattern):
        return [name for name in self.files if re.search(pattern, name)]

    def sources(self):
        return self.matching(r"^src/.*\.(cc|h)$")


def include_directions(tree):
    for name in tree.sources():
        folder = name.split("/")[1]
        if folder not in LAYERS:
            yield f"{name}: src/{folder} is not in LAYERS of tests/style/check.py"
            continue
        allowed = LAYERS[folder] | {folder, "api"}
        for number, line in enumerate(tree.text(name).splitlines(), 1):
            found = re.match(r'#include "([^"/]+)/', line)
            if found and found[1] not in allowed:
                yield f"{name}:{number}: {folder} must not include {found[1]}"
            elif re.match(r'#include "[^"/]+"', line) or re.match(r'#include "\.\.?/', line):
                yield f"{name}:{number}: includes start at src/: \"{folder}/...\""


def root_library_has_one_user(tree):
    for name in tree.matching(r"CMakeLists\.txt$"):
        if not re.match(r"src/(priv|noded)/|tests/|bench/", name) and re.search(r"\bspace_priv\b", tree.text(name)):
            yield f"{name}: only space-noded (tests and benchmarks too) links space_priv"


def tests_have_targets(tree):
    for name in tree.matching(r"_(test|fuzzer)\.cc$"):
        path = pathlib.PurePath(name)
        lists = str(path.parent / "CMakeLists.txt")
        text = re.sub(r"#.*", "", tree.text(lists)) if lists in tree.files else ""
        if path.name not in re.split(r"[\s()]+", text):
            yield f"{name}: belongs to no target of {lists}"


def fuzzers_have_corpora(tree):
    fuzzers = set()
    for name in tree.matching(r"CMakeLists\.txt$"):
        fuzzers |= set(re.findall(r"space_fuzzer\((\w+)", tree.text(name)))
    corpora = {name.split("/")[3] for name in tree.matching(r"^tests/fuzz/corpus/[^/]+/.")}
    for name in sorted(fuzzers - corpora):
        yield f"fuzzer {name}: tests/fuzz/corpus/{name}/ has no input"
    for name in sorted(corpora - fuzzers):
        yield f"tests/fuzz/corpus/{name}: there is no such fuzzer"


def file_length(tree):
    for name in tree.sources():
        count = tree.text(name).count("\n")
        if count > FILE_LINES:
            yield f"{name}: {count} lines, at most {FILE_LINES}"


def functions(text):
    """(first line, length) of each function body. Relies on clang-format: a body ends with a brace at the
    indentation its head began with."""
    lines = text.splitlines()
    for start, line in enumerate(lines):
        if not line.endswith("{") or re.match(r"\s*(namespace|class|struct|enum|union|extern|\}|#)", line):
            continue
        head = start
        while head and line.count(")") and lines[head - 1].strip() and (
                "(" not in lines[head] or re.match(r"\s*: ", lines[head])):  # a constructor's initialisers
            head -= 1
        if "(" not in lines[head] or re.match(r"\s*(if|for|while|switch|do|else|case|try|catch|return)\b", lines[head]):
            continue
        indent = re.match(r"\s*", lines[head])[0]
        for end in range(start + 1, len(lines)):
            if re.match(re.escape(indent) + r"\}", lines[end]):
                yield head + 1, end - head + 1
                break


def function_length(tree):
    for name in tree.sources():
        if name.endswith("_test.cc"):
            continue
        for line, length in functions(tree.text(name)):
            if length > FUNCTION_LINES:
                yield f"{name}:{line}: a function of {length} lines, at most {FUNCTION_LINES}"


def root_size(tree):
    names = [n for n in tree.matching(r"^src/(priv|noded)/.*\.(cc|h)$") if not re.search(r"_(test|fuzzer)\.cc$", n)]
    count = sum(tree.text(name).count("\n") for name in names)
    code = sum(not re.match(r"\s*(//.*)?$", line) for name in names for line in tree.text(name).splitlines())
    with_them = sum(tree.text(name).count("\n") for name in tree.matching(r"^src/confine/(seccomp|landlock|vmm_calls)\.(cc|h)$"))
    print(f"# src/priv + src/noded: {count} lines, limit {ROOT_LINES}; {code} of them code; "
          f"and {with_them} of src/confine in the same process")
    if count > ROOT_LINES:
        yield f"{count} lines run as root, at most {ROOT_LINES}"


def forbidden_text(tree):
    for name in tree.files:
        if not re.search(r"\.(cc|h|c|py|sh|mjs|js|md|txt|cmake|json|conf|yaml|toml)$|^tools/dev$|/run$|^images/", name):
            continue
        for number, line in enumerate(tree.text(name).splitlines(), 1):
            found = WORDS.search(line) or NAMED_HOSTS.search(line)
            if found and not name.endswith("package-lock.json"):
                yield f"{name}:{number}: {found[0]}"


def readme_lists_everything(tree):
    readme = tree.text("tests/README.md") if "tests/README.md" in tree.files else ""
    listed = set(re.findall(r"^\| `([a-z][a-z0-9_-]*)`", readme, re.M))
    suites = {name.split("/")[1] for name in tree.matching(r"^tests/[^/]+/run$")} | {"unit", "fuzz"}
    benches = {name.split("/")[1] for name in tree.matching(r"^bench/[^/.]+$")}
    for name in sorted((suites | benches) - listed):
        yield f"tests/README.md: no row for `{name}`"
    for name in sorted(listed - suites - benches):
        yield f"tests/README.md: `{name}` does not exist (tests/{name}/run or bench/{name})"


def formatted(tree):
    names = tree.matching(r"^(src|api|bench|tests)/.*\.(cc|h)$")
    if not names or not (tree.root / ".clang-format").exists():
        return
    result = subprocess.run(["clang-format-19", "--dry-run", "--Werror", *names], cwd=tree.root,
                            stderr=subprocess.PIPE, text=True)
    bad = sorted(set(re.findall(r"^([^\s:]+):\d+:\d+: error: code should be", result.stderr, re.M)))
    if result.returncode and not bad:
        yield result.stderr
    for name in bad:
        yield f"{name}: run ./tools/dev fmt"


RULES = [include_directions, root_library_has_one_user, tests_have_targets, fuzzers_have_corpora, file_length,
         function_length, root_size, forbidden_text, readme_lists_everything, formatted]


def main(root):
    tree, failed = Tree(root), False
    for rule in RULES:
        problems = list(rule(tree))
        failed = failed or bool(problems)
        print(("not ok - " if problems else "ok - ") + rule.__name__.replace("_", " "))
        for problem in problems:
            print("# " + problem)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))

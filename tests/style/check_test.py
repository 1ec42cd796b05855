"""Shows that every rule of check.py can fail: in a small clean tree it passes, with one violation planted it does not."""
import contextlib
import io
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent))
sys.dont_write_bytecode = True
import check

CLEAN = {
    "src/base/a.h": "#pragma once\n",
    "src/net/b.cc": '#include "base/a.h"\n\nint f() {\n  g();\n  return 1;\n}\n',
    "src/net/b_test.cc": '#include "net/b.h"\n',
    "src/net/wire_fuzzer.cc": '#include "net/b.h"\n',
    "src/net/CMakeLists.txt": "space_test(net SOURCES b_test.cc)\nspace_fuzzer(wire SOURCES wire_fuzzer.cc)\n",
    "src/priv/c.cc": '#include "base/a.h"\n',
    "src/noded/CMakeLists.txt": "space_process(space-noded DEPS space_priv)\n",
    "tests/fuzz/corpus/wire/one": "x",
    "tests/system/run": "#!/bin/sh\n",
    "tests/README.md": "| `unit` | |\n| `fuzz` | |\n| `system` | |\n",
    ".clang-format": "BasedOnStyle: Google\n",
}
LONG_FUNCTION = "int f() {\n" + "  g();\n" * check.FUNCTION_LINES + "}\n"
LONG_SIGNATURE = "int f(int a,\n      int b) {\n" + "  g();\n" * check.FUNCTION_LINES + "}\n"
PLANTED = [  # rule, file, content
    ("include_directions", "src/base/a.h", '#include "net/b.h"\n'),
    ("include_directions", "src/cli/x.cc", '#include "control/y.h"\n'),
    ("include_directions", "src/net/b.cc", '#include "b.h"\n'),
    ("include_directions", "src/novel/x.cc", "\n"),
    ("root_library_has_one_user", "src/cli/CMakeLists.txt", "space_process(space DEPS space_priv)\n"),
    ("tests_have_targets", "src/net/lost_test.cc", "\n"),
    ("tests_have_targets", "src/net/CMakeLists.txt", "# b_test.cc\nspace_fuzzer(wire SOURCES wire_fuzzer.cc)\n"),
    ("tests_have_targets", "src/core/lost_fuzzer.cc", "\n"),
    ("fuzzers_have_corpora", "src/net/CMakeLists.txt",
     CLEAN["src/net/CMakeLists.txt"] + "space_fuzzer(bare SOURCES wire_fuzzer.cc)\n"),
    ("fuzzers_have_corpora", "tests/fuzz/corpus/gone/one", "x"),
    ("file_length", "src/net/b.cc", "\n" * (check.FILE_LINES + 1)),
    ("function_length", "src/net/b.cc", LONG_FUNCTION),
    ("function_length", "src/net/b.cc", LONG_SIGNATURE),
    ("root_size", "src/priv/c.cc", "\n" * (check.ROOT_LINES + 1)),
    ("forbidden_text", "src/net/b.cc", "// TO" + "DO: later\n"),
    ("forbidden_text", "images/base/files/etc/apt/x", "deb.debian" + ".org\n"),
    ("readme_lists_everything", "tests/novel/run", "#!/bin/sh\n"),
    ("readme_lists_everything", "bench/novel", "#!/bin/sh\n"),
    ("readme_lists_everything", "tests/README.md", CLEAN["tests/README.md"] + "| `gone` | |\n"),
    ("formatted", "src/net/b.cc", "int  f( ){return 1;}\n"),
]


def failing_rules(files):
    with tempfile.TemporaryDirectory() as root:
        subprocess.run(["git", "init", "-q", root], check=True)
        for name, content in files.items():
            path = pathlib.Path(root, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
        tree = check.Tree(root)
        with contextlib.redirect_stdout(io.StringIO()):
            return [rule.__name__ for rule in check.RULES if list(rule(tree))]


def main():
    failed = False

    def report(passed, name):
        nonlocal failed
        failed = failed or not passed
        print(("ok - " if passed else "not ok - ") + name)

    found = failing_rules(CLEAN)
    report(not found, "self-test: a clean tree breaks no rule" + (f" but {found}" if found else ""))
    for number, (rule, name, content) in enumerate(PLANTED, 1):
        report(rule in failing_rules({**CLEAN, name: content}), f"self-test: {rule} sees violation {number} in {name}")
    planted = {rule for rule, _, _ in PLANTED}
    report(planted == {rule.__name__ for rule in check.RULES}, "self-test: every rule has a planted violation")
    return 1 if failed else 0


sys.exit(main())

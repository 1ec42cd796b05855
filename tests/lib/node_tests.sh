# Runs files of Node's own test runner and prints one line a test as tests/README.md asks: `ok - name` / `not ok - name`.
# Source it; `node` must be 20 or newer (tools/dev sees to it).

# node_tests LABEL FILE… ; SPACE_TEST_PATTERN: only tests whose name matches
node_tests() {
  local label=$1 file output status
  shift
  for file in "$@"; do
    output=$(mktemp)
    status=0
    # A test that failed may leave streams open which keep its file from ending.
    timeout --kill-after=10 900 node --test-reporter=tap ${SPACE_TEST_PATTERN:+"--test-name-pattern=$SPACE_TEST_PATTERN"} "$file" 2>&1 | tee "$output" |
      sed -uE "s/^(not ok|ok) [0-9]+ - (.*)$/\1 - $label \2/; /^(TAP version|1\.\.|# (tests|suites|pass|fail|cancelled|skipped|todo|duration_ms) )/d; /^  (---|\.\.\.|duration_ms: .*|type: .*)$/d; /^# Subtest/d" || status=${PIPESTATUS[0]}   # a failed file is in its lines; the next one still runs
    if [ "$status" = 124 ]; then echo "not ok - $label $(basename "$file") did not end"; fi
    if ! grep -qE '^(not ok|ok) [0-9]+ - ' "$output"; then echo "not ok - $label $(basename "$file") ran no test"; fi
    rm -f "$output"
  done
}

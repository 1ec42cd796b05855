# Runs files of Node's own test runner and prints one line a test as tests/README.md asks: `ok - name` / `not ok - name`,
# with what explains it below one that failed; at the end the slowest. Source it; `node` must be 20 or newer (tools/dev
# sees to it).
tests_lib=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

# node_tests LABEL FILE… ; SPACE_TEST_PATTERN: only tests whose name matches
node_tests() {
  local label=$1 file durations
  shift
  durations=$(mktemp)
  for file in "$@"; do python3 "$tests_lib/node_file.py" "$label" "$durations" "$file"; done
  sort -rn "$durations" | awk -F'\t' -v label="$label" '$1 >= 5 && NR <= 10 { printf "# slow: %6.1f s  %s %s\n", $1, label, $2 }'
  rm -f "$durations"
}

# The SDKs of tests/e2b, which several suites use: one of them installs what the lock file says, the others find it.
install_sdks() {
  local folder=$tests_lib/../e2b
  (
    cd "$folder" || exit 1
    flock 9
    cmp -s package-lock.json node_modules/.installed && exit
    npm ci --no-audit --no-fund --ignore-scripts --silent >&2
    cp package-lock.json node_modules/.installed
  ) 9<"$folder/package.json"
}

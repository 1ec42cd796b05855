# The suites that are part of this script. Each prints its tests as `ok - NAME` / `not ok - NAME` lines.
# shellcheck shell=bash

# Every GoogleTest of the release build.
suite_unit() {
  build release || return 1
  run_ctest "$release" unit
}

# Address and undefined-behaviour sanitizers over the unit tests of core and parsers, then every fuzzer: its corpus,
# and some time.
suite_fuzz() {
  local folder=$repo/build/fuzz fuzzer said=() under_way=()
  build fuzz || return 1
  run_ctest "$folder" asan
  # Two at a time, and what each says in one piece.
  for fuzzer in "$folder"/fuzz/*_fuzzer; do
    said+=("$(mktemp)")
    run_fuzzer "$fuzzer" >"${said[-1]}" 2>&1 &
    under_way+=($!)
    ((${#said[@]} < 2)) || hear_fuzzers
  done
  hear_fuzzers
}

# What the fuzzers under way say, once they have ended.
hear_fuzzers() {
  ((${#said[@]})) || return 0
  wait "${under_way[@]}" || true
  cat "${said[@]}"
  rm -f "${said[@]}"
  said=() under_way=()
}

# run_ctest FOLDER LABEL : one line per test, also when a whole binary dies or hangs.
run_ctest() {
  local results=$1/results
  rm -rf "$results"
  mkdir -p "$results"
  GTEST_OUTPUT=json:$results/ ctest --test-dir "$1" --parallel 2 --output-junit "$results/ctest.xml" \
    --output-on-failure --quiet --output-log "$results/ctest.log" >/dev/null 2>&1 || true
  python3 "$repo/tools/lib/ctest_results.py" "$results" "$2"
}

run_fuzzer() {
  local name corpus work
  name=$(basename "$1" _fuzzer)
  corpus=$repo/tests/fuzz/corpus/$name
  work=$repo/build/fuzz/inputs/$name
  mkdir -p "$work/found" "$work/crashes"
  if ! compgen -G "$corpus/*" >/dev/null; then
    echo "not ok - fuzz $name has no corpus in tests/fuzz/corpus/$name"
    return
  fi
  tell "fuzz $name replays $(find "$corpus" -type f | wc -l) inputs" \
    "$1" -runs=0 -timeout=10 -rss_limit_mb=2048 -artifact_prefix="$work/crashes/" "$corpus"
  tell "fuzz $name runs $fuzz_seconds s" \
    "$1" -max_total_time="$fuzz_seconds" -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 \
    -artifact_prefix="$work/crashes/" "$work/found" "$corpus"
}

# tell NAME COMMAND... : one test; the command's output only when it fails.
tell() {
  local name=$1 output
  shift
  if output=$("$@" 2>&1); then
    echo "ok - $name"
  else
    echo "not ok - $name"
    tail -n 60 <<<"$output" | sed 's/^/# /'
  fi
}

# Runs suites and counts what they say. The protocol of a suite is in tests/README.md.
# shellcheck shell=bash

command_test() {
  need_root test
  local suites=() argument
  fuzz_seconds=10 suite_limit=2400
  export SPACE_LONG=0
  for argument; do
    case $argument in
      --long) SPACE_LONG=1 fuzz_seconds=300 suite_limit=36000 ;;
      -*) die "test: unknown option '$argument'" ;;
      *) suites+=("$argument") ;;
    esac
  done
  mkdir -p "$repo/build/test-logs"
  ((${#suites[@]})) || mapfile -t suites < <(all_suites)
  for argument in "${suites[@]}"; do
    declare -F "suite_$argument" >/dev/null || [[ -d tests/$argument ]] ||
      die "there is no suite '$argument'; there are: $(all_suites | paste -sd' ')"
  done
  ensure_packages test
  run_suites "${suites[@]}"
}

# Cheap ones first; fuzz last, because its programs are built while virtual machines boot. A folder of tests/ with a
# `run` is a suite.
all_suites() {
  printf '%s\n' style unit
  find tests -mindepth 2 -maxdepth 2 -name run -printf '%h\n' | sed 's#tests/##' | grep -vx style | LC_ALL=C sort
  echo fuzz
}

run_suites() {
  local suite log passed=0 failed=0 ok bad status start rows=() logs=() left=("$@") pipe logger
  for suite; do
    left=("${left[@]:1}")
    say "suite $suite"
    if [[ $suite == fuzz ]]; then
      end_build_ahead
    elif [[ -z $ahead && $suite != style && $suite != unit && " ${left[*]} " == *" fuzz "* ]]; then
      build_ahead fuzz
    fi
    log=$repo/build/test-logs/$suite.log
    start=$(now_ms)
    set +e
    trap - ERR
    begin_log "$log"
    (
      set -e  # not `run_suite || ...`: that would switch errexit off inside
      run_suite "$suite"
    ) </dev/null >"$pipe" 2>&1
    status=$?
    end_log
    set -e
    bad=$(count "$not_passed" "$log")
    ok=$(($(count '^ok( [0-9]+)? - ' "$log") - $(count "$skipped" "$log")))
    if ((bad == 0 && (status != 0 || ok == 0))); then
      echo "not ok - $suite ends well (exit $status, $ok tests passed)" | tee -a "$log"
      bad=1
    fi
    passed=$((passed + ok)) failed=$((failed + bad)) logs+=("$log")
    rows+=("$(printf '%-14s %5d passed %5d failed   %s' "$suite" "$ok" "$bad" "$(seconds_since "$start")")")
  done
  echo
  python3 "$repo/tools/lib/failures.py" "${logs[@]}" || true
  grep -hiE "$not_passed" "${logs[@]}" || true
  printf '%s\n' "${rows[@]}"
  echo "$passed passed, $failed failed"
  ((failed == 0))
}

# Into $pipe: goes on and into LOG, which is whole once end_log returns.
begin_log() {
  pipe=$(mktemp -u)
  mkfifo "$pipe"
  tee "$1" <"$pipe" &
  logger=$!
}
end_log() {
  local i
  rm -f "$pipe"
  # A process that a suite left behind may keep it open.
  for ((i = 0; i < 100; i++)); do
    kill -0 "$logger" 2>/dev/null || return 0
    sleep 0.1
  done
  kill "$logger"
}

# A skipped test proves nothing, so it has not passed.
skipped='^ok( [0-9]+)? - .* # (skip|todo)'
not_passed="^not ok( [0-9]+)? - |$skipped"
count() { grep -ciE "$1" "$2" || true; }

run_suite() {
  if declare -F "suite_$1" >/dev/null; then
    "suite_$1"
    return
  fi
  [[ -x tests/$1/run ]] || { echo "not ok - tests/$1/run exists and is executable"; return 1; }
  if [[ $1 != style ]]; then
    [[ $1 == integration ]] || ensure_node
    build release >/dev/null || return 1
  fi
  SPACE_BUILD=$release timeout --kill-after=20 "$suite_limit" "tests/$1/run"
}

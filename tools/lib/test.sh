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

# Suites that mostly wait: they run, one after the other, beside the one they are listed for.
declare -A beside=([e2b]='docs integration')

run_suites() {
  local suite passed=0 failed=0 rows=() logs=() left=("$@") waiting hosts
  hosts=$(hosts_of "$@")
  for suite; do
    left=("${left[@]:1}")
    [[ " $hosts " != *" ${suite}:"* ]] || continue  # runs beside another one
    if [[ $suite == fuzz ]]; then
      end_build_ahead
    elif [[ -z $ahead && $suite != style && $suite != unit && " ${left[*]} " == *" fuzz "* ]]; then
      build_ahead fuzz
    fi
    waiting=$(guests_of "$suite" "$hosts")
    run_with_others "$suite" "$waiting"
  done
  echo
  python3 "$repo/tools/lib/failures.py" "${logs[@]}" || true
  grep -hiE "$not_passed" "${logs[@]}" || true
  printf '%s\n' "${rows[@]}"
  echo "$passed passed, $failed failed"
  ((failed == 0))
}

# hosts_of SUITE... : GUEST:HOST for each of them that runs beside another of them.
hosts_of() {
  local host guest
  for host in "${!beside[@]}"; do
    for guest in ${beside[$host]}; do
      if [[ " $* " == *" $host "* && " $* " == *" $guest "* ]]; then printf '%s ' "$guest:$host"; fi
    done
  done
}
guests_of() {
  local pair
  for pair in $2; do
    if [[ ${pair#*:} == "$1" ]]; then printf '%s ' "${pair%:*}"; fi
  done
}

# run_with_others SUITE 'GUEST ...' : counts all of them. What a guest prints comes in one piece, after the suite's.
run_with_others() {
  local suite=$1 guest guests others='' start status log
  read -ra guests <<<"$2"
  if ((${#guests[@]})); then
    # Two builds at once would be in each other's way.
    if (build release && ensure_node) >/dev/null; then export SPACE_IS_BUILT=1; fi
    run_in_background "${guests[@]}" &
    others=$!
  fi
  say "suite $suite${others:+, beside it ${guests[*]}}"
  log=$(log_of "$suite")
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
  account "$suite" "$status" "$(seconds_since "$start")"
  [[ -n $others ]] || return 0
  wait "$others" || true
  for guest in "${guests[@]}"; do
    say "suite $guest, which ran beside $suite"
    log=$(log_of "$guest")
    touch "$log"
    cat "$log"
    status=1 start='?'
    [[ ! -f $log.ended ]] || read -r status start <"$log.ended"
    account "$guest" "$status" "$start"
  done
  unset SPACE_IS_BUILT
}

log_of() { echo "$repo/build/test-logs/$1.log"; }

run_in_background() {
  local suite log start status
  set +e
  trap - ERR
  for suite; do rm -f "$(log_of "$suite")"{,.ended}; done
  for suite; do
    log=$(log_of "$suite")
    start=$(now_ms)
    (
      set -e
      run_suite "$suite"
    ) </dev/null >"$log" 2>&1
    status=$?
    echo "$status $(seconds_since "$start")" >"$log.ended"
  done
}

# account SUITE STATUS TIME : into passed, failed, rows and logs of the caller's caller.
account() {
  local log bad ok
  log=$(log_of "$1")
  bad=$(count "$not_passed" "$log")
  ok=$(($(count '^ok( [0-9]+)? - ' "$log") - $(count "$skipped" "$log")))
  if ((bad == 0 && ($2 != 0 || ok == 0))); then
    echo "not ok - $1 ends well (exit $2, $ok tests passed)" | tee -a "$log"
    bad=1
  fi
  passed=$((passed + ok)) failed=$((failed + bad)) logs+=("$log")
  rows+=("$(printf '%-14s %5d passed %5d failed   %s' "$1" "$ok" "$bad" "$3")")
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
    [[ -n ${SPACE_IS_BUILT-} ]] || build release >/dev/null || return 1
  fi
  SPACE_BUILD=$release timeout --kill-after=20 "$suite_limit" "tests/$1/run"
}

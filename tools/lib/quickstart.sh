# From a checkout to a sandbox that has run something. Each step is safe to repeat, so a crash costs one step.
# shellcheck shell=bash

command_quickstart() {
  need_root quickstart
  (($# == 0)) || die "quickstart takes no arguments"
  local begun
  current_step=''  # not local: the trap reads it after this function is gone
  trap 'quickstart_end $?' EXIT
  begun=$(now_ms)
  mkdir -p "$repo/build"
  step 'Debian packages' ensure_packages
  step 'users' ensure_users
  step 'release build' build release product
  step 'space up' space_up
  step 'base template' space template build base
  step 'first sandbox' create_first
  step 'Python in it' space exec "$first" -- python3 -c 'import sys; print("hello from Python", sys.version.split()[0])'
  step 'shell in it' space exec "$first" -- sh -c 'echo "kernel $(uname -r), user $(id -un), $(nproc) CPU"'
  step 'write a file' write_file
  step 'read it back' read_file
  step 'kill it' space kill "$first"
  say "all of it took $(seconds_since "$begun")"
  try_next
  say "and once more in one command: space run -- python3 -c 'print(6*7)'"
  space run -- python3 -c 'print(6*7)'
}

space() { "$release/space" "$@"; }

# step TITLE COMMAND... : runs it in this shell, with its output, and says how long it took.
step() {
  local title=$1 start
  shift
  current_step=$title
  start=$(now_ms)
  say "$title"
  "$@"  # not inside a condition: errexit must hold in it
  say "$title: $(seconds_since "$start")"
}

quickstart_end() {
  (($1 == 0)) || say "step '$current_step' failed: mend the cause and run quickstart again, it goes on from there"
}

ensure_users() {
  local user
  for user in space-control space-sandboxd; do
    id "$user" &>/dev/null ||
      useradd --system --user-group --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin "$user"
  done
}

# A SPACE that runs an older build is stopped first; its sandboxes run on.
space_up() {
  local running
  running=$(head -n 1 /run/space/up.lock 2>/dev/null) || running=''
  if [[ $running && -d /proc/$running ]] && [[ $(readlink "/proc/$running/exe") == "$release/space" ]]; then
    echo 'already up'
    return
  fi
  space down --keep-running >/dev/null 2>&1 || true
  space up -d
}

create_first() {
  first=$(space create --template base | tail -n1)
  echo "sandbox $first"
}

write_file() { space exec "$first" -- sh -c 'echo "kept in the sandbox" > note.txt && ls -l note.txt'; }

read_file() {
  local text
  text=$(space exec "$first" -- cat note.txt)
  echo "$text"
  [[ $text == 'kept in the sandbox' ]]
}

try_next() {
  cat <<NEXT

What to try next (\`space\` is $release/space):
  space run -- bash -c 'echo hi from \$(hostname)'    create, run, print, clean up
  id=\$(space create); space shell \$id               a terminal in a sandbox of your own
  space ls; space kill \$id
  space doctor                                       what this machine can and cannot do
  space down --all                                   stop everything
Any E2B SDK works too: set E2B_API_URL=http://127.0.0.1:3000, E2B_API_KEY from ~/.config/space/config.json.

NEXT
}

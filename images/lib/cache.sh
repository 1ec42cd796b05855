# Steps whose result is a folder named by the hash of everything that went into it.
# shellcheck shell=bash
: "${cache:?}" "${out:?}" "${here:?}"

# One build at a time per cache and per output; what a killed build left behind goes first.
cache_lock() {
  exec 8>"$cache/lock" 9>"$out/.lock"
  flock --nonblock 8 && flock --nonblock 9 || {
    say 'another build is running: waiting for it'
    flock 8
    flock 9
  }
  rm -rf --one-file-system "$cache"/tmp.* "$out"/tmp.*
}

# hash_of FILE-OR-FOLDER... : contents, names and executable bits; not owners or times.
hash_of() {
  local path
  for path in "$@"; do
    if [[ -d $path ]]; then
      (cd "$path" && find . \( -type f -o -type l \) -printf '%P %y %l ' \
        \( -perm -u+x -printf 'x' -o -printf '-' \) -printf '\n' | LC_ALL=C sort)
      (cd "$path" && find . -type f -print0 | LC_ALL=C sort -z | xargs -0r sha256sum)
    else
      sha256sum <"$path"
    fi
  done | sha256sum | cut -c1-32
}

key_of() { printf '%s\n' "$@" | sha256sum | cut -c1-32; }

# cached STEP KEY FUNCTION : runs FUNCTION in an empty folder unless the result is there; sets `result`.
# Complete means renamed into place: rename happens last, after the data reached the disk.
cached() {
  local step=$1 key=$2 build=$3 tmp started=$SECONDS
  result=$cache/$step/$key
  if [[ -d $result ]]; then
    touch "$result"  # cache_trim keeps what was used last
    say "$step: unchanged"
    return
  fi
  say "$step: building"
  mkdir -p "$cache/$step"
  tmp=$(mktemp -d "$cache/tmp.XXXXXX")
  chmod 755 "$tmp"
  (cd "$tmp" && "$build")
  make_durable "$tmp"
  mv -T "$tmp" "$result"
  say "$step: done in $((SECONDS - started)) s"
}

# The files of a folder and the folder itself; not the whole file system, which may be busy with other work.
make_durable() { find "$1" -depth \( -type f -o -type d \) -print0 | xargs -0 sync; }

# Keeps the three results of each step that were used last.
cache_trim() {
  local step
  for step in resolve kernel initramfs rootfs disk template; do
    find "$cache/$step" -mindepth 1 -maxdepth 1 -printf '%T@ %p\0' 2>/dev/null | sort -zrn |
      tail -zn +4 | cut -zd' ' -f2- | xargs -0r rm -rf --one-file-system
  done
}

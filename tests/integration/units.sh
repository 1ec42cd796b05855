#!/bin/bash
# The systemd units of deploy/systemd, checked offline: systemd reads them without a word, they are hardened as far as
# the threshold below says, and both checks notice a unit that is not in order. Prints `ok - ...` lines.
#   SPACE_BUILD   folder of the built programs
set -euo pipefail
repo=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
work=$(mktemp -d /tmp/space-units.XXXXXX)
trap 'rm -rf "$work"' EXIT
export SYSTEMD_COLORS=0
status=0

report() {  # WORD NAME
  if [[ $1 == ok ]]; then echo "ok - units $2"; else echo "not ok - units $2" && status=1; fi
}

comment() { echo "# ${1//$'\n'/$'\n'# }"; }

# A copy of the units whose programs are those of the build, with SCRIPT of sed applied to UNIT.
copy_units() {  # FOLDER [UNIT SCRIPT]
  mkdir "$1"
  local unit
  for unit in "$repo"/deploy/systemd/*.{service,target}; do
    sed "s#/usr/bin/space-#$SPACE_BUILD/space-#" "$unit" >"$1/$(basename "$unit")"
  done
  if (($# == 3)); then
    sed -i "$3" "$1/$2"
    if cmp -s "$1/$2" "$work/units/$2"; then echo "# '$3' changes nothing in $2" && return 1; fi
  fi
}

# Silent and successful: systemd only warns of a setting it does not know.
is_clean() {  # FOLDER UNIT
  local said
  said=$(SYSTEMD_UNIT_PATH="$1:" systemd-analyze verify --man=no "$1/$2" 2>&1) || return 1
  [[ -z $said ]] || { comment "$said" && return 1; }
}

# Tenths of systemd's exposure level, 0 (nothing to gain) to 100.
exposure() {  # FOLDER UNIT
  systemd-analyze security --offline=true --no-pager "$1/$2" | sed -nE 's/.*exposure level for .*: ([0-9]+)\.([0-9]).*/\1\2/p' | sed 's/^0*\(.\)/\1/'
}

is_hardened() {  # FOLDER UNIT THRESHOLD
  systemd-analyze security --offline=true --no-pager --threshold="$3" "$1/$2" >/dev/null 2>&1
}

refused() {  # NAME UNIT SCRIPT
  local folder
  folder=$work/$((++copies))
  if copy_units "$folder" "$2" "$3" && ! is_clean "$folder" "$2"; then report ok "$1"; else report failed "$1"; fi
}

worse() {  # NAME UNIT SCRIPT
  local folder before after
  folder=$work/$((++copies))
  copy_units "$folder" "$2" "$3"
  before=$(exposure "$work/units" "$2")
  after=$(exposure "$folder" "$2")
  echo "# $2: $before, without it $after"
  if ((after > before)); then report ok "$1"; else report failed "$1"; fi
}

copies=0
copy_units "$work/units"
declare -A threshold=([space-noded.service]=68 [space-control.service]=17 [space-sandboxd.service]=13 [space-netd.service]=17)
for unit in space-noded.service space-netd.service space-control.service space-sandboxd.service space.target; do
  if is_clean "$work/units" "$unit"; then report ok "$unit is read without a warning"; else report failed "$unit is read without a warning"; fi
done
for unit in "${!threshold[@]}"; do
  echo "# $unit: exposure $(exposure "$work/units" "$unit") of 100"
  if is_hardened "$work/units" "$unit" "${threshold[$unit]}"; then report ok "$unit is hardened"; else report failed "$unit is hardened"; fi
done

refused 'a setting that does not exist is noticed' space-control.service 's/^ProtectHome=/ProtectHomes=/'
refused 'a system call group that does not exist is noticed' space-sandboxd.service 's/@resources/@resource/'
refused 'a program that is not there is noticed' space-sandboxd.service 's#^ExecStart=[^ ]*#&-missing#'
worse 'a unit without its capability bounds scores worse' space-control.service '/^CapabilityBoundingSet=/d'
worse 'a unit without its system call filter scores worse' space-sandboxd.service '/^SystemCallFilter=/d'
worse 'the root unit without its capability bounds scores worse' space-noded.service '/^CapabilityBoundingSet=/d'
if is_hardened "$work/units" space-control.service 1; then report failed 'a threshold can be missed'; else report ok 'a threshold can be missed'; fi

# What a mount namespace of its own would do to the root broker's mounts, systemd does not say.
hiding='^(ProtectSystem|ProtectHome|PrivateTmp|PrivateDevices|PrivateMounts|ReadWritePaths|ReadOnlyPaths|InaccessiblePaths|ProtectKernelTunables|ProtectKernelModules|ProtectKernelLogs|ProtectControlGroups|ProtectProc|ProcSubset|RootDirectory|MemoryDenyWriteExecute|RestrictNamespaces)='
if grep -qE "$hiding" "$repo/deploy/systemd/space-control.service" && ! grep -qE "$hiding" "$repo/deploy/systemd/space-noded.service" &&
  grep -qx 'KillMode=process' "$repo/deploy/systemd/space-noded.service"
then report ok 'the root unit hides no mount and kills no virtual machine'; else report failed 'the root unit hides no mount and kills no virtual machine'; fi

# Users and folders: made in an empty root, twice the same.
root=$work/root
mkdir -p "$root/etc" "$root/usr/lib/sysusers.d" "$root/usr/lib/tmpfiles.d"
cp "$repo/deploy/systemd/sysusers.conf" "$root/usr/lib/sysusers.d/space.conf"
cp "$repo/deploy/systemd/tmpfiles.conf" "$root/usr/lib/tmpfiles.d/space.conf"
folders_of() { (cd "$1" && find var/lib/space run/space -printf '%p %m %U %G\n' | sort); }
made=$(systemd-sysusers --root="$root" 2>&1 && systemd-tmpfiles --root="$root" --create space.conf 2>&1 && folders_of "$root") || true
again=$(systemd-tmpfiles --root="$root" --create space.conf >/dev/null 2>&1 && folders_of "$root") || true
id_of() { awk -F: -v name="$1" '$1 == name { print $3 }' "$root/etc/$2"; }
control="$(id_of space-control passwd) $(id_of space-control group)"
sandboxd="$(id_of space-sandboxd passwd) $(id_of space-sandboxd group)"
netd="$(id_of space-netd passwd) $(id_of space-netd group)"
expected="run/space 755 0 0
run/space/control 2750 ${control% *} ${sandboxd#* }
run/space/netd 2750 ${netd% *} ${sandboxd#* }
run/space/noded 751 0 0
run/space/sandboxd 700 $sandboxd
var/lib/space 755 0 0
var/lib/space/control 700 $control
var/lib/space/images 755 0 0
var/lib/space/netd 700 $netd
var/lib/space/sandboxd 700 $sandboxd
var/lib/space/space.log 640 0 0"
if [[ $again == "$expected" && $control != " " && $control != "$sandboxd" && $netd != " " && $netd != "$sandboxd" ]]; then report ok 'users and folders are made'; else
  report failed 'users and folders are made'
  comment "$made"
fi
exit $status

# Step template: the manifest of api/template-manifest.md. Then the output folder, which appears whole.
# shellcheck shell=bash

template_step() {
  local inputs=("${kernel##*/}" "${initramfs##*/}" "${disk##*/}" "$name" "$(hash_of "$recipe/template.conf" "$here/lib/template.sh")")
  cached template "$(key_of "${inputs[@]}")" template_build
  template=$result
}

template_build() {
  python3 - "$kernel" "$initramfs" "$disk" <<PYTHON >manifest.json
import datetime, hashlib, json, pathlib, sys
kernel, initramfs, disk = map(pathlib.Path, sys.argv[1:])
text = lambda path: path.read_text().strip()
sha256 = lambda path: hashlib.sha256(path.read_bytes()).hexdigest()
manifest = {
    "format": 1, "name": "$name", "arch": "amd64",
    "kernel": {"version": text(kernel / "version"), "sha256": sha256(kernel / "vmlinuz")},
    "initramfs": {
        "sha256": sha256(initramfs / "initramfs.img"),
        "daemon_sha256": text(initramfs / "daemon_sha256"),
        "daemon_version": text(initramfs / "daemon_version"),
        "modules": sorted(p.name for p in (kernel / "modules").iterdir()),
    },
    "disk": {
        "sha256": text(disk / "disk_sha256"), "size_mib": $disk_mib,
        "packages": dict(line.split("=", 1) for line in text(disk / "packages").splitlines()),
    },
    "shape": {"vcpus": $vcpus, "memory_mib": $memory_mib, "disk_mib": $disk_mib},
    "default_user": "$default_user", "default_workdir": "$default_workdir",
    "built_at": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
}
canonical = json.dumps(manifest, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
manifest["digest"] = hashlib.sha256(canonical.encode()).hexdigest()
print(json.dumps(manifest, sort_keys=True, indent=1, ensure_ascii=False))
PYTHON
  python3 -c 'import json; print(json.load(open("manifest.json"))["digest"])' >digest
}

# publish TEMPLATE : copies it to the output folder and prints the digest.
publish() {
  local digest tmp
  digest=$(<"$1/digest")
  if [[ -d $out/$digest ]]; then
    say "template $name is up to date"
  else
    tmp=$(mktemp -d "$out/tmp.XXXXXX")
    cp --sparse=always --reflink=auto "$kernel/vmlinuz" "$initramfs/initramfs.img" "$disk/disk.raw" \
      "$1/manifest.json" "$tmp/"
    chmod 755 "$tmp"
    make_durable "$tmp"
    mv -T "$tmp" "$out/$digest"
    say "template $name is new"
  fi
  echo "$digest"
}

# Process 1 of daemon_alone's namespaces: FOLDER DAEMON COMMAND…
folder=$1 daemon=$2
shift 2
root=$folder/root
mkdir "$root"
mount -o loop "$folder/disk.raw" "$root"
mount -t proc proc "$root/proc"
mount -t sysfs -o ro sysfs "$root/sys"
mount -t tmpfs -o mode=755 tmpfs "$root/dev"
for node in null zero full random urandom tty; do touch "$root/dev/$node"; mount --bind "/dev/$node" "$root/dev/$node"; done
ln -s /proc/self/fd "$root/dev/fd"
for i in 0:stdin 1:stdout 2:stderr; do ln -s "/proc/self/fd/${i%:*}" "$root/dev/${i#*:}"; done
mkdir "$root/dev/pts" "$root/dev/shm"
mount -t devpts -o newinstance,ptmxmode=0666,mode=0620,gid=5 devpts "$root/dev/pts"
ln -s pts/ptmx "$root/dev/ptmx"
mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
mount -t tmpfs -o mode=755 tmpfs "$root/run"
install -m 755 "$daemon" "$root/run/space-daemon"
ip link set lo up
hostname daemon-alone
env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
  chroot "$root" /run/space-daemon --listen 127.0.0.1:49983 >"$folder/log" 2>&1 &
answers=
for ((i = 0; i < 200; i++)); do
  if curl -sf -o /dev/null http://localhost:49983/health; then answers=1 && break; fi
  sleep 0.05
done
if [ -z "$answers" ]; then cat "$folder/log" >&2 && exit 1; fi
"$@" || { tail -n 20 "$folder/log" >&2; exit 1; }

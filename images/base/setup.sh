# shellcheck shell=bash
# Runs inside the new root file system, as root, with no network.

rm -f /etc/skel/.bash_logout  # Debian's forks
useradd --create-home --uid 1000 --user-group --shell /bin/bash user
passwd --quiet --lock user
chmod 440 /etc/sudoers.d/user

# root starts its shells like everybody else: Debian's own .profile forks.
rm -f /root/.profile /root/.bashrc
cp /etc/skel/.profile /etc/skel/.bashrc /root/

# The machine's own name, whatever it is set to, resolves without asking a name server.
sed -Ei 's/^(hosts:[[:space:]]+files).*/\1 myhostname dns/' /etc/nsswitch.conf
grep -q '^hosts: *files myhostname dns$' /etc/nsswitch.conf

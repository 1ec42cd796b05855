# Runs inside the new root file system, as root, with no network.

useradd --create-home --uid 1000 --user-group --shell /bin/bash user
passwd --quiet --lock user
chmod 440 /etc/sudoers.d/user

# root starts its shells like everybody else: Debian's own .profile forks.
rm -f /root/.profile /root/.bashrc
cp /etc/skel/.profile /etc/skel/.bashrc /root/

mkdir -p /home/user /newroot

# Two network namespaces: the one we are in becomes a host with one uplink (up0), the other one the internet. Source it inside
# `unshare --net`; network_up, network_down. INTERNET is the process whose namespace the internet is.
# shellcheck shell=bash disable=SC2034

RESOLVER=45.0.1.53

internet_addresses_4="45.0.1.53 45.0.1.66 45.0.2.10 45.0.2.11 45.0.2.20 45.0.2.66 45.0.3.1 45.0.3.2 45.0.3.3 8.8.8.8 1.1.1.1
  10.9.9.9 172.16.9.9 192.168.9.9 169.254.169.254 100.64.9.9 168.63.129.16 198.18.9.9"
internet_addresses_6="2a0d:45::10 2a0d:45::20 2a0d:45::66 2606:4700::1111 fd00:ec2::254"

network_up() {
  ip link set lo up
  unshare --net sleep infinity &
  INTERNET=$!
  local here
  here=$(readlink /proc/self/ns/net)
  until [ "$(readlink "/proc/$INTERNET/ns/net")" != "$here" ]; do sleep 0.01; done
  export INTERNET
  ip link add up0 type veth peer name down0 netns "$INTERNET"
  ip addr add 45.0.0.1/24 dev up0
  ip -6 addr add 2a0d:45:1::1/64 dev up0 nodad
  ip link set up0 up
  ip route add default via 45.0.0.2
  in_internet ip link set lo up
  in_internet ip addr add 45.0.0.2/24 dev down0
  in_internet ip -6 addr add 2a0d:45:1::2/64 dev down0 nodad
  in_internet ip link set down0 up
  ip -6 route add default via 2a0d:45:1::2
  local address
  for address in $internet_addresses_4; do in_internet ip addr add "$address/32" dev lo; done
  for address in $internet_addresses_6; do in_internet ip -6 addr add "$address/128" dev lo nodad; done
}

in_internet() { nsenter --net="/proc/$INTERNET/ns/net" "$@"; }

# The namespaces and what is in them go with their last process.
network_down() {
  kill "$INTERNET" 2>/dev/null || true
  wait "$INTERNET" 2>/dev/null || true
}

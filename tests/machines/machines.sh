#!/usr/bin/env bash
# machines.sh - separate machines on one host, for tests: each has a network, host name, processes, home, /tmp and sshd of its own.
#
#   machines.sh possible                  exit status 0, or 1 and why machines cannot be made here
#   machines.sh DIR start K [OPTION...]   starts machine K (1 to 200): ssh -F DIR/ssh_config mK
#   machines.sh DIR cut K | mend K        takes its link down, up
#   machines.sh DIR block K J             connections that K opens to J are lost on the way; those that J opens to K are not
#   machines.sh DIR refuse K J            K has no route to J
#   machines.sh DIR unblock K             undoes both
#   machines.sh DIR enter K COMMAND...    runs a command on it, beside sshd
#   machines.sh DIR power-off K           all its processes die at once, its disks stay; `start` boots it again
#   machines.sh DIR stop                  ends all, with their network
#
# Options of start: name=HOST (default gpuK); home=PATH (default one of its own; two machines may share one);
# hide=PATH (a directory that it does not see, such as that of a run); bind=FROM:TO (it sees FROM at TO, which is there);
# disk=SIZE (its home and /tmp together are a tmpfs of this size); read-only (its home cannot be written);
# alone (of the other machines it reaches none that is alone too: a firewall between nodes);
# sshd="DIRECTIVE VALUE". hide, bind and sshd may be repeated.
#
# Each DIR has a network of its own, so tests can run beside one another. Needs root, iproute2, util-linux and openssh-server.
set -euo pipefail
fail() { echo "machines.sh: $*" >&2; exit 1; }
if [ "${1-}" = possible ]; then
	[ "$(id -u)" -eq 0 ] || fail "separate machines need root"
	for program in ip bridge unshare nsenter ssh sshd ssh-keygen ssh-keyscan; do
		PATH=$PATH:/usr/sbin:/sbin command -v $program >/dev/null || fail "no $program (packages iproute2, util-linux, openssh-server)"
	done
	unshare -m -u -i -n -p -f --mount-proc sh -c 'ip link add x type veth peer name y && mount -t tmpfs none /mnt' 2>/dev/null ||
		fail "this system allows no namespaces"
	exit 0
fi
[ $# -ge 2 ] || fail "usage: see the first lines of $0"
PATH=$PATH:/usr/sbin:/sbin
mkdir -p "$1"
here=$(cd "$1" && pwd) verb=$2 k=${3-}
of=$here/m$k

# The number of this network: its bridge, its namespaces and its addresses are named after it.
number() {
	local n i
	[ -s "$here/network" ] && { cat "$here/network"; return; }
	n=$(echo "$here" | cksum | cut -d ' ' -f 1)
	for i in $(seq 0 99); do
		i=$(((n + i) % 100))
		ip link add "espl-br$i" type bridge 2>/dev/null || continue
		ip addr add "10.$((100 + i)).0.1/16" dev "espl-br$i"
		ip link set "espl-br$i" up
		echo $i >"$here/network"
		echo $i
		return
	done
	fail "no network is free"
}
init_of() { pgrep -P "$(cat "$1/pid")" | head -n 1; }	# the first process of a machine
write_config() {
	local d m
	: >"$here/ssh_config"
	for d in "$here"/m*/; do
		[ -f "$d/known" ] || continue
		m=${d%/} m=${m##*/m}
		printf 'Host m%s\n  HostName 10.%s.%s.2\n  User root\n  IdentityFile %s/id\n  IdentityAgent none\n  UserKnownHostsFile %s/known\n  GlobalKnownHostsFile /dev/null\n  StrictHostKeyChecking yes\n' \
			"$m" "$((100 + net))" "$m" "$here" "$here" >>"$here/ssh_config"
	done
	cat "$here"/m*/known >"$here/known" 2>/dev/null || :
}
power_off() {	# FOLDER
	local p
	[ -f "$1/pid" ] || return 0
	p=$(init_of "$1" || :)
	[ -z "$p" ] || kill -KILL "$p" 2>/dev/null || :
	for _ in $(seq 50); do kill -0 "$(cat "$1/pid")" 2>/dev/null || break; sleep 0.1; done
	kill -KILL "$(cat "$1/pid")" 2>/dev/null || :
	rm -f "$1/pid"
}
# What runs in the new namespaces before sshd: name and file systems.
write_boot() {	# name home tmp disk read_only, hide[], bind[]
	local h b
	printf 'hostname %q\n' "$name"
	[ -z "$disk" ] ||
		printf 'mkdir -p %q && mount -t tmpfs -o size=%q none %q && mkdir %q %q && chmod 1777 %q && cp -a %q/. %q\n' \
			"$of/disk" "$disk" "$of/disk" "$of/disk/home" "$of/disk/tmp" "$of/disk/tmp" "$home" "$of/disk/home"
	for h in "${hide[@]}"; do printf 'mkdir -p %q && mount -t tmpfs none %q\n' "$h" "$h"; done
	for b in "${bind[@]}"; do printf 'mount --bind %q %q\n' "${b%%:*}" "${b#*:}"; done
	[ -z "$disk" ] || home=$of/disk/home tmp=$of/disk/tmp
	printf 'mount --bind %q /mnt && mount --bind %q "$HOME" && mount --bind /mnt /tmp && umount /mnt\n' "$tmp" "$home"
	printf 'mount -t tmpfs none /dev/shm\n'
	[ -z "$read_only" ] || printf 'mount -o remount,bind,ro "$HOME"\n'
	printf 'exec "$(command -v sshd)" -D -e -f %q\n' "$shm/sshd_config"
}
start() {
	local name=gpu$k home=$of/home tmp=$of/tmp disk= read_only= alone=off hide=() bind=() extra=() o shm namespace link
	for o in "$@"; do
		case $o in
		name=*) name=${o#*=} ;;
		home=*) home=${o#*=} ;;
		disk=*) disk=${o#*=} ;;
		read-only) read_only=1 ;;
		alone) alone=on ;;
		hide=*) hide+=("${o#*=}") ;;
		bind=*) bind+=("${o#*=}") ;;
		sshd=*) extra+=("${o#*=}") ;;
		*) fail "unknown option '$o'" ;;
		esac
	done
	power_off "$of"
	mkdir -p "$tmp" "$home/.ssh" /run/sshd
	chmod 1777 "$tmp"
	chmod 700 "$home" "$home/.ssh"
	[ -f "$here/id" ] || ssh-keygen -q -t ed25519 -N '' -f "$here/id"
	[ -f "$of/hostkey" ] || ssh-keygen -q -t ed25519 -N '' -f "$of/hostkey"
	namespace=espl-$net-$k link=ev$net-$k
	[ -e "/run/netns/$namespace" ] || ip netns add "$namespace"
	ip link show "$link" >/dev/null 2>&1 || {
		ip link add "$link" type veth peer name eth0 netns "$namespace"
		ip link set "$link" master "espl-br$net"
		ip -n "$namespace" addr add "10.$((100 + net)).$k.2/16" dev eth0
		ip -n "$namespace" link set eth0 up
		ip -n "$namespace" link set lo up
	}
	bridge link set dev "$link" isolated "$alone"
	ip link set "$link" up
	# What sshd reads lies where neither `hide` nor the machine's own /tmp and /dev/shm cover it.
	shm=/run/espl-$net-$k
	rm -rf "$shm"
	mkdir -m 700 "$shm"
	cp "$of/hostkey" "$here/id.pub" "$shm"
	{
		printf 'Port 22\nListenAddress 0.0.0.0\nHostKey %s\nAuthorizedKeysFile %s\nStrictModes no\nUsePAM no\nPidFile none\nPermitRootLogin yes\nKexAlgorithms curve25519-sha256\n' \
			"$shm/hostkey" "$shm/id.pub"
		[ ${#extra[@]} -eq 0 ] || printf '%s\n' "${extra[@]}"
	} >"$shm/sshd_config"
	write_boot >"$of/boot"
	HOME=${HOME:-/root} setsid nohup ip netns exec "$namespace" unshare -m -u -i -p -f --mount-proc --propagation private bash -e "$of/boot" >"$of/log" 2>&1 </dev/null &
	echo $! >"$of/pid"
	: >"$of/known"
	for _ in $(seq 50); do
		ssh-keyscan -T 2 -t ed25519 "10.$((100 + net)).$k.2" 2>/dev/null | grep -v '^#' >"$of/known" && break
		sleep 0.1
	done
	[ -s "$of/known" ] || fail "machine $k does not answer: $(tail -n 1 "$of/log")"
	write_config
}
stop() {
	local d m
	for d in "$here"/m*/; do
		[ -d "$d" ] || continue
		m=${d%/} m=${m##*/m}
		power_off "${d%/}"
		ip link del "ev$net-$m" 2>/dev/null || :
		ip netns del "espl-$net-$m" 2>/dev/null || :
		rm -rf "/run/espl-$net-$m"
	done
	ip link del "espl-br$net" 2>/dev/null || :
	rm -f "$here/network"
}
net=$(number)
shift 2
[ $# -eq 0 ] || shift
case $verb in
start) start "$@" ;;
block)
	tc() { ip netns exec "espl-$net-$k" tc "$@" 2>/dev/null; }
	tc qdisc show dev eth0 | grep -q htb || {
		tc qdisc add dev eth0 root handle 1: htb default 1
		tc class add dev eth0 parent 1: classid 1:1 htb rate 10gbit
		tc class add dev eth0 parent 1: classid 1:2 htb rate 8bit
		tc qdisc add dev eth0 parent 1:2 blackhole
	}
	# The first packet of a connection: SYN without ACK.
	tc filter add dev eth0 parent 1: protocol ip prio 1 u32 match ip dst "10.$((100 + net)).$1.2/32" \
		match ip protocol 6 0xff match u8 0x02 0x12 at 33 flowid 1:2 || fail "this system cannot filter packets"
	;;
refuse) ip -n "espl-$net-$k" route replace unreachable "10.$((100 + net)).$1.2/32" ;;
unblock)
	ip netns exec "espl-$net-$k" tc qdisc del dev eth0 root 2>/dev/null || :
	ip -n "espl-$net-$k" route flush type unreachable || :
	;;
cut) ip link set "ev$net-$k" down ;;
mend) ip link set "ev$net-$k" up ;;
enter) exec nsenter -t "$(init_of "$of")" -m -u -i -p -n -- "$@" ;;
power-off) power_off "$of" ;;
stop) stop ;;
*) fail "unknown command '$verb'" ;;
esac

# link.sh - for benchmarks of transfers, which source it first: with RATE=400mbit (a rate of tc) they run again in a network
# namespace of their own, whose loopback is that slow: a link slower than the processors.
if [ -n "$RATE" ] && [ -z "$LIMITED" ]; then
	LIMITED=1 exec unshare -n sh -c 'rate=$1; shift; ip link set lo mtu 1500 up &&
	    tc qdisc add dev lo root tbf rate "$rate" burst 64k latency 50ms && exec bash "$@"' sh "$RATE" "$0" "$@"
fi

# The driver: it is killed, and resumed or not.

part_kill() {
	local k kept=0 made='' delay
	for k in $(seq "$KILLS"); do
		write_cloud "kill$k.cfg"
		start_driver "kill$k" run "kill$k.cfg" --dir "kill$k.run"
		[ $((k % 4)) = 0 ] || rm -f flag/hold	# most are killed at work
		delay=$((RANDOM % 12)).$((RANDOM % 10))
		sleep "$delay"
		kill_driver
		rm -f flag/hold
		if [ ! -e "kill$k.run/run.cfg" ]; then	# nothing was begun
			rm -rf "kill$k.run"
			run timeout 200 "$ESPALIER" run "kill$k.cfg" --dir "kill$k.run"
		elif "$ESPALIER" status "kill$k.run" --json | jq -e '.state == "completed"' >/dev/null; then
			rc=0 out=", 27 completed"
		else
			run timeout 200 "$ESPALIER" resume "kill$k.run"
		fi
		! complains "kept running without this program" || kept=$((kept + 1))
		if ! same "kill$k.run"; then
			check "the driver is killed after $delay s ($k) and resumed: the same table" false
			made=bad
		fi
		[ -n "$made" ] || rm -rf "kill$k.run"
	done
	check "the driver is killed $KILLS times at random moments and resumed: each time the same table" [ -z "$made" ]
	check "running trials kept running ($kept of $KILLS)" [ "$kept" -gt 0 ]
	begin kept
	kill_driver
	run timeout 200 "$ESPALIER" resume kept.run &
	driver=$!
	sleep 5
	rm -f flag/hold
	wait $driver
	rc=$? out=$(cat .out) err=$(cat .err)
	check "trials that wait are not started again" eval 'same kept.run && started_once && complains "6 of 6 running trials kept running without this program"'
	check "no pod is left by killed drivers" nothing_left
}
part_away() {
	begin orphan 'idle = "10s"; linger = "5s"; patience = "5s";'
	kill_driver
	begun_at=$SECONDS
	until_done 120 nothing_runs
	check "the driver is killed for good: no pod runs after $((SECONDS - begun_at)) s (linger 5 s, idle 10 s)" nothing_runs
	run "$ESPALIER" nodes --release orphan.run
	check "nodes --release deletes what is left of them" eval 'exits 0 && nothing_left'
}

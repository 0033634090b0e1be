# Figures, for docs/results/remote.md: not among the default parts. PODS=100: how many one driver has. Prints lines "# figure ...".

measure_starts() {	# one pod, from the command to its first report, five times
	local i
	for i in 1 2 3 4 5; do
		sed '/^cloud/d; /^algorithm/d' real.cfg >start.cfg
		echo 'algorithm = { use = "random"; trials = 1; iterations_max = 1; };' >>start.cfg
		cloud 'nodes_max = 1;' | sed 's/nodes_max = 3; //' >>start.cfg
		run timeout 120 "$ESPALIER" run start.cfg --dir start.run
		echo "$out" | awk '/is ready/ { ready = $1 } /at iteration 1,/ { report = $1 } END { print "# figure start: ready " ready ", first report " report }'
		rm -rf start.run
	done
}
measure_channels() {	# a line of 100 bytes there and back, through kubectl exec and through ssh
	kubectl run echo --image=tools:local --restart=Never -- sleep 600 >/dev/null
	kubectl wait --for=condition=Ready pod/echo --timeout=60s >/dev/null
	(work=$(mktemp -d) && cd "$work" && . "$top/tests/runs/sshd.sh" && start_host plain && can_log_in "$port" && cat >"$KUBE_DIR/turns.py" <<-'END'
		import subprocess, sys, time
		begun = time.monotonic()
		child = subprocess.Popen(sys.argv[2:], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
		took = []
		for i in range(2001):
		    t = time.monotonic()
		    child.stdin.write(b"x" * 99 + b"\n")
		    line = b""
		    while not line.endswith(b"\n"):
		        line += child.stdout.read(4096)
		    took.append((time.monotonic() - t) * 1e3)
		child.kill()
		first, took = took[0], sorted(took[1:])
		print("# figure %s: first line after %.0f ms, then median %.2f ms, p99 %.2f ms" % (sys.argv[1], first, took[1000], took[1980]))
		END
	for i in 1 2 3; do
		"$PYTHON3" "$KUBE_DIR/turns.py" "kubectl exec" kubectl exec -i echo -- cat
		"$PYTHON3" "$KUBE_DIR/turns.py" ssh ssh -F ssh_config -i key -p "$port" 127.0.0.1 cat
	done
	)
	kubectl delete pod echo --grace-period=1 >/dev/null
}
used() { awk '{ print ($14 + $15) * 10 }' "/proc/$1/stat"; }	# ms of processor time
memory() { cat "$@" 2>/dev/null | awk '/^Pss:/ { sum += $2 } END { printf "%.0f MiB", sum / 1024 }'; }
measure_many() {	# that many pods with one trial each, which reports every second
	local begun before
	cat >many.sh <<-'END'
		for i in $(seq 1000); do
			sleep 1
			echo "{\"iteration\": $i, \"metrics\": {\"score\": $i}}" >&$ESPALIER_REPORT_FD
			read -r word <&$ESPALIER_REPORT_FD || exit 1
		done
	END
	sed '/^cloud/d; /^algorithm/d; /^trial/d; /^allocator/d' real.cfg >many.cfg
	cat >>many.cfg <<-END
		trial = { command = [ "bash", "many.sh" ]; files = [ "many.sh" ]; gpus_max = 1; };
		allocator = { use = "static"; gpus = $PODS; };
		algorithm = { use = "random"; trials = $PODS; iterations_max = 1000; };
		cloud = { use = "kubernetes"; image = "tools:local"; gpus = 1; gpu_type = "cpu"; cpus = "10m"; nodes_max = $PODS; };
	END
	begun=$SECONDS
	"$ESPALIER" run many.cfg --dir many.run >many.out 2>many.err &
	driver=$!
	until_done 500 eval '[ "$(grep -c "starts on 1 slot" many.out)" -ge "$PODS" ] || has_ended'
	echo "# figure many: $(grep -c "is ready" many.out) pods are ready, and $(grep -c "starts on 1 slot" many.out) trials run, after $((SECONDS - begun)) s"
	sleep 10
	before=$(used $driver)
	sleep 60
	echo "# figure many: the driver uses $((($(used $driver) - before) / 60)) ms of a processor each second, and $(memory /proc/$driver/smaps_rollup)"
	echo "# figure many: $(pgrep -cx kubectl) kubectl use $(memory $(pgrep -x kubectl | sed 's|.*|/proc/&/smaps_rollup|'))"
	begun=$SECONDS
	kill -TERM $driver
	until_done 200 has_ended
	until_done 200 no_pods
	echo "# figure many: no pod is left $((SECONDS - begun)) s after the run was ended"
	tail -n 2 many.err | sed 's/^/# /'
}
part_figures() {
	PODS=${PODS:-100}
	measure_starts
	[ -z "$PYTHON3" ] || measure_channels
	measure_many
	check "no pod is left by figures" nothing_left
}

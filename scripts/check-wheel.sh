#!/usr/bin/env bash
# Tries a wheel on clean Debian systems: root file systems made by debootstrap with Python in them, where an ordinary user
# installs the wheel into a virtual environment.  Needs root, debootstrap, 1 GB of disk each, a mirror of Debian.
#
#   scripts/check-wheel.sh FILE.whl [SUITE]...     suites of Debian; default: bookworm trixie
#   DEBIAN_MIRROR=URL                              a mirror other than debootstrap's own
#
# The network is cut off in the root file systems.  The last line counts the checks.
set -u
[ $# -gt 0 ] || { echo "usage: scripts/check-wheel.sh FILE.whl [SUITE]..." >&2; exit 2; }
wheel=$1
shift
[ $# -gt 0 ] || set -- bookworm trixie

fail() { echo "error: $*" >&2; exit 1; }
[ -f "$wheel" ] || fail "there is no $wheel"
[ "$(id -u)" -eq 0 ] || fail "only root can make a root file system"
for tool in debootstrap unshare; do
	command -v "$tool" >/dev/null || fail "'$tool' is missing (Debian: apt-get install debootstrap util-linux)"
done
work=$(mktemp -d "${TMPDIR:-/var/tmp}/espalier-wheel-XXXXXX") || exit 1
trap 'rm -rf --one-file-system "$work"' EXIT

# Mounts, processes and the network are in name spaces of their own.
inside() {	# ROOT COMMAND...
	unshare --mount --pid --net --fork --kill-child --propagation private bash -c '
		root=$1
		shift
		ip link set lo up 2>/dev/null
		mount -t proc proc "$root/proc" && mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm" &&
			exec chroot --userspec=1000:1000 "$root" env -i PATH=/usr/bin:/bin HOME=/home/u LANG=C.UTF-8 "$@"' \
		bash "$@" </dev/null
}

passed=0 failed=0
check() {	# NAME ROOT COMMAND: passes if the command succeeds in the home directory
	local name=$1 root=$2
	if inside "$root" bash -ec "cd; $3" >"$work/log" 2>&1; then
		passed=$((passed + 1))
		echo "ok: $name"
	else
		failed=$((failed + 1))
		echo "FAILED: $name"
		tail -n 15 "$work/log" | sed 's/^/    /'
	fi
}

check_suite() {
	local suite=$1 root=$work/$1
	echo "== Debian $suite"
	if ! debootstrap --variant=minbase --include=python3,python3-venv,python3-pandas "$suite" "$root" ${DEBIAN_MIRROR:+"$DEBIAN_MIRROR"} \
		>"$work/$suite.log" 2>&1; then
		tail -n 5 "$work/$suite.log" >&2
		echo "FAILED: debootstrap $suite"
		failed=$((failed + 1))
		return
	fi
	mkdir -p "$root/dev/shm" "$root/home/u"
	cp "$wheel" "$root/home/u/"
	cat >"$root/home/u/train.py" <<-'EOF'
	import os
	import espalier.trial
	run = espalier.trial.start(params={"x": 1.0}, iterations=3)
	for i in run.iterations():
	    verdict = run.report(i, {"loss": (run.params["x"] - 3) ** 2 + 1 / i})
	    if verdict.save:
	        open(os.path.join(run.save, "state"), "w").close()
	        run.saved(i)
	EOF
	cat >"$root/home/u/search.cfg" <<-'EOF'
	experiment = { name = "wheel"; metric = "loss"; goal = "minimize"; seed = 1; };
	trial = { command = [ "python3", "train.py" ]; gpus_max = 1; };
	space = { x = { type = "real"; low = 0.0; high = 9.0; }; };
	algorithm = { use = "sha"; trials = 9; iterations_max = 9; };
	allocator = { use = "fair"; };
	cloud = { use = "local"; device = "cpu"; gpus = 2; };
	EOF
	cat >"$root/home/u/simulated.cfg" <<-'EOF'
	experiment = { name = "branin"; metric = "loss"; goal = "minimize"; };
	trial = { trainable = "branin"; gpus_max = 1; };
	space = { x1 = { type = "real"; low = -5.0; high = 10.0; }; x2 = { type = "real"; low = 0.0; high = 15.0; }; };
	algorithm = { use = "random"; trials = 4; iterations_max = 3; };
	allocator = { use = "fair"; };
	cloud = { use = "local"; device = "cpu"; gpus = 2; };
	EOF
	chown -R 1000:1000 "$root/home/u"
	check "there is neither a compiler nor libconfig" "$root" '! ls /usr/bin/*gcc* /usr/lib/*/libconfig.so* 2>/dev/null'
	check "pip installs the wheel, without a network" "$root" \
		"python3 -m venv v && v/bin/pip install --no-index ./'$(basename "$wheel")'"
	check "the license is installed" "$root" '
		grep -q "Apache License" v/lib/python3*/site-packages/espalier-*.dist-info/licenses/LICENSE
		ls v/lib/python3*/site-packages/espalier/_program/licenses/libcurl*'
	check "the program runs" "$root" 'v/bin/espalier --version && v/bin/python -m espalier help >/dev/null'
	check "every plugin in the wheel loads" "$root" '
		v/bin/espalier plugins --json >plugins.json
		v/bin/python -c "
import glob, json
plugins = json.load(open(\"plugins.json\"))
files = glob.glob(\"v/lib/python3*/site-packages/espalier/_program/lib/espalier/plugins/*.so\")
assert len(plugins) == len(files) > 30, (len(plugins), len(files))"'
	check "a search whose trials import espalier.trial, in an environment that is not activated" "$root" '
		v/bin/espalier run search.cfg --dir one
		v/bin/espalier best one | grep "best *trial"'
	check "a search from Python" "$root" 'v/bin/python -c "
import espalier
run = espalier.run(\"search.cfg\", \"two\")
assert run.meta()[\"status\"] == \"done\" and run.best()[\"iteration\"] == 9
assert run.best()[\"params\"] == espalier.load(\"one\").best()[\"params\"]"'
	check "minimize" "$root" 'v/bin/python -c "
import espalier
best = espalier.minimize(lambda params: (params[\"x\"] - 3) ** 2, {\"x\": (0.0, 9.0)}, trials=30)
assert best.value < 1, best.value"'
	check "ask and tell, continued by another process" "$root" 'cat >ask.py <<-END
		import espalier
		with espalier.open({"experiment": {"name": "ask", "metric": "loss", "goal": "minimize"}, "space": {"x": (0.0, 9.0)},
		                    "algorithm": {"use": "tpe", "trials": 8, "iterations_max": 1}}, dir="asked") as study:
		    for trial in study.ask(4):
		        study.tell(trial, abs(trial.params["x"] - 3))
		print(len(espalier.load("asked").rows("reports")))
		END
		test "$(v/bin/python ask.py) $(v/bin/python ask.py)" = "4 8"'
	check "results in pandas" "$root" '
		python3 -m venv --system-site-packages w && w/bin/pip install --no-index ./*.whl
		w/bin/python -c "
import espalier
run = espalier.load(\"one\")
assert len(run.trials()) == 9 and run.trials().metric.min() == run.best()[\"metric\"]
assert len(run.curves()) == len(run.rows(\"reports\"))"'
	check "a report" "$root" 'v/bin/espalier report one && grep -q "</html>" one/report.html'
	check "a trainable in C" "$root" 'v/bin/espalier run simulated.cfg --dir three --quiet'
	check "pip removes all of it" "$root" 'v/bin/pip uninstall -qy espalier && ! ls -d v/lib/python3*/site-packages/espalier'
	rm -rf --one-file-system "$root"
}

for suite; do
	check_suite "$suite"
done
echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]

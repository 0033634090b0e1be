# slurm.sh - a Slurm cluster of this machine alone, for 66-slurm.test: munged, slurmctld and two slurmd with ports,
# keys and folders of their own, below $work/slurm. It needs root.
#
#   slurm_start [PROCTRACK]   starts it, or says why not in $slurm_why; nodes are $node1 and $node2, with 2 cores and
#                             2 made-up GPUs each; partitions: main (default), high (preempts low), low, short (a
#                             minute), off, closed (to this account), bare (its node has no GPUs, and does not exist)
#   slurm_kill NODE           a node dies; slurm_stop ends all
slurm_pid() { cat "$work/slurm/run/$1.pid" 2>/dev/null; }
slurm_lives() {	# a zombie counts as gone
	case $(sed -n 's/^.*) \(.\) .*/\1/p' "/proc/${1:-none}/stat" 2>/dev/null) in '' | Z | X) return 1 ;; esac
}
slurm_until() {	# SECONDS COMMAND...
	local turns=$(($1 * 10))
	shift
	until "$@" >/dev/null 2>&1; do
		turns=$((turns - 1))
		[ $turns -gt 0 ] || return 1
		sleep 0.1
	done
}
slurm_idle() { [ "$(sinfo -h -N -p main -t idle -o %N | sort -u | wc -l)" = 2 ]; }
slurm_conf() {	# PORT PROCTRACK
	local host i
	host=$(hostname -s)
	cat <<-END
		ClusterName=orchard
		SlurmctldHost=$host(127.0.0.1)
		SlurmctldPort=$1
		SlurmUser=root
		SlurmdUser=root
		AuthType=auth/munge
		AuthInfo=socket=$work/slurm/run/munge.sock,cred_expire=5
		CredType=cred/munge
		StateSaveLocation=$work/slurm/state
		SlurmdSpoolDir=$work/slurm/spool/%n
		SlurmctldPidFile=$work/slurm/run/slurmctld.pid
		SlurmdPidFile=$work/slurm/run/%n.pid
		SlurmctldLogFile=$work/slurm/log/slurmctld
		SlurmdLogFile=$work/slurm/log/%n
		ProctrackType=proctrack/$2
		TaskPlugin=task/none
		JobAcctGatherType=jobacct_gather/none
		AccountingStorageType=accounting_storage/none
		MpiDefault=none
		SlurmdParameters=config_overrides
		SelectType=select/cons_tres
		SelectTypeParameters=CR_Core
		SchedulerType=sched/backfill
		SchedulerParameters=sched_interval=2,bf_interval=2,sched_min_interval=0,batch_sched_delay=0
		GresTypes=gpu
		SlurmctldTimeout=5
		SlurmdTimeout=5
		KillWait=4
		ReturnToService=2
		MessageTimeout=5
		TCPTimeout=2
		PreemptType=preempt/partition_prio
		PreemptMode=CANCEL
	END
	for i in 1 2; do
		echo "NodeName=n$1-$i NodeHostname=$host NodeAddr=127.0.0.1 Port=$(($1 + i)) CPUs=2 RealMemory=1000 Gres=gpu:fake:2"
	done
	echo "NodeName=n$1-3 NodeHostname=$host NodeAddr=127.0.0.1 Port=$(($1 + 3)) CPUs=2 RealMemory=1000 State=DOWN"
	for i in "main Default=YES" "high PriorityTier=10 PreemptMode=OFF" "low PriorityTier=1 GraceTime=8" "short MaxTime=1" "off State=DOWN" \
		"closed AllowAccounts=nobody"; do
		echo "PartitionName=${i%% *} Nodes=n$1-[1-2] ${i#* }"
	done
	echo "PartitionName=bare Nodes=n$1-3"
}
slurm_node() {	# NODE: that does not see $slurm_hide, if this is set
	[ -n "${slurm_hide-}" ] || { slurmd -N "$1"; return; }
	unshare -m sh -c "mount -t tmpfs none '$slurm_hide' && exec slurmd -N '$1'"
}
slurm_start() {
	local port=$((20000 + RANDOM % 12000)) i dev=$work/slurm/dev/gpu
	node1=n$port-1 node2=n$port-2
	rm -rf "$work/slurm"
	mkdir -p "$work"/slurm/{run,log,state,dev,spool/$node1,spool/$node2}
	chmod 755 "$work"
	slurm_conf "$port" "${1:-pgid}" >"$work/slurm/slurm.conf"
	printf 'CgroupAutomount=no\nCgroupPlugin=cgroup/v1\n' >"$work/slurm/cgroup.conf"
	for i in 0 1; do mknod "$dev$i" c 1 3 || { slurm_why="cannot make device files"; return 1; }; done 2>/dev/null
	echo "NodeName=n$port-[1-2] Name=gpu Type=fake File=${dev}[0-1] Flags=nvidia_gpu_env" >"$work/slurm/gres.conf"
	export SLURM_CONF=$work/slurm/slurm.conf
	(umask 077; head -c 128 /dev/urandom >"$work/slurm/key")
	slurm_why="munged does not start"
	munged --force --key-file="$work/slurm/key" --socket="$work/slurm/run/munge.sock" --num-threads=2 \
		--pid-file="$work/slurm/run/munged.pid" --log-file="$work/slurm/log/munged" \
		--seed-file="$work/slurm/run/seed" 2>/dev/null
	slurm_until 5 munge -S "$work/slurm/run/munge.sock" -n || return 1
	slurm_why="slurmctld does not start: $(tail -n 1 "$work/slurm/log/slurmctld" 2>/dev/null)"
	slurmctld -i 2>/dev/null
	slurm_until 10 scontrol ping || return 1
	slurm_node "$node1"
	slurm_node "$node2"
	slurm_why="its nodes do not come up"
	slurm_until 15 slurm_idle
}
slurm_steps() {	# NODE: its slurmstepd processes
	local p
	for p in $(pgrep -x slurmstepd); do
		ls -l "/proc/$p/fd" 2>/dev/null | grep -q "$work/slurm/.*$1" && echo "$p"
	done
}
slurm_kill() {
	local step child
	for step in $(slurm_steps "$1"); do
		for child in $(pgrep -P "$step"); do kill -KILL -- "-$child" "$child" 2>/dev/null; done
		kill -KILL "$step" 2>/dev/null
	done
	kill -KILL "$(slurm_pid "$1")" $(cat "/sys/fs/cgroup/freezer/slurm_$1"/*/*/*/cgroup.procs 2>/dev/null) 2>/dev/null
}
slurm_stop() {
	local p name
	[ -d "$work/slurm/run" ] || return 0
	timeout 3 scancel -Q --me 2>/dev/null
	slurm_until 6 sh -c '[ -z "$(timeout 2 squeue -h)" ]'
	for name in "$node1" "$node2" slurmctld munged; do
		p=$(slurm_pid "$name")
		slurm_lives "$p" || continue
		kill -TERM "$p" 2>/dev/null
		slurm_until 4 eval "! slurm_lives $p" || kill -KILL "$p" 2>/dev/null
		case $name in n*-?) kill -KILL $(slurm_steps "$name") 2>/dev/null ;; esac
	done
	rmdir "/sys/fs/cgroup/freezer/slurm_$node1" "/sys/fs/cgroup/freezer/slurm_$node2" 2>/dev/null
}

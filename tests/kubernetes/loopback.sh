#!/bin/bash
# A Kubernetes of this machine alone, for tests: etcd, the API server, the scheduler, the controllers, and nodes n1, n2, ...,
# each a kubelet with a containerd of its own. Pods are real processes in cgroups; GPUs (nvidia.com/gpu) are made up.
#
#	loopback.sh run COMMAND...	runs the command in namespaces of its own, in which a cluster can be started; what the
#					command leaves behind ends with it
#	loopback.sh start DIR		starts the cluster; DIR/kubeconfig is that of its administrator
#	loopback.sh stop DIR
#	loopback.sh kill-node DIR NODE		its kubelet, its containerd and all that runs in its pods
#	loopback.sh start-node DIR NODE		again, empty
#	loopback.sh kill-kubelet DIR NODE	kubelet alone; the pods run on
#	loopback.sh start-kubelet DIR NODE
#	loopback.sh kill-server DIR, start-server DIR	the API server alone
#	loopback.sh load DIR FILE	gives an image to every node
#	loopback.sh account DIR NAMESPACE NAME	prints a kubeconfig with the token of a service account
#	loopback.sh image FOLDER NAME FILE	makes an image of a root directory
#	loopback.sh rootfs FOLDER		makes a root directory of programs of this machine: bash, busybox, coreutils
#	loopback.sh why-not		prints why a cluster cannot run here; nothing if it can
#
# Variables: KUBE_BIN, programs of Kubernetes 1.20 (build.sh); NODES=2, GPUS=2 of each; POD_EVICT=5, seconds until the pods of
# a lost node are deleted; GRACE=8, seconds until a silent node is lost; MAX_INFLIGHT=400, lower: 429; APF=true, false:
# MAX_INFLIGHT alone decides; COMPACT=5m, lower: 410 on old watches; STREAM_IDLE=4h, after which a silent exec is cut.
#
# Pods have the images busybox:local and those that are loaded. They reach one another, and this machine at 10.111.0.N of
# their node; there is no DNS, and no service but `kubernetes`, the API server at 10.96.0.1.
set -eu
export PATH=$PATH:/usr/sbin:/sbin
fail() { echo "loopback.sh: $*" >&2; exit 1; }
show_usage() { sed -n '2,27s/^# \{0,1\}//p' "$0" >&2; exit 2; }
NODES=${NODES:-2} GPUS=${GPUS:-2} POD_EVICT=${POD_EVICT:-5} GRACE=${GRACE:-8} MAX_INFLIGHT=${MAX_INFLIGHT:-400}
COMPACT=${COMPACT:-5m} APF=${APF:-true} STREAM_IDLE=${STREAM_IDLE:-4h}
KUBE_BIN=${KUBE_BIN:-${XDG_CACHE_HOME:-$HOME/.cache}/espalier-kube/bin}
net=10.111.0 port=17900
server=https://127.0.0.1:443

# ---- processes --------------------------------------------------------------------------------
until_done() {	# SECONDS COMMAND...
	local turns=$(($1 * 10))
	shift
	until "$@" >/dev/null 2>&1; do
		turns=$((turns - 1))
		[ $turns -gt 0 ] || return 1
		sleep 0.1
	done
}
is_alive() {	# a zombie counts as gone
	case $(sed -n 's/^.*) \(.\) .*/\1/p' "/proc/${1:-none}/stat" 2>/dev/null) in '' | Z | X) return 1 ;; esac
}
is_gone() { ! is_alive "$1"; }
process() {	# NAME: its number, if it runs and belongs to this cluster
	local p
	[ -s "$dir/run/$1.pid" ] && read -r p <"$dir/run/$1.pid" && is_alive "$p" && tr '\0' ' ' <"/proc/$p/cmdline" | grep -qF "$dir/" && echo "$p"
}
start_process() {	# NAME COMMAND...
	local name=$1
	shift
	setsid "$@" </dev/null >>"$dir/log/$name.log" 2>&1 9>&- &
	echo $! >"$dir/run/$name.pid"
}
end_processes() {	# SIGNAL NAME...: with KILL for those that take longer than 5 s
	local signal=$1 name p all=
	shift
	for name; do
		p=$(process "$name") || continue
		all="$all $p"
		kill "-$signal" "$p" 2>/dev/null || true
	done
	for p in $all; do until_done 5 is_gone "$p" || kill -KILL "$p" 2>/dev/null || true; done
}
api() {	# METHOD PATH [ARGUMENT OF CURL]...
	curl -sS --fail-with-body --cacert "$dir/pki/ca.crt" --cert "$dir/pki/admin.crt" --key "$dir/pki/admin.key" -X "$1" "$server$2" "${@:3}"
}

# ---- keys -------------------------------------------------------------------------------------
sign_key() {	# NAME SUBJECT [EXTENSION]
	local file=$dir/pki/$1
	openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj "$2" -keyout "$file.key" -out "$file.csr" 2>/dev/null
	openssl x509 -req -in "$file.csr" -CA "$dir/pki/ca.crt" -CAkey "$dir/pki/ca.key" -CAcreateserial -days 30 -out "$file.crt" \
		-extfile <(printf 'keyUsage=digitalSignature\nextendedKeyUsage=clientAuth,serverAuth\n%s\n' "${3-}") 2>/dev/null
}
write_kubeconfig() {	# FILE USER JSON [NAMESPACE]: the credentials are JSON
	jq -n --arg server $server --arg ca "$(base64 -w0 "$dir/pki/ca.crt")" --argjson user "$3" --arg name "$2" --arg space "${4:-default}" '{
		apiVersion: "v1", kind: "Config", "current-context": "loopback",
		clusters: [{name: "loopback", cluster: {server: $server, "certificate-authority-data": $ca}}],
		users: [{name: $name, user: $user}],
		contexts: [{name: "loopback", context: {cluster: "loopback", user: $name, namespace: $space}}]}' >"$1"
}
key_of() {	# NAME: as JSON
	jq -n --arg c "$(base64 -w0 "$dir/pki/$1.crt")" --arg k "$(base64 -w0 "$dir/pki/$1.key")" '{"client-certificate-data": $c, "client-key-data": $k}'
}
write_keys() {
	local i
	(umask 077 && mkdir -p "$dir/pki")
	openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 30 -subj /CN=loopback-ca \
		-keyout "$dir/pki/ca.key" -out "$dir/pki/ca.crt" 2>/dev/null
	openssl ecparam -name prime256v1 -genkey -noout -out "$dir/pki/accounts.key"
	sign_key apiserver /CN=kube-apiserver subjectAltName=IP:127.0.0.1,IP:10.96.0.1,DNS:localhost,DNS:kubernetes,DNS:kubernetes.default
	sign_key admin /O=system:masters/CN=admin
	sign_key scheduler /CN=system:kube-scheduler
	sign_key controller-manager /CN=system:kube-controller-manager
	for i in $(seq "$NODES"); do sign_key "n$i" "/O=system:nodes/CN=system:node:n$i"; done
}

# ---- images -----------------------------------------------------------------------------------
make_image() {	# FOLDER NAME FILE [CONFIG]: an archive of one layer, as `docker save` writes it
	local t hash config=${4:-'{}'}
	t=$(mktemp -d)
	tar -C "$1" --numeric-owner --owner=0 --group=0 -cf "$t/layer.tar" .
	hash=$(sha256sum "$t/layer.tar" | cut -d ' ' -f 1)
	jq -nc --arg hash "sha256:$hash" --argjson more "$config" '{architecture: "amd64", os: "linux",
		config: ({Env: ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"], Cmd: ["/bin/sh"]} + $more),
		rootfs: {type: "layers", diff_ids: [$hash]}}' >"$t/config.json"
	jq -nc --arg name "docker.io/library/$2" '[{Config: "config.json", RepoTags: [$name], Layers: ["layer.tar"]}]' >"$t/manifest.json"
	tar -C "$t" -cf "$3" manifest.json config.json layer.tar
	rm -rf "$t"
}
make_own_images() {	# busybox:local, and busybox:pause, which holds the addresses of a pod
	local root program
	root=$(mktemp -d)
	mkdir -p "$root"/{bin,etc,tmp,dev,proc,sys,root,var}
	chmod 1777 "$root/tmp"
	cp "$(command -v busybox)" "$root/bin/busybox"
	for program in $("$root/bin/busybox" --list); do [ "$program" = busybox ] || ln -s busybox "$root/bin/$program"; done
	echo root:x:0:0:root:/root:/bin/sh >"$root/etc/passwd"
	make_image "$root" busybox:local "$dir/own/busybox.tar"
	make_image "$root" busybox:pause "$dir/own/pause.tar" '{"Entrypoint": ["/bin/sleep", "2000000000"], "Cmd": []}'
	rm -rf "$root"
}
make_rootfs() {	# FOLDER
	local file library
	mkdir -p "$1"/{bin,etc,tmp,dev,proc,sys,root,var}
	chmod 1777 "$1/tmp"
	for file in busybox bash sed grep sha256sum sleep mkdir cat tr seq env sort uname rm ls date touch dd head tail mv cp ln chmod tar cut wc \
		stat mktemp rmdir id flock; do
		file=$(type -P "$file") || fail "no $file"
		cp -L "$file" "$1/bin/"
		ldd "$file" 2>/dev/null | grep -o '/[^ ]*' | while read -r library; do
			[ -e "$1$library" ] || { mkdir -p "$1${library%/*}" && cp -L "$library" "$1$library"; }
		done
	done
	ln -sf bash "$1/bin/sh"
	for library in libc.so.6 libm.so.6 libpthread.so.0 libdl.so.2 librt.so.1 libresolv.so.2 libutil.so.1 libnss_files.so.2; do	# for programs that are sent
		file=$(ldconfig -p | sed -n "s/.*\\<$library .*=> //p" | head -n 1)
		[ -z "$file" ] || [ -e "$1$file" ] || { mkdir -p "$1${file%/*}" && cp -L "$file" "$1$file"; }
	done
	echo root:x:0:0:root:/root:/bin/sh >"$1/etc/passwd"
}
load_image() {	# NODE FILE
	run_on "$1" ctr -n k8s.io images import --snapshotter overlayfs "$2" >>"$dir/log/images.log" 2>&1 ||
		fail "cannot load $2 on $1: $(tail -n 1 "$dir/log/images.log")"
}

# ---- nodes ------------------------------------------------------------------------------------
run_on() {	# NODE COMMAND...: where its containerd is
	local p
	p=$(process "$1.containerd") || fail "node $1 does not run"
	nsenter -t "$p" -m -- "${@:2}"
}
empty_cgroup() {	# NODE
	local top=/sys/fs/cgroup/freezer/$group-$1 p turns=100 folder
	[ -d "$top" ] || return 0
	while p=$(find "$top" -name cgroup.procs -exec cat {} + 2>/dev/null) && [ -n "$p" ] && [ $turns -gt 0 ]; do
		for p in $p; do kill -KILL "$p" 2>/dev/null || true; done
		turns=$((turns - 1))
		sleep 0.05
	done
	for folder in /sys/fs/cgroup/*/"$group-$1"; do
		[ ! -d "$folder" ] || find "$folder" -depth -type d -exec rmdir {} + 2>/dev/null || true
	done
}
processes_of() {	# NODE: of its containerd: they leave session and parent, but not the mount namespace
	local p mounts
	mounts=$(cat "$dir/run/$1.mounts" 2>/dev/null) || return 0
	for p in /proc/[0-9]*; do
		case $(cat "$p/comm" 2>/dev/null) in containerd* | runc* | kubelet) ;; *) continue ;; esac
		[ "$(readlink "$p/ns/mnt" 2>/dev/null)" != "$mounts" ] || echo "${p#/proc/}"
	done
}
is_ready() {
	local node
	node=$(api GET "/api/v1/nodes/$1") && jq -e '.status.conditions[] | select(.type == "Ready" and .status == "True")' <<<"$node"
}
write_node() {	# NODE: the configuration of its programs
	local node=$1 number=${1#n} home=$dir/$1
	# A cable to this machine for each pod: pods reach one another and this machine.
	cat >"$home/cni/10-loopback.conflist" <<-END
		{"cniVersion": "0.4.0", "name": "loopback-$node", "plugins": [{"type": "ptp", "mtu": 1400,
		 "ipam": {"type": "host-local", "dataDir": "$home/cni-lib", "ranges": [[{"subnet": "${net%.*}.$((number + 100)).0/24"}]],
		 "routes": [{"dst": "0.0.0.0/0"}]}}]}
	END
	# Without CAP_SYS_RESOURCE no process may lower its score: restrict_oom_score_adj, oomScoreAdj.
	cat >"$home/containerd.toml" <<-END
		version = 2
		root = "$home/containerd"
		state = "/run/containerd"
		disabled_plugins = ["io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.zfs", "io.containerd.snapshotter.v1.devmapper"]
		[grpc]
		  address = "/run/containerd/containerd.sock"
		[plugins."io.containerd.grpc.v1.cri"]
		  sandbox_image = "docker.io/library/busybox:pause"
		  restrict_oom_score_adj = true
		  disable_apparmor = true
		  stream_server_address = "127.0.0.1"
		  stream_server_port = "0"
		  stream_idle_timeout = "$STREAM_IDLE"
		  [plugins."io.containerd.grpc.v1.cri".cni]
		    bin_dir = "/usr/lib/cni"
		    conf_dir = "$home/cni"
		  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
		    runtime_type = "io.containerd.runc.v2"
	END
	cat >"$home/kubelet.yaml" <<-END
		apiVersion: kubelet.config.k8s.io/v1beta1
		kind: KubeletConfiguration
		address: $net.$number
		port: 10250
		readOnlyPort: 0
		healthzPort: 0
		authentication: {anonymous: {enabled: false}, webhook: {enabled: false}, x509: {clientCAFile: $dir/pki/ca.crt}}
		authorization: {mode: AlwaysAllow}
		tlsCertFile: $dir/pki/$node.crt
		tlsPrivateKeyFile: $dir/pki/$node.key
		cgroupDriver: cgroupfs
		cgroupRoot: /$group-$node
		cgroupsPerQOS: true
		enforceNodeAllocatable: [pods]
		failSwapOn: false
		makeIPTablesUtilChains: false
		oomScoreAdj: 0
		maxOpenFiles: $(ulimit -Hn)
		maxPods: 250
		nodeStatusUpdateFrequency: 2s
		nodeLeaseDurationSeconds: $GRACE
		syncFrequency: 1s
		imageGCHighThresholdPercent: 100
		imageGCLowThresholdPercent: 99
		evictionHard: {memory.available: 50Mi, nodefs.available: 1%, imagefs.available: 1%}
		serializeImagePulls: false
		streamingConnectionIdleTimeout: $STREAM_IDLE
		resolvConf: ""
	END
	write_kubeconfig "$home/kubeconfig" "$node" "$(key_of "$node")"
}
start_kubelet() {	# NODE
	local home=$dir/$1
	start_process "$1.kubelet" nsenter -t "$(process "$1.containerd")" -m -- "$KUBE_BIN/kubelet" \
		--config="$home/kubelet.yaml" --kubeconfig="$home/kubeconfig" --hostname-override="$1" --node-ip="$net.${1#n}" \
		--container-runtime=remote --container-runtime-endpoint=unix:///run/containerd/containerd.sock \
		--root-dir=/var/lib/kubelet --cert-dir="$home/certs" --volume-plugin-dir="$home/volume-plugins" --v=2
	until_done 60 is_ready "$1" || fail "node $1 is not ready: see $dir/log/$1.kubelet.log"
	# kubelet sets the GPUs to 0 when it registers.
	[ "$GPUS" = 0 ] || until_done 10 api PATCH "/api/v1/nodes/$1/status" -H 'Content-Type: application/merge-patch+json' \
		-d "{\"status\": {\"capacity\": {\"nvidia.com/gpu\": \"$GPUS\"}, \"allocatable\": {\"nvidia.com/gpu\": \"$GPUS\"}}}"
}
start_node() {	# NODE
	local node=$1 home=$dir/$1 folder
	[ -s "$dir/pki/$node.crt" ] || fail "there is no node $node"
	! process "$node.kubelet" >/dev/null || fail "node $node runs"
	kill_node "$node"
	mkdir -p "$home"/{kubelet,containerd,run,pods,containers,netns,cni-lib,cni}
	for folder in /sys/fs/cgroup/*/; do
		case $folder in */unified/) ;; *) mkdir -p "$folder$group-$node" ;; esac
	done
	cat /sys/fs/cgroup/cpuset/cpuset.cpus >"/sys/fs/cgroup/cpuset/$group-$node/cpuset.cpus"
	cat /sys/fs/cgroup/cpuset/cpuset.mems >"/sys/fs/cgroup/cpuset/$group-$node/cpuset.mems"
	write_node "$node"
	ip addr add "$net.${node#n}/32" dev lo 2>/dev/null || true
	# Programs of two nodes would use the same paths: each node has a mount namespace of its own.
	start_process "$node.containerd" unshare -m --propagation private sh -c '
		set -e
		mkdir -p /var/lib/kubelet /run/containerd /var/log/pods /var/log/containers /run/netns
		mount --bind "$1/kubelet" /var/lib/kubelet
		mount --bind "$1/run" /run/containerd
		mount --bind "$1/pods" /var/log/pods
		mount --bind "$1/containers" /var/log/containers
		mount --bind "$1/netns" /run/netns
		exec containerd --config "$1/containerd.toml"' sh "$home"
	until_done 30 run_on "$node" ctr version || fail "containerd of $node does not answer: see $dir/log/$node.containerd.log"
	readlink "/proc/$(process "$node.containerd")/ns/mnt" >"$dir/run/$node.mounts"
	for folder in "$dir"/own/*.tar "$dir"/images/*.tar; do [ ! -e "$folder" ] || load_image "$node" "$folder"; done
	start_kubelet "$node"
}
kill_node() {	# NODE
	local p
	end_processes KILL "$1.kubelet"
	empty_cgroup "$1"
	end_processes KILL "$1.containerd"
	for p in $(processes_of "$1"); do kill -KILL "$p" 2>/dev/null || true; done
	empty_cgroup "$1"
	rm -f "$dir/run/$1."*
	ip addr del "$net.${1#n}/32" dev lo 2>/dev/null || true
}

# ---- the cluster ------------------------------------------------------------------------------
print_why_not() {
	[ "$(id -u)" = 0 ] || { echo "it needs root"; return; }
	[ -w /sys/fs/cgroup/freezer/cgroup.procs ] || { echo "it needs cgroups of version 1 that can be written to"; return; }
	local program
	for program in etcd:etcd-server containerd:containerd runc:runc busybox:busybox-static openssl:openssl curl:curl jq:jq \
		ip:iproute2 sysctl:procps nsenter:util-linux; do
		command -v "${program%:*}" >/dev/null || { echo "no ${program%:*} (package ${program#*:})"; return; }
	done
	[ -x /usr/lib/cni/ptp ] || { echo "no /usr/lib/cni/ptp (package containernetworking-plugins)"; return; }
	[ "$(df --output=avail -k "${TMPDIR:-/tmp}" | tail -n 1)" -ge $((2 << 20)) ] || { echo "it needs 2 GiB in ${TMPDIR:-/tmp}"; return; }
	unshare -n -m -p --fork --mount-proc true 2>/dev/null || { echo "no namespaces can be made"; return; }
	for program in kube-apiserver kube-controller-manager kube-scheduler kubelet kubectl; do
		[ -x "$KUBE_BIN/$program" ] || { echo "no $KUBE_BIN/$program (tests/kubernetes/build.sh builds it)"; return; }
	done
}
start_server() {
	# log/audit.log has a line for each request about pods.
	cat >"$dir/audit.yaml" <<-'END'
		apiVersion: audit.k8s.io/v1
		kind: Policy
		omitStages: [RequestReceived]
		rules:
		- {level: None, userGroups: ["system:nodes", "system:serviceaccounts:kube-system"]}
		- {level: None, users: ["system:kube-scheduler", "system:kube-controller-manager", "system:apiserver"]}
		- {level: Metadata, resources: [{group: "", resources: [pods, pods/exec]}]}
	END
	start_process apiserver "$KUBE_BIN/kube-apiserver" --etcd-servers="http://127.0.0.1:$port" --bind-address=0.0.0.0 --secure-port=443 \
		--advertise-address="$net.1" --endpoint-reconciler-type=none --insecure-port=0 \
		--tls-cert-file="$dir/pki/apiserver.crt" --tls-private-key-file="$dir/pki/apiserver.key" --client-ca-file="$dir/pki/ca.crt" --cert-dir="$dir/run" \
		--service-account-issuer=https://kubernetes.default.svc --service-account-signing-key-file="$dir/pki/accounts.key" \
		--service-account-key-file="$dir/pki/accounts.key" --api-audiences=https://kubernetes.default.svc --service-cluster-ip-range=10.96.0.0/24 \
		--authorization-mode=Node,RBAC --enable-admission-plugins=NodeRestriction --allow-privileged=true \
		--kubelet-client-certificate="$dir/pki/admin.crt" --kubelet-client-key="$dir/pki/admin.key" --kubelet-preferred-address-types=InternalIP \
		--default-not-ready-toleration-seconds="$POD_EVICT" --default-unreachable-toleration-seconds="$POD_EVICT" \
		--max-requests-inflight="$MAX_INFLIGHT" --max-mutating-requests-inflight="$MAX_INFLIGHT" --enable-priority-and-fairness="$APF" \
		--etcd-compaction-interval="$COMPACT" --event-ttl=1h --audit-policy-file="$dir/audit.yaml" --audit-log-path="$dir/log/audit.log"
	until_done 60 api GET /readyz || fail "kube-apiserver does not answer: see $dir/log/apiserver.log"
}
start_cluster() {
	local name i why
	why=$(print_why_not)
	[ -z "$why" ] || fail "$why"
	! process apiserver >/dev/null 2>&1 || fail "a cluster runs in $dir"
	[ "$(ip -o link | wc -l)" = 1 ] || fail "there is a network: begin with \`loopback.sh run\`"
	mkdir -p "$dir"/{run,log,images,own}
	chmod 700 "$dir"
	ip link set lo up
	ip addr add 10.96.0.1/32 dev lo
	# kubelet and CNI plugins change these for the whole machine; `stop` sets them back.
	sysctl -e vm.overcommit_memory kernel.panic kernel.panic_on_oops kernel.keys.root_maxkeys kernel.keys.root_maxbytes >"$dir/sysctl" 2>/dev/null
	write_keys
	make_own_images
	start_process etcd etcd --data-dir "$dir/etcd" --unsafe-no-fsync --listen-client-urls "http://127.0.0.1:$port" \
		--advertise-client-urls "http://127.0.0.1:$port" --listen-peer-urls "http://127.0.0.1:$((port + 1))" --log-level warn
	until_done 30 curl -sf "http://127.0.0.1:$port/health" || fail "etcd does not answer: see $dir/log/etcd.log"
	start_server
	write_kubeconfig "$dir/kubeconfig" admin "$(key_of admin)"
	for name in scheduler controller-manager; do write_kubeconfig "$dir/run/$name.kubeconfig" "$name" "$(key_of $name)"; done
	start_process scheduler "$KUBE_BIN/kube-scheduler" --kubeconfig="$dir/run/scheduler.kubeconfig" --leader-elect=false --port=0 \
		--bind-address=127.0.0.1 --secure-port=$((port + 2)) --cert-dir="$dir/run"
	start_process controller-manager "$KUBE_BIN/kube-controller-manager" --kubeconfig="$dir/run/controller-manager.kubeconfig" --leader-elect=false \
		--port=0 --bind-address=127.0.0.1 --secure-port=$((port + 3)) --cert-dir="$dir/run" --use-service-account-credentials=true \
		--service-account-private-key-file="$dir/pki/accounts.key" --root-ca-file="$dir/pki/ca.crt" \
		--controllers='*,-nodeipam,-service,-route,-attachdetach' --node-monitor-period=1s --node-monitor-grace-period="${GRACE}s" \
		--pod-eviction-timeout="${POD_EVICT}s" --flex-volume-plugin-dir="$dir/run/flex" --terminated-pod-gc-threshold=200
	local all=
	for i in $(seq "$NODES"); do
		start_node "n$i" &
		all="$all $!"
	done
	for i in $all; do wait "$i" || exit 1; done
	until_done 60 api GET /api/v1/namespaces/default/serviceaccounts/default || fail "no service account: see $dir/log/controller-manager.log"
}
stop_cluster() {
	local folder
	[ -d "$dir/run" ] || return 0
	for folder in "$dir"/n[0-9]*; do [ ! -d "$folder" ] || kill_node "${folder##*/}"; done
	end_processes TERM scheduler controller-manager
	end_processes KILL apiserver	# at TERM it waits a minute for watches
	end_processes TERM etcd
	[ ! -s "$dir/sysctl" ] || sysctl -q -e -p "$dir/sysctl" >/dev/null 2>&1 || true
}
print_account() {	# NAMESPACE NAME
	local secret= token
	find_secret() { secret=$(api GET "/api/v1/namespaces/$1/serviceaccounts/$2" | jq -r '.secrets[0].name // empty') && [ -n "$secret" ]; }
	until_done 20 find_secret "$1" "$2" || fail "there is no token of $1/$2"
	token=$(api GET "/api/v1/namespaces/$1/secrets/$secret" | jq -r .data.token | base64 -d)
	write_kubeconfig /dev/stdout "$2" "$(jq -n --arg token "$token" '{token: $token}')" "$1"
}

command=${1-}
[ $# -eq 0 ] || shift
dir=
case $command in
start | stop | *-node | *-kubelet | *-server | load | account)
	[ $# -ge 1 ] || show_usage
	dir=$(realpath -m "$1")
	shift
	group=espalier-kube-$(printf %s "$dir" | cksum | cut -d ' ' -f 1)	# of cgroups
	;;
esac
case $command:$# in
run:0) show_usage ;;
run:*) exec unshare -n -m -p --fork --kill-child --mount-proc -- "$@" ;;
start:0) start_cluster ;;
stop:0) stop_cluster ;;
kill-node:1) kill_node "$1" ;;
start-node:1) start_node "$1" ;;
kill-kubelet:1) end_processes KILL "$1.kubelet" ;;
start-kubelet:1) start_kubelet "$1" ;;
kill-server:0) end_processes KILL apiserver ;;
start-server:0) start_server ;;
load:1)
	cp "$1" "$dir/images/"
	for node in "$dir"/n[0-9]*; do load_image "${node##*/}" "$(realpath "$1")"; done
	;;
account:2) print_account "$1" "$2" ;;
image:3) make_image "$1" "$2" "$3" ;;
rootfs:1) make_rootfs "$1" ;;
why-not:0) print_why_not ;;
*) show_usage ;;
esac

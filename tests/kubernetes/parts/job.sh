# espalier inside the cluster: the files in deploy/kubernetes. JOB_IMAGE=FILE: an archive of the image of its Dockerfile, with the
# name espalier:local; otherwise an image is made of what was built here.

published=$top/deploy/kubernetes
make_job_image() {	# FILE
	local library
	"$here/loopback.sh" rootfs image-root && make -s -C "$build" install DESTDIR="$KUBE_DIR/image-root" >install.log 2>&1 &&
		cp "$KUBE_BIN/kubectl" image-root/bin/ || return 1
	find image-root -type f \( -name '*.so*' -o -path '*/bin/*' -o -path '*/libexec/*' \) -exec ldd {} + 2>/dev/null | grep -o ' /[^ ]*' | sort -u |
		while read -r library; do
			[ -e "image-root$library" ] || { mkdir -p "image-root${library%/*}" && cp -L "$library" "image-root$library"; }
		done
	ldconfig -r image-root
	"$here/loopback.sh" image image-root espalier:local "$1" && rm -rf image-root
}
job_pods() { kubectl -n jobs get pods -l job-name=espalier -o json | jq -r ".items[] | select($1) | .metadata.name"; }
job_pod() { job_pods '.status.phase == "Running" and .metadata.deletionTimestamp == null'; }
job_said() { job_logs | grep -aq "$1"; }
job_logs() { for pod in $(job_pods true); do kubectl -n jobs logs "$pod" 2>&1; done; }
job_ended() { kubectl -n jobs get job espalier -o json | jq -e '.status.conditions[]? | select(.status == "True" and (.type == "Complete" or .type == "Failed"))' >/dev/null; }
job_trains() { [ "$(grep -c . flag/starts)" -ge 6 ] && job_said "at iteration 4, "; }
resumed_by() { [ -n "$(job_pod)" ] && [ "$(job_pod)" != "$1" ] && kubectl -n jobs logs "$(job_pod)" 2>&1 | grep -aq "6 of 6 running trials kept running without this program"; }
start_job() {	# with the files as they are published, but for the name of the image
	: >flag/hold
	: >flag/starts
	kubectl -n jobs delete configmap search >/dev/null 2>&1
	kubectl -n jobs create configmap search --from-file=search.cfg=job.cfg --from-file=train.sh --from-file=pod.json >/dev/null &&
		sed 's|image: .*|image: espalier:local|' "$published/job.yaml" | kubectl -n jobs apply -f - >/dev/null
}
finish_job() {	# as if its driver had been one here
	rm -f flag/hold
	until_done 300 job_ended
	rc=$(kubectl -n jobs get job espalier -o json | jq 'if .status.succeeded == 1 then 0 else 1 end')
	job_logs >job.out
	out=$(cat job.out) err=$(tail -n 20 job.out)
}
driver_in_pod() { pgrep -f '^espalier (run|resume) .*search'; }
no_pod_of_job() { [ -z "$(kubectl -n jobs get pods -o name)" ]; }
part_job() {
	local pod how
	if [ -z "${JOB_IMAGE-}" ]; then
		make_job_image job.tar || { check "an image of what was built here" false; return; }
	fi
	loopback load "${JOB_IMAGE:-job.tar}"
	mkdir claim
	kubectl create namespace jobs >/dev/null
	kubectl create -f - >/dev/null <<-END
		{"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "claim"}, "spec": {"capacity": {"storage": "10Gi"},
		 "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "$KUBE_DIR/claim"}}}
	END
	kubectl -n jobs apply -f "$published/role.yaml" -f "$published/volume.yaml" >/dev/null
	write_cloud job.cfg
	start_job
	until_done 120 job_trains
	check "espalier as a Job, with exactly the published files: the search trains" job_trains
	[ $? = 0 ] || job_logs | tail -n 20 | sed 's/^/# /'

	for how in "its process is killed" "its pod is deleted" "its pod is deleted without grace"; do
		pod=$(job_pod)
		case $how in
		*killed) kill -KILL "$(driver_in_pod)" ;;
		*deleted) kubectl -n jobs delete pod "$pod" >/dev/null ;;
		*) kubectl -n jobs delete pod "$pod" --grace-period=0 --force >/dev/null 2>&1 ;;
		esac
		until_done 120 resumed_by "$pod"
		check "$how: Kubernetes starts another one, in which all trials keep running" resumed_by "$pod"
	done
	finish_job
	check "the same table, the best checkpoint in the volume, and no trial was started again" eval 'same claim/search && started_once'
	check "the Job's trials have left no pod" nothing_left

	kubectl -n jobs delete job espalier >/dev/null
	rm -rf claim/search
	mkdir -p claim/search/inputs	# the first driver was killed before the run began
	start_job
	until_done 120 job_trains
	check "a driver that was killed before its run began: the next one begins it" job_trains
	kubectl -n jobs delete job espalier --wait=false >/dev/null
	until_done 120 no_pod_of_job
	check "the Job is deleted: its pods go with it" no_pod_of_job
	kubectl delete namespace jobs --wait=false >/dev/null
	kubectl delete pv claim --wait=false >/dev/null
}

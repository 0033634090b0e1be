# Searches: the same result as on this machine, gangs over pods, and each of the stores.

part_search() {
	local made
	write_cloud three.cfg
	: >flag/starts
	run timeout 200 "$ESPALIER" run three.cfg --dir three.run
	check "a search on three pods: the same table, and the best checkpoint is here" same three.run
	check "trials ran on all three" [ "$(cut -d ' ' -f 3 flag/starts | sort -u | wc -l)" = 3 ]
	check "promoted trials moved, with their checkpoints" grep -q "checkpoints .* from nodes in .*, .* to nodes in" <<<"$err"
	check "no pod is left" nothing_left
}
part_gang() {	# rank 0 adds up the numbers of the others
	cat >gang.sh <<-'END'
		if [ "$RANK" = 0 ]; then
			busybox nc -ll -p "$MASTER_PORT" -e sh -c 'read -r number && echo "$number" >>"$ESPALIER_SCRATCH/numbers" && echo taken' &
			until [ "$(sort -u "$ESPALIER_SCRATCH/numbers" | wc -l)" = $((WORLD_SIZE - 1)) ]; do sleep 0.1; done 2>/dev/null
			sum=0
			while read -r number; do sum=$((sum + number)); done <<<"$(sort -u "$ESPALIER_SCRATCH/numbers")"
			echo "{\"iteration\": 1, \"metrics\": {\"score\": $sum}, \"finished\": true}" >&$ESPALIER_REPORT_FD
			read -r word <&$ESPALIER_REPORT_FD
			kill $!
		else
			until exec 3<>"/dev/tcp/$MASTER_ADDR/$MASTER_PORT" && echo "$((RANK * 10))" >&3 && read -r -t 5 word <&3; do
				sleep 0.1
			done 2>/dev/null
		fi
		echo "$RANK $(uname -n)" >>/flag/ranks
	END
	sed '/^cloud/d; /^algorithm/d; /^trial/d' real.cfg >gang.cfg
	cat >>gang.cfg <<-END
		trial = { command = [ "bash", "gang.sh" ]; files = [ "gang.sh" ]; gpus_min = 4; gpus_max = 4; };
		algorithm = { use = "random"; trials = 1; iterations_max = 1; };
	END
	cloud >>gang.cfg
	run timeout 200 "$ESPALIER" run gang.cfg --dir gang.run
	check "a gang of four ranks on two pods adds up 10 + 20 + 30" eval 'exits 0 &&
		[ "$("$ESPALIER" best gang.run --json | jq .best.metric)" = 60 ]'
	check "its ranks ran in two pods" [ "$(sort -u flag/ranks | wc -l) $(cut -d ' ' -f 2 flag/ranks | sort -u | wc -l)" = "4 2" ]
	check "no pod is left by the gang" nothing_left
}
part_stores() {
	local volume
	# The run directory on a volume that pods see at the same path: hostPath, and then a claim.
	mkdir shared
	for volume in '"hostPath": {"path": "'"$KUBE_DIR"'/shared"}' '"persistentVolumeClaim": {"claimName": "runs"}'; do
		jq ".spec.volumes += [{\"name\": \"runs\", $volume}] | .spec.containers[0].volumeMounts += [{\"name\": \"runs\", \"mountPath\": \"$KUBE_DIR/shared\"}]" \
			pod.json >shared.json
		case $volume in *Claim*)
			kubectl create -f - >/dev/null <<-END
				{"apiVersion": "v1", "kind": "List", "items": [
				 {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "runs"}, "spec": {"capacity": {"storage": "1Gi"},
				  "accessModes": ["ReadWriteMany"], "storageClassName": "none", "hostPath": {"path": "$KUBE_DIR/shared"}}},
				 {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "runs"}, "spec": {"storageClassName": "none",
				  "accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}}}]}
			END
		esac
		write_cloud shared.cfg
		sed -i 's/pod.json/shared.json/' shared.cfg
		run timeout 200 "$ESPALIER" run shared.cfg --dir shared/run
		check "a volume that all pods see (${volume%%:*}) is used as it is" eval 'same shared/run && ! says "sent over connections" &&
			! complains "does not see the run directory"'
		rm -rf shared/run
	done
	kubectl delete pvc/runs pv/runs >/dev/null
	[ -n "$PYTHON3" ] || { skip "store s3" "no python3"; return; }
	export PYTHONDONTWRITEBYTECODE=1 AWS_EC2_METADATA_DISABLED=true AWS_ACCESS_KEY_ID=AKIDTEST AWS_SECRET_ACCESS_KEY=secret-of-test
	"$PYTHON3" "$top/tests/aws/s3.py" host=10.111.0.1 >url &
	local s3=$!
	until_done 20 [ -s url ]
	write_cloud bucket.cfg
	echo "store = { use = \"s3\"; bucket = \"pears\"; region = \"eu-central-1\"; endpoint = \"$(cat url)\"; };" >>bucket.cfg
	run timeout 200 "$ESPALIER" run bucket.cfg --dir bucket.run
	check "checkpoints in a bucket that pods reach" eval 'same bucket.run && [ "$(curl -s "$(cat url)/_/state" | jq ".counts.PutObject > 20")" = true ]'
	kill $s3
	wait $s3 2>/dev/null
	check "no pod is left by them" nothing_left
}

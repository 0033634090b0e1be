#!/bin/bash
# fuzz.sh SOURCE BUILD SECONDS [KIND...]: builds the fuzzers of streams with clang, and runs each for SECONDS from its corpus.
# Findings are left in BUILD/fuzz.
src=$1 build=$2 seconds=$3
shift 3
kinds=${*:-tree mover session listen events tables serve provider}
command -v clang >/dev/null || { echo "there is no clang"; exit 77; }
mkdir -p "$build/fuzz" && cd "$build/fuzz" || exit 99
flags="-g -O1 -std=gnu11 -D_GNU_SOURCE -DHAVE_CONFIG_H -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=undefined
 -I$build -I$src -I$src/core -I$src/node -I$src/driver -I$src/sdk/include -I$src/sdk/kit/include
 -I$src/plugins/clouds/aws -I$src/plugins/clouds/kubernetes $(pkg-config --cflags jansson expat libpcre2-8)"
base=$(ls "$src"/base/[a-z]*.c)
trees="$src/node/transfer/mover*.c $src/node/transfer/output_*.c $src/node/transfer/pack.c $src/node/transfer/stored.c
 $src/node/checkpoint/*.c $src/node/wire.c"
# What the fuzzed files call without being fuzzed: as it was built.
libs="-Wl,--start-group $build/driver/.libs/libespl_driver.a $build/core/.libs/libespl_core.a $build/node/.libs/libespl_node.a
 $build/node/.libs/libespl_listen.a $build/base/.libs/libespl_base.a -Wl,--end-group -lcurl -luv -lsqlite3 -lmicrohttpd -lnettle -lltdl -lconfig -ldl"
bad=0
for kind in $kinds; do
	rest=
	case $kind in
	tree | mover) more=$trees rest=$libs ;;
	session) more="$src/node/session/stream.c $src/node/session/keep.c $src/node/wire.c" rest=$libs ;;
	listen) more="$src/node/listen/listen.c $src/node/listen/line.c $src/node/listen/layout.c" rest=$libs ;;
	events) more="$src/node/listen/events.c" rest=$libs ;;
	tables) more="$src/driver/input/prices.c $src/driver/input/curves.c $src/driver/input/csv.c $src/core/model/space.c" rest=$libs ;;
	serve) more="$src/driver/serve/request.c" rest=$libs ;;
	provider) rest="-Wl,--unresolved-symbols=ignore-all" more="$src/plugins/clouds/aws/cloud_aws_answer.c $src/plugins/clouds/kubernetes/cloud_kubernetes_pod.c" ;;
	esac
	# shellcheck disable=SC2086
	clang $flags "$src/tests/fuzz/fuzz_$kind.c" $more $base -Wl,--allow-multiple-definition $rest \
		-ljansson -lexpat -lpcre2-8 -lm -lpthread -o "fuzz_$kind" >"$kind.build" 2>&1 || { tail -3 "$kind.build"; bad=1; continue; }
	mkdir -p "$kind"
	if nice ./"fuzz_$kind" -max_total_time="$seconds" -timeout=25 -max_len=4096 -print_final_stats=1 -artifact_prefix="$kind-" \
		"$kind" "$src/tests/fuzz/corpus/$kind" >"$kind.log" 2>&1; then
		echo "$kind: no finding in $(sed -n 's/stat::number_of_executed_units: *//p' "$kind.log") inputs"
	else
		echo "$kind: see $build/fuzz/$kind.log"
		bad=1
	fi
done
exit $bad

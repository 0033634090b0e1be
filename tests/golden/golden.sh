#!/bin/bash
# golden.sh - notices when the behavior of espalier changes.
#
#	golden.sh [--quick] [--files] save DIR [NAME...]
#	golden.sh [--quick] compare DIR [NAME...]
#
# It simulates every configuration of `cases` with five seeds and records what espalier prints and keeps.  `save`
# writes DIR/hashes, a line for each record, and with --files the records themselves to DIR/files.  `compare`
# runs everything again, names every record that differs and exits with 1 if there is one.  Where DIR/files is
# there, it prints the `diff` command that shows the change.  --quick takes the cases marked `quick`, with seeds 1
# and 2: `golden.sh --quick compare tests/golden` compares with the hashes kept here, and `save` accepts a change.
# With NAMEs only those cases run, and `compare` looks at no others.
#
# The program is $ESPALIER with the plugins of $ESPALIER_PLUGIN_PATH, by default those of the current folder.
here=$(cd "$(dirname "$0")" && pwd)
examples=$here/../../examples
: "${ESPALIER:=$PWD/espalier}" "${ESPALIER_PLUGIN_PATH:=$PWD/plugins}" "${ESPALIER_LIBEXEC:=$PWD}"
export ESPALIER ESPALIER_PLUGIN_PATH ESPALIER_LIBEXEC ESPALIER_SLOTS= LC_ALL=C.UTF-8 TERM=dumb TZ=UTC
unset NO_COLOR COLUMNS

usage() { sed -n '3,4s/^#	/usage: /p' "$0" >&2; exit 2; }
quick='' keep='' seeds='1 2 3 4 5'
while :; do
	case ${1-} in
	--quick) quick=1 seeds='1 2' ;;
	--files) keep=1 ;;
	*) break ;;
	esac
	shift
done
[ $# -ge 2 ] || usage
verb=$1 folder=$2
shift 2
only=" $* "
case $verb in save|compare) ;; *) usage ;; esac
[ "$verb" = save ] && { mkdir -p "$folder" || exit 2; }
folder=$(cd "$folder" && pwd) || exit 2
[ "$verb" = save ] || [ -f "$folder/hashes" ] || { echo "golden.sh: there is no $folder/hashes" >&2; exit 2; }
[ -x "$ESPALIER" ] || { echo "golden.sh: there is no program $ESPALIER" >&2; exit 2; }

work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 2
export XDG_CACHE_HOME=$work/.cache	# no profile that the user keeps
mkdir in out && cd in || exit 2
cp "$here"/*.cfg "$here"/*.csv . && cp -r "$examples/rubberband" "$examples/pool" "$examples/modelarts" "$examples/fluid" . &&
	chmod -R u+w . && cp curves.csv fluid || exit 2

# What differs from call to call or from build to build although the behavior is the same:
#  - how long a policy computed, on the real clock: decision_us, call_us, elapsed_ms;
#  - the temporary folder, where files are named;
#  - the version of espalier and of a plugin, and where a plugin lies: data of the report, `plugins --json`.
mask() {
	sed -E -e "s|$work/[^/]*/||g" -e 's/"(decision_us|call_us)": \{[^}]*\}/"\1": {}/g; s/"elapsed_(ms|us)": [-+.e0-9]+/"elapsed_\1": 0/g' \
		-e 's/"path": "[^"]*"/"path": ""/g; s/"version": "[^"]*"/"version": ""/g'
}
# The header of a journal names the version and the digest of run.cfg, which is a record of its own.
journal() { tail -c "+$(($(od -An -tu4 -N4 "$1") + 10))" "$1"; }
record() {	# FILE COMMAND...: adds what espalier prints, standard error last, and its exit status
	local file=$1
	shift
	{ "$ESPALIER" "$@" 2>err; rc=$?; cat err; echo "exit status $rc"; } | mask >>"../out/$file"
}
"$ESPALIER" simulate search.cfg --quiet --dir any >/dev/null || exit 2
tables=$("$ESPALIER" export any --format csv --table none 2>&1 | grep -oE '[a-z_]+(, [a-z_]+){5,}' | tr -d ,)
[ -n "$tables" ] || { echo "golden.sh: $ESPALIER does not list its tables" >&2; exit 2; }
simulate() {	# NAME SEED FILE ARGUMENT...
	local to=$1/$2 seed=$2 run=run-$2 file=$3
	shift 3
	mkdir "../out/$to"
	record "$to/events.json" simulate "$file" "$@" --seed "$seed" --dir "$run" --json
	record "$to/text" simulate "$file" "$@" --seed "$seed"
	[ -f "$run/journal" ] || return
	journal "$run/journal" >"../out/$to/journal"
	mask <"$run/run.cfg" >"../out/$to/run.cfg"
	record "$to/resume" resume "$run" --quiet
	for trial in '' 0 1 2 8 1/0 2/3; do
		record "$to/explain" explain "$run" $trial
	done
	for table in $tables; do
		record "$to/tables.csv" export "$run" --format csv --table "$table"
	done
	record "$to/report.html" report "$run" -o -
}
running=0
golden() {	# NAME FILE ARGUMENT...
	local name=$1 file=$2 seed
	shift 2
	[ "$only" = "  " ] || [[ $only == *" $name "* ]] || return
	(
		mkdir "out/$name" && cp -r in "$name" && cd "$name" || exit	# a folder of its own: cases run at once
		local settings=() argument last=
		for argument; do	# `plan` knows nothing of faults and of recorded curves
			[[ $last == --set ]] && settings+=(--set "$argument")
			last=$argument
		done
		record "$name/plan.json" plan "$file" "${settings[@]}" --json
		for seed in $seeds; do
			simulate "$name" "$seed" "$file" "$@"
		done
	) &
	running=$((running + 1))
	[ $running -lt "$(nproc)" ] || { wait -n; running=$((running - 1)); }
}
quick() { golden "$@"; }
if [ -n "$quick" ]; then
	full() { :; }
else
	full() { golden "$@"; }
	# These name every plugin that is found, so they depend on what was built and are not among the quick ones.
	[ "$only" != "  " ] || { record help.md help --markdown && record plugins.json plugins --json; }
fi
cd .. || exit 2
. "$here/cases"
wait

(cd out && find . -type f -printf '%P\n' | LC_ALL=C sort | xargs sha256sum) >hashes || exit 2
[ -s hashes ] || { echo "golden.sh: no case ran" >&2; exit 2; }
if [ "$verb" = save ]; then
	cp hashes "$folder/hashes" || exit 2
	[ -z "$keep" ] || { rm -rf "$folder/files"; cp -r out "$folder/files"; } || exit 2
	echo "golden.sh: $(wc -l <hashes) records in $folder"
	exit 0
fi
cp "$folder/hashes" before
if [ "$only" != "  " ]; then
	for name in $only; do grep "  $name/" before; done | LC_ALL=C sort -k 2 >few
	mv few before
fi
changed=$(diff before hashes | sed -n 's/^[<>] [0-9a-f]*  //p' | LC_ALL=C sort -u)
[ -n "$changed" ] || { echo "golden.sh: $(wc -l <hashes) records, none differs"; exit 0; }
after=$(mktemp -d) && cp -r out/. "$after"
for file in $changed; do
	if [ ! -f "out/$file" ]; then echo "is gone: $file"
	elif ! grep -q "  $file\$" before; then echo "is new:  $file"
	else echo "differs: $file"; fi
done
echo "golden.sh: $(wc -w <<<"$changed") records differ; the new ones are in $after"
if [ -d "$folder/files" ]; then
	echo "golden.sh: diff -r $folder/files $after"
fi
exit 1

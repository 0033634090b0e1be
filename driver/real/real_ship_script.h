/* real_ship_script.h - what runs on a node before its agent: the text that real_ship.c writes to
 * `sh -s`.  Only POSIX sh, head -c and sha256sum.
 *
 * Before it come the variables
 *   v        name of the directory in the cache     own   the agent's path on the driver's machine
 *   machine  the driver's, as uname -m prints it    version
 * and the function `each WHAT`, which calls WHAT DIGEST SIZE NAME SOURCE for every file that is
 * sent.  After it comes `ship_main "$@"`, as the last line: the shell has read everything then.
 * A cloud whose agent cannot be a child of this shell sets ESPALIER_START, a script that starts it.
 */
#ifndef ESPL__REAL_SHIP_SCRIPT_H
#define ESPL__REAL_SHIP_SCRIPT_H

static const char ship_script[] =
    "sum() { { sha256sum <\"$1\"; } 2>/dev/null | cut -c 1-64; }\n"
    "line() { printf '%s' \"$*\" | tr '\\n' ' '; }\n"
    "refuse() { printf 'refuse %s: %s\\n' \"$(uname -n)\" \"$(line \"$*\")\"; exit 1; }\n"
    "lose() { printf '%s: %s\\n' \"$(uname -n)\" \"$(line \"$*\")\"; exit 1; }\n"
    "start() {\n"
    "	a=$1; shift\n"
    "	umask \"$mask\"\n" /* that of trials */
    "	echo start\n"
    "	[ -z \"${ESPALIER_START-}\" ] || exec sh -c \"$ESPALIER_START\" espalier \"$a\" \"$@\"\n"
    "	exec \"$a\" \"$@\"\n"
    "}\n"
    "runs() {\n"
    "	e=$(\"$1\" --version 2>&1 </dev/null)\n"
    "	[ \"$e\" = \"${1##*/} $version\" ]\n"
    "}\n"
    /* Libraries may differ: what matters is that the programs run. */
    "is_own() { case $3 in lib/*) ;; *) [ \"$(sum \"$4\")\" = \"$1\" ];; esac; }\n"
    "is_whole() { [ \"$(sum \"$t/$3\")\" = \"$1\" ]; }\n"
    "take() {\n"
    "	case $3 in */*) e=$(mkdir -p \"$n/${3%/*}\" 2>&1) || "
    "refuse \"cannot create $n: $e; $else\";; esac\n"
    "	for o in \"$c\"/*/\"$3\"; do\n" /* of another version, or of another set of plugins */
    "		[ -f \"$o\" ] && [ \"$(sum \"$o\")\" = \"$1\" ] && "
    "cp \"$o\" \"$n/$3\" 2>/dev/null && return\n"
    "	done\n"
    "	printf 'need %s\\n' \"$1\"\n"
    "	e=$({ head -c \"$2\" >\"$n/$3\"; } 2>&1) || "
    "refuse \"cannot write to $c: $e; $else\"\n"
    "	[ \"$(sum \"$n/$3\")\" = \"$1\" ] || lose \"$4 was not received whole\"\n"
    "	chmod 700 \"$n/$3\"\n"
    "	sent=$((sent + $2)) files=$((files + 1))\n"
    "}\n"
    "fill() {\n"
    /* Of machines that share a home, two may have one name, and their shells one number. */
    "	o=$t.$(uname -n).$$ n=$o sent=0 files=0\n"
    "	e=$(mkdir -p \"$c\" 2>&1) || refuse \"cannot create $c: $e; $else\"\n"
    "	until e=$(mkdir \"$n\" 2>&1); do\n"
    "		[ -d \"$n\" ] && [ ${#n} -lt $((${#o} + 50)) ] || "
    "refuse \"cannot create $n: $e; $else\"\n"
    "		n=$n-\n"
    "	done\n"
    "	trap 'rm -rf \"$n\"' EXIT\n"
    "	trap 'exit 1' HUP INT TERM\n"
    "	each take || exit\n"
    "	[ ! -e \"$t\" ] || mv \"$t\" \"$n.old\" 2>/dev/null\n" /* it was damaged */
    "	[ -e \"$t\" ] || mv \"$n\" \"$t\" 2>/dev/null\n"
    "	rm -rf \"$n.old\" \"$t/${n##*/}\"\n" /* the latter: another sender was quicker */
    "	each is_whole || lose \"cannot create $t\"\n"
    "	echo \"note $(uname -n): sent espalier-agent $version to $t "
    "($files files, $((sent / 1024)) kB)\"\n"
    "}\n"
    "ship_main() {\n"
    "	mask=$(umask)\n"
    "	umask 077\n"
    "	echo espalier-ship\n"
    "	else='set XDG_CACHE_HOME there to a directory on another disk, or install espalier "
    "there and set cloud.agent'\n"
    "	[ \"$(uname -m)\" = \"$machine\" ] || refuse \"its machine is $(uname -m), not "
    "$machine as here; install espalier there and set cloud.agent\"\n"
    "	command -v sha256sum >/dev/null || refuse 'there is no sha256sum (package coreutils)'\n"
    "	if each is_own && runs \"$own\"; then start \"$own\" \"$@\"; fi\n"
    "	[ -n \"${XDG_CACHE_HOME:-${HOME-}}\" ] || refuse 'HOME is not set'\n"
    "	c=${XDG_CACHE_HOME:-$HOME/.cache}/espalier t=$c/$v\n"
    "	each is_whole || fill\n"
    /* In a subshell: a shell ends when its own redirection fails, as in a read-only home. */
    "	[ -e \"$t/.sent\" ] || (: >\"$t/.sent\") 2>/dev/null\n"
    "	runs \"$t/espalier-agent\" || refuse \"espalier-agent does not run there: $e; $else\"\n"
    "	runs \"$t/espalier-worker\" || refuse \"espalier-worker does not run there: $e; $else\"\n"
    "	runs \"$t/espalier-listen\" || refuse \"espalier-listen does not run there: $e; $else\"\n"
    "	[ ! -e \"$t/espalier-courier\" ] || runs \"$t/espalier-courier\" || "
    "refuse \"espalier-courier does not run there: $e; $else\"\n"
    "	start \"$t/espalier-agent\" \"$@\"\n"
    "}\n";
#endif

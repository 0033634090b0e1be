/* cloud_ssh_commands.c - the words of ssh commands, and the scripts that they run on a host.
 *
 * A script is one line without quotes of its own kind, so that every login shell hands it to sh
 * unchanged.
 *
 * The lock of a host is a flock held by the agent, its keeper and what they started. The kernel
 * drops it when the last of them is gone, so no lock of a dead run is ever left behind; an agent
 * that does not hear from its driver ends by itself (docs/sessions.md).
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cloud_ssh.h"

#define SSH_ROUTE_PORT "29500" /* as good as any other that ranks may get */

/* $1: the agent; $2: a name to look for in PATH if the first is not there, or "" */
#define FIND_AGENT "a=$(command -v \"$1\" || command -v \"$2\"); "
/* Where the lock of a machine may be, the first place where a file can be locked and written: $f;
 * "" if there is none, and then $e says why.  $i: the machine.
 *
 * A home may be shared by several machines, even by some of one name, so the file is named after
 * name, boot and network of its machine: the sessions that it protects meet in that network.  It
 * may also have no locks (Lustre, some NFS), be read-only or full: then the lock is in /tmp, in a
 * directory that nobody else can write.  Without lingering, /run/user/UID is removed when the last
 * connection of the user is gone, while a keeper still holds the file: the next run would find a
 * new one. */
#define FIND_LOCK \
	"u=$(id -u); m=$(uname -n); " \
	"i=$( { cat /proc/sys/kernel/random/boot_id || cat /etc/machine-id; " \
	"readlink /proc/self/ns/net; } 2>/dev/null | cksum | cut -d \" \" -f 1); " \
	"n=espalier-$m-$i.lock; r=$XDG_RUNTIME_DIR; case $r in /run/user/*) " \
	"[ -e \"/var/lib/systemd/linger/$(id -un)\" ] || r=;; esac; " \
	"h=${HOME:+$HOME/.cache/espalier}; " \
	"p=/tmp/espalier-lock-$u; q=/dev/shm/espalier-lock-$u; " \
	"safe() { case $1 in \"$p\" | \"$q\") [ -d \"$1\" ] && [ ! -h \"$1\" ] && [ -O \"$1\" ] " \
	"&& " \
	"{ [ -k \"${1%/*}\" ] || [ -O \"${1%/*}\" ]; } && " \
	"case $(ls -ld \"$1\") in drwx------*) ;; *) false;; esac;; esac; }; " \
	"f=; e=; for d in \"$r\" \"$h\" \"$p\" \"$q\"; do [ -n \"$d\" ] || continue; " \
	"(umask 077; mkdir -p \"$d\") 2>/dev/null; safe \"$d\" || continue; t=$d/.try-$m-$i-$$; " \
	"w=$( (umask 077; exec 9>\"$t\" && echo try >&9 && flock -n 9) 2>&1) && f=$d/$n; " \
	"rm -f \"$t\" 2>/dev/null; [ -z \"$f\" ] || break; e=$w; done; "

static const char probe_script[] =
    "echo espalier-probe; " FIND_AGENT "echo machine $(uname -m); "
    "echo address $(echo $SSH_CONNECTION | cut -d \" \" -f 3); "
    "nvidia-smi --query-gpu=uuid,driver_version --format=csv,noheader 2>/dev/null | "
    "while read g; do echo gpu $g; done; "
    "df -Pk \"$HOME\" | tail -n 1 | { read x y z k rest; echo disk $k; }; " FIND_LOCK
    "echo lock $i $f; [ -n \"$f\" ] || echo lockless $e; "
    "[ -n \"$a\" ] && echo found $a; "
    "[ -n \"$a\" ] && echo agent $(\"$a\" --version 2>&1 | head -n 1); echo end";

/* $1: the token of the lease; $2: who looks. A run that began when the disk was not full may hold
 * its lock in another place than the one where ours would be. A host that is free is reserved for
 * 30 s, until the agent takes the lock: otherwise two runs that look at the same time would both
 * find it free. */
static const char look_script[] =
    "echo espalier-look; " FIND_LOCK
    "for d in \"$r\" \"$h\" \"$p\" \"$q\"; do [ -n \"$d\" ] && safe \"$d\" && "
    "[ -r \"$d/$n\" ] || continue; (exec 9<\"$d/$n\" || exit 5; flock -s -n 9) 2>/dev/null; "
    "[ $? != 1 ] || { echo used $(head -c 300 \"$d/$n\"); exit; }; done; "
    "[ -n \"$f\" ] || { echo free; exit; }; "
    "n=$(date +%s); at=0; of=; [ -f \"$f.next\" ] && read at of rest <\"$f.next\"; "
    "if [ \"$of\" != \"$1,\" ] && [ $((n - at)) -lt 30 ] && [ $((n - at)) -ge 0 ]; "
    "then echo used $of $rest; "
    "else echo $n \"$2\" >\"$f.next\"; echo free; fi";

/* $1: an address; $2: a port, at which nobody need listen: a firewall is what keeps silent. */
static const char route_script[] =
    "echo espalier-route; command -v bash >/dev/null || exit 0; t=$(command -v timeout); "
    "w=$( { ${t:+$t 5} bash -c \"exec 3<>/dev/tcp/$1/$2\"; } 2>&1); "
    "case $?:$w in 0:* | *refused*) ;; *) w=${w##*: }; echo shut ${w:-no answer within 5 s};; esac";

/* $1: cloud.agent, or ""; $3: who holds the lock from now on, its first word the lease. Then come
 * the words that the host appends: what starts an agent, and --keep LEASE EPOCH LINGER WHAT.
 *
 * A later connection of a session (again, rejoin) finds the lock held by its own keeper, and needs
 * nothing of the disk. A new session of the same lease must reach the agent, which ends what is
 * left of the earlier one: so it waits for the lock beside the agent, on the same open file. */
static const char agent_script[] =
    "who=$3; if [ -n \"$1\" ]; then a=$(command -v \"$1\") || "
    "{ echo \"there is no espalier-agent at $1\" >&2; exit 127; }; "
    "while [ $# -gt 0 ] && [ \"$1\" != --keep ]; do shift; done; set -- \"$a\" \"$@\"; "
    "else shift 3; fi; "
    "what=new; for what; do :; done; "
    "case $what in again | rejoin) exec \"$@\";; esac; " FIND_LOCK
    "[ -n \"$f\" ] || exec \"$@\"; exec 9>>\"$f\" || exit 74; "
    "if flock -n 9; then :; else of=; read of rest <\"$f\"; "
    "if [ \"$of\" = \"${who%% *}\" ]; then flock -w 60 9 </dev/null >/dev/null 2>&1 & "
    "else flock -w 40 9 || "
    "{ echo \"the host is used by $(head -c 300 \"$f\")\" >&2; exit 75; }; fi; fi; "
    "{ echo \"$who\" >\"$f\"; rm -f \"$f.next\"; } 2>/dev/null; exec \"$@\"";

/* One word for the shell on the host. */
static void
put_quoted(FILE *out, const char *text)
{
	(void)fputs(" '", out);
	for (; *text != '\0'; text++)
		if (*text == '\'')
			(void)fputs("'\\''", out);
		else
			(void)fputc(*text, out);
	(void)fputc('\'', out);
}

/* The line that the login shell of the host gets: a script and its arguments. */
static void
add_script(struct cloud_words *words, const char *devices, const char *script,
    const char *const arguments[3])
{
	char *line = NULL;
	size_t size;
	FILE *out = open_memstream(&line, &size);

	if (out == NULL) {
		words->failed = 1;
		return;
	}
	(void)fputs("exec env", out);
	if (devices != NULL)
		put_quoted(out, devices);
	(void)fputs(" sh -c", out);
	put_quoted(out, script);
	(void)fputs(" espalier", out);
	for (int i = 0; i < 3; i++)
		put_quoted(out, arguments[i]);
	if (fclose(out) != 0) {
		free(line);
		line = NULL;
	}
	cloud_words_take(words, line);
}

/* Options given here are stronger than the user's ssh_config; all others are its affair. */
static struct cloud_words
begin_words(const struct ssh_cloud *cloud, const struct ssh_host *host)
{
	const struct espl_value *values = cloud->config->values, *row = host->row;
	const struct espl_table *given =
	    values[SSH_OPT_SSH].source != ESPL_UNSET ? values[SSH_OPT_SSH].as.table : NULL;
	long long limit = values[SSH_OPT_LIMIT].as.i / ESPL_SECOND;
	struct cloud_words words = { NULL, 0, 0 };

	for (uint32_t i = 0; given != NULL && i < given->row_count; i++)
		cloud_words_add(&words, "%s", given->cells[i].as.s);
	if (words.count == 0)
		cloud_words_add(&words, "ssh");
	cloud_words_add(&words, "-T");
	cloud_words_add(&words, "-oBatchMode=yes");
	cloud_words_add(&words, "-oConnectTimeout=%lld", limit > 0 ? limit : 1);
	cloud_words_add(&words, "-oServerAliveInterval=10");
	cloud_words_add(&words, "-oServerAliveCountMax=3");
	cloud_words_add(&words, "-oClearAllForwardings=yes");
	cloud_words_add(&words, "-oRemoteCommand=none");    /* such as: tmux attach */
	cloud_words_add(&words, "-oPermitLocalCommand=no"); /* its output would mix with ours */
	if (row[SSH_COL_PORT].source != ESPL_UNSET)
		cloud_words_add(&words, "-oPort=%lld", (long long)row[SSH_COL_PORT].as.i);
	if (row[SSH_COL_USER].source != ESPL_UNSET)
		cloud_words_add(&words, "-oUser=%s", row[SSH_COL_USER].as.s);
	if (row[SSH_COL_KEY].source != ESPL_UNSET) {
		cloud_words_add(&words, "-i%s", row[SSH_COL_KEY].as.s);
		cloud_words_add(&words, "-oIdentitiesOnly=yes");
	}
	return words;
}

static struct cloud_words
end_words(struct cloud_words words)
{
	if (words.failed)
		cloud_words_free(&words);
	return words;
}

/* A short command: one after another they share a connection. */
static struct cloud_words
short_command(const struct ssh_cloud *cloud, const struct ssh_host *host, const char *script,
    const char *const arguments[3])
{
	struct cloud_words words = begin_words(cloud, host);

	if (cloud->folder[0] != '\0') {
		cloud_words_add(&words, "-oControlMaster=auto");
		cloud_words_add(&words, "-oControlPath=%s/%u", cloud->folder,
		    (unsigned)(host - cloud->hosts));
		cloud_words_add(&words, "-oControlPersist=60");
	}
	cloud_words_add(&words, "--");
	cloud_words_add(&words, "%s", ssh_address(host));
	add_script(&words, NULL, script, arguments);
	return end_words(words);
}

/* Where this program's own agent is: often at the same place on the host. */
static void
find_agent(const struct ssh_cloud *cloud, char path[4200], const char **otherwise)
{
	const struct espl_value *given = &cloud->config->values[SSH_OPT_AGENT];
	const char *libexec = getenv("ESPALIER_LIBEXEC");
	char self[4096], *slash;
	ssize_t size;

	*otherwise = given->source != ESPL_UNSET ? "" : "espalier-agent";
	if (given->source != ESPL_UNSET) {
		(void)snprintf(path, 4200, "%s", given->as.s);
		return;
	}
	if (libexec != NULL && libexec[0] != '\0') {
		(void)snprintf(path, 4200, "%s/espalier-agent", libexec);
		return;
	}
	size = readlink("/proc/self/exe", self, sizeof self - 1); /* in a build tree: beside it */
	self[size > 0 ? size : 0] = '\0';
	slash = strrchr(self, '/');
	if (slash != NULL) {
		*slash = '\0';
		(void)snprintf(path, 4200, "%s/espalier-agent", self);
		if (access(path, X_OK) == 0)
			return;
	}
	(void)snprintf(path, 4200, "%s/espalier-agent", SSH_LIBEXEC);
}

struct cloud_words
cloud_ssh_words_way(const struct ssh_cloud *cloud, const struct ssh_host *host)
{
	struct cloud_words words = begin_words(cloud, host);

	cloud_words_add(&words, "-G");
	cloud_words_add(&words, "--");
	cloud_words_add(&words, "%s", ssh_address(host));
	return end_words(words);
}

struct cloud_words
cloud_ssh_words_probe(const struct ssh_cloud *cloud, const struct ssh_host *host)
{
	const char *arguments[3] = { "", "", "" };
	char agent[4200];

	find_agent(cloud, agent, &arguments[1]);
	arguments[0] = agent;
	return short_command(cloud, host, probe_script, arguments);
}

/* For other runs that want the host. */
static void
name_holder(const struct ssh_cloud *cloud, const char *token, char holder[600])
{
	char machine[65] = "";

	(void)gethostname(machine, sizeof machine - 1);
	(void)snprintf(holder, 600, "%s, process %ld on %s, directory %.300s", token,
	    (long)getpid(), machine, cloud->run != NULL ? cloud->run->folder : "?");
}

struct cloud_words
cloud_ssh_words_look(const struct ssh_cloud *cloud, const struct ssh_host *host, const char *token)
{
	char holder[600];
	const char *arguments[3] = { token, holder, "" };

	name_holder(cloud, token, holder);
	return short_command(cloud, host, look_script, arguments);
}

struct cloud_words
cloud_ssh_words_route(const struct ssh_cloud *cloud, const struct ssh_host *host,
    const struct ssh_host *other)
{
	const char *arguments[3] = { other->address[0] != '\0' ? other->address
							       : ssh_address(other),
		SSH_ROUTE_PORT, "" };

	return short_command(cloud, host, route_script, arguments);
}

/* The agent uses a separate connection: a driver that loses an agent kills every process that it
 * does not know, and that includes the shared connections of short commands. */
struct cloud_words
cloud_ssh_words_agent(const struct ssh_cloud *cloud, const struct ssh_host *host,
    const struct espl_lease *lease)
{
	struct cloud_words words = begin_words(cloud, host);
	char holder[600], devices[4200];
	const struct espl_value *given = &cloud->config->values[SSH_OPT_AGENT];
	const char *arguments[3] = { given->source != ESPL_UNSET ? given->as.s : "", "", holder };

	name_holder(cloud, lease->token, holder);
	(void)snprintf(devices, sizeof devices, "ESPALIER_AGENT_DEVICES=%s",
	    lease->detail != NULL ? lease->detail : "");
	cloud_words_add(&words, "-oControlMaster=no");
	cloud_words_add(&words, "-oControlPath=none");
	cloud_words_add(&words, "--");
	cloud_words_add(&words, "%s", ssh_address(host));
	add_script(&words, lease->detail != NULL ? devices : NULL, agent_script, arguments);
	return end_words(words);
}

/* cloud_kubernetes_proxy.c - requests to the API server, through `kubectl proxy`.
 *
 * The proxy has the credentials, of every kind that kubectl knows, and renews them. It listens on a
 * Unix socket in a directory that only this user may enter.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cloud_kubernetes.h"

#define ANSWER_MOST (30 * ESPL_SECOND)
#define WATCH_MOST (300 * ESPL_SECOND)
#define PAUSE_MOST (30 * ESPL_SECOND)
#define RETRY_MOST (600 * ESPL_SECOND) /* a longer Retry-After is not believed */
#define SILENCE_TOLD (3 * ESPL_SECOND) /* shorter ones are not worth a message */
#define RENEW_PAUSE (5 * ESPL_SECOND)  /* several requests may fail for the same reason */
#define SKEW_LEAST (2 * ESPL_SECOND)   /* the header Date has whole seconds */
#define LATE_MOST 3u                   /* answers in a row, then the proxy is to blame */

/* A program that is killed cannot end its proxy: $1: its process; $2: the proxy's directory. */
static const char proxy_script[] =
    "(while kill -0 $1 2>/dev/null; do sleep 1; done; rm -rf \"$2\"; kill 0) & "
    "shift 2; exec \"$@\"";

/* ---- requests ---- */

espl_status
cloud_kubernetes_proxy_ask(struct kube_cloud *cloud, const char *method, const char *path,
    json_t *body, uint64_t cookie)
{
	static const char *const headers[] = { "Content-Type: application/json" };
	struct espl_http request = ESPL_INIT(struct espl_http);
	char *text = body != NULL ? json_dumps(body, JSON_COMPACT) : NULL, *url = NULL;
	espl_status status = ESPL_E_NOMEM;

	if (cloud->started && !cloud->proxying)
		cloud_kubernetes_proxy_renew(cloud);
	if ((body == NULL || text != NULL) && asprintf(&url, "http://localhost%s", path) >= 0) {
		request.method = method;
		request.url = url;
		request.headers = headers;
		request.header_count = body != NULL;
		request.body = text;
		request.body_size = text != NULL ? strlen(text) : 0;
		request.limit = ANSWER_MOST;
		request.cookie = cookie;
		request.socket = cloud->socket;
		if (cookie % 16 == KUBE_ASK_WATCH) {
			request.lines = 1;
			request.limit = WATCH_MOST;
		}
		status = cloud->io->http(cloud->io, &request, NULL);
		free(url);
	}
	free(text);
	json_decref(body);
	return status;
}

/* ---- the proxy ---- */

espl_status
cloud_kubernetes_proxy_run(const struct kube_cloud *cloud, const char *const *words, uint32_t count,
    uint64_t cookie, espl_span limit)
{
	struct espl_spawn spawn = ESPL_INIT(struct espl_spawn);
	const char *argv[16];
	char context[KUBE_NAME + 20];
	uint32_t used = 0;

	for (uint32_t i = 0; i < count; i++)
		argv[used++] = words[i];
	if (kube_text(cloud, KUBE_OPT_CONTEXT)[0] != '\0' ||
	    (cloud->context != NULL && cloud->context[0] != '\0')) {
		(void)snprintf(context, sizeof context, "--context=%s",
		    cloud->context != NULL ? cloud->context : kube_text(cloud, KUBE_OPT_CONTEXT));
		argv[used++] = context;
	}
	spawn.argc = used;
	spawn.argv = argv;
	spawn.limit = limit;
	spawn.cookie = cookie;
	return cloud->io->spawn(cloud->io, &spawn, NULL);
}

static espl_status
start_proxy(struct kube_cloud *cloud)
{
	char pid[32], socket[KUBE_NAME];
	const char *words[] = { "sh", "-c", proxy_script, "espalier", pid, cloud->folder,
		kube_text(cloud, KUBE_OPT_KUBECTL), "proxy", socket };
	espl_status status;

	(void)snprintf(pid, sizeof pid, "%ld", (long)getpid());
	(void)snprintf(socket, sizeof socket, "--unix-socket=%s", cloud->socket);
	status = cloud_kubernetes_proxy_run(cloud, words, 9, KUBE_ASK_PROXY, 0);
	cloud->proxying = status == ESPL_OK;
	cloud->renewed = kube_now(cloud);
	cloud->late = 0;
	return status;
}

const char *
cloud_kubernetes_proxy_open(struct kube_cloud *cloud)
{
	const char *parent = getenv("TMPDIR");

	if (parent == NULL || parent[0] != '/' || strlen(parent) > 30)
		parent = "/tmp";
	(void)snprintf(cloud->folder, sizeof cloud->folder, "%s/espalier-kube-XXXXXX", parent);
	if (mkdtemp(cloud->folder) == NULL) {
		cloud->folder[0] = '\0';
		return strerror(errno);
	}
	(void)snprintf(cloud->socket, sizeof cloud->socket, "%s/s", cloud->folder);
	return start_proxy(cloud) == ESPL_OK ? NULL : "kubectl cannot be started";
}

void
cloud_kubernetes_proxy_renew(struct kube_cloud *cloud)
{
	if (cloud->proxying)
		cloud->io->cancel(cloud->io, KUBE_ASK_PROXY);
	(void)start_proxy(cloud);
}

void
cloud_kubernetes_proxy_ended(struct kube_cloud *cloud, const struct espl_child *child)
{
	cloud->proxying = 0;
	cloud_kubernetes_proxy_last(cloud->proxy_end, child->err);
}

void
cloud_kubernetes_proxy_close(struct kube_cloud *cloud)
{
	if (cloud->folder[0] == '\0')
		return;
	(void)unlink(cloud->socket);
	(void)rmdir(cloud->folder);
	cloud->folder[0] = '\0';
}

/* kubectl's own words for a failure; what follows them is advice, and addresses of manuals. */
static int
is_complaint(const char *line)
{
	static const char *const heads[] = { "error: ", "Error from server", "Unable to connect ",
		"The connection to the server " };

	for (size_t i = 0; i < sizeof heads / sizeof heads[0]; i++)
		if (strncmp(line, heads[i], strlen(heads[i])) == 0)
			return 1;
	return 0;
}

/* The last line in which kubectl complains; without one, the last line that is not empty. */
void
cloud_kubernetes_proxy_last(char to[KUBE_TEXT], const char *text)
{
	const char *chosen = "", *next;
	size_t length;

	for (const char *line = text; *line != '\0'; line = next) {
		length = strcspn(line, "\n");
		next = line + length + (line[length] == '\n');
		if (strspn(line, " \t\r") < length && (is_complaint(line) || !is_complaint(chosen)))
			chosen = line;
	}
	length = strcspn(chosen, "\n");
	while (length > 0 && chosen[length - 1] == ' ')
		length--;
	if (length >= KUBE_TEXT)
		length = KUBE_TEXT - 1;
	memcpy(to, chosen, length);
	to[length] = '\0';
	for (char *c = to; *c != '\0'; c++)
		if ((unsigned char)*c < ' ' || *c == 127)
			*c = '?';
}

/* ---- what replies say of the server ---- */

/* "Tue, 24 Nov 2026 04:00:10 GMT"; 0: it is none. */
static int64_t
read_date(const char *text)
{
	static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
	struct tm tm = { .tm_isdst = 0 };
	char month[4] = "";
	const char *at;

	if (sscanf(text, " %*3[A-Za-z], %d %3[A-Za-z] %d %d:%d:%d GMT", &tm.tm_mday, month,
		&tm.tm_year, &tm.tm_hour, &tm.tm_min, &tm.tm_sec) != 6 ||
	    strlen(month) != 3 || (at = strstr(months, month)) == NULL)
		return 0;
	tm.tm_mon = (int)((at - months) / 3);
	tm.tm_year -= 1900;
	return (int64_t)timegm(&tm);
}

/* Time limits of pods are by the clocks of the cluster. */
static void
note_clock(struct kube_cloud *cloud, const struct espl_http_reply *reply)
{
	for (uint32_t i = 0; i < reply->header_count; i++) {
		int64_t date = strncasecmp(reply->headers[i], "Date:", 5) == 0
		    ? read_date(reply->headers[i] + 5)
		    : 0;

		if (date == 0)
			continue;
		cloud->skew = date * ESPL_SECOND + ESPL_SECOND / 2 - cloud->io->utc_ns(cloud->io);
		if (cloud->skew < SKEW_LEAST && cloud->skew > -SKEW_LEAST)
			cloud->skew = 0;
	}
}

/* What waits for something that only the server can report has waited less. */
static void
end_silence(struct kube_cloud *cloud)
{
	espl_span silent = kube_now(cloud) - cloud->silent;
	char line[100];

	for (struct kube_lease *lease = cloud->leases; lease != NULL; lease = lease->next) {
		if (lease->stage != KUBE_STAGE_NEW)
			lease->since_stage += silent;
		if (lease->failing != ESPL_NEVER)
			lease->failing += silent;
	}
	cloud->silent = ESPL_NEVER;
	if (!cloud->silence_reported)
		return;
	cloud->silence_reported = 0;
	(void)snprintf(line, sizeof line, "the API server answers again after %lld s",
	    (long long)(silent / ESPL_SECOND));
	cloud->host->log(cloud->host, ESPL_WARN, line);
}

void
cloud_kubernetes_proxy_note(struct kube_cloud *cloud, const struct espl_http_reply *reply)
{
	if (reply->status == ESPL_E_LIMIT)
		cloud->late++;
	else if (reply->status == ESPL_OK)
		cloud->late = 0;
	if (cloud->late >= LATE_MOST && cloud->started) {
		cloud->host->log(cloud->host, ESPL_WARN,
		    "kubectl proxy does not answer in time; starting another one");
		cloud_kubernetes_proxy_renew(cloud);
	}
	if (reply->status != ESPL_OK)
		return;
	note_clock(cloud, reply);
	if (reply->code == 401 || reply->code == 429 || reply->code >= 500)
		return;
	cloud->proxy_end[0] = '\0';
	if (cloud->silent != ESPL_NEVER)
		end_silence(cloud);
}

/* A failure that waiting may mend. One alone is not worth a message. */
static void
note_silence(struct kube_cloud *cloud, enum kube_class class, uint32_t code, const char *text)
{
	char line[KUBE_TEXT + 120];
	int what = class == KUBE_LOGIN ? 2 : 1;

	if (cloud->silent == ESPL_NEVER)
		cloud->silent = kube_now(cloud);
	if (cloud->silence_reported >= what ||
	    (class != KUBE_LOGIN && kube_now(cloud) - cloud->silent < SILENCE_TOLD))
		return;
	cloud->silence_reported = what;
	(void)snprintf(line, sizeof line, "%s%s; waiting for it%s",
	    class == KUBE_LOGIN ? ""
		: code == 0     ? "the API server does not answer: "
		: code == 429   ? "the API server limits the rate of requests: "
				: "the API server reports a fault of its own: ",
	    text, cloud->started ? ", the pods keep running" : "");
	cloud->host->log(cloud->host, ESPL_WARN, line);
}

/* The words of libcurl would name a port that nobody has. */
static int
lacks_socket(const struct kube_cloud *cloud)
{
	return access(cloud->socket, F_OK) != 0;
}

enum kube_class
cloud_kubernetes_proxy_failure(struct kube_cloud *cloud, const struct espl_http_reply *reply,
    char text[KUBE_TEXT])
{
	enum kube_class class =
	    cloud_kubernetes_pod_class(reply->code, reply->body, reply->body_size, text);

	if (reply->code == 0)
		(void)snprintf(text, KUBE_TEXT, "%s",
		    cloud->proxy_end[0] != '\0' ? cloud->proxy_end
			: lacks_socket(cloud)   ? "kubectl proxy has not opened its socket (it may "
						  "wait for a login)"
						: reply->text);
	if (class == KUBE_LATER || class == KUBE_LOGIN)
		note_silence(cloud, class, reply->code, text);
	if (class == KUBE_LOGIN && cloud->started &&
	    kube_now(cloud) - cloud->renewed >= RENEW_PAUSE)
		cloud_kubernetes_proxy_renew(cloud);
	if (class == KUBE_RIGHT && cloud->started && strcmp(cloud->lacks, text) != 0) {
		(void)snprintf(cloud->lacks, sizeof cloud->lacks, "%s", text);
		cloud->host->log(cloud->host, ESPL_WARN, text);
	}
	return class;
}

espl_span
cloud_kubernetes_proxy_pause(struct kube_cloud *cloud, uint32_t tries,
    const struct espl_http_reply *reply)
{
	espl_span pause = ESPL_SECOND << (tries < 5 ? tries : 5);

	if (pause > PAUSE_MOST)
		pause = PAUSE_MOST;
	pause = pause / 2 + (espl_span)(cloud->host->random(cloud->host) % (uint64_t)(pause / 2));
	for (uint32_t i = 0; reply != NULL && i < reply->header_count; i++)
		if (strncasecmp(reply->headers[i], "Retry-After:", 12) == 0) {
			espl_span wanted = strtol(reply->headers[i] + 12, NULL, 10) * ESPL_SECOND;

			if (wanted > pause && wanted <= RETRY_MOST)
				pause = wanted;
		}
	return pause;
}

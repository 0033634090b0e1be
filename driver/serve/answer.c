/* answer.c - pages, data, logs, commands: what each address answers. */
#include "base/assert.h"
#include "serve/server.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/ids.h"
#include "base/json.h"
#include "base/tick.h"
#include "report/report_page.h"

#define LOG_MOST ((size_t)1 << 17)   /* bytes of a log */
#define OUTPUT_MAX ((size_t)1 << 16) /* of a command */

/* A page runs our own scripts and talks to us alone. */
static const char policy[] =
    "default-src 'none'; script-src 'self'; connect-src 'self'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

static enum MHD_Result
add_headers(const struct espl__request *r, const char *type, struct MHD_Response *response)
{
	const char *const headers[][2] = { { "Content-Type", type },
		{ "Content-Security-Policy", policy }, { "X-Content-Type-Options", "nosniff" },
		{ "Referrer-Policy", "no-referrer" }, { "Cache-Control", "no-store" },
		{ "Cross-Origin-Resource-Policy", "same-origin" } };
	char cookie[160];
	enum MHD_Result good = MHD_YES;

	for (size_t i = 0; good == MHD_YES && i < sizeof headers / sizeof headers[0]; i++)
		good = MHD_add_response_header(response, headers[i][0], headers[i][1]);
	if (good == MHD_YES && r->set_token) {
		/* A browser sends cookies to every port of a host: the path, which no other server
		 * knows, keeps this one here. */
		(void)snprintf(cookie, sizeof cookie,
		    "espalier=%s; Path=/%s/; HttpOnly; SameSite=Strict", r->server->token,
		    r->server->room);
		good = MHD_add_response_header(response, "Set-Cookie", cookie);
	}
	return good;
}

/* Destroys the response. */
static enum MHD_Result
send_response(struct espl__request *r, unsigned status, const char *type,
    struct MHD_Response *response)
{
	enum MHD_Result result = MHD_NO;

	ESPL__CHECK(r->server, SERVER);
	if (response == NULL)
		return MHD_NO;
	if (add_headers(r, type, response) == MHD_YES)
		result = MHD_queue_response(r->connection, status, response);
	MHD_destroy_response(response);
	return result;
}

static enum MHD_Result
send_bytes(struct espl__request *r, unsigned status, const char *type, const void *bytes,
    size_t size)
{
	return send_response(r, status, type,
	    MHD_create_response_from_buffer(size, (void *)(uintptr_t)bytes, MHD_RESPMEM_MUST_COPY));
}

enum MHD_Result
espl__answer_text(struct espl__request *r, unsigned status, const char *text)
{
	return send_bytes(r, status, "text/plain; charset=utf-8", text, strlen(text));
}

/* Up to the mark, which is left out; returns what follows it. */
static const char *
put_until(struct espl__buf *b, const char *page, const char *mark)
{
	const char *end = strstr(page, mark);

	ESPL__ASSERT(end != NULL);
	espl__put(b, page, (size_t)(end - page));
	return end + strlen(mark);
}

/* The page of `espalier report` without data, and with its script in a file of its own; what
 * live.js needs to know stands where the data would. */
static enum MHD_Result
send_page(struct espl__request *r, int of_run)
{
	struct espl__buf b = { NULL, 0, 0 };
	const char *rest = put_until(&b, espl__report_page, "@TITLE@"), *up = of_run ? "../" : "";
	enum MHD_Result result;

	rest = put_until(&b, rest, "</head>");
	espl__print(&b,
	    "<link rel=\"stylesheet\" href=\"%slive.css\">\n"
	    "<link rel=\"icon\" href=\"data:,\">\n</head>",
	    up);
	rest = put_until(&b, rest, "@DATA@");
	espl__print(&b, "{\"control\":");
	espl__print_json(&b, r->server->setup->control ? r->server->key : NULL);
	espl__print(&b, ",\"run\":");
	espl__print(&b, of_run ? "%u}" : "null}", r->route.run);
	rest = put_until(&b, rest, "@SUMMARY@");
	espl__print(&b,
	    "Reading ... (If this stays, the scripts of the page were refused: was it opened "
	    "through a proxy, or at another address than the one that was printed?)");
	rest = put_until(&b, rest, "<script>");
	espl__print(&b, "<script src=\"%sreport.js\"></script>\n", up);
	espl__print(&b, "<script src=\"%slive.js\"></script>", up);
	rest = strstr(rest, "</script>");
	ESPL__ASSERT(rest != NULL);
	espl__print(&b, "%s", rest + strlen("</script>"));
	result = send_bytes(r, MHD_HTTP_OK, "text/html; charset=utf-8", b.data, b.size);
	espl__buf_free(&b);
	return result;
}

void
espl__answer_scripts(struct espl__server *server)
{
	struct espl__buf skipped = { NULL, 0, 0 };
	const char *script = put_until(&skipped, espl__report_page, "<script>");

	ESPL__CHECK(server, SERVER);
	/* Its last statement draws what is in the page; here live.js draws. */
	(void)put_until(&server->draw_script, script, "\ndraw(JSON.parse(");
	espl__print(&server->draw_script, "\n");
	espl__buf_free(&skipped);
}

static enum MHD_Result
send_rows(struct espl__request *r)
{
	struct espl__buf b = { NULL, 0, 0 };
	enum MHD_Result result;

	espl__watch_all(r->server->watch);
	espl__print(&b, "{\"rows\":[");
	for (uint32_t i = 0; i < espl__watch_count(r->server->watch); i++)
		espl__print(&b, "%s%s", i > 0 ? ",\n" : "", espl__watch_row(r->server->watch, i));
	espl__print(&b, "]}\n");
	result = send_bytes(r, MHD_HTTP_OK, "application/json", b.data, b.size);
	espl__buf_free(&b);
	return result;
}

static enum MHD_Result
suspend_request(struct espl__request *r)
{
	r->suspended = 1;
	r->since = espl__tick();
	MHD_suspend_connection(r->connection);
	return MHD_YES;
}

/* The page that there is, perhaps not the latest: an event tells of the next. */
static enum MHD_Result
send_data(struct espl__request *r)
{
	size_t size;
	int page;

	espl__watch_one(r->server->watch, r->route.run);
	page = espl__watch_page(r->server->watch, r->route.run, &size);
	if (page < 0 && r->server->ending)
		return espl__answer_text(r, MHD_HTTP_SERVICE_UNAVAILABLE, "espalier serve ends.\n");
	if (page < 0)
		return suspend_request(r);
	return send_response(r, MHD_HTTP_OK, "application/json",
	    MHD_create_response_from_fd64(size, page));
}

/* ---- the end of a trial's log --------------------------------------------------------------- */

/* Each step of the path for itself: a trial may have put a link anywhere. */
static int
open_log(const char *dir, uint64_t trial)
{
	char *path = espl__trial_dir(".", trial), *rest = path, *part;
	int at = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC), next;

	while (at >= 0 && (part = strsep(&rest, "/")) != NULL) {
		next = openat(at, part, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		(void)close(at);
		at = next;
	}
	free(path);
	if (at < 0)
		return -1;
	next = openat(at, "log", O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	(void)close(at);
	return next;
}

static espl_status
read_tail(int fd, size_t most, struct espl__buf *to, struct espl__diag *diag)
{
	struct stat st;
	off_t from;
	ssize_t n = 1;
	const uint8_t *line;
	size_t cut;

	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return espl__fail(diag, ESPL_E_UNKNOWN, "the log is not a file");
	from = st.st_size > (off_t)most ? st.st_size - (off_t)most : 0;
	espl__buf_reserve(to, most);
	while (n > 0 && to->size < most) {
		n = pread(fd, to->data + to->size, most - to->size, from + (off_t)to->size);
		if (n < 0)
			return espl__fail_errno(diag, "cannot read the log");
		to->size += (size_t)n;
	}
	line = from > 0 ? memchr(to->data, '\n', to->size) : NULL;
	if (line != NULL) {
		cut = (size_t)(line + 1 - to->data);
		memmove(to->data, to->data + cut, to->size - cut);
		to->size -= cut;
	}
	return ESPL_OK;
}

espl_status
espl__tail_log(const char *dir, uint64_t trial, size_t most, struct espl__buf *to,
    struct espl__diag *diag)
{
	ESPL__ASSERT(most > 0);
	char name[48];
	int fd = open_log(dir, trial);
	espl_status status;

	if (fd < 0)
		return espl__fail(diag, ESPL_E_UNKNOWN, "trial %s has no log: %s",
		    espl__trial_name(trial, name), strerror(errno));
	status = read_tail(fd, most, to, diag);
	(void)close(fd);
	return status;
}

static enum MHD_Result
send_log(struct espl__request *r)
{
	struct espl__buf text = { NULL, 0, 0 };
	struct espl__diag diag = ESPL__DIAG_INIT;
	enum MHD_Result result;

	if (espl__tail_log(espl__watch_dir(r->server->watch, r->route.run), r->route.trial,
		LOG_MOST, &text, &diag) == ESPL_OK)
		result =
		    send_bytes(r, MHD_HTTP_OK, "text/plain; charset=utf-8", text.data, text.size);
	else
		result = espl__answer_text(r, MHD_HTTP_NOT_FOUND, diag.text);
	espl__buf_free(&text);
	return result;
}

static enum MHD_Result
send_events(struct espl__request *r, int all)
{
	return send_response(r, MHD_HTTP_OK, "text/event-stream", espl__feed_open(r, all));
}

/* ---- cancel, submit and stop ----------------------------------------------------------------- */

/* Begins cancel, submit or stop of this program, called as in a shell; 0, or -1. */
static int
begin_command(struct espl__request *r)
{
	const char *verb = r->route.place == ESPL__PLACE_STOP ? "stop"
	    : r->route.place == ESPL__PLACE_CANCEL            ? "cancel"
							      : "submit";
	const char *plugins = r->server->setup->plugin_path;
	const char *argv[8];
	uint32_t count = 0, busy = 0;
	int kept = -1, status;

	ESPL__ASSERT(espl__route_posts(r->route.place));
	for (const struct espl__request *o = r->server->requests; o != NULL; o = o->next)
		busy += o->command.pid > 0;
	if (busy >= ESPL__SERVE_COMMANDS)
		return -1;
	argv[count++] = "espalier";
	if (plugins != NULL) {
		argv[count++] = "-P";
		argv[count++] = plugins;
	}
	argv[count++] = verb;
	argv[count++] = "--"; /* ends the options */
	argv[count++] = espl__watch_dir(r->server->watch, r->route.run);
	if (r->route.place != ESPL__PLACE_STOP)
		argv[count++] = espl__buf_text(&r->value);
	argv[count] = NULL;
	status = espl__child_fork(&r->command, &kept, 0);
	if (status != 1)
		return status;
	if (dup2(r->command.out, STDOUT_FILENO) < 0 || dup2(r->command.out, STDERR_FILENO) < 0)
		_exit(1);
	(void)close(r->command.out);
	(void)execv("/proc/self/exe", (char *const *)(uintptr_t)argv);
	_exit(1);
}

/* The output of the command, once it has ended. */
static struct MHD_Response *
wrap_output(struct espl__request *r)
{
	struct espl__buf output = { NULL, 0, 0 }, b = { NULL, 0, 0 };
	struct MHD_Response *response;

	ESPL__ASSERT(r->command.out >= 0);
	if (lseek(r->command.out, 0, SEEK_SET) == 0)
		(void)espl__fd_read(r->command.out, "the output", OUTPUT_MAX, &output, NULL);
	espl__print(&b, "{");
	espl__json_bool(&b, "done", r->command.well);
	espl__json_text(&b, "text", espl__buf_text(&output));
	espl__print(&b, "}\n");
	response = MHD_create_response_from_buffer(b.size, b.data, MHD_RESPMEM_MUST_COPY);
	espl__buf_free(&output);
	espl__buf_free(&b);
	return response;
}

/* Called again when the command has ended. */
static enum MHD_Result
run_command(struct espl__request *r)
{
	if (r->command.out >= 0)
		return send_response(r, r->command.well ? MHD_HTTP_OK : MHD_HTTP_CONFLICT,
		    "application/json", wrap_output(r));
	if (r->route.place != ESPL__PLACE_STOP && r->value.size == 0)
		return espl__answer_text(r, MHD_HTTP_BAD_REQUEST,
		    "The form must have a field 'value' of at most 4096 bytes.\n");
	if (begin_command(r) != 0)
		return espl__answer_text(r, MHD_HTTP_SERVICE_UNAVAILABLE,
		    "Too many commands are running; try again.\n");
	return suspend_request(r);
}

/* ---- all ------------------------------------------------------------------------------------- */

enum MHD_Result
espl__request_answer(struct espl__request *r)
{
	switch (r->route.place) {
	case ESPL__PLACE_INDEX: return send_page(r, 0);
	case ESPL__PLACE_RUN: return send_page(r, 1);
	case ESPL__PLACE_RUNS: return send_rows(r);
	case ESPL__PLACE_EVENTS: return send_events(r, 1);
	case ESPL__PLACE_RUN_EVENTS: return send_events(r, 0);
	case ESPL__PLACE_RUN_DATA: return send_data(r);
	case ESPL__PLACE_LOG: return send_log(r);
	case ESPL__PLACE_LIVE_SCRIPT:
		return send_bytes(r, MHD_HTTP_OK, "text/javascript; charset=utf-8",
		    espl__live_script, strlen(espl__live_script));
	case ESPL__PLACE_LIVE_STYLE:
		return send_bytes(r, MHD_HTTP_OK, "text/css; charset=utf-8", espl__live_style,
		    strlen(espl__live_style));
	case ESPL__PLACE_DRAW_SCRIPT:
		return send_bytes(r, MHD_HTTP_OK, "text/javascript; charset=utf-8",
		    r->server->draw_script.data, r->server->draw_script.size);
	default: return run_command(r);
	}
}

/* command.c - cancel, submit and stop: this program, called as in a shell. */
#include "base/assert.h"
#include "serve/server.h"

#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"

#define OUTPUT_MAX ((size_t)1 << 16)

int
espl__command_begin(struct espl__request *r)
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
	argv[count++] = "--"; /* what follows is no option */
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

struct MHD_Response *
espl__command_response(struct espl__request *r)
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

/* verb_serve.c - serve: the report of runs as live pages. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/json.h"
#include "base/mem.h"
#include "cli/cli.h"
#include "cli/static_plan.h"
#include "config.h"
#include "serve/serve.h"

#ifdef HAVE_MICROHTTPD
static espl_status
draw_run(struct espl__reading *r, const char *dir, int kept, FILE *to, struct espl__diag *diag)
{
	struct espl__buf queue = { NULL, 0, 0 };
	struct espl__report_fixed fixed = { .why_not = NULL };
	struct espl__arena arena = { NULL };
	char *config = espl__format("%s/run.cfg", dir);
	int planned = espl__static_plan_asked(r);
	espl_status status = ESPL_OK;

	if (espl__reading_pool(r))
		status = espl__reading_queue(r, 1, &queue, diag);
	else
		espl__print(&queue, "null");
	if (planned && lseek(kept, 0, SEEK_END) == 0)
		espl__static_plan_find(config, kept);
	if (planned)
		espl__static_plan_read(kept, &arena, &fixed);
	if (status == ESPL_OK) {
		fprintf(to, "{\"queue\":%s,\"report\":", espl__buf_text(&queue));
		status = espl__report_data(r, planned ? &fixed : NULL, 0, to, diag);
		fprintf(to, "}\n");
	}
	espl__arena_free(&arena);
	espl__buf_free(&queue);
	free(config);
	return status;
}

/* {"queue": ..., "report": ...}, or {"error": ..., "hint": ...} */
static void
draw_page(const char *dir, int kept, FILE *to)
{
	struct espl__diag diag = ESPL__DIAG_INIT;
	struct espl__buf b = { NULL, 0, 0 };
	struct espl__reading *r;
	espl_status status = espl__reading_open(dir, &r, &diag);

	if (status == ESPL_OK)
		status = draw_run(r, dir, kept, to, &diag);
	espl__reading_free(r);
	if (status == ESPL_OK)
		return;
	if (fflush(to) == 0 && ftruncate(fileno(to), 0) == 0)
		rewind(to);
	espl__print(&b, "{");
	espl__json_text(&b, "error", diag.text);
	espl__json_text(&b, "hint", diag.hint);
	fprintf(to, "%s}\n", espl__buf_text(&b));
	espl__buf_free(&b);
}

static void
print_address(const char *address, uint16_t port, uint32_t runs)
{
	printf("Serving %u run%s on this machine only, until Ctrl-C.  Open:\n\n  %s\n\n"
	       "From another machine, connect first: ssh -L %u:127.0.0.1:%u THIS_HOST\n",
	    runs, runs == 1 ? "" : "s", address, port, port);
	(void)fflush(stdout);
}
#endif

int
espl__verb_serve(const struct espl__args *args)
{
	struct espl__diag diag = ESPL__DIAG_INIT;
	int64_t port;
	espl_status status = espl__arg_number(args, "port", 1, 65535, 0, &port, &diag);
#ifdef HAVE_MICROHTTPD
	static const char *const here[] = { "." };
	struct espl__serve_setup setup = { .dirs = args->count > 0 ? args->positional : here,
		.count = args->count > 0 ? args->count : 1,
		.port = (uint16_t)port,
		.control = espl__arg(args, "control") != NULL,
		.plugin_path = args->plugin_path,
		.ended = &espl__interrupts,
		.draw = draw_page,
		.ready = print_address };

	espl__interrupt_catch();
	if (status == ESPL_OK)
		status = espl__serve(&setup, &diag);
#else
	if (status == ESPL_OK) {
		status = espl__fail(&diag, ESPL_E_UNSUPPORTED,
		    "this espalier was built without `serve`, which needs libmicrohttpd");
		espl__hint(&diag,
		    "install it (Debian: libmicrohttpd-dev) and build again; `espalier report` "
		    "writes the same page to a file");
	}
#endif
	return status == ESPL_OK ? ESPL__EXIT_DONE : espl__cli_fail(&diag);
}

/* real_ship.c - files that are sent to a node without espalier: the agent, the worker, the reader
 * of unchanged scripts' output, their libraries, and the trainables of the run that are files.
 *
 * All of them go into one directory of the node's cache, named after the digest of its contents. A
 * node that has the same files in the same places, on a shared disk, is sent nothing.
 */
#include "base/assert.h"
#include "real/real.h"
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/tick.h"
#include "config.h"
#include "node/session/ship.h"
#include "plugin/registry.h"
#include "real/real_ship_script.h"
#include "real/sigv4.h"

#define FILE_MOST ((size_t)1 << 30)
#define REFUSED_ROOM 480

struct cargo {
	struct espl__buf each;  /* the body of the script's function */
	struct espl__buf files; /* for --ship: DIGEST NUL PATH NUL ... */
	struct espl__buf names; /* what the name of the directory is the digest of */
};

/* One word for the shell. */
static void
put_quoted(struct espl__buf *to, const char *text)
{
	espl__print(to, "'");
	for (; *text != '\0'; text++)
		espl__print(to, *text == '\'' ? "'\\''" : "%c", *text);
	espl__print(to, "'");
}

static espl_status
add_file(struct cargo *cargo, const char *name, const char *path, struct espl__diag *diag)
{
	struct espl__buf bytes = { NULL, 0, 0 };
	char digest[65];
	espl_status status = espl__file_read(path, FILE_MOST, &bytes, diag);

	if (status == ESPL_OK) {
		espl__sha256(bytes.data, bytes.size, digest);
		espl__print(&cargo->each, "\"$1\" %s %zu ", digest, bytes.size);
		put_quoted(&cargo->each, name);
		espl__print(&cargo->each, " ");
		put_quoted(&cargo->each, path);
		espl__print(&cargo->each, " || return\n");
		espl__put(&cargo->files, digest, sizeof digest);
		espl__put(&cargo->files, path, strlen(path) + 1);
		espl__print(&cargo->names, "%s %s\n", digest, name);
	}
	espl__buf_free(&bytes);
	return status;
}

/* Those of the C library come with the loader and belong to the machine. */
static int
is_of_libc(const char *name)
{
	static const char *const names[] = { "linux-", "ld-", "libc.so", "libm.so", "libdl.so",
		"libpthread.so", "librt.so", "libresolv.so" };

	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
		if (strncmp(name, names[i], strlen(names[i])) == 0)
			return 1;
	return 0;
}

/* The loader itself prints which libraries it finds, as ldd does: "NAME => PATH (ADDRESS)". */
static espl_status
add_libraries(struct cargo *cargo, const char *program, struct espl__diag *diag)
{
	struct espl__buf command = { NULL, 0, 0 };
	char line[4096];
	espl_status status = ESPL_OK;
	FILE *out;

	espl__print(&command, "LD_TRACE_LOADED_OBJECTS=1 ");
	put_quoted(&command, program);
	out = popen(espl__buf_text(&command), "re");
	if (out == NULL)
		status = espl__fail_errno(diag, "cannot start '%s'", program);
	while (status == ESPL_OK && fgets(line, sizeof line, out) != NULL) {
		char *name = line + strspn(line, " \t"), *path = strstr(name, " => "), *end, *to;

		end = path != NULL ? strstr(path, " (0x") : NULL;
		if (end == NULL || is_of_libc(name))
			continue;
		*path = *end = '\0';
		to = espl__format("lib/%s", name);
		if (strstr(espl__buf_text(&cargo->names), to) == NULL)
			status = add_file(cargo, to, path + 4, diag);
		free(to);
	}
	if (out != NULL)
		(void)pclose(out);
	espl__buf_free(&command);
	return status;
}

static espl_status
add_trainable(struct cargo *cargo, const struct espl__inputs *search, struct espl__diag *diag)
{
	const struct espl__plugin *plugin;
	const char *trainable = search->config->trial.trainable, *slash;
	espl_status status;
	char *to;

	if (trainable == NULL)
		return ESPL_OK;
	status = espl__plugin_find(ESPL_TRAINABLE, trainable, &plugin, diag);
	slash = status == ESPL_OK ? strrchr(plugin->path, '/') : NULL;
	if (slash == NULL) /* it is part of the worker */
		return status;
	to = espl__format("plugins%s", slash);
	if (strstr(espl__buf_text(&cargo->names), to) == NULL)
		status = add_file(cargo, to, plugin->path, diag);
	free(to);
	return status;
}

/* Of a pool: those of the experiments that are known by now. */
static espl_status
add_trainables(struct espl__real *real, struct cargo *cargo, struct espl__diag *diag)
{
	const struct espl__inputs *search;
	espl_status status = ESPL_OK;

	real->shipped = 0;
	if (!real->config->pool)
		return add_trainable(cargo, real->own, diag);
	while (status == ESPL_OK &&
	    (search = espl__exec_search_of(real->world.exec, real->shipped)) != NULL) {
		status = add_trainable(cargo, search, diag);
		real->shipped++;
	}
	return status;
}

static espl_status
write_ship(struct espl__real *real, struct cargo *cargo, const char *agent, struct espl__diag *diag)
{
	struct espl__buf text = { NULL, 0, 0 };
	struct utsname machine;
	char digest[65], *path = espl__format("%s/ship", real->dir);
	espl_status status;

	espl__sha256(cargo->names.data, cargo->names.size, digest);
	espl__print(&text, "v=%s-%.16s version=%s machine=%s own=", PACKAGE_VERSION, digest,
	    PACKAGE_VERSION, uname(&machine) == 0 ? machine.machine : "?");
	put_quoted(&text, agent);
	espl__print(&text, "\neach() {\n%s}\n%sship_main \"$@\"\n", espl__buf_text(&cargo->each),
	    ship_script);
	espl__put(&text, "", 1);
	espl__put(&text, cargo->files.data, cargo->files.size);
	status = espl__file_write(path, text.data, text.size, diag);
	espl__buf_free(&text);
	if (status == ESPL_OK)
		real->ship = path;
	else
		free(path);
	return status;
}

const char *
espl__real_ship(struct espl__real *real, struct espl__diag *diag)
{
	struct cargo cargo = { 0 };
	char *agent, *courier, *listen, *warm, *worker;
	espl_status status;

	ESPL__CHECK(real, REAL);
	if (real->ship != NULL &&
	    (!real->config->pool || espl__exec_search_of(real->world.exec, real->shipped) == NULL))
		return real->ship;
	espl__real_ship_free(real);
	agent = espl__format("%s/espalier-agent", espl__libexec());
	courier = espl__format("%s/espalier-courier", espl__libexec());
	listen = espl__format("%s/espalier-listen", espl__libexec());
	warm = espl__format("%s/espalier-warm", espl__libexec());
	worker = espl__format("%s/espalier-worker", espl__libexec());
	status = add_file(&cargo, "espalier-agent", agent, diag);
	if (status == ESPL_OK)
		status = add_file(&cargo, "espalier-worker", worker, diag);
	if (status == ESPL_OK)
		status = add_file(&cargo, "espalier-listen", listen, diag);
	if (status == ESPL_OK)
		status = add_file(&cargo, "espalier-warm", warm, diag);
	if (status == ESPL_OK && real->s3 != NULL)
		status = add_file(&cargo, "espalier-courier", courier, diag);
	if (status == ESPL_OK)
		status = add_libraries(&cargo, worker, diag);
	if (status == ESPL_OK)
		status = add_libraries(&cargo, listen, diag);
	if (status == ESPL_OK && real->s3 != NULL)
		status = add_libraries(&cargo, courier, diag);
	if (status == ESPL_OK)
		status = add_trainables(real, &cargo, diag);
	if (status == ESPL_OK)
		(void)write_ship(real, &cargo, agent, diag);
	espl__buf_free(&cargo.each);
	espl__buf_free(&cargo.files);
	espl__buf_free(&cargo.names);
	free(agent);
	free(courier);
	free(listen);
	free(warm);
	free(worker);
	return real->ship;
}

int
espl__real_ship_line(struct espl__ragent *agent, const char *line, size_t length)
{
	const size_t note = sizeof ESPL__SHIP_NOTE - 1, refused = sizeof ESPL__SHIP_REFUSED - 1;
	const char *name = agent->lease->provider_id;

	if (length >= note && memcmp(line, ESPL__SHIP_NOTE, note) == 0) {
		if (agent->state == ESPL__AGENT_HELLO) /* it is at work */
			agent->deadline = espl__tick() + ESPL__REAL_HELLO_LIMIT;
		if (length > note)
			espl__log(ESPL_INFO, "node %llu: %.*s",
			    (unsigned long long)agent->lease->id, (int)(length - note),
			    line + note);
		return 1;
	}
	if (length < refused || memcmp(line, ESPL__SHIP_REFUSED, refused) != 0)
		return 0;
	if (agent->state == ESPL__AGENT_HELLO) {
		agent->refused = 1;
		espl__agent_break(agent, "node %.80s: %.*s", name != NULL ? name : "",
		    (int)(length - refused < REFUSED_ROOM ? length - refused : REFUSED_ROOM),
		    line + refused);
	}
	return 1;
}

void
espl__real_ship_free(struct espl__real *real)
{
	ESPL__CHECK(real, REAL);
	free(real->ship);
	real->ship = NULL;
}

/* test_cloudio.c - what the host does for cloud plugins: HTTP, children, timers, secrets. */
#include <criterion/criterion.h>
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <uv.h>

#include "base/log.h"
#include "base/mem.h"
#include "config/tree.h"
#include "real/cloudio.h"

/* A plugin that only writes down what it is told. */
struct seen {
	struct espl_http_reply http;
	char body[256], header[256], text[256];
	struct espl_child child;
	char out[256], err[256];
	uint64_t timers[8];
	unsigned timer_count, http_count, child_count;
	char lines[256]; /* that were handed over, each in brackets */
	unsigned line_count, stop_at;
	struct espl__cloudio *io;    /* closed at line number stop_at */
	const struct espl_io *again; /* each timer asks for the next one */
};

static void
saw_http(void *self, const struct espl_http_reply *reply)
{
	struct seen *seen = self;
	size_t used = strlen(seen->lines);

	if (reply->more) {
		snprintf(seen->lines + used, sizeof seen->lines - used, "[%s]",
		    (const char *)reply->body);
		cr_assert_eq(strlen(reply->body), reply->body_size);
		if (++seen->line_count == seen->stop_at)
			espl__cloudio_cancel_all(seen->io);
		return;
	}
	seen->http = *reply;
	seen->http_count++;
	snprintf(seen->body, sizeof seen->body, "%s", (const char *)reply->body);
	snprintf(seen->text, sizeof seen->text, "%s", reply->text);
	for (uint32_t i = 0; i < reply->header_count; i++)
		if (strncmp(reply->headers[i], "X-Seen:", 7) == 0)
			snprintf(seen->header, sizeof seen->header, "%s", reply->headers[i]);
}

static void
saw_child(void *self, const struct espl_child *child)
{
	struct seen *seen = self;

	seen->child = *child;
	seen->child_count++;
	snprintf(seen->out, sizeof seen->out, "%s", (const char *)child->out);
	snprintf(seen->err, sizeof seen->err, "%s", (const char *)child->err);
}

static void
saw_timer(void *self, uint64_t cookie)
{
	struct seen *seen = self;

	seen->timers[seen->timer_count++ % 8] = cookie;
	if (seen->again != NULL)
		cr_assert_eq(seen->again->timer(seen->again, 0, cookie), ESPL_OK);
}

static const struct espl_cloud_ops ops = { ESPL_TABLE(struct espl_cloud_ops), .on_http = saw_http,
	.on_child = saw_child, .on_timer = saw_timer };

struct bench {
	uv_loop_t loop;
	struct espl__cloudio *io;
	const struct espl_io *use;
	struct espl__instance instance;
	struct espl__values values;
	struct espl_value options[2];
	struct espl__tree *tree;
	struct espl__pids pids;
	struct seen seen;
};

static void
nothing(void *ctx)
{
	(void)ctx;
}

static void
begin(struct bench *b, const char *group)
{
	struct espl__cloudio_setup setup;

	memset(b, 0, sizeof *b);
	cr_assert_eq(uv_loop_init(&b->loop), 0);
	cr_assert_eq(espl__tree_parse(group, "x.cfg", &b->tree, NULL), ESPL_OK);
	memset(&setup, 0, sizeof setup);
	setup.loop = &b->loop;
	setup.pids = &b->pids;
	setup.group = espl__tree_root(b->tree);
	setup.enter = nothing;
	cr_assert_eq(espl__cloudio_new(&setup, &b->io, NULL), ESPL_OK);
	b->use = espl__cloudio_service(b->io);
	b->instance.ops = &ops.head;
	b->instance.self = &b->seen;
	b->instance.values = &b->values;
	b->values.magic = ESPL__VALUES_MAGIC;
	b->values.config.count = 2;
	b->values.config.values = b->options;
	b->options[1].source = ESPL_FILE;
	b->options[1].as.s = "s3cret";
	b->instance.magic = ESPL__INSTANCE_MAGIC;
	(void)snprintf(b->instance.who, sizeof b->instance.who, "cloud 'test'");
	espl__cloudio_bind(b->io, &b->instance);
}

static void
finish(struct bench *b)
{
	espl__cloudio_cancel_all(b->io);
	while (espl__cloudio_busy(b->io))
		uv_run(&b->loop, UV_RUN_ONCE);
	while (uv_loop_close(&b->loop) == UV_EBUSY)
		uv_run(&b->loop, UV_RUN_NOWAIT);
	espl__cloudio_free(b->io);
	cr_assert_eq(b->pids.count, 0);
	cr_assert(waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD, "a child is left");
	espl__pids_free(&b->pids);
	espl__tree_free(b->tree);
}

/* Answers each connection on a port of its own with what it was asked, until it is killed. */
static pid_t
serve(int *port)
{
	struct sockaddr_in at = { .sin_family = AF_INET };
	socklen_t size = sizeof at;
	int listener = socket(AF_INET, SOCK_STREAM, 0), fd;
	char in[4096], out[8192];
	pid_t pid;

	at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	cr_assert_eq(bind(listener, (struct sockaddr *)&at, sizeof at), 0);
	cr_assert_eq(listen(listener, 8), 0);
	cr_assert_eq(getsockname(listener, (struct sockaddr *)&at, &size), 0);
	*port = ntohs(at.sin_port);
	pid = fork();
	if (pid != 0) {
		close(listener);
		return pid;
	}
	for (;;) {
		size_t have = 0;
		char *body = NULL, *bearer;

		fd = accept(listener, NULL, NULL);
		while (body == NULL && have < sizeof in - 1) {
			ssize_t got = recv(fd, in + have, sizeof in - 1 - have, 0);

			if (got <= 0)
				break;
			have += (size_t)got;
			in[have] = '\0';
			body = strstr(in, "\r\n\r\n");
			if (body != NULL && strstr(in, "ask") == NULL &&
			    strncmp(in, "POST", 4) == 0)
				body = NULL; /* what is posted ends in "ask" */
		}
		if (strstr(in, "/never") != NULL)
			pause();
		bearer = strstr(in, "Authorization: ");
		if (bearer != NULL)
			bearer[strcspn(bearer, "\r")] = '\0';
		snprintf(out, sizeof out,
		    "HTTP/1.1 201 Made\r\nX-Seen: %s\r\nContent-Length: 5\r\nConnection: "
		    "close\r\n\r\nhello",
		    bearer != NULL ? bearer : "nothing");
		(void)!write(fd, out, strlen(out));
		close(fd);
	}
}

static void
ask(struct bench *b, int port, const char *path, const char *method, const char *body,
    const char *sign)
{
	struct espl_http request = ESPL_INIT(struct espl_http);
	struct espl_error error = ESPL_INIT(struct espl_error);
	unsigned before = b->seen.http_count;
	char url[100];

	snprintf(url, sizeof url, "http://127.0.0.1:%d%s", port, path);
	request.method = method;
	request.url = url;
	request.body = body;
	request.body_size = body != NULL ? strlen(body) : 0;
	request.sign = sign;
	request.sign_user = 0;
	request.sign_secret = 1;
	request.limit = strcmp(path, "/never") == 0 ? ESPL_SECOND / 10 : 20 * ESPL_SECOND;
	request.cookie = 77;
	cr_assert_eq(b->use->http(b->use, &request, &error), ESPL_OK, "%s", error.text);
	cr_assert_eq(b->seen.http_count, before, "answered from within");
	while (b->seen.http_count == before)
		uv_run(&b->loop, UV_RUN_ONCE);
}

Test(cloudio, http)
{
	struct bench b;
	struct espl_http request = ESPL_INIT(struct espl_http);
	struct espl_error error = ESPL_INIT(struct espl_error);
	int port, status;
	pid_t server;

	server = serve(&port);
	begin(&b, "");
	ask(&b, port, "/", "GET", NULL, NULL);
	cr_assert_eq(b.seen.http.status, ESPL_OK, "%s", b.seen.text);
	cr_assert_eq(b.seen.http.code, 201);
	cr_assert_eq(b.seen.http.cookie, 77);
	cr_assert_str_eq(b.seen.body, "hello");
	cr_assert_str_eq(b.seen.header, "X-Seen: nothing");
	ask(&b, port, "/", "POST", "please ask", "bearer");
	cr_assert_str_eq(b.seen.header, "X-Seen: Authorization: Bearer s3cret");
	ask(&b, 1, "/", "GET", NULL, NULL);
	cr_assert_eq(b.seen.http.status, ESPL_E_REMOTE);
	cr_assert_neq(b.seen.text[0], '\0');
	ask(&b, port, "/never", "GET", NULL, NULL);
	cr_assert_eq(b.seen.http.status, ESPL_E_LIMIT);
	request.url = "http://127.0.0.1:1/";
	request.sign = "aws:amz:eu-west-1";
	cr_assert_eq(b.use->http(b.use, &request, &error), ESPL_E_BUG);
	kill(server, SIGKILL);
	waitpid(server, &status, 0);
	finish(&b);
}

/* ---- lines, over a Unix socket ---- */

/* What is sent for each path; '|' is a pause, '#' ends the connection. */
static const struct {
	const char *path, *answer;
} streams[] = {
	{ "/whole", "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\none\ntw|o\n\nth|re|e\nrest#" },
	{ "/chunks",
	    "HTTP/1.1 200 OK\r\nConnection: close\r\nTransfer-Encoding: "
	    "chunked\r\n\r\n4\r\none\n\r\n3\r\ntwo|\r\n"
	    "2\r\n\nx\r\n0\r\n\r\n" },
	{ "/cut", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n6\r\none\ntw|#" },
	{ "/short", "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\none\ntwo|#" },
	{ "/refused",
	    "HTTP/1.1 403 No\r\nConnection: close\r\nContent-Length: 8\r\n\r\none\ntwo\n" },
	{ "/silent", "HTTP/1.1 200 OK\r\n\r\none\n" },
};

static void
send_stream(int fd, const char *text)
{
	for (; *text != '\0' && *text != '#'; text++)
		if (*text == '|')
			usleep(50000);
		else
			(void)!write(fd, text, 1);
	if (*text == '#')
		close(fd);
}

static pid_t
serve_streams(const char *path)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	int listener = socket(AF_UNIX, SOCK_STREAM, 0);
	char in[4096];
	pid_t pid;

	snprintf(at.sun_path, sizeof at.sun_path, "%s", path);
	cr_assert_eq(bind(listener, (struct sockaddr *)&at, sizeof at), 0);
	cr_assert_eq(listen(listener, 8), 0);
	pid = fork();
	if (pid != 0) {
		close(listener);
		return pid;
	}
	signal(SIGPIPE, SIG_IGN);
	for (;;) {
		int fd = accept(listener, NULL, NULL);
		ssize_t got = recv(fd, in, sizeof in - 1, 0);

		in[got > 0 ? got : 0] = '\0';
		for (size_t i = 0; i < sizeof streams / sizeof streams[0]; i++)
			if (strstr(in, streams[i].path) != NULL)
				send_stream(fd, streams[i].answer);
	}
}

static void
ask_lines(struct bench *b, const char *socket, const char *path)
{
	struct espl_http request = ESPL_INIT(struct espl_http);
	char url[100];

	snprintf(url, sizeof url, "http://localhost%s", path);
	request.method = "GET";
	request.url = url;
	request.socket = socket;
	request.lines = 1;
	request.limit = strcmp(path, "/silent") == 0 ? ESPL_SECOND : 20 * ESPL_SECOND;
	b->seen.lines[0] = '\0';
	b->seen.line_count = b->seen.http_count = 0;
	cr_assert_eq(b->use->http(b->use, &request, NULL), ESPL_OK);
	while (b->seen.http_count == 0 && b->seen.stop_at == 0)
		uv_run(&b->loop, UV_RUN_ONCE);
}

Test(cloudio, lines_from_a_unix_socket, .timeout = 60)
{
	struct bench b;
	char folder[] = "/tmp/espl-lines-XXXXXX", path[64];
	pid_t server;
	int status;

	cr_assert_not_null(mkdtemp(folder));
	snprintf(path, sizeof path, "%s/s", folder);
	server = serve_streams(path);
	begin(&b, "");
	ask_lines(&b, path, "/whole");
	cr_assert_str_eq(b.seen.lines, "[one][two][][three]");
	cr_assert_eq(b.seen.http.status, ESPL_OK);
	cr_assert_str_eq(b.seen.body, "rest");
	ask_lines(&b, path, "/chunks");
	cr_assert_str_eq(b.seen.lines, "[one][two]");
	cr_assert_str_eq(b.seen.body, "x");
	ask_lines(&b, path, "/cut");
	cr_assert_str_eq(b.seen.lines, "[one]");
	cr_assert_eq(b.seen.http.status, ESPL_E_REMOTE);
	ask_lines(&b, path, "/short");
	cr_assert_str_eq(b.seen.lines, "[one]");
	cr_assert_eq(b.seen.http.status, ESPL_E_REMOTE);
	ask_lines(&b, path, "/refused"); /* this is no stream of lines */
	cr_assert_str_eq(b.seen.lines, "");
	cr_assert_eq(b.seen.http.code, 403);
	cr_assert_str_eq(b.seen.body, "one\ntwo\n");
	ask_lines(&b, path, "/silent");
	cr_assert_str_eq(b.seen.lines, "[one]");
	cr_assert_eq(b.seen.http.status, ESPL_E_LIMIT);
	ask_lines(&b, "/nonexistent", "/whole");
	cr_assert_eq(b.seen.http.status, ESPL_E_REMOTE);
	b.seen.io = b.io; /* the run ends while lines come */
	b.seen.stop_at = 2;
	ask_lines(&b, path, "/whole");
	while (b.seen.line_count < 2)
		uv_run(&b.loop, UV_RUN_ONCE);
	kill(server, SIGKILL);
	waitpid(server, &status, 0);
	finish(&b);
	cr_assert_str_eq(b.seen.lines, "[one][two]");
	cr_assert_eq(b.seen.http_count, 0);
	unlink(path);
	rmdir(folder);
}

/* An AWS CLI that does not know the command. */
static void
put_old_aws(const char *folder)
{
	char path[100], *all;
	FILE *file;

	snprintf(path, sizeof path, "%s/aws", folder);
	file = fopen(path, "w");
	cr_assert_not_null(file);
	fprintf(file, "#!/bin/sh\necho\necho 'usage: aws <command>' >&2\nexit 252\n");
	fclose(file);
	cr_assert_eq(chmod(path, 0700), 0);
	cr_assert_geq(asprintf(&all, "%s:%s", folder, getenv("PATH")), 0);
	setenv("PATH", all, 1);
	free(all);
}

/* Requests that wait for a command's keys go out signed, in one run of it; without keys they fail,
 * and the secret is in no message. */
Test(cloudio, signed_for_aws)
{
	struct espl_http request = ESPL_INIT(struct espl_http);
	struct espl_error error = ESPL_INIT(struct espl_error);
	char folder[] = "/tmp/espl-aws-XXXXXX", path[64], url[64];
	struct bench b;
	int port, status;
	pid_t server = serve(&port);
	FILE *file;

	cr_assert_not_null(mkdtemp(folder));
	snprintf(path, sizeof path, "%s/config", folder);
	setenv("AWS_CONFIG_FILE", path, 1);
	setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent", 1);
	unsetenv("AWS_ACCESS_KEY_ID");
	begin(&b, "");
	b.options[0].source = ESPL_FILE;
	b.options[0].as.s = "lab";
	ask(&b, port, "/", "POST", "Action=ask", "aws:amz:eu-west-1:ec2");
	cr_assert(strncmp(b.seen.header,
		      "X-Seen: Authorization: AWS4-HMAC-SHA256 Credential=lab/20", 57) == 0,
	    "%s", b.seen.header);
	b.options[1].source = ESPL_UNSET; /* a profile, then */
	file = fopen(path, "w");
	fprintf(file,
	    "[profile lab]\ncredential_process = echo x >>%s/runs; echo '{\"Version\":1,"
	    "\"AccessKeyId\":\"made\",\"SecretAccessKey\":\"hush\"}'\n[profile bad]\n"
	    "credential_process = echo no luck >&2; exit 3\n[profile old]\n"
	    "credential_process = aws export\n",
	    folder);
	fclose(file);
	put_old_aws(folder);
	snprintf(url, sizeof url, "http://127.0.0.1:%d/", port);
	request.url = url;
	request.sign = "aws:amz:eu-west-1:ec2";
	request.sign_user = 0;
	request.sign_secret = ESPL_ANY;
	for (int i = 0; i < 3; i++)
		cr_assert_eq(b.use->http(b.use, &request, &error), ESPL_OK, "%s", error.text);
	while (b.seen.http_count < 4)
		uv_run(&b.loop, UV_RUN_ONCE);
	cr_assert_eq(b.seen.http.code, 201, "%s", b.seen.text);
	cr_assert(strstr(b.seen.header, "Credential=made/") != NULL, "%s", b.seen.header);
	snprintf(path, sizeof path, "test $(wc -l <%s/runs) = 1", folder);
	cr_assert_eq(system(path), 0, "the command ran more than once");
	b.options[0].as.s = "bad";
	cr_assert_eq(b.use->http(b.use, &request, &error), ESPL_OK);
	while (b.seen.http_count < 5)
		uv_run(&b.loop, UV_RUN_ONCE);
	cr_assert_eq(b.seen.http.status, ESPL_E_CONFIG, "running it again does not help");
	cr_assert_str_eq(b.seen.text, "no keys for AWS: 'echo' exited with status 3: no luck");
	b.options[0].as.s = "old";
	cr_assert_eq(b.use->http(b.use, &request, &error), ESPL_OK);
	while (b.seen.http_count < 6)
		uv_run(&b.loop, UV_RUN_ONCE);
	cr_assert_not_null(strstr(b.seen.text, "or install the AWS CLI, version 2"), "%s",
	    b.seen.text);
	b.options[0].as.s = "none";
	cr_assert_eq(b.use->http(b.use, &request, &error), ESPL_E_CONFIG);
	cr_assert_not_null(strstr(error.text, "profile 'none'"));
	b.options[0].as.s = "bad"; /* waits at the end */
	cr_assert_eq(b.use->http(b.use, &request, &error), ESPL_OK);
	kill(server, SIGKILL);
	waitpid(server, &status, 0);
	finish(&b);
	snprintf(path, sizeof path, "rm -r %s", folder);
	cr_assert_eq(system(path), 0);
}

static void
spawn(struct bench *b, const char *script, const char *input, espl_span limit)
{
	const char *argv[] = { "/bin/sh", "-c", script }, *env[] = { "GREETING=hi" };
	struct espl_spawn request = ESPL_INIT(struct espl_spawn);
	unsigned before = b->seen.child_count;

	request.argc = script != NULL ? 3 : 1;
	request.argv = argv;
	if (script == NULL)
		argv[0] = "no-such-program-at-all";
	request.env = env;
	request.env_count = 1;
	request.input = input;
	request.input_size = input != NULL ? strlen(input) : 0;
	request.limit = limit;
	request.cookie = 5;
	cr_assert_eq(b->use->spawn(b->use, &request, NULL), ESPL_OK);
	cr_assert_eq(b->seen.child_count, before, "answered from within");
	while (b->seen.child_count == before)
		uv_run(&b->loop, UV_RUN_ONCE);
}

Test(cloudio, children_timers_and_secrets)
{
	struct bench b;
	const char *value;

	begin(&b, "key_file = \"file:/proc/self/comm\";");
	spawn(&b, "read x; echo $GREETING $x; echo oops >&2; exit 3", "there\n", 0);
	cr_assert_eq(b.seen.child.status, ESPL_OK);
	cr_assert_eq(b.seen.child.exit_code, 3);
	cr_assert_eq(b.seen.child.cookie, 5);
	cr_assert_str_eq(b.seen.out, "hi there\n");
	cr_assert_str_eq(b.seen.err, "oops\n");
	spawn(&b, NULL, NULL, 0);
	cr_assert_eq(b.seen.child.status, ESPL_E_REMOTE);
	cr_assert_not_null(strstr(b.seen.err, "no-such-program-at-all"));
	spawn(&b, "sleep 1000 & sleep 1000", NULL, ESPL_SECOND / 20); /* the whole group is ended */
	cr_assert_eq(b.seen.child.status, ESPL_E_LIMIT);
	spawn(&b, "head -c 3000000 /dev/zero | tr '\\0' x", NULL, 0);
	cr_assert_eq(b.seen.child.out_size, 1u << 20);
	cr_assert_eq(b.use->timer(b.use, 0, 1), ESPL_OK);
	cr_assert_eq(b.use->timer(b.use, ESPL_SECOND * 1000, 2), ESPL_OK);
	cr_assert_eq(b.use->timer(b.use, 1000, 3), ESPL_OK);
	b.use->cancel(b.use, 3);
	while (b.seen.timer_count == 0)
		uv_run(&b.loop, UV_RUN_ONCE);
	cr_assert_eq(b.seen.timers[0], 1);
	cr_assert_eq(b.seen.timer_count, 1);
	setenv("ESPL_TEST_KEY", "k", 1);
	cr_assert_eq(b.use->secret(b.use, "env:ESPL_TEST_KEY", &value), ESPL_OK);
	cr_assert_str_eq(value, "k");
	cr_assert_eq(b.use->secret(b.use, "env:ESPL_NO_SUCH_KEY", &value), ESPL_E_UNKNOWN);
	cr_assert_eq(b.use->secret(b.use, "file:/proc/self/comm", &value), ESPL_OK);
	cr_assert_neq(strlen(value), 0);
	cr_assert_eq(b.use->secret(b.use, "file:/etc/hostname", &value), ESPL_E_UNKNOWN,
	    "the user named no such file");
	cr_assert(b.use->utc_ns(b.use) > 0);
	finish(&b);
}

/* A driver that is killed as soon as a provider's command has been started: the command still reads
 * its whole request, since it may make or end a machine. */
Test(cloudio, a_request_is_whole_before_its_command_starts, .timeout = 60)
{
	enum { SIZE = 1 << 20 }; /* more than a pipe holds */
	char script[160], got[32] = "";
	const char *argv[] = { "/bin/sh", "-c", script };
	struct espl_spawn request = ESPL_INIT(struct espl_spawn);
	struct bench b;
	int fds[2], status;
	pid_t driver;

	cr_assert_eq(pipe(fds), 0);
	driver = fork();
	cr_assert_geq(driver, 0);
	if (driver == 0) {
		begin(&b, "");
		(void)close(fds[0]);
		(void)fcntl(fds[1], F_SETFD, 0);
		(void)snprintf(script, sizeof script,
		    "while kill -0 %d 2>/dev/null; do sleep 0.1; done; wc -c >/proc/self/fd/%d",
		    (int)getpid(), fds[1]);
		request.argc = 3;
		request.argv = argv;
		request.input = espl__alloc(SIZE);
		request.input_size = SIZE;
		(void)b.use->spawn(b.use, &request, NULL);
		(void)kill(getpid(), SIGKILL);
	}
	(void)close(fds[1]);
	cr_assert_eq(waitpid(driver, &status, 0), driver);
	cr_assert(WIFSIGNALED(status));
	cr_assert_gt(read(fds[0], got, sizeof got - 1), 0);
	cr_assert_eq(atoi(got), SIZE, "it read %s", got);
	(void)close(fds[0]);
}

static unsigned hasty_lines;

static void
count_hasty(void *ctx, espl_level level, const char *text)
{
	(void)ctx;
	hasty_lines += level == ESPL_WARN && strstr(text, "cloud 'test'") != NULL &&
	    strstr(text, "nanoseconds") != NULL;
}

/* A plugin that asks to be called at once whenever it is called does not keep the processor busy;
 * many that are asked for together are no such thing. */
Test(cloudio, timers_without_end)
{
	struct bench b;

	begin(&b, "");
	espl__log_to(count_hasty, NULL, ESPL_INFO);
	for (int i = 0; i < 5000; i++)
		cr_assert_eq(b.use->timer(b.use, 0, 1), ESPL_OK);
	while (b.seen.timer_count < 5000)
		uv_run(&b.loop, UV_RUN_ONCE);
	cr_assert_eq(hasty_lines, 0);
	b.seen.timer_count = 0;
	b.seen.again = b.use;
	cr_assert_eq(b.use->timer(b.use, 0, 2), ESPL_OK);
	for (int i = 0; i < 20000; i++)
		uv_run(&b.loop, UV_RUN_NOWAIT);
	cr_assert(b.seen.timer_count >= 1000 && b.seen.timer_count < 5000, "%u",
	    b.seen.timer_count);
	cr_assert_eq(hasty_lines, 1);
	b.use->cancel(b.use, 2);
	cr_assert_eq(b.use->timer(b.use, -1, 3), ESPL_E_REJECTED);
	cr_assert_eq(b.use->timer(b.use, INT64_MIN, 3), ESPL_E_REJECTED);
	cr_assert_eq(hasty_lines, 2);
	cr_assert_eq(b.use->timer(b.use, INT64_MAX, 3), ESPL_OK);
	espl__log_to(NULL, NULL, ESPL_INFO);
	finish(&b);
}

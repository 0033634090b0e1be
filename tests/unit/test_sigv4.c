/* test_sigv4.c - requests signed for AWS, and where their keys come from. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "real/aws_keys.h"

static char *lines[ESPL__SIGV4_LINES];
static uint32_t line_count;

static int64_t
seconds_of(const char *stamp)
{
	struct tm when = { 0 };

	cr_assert_not_null(strptime(stamp, "%Y%m%dT%H%M%SZ", &when));
	return (int64_t)timegm(&when);
}

static void
forget(void)
{
	while (line_count > 0)
		free(lines[--line_count]);
}

static void
expect(struct espl__sigv4 *request, const char *body, const char *stamp, const char *signature)
{
	struct espl_error error = ESPL_INIT(struct espl_error);

	forget();
	request->utc = seconds_of(stamp);
	espl__sha256(body, strlen(body), request->body_hash);
	cr_assert_eq(espl__sigv4_sign(request, lines, &line_count, &error), ESPL_OK, "%s",
	    error.text);
	cr_assert(strstr(lines[line_count - 1], signature) != NULL, "%s, not %s",
	    lines[line_count - 1], signature);
}

/* The first two were made with botocore and by hand; the others are AWS's own examples. */
Test(sigv4, known_signatures)
{
	const char *form[] = { "Content-Type: application/x-www-form-urlencoded; charset=utf-8" };
	const char *spaced[] = { "content-TYPE:   application/x-www-form-urlencoded;   "
				 "charset=utf-8",
		"Accept: text/xml" };
	struct espl__aws_keys keys = { (char *)"AKIDEXAMPLE",
		(char *)"wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", NULL, INT64_MAX };
	struct espl__aws_keys s3 = { (char *)"AKIAIOSFODNN7EXAMPLE",
		(char *)"wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", NULL, INT64_MAX };
	struct espl__sigv4 request = { .method = "POST",
		.region = "us-east-1",
		.service = "ec2",
		.url = "https://ec2.us-east-1.amazonaws.com/",
		.headers = form,
		.header_count = 1,
		.keys = &keys };

	expect(&request, "Action=DescribeRegions&Version=2016-11-15", "20260102T030405Z",
	    "Signature=c6176c01436eb7b4ccdb6b0b0d3cd6b387014541ac53c1827957657cbba9ce7c");
	request.headers = spaced;
	request.header_count = 2;
	request.url = "https://ec2.us-east-1.amazonaws.com:443";
	expect(&request, "Action=DescribeRegions&Version=2016-11-15", "20260102T030405Z",
	    "Signature=c6176c01436eb7b4ccdb6b0b0d3cd6b387014541ac53c1827957657cbba9ce7c");
	request.headers = form;
	request.header_count = 1;
	keys.token = (char *)"TOKEN/+=";
	expect(&request, "Action=DescribeRegions&Version=2016-11-15", "20260102T030405Z",
	    "Signature=1e7d93316c9900b3eaa4977fab966ec045c61377fc62484db2e224d39ce1fd22");
	cr_assert_str_eq(lines[1], "X-Amz-Security-Token: TOKEN/+=");

	keys.token = NULL;
	keys.secret = (char *)"wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";
	request.method = "GET";
	request.service = "iam";
	request.url = "https://iam.amazonaws.com/?Version=2010-05-08&Action=ListUsers";
	expect(&request, "", "20150830T123600Z",
	    "Signature=5d672d79c15b13162d9279b0855cfba6789a8edb4c82c400e06b5924a6f2b5d7");

	request.keys = &s3;
	request.service = "s3";
	request.header_count = 0;
	request.url = "https://examplebucket.s3.amazonaws.com/?lifecycle";
	expect(&request, "", "20130524T000000Z",
	    "Signature=fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543");
	request.url = "https://examplebucket.s3.amazonaws.com/?prefix=J&max-keys=2";
	expect(&request, "", "20130524T000000Z",
	    "Signature=34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7");
	forget();
}

Test(sigv4, no_signature_for_what_is_no_request)
{
	struct espl__aws_keys keys = { (char *)"a", (char *)"b", NULL, INT64_MAX };
	struct espl__sigv4 request = { .method = "GET",
		.region = "r",
		.service = "s",
		.keys = &keys };
	const char *bad[] = { "ftp://x/", "x", "https:///path", "" };

	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		request.url = bad[i];
		cr_assert_eq(espl__sigv4_sign(&request, lines, &line_count, NULL), ESPL_E_BUG);
	}
}

/* ---- keys ---- */

static char home[64];

static void
begin(void)
{
	static const char *const names[] = { "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY",
		"AWS_SESSION_TOKEN", "AWS_PROFILE", "AWS_DEFAULT_PROFILE",
		"AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE" };

	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		unsetenv(names[i]);
	strcpy(home, "/tmp/espl-keys-XXXXXX");
	cr_assert_not_null(mkdtemp(home));
	setenv("HOME", home, 1);
}

static void
write_file(const char *name, const char *text)
{
	char path[128];
	FILE *file;

	snprintf(path, sizeof path, "%s/.aws", home);
	(void)mkdir(path, 0700);
	snprintf(path, sizeof path, "%s/.aws/%s", home, name);
	file = fopen(path, "w");
	cr_assert_not_null(file);
	fputs(text, file);
	fclose(file);
}

static void
finish(void)
{
	char command[128];

	snprintf(command, sizeof command, "rm -rf %s", home);
	cr_assert_eq(system(command), 0);
}

/* The keys as "id secret token", the command that would be run, or the message. */
static const char *
found(const char *profile)
{
	static char text[512];
	struct espl_error error = ESPL_INIT(struct espl_error);
	struct espl__aws_keys keys = { 0 };
	char *command = NULL;
	espl_status status = espl__aws_keys_find(profile, &keys, &command, &error);

	if (status == ESPL_OK)
		snprintf(text, sizeof text, "%s %s %s", keys.id, keys.secret,
		    keys.token != NULL ? keys.token : "-");
	else if (status == ESPL_E_BUSY)
		snprintf(text, sizeof text, "$ %s", command);
	else
		snprintf(text, sizeof text, "error: %s", error.text);
	free(command);
	espl__aws_keys_clear(&keys);
	cr_assert_null(keys.id);
	return text;
}

/* AWS's own example; then one made with botocore and by hand. */
Test(sigv4, known_urls)
{
	struct espl__aws_keys s3 = { (char *)"AKIAIOSFODNN7EXAMPLE",
		(char *)"wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", NULL, INT64_MAX };
	struct espl__aws_keys session = { (char *)"AKIDEXAMPLE",
		(char *)"wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", (char *)"TOKEN/+=", INT64_MAX };
	struct espl__sigv4 request = { .method = "GET",
		.region = "us-east-1",
		.service = "s3",
		.url = "https://examplebucket.s3.amazonaws.com/test.txt",
		.keys = &s3 };
	struct espl__buf path = { 0 };
	char *url;

	request.utc = seconds_of("20130524T000000Z");
	cr_assert_eq(espl__sigv4_presign(&request, 86400, &url, NULL), ESPL_OK);
	cr_assert_str_eq(url,
	    "https://examplebucket.s3.amazonaws.com/test.txt?X-Amz-Algorithm=AWS4-HMAC-SHA256"
	    "&X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%2F20130524%2Fus-east-1%2Fs3%2Faws4_request"
	    "&X-Amz-Date=20130524T000000Z&X-Amz-Expires=86400&X-Amz-SignedHeaders=host"
	    "&X-Amz-Signature="
	    "aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404");
	free(url);
	request.method = "PUT";
	request.keys = &session;
	request.utc = seconds_of("20260102T030405Z");
	espl__url_put(&path, "/bucket/run/a b=c+d(1)", 1);
	cr_assert_str_eq(espl__buf_text(&path), "/bucket/run/a%20b%3Dc%2Bd%281%29");
	request.url = "https://s3.us-east-1.amazonaws.com/bucket/run/a%20b%3Dc%2Bd%281%29"
		      "?partNumber=3&uploadId=U%2Fx";
	cr_assert_eq(espl__sigv4_presign(&request, 3600, &url, NULL), ESPL_OK);
	cr_assert_not_null(
	    strstr(url, "f4ac535b117d77ede165ac8b84f9f75b343750e250388fafa83a858838a3f828"));
	free(url);
	espl__buf_free(&path);
}

Test(aws_keys, where_they_come_from)
{
	begin();
	cr_assert_str_eq(found(NULL), "$ aws configure export-credentials --format process");
	write_file("credentials",
	    "# keys\n[default]\naws_access_key_id=A\naws_secret_access_key = B = C \r\n\n"
	    "[ lab ]\naws_access_key_id = L\naws_secret_access_key = M\naws_session_token = T/+=\n"
	    "[half]\naws_access_key_id = H\n");
	write_file("config",
	    "[default]\nregion = eu-central-1\n[profile  made]\ncredential_process = /bin/keys --x "
	    "'a b'\n[profile role]\nrole_arn = arn\nsource_profile = lab\n"
	    "[profile it's]\nsso_session = s\n[profile lab]\ns3 =\n  sso_x = 1\n");
	cr_assert_str_eq(found(NULL), "A B = C -");
	cr_assert_str_eq(found("lab"), "L M T/+=");
	cr_assert_str_eq(found("made"), "$ /bin/keys --x 'a b'");
	cr_assert_str_eq(found("role"),
	    "$ aws configure export-credentials --format process --profile 'role'");
	cr_assert_str_eq(found("it's"),
	    "$ aws configure export-credentials --format process --profile 'it'\\''s'");
	cr_assert_str_eq(found("half"),
	    "$ aws configure export-credentials --format process --profile 'half'");
	cr_assert_str_eq(found("none"),
	    "error: AWS profile 'none' is in neither ~/.aws/credentials nor ~/.aws/config");
	setenv("AWS_PROFILE", "lab", 1);
	cr_assert_str_eq(found(NULL), "L M T/+=");
	setenv("AWS_ACCESS_KEY_ID", "E", 1);
	cr_assert_str_eq(found(NULL), "L M T/+=", "half a pair is none");
	setenv("AWS_SECRET_ACCESS_KEY", "F", 1);
	cr_assert_str_eq(found(NULL), "E F -");
	cr_assert_str_eq(found("default"), "A B = C -", "a named profile comes first");
	setenv("AWS_CONFIG_FILE", home, 1);
	cr_assert(strncmp(found("lab"), "error: cannot read '", 20) == 0);
	finish();
}

Test(aws_keys, what_a_command_prints)
{
	static const char *const bad[][2] = { { "", "no JSON" }, { "{}", "Version" },
		{ "{\"Version\": 2}", "Version" }, { "{\"Version\": 1}", "AccessKeyId" },
		{ "{\"Version\":1,\"AccessKeyId\":\"a\",\"SecretAccessKey\":\"b\","
		  "\"Expiration\":\"soon\"}",
		    "Expiration" } };
	const char *good = "{\"Version\":1,\"AccessKeyId\":\"a\",\"SecretAccessKey\":\"b\","
			   "\"SessionToken\":\"t\",\"Expiration\":\"2026-01-02T03:04:05.250Z\"}\n";
	struct espl__aws_keys keys = { 0 };

	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		struct espl_error error = ESPL_INIT(struct espl_error);

		cr_assert_eq(espl__aws_keys_parse(bad[i][0], strlen(bad[i][0]), &keys, &error),
		    ESPL_E_CONFIG);
		cr_assert_not_null(strstr(error.text, bad[i][1]), "%s", error.text);
		cr_assert_null(keys.id);
	}
	cr_assert_eq(espl__aws_keys_parse(good, strlen(good), &keys, NULL), ESPL_OK);
	cr_assert_str_eq(keys.token, "t");
	cr_assert_eq(keys.ends, 1767323045);
	espl__aws_keys_clear(&keys);
}

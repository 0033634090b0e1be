/* metric.c - finds the line with the metric among the strings of a script, and turns it into a
 * pattern: names in place of the numbers. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "init/propose.h"

#define LINE_MAX_SIZE 400u
#define NAME_SIZE 30u /* of a group */

struct word {
	const char *text;
	int maximize;
};
static const struct word metrics[] = { { "loss", 0 }, { "error", 0 }, { "err", 0 }, { "mse", 0 },
	{ "rmse", 0 }, { "mae", 0 }, { "perplexity", 0 }, { "ppl", 0 }, { "nll", 0 }, { "wer", 0 },
	{ "accuracy", 1 }, { "acc", 1 }, { "acc1", 1 }, { "top1", 1 }, { "auc", 1 }, { "f1", 1 },
	{ "score", 1 }, { "r2", 1 }, { "reward", 1 }, { "return", 1 }, { "iou", 1 }, { "miou", 1 },
	{ "bleu", 1 }, { "psnr", 1 }, { NULL, 0 } };
static const char *const judged[] = { "test", "val", "eval", "dev", NULL };
static const char *const trained[] = { "train", "batch", NULL };

struct hole { /* a place of a line where a value is printed */
	size_t from, to;
	char word[64]; /* before it, in lower case */
	int padded;    /* blanks may come first */
	const struct word *metric;
};

/* ---- words ------------------------------------------------------------------------------- */

static int
contains_any(const char *text, const char *const *words)
{
	for (; *words != NULL; words++)
		if (strcasestr(text, *words) != NULL)
			return 1;
	return 0;
}

static const struct word *
find_metric(const char *word)
{
	size_t size = strlen(word);

	for (const struct word *m = metrics; m->text != NULL; m++) {
		size_t n = strlen(m->text);

		if (size >= n && strcmp(word + size - n, m->text) == 0 &&
		    (size == n || word[size - n - 1] == '_'))
			return m;
	}
	return NULL;
}

/* The last word of text[0..end), if only punctuation follows it. */
static void
last_word(const char *text, size_t end, char to[64])
{
	size_t from, n = 0;

	while (end > 0 && strchr(" \t:=-(>|", text[end - 1]) != NULL)
		end--;
	for (from = end;
	     from > 0 && (isalnum((unsigned char)text[from - 1]) || text[from - 1] == '_');)
		from--;
	for (; from < end && n < 63; from++)
		to[n++] = (char)tolower((unsigned char)text[from]);
	to[n] = '\0';
}

static int
is_iteration(const char *word)
{
	return strcmp(word, "epoch") == 0 || strcmp(word, "iteration") == 0 ||
	    strcmp(word, "round") == 0;
}

/* ---- holes ------------------------------------------------------------------------------- */

/* Bytes of "{...}" or "%8.3f" at p; 0: none is there. */
static size_t
hole_length(const char *p, int *padded)
{
	size_t n = 1, depth = 1;

	*padded = 0;
	if (*p == '{') {
		for (; p[n] != '\0' && depth > 0; n++) {
			depth += p[n] == '{';
			depth -= p[n] == '}';
			if (p[n] == ':' && p[n + 1] != '\0' &&
			    strchr("123456789<>^ ", p[n + 1]) != NULL)
				*padded = 1;
		}
		return depth == 0 ? n : 0;
	}
	if (*p != '%')
		return 0;
	if (p[n] == '(')
		n += strcspn(p + n, ")") + (strchr(p, ')') != NULL);
	*padded = strchr("123456789 ", p[n]) != NULL && p[n] != '\0';
	n += strspn(p + n, "-+ #0123456789.*");
	return p[n] != '\0' && strchr("diouxXeEfFgGs", p[n]) != NULL ? n + 1 : 0;
}

static uint32_t
find_holes(const char *line, struct hole *holes, uint32_t room)
{
	uint32_t count = 0;

	for (size_t i = 0; line[i] != '\0' && count < room;) {
		struct hole *h = &holes[count];
		size_t n = hole_length(line + i, &h->padded);

		if ((line[i] == '{' && line[i + 1] == '{') ||
		    (line[i] == '%' && line[i + 1] == '%')) {
			i += 2;
			continue;
		}
		if (n == 0) {
			i++;
			continue;
		}
		h->from = i;
		i = h->to = i + n;
		last_word(line, h->from, h->word);
		if (h->word[0] == '\0' ||
		    (count > 0 && holes[count - 1].to > h->from - strlen(h->word)))
			h->word[0] = '\0';
		h->metric = find_metric(h->word);
		count++;
	}
	return count;
}

/* ---- patterns ---------------------------------------------------------------------------- */

static void
put_plain(const char *text, size_t size, struct espl__buf *to)
{
	for (size_t i = 0; i < size; i++) {
		if (isspace((unsigned char)text[i])) {
			size_t from = i;

			while (i + 1 < size && isspace((unsigned char)text[i + 1]))
				i++;
			if (to->size > 0)
				espl__print(to, i == from && text[i] == ' ' ? " " : "\\s+");
			continue;
		}
		if ((text[i] == '{' || text[i] == '}' || text[i] == '%') && i + 1 < size &&
		    text[i + 1] == text[i])
			i++; /* doubled in a format */
		if (strchr("\\^$.|?*+()[]{}", text[i]) != NULL)
			espl__put_u8(to, '\\');
		espl__put_u8(to, (uint8_t)text[i]);
	}
}

/* A name that a group can have, and that no earlier hole has. */
static int
is_new_name(const struct hole *holes, uint32_t at)
{
	if (!isalpha((unsigned char)holes[at].word[0]) || strlen(holes[at].word) > NAME_SIZE)
		return 0;
	for (uint32_t i = 0; i < at; i++)
		if (strcmp(holes[i].word, holes[at].word) == 0)
			return 0;
	return 1;
}

static void
build_pattern(const char *line, const struct hole *holes, uint32_t count, struct espl__py_metric *m)
{
	struct espl__buf to = { NULL, 0, 0 };
	uint32_t last = 0;
	size_t at = 0;

	for (uint32_t i = 0; i < count; i++)
		if (holes[i].metric != NULL)
			last = i;
	for (uint32_t i = 0; i <= last; i++) {
		const struct hole *h = &holes[i];
		int iteration = is_iteration(h->word) && !m->iterations;

		put_plain(line + at, h->from - at, &to);
		at = h->to;
		if (h->padded && (iteration || h->metric != NULL))
			espl__print(&to, "\\s*");
		m->iterations |= iteration;
		if (iteration)
			espl__print(&to, "{iteration}");
		else if (h->metric != NULL && is_new_name(holes, i))
			espl__print(&to, "{%s}", h->word);
		else if (to.size > 0)
			espl__print(&to, ".*?");
	}
	m->pattern = espl__strdup(espl__buf_text(&to));
	espl__buf_free(&to);
}

/* ---- the guess --------------------------------------------------------------------------- */

/* How likely this is the line, above 0 if at all. */
static int
score_line(const char *line, const struct hole *holes, uint32_t count, uint32_t *objective)
{
	int found = 0, iteration = 0;

	for (uint32_t i = 0; i < count; i++) {
		int good = holes[i].metric == NULL        ? 0
		    : contains_any(holes[i].word, judged) ? 3
							  : 2;

		iteration |= is_iteration(holes[i].word);
		if (good > 2 || !contains_any(holes[i].word, trained))
			good += good > 0;
		if (good > found && isalpha((unsigned char)holes[i].word[0]) &&
		    strlen(holes[i].word) <= NAME_SIZE) {
			found = good;
			*objective = i;
		}
	}
	if (found == 0)
		return 0;
	return found + 10 + (iteration ? 2 : 0) + (contains_any(line, judged) ? 4 : 0) -
	    (contains_any(line, trained) && !contains_any(line, judged) ? 4 : 0);
}

static void
try_line(const char *line, const struct espl__py_line *of, int comma, struct espl__py_metric *m,
    int *best)
{
	struct hole holes[32];
	uint32_t count, objective = 0;
	int score;

	memset(holes, 0, sizeof holes);
	count = find_holes(line, holes, 31);
	/* print("loss:", loss) */
	if (count == 0 && comma && (of->print || strpbrk(line, ":=") != NULL)) {
		holes[0].from = holes[0].to = strlen(line);
		holes[0].padded = 1;
		last_word(line, holes[0].from, holes[0].word);
		holes[0].metric = find_metric(holes[0].word);
		count = 1;
	}
	score = score_line(line, holes, count, &objective);
	if (score == 0 || score < *best)
		return;
	*best = score;
	espl__metric_free(m);
	m->name = espl__strdup(holes[objective].word);
	m->line = espl__strdup(line);
	m->to_err = of->to_err;
	m->maximize = holes[objective].metric->maximize;
	build_pattern(line, holes, count, m);
}

/* json.dumps({"epoch": epoch, "val_loss": loss}): names that are strings of their own. */
static int
guess_member(const struct espl__script *s, struct espl__py_metric *m)
{
	int found = 0;

	for (uint32_t i = 0; i < s->line_count; i++) {
		const char *text = s->lines[i].text;
		const struct word *metric = find_metric(text);
		int good = metric == NULL         ? 0
		    : contains_any(text, judged)  ? 3
		    : contains_any(text, trained) ? 1
						  : 2;

		if (is_iteration(text) || strcmp(text, "step") == 0) {
			free(m->member);
			m->member = espl__strdup(text);
		}
		if (good <= found || strlen(text) > NAME_SIZE ||
		    text[strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789_")] != '\0')
			continue;
		found = good;
		free(m->name);
		m->name = espl__strdup(text);
		m->maximize = metric->maximize;
	}
	m->iterations = m->member != NULL;
	return found > 0;
}

int
espl__metric_guess(const struct espl__script *s, struct espl__py_metric *m)
{
	int best = 0;

	memset(m, 0, sizeof *m);
	for (uint32_t i = 0; i < s->line_count; i++) {
		const char *text = s->lines[i].text;

		while (*text != '\0') { /* each line of the literal */
			size_t n = strcspn(text, "\r\n");
			char *line = espl__format("%.*s", (int)n, text);
			const char *from = line + strspn(line, " \t");

			if (n < LINE_MAX_SIZE)
				try_line(from, &s->lines[i], s->lines[i].comma && text[n] == '\0',
				    m, &best);
			free(line);
			text += n + strspn(text + n, "\r\n");
		}
	}
	if (best > 0 || (s->writes_json && guess_member(s, m)))
		return 0;
	espl__metric_free(m);
	m->name = espl__strdup("loss");
	m->pattern = espl__strdup("loss: {loss}");
	return -1;
}

void
espl__metric_free(struct espl__py_metric *m)
{
	free(m->name);
	free(m->pattern);
	free(m->line);
	free(m->member);
	memset(m, 0, sizeof *m);
}

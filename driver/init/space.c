/* space.c - options of a script become parameters: by their names, defaults and choices. */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "config/tree.h"
#include "init/propose.h"

/* Words of names, between blanks; "a_b" is two words in a row. */
static const char left[] =
    " seed worker workers thread threads port rank world gpu gpus device cuda mps cpu log verbose "
    "debug quiet print freq interval every resume checkpoint ckpt save test eval val valid "
    "validation "
    "backend dist distributed master nproc node nodes data dataset path dir file root start "
    "version "
    "amp fp16 bf16 wandb project name pretrained download id url host key task mode split "
    "patience manualseed imagesize image img ngpu ngpus ";
static const char lengths[] =
    " epochs epoch num_epochs n_epochs nepochs max_epochs num_train_epochs "
    "total_epochs train_epochs training_epochs num_epoch nb_epoch nb_epochs "
    "niter num_iter iterations num_iterations n_iterations max_iterations rounds num_rounds ";
static const char outputs[] =
    " output output_dir out out_dir outdir log_dir logdir save_dir savedir "
    "results_dir result_dir tb_dir tensorboard_dir ";
static const char places[] = " dir directory path folder log logs "; /* if the default is: */
static const char written[] = " logs log runs output outputs out results tensorboard summaries ";
static const char switches[] = " nesterov amsgrad bias bn batchnorm batch_norm layer_norm augment "
			       "augmentation mixup cutmix shuffle residual bidirectional tied use "
			       "early_stopping weighted balanced ";
static const char logs[] = " lr learning_rate weight_decay wd eps epsilon alpha lambda reg lambd "
			   "regularization l1 l2 c penalty tol temperature noise sigma clip ";
static const char units[] =
    " dropout drop drop_rate p prob probability label_smoothing smoothing ratio "
    "fraction rate mixup ";
static const char decays[] = " momentum gamma beta beta1 beta2 decay rho discount polyak ema tau ";
static const char powers[] = " batch_size batch batchsize bs hidden width units channels dim embed "
			     "embedding hidden_size hidden_dim d_model ";

/* Does one of the words occur in the name?  testBatchSize is test_batch_size. */
static int
has_word(const char *name, const char *words)
{
	char lower[128], padded[132];
	size_t n = 0;

	for (size_t i = 0; name[i] != '\0' && n + 2 < sizeof lower; i++) {
		if (i > 0 && islower((unsigned char)name[i - 1]) && isupper((unsigned char)name[i]))
			lower[n++] = '_';
		lower[n++] = (char)tolower((unsigned char)name[i]);
	}
	lower[n] = '\0';
	/* each part of the name, from each of its words to each later one */
	for (char *from = lower; from != NULL && *from != '\0';) {
		for (char *end = from; end != NULL;) {
			char *cut = strchr(end, '_');

			(void)snprintf(padded, sizeof padded, " %.*s ",
			    (int)(cut != NULL ? cut - from : (long)strlen(from)), from);
			if (strstr(words, padded) != NULL)
				return 1;
			end = cut != NULL ? cut + 1 : NULL;
		}
		from = strchr(from, '_');
		from = from != NULL ? from + 1 : NULL;
	}
	return 0;
}

static int
is_name(const char *name, const char *words)
{
	char padded[132];

	(void)snprintf(padded, sizeof padded, " %.120s ", name);
	for (char *p = padded; *p != '\0'; p++)
		*p = (char)tolower((unsigned char)*p);
	return strstr(words, padded) != NULL;
}

/* ---- ranges ------------------------------------------------------------------------------ */

/* A number that libconfig takes for a real one. */
static const char *
real_text(double value, char to[40])
{
	char text[32];

	/* 12 digits: 0.1 / 10 is 0.01 */
	(void)snprintf(text, sizeof text, "%.12g", value);
	(void)snprintf(to, 40, "%s%s", text, strpbrk(text, ".e") == NULL ? ".0" : "");
	return to;
}

static int
is_number(const struct espl__py_value *v)
{
	return v->kind == ESPL__LIT_INT || v->kind == ESPL__LIT_REAL;
}

/* Is there room for its default between its bounds? */
static int
is_within(const struct espl__py_option *o)
{
	double d = o->fallback.number, low = is_number(&o->low) ? o->low.number : -HUGE_VAL,
	       high = is_number(&o->high) ? o->high.number : HUGE_VAL;

	return low <= d && d <= high && low < high;
}

/* Within the bounds of the option, if it has any. */
static void
put_real(const struct espl__py_option *o, struct espl__buf *to, double low, double high,
    const char *scale)
{
	double fallback = o->fallback.number;
	char a[40], b[40], c[40];

	if (is_number(&o->low) && o->low.number > low)
		low = o->low.number;
	if (is_number(&o->high) && o->high.number < high)
		high = o->high.number;
	espl__print(to, "{ type = \"real\"; low = %s; high = %s;%s%s%s default = %s; }",
	    real_text(low, a), real_text(high, b), scale[0] != '\0' ? " scale = \"" : "", scale,
	    scale[0] != '\0' ? "\";" : "", real_text(fallback, c));
}

static int
propose_real(const struct espl__py_option *o, struct espl__buf *to)
{
	double d = o->fallback.number;

	if (d < 0 || d > 1e12 || (d > 0 && d < 1e-12) || !is_within(o))
		return 0;
	if (d < 1 && has_word(o->name, decays) && !has_word(o->name, logs) && d > 0) {
		if (d > 0.9)
			put_real(o, to, 0.5, d > 0.99 ? 1 - (1 - d) / 10 : 0.99, "reverse-log");
		else
			put_real(o, to, d / 2, d + (1 - d) * 0.9, "");
	} else if (d < 1 && has_word(o->name, units) && !has_word(o->name, logs)) {
		put_real(o, to, 0, d > 0.4 ? d + (1 - d) / 2 : 0.5, "");
	} else if (d == 0) {
		if (!has_word(o->name, logs))
			return 0;
		put_real(o, to, 0, 0.01, "");
	} else if (d <= 1 || has_word(o->name, logs)) {
		put_real(o, to, d / 10, d * 10, "log");
	} else {
		put_real(o, to, d / 2, d * 2, "");
	}
	return 1;
}

/* 16, 32, 64, ... around the default, which is one of them. */
static void
put_powers(long long d, struct espl__buf *to)
{
	long long least = d > 4 ? d / 4 : 1, count = 0;

	espl__print(to, "{ type = \"ordinal\"; values = [ ");
	for (long long v = least; v <= d * 4 && count < 6; v *= 2) {
		/* d / 4 * 4 need not be d */
		long long value = v < d && v * 2 > d ? d : v;

		espl__print(to, "%s%lld", count++ > 0 ? ", " : "", value);
		v = value;
	}
	espl__print(to, " ]; default = %lld; }", d);
}

static int
propose_int(const struct espl__py_option *o, struct espl__buf *to)
{
	long long d = (long long)o->fallback.number, low, high;

	if (d < 1 || d > 1000000000)
		return 0;
	if (has_word(o->name, powers) && !is_number(&o->low) && !is_number(&o->high)) {
		put_powers(d, to);
		return 1;
	}
	low = d > 3 ? d / 2 : 1;
	high = d * 2;
	if (is_number(&o->low) && (double)low < o->low.number)
		low = (long long)o->low.number;
	if (is_number(&o->high) && (double)high > o->high.number)
		high = (long long)o->high.number;
	if (!is_within(o))
		return 0;
	espl__print(to, "{ type = \"int\"; low = %lld; high = %lld;%s default = %lld; }", low, high,
	    d >= 32 ? " scale = \"log\";" : "", d);
	return 1;
}

/* ---- choices ----------------------------------------------------------------------------- */

static int
same_value(const struct espl__py_value *a, const struct espl__py_value *b)
{
	return a->kind == b->kind && strcmp(a->text, b->text) == 0;
}

/* All of them numbers, or all of them texts: an array has one type. */
static int
propose_choice(const struct espl__py_option *o, struct espl__buf *to)
{
	int there = 0, ints = 1;

	for (uint32_t i = 0; i < o->choice_count; i++) {
		const struct espl__py_value *v = &o->choices[i];

		if (v->kind != ESPL__LIT_TEXT && v->kind != ESPL__LIT_INT &&
		    v->kind != ESPL__LIT_REAL)
			return 0;
		ints &= v->kind == ESPL__LIT_INT;
		there |= same_value(v, &o->fallback);
		for (uint32_t k = 0; k < i; k++)
			if (strcmp(v->text, o->choices[k].text) == 0)
				return 0;
	}
	if (o->choice_count < 2 || !there)
		return 0;
	espl__print(to, "{ type = \"choice\"; values = [ ");
	for (uint32_t i = 0; i < o->choice_count; i++) {
		espl__print(to, "%s", i > 0 ? ", " : "");
		if (ints)
			espl__print(to, "%.0f", o->choices[i].number);
		else
			espl__print_quoted(to, o->choices[i].text);
	}
	espl__print(to, " ]; default = ");
	if (ints)
		espl__print(to, "%.0f", o->fallback.number);
	else
		espl__print_quoted(to, o->fallback.text);
	espl__print(to, "; }");
	return 1;
}

static int
propose_switch(const struct espl__py_option *o, struct espl__buf *to)
{
	if (strcmp(o->action, "store_true") != 0 || !has_word(o->name, switches))
		return 0;
	espl__print(to, "{ type = \"choice\"; values = [ \"\", ");
	espl__print_quoted(to, o->flag);
	espl__print(to, " ]; default = \"\"; }");
	return 1;
}

/* type=lambda s: s == "True" and the like */
static int
propose_bool(const struct espl__py_option *o, struct espl__buf *to)
{
	if (o->action[0] != '\0' || o->type[0] == '\0' || strcmp(o->type, "bool") == 0 ||
	    !has_word(o->name, switches))
		return 0;
	espl__print(to,
	    "{ type = \"choice\"; values = [ \"False\", \"True\" ]; default = \"%s\"; }",
	    o->fallback.number > 0 ? "True" : "False");
	return 1;
}

static int
propose_any(const struct espl__py_option *o, struct espl__buf *to)
{
	if (o->choice_count > 0)
		return propose_choice(o, to);
	if (o->action[0] != '\0')
		return 0;
	if (o->fallback.kind == ESPL__LIT_BOOL)
		return propose_bool(o, to);
	if (o->fallback.kind == ESPL__LIT_REAL ||
	    (o->fallback.kind == ESPL__LIT_INT && strcmp(o->type, "float") == 0))
		return strcmp(o->type, "int") != 0 && propose_real(o, to);
	return o->fallback.kind == ESPL__LIT_INT && strcmp(o->type, "str") != 0 &&
	    propose_int(o, to);
}

/* --log-dir; or --dir with a default such as "./logs". */
static int
is_output(const struct espl__py_option *o)
{
	const char *to = o->fallback.kind == ESPL__LIT_TEXT ? o->fallback.text : "";

	if (o->action[0] != '\0')
		return 0;
	to += strncmp(to, "./", 2) == 0 ? 2 : 0;
	return is_name(o->name, outputs) || (is_name(o->name, places) && is_name(to, written));
}

enum espl__py_role
espl__space_propose(const struct espl__py_option *o, struct espl__buf *range)
{
	int none = o->fallback.kind == ESPL__LIT_ABSENT;

	espl__buf_clear(range);
	if (is_name(o->name, lengths) && o->action[0] == '\0')
		return ESPL__PY_ITERATIONS;
	if ((o->positional || o->required) && none)
		return ESPL__PY_REQUIRED;
	if (o->positional)
		return ESPL__PY_LEFT;
	if (is_output(o))
		return ESPL__PY_OUTPUT;
	if (has_word(o->name, left))
		return ESPL__PY_LEFT;
	if (propose_switch(o, range))
		return ESPL__PY_SWITCH;
	return propose_any(o, range) ? ESPL__PY_TUNED : ESPL__PY_LEFT;
}

/* helper_trial.c - a trial that is a C program with the helper header; run by test_worker and, with
 * notes, by tests/runs/40-notes.test. */
#include "espalier_trial.h"

static int
write_model(const char *folder, uint64_t iteration)
{
	char path[4096];
	FILE *f;

	snprintf(path, sizeof path, "%s/model", folder);
	f = fopen(path, "w");
	if (f == NULL)
		return -1;
	fprintf(f, "%llu\n", (unsigned long long)iteration);
	return fclose(f);
}

int
main(void)
{
	struct espalier_trial t;
	char word[16];

	if (espalier_start(&t, 3) != 0)
		return 1;
	printf("lr %g opt %s from '%s'\n", espalier_number(&t, "lr", -1),
	    espalier_word(&t, "opt", "none", word, sizeof word), t.checkpoint);
	if (getenv("NOTE") != NULL &&
	    (espalier_note(&t, "said", getenv("NOTE")) != 0 ||
		espalier_note(&t, "a \"name\"", "\\ \t") != 0 || espalier_note(&t, "", "x") == 0))
		return 1;
	for (uint64_t i = t.iteration + 1; i <= t.budget && !t.ended; i++) {
		const char *names[] = { "loss", "odd" };
		double values[] = { 1.0 / 3.0, NAN };
		int verdict = espalier_report_all(&t, i, names, values, 2);

		if (verdict < 0)
			return 1;
		if ((verdict & ESPALIER_SAVE) != 0 &&
		    (write_model(espalier_save_folder(&t), i) != 0 || espalier_saved(&t, i) != 0))
			return 1;
	}
	espalier_finish(&t);
	return 0;
}

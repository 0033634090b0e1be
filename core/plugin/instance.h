/* instance.h - a plugin at work: its checked options, its host table, its random stream.
 *
 * The only way into a plugin is through policy/ (policies), world/ (clouds) and the hosts of
 * trainables; they all begin with an instance.
 */
#ifndef ESPL__INSTANCE_H
#define ESPL__INSTANCE_H
#include <espalier/host.h>
#include <espalier/sampler.h>
#include "base/calling.h"
#include "base/rng.h"
#include "config/schema.h"
#include "plugin/registry.h"
#include <espalier/trainable.h>
#include "base/buf.h"

struct espl__instance;

/* What surrounds the instances of a run; outlives them. */
struct espl__host_env {
	uint64_t seed;
	int64_t utc_start_s;
	int verbose, simulated;
	uint32_t rules; /* those that the run began with (espl_host.rules); 0: the newest */
	/* 1: an option that refers to a secret gets the secret; 0: plugins only describe
	 * themselves, and see the reference */
	int secrets;
	const espl_time *now;  /* read by host->now; written by the executor */
	const char *directory; /* base of relative PATH options; "" the current one */
	void *ctx;             /* for the two below */
	/* Service id for this instance, or NULL. */
	const void *(*service)(void *ctx, struct espl__instance *, const char *id);
	void (
	    *note)(void *ctx, struct espl__instance *, espl_subject, uint64_t id, const char *text);
};
#define ESPL__INSTANCE_MAGIC 0x61667b7cu
struct espl__instance {
	uint32_t magic; /* ESPL__INSTANCE_MAGIC */
	const struct espl__plugin *plugin;
	const struct espl__host_env *env;
	struct espl__values *values;
	struct espl_host host; /* host.ctx is the instance */
	struct espl__rng rng;
	void *self;
	const struct espl_ops *ops;
	struct espl__instance *sampler; /* of a PLUGIN option; NULL: none is chosen */
	struct espl_sampling sampling;  /* what the plugin is lent of it */
	char who[80];                   /* "algorithm 'sha'" */
	uint64_t files_digest;          /* of all PATH options, for the journal */
	void *files;                    /* private: the bytes of PATH options */
	uint32_t file_count;
};
/* Until espl__calling_end, this entry of the plugin is being called (base/calling.h). */
static inline void
espl__instance_calls(const struct espl__instance *instance, const char *entry)
{
	espl__calling_begin(instance->who, entry, instance->plugin->path);
}
/* Loads the plugin, resolves `group` by its schema ("use" passed over), reads PATH files, makes
 * the host table and calls create.  Message with FILE:LINE of the blamed option. */
espl_status espl__instance_create(espl_kind, const char *name, const struct espl__node *group,
    const struct espl__host_env *, struct espl__instance **, struct espl__diag *);
/* The same on an already found plugin (check-plugin, trainables in process). */
espl_status espl__instance_of(const struct espl__plugin *, const struct espl__node *group,
    const struct espl__host_env *, struct espl__instance **, struct espl__diag *);
void espl__instance_destroy(struct espl__instance *); /* NULL is fine */
/* From now on what plugins log below this level is dropped (--quiet, --json). */
void espl__instance_log_from(espl_level least);

/* ---- option_secrets.c ------------------------------------------------------------------------ */

/* in run.cfg, in place of a secret that the configuration itself held */
#define ESPL__SECRET_OMITTED "secret:omitted"

/* Is this "env:NAME" or "file:PATH"?  Such a text is no secret, and run.cfg stores it. */
int espl__secret_is_reference(const char *text);
/* Puts the secrets in place of the references in SECRET options. */
espl_status espl__secrets_read(struct espl__instance *, struct espl__diag *);

/* ---- option_files.c -------------------------------------------------------------------------- */

/* The files that PATH options name: read once, before create, for host->file. */

/* Reads all of them into instance->files and sums their digest. */
espl_status espl__files_read(struct espl__instance *, struct espl__diag *);
void espl__files_free(struct espl__instance *);
/* Bytes of an option (row ESPL_ANY) or cell; NULL: there is no such file. */
const void *espl__files_get(const struct espl__instance *, uint32_t option, uint32_t row,
    uint32_t column, uint64_t *size);
#endif

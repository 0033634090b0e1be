/* abi_check.c - is this descriptor one we can host?  A pure function on the descriptor's bytes.
 *
 * Nothing is believed before it was checked: first the frozen head (magic, abi, size, kind, name),
 * then what lies within the size, then the table of entries within its own size.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <espalier/algorithm.h>
#include <espalier/allocator.h>
#include <espalier/cloud.h>
#include <espalier/placer.h>
#include <espalier/sampler.h>
#include <espalier/trainable.h>

#include "config/schema.h"
#include "plugin/registry.h"

_Static_assert(sizeof(struct espl_ops) == 8, "espl_ops is frozen");
_Static_assert(sizeof(struct espl_value) == 16, "espl_value is frozen");
_Static_assert(offsetof(struct espl_plugin, name) == 16, "the head of espl_plugin is frozen");

#define SIZE_LIMIT 65536u /* no descriptor or table of entries is larger */
#define NAME_LIMIT 64u

struct entry {
	const char *name;
	size_t offset;
};
/* clang-format off */
#define ENTRY(type_, member_) { #member_, offsetof(struct type_, member_) }
/* clang-format on */

static const struct entry algorithm_entries[] = { ENTRY(espl_algorithm_ops, next_group) };
static const struct entry allocator_entries[] = { ENTRY(espl_allocator_ops, allocate) };
static const struct entry cloud_entries[] = {
	ENTRY(espl_cloud_ops, start),
	ENTRY(espl_cloud_ops, acquire),
	ENTRY(espl_cloud_ops, release),
	ENTRY(espl_cloud_ops, adopt),
	ENTRY(espl_cloud_ops, reach),
	ENTRY(espl_cloud_ops, describe),
};
static const struct entry placer_entries[] = { ENTRY(espl_placer_ops, place) };
static const struct entry trainable_entries[] = {
	ENTRY(espl_trainable_ops, open),
	ENTRY(espl_trainable_ops, close),
	ENTRY(espl_trainable_ops, step),
};

static const struct entry sampler_entries[] = {
	ENTRY(espl_sampler_ops, tell),
	ENTRY(espl_sampler_ops, ask),
};

static const struct {
	const char *name;
	const struct entry *entries;
	size_t count;
	uint64_t needs; /* demands that this kind may make */
} kinds[] = {
/* clang-format off */
#define KIND(name_, needs_) \
	{ #name_, name_##_entries, sizeof name_##_entries / sizeof(struct entry), needs_ }
	/* clang-format on */
	[ESPL_ALGORITHM] = KIND(algorithm, ESPL_NEED_COMPUTE),
	[ESPL_ALLOCATOR] = KIND(allocator, ESPL_NEED_COMPUTE),
	[ESPL_CLOUD] = KIND(cloud, ESPL_NEED_IO),
	[ESPL_PLACER] = KIND(placer, 0),
	[ESPL_TRAINABLE] = KIND(trainable, ESPL_NEED_CUDA),
	[ESPL_SAMPLER] = KIND(sampler, 0),
};
#define KIND_COUNT (sizeof kinds / sizeof kinds[0])

const char *
espl__kind_name(espl_kind kind)
{
	return kind > 0 && kind < KIND_COUNT ? kinds[kind].name : "?";
}

espl_kind
espl__kind_find(const char *name)
{
	for (espl_kind kind = 1; kind < KIND_COUNT; kind++)
		if (strcmp(kinds[kind].name, name) == 0)
			return kind;
	return 0;
}

int
espl__plugin_name_equal(const char *a, const char *b)
{
	for (; *a != '\0' && *b != '\0'; a++, b++)
		if (*a != *b && !((*a == '-' || *a == '_') && (*b == '-' || *b == '_')))
			return 0;
	return *a == *b;
}

struct check {
	const struct espl_plugin *plugin;
	const char *path;
	struct espl__diag *diag;
};

static espl_status ESPL_PRINTF(3, 4)
    refuse(const struct check *check, const char *hint, const char *format, ...)
{
	char text[400];
	va_list list;

	va_start(list, format);
	vsnprintf(text, sizeof text, format, list);
	va_end(list);
	espl__fail_at(check->diag, ESPL_E_CONFIG, check->path, 0, "%s", text);
	if (hint != NULL)
		espl__hint(check->diag, "%s", hint);
	return ESPL_E_CONFIG;
}

/* ---- the frozen head --------------------------------------------------------------- */

static espl_status
check_abi(const struct check *check)
{
	uint32_t abi = check->plugin->abi;

	if (check->plugin->magic != ESPL_MAGIC)
		return refuse(check, "start the descriptor with ESPL_HEAD(kind, name)",
		    "this is not an espalier plugin: its descriptor starts with 0x%08x instead of "
		    "0x%08x",
		    check->plugin->magic, ESPL_MAGIC);
	/* Major 0 promises nothing: the minors must be equal.  Later: not a newer minor. */
	if (abi >> 16 == ESPL_ABI_MAJOR &&
	    (ESPL_ABI_MAJOR == 0 ? (abi & 0xffff) == ESPL_ABI_MINOR
				 : (abi & 0xffff) <= ESPL_ABI_MINOR))
		return ESPL_OK;
	return refuse(check,
	    abi > ESPL_ABI
		? "update espalier, or rebuild the plugin with the headers of this version"
		: "rebuild the plugin with the headers of this version of espalier",
	    "the plugin was built for ABI %u.%u, but this version of espalier has ABI %u.%u",
	    abi >> 16, abi & 0xffff, ESPL_ABI_MAJOR, ESPL_ABI_MINOR);
}

/* Lower-case letters, digits, '-' and '_', beginning with a letter. */
static int
name_is_good(const char *name)
{
	size_t length = strnlen(name, NAME_LIMIT);

	if (length == 0 || length == NAME_LIMIT || name[0] < 'a' || name[0] > 'z')
		return 0;
	for (size_t i = 1; i < length; i++)
		if (!((name[i] >= 'a' && name[i] <= 'z') || (name[i] >= '0' && name[i] <= '9') ||
			name[i] == '-' || name[i] == '_'))
			return 0;
	return 1;
}

static espl_status
check_head(const struct check *check, espl_kind kind, const char *name)
{
	const struct espl_plugin *plugin = check->plugin;
	espl_status status = check_abi(check);

	if (status != ESPL_OK)
		return status;
	if (plugin->size < sizeof(struct espl_plugin) || plugin->size > SIZE_LIMIT)
		return refuse(check, "use ESPL_HEAD, which sets the size",
		    "the descriptor declares %u bytes, but ABI %u.%u requires %zu", plugin->size,
		    ESPL_ABI_MAJOR, ESPL_ABI_MINOR, sizeof(struct espl_plugin));
	if (plugin->kind == 0 || plugin->kind >= KIND_COUNT)
		return refuse(check,
		    "the kinds are algorithm, allocator, cloud, placer, trainable and sampler",
		    "the plugin is of an unknown kind (%u)", plugin->kind);
	if (kind != 0 && plugin->kind != kind)
		return refuse(check, "name the file <kind>_<name>.so after the plugin in it",
		    "the file name says %s %s, but the plugin in it is %s %s",
		    kind == ESPL_ALGORITHM || kind == ESPL_ALLOCATOR ? "an" : "a",
		    espl__kind_name(kind),
		    plugin->kind == ESPL_ALGORITHM || plugin->kind == ESPL_ALLOCATOR ? "an" : "a",
		    espl__kind_name(plugin->kind));
	if (plugin->name == NULL || !name_is_good(plugin->name))
		return refuse(check, "use at most 63 lower-case letters, digits, '-' and '_'",
		    "the plugin has no valid name");
	if (name != NULL && !espl__plugin_name_equal(plugin->name, name))
		return refuse(check, "name the file <kind>_<name>.so after the plugin in it",
		    "the file name says '%s', but the name of the plugin in it is '%s'", name,
		    plugin->name);
	return ESPL_OK;
}

/* ---- the rest ---------------------------------------------------------------------- */

static espl_status
check_caps(const struct check *check)
{
	const struct espl_plugin *plugin = check->plugin;
	uint64_t demands = plugin->caps >> 32 << 32;
	uint64_t known = ESPL_NEED_IO | ESPL_NEED_COMPUTE | ESPL_NEED_CUDA;
	uint64_t odd = demands & ~kinds[plugin->kind].needs;
	int bit = 0;

	if (odd == 0)
		return ESPL_OK;
	while (!(odd >> bit & 1))
		bit++;
	if (odd & known)
		return refuse(check,
		    "ESPL_NEED_IO is for clouds, _COMPUTE for algorithms and allocators, _CUDA for "
		    "trainables",
		    "the plugin requests a capability that its kind cannot have (bit %d)", bit);
	return refuse(check, "update espalier",
	    "the plugin requests a capability that this version of espalier does not have (bit %d)",
	    bit);
}

static espl_status
check_parts(const struct check *check)
{
	const struct espl_plugin *plugin = check->plugin;

	if (plugin->version == NULL || plugin->summary == NULL)
		return refuse(check, "both are shown by `espalier plugins`", "the plugin has no %s",
		    plugin->version == NULL ? "version" : "summary");
	if (plugin->create == NULL || plugin->destroy == NULL)
		return refuse(check, "every plugin needs create and destroy",
		    "the plugin has no '%s'", plugin->create == NULL ? "create" : "destroy");
	if (plugin->ops == NULL)
		return refuse(check, "set .ops to the table of its kind",
		    "the plugin has no table of functions");
	return check_caps(check);
}

/* Entry at an offset of the table: 1 it is there, 0 it is NULL, -1 the table ends before it. */
static int
find_entry(const struct espl_ops *ops, size_t offset)
{
	void (*entry)(void);

	if (ops->size < offset + sizeof entry)
		return -1;
	memcpy(&entry, (const char *)ops + offset, sizeof entry);
	return entry != NULL;
}

static espl_status
check_state_entries(const struct check *check)
{
	const struct espl_ops *ops = check->plugin->ops;
	int regions = find_entry(ops, offsetof(struct espl_trainable_ops, regions));
	int save = find_entry(ops, offsetof(struct espl_trainable_ops, save));
	int load = find_entry(ops, offsetof(struct espl_trainable_ops, load));

	if (regions > 0 || (save > 0 && load > 0))
		return ESPL_OK;
	return refuse(check, "implement regions, or both save and load, for the state of a trial",
	    save > 0 || load > 0 ? "the trainable has '%s' without '%s'"
				 : "the trainable has no '%s', nor '%s'",
	    save > 0       ? "save"
		: load > 0 ? "load"
			   : "regions",
	    save > 0       ? "load"
		: load > 0 ? "save"
			   : "save and load");
}

static espl_status
check_ops(const struct check *check)
{
	const struct espl_plugin *plugin = check->plugin;

	if (plugin->ops->size < sizeof(struct espl_ops) || plugin->ops->size > SIZE_LIMIT ||
	    plugin->ops->size % sizeof(void *) != 0)
		return refuse(check, "start the table with ESPL_TABLE(struct espl_..._ops)",
		    "the table of functions declares %u bytes", plugin->ops->size);
	if (plugin->ops->zero != 0)
		return refuse(check, "start the table with ESPL_TABLE(struct espl_..._ops)",
		    "the field 'zero' of the table of functions is %u, not 0", plugin->ops->zero);
	for (size_t i = 0; i < kinds[plugin->kind].count; i++) {
		const struct entry *entry = &kinds[plugin->kind].entries[i];
		int state = find_entry(plugin->ops, entry->offset);

		if (state < 0)
			return refuse(check, "start the table with ESPL_TABLE(struct espl_..._ops)",
			    "the table of functions is too short: %u bytes end before '%s'",
			    plugin->ops->size, entry->name);
		if (state == 0)
			return refuse(check,
			    "every mandatory function must be set; see the list in "
			    "docs/plugin-authors.md",
			    "the function '%s' is NULL, but it is mandatory for %ss", entry->name,
			    kinds[plugin->kind].name);
	}
	return plugin->kind == ESPL_TRAINABLE ? check_state_entries(check) : ESPL_OK;
}

espl_status
espl__abi_check(const struct espl_plugin *plugin, espl_kind kind, const char *name,
    const char *path, struct espl__diag *diag)
{
	struct check check = { plugin, path, diag };
	char who[100];
	espl_status status;

	if (plugin == NULL)
		return refuse(&check, NULL, "the file has no descriptor");
	status = check_head(&check, kind, name);
	if (status == ESPL_OK)
		status = check_parts(&check);
	if (status == ESPL_OK)
		status = check_ops(&check);
	if (status == ESPL_OK) {
		struct espl__diag inner = ESPL__DIAG_INIT;

		snprintf(who, sizeof who, "%s '%s'", espl__kind_name(plugin->kind), plugin->name);
		status = espl__schema_check(plugin->options, plugin->option_count,
		    plugin->option_size, who, &inner);
		if (status != ESPL_OK)
			refuse(&check, inner.hint[0] != '\0' ? inner.hint : NULL, "%s", inner.text);
	}
	return status;
}

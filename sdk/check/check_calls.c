/* check_calls.c - check-plugin: does a policy see a clock, the environment, a file, another process
 * or randomness that is not the host's?  A replay would decide otherwise.
 *
 * Imports alone prove nothing: the runtime of a language may import what is never called.  So the
 * addresses through which the file calls these functions (its global offset table) lead to
 * stand-ins here, which note the call and pass it on.  Only in the child that tries the plugin.
 */
#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/assert.h"
#include "check/check_kit.h"

#if defined __x86_64__
#define SLOT_JUMP R_X86_64_JUMP_SLOT
#define SLOT_DATA R_X86_64_GLOB_DAT
#elif defined __aarch64__
#define SLOT_JUMP R_AARCH64_JUMP_SLOT
#define SLOT_DATA R_AARCH64_GLOB_DAT
#endif

/* All of these take and return integers and pointers. */
typedef long passed(long, long, long, long, long, long);
struct stand_in {
	const char *name, *shown;
	passed *to, *real;
	int called;
};
#define STAND_IN(n_) \
	static long stand_in_##n_(long a, long b, long c, long d, long e, long f) \
	{ \
		list[n_].called = 1; \
		return list[n_].real(a, b, c, d, e, f); \
	}
#define COUNT 39u
static struct stand_in list[COUNT];
STAND_IN(0)
STAND_IN(1)
STAND_IN(2)
STAND_IN(3)
STAND_IN(4)
STAND_IN(5)
STAND_IN(6)
STAND_IN(7)
STAND_IN(8)
STAND_IN(9)
STAND_IN(10)
STAND_IN(11)
STAND_IN(12)
STAND_IN(13)
STAND_IN(14)
STAND_IN(15)
STAND_IN(16)
STAND_IN(17)
STAND_IN(18)
STAND_IN(19)
STAND_IN(20)
STAND_IN(21)
STAND_IN(22)
STAND_IN(23)
STAND_IN(24)
STAND_IN(25)
STAND_IN(26)
STAND_IN(27)
STAND_IN(28)
STAND_IN(29)
STAND_IN(30)
STAND_IN(31)
STAND_IN(32)
STAND_IN(33)
STAND_IN(34)
STAND_IN(35)
STAND_IN(36)
STAND_IN(37)
STAND_IN(38)
static struct stand_in list[COUNT] = {
	{ "time", "time", stand_in_0, NULL, 0 },
	{ "clock_gettime", "clock_gettime", stand_in_1, NULL, 0 },
	{ "gettimeofday", "gettimeofday", stand_in_2, NULL, 0 },
	{ "clock", "clock", stand_in_3, NULL, 0 },
	{ "times", "times", stand_in_4, NULL, 0 },
	{ "timespec_get", "timespec_get", stand_in_5, NULL, 0 },
	{ "ftime", "ftime", stand_in_6, NULL, 0 },
	{ "rand", "rand", stand_in_7, NULL, 0 },
	{ "random", "random", stand_in_8, NULL, 0 },
	{ "rand_r", "rand_r", stand_in_9, NULL, 0 },
	{ "lrand48", "lrand48", stand_in_10, NULL, 0 },
	{ "mrand48", "mrand48", stand_in_11, NULL, 0 },
	{ "getrandom", "getrandom", stand_in_12, NULL, 0 },
	{ "getentropy", "getentropy", stand_in_13, NULL, 0 },
	{ "arc4random", "arc4random", stand_in_14, NULL, 0 },
	{ "getenv", "getenv", stand_in_15, NULL, 0 },
	{ "secure_getenv", "secure_getenv", stand_in_16, NULL, 0 },
	{ "getpid", "getpid", stand_in_17, NULL, 0 },
	{ "getppid", "getppid", stand_in_18, NULL, 0 },
	{ "gettid", "gettid", stand_in_19, NULL, 0 },
	{ "gethostname", "gethostname", stand_in_20, NULL, 0 },
	{ "uname", "uname", stand_in_21, NULL, 0 },
	{ "fork", "fork", stand_in_22, NULL, 0 },
	{ "vfork", "vfork", stand_in_23, NULL, 0 },
	{ "pthread_create", "pthread_create", stand_in_24, NULL, 0 },
	{ "open", "open", stand_in_25, NULL, 0 },
	{ "open64", "open64", stand_in_26, NULL, 0 },
	{ "openat", "openat", stand_in_27, NULL, 0 },
	{ "openat64", "openat64", stand_in_28, NULL, 0 },
	{ "fopen", "fopen", stand_in_29, NULL, 0 },
	{ "fopen64", "fopen64", stand_in_30, NULL, 0 },
	{ "opendir", "opendir", stand_in_31, NULL, 0 },
	{ "socket", "socket", stand_in_32, NULL, 0 },
	{ "sleep", "sleep", stand_in_33, NULL, 0 },
	{ "usleep", "usleep", stand_in_34, NULL, 0 },
	{ "nanosleep", "nanosleep", stand_in_35, NULL, 0 },
	{ "_ZNSt6chrono3_V212system_clock3nowEv", "std::chrono::system_clock::now", stand_in_36,
	    NULL, 0 },
	{ "_ZNSt6chrono3_V212steady_clock3nowEv", "std::chrono::steady_clock::now", stand_in_37,
	    NULL, 0 },
	{ "_ZNSt13random_device9_M_getvalEv", "std::random_device", stand_in_38, NULL, 0 },
};

#ifdef SLOT_JUMP
static struct stand_in *
find_stand_in(const char *name)
{
	for (uint32_t i = 0; i < COUNT; i++)
		if (strcmp(list[i].name, name) == 0)
			return &list[i];
	return NULL;
}

/* What the loader knows of a file (its dynamic section). */
struct loaded {
	ElfW(Addr) base;
	const ElfW(Sym) * symbols;
	const char *names;
	const ElfW(Rela) * tables[2];
	size_t counts[2];
};

static void
lead_away(const struct loaded *file, const ElfW(Rela) * row)
{
	const ElfW(Sym) *symbol = &file->symbols[ELF64_R_SYM(row->r_info)];
	uint32_t type = (uint32_t)ELF64_R_TYPE(row->r_info);
	struct stand_in *to = find_stand_in(file->names + symbol->st_name);
	uintptr_t at = file->base + row->r_offset, page;
	size_t size = (size_t)sysconf(_SC_PAGESIZE);

	if (to == NULL || (type != SLOT_JUMP && type != SLOT_DATA))
		return;
	*(void **)&to->real = dlsym(RTLD_DEFAULT, to->name);
	page = at & ~(uintptr_t)(size - 1);
	/* after its relocation the table may be read-only */
	if (to->real != NULL && mprotect((void *)page, size, PROT_READ | PROT_WRITE) == 0)
		memcpy((void *)at, &to->to, sizeof to->to);
}

static int
look_at_file(struct dl_phdr_info *info, size_t size, void *ctx)
{
	uintptr_t inside = (uintptr_t)ctx;
	const ElfW(Dyn) *dynamic = NULL;
	struct loaded file = { .base = info->dlpi_addr };
	int found = 0;

	(void)size;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *part = &info->dlpi_phdr[i];

		if (part->p_type == PT_DYNAMIC)
			dynamic = (const ElfW(Dyn) *)(info->dlpi_addr + part->p_vaddr);
		found |= part->p_type == PT_LOAD && inside >= info->dlpi_addr + part->p_vaddr &&
		    inside < info->dlpi_addr + part->p_vaddr + part->p_memsz;
	}
	if (!found || dynamic == NULL)
		return 0;
	for (; dynamic->d_tag != DT_NULL; dynamic++)
		switch (dynamic->d_tag) {
		case DT_SYMTAB: file.symbols = (const ElfW(Sym) *)dynamic->d_un.d_ptr; break;
		case DT_STRTAB: file.names = (const char *)dynamic->d_un.d_ptr; break;
		case DT_JMPREL: file.tables[0] = (const ElfW(Rela) *)dynamic->d_un.d_ptr; break;
		case DT_PLTRELSZ: file.counts[0] = dynamic->d_un.d_val / sizeof(ElfW(Rela)); break;
		case DT_RELA: file.tables[1] = (const ElfW(Rela) *)dynamic->d_un.d_ptr; break;
		case DT_RELASZ: file.counts[1] = dynamic->d_un.d_val / sizeof(ElfW(Rela)); break;
		default: break;
		}
	for (uint32_t t = 0; t < 2 && file.symbols != NULL && file.names != NULL; t++)
		for (size_t i = 0; file.tables[t] != NULL && i < file.counts[t]; i++)
			lead_away(&file, &file.tables[t][i]);
	return 1;
}
#endif

void
espl__check_watch_calls(const struct espl__check *check)
{
	ESPL__CHECK(check, CHECK);
#ifdef SLOT_JUMP
	if (strcmp(check->plugin->path, "(builtin)") != 0)
		(void)dl_iterate_phdr(look_at_file, (void *)(uintptr_t)check->plugin->desc);
#endif
}

void
espl__check_calls(struct espl__check *check)
{
	ESPL__CHECK(check, CHECK);
	if ((check->plugin->desc->caps & ESPL_CAP_PURE) == 0)
		return;
	for (uint32_t i = 0; i < COUNT; i++)
		if (list[i].called)
			espl__check_error(check,
			    "calls: it calls %s(), but its answers must depend on nothing except "
			    "what the host tells it (ESPL_CAP_PURE): a run that is resumed would "
			    "decide otherwise",
			    list[i].shown);
}

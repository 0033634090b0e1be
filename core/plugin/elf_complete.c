/* elf_complete.c - is a plugin's file all there?
 *
 * A copy that was cut short (a full disk, a broken download) is mapped by dlopen without complaint,
 * and kills the process by SIGBUS when the part that is missing is touched.
 */
#include <elf.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "plugin/registry.h"

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define OUR_BYTES ELFDATA2LSB
#else
#define OUR_BYTES ELFDATA2MSB
#endif

struct table {
	uint64_t at;
	uint32_t each, count;
	int wide;
}; /* the program headers */

/* 0: it is no ELF file that this machine could load; dlopen finds better words for that. */
static int
find_table(int fd, struct table *to)
{
	union {
		unsigned char ident[EI_NIDENT];
		Elf32_Ehdr narrow;
		Elf64_Ehdr wide;
	} head;
	ssize_t size;

	memset(&head, 0, sizeof head);
	size = pread(fd, &head, sizeof head, 0);
	if (size < (ssize_t)EI_NIDENT || memcmp(head.ident, ELFMAG, SELFMAG) != 0 ||
	    head.ident[EI_DATA] != OUR_BYTES)
		return 0;
	if (head.ident[EI_CLASS] == ELFCLASS64)
		*to = (struct table){ head.wide.e_phoff, head.wide.e_phentsize, head.wide.e_phnum,
			1 };
	else if (head.ident[EI_CLASS] == ELFCLASS32)
		*to = (struct table){ head.narrow.e_phoff, head.narrow.e_phentsize,
			head.narrow.e_phnum, 0 };
	else
		return 0;
	return to->each == (to->wide ? sizeof(Elf64_Phdr) : sizeof(Elf32_Phdr));
}

/* End of what header `i` speaks of, in the file; 0: it cannot be read.  UINT64_MAX beyond all. */
static uint64_t
end_of(int fd, const struct table *table, uint32_t i)
{
	union {
		Elf32_Phdr narrow;
		Elf64_Phdr wide;
	} part;
	uint64_t offset, size;

	if (pread(fd, &part, table->each, (off_t)(table->at + (uint64_t)i * table->each)) !=
	    (ssize_t)table->each)
		return 0;
	offset = table->wide ? part.wide.p_offset : part.narrow.p_offset;
	size = table->wide ? part.wide.p_filesz : part.narrow.p_filesz;
	return size == 0 ? 1 : size > UINT64_MAX - offset ? UINT64_MAX : offset + size;
}

espl_status
espl__module_whole(const char *path, struct espl__diag *diag)
{
	struct table table;
	struct stat st;
	uint64_t needs = 0;
	int fd = open(path, O_RDONLY | O_CLOEXEC), cut = 0;

	if (fd < 0)
		return ESPL_OK; /* dlopen says why */
	if (fstat(fd, &st) == 0 && find_table(fd, &table))
		for (uint32_t i = 0; i < table.count && !cut; i++) {
			needs = end_of(fd, &table, i);
			cut = needs == 0 || needs > (uint64_t)st.st_size;
		}
	(void)close(fd);
	if (!cut)
		return ESPL_OK;
	espl__fail_at(diag, ESPL_E_CONFIG, path, 0,
	    "cannot load the plugin: the file is truncated after %lld bytes",
	    (long long)st.st_size);
	espl__hint(diag, "copy or build it again");
	return ESPL_E_CONFIG;
}

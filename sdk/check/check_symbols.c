/* check_symbols.c - does the file export its descriptor and nothing else?  Read from the ELF file
 * itself; a second symbol would collide when plugins are linked into the programs.
 */
#include <elf.h>
#include <string.h>

#include "base/file.h"
#include "check/check_kit.h"
#include "plugin/registry.h"

#if __SIZEOF_POINTER__ == 8
typedef Elf64_Ehdr elf_head;
typedef Elf64_Shdr elf_section;
typedef Elf64_Sym elf_symbol;
#define ELF_CLASS ELFCLASS64
#else
typedef Elf32_Ehdr elf_head;
typedef Elf32_Shdr elf_section;
typedef Elf32_Sym elf_symbol;
#define ELF_CLASS ELFCLASS32
#endif

struct elf {
	const uint8_t *bytes;
	size_t size;
	elf_head head;
};

static int
section_at(const struct elf *elf, uint32_t index, elf_section *to)
{
	uint64_t at = (uint64_t)elf->head.e_shoff + (uint64_t)index * sizeof *to;

	if (index >= elf->head.e_shnum || at > elf->size || elf->size - at < sizeof *to)
		return -1;
	memcpy(to, elf->bytes + at, sizeof *to);
	if (to->sh_type == SHT_NOBITS)
		return 0;
	return to->sh_offset <= elf->size && to->sh_size <= elf->size - to->sh_offset ? 0 : -1;
}

/* Names that compilers and linkers add. */
static int
is_ours(const char *name)
{
	static const char *const linker[] = { "_init", "_fini", "_edata", "_end", "_fbss" };

	if (strncmp(name, "__", 2) == 0)
		return 0;
	for (size_t i = 0; i < sizeof linker / sizeof linker[0]; i++)
		if (strcmp(linker[i], name) == 0)
			return 0;
	return 1;
}

/* Of the C++ library: its templates are exported weakly whatever an author does, and the loader
 * keeps those of one plugin from the others (RTLD_LOCAL). */
static int
is_template(const char *name, unsigned bind)
{
	return (bind == STB_WEAK || bind == STB_GNU_UNIQUE) && strncmp(name, "_Z", 2) == 0;
}

/* Returns how many symbols are exported, -1 if the table cannot be read; others than the
 * descriptor are listed in `list`. */
static int
count_exports(const struct elf *elf, const elf_section *symbols, char *list, size_t room)
{
	elf_section names;
	int count = 0;

	if (section_at(elf, symbols->sh_link, &names) != 0 || names.sh_type != SHT_STRTAB)
		return -1;
	for (uint64_t at = 0; at + sizeof(elf_symbol) <= symbols->sh_size;
	     at += sizeof(elf_symbol)) {
		elf_symbol symbol;
		const char *name;
		size_t length;
		unsigned bind, hidden;

		memcpy(&symbol, elf->bytes + symbols->sh_offset + at, sizeof symbol);
		bind = symbol.st_info >> 4;
		hidden = symbol.st_other & 3;
		if (symbol.st_shndx == SHN_UNDEF || bind == STB_LOCAL || hidden == STV_HIDDEN ||
		    hidden == STV_INTERNAL || symbol.st_name >= names.sh_size)
			continue;
		name = (const char *)elf->bytes + names.sh_offset + symbol.st_name;
		if (memchr(name, '\0', names.sh_size - symbol.st_name) == NULL)
			return -1;
		if (!is_ours(name) || is_template(name, bind))
			continue;
		count++;
		length = strlen(list);
		if (strstr(name, "_LTX_espalier_plugin") == NULL)
			snprintf(list + length, room - length, "%s%s", length > 0 ? ", " : "",
			    name);
	}
	return count;
}

void
espl__check_symbols(struct espl__check *check, const char *path)
{
	struct espl__buf buf = { NULL, 0, 0 };
	struct espl__diag diag = ESPL__DIAG_INIT;
	struct elf elf;
	char list[400] = "";
	int count = -1;

	if (strcmp(path, "(builtin)") == 0)
		return;
	if (espl__file_read(path, (size_t)1 << 30, &buf, &diag) != ESPL_OK) {
		espl__check_error(check, "%s", diag.text);
		espl__buf_free(&buf);
		return;
	}
	elf.bytes = buf.data;
	elf.size = buf.size;
	if (buf.size >= sizeof elf.head && memcmp(buf.data, ELFMAG, SELFMAG) == 0 &&
	    buf.data[EI_CLASS] == ELF_CLASS) {
		memcpy(&elf.head, buf.data, sizeof elf.head);
		for (uint32_t i = 0; i < elf.head.e_shnum; i++) {
			elf_section section;

			if (section_at(&elf, i, &section) == 0 && section.sh_type == SHT_DYNSYM)
				count = count_exports(&elf, &section, list, sizeof list);
		}
	}
	if (count < 0)
		espl__check_ok(check, "symbols: cannot read the symbol table, not checked");
	else if (list[0] != '\0')
		espl__check_error(check,
		    "symbols: the file exports more than the descriptor: %s; make them static",
		    list);
	else
		espl__check_ok(check, "symbols: the file exports only the descriptor");
	espl__buf_free(&buf);
}

/* hash.h - checksums and digests; the same on every platform. */
#ifndef ESPL__HASH_H
#define ESPL__HASH_H
#include <stddef.h>
#include <stdint.h>
/* CRC-32C (Castagnoli); crc 0 to begin, chainable.  Uses SSE4.2 where the processor has it. */
uint32_t espl__crc32c(uint32_t crc, const void *, size_t);
/* The same by table alone, for processors without it (and to test one against the other). */
uint32_t espl__crc32c_portable(uint32_t crc, const void *, size_t);
/* 64-bit digest (not cryptographic), chainable, begin with 0. */
uint64_t espl__digest(uint64_t seed, const void *, size_t);
#endif

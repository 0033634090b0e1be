/* sim_heap.c - the simulated world's agenda: a binary heap ordered by (time, order of entry). */
#include "base/assert.h"
#include "sim/sim_impl.h"

static int
before(const struct espl__sim_due *a, const struct espl__sim_due *b)
{
	return a->at != b->at ? a->at < b->at : a->seq < b->seq;
}

void
espl__sim_heap_add(struct espl__sim_heap *heap, espl_time at, enum espl__sim_due_type type,
    uint64_t ref, uint32_t mark)
{
	struct espl__sim_due due = { .at = at,
		.seq = heap->seq++,
		.ref = ref,
		.type = type,
		.mark = mark };
	size_t i = heap->count++;

	ESPL__GROW(heap->list, heap->cap, heap->count);
	while (i > 0 && before(&due, &heap->list[(i - 1) / 2])) {
		heap->list[i] = heap->list[(i - 1) / 2];
		i = (i - 1) / 2;
	}
	heap->list[i] = due;
}

const struct espl__sim_due *
espl__sim_heap_top(const struct espl__sim_heap *heap)
{
	return heap->count > 0 ? &heap->list[0] : NULL;
}

struct espl__sim_due
espl__sim_heap_take(struct espl__sim_heap *heap)
{
	struct espl__sim_due top, last;
	size_t i = 0;

	ESPL__ASSERT(heap->count > 0);
	top = heap->list[0];
	last = heap->list[--heap->count];
	for (;;) {
		size_t child = 2 * i + 1;

		if (child >= heap->count)
			break;
		if (child + 1 < heap->count && before(&heap->list[child + 1], &heap->list[child]))
			child++;
		if (!before(&heap->list[child], &last))
			break;
		heap->list[i] = heap->list[child];
		i = child;
	}
	if (heap->count > 0)
		heap->list[i] = last;
	return top;
}

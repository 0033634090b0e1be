/* A shared object without a descriptor. */
#include "wrong.h"

ESPL_EXTERN ESPL_EXPORT const int allocator_no_symbol_is_here;
const int allocator_no_symbol_is_here = 1;

/* verb_drain.c - drain, undrain: a machine that is to get no trials, and one that may have them
 * again.
 */
#include "cli/request.h"

int
espl__verb_drain(const struct espl__args *args)
{
	return espl__request_send(args->positional[0], 0, "drain", args->positional[1], "drained");
}

int
espl__verb_undrain(const struct espl__args *args)
{
	return espl__request_send(args->positional[0], 0, "undrain", args->positional[1],
	    "given back");
}

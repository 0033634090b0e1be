/* verb_drain.c - drain, undrain: a machine that is to get no trials, and one that may have them
 * again.
 */
#include "cli/request.h"

int
espl__verb_drain(const struct espl__args *args)
{
	return espl__request_send(args, 0, "drain", "drained");
}

int
espl__verb_undrain(const struct espl__args *args)
{
	return espl__request_send(args, 0, "undrain", "given back");
}

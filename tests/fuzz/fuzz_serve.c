/* fuzz_serve.c - the address and the headers of a request: what is answered, and for whom. */
#include "oracle.h"

#include "serve/request.h"

#define ROOM_WORD "0123456789abcdef0123456789abcdef"

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	double begun = fuzz_seconds();
	char *text = malloc(size + 1), *other;
	struct espl__route one, two;

	memcpy(text, data, size);
	text[size] = '\0';
	other = strchr(text, '\n');
	if (other != NULL)
		*other++ = '\0';
	one = espl__route_of(text, ROOM_WORD);
	two = espl__route_of(text, ROOM_WORD);
	demand(one.place == two.place && one.run == two.run && one.trial == two.trial);
	/* nothing is shown without the whole secret */
	demand(one.place == ESPL__PLACE_NONE ||
	    strncmp(text, "/" ROOM_WORD "/", sizeof ROOM_WORD + 1) == 0);
	demand(strstr(text, "..") == NULL || one.place == ESPL__PLACE_NONE);
	demand(!espl__access_equal(text, ROOM_WORD) || strcmp(text, ROOM_WORD) == 0);
	if (espl__access_host(text))
		demand(strncmp(text, "localhost", 9) == 0 || strncmp(text, "127.0.0.1", 9) == 0 ||
		    strncmp(text, "[::1]", 5) == 0 || strncasecmp(text, "localhost", 9) == 0);
	if (other != NULL && espl__access_origin(text, other))
		demand(strstr(text, other) != NULL);
	free(text);
	demand_linear(begun, size);
	return 0;
}

/* main.c - the program's entry; everything else is in the library, where tests reach it. */
#include "cli/cli.h"

int
main(int argc, char **argv)
{
	return espl__main(argc, argv);
}

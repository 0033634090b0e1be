"""`python -m espalier`, and the command `espalier` of a wheel: runs the program in this process."""

import os
import sys

from espalier import program


def main() -> None:
    try:
        found = program.find(sys.argv[0])
        os.execve(found, [found, *sys.argv[1:]], program.environment(sys.argv[0]))
    except OSError as error:
        sys.exit("espalier: %s" % error)


if __name__ == "__main__":
    main()

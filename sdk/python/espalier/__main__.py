"""`python -m espalier`, and the command `espalier` of a wheel: runs the program in this process."""

import os
import sys

from espalier import program


def main() -> None:
    try:
        command = program.command(*sys.argv[1:])
        os.execve(command[0], command, program.environment())
    except OSError as error:
        sys.exit("espalier: %s" % error)


if __name__ == "__main__":
    main()

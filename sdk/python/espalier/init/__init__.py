"""`espalier init` for scripts in Python: a first configuration from their source and their --help."""

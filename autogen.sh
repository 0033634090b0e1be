#!/bin/sh
# Makes configure and Makefile.in from their sources; nothing else.
cd "$(dirname "$0")" && exec autoreconf -fi

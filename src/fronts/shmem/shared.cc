// A shared library needs a source of its own; everything in it is the static library's.

// The shared library consists of the static one, whole; a library needs a source of its own.
#include "penstock.h"

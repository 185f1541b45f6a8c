// Files of any file system as the source of a mover: what the page cache holds, pinned for devices
// or copied, and the rest by threads that may block.
#pragma once

#include "penstock/local/held_pages.h"
#include "penstock/local/local_source.h"

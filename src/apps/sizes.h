// Sizes and times on a command line: 4096, 64MiB, 10G; 90s, 30m, 12h, 7d.
#pragma once

#include <CLI/CLI.hpp>

namespace penstock::apps {

// Turns a size into bytes. Letters and what follows them (64M, 64MB, 64MiB) are powers of 1024.
CLI::Validator byte_size();

// The same, of what may be a file's chunk size.
CLI::Validator chunk_size();

// Turns a time into seconds, 1 to a year.
CLI::Validator duration();

}  // namespace penstock::apps

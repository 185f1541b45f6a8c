// Calls about files and names, one request each.
#pragma once

#include <string>
#include <sys/stat.h>

#include "penstock/lanes.h"

namespace penstock::files {

// 0, or a negative errno with its sentence for the calling thread: a path is absolute, and not
// longer than any path may be.
int check_path(const char* path, const char* what);
// The mode of something new, less the process's umask.
uint32_t creation_mode(mode_t mode);
// The process's umask, without changing it for a moment under the eyes of other threads.
mode_t current_umask();

// `flags` as of wire::OpenPath; `mode` is a creation_mode().
Outcome<int32_t> open_path(lanes::Session& session, const std::string& path, uint32_t flags,
                           uint32_t mode);
// Of a request that is answered with attributes.
Outcome<wire::Attributes> attributes_of(lanes::Session& session, const wire::RequestBody& request);
Outcome<struct stat> stat_of(lanes::Session& session, const wire::RequestBody& request);
// A request whose answer has no content.
Outcome<void> ask(lanes::Session& session, const wire::RequestBody& request, bool repeatable);

}  // namespace penstock::files

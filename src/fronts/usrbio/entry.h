// What every exported call shares.
#pragma once

#include "limits.h"

#include <cstring>
#include <exception>

#define USRBIO_EXPORT __attribute__((visibility("default")))

namespace penstock::usrbio {

// Whether it is a mount point that fits the structs.
inline bool is_mount_name(const char* mount) {
  return mount != nullptr && *mount != '\0' &&
         ::strnlen(mount, kMountPointBytes) < kMountPointBytes;
}

// Runs a call's body; what the standard library throws (only when memory is out) becomes
// `failure`, as callers are C programs.
template <class T, class Body>
T guarded(T failure, Body&& body) {
  try {
    return body();
  } catch (const std::exception&) {
    return failure;
  }
}

}  // namespace penstock::usrbio

// How many allocations the calling thread has made with new: a program that links allocations.cc
// counts them.
#pragma once

#include <cstdint>

namespace penstock::usrbio {

uint64_t allocations_of_this_thread();

}  // namespace penstock::usrbio

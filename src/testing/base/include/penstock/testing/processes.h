// Child processes of a test.
#pragma once

#include <functional>
#include <sys/types.h>

namespace penstock::test {

// How a child ended: its exit status, or 128 and the signal that ended it. Waits for it.
int ending_of(pid_t child);
// Forks, runs `body` there and ends the child with its result, without destructors of this process.
// Only the calling thread exists in the child.
int in_child(const std::function<int()>& body);

}  // namespace penstock::test

// Whole files, for tests that write one and look at another. Neither of them fails: a file that is
// not there is empty, and what could not be written is missing when the test looks.
#pragma once

#include <string>
#include <string_view>

namespace penstock::test {

std::string read_file(const std::string& path);
// Replaces what is there.
void write_file(const std::string& path, std::string_view content);

}  // namespace penstock::test

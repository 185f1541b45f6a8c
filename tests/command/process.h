// Running the `penstock` command as a user would, and looking at what it said.
#pragma once

#include <string>
#include <sys/types.h>
#include <vector>

namespace penstock::test {

struct Output {
  int exit_code = -1;  // 128 + signal when it was killed
  std::string out;
  std::string err;
};

// Runs a program, given by its path and arguments, to its end.
Output run(const std::vector<std::string>& words);
// Runs the built command with these arguments to its end.
Output penstock(const std::vector<std::string>& arguments);

// Starts the command without waiting for it; its output goes nowhere. 0 if it cannot be started.
pid_t start_penstock(const std::vector<std::string>& arguments);

// A directory that goes away with the test, whatever is in it.
class TemporaryDirectory {
 public:
  TemporaryDirectory();
  ~TemporaryDirectory();
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

std::string read_file(const std::string& path);
void write_file(const std::string& path, const std::string& content);

}  // namespace penstock::test

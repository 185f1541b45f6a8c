// A directory that goes away with the test, whatever is in it.
#pragma once

#include <string>

namespace penstock::test {

// Removes a directory with all below, also what its permissions keep its owner out of; says on
// standard error what stayed.
void remove_all(const std::string& path);

class ScratchDirectory {
 public:
  // Below `parent`: GoogleTest's directory for temporary files unless named. Other users may pass
  // through it. The program ends where it cannot be made.
  explicit ScratchDirectory(const std::string& parent = "");
  ~ScratchDirectory();
  ScratchDirectory(const ScratchDirectory&) = delete;
  ScratchDirectory& operator=(const ScratchDirectory&) = delete;

  // Absolute, without links in it and without a slash at its end.
  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  // Where the tests of everything that has a store put it.
  std::string store() const { return path_ + "/store"; }

  // It stays, for the person who runs the test to look at.
  void keep() { kept_ = true; }

 private:
  std::string path_;
  bool kept_ = false;
};

}  // namespace penstock::test

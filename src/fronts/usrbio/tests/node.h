// A real node for tests: the `penstock` program in a process of its own, with a mount, in a
// directory that goes away afterwards.
#pragma once

#include <string>
#include <sys/types.h>

namespace penstock::usrbio {

class Node {
 public:
  ~Node();
  // False, with the reason in `why`, if this machine cannot mount or the program is not there.
  bool possible(std::string& why) const;
  // Starts the program and waits until its mount is usable. Also after kill() or stop(), on the
  // same store.
  void start();
  void stop();     // as an operator does
  void suspend();  // it stays, and does nothing
  void kill();     // as the kernel does when memory is out

  const std::string& mount() const { return mount_; }
  const std::string& scratch() const { return root_; }  // a directory of its own
  std::string path(const std::string& name) const { return mount_ + "/" + name; }

 private:
  void unmount();

  std::string root_;
  std::string store_;
  std::string mount_;
  pid_t pid_ = -1;
};

}  // namespace penstock::usrbio

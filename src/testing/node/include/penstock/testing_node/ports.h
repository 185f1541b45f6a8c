// Ports of this machine, for nodes that listen.
#pragma once

#include <string>

#include "penstock/base.h"

namespace penstock::test {

// A socket that listens on a port of 127.0.0.1, and so keeps others from it.
class TakenPort {
 public:
  TakenPort();
  // 127.0.0.1:PORT
  const std::string& text() const { return text_; }

 private:
  UniqueFd socket_;
  std::string text_;
};

// An address of this machine whose port is free at this moment.
std::string free_address();

}  // namespace penstock::test

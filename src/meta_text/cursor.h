// Records of one kind, one after the other, without keeping more of them in memory than a few.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "penstock/engine.h"

namespace penstock::meta_text {

class Cursor {
 public:
  using Record = std::pair<std::string, std::string>;  // key and value

  // Keys in [begin, end). The transaction outlives the cursor, and reads only.
  Cursor(engine::KvTransaction& transaction, std::string begin, std::string end);

  // The record at hand, until next(); null behind the last one. What the store says otherwise.
  Result<const Record*> peek();
  void next();

 private:
  Status refill();

  engine::KvTransaction& transaction_;
  std::string begin_;  // of what was not read yet
  const std::string end_;
  std::vector<Record> records_;
  size_t at_ = 0;
  bool exhausted_ = false;  // there is nothing behind records_
};

}  // namespace penstock::meta_text

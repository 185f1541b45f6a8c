// Changes of an input such as a fuzzer makes, from a seed and nothing else.
#pragma once

#include <string>
#include <vector>

#include "penstock/base.h"

namespace penstock::fuzz {

class Mutator {
 public:
  // Every input follows from `seed` and its number alone.
  Mutator(const std::vector<std::string>& seeds, uint64_t seed) : seeds_(seeds), seed_(seed) {}
  std::string input(uint64_t number);

 private:
  uint64_t below(uint64_t bound);
  uint64_t some_number();
  void change(std::string* bytes);
  void put_number(std::string* bytes);
  void join(std::string* bytes);

  const std::vector<std::string>& seeds_;
  const uint64_t seed_;
  uint64_t state_ = 0;
};

}  // namespace penstock::fuzz

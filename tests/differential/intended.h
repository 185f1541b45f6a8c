// The list of what may differ between the mount and a local ext4. Nothing else may.
#pragma once

#include "shared.h"
#include "side.h"

#include <optional>
#include <string_view>

namespace penstock::differential {

// A difference that was seen.
struct Case {
  const Operation& operation;
  std::string_view field;         // "answer", or an attribute's name
  const Note* note = nullptr;     // of the file in question, where there is one
  uint32_t mode = 0;              // its type and permissions
  bool gone = false;              // a directory, link or node in question has no name left
  bool copies = false;            // files of the mount have copies on several targets
  const Answer* mount = nullptr;  // of a difference of answers
  const Answer* host = nullptr;
};

struct Rule {
  std::string_view name;
  std::string_view why;  // with the row of docs/posix.md, where programs can notice
  bool (*matches)(const Case&);
};

// All rules, those of the comparisons that are not made at all behind them (they match nothing).
const Rule* rules();
size_t rule_count();

// The rule that allows it, if any does.
std::optional<size_t> intended(const Case& seen);

}  // namespace penstock::differential

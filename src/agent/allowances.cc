#include "allowances.h"

#include "limits.h"
#include "store_contents.h"

#include <cerrno>
#include <cstring>
#include <fmt/format.h>
#include <fstream>
#include <sstream>

namespace penstock::agent {
namespace {

constexpr const char* kHeader = "penstock-limits 1";

std::string line_of(uint32_t uid, const client::Allowance& a) {
  return fmt::format(
      "user {} weight {} bytes_per_second {} operations_per_second {} operations_in_flight {}\n",
      uid, a.weight, a.bytes_per_second, a.operations_per_second, a.operations_in_flight);
}

// False for a line that was not written by line_of().
bool parse(const std::string& line, uint32_t* uid, client::Allowance* a) {
  std::istringstream words(line);
  std::string name;
  words >> name >> *uid;
  if (name != "user") return false;
  words >> name >> a->weight >> name >> a->bytes_per_second >> name >> a->operations_per_second >>
      name >> a->operations_in_flight;
  return !words.fail() && line + "\n" == line_of(*uid, *a);
}

}  // namespace

Outcome<void> Allowances::load(const std::string& directory) {
  const std::lock_guard lock(mutex_);
  path_ = directory + "/" + kLimitsName;
  std::ifstream file(path_);
  if (!file && errno == ENOENT) return {};
  std::string line;
  size_t number = 0;
  while (std::getline(file, line)) {
    uint32_t uid = 0;
    client::Allowance allowance;
    const bool good = number == 0 ? line == kHeader : parse(line, &uid, &allowance);
    ++number;
    if (!good || number > limits::kLimitLinesMax ||
        (number > 1 && !users_[uid].set(allowance).ok())) {
      return Failure{Code::corrupt, fmt::format("{}: line {} is not understood (correct it, or "
                                                "remove the file: then no user is limited)",
                                                path_, number)};
    }
  }
  if (number > 0 && !file.bad()) return {};
  return Failure{Code::corrupt, fmt::format("{}: cannot be read, or is empty (remove the file: "
                                            "then no user is limited)",
                                            path_)};
}

client::Terms& Allowances::of(uint32_t uid) {
  const std::lock_guard lock(mutex_);
  return users_[uid];
}

std::string Allowances::text() const {
  std::string text = std::string(kHeader) + "\n";
  for (const auto& [uid, terms] : users_) {
    if (terms.allowance() != client::Allowance{}) text += line_of(uid, terms.allowance());
  }
  return text;
}

Outcome<void> Allowances::set(uint32_t uid, const client::Allowance& allowance) {
  const std::lock_guard lock(mutex_);
  client::Terms& terms = users_[uid];
  const client::Allowance before = terms.allowance();
  ASSERT(before.weight >= 1 && before.weight <= client::kWeightMax);
  if (!terms.set(allowance).ok()) {
    return Failure{Code::invalid_argument, fmt::format("a weight is 1 to {}, not {}",
                                                       client::kWeightMax, allowance.weight)};
  }
  if (path_.empty()) return {};
  const Status kept = keep_file(path_, text(), 0600);
  if (kept.ok()) return {};
  (void)terms.set(before);
  return Failure{
      kept, fmt::format("{}: cannot be written: {} (nothing was changed)", path_, kept.name())};
}

std::vector<std::pair<uint32_t, client::Allowance>> Allowances::all() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::pair<uint32_t, client::Allowance>> all;
  for (const auto& [uid, terms] : users_) {
    if (terms.allowance() != client::Allowance{}) all.emplace_back(uid, terms.allowance());
  }
  return all;
}

}  // namespace penstock::agent

#include "model.h"

#include <algorithm>

namespace penstock::client {

std::string with_write(std::string content, uint64_t offset, const std::string& bytes) {
  if (bytes.empty()) return content;
  content.resize(std::max<uint64_t>(content.size(), offset + bytes.size()));
  std::copy(bytes.begin(), bytes.end(), content.begin() + static_cast<ptrdiff_t>(offset));
  return content;
}

void ModelFile::durable(uint64_t offset, const std::string& bytes) {
  for (std::string& state : history) state = with_write(std::move(state), offset, bytes);
  only_cut = false;
}

std::string ModelFile::judge(const std::string& found) const {
  const auto is_shorter = [](const std::string& a, const std::string& b) {
    return a.size() < b.size();
  };
  const size_t least = std::min_element(history.begin(), history.end(), is_shorter)->size();
  const size_t most = std::max_element(history.begin(), history.end(), is_shorter)->size();
  if (found.size() < least || found.size() > most) {
    return "length " + std::to_string(found.size()) + " is not within [" + std::to_string(least) +
           ", " + std::to_string(most) + "]";
  }
  if (only_cut && found != history.front() && found != history.back()) {
    return "a cut from " + std::to_string(history.front().size()) + " to " +
           std::to_string(history.back().size()) + " bytes left something else, of " +
           std::to_string(found.size()) + " bytes";
  }
  for (size_t i = 0; i < found.size(); ++i) {
    const bool explained = std::any_of(history.begin(), history.end(), [&](const auto& state) {
      return i < state.size() ? state[i] == found[i] : found[i] == '\0';
    });
    if (!explained) {
      return "byte " + std::to_string(i) + " of " + std::to_string(found.size()) + " is " +
             std::to_string(static_cast<unsigned char>(found[i])) + ", which it never was";
    }
  }
  return {};
}

}  // namespace penstock::client

// The uncommitted changes of one transaction, laid over what is committed.
#pragma once

#include <array>
#include <map>
#include <memory_resource>
#include <optional>
#include <string>
#include <string_view>

#include "penstock/engine.h"

namespace penstock::kv {

class Overlay {
 public:
  using Text = std::pmr::string;
  using Changes = std::pmr::map<Text, std::optional<Text>, std::less<>>;  // nullopt: erased

  Overlay() = default;
  Overlay(const Overlay&) = delete;
  Overlay& operator=(const Overlay&) = delete;

  void put(std::string_view key, std::string_view value) {
    changes_.insert_or_assign(Text(key, &memory_), Text(value, &memory_));
  }
  void erase(std::string_view key) { changes_.insert_or_assign(Text(key, &memory_), std::nullopt); }
  // What get() answers of a change.
  static std::optional<std::string> value_of(const std::optional<Text>& change) {
    if (!change) return std::nullopt;
    return std::string(*change);
  }
  // Null if this transaction did not touch the key.
  const std::optional<Text>* find(std::string_view key) const {
    const auto found = changes_.find(key);
    return found == changes_.end() ? nullptr : &found->second;
  }
  const Changes& changes() const { return changes_; }

  // Merges the changes in [begin, end) with the committed keys that `base` walks, which starts at
  // `begin` and stops before `end` itself. Base: bool valid(), key(), value(), next().
  template <class Base>
  void scan(Base& base, std::string_view begin, std::string_view end,
            const engine::KvTransaction::Visitor& visit) const {
    auto change = changes_.lower_bound(begin);
    while (true) {
      const bool has_change = change != changes_.end() && (end.empty() || change->first < end);
      if (!base.valid() && !has_change) return;
      if (base.valid() && (!has_change || base.key() < change->first)) {
        if (!visit(base.key(), base.value())) return;
        base.next();
        continue;
      }
      if (base.valid() && base.key() == change->first) base.next();  // hidden by the change
      if (change->second && !visit(change->first, *change->second)) return;
      ++change;
    }
  }

 private:
  // Keys and values lie in a few blocks, each larger than the one before: a commit of hundreds of
  // records asks the heap a few times, and a small one never. What was replaced stays until the
  // end.
  std::array<std::byte, 1024> first_;
  std::pmr::monotonic_buffer_resource memory_{first_.data(), first_.size()};
  Changes changes_{&memory_};
};

}  // namespace penstock::kv

// The uncommitted changes of one transaction, laid over what is committed.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "penstock/engine.h"

namespace penstock::kv {

class Overlay {
 public:
  using Changes =
      std::map<std::string, std::optional<std::string>, std::less<>>;  // nullopt: erased

  void put(std::string_view key, std::string_view value) {
    changes_.insert_or_assign(std::string(key), std::string(value));
  }
  void erase(std::string_view key) { changes_.insert_or_assign(std::string(key), std::nullopt); }
  // Null if this transaction did not touch the key.
  const std::optional<std::string>* find(std::string_view key) const {
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
  Changes changes_;
};

}  // namespace penstock::kv

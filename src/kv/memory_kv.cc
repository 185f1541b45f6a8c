// A map under a lock: writing transactions run one after the other, so there are no conflicts.
#include "overlay.h"
#include "workers.h"

#include <map>
#include <shared_mutex>

#include "penstock/kv.h"

namespace penstock::kv {
namespace {

using Map = std::map<std::string, std::string, std::less<>>;

struct MapCursor {
  Map::const_iterator at;
  Map::const_iterator last;

  bool valid() const { return at != last; }
  std::string_view key() const { return at->first; }
  std::string_view value() const { return at->second; }
  void next() { ++at; }
};

class MemoryTransaction final : public engine::KvTransaction {
 public:
  MemoryTransaction(const Map& map, bool writing) : map_(map), writing_(writing) {}

  Result<std::optional<std::string>> get(std::string_view key) override {
    if (const auto* change = overlay_.find(key)) return Overlay::value_of(*change);
    const auto found = map_.find(key);
    if (found == map_.end()) return std::optional<std::string>();
    return std::optional<std::string>(found->second);
  }

  void put(std::string_view key, std::string_view value) override {
    ASSERT(writing_);
    overlay_.put(key, value);
  }

  void erase(std::string_view key) override {
    ASSERT(writing_);
    overlay_.erase(key);
  }

  Status scan(std::string_view begin, std::string_view end, const Visitor& visit) override {
    if (!end.empty() && end <= begin) return {};
    MapCursor base{map_.lower_bound(begin), end.empty() ? map_.end() : map_.lower_bound(end)};
    overlay_.scan(base, begin, end, visit);
    return {};
  }

  void apply(Map& map) const {
    ASSERT(&map == &map_ && writing_);
    for (const auto& [key, value] : overlay_.changes()) {
      if (value) {
        map.insert_or_assign(std::string(key), std::string(*value));
      } else {
        map.erase(std::string(key));
      }
    }
  }

 private:
  const Map& map_;
  const bool writing_;
  Overlay overlay_;
};

class MemoryKv final : public engine::Kv {
 public:
  MemoryKv() : workers_(1, [this](engine::KvOp& op) { return run(op); }) {}

  void submit(engine::KvOp& op) override { workers_.submit(op); }

  using engine::Kv::run;
  Status run(engine::KvOp& op) override {
    if (op.mode == engine::KvMode::read) {
      const std::shared_lock lock(mutex_);
      MemoryTransaction transaction(map_, false);
      return op.body(transaction);
    }
    const std::lock_guard lock(mutex_);
    MemoryTransaction transaction(map_, true);
    TRY(op.body(transaction));
    transaction.apply(map_);
    return {};
  }

  Status sync() override { return {}; }

 private:
  std::shared_mutex mutex_;
  Map map_;
  Workers workers_;
};

}  // namespace

std::unique_ptr<engine::Kv> make_memory_kv() {
  return std::make_unique<MemoryKv>();
}

}  // namespace penstock::kv

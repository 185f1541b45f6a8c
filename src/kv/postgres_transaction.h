// One attempt of a transaction on one connection.
#pragma once

#include "overlay.h"
#include "postgres_link.h"

#include <map>
#include <string>
#include <vector>

#include "penstock/engine.h"

namespace penstock::kv::postgres {

enum class Way : uint8_t {
  read,    // from one snapshot
  shared,  // likewise, and what was read is checked when it commits
  alone,   // nobody else commits meanwhile
};

class Transaction final : public engine::KvTransaction {
 public:
  Transaction(Link& link, Way way) : link_(link), way_(way) {}
  // Ends it on the server, without waiting, unless commit() has.
  ~Transaction() override;

  Result<std::optional<std::string>> get(std::string_view key) override;
  Result<Values> get_many(std::span<const std::string> keys) override;
  void put(std::string_view key, std::string_view value) override;
  void erase(std::string_view key) override;
  Status scan(std::string_view begin, std::string_view end, const Visitor& visit) override;

  // Why reading failed, if it did. The body's status says nothing then.
  const std::optional<Fault>& fault() const { return fault_; }
  bool changes_nothing() const { return overlay_.changes().empty(); }

  // Checks and writes, in one trip, as commit `number` of `place` of `process`.
  struct Name {
    const std::string& process;
    uint32_t place;
    uint64_t number;
  };
  Link::Outcome<bool> commit(const Name& name);

 private:
  class Cursor;
  // What was read. The value only for what get() may ask again: those of scans are not kept.
  struct Seen {
    Version version;
    bool has_value = false;
    std::optional<std::string> value;
  };

  // What a statement answers; begins before the first.
  Result<Answer> ask(const Statement& statement, const Arguments& arguments);
  void begin(std::vector<Step>& steps);
  // Null if it has to be asked for.
  const Seen* known(std::string_view key) const;
  void see(std::string_view key, Version version, std::optional<std::string> value);
  void add_locks(Arguments& arguments) const;
  void add_checks(Arguments& arguments) const;
  void add_changes(Arguments& arguments) const;

  Link& link_;
  const Way way_;
  bool begun_ = false;
  std::optional<Fault> fault_;
  Overlay overlay_;
  std::map<std::string, Seen, std::less<>> seen_;  // only where it will be checked
};

}  // namespace penstock::kv::postgres

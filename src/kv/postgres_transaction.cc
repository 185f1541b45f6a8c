#include "postgres_transaction.h"

#include "limits.h"
#include "postgres_schema.h"

#include <algorithm>

namespace penstock::kv::postgres {
namespace {

engine::Time answer_deadline() {
  return engine::system_clock().now() + engine::Duration(kPostgresAnswerTime);
}

// The name of a key's lock, the same in every process: FNV-1a. The top bit tells it from others.
uint64_t lock_of(std::string_view key) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char byte : key) {
    hash ^= static_cast<uint8_t>(byte);
    hash *= 0x100000001b3;
  }
  return hash | uint64_t{1} << 63;
}

const Arguments& gate() {
  static const Arguments arguments = [] {
    Arguments made;
    made.int8(kGate);
    return made;
  }();
  return arguments;
}

Version version_in(const Answer& answer, int row, int column) {
  const std::optional<uint64_t> number = answer.number(row, column);
  if (!number) return std::nullopt;
  return static_cast<uint32_t>(*number);
}

}  // namespace

// Committed keys from `begin` on, a batch at a time.
class Transaction::Cursor {
 public:
  Cursor(Transaction& transaction, std::string_view begin, std::string_view end)
      : transaction_(transaction), begin_(begin), end_(end) {
    fetch();
  }

  bool valid() const { return batch_ && at_ < batch_->rows(); }
  std::string_view key() const { return batch_->bytes(at_, 0); }
  std::string_view value() const { return batch_->bytes(at_, 1); }
  Version version() const { return version_in(*batch_, at_, 2); }
  void next() {
    ASSERT(valid());
    if (++at_ < batch_->rows()) return;
    if (static_cast<uint64_t>(batch_->rows()) < rows_) return;  // that was all
    // The first key behind the last one.
    begin_ = std::string(batch_->bytes(at_ - 1, 0)) + '\0';
    rows_ = std::min(4 * rows_, kPostgresScanRowsMax);
    fetch();
  }
  Status status() const { return status_; }

 private:
  void fetch() {
    Arguments arguments;
    arguments.bytes(begin_).int8(rows_);
    if (!end_.empty()) arguments.bytes(end_);
    Result<Answer> answer =
        transaction_.ask(end_.empty() ? statement::kScan : statement::kScanBelow, arguments);
    at_ = 0;
    batch_.reset();
    if (answer) {
      batch_.emplace(std::move(*answer));
    } else {
      status_ = answer.error();
    }
  }

  Transaction& transaction_;
  std::string begin_;
  const std::string_view end_;
  uint64_t rows_ = kPostgresScanRowsMin;
  std::optional<Answer> batch_;
  int at_ = 0;
  Status status_;
};

Transaction::~Transaction() {
  if (!begun_) return;
  const Step steps[] = {{statement::kRollback, kNoArguments}};
  link_.run_unseen(steps);
}

void Transaction::begin(std::vector<Step>& steps) {
  if (std::exchange(begun_, true)) return;
  if (way_ == Way::alone) {
    steps.push_back({statement::kBegin, kNoArguments});
    steps.push_back({statement::kLockAlone, gate()});
  } else {
    steps.push_back({statement::kBeginRead, kNoArguments});
  }
}

Result<Answer> Transaction::ask(const Statement& statement, const Arguments& arguments) {
  if (fault_) return fault_->status;
  std::vector<Step> steps;
  begin(steps);
  steps.push_back({statement, arguments});
  auto answers = link_.run(steps, answer_deadline());
  if (!answers) {
    fault_ = answers.error();
    return fault_->status;
  }
  ASSERT(answers->size() == steps.size());
  return std::move(answers->back());
}

const Transaction::Seen* Transaction::known(std::string_view key) const {
  const auto found = seen_.find(key);
  return found == seen_.end() || !found->second.has_value ? nullptr : &found->second;
}

void Transaction::see(std::string_view key, Version version, std::optional<std::string> value) {
  if (way_ != Way::shared) return;
  seen_.insert_or_assign(std::string(key), Seen{version, true, std::move(value)});
}

Result<std::optional<std::string>> Transaction::get(std::string_view key) {
  if (const auto* change = overlay_.find(key)) return Overlay::value_of(*change);
  if (const Seen* seen = known(key)) return seen->value;
  Arguments arguments;
  arguments.bytes(key);
  TRY_ASSIGN(const Answer answer, ask(statement::kGet, arguments));
  if (answer.rows() == 0) {
    see(key, std::nullopt, std::nullopt);
    return std::optional<std::string>();
  }
  std::optional<std::string> value(answer.bytes(0, 0));
  see(key, version_in(answer, 0, 1), value);
  return value;
}

Result<Transaction::Values> Transaction::get_many(std::span<const std::string> keys) {
  Values values(keys.size());
  std::multimap<std::string_view, size_t> asked;
  for (size_t i = 0; i < keys.size(); ++i) {
    if (const auto* change = overlay_.find(keys[i])) {
      values[i] = Overlay::value_of(*change);
    } else if (const Seen* seen = known(keys[i])) {
      values[i] = seen->value;
    } else {
      asked.emplace(keys[i], i);
    }
  }
  if (asked.empty()) return values;
  std::vector<std::string_view> names;
  for (auto at = asked.begin(); at != asked.end(); at = asked.upper_bound(at->first)) {
    names.push_back(at->first);
    see(at->first, std::nullopt, std::nullopt);
  }
  Arguments arguments;
  arguments.byteas(names);
  TRY_ASSIGN(const Answer answer, ask(statement::kGetMany, arguments));
  for (int row = 0; row < answer.rows(); ++row) {
    const std::string value(answer.bytes(row, 1));
    const auto [first, last] = asked.equal_range(answer.bytes(row, 0));
    if (first != last) see(first->first, version_in(answer, row, 2), value);
    for (auto at = first; at != last; ++at) values[at->second] = value;
  }
  return values;
}

void Transaction::put(std::string_view key, std::string_view value) {
  ASSERT(way_ != Way::read);
  overlay_.put(key, value);
}

void Transaction::erase(std::string_view key) {
  ASSERT(way_ != Way::read);
  overlay_.erase(key);
}

Status Transaction::scan(std::string_view begin, std::string_view end, const Visitor& visit) {
  if (!end.empty() && end <= begin) return {};
  Cursor cursor(*this, begin, end);
  overlay_.scan(cursor, begin, end, [&](std::string_view key, std::string_view value) {
    // Those that this transaction wrote are locked anyway.
    if (way_ == Way::shared && overlay_.find(key) == nullptr) {
      seen_.try_emplace(std::string(key), Seen{cursor.version(), false, std::nullopt});
    }
    return visit(key, value);
  });
  return cursor.status();
}

void Transaction::add_locks(Arguments& arguments) const {
  std::map<uint64_t, bool> locks;  // whether it is shared
  if (way_ == Way::shared) {
    for (const auto& [key, seen] : seen_) locks[lock_of(key)] = true;
    for (const auto& [key, value] : overlay_.changes()) locks[lock_of(key)] = false;
  }
  std::vector<uint64_t> names;
  std::vector<bool> shared;
  if (way_ == Way::shared) {
    names.push_back(kGate);
    shared.push_back(locks.size() <= kPostgresLocksMax);
    if (!shared.back()) locks.clear();
  }
  for (const auto& [name, is_shared] : locks) {
    names.push_back(name);
    shared.push_back(is_shared);
  }
  ASSERT(names.size() == shared.size());
  arguments.int8s(names).booleans(shared);
}

void Transaction::add_checks(Arguments& arguments) const {
  // Who is alone reads what nobody can change.
  ASSERT(way_ == Way::shared || seen_.empty());
  std::vector<std::string_view> keys;
  std::vector<Version> versions;
  for (const auto& [key, seen] : seen_) {
    keys.push_back(key);
    versions.push_back(seen.version);
  }
  arguments.byteas(keys).versions(versions);
}

void Transaction::add_changes(Arguments& arguments) const {
  std::vector<std::string_view> keys, contents, erased;
  for (const auto& [key, value] : overlay_.changes()) {
    if (value) {
      keys.push_back(key);
      contents.push_back(*value);
    } else {
      erased.push_back(key);
    }
  }
  arguments.byteas(keys).byteas(contents).byteas(erased);
}

Link::Outcome<bool> Transaction::commit(const Name& name) {
  ASSERT(way_ != Way::read && !fault_ && !changes_nothing());
  Arguments arguments;
  arguments.bytes(name.process).int4(name.place).int8(name.number);
  add_locks(arguments);
  add_checks(arguments);
  add_changes(arguments);
  std::vector<Step> steps;
  if (way_ == Way::alone) {
    begin(steps);
  } else {
    if (begun_) steps.push_back({statement::kCommit, kNoArguments});
    steps.push_back({statement::kBegin, kNoArguments});
    begun_ = true;
  }
  steps.push_back({statement::kPut, arguments});
  steps.push_back({statement::kCommit, kNoArguments});
  const auto answers = link_.run(steps, answer_deadline());
  if (!answers) return answers.error();
  begun_ = false;
  ASSERT(answers->size() == steps.size());
  // Anything else, or a warning, and it may not be where it has to be: its place is asked.
  if (answers->back().command() != "COMMIT" || link_.warned()) {
    return Fault{Reach::connection, Code::may_have_happened, "a commit was doubted by the server"};
  }
  return true;
}

}  // namespace penstock::kv::postgres

#include "postgres_fault.h"

#include <map>
#include <memory>

namespace penstock::kv::postgres {
namespace {

struct Entry {
  std::string_view begins;  // a whole SQLSTATE, or its class
  Reach reach;
  Code code;
};

// The first row that fits.
constexpr Entry kEntries[] = {
    {"40001", Reach::attempt, Code::conflict},  // the check of what was read
    {"40P01", Reach::attempt, Code::conflict},  // deadlock
    {"55P03", Reach::attempt, Code::busy},      // waited long enough for a lock
    {"08", Reach::connection, Code::peer_gone},
    {"57P", Reach::connection, Code::peer_gone},  // shuts down, crashed, starts, was told to end us
    {"25P03", Reach::connection, Code::peer_gone},  // idle in a transaction for too long
    {"25006", Reach::connection, Code::read_only},  // no longer the primary
    {"53300", Reach::connection, Code::busy},       // too many connections
    {kNotThisConnection, Reach::connection, Code::peer_gone},
    {"26000", Reach::connection, Code::peer_gone},  // statements were prepared in another session
    {"57014", Reach::operation, Code::timed_out},   // the statement took too long
    {"53100", Reach::operation, Code::no_space},
    {"53", Reach::operation, Code::no_memory},
    {"54", Reach::operation, Code::too_large},  // a key that no page of an index holds
    {"28", Reach::operation, Code::access_denied},
    {"42501", Reach::operation, Code::access_denied},
    {"3D000", Reach::operation, Code::not_found},  // no such database
    {"XX00", Reach::operation, Code::corrupt},     // internal errors, damaged tables and indexes
    {"42P01", Reach::operation, Code::corrupt},    // a table of ours is gone
    {"42883", Reach::operation, Code::corrupt},    // the function
    {"3F000", Reach::operation, Code::corrupt},    // the schema
};

}  // namespace

Fault fault_of(std::string_view sqlstate, std::string reason) {
  if (sqlstate.size() != 5) return {Reach::connection, Code::peer_gone, std::move(reason)};
  for (const Entry& entry : kEntries) {
    if (!sqlstate.starts_with(entry.begins)) continue;
    return {entry.reach, entry.code, std::move(reason), entry.begins};
  }
  return {Reach::operation, Code::io_error, std::move(reason), "other"};
}

void count_retry(const Fault& fault) {
  // One for each label, made together, and never destroyed.
  static auto& counters = *new auto([] {
    std::map<std::string_view, std::unique_ptr<metrics::Counter>> made;
    const auto add = [&made](std::string_view label) {
      made.emplace(label, std::make_unique<metrics::Counter>("kv.retries." + std::string(label)));
    };
    for (const Entry& entry : kEntries) {
      if (entry.reach != Reach::operation) add(entry.begins);
    }
    add("none");
    add("other");
    return made;
  }());
  const auto found = counters.find(fault.label);
  ASSERT(found != counters.end());
  found->second->add();
}

}  // namespace penstock::kv::postgres

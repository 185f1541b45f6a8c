#include "reachable.h"

#include <fmt/format.h>
#include <optional>
#include <vector>

#include "penstock/meta_records.h"

namespace penstock::meta_text {
namespace {

// A directory on the path, and the cookie behind which its entries were not looked at yet.
struct PathStep {
  InodeId directory;
  uint64_t after = 0;
};

Failure apart(std::string what) {
  return {Code::corrupt, std::move(what)};
}

// Moves `step` to its next entry that is a directory, and says which.
Result<std::optional<InodeId>> next_directory(engine::KvTransaction& transaction, PathStep& step) {
  const meta::Keys keys("");
  std::optional<InodeId> found;
  Status status;
  TRY(transaction.scan(keys.cookie(step.directory, step.after + 1), keys.end('C', step.directory),
                       [&](std::string_view key, std::string_view value) {
                         const std::optional<uint64_t> cookie = keys.cookie_of(key);
                         const auto entry = meta::decode_cookie_entry(value);
                         if (!cookie || !entry) {
                           status = Code::corrupt;
                           return false;
                         }
                         step.after = *cookie;
                         if (entry->type == meta::FileType::directory) found = entry->inode;
                         return !found;
                       }));
  TRY(status);
  return found;
}

Outcome<void> walk(engine::KvTransaction& transaction, uint64_t directories) {
  std::vector<PathStep> path = {{meta::kRootInode}};
  uint64_t reached = 1;
  while (!path.empty()) {
    const Result<std::optional<InodeId>> below = next_directory(transaction, path.back());
    if (!below) {
      return Failure{below.error(), fmt::format("cannot be read: {}", below.error().name())};
    }
    if (!*below) {
      path.pop_back();
      continue;
    }
    if (path.size() >= meta::kDepthMax) {
      return apart(fmt::format("directory {} is too far from the root", (*below)->value));
    }
    // Each has one entry, so that none is reached twice; but that this ends is not to depend on it.
    if (++reached > directories) return apart("a directory is reached by two paths");
    path.push_back({**below});
  }
  ASSERT(reached <= directories);
  if (reached == directories) return {};
  return apart(fmt::format("{} directories do not lead to the root", directories - reached));
}

}  // namespace

Outcome<void> check_reachable(engine::KvTransaction& transaction, uint64_t directories) {
  return walk(transaction, directories);
}

Outcome<void> check_reachable(engine::Kv& kv, uint64_t directories) {
  ASSERT(directories >= 1);
  Outcome<void> walked;
  const Status status =
      kv.run(engine::KvMode::read, [&](engine::KvTransaction& transaction) -> Status {
        walked = walk(transaction, directories);
        return walked ? Status() : walked.error().status;
      });
  if (!walked || status.ok()) return walked;
  return Failure{status, fmt::format("cannot be read: {}", status.name())};
}

}  // namespace penstock::meta_text

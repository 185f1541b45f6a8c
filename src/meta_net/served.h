// What was asked of the service, by kind, for metrics.
#pragma once

#include "messages.h"

#include <array>
#include <optional>
#include <string>
#include <string_view>

namespace penstock::meta_net {

// In the order of Request. They are labels of metrics, and stay as they are.
inline constexpr std::string_view kCallNames[] = {"lookup",
                                                  "resolve",
                                                  "resolve_many",
                                                  "resolve_parent",
                                                  "attributes",
                                                  "read_symlink",
                                                  "set_attributes",
                                                  "set_layout",
                                                  "drop_privileges",
                                                  "record_accessed",
                                                  "create",
                                                  "make_directory",
                                                  "unused_id",
                                                  "create_unnamed",
                                                  "make_node",
                                                  "make_symlink",
                                                  "link",
                                                  "place_files",
                                                  "create_files",
                                                  "unlink",
                                                  "remove_directory",
                                                  "rename",
                                                  "read_directory",
                                                  "newest_cookie",
                                                  "get_xattr",
                                                  "set_xattr",
                                                  "list_xattrs",
                                                  "remove_xattr",
                                                  "begin_write",
                                                  "settle",
                                                  "end_write",
                                                  "unsettled",
                                                  "is_unsettled",
                                                  "sync",
                                                  "orphans",
                                                  "forget",
                                                  "counts",
                                                  "own_chains",
                                                  "look",
                                                  "set_quota",
                                                  "delete_quota",
                                                  "list_quotas",
                                                  "check_quota",
                                                  "quota_of",
                                                  "reserve",
                                                  "access",
                                                  "capability",
                                                  "prove",
                                                  "set_trash",
                                                  "trash_of",
                                                  "list_trash",
                                                  "empty_trash"};
static_assert(std::size(kCallNames) == std::variant_size_v<Request>, "each kind has a name");

// Of one thread.
class Served {
 public:
  // From when it came until it was answered.
  void add(const Request& request, bool failed, engine::Duration took) {
    std::optional<Kind>& kind = kinds_[request.index()];
    if (!kind) kind.emplace(kCallNames[request.index()]);
    kind->calls.add();
    if (failed) kind->failed.add();
    kind->nanoseconds.add(static_cast<uint64_t>(std::max(took, engine::Duration::zero()).count()));
  }

 private:
  struct Kind {
    explicit Kind(std::string_view name)
        : calls("meta.calls." + std::string(name)),
          failed("meta.failed." + std::string(name)),
          nanoseconds("meta.nanoseconds." + std::string(name)) {}
    metrics::Counter calls;
    metrics::Counter failed;
    metrics::Counter nanoseconds;
  };
  static_assert(std::is_same_v<engine::Duration, std::chrono::nanoseconds>);
  std::array<std::optional<Kind>, std::size(kCallNames)> kinds_;  // those that were asked
};

}  // namespace penstock::meta_net

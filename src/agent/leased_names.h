// The names as the node's own file system asks for them, where another process may take them over.
#pragma once

#include "limits.h"
#include "pause.h"

#include <functional>
#include <utility>

#include "penstock/engine.h"
#include "penstock/meta_passed_on.h"

namespace penstock::agent {

// What is found in memory is told only while the node may act (docs/decisions/0069): all else asks
// the database, which knows no process that was replaced. Waits for that, for a while; then
// peer_gone. Thread safe, for threads that may block.
class LeasedNames final : public meta::PassedOn {
 public:
  LeasedNames(meta::Meta& meta, std::function<bool()> may_act)
      : PassedOn(meta), may_act_(std::move(may_act)) {
    ASSERT(may_act_ != nullptr);
  }

  Result<meta::Attributes> lookup(const meta::Credentials& who, InodeId parent,
                                  std::string_view name) override {
    TRY(await());
    return PassedOn::lookup(who, parent, name);
  }
  Result<meta::Attributes> resolve(const meta::Credentials& who, std::string_view path,
                                   bool follow_last) override {
    TRY(await());
    return PassedOn::resolve(who, path, follow_last);
  }
  Result<std::vector<Result<meta::Attributes>>> resolve_many(
      const meta::Credentials& who, const std::vector<std::string_view>& paths,
      bool follow_last) override {
    TRY(await());
    return PassedOn::resolve_many(who, paths, follow_last);
  }
  Result<meta::Attributes> attributes(InodeId inode) override {
    TRY(await());
    return PassedOn::attributes(inode);
  }
  Status look(std::span<meta::Look> looks) override {
    TRY(await());
    return PassedOn::look(looks);
  }

 private:
  Status await() const {
    const engine::Time deadline = engine::system_clock().now() + limits::kLeasePatience;
    while (!may_act_()) {
      if (engine::system_clock().now() >= deadline) return Code::peer_gone;
      pause_for(limits::kLeaseLook);
    }
    return Code::ok;
  }

  const std::function<bool()> may_act_;
};

}  // namespace penstock::agent

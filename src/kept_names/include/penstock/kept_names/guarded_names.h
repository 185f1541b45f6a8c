// Changes of names, which happen once everybody who keeps what they change has forgotten it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "penstock/holds_net.h"
#include "penstock/meta.h"
#include "penstock/meta_passed_on.h"

namespace penstock::kept_names {

// Of the process that has the names; one for all who change them. Thread safe. What it points to
// outlives it.
class NamesGuard {
 public:
  explicit NamesGuard(holds_net::HoldsService& holds) : holds_(holds) {}
  ~NamesGuard();  // nothing is being changed

  // What waits for others ends without effect, and so does what comes. Before the service stops.
  void stop();

 private:
  friend class GuardedNames;
  class Change;
  struct Waiting;

  holds_net::HoldsService& holds_;
  holds::Changes changes_;
  engine::Mutex mutex_;
  engine::Condition wake_;
  bool is_stopping_ = false;  // under the mutex
};

// The names as one agent changes them. What others keep of what it is about to change they have
// forgotten before it happens, and nothing that is read meanwhile is steady. Attributes that only
// an exclusive holder changes (length, times, modes, extended attributes) are guarded by its hold.
// Thread safe, for threads that may block: a change waits for other agents, as long as they have to
// answer recalls.
class GuardedNames final : public meta::PassedOn {
 public:
  // `maker`: the agent, asked with each change.
  GuardedNames(meta::Meta& meta, NamesGuard& guard, std::function<holds::AgentId()> maker)
      : PassedOn(meta), guard_(guard), maker_(std::move(maker)) {}

  Status look(std::span<meta::Look> looks) override;

  Result<meta::Attributes> set_layout(const meta::Credentials& who, InodeId directory,
                                      const LayoutEdit& change) override;
  Result<meta::Attributes> create(const meta::Credentials& who, InodeId parent,
                                  std::string_view name, uint32_t mode, bool exclusive,
                                  std::optional<meta::Layout> layout, bool* created,
                                  meta::Creation how) override;
  Result<meta::Attributes> make_directory(const meta::Credentials& who, InodeId parent,
                                          std::string_view name, uint32_t mode) override;
  Result<meta::Attributes> make_node(const meta::Credentials& who, InodeId parent,
                                     std::string_view name, meta::FileType type, uint32_t mode,
                                     uint64_t device) override;
  Result<meta::Attributes> make_symlink(const meta::Credentials& who, InodeId parent,
                                        std::string_view name, std::string_view target) override;
  Result<meta::Attributes> link(const meta::Credentials& who, InodeId inode, InodeId new_parent,
                                std::string_view new_name) override;
  Status create_files(const meta::Credentials& who, const std::vector<meta::CompleteFile>& files,
                      std::vector<Result<meta::MadeFile>>* made) override;
  Status unlink(const meta::Credentials& who, InodeId parent, std::string_view name,
                meta::Removed* removed) override;
  Status remove_directory(const meta::Credentials& who, InodeId parent, std::string_view name,
                          meta::Removed* removed) override;
  Status rename(const meta::Credentials& who, InodeId parent, std::string_view name,
                InodeId new_parent, std::string_view new_name, meta::RenameFlags flags,
                meta::Removed* removed) override;

  Status set_trash(InodeId directory, std::optional<uint32_t> days, std::string_view path) override;
  Result<meta::TrashEmptied> empty_trash(InodeId hour, uint64_t after, size_t limit) override;

  // The last change ended with closed, as the guard is to stop: it has not begun, and may be asked
  // for again elsewhere. For who has this object alone.
  bool has_given_up() const { return has_given_up_; }

 private:
  using Parts = std::vector<holds::Part>;

  // Runs `change` when nobody else keeps anything of these parts.
  template <class Body>
  auto guarded(const Parts& parts, const Body& change) -> decltype(change());
  // What a name leads to, if to anything, as a part of which the attributes change.
  void add_target(Parts& parts, InodeId directory, std::string_view name);
  // Of what lost a name and was not among the parts, as others were at it at the same time.
  void tell_of(const Parts& parts, const meta::Removed& removed);

  NamesGuard& guard_;
  const std::function<holds::AgentId()> maker_;
  bool has_given_up_ = false;
};

}  // namespace penstock::kept_names

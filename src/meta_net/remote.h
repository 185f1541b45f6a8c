// The Meta that asks: each call of Meta as one of messages.h. What has a list or an edit to say,
// and so may take several, stands in remote_lists.cc.
#pragma once

#include "answers.h"
#include "calls.h"

#include <span>
#include <utility>

#include "penstock/meta_net/remote_meta.h"

namespace penstock::meta_net {

// Longer ones do not come to the service, which would say the same.
inline Status check_name(std::string_view name) {
  return name.size() <= limits::kTextBytesMax ? Code::ok : Code::name_too_long;
}
inline Status check_xattr_name(std::string_view name) {
  return name.size() <= limits::kTextBytesMax ? Code::ok : Code::result_too_large;
}
inline Status check_groups(const Credentials& who) {
  return who.groups.size() <= limits::kGroupsMax ? Code::ok : Code::invalid_argument;
}

template <class Answer>
Status status_of(const Result<Answer>& answer) {
  return answer ? Code::ok : answer.error();
}
inline Status take_removed(const Result<meta::Removed>& answer, meta::Removed* removed) {
  if (!answer) return answer.error();
  if (removed != nullptr) *removed = *answer;
  return Code::ok;
}

class Remote final : public RemoteMeta {
 public:
  explicit Remote(const RemoteMetaConfig& config)
      : counts_time_(config.counts_time),
        given_(config.given),
        find_given_(config.find_given),
        calls_(config) {}

  Status close() override { return Code::ok; }
  void hurry(engine::Duration call_time) override { calls_.hurry(call_time); }
  Figures figures() const override { return calls_.figures(); }

  // ---- looking ----

  Result<Attributes> lookup(const Credentials& who, InodeId parent,
                            std::string_view name) override {
    TRY(check(who, name));
    return run(ask::Lookup{who, parent, std::string(name)});
  }
  Result<Attributes> resolve(const Credentials& who, std::string_view path,
                             bool follow_last) override {
    TRY(check(who, path));
    return run(ask::Resolve{who, std::string(path), follow_last});
  }
  Result<std::vector<Result<Attributes>>> resolve_many(const Credentials& who,
                                                       const std::vector<std::string_view>& paths,
                                                       bool follow_last) override;
  Result<meta::ResolvedParent> resolve_parent(const Credentials& who,
                                              std::string_view path) override {
    TRY(check(who, path));
    return run(ask::ResolveParent{who, std::string(path)});
  }
  Result<Attributes> attributes(InodeId inode) override { return run(ask::GetAttributes{inode}); }
  Status look(std::span<meta::Look> looks) override;
  Result<std::string> read_symlink(InodeId inode) override {
    TRY_ASSIGN(Text text, run(ask::ReadSymlink{inode}, limits::kUsualLongAnswer));
    return std::move(text.bytes);
  }
  Status read_directory(InodeId directory, uint64_t after_cookie, size_t max_entries,
                        bool with_attributes, const DirectoryVisitor& visit) override;
  uint64_t newest_cookie() const override {
    const auto newest = run(ask::NewestCookie{});
    return newest ? newest->value : meta::kIdMax;
  }
  Result<std::string> get_xattr(const Credentials& who, InodeId inode,
                                std::string_view name) override {
    TRY(check_groups(who));
    TRY(check_xattr_name(name));
    TRY_ASSIGN(Text text, run(ask::GetXattr{who, inode, std::string(name)}));
    return std::move(text.bytes);
  }
  Result<std::vector<std::string>> list_xattrs(const Credentials& who, InodeId inode) override {
    TRY(check_groups(who));
    TRY_ASSIGN(Names names, run(ask::ListXattrs{who, inode}));
    return std::move(names.each);
  }
  Result<std::vector<InodeId>> unsettled() override;
  Result<bool> is_unsettled(InodeId inode) override {
    TRY_ASSIGN(const Flag flag, run(ask::IsUnsettled{inode}));
    return flag.holds;
  }
  Result<std::vector<InodeId>> orphans(size_t limit, InodeId after) override;
  Result<meta::FileSystemCounts> counts() override {
    TRY_ASSIGN(const std::string bytes, calls_.run(Request(ask::Counts{}), 0, counts_time_));
    const auto answer = decode_answer<ask::Counts>(bytes);
    if (!answer) return Code::bad_message;
    return *answer;
  }
  Result<uint32_t> own_chains() override {
    TRY_ASSIGN(const Count count, run(ask::OwnChains{}));
    if (count.value > limits::kOwnChainsMax) return Code::bad_message;
    return static_cast<uint32_t>(count.value);
  }
  Status set_quota(meta::QuotaSubject subject, const meta::QuotaLimits& limits,
                   std::string_view path) override {
    TRY(check_name(path));
    return status_of(run(ask::SetQuota{subject, limits, std::string(path)}));
  }
  Status delete_quota(meta::QuotaSubject subject) override {
    return status_of(run(ask::DeleteQuota{subject}));
  }
  Result<std::vector<meta::Quota>> quotas(std::optional<meta::QuotaSubject> after,
                                          size_t limit) override;
  Result<meta::QuotaCheck> check_quota(meta::QuotaSubject subject, bool repair) override {
    return run(ask::CheckQuota{subject, repair});
  }
  Result<std::optional<meta::Quota>> quota_of(InodeId directory) override {
    TRY_ASSIGN(Least least, run(ask::QuotaOf{directory}));
    return std::move(least.quota);
  }
  Status set_trash(InodeId directory, std::optional<uint32_t> days,
                   std::string_view path) override {
    TRY(check_name(path));
    return status_of(run(ask::SetTrash{directory, days, std::string(path)}));
  }
  // It is not known here.
  bool has_trash() const override { return true; }
  Result<meta::TrashDays> trash_of(InodeId inode) override { return run(ask::TrashOf{inode}); }
  Result<std::vector<meta::TrashSetting>> trash_settings(InodeId after, size_t limit) override;
  Result<meta::TrashEmptied> empty_trash(InodeId hour, uint64_t after, size_t limit) override {
    return run(ask::EmptyTrash{hour, after, limit}, limits::kUsualLongAnswer);
  }
  Result<uint64_t> reserve(InodeId inode, uint64_t length) override {
    TRY_ASSIGN(const Count promised, run(ask::Reserve{inode, length}));
    if (promised.value < length) return Code::bad_message;
    return promised.value;
  }
  Status access(const Credentials& who, InodeId inode, uint32_t wanted) override {
    TRY(check_groups(who));
    TRY_ASSIGN(const Text text, run(ask::Access{who, inode, wanted}));
    if (text.bytes.empty() || !given_) return Code::ok;
    TRY_ASSIGN(const wire::Capability capability, wire::decode_capability(bytes_of(text.bytes)));
    given_(capability);
    return Code::ok;
  }
  Result<wire::Capability> capability(InodeId inode) override {
    TRY_ASSIGN(const Text text, run(ask::Capability{inode}));
    return wire::decode_capability(bytes_of(text.bytes));
  }
  Status show(InodeId inode) override {
    const std::optional<wire::Capability> given = find_given_ ? find_given_(inode) : std::nullopt;
    const bool is_its =
        given && inode.value >= given->inode_first && inode.value <= given->inode_last;
    if (is_its && prove(*given).ok()) return Code::ok;
    return status_of(run_once(ask::GetAttributes{inode}, 0));
  }
  Status sync() override { return status_of(run(ask::Sync{})); }

  // ---- changing inodes ----

  Result<Attributes> set_attributes(const Credentials& who, InodeId inode,
                                    const meta::SetAttributes& changes) override {
    TRY(check_groups(who));
    return run(ask::SetAttributes{who, inode, changes});
  }
  Result<Attributes> set_layout(const Credentials& who, InodeId directory,
                                const LayoutEdit& change) override;
  Result<meta::PrivilegesTaken> drop_privileges(const meta::FileWriter& writer,
                                                InodeId inode) override {
    TRY(check_groups(writer.who));
    return run(ask::DropPrivileges{writer, inode});
  }
  Status record_accessed(const std::vector<Accessed>& accesses) override;
  Status set_xattr(const Credentials& who, InodeId inode, std::string_view name,
                   std::string_view value, meta::XattrMode mode) override {
    TRY(check_groups(who));
    TRY(check_xattr_name(name));
    if (value.size() > limits::kTextBytesMax) return Code::too_large;
    return status_of(run(ask::SetXattr{who, inode, std::string(name), std::string(value), mode}));
  }
  Status remove_xattr(const Credentials& who, InodeId inode, std::string_view name) override {
    TRY(check_groups(who));
    TRY(check_xattr_name(name));
    return status_of(run(ask::RemoveXattr{who, inode, std::string(name)}));
  }
  Result<uint64_t> begin_write(InodeId inode) override {
    TRY_ASSIGN(const Number token, run(ask::BeginWrite{inode}));
    return token.value;
  }
  Status settle(InodeId inode, const meta::Settled& settled, bool durable) override {
    return status_of(run(ask::Settle{inode, settled, durable}));
  }
  Status end_write(InodeId inode) override { return status_of(run(ask::EndWrite{inode})); }
  Status forget(InodeId inode) override { return forget_many({&inode, 1}); }
  Status forget_many(std::span<const InodeId> inodes) override;

  // ---- changing names ----

  Result<Attributes> create(const Credentials& who, InodeId parent, std::string_view name,
                            uint32_t mode, bool exclusive, std::optional<meta::Layout> layout,
                            bool* created, meta::Creation how) override {
    TRY(check(who, name));
    if (layout && layout->chains.size() > limits::kChainsMax) return Code::invalid_argument;
    TRY_ASSIGN(Created made, run(ask::Create{who, parent, std::string(name), mode, exclusive,
                                             std::move(layout), how}));
    if (created != nullptr) *created = made.created;
    return std::move(made.attributes);
  }
  Result<Attributes> make_directory(const Credentials& who, InodeId parent, std::string_view name,
                                    uint32_t mode) override {
    TRY(check(who, name));
    return run(ask::MakeDirectory{who, parent, std::string(name), mode});
  }
  Result<InodeId> unused_id() override {
    TRY_ASSIGN(const Number number, run(ask::UnusedId{}));
    return InodeId(number.value);
  }
  Result<Attributes> create_unnamed(const Credentials& who, InodeId parent, uint32_t mode,
                                    InodeId id) override {
    TRY(check_groups(who));
    return run(ask::CreateUnnamed{who, parent, mode, id});
  }
  Result<Attributes> make_node(const Credentials& who, InodeId parent, std::string_view name,
                               meta::FileType type, uint32_t mode, uint64_t device) override {
    TRY(check(who, name));
    return run(ask::MakeNode{who, parent, std::string(name), type, mode, device});
  }
  Result<Attributes> make_symlink(const Credentials& who, InodeId parent, std::string_view name,
                                  std::string_view target) override {
    TRY(check(who, name));
    TRY(check_name(target));
    return run(ask::MakeSymlink{who, parent, std::string(name), std::string(target)});
  }
  Result<Attributes> link(const Credentials& who, InodeId inode, InodeId new_parent,
                          std::string_view new_name) override {
    TRY(check(who, new_name));
    return run(ask::Link{who, inode, new_parent, std::string(new_name)});
  }
  Result<std::vector<Result<meta::NewFile>>> place_files(
      const Credentials& who, const std::vector<meta::WantedPlace>& wanted) override;
  Status create_files(const Credentials& who, const std::vector<meta::CompleteFile>& files,
                      std::vector<Result<meta::MadeFile>>* made) override;
  Status unlink(const Credentials& who, InodeId parent, std::string_view name,
                meta::Removed* removed) override {
    TRY(check(who, name));
    return take_removed(run(ask::Unlink{who, parent, std::string(name)}), removed);
  }
  Status remove_directory(const Credentials& who, InodeId parent, std::string_view name,
                          meta::Removed* removed) override {
    TRY(check(who, name));
    return take_removed(run(ask::RemoveDirectory{who, parent, std::string(name)}), removed);
  }
  Status rename(const Credentials& who, InodeId parent, std::string_view name, InodeId new_parent,
                std::string_view new_name, meta::RenameFlags flags,
                meta::Removed* removed) override {
    TRY(check(who, name));
    TRY(check_name(new_name));
    return take_removed(
        run(ask::Rename{who, parent, std::string(name), new_parent, std::string(new_name), flags}),
        removed);
  }

 private:
  static Status check(const Credentials& who, std::string_view text) {
    TRY(check_groups(who));
    return check_name(text);
  }

  // `room`: of an answer that may be long.
  template <class Call>
  Result<typename Call::Answer> run(Call call, size_t room = 0) const {
    if constexpr (requires { call.inode; }) {
      if (find_given_) return run_proven(std::move(call), room);
    }
    return run_once(std::move(call), room);
  }
  // A service that has begun anew does not know what a node that is restricted has open.
  template <class Call>
  Result<typename Call::Answer> run_proven(Call call, size_t room) const {
    const InodeId inode = call.inode;
    auto answer = run_once(call, room);
    if (answer || answer.error() != Code::stale) return answer;
    const std::optional<wire::Capability> given = find_given_(inode);
    return given && prove(*given).ok() ? run_once(std::move(call), room) : answer;
  }
  Status prove(const wire::Capability& given) const {
    const auto* const bytes = reinterpret_cast<const char*>(&given);
    return status_of(run_once(ask::Prove{std::string(bytes, sizeof given)}, 0));
  }
  template <class Call>
  Result<typename Call::Answer> run_once(Call call, size_t room) const {
    TRY_ASSIGN(const std::string bytes, calls_.run(Request(std::move(call)), room));
    std::optional<Result<typename Call::Answer>> answer = decode_answer<Call>(bytes);
    if (!answer) return calls_.unknown(Call::kChanges, Code::bad_message);
    return std::move(*answer);
  }
  // One transaction; `made` gets what it says of each.
  Status create_some(ask::CreateFiles& asked, std::vector<Result<meta::MadeFile>>& made);

  const engine::Duration counts_time_;
  const std::function<void(const wire::Capability&)> given_;
  const std::function<std::optional<wire::Capability>(InodeId)> find_given_;
  mutable Calls calls_;
};

}  // namespace penstock::meta_net

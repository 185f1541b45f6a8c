#include "carry_out.h"

#include "answers.h"
#include "limited_answers.h"

#include <algorithm>
#include <utility>

namespace penstock::meta_net {
namespace {

using meta::Meta;

Result<Nothing> nothing(Status status) {
  if (!status.ok()) return status;
  return Nothing{};
}
Result<Number> number(const Result<uint64_t>& value) {
  if (!value) return value.error();
  return Number{*value};
}
Result<Text> text(Result<std::string> value) {
  if (!value) return value.error();
  return Text{std::move(*value)};
}

// ---- looking ----

auto run(Meta& meta, const ask::Lookup& asked) {
  return meta.lookup(asked.who, asked.parent, asked.name);
}
auto run(Meta& meta, const ask::Resolve& asked) {
  return meta.resolve(asked.who, asked.path, asked.follow_last);
}
Result<Found> run(Meta& meta, const ask::ResolveMany& asked) {
  const std::vector<std::string_view> paths(asked.paths.begin(), asked.paths.end());
  auto found = meta.resolve_many(asked.who, paths, asked.follow_last);
  if (!found) return found.error();
  return Found{std::move(*found)};
}
Result<Looks> run(Meta& meta, const ask::Look& asked) {
  std::vector<meta::Look> looks;
  looks.reserve(asked.wanted.size());
  for (const ask::WantedLook& one : asked.wanted) looks.push_back({one.inode, one.name});
  TRY(meta.look(looks));
  Looks found;
  for (meta::Look& one : looks) found.each.push_back({std::move(one.found), one.is_steady});
  return found;
}
auto run(Meta& meta, const ask::ResolveParent& asked) {
  return meta.resolve_parent(asked.who, asked.path);
}
auto run(Meta& meta, const ask::GetAttributes& asked) {
  return meta.attributes(asked.inode);
}
auto run(Meta& meta, const ask::ReadSymlink& asked) {
  return text(meta.read_symlink(asked.inode));
}
Result<Number> run(Meta& meta, const ask::NewestCookie&) {
  return Number{meta.newest_cookie()};
}
auto run(Meta& meta, const ask::Counts&) {
  return meta.counts();
}
Result<Flag> run(Meta& meta, const ask::IsUnsettled& asked) {
  const auto unsettled = meta.is_unsettled(asked.inode);
  if (!unsettled) return unsettled.error();
  return Flag{*unsettled};
}

size_t bytes_taken_by(const Listed& listed) {
  constexpr size_t kEntryNumbers = 64;
  constexpr size_t kAttributesNumbers = limits::kAttributesBytesMax - meta::kAclBytesMax;
  const size_t entry = kEntryNumbers + listed.entry.name.size();
  return listed.attributes ? entry + kAttributesNumbers + listed.attributes->acl.size() : entry;
}

// As many entries as a page holds. It is the last one when Meta has no more, or the caller wants no
// more.
Result<Page> run(Meta& meta, const ask::ReadDirectory& asked) {
  const size_t wanted = std::min<uint64_t>(asked.entries_max, limits::kEntriesPerPage);
  Page page;
  size_t bytes = 0;
  bool is_full = false;
  TRY(meta.read_directory(
      asked.directory, asked.after, wanted, asked.with_attributes,
      [&](const meta::DirectoryEntry& entry, const Attributes* attributes) {
        Listed listed{entry, attributes != nullptr ? std::optional(*attributes) : std::nullopt};
        const size_t its_bytes = bytes_taken_by(listed);
        is_full = bytes + its_bytes > limits::kPageBytesMax;
        if (is_full) return false;
        bytes += its_bytes;
        page.entries.push_back(std::move(listed));
        return true;
      }));
  ASSERT(!is_full || !page.entries.empty());
  page.last = !is_full && page.entries.size() < limits::kEntriesPerPage;
  return page;
}

// From a list in order as many as one answer holds.
Inodes first_of(std::vector<InodeId> all) {
  Inodes inodes;
  inodes.last = all.size() <= limits::kInodesMax;
  if (!inodes.last) all.resize(limits::kInodesMax);
  inodes.each = std::move(all);
  return inodes;
}

Result<Inodes> run(Meta& meta, const ask::Unsettled& asked) {
  TRY_ASSIGN(std::vector<InodeId> all, meta.unsettled());
  std::sort(all.begin(), all.end());
  all.erase(all.begin(), std::upper_bound(all.begin(), all.end(), asked.after));
  return first_of(std::move(all));
}
Result<Inodes> run(Meta& meta, const ask::Orphans& asked) {
  const size_t limit = std::min<uint64_t>(asked.limit, limits::kInodesMax);
  TRY_ASSIGN(std::vector<InodeId> all, meta.orphans(limit, asked.after));
  const bool last = all.size() < limit || limit == asked.limit;
  return Inodes{std::move(all), last};
}
Result<Names> run(Meta& meta, const ask::ListXattrs& asked) {
  auto names = meta.list_xattrs(asked.who, asked.inode);
  if (!names) return names.error();
  return Names{std::move(*names)};
}
auto run(Meta& meta, const ask::GetXattr& asked) {
  return text(meta.get_xattr(asked.who, asked.inode, asked.name));
}

// ---- changing ----

auto run(Meta& meta, const ask::SetAttributes& asked) {
  return meta.set_attributes(asked.who, asked.inode, asked.changes);
}
auto run(Meta& meta, const ask::SetLayout& asked) {
  return meta.set_layout(asked.who, asked.directory, [&](meta::Layout& layout) -> Status {
    if (layout != asked.expected) return Code::conflict;
    layout = asked.wanted;
    return Code::ok;
  });
}
auto run(Meta& meta, const ask::DropPrivileges& asked) {
  return meta.drop_privileges(asked.writer, asked.inode);
}
auto run(Meta& meta, const ask::RecordAccessed& asked) {
  return nothing(meta.record_accessed(asked.each));
}
Result<Created> run(Meta& meta, const ask::Create& asked) {
  Created made;
  TRY_ASSIGN(made.attributes, meta.create(asked.who, asked.parent, asked.name, asked.mode,
                                          asked.exclusive, asked.layout, &made.created, asked.how));
  return made;
}
auto run(Meta& meta, const ask::MakeDirectory& asked) {
  return meta.make_directory(asked.who, asked.parent, asked.name, asked.mode);
}
Result<Number> run(Meta& meta, const ask::UnusedId&) {
  TRY_ASSIGN(const InodeId id, meta.unused_id());
  return Number{id.value};
}
auto run(Meta& meta, const ask::CreateUnnamed& asked) {
  return meta.create_unnamed(asked.who, asked.parent, asked.mode, asked.id);
}
auto run(Meta& meta, const ask::MakeNode& asked) {
  return meta.make_node(asked.who, asked.parent, asked.name, asked.type, asked.mode, asked.device);
}
auto run(Meta& meta, const ask::MakeSymlink& asked) {
  return meta.make_symlink(asked.who, asked.parent, asked.name, asked.target);
}
auto run(Meta& meta, const ask::Link& asked) {
  return meta.link(asked.who, asked.inode, asked.parent, asked.name);
}
Result<Places> run(Meta& meta, const ask::PlaceFiles& asked) {
  std::vector<meta::WantedPlace> wanted;
  wanted.reserve(asked.wanted.size());
  for (const ask::Wanted& one : asked.wanted) wanted.push_back({one.path, one.replace});
  auto places = meta.place_files(asked.who, wanted);
  if (!places) return places.error();
  return Places{std::move(*places)};
}
Result<FilesMade> run(Meta& meta, const ask::CreateFiles& asked) {
  FilesMade made;
  made.status = meta.create_files(asked.who, asked.files, &made.each);
  return made;
}
Result<meta::Removed> run(Meta& meta, const ask::Unlink& asked) {
  meta::Removed removed;
  TRY(meta.unlink(asked.who, asked.parent, asked.name, &removed));
  return removed;
}
Result<meta::Removed> run(Meta& meta, const ask::RemoveDirectory& asked) {
  meta::Removed removed;
  TRY(meta.remove_directory(asked.who, asked.parent, asked.name, &removed));
  return removed;
}
Result<meta::Removed> run(Meta& meta, const ask::Rename& asked) {
  meta::Removed removed;
  TRY(meta.rename(asked.who, asked.parent, asked.name, asked.new_parent, asked.new_name,
                  asked.flags, &removed));
  return removed;
}
auto run(Meta& meta, const ask::SetXattr& asked) {
  return nothing(meta.set_xattr(asked.who, asked.inode, asked.name, asked.value, asked.mode));
}
auto run(Meta& meta, const ask::RemoveXattr& asked) {
  return nothing(meta.remove_xattr(asked.who, asked.inode, asked.name));
}
auto run(Meta& meta, const ask::BeginWrite& asked) {
  return number(meta.begin_write(asked.inode));
}
auto run(Meta& meta, const ask::Settle& asked) {
  return nothing(meta.settle(asked.inode, asked.settled, asked.durable));
}
auto run(Meta& meta, const ask::EndWrite& asked) {
  return nothing(meta.end_write(asked.inode));
}
Result<Text> run(Meta& meta, const ask::Access& asked) {
  TRY_ASSIGN(const Attributes found, meta.attributes(asked.inode));
  if (asked.who.enforce) TRY(meta::check_access(asked.who, found, asked.wanted));
  return Text{};
}
auto run(Meta& meta, const ask::Sync&) {
  return nothing(meta.sync());
}
auto run(Meta& meta, const ask::Forget& asked) {
  return nothing(meta.forget_many(asked.inodes));
}

// ---- telling ----

void tell_of(const MetaServiceConfig& config, const meta::Removed& removed) {
  if (removed.last_link && config.orphaned) config.orphaned(removed.inode);
}

void tell(const MetaServiceConfig&, const auto&, const auto&) {}
void tell(const MetaServiceConfig& config, const ask::Unlink&,
          const Result<meta::Removed>& removed) {
  if (removed) tell_of(config, *removed);
}
void tell(const MetaServiceConfig& config, const ask::RemoveDirectory&,
          const Result<meta::Removed>& removed) {
  if (removed) tell_of(config, *removed);
}
void tell(const MetaServiceConfig& config, const ask::Rename&,
          const Result<meta::Removed>& removed) {
  if (removed) tell_of(config, *removed);
}
void tell(const MetaServiceConfig& config, const ask::EmptyTrash&,
          const Result<meta::TrashEmptied>& emptied) {
  if (!emptied || !config.orphaned) return;
  for (const InodeId orphan : emptied->orphans) config.orphaned(orphan);
}
void tell(const MetaServiceConfig& config, const ask::CreateFiles&, const Result<FilesMade>& made) {
  if (!made || !made->status.ok()) return;
  for (const Result<meta::MadeFile>& one : made->each) {
    if (one) tell_of(config, one->replaced);
  }
}
void tell(const MetaServiceConfig& config, const ask::CreateUnnamed&,
          const Result<Attributes>& made) {
  if (made && config.orphaned) config.orphaned(made->inode);
}
void tell(const MetaServiceConfig& config, const ask::Link&, const Result<Attributes>& linked) {
  if (linked && linked->links == 1 && config.named) config.named(linked->inode);
}

// ---- what is this process's own ----

Status check_life(const MetaServiceConfig& config, const ask::CreateFiles& asked) {
  const bool is_of_before = std::any_of(
      asked.files.begin(), asked.files.end(),
      [&](const meta::CompleteFile& file) { return file.place.inode < config.least_new; });
  return is_of_before ? Code::stale : Code::ok;
}
// ---- quotas ----

auto run(Meta& meta, const ask::SetQuota& asked) {
  return nothing(meta.set_quota(asked.subject, asked.limits, asked.path));
}
auto run(Meta& meta, const ask::DeleteQuota& asked) {
  return nothing(meta.delete_quota(asked.subject));
}
Result<Quotas> run(Meta& meta, const ask::ListQuotas& asked) {
  TRY_ASSIGN(std::vector<meta::Quota> some, meta.quotas(asked.after, limits::kQuotasPerAnswer));
  const bool last = some.size() < limits::kQuotasPerAnswer;
  return Quotas{std::move(some), last};
}
auto run(Meta& meta, const ask::CheckQuota& asked) {
  return meta.check_quota(asked.subject, asked.repair);
}
Result<Least> run(Meta& meta, const ask::QuotaOf& asked) {
  TRY_ASSIGN(std::optional<meta::Quota> quota, meta.quota_of(asked.directory));
  return Least{std::move(quota)};
}
Result<Count> run(Meta& meta, const ask::Reserve& asked) {
  TRY_ASSIGN(const uint64_t length, meta.reserve(asked.inode, asked.length));
  return Count{length};
}

// ---- trash ----

auto run(Meta& meta, const ask::SetTrash& asked) {
  return nothing(meta.set_trash(asked.directory, asked.days, asked.path));
}
auto run(Meta& meta, const ask::TrashOf& asked) {
  return meta.trash_of(asked.inode);
}
Result<Trash> run(Meta& meta, const ask::ListTrash& asked) {
  TRY_ASSIGN(std::vector<meta::TrashSetting> some,
             meta.trash_settings(asked.after, limits::kQuotasPerAnswer));
  const bool last = some.size() < limits::kQuotasPerAnswer;
  return Trash{std::move(some), last};
}
auto run(Meta& meta, const ask::EmptyTrash& asked) {
  return meta.empty_trash(asked.hour, asked.after, asked.limit);
}

Status check_life(const MetaServiceConfig&, const auto&) {
  return Code::ok;
}

auto run_here(const MetaServiceConfig&, Meta& meta, const auto& asked) {
  return run(meta, asked);
}
Result<Count> run_here(const MetaServiceConfig& config, Meta&, const ask::OwnChains&) {
  return Count{config.own_chains};
}

// The service answers it, as it takes more than the names.
Result<Text> run_here(const MetaServiceConfig&, Meta&, const ask::Capability&) {
  return Code::not_supported;
}
Result<Nothing> run_here(const MetaServiceConfig&, Meta&, const ask::Prove&) {
  return Code::not_supported;
}

auto run_for(const MetaServiceConfig& config, Meta& meta, const auto& asked, Limited* limited) {
  if constexpr (requires { limited->run(asked); }) {
    if (limited != nullptr && limited->has_subtree()) return limited->run(asked);
  }
  return run_here(config, meta, asked);
}

std::string answer_of(const MetaServiceConfig& config, Meta& meta, const Request& request,
                      Limited* limited) {
  return std::visit(
      [&](const auto& asked) {
        using Call = std::decay_t<decltype(asked)>;
        using Ended = Result<typename Call::Answer>;
        Status good = check_asked(request, [&] { return config.meta->newest_cookie(); });
        if (good.ok()) good = check_life(config, asked);
        Ended ended = good.ok() ? Ended(run_for(config, meta, asked, limited)) : Ended(good);
        tell(config, asked, ended);
        if (limited != nullptr) limited->take(asked, ended);
        return encode_answer<Call>(ended);
      },
      request);
}

}  // namespace

std::optional<std::string> carry_out(const MetaServiceConfig& config, holds::AgentId maker,
                                     const Request& request, Limited* limited) {
  std::string answer;
  if (config.guard == nullptr) {
    answer = answer_of(config, *config.meta, request, limited);
  } else {
    kept_names::GuardedNames names(*config.meta, *config.guard, [maker] { return maker; });
    answer = answer_of(config, names, request, limited);
    if (names.has_given_up()) return std::nullopt;
  }
  ASSERT(answer.size() <= limits::kAnswerBytesMax);
  return answer;
}

std::string failed_answer(const Request& request, Status status) {
  ASSERT(!status.ok());
  return std::visit(
      [&](const auto& asked) {
        using Call = std::decay_t<decltype(asked)>;
        return encode_answer<Call>(Result<typename Call::Answer>(status));
      },
      request);
}

}  // namespace penstock::meta_net

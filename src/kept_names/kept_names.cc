#include "penstock/kept_names/kept_names.h"

#include "limits.h"
#include "walk.h"

#include <algorithm>

namespace penstock::kept_names {

using holds::Hold;
using meta::Attributes;
using meta::Credentials;
using meta::FileType;

namespace {

Status status_of(Status status) {
  return status;
}
template <class T>
Status status_of(const Result<T>& result) {
  return result ? Status() : result.error();
}

// It may still happen, when nobody waits for it any more.
bool is_unknown(Status status) {
  return status == Code::may_have_happened || status == Code::timed_out;
}

}  // namespace

// Found by views, too.
struct KeptNames::NameHash {
  using is_transparent = void;
  size_t operator()(std::string_view name) const { return std::hash<std::string_view>()(name); }
};

struct KeptNames::Kept {
  std::shared_ptr<const Attributes> attributes;  // null: they are not known
  engine::Time since{};                          // when they were asked for
  // Of a directory; no inode: there is none of that name.
  std::unordered_map<std::string, InodeId, NameHash, std::equal_to<>> names;
  // It is worth a hold once it is asked for again; and not before that time.
  bool was_asked = false;
  engine::Time want_after{};
  // Names that a kernel was given.
  struct GivenName {
    engine::Time until{};
    uint64_t number = 0;   // of all that were given
    bool is_told = false;  // to the kernel: it has it no more
  };
  std::unordered_map<std::string, GivenName, NameHash, std::equal_to<>> given;
  engine::Time given_until{};  // the last of them
  engine::Time calm_after{};   // others have changed it before

  size_t count() const { return 1 + names.size(); }
};

// Of some of all inodes.
struct KeptNames::Shard {
  // Most of what a look costs is memory that is not in the processor's caches: few have company.
  Shard() { all.max_load_factor(0.4F); }

  engine::Mutex mutex;
  std::unordered_map<InodeId, Kept> all;
  size_t kept = 0;  // names and inodes

  void erase(std::unordered_map<InodeId, Kept>::iterator at) {
    ASSERT(kept >= at->second.count());
    kept -= at->second.count();
    all.erase(at);
  }
};

// A change of this agent's own, from before it is asked for.
class KeptNames::Own {
 public:
  Own(KeptNames& names, std::vector<std::pair<InodeId, std::string_view>> parts)
      : names_(names), parts_(std::move(parts)) {
    for (const auto& [inode, name] : parts_) {
      names_.changes_.begin(inode);
      names_.forget_names(inode, {std::string(name)}, {});
    }
  }
  // Where it may happen at any later time, nothing of it is kept any more.
  void end(Status status) {
    if (is_unknown(status)) return;
    for (const auto& [inode, name] : parts_) names_.changes_.end(inode);
  }

 private:
  KeptNames& names_;
  const std::vector<std::pair<InodeId, std::string_view>> parts_;
};

KeptNames::KeptNames(meta::Meta& meta, const KeptNamesConfig& config)
    : PassedOn(meta),
      config_(config),
      kept_of_shard_(std::max<size_t>(config.kept_max / kShards, 1)) {
  ASSERT(config_.holding != nullptr && config_.clock != nullptr);
  for (auto& shard : shards_) shard = std::make_unique<Shard>();
}

KeptNames::~KeptNames() = default;

KeptNames::Shard& KeptNames::shard_of(InodeId inode) {
  return *shards_[mix64(inode.value) % kShards];
}

KeptNames::Figures KeptNames::figures() const {
  Figures figures;
  figures.found = found_.load(std::memory_order_relaxed);
  figures.asked = asked_.load(std::memory_order_relaxed);
  for (const auto& shard : shards_) {
    const std::lock_guard lock(shard->mutex);
    figures.kept += shard->kept;
  }
  return figures;
}

// ---- forgetting ----

// What is on its way to be kept hears of it as a change.
void KeptNames::drop(InodeId inode) {
  changes_.note(inode);
  Shard& shard = shard_of(inode);
  const std::lock_guard lock(shard.mutex);
  const auto found = shard.all.find(inode);
  if (found == shard.all.end()) return;
  Kept& kept = found->second;
  shard.kept -= kept.names.size();
  kept.names.clear();
  kept.attributes.reset();
  kept.want_after = config_.clock->now() + limits::kWantAgain;
  kept.calm_after = config_.clock->now() + limits::kCalm;
}

void KeptNames::drop_names(InodeId inode, const std::vector<std::string>& names) {
  forget_names(inode, names, config_.clock->now() + limits::kCalm);
}

void KeptNames::forget_names(InodeId inode, const std::vector<std::string>& names,
                             engine::Time calm_after) {
  changes_.note(inode);
  Shard& shard = shard_of(inode);
  const std::lock_guard lock(shard.mutex);
  const auto found = shard.all.find(inode);
  if (found == shard.all.end()) return;
  Kept& kept = found->second;
  kept.attributes.reset();
  kept.calm_after = std::max(kept.calm_after, calm_after);
  for (const std::string& name : names) shard.kept -= kept.names.erase(name);
}

// What kernels were given stays noted until that is over: they are to be told still.
void KeptNames::drop_all() {
  const engine::Time now = config_.clock->now();
  for (const auto& shard : shards_) {
    const std::lock_guard lock(shard->mutex);
    for (auto at = shard->all.begin(); at != shard->all.end();) {
      const auto one = at++;
      Kept& kept = one->second;
      changes_.note(one->first);
      kept.attributes.reset();
      shard->kept -= kept.names.size();
      kept.names.clear();
      if (kept.given_until <= now) shard->erase(one);
    }
  }
}

// ---- giving ----

bool KeptNames::give(InodeId directory, std::string_view name, InodeId inode, engine::Time until) {
  {
    Shard& shard = shard_of(directory);
    const std::lock_guard lock(shard.mutex);
    const auto found = shard.all.find(directory);
    if (found == shard.all.end()) return false;
    Kept& kept = found->second;
    const auto entry = kept.names.find(name);
    if (entry == kept.names.end() || entry->second != inode) return false;
    const engine::Time now = config_.clock->now();
    if (now < kept.calm_after || is_off()) return false;
    if (kept.given.size() >= limits::kGivenMost) {
      std::erase_if(kept.given, [now](const auto& one) { return one.second.until <= now; });
      if (kept.given.size() >= limits::kGivenMost) return false;
    }
    note_given(kept, name, until);
  }
  return may_find();
}

void KeptNames::note_given(Kept& kept, std::string_view name, engine::Time until) {
  Kept::GivenName& given = kept.given[std::string(name)];
  given.until = std::max(given.until, until);
  given.number = gives_.fetch_add(1) + 1;
  given.is_told = false;
  kept.given_until = std::max(kept.given_until, until);
  // Before the lock is let go: all is dropped under it, and waited for after that.
  engine::Time last = given_until_.load();
  while (last < until && !given_until_.compare_exchange_weak(last, until)) {
  }
}

engine::Time KeptNames::given(InodeId directory, std::string_view name) {
  Shard& shard = shard_of(directory);
  const std::lock_guard lock(shard.mutex);
  const auto found = shard.all.find(directory);
  if (found == shard.all.end()) return {};
  const auto given = found->second.given.find(name);
  return given == found->second.given.end() ? engine::Time{} : given->second.until;
}

void KeptNames::give_renamed(InodeId directory, std::string_view name, engine::Time until) {
  ASSERT(!name.empty());
  Shard& shard = shard_of(directory);
  const std::lock_guard lock(shard.mutex);
  const auto [at, added] = shard.all.try_emplace(directory);
  shard.kept += added ? 1 : 0;
  note_given(at->second, name, until);
}

KeptNames::Given KeptNames::take_given(InodeId directory, const std::vector<std::string>* names) {
  Shard& shard = shard_of(directory);
  const std::lock_guard lock(shard.mutex);
  const auto found = shard.all.find(directory);
  if (found == shard.all.end()) return {};
  const engine::Time now = config_.clock->now();
  Given all;
  all.as_of = gives_.load();
  std::erase_if(found->second.given, [now](const auto& one) { return one.second.until <= now; });
  for (auto& [name, given] : found->second.given) {
    const bool is_meant =
        names == nullptr || std::find(names->begin(), names->end(), name) != names->end();
    if (!is_meant || given.is_told) continue;
    all.names.push_back(name);
    all.until = std::max(all.until, given.until);
  }
  return all;
}

// It stays noted: a kernel that renames it at this moment was told of a name that it has no more.
void KeptNames::told(InodeId directory, const Given& given) {
  Shard& shard = shard_of(directory);
  const std::lock_guard lock(shard.mutex);
  const auto found = shard.all.find(directory);
  if (found == shard.all.end()) return;
  for (const std::string& name : given.names) {
    const auto at = found->second.given.find(name);
    if (at == found->second.given.end() || at->second.number > given.as_of) continue;
    at->second.is_told = true;
  }
}

// ---- finding ----

std::optional<InodeId> KeptNames::kept_entry(InodeId directory, std::string_view name) {
  Shard& shard = shard_of(directory);
  const std::lock_guard lock(shard.mutex);
  const auto found = shard.all.find(directory);
  if (found == shard.all.end()) return std::nullopt;
  const auto entry = found->second.names.find(name);
  if (entry == found->second.names.end()) return std::nullopt;
  return entry->second;
}

std::shared_ptr<const Attributes> KeptNames::kept_attributes(InodeId inode) {
  const engine::Time now = config_.clock->now();
  Shard& shard = shard_of(inode);
  const std::lock_guard lock(shard.mutex);
  const auto found = shard.all.find(inode);
  if (found == shard.all.end()) return nullptr;
  return now - found->second.since < limits::kAccessTimeAge ? found->second.attributes : nullptr;
}

bool KeptNames::is_kept(InodeId directory, std::string_view name, InodeId inode) {
  return kept_entry(directory, name) == inode && kept_attributes(inode) != nullptr;
}

// ---- asking ----

// A stretch under the hold of an inode, if there is one at once.
class KeptNames::Entered {
 public:
  Entered(holds::Holding& holding, InodeId inode) : holding_(holding) {
    has_entered_ = inode != InodeId() && holding_.enter(inode, Hold::shared, ticket_);
  }
  ~Entered() {
    if (has_entered_) holding_.leave(ticket_);
  }
  Entered(Entered&& other) noexcept
      : holding_(other.holding_),
        ticket_(other.ticket_),
        has_entered_(std::exchange(other.has_entered_, false)) {}
  Entered(const Entered&) = delete;
  Entered& operator=(const Entered&) = delete;
  Entered& operator=(Entered&&) = delete;

  explicit operator bool() const { return has_entered_; }

 private:
  holds::Holding& holding_;
  holds::Ticket ticket_;
  bool has_entered_ = false;
};

Status KeptNames::look(std::span<meta::Look> looks) {
  return is_off() ? inner_.look(looks) : fetch(looks);
}

// While a hold is in use it stays, and what it allows to be kept is kept before it goes.
Status KeptNames::fetch(std::span<meta::Look> looks) {
  asked_.fetch_add(looks.size(), std::memory_order_relaxed);
  std::vector<Entered> at;      // the inode of each
  std::vector<Entered> beyond;  // where its name leads to
  at.reserve(looks.size());
  beyond.reserve(looks.size());
  for (const meta::Look& look : looks) {
    at.emplace_back(*config_.holding, look.inode);
    beyond.emplace_back(*config_.holding, look.leads_to);
  }
  const holds::Changes::Moment since = changes_.now();
  const engine::Time now = config_.clock->now();
  const Status status = inner_.look(looks);
  // Without a lease the holds may be others' by now.
  const bool finds = may_find();
  for (size_t i = 0; status.ok() && i < looks.size(); ++i) {
    meta::Look& look = looks[i];
    const bool has_found = look.found.has_value();
    bool are_kept = false;
    if (at[i]) {
      are_kept = look.is_steady && keep(look, since, now) && look.name.empty();
    } else if (!look.name.empty() || has_found) {
      // Files get theirs from whoever uses them.
      const bool is_file = look.name.empty() && look.found->type == FileType::regular;
      if (!is_file) want(look.inode);
    }
    if (beyond[i] && look.is_steady && has_found && look.found->inode == look.leads_to) {
      are_kept = keep_attributes(*look.found, since, now);
    }
    if (has_found) look.found->kept = are_kept && finds;
  }
  return status;
}

bool KeptNames::keep_attributes(const Attributes& found, holds::Changes::Moment since,
                                engine::Time asked) {
  Shard& shard = shard_of(found.inode);
  const std::lock_guard lock(shard.mutex);
  if (!changes_.was_quiet(found.inode, since)) return false;
  make_room(shard);
  const auto [at, added] = shard.all.try_emplace(found.inode);
  shard.kept += added ? 1 : 0;
  auto kept = std::make_shared<Attributes>(found);
  kept->kept = true;
  at->second.attributes = std::move(kept);
  at->second.since = asked;
  return true;
}

bool KeptNames::keep(const meta::Look& look, holds::Changes::Moment since, engine::Time asked) {
  if (look.found && look.name.empty()) return keep_attributes(*look.found, since, asked);
  const bool is_missing = !look.found && look.found.error().code() == Code::not_found;
  if (!look.found && (!is_missing || look.name.empty())) return false;
  Shard& shard = shard_of(look.inode);
  const std::lock_guard lock(shard.mutex);
  if (!changes_.was_quiet(look.inode, since)) return false;
  make_room(shard);
  const auto [at, added] = shard.all.try_emplace(look.inode);
  shard.kept += added ? 1 : 0;
  const bool is_new =
      at->second.names.insert_or_assign(look.name, is_missing ? InodeId() : look.found->inode)
          .second;
  shard.kept += is_new ? 1 : 0;
  return true;
}

// With the lock. Which ones go is of no consequence, but for those whose names a kernel has still.
void KeptNames::make_room(Shard& shard) {
  if (shard.kept < kept_of_shard_) return;
  const engine::Time now = config_.clock->now();
  auto at = shard.all.begin();
  for (size_t looks = 0; looks < limits::kLooksForRoom && at != shard.all.end(); ++looks) {
    if (shard.kept < kept_of_shard_) return;
    const auto one = at++;
    if (one->second.given_until <= now) shard.erase(one);
  }
}

void KeptNames::want(InodeId inode) {
  const engine::Time now = config_.clock->now();
  {
    Shard& shard = shard_of(inode);
    const std::lock_guard lock(shard.mutex);
    make_room(shard);
    const auto [at, added] = shard.all.try_emplace(inode);
    shard.kept += added ? 1 : 0;
    Kept& kept = at->second;
    if (!std::exchange(kept.was_asked, true) || now < kept.want_after) return;
    kept.want_after = now + limits::kWantAgain;
  }
  config_.holding->want(inode);
}

// Walks that need the same ask once.
Status KeptNames::walk_all(std::vector<Walk>& walks) {
  std::vector<meta::Look> looks;
  std::vector<std::vector<Walk*>> waiting;  // for each of these
  while (true) {
    looks.clear();
    waiting.clear();
    std::unordered_map<std::string, size_t> known;
    for (Walk& walk : walks) {
      if (!walk.go_on()) continue;
      const meta::Look& needs = walk.needs();
      const std::string key = std::to_string(needs.inode.value) + "/" + needs.name;
      const auto [at, added] = known.try_emplace(key, looks.size());
      if (added) {
        looks.push_back(needs);
        waiting.emplace_back();
      }
      waiting[at->second].push_back(&walk);
    }
    if (looks.empty()) return Code::ok;
    const Status status = fetch(looks);
    if (status == Code::not_supported) return status;
    for (size_t i = 0; i < looks.size(); ++i) {
      const Result<Attributes> found = status.ok() ? looks[i].found : Result<Attributes>(status);
      for (Walk* const walk : waiting[i]) walk->hear(found);
    }
  }
}

// ---- looking ----

Result<std::vector<Result<Attributes>>> KeptNames::resolve_many(
    const Credentials& who, const std::vector<std::string_view>& paths, bool follow_last) {
  if (is_off()) return inner_.resolve_many(who, paths, follow_last);
  std::vector<Walk> walks;
  walks.reserve(paths.size());
  for (const std::string_view path : paths) {
    const Walk* const before = walks.empty() ? nullptr : &walks.back();
    walks.emplace_back(*this, who, path, follow_last, before);
  }
  const Status walked = walk_all(walks);
  if (!walked.ok() || !may_find()) return inner_.resolve_many(who, paths, follow_last);
  std::vector<Result<Attributes>> all;
  std::vector<std::string_view> left;
  all.reserve(paths.size());
  for (Walk& walk : walks) {
    all.push_back(walk.take_result());
    if (walk.is_metas()) left.push_back(walk.path());
  }
  found_.fetch_add(paths.size() - left.size(), std::memory_order_relaxed);
  if (left.empty()) return all;
  TRY_ASSIGN(std::vector<Result<Attributes>> rest, inner_.resolve_many(who, left, follow_last));
  ASSERT(rest.size() == left.size());
  size_t next = 0;
  for (size_t i = 0; i < walks.size(); ++i) {
    if (walks[i].is_metas()) all[i] = std::move(rest[next++]);
  }
  return all;
}

Result<Attributes> KeptNames::resolve(const Credentials& who, std::string_view path,
                                      bool follow_last) {
  TRY_ASSIGN(std::vector<Result<Attributes>> found, resolve_many(who, {path}, follow_last));
  return std::move(found.front());
}

// What is not known of the directory and of the entry is asked for together.
Result<Attributes> KeptNames::lookup(const Credentials& who, InodeId parent,
                                     std::string_view name) {
  if (!is_plain(name) || is_off()) return inner_.lookup(who, parent, name);
  std::shared_ptr<const Attributes> directory = who.enforce ? kept_attributes(parent) : nullptr;
  const std::optional<InodeId> entry = kept_entry(parent, name);
  std::vector<meta::Look> looks;
  const bool finds = may_find();
  const bool asks_directory = who.enforce && (!directory || !finds);
  const bool asks_entry = !entry || !finds;
  if (asks_directory) looks.push_back({parent, {}});
  if (asks_entry) looks.push_back({parent, std::string(name)});
  const Status asked = looks.empty() ? Status() : fetch(looks);
  if (asked == Code::not_supported) return inner_.lookup(who, parent, name);
  TRY(asked);
  if (who.enforce) {
    if (asks_directory) {
      TRY_ASSIGN(Attributes found, std::move(looks.front().found));
      directory = std::make_shared<Attributes>(std::move(found));
    }
    if (directory->type != FileType::directory) return Code::not_directory;
    if (directory->links == 0) return Code::not_found;
    TRY(meta::check_access(who, *directory, meta::kAccessExecute));
  }
  if (asks_entry) return std::move(looks.back().found);
  if (*entry != InodeId()) return attributes(*entry);
  found_.fetch_add(1, std::memory_order_relaxed);
  return Code::not_found;
}

Result<Attributes> KeptNames::attributes(InodeId inode) {
  if (is_off()) return inner_.attributes(inode);
  const std::shared_ptr<const Attributes> known = kept_attributes(inode);
  if (known && may_find()) {
    found_.fetch_add(1, std::memory_order_relaxed);
    return *known;
  }
  meta::Look look{inode, {}};
  const Status asked = fetch({&look, 1});
  if (asked == Code::not_supported) return inner_.attributes(inode);
  TRY(asked);
  return std::move(look.found);
}

Result<std::string> KeptNames::get_xattr(const Credentials& who, InodeId inode,
                                         std::string_view name) {
  const std::shared_ptr<const Attributes> known = is_off() ? nullptr : kept_attributes(inode);
  if (known && may_find()) {
    if (auto answer = meta::xattr_of(who, *known, name)) {
      found_.fetch_add(1, std::memory_order_relaxed);
      return std::move(*answer);
    }
  }
  return inner_.get_xattr(who, inode, name);
}

Result<std::vector<std::string>> KeptNames::list_xattrs(const Credentials& who, InodeId inode) {
  const std::shared_ptr<const Attributes> known = is_off() ? nullptr : kept_attributes(inode);
  const bool has_none = known && known->type != FileType::directory && known->acl.empty() &&
                        !known->has_xattrs && may_find();
  if (!has_none) return inner_.list_xattrs(who, inode);
  found_.fetch_add(1, std::memory_order_relaxed);
  return std::vector<std::string>();
}

// ---- changing ----

template <class Body>
auto KeptNames::changing(std::vector<std::pair<InodeId, std::string_view>> parts,
                         const Body& change) -> decltype(change()) {
  Own own(*this, std::move(parts));
  auto changed = change();
  own.end(status_of(changed));
  // Perhaps of an inode that nobody here knows to lose a name by it.
  if (is_unknown(status_of(changed))) drop_all();
  return changed;
}

// Which inode a name leads to, as far as that is known: it changes with it.
void KeptNames::add_target(std::vector<std::pair<InodeId, std::string_view>>& parts, InodeId parent,
                           std::string_view name) {
  const std::optional<InodeId> known = kept_entry(parent, name);
  if (known && *known != InodeId()) parts.emplace_back(*known, std::string_view());
}

// What a name led to is not known before, for certain.
void KeptNames::note_removed(const meta::Removed& removed) {
  if (removed.inode != InodeId()) forget_names(removed.inode, {}, {});
}

Result<Attributes> KeptNames::set_attributes(const Credentials& who, InodeId inode,
                                             const meta::SetAttributes& changes) {
  return changing({{inode, {}}}, [&] { return inner_.set_attributes(who, inode, changes); });
}

Result<Attributes> KeptNames::set_layout(const Credentials& who, InodeId directory,
                                         const LayoutEdit& change) {
  return changing({{directory, {}}}, [&] { return inner_.set_layout(who, directory, change); });
}

Result<meta::PrivilegesTaken> KeptNames::drop_privileges(const meta::FileWriter& writer,
                                                         InodeId inode) {
  return changing({{inode, {}}}, [&] { return inner_.drop_privileges(writer, inode); });
}

Status KeptNames::record_accessed(const std::vector<Accessed>& accesses) {
  const Status status = inner_.record_accessed(accesses);
  for (const Accessed& one : accesses) forget_names(one.inode, {}, {});
  return status;
}

Result<Attributes> KeptNames::create(const Credentials& who, InodeId parent, std::string_view name,
                                     uint32_t mode, bool exclusive,
                                     std::optional<meta::Layout> layout, bool* created,
                                     meta::Creation how) {
  return changing({{parent, name}}, [&] {
    return inner_.create(who, parent, name, mode, exclusive, layout, created, how);
  });
}

Result<Attributes> KeptNames::make_directory(const Credentials& who, InodeId parent,
                                             std::string_view name, uint32_t mode) {
  return changing({{parent, name}}, [&] { return inner_.make_directory(who, parent, name, mode); });
}

Result<Attributes> KeptNames::make_node(const Credentials& who, InodeId parent,
                                        std::string_view name, FileType type, uint32_t mode,
                                        uint64_t device) {
  return changing({{parent, name}},
                  [&] { return inner_.make_node(who, parent, name, type, mode, device); });
}

Result<Attributes> KeptNames::make_symlink(const Credentials& who, InodeId parent,
                                           std::string_view name, std::string_view target) {
  return changing({{parent, name}}, [&] { return inner_.make_symlink(who, parent, name, target); });
}

Result<Attributes> KeptNames::link(const Credentials& who, InodeId inode, InodeId new_parent,
                                   std::string_view new_name) {
  return changing({{new_parent, new_name}, {inode, {}}},
                  [&] { return inner_.link(who, inode, new_parent, new_name); });
}

Status KeptNames::create_files(const Credentials& who, const std::vector<meta::CompleteFile>& files,
                               std::vector<Result<meta::MadeFile>>* made) {
  std::vector<std::pair<InodeId, std::string_view>> parts;
  parts.reserve(files.size());
  for (const meta::CompleteFile& file : files) {
    parts.emplace_back(file.place.parent, file.place.name);
    if (file.place.replace) add_target(parts, file.place.parent, file.place.name);
  }
  std::vector<Result<meta::MadeFile>> each;
  const Status status =
      changing(std::move(parts), [&] { return inner_.create_files(who, files, &each); });
  for (const Result<meta::MadeFile>& one : each) {
    if (one) note_removed(one->replaced);
  }
  if (made != nullptr) *made = std::move(each);
  return status;
}

Status KeptNames::unlink(const Credentials& who, InodeId parent, std::string_view name,
                         meta::Removed* removed) {
  std::vector<std::pair<InodeId, std::string_view>> parts{{parent, name}};
  add_target(parts, parent, name);
  meta::Removed gone;
  TRY(changing(std::move(parts), [&] { return inner_.unlink(who, parent, name, &gone); }));
  note_removed(gone);
  if (removed != nullptr) *removed = std::move(gone);
  return Code::ok;
}

Status KeptNames::remove_directory(const Credentials& who, InodeId parent, std::string_view name,
                                   meta::Removed* removed) {
  std::vector<std::pair<InodeId, std::string_view>> parts{{parent, name}};
  add_target(parts, parent, name);
  meta::Removed gone;
  TRY(changing(std::move(parts),
               [&] { return inner_.remove_directory(who, parent, name, &gone); }));
  note_removed(gone);
  if (removed != nullptr) *removed = std::move(gone);
  return Code::ok;
}

// What moves has another time of change. Where the entry is not kept, it is not known before which
// that is.
Status KeptNames::rename(const Credentials& who, InodeId parent, std::string_view name,
                         InodeId new_parent, std::string_view new_name, meta::RenameFlags flags,
                         meta::Removed* removed) {
  const std::pair<InodeId, std::string_view> from{parent, name}, to{new_parent, new_name};
  std::vector<std::pair<InodeId, std::string_view>> parts{from, to};
  std::vector<meta::Look> moved;
  const auto add_moved = [&](const auto& before, const auto& after) {
    const std::optional<InodeId> known = kept_entry(before.first, before.second);
    if (known && *known != InodeId()) {
      parts.emplace_back(*known, std::string_view());
    } else {
      moved.push_back({after.first, std::string(after.second)});
    }
  };
  add_moved(from, to);
  flags.exchange ? add_moved(to, from) : add_target(parts, new_parent, new_name);
  meta::Removed gone;
  TRY(changing(
      parts, [&] { return inner_.rename(who, parent, name, new_parent, new_name, flags, &gone); }));
  note_removed(gone);
  if (removed != nullptr) *removed = std::move(gone);
  if (moved.empty()) return Code::ok;
  // If nobody says what it was, nothing is kept.
  const bool is_known = inner_.look(moved).ok();
  for (const meta::Look& one : moved) {
    if (is_known && one.found) forget_names(one.found->inode, {}, {});
  }
  if (!is_known && !is_off()) drop_all();
  return Code::ok;
}

Status KeptNames::set_trash(InodeId directory, std::optional<uint32_t> days,
                            std::string_view path) {
  return changing({{meta::kRootInode, meta::kTrashName}},
                  [&] { return inner_.set_trash(directory, days, path); });
}

Result<meta::TrashEmptied> KeptNames::empty_trash(InodeId hour, uint64_t after, size_t limit) {
  auto emptied = changing({{hour, {}}}, [&] { return inner_.empty_trash(hour, after, limit); });
  drop(hour);
  if (!emptied) return emptied;
  for (const InodeId inode : emptied->orphans) forget_names(inode, {}, {});
  for (const InodeId inode : emptied->linked) forget_names(inode, {}, {});
  return emptied;
}

Status KeptNames::set_xattr(const Credentials& who, InodeId inode, std::string_view name,
                            std::string_view value, meta::XattrMode mode) {
  return changing({{inode, {}}}, [&] { return inner_.set_xattr(who, inode, name, value, mode); });
}

Status KeptNames::remove_xattr(const Credentials& who, InodeId inode, std::string_view name) {
  return changing({{inode, {}}}, [&] { return inner_.remove_xattr(who, inode, name); });
}

Status KeptNames::settle(InodeId inode, const meta::Settled& settled, bool durable) {
  return changing({{inode, {}}}, [&] { return inner_.settle(inode, settled, durable); });
}

}  // namespace penstock::kept_names

// Calls of Meta that may be several over the net.
#include "remote.h"

#include <algorithm>

namespace penstock::meta_net {
namespace {

// What was asked for, where it is not known what became of it.
Result<meta::MadeFile> as_asked(const meta::CompleteFile& file) {
  meta::MadeFile made;
  made.attributes.inode = file.place.inode;
  made.attributes.mode = file.mode;
  made.attributes.links = 1;
  made.attributes.length = file.length;
  made.attributes.layout = file.place.layout;
  made.attributes.sparse = file.sparse;
  return made;
}

// How much of a list fits one request: elements from `begin` on, so many at most, of which
// `bytes_of` says how long each is.
template <class T, class BytesOf>
size_t as_many_as_fit(const std::vector<T>& all, size_t begin, size_t max,
                      const BytesOf& bytes_of) {
  constexpr size_t kBytesMax =
      limits::kRequestBytesMax - limits::kCredentialsBytesMax - limits::kAttributesBytesMax;
  size_t count = 0;
  for (size_t bytes = 0; begin + count < all.size() && count < max; ++count) {
    bytes += bytes_of(all[begin + count]);
    if (bytes > kBytesMax && count > 0) break;
  }
  return count;
}

constexpr size_t kTextAround = 8;

}  // namespace

Result<std::vector<Result<Attributes>>> Remote::resolve_many(
    const Credentials& who, const std::vector<std::string_view>& paths, bool follow_last) {
  TRY(check_groups(who));
  std::vector<Result<Attributes>> all;
  all.reserve(paths.size());
  while (all.size() < paths.size()) {
    if (const Status fits = check_name(paths[all.size()]); !fits.ok()) {
      all.emplace_back(fits);
      continue;
    }
    ask::ResolveMany asked{who, {}, follow_last};
    const size_t count = as_many_as_fit(paths, all.size(), limits::kPathsMax,
                                        [](auto path) { return path.size() + kTextAround; });
    for (size_t i = 0; i < count && check_name(paths[all.size() + i]).ok(); ++i) {
      asked.paths.emplace_back(paths[all.size() + i]);
    }
    const size_t wanted = asked.paths.size();
    TRY_ASSIGN(Found found, run(std::move(asked), kKiB + wanted * limits::kUsualAttributesBytes));
    if (found.each.size() != wanted) return Code::bad_message;
    std::move(found.each.begin(), found.each.end(), std::back_inserter(all));
  }
  return all;
}

Status Remote::look(std::span<meta::Look> looks) {
  for (size_t begin = 0; begin < looks.size();) {
    const size_t most = std::min(looks.size() - begin, limits::kPathsMax);
    ask::Look asked;
    size_t bytes = 0;
    for (const meta::Look& look : looks.subspan(begin, most)) {
      TRY(check_name(look.name));
      bytes += look.name.size() + kTextAround + limits::kVarint64Bytes;
      if (bytes > limits::kRequestBytesMax / 2 && !asked.wanted.empty()) break;
      asked.wanted.push_back({look.inode, look.name});
    }
    const size_t wanted = asked.wanted.size();
    TRY_ASSIGN(Looks found, run(std::move(asked), kKiB + wanted * limits::kUsualAttributesBytes));
    if (found.each.size() != wanted) return Code::bad_message;
    for (Looked& one : found.each) {
      meta::Look& look = looks[begin++];
      look.found = std::move(one.found);
      look.is_steady = one.is_steady;
    }
  }
  return Code::ok;
}

Status Remote::read_directory(InodeId directory, uint64_t after_cookie, size_t max_entries,
                              bool with_attributes, const DirectoryVisitor& visit) {
  constexpr size_t kUsualEntry = 64;
  uint64_t after = after_cookie;
  while (max_entries > 0) {
    const size_t wanted = std::min(max_entries, limits::kEntriesPerPage);
    const size_t each = with_attributes ? 3 * kUsualEntry : kUsualEntry;
    TRY_ASSIGN(const Page page, run(ask::ReadDirectory{directory, after, wanted, with_attributes},
                                    kKiB + wanted * each));
    const bool is_good = page.entries.size() <= wanted &&
                         (page.entries.empty() || page.entries.front().entry.cookie > after);
    if (!is_good) return Code::bad_message;
    for (const Listed& listed : page.entries) {
      if (listed.attributes.has_value() != with_attributes) return Code::bad_message;
      if (!visit(listed.entry, with_attributes ? &*listed.attributes : nullptr)) return Code::ok;
      after = listed.entry.cookie;
    }
    if (page.last) return Code::ok;
    max_entries -= page.entries.size();
  }
  return Code::ok;
}

Result<std::vector<InodeId>> Remote::unsettled() {
  std::vector<InodeId> all;
  for (;;) {
    const InodeId after = all.empty() ? InodeId() : all.back();
    TRY_ASSIGN(const Inodes some, run(ask::Unsettled{after}, limits::kUsualLongAnswer));
    if (!some.each.empty() && some.each.front() <= after) return Code::bad_message;
    all.insert(all.end(), some.each.begin(), some.each.end());
    if (some.last) return all;
  }
}

Result<std::vector<InodeId>> Remote::orphans(size_t limit, InodeId after) {
  std::vector<InodeId> all;
  while (all.size() < limit) {
    const size_t left = limit - all.size();
    TRY_ASSIGN(const Inodes some, run(ask::Orphans{left, after}, limits::kUsualLongAnswer));
    const bool is_good =
        some.each.size() <= left && (some.each.empty() || some.each.front() > after);
    if (!is_good) return Code::bad_message;
    all.insert(all.end(), some.each.begin(), some.each.end());
    if (some.last) break;
    after = all.back();
  }
  return all;
}

Result<Attributes> Remote::set_layout(const Credentials& who, InodeId directory,
                                      const LayoutEdit& change) {
  TRY(check_groups(who));
  for (int i = 0; i < limits::kEditsMax; ++i) {
    TRY_ASSIGN(const Attributes now, attributes(directory));
    if (now.type != meta::FileType::directory) return Code::not_directory;
    meta::Layout wanted = now.layout;
    TRY(change(wanted));
    if (wanted.chains.size() > limits::kChainsMax) return Code::invalid_argument;
    Result<Attributes> set = run(ask::SetLayout{who, directory, now.layout, std::move(wanted)});
    if (set || set.error() != Code::conflict) return set;
  }
  return Code::busy;
}

Status Remote::record_accessed(const std::vector<Accessed>& accesses) {
  for (size_t begin = 0; begin < accesses.size();) {
    const size_t count = std::min(accesses.size() - begin, limits::kAccessesMax);
    const std::span some = std::span(accesses).subspan(begin, count);
    TRY(run(ask::RecordAccessed{{some.begin(), some.end()}}));
    begin += count;
  }
  return Code::ok;
}

Status Remote::forget_many(std::span<const InodeId> inodes) {
  for (size_t begin = 0; begin < inodes.size();) {
    const size_t count = std::min(inodes.size() - begin, limits::kInodesMax);
    const std::span some = inodes.subspan(begin, count);
    TRY(run(ask::Forget{{some.begin(), some.end()}}));
    begin += count;
  }
  return Code::ok;
}

Result<std::vector<Result<meta::NewFile>>> Remote::place_files(
    const Credentials& who, const std::vector<meta::WantedPlace>& wanted) {
  TRY(check_groups(who));
  std::vector<Result<meta::NewFile>> all;
  all.reserve(wanted.size());
  while (all.size() < wanted.size()) {
    if (const Status fits = check_name(wanted[all.size()].path); !fits.ok()) {
      all.emplace_back(fits);
      continue;
    }
    ask::PlaceFiles asked{who, {}};
    const size_t count = as_many_as_fit(wanted, all.size(), limits::kPathsMax, [](const auto& one) {
      return one.path.size() + kTextAround;
    });
    for (size_t i = 0; i < count && check_name(wanted[all.size() + i].path).ok(); ++i) {
      const meta::WantedPlace& one = wanted[all.size() + i];
      asked.wanted.push_back({std::string(one.path), one.replace});
    }
    const size_t asked_for = asked.wanted.size();
    TRY_ASSIGN(Places places,
               run(std::move(asked), kKiB + asked_for * limits::kUsualAttributesBytes));
    if (places.each.size() != asked_for) return Code::bad_message;
    std::move(places.each.begin(), places.each.end(), std::back_inserter(all));
  }
  return all;
}

Status Remote::create_some(ask::CreateFiles& asked, std::vector<Result<meta::MadeFile>>& made) {
  const size_t room = kKiB + asked.files.size() * limits::kUsualAttributesBytes;
  Result<FilesMade> done = run(asked, room);
  if (done && done->each.size() == asked.files.size()) {
    std::move(done->each.begin(), done->each.end(), std::back_inserter(made));
    return done->status;
  }
  Status status = !done ? done.error() : done->status;
  if (done && status.ok()) status = calls_.unknown(true, Code::bad_message);
  const bool may_be = status == Code::may_have_happened || status == Code::io_error;
  for (const meta::CompleteFile& file : asked.files) {
    made.push_back(may_be ? as_asked(file) : Result<meta::MadeFile>(status));
  }
  return status;
}

Status Remote::create_files(const Credentials& who, const std::vector<meta::CompleteFile>& files,
                            std::vector<Result<meta::MadeFile>>* made) {
  TRY(check_groups(who));
  made->clear();
  made->reserve(files.size());
  Status status;
  while (status.ok() && made->size() < files.size()) {
    const auto begin = files.begin() + static_cast<ptrdiff_t>(made->size());
    const size_t count = as_many_as_fit(files, made->size(), limits::kFilesMax,
                                        [](const auto&) { return limits::kNewFileBytesMax; });
    ask::CreateFiles asked{who, {begin, begin + static_cast<ptrdiff_t>(count)}};
    status = create_some(asked, *made);
  }
  made->resize(files.size(), Result<meta::MadeFile>(Code::cancelled));
  return status;
}

Result<std::vector<meta::Quota>> Remote::quotas(std::optional<meta::QuotaSubject> after,
                                                size_t limit) {
  std::vector<meta::Quota> all;
  bool last = false;
  while (!last && all.size() < limit) {
    TRY_ASSIGN(Quotas some, run(ask::ListQuotas{after}, limits::kUsualLongAnswer));
    last = some.last;
    for (meta::Quota& quota : some.each) {
      // Those of the page before come before it, so that this ends.
      if (after && quota.subject <= *after) return Code::bad_message;
      after = quota.subject;
      if (all.size() < limit) all.push_back(std::move(quota));
    }
  }
  return all;
}

Result<std::vector<meta::TrashSetting>> Remote::trash_settings(InodeId after, size_t limit) {
  std::vector<meta::TrashSetting> all;
  bool last = false;
  while (!last && all.size() < limit) {
    TRY_ASSIGN(Trash some, run(ask::ListTrash{after}, limits::kUsualLongAnswer));
    last = some.last;
    for (meta::TrashSetting& setting : some.each) {
      if (setting.directory <= after) return Code::bad_message;
      after = setting.directory;
      if (all.size() < limit) all.push_back(std::move(setting));
    }
  }
  return all;
}

}  // namespace penstock::meta_net

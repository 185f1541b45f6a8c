#include "sound.h"

#include <algorithm>

namespace penstock::meta_net {
namespace {

bool name_is_good(std::string_view name) {
  return !name.empty() && name.size() <= limits::kNameBytesMax && name != "." && name != ".." &&
         name.find_first_of(std::string_view("/\0", 2)) == std::string_view::npos;
}

template <class T>
bool all_are_sound(const std::vector<Result<T>>& all) {
  return std::all_of(all.begin(), all.end(),
                     [](const auto& one) { return !one || is_sound(*one); });
}

// A number that Meta has given for an inode. Whether it was given to this caller is not known here.
bool was_given(InodeId id, uint64_t newest) {
  return id.value >= meta::kFirstId && id.value <= newest;
}

Status check(const ask::Create& asked, const Newest& newest) {
  const bool is_good = asked.how.id == InodeId() || was_given(asked.how.id, newest());
  return is_good ? Code::ok : Code::invalid_argument;
}
Status check(const ask::CreateUnnamed& asked, const Newest& newest) {
  return was_given(asked.id, newest()) ? Code::ok : Code::invalid_argument;
}
Status check(const ask::CreateFiles& asked, const Newest& newest_now) {
  const uint64_t newest = newest_now();
  const bool is_good = std::all_of(asked.files.begin(), asked.files.end(), [&](const auto& file) {
    return was_given(file.place.inode, newest) && is_sound(file.place) &&
           !file.changes.length.has_value();
  });
  return is_good ? Code::ok : Code::invalid_argument;
}
Status check(const ask::Access& asked, const Newest&) {
  constexpr uint32_t kAny = meta::kAccessRead | meta::kAccessWrite | meta::kAccessExecute;
  return (asked.wanted & ~kAny) == 0 ? Code::ok : Code::invalid_argument;
}
Status check(const auto&, const Newest&) {
  return Code::ok;
}

}  // namespace

bool is_sound(const Attributes& attributes) {
  if (!meta::layout_is_good(attributes.layout)) return false;
  // What a record may hold, as this is one.
  meta::Inode inode;
  inode.attributes = attributes;
  if (attributes.type == meta::FileType::directory) inode.parent = meta::kRootInode;
  if (attributes.type == meta::FileType::symlink) inode.target = ".";
  return meta::is_storable(inode);
}

bool is_sound(const meta::NewFile& place) {
  const bool is_files = place.layout.stripe == 0;
  return place.inode.value >= meta::kFirstId && place.parent != InodeId() &&
         name_is_good(place.name) && is_files && meta::layout_is_good(place.layout);
}
bool is_sound(const meta::Removed& removed) {
  return removed.inode == InodeId() ||
         (is_sound(removed.attributes) && removed.attributes.inode == removed.inode);
}
bool is_sound(const meta::ResolvedParent& resolved) {
  const bool is_dots = resolved.name == "." || resolved.name == "..";
  return is_sound(resolved.parent) && (is_dots || name_is_good(resolved.name));
}
bool is_sound(const Created& created) {
  return is_sound(created.attributes);
}
bool is_sound(const Found& found) {
  return all_are_sound(found.each);
}
bool is_sound(const Looks& looks) {
  return std::all_of(looks.each.begin(), looks.each.end(),
                     [](const Looked& one) { return !one.found || is_sound(*one.found); });
}
bool is_sound(const Places& places) {
  return all_are_sound(places.each);
}
bool is_sound(const FilesMade& made) {
  return std::all_of(made.each.begin(), made.each.end(), [](const Result<meta::MadeFile>& one) {
    return !one || (is_sound(one->attributes) && is_sound(one->replaced));
  });
}
bool is_sound(const Page& page) {
  uint64_t before = meta::kCookieMin - 1;
  for (const Listed& each : page.entries) {
    const meta::DirectoryEntry& entry = each.entry;
    const bool is_good = name_is_good(entry.name) && entry.inode != InodeId() &&
                         entry.cookie > before && entry.cookie <= meta::kIdMax;
    if (!is_good) return false;
    if (each.attributes && !is_sound(*each.attributes)) return false;
    before = entry.cookie;
  }
  return page.last || !page.entries.empty();
}
bool is_sound(const Inodes& inodes) {
  const bool is_in_order = std::adjacent_find(inodes.each.begin(), inodes.each.end(),
                                              std::greater_equal<>()) == inodes.each.end();
  return is_in_order && (inodes.last || !inodes.each.empty());
}
bool is_sound(const Names& names) {
  return std::all_of(names.each.begin(), names.each.end(), [](const std::string& name) {
    return !name.empty() && name.size() <= meta::kXattrNameBytesMax;
  });
}
bool is_sound(const Number& number) {
  return number.value != 0;
}
bool is_sound(const meta::Quota& quota) {
  using Kind = meta::QuotaSubject::Kind;
  return quota.subject.kind == Kind::directory || quota.subject.kind == Kind::user;
}
bool is_sound(const meta::QuotaCheck& check) {
  return is_sound(check.quota);
}
bool is_sound(const Least& least) {
  return !least.quota || is_sound(*least.quota);
}
bool is_sound(const meta::TrashEmptied& emptied) {
  const auto is_none = [](InodeId inode) { return inode == InodeId(); };
  return emptied.last <= meta::kIdMax &&
         std::none_of(emptied.orphans.begin(), emptied.orphans.end(), is_none) &&
         std::none_of(emptied.linked.begin(), emptied.linked.end(), is_none);
}
bool is_sound(const meta::TrashDays& days) {
  return days.days <= meta::kTrashDaysMax;
}
bool is_sound(const Trash& trash) {
  for (const meta::TrashSetting& setting : trash.each) {
    if (setting.directory == InodeId() || setting.days > meta::kTrashDaysMax) return false;
  }
  return trash.last || !trash.each.empty();
}
bool is_sound(const Quotas& quotas) {
  for (size_t i = 0; i < quotas.each.size(); ++i) {
    if (!is_sound(quotas.each[i])) return false;
    if (i > 0 && quotas.each[i - 1].subject >= quotas.each[i].subject) return false;
  }
  return quotas.last || !quotas.each.empty();
}

Status check_asked(const Request& request, const Newest& newest) {
  return std::visit([&](const auto& asked) { return check(asked, newest); }, request);
}

}  // namespace penstock::meta_net

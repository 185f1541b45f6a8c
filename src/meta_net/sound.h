// What holds of every message of ours beyond its form. Of answers it is asked by the caller, who
// goes on with what they say; of what is asked, by the service, where Meta itself takes it for
// granted.
#pragma once

#include "messages.h"

#include <functional>

namespace penstock::meta_net {

bool is_sound(const Attributes& attributes);
bool is_sound(const meta::NewFile& place);
bool is_sound(const meta::Removed& removed);
bool is_sound(const meta::ResolvedParent& resolved);
bool is_sound(const Created& created);
bool is_sound(const Found& found);
bool is_sound(const Looks& looks);
bool is_sound(const Places& places);
bool is_sound(const FilesMade& made);
bool is_sound(const Page& page);
bool is_sound(const Inodes& inodes);
bool is_sound(const Names& names);
bool is_sound(const Number& number);
bool is_sound(const meta::Quota& quota);
bool is_sound(const meta::QuotaCheck& check);
bool is_sound(const Least& least);
bool is_sound(const Quotas& quotas);
bool is_sound(const meta::TrashEmptied& emptied);
bool is_sound(const meta::TrashDays& days);
bool is_sound(const Trash& trash);
inline bool is_sound(const auto&) {
  return true;
}

// ok, or what the call ends with. `newest`: no number above was given so far (Meta::newest_cookie);
// asked only where it matters, as it may wait for others.
using Newest = std::function<uint64_t()>;
Status check_asked(const Request& request, const Newest& newest);

}  // namespace penstock::meta_net

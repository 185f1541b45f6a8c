#include "penstock/rights/restriction.h"

#include <algorithm>
#include <charconv>

namespace penstock::rights {
namespace {

std::optional<uint32_t> parse_id(std::string_view text) {
  uint32_t id = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), id);
  const bool is_good = error == std::errc() && end == text.data() + text.size() && !text.empty();
  return is_good && id <= limits::kIdMost ? std::optional(id) : std::nullopt;
}

std::optional<IdRange> parse_range(std::string_view text) {
  const size_t dash = text.find('-');
  const auto first = parse_id(text.substr(0, dash));
  const auto last = dash == std::string_view::npos ? first : parse_id(text.substr(dash + 1));
  if (!first || !last || *first > *last) return std::nullopt;
  return IdRange{*first, *last};
}

bool are_good(const IdRanges& ranges) {
  if (ranges.size() > limits::kRangesMax) return false;
  for (size_t i = 0; i < ranges.size(); ++i) {
    if (ranges[i].first > ranges[i].last || ranges[i].last > limits::kIdMost) return false;
    if (i > 0 && ranges[i].first <= uint64_t{ranges[i - 1].last} + 1) return false;
  }
  return true;
}

// In order; those that touch are one.
IdRanges joined(IdRanges ranges) {
  std::sort(ranges.begin(), ranges.end(),
            [](const IdRange& a, const IdRange& b) { return a.first < b.first; });
  IdRanges all;
  for (const IdRange& next : ranges) {
    const bool touches = !all.empty() && next.first <= uint64_t{all.back().last} + 1;
    if (touches) {
      all.back().last = std::max(all.back().last, next.last);
    } else {
      all.push_back(next);
    }
  }
  return all;
}

// Why it is none; empty: it is one, or the root.
std::string fault_in_subtree(std::string_view path) {
  if (path.empty()) return {};
  if (path.size() > limits::kSubtreeBytesMax) return "is too long";
  if (path.front() != '/') return "does not begin with a slash: it is a path in the file system";
  if (path.back() == '/' || path.find("//") != std::string_view::npos) return "has empty names";
  const auto is_control = [](char c) { return static_cast<unsigned char>(c) < ' ' || c == 127; };
  if (std::any_of(path.begin(), path.end(), is_control)) return "has control characters";
  for (size_t begin = 1; begin <= path.size();) {
    const size_t end = std::min(path.find('/', begin), path.size());
    const std::string_view name = path.substr(begin, end - begin);
    if (name == "." || name == "..") return "has '.' or '..'";
    begin = end + 1;
  }
  return {};
}

Failure wrong(std::string_view text, const std::string& why) {
  return {Code::invalid_argument, "'" + std::string(text) + "' " + why};
}

const IdRanges& groups_of(const Restriction& restriction) {
  return restriction.gids.empty() ? restriction.uids : restriction.gids;
}

}  // namespace

bool is_good(const Restriction& restriction) {
  const auto& squash = restriction.squash;
  return are_good(restriction.uids) && are_good(restriction.gids) &&
         (!squash || (squash->uid <= limits::kIdMost && squash->gid <= limits::kIdMost)) &&
         fault_in_subtree(restriction.subtree).empty();
}

bool contains(const IdRanges& ranges, uint32_t id) {
  return std::any_of(ranges.begin(), ranges.end(),
                     [id](const IdRange& range) { return range.first <= id && id <= range.last; });
}

Status admit(const Restriction& restriction, User& user, std::vector<uint32_t>& groups) {
  if (!restriction.limits_users()) return Code::ok;
  const IdRanges& gids = groups_of(restriction);
  const bool has_ranges = !restriction.uids.empty() || !gids.empty();
  const bool is_within = has_ranges &&
                         (restriction.uids.empty() || contains(restriction.uids, user.uid)) &&
                         (gids.empty() || contains(gids, user.gid));
  if (is_within) {
    if (!gids.empty()) std::erase_if(groups, [&](uint32_t gid) { return !contains(gids, gid); });
    return Code::ok;
  }
  if (!restriction.squash) return Code::access_denied;
  user = *restriction.squash;
  groups.clear();
  return Code::ok;
}

bool may_own(const Restriction& restriction, uint32_t uid) {
  if (restriction.squash && restriction.squash->uid == uid) return true;
  if (restriction.uids.empty()) return !restriction.squash;
  return contains(restriction.uids, uid);
}

bool may_own_group(const Restriction& restriction, uint32_t gid) {
  if (restriction.squash && restriction.squash->gid == gid) return true;
  const IdRanges& gids = groups_of(restriction);
  return gids.empty() ? !restriction.squash : contains(gids, gid);
}

Outcome<IdRanges> parse_ids(std::string_view text) {
  IdRanges ranges;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const auto range = parse_range(text.substr(begin, end - begin));
    if (!range) return wrong(text, "is no list of numbers and ranges, as 1000-1999,5000");
    ranges.push_back(*range);
    begin = end + 1;
  }
  ranges = joined(std::move(ranges));
  if (ranges.size() > limits::kRangesMax) {
    return wrong(text, "has more than " + std::to_string(limits::kRangesMax) + " ranges");
  }
  return ranges;
}

Outcome<User> parse_user(std::string_view text) {
  const size_t colon = text.find(':');
  const auto uid = parse_id(text.substr(0, colon));
  const auto gid = colon == std::string_view::npos ? uid : parse_id(text.substr(colon + 1));
  if (!uid || !gid) return wrong(text, "is no user, as 65534 or 65534:65534");
  return User{*uid, *gid};
}

Outcome<std::string> parse_subtree(std::string_view text) {
  while (text.size() > 1 && text.back() == '/') text.remove_suffix(1);
  if (text == "/") return std::string();
  if (text.empty()) return wrong(text, "is no path");
  const std::string fault = fault_in_subtree(text);
  if (!fault.empty()) return wrong(text, fault);
  return std::string(text);
}

std::string text_of(const IdRanges& ranges) {
  std::string text;
  for (const IdRange& range : ranges) {
    if (!text.empty()) text += ',';
    text += std::to_string(range.first);
    if (range.last != range.first) text += '-' + std::to_string(range.last);
  }
  return text;
}

std::string text_of(const Restriction& restriction) {
  std::string text;
  const auto add = [&text](const std::string& words) {
    if (!text.empty()) text += ' ';
    text += words;
  };
  if (!restriction.uids.empty()) add("uids " + text_of(restriction.uids));
  if (!restriction.gids.empty()) add("gids " + text_of(restriction.gids));
  if (restriction.squash) {
    const User& user = *restriction.squash;
    add("squash " + std::to_string(user.uid) +
        (user.gid == user.uid ? "" : ":" + std::to_string(user.gid)));
  }
  if (!restriction.subtree.empty()) add("subtree " + restriction.subtree);
  if (restriction.read_only) add("read-only");
  return text;
}

}  // namespace penstock::rights

// The names of what lies in the trash.
#include <algorithm>
#include <charconv>
#include <chrono>
#include <fmt/format.h>

#include "penstock/meta/trash.h"

namespace penstock::meta {
namespace {

constexpr int64_t kHourNanoseconds = int64_t{3600} * 1'000'000'000;
constexpr int64_t kHoursPerDay = 24;
// 9999 in the calendar: four digits.
constexpr int64_t kHourMax = int64_t{70'389'500} - 1;

// A number without needless zeros, and what is behind it.
template <class Number>
bool take_number(std::string_view& text, Number& number, size_t digits_min = 1) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const auto digits = static_cast<size_t>(end - text.data());
  if (error != std::errc() || digits < digits_min) return false;
  if (digits > digits_min && text.front() == '0') return false;
  text.remove_prefix(digits);
  return true;
}
bool take(std::string_view& text, char wanted) {
  if (text.empty() || text.front() != wanted) return false;
  text.remove_prefix(1);
  return true;
}

// Where the characters end that fit into so many bytes.
size_t cut_of(std::string_view name, size_t bytes) {
  if (name.size() <= bytes) return name.size();
  constexpr size_t kRestMax = 3;  // of a character
  for (size_t back = 0; back <= kRestMax && back < bytes; ++back) {
    if ((static_cast<uint8_t>(name[bytes - back]) & 0xc0) != 0x80) return bytes - back;
  }
  return bytes;
}

}  // namespace

TrashHour trash_hour(engine::WallTime removed, uint32_t days) {
  return {std::clamp<int64_t>(removed.nanoseconds / kHourNanoseconds, 0, kHourMax), days};
}

std::string name_of(const TrashHour& hour) {
  using std::chrono::days;
  ASSERT(hour.hour >= 0 && hour.hour <= kHourMax);
  const std::chrono::year_month_day date{std::chrono::sys_days(days(hour.hour / kHoursPerDay))};
  return fmt::format("{:04}-{:02}-{:02}-{:02}.{}d", static_cast<int>(date.year()),
                     static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                     hour.hour % kHoursPerDay, hour.days);
}

std::optional<TrashHour> parse_trash_hour(std::string_view name) {
  std::string_view rest = name;
  int year = 0;
  unsigned month = 0, day = 0, hour = 0;
  TrashHour parsed;
  const bool is_good = take_number(rest, year, 4) && take(rest, '-') &&
                       take_number(rest, month, 2) && take(rest, '-') &&
                       take_number(rest, day, 2) && take(rest, '-') && take_number(rest, hour, 2) &&
                       take(rest, '.') && take_number(rest, parsed.days) && rest == "d";
  if (!is_good || year < 0 || parsed.days > kTrashDaysMax) return std::nullopt;
  const std::chrono::year_month_day date{std::chrono::year(year), std::chrono::month(month),
                                         std::chrono::day(day)};
  if (!date.ok() || hour >= kHoursPerDay) return std::nullopt;
  parsed.hour = std::chrono::sys_days(date).time_since_epoch().count() * kHoursPerDay + hour;
  if (parsed.hour < 0 || parsed.hour > kHourMax || name_of(parsed) != name) return std::nullopt;
  return parsed;
}

engine::WallTime over_at(const TrashHour& hour) {
  const int64_t end = hour.hour + 1 + int64_t{hour.days} * kHoursPerDay;
  return {end > INT64_MAX / kHourNanoseconds ? INT64_MAX : end * kHourNanoseconds};
}

std::string name_of(const TrashEntry& entry) {
  std::string name = fmt::format("{}-{}-", entry.parent.value, entry.inode.value);
  ASSERT(name.size() < limits::kNameBytesMax);
  const size_t room = limits::kNameBytesMax - name.size();
  name.append(entry.name, 0, cut_of(entry.name, room));
  return name;
}

std::optional<TrashEntry> parse_trash_entry(std::string_view name) {
  TrashEntry entry;
  const bool is_good = take_number(name, entry.parent.value) && take(name, '-') &&
                       take_number(name, entry.inode.value) && take(name, '-') && !name.empty();
  if (!is_good || entry.parent == InodeId() || entry.inode == InodeId()) return std::nullopt;
  entry.name = name;
  if (entry.name == "." || entry.name == "..") return std::nullopt;
  return entry;
}

}  // namespace penstock::meta

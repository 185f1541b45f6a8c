#include "durable_mark.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

namespace penstock::kv {
namespace {

struct Record {
  char magic[8];
  uint64_t sequence;
  uint32_t crc;  // of what is before
  uint32_t reserved;
};
static_assert(sizeof(Record) == 24 && offsetof(Record, crc) == 16 &&
              std::is_trivially_copyable_v<Record>);

constexpr char kMagic[8] = {'P', 'S', 'T', 'K', 'K', 'V', '0', '1'};

uint32_t crc_of(const Record& record) {
  return crc32c({reinterpret_cast<const std::byte*>(&record), offsetof(Record, crc)});
}

}  // namespace

Result<DurableMark> DurableMark::open(const std::string& directory, bool create, bool read_only) {
  DurableMark mark;
  const std::string path = directory + "/PENSTOCK";
  const int flags = (read_only ? O_RDONLY : O_RDWR | (create ? O_CREAT : 0)) | O_CLOEXEC;
  mark.fd_ = UniqueFd(::open(path.c_str(), flags, 0600));
  if (!mark.fd_) {
    if (errno == ENOENT) return mark;
    return Status::from_errno(errno);
  }
  if (::flock(mark.fd_.get(), (read_only ? LOCK_SH : LOCK_EX) | LOCK_NB) != 0) {
    return errno == EWOULDBLOCK ? Status(Code::in_use) : Status::from_errno(errno);
  }
  Record record{};
  const ssize_t got = ::pread(mark.fd_.get(), &record, sizeof record, 0);
  if (got < 0) return Status::from_errno(errno);
  if (got == 0) return mark;  // just made, here or before a crash
  if (got == sizeof record && std::memcmp(record.magic, kMagic, sizeof kMagic) == 0 &&
      record.crc == crc_of(record)) {
    mark.sequence_ = record.sequence;
  } else {
    mark.damaged_ = true;
  }
  return mark;
}

void DurableMark::advance(uint64_t sequence) {
  if (!fd_ || sequence <= sequence_) return;
  sequence_ = sequence;
  Record record{};
  std::memcpy(record.magic, kMagic, sizeof kMagic);
  record.sequence = sequence;
  record.crc = crc_of(record);
  [[maybe_unused]] const ssize_t written = ::pwrite(fd_.get(), &record, sizeof record, 0);
}

}  // namespace penstock::kv

#include "program_data.h"

#include "limits.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace penstock::symm {
namespace {

uint64_t page_bytes() {
  return static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
}

// Arrays that nobody has touched take no memory, before and after. AddressSanitizer is not asked
// here, nor by what follows: there is memory between variables that no variable has.
__attribute__((no_sanitize("address"))) bool is_zero(const char* page) {
  const auto* const words = reinterpret_cast<const uint64_t*>(page);
  for (size_t i = 0; i < page_bytes() / sizeof *words; ++i) {
    if (words[i] != 0) return false;
  }
  return true;
}

struct Extent {
  uintptr_t begin = 0;
  uintptr_t end = 0;
  uintptr_t file_end = 0;  // what is behind it has no file, and is zero until somebody writes it
};

// Which pages of memory without a file nobody has touched, as the kernel has it: it answers in
// milliseconds for arrays of gigabytes, which to look at takes a page fault for each page.
class Untouched {
 public:
  explicit Untouched(uintptr_t from)
      : from_(from), map_(::open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC)) {}

  // Pages are asked for in the order of their addresses. False where the kernel does not say.
  bool operator()(uintptr_t page) {
    if (page < from_) return false;
    const uintptr_t number = page / page_bytes();
    if (number < first_ || number >= first_ + entries_.size()) read_from(number);
    constexpr uint64_t kPresentOrSwapped = uint64_t{3} << 62;
    return number - first_ < known_ && (entries_[number - first_] & kPresentOrSwapped) == 0;
  }

 private:
  void read_from(uintptr_t number) {
    first_ = number;
    const ssize_t n = ::pread(map_.get(), entries_.data(), sizeof entries_,
                              static_cast<off_t>(number * sizeof entries_[0]));
    known_ = n < 0 ? 0 : static_cast<size_t>(n) / sizeof entries_[0];
  }

  const uintptr_t from_;
  const UniqueFd map_;
  std::array<uint64_t, limits::kPagesAskedAtOnce> entries_{};
  uintptr_t first_ = 0;
  size_t known_ = 0;
};

// The loader tells of the program first. What it made read-only after it had relocated it stays
// where it is.
int find_writable(dl_phdr_info* info, size_t, void* result) {
  Extent& found = *static_cast<Extent*>(result);
  uintptr_t read_only_end = 0;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& header = info->dlpi_phdr[i];
    const uintptr_t begin = info->dlpi_addr + header.p_vaddr;
    if (header.p_type == PT_LOAD && (header.p_flags & PF_W) != 0) {
      found = {found.end == 0 ? begin : std::min(found.begin, begin),
               std::max(found.end, begin + header.p_memsz),
               std::max(found.file_end, begin + header.p_filesz)};
    }
    if (header.p_type == PT_GNU_RELRO) read_only_end = begin + header.p_memsz;
  }
  const uint64_t page = page_bytes();
  // A page that only begins with what is read-only was left writable, and is moved.
  found.begin = std::max(found.begin / page * page, read_only_end / page * page);
  found.end = align_up(found.end, page);
  found.file_end = align_up(found.file_end, page);
  return 1;
}

ProgramData moved;
// Of the thread that forks, which is the child's only one.
thread_local void* copy_for_child = MAP_FAILED;

// From where on the memory has bytes, or not: where it has none it is zero. All of it has where the
// kernel does not say.
size_t next_of(int whence, size_t from) {
  const off_t at = ::lseek(moved.descriptor, static_cast<off_t>(from), whence);
  if (at >= 0) return std::min(static_cast<size_t>(at), moved.bytes);
  return whence == SEEK_DATA && errno != ENXIO ? from : moved.bytes;
}

// A child would share the variables with its parent. It gets those of the moment when it was
// forked: the copy is made before, as the parent goes on at once.
void before_fork() {
  copy_for_child =
      ::mmap(nullptr, moved.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (copy_for_child == MAP_FAILED) return;
  // By the kernel, which reads the memory that they are on.
  size_t done = next_of(SEEK_DATA, 0);
  size_t end = done;
  while (done < moved.bytes) {
    if (done == end) end = next_of(SEEK_HOLE, done);
    const ssize_t n = ::pread(moved.descriptor, static_cast<char*>(copy_for_child) + done,
                              end - done, static_cast<off_t>(done));
    if (n <= 0) break;
    done += static_cast<size_t>(n);
    if (done == end) done = end = next_of(SEEK_DATA, done);
  }
  if (done == moved.bytes) return;
  (void)::munmap(copy_for_child, moved.bytes);
  copy_for_child = MAP_FAILED;
}

void after_fork_in_parent() {
  if (copy_for_child != MAP_FAILED) ::munmap(copy_for_child, moved.bytes);
}

void after_fork_in_child() {
  if (copy_for_child == MAP_FAILED) return;
  (void)::mremap(copy_for_child, moved.bytes, moved.bytes, MREMAP_MAYMOVE | MREMAP_FIXED,
                 moved.begin);
}

Failure cannot(const char* what) {
  const int error = errno;
  return {Status::from_errno(error), std::string("the program's variables cannot be shared: ") +
                                         what + ": " + std::strerror(error)};
}

// Puts the variables onto `memory`, which has their content.
Status put_in_place(const Extent& at, int memory) {
  const size_t bytes = at.end - at.begin;
  void* const placed = ::mmap(reinterpret_cast<void*>(at.begin), bytes, PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_FIXED, memory, 0);
  return placed == MAP_FAILED ? Status::from_errno(errno) : Status();
}

}  // namespace

Outcome<ProgramData> move_program_data() {
  if (moved.descriptor >= 0) return moved;
  Extent at;
  ::dl_iterate_phdr(find_writable, &at);
  if (at.end <= at.begin) return ProgramData{};
  UniqueFd memory(::memfd_create("penstock-program-data", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!memory) return cannot("memfd_create");
  const size_t bytes = at.end - at.begin;
  if (::ftruncate(memory.get(), static_cast<off_t>(bytes)) != 0) return cannot("ftruncate");
  if (::fcntl(memory.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0)
    return cannot("F_ADD_SEALS");
  // From here to the end of put_in_place() nobody may change a variable: what write() has taken is
  // what will be there. This library's own are its own, as is the C library's, unless they are
  // linked into the program.
  Untouched is_untouched(at.file_end);
  for (size_t done = 0; done < bytes; done += page_bytes()) {
    const auto* const page = reinterpret_cast<const char*>(at.begin) + done;
    if (is_untouched(at.begin + done) || is_zero(page)) continue;
    const long n = ::syscall(SYS_pwrite64, memory.get(), page, page_bytes(), done);
    if (n != static_cast<long>(page_bytes())) return cannot("pwrite");
  }
  if (!put_in_place(at, memory.get()).ok()) return cannot("mmap");
  moved = {reinterpret_cast<std::byte*>(at.begin), bytes, memory.release()};
  if (::pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child) != 0) {
    return cannot("pthread_atfork");
  }
  return moved;
}

}  // namespace penstock::symm

// hf3fs_py_usrbio: USRBIO for Python, over the C interface. The package hf3fs_fuse stands on it.
#include "hf3fs_usrbio.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fcntl.h>
#include <memory>
#include <optional>
#include <pybind11/chrono.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <string>
#include <sys/ioctl.h>
#include <unistd.h>
#include <vector>

namespace py = pybind11;

namespace {

// Most ranges of one punch_hole().
constexpr size_t kHolesMax = 1000;
// The request of 3FS's mount that makes what was written, and the length, lasting.
constexpr unsigned long kForceFsync = _IOR('h', 11, uint32_t);

// Becomes OSError. With the interpreter's lock.
[[noreturn]] void raise_error(int error) {
  errno = error;
  PyErr_SetFromErrno(PyExc_OSError);
  throw py::error_already_set();
}

// A C border call reports failures as negative errnos.
int checked(int result) {
  if (result < 0) raise_error(-result);
  return result;
}

// What an iovec and all its slices share.
class Memory {
 public:
  Memory() = default;
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory() { hf3fs_iovdestroy(&iov); }

  hf3fs_iov iov{};
};

// An iovec or a slice of one, and after wait() the operation on it.
struct Slice {
  std::shared_ptr<Memory> memory;
  uint8_t* base = nullptr;
  size_t size = 0;
  int64_t result = 0;
  py::object userdata = py::none();

  size_t offset() const { return static_cast<size_t>(base - memory->iov.base); }
  py::buffer_info buffer() const {
    return {base, 1, py::format_descriptor<uint8_t>::format(), static_cast<py::ssize_t>(size)};
  }
};
using SliceRef = std::shared_ptr<Slice>;

SliceRef part_of(const Slice& whole, uint8_t* base, size_t size) {
  auto part = std::make_shared<Slice>();
  part->memory = whole.memory;
  part->base = base;
  part->size = size;
  return part;
}

// 32 hexadecimal digits, with hyphens wherever they stand.
std::array<uint8_t, 16> parse_uuid(const std::string& text) {
  std::array<uint8_t, 16> id{};
  size_t digits = 0;
  for (const char c : text) {
    if (c == '-') continue;
    const auto* const found = std::strchr("0123456789abcdef", c | 0x20);
    if (c == 0 || found == nullptr || digits == 32) throw py::value_error(text + ": not a UUID");
    const auto value = static_cast<uint8_t>(found - "0123456789abcdef");
    id[digits / 2] = static_cast<uint8_t>(id[digits / 2] << 4 | value);
    ++digits;
  }
  if (digits != 32) throw py::value_error(text + ": not a UUID");
  return id;
}

// The memory stays the caller's, which keeps it mapped as long as rings may use it.
SliceRef make_iovec(const py::buffer& base, const std::string& id, const std::string& mount,
                    size_t block_size, int numa) {
  const py::buffer_info info = base.request(true);
  const std::array<uint8_t, 16> uuid = parse_uuid(id);
  auto whole = std::make_shared<Slice>();
  whole->memory = std::make_shared<Memory>();
  whole->base = static_cast<uint8_t*>(info.ptr);
  whole->size = static_cast<size_t>(info.itemsize * info.size);
  int result = 0;
  {
    const py::gil_scoped_release released;
    result = hf3fs_iovwrap(&whole->memory->iov, whole->base, uuid.data(), mount.c_str(),
                           whole->size, block_size, numa);
  }
  checked(result);
  return whole;
}

SliceRef slice_by(const Slice& self, const py::buffer& buffer) {
  const py::buffer_info info = buffer.request(true);
  const auto begin = reinterpret_cast<uintptr_t>(info.ptr);
  const auto own = reinterpret_cast<uintptr_t>(self.base);
  const auto bytes = static_cast<size_t>(info.itemsize * info.size);
  if (begin < own || begin - own > self.size || bytes > self.size - (begin - own)) {
    throw py::index_error("the buffer is not inside the iovec");
  }
  return part_of(self, static_cast<uint8_t*>(info.ptr), bytes);
}

SliceRef get_slice(const Slice& self, const py::slice& slice) {
  size_t start = 0, stop = 0, step = 0, length = 0;
  if (!slice.compute(self.size, &start, &stop, &step, &length)) throw py::error_already_set();
  if (step != 1) throw py::value_error("slices of an iovec have a step of 1");
  return part_of(self, self.base + start, length);
}

void set_slice(const Slice& self, const py::slice& slice, const py::buffer& value) {
  const SliceRef part = get_slice(self, slice);
  const py::buffer_info info = value.request();
  if (static_cast<size_t>(info.itemsize * info.size) != part->size) {
    throw py::value_error("a slice of an iovec is replaced by as many bytes");
  }
  std::memmove(part->base, info.ptr, part->size);
}

class Ring {
 public:
  Ring(const std::string& mount, int entries, bool for_read, int io_depth,
       std::optional<int> /*priority*/, std::optional<int> timeout, int numa, uint64_t flags) {
    int result = 0;
    {
      const py::gil_scoped_release released;
      result = hf3fs_iorcreate4(&ior_, mount.c_str(), entries, for_read, io_depth,
                                timeout.value_or(0), numa, flags);
    }
    checked(result);
    operations_.resize(static_cast<size_t>(hf3fs_io_entries(&ior_)));
  }
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;
  // Waits for what is in flight, whose memory the operations keep until then.
  ~Ring() { destroy(); }

  void destroy() {
    const py::gil_scoped_release released;
    hf3fs_iordestroy(&ior_);
  }
  int entries() const { return hf3fs_io_entries(&ior_); }

  // The interpreter's lock is held throughout: another thread that waits finds the slice when it is
  // done.
  void prepare(const SliceRef& slice, bool read, int fd, size_t offset,
               const py::object& userdata) {
    const int index = checked(hf3fs_prep_io(&ior_, &slice->memory->iov, read, slice->base, fd,
                                            offset, slice->size, nullptr));
    slice->userdata = userdata;
    operations_[static_cast<size_t>(index)] = slice;
  }

  void submit() {
    int result = 0;
    {
      const py::gil_scoped_release released;
      result = hf3fs_submit_ios(&ior_);
    }
    checked(result);
  }

  std::vector<SliceRef> wait(int max, int min, std::optional<std::chrono::microseconds> timeout) {
    max = std::max({max, min, 1});
    const auto until = timeout ? std::optional(realtime_after(*timeout)) : std::nullopt;
    std::vector<hf3fs_cqe> done(static_cast<size_t>(std::min(max, std::max(entries(), 1))));
    std::vector<SliceRef> out;
    while (static_cast<int>(out.size()) < max) {
      const int taken = static_cast<int>(out.size());
      const int room = std::min(max - taken, static_cast<int>(done.size()));
      const int wanted = std::clamp(min - taken, 0, room);
      int result = 0;
      {
        const py::gil_scoped_release released;
        result = hf3fs_wait_for_ios(&ior_, done.data(), room, wanted, until ? &*until : nullptr);
      }
      // What was taken before a failure is not lost.
      if (result < 0 && out.empty()) raise_error(-result);
      if (result <= 0) break;
      for (int i = 0; i < result; ++i) out.push_back(ended(done[static_cast<size_t>(i)]));
    }
    return out;
  }

 private:
  static timespec realtime_after(std::chrono::microseconds time) {
    constexpr int64_t kSecond = 1'000'000'000;
    timespec now{};
    ::clock_gettime(CLOCK_REALTIME, &now);
    const int64_t micros = std::max<int64_t>(time.count(), 0);
    const int64_t nanoseconds = now.tv_nsec + micros % 1'000'000 * 1000;
    now.tv_sec += micros / 1'000'000 + nanoseconds / kSecond;
    now.tv_nsec = nanoseconds % kSecond;
    return now;
  }

  SliceRef ended(const hf3fs_cqe& done) {
    SliceRef slice = std::move(operations_[static_cast<size_t>(done.index)]);
    slice->result = done.result;
    return slice;
  }

  hf3fs_ior ior_{};
  std::vector<SliceRef> operations_;  // in flight, by index
};
using RingRef = std::shared_ptr<Ring>;

std::optional<std::string> extract_mount_point(const std::string& path) {
  char mount[sizeof(hf3fs_iov::mount_point)];
  const int length = hf3fs_extract_mount_point(mount, sizeof mount, path.c_str());
  if (length < 0) return std::nullopt;
  if (length > static_cast<int>(sizeof mount)) raise_error(ENAMETOOLONG);
  return std::string(mount);
}

void register_fd(int fd, uint64_t flags) {
  int result = 0;
  {
    const py::gil_scoped_release released;
    result = hf3fs_reg_fd(fd, flags);
  }
  if (result > 0) raise_error(result);
}

void deregister_fd(int fd) {
  const py::gil_scoped_release released;
  hf3fs_dereg_fd(fd);
}

int force_fsync(int fd) {
  int result = 0;
  {
    const py::gil_scoped_release released;
    result = ::ioctl(fd, kForceFsync);
  }
  if (result < 0) raise_error(errno);
  return result;
}

void hardlink(const std::string& target, const std::string& link_name) {
  int error = 0;
  {
    const py::gil_scoped_release released;
    error = hf3fs_hardlink(target.c_str(), link_name.c_str());
  }
  if (error != 0) raise_error(error);
}

using Offsets = std::vector<size_t>;

void punch_fd(int fd, const Offsets& start, const Offsets& end, size_t flags) {
  if (start.size() != end.size()) throw py::value_error("as many ends as starts are needed");
  if (start.size() > kHolesMax) throw py::value_error("at most 1000 holes at once");
  int error = 0;
  {
    const py::gil_scoped_release released;
    error = hf3fs_punchhole(fd, static_cast<int>(start.size()), start.data(), end.data(), flags);
  }
  if (error != 0) raise_error(error);
}

void punch_file(const std::string& name, const Offsets& start, const Offsets& end, size_t flags) {
  const int fd = ::open(name.c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) raise_error(errno);
  const std::shared_ptr<void> closing(nullptr, [fd](void*) { ::close(fd); });
  punch_fd(fd, start, end, flags);
}

void define_functions(py::module_& m) {
  m.def("extract_mount_point", extract_mount_point, py::arg("path"),
        "The mount that the path lies in, or None.");
  m.def("register_fd", register_fd, py::arg("fd"), py::arg("flags") = 0,
        "Makes an open file usable in rings. Deregister it before it is closed.");
  m.def("deregister_fd", deregister_fd, py::arg("fd"), "Ends what register_fd() began.");
  m.def("force_fsync", force_fsync, py::arg("fd"),
        "Makes what was written, and the file's length, lasting.");
  m.def("hardlink", hardlink, py::arg("target"), py::arg("link_name"), "Another name for a file.");
  m.def("punch_hole", punch_file, py::arg("filename"), py::arg("start"), py::arg("end"),
        py::arg("flags") = 0, "Makes the ranges [start[i], end[i]) of a file read as zeros.");
  m.def("punch_hole", punch_fd, py::arg("fd"), py::arg("start"), py::arg("end"),
        py::arg("flags") = 0, "The same, for an open file.");
}

void define_iovec(py::module_& m) {
  py::class_<Slice, SliceRef>(m, "iovec", py::buffer_protocol(),
                              "Shared memory that rings read into and write from.")
      .def(py::init(&make_iovec), py::arg("base"), py::arg("id"), py::arg("hf3fs_mount_point"),
           py::arg("block_size") = 0, py::arg("numa") = -1)
      .def_buffer([](const Slice& self) { return self.buffer(); })
      .def("__len__", [](const Slice& self) { return self.size; })
      .def("__getitem__", get_slice)
      .def("__setitem__", set_slice)
      .def("slice_by", slice_by, py::arg("buf"), "The slice that a buffer inside of it is.")
      .def_readonly("result", &Slice::result, "Bytes, or a negative errno, after wait().")
      .def_readonly("userdata", &Slice::userdata, "What prepare() was given.")
      .def_property_readonly("base_off", &Slice::offset, "Where the slice begins.");
}

void define_ioring(py::module_& m) {
  py::class_<Ring, RingRef>(m, "ioring", "A ring of operations, for reads or for writes.")
      .def(py::init<const std::string&, int, bool, int, std::optional<int>, std::optional<int>, int,
                    uint64_t>(),
           py::arg("hf3fs_mount_point"), py::arg("entries"), py::arg("for_read") = true,
           py::arg("io_depth") = 0, py::arg("priority") = py::none(),
           py::arg("timeout") = py::none(), py::arg("numa") = -1, py::arg("flags") = 0)
      .def_static("size_for_entries", &hf3fs_ior_size)
      .def_property_readonly("entries", &Ring::entries)
      .def(
          "prepare",
          [](const RingRef& self, const SliceRef& iov, bool read, int fd, size_t off,
             const py::object& userdata) {
            self->prepare(iov, read, fd, off, userdata);
            return self;
          },
          py::arg("iov"), py::arg("read"), py::arg("fd"), py::arg("off"),
          py::arg("userdata") = py::none(), "One operation on the whole slice. Returns the ring.")
      .def(
          "submit",
          [](const RingRef& self) {
            self->submit();
            return self;
          },
          "Hands over what was prepared. Returns the ring.")
      .def("wait", &Ring::wait, py::kw_only(), py::arg("max_results") = 0,
           py::arg("min_results") = 0, py::arg("timeout") = py::none(),
           "The slices whose operations are done, with their results: at least min_results, unless "
           "`timeout`, a timedelta, passes first.")
      .def("destroy", &Ring::destroy);
}

}  // namespace

PYBIND11_MODULE(hf3fs_py_usrbio, m) {
  m.doc() = "USRBIO: reading and writing files of a mount through rings in shared memory.";
  define_functions(m);
  define_iovec(m);
  define_ioring(m);
}

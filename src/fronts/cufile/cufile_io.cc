// cufile.h: files, buffers, reads and writes.
#include "errors.h"
#include "requests.h"

using namespace penstock;          // NOLINT: this file is the C border
using namespace penstock::cufile;  // NOLINT

using Event = Statistics::Event;

CUfileError_t cuFileHandleRegister(CUfileHandle_t* fh, CUfileDescr_t* descr) {
  return guarded([&] {
    if (fh == nullptr || descr == nullptr) return result(CU_FILE_INVALID_VALUE);
    Driver& driver = Driver::instance();
    const Result<Driver::Use, CUfileError_t> use = driver.enter();
    if (!use) return use.error();
    CUfileOpError error = CU_FILE_IO_NOT_SUPPORTED;
    if (descr->type == CU_FILE_HANDLE_TYPE_OPAQUE_FD) {
      error = (*use)->register_file(descr->handle.fd, fh);
    }
    driver.statistics().count(Event::handle_register, error == CU_FILE_SUCCESS);
    return result(error);
  });
}

void cuFileHandleDeregister(CUfileHandle_t fh) {
  guarded([&] {
    Driver& driver = Driver::instance();
    const Result<Driver::Use, CUfileError_t> use = driver.enter_open();
    if (!use) return;
    driver.statistics().count(Event::handle_deregister, (*use)->files().remove(fh));
  });
}

CUfileError_t cuFileBufRegister(const void* bufPtr_base, size_t length, int flags) {
  return guarded([&] {
    (void)flags;
    if (bufPtr_base == nullptr || length == 0 || length > SSIZE_MAX) {
      return result(CU_FILE_INVALID_VALUE);
    }
    Driver& driver = Driver::instance();
    const Result<Driver::Use, CUfileError_t> use = driver.enter();
    if (!use) return use.error();
    const Buffers::Change change = (*use)->buffers().add(bufPtr_base, length);
    driver.statistics().count_registration(change.device, change.error == CU_FILE_SUCCESS, length);
    return result(change.error);
  });
}

CUfileError_t cuFileBufDeregister(const void* bufPtr_base) {
  return guarded([&] {
    if (bufPtr_base == nullptr) return result(CU_FILE_INVALID_VALUE);
    Driver& driver = Driver::instance();
    const Result<Driver::Use, CUfileError_t> use = driver.enter_open();
    if (!use) return use.error();
    const Buffers::Change change = (*use)->buffers().remove(bufPtr_base);
    if (change.error == CU_FILE_SUCCESS) driver.statistics().count_deregistration(change.device);
    return result(change.error);
  });
}

ssize_t cuFileRead(CUfileHandle_t fh, void* bufPtr_base, size_t size, off_t file_offset,
                   off_t bufPtr_offset) {
  return guarded([&] { return run({false, fh, bufPtr_base, size, file_offset, bufPtr_offset}); });
}

ssize_t cuFileWrite(CUfileHandle_t fh, const void* bufPtr_base, size_t size, off_t file_offset,
                    off_t bufPtr_offset) {
  return guarded([&] {
    void* const base = const_cast<void*>(bufPtr_base);
    return run({true, fh, base, size, file_offset, bufPtr_offset});
  });
}

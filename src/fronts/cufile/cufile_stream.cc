// cufile.h: reads and writes in the order of a stream.
#include "errors.h"
#include "stream_operations.h"

using namespace penstock;          // NOLINT: this file is the C border
using namespace penstock::cufile;  // NOLINT

namespace penstock::cufile {
namespace {

constexpr unsigned kStreamFlags = CU_FILE_STREAM_FIXED_AND_ALIGNED;

CUfileError_t submit(const StreamRequest& request, CUstream stream) {
  return guarded([&] {
    if (request.base == nullptr || request.size == nullptr || request.file_offset == nullptr ||
        request.buffer_offset == nullptr || request.bytes == nullptr) {
      return result(CU_FILE_INVALID_VALUE);
    }
    const Result<Driver::Use, CUfileError_t> use = Driver::instance().enter();
    if (!use) return use.error();
    {
      const auto file = (*use)->files().find(request.handle);
      if (!file) return result(CU_FILE_HANDLE_NOT_REGISTERED);
      if (request.write ? !file->writable : !file->readable) {
        return result(CU_FILE_INVALID_FILE_OPEN_FLAG);
      }
      const CUfileError_t ready = (*use)->prepare_stream(*file, request.base);
      if (ready.err != CU_FILE_SUCCESS) return ready;
    }
    return StreamOperations::instance().submit(**use, request, stream);
  });
}

}  // namespace
}  // namespace penstock::cufile

CUfileError_t cuFileReadAsync(CUfileHandle_t fh, void* bufPtr_base, size_t* size_p,
                              off_t* file_offset_p, off_t* bufPtr_offset_p, ssize_t* bytes_read_p,
                              CUstream stream) {
  return submit({false, fh, bufPtr_base, size_p, file_offset_p, bufPtr_offset_p, bytes_read_p},
                stream);
}

CUfileError_t cuFileWriteAsync(CUfileHandle_t fh, void* bufPtr_base, size_t* size_p,
                               off_t* file_offset_p, off_t* bufPtr_offset_p,
                               ssize_t* bytes_written_p, CUstream stream) {
  return submit({true, fh, bufPtr_base, size_p, file_offset_p, bufPtr_offset_p, bytes_written_p},
                stream);
}

CUfileError_t cuFileStreamRegister(CUstream stream, unsigned flags) {
  return guarded([&] {
    const Result<Driver::Use, CUfileError_t> use = Driver::instance().enter();
    if (!use) return use.error();
    if ((flags & ~kStreamFlags) != 0) return result(CU_FILE_INVALID_VALUE);
    const bool added = StreamOperations::instance().add_stream(stream, flags);
    return result(added ? CU_FILE_SUCCESS : CU_FILE_INVALID_VALUE);
  });
}

CUfileError_t cuFileStreamDeregister(CUstream stream) {
  return guarded([&] {
    const Result<Driver::Use, CUfileError_t> use = Driver::instance().enter_open();
    if (!use) return use.error();
    const bool removed = StreamOperations::instance().remove_stream(stream);
    return result(removed ? CU_FILE_SUCCESS : CU_FILE_INVALID_VALUE);
  });
}

// Batches.
#include "check.h"

#include <set>

namespace {

constexpr size_t kFile = 8 << 20;

CUfileIOParams_t operation(CUfileHandle_t file, CUfileOpcode_t opcode, void* base, off_t offset,
                           off_t at, size_t size, uintptr_t cookie) {
  CUfileIOParams_t params;
  std::memset(&params, 0, sizeof params);
  params.mode = CUFILE_BATCH;
  params.u.batch.devPtr_base = base;
  params.u.batch.file_offset = offset;
  params.u.batch.devPtr_offset = at;
  params.u.batch.size = size;
  params.fh = file;
  params.opcode = opcode;
  params.cookie = reinterpret_cast<void*>(cookie);
  return params;
}

// Statuses of `count` operations, in whatever portions they come.
std::vector<CUfileIOEvents_t> take(CUfileBatchHandle_t batch, unsigned count) {
  std::vector<CUfileIOEvents_t> all;
  for (int tries = 0; all.size() < count && tries < 100; ++tries) {
    std::vector<CUfileIOEvents_t> events(count);
    unsigned got = count - static_cast<unsigned>(all.size());
    timespec timeout{5, 0};
    const CUfileError_t status = cuFileBatchIOGetStatus(batch, 1, &got, events.data(), &timeout);
    if (status.err != CU_FILE_SUCCESS) break;
    all.insert(all.end(), events.begin(), events.begin() + got);
  }
  return all;
}

}  // namespace

int main(int argc, char** argv) {
  open_driver();
  const File disk(directory_of(argc, argv), "batch", kFile);
  CUfileHandle_t file = register_file(disk.fd());
  unsigned char* const gpu = device_memory(kFile);
  SUCCEEDS(cuFileBufRegister(gpu, kFile, 0));

  CUfileBatchHandle_t batch = nullptr;
  SUCCEEDS(cuFileBatchIOSetUp(&batch, 128));
  for (const size_t size : {size_t{4096}, size_t{4097}, size_t{60'000}}) {
    std::vector<CUfileIOParams_t> params;
    for (uintptr_t i = 0; i < 128; ++i) {
      params.push_back(operation(file, CUFILE_READ, gpu, static_cast<off_t>(i * 61'440),
                                 static_cast<off_t>(i * 61'440), size, i + 1));
    }
    SUCCEEDS(cuFileBatchIOSubmit(batch, 128, params.data(), 0));
    std::set<uintptr_t> cookies;
    bool complete = true;
    for (const CUfileIOEvents_t& event : take(batch, 128)) {
      cookies.insert(reinterpret_cast<uintptr_t>(event.cookie));
      complete = complete && event.status == CUFILE_COMPLETE && event.ret == size;
    }
    check(complete && cookies.size() == 128, "128 reads of a batch complete");
    bool right = true;
    for (size_t i = 0; i < 128; ++i) {
      right = right && device_bytes(gpu + i * 61'440, size) == pattern(i * 61'440, size);
    }
    check(right, "their bytes are there");
  }

  const Bytes written = pattern(0, 4 * 4096, 9);
  fill_device(gpu, written);
  std::vector<CUfileIOParams_t> params;
  for (uintptr_t i = 0; i < 4; ++i) {
    params.push_back(operation(file, CUFILE_WRITE, gpu, static_cast<off_t>(1'000'000 + i * 4096),
                               static_cast<off_t>(i * 4096), 4096, i));
  }
  SUCCEEDS(cuFileBatchIOSubmit(batch, 4, params.data(), 0));
  CHECK(take(batch, 4).size() == 4);
  CHECK(disk.bytes(1'000'000, written.size()) == written);

  params = {operation(file, CUFILE_READ, gpu, 0, 0, 4096, 1),
            operation(file, CUFILE_READ, gpu, 1LL << 40, 8192, 4096, 2),
            operation(file, CUFILE_READ, gpu, kFile - 10, 16384, 4096, 3)};
  SUCCEEDS(cuFileBatchIOSubmit(batch, 3, params.data(), 0));
  bool shapes = true;
  for (const CUfileIOEvents_t& event : take(batch, 3)) {
    const auto cookie = reinterpret_cast<uintptr_t>(event.cookie);
    const size_t wanted = cookie == 1 ? 4096 : cookie == 2 ? 0 : 10;
    shapes = shapes && event.status == CUFILE_COMPLETE && event.ret == wanted;
  }
  check(shapes, "reads at and behind the end of the file are short");

  CHECK(cuFileBatchIOSubmit(batch, 129, params.data(), 0).err != CU_FILE_SUCCESS);
  CHECK(cuFileBatchIOSubmit(batch, 0, params.data(), 0).err != CU_FILE_SUCCESS);
  params[0].fh = nullptr;
  CHECK(cuFileBatchIOSubmit(batch, 1, params.data(), 0).err != CU_FILE_SUCCESS);
  unsigned none = 8;
  CUfileIOEvents_t events[8];
  timespec soon{0, 1'000'000};
  SUCCEEDS(cuFileBatchIOGetStatus(batch, 0, &none, events, &soon));
  CHECK(none == 0);
  SUCCEEDS(cuFileBatchIOCancel(batch));
  cuFileBatchIODestroy(batch);

  SUCCEEDS(cuFileBufDeregister(gpu));
  cuFileHandleDeregister(file);
  SUCCEEDS(cuFileDriverClose());
  return finish();
}

// What is refused, and how.
#include "check.h"

namespace {

CUfileOpError try_register(int fd) {
  CUfileDescr_t description{};
  description.type = CU_FILE_HANDLE_TYPE_OPAQUE_FD;
  description.handle.fd = fd;
  CUfileHandle_t handle = nullptr;
  return cuFileHandleRegister(&handle, &description).err;
}

#define IS(call, wanted)                                 \
  do {                                                   \
    const int got_ = (call);                             \
    check(got_ == (wanted), #call " == " #wanted, got_); \
  } while (0)
// Data calls tell by a negative value, or by -1 and errno; which one differs between versions.
#define FAILS(call)                        \
  do {                                     \
    const long long got_ = (call);         \
    check(got_ < 0, #call " fails", got_); \
  } while (0)

}  // namespace

int main(int argc, char** argv) {
  const std::string directory = directory_of(argc, argv);
  constexpr size_t kMemory = 1 << 20;
  int version = 0;
  IS(cuFileGetVersion(&version).err, CU_FILE_SUCCESS);
  CHECK(version >= 1000);
  IS(cuFileGetVersion(nullptr).err, CU_FILE_INVALID_VALUE);
  CHECK(cuFileUseCount() == 0);
  IS(cuFileDriverClose().err, CU_FILE_DRIVER_NOT_INITIALIZED);
  open_driver();
  CHECK(cuFileUseCount() == 1);
  IS(cuFileDriverOpen().err, CU_FILE_SUCCESS);
  CHECK(cuFileUseCount() == 2);
  IS(cuFileDriverClose().err, CU_FILE_SUCCESS);
  IS(cuFileSetParameterSizeT(CUFILE_PARAM_PROPERTIES_IO_BATCHSIZE, 64).err,
     CU_FILE_DRIVER_ALREADY_OPEN);

  const File disk(directory, "errors", 1 << 20);
  CUfileHandle_t file = register_file(disk.fd());
  IS(try_register(disk.fd()), CU_FILE_HANDLE_ALREADY_REGISTERED);
  IS(try_register(-1), CU_FILE_INVALID_VALUE);
  IS(try_register(987), CU_FILE_INVALID_VALUE);
  const int folder = ::open(directory.c_str(), O_RDONLY);
  IS(try_register(folder), CU_FILE_INVALID_FILE_TYPE);
  int ends[2] = {-1, -1};
  CHECK(::pipe(ends) == 0);
  IS(try_register(ends[0]), CU_FILE_INVALID_FILE_TYPE);
  const int appending = ::open(disk.path().c_str(), O_WRONLY | O_APPEND);
  IS(try_register(appending), CU_FILE_INVALID_FILE_OPEN_FLAG);
  CUfileHandle_t none = nullptr;
  IS(cuFileHandleRegister(&none, nullptr).err, CU_FILE_INVALID_VALUE);

  unsigned char* const gpu = device_memory(kMemory);
  IS(cuFileBufRegister(gpu, kMemory, 0).err, CU_FILE_SUCCESS);
  IS(cuFileBufRegister(gpu, kMemory, 0).err, CU_FILE_MEMORY_ALREADY_REGISTERED);
  IS(cuFileBufRegister(nullptr, 4096, 0).err, CU_FILE_INVALID_VALUE);
  IS(cuFileBufRegister(gpu + 4096, 0, 0).err, CU_FILE_INVALID_VALUE);
  IS(cuFileBufRegister(gpu + 4096, 2 * kMemory, 0).err, CU_FILE_CUDA_POINTER_RANGE_ERROR);
  IS(cuFileBufDeregister(gpu + 8192).err, CU_FILE_MEMORY_NOT_REGISTERED);

  FAILS(cuFileRead(file, gpu, kMemory, 0, 1));
  FAILS(cuFileRead(file, gpu, 1, 0, kMemory));
  FAILS(cuFileWrite(file, gpu, kMemory, 0, 4096));
  FAILS(cuFileRead(file, gpu, 4096, -1, 0));
  FAILS(cuFileRead(file, gpu, 4096, 0, -1));
  FAILS(cuFileRead(file, nullptr, 4096, 0, 0));
  FAILS(cuFileRead(nullptr, gpu, 4096, 0, 0));
  unsigned char* const small = device_memory(4096);
  FAILS(cuFileRead(file, small, 1 << 20, 0, 0));
  const int reading = ::open(disk.path().c_str(), O_RDONLY);
  CUfileHandle_t read_only = register_file(reading);
  FAILS(cuFileWrite(read_only, gpu, 4096, 0, 0));
  RETURNS(cuFileRead(read_only, gpu, 4096, 0, 0), 4096);
  cuFileHandleDeregister(read_only);
  cuFileHandleDeregister(nullptr);

  size_t least = 0;
  size_t most = 0;
  IS(cuFileGetParameterMinMaxValue(CUFILE_PARAM_PROPERTIES_IO_BATCHSIZE, &least, &most).err,
     CU_FILE_SUCCESS);
  CHECK(least == 1 && most >= 128);
  IS(cuFileSetStatsLevel(4).err, CU_FILE_INVALID_VALUE);
  IS(cuFileSetStatsLevel(1).err, CU_FILE_SUCCESS);
  IS(cuFileStatsStart().err, CU_FILE_SUCCESS);
  IS(cuFileStatsReset().err, CU_FILE_SUCCESS);
  RETURNS(cuFileRead(file, gpu, 4096, 0, 0), 4096);
  CUfileStatsLevel1_t basic;
  CUfileStatsLevel2_t detailed;
  IS(cuFileGetStatsL1(&basic).err, CU_FILE_SUCCESS);
  CHECK(basic.read_ops.ok >= 1 && basic.read_bytes >= 4096);
  IS(cuFileGetStatsL2(&detailed).err, CU_FILE_INVALID_VALUE);

  IS(cuFileBufDeregister(gpu).err, CU_FILE_SUCCESS);
  cuFileHandleDeregister(file);
  IS(cuFileDriverClose().err, CU_FILE_SUCCESS);
  CHECK(cuFileUseCount() == 0);
  return finish();
}

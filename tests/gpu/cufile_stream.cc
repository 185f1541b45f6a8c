// Reads and writes in the order of a stream.
#include "check.h"

namespace {

constexpr size_t kFile = 8 << 20;

struct Arguments {
  size_t size = 0;
  off_t from = 0;
  off_t at = 0;
  ssize_t bytes = 0;
};

// What the stream knows when it comes there.
void CUDART_CB set_arguments(void* context) {
  auto& arguments = *static_cast<Arguments*>(context);
  arguments.size = 70'001;
  arguments.from = 12'345;
  arguments.at = 4096;
}

}  // namespace

int main(int argc, char** argv) {
  open_driver();
  const File disk(directory_of(argc, argv), "stream", kFile);
  CUfileHandle_t file = register_file(disk.fd());
  unsigned char* const gpu = device_memory(kFile);
  unsigned char* const copy = device_memory(kFile);
  SUCCEEDS(cuFileBufRegister(gpu, kFile, 0));
  cudaStream_t stream = nullptr;
  CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  const auto cu_stream = reinterpret_cast<CUstream>(stream);

  // Late values, and a copy that must see the bytes.
  auto* late = new Arguments;
  late->size = kFile;
  CUDA(cudaLaunchHostFunc(stream, set_arguments, late));
  SUCCEEDS(
      cuFileReadAsync(file, gpu, &late->size, &late->from, &late->at, &late->bytes, cu_stream));
  CUDA(cudaMemcpyAsync(copy, gpu + 4096, 70'001, cudaMemcpyDeviceToDevice, stream));
  CUDA(cudaMemsetAsync(gpu, 0, kFile, stream));
  CUDA(cudaStreamSynchronize(stream));
  RETURNS(late->bytes, 70'001);
  CHECK(device_bytes(copy, 70'001) == pattern(12'345, 70'001));

  // A write that comes after a copy, and a read after the write.
  SUCCEEDS(cuFileStreamRegister(cu_stream, 0xf));
  Arguments write{1 << 20, 1 << 20, 0, 0};
  Arguments read{1 << 20, 1 << 20, 2 << 20, 0};
  const Bytes bytes = pattern(0, 1 << 20, 5);
  void* pinned = nullptr;
  CUDA(cudaMallocHost(&pinned, bytes.size()));
  std::memcpy(pinned, bytes.data(), bytes.size());
  CUDA(cudaMemcpyAsync(gpu, pinned, bytes.size(), cudaMemcpyHostToDevice, stream));
  SUCCEEDS(
      cuFileWriteAsync(file, gpu, &write.size, &write.from, &write.at, &write.bytes, cu_stream));
  CUDA(cudaMemsetAsync(gpu, 0, bytes.size(), stream));
  SUCCEEDS(cuFileReadAsync(file, gpu, &read.size, &read.from, &read.at, &read.bytes, cu_stream));
  CUDA(cudaStreamSynchronize(stream));
  RETURNS(write.bytes, 1 << 20);
  RETURNS(read.bytes, 1 << 20);
  CHECK(disk.bytes(1 << 20, bytes.size()) == bytes);
  CHECK(device_bytes(gpu + (2 << 20), bytes.size()) == bytes);
  SUCCEEDS(cuFileStreamDeregister(cu_stream));

  // Many, in two streams.
  cudaStream_t other = nullptr;
  CUDA(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
  std::vector<Arguments> many(64);
  for (size_t i = 0; i < many.size(); ++i) {
    many[i] = {65'536, static_cast<off_t>(i * 70'000), static_cast<off_t>(i * 65'536), 0};
    SUCCEEDS(cuFileReadAsync(file, gpu, &many[i].size, &many[i].from, &many[i].at, &many[i].bytes,
                             reinterpret_cast<CUstream>(i % 2 == 0 ? stream : other)));
  }
  CUDA(cudaStreamSynchronize(stream));
  CUDA(cudaStreamSynchronize(other));
  bool right = true;
  for (size_t i = 0; i < many.size(); ++i) {
    right = right && many[i].bytes == 65'536;
    const Bytes wanted = disk.bytes(many[i].from, 65'536);
    right = right && device_bytes(gpu + i * 65'536, 65'536) == wanted;
  }
  check(right, "64 reads in two streams have their bytes");

  Arguments beyond{4096, kFile, 0, -7};
  SUCCEEDS(
      cuFileReadAsync(file, gpu, &beyond.size, &beyond.from, &beyond.at, &beyond.bytes, cu_stream));
  CUDA(cudaStreamSynchronize(stream));
  RETURNS(beyond.bytes, 0);
  Arguments wrong{4096, 0, kFile, -7};
  const CUfileError_t refused =
      cuFileReadAsync(file, gpu, &wrong.size, &wrong.from, &wrong.at, &wrong.bytes, cu_stream);
  CUDA(cudaStreamSynchronize(stream));
  check(refused.err != CU_FILE_SUCCESS || wrong.bytes < 0,
        "a range outside the buffer is an error");

  CHECK(cuFileReadAsync(file, gpu, nullptr, &wrong.from, &wrong.at, &wrong.bytes, cu_stream).err !=
        CU_FILE_SUCCESS);
  SUCCEEDS(cuFileBufDeregister(gpu));
  cuFileHandleDeregister(file);
  SUCCEEDS(cuFileDriverClose());
  return finish();
}

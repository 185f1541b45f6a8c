// Loads a model onto every set of GPUs, with and without lenders, from a plain file and from a
// session's, saves it from the memory of each GPU and compares the files byte by byte.
//
//   g++ -std=c++20 -O2 -I SOURCE/src/api/include model_round_trip.cc -L BUILD/lib -lpenstock
//   LD_LIBRARY_PATH=BUILD/lib ./a.out DIRECTORY [MIB]
//
// DIRECTORY holds files of about four times the size (default 512 MiB). Needs no CUDA toolkit.
#include "penstock_model.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

namespace {

int failed = 0;

bool check(bool good, const std::string& what, const std::string& why = {}) {
  std::printf("%s %s%s%s\n", good ? "PASS" : "FAIL", what.c_str(), why.empty() ? "" : ": ",
              why.c_str());
  if (!good) ++failed;
  return good;
}

struct Tensors {
  std::vector<std::string> names;
  std::vector<uint64_t> shapes;
  std::vector<penstock_save_tensor> all;
};

// Large ones, small ones, odd ones and empty ones, over and over.
Tensors make_tensors(const std::vector<unsigned char>& bytes) {
  constexpr uint64_t kSizes[] = {64 << 20, 8192, 37'000'001, 1, 0, 3 << 20, 777, 16 << 20};
  Tensors out;
  std::vector<uint64_t> begins;
  for (uint64_t at = 0, i = 0; at < bytes.size(); ++i) {
    const uint64_t size = std::min<uint64_t>(kSizes[i % 8], bytes.size() - at);
    out.names.push_back("tensor." + std::to_string(i));
    out.shapes.push_back(size);
    begins.push_back(at);
    at += size;
  }
  for (size_t i = 0; i < begins.size(); ++i) {
    penstock_save_tensor one{};
    one.name = out.names[i].c_str();
    one.dtype = "U8";
    one.shape = &out.shapes[i];
    one.rank = 1;
    one.data = bytes.data() + begins[i];
    out.all.push_back(one);
  }
  return out;
}

bool same_files(const std::string& a, const std::string& b) {
  std::ifstream first(a, std::ios::binary), second(b, std::ios::binary);
  std::vector<char> left(4 << 20), right(4 << 20);
  while (first && second) {
    first.read(left.data(), static_cast<std::streamsize>(left.size()));
    second.read(right.data(), static_cast<std::streamsize>(right.size()));
    if (first.gcount() != second.gcount()) return false;
    if (std::memcmp(left.data(), right.data(), static_cast<size_t>(first.gcount())) != 0) {
      return false;
    }
  }
  return first.eof() && second.eof();
}

// Writes what is on the model's GPU number `which` to a plain file.
int save_from(const penstock_model* model, uint32_t which, const std::string& path) {
  auto* const base = static_cast<unsigned char*>(penstock_model_base(model, which, nullptr));
  std::vector<penstock_save_tensor> all;
  for (uint64_t i = 0; i < penstock_model_tensors(model); ++i) {
    penstock_tensor tensor{};
    penstock_model_tensor(model, i, &tensor);
    penstock_save_tensor one{};
    one.name = tensor.name;
    one.dtype = tensor.dtype;
    one.shape = tensor.shape;
    one.rank = tensor.rank;
    one.data = base + tensor.offset;
    all.push_back(one);
  }
  return penstock_save(nullptr, path.c_str(), all.data(), all.size(), nullptr);
}

struct Case {
  std::string title;
  std::vector<int32_t> gpus;
  std::vector<int32_t> lenders;
};

void run(penstock_session* session, const std::string& path, const std::string& original,
         const std::string& copy, const Case& one) {
  penstock_load_options options{};
  options.size = sizeof options;
  options.gpus = one.gpus.data();
  options.gpu_count = static_cast<uint32_t>(one.gpus.size());
  options.lenders = one.lenders.empty() ? nullptr : one.lenders.data();
  options.lender_count = static_cast<uint32_t>(one.lenders.size());
  const char* const paths[] = {path.c_str()};
  penstock_model* model = nullptr;
  const int error = penstock_load(session, paths, 1, &options, &model);
  if (!check(error == 0, "load " + one.title, error != 0 ? penstock_last_error() : "")) return;
  penstock_model_traffic traffic{};
  penstock_model_get_traffic(model, &traffic);
  std::printf("     %.1f GB/s", double(traffic.bytes) / double(traffic.nanoseconds));
  for (uint32_t i = 0; i < traffic.links; ++i) {
    penstock_model_link link{};
    penstock_model_get_link(model, i, &link);
    std::printf(", GPU %d%s %.0f %%", link.gpu, link.lends != 0 ? " (lent)" : "",
                100.0 * double(link.bytes) / double(traffic.bytes));
  }
  std::printf("\n");
  for (uint32_t which = 0; which < one.gpus.size(); ++which) {
    const std::string what = one.title + ": bytes on GPU " + std::to_string(one.gpus[which]);
    const int saved = save_from(model, which, copy);
    if (saved != 0) {
      check(false, what, penstock_last_error());
    } else {
      check(same_files(original, copy), what);
    }
  }
  penstock_model_free(model);
}

std::vector<Case> cases(const std::string& from, int32_t gpus) {
  std::vector<Case> out;
  for (int32_t count = 1; count <= gpus; count *= 2) {
    Case one{from + " onto " + std::to_string(count), {}, {}};
    for (int32_t i = 0; i < count; ++i) one.gpus.push_back(gpus - 1 - i);
    out.push_back(one);
    if (count == gpus) continue;
    one.title += " with lenders";
    for (int32_t i = count; i < gpus; ++i) one.lenders.push_back(gpus - 1 - i);
    out.push_back(one);
  }
  return out;
}

int32_t count_gpus(const std::string& path) {
  int32_t count = 0;
  const char* const paths[] = {path.c_str()};
  penstock_load_options options{};
  options.size = sizeof options;
  options.gpus = &count;
  options.gpu_count = 1;
  for (; count < 64; ++count) {
    penstock_model* model = nullptr;
    if (penstock_load(nullptr, paths, 1, &options, &model) != 0) break;
    penstock_model_free(model);
  }
  return count;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: %s DIRECTORY [MIB]\n", argv[0]);
    return 2;
  }
  const std::string directory = std::string(argv[1]) + "/penstock-models";
  std::filesystem::remove_all(directory);
  std::filesystem::create_directories(directory);
  const std::string original = directory + "/original";
  std::vector<unsigned char> bytes((argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 512) << 20);
  uint64_t state = 88172645463325252ULL;
  for (unsigned char& byte : bytes) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    byte = static_cast<unsigned char>(state);
  }
  const Tensors tensors = make_tensors(bytes);
  const auto save = [&](penstock_session* session, const std::string& path) {
    const int error =
        penstock_save(session, path.c_str(), tensors.all.data(), tensors.all.size(), nullptr);
    return check(error == 0, "save from host memory", error != 0 ? penstock_last_error() : "");
  };
  if (!save(nullptr, original)) return 1;
  const int32_t gpus = count_gpus(original);
  if (gpus == 0) {
    std::printf("no GPU: %s\n", penstock_last_error());
    return 77;
  }
  std::printf("%d GPUs, %zu tensors\n", gpus, tensors.all.size());
  for (const Case& one : cases("file", gpus)) {
    run(nullptr, original, original, directory + "/copy", one);
  }
  penstock_session* session = nullptr;
  const int opened = penstock_open_store((directory + "/store").c_str(), 1, &session);
  if (check(opened == 0, "open a store", opened != 0 ? penstock_last_error() : "") &&
      save(session, "/model")) {
    for (const Case& one : cases("session", gpus)) {
      run(session, "/model", original, directory + "/copy", one);
    }
  }
  penstock_close(session);
  std::filesystem::remove_all(directory);
  std::printf("%d checks failed\n", failed);
  return failed == 0 ? 0 : 1;
}

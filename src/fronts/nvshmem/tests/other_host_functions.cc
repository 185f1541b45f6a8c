// What every_host_main.cc does not try: functions of the host and on streams without a type in
// their name, memory of all kinds on the program's side, many threads, large strided copies. On all
// PEs of a job; a line for each thing that went wrong. With the argument `times` it prints what
// single words cost, too.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <nvshmem.h>
#include <nvshmemx.h>
#include <string>
#include <thread>
#include <vector>

namespace {

int me = 0;
int pes = 0;
int right = 0;
int left = 0;
int failed = 0;
cudaStream_t stream;

void must(cudaError_t result, const char* what) {
  if (result == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(result));
  nvshmem_global_exit(1);
}

#define EXPECT(CONDITION)                                               \
  if (!(CONDITION)) {                                                   \
    std::printf("%d: line %d: not so: %s\n", me, __LINE__, #CONDITION); \
    ++failed;                                                           \
  }

void done() {
  must(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
}

template <class T>
T* symmetric(size_t count) {
  T* const memory = static_cast<T*>(nvshmem_calloc(count, sizeof(T)));
  if (memory == nullptr) nvshmem_global_exit(1);
  return memory;
}
// CUDA's own calls for device memory may return before it has changed, and other PEs wait for none
// of this one's streams.
void fill_zeros(void* gpu, size_t bytes) {
  must(cudaMemset(gpu, 0, bytes), "cudaMemset");
  must(cudaDeviceSynchronize(), "cudaMemset");
}
void copy(void* to, const void* from, size_t bytes) {
  must(cudaMemcpy(to, from, bytes, cudaMemcpyDefault), "cudaMemcpy");
  must(cudaDeviceSynchronize(), "cudaMemcpy");
}
template <class T>
std::vector<T> read(const T* gpu, size_t count) {
  std::vector<T> here(count);
  must(cudaMemcpy(here.data(), gpu, count * sizeof(T), cudaMemcpyDeviceToHost), "cudaMemcpy");
  return here;
}

void who_is_there() {
  int major = 0;
  int minor = 0;
  int patch = 0;
  char name[NVSHMEM_MAX_NAME_LEN];
  nvshmem_info_get_version(&major, &minor);
  EXPECT(major == NVSHMEM_MAJOR_VERSION && minor == NVSHMEM_MINOR_VERSION);
  nvshmemx_vendor_get_version_info(&major, &minor, &patch);
  EXPECT(major == NVSHMEM_VENDOR_MAJOR_VERSION && patch == NVSHMEM_VENDOR_PATCH_VERSION);
  nvshmem_info_get_name(name);
  EXPECT(std::strcmp(name, NVSHMEM_VENDOR_STRING) == 0);
  EXPECT(nvshmemx_init_status() >= NVSHMEM_STATUS_IS_BOOTSTRAPPED);
  int level = 0;
  nvshmem_query_thread(&level);
  EXPECT(level == NVSHMEM_THREAD_MULTIPLE);
}

void memory_calls() {
  char* const a = static_cast<char*>(nvshmem_malloc(100));
  char* const b = static_cast<char*>(nvshmem_align(4096, 100));
  EXPECT(a != nullptr && b != nullptr && reinterpret_cast<uintptr_t>(b) % 4096 == 0);
  EXPECT(nvshmem_ptr(a, me) == a);
  const bool is_near =
      nvshmem_team_translate_pe(NVSHMEM_TEAM_WORLD, right, NVSHMEM_TEAM_SHARED) >= 0;
  EXPECT((nvshmem_ptr(a, right) != nullptr) == is_near);
  EXPECT(nvshmem_ptr(a, pes) == nullptr);
  EXPECT(nvshmem_ptr(&me, me) == nullptr);
  EXPECT(nvshmemx_mc_ptr(NVSHMEM_TEAM_WORLD, a) == nullptr);
  nvshmem_free(b);
  nvshmem_free(a);
  nvshmem_free(nullptr);
}

void team_calls() {
  nvshmem_team_t odd = NVSHMEM_TEAM_INVALID;
  const int first = pes > 1 ? 1 : 0;
  EXPECT(nvshmem_team_split_strided(NVSHMEM_TEAM_WORLD, first, 2, (pes - first + 1) / 2, nullptr, 0,
                                    &odd) == 0);
  const bool is_in = pes == 1 || me % 2 == 1;
  EXPECT((odd != NVSHMEM_TEAM_INVALID) == is_in);
  if (is_in) {
    EXPECT(nvshmem_team_n_pes(odd) == (pes - first + 1) / 2);
    EXPECT(nvshmem_team_my_pe(odd) == me / 2);
    EXPECT(nvshmem_team_translate_pe(odd, nvshmem_team_my_pe(odd), NVSHMEM_TEAM_WORLD) == me);
    EXPECT(nvshmem_team_sync(odd) == 0);
    EXPECT(nvshmem_barrier(odd) == 0);
    EXPECT(nvshmemx_barrier_on_stream(odd, stream) == 0);
    EXPECT(nvshmemx_team_sync_on_stream(odd, stream) == 0);
    done();
  }
  nvshmem_team_destroy(odd);
  nvshmem_team_t x = NVSHMEM_TEAM_INVALID;
  nvshmem_team_t y = NVSHMEM_TEAM_INVALID;
  EXPECT(nvshmem_team_split_2d(NVSHMEM_TEAM_WORLD, 2, nullptr, 0, &x, nullptr, 0, &y) == 0);
  EXPECT(nvshmem_team_my_pe(x) == me % 2 && nvshmem_team_my_pe(y) == me / 2);
  nvshmem_team_destroy(x);
  nvshmem_team_destroy(y);
  EXPECT(nvshmem_barrier(NVSHMEM_TEAM_INVALID) != 0);
}

// By a number that one PE hands out: here over symmetric memory. In two orders.
void teams_by_a_number() {
  uint64_t* const board = symmetric<uint64_t>(1);
  for (int round = 0; round < 6; ++round) {
    nvshmem_team_config_t config = NVSHMEM_TEAM_CONFIG_INITIALIZER;
    if (me == 0) {
      EXPECT(nvshmemx_team_get_uniqueid(&config.uniqueid) == 0);
      for (int pe = 0; pe < pes; ++pe) nvshmem_uint64_p(board, config.uniqueid, pe);
    }
    nvshmem_barrier_all();
    config.uniqueid = nvshmem_uint64_g(board, me);
    config.num_contexts = 3;
    const int index = round % 2 == 0 ? me : pes - 1 - me;
    nvshmem_team_t team = NVSHMEM_TEAM_INVALID;
    EXPECT(nvshmemx_team_init(
               &team, &config,
               NVSHMEM_TEAM_CONFIG_MASK_UNIQUEID | NVSHMEM_TEAM_CONFIG_MASK_NUM_CONTEXTS, pes,
               index) == 0);
    EXPECT(nvshmem_team_my_pe(team) == index && nvshmem_team_n_pes(team) == pes);
    EXPECT(nvshmem_team_translate_pe(team, index, NVSHMEM_TEAM_WORLD) == me);
    nvshmem_team_config_t found = NVSHMEM_TEAM_CONFIG_INITIALIZER;
    nvshmem_team_get_config(team, &found);
    EXPECT(found.uniqueid == config.uniqueid && found.num_contexts == 3);
    EXPECT(nvshmem_barrier(team) == 0);
    EXPECT(nvshmemx_barrier_on_stream(team, stream) == 0);
    done();
    nvshmem_team_destroy(team);
  }
  nvshmem_team_t team = 7;
  nvshmem_team_config_t config = NVSHMEM_TEAM_CONFIG_INITIALIZER;
  EXPECT(nvshmemx_team_init(&team, &config, 0, pes, me) != 0 && team == NVSHMEM_TEAM_INVALID);
  nvshmem_free(board);
}

void order_on_streams() {
  uint64_t* const word = symmetric<uint64_t>(1);
  for (uint64_t round = 1; round <= 5; ++round) {
    nvshmemx_uint64_p_on_stream(word, round, right, stream);
    nvshmemx_quiet_on_stream(stream);
    nvshmemx_barrier_all_on_stream(stream);
    EXPECT(nvshmemx_uint64_g_on_stream(word, me, stream) == round);
    nvshmemx_sync_all_on_stream(stream);
  }
  done();
  nvshmem_fence();
  nvshmem_quiet();
  nvshmem_sync_all();
  nvshmem_free(word);
}

// Also captured, and run three times.
void signals() {
  uint64_t* const signal = symmetric<uint64_t>(1);
  nvshmemx_signal_op_on_stream(signal, 5, NVSHMEM_SIGNAL_SET, right, stream);
  nvshmemx_signal_wait_until_on_stream(signal, NVSHMEM_CMP_EQ, 5, stream);
  done();
  EXPECT(nvshmem_signal_fetch(signal) == 5);
  nvshmem_barrier_all();
  cudaGraph_t graph;
  cudaGraphExec_t ready;
  must(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), "cudaStreamBeginCapture");
  nvshmemx_signal_op_on_stream(signal, 2, NVSHMEM_SIGNAL_ADD, right, stream);
  must(cudaStreamEndCapture(stream, &graph), "cudaStreamEndCapture");
  must(cudaGraphInstantiate(&ready, graph, 0), "cudaGraphInstantiate");
  for (int i = 0; i < 3; ++i) must(cudaGraphLaunch(ready, stream), "cudaGraphLaunch");
  nvshmemx_signal_wait_until_on_stream(signal, NVSHMEM_CMP_GE, 11, stream);
  done();
  EXPECT(nvshmem_signal_fetch(signal) == 11);
  must(cudaGraphExecDestroy(ready), "cudaGraphExecDestroy");
  must(cudaGraphDestroy(graph), "cudaGraphDestroy");
  nvshmem_free(signal);
}

// The stream's kernel waits for what the host does after it: its calls wait for no stream of the
// program.
void streams_that_wait_for_the_host() {
  uint64_t* const word = symmetric<uint64_t>(2);
  nvshmemx_uint64_wait_until_on_stream(word, NVSHMEM_CMP_EQ, 4, stream);
  nvshmem_uint64_atomic_inc(word, right);
  nvshmem_uint64_atomic_add(word, 2, right);
  nvshmem_quiet();
  EXPECT(nvshmem_uint64_atomic_fetch_inc(word, right) == 3);
  done();
  nvshmem_barrier_all();
  nvshmemx_uint64_wait_until_on_stream(word + 1, NVSHMEM_CMP_EQ, 9, stream);
  nvshmem_uint64_atomic_set(word + 1, 9, right);
  done();
  nvshmem_free(word);
}

void many_threads() {
  constexpr int kThreads = 4;
  constexpr int kEach = 200;
  int* const word = symmetric<int>(1);
  std::vector<std::vector<int>> seen(kThreads);
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      for (int j = 0; j < kEach; ++j)
        seen[static_cast<size_t>(i)].push_back(nvshmem_int_atomic_fetch_add(word, 1, 0));
    });
  }
  for (std::thread& thread : threads) thread.join();
  nvshmem_barrier_all();
  EXPECT(nvshmem_int_g(word, 0) == pes * kThreads * kEach);
  // Each thread saw them grow.
  for (const auto& one : seen) {
    for (size_t i = 1; i < one.size(); ++i) EXPECT(one[i] > one[i - 1]);
  }
  nvshmem_free(word);
}

// The program's side in the memory of malloc(), of cudaMallocHost() and of cudaMalloc().
void memory_of_all_kinds() {
  constexpr size_t kCount = 64;
  int* const dest = symmetric<int>(2 * kCount);
  std::vector<int> pageable(2 * kCount);
  int* pinned = nullptr;
  int* device = nullptr;
  must(cudaMallocHost(reinterpret_cast<void**>(&pinned), 2 * kCount * sizeof(int)),
       "cudaMallocHost");
  must(cudaMalloc(reinterpret_cast<void**>(&device), 2 * kCount * sizeof(int)), "cudaMalloc");
  for (int* const local : {pageable.data(), pinned, device}) {
    std::vector<int> values(2 * kCount);
    for (size_t i = 0; i < values.size(); ++i) values[i] = me * 1000 + static_cast<int>(i);
    for (int way = 0; way < 4; ++way) {
      copy(local, values.data(), values.size() * sizeof(int));
      fill_zeros(dest, 2 * kCount * sizeof(int));
      nvshmem_barrier_all();
      if (way == 0) nvshmem_int_put(dest, local, kCount, right);
      if (way == 1) nvshmemx_int_put_on_stream(dest, local, kCount, right, stream);
      if (way == 2) nvshmem_int_iput(dest, local, 2, 1, kCount, right);
      if (way == 3) nvshmemx_int_iput_on_stream(dest, local, 2, 1, kCount, right, stream);
      done();
      nvshmem_barrier_all();
      const auto found = read(dest, 2 * kCount);
      const size_t stride = way < 2 ? 1 : 2;
      for (size_t i = 0; i < kCount; ++i)
        EXPECT(found[i * stride] == left * 1000 + static_cast<int>(i));
      // And back, each second one.
      copy(dest, values.data(), values.size() * sizeof(int));
      nvshmem_barrier_all();
      if (way == 0) nvshmem_int_get(local, dest, kCount, right);
      if (way == 1) nvshmemx_int_get_on_stream(local, dest, kCount, right, stream);
      if (way == 2) nvshmem_int_iget(local, dest, 1, 2, kCount, right);
      if (way == 3) nvshmemx_int_iget_on_stream(local, dest, 1, 2, kCount, right, stream);
      done();
      std::vector<int> back(kCount);
      copy(back.data(), local, kCount * sizeof(int));
      for (size_t i = 0; i < kCount; ++i)
        EXPECT(back[i] == right * 1000 + static_cast<int>(i * stride));
      nvshmem_barrier_all();
    }
  }
  must(cudaFreeHost(pinned), "cudaFreeHost");
  must(cudaFree(device), "cudaFree");
  nvshmem_free(dest);
}

// Few bytes and many, of memory that kernels reach and of other memory; also captured.
void puts_with_signals() {
  constexpr size_t kMost = (size_t{128} << 10) + 24;
  char* const dest = symmetric<char>(kMost + 1);
  char* const source = symmetric<char>(kMost + 1);
  uint64_t* const signal = symmetric<uint64_t>(1);
  std::vector<char> pageable(kMost + 1);
  uint64_t round = 0;
  for (const size_t bytes :
       {size_t{0}, size_t{1}, size_t{40}, size_t{1001}, size_t{50'000}, kMost - 24, kMost}) {
    for (const bool captures : {false, true}) {
      for (char* const local : {source, pageable.data()}) {
        ++round;
        std::vector<char> values(kMost + 1);
        for (size_t i = 0; i < values.size(); ++i)
          values[i] = static_cast<char>(static_cast<size_t>(me) * 31 + i * 7 + round);
        copy(local, values.data(), values.size());
        fill_zeros(dest, kMost + 1);
        nvshmem_barrier_all();
        cudaGraph_t graph;
        cudaGraphExec_t ready;
        if (captures)
          must(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal),
               "cudaStreamBeginCapture");
        nvshmemx_putmem_signal_on_stream(dest, local, bytes, signal, 1, NVSHMEM_SIGNAL_ADD, right,
                                         stream);
        nvshmemx_signal_wait_until_on_stream(signal, NVSHMEM_CMP_GE, round, stream);
        if (captures) {
          must(cudaStreamEndCapture(stream, &graph), "cudaStreamEndCapture");
          must(cudaGraphInstantiate(&ready, graph, 0), "cudaGraphInstantiate");
          must(cudaGraphLaunch(ready, stream), "cudaGraphLaunch");
        }
        done();
        if (captures) {
          must(cudaGraphExecDestroy(ready), "cudaGraphExecDestroy");
          must(cudaGraphDestroy(graph), "cudaGraphDestroy");
        }
        const auto found = read(dest, kMost + 1);
        size_t wrong = 0;
        for (size_t i = 0; i < found.size(); ++i) {
          const char wanted =
              i < bytes ? static_cast<char>(static_cast<size_t>(left) * 31 + i * 7 + round) : 0;
          wrong += found[i] != wanted ? 1 : 0;
        }
        EXPECT(wrong == 0);
        nvshmem_barrier_all();
      }
    }
  }
  nvshmem_free(signal);
  nvshmem_free(source);
  nvshmem_free(dest);
}

template <class Call>
double seconds_of(Call&& call) {
  const auto begin = std::chrono::steady_clock::now();
  call();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// As many as one launch deals out to all blocks, and more; by kernels and by copy engines.
void large_strides(bool tells_times) {
  constexpr size_t kCount = 3'000'001;
  constexpr size_t kByHost = 20'001;
  uint32_t* const dest = symmetric<uint32_t>(3 * kCount);
  uint32_t* const source = symmetric<uint32_t>(2 * kCount);
  std::vector<uint32_t> values(2 * kCount);
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<uint32_t>(me) * 100'000'000 + static_cast<uint32_t>(i) + 1;
  copy(source, values.data(), values.size() * sizeof(uint32_t));
  nvshmem_barrier_all();
  for (int way = 0; way < 4; ++way) {
    const size_t count = way < 2 ? kCount : kByHost;
    fill_zeros(dest, 3 * kCount * sizeof(uint32_t));
    nvshmem_barrier_all();
    const double seconds = seconds_of([&] {
      if (way == 0) nvshmemx_uint32_iput_on_stream(dest, source, 3, 2, count, right, stream);
      if (way == 1) nvshmemx_uint32_iget_on_stream(dest, source, 3, 2, count, right, stream);
      if (way == 2) nvshmem_uint32_iput(dest, source, 3, 2, count, right);
      if (way == 3) nvshmem_uint32_iget(dest, source, 3, 2, count, right);
      done();
    });
    nvshmem_barrier_all();
    const uint32_t from = static_cast<uint32_t>(way % 2 == 0 ? left : right);
    const auto found = read(dest, 3 * kCount);
    size_t wrong = 0;
    for (size_t i = 0; i < 3 * kCount; ++i) {
      const bool is_one = i % 3 == 0 && i / 3 < count;
      const uint32_t wanted =
          is_one ? from * 100'000'000 + static_cast<uint32_t>(i / 3 * 2) + 1 : 0;
      if (found[i] != wanted) ++wrong;
    }
    EXPECT(wrong == 0);
    if (tells_times && me == 0)
      std::printf("strided way %d: %zu elements in %.1f us\n", way, count, seconds * 1e6);
    nvshmem_barrier_all();
  }
  nvshmem_free(source);
  nvshmem_free(dest);
}

// Elements of 16 bytes that stand at odd multiples of 8.
void unaligned_elements() {
  char* const dest = symmetric<char>(4096);
  char* const source = symmetric<char>(4096);
  std::vector<char> values(4096);
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<char>(me * 31 + static_cast<int>(i) % 97);
  copy(source, values.data(), values.size());
  nvshmem_barrier_all();
  nvshmemx_iput128_on_stream(dest + 8, source + 8, 2, 1, 10, right, stream);
  done();
  nvshmem_barrier_all();
  const auto found = read(dest, 4096);
  size_t wrong = 0;
  for (int i = 0; i < 10; ++i) {
    for (int j = 0; j < 16; ++j) {
      const int from = 8 + i * 16 + j;
      if (found[static_cast<size_t>(8 + i * 32 + j)] != static_cast<char>(left * 31 + from % 97))
        ++wrong;
    }
  }
  EXPECT(wrong == 0);
  nvshmem_barrier_all();
  nvshmem_free(source);
  nvshmem_free(dest);
}

void times() {
  uint64_t* const word = symmetric<uint64_t>(64);
  char* const many = symmetric<char>(1 << 17);
  // One PE at a time: several may share a GPU.
  for (int pe = 0; pe < pes; ++pe) {
    nvshmem_barrier_all();
    if (pe != me) continue;
    const int other = right;
    uint64_t value = 1;
    const auto one = [&](const char* what, auto&& call) {
      constexpr int kTimes = 2000;
      for (int i = 0; i < 100; ++i) call();
      nvshmem_quiet();
      const double seconds = seconds_of([&] {
        for (int i = 0; i < kTimes; ++i) call();
      });
      nvshmem_quiet();
      done();
      std::printf("%d: %s: %.2f us\n", me, what, seconds / kTimes * 1e6);
    };
    one("p", [&] { nvshmem_uint64_p(word, value, other); });
    one("g", [&] { value = nvshmem_uint64_g(word, other); });
    one("put of 8 bytes", [&] { nvshmem_uint64_put(word, &value, 1, other); });
    one("get of 8 bytes", [&] { nvshmem_uint64_get(&value, word, 1, other); });
    one("atomic_set", [&] { nvshmem_uint64_atomic_set(word, value, other); });
    one("atomic_fetch_add", [&] { value = nvshmem_uint64_atomic_fetch_add(word, 1, other); });
    one("atomic_add and quiet", [&] {
      nvshmem_uint64_atomic_add(word, 1, other);
      nvshmem_quiet();
    });
    one("atomic_add", [&] { nvshmem_uint64_atomic_add(word, 1, other); });
    one("signal_fetch", [&] { value = nvshmem_signal_fetch(word); });
    one("p on stream", [&] { nvshmemx_uint64_p_on_stream(word, value, other, stream); });
    one("signal on stream",
        [&] { nvshmemx_signal_op_on_stream(word, 1, NVSHMEM_SIGNAL_ADD, other, stream); });
    one("put_signal of 8 on stream", [&] {
      nvshmemx_uint64_put_signal_on_stream(word, word + 1, 1, word + 2, 1, NVSHMEM_SIGNAL_SET,
                                           other, stream);
    });
    one("put_signal of 64 KiB on stream, synchronize", [&] {
      nvshmemx_putmem_signal_on_stream(many, many + (1 << 16), 1 << 16, word + 2, 1,
                                       NVSHMEM_SIGNAL_SET, other, stream);
      done();
    });
    one("put_signal of 64 KiB by a copy engine, synchronize", [&] {
      nvshmemx_putmem_on_stream(many, many + (1 << 16), 1 << 16, other, stream);
      nvshmemx_signal_op_on_stream(word + 2, 1, NVSHMEM_SIGNAL_SET, other, stream);
      done();
    });
    one("put_signal of 8 KiB on stream, synchronize", [&] {
      nvshmemx_putmem_signal_on_stream(many, many + (1 << 16), 1 << 13, word + 2, 1,
                                       NVSHMEM_SIGNAL_SET, other, stream);
      done();
    });
    one("put_signal of 8 KiB by a copy engine, synchronize", [&] {
      nvshmemx_putmem_on_stream(many, many + (1 << 16), 1 << 13, other, stream);
      nvshmemx_signal_op_on_stream(word + 2, 1, NVSHMEM_SIGNAL_SET, other, stream);
      done();
    });
    one("iput of 16 on stream",
        [&] { nvshmemx_uint64_iput_on_stream(word, word + 32, 2, 1, 16, other, stream); });
    one("iput of 16", [&] { nvshmem_uint64_iput(word, word + 32, 2, 1, 16, other); });
  }
  nvshmem_barrier_all();
  nvshmem_free(many);
  nvshmem_free(word);
}

}  // namespace

int main(int argc, char** argv) {
  const bool tells_times = argc > 1 && std::strcmp(argv[1], "times") == 0;
  int level = 0;
  if (nvshmem_init_thread(NVSHMEM_THREAD_MULTIPLE, &level) != 0) return 1;
  int devices = 0;
  must(cudaGetDeviceCount(&devices), "cudaGetDeviceCount");
  must(cudaSetDevice(nvshmem_team_my_pe(NVSHMEMX_TEAM_NODE) % devices), "cudaSetDevice");
  must(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
  me = nvshmem_my_pe();
  pes = nvshmem_n_pes();
  right = (me + 1) % pes;
  left = (me + pes - 1) % pes;
  const auto run = [&](const char* name, auto&& call) {
    const int before = failed;
    call();
    nvshmem_barrier_all();
    std::printf("%d: %s: %s\n", me, name, failed == before ? "passed" : "FAILED");
    std::fflush(stdout);
  };
  run("who is there", who_is_there);
  run("memory", memory_calls);
  run("teams", team_calls);
  run("teams by a number", teams_by_a_number);
  run("order on streams", order_on_streams);
  run("signals", signals);
  run("streams that wait for the host", streams_that_wait_for_the_host);
  run("many threads", many_threads);
  run("memory of all kinds", memory_of_all_kinds);
  run("puts with signals", puts_with_signals);
  run("unaligned elements", unaligned_elements);
  run("large strides", [&] { large_strides(tells_times); });
  if (tells_times) run("times", times);
  nvshmem_finalize();
  return failed == 0 ? 0 : 1;
}

// Random requests of each PE to its right neighbour, compared with a model of what they do, in
// whatever way that one is reached.
#include "pes.h"

#include <algorithm>
#include <cstring>
#include <random>

namespace penstock::symm::test {
namespace {

constexpr uint64_t kBytes = uint64_t{3} << 20;
constexpr int kRequests = 600;

class Requests {
 public:
  Requests(const Pe& pe, char* there, char* own)
      : pe_(pe), there_(there), own_(own), random_(pe.me() + 1), model_(kBytes) {}

  void make_one() {
    switch (below(9)) {
      case 0:
      case 1:
      case 2:
        return put();
      case 3:
      case 4:
        return get();
      case 5:
        return gets_at_once();
      case 6:
        return change();
      case 7:
        return put_with_signal();
      default:
        return row();
    }
  }
  void check() {
    CHECK(pe_.group.quiet().ok());
    std::vector<char> all(kBytes);
    CHECK(pe_.group.get(all.data(), there_, kBytes, pe_.right()).ok());
    CHECK(all == model_);
  }
  const std::vector<char>& model() const { return model_; }

 private:
  uint64_t below(uint64_t bound) { return random_() % bound; }
  uint64_t some_length() {
    const uint64_t scale[] = {8, 64, 3000, 40'000, 700'000};
    return 1 + below(scale[below(5)]);
  }
  uint64_t place_for(uint64_t bytes) { return below(kBytes - bytes + 1); }
  // Symmetric, or not.
  char* memory_for(uint64_t bytes) {
    if (below(2) == 0) return own_ + below(kBytes - bytes + 1);
    private_.resize(bytes);
    return private_.data();
  }
  char* fresh_bytes(uint64_t bytes) {
    char* const at = memory_for(bytes);
    const uint64_t begin = below(251);
    for (uint64_t i = 0; i < bytes; ++i) at[i] = static_cast<char>((begin + i * 7) % 251);
    return at;
  }

  void put() {
    const uint64_t bytes = some_length();
    const uint64_t to = place_for(bytes);
    const char* const source = fresh_bytes(bytes);
    CHECK(pe_.group.put(there_ + to, source, bytes, pe_.right()).ok());
    std::copy_n(source, bytes, model_.begin() + static_cast<ptrdiff_t>(to));
  }
  void get() {
    const uint64_t bytes = some_length();
    const uint64_t from = place_for(bytes);
    char* const dest = memory_for(bytes);
    CHECK(pe_.group.get(dest, there_ + from, bytes, pe_.right()).ok());
    CHECK(std::equal(dest, dest + bytes, model_.begin() + static_cast<ptrdiff_t>(from)));
  }
  void gets_at_once() {
    struct One {
      uint64_t from;
      std::vector<char> dest;
    };
    std::vector<One> all(1 + below(6));
    Gets gets(pe_.group);
    for (One& one : all) {
      one.dest.resize(some_length());
      one.from = place_for(one.dest.size());
      CHECK(gets.add(one.dest.data(), there_ + one.from, one.dest.size(), pe_.right()).ok());
    }
    CHECK(gets.finish().ok());
    for (const One& one : all) {
      CHECK(std::equal(one.dest.begin(), one.dest.end(),
                       model_.begin() + static_cast<ptrdiff_t>(one.from)));
    }
  }
  void add_to_model(uint64_t at, uint64_t value) {
    uint64_t word = 0;
    std::memcpy(&word, &model_[at], sizeof word);
    word += value;
    std::memcpy(&model_[at], &word, sizeof word);
  }
  void change() {
    const uint64_t at = below(kBytes / 8) * 8;
    auto* const word = reinterpret_cast<uint64_t*>(there_ + at);
    if (below(2) == 0) {
      CHECK(atomic_add(pe_.group, word, uint64_t{3}, pe_.right()).ok());
    } else {
      uint64_t before = 0;
      std::memcpy(&before, &model_[at], sizeof before);
      CHECK(*atomic_fetch_add(pe_.group, word, uint64_t{3}, pe_.right()) == before);
    }
    add_to_model(at, 3);
  }
  void put_with_signal() {
    const uint64_t bytes = some_length();
    const uint64_t to = place_for(bytes);
    const uint64_t at = below(kBytes / 8) * 8;
    const char* const source = fresh_bytes(bytes);
    CHECK(pe_.group
              .put_signal(there_ + to, source, bytes, reinterpret_cast<uint64_t*>(there_ + at), 5,
                          SignalOp::add, pe_.right())
              .ok());
    std::copy_n(source, bytes, model_.begin() + static_cast<ptrdiff_t>(to));
    add_to_model(at, 5);
  }
  void row() {
    const uint64_t count = 1 + below(300);
    const uint64_t stride = 1 + below(4);
    const uint64_t to = place_for(count * stride);
    const char* const source = fresh_bytes(count);
    CHECK(
        iput(pe_.group, there_ + to, source, {static_cast<int64_t>(stride), 1}, count, pe_.right())
            .ok());
    for (uint64_t i = 0; i < count; ++i) model_[to + i * stride] = source[i];
  }

  const Pe& pe_;
  char* const there_;
  char* const own_;
  std::mt19937_64 random_;
  std::vector<char> model_;
  std::vector<char> private_;
};

void random_requests(const Pe& pe) {
  auto* const there = pe.allocate<char>(kBytes);
  auto* const own = pe.allocate<char>(kBytes);
  auto* const model = pe.allocate<char>(kBytes);
  CHECK(pe.group.barrier(pe.group.world()).ok());
  Requests requests(pe, there, own);
  for (int i = 0; i < kRequests; ++i) {
    requests.make_one();
    if (i % 97 == 0) requests.check();
  }
  requests.check();
  // Whose memory it is sees the same.
  CHECK(pe.group.put(model, requests.model().data(), kBytes, pe.right()).ok());
  CHECK(pe.group.barrier(pe.group.world()).ok());
  CHECK(std::memcmp(there, model, kBytes) == 0);
  CHECK(pe.group.barrier(pe.group.world()).ok());
}

}  // namespace

const Named kRandomScenarios[] = {
    {"random", random_requests},
    {nullptr, nullptr},
};

}  // namespace penstock::symm::test

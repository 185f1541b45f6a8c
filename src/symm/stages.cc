#include "stages.h"

#include "limits.h"

#include <bit>
#include <utility>

namespace penstock::symm {
namespace {

constexpr uint64_t kWordsAtOnce = 512;

}  // namespace

Stages::~Stages() {
  for (const auto& stage : all_) device_.release(stage->memory);
}

Result<Stages::Use> Stages::Use::take(Stages& stages, uint64_t bytes, engine::DeviceStream stream) {
  // A graph may be launched on another stream than it is captured on, and a stream that is being
  // captured is not asked for its number.
  const bool is_captured = stages.device_.is_capturing(stream);
  TRY_ASSIGN(Stage* const stage,
             stages.take(bytes, is_captured ? 0 : stages.device_.number_of(stream), is_captured));
  return Use(stages, stage, stream);
}

Stages::Use::Use(Use&& other) noexcept
    : stages_(other.stages_),
      stage_(std::exchange(other.stage_, nullptr)),
      stream_(other.stream_) {}

Stages::Use::~Use() {
  if (stage_ != nullptr) stages_.give_back(*stage_, stream_);
}

Result<Stages::Stage*> Stages::take(uint64_t bytes, uint64_t stream, bool is_captured) {
  const std::lock_guard lock(mutex_);
  Stage* stage = find(bytes, stream);
  if (stage == nullptr) {
    auto made = std::make_unique<Stage>();
    made->bytes = std::bit_ceil(std::max(bytes, limits::kFarStageLeast));
    TRY_ASSIGN(made->memory, device_.allocate(made->bytes));
    const Result<uint64_t*> word = take_word();
    if (!word) {
      device_.release(made->memory);
      return word.error();
    }
    made->done = *word;
    stage = made.get();
    all_.push_back(std::move(made));
  }
  stage->is_taken = true;
  stage->is_captured = is_captured;
  return stage;
}

// The smallest that is large enough, and which this stream comes to behind its use before, or that
// use is done.
Stages::Stage* Stages::find(uint64_t bytes, uint64_t stream) {
  Stage* found = nullptr;
  for (const auto& one : all_) {
    if (one->is_taken || one->is_captured || one->bytes < bytes) continue;
    if (found != nullptr && found->bytes <= one->bytes) continue;
    const bool is_in_order = one->stream == stream && stream != 0;
    if (is_in_order || __atomic_load_n(one->done, __ATOMIC_ACQUIRE) == one->number)
      found = one.get();
  }
  return found;
}

Result<uint64_t*> Stages::take_word() {
  if (words_.empty()) {
    auto made = device_.host_words(kWordsAtOnce * sizeof(uint64_t));
    if (!made) return made.error().status;
    words_ = {reinterpret_cast<uint64_t*>(made->data()), kWordsAtOnce};
  }
  uint64_t* const word = &words_.front();
  words_ = words_.subspan(1);
  return word;
}

// Where the stream cannot say that it is done, only what the same stream is given takes it again.
void Stages::give_back(Stage& stage, engine::DeviceStream stream) {
  const std::lock_guard lock(mutex_);
  stage.is_taken = false;
  if (stage.is_captured) return;
  stage.stream = device_.number_of(stream);
  ++stage.number;
  (void)device_.store(stage.done, stage.number, stream);
}

}  // namespace penstock::symm

#include "writer.h"

#include "ends.h"
#include "limits.h"

#include <memory>

namespace penstock::load {

namespace {

// Device memory is written by transfers, several at a time; host memory meanwhile by the calling
// thread.
class Writer {
 public:
  Writer(NewFile& file, const engine::Clock& clock, const SaveRequest& request)
      : file_(file), clock_(clock), request_(request), next_told_(clock.now()) {
    for (const SavedTensor& one : request.tensors) total_ += one.tensor.bytes;
  }

  Outcome<void> run() {
    for (const SavedTensor& one : request_.tensors) {
      if (one.device) start(one);
    }
    for (const SavedTensor& one : request_.tensors) {
      if (!one.device) write_host(one);
    }
    while (in_flight_ > 0) wait();
    tell();
    if (!failure_.status.ok()) return failure_;
    return {};
  }

 private:
  struct Part;
  using PartEnds = Ends<Part*>;
  struct Part : route::Transfer {
    std::shared_ptr<PartEnds> ends;
    const SavedTensor* tensor = nullptr;
    bool busy = false;
  };

  void start(const SavedTensor& one);
  void write_host(const SavedTensor& one);
  void write_part(const SavedTensor& one, uint64_t done, uint64_t length);
  Part* take_part();
  void wait();
  void part_done(Part& part);
  void tell();
  void stop(Failure why);
  bool stopped() const { return !failure_.status.ok(); }

  NewFile& file_;
  const engine::Clock& clock_;
  const SaveRequest& request_;
  const std::shared_ptr<PartEnds> ends_ = std::make_shared<PartEnds>(clock_);
  std::optional<FileTransfers> transfers_;
  std::vector<std::unique_ptr<Part>> parts_;
  uint32_t in_flight_ = 0;
  uint64_t total_ = 0;
  uint64_t done_ = 0;
  engine::Time next_told_;
  Failure failure_;
};

void Writer::start(const SavedTensor& one) {
  for (uint64_t done = 0; done < one.tensor.bytes && !stopped();) {
    const uint64_t length = std::min(one.tensor.bytes - done, limits::kWriteBytes);
    write_part(one, done, length);
    done += length;
  }
}

void Writer::write_host(const SavedTensor& one) {
  for (uint64_t done = 0; done < one.tensor.bytes && !stopped();) {
    const uint64_t length = std::min(one.tensor.bytes - done, limits::kHostStepBytes);
    const Outcome<void> written =
        file_.write(one.tensor.offset + done, one.host.subspan(done, length));
    if (!written) return stop(written.error());
    done += length;
    done_ += length;
    tell();
  }
}

// Waits until there is room.
Writer::Part* Writer::take_part() {
  if (parts_.size() < limits::kWritesInFlight) {
    parts_.push_back(std::make_unique<Part>());
    return parts_.back().get();
  }
  while (true) {
    for (const auto& part : parts_) {
      if (!part->busy) return part.get();
    }
    wait();
  }
}

void Writer::write_part(const SavedTensor& one, uint64_t done, uint64_t length) {
  if (!transfers_) {
    Outcome<FileTransfers> transfers = file_.transfers();
    if (!transfers) return stop(transfers.error());
    transfers_ = std::move(*transfers);
  }
  Part& part = *take_part();
  if (stopped()) return;
  part.ends = ends_;
  part.tensor = &one;
  part.busy = true;
  part.write = true;
  part.file = transfers_->files.front();
  part.offset = one.tensor.offset + done;
  part.memory = {one.device->device, one.device->data + done, length, one.device->allocation};
  part.deadline = request_.deadline;
  part.ended = [](route::Transfer& transfer) {
    auto& ended = static_cast<Part&>(transfer);
    // Once it is put, the part may go away.
    const std::shared_ptr<PartEnds> ends = ended.ends;
    ends->put(&ended);
  };
  ++in_flight_;
  transfers_->transfers->post(part);
}

// Until something has ended, or the caller is to be told how far it is.
void Writer::wait() {
  const bool tells = request_.progress != nullptr && !stopped();
  for (Part* const part : ends_->wait(tells ? next_told_ : engine::kNever)) part_done(*part);
  tell();
}

void Writer::part_done(Part& part) {
  --in_flight_;
  part.busy = false;
  if (part.status.ok() && part.transferred == part.memory.length) {
    done_ += part.transferred;
    return;
  }
  const Status status = part.status.ok() ? Status(Code::io_error) : part.status;
  stop({status, fmt::format("write tensor '{}' from the memory of GPU {}: {}",
                            part.tensor->tensor.name, part.memory.device.value,
                            status == Code::timed_out ? "the deadline passed" : status.name())});
}

void Writer::tell() {
  const engine::Time now = clock_.now();
  if (!stopped() && now >= request_.deadline) {
    stop({Code::timed_out, fmt::format("the deadline passed after {} of {} bytes", done_, total_)});
  }
  const bool is_over = done_ == total_;
  if (request_.progress == nullptr || stopped() || (now < next_told_ && !is_over)) return;
  next_told_ = now + limits::kTellEvery;
  if (request_.progress(done_, total_)) return;
  stop({Code::cancelled, fmt::format("cancelled after {} of {} bytes", done_, total_)});
}

void Writer::stop(Failure why) {
  if (stopped()) return;
  failure_ = std::move(why);
  for (const auto& part : parts_) {
    if (part->busy) transfers_->transfers->cancel(*part);
  }
}

}  // namespace

Outcome<void> write_tensors(NewFile& file, const engine::Clock& clock, const SaveRequest& request) {
  return Writer(file, clock, request).run();
}

}  // namespace penstock::load

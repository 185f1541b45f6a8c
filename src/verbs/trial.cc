#include "trial.h"

#include "penstock/base.h"

namespace penstock::verbs::internal {

using engine::Access;
using engine::IncomingCall;
using engine::Op;

namespace {

// There and back; frees itself.
struct Return : engine::TransferOp {
  std::array<std::byte, limits::kTrialBytes> bytes{};
  bool is_fetched = false;
};

void on_step(Op& op) {
  auto& step = static_cast<Return&>(op);
  IncomingCall& call = *step.call;
  if (step.status.ok() && !std::exchange(step.is_fetched, true)) {
    step.exposure = 1;
    return call.place(step);
  }
  const Status status = step.status;
  delete &step;
  call.reply(status, {});
}

bool is_trial(IncomingCall& call) {
  return call.exposure_count == 2 && call.exposure_access(0) == Access::fetch &&
         call.exposure_access(1) == Access::place &&
         call.exposure_length(0) == limits::kTrialBytes &&
         call.exposure_length(1) == limits::kTrialBytes;
}

}  // namespace

Trial::Trial() {
  for (size_t i = 0; i < sent.size(); ++i) sent[i] = static_cast<std::byte>(mix64(i));
  method = kTrialMethod;
  const auto expose = [](std::array<std::byte, limits::kTrialBytes>& memory, Access access) {
    return engine::Exposure{{memory.data(), memory.size(), engine::kNoBuffer, {}}, access};
  };
  exposures[0] = expose(sent, Access::fetch);
  exposures[1] = expose(got, Access::place);
  exposure_count = 2;
}

void TrialService::on_call(IncomingCall& call) {
  if (!is_trial(call)) return call.reply(Code::bad_message, {});
  auto* const step = new Return;
  step->call = &call;
  step->local = {step->bytes.data(), step->bytes.size(), engine::kNoBuffer, {}};
  step->completion = on_step;
  call.fetch(*step);
}

}  // namespace penstock::verbs::internal

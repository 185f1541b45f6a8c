// cufile.h: batches.
#include "batch.h"
#include "errors.h"

#include <algorithm>

using namespace penstock;          // NOLINT: this file is the C border
using namespace penstock::cufile;  // NOLINT

using Event = Statistics::Event;

namespace penstock::cufile {
namespace {

bool is_time(const timespec& time) {
  return time.tv_sec >= 0 && time.tv_nsec >= 0 && time.tv_nsec < 1'000'000'000;
}

// From now on; what is longer than a century is for ever.
engine::Time deadline_of(const timespec* timeout) {
  constexpr time_t kCentury = 3'200'000'000;
  if (timeout == nullptr || timeout->tv_sec > kCentury) return engine::kNever;
  return engine::system_clock().now() + std::chrono::seconds(timeout->tv_sec) +
         std::chrono::nanoseconds(timeout->tv_nsec);
}

}  // namespace
}  // namespace penstock::cufile

CUfileError_t cuFileBatchIOSetUp(CUfileBatchHandle_t* batch_idp, unsigned nr) {
  return guarded([&] {
    if (batch_idp == nullptr) return result(CU_FILE_INVALID_VALUE);
    Driver& driver = Driver::instance();
    const Result<Driver::Use, CUfileError_t> use = driver.enter();
    if (!use) return use.error();
    const uint64_t most = driver.with_parameters([](const Parameters& parameters, bool) {
      return parameters.get(CUFILE_PARAM_PROPERTIES_IO_BATCHSIZE);
    });
    if (nr == 0 || nr > most) return result(CU_FILE_INVALID_VALUE);
    void* const made = (*use)->batches().add(std::make_unique<Batch>(nr));
    driver.statistics().count(Event::batch_setup, made != nullptr);
    if (made == nullptr) return result(CU_FILE_INTERNAL_BATCH_SETUP_ERROR);
    *batch_idp = made;
    return result(CU_FILE_SUCCESS);
  });
}

CUfileError_t cuFileBatchIOSubmit(CUfileBatchHandle_t batch_idp, unsigned nr,
                                  CUfileIOParams_t* iocbp, unsigned int flags) {
  return guarded([&] {
    (void)flags;
    Driver& driver = Driver::instance();
    const Result<Driver::Use, CUfileError_t> use = driver.enter_open();
    if (!use) return use.error();
    const engine::Time began = engine::system_clock().now();
    const auto batch = (*use)->batches().find(batch_idp);
    CUfileOpError error = CU_FILE_INTERNAL_BATCH_SUBMIT_ERROR;
    if (batch && iocbp != nullptr && nr > 0) error = batch->submit(**use, iocbp, nr);
    driver.statistics().count(Event::batch_submit, error == CU_FILE_SUCCESS);
    driver.statistics().count_submit(engine::system_clock().now() - began);
    return result(error);
  });
}

CUfileError_t cuFileBatchIOGetStatus(CUfileBatchHandle_t batch_idp, unsigned min_nr, unsigned* nr,
                                     CUfileIOEvents_t* iocbp, struct timespec* timeout) {
  return guarded([&] {
    const Result<Driver::Use, CUfileError_t> use = Driver::instance().enter_open();
    if (!use) return use.error();
    const auto batch = (*use)->batches().find(batch_idp);
    const bool possible = batch && nr != nullptr && min_nr <= *nr &&
                          (iocbp != nullptr || *nr == 0) &&
                          (timeout == nullptr || is_time(*timeout));
    if (!possible) return result(CU_FILE_INVALID_VALUE);
    *nr = batch->take_ended(min_nr, *nr, iocbp, deadline_of(timeout));
    return result(CU_FILE_SUCCESS);
  });
}

CUfileError_t cuFileBatchIOCancel(CUfileBatchHandle_t batch_idp) {
  return guarded([&] {
    Driver& driver = Driver::instance();
    const Result<Driver::Use, CUfileError_t> use = driver.enter_open();
    if (!use) return use.error();
    const auto batch = (*use)->batches().find(batch_idp);
    driver.statistics().count(Event::batch_cancel, static_cast<bool>(batch));
    if (!batch) return result(CU_FILE_INVALID_VALUE);
    batch->cancel();
    return result(CU_FILE_SUCCESS);
  });
}

void cuFileBatchIODestroy(CUfileBatchHandle_t batch_idp) {
  guarded([&] {
    Driver& driver = Driver::instance();
    const Result<Driver::Use, CUfileError_t> use = driver.enter_open();
    if (!use) return;
    const auto batch = (*use)->batches().find(batch_idp);
    const bool removed = (*use)->batches().remove(batch_idp);
    driver.statistics().count(Event::batch_destroy, removed);
    if (batch) batch->finish();
  });
}

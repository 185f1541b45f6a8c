#include "penstock/telemetry.h"

#include <gtest/gtest.h>

namespace penstock::telemetry {
namespace {

TEST(Latency, every_duration_is_in_the_bucket_whose_bounds_hold_it) {
  uint64_t below = 0;
  for (size_t bucket = 0; bucket + 1 < Latency::kBuckets; ++bucket) {
    const uint64_t upper = Latency::upper_nanoseconds(bucket);
    EXPECT_GT(upper, below);
    EXPECT_EQ(Latency::bucket_of(upper), bucket) << upper;
    EXPECT_EQ(Latency::bucket_of(upper + 1), bucket + 1) << upper;
    below = upper;
  }
  EXPECT_GT(below, 12'000'000'000u);
}

TEST(Latency, percentiles_are_bounds_of_what_was_recorded) {
  Latency latency;
  for (int i = 0; i < 99; ++i) latency.record(5'500);
  latency.record(1'000'000);
  LatencySample sample;
  EXPECT_EQ(sample.percentile_nanoseconds(0.5), 0u);
  sample.add(latency);
  EXPECT_EQ(sample.count(), 100u);
  EXPECT_EQ(sample.sum_nanoseconds, 99u * 5'500 + 1'000'000);
  EXPECT_EQ(sample.percentile_nanoseconds(0.5), 6'000u);
  EXPECT_EQ(sample.percentile_nanoseconds(0.99), 6'000u);
  EXPECT_EQ(sample.percentile_nanoseconds(1), 1'024'000u);
  sample.add(LatencySample(sample));
  EXPECT_EQ(sample.count(), 200u);
}

TEST(OperationFigures, tell_operations_by_kind_and_route_and_errors_by_number) {
  OperationFigures a, b;
  a.begun();
  a.begun();
  a.ended({.kind = Kind::read, .route = 2, .result = 4096, .nanoseconds = 90'000});
  b.begun();
  b.ended({.kind = Kind::read, .route = 2, .result = 4096, .nanoseconds = 90'000});
  b.begun();
  b.ended({.kind = Kind::write, .route = 3, .result = -28, .nanoseconds = 5'000});
  EXPECT_EQ(a.in_flight(), 1u);
  EXPECT_EQ(b.in_flight(), 0u);
  std::vector<OperationSample> samples;
  std::map<int, uint64_t> errors;
  a.add_to(&samples, &errors);
  b.add_to(&samples, &errors);
  ASSERT_EQ(samples.size(), 2u);
  EXPECT_EQ(samples[0].kind, Kind::read);
  EXPECT_EQ(samples[0].route, 2u);
  EXPECT_EQ(samples[0].bytes, 8192u);
  EXPECT_EQ(samples[0].latency.count(), 2u);
  EXPECT_EQ(samples[1].latency.percentile_nanoseconds(0.5), 6'000u);
  EXPECT_EQ(samples[1].bytes, 0u);
  EXPECT_EQ(errors, (std::map<int, uint64_t>{{28, 1}}));
}

TEST(Tracer, records_operations_between_start_and_stop_only) {
  Tracer tracer;
  EXPECT_EQ(tracer.begin(), nullptr);
  tracer.start();
  OperationTrace* const first = tracer.begin();
  OperationTrace* const second = tracer.begin();
  ASSERT_NE(first, nullptr);
  ASSERT_NE(second, nullptr);
  first->inode = 1;
  second->inode = 2;
  tracer.end(*second);
  const Traced traced = tracer.stop();
  ASSERT_EQ(traced.operations.size(), 1u);
  EXPECT_EQ(traced.operations[0].inode, 2u);
  EXPECT_EQ(traced.seen, 2u);
  EXPECT_EQ(traced.every, 1u);
  // What is under way goes on with its memory, and belongs to no later time.
  tracer.start();
  tracer.end(*first);
  EXPECT_TRUE(tracer.stop().operations.empty());
}

TEST(Tracer, keeps_a_bounded_number_spread_over_the_whole_time) {
  Tracer tracer;
  tracer.start();
  constexpr uint64_t kMany = 100'000;
  for (uint64_t i = 0; i < kMany; ++i) {
    OperationTrace* const operation = tracer.begin();
    if (operation == nullptr) continue;
    operation->inode = i;
    tracer.end(*operation);
  }
  const Traced traced = tracer.stop();
  EXPECT_LE(traced.operations.size(), Tracer::kKeptMax);
  EXPECT_GE(traced.operations.size(), Tracer::kKeptMax / 2);
  EXPECT_EQ(traced.every, 32u);
  EXPECT_GT(traced.seen, kMany - 100);
  for (const OperationTrace& one : traced.operations) EXPECT_EQ(one.inode % traced.every, 0u);
  EXPECT_GT(traced.operations.back().inode, kMany - 100);
}

TEST(Tracer, more_under_way_than_it_has_room_for_are_not_recorded) {
  Tracer tracer;
  tracer.start();
  std::vector<OperationTrace*> all;
  for (size_t i = 0; i < Tracer::kUnderWayMax + 5; ++i) all.push_back(tracer.begin());
  EXPECT_NE(all[Tracer::kUnderWayMax - 1], nullptr);
  EXPECT_EQ(all.back(), nullptr);
  for (OperationTrace* one : all) {
    if (one != nullptr) tracer.end(*one);
  }
  EXPECT_EQ(tracer.stop().operations.size(), Tracer::kKeptMax);
}

TEST(Exposition, is_the_text_that_prometheus_reads) {
  Exposition out;
  out.counter("a_total", "With a \\ and\na line end.");
  out.sample({{"path", "say \"x\"\\\n"}, {"b", "2"}}, uint64_t{18446744073709551615ull});
  out.gauge("b_never", "Not here.");
  out.gauge("c_ratio", "A part.");
  out.sample(0.25);
  EXPECT_EQ(out.text(),
            "# HELP a_total With a \\\\ and\\na line end.\n"
            "# TYPE a_total counter\n"
            "a_total{path=\"say \\\"x\\\"\\\\\\n\",b=\"2\"} 18446744073709551615\n"
            "# HELP c_ratio A part.\n"
            "# TYPE c_ratio gauge\n"
            "c_ratio 0.25\n");
}

TEST(Exposition, buckets_of_a_histogram_are_cumulative) {
  Latency latency;
  latency.record(1'000);
  latency.record(1'200);
  latency.record(UINT64_MAX / 4);
  LatencySample sample;
  sample.add(latency);
  Exposition out;
  out.histogram("h_seconds", "H.");
  out.sample({{"op", "read"}}, sample);
  EXPECT_NE(out.text().find("h_seconds_bucket{op=\"read\",le=\"1e-06\"} 1\n"), std::string::npos)
      << out.text();
  EXPECT_NE(out.text().find("h_seconds_bucket{op=\"read\",le=\"1.5e-06\"} 2\n"), std::string::npos);
  EXPECT_NE(out.text().find("h_seconds_bucket{op=\"read\",le=\"+Inf\"} 3\n"), std::string::npos);
  EXPECT_NE(out.text().find("h_seconds_count{op=\"read\"} 3\n"), std::string::npos);
}

}  // namespace
}  // namespace penstock::telemetry

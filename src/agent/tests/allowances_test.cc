#include "../allowances.h"

#include "raw_session.h"

#include <fstream>

namespace penstock::agent {
namespace {

using client::Allowance;

TEST(AllowancesTest, come_back_after_a_restart) {
  const ScratchDirectory scratch;
  const Allowance wanted{.weight = 7, .bytes_per_second = 1'000'000, .operations_in_flight = 3};
  {
    Allowances limits;
    EXPECT_TRUE(limits.load(scratch.path()));
    EXPECT_TRUE(limits.set(1000, wanted));
    EXPECT_TRUE(limits.set(5, {.operations_per_second = 9}));
    EXPECT_TRUE(limits.set(5, {}));
  }
  Allowances limits;
  EXPECT_TRUE(limits.load(scratch.path()));
  EXPECT_EQ(limits.of(1000).allowance(), wanted);
  EXPECT_EQ(limits.of(5).allowance(), Allowance{});
  ASSERT_EQ(limits.all().size(), 1u);
  EXPECT_EQ(limits.all()[0].first, 1000u);
}

TEST(AllowancesTest, a_weight_that_is_none_changes_nothing) {
  const ScratchDirectory scratch;
  Allowances limits;
  EXPECT_TRUE(limits.load(scratch.path()));
  EXPECT_FALSE(limits.set(1, {.weight = 0}));
  EXPECT_EQ(limits.of(1).allowance(), Allowance{});
  EXPECT_FALSE(std::filesystem::exists(scratch.path() + "/limits"));
}

TEST(AllowancesTest, what_cannot_be_kept_is_not_set) {
  const ScratchDirectory scratch;
  Allowances limits;
  EXPECT_TRUE(limits.load(scratch.path() + "/gone"));
  EXPECT_FALSE(limits.set(1, {.weight = 5}));
  EXPECT_EQ(limits.of(1).allowance(), Allowance{});
}

TEST(AllowancesTest, a_file_that_is_not_understood_is_refused) {
  const ScratchDirectory scratch;
  const std::string good =
      "penstock-limits 1\nuser 1 weight 100 bytes_per_second 5 operations_per_second 0 "
      "operations_in_flight 0\n";
  const auto loads = [&](const std::string& text) {
    std::ofstream(scratch.path() + "/limits") << text;
    return Allowances().load(scratch.path()).has_value();
  };
  EXPECT_TRUE(loads(good));
  for (const std::string& bad : {std::string(), std::string("penstock-limits 2\n"), good + "user\n",
                                 good + "\n", good.substr(0, good.size() - 2),
                                 good + "user 2 weight 0 bytes_per_second 0 "
                                        "operations_per_second 0 operations_in_flight 0\n",
                                 "x" + good, good + std::string(100, '\0')}) {
    EXPECT_FALSE(loads(bad)) << bad;
  }
}

}  // namespace
}  // namespace penstock::agent

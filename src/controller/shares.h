// How many copies each of several places is to hold.
#pragma once

#include <cstdint>
#include <vector>

namespace penstock::controller {

// Deals out `total` by weights, in parts of copies; nobody gets more than `most`. The sum is right
// if it can be. At least one weight is above 0.
std::vector<double> shares_by_weight(const std::vector<uint64_t>& weights, double total,
                                     double most);

}  // namespace penstock::controller

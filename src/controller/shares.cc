#include "shares.h"

#include "penstock/base.h"

namespace penstock::controller {

std::vector<double> shares_by_weight(const std::vector<uint64_t>& weights, double total,
                                     double most) {
  ASSERT(total >= 0 && most >= 0);
  std::vector<double> shares(weights.size());
  std::vector<bool> full(weights.size());
  double rest = total;
  for (bool again = true; again;) {
    again = false;
    double sum = 0;
    for (size_t i = 0; i < weights.size(); ++i)
      sum += full[i] ? 0 : static_cast<double>(weights[i]);
    for (size_t i = 0; i < weights.size() && !again; ++i) {
      if (full[i]) continue;
      shares[i] = rest * static_cast<double>(weights[i]) / sum;
      if (shares[i] <= most) continue;
      // What it cannot hold goes to the others.
      shares[i] = most;
      rest -= most;
      full[i] = again = true;
    }
  }
  return shares;
}

}  // namespace penstock::controller

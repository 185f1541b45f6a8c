#include "penstock/rails/announcements.h"

namespace penstock::rails {

template <class Act>
void Announcements::in_each(const Act& act) const {
  for (const Home& home : homes_) {
    (void)engine::thread_caller().call(*home.loop, [&](engine::Op& done) {
      act(*home.net);
      home.loop->complete(done, Code::ok);
    });
  }
}

void Announcements::announce(const verbs::Region& region) const {
  in_each([&](RailNet& net) { net.announce(region); });
}

void Announcements::take_back(MutableBytes region) const {
  in_each([&](RailNet& net) { net.take_back(region); });
}

}  // namespace penstock::rails

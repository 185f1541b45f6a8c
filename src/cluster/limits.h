// Bounds of this library, each with its reason.
#pragma once

#include <chrono>
#include <cstdint>

namespace penstock::cluster::limits {

// How long a process that starts asks to be let in: several leases, as the last life of its node
// may have had one, and so may another controller.
inline constexpr auto kEnterTime = std::chrono::seconds(60);
// The first time, when a person waits: several tries to connect.
inline constexpr auto kFirstEnterTime = std::chrono::seconds(15);
inline constexpr auto kEnterPause = std::chrono::milliseconds(100);
// How often it looks whether a target was let in, which takes a commit or two.
inline constexpr auto kOpenLook = std::chrono::milliseconds(5);
// What persons ask the controller: as long as data may take to go on after a loss.
inline constexpr auto kAskTime = std::chrono::seconds(10);
// Requests of one node that a chain remembers (decision 0044), which its shards share out.
inline constexpr uint32_t kSlots = 64;

// How long a certificate lasts where nobody says otherwise, how much it is dated back, as clocks
// differ, and how often a node looks whether its own is to be renewed, at most and at least.
inline constexpr auto kCertificateTime = std::chrono::hours(24 * 30);
inline constexpr auto kCertificateBackdate = std::chrono::hours(24);
inline constexpr auto kCertificateLook = std::chrono::minutes(1);
inline constexpr auto kCertificateLookLeast = std::chrono::milliseconds(500);
// While an authority follows another, nodes ask more often how far that is, each in the time that a
// person waits for an answer.
inline constexpr auto kChangeLook = std::chrono::seconds(5);
// An authority that ends so soon is told of: another can follow it at leisure.
inline constexpr auto kAuthorityEndsSoon = std::chrono::hours(24 * 365);
// What one look leads to is said at once, and may lead to more: to believe, to be signed anew, and
// that both are over.
inline constexpr int kBelieveTurns = 4;
// One that could not be renewed is asked for again after so long.
inline constexpr auto kRenewAgain = std::chrono::seconds(10);
// A process that ends waits no longer for one that it asks for.
inline constexpr auto kRenewAskTime = std::chrono::seconds(2);

// For so long a check waits for a connection by RDMA: set-up and trial.
inline constexpr auto kRdmaPrepareTime = std::chrono::seconds(5);

// How often it is looked whether a check of the network has ended, and whether whoever has asked
// for it is still there.
inline constexpr auto kCheckLook = std::chrono::milliseconds(50);

// How often a target's condition and space are looked at: what is full or failing is known to the
// controller in a moment, and one look costs a turn of a loop.
inline constexpr auto kLookAtTargets = std::chrono::seconds(1);
// A node without a lease tries another place of the node with the controller after so many looks.
inline constexpr int kLooksWithoutLease = 2;
// What is known of the cluster's space is no older, where the controller answers: programs ask
// often, and it changes slowly. Those who ask wait for it no longer than a moment.
inline constexpr auto kSpaceAge = std::chrono::seconds(5);
inline constexpr auto kSpaceAskTime = std::chrono::seconds(1);
static_assert(kSpaceAskTime < kSpaceAge);

}  // namespace penstock::cluster::limits

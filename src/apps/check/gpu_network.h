// Whether network cards of this machine reach the memory of its GPUs, and what is missing where
// they do not.
#pragma once

#include "gpu_check.h"

#include <string>
#include <vector>

#include "penstock/engine.h"
#include "penstock/rails.h"

namespace penstock::apps {

// A way for each card, tried out as far as one machine can: the card is shown a piece of the GPU's
// memory. One way that says why where there are no cards. `root`: where /sys is found; for tests.
std::vector<GpuWay> network_ways(engine::DeviceMemory& devices, engine::DeviceId gpu,
                                 rails::Devices& cards, const std::string& no_cards,
                                 const std::string& root = "/");

// PCI bridges above a device that send what goes between devices by way of the processor (ACS
// redirection), by their addresses. None where that cannot be told: only root can read it.
std::vector<std::string> redirecting_bridges(const std::string& root,
                                             const std::string& pci_address);

}  // namespace penstock::apps

// GPU memory that other processes of the user find by its id: the agent passes the handles on.
#include "penstock/connection/limits.h"
#include "penstock/connection/regions.h"

namespace penstock::connection {

static_assert(engine::kDeviceHandleBytesMax == wire::kDeviceHandleBytesMax);
static_assert(sizeof(engine::DeviceFacts::uuid) == sizeof(wire::DeviceHandle::gpu));

Outcome<void> Regions::publish(Region& region, const wire::DeviceMemoryId& id,
                               const std::array<uint8_t, 16>& gpu, engine::DeviceHandle handle) {
  if (region.size > wire::kRegionBytesMax) {
    return Failure{Code::too_large, "publish: the region has more than 1 TiB"};
  }
  auto publication = std::make_unique<Publication>();
  const auto* const text = reinterpret_cast<const char*>(handle.bytes.data());
  const bool has_descriptor = static_cast<bool>(handle.fd);
  publication->request = {id, {{text, handle.bytes.size()}, region.size, gpu, has_descriptor}};
  publication->fd = ParentsFd(std::move(handle.fd));
  const wire::PublishDevice request = publication->request;
  std::vector<int> descriptors;
  if (has_descriptor) descriptors.push_back(publication->fd.get());
  {
    const std::lock_guard lock(mutex_);
    if (region.publication != nullptr) {
      return Failure{Code::already_exists, "publish: the region is published already"};
    }
    region.publication = std::move(publication);
  }
  const auto keep = [&](const wire::ReplyBody&) {
    const std::lock_guard lock(mutex_);
    region.publication->known = true;
  };
  const Connection::Answer answer = connection_.establish(request, descriptors, keep);
  if (answer) return {};
  const std::lock_guard lock(mutex_);
  region.publication.reset();
  return answer.error();
}

Outcome<void> Regions::unpublish(Region& region) {
  std::unique_ptr<Publication> publication;
  {
    const std::lock_guard lock(mutex_);
    if (region.publication == nullptr || !region.publication->known) {
      return Failure{Code::not_found, "unpublish: the region is not published"};
    }
    publication = std::move(region.publication);
  }
  const Connection::Answer answer =
      connection_.call(wire::WithdrawDevice{publication->request.id}, true);
  // An agent that died, or was never told of it, shows it to no process.
  if (answer || answer.error().status == Code::not_found ||
      answer.error().status == Code::peer_gone) {
    return {};
  }
  return answer.error();
}

Outcome<PublishedMemory> Regions::open_published(const wire::DeviceMemoryId& id) {
  PublishedMemory out;
  Connection::Answer answer = connection_.call(wire::OpenDevice{id}, true, {}, &out.handle.fd);
  if (!answer) return answer.error();
  const auto* const found = std::get_if<wire::DeviceHandle>(&*answer);
  if (found == nullptr) {
    return Failure{Code::bad_message, "open GPU memory: the agent's answer is no handle"};
  }
  const Bytes bytes = std::as_bytes(std::span(found->bytes));
  out.handle.bytes.assign(bytes.begin(), bytes.end());
  out.size = found->size;
  out.gpu = found->gpu;
  return out;
}

// With the mutex held.
Status Regions::publish_again(const Ask& ask) {
  for (const auto& [region_id, region] : regions_) {
    const Publication* const publication = region->publication.get();
    if (publication == nullptr || !publication->known) continue;
    std::vector<int> descriptors;
    if (publication->fd) descriptors.push_back(publication->fd.get());
    const Status published = ask(publication->request, descriptors);
    if (published == Code::peer_gone || published == Code::timed_out) return published;
    // The session is worth more than this: a process that has opened the memory keeps it, others
    // do not find it.
    if (!published.ok()) log::warning("GPU memory cannot be shown again: {}", published.name());
  }
  return Code::ok;
}

}  // namespace penstock::connection

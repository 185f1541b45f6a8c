#include "penstock/meta_net/remote_meta.h"

#include "remote.h"

namespace penstock::meta_net {

std::unique_ptr<RemoteMeta> RemoteMeta::make(const RemoteMetaConfig& config) {
  return std::make_unique<Remote>(config);
}

}  // namespace penstock::meta_net

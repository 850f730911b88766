// Stand-in for gloo's header; the classes live in libtorch.
#pragma once

namespace gloo {
namespace transport {

class Device;

class UnboundBuffer {
 public:
  virtual ~UnboundBuffer();
};

} // namespace transport
} // namespace gloo

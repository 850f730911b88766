// A frozen network: a list of steps over activations in channels-last order, which one call runs from the first to the
// last. Free of ATen.
#pragma once

#include <stdint.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "frozen_kernels.h"

namespace spml {

// What a step does. The numbers are those of spml/internal/graph.
enum FrozenOp : int64_t {
  FROZEN_CONV,      // out = act(conv(in) + add)
  FROZEN_DEPTHWISE, // each channel by itself
  FROZEN_MAX,       // pool
  FROZEN_MEAN,      // over all pixels
  FROZEN_NORM,      // of each pixel's channels
  FROZEN_ATTENTION, // of in's queries over add's keys and values
  FROZEN_TOKEN,     // out's first token is the first row of the table that comes with the input
  FROZEN_TAKE,      // in's first token alone
  FROZEN_QUANTIZE,  // floats to integers
  FROZEN_OPS
};

constexpr int64_t kFrozenInput = 0; // the activation that is the network's input
constexpr int64_t kFrozenAll = 0; // in place of the activation that is asked for: all but the input, of one image
constexpr int64_t kFrozenTable =
    -2; // as an addend: the table's rows; where tokens lie behind a first one, those from the second on
constexpr int64_t kFrozenFields = 16, kFrozenNumbers = 2;

struct FrozenStep {
  FrozenOp op;
  int64_t in, out, add;      // activations; add -1: none
  int64_t weight, bias;      // constants; -1: none
  int64_t kernel_h, kernel_w, stride, pad;
  FrozenAct act;
  int64_t channel, channels; // where in out's channels this step writes, and how many channels out has
  int64_t count;             // output channels of this step
  int64_t extra; // convolution: 1 where out are tokens behind a first one; max: 1 rounds up; attention: heads
  int64_t extra2; // attention: 1 where only the first token asks; its keys begin at channel 0, else behind the queries
  float first, second; // clamp: bounds; norm: eps; attention: scale
};

// A constant in the order of rows: shape and values, which are packed and then no longer needed.
struct FrozenConstant {
  std::vector<int64_t> shape;
  const float* data;
};

// What makes a network one of int8: activations with a scale hold integers; their steps run in the kernels of int8, the
// others in those of floats.
struct FrozenScales {
  const FrozenKernels* kernels = nullptr;
  std::vector<double> scale; // of activations; 0: floats
  std::vector<int64_t> zero; // of activations, 0 to 255
  std::vector<int64_t>
      weights; // of steps: the constant with the scales of output channels; -1 where weights are floats
};

// The shape of an activation that is asked for: of each image height × width × channels.
struct FrozenShape {
  int64_t height, width, channels;
};

// Memory that stays, on a boundary of 64 bytes and of huge pages where it is large.
class FrozenMemory {
 public:
  FrozenMemory() = default;
  explicit FrozenMemory(int64_t floats);
  ~FrozenMemory();
  FrozenMemory(FrozenMemory&& m) noexcept { *this = std::move(m); }
  FrozenMemory& operator=(FrozenMemory&& m) noexcept {
    std::swap(data_, m.data_);
    std::swap(floats_, m.floats_);
    return *this;
  }
  float* data() const { return data_; }
  int64_t floats() const { return floats_; }

 private:
  float* data_ = nullptr;
  int64_t floats_ = 0;
};

// Images [count, channels, height, width] of any strides.
struct FrozenImages {
  const float* data;
  int64_t count, channels, height, width;
  int64_t stride[4];
  const float* table; // [rows, width of a token], or null
  int64_t table_rows, table_width;
};

class FrozenProgram {
 public:
  // steps are records of kFrozenFields integers, numbers of kFrozenNumbers. Throws std::invalid_argument where they do
  // not fit.
  FrozenProgram(const FrozenKernels& kernels, const std::vector<int64_t>& steps, const std::vector<double>& numbers,
                const std::vector<FrozenConstant>& constants, FrozenScales scales = {});
  ~FrozenProgram();

  // The shape of an activation for images of this size.
  FrozenShape shape(int64_t height, int64_t width, int64_t activation);
  // Those of all activations but the input.
  std::vector<FrozenShape> shapes(int64_t height, int64_t width);
  // Computes an activation into out [count, height, width, channels], by this many threads. Any number of callers may
  // run at once. Of all activations of one image (kFrozenAll) out has one behind the other.
  void run(const FrozenImages& images, int64_t activation, float* out, int threads);

 private:
  struct Plan;
  struct Lane;
  struct Integers;
  bool integers(int64_t activation) const {
    return activation >= 0 && scales_.kernels && scales_.scale[static_cast<size_t>(activation)] > 0;
  }
  const FrozenKernels& kernels_of(const FrozenStep& s) const { return integers(s.in) ? *scales_.kernels : kernels_; }
  void check_scales() const;
  Integers fold(size_t step, const std::vector<FrozenConstant>& constants) const;
  void give_out(const Plan& plan, const char* arena, int64_t activation, int64_t image, int64_t y, float* out) const;
  std::shared_ptr<const Plan> plan(int64_t images, int64_t height, int64_t width, int64_t activation);
  void part(const FrozenImages& images, int64_t first, int64_t count, int64_t activation, float* out, const Lane& lane);
  FrozenMemory take(int64_t floats);
  void give(FrozenMemory m);

  const FrozenKernels& kernels_;
  const FrozenScales scales_;
  std::vector<FrozenStep> steps_;
  std::vector<const char*> weights_; // of steps
  std::vector<const float*> biases_;
  std::vector<int64_t> depths_; // weights for one output channel
  std::vector<Integers> integers_; // of steps, where the network is one of int8
  FrozenMemory packed_;
  int64_t activations_ = 1, input_channels_ = 0;
  std::mutex mutex_; // of what follows
  std::vector<std::shared_ptr<const Plan>> plans_;
  std::vector<FrozenMemory> spare_;
};

} // namespace spml

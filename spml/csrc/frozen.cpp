// Frozen networks: constants packed once, memory of activations planned for each shape of images, steps run by a team
// of threads.
#include "frozen.h"

#include <omp.h>
#include <sys/mman.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <new>
#include <optional>
#include <stdexcept>

namespace spml {
namespace {

constexpr int64_t kKeptPlans = 32;
constexpr int64_t kPairs = 32;            // of halves in a task
constexpr int64_t kWeightsOfImage = 8 << 20; // bytes of weights that are worth another image at a time
constexpr int64_t kBehind = 16; // zeros behind an activation, for whoever reads numbers by pairs
constexpr int64_t kActivations = 128 << 20;  // bytes of activations at most, where one image takes less

[[noreturn]] void refuse(const std::string& why) { throw std::invalid_argument("spml::frozen: " + why); }

} // namespace

// What the plans of frozen networks are made of. No anonymous namespace: they are members of types that the header
// declares.
namespace frozen_parts {

// Threads that go through the steps together.
class Team {
 public:
  Team(int size, size_t steps) : size_(size), next_(size > 1 ? steps : 0) {}

  // Calls f(task) for the tasks of a step, each on one thread.
  template <class F>
  void each(size_t step, int64_t tasks, const F& f) {
    if (size_ == 1) {
      for (int64_t i = 0; i < tasks; i++) f(i);
      return;
    }
    for (int64_t i; (i = next_[step].fetch_add(1, std::memory_order_relaxed)) < tasks;) f(i);
  }

  // Returns when all are here.
  void meet() {
    if (size_ == 1) return;
    const uint32_t turn = turn_.load(std::memory_order_acquire);
    if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == size_) {
      arrived_.store(0, std::memory_order_relaxed);
      turn_.store(turn + 1, std::memory_order_release);
      turn_.notify_all();
      return;
    }
    for (int spin = 0; spin < 4000; spin++) {
      if (turn_.load(std::memory_order_acquire) != turn) return;
#if defined(__x86_64__)
      __builtin_ia32_pause();
#endif
    }
    turn_.wait(turn, std::memory_order_acquire);
  }

  int size() const { return size_; }

 private:
  const int size_;
  std::vector<std::atomic<int64_t>> next_;
  std::atomic<int> arrived_{0};
  std::atomic<uint32_t> turn_{0};
};

// An activation of a plan: its pixels within a border of zeros, and where it lies.
struct Activation {
  int64_t height = 0, width = 0, channels = 0, pad = 0;
  int64_t first = -1, last = -1; // steps that write and read it
  int64_t offset = 0;            // bytes
  int64_t size = 0;              // bytes of a number
  int zero = 0;                  // every byte of a zero

  int64_t row() const { return (width + 2 * pad) * channels; }
  int64_t image() const { return (height + 2 * pad) * row(); }
  int64_t bytes(int64_t images) const { return frozen_round((images * image() + kBehind) * size, 128); }
  FrozenView view(char* arena) const {
    return {arena + offset + (pad * row() + pad * channels) * size, channels, row(), image()};
  }
  // Where a pixel lies.
  char* pixel(const FrozenView& v, int64_t image, int64_t y, int64_t x) const {
    return v.data + (image * v.image + y * v.row + x * v.pitch) * size;
  }
};

} // namespace frozen_parts

namespace {

using frozen_parts::Activation;
using frozen_parts::Team;

void zero_border(const Activation& a, char* arena, int64_t images) {
  const int64_t side = a.pad * a.channels, row = a.row();
  const auto zero = [&](int64_t first, int64_t n) {
    std::memset(arena + a.offset + first * a.size, a.zero, static_cast<size_t>(n * a.size));
  };
  zero(images * a.image(), kBehind);
  if (a.pad == 0) return;
  for (int64_t i = 0; i < images; i++) {
    const int64_t image = i * a.image();
    zero(image, a.pad * row);
    for (int64_t y = a.pad; y < a.pad + a.height; y++) {
      zero(image + y * row, side);
      zero(image + (y + 1) * row - side, side);
    }
    zero(image + (a.pad + a.height) * row, a.pad * row);
  }
}

// The numbers that integers stand for.
void meant(float* x, int64_t n, double scale, int64_t zero) {
  for (int64_t i = 0; i < n; i++) x[i] = (x[i] - static_cast<float>(zero)) * static_cast<float>(scale);
}

int64_t pooled(int64_t n, const FrozenStep& s) {
  int64_t out = (n + 2 * s.pad - s.kernel_h + (s.extra ? s.stride - 1 : 0)) / s.stride + 1;
  if (s.extra && (out - 1) * s.stride >= n + s.pad) out--;
  return n + 2 * s.pad < s.kernel_h ? 0 : out;
}

} // namespace

FrozenMemory::FrozenMemory(int64_t floats) : floats_(floats) {
  constexpr size_t huge = 2 << 20;
  const size_t bytes = static_cast<size_t>(std::max<int64_t>(floats, 16)) * sizeof(float),
               at = bytes < huge ? 64 : huge;
  data_ = static_cast<float*>(std::aligned_alloc(at, (bytes + at - 1) / at * at));
  if (!data_) throw std::bad_alloc();
  if (at == huge) madvise(data_, bytes, MADV_HUGEPAGE); // only a hint
}

FrozenMemory::~FrozenMemory() { std::free(data_); }

struct FrozenProgram::Plan {
  int64_t images, height, width, wanted;
  std::vector<Activation> activations;
  std::vector<int64_t> order; // steps that lead to what is wanted
  int64_t bytes = 0;          // of all activations
  int64_t scratch = 0;        // floats of a thread
};

// A thread of a team that runs a part of a batch.
struct FrozenProgram::Lane {
  const Plan& plan;
  char* arena;
  Team& team;
  int rank;
  const char* table; // rows in numbers
  uint8_t* none;     // of each row of each image of the part: 1 where a number that becomes an integer is none
};

// What an int8 step multiplies and adds.
struct FrozenProgram::Integers {
  std::vector<float> factor, shift, start; // of output channels up to whole panels
  FrozenInt8 q{};
  float low = 0, high = 0;
};

FrozenProgram::FrozenProgram(const FrozenKernels& kernels, const std::vector<int64_t>& steps,
                             const std::vector<double>& numbers, const std::vector<FrozenConstant>& constants,
                             FrozenScales scales)
    : kernels_(kernels), scales_(std::move(scales)) {
  const size_t n = steps.size() / kFrozenFields;
  if (n == 0 || steps.size() != n * kFrozenFields || numbers.size() != n * kFrozenNumbers)
    refuse("steps and their numbers do not fit");
  struct Packed {
    int64_t weight, bias;
  };
  if (scales_.kernels && (scales_.scale.size() != scales_.zero.size() || scales_.weights.size() != n))
    refuse("scales do not fit the steps");
  std::vector<Packed> packed(n, {-1, -1});
  const auto count_of_steps = static_cast<int64_t>(n); // each writes one activation
  std::vector<bool> have(n + 1);
  have[kFrozenInput] = true;
  const auto written = [&](int64_t activation) {
    return activation <= count_of_steps && have[static_cast<size_t>(activation)];
  };
  int64_t total = 0;
  const auto room = [&](int64_t count, int64_t size) { // bytes
    const int64_t at = total;
    total += frozen_round(count * size, 64);
    return at;
  };
  for (size_t i = 0; i < n; i++) {
    const int64_t* f = &steps[i * kFrozenFields];
    FrozenStep s{static_cast<FrozenOp>(f[0]),
                 f[1],
                 f[2],
                 f[3],
                 f[4],
                 f[5],
                 f[6],
                 f[7],
                 f[8],
                 f[9],
                 static_cast<FrozenAct>(f[10]),
                 f[11],
                 f[12],
                 f[13],
                 f[14],
                 f[15],
                 static_cast<float>(numbers[i * kFrozenNumbers]),
                 static_cast<float>(numbers[i * kFrozenNumbers + 1])};
    const std::string where = "step " + std::to_string(i) + ": ";
    const int64_t count = static_cast<int64_t>(constants.size());
    if (s.op < 0 || s.op >= FROZEN_OPS || s.act < 0 || s.act >= FROZEN_ACTS) refuse(where + "no such operation");
    if (s.in < 0 || s.out < 1 || s.in == s.out || s.add < kFrozenTable || s.out > count_of_steps || !written(s.in) ||
        (s.add >= 0 && !written(s.add)))
      refuse(where + "no such activation");
    if (scales_.kernels && s.out >= static_cast<int64_t>(scales_.scale.size()))
      refuse(where + "no scale of its output");
    if (s.weight < -1 || s.weight >= count || s.bias < -1 || s.bias >= count) refuse(where + "no such constant");
    if (s.channel < 0 || s.count < 1 || s.channel + s.count > s.channels) refuse(where + "channels do not fit");
    const bool window = s.op == FROZEN_CONV || s.op == FROZEN_DEPTHWISE || s.op == FROZEN_MAX;
    if (window && (s.kernel_h < 1 || s.kernel_w < 1 || s.stride < 1 || s.pad < 0)) refuse(where + "no such window");
    if (s.op == FROZEN_ATTENTION && (s.add < 0 || s.extra < 1 || s.count % s.extra)) refuse(where + "heads do not fit");
    const bool weighed = s.op == FROZEN_CONV || s.op == FROZEN_DEPTHWISE || s.op == FROZEN_NORM;
    if (weighed) {
      if (s.weight < 0) refuse(where + "weights are missing");
      const FrozenConstant& w = constants[static_cast<size_t>(s.weight)];
      int64_t values = 1;
      for (int64_t d : w.shape) values *= d;
      if (w.shape.empty() || w.shape[0] != s.count) refuse(where + "weights do not fit the output");
      if (s.bias >= 0 && constants[static_cast<size_t>(s.bias)].shape != std::vector<int64_t>{s.count})
        refuse(where + "the bias does not fit the output");
      const int64_t window_size = s.kernel_h * s.kernel_w;
      if (s.in == kFrozenInput && s.op == FROZEN_CONV) input_channels_ = values / s.count / window_size;
      const auto same = std::find_if(steps_.begin(), steps_.end(), [&](const FrozenStep& o) {
        return o.op == s.op && integers(o.in) == integers(s.in) && o.weight == s.weight && o.bias == s.bias &&
               o.kernel_h == s.kernel_h && o.kernel_w == s.kernel_w;
      });
      if (same != steps_.end()) {
        packed[i] = packed[static_cast<size_t>(same - steps_.begin())];
      } else if (s.op == FROZEN_CONV) {
        if (values % (s.count * window_size)) refuse(where + "weights do not fit the window");
        const FrozenKernels& k = kernels_of(s);
        packed[i].weight =
            room(frozen_width(k, s.count) * frozen_depth(k, s.kernel_h, values / s.count / s.kernel_h), k.size);
      } else if (values != s.count * (s.op == FROZEN_DEPTHWISE ? window_size : 1) ||
                 (s.op == FROZEN_DEPTHWISE && s.kernel_h != s.kernel_w)) {
        refuse(where + "weights do not fit the channels");
      } else {
        packed[i].weight = room(frozen_round(s.count, kernels_.lanes) * (values / s.count), sizeof(float));
      }
      if (same == steps_.end()) packed[i].bias = room(frozen_round(s.count, kernels_.panel), sizeof(float));
    }
    have[static_cast<size_t>(s.out)] = true;
    activations_ = std::max(activations_, s.out + 1);
    steps_.push_back(s);
  }
  if (input_channels_ == 0) refuse("no convolution reads the input");
  if (scales_.kernels) check_scales();
  packed_ = FrozenMemory(total / static_cast<int64_t>(sizeof(float)) + kernels_.panel);
  char* const base = reinterpret_cast<char*>(packed_.data());
  std::memset(base, 0, static_cast<size_t>(packed_.floats()) * sizeof(float));
  std::vector<float> panels;
  for (size_t i = 0; i < n; i++) {
    const FrozenStep& s = steps_[i];
    char* to = packed[i].weight < 0 ? nullptr : base + packed[i].weight;
    float* bias = packed[i].bias < 0 ? nullptr : reinterpret_cast<float*>(base + packed[i].bias);
    weights_.push_back(to);
    biases_.push_back(bias);
    depths_.push_back(1);
    integers_.emplace_back();
    if (!to) continue;
    const FrozenConstant& w = constants[static_cast<size_t>(s.weight)];
    for (int64_t d : w.shape) depths_.back() *= d;
    depths_.back() /= s.count;
    if (integers(s.in)) integers_.back() = fold(i, constants);
    if (s.bias >= 0)
      std::memcpy(bias, constants[static_cast<size_t>(s.bias)].data, static_cast<size_t>(s.count) * sizeof(float));
    const int64_t window = s.kernel_h * s.kernel_w;
    if (s.op == FROZEN_NORM) {
      std::memcpy(to, w.data, static_cast<size_t>(s.count) * sizeof(float));
    } else if (s.op == FROZEN_DEPTHWISE) {
      const int64_t padded = frozen_round(s.count, kernels_.lanes);
      for (int64_t c = 0; c < s.count; c++)
        for (int64_t k = 0; k < window; k++) reinterpret_cast<float*>(to)[k * padded + c] = w.data[c * window + k];
    } else {
      // A panel: [kernel row][pairs of (kernel column, input channel)][output channel][of the pair].
      const FrozenKernels& k = kernels_of(s);
      const int64_t in = depths_.back() / window, run = s.kernel_w * in, pair = k.pair, deep = frozen_round(run, pair),
                    width = frozen_width(k, s.count);
      panels.assign(static_cast<size_t>(width * s.kernel_h * deep), 0);
      for (int64_t c = 0; c < s.count; c++) {
        const int64_t first = c / k.panel * k.panel, columns = std::min(k.panel, width - first);
        for (int64_t r = 0; r < s.kernel_h; r++) {
          float* row = panels.data() + first * s.kernel_h * deep + r * deep * columns + (c - first) * pair;
          const float* from = w.data + c * depths_.back() + r * s.kernel_w;
          for (int64_t x = 0; x < s.kernel_w; x++)
            for (int64_t j = 0; j < in; j++) {
              const int64_t at = x * in + j;
              row[at / pair * columns * pair + at % pair] = from[j * window + x];
            }
        }
      }
      k.narrow(panels.data(), to, static_cast<int64_t>(panels.size()));
    }
  }
}

FrozenProgram::~FrozenProgram() = default;

void FrozenProgram::check_scales() const {
  for (size_t i = 0; i < scales_.scale.size(); i++)
    if (!std::isfinite(scales_.scale[i]) || scales_.scale[i] < 0 || scales_.zero[i] < 0 || scales_.zero[i] > 255)
      refuse("no such scale of activation " + std::to_string(i));
  for (size_t i = 0; i < steps_.size(); i++) {
    const FrozenStep& s = steps_[i];
    const auto in = static_cast<size_t>(s.in), out = static_cast<size_t>(s.out);
    bool fits = true;
    switch (s.op) {
      case FROZEN_CONV:
      case FROZEN_DEPTHWISE:
        fits =
            integers(s.in) ? scales_.weights[i] >= 0 : !integers(s.out) && !integers(s.add) && scales_.weights[i] < 0;
        break;
      case FROZEN_MAX: fits = scales_.scale[in] == scales_.scale[out] && scales_.zero[in] == scales_.zero[out]; break;
      case FROZEN_MEAN: fits = !integers(s.out); break;
      case FROZEN_TOKEN: fits = !integers(s.out); break;
      case FROZEN_QUANTIZE: fits = !integers(s.in) && integers(s.out); break;
      default: fits = !integers(s.in) && !integers(s.out) && !integers(s.add);
    }
    if (!fits) refuse("step " + std::to_string(i) + " does not take or give the integers of its activations");
  }
}

// sum·(scale of in)·(scale of weights) + bias + (addend - its zero)·(its scale), in the numbers of the output.
FrozenProgram::Integers FrozenProgram::fold(size_t step, const std::vector<FrozenConstant>& constants) const {
  const FrozenStep& s = steps_[step];
  Integers f;
  if (!integers(s.in) || (s.op != FROZEN_CONV && s.op != FROZEN_DEPTHWISE)) return f;
  const auto scale = [&](int64_t activation) { return scales_.scale[static_cast<size_t>(activation)]; };
  const auto zero = [&](int64_t activation) {
    return static_cast<double>(scales_.zero[static_cast<size_t>(activation)]);
  };
  const std::string where = "step " + std::to_string(step) + ": ";
  const int64_t last = static_cast<int64_t>(constants.size());
  if (scales_.weights[step] >= last ||
      constants[static_cast<size_t>(scales_.weights[step])].shape != std::vector<int64_t>{s.count})
    refuse(where + "scales of weights do not fit the output");
  const float *by = constants[static_cast<size_t>(scales_.weights[step])].data,
              *w = constants[static_cast<size_t>(s.weight)].data;
  const float* bias = s.bias >= 0 ? constants[static_cast<size_t>(s.bias)].data : nullptr;
  const int64_t depth = depths_[step], room = frozen_round(s.count, scales_.kernels->panel);
  const int64_t most = s.op == FROZEN_CONV ? std::numeric_limits<int32_t>::max() : 1 << 24; // that sums hold exactly
  if (depth * 127 * 255 > most) refuse(where + "sums of " + std::to_string(depth) + " products are too large for int8");
  const bool curved = s.act != FROZEN_NONE && s.act != FROZEN_CLAMP, floats = !integers(s.out);
  const double to = floats || curved ? 1 : 1 / scale(s.out); // of the sums' output
  double shift = floats || curved ? 0 : zero(s.out);
  f.q.add_floats = s.add == kFrozenTable || (s.add >= 0 && !integers(s.add)), f.q.out_floats = floats;
  f.q.add = static_cast<float>(to);
  if (integers(s.add)) f.q.add = static_cast<float>(to * scale(s.add)), shift -= to * scale(s.add) * zero(s.add);
  if (!floats) f.q.out = static_cast<float>(1 / scale(s.out)), f.q.zero = static_cast<float>(zero(s.out));
  f.low = s.first, f.high = s.second;
  if (!floats) {
    const bool clamped = s.act == FROZEN_CLAMP;
    f.low = clamped ? static_cast<float>(std::clamp(s.first * to + zero(s.out), 0.0, 255.0)) : 0;
    f.high = clamped ? static_cast<float>(std::clamp(s.second * to + zero(s.out), 0.0, 255.0)) : 255;
  }
  f.factor.assign(static_cast<size_t>(room), 0), f.shift = f.start = f.factor;
  for (int64_t c = 0; c < s.count; c++) {
    int64_t sum = 0;
    for (int64_t k = 0; k < depth; k++) {
      const float q = w[c * depth + k];
      if (!(std::fabs(q) <= 127) || q != std::nearbyint(q)) refuse(where + "weights are no integers of -127 to 127");
      sum += static_cast<int64_t>(q);
    }
    const auto at = static_cast<size_t>(c);
    const auto start = static_cast<int32_t>(-sum * scales_.zero[static_cast<size_t>(s.in)]);
    if (s.op == FROZEN_CONV)
      std::memcpy(&f.start[at], &start, sizeof start);
    else
      f.start[at] = static_cast<float>(start);
    f.factor[at] = static_cast<float>(to * scale(s.in) * by[c]);
    f.shift[at] = static_cast<float>(shift + (bias ? to * bias[c] : 0));
  }
  return f;
}

std::shared_ptr<const FrozenProgram::Plan> FrozenProgram::plan(int64_t images, int64_t height, int64_t width,
                                                               int64_t wanted) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    for (const auto& p : plans_)
      if (p->images == images && p->height == height && p->width == width && p->wanted == wanted) return p;
  }
  if (wanted < 0 || wanted >= activations_) refuse("no such activation is asked for");
  auto p = std::make_shared<Plan>();
  p->images = images, p->height = height, p->width = width, p->wanted = wanted;
  p->activations.resize(static_cast<size_t>(activations_));
  std::vector<Activation>& all = p->activations;
  for (size_t i = 0; i < all.size(); i++) {
    const bool whole = integers(static_cast<int64_t>(i));
    all[i].size = whole ? scales_.kernels->size : kernels_.size;
    all[i].zero = whole ? static_cast<int>(scales_.zero[i]) : 0;
  }
  // Which steps are needed.
  std::vector<bool> needed(all.size(), wanted == kFrozenAll);
  needed[static_cast<size_t>(wanted)] = true;
  for (size_t i = steps_.size(); i-- > 0;) {
    const FrozenStep& s = steps_[i];
    if (!needed[static_cast<size_t>(s.out)]) continue;
    needed[static_cast<size_t>(s.in)] = true;
    if (s.add >= 0) needed[static_cast<size_t>(s.add)] = true;
    p->order.push_back(static_cast<int64_t>(i));
  }
  std::reverse(p->order.begin(), p->order.end());
  // Shapes, borders and lifetimes.
  all[kFrozenInput].height = height, all[kFrozenInput].width = width, all[kFrozenInput].channels = input_channels_;
  int64_t slack = 0;
  for (size_t at = 0; at < p->order.size(); at++) {
    const FrozenStep& s = steps_[static_cast<size_t>(p->order[at])];
    Activation &in = all[static_cast<size_t>(s.in)], &out = all[static_cast<size_t>(s.out)];
    int64_t h = in.height, w = in.width;
    switch (s.op) {
      case FROZEN_CONV:
      case FROZEN_DEPTHWISE:
        h = (h + 2 * s.pad - s.kernel_h) / s.stride + 1;
        w = (w + 2 * s.pad - s.kernel_w) / s.stride + 1;
        if (in.height + 2 * s.pad < s.kernel_h || in.width + 2 * s.pad < s.kernel_w) h = 0;
        in.pad = std::max(in.pad, s.pad);
        slack = std::max(slack, (2 * kernels_of(s).half * s.stride + s.kernel_w) * in.channels * in.size);
        if (s.op == FROZEN_CONV && s.extra) w = h * w + 1, h = 1;
        break;
      case FROZEN_MAX: h = pooled(h, s), w = pooled(w, s); break;
      case FROZEN_MEAN:
      case FROZEN_TAKE: h = w = 1; break;
      case FROZEN_TOKEN: h = out.height, w = out.width; break;
      case FROZEN_ATTENTION: {
        const Activation& kv = all[static_cast<size_t>(s.add)];
        slack = std::max(slack, 2 * kernels_.half * std::max(in.channels, kv.channels) * in.size);
        p->scratch = std::max(p->scratch, frozen_attention_scratch(kernels_, kv.height * kv.width, s.count / s.extra));
        break;
      }
      default: break;
    }
    const bool conv = s.op == FROZEN_CONV;
    if (conv ? depths_[static_cast<size_t>(p->order[at])] != s.kernel_h * s.kernel_w * in.channels
             : s.op != FROZEN_TOKEN && s.op != FROZEN_ATTENTION && s.count != in.channels)
      refuse("step " + std::to_string(p->order[at]) + " does not fit the channels that it reads");
    if (conv && s.add >= 0) {
      const Activation& add = all[static_cast<size_t>(s.add)];
      if (add.height != h || add.width != w || add.channels < s.count)
        refuse("step " + std::to_string(p->order[at]) + " adds another shape");
    }
    if (h < 1 || w < 1)
      refuse("images of " + std::to_string(height) + " x " + std::to_string(width) +
             " pixels are too small for this network");
    if (out.first >= 0 && (out.height != h || out.width != w || out.channels != s.channels))
      refuse("two steps write one activation in different shapes");
    out.height = h, out.width = w, out.channels = s.channels;
    if (out.first < 0) out.first = static_cast<int64_t>(at);
    out.last = std::max(out.last, static_cast<int64_t>(at));
    in.last = static_cast<int64_t>(at);
    if (s.add >= 0) all[static_cast<size_t>(s.add)].last = static_cast<int64_t>(at);
  }
  for (size_t i = 0; i < all.size(); i++)
    if (wanted == kFrozenAll || static_cast<int64_t>(i) == wanted) all[i].last = std::numeric_limits<int64_t>::max();
  // Places: the first gap among those that live at the same time.
  std::vector<const Activation*> live;
  const auto place = [&](Activation& a) {
    const int64_t size = a.bytes(images);
    live.erase(std::remove_if(live.begin(), live.end(), [&](const Activation* b) { return b->last < a.first; }),
               live.end());
    std::sort(live.begin(), live.end(), [](const Activation* x, const Activation* y) { return x->offset < y->offset; });
    int64_t offset = 0;
    for (const Activation* b : live) {
      if (offset + size <= b->offset) break;
      offset = std::max(offset, b->offset + b->bytes(images));
    }
    a.offset = offset;
    live.push_back(&a);
    p->bytes = std::max(p->bytes, offset + size);
  };
  place(all[kFrozenInput]);
  for (size_t at = 0; at < p->order.size(); at++) {
    Activation& out = all[static_cast<size_t>(steps_[static_cast<size_t>(p->order[at])].out)];
    if (out.first == static_cast<int64_t>(at)) place(out);
  }
  p->bytes = frozen_round(p->bytes + slack + 256, 128);
  p->scratch = frozen_round(p->scratch + 64, 16);
  std::lock_guard<std::mutex> lock(mutex_);
  if (plans_.size() >= kKeptPlans) plans_.erase(plans_.begin());
  plans_.push_back(p);
  return p;
}

FrozenShape FrozenProgram::shape(int64_t height, int64_t width, int64_t activation) {
  const auto p = plan(1, height, width, activation);
  const Activation& a = p->activations[static_cast<size_t>(activation)];
  return {a.height, a.width, a.channels};
}

std::vector<FrozenShape> FrozenProgram::shapes(int64_t height, int64_t width) {
  const auto p = plan(1, height, width, kFrozenAll);
  std::vector<FrozenShape> out;
  for (size_t i = 1; i < p->activations.size(); i++)
    out.push_back({p->activations[i].height, p->activations[i].width, p->activations[i].channels});
  return out;
}

FrozenMemory FrozenProgram::take(int64_t floats) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    for (size_t i = spare_.size(); i-- > 0;)
      if (spare_[i].floats() >= floats) {
        FrozenMemory m = std::move(spare_[i]);
        spare_.erase(spare_.begin() + static_cast<int64_t>(i));
        return m;
      }
    spare_.clear(); // all too small
  }
  return FrozenMemory(floats);
}

void FrozenProgram::give(FrozenMemory m) {
  std::lock_guard<std::mutex> lock(mutex_);
  spare_.push_back(std::move(m));
}

void FrozenProgram::part(const FrozenImages& x, int64_t first, int64_t count, int64_t wanted, float* result,
                         const Lane& lane) {
  const Plan& plan = lane.plan;
  Team& team = lane.team;
  char* arena = lane.arena;
  const auto& all = plan.activations;
  float* scratch = reinterpret_cast<float*>(arena + plan.bytes) + lane.rank * plan.scratch;

  const Activation& input = all[kFrozenInput];
  if (lane.rank == 0) zero_border(input, arena, count);
  std::vector<float> row(static_cast<size_t>(x.width * input.channels));
  team.each(0, count * x.height, [&](int64_t i) {
    const int64_t image = i / x.height, y = i % x.height, c = input.channels;
    const float* from = x.data + (first + image) * x.stride[0] + y * x.stride[2];
    if (x.stride[1] != 1 || x.stride[3] != c) {
      for (int64_t j = 0; j < x.width; j++)
        for (int64_t k = 0; k < c; k++) row[static_cast<size_t>(j * c + k)] = from[j * x.stride[3] + k * x.stride[1]];
      from = row.data();
    }
    char* to = input.pixel(input.view(arena), image, y, 0);
    if (integers(kFrozenInput))
      lane.none[i] =
          scales_.kernels->quantize(from, to, x.width * c, static_cast<float>(1 / scales_.scale[kFrozenInput]),
                                    static_cast<float>(scales_.zero[kFrozenInput]));
    else
      kernels_.narrow(from, to, x.width * c);
  });
  team.meet();

  for (size_t at = 0; at < plan.order.size(); at++) {
    const auto index = static_cast<size_t>(plan.order[at]);
    const FrozenStep& s = steps_[index];
    const Activation &in = all[static_cast<size_t>(s.in)], &out = all[static_cast<size_t>(s.out)];
    const FrozenKernels& kernels = kernels_of(s);
    const int64_t size = in.size;
    const FrozenView from = in.view(arena);
    FrozenView to = out.view(arena);
    to.data += s.channel * out.size;
    if (lane.rank == 0 && out.first == static_cast<int64_t>(at)) zero_border(out, arena, count);
    switch (s.op) {
      case FROZEN_CONV: {
        FrozenConv c{};
        c.images = count;
        c.height = (in.height + 2 * s.pad - s.kernel_h) / s.stride + 1;
        c.width = (in.width + 2 * s.pad - s.kernel_w) / s.stride + 1;
        c.in = from;
        c.in.data -= s.pad * (from.row + from.pitch) * size;
        c.out = to;
        if (s.extra) c.out = {to.data + to.pitch * out.size, to.pitch, c.width * to.pitch, to.image};
        if (s.add == kFrozenTable)
          c.add = {const_cast<char*>(lane.table) + (s.extra ? x.table_width * kernels_.size : 0), x.table_width,
                   c.width * x.table_width, 0};
        else if (s.add >= 0)
          c.add = all[static_cast<size_t>(s.add)].view(arena);
        c.runs = s.kernel_h;
        c.run = s.kernel_w * in.channels;
        c.stride = s.stride;
        c.flat = s.kernel_h == 1 && s.kernel_w == 1 && s.stride == 1 && in.pad == 0;
        c.weights = weights_[index];
        c.bias = biases_[index];
        c.columns = s.count;
        c.act = s.act;
        c.low = s.first, c.high = s.second;
        if (integers(s.in)) {
          const Integers& f = integers_[index];
          c.low = f.low, c.high = f.high, c.q = f.q;
          c.q.factor = f.factor.data(), c.q.shift = f.shift.data(), c.q.start = f.start.data();
        }
        const int64_t pairs = (frozen_halves(kernels, c) + 1) / 2, panels = frozen_panels(kernels, c.columns),
                      blocks = (pairs + kPairs - 1) / kPairs;
        const int64_t want = team.size() == 1 ? 1 : 4 * team.size();
        const int64_t cuts = blocks >= want ? 1 : std::min(panels, (want + blocks - 1) / blocks);
        team.each(at + 1, blocks * cuts, [&](int64_t i) {
          const int64_t block = i / cuts, cut = i % cuts;
          kernels.conv(c, block * kPairs, std::min(pairs, (block + 1) * kPairs), panels * cut / cuts,
                       panels * (cut + 1) / cuts);
        });
        break;
      }
      case FROZEN_DEPTHWISE: {
        FrozenDepthwise d{from,
                          to,
                          out.height,
                          out.width,
                          s.kernel_h,
                          s.stride,
                          s.count,
                          frozen_round(s.count, kernels.lanes),
                          reinterpret_cast<const float*>(weights_[index]),
                          biases_[index],
                          s.act,
                          s.first,
                          s.second,
                          {}};
        if (integers(s.in)) {
          const Integers& f = integers_[index];
          d.bias = f.start.data(), d.low = f.low, d.high = f.high, d.q = f.q;
          d.q.factor = f.factor.data(), d.q.shift = f.shift.data();
        }
        d.in.data -= s.pad * (from.row + from.pitch) * size;
        team.each(at + 1, count * out.height, [&](int64_t i) { kernels.depthwise(d, i / out.height, i % out.height); });
        break;
      }
      case FROZEN_MAX:
        team.each(at + 1, count * out.height, [&](int64_t i) {
          const int64_t image = i / out.height, y = i % out.height;
          const int64_t y0 = std::max<int64_t>(0, y * s.stride - s.pad),
                        y1 = std::min(in.height, y * s.stride - s.pad + s.kernel_h);
          for (int64_t j = 0; j < out.width; j++) {
            const int64_t x0 = std::max<int64_t>(0, j * s.stride - s.pad),
                          x1 = std::min(in.width, j * s.stride - s.pad + s.kernel_w);
            char* p = out.pixel(to, image, y, j);
            std::memcpy(p, in.pixel(from, image, y0, x0), static_cast<size_t>(s.count * size));
            for (int64_t r = y0; r < y1; r++)
              for (int64_t k = x0; k < x1; k++)
                if (r != y0 || k != x0) kernels.larger(in.pixel(from, image, r, k), p, s.count);
          }
        });
        break;
      case FROZEN_MEAN:
        team.each(at + 1, count, [&](int64_t i) {
          kernels.mean({in.pixel(from, i, 0, 0), from.pitch, from.row, from.image}, in.height, in.width, s.count,
                       out.pixel(to, i, 0, 0));
          if (integers(s.in))
            meant(reinterpret_cast<float*>(out.pixel(to, i, 0, 0)), s.count, scales_.scale[static_cast<size_t>(s.in)],
                  scales_.zero[static_cast<size_t>(s.in)]);
        });
        break;
      case FROZEN_NORM:
        team.each(at + 1, count * in.height * ((in.width + 31) / 32), [&](int64_t i) {
          const int64_t parts = (in.width + 31) / 32, row = i / parts, image = row / in.height, y = row % in.height,
                        x0 = i % parts * 32;
          for (int64_t j = x0; j < std::min(in.width, x0 + 32); j++)
            kernels.norm(in.pixel(from, image, y, j), out.pixel(to, image, y, j), s.count,
                         reinterpret_cast<const float*>(weights_[index]), biases_[index], s.first);
        });
        break;
      case FROZEN_ATTENTION: {
        const Activation& keys = all[static_cast<size_t>(s.add)];
        const FrozenView kv = keys.view(arena);
        const int64_t dim = s.count / s.extra, behind = s.extra2 ? 0 : s.count;
        team.each(at + 1, count * s.extra, [&](int64_t i) {
          const int64_t image = i / s.extra, c = i % s.extra * dim;
          const char* k = keys.pixel(kv, image, 0, 0) + (behind + c) * size;
          kernels.attention({in.pixel(from, image, 0, 0) + c * size, k, k + s.count * size, from.pitch, kv.pitch,
                             out.pixel(to, image, 0, 0) + c * size, to.pitch, in.height * in.width,
                             keys.height * keys.width, dim, s.first, scratch});
        });
        break;
      }
      case FROZEN_TOKEN:
        team.each(at + 1, count, [&](int64_t i) {
          std::memcpy(out.pixel(to, i, 0, 0), lane.table, static_cast<size_t>(s.count * out.size));
        });
        break;
      case FROZEN_TAKE:
        team.each(at + 1, count, [&](int64_t i) {
          std::memcpy(out.pixel(to, i, 0, 0), in.pixel(from, i, 0, 0), static_cast<size_t>(s.count * size));
        });
        break;
      case FROZEN_QUANTIZE: {
        const auto by = static_cast<float>(1 / scales_.scale[static_cast<size_t>(s.out)]),
                   zero = static_cast<float>(scales_.zero[static_cast<size_t>(s.out)]);
        team.each(at + 1, count * in.height * ((in.width + 31) / 32), [&](int64_t i) {
          const int64_t parts = (in.width + 31) / 32, row = i / parts, image = row / in.height, y = row % in.height,
                        x0 = i % parts * 32;
          scales_.kernels->quantize(reinterpret_cast<const float*>(in.pixel(from, image, y, x0)),
                                    out.pixel(to, image, y, x0), std::min<int64_t>(32, in.width - x0) * s.count, by,
                                    zero);
        });
        break;
      }
      default: break;
    }
    team.meet();
  }

  if (wanted == kFrozenAll) {
    if (lane.rank) return;
    for (size_t i = 1; i < all.size(); i++)
      for (int64_t y = 0; y < all[i].height; y++, result += all[i].width * all[i].channels)
        give_out(plan, arena, static_cast<int64_t>(i), 0, y, result);
    return;
  }
  const Activation& last = all[static_cast<size_t>(wanted)];
  const int64_t numbers = last.width * last.channels;
  for (int64_t i = lane.rank; i < count * last.height; i += team.size()) {
    float* to = result + (first * last.height + i) * numbers;
    const int64_t image = i / last.height;
    give_out(plan, arena, wanted, image, i % last.height, to);
    if (integers(kFrozenInput) &&
        std::any_of(lane.none + image * x.height, lane.none + (image + 1) * x.height, [](uint8_t n) { return n != 0; }))
      std::fill(to, to + numbers, std::numeric_limits<float>::quiet_NaN());
  }
}

// A row of an activation in floats.
void FrozenProgram::give_out(const Plan& plan, const char* arena, int64_t activation, int64_t image, int64_t y,
                             float* out) const {
  const Activation& a = plan.activations[static_cast<size_t>(activation)];
  const char* from = a.pixel(a.view(const_cast<char*>(arena)), image, y, 0);
  if (!integers(activation)) return kernels_.widen(from, out, a.width * a.channels);
  scales_.kernels->widen(from, out, a.width * a.channels);
  meant(out, a.width * a.channels, scales_.scale[static_cast<size_t>(activation)],
        scales_.zero[static_cast<size_t>(activation)]);
}

void FrozenProgram::run(const FrozenImages& x, int64_t wanted, float* out, int threads) {
  if (x.channels != input_channels_)
    refuse("the images have " + std::to_string(x.channels) + " channels, want " + std::to_string(input_channels_));
  const auto one = plan(1, x.height, x.width, wanted);
  for (int64_t i : one->order) {
    const FrozenStep& s = steps_[static_cast<size_t>(i)];
    if (s.op != FROZEN_TOKEN && s.add != kFrozenTable) continue;
    const Activation& a = one->activations[static_cast<size_t>(s.out)];
    if (!x.table || x.table_rows != a.height * a.width || x.table_width != a.channels)
      refuse("the table has " + std::to_string(x.table_rows) + " rows of " + std::to_string(x.table_width) + ", want " +
             std::to_string(a.height * a.width) + " of " + std::to_string(a.channels));
  }
  if (x.count == 0) return;
  if (wanted == kFrozenAll && x.count != 1) refuse("all activations are those of one image");
  FrozenMemory rows;
  char* table = nullptr;
  if (x.table) {
    rows = FrozenMemory(x.table_rows * x.table_width);
    table = reinterpret_cast<char*>(rows.data());
    kernels_.narrow(x.table, table, x.table_rows * x.table_width);
  }
  const auto bytes = [&](const FrozenMemory& m) { return reinterpret_cast<char*>(m.data()); };
  // Activations, scratch of each thread, and what of the images is no number.
  const auto floats = [&](const Plan& p, int64_t lanes) {
    return p.bytes / 4 + lanes * p.scratch + (p.images * p.height + 3) / 4;
  };
  const auto none = [&](const FrozenMemory& m, const Plan& p, int64_t lanes) {
    return reinterpret_cast<uint8_t*>(m.data() + p.bytes / 4 + lanes * p.scratch);
  };
  // Large weights are read once for several images, as far as the activations stay small.
  int64_t at_once = std::clamp<int64_t>(packed_.floats() * 4 / kWeightsOfImage, 1, 8);
  while (at_once > 1 && at_once * one->bytes > kActivations) at_once /= 2;
  const int64_t team = std::max(1, threads);
  if (team > 1 && (x.count % team == 0 || x.count / team >= 4)) { // each thread has images of its own
    const int64_t rounds = (x.count + team * at_once - 1) / (team * at_once),
                  size = (x.count + team * rounds - 1) / (team * rounds), parts = (x.count + size - 1) / size;
    const auto whole = plan(size, x.height, x.width, wanted);
    std::vector<FrozenMemory> arenas;
    for (int64_t i = 0; i < team; i++) arenas.push_back(take(floats(*whole, 1)));
#pragma omp parallel for schedule(dynamic, 1) num_threads(static_cast<int>(team))
    for (int64_t i = 0; i < parts; i++) {
      Team alone(1, 0);
      part(x, i * size, std::min(size, x.count - i * size), wanted, out,
           {*whole, bytes(arenas[static_cast<size_t>(omp_get_thread_num())]), alone, 0, table,
            none(arenas[static_cast<size_t>(omp_get_thread_num())], *whole, 1)});
    }
    for (FrozenMemory& m : arenas) give(std::move(m));
    return;
  }
  const int64_t size = std::min(x.count, at_once * team);
  const auto whole = plan(size, x.height, x.width, wanted);
  FrozenMemory arena = take(floats(*whole, team));
  for (int64_t first = 0; first < x.count; first += size) {
    const int64_t count = std::min(size, x.count - first);
    if (team == 1) {
      Team alone(1, 0);
      part(x, first, count, wanted, out, {*whole, bytes(arena), alone, 0, table, none(arena, *whole, team)});
      continue;
    }
    std::optional<Team> together; // of as many as there came
#pragma omp parallel num_threads(static_cast<int>(team))
    {
#pragma omp single
      together.emplace(omp_get_num_threads(), whole->order.size() + 1);
      part(x, first, count, wanted, out,
           {*whole, bytes(arena), *together, omp_get_thread_num(), table, none(arena, *whole, team)});
    }
  }
  give(std::move(arena));
}

} // namespace spml

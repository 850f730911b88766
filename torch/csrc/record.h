// Recorded steps: what record.cpp takes down and replay.cpp runs.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>
#include <ATen/core/stack.h>
#include <c10/core/Storage.h>
#include <c10/util/intrusive_ptr.h>

#include <string>
#include <unordered_map>
#include <vector>

#include "shim.h"

namespace gs {

using WeakStorage = c10::weak_intrusive_ptr<c10::StorageImpl>;
using WeakTensor = c10::weak_intrusive_ptr<Impl, c10::UndefinedTensorImpl>;

// Memory that a step uses, told apart by its StorageImpl.
struct Place {
  enum Kind : uint8_t {
    External, // there before the step: parameters, state, constants
    Input,    // follows the caller's tensor
    Made,     // result of a call of the step
  } kind = Made;
  WeakStorage was;      // keeps the address from being used again, not the memory
  c10::Storage now;     // what replays use
  WeakTensor tensor;    // External: the tensor that showed it first
  bool wants = false;   // External: whether that tensor requires a gradient
  size_t bytes = 0;
  bool written = false;   // by a call other than the one that made it
  bool undefined = false; // nothing has written it yet
  bool fixed = false;     // replays use one address: planned memory, or a storage that lives on outside
  int first = -1, last = -1; // calls that made it and used it last
  explicit Place(const c10::Storage& s)
      : was(s.getWeakStorageImpl()), tensor(c10::intrusive_ptr<Impl, c10::UndefinedTensorImpl>()) {}
};

// A tensor as a window on a place.
struct Window {
  int place = -1; // -1: undefined tensor
  at::ScalarType type = at::kFloat;
  bool number = false; // a number that was wrapped, which matters for the type of results
  int64_t offset = 0;
  std::vector<int64_t> sizes, strides;
  bool operator==(const Window& o) const = default;
};

// Where a window stands among the arguments of a call.
struct Use {
  int argument, element; // element -1: the argument itself
  int window;
  bool write;
};

struct Call {
  enum How : uint8_t {
    Skip,  // gives windows on memory that is there, or memory that another call fills
    Once,  // its result never changes
    Into,  // writes its results into fixed memory (out=)
    Make,  // makes its results, whose memory the places take over
    Write, // writes arguments only
  } how = Make;
  c10::OperatorHandle op;
  torch::jit::Stack arguments; // tensors are left out until the plan binds them
  std::vector<Use> uses;
  std::vector<int> results; // windows
  bool allocates = false;   // an operator of the empty family
  bool aliases = false;     // all results are windows on older places
  std::vector<int> release; // places whose memory ends after this call
  explicit Call(const c10::OperatorHandle& op) : op(op) {}
};

struct Leaf {
  WeakTensor tensor;
  at::Tensor grad; // what a replay leaves there
};

struct Accumulated {
  WeakTensor tensor;
  WeakTensor grad; // what a replay adds to
};

struct Recording {
  std::vector<Place> places;
  std::vector<Window> windows;
  std::vector<Call> calls;
  std::vector<int> inputs; // windows
  std::vector<at::Tensor> kept; // outputs: alive until the plan is made
  std::vector<at::Tensor> outputs;
  std::vector<Leaf> leaves;
  std::vector<Accumulated> accumulated;
  std::vector<at::Tensor> bound; // windows as tensors
  uint64_t modes = 0;
  uint64_t planned = 0; // bytes of the arena
  std::unordered_map<const c10::StorageImpl*, int> place_of;

  int place(const c10::Storage& s) const {
    auto it = place_of.find(s.unsafeGetStorageImpl());
    return it == place_of.end() ? -1 : it->second;
  }
  // The window that a tensor is, whose place is known.
  int window(const at::Tensor& t, int place);
};

// Modes of the thread that decide what a step does.
uint64_t step_modes();

// Turns what was taken down into something that can be replayed. All handles of the step's intermediate tensors are
// gone by now.
void plan(Recording& r);

// A tensor over a storage.
at::Tensor show(const c10::Storage& s, const Window& w);

// A storage that shows another tensor's memory from its first element on, and keeps it alive.
at::DataPtr borrow(const at::Tensor& t);

} // namespace gs

// Operators of the pointwise losses: for each line of pointwise.h
//   spml::x(Tensor logits, Tensor labels, <parameters>, float log_eps, int reduction, Tensor? rows) -> Tensor
//   spml::x_fwd(<the same>, bool want_grad) -> (Tensor loss, Tensor gradient)
// x makes the autograd node and is the same for all devices; x_fwd has a kernel for each device and Meta.
#include <ATen/ATen.h>
#include <torch/library.h>

#include <array>
#include <tuple>
#include <utility>

#include "autograd.h"
#include "parallel.h"
#include "pointwise.h"
#include "problem.h"

namespace spml {
namespace {

using at::Tensor;

// Where elements come from and go to, by type.
struct Source {
  const void* data = nullptr;
  at::ScalarType type = at::kFloat;
  int size = 4;
  explicit Source(const Tensor& t) {
    if (!t.defined()) return;
    data = t.const_data_ptr();
    type = t.scalar_type();
    size = static_cast<int>(t.element_size());
  }
  const void* at(int64_t i) const { return data ? static_cast<const char*>(data) + i * size : nullptr; }
};

// n elements from i as T: in place where they are, else converted into a buffer.
template <class T>
const void* read(const Kernels& k, const Source& s, int64_t i, int64_t n, T* buffer) {
  if (!s.data || s.type == c10::CppTypeToScalarType<T>::value) return s.at(i);
  if constexpr (std::is_same_v<T, double>) {
    const auto* p = static_cast<const int8_t*>(s.at(i));
    for (int64_t j = 0; j < n; j++) buffer[j] = p[j];
  } else {
    switch (s.type) {
      case at::kBFloat16: k.floats_of_bf16(static_cast<const uint16_t*>(s.at(i)), buffer, n); break;
      case at::kHalf: k.floats_of_fp16(static_cast<const uint16_t*>(s.at(i)), buffer, n); break;
      default: k.floats_of_bytes(static_cast<const int8_t*>(s.at(i)), buffer, n);
    }
  }
  return buffer;
}

bool is_byte(at::ScalarType t) { return t == at::kChar || t == at::kBool || t == at::kByte; }

struct Problem {
  Source z, y, w;
  void* g;
  at::ScalarType gtype;
  bool bytes; // the kernel reads labels as bytes
  double scale;
  const double* params;
  const Kernels* kernels;
  Kernel kernel;

  template <class T>
  double run(int64_t from, int64_t to) const {
    constexpr auto type = c10::CppTypeToScalarType<T>::value;
    const auto direct = [](const Source& s) { return !s.data || s.type == type; };
    const int64_t gsize = static_cast<int64_t>(c10::elementSize(gtype));
    const auto out = [&](int64_t i) -> void* { return g ? static_cast<char*>(g) + i * gsize : nullptr; };
    const bool direct_out = !g || gtype == type;
    if (direct(z) && (bytes || (direct(y) && direct(w))) && direct_out)
      return kernel({z.at(from), y.at(from), w.at(from), out(from), to - from, scale, params});
    alignas(64) T buffer[4][kBlock];
    double total = 0;
    for (int64_t i = from; i < to; i += kBlock) {
      const int64_t n = std::min(kBlock, to - i);
      total += kernel({read(*kernels, z, i, n, buffer[0]), bytes ? y.at(i) : read(*kernels, y, i, n, buffer[1]),
                       bytes ? w.at(i) : read(*kernels, w, i, n, buffer[2]), direct_out ? out(i) : buffer[3], n, scale,
                       params});
      if constexpr (std::is_same_v<T, float>)
        if (!direct_out) kernels->bf16_of_floats(buffer[3], static_cast<uint16_t*>(out(i)), n);
    }
    return total;
  }

  double run(int64_t from, int64_t to) const {
    return z.type == at::kDouble ? run<double>(from, to) : run<float>(from, to);
  }
};

std::tuple<Tensor, Tensor> forward(std::string_view op, Pointwise id, const Tensor& logits, const Tensor& labels,
                                   const Tensor& more, const double* params, int64_t reduction,
                                   const OptionalTensor& rows, bool want_grad) {
  check_logits(op, logits);
  check_labels(op, "labels", labels, logits);
  if (more.defined()) check_labels(op, "the second labels", more, logits);
  const Rows counted = rows_of(op, rows, logits);
  const Tensor z = logits.contiguous(), y = plain_labels(labels, z),
               w = more.defined() ? plain_labels(more, z) : Tensor();
  const int64_t n = z.numel(), classes = z.size(1);
  Tensor g = at::detail::empty_cpu(want_grad ? z.sizes() : at::IntArrayRef{0}, gradient_type(z));
  const double scale = scale_of(op, reduction, counted.count, classes);
  const Kernels& k = kernels();
  const bool bytes = is_byte(y.scalar_type()) && (!w.defined() || is_byte(w.scalar_type()));
  const Problem p{Source(z),
                  Source(y),
                  Source(w),
                  want_grad ? g.mutable_data_ptr() : nullptr,
                  g.scalar_type(),
                  bytes,
                  scale,
                  params,
                  &k,
                  (*(z.scalar_type() == at::kDouble ? kernels_double : k.run)[id])[bytes][want_grad]};
  double total = 0;
  if (n == 0) {
  } else if (!counted.counts.defined()) {
    total = sum_chunks((n + kChunk - 1) / kChunk,
                       [&](int64_t i) { return p.run(i * kChunk, std::min(n, (i + 1) * kChunk)); });
  } else {
    if (want_grad && counted.count < z.size(0)) g.zero_();
    const int64_t step = std::max<int64_t>(1, kChunk / classes), all = z.size(0);
    total = sum_chunks((all + step - 1) / step, [&](int64_t i) {
      double sum = 0;
      const int64_t end = std::min(all, (i + 1) * step);
      for (int64_t from = i * step, to; from < end; from = to + 1) { // a run of rows that count
        for (to = from; to < end && counted(to); to++) {}
        if (to > from) sum += p.run(from * classes, to * classes);
      }
      return sum;
    });
  }
  return {number(total * scale, wide_type(z)), std::move(g)};
}

constexpr const char* parameters[] = {
#define X(name, F, labels, schema) schema,
    GOSPML_POINTWISE(X)
#undef X
};

constexpr int count_parameters(const char* schema) {
  int n = *schema != 0;
  for (; *schema; schema++) n += *schema == ',';
  return n;
}

template <size_t>
using Double = double;

// The functions of one operator. Name is a static array, functions need no state.
template <Pointwise Id, class Labels, class Parameters>
struct Op;

template <Pointwise Id, size_t... L, size_t... I>
struct Op<Id, std::index_sequence<L...>, std::index_sequence<I...>> {
  template <size_t>
  using Label = const Tensor&;

  static constexpr const char* names[] = {
#define X(name, F, labels, schema) "spml::" #name,
    GOSPML_POINTWISE(X)
#undef X
  };
  static constexpr const char* op = names[Id];

  using Forward = std::tuple<Tensor, Tensor>(const Tensor&, Label<L>..., Double<I>..., double, int64_t,
                                             const OptionalTensor&, bool);

  static std::tuple<Tensor, Tensor> cpu(const Tensor& z, Label<L>... labels, Double<I>... a, double eps,
                                        int64_t reduction, const OptionalTensor& rows, bool want_grad) {
    const double params[] = {a..., eps};
    const Tensor* const y[] = {&labels...};
    static const Tensor none;
    return forward(op, Id, z, *y[0], sizeof...(L) > 1 ? *y[sizeof...(L) - 1] : none, params, reduction, rows,
                   want_grad);
  }

  static std::tuple<Tensor, Tensor> meta(const Tensor& z, Label<L>... labels, Double<I>..., double, int64_t,
                                         const OptionalTensor&, bool want_grad) {
    check_logits(op, z);
    for (const Tensor* y : {&labels...})
      TORCH_CHECK(y->sym_sizes() == z.sym_sizes(), op, ": labels have shape ", y->sym_sizes(), ", logits ",
                  z.sym_sizes());
    Tensor loss = at::empty({}, z.options().dtype(wide_type(z)));
    if (!want_grad) return {std::move(loss), at::empty({0}, z.options().dtype(gradient_type(z)))};
    return {std::move(loss), at::empty_symint(z.sym_sizes(), z.options().dtype(gradient_type(z)))};
  }

  static Tensor call(const Tensor& z, Label<L>... labels, Double<I>... a, double eps, int64_t reduction,
                     const OptionalTensor& rows) {
    static const auto fwd = c10::Dispatcher::singleton()
                                .findSchemaOrThrow((std::string(op) + "_fwd").c_str(), "")
                                .template typed<Forward>();
    check_differentiable(op, z);
    (check_constant(op, "labels", labels), ...);
    const bool want = wants_grad(z);
    Tensor loss, grad;
    {
      at::AutoDispatchBelowADInplaceOrView below;
      std::tie(loss, grad) = fwd.call(z, labels..., a..., eps, reduction, rows, want);
    }
    return want ? with_gradients(op, std::move(loss), {{z, std::move(grad)}}) : loss;
  }

  static std::string schema() {
    std::string s = "(Tensor logits, Tensor labels";
    if (sizeof...(L) > 1) s += ", Tensor second";
    if (sizeof...(I)) s += std::string(", ") + parameters[Id];
    return s + ", float log_eps=0., int reduction=1, Tensor? rows=None";
  }

  static void define(torch::Library& m) {
    const std::string name = op + 6;
    m.def((name + "_fwd" + schema() + ", bool want_grad=True) -> (Tensor loss, Tensor gradient)").c_str());
    m.def((name + schema() + ") -> Tensor").c_str());
    m.impl(name.c_str(), torch::dispatch(c10::DispatchKey::CompositeImplicitAutograd, TORCH_FN(call)));
  }
};

template <Pointwise Id, int Labels>
using OpOf = Op<Id, std::make_index_sequence<Labels>, std::make_index_sequence<count_parameters(parameters[Id])>>;

TORCH_LIBRARY_FRAGMENT(spml, m) {
#define X(name, F, labels, schema) OpOf<POINTWISE_##name, labels>::define(m);
  GOSPML_POINTWISE(X)
#undef X
  m.def("cpu_kernels() -> str", [] { return std::string(kernels().name); });
}

TORCH_LIBRARY_IMPL(spml, CPU, m) {
#define X(name, F, labels, schema) m.impl(#name "_fwd", TORCH_FN((OpOf<POINTWISE_##name, labels>::cpu)));
  GOSPML_POINTWISE(X)
#undef X
}

TORCH_LIBRARY_IMPL(spml, Meta, m) {
#define X(name, F, labels, schema) m.impl(#name "_fwd", TORCH_FN((OpOf<POINTWISE_##name, labels>::meta)));
  GOSPML_POINTWISE(X)
#undef X
}

// x_fwd itself records nothing, for callers that want the gradient and no graph.
TORCH_LIBRARY_IMPL(spml, Autograd, m) {
#define X(name, F, labels, schema) m.impl(#name "_fwd", torch::CppFunction::makeFallthrough());
  GOSPML_POINTWISE(X)
#undef X
}

} // namespace
} // namespace spml

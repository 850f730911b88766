#include "batch_pass.h"

#include "pointwise.h"

namespace spml {
namespace {

// How many of a pass's inputs are logits; the others are labels.
size_t logits_of(Batchwise id) {
  return id == BATCHWISE_role || id == BATCHWISE_role_kept || id == BATCHWISE_plc ? 2 : 1;
}

template <class T>
const void* read(const Kernels& k, const at::Tensor& t, int64_t i, int64_t n, T* buffer) {
  const void* at = static_cast<const char*>(t.const_data_ptr()) + i * static_cast<int64_t>(t.element_size());
  if (t.scalar_type() == c10::CppTypeToScalarType<T>::value) return at;
  if constexpr (std::is_same_v<T, double>) {
    const auto* p = static_cast<const int8_t*>(at);
    for (int64_t j = 0; j < n; j++) buffer[j] = p[j];
  } else {
    switch (t.scalar_type()) {
      case at::kBFloat16: k.floats_of_bf16(static_cast<const uint16_t*>(at), buffer, n); break;
      case at::kHalf: k.floats_of_fp16(static_cast<const uint16_t*>(at), buffer, n); break;
      default: k.floats_of_bytes(static_cast<const int8_t*>(at), buffer, n);
    }
  }
  return buffer;
}

bool is_byte(const at::Tensor& t) { return t.element_size() == 1; }

template <class T>
void run_as(const Pass& p, int64_t from, int64_t to, Sums& sums, Found* found) {
  constexpr auto type = c10::CppTypeToScalarType<T>::value;
  const Kernels& convert = kernels();
  const size_t logits = logits_of(p.id);
  bool bytes = p.in.size() > logits, direct = true;
  for (size_t k = logits; k < p.in.size(); k++) bytes = bytes && is_byte(p.in[k]);
  BatchKernel kernel;
  if constexpr (std::is_same_v<T, double>)
    kernel = batch_double[p.id][bytes][!p.out.empty()];
  else
    kernel = batch_kernels().run[p.id][bytes][!p.out.empty()];
  for (size_t k = 0; k < p.in.size(); k++) direct = direct && (p.in[k].scalar_type() == type || (bytes && k >= logits));
  for (const at::Tensor& t : p.out) direct = direct && t.scalar_type() == type;
  const int64_t step = direct ? to - from : kBlock;
  alignas(64) T inputs[3][kBlock], outputs[2][kBlock];
  for (int64_t i = from; i < to; i += step) {
    const int64_t n = std::min(step, to - i);
    BatchSpan s{};
    s.n = n;
    s.params = p.params.data();
    for (size_t k = 0; k < p.in.size(); k++)
      s.in[k] = bytes && k >= logits ? static_cast<const char*>(p.in[k].const_data_ptr()) + i
                                     : read(convert, p.in[k], i, n, inputs[k]);
    for (size_t k = 0; k < p.out.size(); k++) {
      const at::Tensor& t = p.out[k];
      s.out[k] = t.scalar_type() == type ? static_cast<T*>(t.mutable_data_ptr()) + i : outputs[k];
    }
    const int64_t before = found ? found->n : 0;
    if (found) {
      s.least = found->least;
      s.keys = found->keys;
      s.at = found->at;
      s.found = before;
    }
    kernel(s);
    if (found) {
      found->n = s.found;
      for (int64_t k = before; k < s.found; k++) found->at[k] += static_cast<int32_t>(i - from);
    }
    for (int k = 0; k < 3; k++) sums[k] += s.sums[k];
    if constexpr (std::is_same_v<T, float>)
      for (size_t k = 0; k < p.out.size(); k++)
        if (p.out[k].scalar_type() != type)
          convert.bf16_of_floats(outputs[k], static_cast<uint16_t*>(p.out[k].mutable_data_ptr()) + i, n);
  }
}

} // namespace

const BatchKernels& batch_kernels() { return *kernels().batch; }

void Pass::run(int64_t from, int64_t to, Sums& sums, Found* found) const {
  if (in[0].scalar_type() == at::kDouble)
    run_as<double>(*this, from, to, sums, found);
  else
    run_as<float>(*this, from, to, sums, found);
}

Sums Pass::run(const Rows& rows) const {
  const int64_t n = in[0].numel(), classes = in[0].size(1), all = in[0].size(0);
  if (n == 0) return {};
  if (!rows.counts.defined())
    return add_chunks((n + kChunk - 1) / kChunk, [&](int64_t i) {
      Sums s{};
      run(i * kChunk, std::min(n, (i + 1) * kChunk), s);
      return s;
    });
  const int64_t step = std::max<int64_t>(1, kChunk / classes);
  return add_chunks((all + step - 1) / step, [&](int64_t i) {
    Sums s{};
    const int64_t end = std::min(all, (i + 1) * step);
    for (int64_t from = i * step, to; from < end; from = to + 1) { // a run of rows that count
      for (to = from; to < end && rows(to); to++) {}
      if (to > from) run(from * classes, to * classes, s);
    }
    return s;
  });
}

} // namespace spml

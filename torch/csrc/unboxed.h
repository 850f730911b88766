// Calls without the boxed stack for operators of frequent signatures: saves a tenth of a small operator.
//
// An operator whose schema spells one of the signatures below gets an Unboxed at its look-up. A call whose frame does
// not fit it exactly (a number for a tensor, a list's default, …) goes through the boxed stack, which converts or
// complains.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <bit>
#include <tuple>

#include "shim.h"

namespace gs {

struct Unboxed {
  virtual ~Unboxed() = default;
  // false = the frame does not fit; nothing was called. defaults[i] is the schema's, or nullptr.
  virtual bool call(const gs_frame* f, const uint64_t* far, const c10::IValue* const* defaults, gs_result& r) const = 0;
};

namespace unboxed {

struct Word {
  uint8_t tag;
  uint64_t w;
  const uint64_t* list; // where a list's words are
  const c10::IValue* missing; // the default that stands for the word, or nullptr
};

// A handle seen as a tensor without a reference of its own.
union Borrowed {
  at::Tensor t;
  explicit Borrowed(uint64_t h)
      : t(c10::intrusive_ptr<Impl, c10::UndefinedTensorImpl>::reclaim(reinterpret_cast<Impl*>(h))) {}
  Borrowed(const Borrowed& o) : Borrowed(reinterpret_cast<uint64_t>(o.t.unsafeGetTensorImpl())) {}
  ~Borrowed() {}
};

// In<A> reads one argument of C++ type A: its letter in a signature, whether a word fits, what holds it, what is
// passed.
template <class A>
struct In;

template <>
struct In<const at::Tensor&> {
  static constexpr char letter = 'T';
  using Hold = Borrowed;
  static bool fits(const Word& x) { return x.tag == GS_TENSOR && x.w; }
  static Hold hold(const Word& x) { return Borrowed(x.w); }
  static const at::Tensor& pass(Hold& h) { return h.t; }
};
template <>
struct In<at::Tensor&> : In<const at::Tensor&> {
  static constexpr char letter = 'M'; // written
  static at::Tensor& pass(Hold& h) { return h.t; }
};
template <>
struct In<const std::optional<at::Tensor>&> {
  static constexpr char letter = 'O';
  using Hold = std::optional<at::Tensor>;
  static bool fits(const Word& x) {
    return x.tag == GS_NONE || (x.tag == GS_TENSOR && x.w) || (x.missing && x.missing->isNone());
  }
  static Hold hold(const Word& x) { return x.tag == GS_TENSOR ? Hold(tensor_of(x.w)) : std::nullopt; }
  static const Hold& pass(Hold& h) { return h; }
};
template <>
struct In<const at::Scalar&> {
  static constexpr char letter = 'S';
  using Hold = at::Scalar;
  static bool fits(const Word& x) {
    return x.tag == GS_INT || x.tag == GS_DOUBLE || x.tag == GS_BOOL || (x.missing && x.missing->isScalar());
  }
  static Hold hold(const Word& x) {
    switch (x.tag) {
      case GS_INT: return static_cast<int64_t>(x.w);
      case GS_BOOL: return x.w != 0;
      case GS_DOUBLE: return std::bit_cast<double>(x.w);
      default: return x.missing->toScalar();
    }
  }
  static const at::Scalar& pass(Hold& h) { return h; }
};
template <>
struct In<int64_t> {
  static constexpr char letter = 'I';
  using Hold = int64_t;
  static bool fits(const Word& x) { return x.tag == GS_INT || (x.missing && x.missing->isInt()); }
  static Hold hold(const Word& x) { return x.tag == GS_INT ? static_cast<int64_t>(x.w) : x.missing->toInt(); }
  static int64_t pass(Hold& h) { return h; }
};
template <>
struct In<c10::SymInt> : In<int64_t> {
  static constexpr char letter = 'Y';
  static c10::SymInt pass(Hold& h) { return h; }
};
template <>
struct In<bool> {
  static constexpr char letter = 'B';
  using Hold = bool;
  static bool fits(const Word& x) { return x.tag == GS_BOOL || (x.missing && x.missing->isBool()); }
  static Hold hold(const Word& x) { return x.tag == GS_BOOL ? x.w != 0 : x.missing->toBool(); }
  static bool pass(Hold& h) { return h; }
};
template <>
struct In<at::IntArrayRef> {
  static constexpr char letter = 'l';
  using Hold = at::IntArrayRef;
  static bool fits(const Word& x) { return (x.tag & 0x7f) == GS_INTS; }
  static Hold hold(const Word& x) { return {reinterpret_cast<const int64_t*>(x.list), x.w >> 32}; }
  static at::IntArrayRef pass(Hold& h) { return h; }
};
template <>
struct In<c10::SymIntArrayRef> : In<at::IntArrayRef> {
  static constexpr char letter = 'L';
  static c10::SymIntArrayRef pass(Hold& h) { return c10::fromIntArrayRefSlow(h); }
};
template <>
struct In<at::OptionalIntArrayRef> : In<at::IntArrayRef> {
  static constexpr char letter = 'P';
  static at::OptionalIntArrayRef pass(Hold& h) { return h; }
};
template <>
struct In<std::optional<at::ScalarType>> {
  static constexpr char letter = 'd';
  using Hold = std::optional<at::ScalarType>;
  static bool fits(const Word& x) {
    return x.tag == GS_NONE || (x.tag == GS_INT && x.w < static_cast<uint64_t>(at::ScalarType::NumOptions)) ||
           (x.missing && x.missing->isNone());
  }
  static Hold hold(const Word& x) { return x.tag == GS_INT ? Hold(static_cast<at::ScalarType>(x.w)) : std::nullopt; }
  static Hold pass(Hold& h) { return h; }
};
// Options that a frame has no words for yet: only their absence fits.
template <class T, char Letter>
struct Absent {
  static constexpr char letter = Letter;
  using Hold = std::optional<T>;
  static bool fits(const Word& x) { return x.tag == GS_NONE || (x.missing && x.missing->isNone()); }
  static Hold hold(const Word&) { return std::nullopt; }
  static Hold pass(Hold&) { return std::nullopt; }
};
template <>
struct In<std::optional<at::Layout>> : Absent<at::Layout, 'y'> {};
template <>
struct In<std::optional<at::Device>> : Absent<at::Device, 'v'> {};
template <>
struct In<std::optional<bool>> : Absent<bool, 'b'> {};
template <>
struct In<std::optional<at::MemoryFormat>> : Absent<at::MemoryFormat, 'f'> {};

template <class Sig>
struct Call;
template <class R, class... A>
struct Call<R(A...)> final : Unboxed {
  static constexpr char letters[] = {In<A>::letter..., 0};
  c10::TypedOperatorHandle<R(A...)> op;
  explicit Call(const c10::OperatorHandle& h) : op(h.typed<R(A...)>()) {}

  bool call(const gs_frame* f, const uint64_t* far, const c10::IValue* const* defaults, gs_result& r) const override {
    return go(f, far, defaults, r, std::index_sequence_for<A...>());
  }

 private:
  template <size_t... I>
  bool go(const gs_frame* f, const uint64_t* far, const c10::IValue* const* defaults, gs_result& r,
          std::index_sequence<I...>) const {
    const Word words[] = {word(f, far, defaults, I)...};
    if (!(In<A>::fits(words[I]) && ...)) return false;
    std::tuple<typename In<A>::Hold...> held{In<A>::hold(words[I])...};
    if constexpr (std::is_reference_v<R>)
      op.call(In<A>::pass(std::get<I>(held))...); // the caller has what was written
    else
      put_tensor(r, op.call(In<A>::pass(std::get<I>(held))...));
    return true;
  }

  static Word word(const gs_frame* f, const uint64_t* far, const c10::IValue* const* defaults, size_t i) {
    if (i >= f->n || f->tag[i] == GS_DEFAULT) return {GS_DEFAULT, 0, nullptr, defaults[i]};
    return {f->tag[i], f->w[i], ((f->tag[i] & GS_FAR) ? far : f->data) + (f->w[i] & 0xffffffffu), nullptr};
  }
};

template <class... Sig>
std::unique_ptr<Unboxed> find(const c10::OperatorHandle& h, const std::string& letters, bool in_place) {
  std::unique_ptr<Unboxed> u;
  auto one = [&]<class S>(S*) {
    if (!u && letters == Call<S>::letters && in_place == (Call<S>::letters[0] == 'M')) u = std::make_unique<Call<S>>(h);
  };
  (one(static_cast<Sig*>(nullptr)), ...);
  return u;
}

} // namespace unboxed

// letters: one for each argument of the schema, as above, '?' for any other type. The only result is a Tensor, which is
// the first argument where in_place.
inline std::unique_ptr<Unboxed> find_unboxed(const c10::OperatorHandle& h, const std::string& letters, bool in_place) {
  using T = const at::Tensor&;
  using S = const at::Scalar&;
  using O = const std::optional<at::Tensor>&;
  using Dtype = std::optional<at::ScalarType>;
  using Lay = std::optional<at::Layout>;
  using Dev = std::optional<at::Device>;
  using Bool = std::optional<bool>;
  return unboxed::find<
      at::Tensor(T), at::Tensor(T, T), at::Tensor(T, T, T), at::Tensor(T, T, S), at::Tensor(T, S), at::Tensor(T, S, S),
      at::Tensor(T, T, T, S, S), at::Tensor(T, T, O), at::Tensor(T, int64_t), at::Tensor(T, int64_t, int64_t),
      at::Tensor(T, int64_t, c10::SymInt), at::Tensor(T, c10::SymIntArrayRef), at::Tensor(T, at::IntArrayRef),
      at::Tensor(T, Dtype), at::Tensor(T, int64_t, Dtype), at::Tensor(T, at::OptionalIntArrayRef, bool, Dtype),
      at::Tensor(T, T, O, int64_t, c10::SymInt), at::Tensor(c10::SymIntArrayRef, Dtype, Lay, Dev, Bool),
      at::Tensor(c10::SymIntArrayRef, Dtype, Lay, Dev, Bool, std::optional<at::MemoryFormat>), at::Tensor&(at::Tensor&),
      at::Tensor&(at::Tensor&, T), at::Tensor&(at::Tensor&, T, S), at::Tensor&(at::Tensor&, S),
      at::Tensor&(at::Tensor&, S, S)>(h, letters, in_place);
}

} // namespace gs

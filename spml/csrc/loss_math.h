// What the pointwise losses are made of: for one logit and its label, the term and its derivative, in one pass, stable
// for |z| up to 1e4.
//
// No ATen, no STL: this file is compiled for single numbers (float64, CUDA) and for vectors of lanes (lanes_*.h,
// included before it). A functor is a template over the value type V and uses no ?: on values, only the named functions
//
//   select(mask, a, b)   clamp_min(x, lo)   clamp_max(x, hi)   absolute(x)   reciprocal(x)
//   exp_neg(x)  e^-x for x >= 0      exp_any(x)           log_pos(x)  for x > 0      log1p_unit(x)  for 0 <= x <= 1
//   expm1_neg(x)  for x <= 0, gives e^x - 1 and e^x
//
// and + - * and comparisons, whose result is a mask (combined by both, either, differ, asked by some). NaN in gives NaN
// out everywhere: multiply by 0 or 1, or select between terms that are both NaN. Conditions on parameters are plain
// `if`s: they are the same for all elements.
//
// Largest relative errors of the lanes' versions over every float of the range (TestLanesAccuracy): exp_neg and exp_any
// 9e-8 (2.2e-7 with AVX-512, which has a table), expm1_neg 1.0e-7, log_pos 1.2e-7, log1p_unit 1.3e-7 (2.0e-7 with
// AVX-512, 1.7e-7 without fused multiply-add), reciprocal 6e-8 (1.2e-7 with AVX-512).
//
// A loss is a struct template in a header of its own, loss/<operator>.h, with
//   F(const double* a)         the parameters in the order of its line in pointwise.h, behind which comes log_eps
//   operator()(V z, V y)       or (V z, V y, V w) for a loss of two label tensors
//   common()                   optional: where the parameters are the usual ones, sets them to constants, for which a
//                              loop is compiled, and returns true
//   constants()                with it: sets them so whatever they are
// and one line in pointwise.h.
#pragma once

#if defined(__CUDACC__)
#define GOSPML_FN __host__ __device__ __forceinline__
#else
#define GOSPML_FN inline __attribute__((always_inline))
#endif

// ------------------------------------------------------------------------------------------------- single numbers
#define GOSPML_SCALAR(T, EXP, EXPM1, LOG, LOG1P)               \
  GOSPML_FN T select(bool m, T a, T b) { return m ? a : b; }   \
  GOSPML_FN T clamp_min(T x, T lo) { return x < lo ? lo : x; } \
  GOSPML_FN T clamp_max(T x, T hi) { return x > hi ? hi : x; } \
  GOSPML_FN T absolute(T x) { return x < 0 ? -x : x; }         \
  GOSPML_FN T reciprocal(T x) { return T(1) / x; }             \
  GOSPML_FN T exp_neg(T x) { return EXP(-x); }                 \
  GOSPML_FN T exp_any(T x) { return EXP(x); }                  \
  GOSPML_FN T log_pos(T x) { return LOG(x); }                  \
  GOSPML_FN T log1p_unit(T x) { return LOG1P(x); }             \
  GOSPML_FN void expm1_neg(T x, T& m1, T& e) {                 \
    m1 = EXPM1(x);                                             \
    e = m1 + 1;                                                \
  }
GOSPML_FN bool both(bool a, bool b) { return a && b; }
GOSPML_FN bool either(bool a, bool b) { return a || b; }
GOSPML_FN bool differ(bool a, bool b) { return a != b; }
GOSPML_FN bool some(bool m) { return m; }
#if defined(__CUDACC__)
#include "cuda/card_math.h"
GOSPML_SCALAR(double, exp, expm1, log, log1p)
#elif defined(GOSPML_EMULATED)
#include "cuda/card_math.h"
GOSPML_SCALAR(double, __builtin_exp, __builtin_expm1, __builtin_log, __builtin_log1p)
#else
GOSPML_SCALAR(float, __builtin_expf, __builtin_expm1f, __builtin_logf, __builtin_log1pf)
GOSPML_SCALAR(double, __builtin_exp, __builtin_expm1, __builtin_log, __builtin_log1p)
#endif
#undef GOSPML_SCALAR

// ------------------------------------------------------------------------------------------------- building blocks
template <class V>
struct Term {
  V value, grad;
};

// p = σ(z), n = 1 - p = σ(-z), sp = softplus(z) = -log n, sn = softplus(-z) = -log p, from one e^-|z|.
template <class V>
struct Sigmoid {
  using Mask = decltype(V() >= V());
  V size, r, er, l; // |z|, σ(|z|), σ(-|z|), softplus(-|z|)
  Mask up; // z >= 0
  V p, n, sp, sn;
  GOSPML_FN explicit Sigmoid(V z) {
    size = absolute(z);
    const V e = exp_neg(size);
    r = reciprocal(V(1) + e);
    er = e * r;
    l = log1p_unit(e);
    up = z >= V(0);
    sides();
  }
  // From σ(-|z|), which an earlier pass has kept.
  GOSPML_FN Sigmoid(V z, V kept) : size(absolute(z)), r(V(1) - kept), er(kept) {
    l = log1p_unit(er * reciprocal(r));
    up = z >= V(0);
    sides();
  }
  GOSPML_FN void sides() {
    const V far = l + size;
    p = select(up, r, er);
    n = select(up, er, r);
    sp = select(up, far, l);
    sn = select(up, l, far);
  }
  // t·sn + (1-t)·sp for a target t with rest = 1-t. Its derivative is p - t.
  GOSPML_FN V cross(V t, V rest) const { return l + size * select(up, rest, t); }
};

// Sigmoid with the two cross-entropy terms and their derivatives. eps = 0: -log p and -log n, exact. eps > 0:
// -log(p+eps) and -log(n+eps), as released code has them.
template <class V>
struct CrossEntropy : Sigmoid<V> {
  V pos, dpos, neg, dneg;
  GOSPML_FN CrossEntropy(V z, V eps, bool exact) : Sigmoid<V>(z) { terms(eps, exact); }
  GOSPML_FN CrossEntropy(V z, V kept, V eps, bool exact) : Sigmoid<V>(z, kept) { terms(eps, exact); }
  GOSPML_FN void terms(V eps, bool exact) {
    if (exact) {
      pos = this->sn;
      dpos = -this->n;
      neg = this->sp;
      dneg = this->p;
    } else {
      const V a = this->p + eps, b = this->n + eps, pn = this->p * this->n;
      pos = -log_pos(a);
      neg = -log_pos(b);
      dpos = -(pn * reciprocal(a));
      dneg = pn * reciprocal(b);
    }
  }
  // H(p) = p·(-log p) + n·(-log n).
  GOSPML_FN V entropy(bool exact) const {
    if (exact) return this->l + this->size * this->er;
    return this->p * pos + this->n * neg;
  }
  GOSPML_FN V dentropy(V z, bool exact) const {
    const V pn = this->r * this->er;
    if (exact) return -(z * pn);
    return pn * (pos - neg) + (this->p * dpos + this->n * dneg);
  }
};

// What a positive and a negative label share: with s = -z for a positive one and z else, the cross-entropy `value`
// (softplus(s) where exact), its derivative by s, x = σ(s), rest = σ(-s), lx = -log x.
template <class V>
struct Side {
  V value, slope, x, rest, lx;
  template <class M>
  GOSPML_FN Side(const CrossEntropy<V>& c, M pos, bool exact) {
    const auto far = differ(c.up, pos); // s >= 0, but for z = 0, where both are the same
    const V sum = c.l + c.size;
    x = select(far, c.r, c.er);
    rest = select(far, c.er, c.r);
    lx = select(far, c.l, sum);
    if (exact) {
      value = select(far, sum, c.l);
      slope = x;
    } else {
      value = select(pos, c.pos, c.neg);
      slope = select(pos, -c.dpos, c.dneg);
    }
  }
  // A derivative by s as one by z.
  template <class M>
  static GOSPML_FN V by_logit(M pos, V d) {
    return select(pos, -d, d);
  }
};

// The logarithms' epsilon, which every loss has.
template <class V>
struct Logs {
  static constexpr int logits = 1; // of the inputs of a pass (batch_math.h); the others are labels
  static constexpr bool kept = false, selects = false;
  V eps;
  bool exact;
  GOSPML_FN explicit Logs(double e) : eps(V(e)), exact(e == 0) {}
  GOSPML_FN CrossEntropy<V> ce(V z) const { return CrossEntropy<V>(z, eps, exact); }
  GOSPML_FN CrossEntropy<V> ce(V z, V kept) const { return CrossEntropy<V>(z, kept, eps, exact); }
  template <class M>
  GOSPML_FN Side<V> side(V z, M pos) const {
    return Side<V>(ce(z), pos, exact);
  }
};

// n^γ with its logarithm: n = e^-sp. Whole powers are products.
template <class V>
GOSPML_FN V power(V n, V sp, double gamma) {
  if (gamma == 0) return V(1);
  if (gamma == 1) return n;
  if (gamma == 2) return n * n;
  return exp_neg(V(gamma) * sp);
}

// Generalised cross-entropy (1 - p^q)/q and its derivative, from n and sn; sn for q = 0.
template <class V>
struct Surrogate {
  V q, by;
  double at;
  GOSPML_FN explicit Surrogate(double x) : q(V(-x)), by(V(x == 0 ? 0 : -1 / x)), at(x) {}
  // p and sn of one side; the derivative is with respect to that side's logit.
  GOSPML_FN Term<V> operator()(V p, V n, V sn) const {
    if (at == 0) return {sn, -n};
    if (at == 1) return {n, -(p * n)};
    V m1, e;
    expm1_neg(q * sn, m1, e);
    return {m1 * by, -(e * n)};
  }
};

// Where σ(z) leaves 0.
template <class V>
struct Underflow {
  static constexpr double logit = -88.72;
};
template <>
struct Underflow<double> {
  static constexpr double logit = -709.78;
};

// ------------------------------------------------------------------------------------------------- loops
// Calls body with f, whose conditions on parameters are constants of the compiled code where the parameters are the
// usual ones.
template <class F, class Body>
GOSPML_FN auto with_constants(F f, const Body& body) {
  if constexpr (requires { f.common(); }) {
    F g = f;
    if (g.common()) return body(g);
  }
  if constexpr (requires { f.exact; }) {
    if (f.exact) {
      f.exact = true;
      return body(f);
    }
    f.exact = false;
  }
  return body(f);
}

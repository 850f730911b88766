// The kernels of the pointwise losses beside plain loops in float64 over the same formulas.
#include "../../../loss_math.h"
#include "losses.h" // of the table, by the test
#include "../../../pointwise.h"
#include "../../pointwise.h"
#include "check.h"

using namespace spml::cuda;

namespace {

constexpr const char* kNames[] = {
#define X(name, F, labels, schema) #name,
    GOSPML_POINTWISE(X)
#undef X
};

template <int Labels, class F>
Term<double> one(const F& f, double z, double y, double w) {
  if constexpr (Labels == 2)
    return f(z, y, w);
  else
    return f(z, y);
}

using Numbers = std::vector<double>;

Term<double> term(int id, const Numbers& params, double z, double y, double w) {
  switch (id) {
#define X(name, F, labels, schema) \
  case spml::POINTWISE_##name: return one<labels>(F<double>(params.data()), z, y, w);
    GOSPML_POINTWISE(X)
#undef X
  }
  abort();
}

const char* defaults(int id) {
  switch (id) {
#define X(name, F, labels, schema) \
  case spml::POINTWISE_##name: return schema;
    GOSPML_POINTWISE(X)
#undef X
  }
  abort();
}

bool two_labels(int id) {
  switch (id) {
#define X(name, F, labels, schema) \
  case spml::POINTWISE_##name: return labels == 2;
    GOSPML_POINTWISE(X)
#undef X
  }
  abort();
}

// The defaults of the schema, then the logarithms' epsilon; other: moved off them, where common() does not hold.
Numbers parameters(int id, bool other) {
  Numbers p;
  for (const char* s = defaults(id); (s = strchr(s, '='));) p.push_back(atof(++s));
  if (other)
    for (auto& x : p)
      if (x != 0 && x != 1) x *= 0.75;
  p.push_back(other ? 1e-5 : 0);
  p.resize(kMaxParams);
  return p;
}

template <class Z>
struct Gradient {
  using type = Z;
};
template <>
struct Gradient<__half> {
  using type = float;
};

struct Case {
  int id;
  int64_t rows, classes;
  bool bytes, masked, other, gradient;
  int reduction;
  check::Where where;
};

template <class Z, class Y>
void run_case(Element element, const Case& c) {
  using G = typename Gradient<Z>::type;
  constexpr bool wide = sizeof(Z) == 8;
  using L = std::conditional_t<wide, double, float>;
  char what[200];
  snprintf(what, sizeof what, "%s type %d %ldx%ld bytes %d masked %d other %d reduction %d place %d", kNames[c.id],
           element, c.rows, c.classes, c.bytes, c.masked, c.other, c.reduction, c.where);
  const int64_t n = c.rows * c.classes;
  std::mt19937 r(static_cast<unsigned>(17 + c.id + n));
  std::normal_distribution<double> normal(0, 4);
  check::Memory<Z> z(n, c.where);
  check::Memory<Y> y(n, c.where), w(n, c.where);
  for (int64_t i = 0; i < n; i++) {
    z[i] = check::number<Z>(r() % 50 == 0 ? (r() % 2 ? 900. : -900.) : r() % 50 == 0 ? 0. : normal(r));
    y[i] = static_cast<Y>(static_cast<int>(r() % 3) - 1);
    if (!c.bytes && r() % 4 == 0) y[i] = static_cast<Y>(-0.3); // a soft negative
    w[i] = static_cast<Y>(r() % 2);
  }
  check::Memory<uint8_t> counts(c.rows, check::kAtEnd);
  check::Memory<int64_t> count(1);
  count[0] = 0;
  for (int64_t i = 0; i < c.rows; i++) count[0] += counts[i] = c.masked ? r() % 3 != 0 : 1;
  const Numbers params = parameters(c.id, c.other);
  const auto start = [&](check::Where where, const Z* zs) {
    auto out = std::make_tuple(check::Memory<G>(c.gradient ? n : 0, where), check::Memory<L>(1),
                               check::Memory<double>(blocks(n), check::kAtEnd));
    Launch l{};
    l.element = element, l.byte_labels = c.bytes, l.z = zs, l.y = y.get(), l.w = two_labels(c.id) ? w.get() : nullptr;
    l.g = c.gradient ? std::get<0>(out).get() : nullptr;
    l.counts = c.masked ? counts.get() : nullptr, l.count = c.masked ? count.get() : nullptr;
    l.loss = std::get<1>(out).get(), l.partial = std::get<2>(out).get();
    l.n = n, l.classes = c.classes, l.reduction = c.reduction;
    std::copy(params.begin(), params.end(), l.params);
    if (spml::cuda::run(c.id, l) != cudaSuccess) check::fail("%s: not started", what);
    return out;
  };
  const auto out = check::in_every_order(what, [&] { return start(c.where, z.get()); });

  const double rows = static_cast<double>(count[0]), scale = c.reduction == 2                             ? 1
                                                             : rows * static_cast<double>(c.classes) == 0 ? 0
                                                             : c.reduction == 1
                                                                 ? 1 / (rows * static_cast<double>(c.classes))
                                                                 : 1 / rows;
  const double part = wide ? 1e-11 : 3e-5, narrow = std::is_same_v<G, __nv_bfloat16> ? 8e-3 : part;
  double sum = 0, size = 0;
  for (int64_t i = 0; i < n; i++) {
    Term<double> t{0, 0};
    if (counts[i / c.classes]) t = term(c.id, params, check::plain(z[i]), check::plain(y[i]), check::plain(w[i]));
    sum += t.value;
    size += fabs(t.value);
    if (!c.gradient) continue;
    const double got = check::plain(std::get<0>(out)[i]), want = t.grad * scale;
    if (!check::near(got, want, part, scale) && !check::near(got, want, narrow, fabs(want)))
      check::fail("%s: gradient %ld is %g, want %g", what, i, got, want);
    check::done++;
  }
  const double loss = check::plain(std::get<1>(out)[0]);
  if (!check::near(loss, sum * scale, part, size * scale + part))
    check::fail("%s: loss %.9g, want %.9g", what, loss, sum * scale);

  if (c.where != check::kAligned) return; // the bits must not depend on where the numbers lie
  check::Memory<Z> elsewhere(n, check::kShifted);
  std::copy(z.get(), z.get() + n, elsewhere.get());
  const auto moved = start(check::kShifted, elsewhere.get());
  if (!std::get<0>(moved).same(std::get<0>(out)) || !std::get<1>(moved).same(std::get<1>(out)))
    check::fail("%s: other bits at another address: loss %.9g, %.9g", what, loss, check::plain(std::get<1>(moved)[0]));
}

template <class Z>
void run_type(Element element, const Case& c) {
  using T = std::conditional_t<sizeof(Z) == 8, double, float>;
  if (c.bytes)
    run_case<Z, int8_t>(element, c);
  else
    run_case<Z, T>(element, c);
}

void run_case(Element e, const Case& c) {
  switch (e) {
    case kFloat32: return run_type<float>(e, c);
    case kFloat64: return run_type<double>(e, c);
    case kFloat16: return run_type<__half>(e, c);
    case kBFloat16: return run_type<__nv_bfloat16>(e, c);
  }
}

void all() {
  constexpr std::pair<int64_t, int64_t> shapes[] = {{1, 1}, {5, 7}, {64, 64}, {37, 221}, {0, 5}, {3, 0}};
  int turn = 0;
  for (int id = 0; id < spml::POINTWISE_COUNT; id++)
    for (Element e : {kFloat32, kFloat64, kFloat16, kBFloat16})
      for (auto [rows, classes] : shapes)
        for (bool bytes : {true, false})
          for (bool masked : {false, true}) {
            if (check::quick && (e == kFloat64 || e == kFloat16)) continue;
            const int reduction = 1 + turn % 3;
            const auto where = static_cast<check::Where>(turn / 2 % 3);
            turn++;
            run_case(e, {id, rows, classes, bytes, masked, false, true, reduction, where});
            if (rows > 5 && !check::quick)
              run_case(e, {id, rows, classes, bytes, masked, true, true, reduction, check::kAligned});
            if (rows == 5) run_case(e, {id, rows, classes, bytes, masked, true, false, reduction, check::kAtEnd});
          }
}

} // namespace

int main(int argc, char** argv) { return check::main(argc, argv, all); }

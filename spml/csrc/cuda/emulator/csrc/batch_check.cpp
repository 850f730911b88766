// The passes of the batch-wide losses and the rows of LAC's contrast beside plain loops in float64 over the same
// formulas.
#include "../../../loss_math.h"
#include "../../../batch_math.h"
#include "../../../batchwise.h"
#include "../../batch.h"
#include "check.h"

using namespace spml::cuda;

namespace {

struct Kind {
  const char* name;
  int id, inputs, outputs, sums, logits;
};

const Kind kKinds[] = {
#define X(name, F, inputs, outputs, sums) {#name, spml::BATCHWISE_##name, inputs, outputs, sums, F<double>::logits},
    GOSPML_BATCHWISE(X)
#undef X
        {"large_modify", kLargeModify, 3, 1, 1, 1},
};

// Parameters in the order of the functors' constructors, those that come late among them.
std::vector<double> parameters(const char* name, bool exact) {
  const double eps = exact ? 0 : 1e-5;
  const auto is = [&](const char* n) { return !strcmp(name, n); };
  if (is("count")) return {};
  if (is("epr")) return {eps, 0.25, 0.125};
  if (is("vlpl")) return {eps, 0.25, 0.2, 0.9, exact ? 0. : 0.3, exact ? 1. : 0.9};
  if (is("gpr")) return {eps, 0.25, 0.125, 1.5, -2, 0.5, 2, exact ? 0.01 : 0.7, 1, 0.1, 0.9, 0.8};
  if (is("role")) return {eps, 0.25, 0.125, 0.0625};
  if (is("plc")) return {eps, 0.25, 0.6, exact ? 1. : 0.};
  return {eps, 0.25, exact ? 1. : 0.}; // large, large_modify
}

// Large loss after the selection, written again: rejection leaves the term out, correction takes the other side's.
void large_modify(const std::vector<double>& p, const double* in, double* out, double* sum) {
  const CrossEntropy<double> c(in[0], p[0], p[0] == 0);
  const bool pos = in[1] == 1, chosen = in[2] != 0, correct = p[2] != 0;
  if (chosen && !correct) {
    out[0] = 0;
    return;
  }
  const bool side = chosen ? !pos : pos;
  sum[0] += side ? c.pos : c.neg;
  out[0] = p[1] * (side ? c.dpos : c.dneg);
}

void apply(int id, const std::vector<double>& p, const double* in, double* out, double* sum) {
  switch (id) {
#define X(name, F, inputs, outputs, sums) \
  case spml::BATCHWISE_##name: F<double>(p.data())(in, out, sum); return;
    GOSPML_BATCHWISE(X)
#undef X
  }
  large_modify(p, in, out, sum);
}

template <class Z>
constexpr Element kElement = std::is_same_v<Z, float>    ? kFloat32
                             : std::is_same_v<Z, double> ? kFloat64
                             : std::is_same_v<Z, __half> ? kFloat16
                                                         : kBFloat16;

struct Case {
  Kind kind;
  int64_t rows, classes;
  bool bytes, masked, exact, gradient;
  check::Where where;
};

// Z: logits, Y: labels, G: what the outputs hold.
template <class Z, class Y, class G>
void run_case(const Case& c) {
  const Kind& k = c.kind;
  constexpr bool wide = sizeof(Z) == 8;
  char what[200];
  snprintf(what, sizeof what, "%s type %d %ldx%ld bytes %d masked %d exact %d gradient %d place %d", k.name,
           kElement<Z>, c.rows, c.classes, c.bytes, c.masked, c.exact, c.gradient, c.where);
  const int64_t n = c.rows * c.classes;
  std::mt19937 r(static_cast<unsigned>(31 * k.id + n));
  std::normal_distribution<double> normal(0, 4);
  std::vector<check::Memory<Z>> z;
  std::vector<check::Memory<Y>> y;
  for (int i = 0; i < 2; i++) z.emplace_back(n, c.where), y.emplace_back(n, c.where);
  for (int64_t i = 0; i < n; i++) {
    for (auto& m : z) m[i] = check::number<Z>(r() % 40 == 0 ? (r() % 2 ? 300. : -300.) : normal(r));
    for (auto& m : y) m[i] = static_cast<Y>(static_cast<int>(r() % 3) - 1);
  }
  check::Memory<uint8_t> counts(c.rows, check::kAtEnd);
  for (int64_t i = 0; i < c.rows; i++) counts[i] = !c.masked || r() % 3 != 0;
  const auto params = parameters(k.name, c.exact);
  const int lates = !strcmp(k.name, "role") ? 3 : !strcmp(k.name, "epr") || !strcmp(k.name, "gpr") ? 2 : 0;
  check::Memory<double> late(3);
  for (int i = 0; i < 3; i++) late[i] = 0;
  for (int i = 0; i < lates; i++) late[i] = 2 * params[static_cast<size_t>(1 + i)];
  const auto out = check::in_every_order(what, [&] {
    const bool first = c.gradient && k.outputs > 0, second = c.gradient && k.outputs > 1;
    auto made = std::make_tuple(check::Memory<G>(first ? n : 0, c.where), check::Memory<G>(second ? n : 0, c.where),
                                check::Memory<double>(3 * blocks(n), check::kAtEnd));
    BatchLaunch l{};
    l.wide = wide;
    for (int i = 0; i < k.inputs; i++)
      l.in[i] = i < k.logits ? Tensors{z[static_cast<size_t>(i)].get(), kElement<Z>}
                             : Tensors{y[static_cast<size_t>(i - k.logits)].get(), c.bytes ? kInt8
                                                                                   : wide  ? kFloat64
                                                                                           : kFloat32};
    if (first) l.out[0] = {std::get<0>(made).get(), kElement<G>};
    if (second) l.out[1] = {std::get<1>(made).get(), kElement<G>};
    l.counts = c.masked ? counts.get() : nullptr;
    l.n = n, l.classes = c.classes;
    for (size_t i = 0; i < params.size(); i++) l.params[i] = params[i];
    for (int i = 0; i < lates; i++) l.params[1 + i] = 77, l.late[l.lates++] = {1 + i, 0.5, late.get() + i};
    l.partial = std::get<2>(made).get();
    if (run_batch(k.id, l) != cudaSuccess) check::fail("%s: not started", what);
    return made;
  });
  const double part = wide ? 1e-11 : 4e-5, narrow = sizeof(G) == 2 ? 8e-3 : part;
  double sums[3] = {0, 0, 0}, size[3] = {0, 0, 0};
  for (int64_t i = 0; i < n; i++) {
    double in[3], want[2] = {0, 0}, sum[3] = {0, 0, 0};
    for (int j = 0; j < k.inputs; j++)
      in[j] = j < k.logits ? check::plain(z[static_cast<size_t>(j)][i])
                           : check::plain(y[static_cast<size_t>(j - k.logits)][i]);
    if (counts[i / c.classes]) apply(k.id, params, in, want, sum);
    for (int j = 0; j < 3; j++) sums[j] += sum[j], size[j] += fabs(sum[j]);
    for (int j = 0; c.gradient && j < k.outputs; j++) {
      const double got = check::plain(j ? std::get<1>(out)[i] : std::get<0>(out)[i]);
      if (!check::near(got, want[j], part, 1) && !check::near(got, want[j], narrow, fabs(want[j])))
        check::fail("%s: output %d at %ld is %g, want %g", what, j, i, got, want[j]);
      check::done++;
    }
  }
  for (int j = 0; j < k.sums; j++) {
    double got = 0;
    for (int64_t b = 0; b < blocks(n); b++) got += std::get<2>(out)[3 * b + j];
    if (!check::near(got, sums[j], part, size[j] + 1))
      check::fail("%s: sum %d is %.9g, want %.9g", what, j, got, sums[j]);
  }
}

template <class Z, class G>
void run_type(const Case& c) {
  using T = std::conditional_t<sizeof(Z) == 8, double, float>;
  if (c.bytes)
    run_case<Z, int8_t, G>(c);
  else
    run_case<Z, T, G>(c);
}

// Row by row: the anchor's part of the contrast, and its derivative in place of the row.
template <class T>
void contrast(int64_t n, int classes, bool holes) {
  char what[100];
  snprintf(what, sizeof what, "contrast %ld rows of %zu bytes, holes %d", n, sizeof(T), holes);
  std::mt19937 r(static_cast<unsigned>(n));
  std::normal_distribution<double> normal(0, 3);
  check::Memory<T> s(n * n);
  check::Memory<int64_t> id(n, check::kAtEnd);
  for (int64_t i = 0; i < n * n; i++) s[i] = static_cast<T>(normal(r));
  int64_t all = 0;
  for (int64_t i = 0; i < n; i++) {
    id[i] = i / 2 % classes; // two of each at least
    if (holes && i / 2 % 3 == 1) id[i] = -1;
    all += id[i] >= 0;
  }
  const auto out = check::in_every_order(what, [&] {
    auto made = std::make_tuple(check::Memory<T>(n * n, check::kAtEnd), check::Memory<double>(n, check::kAtEnd));
    std::copy(s.get(), s.get() + n * n, std::get<0>(made).get());
    if (run_contrast(sizeof(T) == 8, std::get<0>(made).get(), id.get(), n, std::get<1>(made).get(), nullptr) !=
        cudaSuccess)
      check::fail("%s: not started", what);
    return made;
  });
  const double part = sizeof(T) == 8 ? 1e-11 : 1e-5;
  for (int64_t i = 0; i < n; i++) {
    if (id[i] < 0) {
      if (std::get<1>(out)[i] != 0) check::fail("%s: loss of the hole %ld is %g", what, i, std::get<1>(out)[i]);
      for (int64_t j = 0; j < n; j++, check::done++)
        if (std::get<0>(out)[i * n + j] != 0) check::fail("%s: derivative %ld, %ld of a hole", what, i, j);
      continue;
    }
    double top = -INFINITY, total = 0, positives = 0, count = 0;
    for (int64_t j = 0; j < n; j++)
      if (j != i && id[j] >= 0) top = std::max(top, static_cast<double>(s[i * n + j]));
    for (int64_t j = 0; j < n; j++) {
      if (j == i || id[j] < 0) continue;
      total += exp(s[i * n + j] - top);
      if (id[j] == id[i]) positives += s[i * n + j], count++;
    }
    const double loss = -(positives / count - top - log(total)) / static_cast<double>(all);
    if (!check::near(std::get<1>(out)[i], loss, part, 1 + fabs(loss)))
      check::fail("%s: loss of %ld is %g, want %g", what, i, std::get<1>(out)[i], loss);
    for (int64_t j = 0; j < n; j++) {
      const double want = j == i || id[j] < 0 ? 0
                                              : (exp(s[i * n + j] - top) / total - (id[j] == id[i] ? 1 / count : 0)) /
                                                    static_cast<double>(all);
      if (!check::near(std::get<0>(out)[i * n + j], want, part, 1))
        check::fail("%s: derivative %ld, %ld is %g, want %g", what, i, j,
                    static_cast<double>(std::get<0>(out)[i * n + j]), want);
      check::done++;
    }
  }
}

void all() {
  constexpr std::pair<int64_t, int64_t> shapes[] = {{1, 1}, {5, 7}, {64, 64}, {37, 221}, {0, 5}, {3, 0}};
  int turn = 0;
  for (const Kind& k : kKinds)
    for (auto [rows, classes] : shapes)
      for (bool bytes : {true, false})
        for (bool masked : {false, true})
          for (bool exact : {true, false}) {
            const auto where = static_cast<check::Where>(turn++ % 3);
            const Case c{k, rows, classes, bytes, masked, exact, rows != 5 || masked, where};
            run_type<float, float>(c);
            run_type<__nv_bfloat16, __nv_bfloat16>(c);
            if (check::quick) continue;
            run_type<double, double>(c);
            run_type<__half, float>(c);
          }
  for (auto [n, classes] : {std::pair<int64_t, int>{2, 1}, {6, 3}, {64, 5}, {300, 7}, {514, 1}}) {
    for (bool holes : {false, true}) {
      contrast<float>(n, classes, holes);
      contrast<double>(n, classes, holes);
    }
  }
}

} // namespace

int main(int argc, char** argv) { return check::main(argc, argv, all); }

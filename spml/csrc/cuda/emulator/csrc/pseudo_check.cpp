// VLPL's and DAMP's labels beside plain loops with a stable sort.
#include "../../pseudo.h"
#include "check.h"

using namespace spml::cuda;

namespace {

template <class T>
std::vector<int64_t> ascending(int64_t n, const std::function<T(int64_t)>& score,
                               const std::function<bool(int64_t)>& use) {
  std::vector<int64_t> order;
  for (int64_t c = 0; c < n; c++)
    if (use(c)) order.push_back(c);
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t a, int64_t b) { return spml::order_of(score(a)) < spml::order_of(score(b)); });
  return order;
}

template <class T>
T score(std::mt19937& r) { // ties, both zeros, NaN
  const unsigned kind = static_cast<unsigned>(r() % 60);
  if (kind == 0) return static_cast<T>(NAN);
  if (kind == 1) return static_cast<T>(-0.0);
  return static_cast<T>(r() % 12) / 16;
}

template <class T>
void vlpl(int64_t photos, int64_t classes, int64_t negatives, bool keep) {
  char what[120];
  snprintf(what, sizeof what, "vlpl %zu bytes %ldx%ld negatives %ld keep %d", sizeof(T), photos, classes, negatives,
           keep);
  std::mt19937 r(static_cast<unsigned>(classes + negatives));
  check::Memory<T> s(photos * classes, check::kAtEnd);
  check::Memory<uint8_t> taken(photos * classes, check::kAtEnd);
  for (int64_t i = 0; i < s.size(); i++) s[i] = score<T>(r), taken[i] = r() % 5 == 0;
  const T theta = static_cast<T>(0.6);
  const auto out = check::in_every_order(what, [&] {
    auto made = std::make_tuple(check::Memory<int8_t>(photos * classes, check::kAtEnd));
    VlplLaunch l{};
    l.similarity = s.get(), l.taken = keep ? taken.get() : nullptr, l.pseudo = std::get<0>(made).get(),
    l.wide = sizeof(T) == 8;
    l.photos = photos, l.classes = classes, l.negatives = negatives, l.theta = 0.6;
    if (vlpl_labels(l) != cudaSuccess) check::fail("%s: not started", what);
    return made;
  });
  for (int64_t b = 0; b < photos; b++) {
    const T* p = s.get() + b * classes;
    std::vector<int8_t> want(static_cast<size_t>(classes));
    for (int64_t c = 0; c < classes; c++) want[static_cast<size_t>(c)] = p[c] > theta;
    const auto low = ascending<T>(
        classes, [&](int64_t c) { return p[c]; },
        [&](int64_t c) { return !keep || (!(p[c] > theta) && !taken[b * classes + c]); });
    for (size_t i = 0; i < low.size() && static_cast<int64_t>(i) < negatives; i++)
      want[static_cast<size_t>(low[i])] = -1;
    for (int64_t c = 0; c < classes; c++, check::done++)
      if (std::get<0>(out)[b * classes + c] != want[static_cast<size_t>(c)])
        check::fail("%s: photo %ld class %ld is %d, want %d", what, b, c, std::get<0>(out)[b * classes + c],
                    want[static_cast<size_t>(c)]);
  }
}

template <class T>
void damp(int64_t photos, int64_t classes, int64_t patches, int64_t top_k, int64_t negatives, spml::DampForm form) {
  char what[160];
  snprintf(what, sizeof what, "damp %zu bytes %ldx%ld patches %ld top %ld negatives %ld form %ld", sizeof(T), photos,
           classes, patches, top_k, negatives, static_cast<long>(form));
  std::mt19937 r(static_cast<unsigned>(classes + patches + negatives));
  const int64_t n = photos * classes;
  check::Memory<T> global(n, check::kAtEnd), parts(patches * n, check::kAtEnd);
  check::Memory<uint8_t> taken(n, check::kAtEnd);
  check::Memory<int64_t> seen(photos, check::kAtEnd);
  for (int64_t i = 0; i < n; i++) global[i] = score<T>(r), taken[i] = r() % 7 == 0;
  for (int64_t i = 0; i < patches * n; i++) parts[i] = score<T>(r);
  for (int64_t i = 0; i < photos; i++) seen[i] = static_cast<int64_t>(r() % static_cast<unsigned>(classes));
  const auto out = check::in_every_order(what, [&] {
    auto made = std::make_tuple(check::Memory<int8_t>((form == spml::kDampPaper ? 2 : 2) * n, check::kAtEnd),
                                check::Memory<T>(5 * n, check::kAtEnd), check::Memory<T>(photos, check::kAtEnd),
                                check::Memory<int64_t>(n, check::kAtEnd));
    std::fill_n(std::get<0>(made).get(), 2 * n, static_cast<int8_t>(55));
    DampLaunch l{};
    l.global = global.get(), l.patches = parts.get(), l.seen = seen.get(), l.taken = taken.get();
    l.labels = std::get<0>(made).get(), l.scores = std::get<1>(made).get(), l.local = std::get<2>(made).get(),
    l.tile = std::get<3>(made).get();
    l.wide = sizeof(T) == 8, l.photos = photos, l.classes = classes, l.count = patches, l.top_k = top_k,
    l.negatives = negatives, l.form = form, l.nu = 0.4, l.zeta = 0.3;
    if (damp_labels(l) != cudaSuccess) check::fail("%s: not started", what);
    return made;
  });
  const auto& [labels, scores, local, tile] = out;
  const auto size = static_cast<size_t>(classes);
  for (int64_t b = 0; b < photos; b++) {
    const T* g = global.get() + b * classes;
    const T nu = static_cast<T>(0.4), zeta = static_cast<T>(0.3), half = static_cast<T>(0.5),
            limit = g[seen[b]] > nu ? nu : g[seen[b]];
    std::vector<T> final(size), average(size), agg(size), best(size);
    std::vector<int64_t> where(size);
    for (int64_t c = 0; c < classes; c++) {
      const auto at = static_cast<size_t>(c);
      T top = parts[b * classes + c], low = top, sum = top;
      for (int64_t v = 1; v < patches; v++) { // NaN is above everything, of equal ones the first counts
        const T x = parts[(v * photos + b) * classes + c];
        if (top == top && !(x <= top)) top = x, where[at] = v;
        if (low == low && !(x >= low)) low = x;
        sum += x;
      }
      agg[at] = (form == spml::kDampCode ? top > limit : top >= limit) ? top : low;
      best[at] = top;
      final[at] = (g[c] + agg[at]) * half;
      average[at] = (g[c] + sum / static_cast<T>(patches)) * half;
    }
    std::vector<int8_t> before(size), pseudo;
    auto order =
        ascending<T>(classes, [&](int64_t c) { return final[static_cast<size_t>(c)]; }, [](int64_t) { return true; });
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t c) {
      return spml::order_of(final[static_cast<size_t>(a)]) > spml::order_of(final[static_cast<size_t>(c)]) ||
             (spml::order_of(final[static_cast<size_t>(a)]) == spml::order_of(final[static_cast<size_t>(c)]) && a < c);
    });
    for (int64_t i = 0; i < std::min(top_k, classes); i++)
      before[static_cast<size_t>(order[static_cast<size_t>(i)])] =
          final[static_cast<size_t>(order[static_cast<size_t>(i)])] >= zeta;
    pseudo = before;
    const auto low =
        ascending<T>(classes, [&](int64_t c) { return average[static_cast<size_t>(c)]; }, [](int64_t) { return true; });
    for (size_t i = 0; i < low.size() && static_cast<int64_t>(i) < negatives; i++) {
      const auto c = static_cast<size_t>(low[i]);
      if (form != spml::kDampDefault || (before[c] == 0 && !taken[b * classes + low[i]]))
        pseudo[c] = form == spml::kDampCode ? 0 : -1;
    }
    if (!check::near(local[b], limit, 0, 1))
      check::fail("%s: photo %ld local is %g", what, b, static_cast<double>(local[b]));
    for (int64_t c = 0; c < classes; c++, check::done++) {
      const auto k = static_cast<size_t>(c);
      const int64_t at = b * classes + c;
      const bool paper = form == spml::kDampPaper;
      if (labels[n + at] != before[k] || labels[at] != (paper ? 55 : pseudo[k]) || tile[at] != where[k])
        check::fail("%s: photo %ld class %ld: before %d want %d, label %d want %d, tile %ld want %ld", what, b, c,
                    labels[n + at], before[k], labels[at], pseudo[k], tile[at], where[k]);
      const T want[] = {agg[k], final[k], average[k], g[c], best[k]};
      for (int i = 0; i < 5; i++)
        if (!check::near(scores[i * n + at], want[i], 0, 1))
          check::fail("%s: photo %ld class %ld score %d is %g, want %g", what, b, c, i,
                      static_cast<double>(scores[i * n + at]), static_cast<double>(want[i]));
    }
  }
}

void all() {
  for (int64_t classes : {1, 20, 255, 256, 257, 600}) {
    if (check::quick && (classes == 1 || classes == 255)) continue;
    for (int64_t k : {int64_t(0), classes / 3, classes}) {
      for (bool keep : {false, true}) {
        vlpl<float>(3, classes, k, keep);
        vlpl<double>(2, classes, k, keep);
      }
      for (auto form : {spml::kDampDefault, spml::kDampPaper, spml::kDampCount, spml::kDampCode}) {
        damp<float>(2, classes, 1 + classes % 5, 3, k, form);
        damp<double>(1, classes, 4, classes, k, form);
      }
    }
  }
}

} // namespace

int main(int argc, char** argv) { return check::main(argc, argv, all); }

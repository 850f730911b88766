// Bytes to numbers and Pillow's resampling beside plain loops over the same arithmetic, to the bit.
#include "../../input.h"
#include "check.h"

using namespace spml::cuda;

namespace {

template <class T>
void normal(Element element, int64_t images, int64_t height, int64_t width, bool last, bool flips, check::Where where) {
  char what[120];
  snprintf(what, sizeof what, "normalize type %d %ldx%ldx%ld last %d flips %d place %d", element, images, height, width,
           last, flips, where);
  std::mt19937 r(static_cast<unsigned>(images * height * width));
  const int64_t plane = height * width, n = images * plane * 3;
  check::Memory<uint8_t> pixels(n, where);
  for (int64_t i = 0; i < n; i++) pixels[i] = static_cast<uint8_t>(r());
  check::Memory<bool> flip(images, check::kAtEnd);
  for (int64_t i = 0; i < images; i++) flip[i] = r() % 2;
  const float mean[] = {0.485f, 0.456f, 0.406f}, std[] = {0.229f, 0.224f, 0.225f};
  const auto out = check::in_every_order(what, [&] {
    auto made = std::make_tuple(check::Memory<T>(n, where));
    NormalizeLaunch l{};
    l.pixels = pixels.get(), l.flip = flips ? flip.get() : nullptr, l.out = std::get<0>(made).get();
    l.element = element, l.channels_last = last, l.images = images, l.height = height, l.width = width;
    std::copy(mean, mean + 3, l.mean);
    std::copy(std, std + 3, l.std);
    if (normalize(l) != cudaSuccess) check::fail("%s: not started", what);
    return made;
  });
  for (int64_t b = 0; b < images; b++)
    for (int64_t y = 0; y < height; y++)
      for (int64_t x = 0; x < width; x++)
        for (int64_t c = 0; c < 3; c++) {
          const int64_t from = flips && flip[b] ? width - 1 - x : x;
          const T want =
              check::number<T>(spml::normal(pixels[((b * height + y) * width + from) * 3 + c], mean[c], std[c]));
          const T got =
              std::get<0>(out)[last ? ((b * height + y) * width + x) * 3 + c : (b * 3 + c) * plane + y * width + x];
          if (memcmp(&want, &got, sizeof want))
            check::fail("%s: %ld %ld %ld %ld is %g, want %g", what, b, y, x, c, check::plain(got), check::plain(want));
          check::done++;
        }
}

void resize(int64_t images, int64_t height, int64_t width, int64_t out_size, bool rows) {
  char what[120];
  snprintf(what, sizeof what, "resample %ldx%ldx%ld to %ld rows %d", images, height, width, out_size, rows);
  std::mt19937 r(static_cast<unsigned>(images + height * width + out_size));
  const int64_t in_size = rows ? height : width, w = rows ? width : out_size, h = rows ? out_size : height, stride = 5;
  check::Memory<uint8_t> pixels(images * height * width * 3, check::kAtEnd);
  for (int64_t i = 0; i < pixels.size(); i++) pixels[i] = static_cast<uint8_t>(r());
  check::Memory<int32_t> first(out_size, check::kAtEnd), taps(out_size, check::kAtEnd),
      weights(out_size * stride, check::kAtEnd);
  for (int64_t i = 0; i < out_size; i++) {
    first[i] = static_cast<int32_t>(r() % static_cast<unsigned>(in_size));
    taps[i] = static_cast<int32_t>(std::min<int64_t>(in_size - first[i], 1 + static_cast<int64_t>(r() % stride)));
    for (int64_t k = 0; k < stride; k++) weights[i * stride + k] = static_cast<int32_t>(r() % 4000000) - 1000000;
  }
  const auto out = check::in_every_order(what, [&] {
    auto made = std::make_tuple(check::Memory<uint8_t>(images * h * w * 3, check::kAtEnd));
    ResampleLaunch l{};
    l.in = pixels.get(), l.out = std::get<0>(made).get();
    l.axis = {first.get(), taps.get(), weights.get(), out_size, stride};
    l.rows = rows, l.images = images, l.height = height, l.width = width;
    if (resample(l) != cudaSuccess) check::fail("%s: not started", what);
    return made;
  });
  for (int64_t b = 0; b < images; b++)
    for (int64_t y = 0; y < h; y++)
      for (int64_t x = 0; x < w; x++)
        for (int64_t c = 0; c < 3; c++) {
          const int64_t o = rows ? y : x;
          int64_t sum = int64_t(1) << 21;
          for (int64_t k = 0; k < taps[o]; k++)
            sum += static_cast<int64_t>(
                       pixels[((b * height + (rows ? first[o] + k : y)) * width + (rows ? x : first[o] + k)) * 3 + c]) *
                   weights[o * stride + k];
          const int64_t v = static_cast<int32_t>(sum) >> 22, want = v < 0 ? 0 : v > 255 ? 255 : v;
          if (std::get<0>(out)[((b * h + y) * w + x) * 3 + c] != want)
            check::fail("%s: %ld %ld %ld %ld is %d, want %ld", what, b, y, x, c,
                        std::get<0>(out)[((b * h + y) * w + x) * 3 + c], want);
          check::done++;
        }
}

void all() {
  constexpr int64_t shapes[][3] = {{1, 1, 1}, {3, 5, 7}, {2, 32, 30}, {5, 16, 16}, {0, 4, 4}};
  int turn = 0;
  for (const auto& s : shapes)
    for (bool last : {false, true})
      for (bool flips : {false, true}) {
        const auto where = static_cast<check::Where>(turn++ % 3);
        normal<float>(kFloat32, s[0], s[1], s[2], last, flips, where);
        normal<__half>(kFloat16, s[0], s[1], s[2], last, flips, where);
        normal<__nv_bfloat16>(kBFloat16, s[0], s[1], s[2], last, flips, where);
      }
  for (bool rows : {false, true}) {
    resize(1, 1, 1, 1, rows);
    resize(2, 9, 13, 5, rows);
    resize(3, 17, 6, 31, rows);
    resize(1, 4, 4, 0, rows);
  }
}

} // namespace

int main(int argc, char** argv) { return check::main(argc, argv, all); }

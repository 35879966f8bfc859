#include "base/pair_kernels.hpp"

#include "simd/deinterleave.hpp"

namespace halfulp::HALFULP_ISA_NAMESPACE {
namespace {

using std::int32_t;
using std::int64_t;

// Calls f(i) for vectors that cover n items, at least one vector; the last overlaps the one before.
template <int64_t Lanes, class F>
void for_vectors(int64_t n, const F& f) {
  int64_t i = 0;
  for (; i + Lanes <= n; i += Lanes) f(i);
  if (i < n) f(n - Lanes);
}

bool codes(const int64_t* indices, int64_t rows, int64_t columns, int64_t width, std::uint8_t* to) {
  using V = Vector<int32_t>;
  constexpr int64_t lanes = kLanes<int32_t>;
  const V one = splat(int32_t{1}), below = splat(static_cast<int32_t>(width)), beside = below + one;
  const V steps = lane_numbers<int32_t>() * 2;
  V bad{};
  bool good = true;
  for (int64_t row = 0; row < rows; ++row, indices += columns, to += columns) {
    const int64_t first = 2 * row * width;
    if (columns >= lanes) {
      for_vectors<lanes>(columns, [&](int64_t i) {
        const V a = reinterpret<V>(load(indices + i)), b = reinterpret<V>(load(indices + i + lanes / 2));
        const V offset = deinterleaved2<0>(a, b) - steps - splat(static_cast<int32_t>(first + 2 * i));
        const V right = reinterpret<V>(offset == one), lower = reinterpret<V>(offset == below),
                both = reinterpret<V>(offset == beside);
        bad |= deinterleaved2<1>(a, b) | ~(reinterpret<V>(offset == V{}) | right | lower | both);
        store(to + i, narrow_to_bytes(V((right & 1) | (lower & 2) | (both & 3))));
      });
      continue;
    }
    for (int64_t i = 0; i < columns; ++i) {
      const int64_t offset = indices[i] - (first + 2 * i);
      const int code = offset == 1 ? 1 : offset == width ? 2 : offset == width + 1 ? 3 : 0;
      good &= code != 0 || offset == 0;
      to[i] = static_cast<std::uint8_t>(code);
    }
  }
  for (int lane = 0; lane < static_cast<int>(lanes); ++lane) good &= bad[lane] == 0;
  return good;
}

template <class U>
void place_items(const void* from, const std::uint8_t* codes, void* to, void* below, int64_t n) {
  using V = Vector<U>;
  const auto* values = static_cast<const U*>(from);
  auto *upper = static_cast<U*>(to), *lower = static_cast<U*>(below);
  constexpr int64_t lanes = kLanes<U>;
  constexpr int kTop = 8 * static_cast<int>(sizeof(U)) - 8;
  const auto vector = [&](int64_t i) {
    const V code = widen_bytes<U>(codes + i), offset = code & U{0x7f};
    const V value = load(values + i) ^ ((code & U{0x80}) << kTop);
    const auto own = [&](int c) {
      return V(value & reinterpret<V>(offset == splat(static_cast<U>(c))));
    };
    const V a = own(0), b = own(1), c = own(2), d = own(3);
    store(upper + 2 * i, zip_low<U>(a, b));
    store(upper + 2 * i + lanes, zip_high<U>(a, b));
    store(lower + 2 * i, zip_low<U>(c, d));
    store(lower + 2 * i + lanes, zip_high<U>(c, d));
  };
  if (n >= lanes) return for_vectors<lanes>(n, vector);
  for (int64_t i = 0; i < n; ++i) {
    const int offset = codes[i] & 0x7f;
    const auto value = static_cast<U>(values[i] ^ static_cast<U>(static_cast<U>(codes[i] & 0x80) << kTop));
    upper[2 * i] = offset == 0 ? value : U{0};
    upper[2 * i + 1] = offset == 1 ? value : U{0};
    lower[2 * i] = offset == 2 ? value : U{0};
    lower[2 * i + 1] = offset == 3 ? value : U{0};
  }
}

template <class U>
void pick_items(const void* above, const void* below, const std::uint8_t* codes, void* to, int64_t n) {
  using V = Vector<U>;
  const auto *upper = static_cast<const U*>(above), *lower = static_cast<const U*>(below);
  auto* out = static_cast<U*>(to);
  constexpr int64_t lanes = kLanes<U>;
  const auto vector = [&](int64_t i) {
    const V code = widen_bytes<U>(codes + i);
    const auto is_lower = code > splat(U{1});
    const V a = load(upper + 2 * i), b = load(upper + 2 * i + lanes);
    const V c = load(lower + 2 * i), d = load(lower + 2 * i + lanes);
    const V left = select(is_lower, deinterleaved2<0>(c, d), deinterleaved2<0>(a, b));
    const V right = select(is_lower, deinterleaved2<1>(c, d), deinterleaved2<1>(a, b));
    store(out + i, select((code & U{1}) != V{}, right, left));
  };
  if (n >= lanes) return for_vectors<lanes>(n, vector);
  for (int64_t i = 0; i < n; ++i) out[i] = (codes[i] > 1 ? lower : upper)[2 * i + (codes[i] & 1)];
}

void place(const void* values, const std::uint8_t* codes, void* upper, void* lower, int64_t n, int64_t item) {
  if (item == 1) place_items<std::uint8_t>(values, codes, upper, lower, n);
  else if (item == 2) place_items<std::uint16_t>(values, codes, upper, lower, n);
  else if (item == 4) place_items<std::uint32_t>(values, codes, upper, lower, n);
  else place_items<std::uint64_t>(values, codes, upper, lower, n);
}

void pick(const void* upper, const void* lower, const std::uint8_t* codes, void* out, int64_t n, int64_t item) {
  if (item == 1) pick_items<std::uint8_t>(upper, lower, codes, out, n);
  else if (item == 2) pick_items<std::uint16_t>(upper, lower, codes, out, n);
  else if (item == 4) pick_items<std::uint32_t>(upper, lower, codes, out, n);
  else pick_items<std::uint64_t>(upper, lower, codes, out, n);
}

}  // namespace

const PairKernels& pair_kernels() {
  static constexpr PairKernels table{codes, place, pick};
  return table;
}

}  // namespace halfulp::HALFULP_ISA_NAMESPACE

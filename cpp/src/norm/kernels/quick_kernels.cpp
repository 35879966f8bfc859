// Compiled without errno, which roots would have to set.
#include "norm/quick_kernels.hpp"

#include <bit>
#include <cmath>
#include <limits>

#include "norm/kernels/window_sums.hpp"
#include "simd/deinterleave.hpp"
#include "simd/ends.hpp"
#include "simd/inverse_root.hpp"

namespace halfulp::HALFULP_ISA_NAMESPACE {
namespace {

inline std::int32_t size_bits(float x) { return std::bit_cast<std::int32_t>(x) & 0x7fffffff; }

// Up to three rows at once, onto the sums of those before.
template <int Count, bool First>
std::int32_t products(const float* const* x, const float* const* t, double* __restrict squares,
                      double* __restrict dots, std::int64_t n) {
  const float *a = x[0], *b = x[Count > 1 ? 1 : 0], *c = x[Count > 2 ? 2 : 0];
  const float *d = t[0], *e = t[Count > 1 ? 1 : 0], *f = t[Count > 2 ? 2 : 0];
  std::int32_t most = 0;
  const auto meet = [&](float value) { most = size_bits(value) > most ? size_bits(value) : most; };
  for (std::int64_t i = 0; i < n; ++i) {
    double cell = static_cast<double>(a[i]);
    double square = cell * cell, dot = cell * static_cast<double>(d[i]);
    meet(d[i]);
    if constexpr (Count > 1) {
      cell = static_cast<double>(b[i]);
      square += cell * cell;
      dot += cell * static_cast<double>(e[i]);
      meet(e[i]);
    }
    if constexpr (Count > 2) {
      cell = static_cast<double>(c[i]);
      square += cell * cell;
      dot += cell * static_cast<double>(f[i]);
      meet(f[i]);
    }
    squares[i] = First ? square : squares[i] + square;
    dots[i] = First ? dot : dots[i] + dot;
  }
  return most;
}

template <bool First>
std::int32_t products_of(const float* const* x, const float* const* t, std::int64_t count, double* squares,
                         double* dots, std::int64_t n) {
  if (count == 1) return products<1, First>(x, t, squares, dots, n);
  if (count == 2) return products<2, First>(x, t, squares, dots, n);
  return products<3, First>(x, t, squares, dots, n);
}

std::uint32_t sum_products(const float* const* x, const float* const* t, std::int64_t count, double* squares,
                           double* dots, std::int64_t n) {
  std::int32_t most = products_of<true>(x, t, count, squares, dots, n);
  for (std::int64_t row = 3; row < count; row += 3) {
    const std::int32_t more = products_of<false>(x + row, t + row, count - row, squares, dots, n);
    most = more > most ? more : most;
  }
  return static_cast<std::uint32_t>(most);
}

// Calls f with the kernel's stride and count, if they are known.
template <class F>
bool with_window(const RootRun& run, const F& f) {
  if (run.stride == 1 && run.count == 1) f.template operator()<1, 1>();
  else if (run.stride == 1 && run.count == 2) f.template operator()<1, 2>();
  else if (run.stride == 1 && run.count == 3) f.template operator()<1, 3>();
  else if (run.stride == 2 && run.count == 2) f.template operator()<2, 2>();
  else if (run.stride == 2 && run.count == 3) f.template operator()<2, 3>();
  else return false;
  return true;
}

template <int Stride, int Count>
int tangents_of(const double* squares, const double* dots, const RootRun& run, double bound, float* __restrict out,
                float* __restrict tangents) {
  const double below = 1 - run.error, above = 1 + run.error;
  std::int32_t unsure = 0, unsure_tangent = 0;
  for (std::int64_t i = 0; i < run.outputs; ++i) {
    const double y = std::sqrt(window_sum<Stride, Count>(squares, run.dilation, i));
    const float low = static_cast<float>(y * below), high = static_cast<float>(y * above);
    out[i] = low;
    unsure |= low == high ? 0 : 1;  // NaN too
    const double quotient = window_sum<Stride, Count>(dots, run.dilation, i) / y;
    const float least = static_cast<float>(quotient - bound), most = static_cast<float>(quotient + bound);
    tangents[i] = least;
    unsure_tangent |= std::bit_cast<std::int32_t>(least) ^ std::bit_cast<std::int32_t>(most);
    unsure_tangent |= least == most ? 0 : 1;
  }
  return (unsure != 0 ? 1 : 0) | (unsure_tangent != 0 ? 2 : 0);
}

bool window_tangents(const double* squares, const double* dots, const RootRun& run, double bound, float* out,
                     float* tangents, int& undecided) {
  return with_window(run, [&]<int Stride, int Count>() {
    undecided = tangents_of<Stride, Count>(squares, dots, run, bound, out, tangents);
  });
}

// The shares, and what shows that all are good. A sum of 0 has the share 0.
class Shares {
  using Bits = Vector<std::uint64_t>;

 public:
  template <bool Divided>
  void put(double* out, const Doubles& sum, const Doubles& g) {
    const Doubles quotient = Divided ? Doubles(g / square_root(sum)) : Doubles(g * inverse_root(sum));
    const Doubles share = reinterpret<Doubles>(reinterpret<Bits>(quotient) & reinterpret<Bits>(sum != Doubles{}));
    largest_sum_ = max_first(largest_sum_, sum);
    most_ = max_first(most_, magnitude(share));
    total_ += share;
    store(out, share);
  }
  // NaN if a sum is too large or a share is not finite.
  double most() const {
    const double total = sum_of_lanes(total_);
    const bool good = total - total == 0 && largest_lane(largest_sum_) <= kMostRooted;
    return good ? largest_lane(most_) : std::numeric_limits<double>::quiet_NaN();
  }

 private:
  Doubles largest_sum_{}, most_{}, total_{};
};

// With a root and a division, from output i on; NaN if a share or square is not finite.
template <int Stride, int Count>
double plain_shares(const double* squares, const RootRun& run, const float* g, double* __restrict shares,
                    std::int64_t i) {
  std::int64_t most = 0;
  int bad = 0;
  for (; i < run.outputs; ++i) {
    const double sum = window_sum<Stride, Count>(squares, run.dilation, i);
    const double share = sum == 0 ? 0.0 : static_cast<double>(g[i]) / std::sqrt(sum);
    bad |= sum <= std::numeric_limits<double>::max() ? 0 : 1;
    shares[i] = share;
    const std::int64_t size = std::bit_cast<std::int64_t>(share) & std::numeric_limits<std::int64_t>::max();
    most = size > most ? size : most;
  }
  const double largest = std::bit_cast<double>(most);
  return bad == 0 && largest <= std::numeric_limits<double>::max() ? largest : std::numeric_limits<double>::quiet_NaN();
}

template <int Stride, int Count>
double shares_of(const double* squares, const RootRun& run, const float* g, double* shares) {
  // With an estimate and with a root and a division by turns, so that the units of both have work.
  Shares quick;
  const auto put = [&]<bool Divided>(std::int64_t i) {
    quick.put<Divided>(shares + i, window_sums<Stride, Count>(squares, run.dilation, i), load_doubles(g + i));
  };
  std::int64_t i = 0;
  for (; i + 2 * kWide <= run.outputs; i += 2 * kWide) {
    put.template operator()<false>(i);
    put.template operator()<true>(i + kWide);
  }
  for (; i + kWide <= run.outputs; i += kWide) put.template operator()<false>(i);
  const double most = quick.most();
  if (std::isnan(most)) return plain_shares<Stride, Count>(squares, run, g, shares, 0);
  const double rest = plain_shares<Stride, Count>(squares, run, g, shares, i);
  return rest <= most ? most : rest;
}

bool window_shares(const double* squares, const RootRun& run, const float* g, double* shares, double& most) {
  return with_window(run, [&]<int Stride, int Count>() { most = shares_of<Stride, Count>(squares, run, g, shares); });
}

void sum_rows(const double* const* rows, std::int64_t count, double* __restrict sums, std::int64_t n) {
  const double *a = rows[0], *b = rows[1];
  if (count == 2) {
    for (std::int64_t i = 0; i < n; ++i) sums[i] = a[i] + b[i];
    return;
  }
  const double* c = rows[2];
  for (std::int64_t i = 0; i < n; ++i) sums[i] = a[i] + b[i] + c[i];
  for (std::int64_t row = 3; row < count; ++row)
    for (std::int64_t i = 0; i < n; ++i) sums[i] += rows[row][i];
}

// Cells and sums are finite. x (sum - bound) and x (sum + bound) round to the same float, whatever the sign of x; +0 is
// added so that a cell that is 0 has +0.
class Cotangents {
 public:
  explicit Cotangents(double bound) : bound_(splat(bound)) {}
  void put(const float* x, const Doubles& sum, float* out) {
    const Doubles cell = load_doubles(x), zero{};
    ends_.put(out, multiply_add(cell, Doubles(sum - bound_), zero), multiply_add(cell, Doubles(sum + bound_), zero));
  }
  void put_first(const float* x, const Doubles& sum, float* out, std::int64_t count) {
    float cells[kWide] = {}, rounded[kWide];
    for (std::int64_t i = 0; i < count; ++i) cells[i] = x[i];
    put(cells, sum, rounded);
    for (std::int64_t i = 0; i < count; ++i) out[i] = rounded[i];
  }
  bool decided() const { return !ends_.differ(); }

 private:
  Doubles bound_;
  Ends<float> ends_;
};

template <int Taps>
inline Doubles sum_of(const double* shares, const std::int64_t* offset) {
  Doubles sum = load(shares + offset[0]);
  if constexpr (Taps > 1) sum += load(shares + offset[1]);
  if constexpr (Taps > 2) sum += load(shares + offset[2]);
  return sum;
}

template <int Taps>
bool each_cell(const float* x, const double* shares, const ShareTaps& taps, double bound, float* out, std::int64_t n) {
  Cotangents cotangents(bound);
  std::int64_t i = 0;
  for (; i + kWide <= n; i += kWide) cotangents.put(x + i, sum_of<Taps>(shares + i, taps.offset[0]), out + i);
  if (i < n) cotangents.put_first(x + i, sum_of<Taps>(shares + i, taps.offset[0]), out + i, n - i);
  return cotangents.decided();
}

// Cells 2 i and 2 i + 1 by turns.
template <int Even, int Odd>
bool cell_pairs(const float* x, const double* shares, const ShareTaps& taps, double bound, float* out,
                std::int64_t n) {
  Cotangents cotangents(bound);
  std::int64_t i = 0;
  for (; 2 * i < n; i += kWide) {
    const Doubles even = sum_of<Even>(shares + i, taps.offset[0]), odd = sum_of<Odd>(shares + i, taps.offset[1]);
    const Doubles first = zip_low<double>(even, odd), second = zip_high<double>(even, odd);
    const std::int64_t left = n - 2 * i;
    if (left >= 2 * kWide) {
      cotangents.put(x + 2 * i, first, out + 2 * i);
      cotangents.put(x + 2 * i + kWide, second, out + 2 * i + kWide);
      continue;
    }
    cotangents.put_first(x + 2 * i, first, out + 2 * i, left < kWide ? left : kWide);
    if (left > kWide)
      cotangents.put_first(x + 2 * i + kWide, second, out + 2 * i + kWide, left - kWide);
  }
  return cotangents.decided();
}

bool cotangents(const float* x, const double* shares, const ShareTaps& taps, double bound, float* out,
                std::int64_t n) {
  const auto with = [&](auto kernel) { return kernel(x, shares, taps, bound, out, n); };
  const int* const count = taps.taps;
  if (taps.phases == 1) return with(count[0] == 1 ? each_cell<1> : count[0] == 2 ? each_cell<2> : each_cell<3>);
  if (count[0] == 1) return with(count[1] == 1 ? cell_pairs<1, 1> : cell_pairs<1, 2>);
  return with(count[1] == 1 ? cell_pairs<2, 1> : cell_pairs<2, 2>);
}

bool scaled(const float* x, double share, double bound, float* out, std::int64_t n) {
  Cotangents cotangents(bound);
  const Doubles all = splat(share);
  std::int64_t i = 0;
  for (; i + kWide <= n; i += kWide) cotangents.put(x + i, all, out + i);
  if (i < n) cotangents.put_first(x + i, all, out + i, n - i);
  return cotangents.decided();
}

// A block in eight sums of vectors, or one of them for what is left.
template <bool Products>
void block_sums(const float* x, const float* t, std::int64_t n, double& square_sum, double& dot_sum,
                std::int32_t& most) {
  constexpr int kSums = 8;
  double squares[kSums] = {}, dots[kSums] = {};
  std::int64_t i = 0;
  const auto add = [&](std::int64_t at, int sum) {
    const auto cell = static_cast<double>(x[at]);
    squares[sum] += cell * cell;
    if constexpr (Products) {
      dots[sum] += cell * static_cast<double>(t[at]);
      most = size_bits(t[at]) > most ? size_bits(t[at]) : most;
    }
  };
  Doubles square[4] = {}, dot[4] = {};
  for (; i + 4 * kWide <= n; i += 4 * kWide)
    for (int s = 0; s < 4; ++s) {
      const Doubles cells = load_doubles(x + i + s * kWide);
      square[s] = multiply_add(cells, cells, square[s]);
      if constexpr (Products) dot[s] = multiply_add(cells, load_doubles(t + i + s * kWide), dot[s]);
    }
  if constexpr (Products)
    for (std::int64_t j = 0; j < i; ++j) most = size_bits(t[j]) > most ? size_bits(t[j]) : most;
  for (; i < n; ++i) add(i, static_cast<int>(i % kSums));
  double tail = 0, dot_tail = 0;
  for (int s = 0; s < kSums; ++s) {
    tail += squares[s];
    dot_tail += dots[s];
  }
  square_sum += sum_of_lanes(Doubles((square[0] + square[1]) + (square[2] + square[3]))) + tail;
  if constexpr (Products) dot_sum += sum_of_lanes(Doubles((dot[0] + dot[1]) + (dot[2] + dot[3]))) + dot_tail;
}

void whole_sums(const float* x, const float* t, std::int64_t n, double& squares, double& dots, std::uint32_t& most) {
  squares = dots = 0;
  std::int32_t largest = 0;
  for (std::int64_t i = 0; i < n; i += kWholeBlock) {
    const std::int64_t block = n - i < kWholeBlock ? n - i : kWholeBlock;
    if (t == nullptr) block_sums<false>(x + i, t, block, squares, dots, largest);
    else block_sums<true>(x + i, t + i, block, squares, dots, largest);
  }
  most = static_cast<std::uint32_t>(largest);
}

}  // namespace

const QuickNormKernels& quick_norm_kernels() {
  static constexpr QuickNormKernels table{sum_products, window_tangents, window_shares, sum_rows,
                                          cotangents,   scaled,          whole_sums};
  return table;
}

}  // namespace halfulp::HALFULP_ISA_NAMESPACE

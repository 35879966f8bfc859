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

inline Doubles or_zero(const Vector<std::int64_t>& where, const Doubles& x) {
  return reinterpret<Doubles>(where & reinterpret<Vector<std::int64_t>>(x));
}

inline std::int32_t size_bits(float x) { return std::bit_cast<std::int32_t>(x) & 0x7fffffff; }

// Up to three rows at once, onto the sums of those before.
template <int Count, bool First>
void squares(const float* const* rows, double* sums, std::int64_t n) {
  const auto add = [&](std::int64_t i) {
    Doubles sum = First ? Doubles{} : load(sums + i);
    for (int r = 0; r < Count; ++r) {
      const Doubles cells = load_doubles(rows[r] + i);
      sum = multiply_add(cells, cells, sum);
    }
    store(sums + i, sum);
  };
  std::int64_t i = 0;
  for (; i + kWide <= n; i += kWide) add(i);
  if (First && i < n && n >= kWide) return add(n - kWide);  // overlaps the vector before
  for (; i < n; ++i) {
    double sum = First ? 0 : sums[i];
    for (int r = 0; r < Count; ++r) sum += static_cast<double>(rows[r][i]) * static_cast<double>(rows[r][i]);
    sums[i] = sum;
  }
}

template <bool First>
void squares_of(const float* const* rows, std::int64_t count, double* sums, std::int64_t n) {
  if (count == 1) squares<1, First>(rows, sums, n);
  else if (count == 2) squares<2, First>(rows, sums, n);
  else squares<3, First>(rows, sums, n);
}

void sum_squares(const float* const* rows, std::int64_t count, double* sums, std::int64_t n) {
  squares_of<true>(rows, count, sums, n);
  for (std::int64_t row = 3; row < count; row += 3) squares_of<false>(rows + row, count - row, sums, n);
}

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

// With a root, from output i on; whether all are decided. `inverse` may be null.
template <int Stride, int Count>
bool plain_roots(const double* squares, const RootRun& run, float* __restrict out, double* __restrict inverse,
                 std::int64_t i) {
  const double error = (run.units + 2) * 0x1p-53, below = 1 - error, above = 1 + error;
  int unsure = 0;
  for (; i < run.outputs; ++i) {
    const double sum = window_sum<Stride, Count>(squares, run.dilation, i), y = std::sqrt(sum);
    const float low = static_cast<float>(y * below), high = static_cast<float>(y * above);
    out[i] = low;
    unsure |= low == high ? 0 : 1;  // NaN too
    if (inverse == nullptr) continue;
    const double over = y == 0 ? 0.0 : 1 / y;
    inverse[i] = y <= std::numeric_limits<double>::max() ? over : std::numeric_limits<double>::quiet_NaN();
  }
  return unsure == 0;
}

// By inverse roots. A number of so many units of 2^-53 of a root is less than as many of its last place.
template <int Stride, int Count, bool Keep>
bool roots_of(const double* squares, const RootRun& run, float* out, double* inverse) {
  const double units = run.units + 4;
  std::int64_t i = 0;
  if (Keep && units < 0x1p24) {  // else a root is as quick
    const auto margin = static_cast<std::uint32_t>(units);
    Middles middles(margin);
    Doubles largest{}, total{};
    const auto root = [&](std::int64_t at) {
      const Doubles sum = window_sums<Stride, Count>(squares, run.dilation, at);
      const Doubles over = or_zero(sum != Doubles{}, inverse_root(sum));
      largest = max_first(largest, sum);
      total += over;
      if constexpr (Keep) store(inverse + at, over);
      return Doubles(sum * over);
    };
    for (; i + 2 * kWide <= run.outputs; i += 2 * kWide) middles.put(out + i, root(i), root(i + kWide));
    // A sum that inverse_root does not take or that is below 2^-126: the root might be no normal float.
    const bool taken = sum_of_lanes(total) <= 0x1p63 && largest_lane(largest) <= kMostRooted;
    if (!taken || middles.unsure(margin)) i = 0;
  }
  return plain_roots<Stride, Count>(squares, run, out, inverse, i);
}

bool window_roots(const double* squares, const RootRun& run, float* out, double* inverse, bool& undecided) {
  return with_window(run, [&]<int Stride, int Count>() {
    undecided = !(inverse == nullptr ? roots_of<Stride, Count, false>(squares, run, out, inverse)
                                     : roots_of<Stride, Count, true>(squares, run, out, inverse));
  });
}

template <int Stride, int Count>
int tangents_of(const double* squares, const double* dots, const RootRun& run, double bound, float* __restrict out,
                float* __restrict tangents) {
  const double error = (run.units + 2) * 0x1p-53, below = 1 - error, above = 1 + error;
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

double scale_shares(const double* inverse, const float* g, double* __restrict shares, std::int64_t n) {
  Doubles most{}, total{};
  std::int64_t i = 0;
  for (; i + kWide <= n; i += kWide) {
    const Doubles share = load_doubles(g + i) * load(inverse + i);
    const Doubles size = magnitude(share);
    most = max_first(most, size);
    total += size;
    store(shares + i, share);
  }
  double largest = largest_lane(most), sum = sum_of_lanes(total);
  for (; i < n; ++i) {
    shares[i] = static_cast<double>(g[i]) * inverse[i];
    const double size = std::abs(shares[i]);
    largest = size > largest ? size : largest;
    sum += size;
  }
  return sum - sum == 0 ? largest : std::numeric_limits<double>::quiet_NaN();
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
  static constexpr QuickNormKernels table{sum_squares, window_roots, sum_products, window_tangents, scale_shares,
                                          sum_rows,    cotangents,   scaled,       whole_sums};
  return table;
}

}  // namespace halfulp::HALFULP_ISA_NAMESPACE

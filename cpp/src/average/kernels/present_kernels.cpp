// Means of the numbers among pairs of floats. Terms are doubles; a sum is exact if no addition has an error, and only
// its quotient is rounded. -0 is the term that changes no sum, signs of zero included.
#include "average/present_kernels.hpp"

#include "average/kernels/line_values.hpp"
#include "simd/stream.hpp"

namespace halfulp::HALFULP_ISA_NAMESPACE {
namespace {

using std::int64_t;

// Whether sums of up to eight floats of these magnitudes are exact doubles, with a bit to spare for their quotients:
// see SumRange and finish_exact.
bool sums_are_exact(const MagnitudeRange& range) {
  if (range.largest == 0) return true;
  if (range.largest >= Binary32::infinity) return false;
  const auto exponent = [](std::uint64_t bits) { return bits < 1u << 23 ? 1 : static_cast<int>(bits >> 23); };
  return exponent(range.largest) - exponent(range.smallest + 1) <= 24;
}

// The means of the sums' terms, of which there are up to 2 * Rows. The inverse of a number up to eight is off by 2^-54
// at most: its product with a sum is as good as a quotient, see sum_divisor.
template <int Rows>
inline void divide_by_counts(Doubles& low, Doubles& high, const Vector<std::int32_t>& count) {
  if constexpr (Rows <= 2) {
    // The zero of no terms times infinity is NaN.
    static constexpr double inverses[8] = {INFINITY, 1.0, 1.0 / 2, 1.0 / 3, 1.0 / 4, 1.0 / 5, 1.0 / 6, 1.0 / 7};
    Doubles low_inverse, high_inverse;
    look_up(inverses, count, low_inverse, high_inverse);
    low *= low_inverse;
    high *= high_inverse;
  } else {
    low /= widen_low(count);
    high /= widen_high(count);
  }
}

// Whole vectors of outputs, without a look at the error of each addition; false if there may be one.
template <int Rows, bool Sum>
bool exact_pairs(const float* const* rows, float* out, int64_t n, bool streams) {
  using Lanes = Vector<float>;
  using Bits = Vector<std::uint32_t>;
  using Counts = Vector<std::int32_t>;
  constexpr int64_t lanes = kLanes<float>, line = 64 / sizeof(float), ahead = 8 * line;
  MagnitudeScan<float> scan;
  auto magnitudes = scan.lanes();
  for (int64_t i = 0; i < n; i += lanes) {
    Counts count = {};
    Doubles low{}, high{};
    const auto add = [&](const Lanes& cells, bool first) HALFULP_IN_LINE {
      const auto number = cells == cells;
      const Lanes term = select(number, cells, splat(-0.0f));
      count -= reinterpret<Counts>(number);
      magnitudes.take(reinterpret<Bits>(term));
      low = first ? widen_low(term) : low + widen_low(term);
      high = first ? widen_high(term) : high + widen_high(term);
    };
    for (int r = 0; r < Rows; ++r) {
      const Lanes a = load(rows[r] + 2 * i), b = load(rows[r] + 2 * i + lanes);
      for (int64_t k = 0; k < 2 * lanes; k += line) prefetch_line(rows[r] + 2 * i + k + ahead);
      add(phase_of_two<0>(a, b), r == 0);
      add(phase_of_two<1>(a, b), false);
    }
    if constexpr (Sum) {  // the zero of no terms over no terms is NaN
      low += splat(-0.0) / widen_low(count);
      high += splat(-0.0) / widen_high(count);
    } else {
      divide_by_counts<Rows>(low, high, count);
    }
    const Lanes result = in_order(narrow(low, high));
    if (streams) stream(out + i, result);
    else store(out + i, result);
  }
  scan.set_lanes(magnitudes);
  return sums_are_exact(scan.range());
}

struct Total {
  double sum = -0.0, error = 0, count = 0;

  inline void add(float cell) {
    const bool number = cell == cell;
    const double term = number ? static_cast<double>(cell) : -0.0;
    count += number ? 1.0 : 0.0;
    const double next = sum + term;
    const double from_term = next - sum;
    const double from_sum = next - from_term;
    const double low = (sum - from_sum) + (term - from_term);
    error += low * low;
    sum = next;
  }
};

template <int Rows, bool Sum>
bool pairs_of(const float* const* rows, float* __restrict out, std::uint32_t* __restrict unsure, int64_t n) {
  std::uint32_t any = 0;
  for (int64_t i = 0; i < n; ++i) {
    Total t;
    for (int r = 0; r < Rows; ++r) {
      t.add(rows[r][2 * i]);
      t.add(rows[r][2 * i + 1]);
    }
    const double q = Sum ? t.sum : t.sum / t.count;  // the zero of no terms over no terms is NaN
    const double empty = q + (-0.0 / t.count);       // NaN for a sum of nothing
    const float value = static_cast<float>(Sum ? empty : q);
    const float low = static_cast<float>(q * (1 - 0x1p-51)), high = static_cast<float>(q * (1 + 0x1p-51));
    // Powers of two divide exactly, up to the rounding to float.
    const bool exact = Sum || t.count == 1.0 || t.count == 2.0 || t.count == 4.0 || t.count == 8.0 || t.count == 0.0;
    const std::uint32_t doubt = (t.error == 0.0 ? 0u : 1u) | (exact || low == high ? 0u : 1u);
    out[i] = value;
    unsure[i] = doubt;
    any |= doubt;
  }
  return any != 0;
}

template <int Rows, bool Sum>
bool pairs_in(const float* const* rows, float* out, std::uint32_t* unsure, int64_t n, bool streams) {
  const int64_t whole = n / kLanes<float> * kLanes<float>;
  const bool aligned = reinterpret_cast<std::uintptr_t>(out) % kVectorBytes == 0;
  const bool exact = exact_pairs<Rows, Sum>(rows, out, whole, streams && aligned);
  if (exact && whole == n) return false;
  if (!exact && streams) finish_stream();  // before these are written once more
  const int64_t done = exact ? whole : 0;
  const float* rest[Rows];
  for (int r = 0; r < Rows; ++r) rest[r] = rows[r] + 2 * done;
  for (int64_t i = 0; i < done; ++i) unsure[i] = 0;
  return pairs_of<Rows, Sum>(rest, out + done, unsure + done, n - done);
}

template <bool Sum>
bool pairs(const float* const* rows, int64_t count, float* out, std::uint32_t* unsure, int64_t n, bool streams) {
  if (count == 1) return pairs_in<1, Sum>(rows, out, unsure, n, streams);
  if (count == 2) return pairs_in<2, Sum>(rows, out, unsure, n, streams);
  return pairs_in<4, Sum>(rows, out, unsure, n, streams);
}

}  // namespace

const PresentKernels& present_kernels() {
  static constexpr PresentKernels table{{pairs<false>, pairs<true>}};
  return table;
}

}  // namespace halfulp::HALFULP_ISA_NAMESPACE

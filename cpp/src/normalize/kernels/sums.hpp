// Sums over the cells of a run, in vectors. For narrow types in double: chains of few additions, whose results are
// added in pairs of doubles, so that the error does not grow with the length. For kernels only.
#pragma once

#include "normalize/kernels/cells.hpp"
#include "normalize/normalize_kernels.hpp"

namespace halfulp::HALFULP_ISA_NAMESPACE {
namespace {

using VectorPair = PairOf<Doubles>;

HALFULP_ALWAYS_INLINE VectorPair with(const VectorPair& total, const Doubles& block) {
  const VectorPair s = sum_of(total.high, block);
  return fast_sum_of(s.high, Doubles(s.low + total.low));
}
inline Pair lanes_of(const VectorPair& total) {
  Pair sum{0.0, 0.0};
  for (int i = 0; i < kWide; ++i) sum = sum + Pair{total.high[i], total.low[i]};
  return sum;
}
// The same as a double, off by a few units of the sum of the magnitudes.
inline double lane_sum(const VectorPair& total) { return sum_of_lanes(Doubles(total.high + total.low)); }

// Chains of kSteps additions, kChains of them at a time.
constexpr int kSteps = 8, kChains = 4;

// Calls body(chain, reader) for every vector of n items, so that no chain gets more than kSteps between two calls of
// flush(). A reader loads the vector's items of any array, from a given start.
struct WholeVector {
  Index at;
  template <class T>
  HALFULP_ALWAYS_INLINE Doubles operator()(const T* x, double) const {
    return load_doubles(x + at);
  }
  static constexpr Index count() { return kWide; }
};
struct FirstItems {
  Index at, left;
  template <class T>
  HALFULP_ALWAYS_INLINE Doubles operator()(const T* x, double fill) const {
    return load_first_doubles(x + at, left, fill);
  }
  Index count() const { return left; }
};
template <int Chains, class Body, class Flush>
HALFULP_ALWAYS_INLINE void in_chains(Index n, const Body& body, const Flush& flush) {
  constexpr Index round = Chains * kWide;
  Index at = 0;
  for (; at + kSteps * round <= n; at += kSteps * round) {
HALFULP_UNROLL(2)  // else GCC keeps what it has loaded in memory
    for (int step = 0; step < kSteps; ++step)
      for (int chain = 0; chain < Chains; ++chain) body(chain, WholeVector{at + step * round + chain * kWide});
    flush();
  }
  if (at == n) return;
  for (; at + round <= n; at += round)
    for (int chain = 0; chain < Chains; ++chain) body(chain, WholeVector{at + chain * kWide});
  for (; at + kWide <= n; at += kWide) body(0, WholeVector{at});
  if (at < n) body(1, FirstItems{at, n - at});
  flush();
}
// In the last round chain 0 may get Chains - 1 more, chain 1 one more.
constexpr int kLongest = kSteps + kChains;

// With c = x - pivot: the sums of c and c^2, and the largest sum of squares of a chain, which bounds every c^2.
struct MomentSums {
  static constexpr int kBlocks = 8;  // are added in double before they are added to a pair
  VectorPair d{}, q{};
  Doubles most{};

  template <class T>
  void add(const T* x, Index n, double pivot) {
    if (pivot == 0) add_of<false>(x, n, 0.0);
    else add_of<true>(x, n, pivot);
  }

 private:
  template <bool centred, class T>
  HALFULP_ALWAYS_INLINE void add_of(const T* x, Index n, double pivot) {
    const Doubles middle = splat(pivot);
    Doubles ds[kChains]{}, qs[kChains]{};
    VectorPair d_total = d, q_total = q;
    Doubles top = most, d_sum{}, q_sum{};
    int blocks = 0;
    in_chains<kChains>(
        n,
        [&](int chain, const auto& read) HALFULP_IN_LINE {
          Doubles c = read(x, pivot);
          if constexpr (centred) c -= middle;
          ds[chain] += c;
          qs[chain] = multiply_add(c, c, qs[chain]);
        },
        [&]() HALFULP_IN_LINE {
          top = max_first(top, max_first(max_first(qs[0], qs[1]), max_first(qs[2], qs[3])));
          d_sum += (ds[0] + ds[1]) + (ds[2] + ds[3]);
          q_sum += (qs[0] + qs[1]) + (qs[2] + qs[3]);
          for (int i = 0; i < kChains; ++i) ds[i] = qs[i] = Doubles{};
          if (++blocks < kBlocks) return;
          d_total = with(d_total, d_sum);
          q_total = with(q_total, q_sum);
          d_sum = q_sum = Doubles{};
          blocks = 0;
        });
    d = with(d_total, d_sum);
    q = with(q_total, q_sum);
    most = top;
  }
};
// Additions in a chain, two of chains, of blocks, four of lanes; one rounding of c (twice in a square), one of a
// product.
constexpr double kMomentError = (kLongest + 6 + MomentSums::kBlocks + 3) * 0x1p-53 * (1 + 0x1p-20);

// With h = t or t w: the sums of h, h c, h^2, and c^2 where asked for, and the largest sum of h^2 of a chain.
template <bool Squares>
struct ProjectionSums {
  VectorPair h{}, hc{};
  Doubles hh{}, cc{}, most{};

  template <class T, class W>
  void add(const T* x, const T* t, const W* weight, Index n, double pivot) {
    constexpr int chains = 2;
    const Doubles middle = splat(pivot);
    Doubles hs[chains]{}, hcs[chains]{}, hhs[chains]{}, ccs[chains]{};
    VectorPair h_total = h, hc_total = hc;
    Doubles top = most, hh_total = hh, cc_total = cc;
    in_chains<chains>(
        n,
        [&](int chain, const auto& read) HALFULP_IN_LINE {
          const Doubles c = read(x, pivot) - middle;
          Doubles f = read(t, 0.0);
          if constexpr (!std::is_same_v<W, void>) f *= read(weight, 0.0);
          hs[chain] += f;
          hcs[chain] = multiply_add(f, c, hcs[chain]);
          hhs[chain] = multiply_add(f, f, hhs[chain]);
          if constexpr (Squares) ccs[chain] = multiply_add(c, c, ccs[chain]);
        },
        [&]() HALFULP_IN_LINE {
          top = max_first(top, max_first(hhs[0], hhs[1]));
          h_total = with(h_total, Doubles(hs[0] + hs[1]));
          hc_total = with(hc_total, Doubles(hcs[0] + hcs[1]));
          hh_total += hhs[0] + hhs[1];
          if constexpr (Squares) cc_total += ccs[0] + ccs[1];
          for (int i = 0; i < chains; ++i) hs[i] = hcs[i] = hhs[i] = ccs[i] = Doubles{};
        });
    h = h_total;
    hc = hc_total;
    hh = hh_total;
    cc = cc_total;
    most = top;
  }
};
// As above, with a rounding of h.
constexpr double kProjectionError = (kLongest + 5 + 4) * 0x1p-53 * (1 + 0x1p-20);

// The same sums in pairs of doubles for the cells that a double leaves undecided. A chain keeps its sum and the sum of
// the errors of its additions; chains are added as pairs.
class PairSum {
 public:
  HALFULP_ALWAYS_INLINE void add(const VectorPair& x) {
    const VectorPair s = sum_of(chain_.high, x.high);
    chain_.high = s.high;
    chain_.low += s.low + x.low;
    if (++steps_ == kPairSteps) flush();
  }
  Pair sum() {
    flush();
    return lanes_of(total_);
  }

 private:
  static constexpr int kPairSteps = 64;
  void flush() {
    total_ = total_ + sum_of(chain_.high, chain_.low);
    chain_ = VectorPair{};
    steps_ = 0;
  }
  VectorPair chain_{}, total_{};
  int steps_ = 0;
};

inline std::uint32_t largest_bits(const Vector<std::uint32_t>& v) {
  std::uint32_t lanes[kLanes<std::uint32_t>], found = 0;
  store(lanes, v);
  for (const std::uint32_t lane : lanes) found = lane > found ? lane : found;
  return found;
}

// The largest magnitude of a run; infinity or NaN if a number is not finite.
inline double largest_magnitude(const float* x, Index n) {
  using Bits = std::uint32_t;
  constexpr Index width = kLanes<Bits>;
  const Vector<Bits> sign = splat(~Bits{0} >> 1);
  Vector<Bits> most[2]{};
  Index at = 0;
  for (; at + 2 * width <= n; at += 2 * width)
    for (int i = 0; i < 2; ++i)
      most[i] = larger(most[i], Vector<Bits>(load(reinterpret_cast<const Bits*>(x + at + i * width)) & sign));
  if (at < n && n >= 2 * width) {  // the last ones once more, up to the end
    at = n;
    for (int i = 0; i < 2; ++i)
      most[i] = larger(most[i], Vector<Bits>(load(reinterpret_cast<const Bits*>(x + n - (i + 1) * width)) & sign));
  }
  Bits found = largest_bits(larger(most[0], most[1]));
  for (; at < n; ++at) {
    const Bits bits = std::bit_cast<Bits>(x[at]) & (~Bits{0} >> 1);
    found = bits > found ? bits : found;
  }
  return number(std::bit_cast<float>(found));
}

template <class Body>
HALFULP_ALWAYS_INLINE void each_vector(Index n, const Body& body) {
  Index at = 0;
  for (; at + kWide <= n; at += kWide) body(WholeVector{at});
  if (at < n) body(FirstItems{at, n - at});
}

}  // namespace
}  // namespace halfulp::HALFULP_ISA_NAMESPACE

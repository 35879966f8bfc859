// Rows of hard max: fold taps, copy and deal rows out while looking for NaN.
#include "halfulp/max_kernels.hpp"
#include "simd.hpp"

namespace halfulp::HALFULP_ISA_NAMESPACE {
namespace {

using std::int64_t;

// Whether the later x takes the place of best, lane by lane. One comparison for clean values; the compiler makes that
// with its selection a single maximum instruction, whose operand order keeps the first of equal zeros.
template <class C, MaxRule Rule, bool Last, class V>
inline auto takes_over(const V& x, const V& best) {
  if constexpr (!std::is_floating_point_v<C> || Rule == MaxRule::clean) {
    if constexpr (Last) return x >= best;
    else return x > best;
  } else if constexpr (Rule == MaxRule::absent) {
    if constexpr (Last) return (x >= best) | (best != best);
    else return ~(x <= best) & (x == x);
  } else {
    if constexpr (Last) return (x >= best) | (x != x);
    else return ~(x <= best) & (best == best);
  }
}

template <class C, MaxRule Rule, bool Last, int Count>
inline Vector<C> fold_at(const C* const* taps, int count, int64_t i) {
  Vector<C> best = load(taps[0] + i);
  for (int t = 1; t < (Count > 0 ? Count : count); ++t) {
    const Vector<C> x = load(taps[t] + i);
    best = select(takes_over<C, Rule, Last>(x, best), x, best);
  }
  return best;
}

template <class C, MaxRule Rule, bool Last, int Count>
void fold_counted(const C* const* given, int count, C* out, int64_t n) {
  const C* taps[Count > 0 ? Count : 1];
  const C* const* source = given;
  if constexpr (Count > 0) {  // pointers in registers
    for (int t = 0; t < Count; ++t) taps[t] = given[t];
    source = taps;
  }
  for (int64_t i = 0; i < n; i += kLanes<C>) store(out + i, fold_at<C, Rule, Last, Count>(source, count, i));
}

template <class C, MaxRule Rule, bool Last>
void fold(const C* const* taps, int count, C* out, int64_t n) {
  switch (count) {
    case 2: return fold_counted<C, Rule, Last, 2>(taps, count, out, n);
    case 3: return fold_counted<C, Rule, Last, 3>(taps, count, out, n);
    default: return fold_counted<C, Rule, Last, 0>(taps, count, out, n);
  }
}

// Whole vectors, then one that ends at n and overlaps its neighbour; a row shorter than a vector goes by way of a buffer.
template <class C, MaxRule Rule, bool Last>
void fold_exact(const C* const* taps, int count, C* out, int64_t n) {
  const int64_t whole = n / kLanes<C> * kLanes<C>;
  fold<C, Rule, Last>(taps, count, out, whole);
  if (whole == n) return;
  if (n >= kLanes<C>) {
    const int64_t i = n - kLanes<C>;
    store(out + i, fold_at<C, Rule, Last, 0>(taps, count, i));
    return;
  }
  C rest[kLanes<C>];
  store(rest, fold_at<C, Rule, Last, 0>(taps, count, 0));
  std::memcpy(out, rest, static_cast<std::size_t>(n) * sizeof(C));
}

template <class C, class P, MaxRule Rule, bool Last, int Count>
void fold_pair_counted(const C* const* given, const P* const* pairs_given, int count, C* out, P* out_pair, P add,
                       int64_t n) {
  const C* taps[Count > 0 ? Count : 1];
  const P* pairs[Count > 0 ? Count : 1];
  const C* const* source = given;
  const P* const* pair_source = pairs_given;
  if constexpr (Count > 0) {
    for (int t = 0; t < Count; ++t) {
      taps[t] = given[t];
      pairs[t] = pairs_given[t];
    }
    source = taps;
    pair_source = pairs;
  }
  for (int64_t i = 0; i < n; i += kLanes<C>) {
    Vector<C> best = load(source[0] + i);
    Vector<P> pair = load(pair_source[0] + i);
    for (int t = 1; t < (Count > 0 ? Count : count); ++t) {
      const Vector<C> x = load(source[t] + i);
      const auto mask = takes_over<C, Rule, Last>(x, best);
      best = select(mask, x, best);
      pair = select(mask, load(pair_source[t] + i), pair);
    }
    if constexpr (!std::is_floating_point_v<P>) pair += add;
    store(out + i, best);
    store(out_pair + i, pair);
  }
}

template <class C, class P, MaxRule Rule, bool Last>
void fold_pair(const C* const* taps, const P* const* pairs, int count, C* out, P* out_pair, P add, int64_t n) {
  switch (count) {
    case 2: return fold_pair_counted<C, P, Rule, Last, 2>(taps, pairs, count, out, out_pair, add, n);
    case 3: return fold_pair_counted<C, P, Rule, Last, 3>(taps, pairs, count, out, out_pair, add, n);
    default: return fold_pair_counted<C, P, Rule, Last, 0>(taps, pairs, count, out, out_pair, add, n);
  }
}

// Remembers whether a NaN has passed: the bits without their sign, of which NaNs have the largest.
template <class C>
class NanWatch {
 public:
  using Bits = std::make_unsigned_t<int_like<C>>;
  void see(const Vector<C>& v) {
    if constexpr (std::is_floating_point_v<C>) {
      const auto bits = reinterpret<Vector<Bits>>(v);
      const auto doubled = bits + bits;
      largest_ = select(doubled > largest_, doubled, largest_);
    }
  }
  void see_one(C x) { single_ = single_ || x != x; }
  bool found() const {
    if constexpr (!std::is_floating_point_v<C>) return false;
    constexpr Bits infinity = sizeof(C) == 4 ? static_cast<Bits>(0xff000000u) : static_cast<Bits>(0xffe0000000000000u);
    Bits lanes[kLanes<C>];
    store(lanes, largest_);
    bool any = single_;
    for (const Bits bits : lanes) any = any || bits > infinity;
    return any;
  }

 private:
  Vector<Bits> largest_{};
  bool single_ = false;
};

template <class C>
bool copy(const C* source, C* target, int64_t n) {
  NanWatch<C> watch;
  int64_t i = 0;
  for (; i + kLanes<C> <= n; i += kLanes<C>) {
    const Vector<C> v = load(source + i);
    watch.see(v);
    store(target + i, v);
  }
  if (i < n && n >= kLanes<C>) {  // the last vector ends at n
    const Vector<C> v = load(source + n - kLanes<C>);
    watch.see(v);
    store(target + n - kLanes<C>, v);
    return watch.found();
  }
  for (; i < n; ++i) {
    watch.see_one(source[i]);
    target[i] = source[i];
  }
  return watch.found();
}

template <class C, int Ways>
bool deal(const C* source, C* const* targets, int64_t n) {
  NanWatch<C> watch;
  int64_t i = 0;  // items taken; each target has i / Ways
#if defined(__GNUC__) || defined(__clang__)
  if constexpr (Ways == 2) {
    C* const first = targets[0];
    C* const second = targets[1];
    for (; i + 2 * kLanes<C> <= n; i += 2 * kLanes<C>) {
      const Vector<C> a = load(source + i), b = load(source + i + kLanes<C>);
      watch.see(a);
      watch.see(b);
      store(first + i / 2, even<C>(a, b));
      store(second + i / 2, odd<C>(a, b));
    }
  }
#endif
  for (; i + Ways <= n; i += Ways) {
    for (int way = 0; way < Ways; ++way) {
      watch.see_one(source[i + way]);
      targets[way][i / Ways] = source[i + way];
    }
  }
  for (int way = 0; i + way < n; ++way) {
    watch.see_one(source[i + way]);
    targets[way][i / Ways] = source[i + way];
  }
  return watch.found();
}

template <class C, class P>
constexpr MaxRowKernels<C, P> kernels() {
  return {{{fold<C, MaxRule::clean, false>, fold<C, MaxRule::clean, true>},
           {fold<C, MaxRule::absent, false>, fold<C, MaxRule::absent, true>},
           {fold<C, MaxRule::propagate, false>, fold<C, MaxRule::propagate, true>}},
          {{fold_exact<C, MaxRule::clean, false>, fold_exact<C, MaxRule::clean, true>},
           {fold_exact<C, MaxRule::absent, false>, fold_exact<C, MaxRule::absent, true>},
           {fold_exact<C, MaxRule::propagate, false>, fold_exact<C, MaxRule::propagate, true>}},
          {{fold_pair<C, P, MaxRule::clean, false>, fold_pair<C, P, MaxRule::clean, true>},
           {fold_pair<C, P, MaxRule::absent, false>, fold_pair<C, P, MaxRule::absent, true>}},
          copy<C>,
          deal<C, 2>,
          deal<C, 3>};
}

}  // namespace

const MaxKernels& max_kernels() {
  static constexpr MaxKernels table{kernels<float, std::int32_t>(),         kernels<float, float>(),
                                    kernels<double, std::int64_t>(),        kernels<double, double>(),
                                    kernels<std::int8_t, std::int8_t>(),    kernels<std::int16_t, std::int16_t>(),
                                    kernels<std::int32_t, std::int32_t>(),  kernels<std::int64_t, std::int64_t>(),
                                    kernels<std::uint8_t, std::int8_t>(),   kernels<std::uint16_t, std::int16_t>(),
                                    kernels<std::uint32_t, std::int32_t>(), kernels<std::uint64_t, std::int64_t>()};
  return table;
}

}  // namespace halfulp::HALFULP_ISA_NAMESPACE

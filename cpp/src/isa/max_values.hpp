// What the kernels of hard max share: who wins, what has been seen, and taking every so manieth item.
#pragma once

#include "halfulp/max_kernels.hpp"
#include "simd.hpp"

namespace halfulp::HALFULP_ISA_NAMESPACE {
namespace {

using std::int64_t;

template <class M>
inline M not_lanes(const M& mask) {
  if constexpr (std::is_same_v<M, bool>) return !mask;
  else return ~mask;
}

// Whether the later x takes the place of best, lane by lane. One comparison for clean values; the compiler makes that
// with its selection a single maximum instruction, whose operand order keeps the first of equal zeros.
template <class C, MaxRule Rule, bool Last, class V>
inline auto takes_over(const V& x, const V& best) {
  if constexpr (!std::is_floating_point_v<C> || Rule == MaxRule::clean) {
    if constexpr (Last) return x >= best;
    else return x > best;
  } else if constexpr (Rule == MaxRule::absent) {
    if constexpr (Last) return (x >= best) | (best != best);
    else return not_lanes(x <= best) & (x == x);
  } else {
    if constexpr (Last) return (x >= best) | (x != x);
    else return not_lanes(x <= best) & (best == best);
  }
}

// Remembers whether an infinity or NaN has passed: the largest bits without their sign.
template <class C>
class NanWatch {
 public:
  using Bits = std::make_unsigned_t<int_like<C>>;
  void see(const Vector<C>& v) {
    if constexpr (std::is_floating_point_v<C>) {
      const auto bits = reinterpret<Vector<Bits>>(v);
      largest_ = larger_of<Bits>(bits + bits, largest_);
    }
  }
  Contents found() const {
    if constexpr (!std::is_floating_point_v<C>) return Contents::finite;
    constexpr Bits infinity = sizeof(C) == 4 ? static_cast<Bits>(0xff000000u) : static_cast<Bits>(0xffe0000000000000u);
    Bits lanes[kLanes<C>], worst = 0;
    store(lanes, largest_);
    for (const Bits bits : lanes) worst = bits > worst ? bits : worst;
    return worst > infinity ? Contents::nan : worst == infinity ? Contents::infinite : Contents::finite;
  }

 private:
  Vector<Bits> largest_{};
};

// Rows are read once, in order: what comes this much later is asked for now.
constexpr int64_t kPrefetchBytes = 8192;
template <class C>
inline void prefetch(const C* source) {
#if defined(__GNUC__) || defined(__clang__)
  __builtin_prefetch(reinterpret_cast<const char*>(source) + kPrefetchBytes);
#else
  (void)source;
#endif
}

template <class C>
inline void prefetch_row(const C* source, int64_t n) {
  for (int64_t i = 0; i < n; i += 64 / static_cast<int64_t>(sizeof(C))) prefetch(source + i);
}

// Every Ways-th item of so many vectors, from number Way on.
#if defined(__GNUC__) || defined(__clang__)
template <class C, int Way, int... I>
inline Vector<C> third(const Vector<C>* v, std::integer_sequence<int, I...>) {
  constexpr int n = sizeof...(I);
  const Vector<C> two = __builtin_shufflevector(v[0], v[1], (3 * I + Way < 2 * n ? 3 * I + Way : 0)...);
  return __builtin_shufflevector(two, v[2], (3 * I + Way < 2 * n ? I : 3 * I + Way - n)...);
}
template <class C, int Ways, int Way>
inline Vector<C> every(const Vector<C>* v) {
  if constexpr (Ways == 1) return v[0];
  else if constexpr (Ways == 3) return third<C, Way>(v, std::make_integer_sequence<int, kLanes<C>>{});
  else if constexpr (Way == 0) return even<C>(v[0], v[1]);
  else return odd<C>(v[0], v[1]);
}
#else
template <class C, int Ways, int Way>
inline C every(const C* v) { return v[Way]; }
#endif

}  // namespace
}  // namespace halfulp::HALFULP_ISA_NAMESPACE

// What the kernels of hard max share: which of two cells wins, and whether a NaN or an infinity has been read.
#pragma once

#include <limits>
#include <type_traits>

#include "max/max_kernels.hpp"
#include "simd/across.hpp"
#include "simd/deinterleave.hpp"
#include "simd/vector.hpp"

namespace halfulp::HALFULP_ISA_NAMESPACE {
namespace {

using std::int64_t;

// Whether x takes the place of best, lane by lane: the first of equal cells wins. Under every rule the last of them is
// the first in the opposite order.
template <class C, MaxRule Rule, class V>
inline auto takes_over(const V& x, const V& best) {
  if constexpr (!std::is_floating_point_v<C> || Rule == MaxRule::clean) return x > best;
  else if constexpr (Rule == MaxRule::absent) return ~(x <= best) & (x == x);
  else return ~(x <= best) & (best == best);
}

// The winner of best and x.
template <class C, MaxRule Rule, class V>
inline V winner(const V& best, const V& x) {
  if constexpr (!std::is_floating_point_v<C> || Rule == MaxRule::clean) return max_first(best, x);
  else return select(takes_over<C, Rule>(x, best), x, best);
}

// The winner of best and the later x; the last of equal ones if `Last`.
template <class C, MaxRule Rule, bool Last, class V>
inline V later(const V& best, const V& x) {
  return Last ? winner<C, Rule>(x, best) : winner<C, Rule>(best, x);
}

// The same for single values.
template <class C, MaxRule Rule>
inline bool takes_over_one(C x, C best) {
  if constexpr (!std::is_floating_point_v<C> || Rule == MaxRule::clean) return x > best;
  else if constexpr (Rule == MaxRule::absent) return !(x <= best) && x == x;
  else return !(x <= best) && best == best;
}

// What loses against every cell of a clean row.
template <class C>
constexpr C lowest_value() {
  using Limits = std::numeric_limits<C>;
  return std::is_floating_point_v<C> ? -Limits::infinity() : Limits::lowest();
}

// The order of integers: that of cell ^ flip. Floats are compared as they are.
template <class C, int Bytes = kVectorBytes>
class Order {
 public:
  using V = Vector<C, Bytes>;
  explicit Order(std::uint64_t flip) {
    if constexpr (!std::is_floating_point_v<C>) {
      one_ = static_cast<C>(flip);
      flip_ = splat<C, Bytes>(one_);
    }
  }
  V operator()(const V& v) const {
    if constexpr (std::is_floating_point_v<C>) return v;
    else return v ^ flip_;
  }
  C one(C x) const {
    if constexpr (std::is_floating_point_v<C>) return x;
    else return static_cast<C>(x ^ one_);
  }

 private:
  struct Nothing {};
  static constexpr bool kFlips = !std::is_floating_point_v<C>;
  [[no_unique_address]] std::conditional_t<kFlips, V, Nothing> flip_{};
  [[no_unique_address]] std::conditional_t<kFlips, C, Nothing> one_{};
};

// Remembers whether a NaN has been read and, if asked to, an infinity.
template <class C, int Bytes = kVectorBytes, bool Infinities = false>
class NanWatch {
 public:
  using V = Vector<C, Bytes>;
  void see(const V& v) { see(v, v); }
  void see(const V& a, const V& b) {
    if constexpr (std::is_floating_point_v<C>) {
      nan_.see(a, b);
      if constexpr (Infinities) infinite_.see(a - a, b - b);  // NaN of an infinity
    }
  }
  void see_one(C x) { nan_one_ |= x != x; }
  Contents found() const {
    if constexpr (!std::is_floating_point_v<C>) return Contents::finite;
    if (nan_one_ || nan_.any()) return Contents::nan;
    return Infinities && infinite_.any() ? Contents::infinite : Contents::finite;
  }

 private:
  NanLanes<V> nan_, infinite_;
  bool nan_one_ = false;
};

// The bits of a half type as an integer whose order is that of the numbers, +0 after -0; and back.
template <class V>
inline V sortable_key(const V& bits) {
  return bits ^ ((bits >> 15) & 0x7fff);
}

// Remembers whether keys of NaN or of -0 have been read: by the largest magnitude, and by the largest key as an
// unsigned integer, which is that of -0.
template <int Bytes = kVectorBytes>
class KeyWatch {
 public:
  using V = Vector<std::int16_t, Bytes>;
  using U = Vector<std::uint16_t, Bytes>;
  void see(const V& bits, const V& key) {
    magnitude_ = max_first(magnitude_, V(bits & 0x7fff));
    key_ = max_first(key_, reinterpret<U>(key));
  }
  bool clean(std::int16_t infinity) const {
    std::int16_t magnitude[kLanes<std::int16_t, Bytes>];
    std::uint16_t key[kLanes<std::int16_t, Bytes>];
    store(magnitude, magnitude_);
    store(key, key_);
    bool clean = true;
    for (int i = 0; i < kLanes<std::int16_t, Bytes>; ++i)
      clean = clean && magnitude[i] <= infinity && key[i] != 0xffff;
    return clean;
  }

 private:
  V magnitude_{};
  U key_{};
};

// Rows are read once, in order: what comes this much later is asked for now.
constexpr int64_t kPrefetchBytes = 6144;
template <class C>
inline void prefetch(const C* source) {
  prefetch_line(reinterpret_cast<const char*>(source) + kPrefetchBytes);
}

template <class C>
inline void prefetch_row(const C* source, int64_t n) {
  for (int64_t i = 0; i < n; i += 64 / static_cast<int64_t>(sizeof(C))) prefetch(source + i);
}

// Items Phase, Phase + Phases, ... of so many vectors.
template <int Phases, int Phase, class V>
inline V phase_of(const V* v) {
  if constexpr (Phases == 1) return v[0];
  else if constexpr (Phases == 3) return deinterleaved3<Phase>(v);
  else return deinterleaved2<Phase>(v[0], v[1]);
}

}  // namespace
}  // namespace halfulp::HALFULP_ISA_NAMESPACE

// What the kernels of hard max share: which of two cells wins, and whether a NaN or an infinity has been read.
#pragma once

#include "max/max_kernels.hpp"
#include "simd/deinterleave.hpp"
#include "simd/vector.hpp"

namespace halfulp::HALFULP_ISA_NAMESPACE {
namespace {

using std::int64_t;

// Whether the later x takes the place of best, lane by lane.
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

// The winner of best and of the later x.
template <class C, MaxRule Rule, bool Last, class V>
inline V winner(const V& best, const V& x) {
  if constexpr (!std::is_floating_point_v<C>) return max_first(best, x);  // equal integers cannot be told apart
  else if constexpr (Rule == MaxRule::clean) return Last ? max_last(best, x) : max_first(best, x);
  else return select(takes_over<C, Rule, Last>(x, best), x, best);
}

// The same for single values.
template <class C, MaxRule Rule, bool Last = false>
inline bool takes_over_one(C x, C best) {
  const bool larger = Last ? x >= best : x > best;
  if constexpr (!std::is_floating_point_v<C> || Rule == MaxRule::clean) return larger;
  else if constexpr (Rule == MaxRule::absent) return Last ? larger || best != best : !(x <= best) && x == x;
  else return Last ? larger || x != x : !(x <= best) && best == best;
}

// Remembers whether a NaN has been read and, if asked to, an infinity.
template <class C, int Bytes = kVectorBytes, bool Infinities = false>
class NanWatch {
 public:
  using V = Vector<C, Bytes>;
  void see(const V& v) { see(v, v); }
  void see(const V& a, const V& b) {
    if constexpr (std::is_floating_point_v<C>) {
      nan_ |= reinterpret<Mask>((a != a) | (b != b));
      if constexpr (Infinities) {  // their difference is not zero
        const V zero{};
        infinite_ |= reinterpret<Mask>(((a - a) != zero) | ((b - b) != zero));
      }
    }
  }
  void see_one(C x) { nan_one_ |= x != x; }
  Contents found() const {
    if constexpr (!std::is_floating_point_v<C>) return Contents::finite;
    if (nan_one_ || any(nan_)) return Contents::nan;
    return Infinities && any(infinite_) ? Contents::infinite : Contents::finite;
  }

 private:
  using Mask = Vector<int_like<C>, Bytes>;
  static bool any(const Mask& mask) {
    int_like<C> lanes[kLanes<C, Bytes>], joined = 0;
    store(lanes, mask);
    for (const auto lane : lanes) joined |= lane;
    return joined != 0;
  }
  Mask nan_{}, infinite_{};
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
constexpr int64_t kPrefetchBytes = 2048;
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

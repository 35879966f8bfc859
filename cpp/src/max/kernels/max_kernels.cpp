// Rows of hard max: fold taps, copy and deinterleave rows while looking for NaN; windows.hpp has the small windows.
#include "max/kernels/values.hpp"
#include "max/kernels/windows.hpp"

namespace halfulp::HALFULP_ISA_NAMESPACE {
namespace {

// Rows that are laid out come with padding, which an infinity may equal.
template <class C>
using RowWatch = NanWatch<C, kVectorBytes, true>;

template <class C, int Count>
struct Taps {  // pointers of a known number of taps stay in registers
  const C* pointers[Count > 0 ? Count : 1];
  const C* const* given;
  Taps(const C* const* taps, int64_t offset) : given(taps) {
    for (int t = 0; t < Count; ++t) pointers[t] = taps[t] + offset;
  }
  const C* operator()(int t, int64_t offset) const {
    if constexpr (Count > 0) return pointers[t];
    else return given[t] + offset;
  }
};

template <class C, MaxRule Rule, bool Last, int Count>
inline Vector<C> fold_at(const Taps<C, Count>& taps, int count, int64_t offset, int64_t i) {
  Vector<C> best = load(taps(0, offset) + i);
  for (int t = 1; t < (Count > 0 ? Count : count); ++t) {
    const Vector<C> x = load(taps(t, offset) + i);
    best = winner<C, Rule, Last>(best, x);
  }
  return best;
}

// Exact: whole vectors, then one that ends at n and overlaps its neighbour.
template <class C, MaxRule Rule, bool Last, int Count, bool Exact>
void fold_counted(const C* const* given, int count, C* out, const RowRun& rows) {
  const int64_t n = rows.items, whole = Exact ? n / kLanes<C> * kLanes<C> : n;
  for (int64_t r = 0; r < rows.count; ++r) {
    const int64_t offset = r * rows.from_step;
    const Taps<C, Count> taps(given, offset);
    C* const target = out + r * rows.to_step;
    for (int64_t i = 0; i < whole; i += kLanes<C>)
      store(target + i, fold_at<C, Rule, Last, Count>(taps, count, offset, i));
    if (!Exact || whole == n) continue;
    if (n >= kLanes<C>) {
      const int64_t i = n - kLanes<C>;
      store(target + i, fold_at<C, Rule, Last, Count>(taps, count, offset, i));
      continue;
    }
    store_first<C>(target, fold_at<C, Rule, Last, Count>(taps, count, offset, 0), n);
  }
}

template <class C, MaxRule Rule, bool Last, bool Exact>
void fold(const C* const* taps, int count, C* out, const RowRun& rows) {
  switch (count) {
    case 2: return fold_counted<C, Rule, Last, 2, Exact>(taps, count, out, rows);
    case 3: return fold_counted<C, Rule, Last, 3, Exact>(taps, count, out, rows);
    case 4: return fold_counted<C, Rule, Last, 4, Exact>(taps, count, out, rows);
    default: return fold_counted<C, Rule, Last, 0, Exact>(taps, count, out, rows);
  }
}

template <class C, MaxRule Rule, bool Last>
void suffixes(C* rows, const RowRun& run) {
  for (int64_t i = 0; i < run.items; i += kLanes<C>) {
    C* row = rows + (run.count - 1) * run.from_step + i;
    Vector<C> best = load(row);
    for (int64_t r = run.count - 1; r > 0; --r) {
      row -= run.from_step;
      const Vector<C> x = load(row);
      best = winner<C, Rule, Last>(x, best);
      store(row, best);
    }
  }
}

template <class C, MaxRule Rule, bool Last>
inline Vector<C> later(const Vector<C>& best, const Vector<C>& x) {
  return winner<C, Rule, Last>(best, x);
}

// Count vectors side by side, the last of them cut to `rest` items.
template <class C, MaxRule Rule, bool Last, int Count>
void slide_some(const C* suffix, const C* rows, C* out, const SlideRun& run, int64_t rest) {
  Vector<C> prefix[Count];
  for (int j = 0; j < Count; ++j) prefix[j] = load(rows + j * kLanes<C>);
  int64_t next = 1;
  for (int64_t s = 0; s < run.count; ++s, out += run.out_step) {
    const SlideStep step = run.steps[s];
    for (; next < step.stop; ++next)
      for (int j = 0; j < Count; ++j)
        prefix[j] = later<C, Rule, Last>(prefix[j], load(rows + next * run.row_step + j * kLanes<C>));
    for (int j = 0; j < Count; ++j) {
      Vector<C> best = prefix[j];
      if (step.suffix >= 0) {
        best = load(suffix + step.suffix * run.row_step + j * kLanes<C>);
        if (step.stop > 0) best = later<C, Rule, Last>(best, prefix[j]);
      }
      if (j + 1 < Count || rest >= kLanes<C>) store(out + j * kLanes<C>, best);
      else store_first<C>(out + j * kLanes<C>, best, rest);
    }
  }
}

template <class C, MaxRule Rule, bool Last>
void slide(const C* suffix, const C* rows, C* out, const SlideRun& run) {
  constexpr int64_t lanes = kLanes<C>;
  int64_t i = 0;
  const auto some = [&](auto kernel, int64_t count) {
    kernel(suffix + i, rows + i, out + i, run, run.items - i - (count - 1) * lanes);
    i += count * lanes;
  };
  while (run.items - i > 3 * lanes) some(slide_some<C, Rule, Last, 4>, 4);
  if (run.items - i > 2 * lanes) some(slide_some<C, Rule, Last, 3>, 3);
  else if (run.items - i > lanes) some(slide_some<C, Rule, Last, 2>, 2);
  else if (run.items > i) some(slide_some<C, Rule, Last, 1>, 1);
}

// The payload of tap t is its pair, if there are any, plus t times `step`.
template <class C, class P, MaxRule Rule, bool Last, int Count, bool Pairs>
class PairFold {
 public:
  PairFold(const C* const* taps, const P* const* pairs, int count, P add, P step, int64_t offset)
      : taps_(taps, offset), pairs_(pairs, offset), count_(count), offset_(offset), add_(add), step_(step) {}

  void operator()(int64_t i, Vector<C>& best, Vector<P>& pair) const {
    best = load(taps_(0, offset_) + i);
    pair = pair_at(0, i);
    for (int t = 1; t < (Count > 0 ? Count : count_); ++t) {
      const Vector<C> x = load(taps_(t, offset_) + i);
      const auto mask = takes_over<C, Rule, Last>(x, best);
      best = select(mask, x, best);
      pair = select(mask, pair_at(t, i), pair);
    }
    if constexpr (!std::is_floating_point_v<P>) pair += splat(add_);
  }

 private:
  Vector<P> pair_at(int t, int64_t i) const {
    if constexpr (std::is_floating_point_v<P>) return load(pairs_(t, offset_) + i);
    else if constexpr (Pairs) return load(pairs_(t, offset_) + i) + splat(static_cast<P>(t * step_));
    else return splat(static_cast<P>(t * step_));
  }

  Taps<C, Count> taps_;
  Taps<P, Pairs ? Count : 0> pairs_;
  int count_;
  int64_t offset_;
  P add_, step_;
};

template <class C, class P, MaxRule Rule, bool Last, int Count, bool Pairs>
void fold_pair_counted(const C* const* taps, const P* const* pairs, int count, C* out, P* out_pair, P add, P step,
                       const RowRun& rows) {
  for (int64_t r = 0; r < rows.count; ++r) {
    const PairFold<C, P, Rule, Last, Count, Pairs> fold(taps, pairs, count, add, step, r * rows.from_step);
    for (int64_t i = 0; i < rows.items; i += kLanes<C>) {
      Vector<C> best;
      Vector<P> pair;
      fold(i, best, pair);
      store(out + r * rows.to_step + i, best);
      store(out_pair + r * rows.to_step + i, pair);
    }
  }
}

template <class C, class P, MaxRule Rule, bool Last, bool Pairs>
void fold_pair_any(const C* const* taps, const P* const* pairs, int count, C* out, P* out_pair, P add, P step,
                   const RowRun& rows) {
  const auto fold = count == 2   ? fold_pair_counted<C, P, Rule, Last, 2, Pairs>
                    : count == 3 ? fold_pair_counted<C, P, Rule, Last, 3, Pairs>
                                 : fold_pair_counted<C, P, Rule, Last, 0, Pairs>;
  fold(taps, pairs, count, out, out_pair, add, step, rows);
}

template <class C, class P, MaxRule Rule, bool Last>
void fold_pair(const C* const* taps, const P* const* pairs, int count, C* out, P* out_pair, P add, P step,
               const RowRun& rows) {
  if constexpr (std::is_floating_point_v<C>) {  // integers have no payload
    if constexpr (!std::is_floating_point_v<P>)
      if (pairs == nullptr)
        return fold_pair_any<C, P, Rule, Last, false>(taps, pairs, count, out, out_pair, add, step, rows);
    fold_pair_any<C, P, Rule, Last, true>(taps, pairs, count, out, out_pair, add, step, rows);
  }
}

template <class P>
inline void store_bytes(std::uint8_t* target, const Vector<P>& v, int64_t count) {
  const auto bytes = narrow_to_bytes(v);
  if (count >= kLanes<P>) std::memcpy(target, &bytes, sizeof bytes);
  else std::memcpy(target, &bytes, static_cast<std::size_t>(count));
}

template <class C, class P>
using Carried = typename MaxRowKernels<C, P>::Carried;

template <class C, class P, MaxRule Rule, bool Last, int Count>
void fold_pair_exact_counted(const C* const* taps, const P* const* pairs, int count, C* out, Carried<C, P>* out_pair,
                             P add, P step, const RowRun& rows) {
  const int64_t n = rows.items;
  for (int64_t r = 0; r < rows.count; ++r) {
    const PairFold<C, P, Rule, Last, Count, true> fold(taps, pairs, count, add, step, r * rows.from_step);
    C* const target = out + r * rows.to_step;
    Carried<C, P>* const carried = out_pair + r * rows.to_step;
    // The last vector ends at n and overlaps its neighbour, if the row is long enough.
    for (int64_t next = 0; next < n; next += kLanes<C>) {
      const int64_t i = n >= kLanes<C> && next + kLanes<C> > n ? n - kLanes<C> : next;
      Vector<C> best;
      Vector<P> pair;
      fold(i, best, pair);
      if (n >= kLanes<C>) store(target + i, best);
      else store_first<C>(target, best, n);
      if constexpr (!std::is_floating_point_v<P>) store_bytes<P>(carried + i, pair, n - i);
      else if (n >= kLanes<C>) store(carried + i, pair);
      else store_first<P>(carried, pair, n);
    }
  }
}

template <class C, class P, MaxRule Rule, bool Last>
void fold_pair_exact(const C* const* taps, const P* const* pairs, int count, C* out, Carried<C, P>* out_pair, P add,
                     P step, const RowRun& rows) {
  if constexpr (std::is_floating_point_v<C>) {
    const auto fold = count == 2   ? fold_pair_exact_counted<C, P, Rule, Last, 2>
                      : count == 3 ? fold_pair_exact_counted<C, P, Rule, Last, 3>
                                   : fold_pair_exact_counted<C, P, Rule, Last, 0>;
    fold(taps, pairs, count, out, out_pair, add, step, rows);
  }
}

template <class C, MaxRule Rule>
C largest(const C* values, int64_t n) {
  C best = values[0];
  int64_t i = 1;
  if (n >= 4 * kLanes<C>) {  // four vectors at a time, so that one maximum does not wait for the other
    Vector<C> parts[4];
    for (int p = 0; p < 4; ++p) parts[p] = load(values + p * kLanes<C>);
    for (i = 4 * kLanes<C>; i + 4 * kLanes<C> <= n; i += 4 * kLanes<C>) {
      for (int p = 0; p < 4; ++p) {
        const Vector<C> x = load(values + i + p * kLanes<C>);
        prefetch(values + i + p * kLanes<C>);
        parts[p] = winner<C, Rule, false>(parts[p], x);
      }
    }
    for (int p = 1; p < 4; ++p) parts[0] = winner<C, Rule, false>(parts[0], parts[p]);
    C lanes[kLanes<C>];
    store(lanes, parts[0]);
    for (const C x : lanes) best = takes_over_one<C, Rule>(x, best) ? x : best;
  }
  for (; i < n; ++i) best = takes_over_one<C, Rule>(values[i], best) ? values[i] : best;
  return best;
}

template <class C>
void copy_row(const C* source, C* target, int64_t n, RowWatch<C>& watch) {
  int64_t i = 0;
  for (; i + kLanes<C> <= n; i += kLanes<C>) {
    const Vector<C> v = load(source + i);
    prefetch(source + i);
    watch.see(v);
    store(target + i, v);
  }
  if (i == n) return;
  if (n >= kLanes<C>) {  // the last vector ends at n
    const Vector<C> v = load(source + n - kLanes<C>);
    watch.see(v);
    store(target + n - kLanes<C>, v);
    return;
  }
  const Vector<C> v = load_first(source, n);
  watch.see(v);
  store_first<C>(target, v, n);
}

template <class C>
Contents copy(const C* source, C* target, const RowRun& rows) {
  RowWatch<C> watch;
  for (int64_t r = 0; r < rows.count; ++r)
    copy_row(source + r * rows.from_step, target + r * rows.to_step, rows.items, watch);
  return watch.found();
}

// The next items of a row, at most Ways vectors of them.
template <class C, int Ways, int... Way>
inline void deinterleave_some(const C* source, C* const* targets, int64_t left, RowWatch<C>& watch,
                      std::integer_sequence<int, Way...>) {
  constexpr int64_t lanes = kLanes<C>;
  Vector<C> v[Ways];
  if (left >= Ways * lanes) {
    for (int way = 0; way < Ways; ++way) {
      v[way] = load(source + way * lanes);
      prefetch(source + way * lanes);
      watch.see(v[way]);
    }
    (store(targets[Way], phase_of<Ways, Way>(v)), ...);
    return;
  }
  for (int way = 0; way < Ways; ++way) {
    const int64_t rest = left - way * lanes;
    const C* const from = source + way * lanes;
    v[way] = rest >= lanes ? load(from) : rest > 0 ? load_first(from, rest) : Vector<C>{};
    watch.see(v[way]);
  }
  const auto put = [](C* target, const Vector<C>& items, int64_t count) {
    if (count > 0) store_first<C>(target, items, count);
  };
  (put(targets[Way], phase_of<Ways, Way>(v), (left - Way + Ways - 1) / Ways), ...);
}

template <class C, int Ways>
Contents deinterleave(const C* source, C* const* targets, const RowRun& rows) {
  RowWatch<C> watch;
  for (int64_t r = 0; r < rows.count; ++r) {
    const C* const from = source + r * rows.from_step;
    for (int64_t i = 0; i < rows.items; i += Ways * kLanes<C>) {
      C* to[Ways];
      for (int way = 0; way < Ways; ++way) to[way] = targets[way] + r * rows.to_step + i / Ways;
      deinterleave_some<C, Ways>(from + i, to, rows.items - i, watch, std::make_integer_sequence<int, Ways>{});
    }
  }
  return watch.found();
}

template <class C>
inline void fill(C* target, int64_t n, C value) {
  const Vector<C> v = splat(value);
  for (int64_t i = 0; i < n; i += kLanes<C>) {
    if (n - i >= kLanes<C>) store(target + i, v);
    else store_first<C>(target + i, v, n - i);
  }
}

template <class C>
void extend(C* data, const RowRun& rows, int64_t before, int64_t places) {
  for (int64_t r = 0; r < rows.count; ++r) {
    C* const row = data + r * rows.from_step;
    const int64_t end = before + rows.items;
    fill(row, before, row[before]);
    fill(row + end, places - end, row[end - 1]);
  }
}

bool to_keys(const std::int16_t* cells, std::int16_t* keys, int64_t n, std::int16_t keep, std::int16_t flip,
             std::int16_t infinity) {
  constexpr int64_t wide = kLanes<std::int16_t>;
  KeyWatch<> watch;
  const auto key = [&](const Vector<std::int16_t>& v) { return sortable_key((v & splat(keep)) ^ splat(flip)); };
  int64_t i = 0;
  for (; i + wide <= n; i += wide) {
    prefetch(cells + i);
    const auto bits = load(cells + i), v = key(bits);
    watch.see(bits, v);
    store(keys + i, v);
  }
  if (i < n) {
    const int64_t left = n - i;
    // Lanes beyond are zero, of which the key may be that of -0.
    const auto bits = load_first(cells + i, left), v = key(bits);
    alignas(kVectorBytes) std::int16_t some[wide] = {};
    store_first(some, v, left);
    watch.see(bits, load(some));
    store_first(keys + i, v, left);
  }
  return watch.clean(infinity);
}

void from_keys(std::int16_t* keys, int64_t n, std::int16_t flip) {
  constexpr int64_t wide = kLanes<std::int16_t>;
  int64_t i = 0;
  for (; i + wide <= n; i += wide) store(keys + i, sortable_key(load(keys + i)) ^ splat(flip));
  for (; i < n; ++i) keys[i] = static_cast<std::int16_t>(sortable_key(keys[i]) ^ flip);
}

// Integers have no NaN, and equal ones cannot be told apart: one rule and one order serve for all.
template <class C>
constexpr MaxRule rule_for(MaxRule rule) {
  return std::is_floating_point_v<C> ? rule : MaxRule::clean;
}

template <class C, bool Last>
constexpr Contents (*runs_of_sixteen())(const C*, C*, const RowRun&) {
  if constexpr (sizeof(C) >= 4) return sixteens<C, Last>;
  else return nullptr;
}

template <class C, class P>
constexpr MaxRowKernels<C, P> kernels() {
  constexpr MaxRule clean = MaxRule::clean, absent = rule_for<C>(MaxRule::absent),
                    nan = rule_for<C>(MaxRule::propagate);
  constexpr bool last = std::is_floating_point_v<C>;
  return {{{fold<C, clean, false, false>, fold<C, clean, last, false>},
           {fold<C, absent, false, false>, fold<C, absent, last, false>},
           {fold<C, nan, false, false>, fold<C, nan, last, false>}},
          {{fold<C, clean, false, true>, fold<C, clean, last, true>},
           {fold<C, absent, false, true>, fold<C, absent, last, true>},
           {fold<C, nan, false, true>, fold<C, nan, last, true>}},
          {{fold_pair<C, P, clean, false>, fold_pair<C, P, clean, last>},
           {fold_pair<C, P, absent, false>, fold_pair<C, P, absent, last>}},
          {{fold_pair_exact<C, P, clean, false>, fold_pair_exact<C, P, clean, last>},
           {fold_pair_exact<C, P, absent, false>, fold_pair_exact<C, P, absent, last>}},
          {largest<C, clean>, largest<C, absent>, largest<C, nan>},
          copy<C>,
          deinterleave<C, 2>,
          deinterleave<C, 3>,
          {window_kernels<C, P, 1>(), window_kernels<C, P, 2>()},
          {fours<C, false>, fours<C, last>},
          {runs_of_sixteen<C, false>(), runs_of_sixteen<C, last>()},
          extend<C>,
          {{suffixes<C, clean, false>, suffixes<C, clean, last>},
           {suffixes<C, absent, false>, suffixes<C, absent, last>},
           {suffixes<C, nan, false>, suffixes<C, nan, last>}},
          {{slide<C, clean, false>, slide<C, clean, last>},
           {slide<C, absent, false>, slide<C, absent, last>},
           {slide<C, nan, false>, slide<C, nan, last>}}};
}

}  // namespace

const MaxKernels& max_kernels() {
  static constexpr MaxKernels table{{to_keys, from_keys},
                                    kernels<float, std::int32_t>(),         kernels<float, float>(),
                                    kernels<double, std::int64_t>(),        kernels<double, double>(),
                                    kernels<std::int8_t, std::int8_t>(),    kernels<std::int16_t, std::int16_t>(),
                                    kernels<std::int32_t, std::int32_t>(),  kernels<std::int64_t, std::int64_t>(),
                                    kernels<std::uint8_t, std::int8_t>(),   kernels<std::uint16_t, std::int16_t>(),
                                    kernels<std::uint32_t, std::int32_t>(), kernels<std::uint64_t, std::int64_t>()};
  return table;
}

}  // namespace halfulp::HALFULP_ISA_NAMESPACE

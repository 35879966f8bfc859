// Rows of hard max: fold taps, copy and deinterleave rows while looking for NaN; windows.hpp has the small windows.
#include "max/kernels/values.hpp"
#include "max/kernels/columns_first.hpp"
#include "max/kernels/staged_columns.hpp"

namespace halfulp::HALFULP_ISA_NAMESPACE {
namespace {

// Rows that are laid out come with padding, which an infinity may equal.
template <class C>
using RowWatch = NanWatch<C, kVectorBytes, true>;

template <class C, int Count>
struct Taps {  // pointers of a known number of taps stay in registers
  const C* pointers[Count > 0 ? Count : 1];
  const void* const* given;
  Taps(const void* const* taps, int64_t offset) : given(taps) {
    for (int t = 0; t < Count; ++t) pointers[t] = static_cast<const C*>(taps[t]) + offset;
  }
  const C* operator()(int t, int64_t offset) const {
    if constexpr (Count > 0) return pointers[t];
    else return static_cast<const C*>(given[t]) + offset;
  }
};

template <class C, MaxRule Rule, int Count>
inline Vector<C> fold_at(const Taps<C, Count>& taps, int count, int64_t offset, int64_t i, const Order<C>& order) {
  const int all = Count > 0 ? Count : count;
  if constexpr (Rule != MaxRule::clean) {  // few cells are NaN: their sum shows it
    Vector<C> best = load(taps(0, offset) + i), sum = best;
    for (int t = 1; t < all; ++t) {
      const Vector<C> x = load(taps(t, offset) + i);
      sum += x;
      best = max_first(best, x);
    }
    if (!any_nan<C>(sum)) return best;
  }
  Vector<C> best = order(load(taps(0, offset) + i));
  for (int t = 1; t < all; ++t) {
    const Vector<C> x = order(load(taps(t, offset) + i));
    best = winner<C, Rule>(best, x);
  }
  return order(best);
}

// Whole vectors, then one that ends at n and overlaps its neighbour.
template <class C, MaxRule Rule, int Count>
void fold_counted(const void* const* given, int count, void* out, const RowRun& rows) {
  const int64_t n = rows.items, whole = n / kLanes<C> * kLanes<C>;
  const Order<C> order(rows.flip);
  for (int64_t r = 0; r < rows.count; ++r) {
    const int64_t offset = r * rows.from_step;
    const Taps<C, Count> taps(given, offset);
    C* const target = static_cast<C*>(out) + r * rows.to_step;
    for (int64_t i = 0; i < whole; i += kLanes<C>)
      store(target + i, fold_at<C, Rule, Count>(taps, count, offset, i, order));
    if (whole == n) continue;
    const int64_t i = n >= kLanes<C> ? n - kLanes<C> : 0;
    const Vector<C> rest = fold_at<C, Rule, Count>(taps, count, offset, i, order);
    if (n >= kLanes<C>) store(target + i, rest);
    else store_first<C>(target, rest, n);
  }
}

template <class C, MaxRule Rule>
void fold(const void* const* taps, int count, void* out, const RowRun& rows) {
  if constexpr (Rule != MaxRule::absent) {  // which is rare
    switch (count) {
      case 2: return fold_counted<C, Rule, 2>(taps, count, out, rows);
      case 3: return fold_counted<C, Rule, 3>(taps, count, out, rows);
      case 4: return fold_counted<C, Rule, 4>(taps, count, out, rows);
      default: break;
    }
  }
  fold_counted<C, Rule, 0>(taps, count, out, rows);
}

// Remembers whether pixels are for other kernels.
template <class C, Change Kind>
class PixelWatch {
 public:
  void see(const Vector<C>& bits, const Vector<C>& key) {
    if constexpr (Kind == Change::keys) keys_.see(bits, key);
  }
  void see_sum(const Vector<C>& sum) { sums_ += sum; }
  bool clean(std::int16_t infinity) const {
    if constexpr (Kind == Change::keys) return keys_.clean(infinity);
    else return !std::is_floating_point_v<C> || !any_nan<C>(sums_);
  }

 private:
  struct Nothing {};
  Vector<C> sums_{};
  std::conditional_t<Kind == Change::keys, KeyWatch<>, Nothing> keys_;
};

// Whole: pixels are whole vectors; else the last vector overlaps its neighbour.
template <class C, Change Kind, int Count, bool Whole>
bool pixels_counted(const void* const* given, int count, const PixelRun& run) {
  const int all = Count > 0 ? Count : count;
  const int64_t n = run.items, from_step = run.from_step, rest = n - kLanes<C>;
  const bool ends = run.out != nullptr, streams = run.stream;
  const CellChange<C, Kind> change(run.keep, run.flip);
  PixelWatch<C, Kind> watch;
  for (int64_t o = 0; o < run.outputs; ++o) {
    const int64_t offset = o * from_step;
    const Taps<C, Count> taps(given, offset);
    const C* const before = static_cast<const C*>(run.before) + o * run.before_step;
    C* const kept = static_cast<C*>(run.kept) + o * n;
    C* const out = static_cast<C*>(run.out) + (ends ? o * run.out_step : 0);
    const Vector<C> last_before = Whole ? Vector<C>{} : load(before + rest);  // `kept` may be `before`
    for (int64_t next = 0; next < n; next += kLanes<C>) {
      const bool whole = Whole || next <= rest;
      const int64_t i = whole ? next : rest;
      Vector<C> sum = load(taps(0, offset) + i), best = change(sum);
      watch.see(sum, best);
      for (int t = 1; t < all; ++t) {
        const Vector<C> cells = load(taps(t, offset) + i), x = change(cells);
        watch.see(cells, x);
        if constexpr (std::is_floating_point_v<C>) sum += cells;
        best = max_first(best, x);
      }
      if constexpr (std::is_floating_point_v<C>) watch.see_sum(sum);
      const Vector<C> joined = max_first(whole ? load(before + i) : last_before, best);
      store(kept + i, ends ? best : joined);
      if (!ends) continue;
      if (streams) stream(out + i, change.original(joined));
      else store(out + i, change.original(joined));
    }
  }
  return watch.clean(run.infinity);
}

template <class C, Change Kind>
bool pixels(const void* const* taps, int count, const PixelRun& run) {
  if constexpr (Kind == Change::none) {
    if (run.items % kLanes<C> == 0) {
      if (count == 3) return pixels_counted<C, Kind, 3, true>(taps, count, run);
      if (count == 2) return pixels_counted<C, Kind, 2, true>(taps, count, run);
    }
  }
  return pixels_counted<C, Kind, 0, false>(taps, count, run);
}

template <class C, MaxRule Rule, bool Last>
void suffixes(void* rows, const RowRun& run) {
  const Order<C> order(run.flip);
  for (int64_t i = 0; i < run.items; i += kLanes<C>) {
    C* row = static_cast<C*>(rows) + (run.count - 1) * run.from_step + i;
    Vector<C> best = order(load(row));
    for (int64_t r = run.count - 1; r > 0; --r) {
      row -= run.from_step;
      const Vector<C> x = order(load(row));
      best = later<C, Rule, Last>(x, best);
      store(row, order(best));
    }
  }
}

// Count vectors side by side, the last of them cut to `rest` items.
template <class C, MaxRule Rule, bool Last, int Count>
void slide_some(const C* suffix, const C* rows, C* out, const SlideRun& run, int64_t rest) {
  const Order<C> order(run.flip);
  const auto cells = [&](const C* at, int j) { return order(load(at + j * kLanes<C>)); };
  Vector<C> prefix[Count];
  for (int j = 0; j < Count; ++j) prefix[j] = cells(rows, j);
  int64_t next = 1;
  for (int64_t s = 0; s < run.count; ++s, out += run.out_step) {
    const SlideStep step = run.steps[s];
    for (; next < step.stop; ++next)
      for (int j = 0; j < Count; ++j)
        prefix[j] = later<C, Rule, Last>(prefix[j], cells(rows + next * run.row_step, j));
    for (int j = 0; j < Count; ++j) {
      Vector<C> best = prefix[j];
      if (step.suffix >= 0) {
        best = cells(suffix + step.suffix * run.row_step, j);
        if (step.stop > 0) best = later<C, Rule, Last>(best, prefix[j]);
      }
      best = order(best);
      if (j + 1 < Count || rest >= kLanes<C>) store(out + j * kLanes<C>, best);
      else store_first<C>(out + j * kLanes<C>, best, rest);
    }
  }
}

template <class C, MaxRule Rule, bool Last>
void slide(const void* suffix, const void* rows, void* out, const SlideRun& run) {
  constexpr int64_t lanes = kLanes<C>;
  int64_t i = 0;
  const auto some = [&](auto kernel, int64_t count) {
    kernel(static_cast<const C*>(suffix) + i, static_cast<const C*>(rows) + i, static_cast<C*>(out) + i, run,
           run.items - i - (count - 1) * lanes);
    i += count * lanes;
  };
  if constexpr (Rule == MaxRule::clean)
    while (run.items - i > 3 * lanes) some(slide_some<C, Rule, Last, 4>, 4);
  while (run.items > i) some(slide_some<C, Rule, Last, 1>, 1);
}

// The payload of tap t is its pair, if there are any, plus t times `step`.
template <class C, class P, MaxRule Rule, int Count, bool Pairs>
class PairFold {
 public:
  PairFold(const void* const* taps, const void* const* pairs, int count, int64_t add, int64_t step, int64_t offset)
      : taps_(taps, offset), pairs_(pairs, offset), count_(count), offset_(offset), add_(static_cast<P>(add)),
        step_(static_cast<P>(step)) {}

  void operator()(int64_t i, Vector<C>& best, Vector<P>& pair) const {
    best = load(taps_(0, offset_) + i);
    pair = pair_at(0, i);
    for (int t = 1; t < (Count > 0 ? Count : count_); ++t) {
      const Vector<C> x = load(taps_(t, offset_) + i);
      const auto mask = takes_over<C, Rule>(x, best);
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

template <class P>
inline void store_bytes(std::uint8_t* target, const Vector<P>& v, int64_t count) {
  const auto bytes = narrow_to_bytes(v);
  if (count >= kLanes<P>) std::memcpy(target, &bytes, sizeof bytes);
  else std::memcpy(target, &bytes, static_cast<std::size_t>(count));
}

// Exact: the last vector ends at n and overlaps its neighbour, if the row is long enough; integers go to bytes.
template <class C, class P, MaxRule Rule, int Count, bool Pairs, bool Exact>
void fold_pair_counted(const void* const* taps, const void* const* pairs, int count, void* out, void* out_pair,
                       int64_t add, int64_t step, const RowRun& rows) {
  using Stored = std::conditional_t<Exact && !std::is_floating_point_v<P>, std::uint8_t, P>;
  const int64_t n = rows.items;
  for (int64_t r = 0; r < rows.count; ++r) {
    const PairFold<C, P, Rule, Count, Pairs> fold(taps, pairs, count, add, step, r * rows.from_step);
    C* const target = static_cast<C*>(out) + r * rows.to_step;
    Stored* const payload = static_cast<Stored*>(out_pair) + r * rows.to_step;
    for (int64_t next = 0; next < n; next += kLanes<C>) {
      const int64_t i = Exact && n >= kLanes<C> && next + kLanes<C> > n ? n - kLanes<C> : next;
      Vector<C> best;
      Vector<P> pair;
      fold(i, best, pair);
      if (!Exact || n >= kLanes<C>) store(target + i, best);
      else store_first<C>(target, best, n);
      if constexpr (sizeof(Stored) != sizeof(P)) store_bytes<P>(payload + i, pair, n - i);
      else if (!Exact || n >= kLanes<C>) store(payload + i, pair);
      else store_first<P>(payload, pair, n);
    }
  }
}

template <class C, class P, MaxRule Rule, bool Exact>
void fold_pair(const void* const* taps, const void* const* pairs, int count, void* out, void* out_pair, int64_t add,
               int64_t step, const RowRun& rows) {
  constexpr bool optional = !Exact && !std::is_floating_point_v<P>;
  MaxPairKernels::Fold fold = fold_pair_counted<C, P, Rule, 0, true, Exact>;
  if constexpr (optional)
    if (pairs == nullptr) fold = fold_pair_counted<C, P, Rule, 0, false, Exact>;
  if constexpr (Rule == MaxRule::clean) {
    if (count == 2) fold = fold_pair_counted<C, P, Rule, 2, true, Exact>;
    if (count == 3) fold = fold_pair_counted<C, P, Rule, 3, true, Exact>;
    if constexpr (optional) {
      if (count == 2 && pairs == nullptr) fold = fold_pair_counted<C, P, Rule, 2, false, Exact>;
      if (count == 3 && pairs == nullptr) fold = fold_pair_counted<C, P, Rule, 3, false, Exact>;
    }
  }
  fold(taps, pairs, count, out, out_pair, add, step, rows);
}

// The largest lane, in every lane.
template <class C, int Step>
inline Vector<C> largest_lane(const Vector<C>& v) {
  const Vector<C> w = max_first(v, shuffled<Step, 1>(v, v, lane_sequence<Vector<C>>{}));
  if constexpr (Step > 1) return largest_lane<C, Step / 2>(w);
  else return w;
}

// The largest of at least a vector of floats; false if a NaN is among them, or infinities of both signs.
template <class C>
bool largest_number(const C* values, int64_t n, C& best) {
  constexpr int64_t wide = kLanes<C>;
  Vector<C> parts[4], sums[4];
  for (int p = 0; p < 4; ++p) parts[p] = sums[p] = load(values);
  int64_t i = 0;
  for (; i + 4 * wide <= n; i += 4 * wide) {  // so that one maximum does not wait for the other
    prefetch_row(values + i, 4 * wide);
    for (int p = 0; p < 4; ++p) {
      const Vector<C> x = load(values + i + p * wide);
      sums[p] += x;
      parts[p] = max_first(parts[p], x);
    }
  }
  for (; i < n; i += wide) {
    const Vector<C> x = load(values + (i + wide > n ? n - wide : i));
    sums[0] += x;
    parts[0] = max_first(parts[0], x);
  }
  best = largest_lane<C, kLanes<C> / 2>(max_first(max_first(parts[0], parts[1]), max_first(parts[2], parts[3])))[0];
  return !any_nan<C>((sums[0] + sums[1]) + (sums[2] + sums[3]));
}

template <class C, MaxRule Rule>
void largest(const void* given, int64_t n, std::uint64_t flip, void* value) {
  const C* const values = static_cast<const C*>(given);
  const Order<C> order(flip);
  C best = order.one(values[0]);
  if constexpr (std::is_floating_point_v<C>)
    if (n >= kLanes<C> && largest_number(values, n, best))
      return static_cast<void>(std::memcpy(value, &best, sizeof best));
  best = order.one(values[0]);
  int64_t i = 1;
  if (n >= 4 * kLanes<C>) {  // four vectors at a time, so that one maximum does not wait for the other
    Vector<C> parts[4];
    for (int p = 0; p < 4; ++p) parts[p] = order(load(values + p * kLanes<C>));
    for (i = 4 * kLanes<C>; i + 4 * kLanes<C> <= n; i += 4 * kLanes<C>) {
      prefetch_row(values + i, 4 * kLanes<C>);
      for (int p = 0; p < 4; ++p) {
        const Vector<C> x = order(load(values + i + p * kLanes<C>));
        parts[p] = winner<C, Rule>(parts[p], x);
      }
    }
    for (int p = 1; p < 4; ++p) parts[0] = winner<C, Rule>(parts[0], parts[p]);
    C lanes[kLanes<C>];
    store(lanes, parts[0]);
    for (const C x : lanes) best = takes_over_one<C, Rule>(x, best) ? x : best;
  }
  for (; i < n; ++i) {
    const C x = order.one(values[i]);
    best = takes_over_one<C, Rule>(x, best) ? x : best;
  }
  best = order.one(best);
  std::memcpy(value, &best, sizeof best);
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
Contents copy(const void* source, void* target, const RowRun& rows) {
  RowWatch<C> watch;
  for (int64_t r = 0; r < rows.count; ++r)
    copy_row(static_cast<const C*>(source) + r * rows.from_step, static_cast<C*>(target) + r * rows.to_step,
             rows.items, watch);
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
Contents deinterleave(const void* source, void* const* targets, const RowRun& rows) {
  RowWatch<C> watch;
  for (int64_t r = 0; r < rows.count; ++r) {
    const C* const from = static_cast<const C*>(source) + r * rows.from_step;
    for (int64_t i = 0; i < rows.items; i += Ways * kLanes<C>) {
      C* to[Ways];
      for (int way = 0; way < Ways; ++way) to[way] = static_cast<C*>(targets[way]) + r * rows.to_step + i / Ways;
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
void extend(void* data, const RowRun& rows, int64_t before, int64_t positions) {
  for (int64_t r = 0; r < rows.count; ++r) {
    C* const row = static_cast<C*>(data) + r * rows.from_step;
    const int64_t end = before + rows.items;
    fill(row, before, row[before]);
    fill(row + end, positions - end, row[end - 1]);
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

// One rule serves integers, which have no NaN, and one order of equal ones, which cannot be told apart.
template <class C, MaxRule Rule>
constexpr void set_rule(MaxRowKernels& table) {
  constexpr bool number = std::is_floating_point_v<C>;
  constexpr MaxRule rule = number ? Rule : MaxRule::clean;
  const int i = static_cast<int>(Rule);
  table.fold[i] = fold<C, rule>;
  table.largest[i] = largest<C, rule>;
  table.suffixes[i][0] = suffixes<C, rule, false>;
  table.suffixes[i][1] = suffixes<C, rule, number>;
  table.slide[i][0] = slide<C, rule, false>;
  table.slide[i][1] = slide<C, rule, number>;
}

template <class C>
constexpr MaxRowKernels row_kernels() {
  constexpr bool number = std::is_floating_point_v<C>;
  MaxRowKernels table{};
  set_rule<C, MaxRule::clean>(table);
  set_rule<C, MaxRule::absent>(table);
  set_rule<C, MaxRule::propagate>(table);
  table.copy = copy<C>;
  table.deinterleave2 = deinterleave<C, 2>;
  table.deinterleave3 = deinterleave<C, 3>;
  constexpr Change change = number ? Change::bits : Change::order;
  table.pixels = pixels<C, number ? Change::none : change>;
  if constexpr (number && sizeof(C) == 4) table.changed_pixels = pixels<C, change>;
  if constexpr (std::is_same_v<C, std::int16_t>) table.changed_pixels = pixels<C, Change::keys>;
  // Doubles are quicker in two passes, which stream whole bands.
  if constexpr (number && sizeof(C) == 4) {
    table.columns_first = columns_first<C, Change::none>;
    table.changed_columns_first = columns_first<C, Change::bits>;
  }
  if constexpr (sizeof(C) <= 2) table.columns_first = staged_columns<C, Change::order>;
  if constexpr (std::is_same_v<C, std::int16_t>) table.changed_columns_first = staged_columns<C, Change::keys>;
  if constexpr (sizeof(C) >= 4 || kVectorBytes <= 32) table.windows = windows<C, change>;
  table.fours[0] = fours<C, false>;
  table.fours[1] = fours<C, number>;
  if constexpr (sizeof(C) >= 4) table.sixteens = sixteens<C>;
  table.extend = extend<C>;
  return table;
}

template <class C, class P>
constexpr MaxPairKernels pair_kernels() {
  return {{fold_pair<C, P, MaxRule::clean, false>, fold_pair<C, P, MaxRule::absent, false>},
          {fold_pair<C, P, MaxRule::clean, true>, fold_pair<C, P, MaxRule::absent, true>},
          pair_windows<C, P, Change::none>, pair_windows<C, P, Change::bits>};
}

}  // namespace

const MaxKernels& max_kernels() {
  static constexpr MaxKernels table{{to_keys, from_keys},
                                    {row_kernels<float>(), row_kernels<double>(), row_kernels<std::uint8_t>(),
                                     row_kernels<std::int16_t>(), row_kernels<std::int32_t>(),
                                     row_kernels<std::int64_t>()},
                                    {pair_kernels<float, std::int32_t>(), pair_kernels<double, std::int64_t>()},
                                    {pair_kernels<float, float>(), pair_kernels<double, double>()}};
  return table;
}

}  // namespace halfulp::HALFULP_ISA_NAMESPACE

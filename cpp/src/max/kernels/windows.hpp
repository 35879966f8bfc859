// Windows of two or three cells along clean rows, straight from the array: vectors of outputs whose windows lie within
// the row, the last one overlapping its neighbour, and single outputs where a window meets padding.
#pragma once

#include "max/kernels/values.hpp"
#include "simd/across.hpp"

namespace halfulp::HALFULP_ISA_NAMESPACE {
namespace {

// The payload where there is none.
struct Nothing {};

// What is compared: the cells; (cell & keep) ^ flip; cell ^ flip, which is undone in the outputs; or the sortable key
// of (cell & keep) ^ flip.
enum class Change { none, bits, order, keys };

template <class C, Change Kind>
class CellChange {
 public:
  using Bits = std::make_unsigned_t<int_like<C>>;

  explicit CellChange(const WindowRun& run) : CellChange(run.keep, run.flip) {}
  CellChange(std::uint64_t keep, std::uint64_t flip) : keep_(static_cast<Bits>(keep)), flip_(static_cast<Bits>(flip)) {
    if constexpr (Kind == Change::keys) {
      sign_ = flip_;
      // The key of a number with its sign changed is the complement; that of a magnitude, the bits without the sign.
      flip_ = flip_ == 0 ? 0 : 0xffff;
      keep_ = keep_ == 0xffff ? 0x7fff : 0x8000;
    }
  }
  template <class V>
  V operator()(const V& v) const {
    using B = Vector<Bits, sizeof(V)>;
    if constexpr (Kind == Change::none) return v;
    const B keep = splat<Bits, sizeof(V)>(keep_), flip = splat<Bits, sizeof(V)>(flip_);
    const B bits = reinterpret<B>(v);
    if constexpr (Kind == Change::order) return reinterpret<V>(bits ^ flip);
    else if constexpr (Kind == Change::keys) return reinterpret<V>(bits ^ (reinterpret<B>(v >> 15) & keep) ^ flip);
    else return reinterpret<V>((bits & keep) ^ flip);
  }
  C one(C x) const {
    const Bits bits = reinterpret<Bits>(x);
    if constexpr (Kind == Change::none) return x;
    else if constexpr (Kind == Change::order) return reinterpret<C>(static_cast<Bits>(bits ^ flip_));
    else return reinterpret<C>(static_cast<Bits>((bits & keep_) ^ flip_));
  }
  template <class V>
  V restored(const V& v) const {
    if constexpr (Kind == Change::order) return (*this)(v);
    else return v;
  }
  // The cell that is compared as v, but for a sign that `keep` has taken away.
  template <class V>
  V original(const V& v) const {
    using B = Vector<Bits, sizeof(V)>;
    if constexpr (Kind == Change::none) return v;
    else if constexpr (Kind == Change::keys) return reinterpret<V>(reinterpret<B>(sortable_key(v)) ^ sign_);
    else return reinterpret<V>(reinterpret<B>(v) ^ splat<Bits, sizeof(V)>(flip_));
  }
  C restored_one(C x) const {
    if constexpr (Kind == Change::order) return one(x);
    else return x;
  }

 private:
  Bits keep_, flip_, sign_ = 0;
};

// what(stride, cells) with those of the run as constants.
template <class What>
inline auto with_sizes(const WindowRun& run, What&& what) {
  constexpr std::integral_constant<int, 1> one;
  constexpr std::integral_constant<int, 2> two;
  constexpr std::integral_constant<int, 3> three;
  if (run.stride == 1) return run.window == 2 ? what(one, two) : what(one, three);
  return run.window == 2 ? what(two, two) : what(two, three);
}

// The outputs whose windows lie within a row: [begin, end).
struct Inner {
  int64_t begin, end;
  Inner(const WindowRun& run, int64_t stride, int64_t kernel) {
    const auto limit = [&](int64_t o) { return o < 0 ? 0 : o > run.outputs ? run.outputs : o; };
    const int64_t last_start = run.cells - kernel + run.before;  // in padded cells
    begin = limit((run.before + stride - 1) / stride);
    end = last_start < 0 ? begin : limit(last_start / stride + 1);
    if (end < begin) end = begin;
  }
};

// The windows of neighbouring outputs in vectors of `Bytes`, from blocks of Stride cells for each output: the last ones
// of its window. The cells before them come from the block before, so that every cell is read once, and where rows are
// aligned so are the blocks. P: a tangent, the number of the tap, or Nothing.
template <class C, class P, int Stride, int Count, Change Kind, int Bytes>
class WindowFold {
 public:
  static constexpr bool kTangents = std::is_floating_point_v<P>, kPaired = !std::is_same_v<P, Nothing>;
  static constexpr int kWide = kLanes<C, Bytes>;
  static constexpr int64_t kBack = Count - Stride;  // cells of a window before its block
  using V = Vector<C, Bytes>;
  using Payload = Vector<std::conditional_t<kPaired, P, C>, Bytes>;

  explicit WindowFold(const WindowRun& run) : change_(run) {}

  // The next vector's blocks begin with this cell of a row.
  void start(const C* row, const P* tangents, int64_t cell) {
    const V before = cells_before(row, cell, lowest_value<C>());
    watch_.see(before);
    previous_ = change_(before);
    if constexpr (kTangents) previous_pairs_ = cells_before(tangents, cell, P{});
  }

  // Outputs whose blocks begin at `cells`. A cell before the row counts as the lowest value.
  void vector(const C* cells, const P* tangents, C* out, P* payloads) {
    V tap[Count];
    Payload pairs[Count];
    taps(cells, previous_, tap, [&](const V& v) { return change_(v); },
         [&](const V& low, const V& high) { watch_.see(low, high); });
    if constexpr (kTangents)
      taps(tangents, previous_pairs_, pairs, [](const Payload& v) { return v; }, [](const Payload&, const Payload&) {});
    V best = tap[0];
    Payload pair = kTangents ? pairs[0] : Payload{};
    for (int t = 1; t < Count; ++t) {
      if constexpr (kPaired) {
        const auto mask = takes_over<C, MaxRule::clean>(tap[t], best);
        pair = select(mask, kTangents ? pairs[t] : splat<P, Bytes>(static_cast<P>(t)), pair);
      }
      best = winner<C, MaxRule::clean>(best, tap[t]);
    }
    store(out, change_.restored(best));
    if constexpr (kPaired) store(payloads, pair);
  }

  // One output, cut where its window meets padding; `first` is its first cell.
  void one(const C* row, const P* tangents, int64_t first, int64_t cells, C* out, P* payload) {
    int64_t tap = first < 0 ? -first : 0;
    const int64_t stop = cells - first < Count ? cells - first : Count;
    const bool any = tap < stop;
    C best = lowest_value<C>();
    for (int64_t t = any ? tap : Count; t < stop; ++t) {
      const C cell = row[first + t], x = change_.one(cell);
      watch_.see_one(cell);
      const bool wins = x > best;  // the first may equal the lowest value: `tap` is its number already
      best = wins ? x : best;
      tap = wins ? t : tap;
    }
    *out = change_.restored_one(best);
    if constexpr (kTangents) *payload = any ? tangents[first + tap] : P{};
    else if constexpr (kPaired) *payload = static_cast<P>(any ? tap : 0);
  }

  Contents found() const { return watch_.found(); }

 private:
  // Vectors whose last lanes are the cells before this one.
  template <class T>
  static Vector<T, Bytes> cells_before(const T* row, int64_t cell, T padding) {
    const auto at = [&](int64_t back) { return splat<T, Bytes>(cell >= back ? row[cell - back] : padding); };
    if constexpr (kBack == 0) return Vector<T, Bytes>{};
    else if constexpr (kBack == 1) return at(1);
    else return with_last_of(at(2), at(1), lane_sequence<Vector<T, Bytes>>{});
  }

  template <class T, class W, class Changed, class See>
  static void taps(const T* items, W& previous, W (&tap)[Count], Changed&& changed, See&& see) {
    const W low = load<T, Bytes>(items);
    W last;
    if constexpr (Stride == 1) {
      see(low, low);
      last = changed(low);
    } else {
      const W high = load<T, Bytes>(items + kWide), a = changed(low), b = changed(high);
      see(low, high);
      tap[Count - 2] = in_order(phase_of_two<0>(a, b));
      last = in_order(phase_of_two<1>(a, b));
    }
    tap[Count - 1] = last;
    if constexpr (kBack > 0) tap[Count - 1 - Stride] = shifted_in<1>(previous, last);
    if constexpr (kBack > 1) tap[0] = shifted_in<2>(previous, last);
    previous = last;
  }

  CellChange<C, Kind> change_;
  NanWatch<C, Bytes> watch_;
  V previous_{};
  Payload previous_pairs_{};
};

template <class C, class P, int Stride, int Count, Change Kind, int Bytes>
Contents fold_rows(const C* source, const P* tangents, C* out, P* payloads, const WindowRun& run, Inner inner) {
  using Fold = WindowFold<C, P, Stride, Count, Kind, Bytes>;
  constexpr int64_t wide = Fold::kWide;
  const auto block = [&](int64_t o) { return Stride * o - run.before + Fold::kBack; };
  const int64_t begin = block(0) < 0 ? inner.begin : 0;  // outputs before inner.begin are made again
  const bool fits = inner.end > inner.begin && inner.end - begin >= wide;
  if (!fits) inner.end = inner.begin;
  const int64_t end = fits ? inner.end : begin;  // of the vectors
  Fold fold(run);
  for (int64_t r = 0; r < run.rows; ++r) {
    const C* const row = source + r * run.from_step;
    const P* const beside = Fold::kTangents ? tangents + r * run.pair_step : nullptr;
    C* const target = out + r * run.to_step;
    P* const payload = Fold::kPaired ? payloads + r * run.to_step : nullptr;
    const auto one = [&](int64_t o) {
      fold.one(row, beside, Stride * o - run.before, run.cells, target + o, Fold::kPaired ? payload + o : nullptr);
    };
    prefetch_row(row, run.cells);
    if constexpr (Fold::kTangents) prefetch_row(beside, run.cells);
    for (int64_t o = begin; o < end;) {  // whole vectors, then one that ends at the last window
      if (o + wide > end) o = end - wide;
      fold.start(row, beside, block(o));
      for (; o + wide <= end; o += wide)
        fold.vector(row + block(o), Fold::kTangents ? beside + block(o) : nullptr, target + o,
                    Fold::kPaired ? payload + o : nullptr);
    }
    for (int64_t o = inner.begin > 0 ? 0 : inner.end; o < run.outputs; o = o + 1 == inner.begin ? inner.end : o + 1)
      one(o);
  }
  return fold.found();
}

// Vectors of the widest registers. Rows that do not fill them go to the kernels of a narrower instruction set, and the
// narrowest of those have a half as well: see `select_max_kernels(bytes)`. Values of short types are here only if their
// rows are shorter than that, or their windows high; of eight bytes, fewer outputs than a vector has go one by one.
template <class C, class P, int Stride, int Count, Change Kind>
Contents windows_of(const void* source, const void* tangents, void* out, void* payloads, const WindowRun& given) {
  const WindowRun run = given;
  const Inner inner(run, Stride, Count);
  const auto with = [&](auto kernel) {
    return kernel(static_cast<const C*>(source), static_cast<const P*>(tangents), static_cast<C*>(out),
                  static_cast<P*>(payloads), run, inner);
  };
  if constexpr (kVectorBytes == 32 && sizeof(C) < 8)
    if (sizeof(C) < 4 || (inner.end - inner.begin) * static_cast<int64_t>(sizeof(C)) < 32)
      return with(fold_rows<C, P, Stride, Count, Kind, 16>);
  if constexpr (kVectorBytes <= 16 || sizeof(C) >= 4) return with(fold_rows<C, P, Stride, Count, Kind, kVectorBytes>);
}

template <class C, class P, Change Kind>
Contents pair_windows(const void* source, const void* tangents, void* out, void* payloads, const WindowRun& run) {
  const auto kernel = with_sizes(run, [](auto stride, auto cells) { return windows_of<C, P, stride, cells, Kind>; });
  return kernel(source, tangents, out, payloads, run);
}

template <class C, Change Kind>
Contents windows(const void* source, void* out, const WindowRun& run) {
  return pair_windows<C, Nothing, Kind>(source, nullptr, out, nullptr, run);
}

// Four neighbours at every position of a row that has them: the first step towards large windows.
template <class C, bool Last>
Contents fours(const void* source, void* out, const RowRun& rows) {
  NanWatch<C> watch;
  const Order<C> order(rows.flip);
  const int64_t positions = rows.items - 3;
  for (int64_t r = 0; r < rows.count; ++r) {
    const C* const row = static_cast<const C*>(source) + r * rows.from_step;
    C* const target = static_cast<C*>(out) + r * rows.to_step;
    prefetch_row(row, rows.items);
    C some[2 * kLanes<C>] = {};  // a short row, and zeros
    const C* cells = row;
    if (positions < kLanes<C>) {
      std::memcpy(some, row, sizeof(C) * static_cast<std::size_t>(rows.items));
      cells = some;
    }
    for (int64_t next = 0; next < positions; next += kLanes<C>) {  // the last one overlaps its neighbour
      const int64_t o = next + kLanes<C> > positions && positions >= kLanes<C> ? positions - kLanes<C> : next;
      const Vector<C> a = load(cells + o), b = load(cells + o + 1), c = load(cells + o + 2), d = load(cells + o + 3);
      watch.see(a);
      watch.see(d);
      const auto join = later<C, MaxRule::clean, Last, Vector<C>>;
      store(target + o, order(join(join(join(order(a), order(b)), order(c)), order(d))));
    }
  }
  return watch.found();
}

// Vectors a row is made of, one after the other; zero beyond its end.
template <class C>
class RowReader {
 public:
  RowReader(const C* row, int64_t cells, const Order<C>& order, NanWatch<C>& watch)
      : row_(row), left_(cells), order_(order), watch_(watch) {}
  Vector<C> operator()() {
    const Vector<C> v = left_ >= kLanes<C> ? load(row_) : left_ > 0 ? load_first(row_, left_) : Vector<C>{};
    watch_.see(v);
    row_ += kLanes<C>;
    left_ -= kLanes<C>;
    return order_(v);
  }

 private:
  const C* row_;
  int64_t left_;
  Order<C> order_;
  NanWatch<C>& watch_;
};

// From vectors that follow each other, those of the winners of four elements `Step` apart.
template <class C, int Step, class Next>
class FourJoined {
 public:
  explicit FourJoined(Next& next) : next_(next) {
    for (int i = 1; i < kAhead; ++i) v_[i] = next_();
  }
  Vector<C> operator()() {
    for (int i = 1; i < kAhead; ++i) v_[i - 1] = v_[i];
    v_[kAhead - 1] = next_();
    constexpr auto join = winner<C, MaxRule::clean, Vector<C>>;
    const Vector<C> two = join(v_[0], elements_from<C, Step>(v_)), three = join(two, elements_from<C, 2 * Step>(v_));
    return join(three, elements_from<C, 3 * Step>(v_));
  }

 private:
  static constexpr int kAhead = 1 + (3 * Step + kLanes<C> - 1) / kLanes<C>;
  Next& next_;
  Vector<C> v_[kAhead];
};

// Sixteen neighbours, every cell read once.
template <class C>
Contents sixteens(const void* source, void* out, const RowRun& rows) {
  NanWatch<C> watch;
  const Order<C> order(rows.flip);
  for (int64_t r = 0; r < rows.count; ++r) {
    const C* const row = static_cast<const C*>(source) + r * rows.from_step;
    prefetch_row(row, rows.items);
    RowReader<C> cells(row, rows.items, order, watch);
    FourJoined<C, 1, RowReader<C>> four(cells);
    FourJoined<C, 4, decltype(four)> sixteen(four);
    C* const target = static_cast<C*>(out) + r * rows.to_step;
    for (int64_t o = 0; o < rows.items - 15; o += kLanes<C>) store(target + o, order(sixteen()));
  }
  return watch.found();
}

}  // namespace
}  // namespace halfulp::HALFULP_ISA_NAMESPACE

// Sums of magnitudes and their derivatives, block by block: cells are changed before a block is summed, or its sums get
// signs afterwards, in scratch that stays in the second cache.
#pragma once

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "average/sign_kernels.hpp"
#include "average/sum_layout.hpp"
#include "base/row_kernels.hpp"
#include "base/stream_kernels.hpp"
#include "exact/round.hpp"

namespace halfulp {

// Cells of a block: they stay in the second cache; those of a block that is changed on the way stay in the first.
inline constexpr Index kPlainBlock = Index{1} << 15, kChangedBlock = Index{1} << 13;

// A run of memory, counted from the start of a plane.
struct CellRun {
  Index first = 0, cells = 0;
};

// What a block reads.
inline CellRun cells_of(const SumLayout& layout, const BlockRange& range) {
  const CellSpan rows = sources_of(*layout.axes.front(), range.first_begin, range.first_end);
  if (rows.begin == rows.end) return {};
  Index cells = range.lanes + (rows.end - rows.begin - 1) * layout.in_strides.front();
  for (std::size_t a = 1; a < layout.axes.size(); ++a) {
    if (layout.axes[a]->sources == 0) return {};
    cells += (layout.axes[a]->sources - 1) * layout.in_strides[a];
  }
  return {rows.begin * layout.in_strides.front(), cells};
}

// The cells of one index of the first axis, if a plane's axes follow each other in memory; else 0.
template <class Size>
Index slab_of(const SumLayout& layout, const std::vector<Index>& strides, const Size& size) {
  Index cells = 1, slab = 1;
  for (std::size_t a = layout.axes.size(); a-- > 0;) {
    const Index n = size(*layout.axes[a]);
    if (n == 0 || (n > 1 && strides[a] != cells)) return 0;
    slab = cells;
    cells *= n;
  }
  return layout.lanes == 1 ? slab : 0;
}

// Cells of a stretch of memory after a change, addressed like the cells themselves.
template <class T>
class ChangedRun {
 public:
  // change(source, target, number of cells) is called unless these are the cells of the last call.
  template <class Change>
  const T* of(const T* source, const CellRun& run, const Change& change) {
    if (run.cells == 0) return source;
    if (source + run.first != from_ || run.cells != cells_) {
      scratch_.resize(std::max(scratch_.size(), static_cast<std::size_t>(run.cells + kSlack)));
      change(source + run.first, scratch_.data(), run.cells);
      from_ = source + run.first;
      cells_ = run.cells;
    }
    return scratch_.data() - run.first;
  }

 private:
  static constexpr Index kSlack = 64;
  std::vector<T> scratch_;
  const T* from_ = nullptr;
  Index cells_ = 0;
};

// Something that may fail, and then is not done for a while: it would most likely fail again.
class Attempts {
 public:
  template <class Attempt>
  bool operator()(const Attempt& attempt) {
    if (skipped_ > 0) return --skipped_, false;
    const bool done = attempt();
    skipped_ = done ? 0 : 16;
    return done;
  }

 private:
  Index skipped_ = 0;
};

// target = (source & keep) ^ flip, with the sign taken away or turned.
template <class T>
void change_signs(const T* source, T* target, Index cells, bool keep_sign, bool flip_sign) {
  constexpr std::uint64_t sign = sizeof(T) == 2   ? 0x8000800080008000u
                                 : sizeof(T) == 4 ? 0x8000000080000000u
                                                  : 0x8000000000000000u;
  select_row_kernels().change(reinterpret_cast<const char*>(source), reinterpret_cast<char*>(target),
                              cells * static_cast<Index>(sizeof(T)), keep_sign ? ~std::uint64_t{0} : ~sign,
                              flip_sign ? sign : 0);
}

template <class T>
T quiet_nan() {
  return round_to<T>(std::numeric_limits<double>::quiet_NaN());
}

// Sums of cells as they are.
template <class T>
struct PlainBlocks {
  static constexpr bool kStreams = true;
  static constexpr Index kBlock = kPlainBlock;
  struct Thread {
    Thread(const PlainBlocks&, const SumLayout&) {}
    template <class Run>
    void block(const T* source, T* target, const BlockRange&, const Run& run) {
      run(source, target);
    }
  };
};

// Sums of magnitudes; of `tangent` times the signs of x, if it is given; and the signs of x.
template <class T>
struct MagnitudeBlocks {
  static constexpr bool kStreams = true;
  static constexpr Index kBlock = kChangedBlock;
  const T* x;
  const T* out;
  const T* tangent = nullptr;
  T* out_tangent = nullptr;
  Index cells = 0;  // of x
  SignBits signs{};

  // The signs of cells [begin, end): all words that begin there, so that no other thread writes them.
  void encode(Index begin, Index end) const {
    const auto word = [&](Index cell) { return (cell + kSignWord - 1) / kSignWord * kSignWord; };
    const Index first = word(begin), last = std::min(word(end), cells);
    if (first < last) select_sign_kernels().encode(x, first, last, sizeof(T), format_of<T>::infinity, signs);
  }

  class Thread {
   public:
    Thread(const MagnitudeBlocks& shared, const SumLayout& layout) : shared_(shared), layout_(layout) {
      if (shared.signs.negative == nullptr) return;
      slab_ = slab_of(layout, layout.in_strides, [](const SumAxis& axis) { return axis.sources; });
      const SumAxis& axis = *layout.axes.front();
      owned_.assign(axis.first.size() + 1, axis.sources);
      for (std::size_t o = axis.first.size(); o-- > 0;)
        owned_[o] = axis.count[o] == 0 ? owned_[o + 1] : std::min(owned_[o + 1], axis.first[o]);
      owned_[0] = 0;
    }

    template <class Run>
    void block(const T* source, T* target, const BlockRange& range, const Run& run) {
      const CellRun cells = cells_of(layout_, range);
      const auto take = [](const T* from, T* to, Index n) { change_signs(from, to, n, false, false); };
      const bool finite = sizes_([&] { return run.sizes(source, target); });
      if (!finite) run(magnitudes_.of(source, cells, take), target);
      if (shared_.signs.negative != nullptr && slab_ > 0 && range.last_begin == 0) {
        const Index first = owned_[static_cast<std::size_t>(range.first_begin)] * slab_;
        const Index stop = owned_[static_cast<std::size_t>(range.first_end)] * slab_;
        shared_.encode(source - shared_.x + first, source - shared_.x + stop);
      }
      if (shared_.tangent == nullptr) return;
      const T* const along = shared_.tangent + (source - shared_.x);
      T* const out = shared_.out_tangent + (target - shared_.out);
      if (finite && with_signs_([&] { return run.with_signs(source, target, along, out); })) return;
      const auto change = [&](const T* from, T* to, Index n) {
        const T* const own = shared_.x + (from - shared_.tangent);
        if (!select_row_kernels().give_signs(own, from, to, n, sizeof(T), format_of<T>::infinity, true)) return;
        for (Index i = 0; i < n; ++i)
          if (std::isnan(to_float(own[i]))) to[i] = quiet_nan<T>();
      };
      run(signed_.of(along, cells, change), out);
    }

   private:
    const MagnitudeBlocks& shared_;
    const SumLayout& layout_;
    Attempts sizes_, with_signs_;  // to change cells as they are read, not in scratch
    Index slab_ = 0;            // 0: the signs are left to the caller
    std::vector<Index> owned_;  // the first index of the first axis whose cells an output encodes
    ChangedRun<T> magnitudes_, signed_;
  };
};

// Sums of cotangents times the signs of the cells that they go to.
template <class T>
struct SignedBlocks {
  static constexpr bool kStreams = false;
  static constexpr Index kBlock = kChangedBlock;
  const SumPlan& plan;
  SignBits signs;
  T* out;
  Index plane_cells;
  bool stream;

  // to = sums times signs. `negated(i)` is the sum of the negated cotangents of cell i: of a zero, that has the sign.
  // `at` is the position of the first cell.
  template <class Negated>
  void sign(Index at, const T* sums, T* to, Index n, const Negated& negated) const {
    if (!select_sign_kernels().decode(signs, at, sums, to, n, sizeof(T), stream)) return;
    if (stream) select_stream_kernels().finish();  // before some are written once more
    for (Index i = 0; i < n; ++i) {
      if (signs.is_negative(at + i) && is_zero(sums[i])) to[i] = negated(i);
      if (signs.is_nan(at + i)) to[i] = covered((at + i) % plane_cells) ? quiet_nan<T>() : T{};
    }
  }

  class Thread {
   public:
    Thread(const SignedBlocks& shared, const SumLayout& layout)
        : shared_(shared),
          layout_(layout),
          slab_(slab_of(layout, layout.out_strides, [](const SumAxis& axis) { return axis.outputs(); })),
          width_(layout.axes.back()->outputs()) {}
    ~Thread() {
      if (shared_.stream) select_stream_kernels().finish();
    }
    Thread(const Thread&) = delete;
    Thread& operator=(const Thread&) = delete;

    template <class Run>
    void block(const T* source, T* target, const BlockRange& range, const Run& run) {
      const Index first = range.first_begin * slab_, cells = (range.first_end - range.first_begin) * slab_;
      for (std::vector<T>* rows : {&sums_, &negated_})
        rows->resize(std::max(rows->size(), static_cast<std::size_t>(cells)));
      run(source, sums_.data() - first);
      bool pulled = false;
      const auto pull_negated = [&] {
        const auto turn = [](const T* from, T* to, Index n) { change_signs(from, to, n, true, true); };
        if (!pulled) run(turned_.of(source, cells_of(layout_, range), turn), negated_.data() - first);
        pulled = true;
      };
      const bool whole = range.last_end - range.last_begin == width_;
      const Index lines = whole ? 1 : cells / width_, n = whole ? cells : range.last_end - range.last_begin;
      for (Index line = 0; line < lines; ++line) {
        const Index from = line * width_ + (whole ? 0 : range.last_begin);
        T* const to = target + first + from;
        shared_.sign(to - shared_.out, sums_.data() + from, to, n, [&](Index i) {
          pull_negated();
          return negated_[static_cast<std::size_t>(from + i)];
        });
      }
    }

   private:
    const SignedBlocks& shared_;
    const SumLayout& layout_;
    Index slab_, width_;
    std::vector<T> sums_, negated_;
    ChangedRun<T> turned_;
  };

 private:
  static bool is_zero(T x) { return (static_cast<std::uint64_t>(std::bit_cast<bits>(x)) & kMagnitude) == 0; }
  // Whether some window holds a cell of a plane.
  bool covered(Index cell) const {
    bool held = true;
    for (auto axis = plan.axes.rbegin(); axis != plan.axes.rend(); ++axis) {
      held = held && axis->count[static_cast<std::size_t>(cell % axis->outputs())] > 0;
      cell /= axis->outputs();
    }
    return held;
  }

  using bits = typename format_of<T>::bits_type;
  static constexpr std::uint64_t kMagnitude = (std::uint64_t{1} << (8 * sizeof(T) - 1)) - 1;
};

}  // namespace halfulp

// The outer axes of hard max: windows over slices, each slice the finished result of the axes further in.
#pragma once

#include <vector>

#include "halfulp/max_pool.hpp"
#include "max/row_loader.hpp"

namespace halfulp {

// Slices, with their payloads if they are `paired`.
class Slices {
 public:
  Slices() = default;
  Slices(Index count, Index length, Index item, bool paired) : length_(length) {
    values_.assign(count * length, item);
    if (paired) pairs_.assign(count * length, item);
  }
  char* value(Index slot) const noexcept { return values_.at(slot * length_); }
  char* pair(Index slot) const noexcept { return pairs_.data() == nullptr ? nullptr : pairs_.at(slot * length_); }

 private:
  Index length_ = 0;
  ItemBuffer values_, pairs_;
};

// Whether the windows of an outer axis are large enough for blocks.
inline bool by_blocks(const Axis& axis) noexcept { return axis.dilation == 1 && axis.kernel > 2 * axis.stride + 4; }

// One outer axis. For each output in increasing order, `taps` gives the slices whose fold is the window: all its cells
// for small windows; for large ones at most two, the end of one block of slices and the beginning of the next (van
// Herk), so that the cost does not grow with the kernel.
class VerticalAxis {
 public:
  VerticalAxis(const Axis& axis, const MaxPlan::Spans& spans, Index slice_length, Index item, bool paired)
      : axis_(axis), spans_(&spans) {
    const Index k = axis.kernel;
    blocks_ = by_blocks(axis);
    slots_ = blocks_ ? std::min(k, axis.size) : std::min(axis.extent(), axis.size);
    slices_ = Slices(blocks_ ? 2 * slots_ + 1 : slots_, slice_length, item, paired);
    if (!blocks_) keys_.assign(static_cast<std::size_t>(slots_), -1);
  }

  // The last row that windows [begin, end) need.
  Index last_row(Index begin, Index end) const noexcept {
    Index last = -1;
    for (Index o = end; o-- > begin && (last < 0 || axis_.dilation > 1);) {  // undilated, no window ends after the last
      const auto i = static_cast<std::size_t>(o);
      if (spans_->count[i] > 0) last = std::max(last, spans_->begin[i] + (spans_->count[i] - 1) * axis_.dilation);
    }
    return std::max<Index>(last, 0);
  }

  // Forget everything: the next slices belong to another position.
  void restart() {
    if (blocks_) {
      anchor_ = -1;
    } else {
      std::fill(keys_.begin(), keys_.end(), -1);
    }
  }

  // make(row, stop, value, pair) computes the slices of rows [row, stop), slice_length items apart; fold(values, pairs,
  // count, value, pair) joins slices.
  // Returns the number of taps: 0 for a window without cells.
  template <class Make, class Fold>
  int taps(Index output, Make&& make, Fold&& fold) {
    const Index count = spans_->count[static_cast<std::size_t>(output)];
    values.clear();
    pairs.clear();
    if (count == 0) return 0;
    const Index begin = spans_->begin[static_cast<std::size_t>(output)];
    if (blocks_) block_taps(begin, begin + count, make, fold);
    else direct_taps(begin, count, make);
    return static_cast<int>(values.size());
  }

  // The same for small windows over the rows of a band, for a run of outputs: taps point into it, those of the next
  // output stride rows further. fill(first, stop) puts rows there, as many as it holds, from the first that is needed.
  // Returns the number of outputs, up to `end`, that have as many taps as the first.
  template <class Band, class Fill>
  Index band_taps(const Band& band, Index output, Index end, Fill&& fill) {
    const auto at = [](Index i) { return static_cast<std::size_t>(i); };
    const Index count = spans_->count[at(output)], begin = spans_->begin[at(output)];
    values.resize(at(count));
    pairs.resize(at(count));
    if (count == 0) return 1;
    const Index reach = (count - 1) * axis_.dilation;
    if (!band.holds(begin) || !band.holds(begin + reach)) fill(begin, std::min(begin + band.capacity(), axis_.size));
    for (Index i = 0; i < count; ++i) {
      values[at(i)] = band.value(begin + i * axis_.dilation);
      pairs[at(i)] = band.pair(begin + i * axis_.dilation);
    }
    Index run = 1;
    while (output + run < end && spans_->count[at(output + run)] == count &&
           spans_->begin[at(output + run)] == begin + run * axis_.stride &&
           band.holds(begin + run * axis_.stride + reach))
      ++run;
    return run;
  }

  // The same for large windows of values alone, none of them empty: the outputs from `output` on, up to `end`, whose
  // windows start in one block. suffixes(rows, count) turns rows into their suffixes. What follows from `steps`,
  // `suffix_rows` and `next_rows` is for the kernel that slides. Returns their number.
  template <class Make, class Suffixes>
  Index slide(Index output, Index end, Make&& make, Suffixes&& suffixes) {
    const auto first = spans_->begin[static_cast<std::size_t>(output)];
    if (steps.size() < static_cast<std::size_t>(end - output)) steps.resize(static_cast<std::size_t>(end - output));
    start_blocks(first);
    while (needs_advance(first, stop_of(output))) {
      advance_rows(make);
      suffixes(slices_.value(half_ * slots_), block_rows_);
    }
    // Windows that start at the next block's beginning may still come with the last of this one.
    Index o = output;
    for (; o < end; ++o) {
      const Index begin = spans_->begin[static_cast<std::size_t>(o)];
      if (o > output && begin >= next_begin()) break;
      steps[static_cast<std::size_t>(o - output)] = {begin < next_begin() ? begin - block_ : -1,
                                                     std::max<Index>(0, stop_of(o) - next_begin())};
    }
    load_rows(next_begin() + steps[static_cast<std::size_t>(o - output - 1)].stop, make);
    suffix_rows = slices_.value(half_ * slots_);
    next_rows = slices_.value((1 - half_) * slots_);
    return o - output;
  }

  std::vector<const void*> values, pairs;
  std::vector<SlideStep> steps;
  const char *suffix_rows = nullptr, *next_rows = nullptr;

 private:
  Index stop_of(Index output) const noexcept {
    const auto i = static_cast<std::size_t>(output);
    return spans_->begin[i] + spans_->count[i];
  }

  void start_blocks(Index begin) noexcept {
    if (anchor_ >= 0) return;
    anchor_ = begin;
    block_ = begin;
    block_rows_ = 0;  // an empty block before the first
    loaded_ = begin;
  }

  void push(Index slot) {
    values.push_back(slices_.value(slot));
    pairs.push_back(slices_.pair(slot));
  }

  template <class Make>
  void direct_taps(Index begin, Index count, Make&& make) {
    for (Index i = 0; i < count; ++i) {
      const Index row = begin + i * axis_.dilation, slot = row % slots_;
      if (keys_[static_cast<std::size_t>(slot)] != row) {
        make(row, row + 1, slices_.value(slot), slices_.pair(slot));
        keys_[static_cast<std::size_t>(slot)] = row;
      }
      push(slot);
    }
  }

  // Slots: two halves of slots_ slices, one with the suffixes of the current block, one with the rows of the next, and
  // the last slot with the prefix of those. Blocks have slots_ rows and start at the first row that was asked for; the
  // last one ends with the axis.
  Index suffix_slot(Index row) const noexcept { return half_ * slots_ + (row - block_); }
  Index next_slot(Index row) const noexcept { return (1 - half_) * slots_ + (row - next_begin()); }
  Index prefix_slot() const noexcept { return 2 * slots_; }
  Index next_begin() const noexcept { return block_ + block_rows_; }

  template <class Make, class Fold>
  void block_taps(Index begin, Index end, Make&& make, Fold&& fold) {
    start_blocks(begin);
    while (needs_advance(begin, end)) advance(make, fold);
    const bool in_block = begin < next_begin();
    if (in_block) push(suffix_slot(begin));
    if (end > next_begin()) {
      extend_prefix(end, make, fold);
      push(prefix_slot());
    }
  }

  // The window starts in the next block, and not just at its beginning with an end inside it.
  bool needs_advance(Index begin, Index end) const noexcept {
    if (begin < next_begin()) return false;
    return begin > next_begin() || end >= std::min(next_begin() + slots_, axis_.size);
  }

  // The rows of the next block become those of the current one.
  template <class Make>
  void advance_rows(Make&& make) {
    const Index first = next_begin(), stop = std::min(first + slots_, axis_.size);
    load_rows(stop, make);
    half_ = 1 - half_;
    block_ = first;
    block_rows_ = stop - first;
    loaded_ = stop;
    prefix_end_ = stop;
  }

  template <class Make, class Fold>
  void advance(Make&& make, Fold&& fold) {
    advance_rows(make);
    for (Index row = block_ + block_rows_ - 2; row >= block_; --row) {
      const Index slot = suffix_slot(row);
      join(slot, slot + 1, slot, fold);
    }
  }

  template <class Make>
  void load_rows(Index stop, Make&& make) {
    if (loaded_ >= stop) return;
    make(loaded_, stop, slices_.value(next_slot(loaded_)), slices_.pair(next_slot(loaded_)));
    loaded_ = stop;
  }

  template <class Make, class Fold>
  void extend_prefix(Index end, Make&& make, Fold&& fold) {
    if (loaded_ == next_begin()) prefix_end_ = loaded_;
    load_rows(end, make);
    for (; prefix_end_ < end; ++prefix_end_) {
      const Index slot = next_slot(prefix_end_);
      join(prefix_end_ == next_begin() ? slot : prefix_slot(), slot, prefix_slot(), fold);
    }
  }

  template <class Fold>
  void join(Index first, Index second, Index target, Fold&& fold) {
    const void* two[] = {slices_.value(first), slices_.value(second)};
    const void* two_pairs[] = {slices_.pair(first), slices_.pair(second)};
    fold(two, two_pairs, first == second ? 1 : 2, slices_.value(target), slices_.pair(target));
  }

  Axis axis_;
  const MaxPlan::Spans* spans_;
  bool blocks_ = false;
  Index slots_ = 0;
  Slices slices_;
  std::vector<Index> keys_;  // which row a slot holds
  Index anchor_ = -1, block_ = 0, block_rows_ = 0, loaded_ = 0, prefix_end_ = 0, half_ = 0;
};

}  // namespace halfulp

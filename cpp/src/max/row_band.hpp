// The finished rows of hard max's last axis, many at a time: loading and folding a band of rows in single calls costs
// less than row by row, and no load waits for a store just made.
#pragma once

#include <memory>
#include <vector>

#include "max/horizontal.hpp"
#include "max/plane.hpp"
#include "max/vertical.hpp"

namespace halfulp {

enum class Payload { none, tangent, index, code };

// An integer payload is linear in the coordinates of the cell, so that no division is needed to read it: the flat
// index, or the cell's code in the window times the common multiple of the dilations, up to the window's own position.
// A code is `relative`, made of the numbers of the taps on the way, where every axis takes its windows tap by tap.
struct Coordinates {
  Coordinates(const MaxPlan& plan, Payload payload);

  std::vector<Index> weights;  // one per axis
  Index multiple = 1;
  Index largest = 0;
  bool relative = false;
};

class RowBand {
 public:
  // Whether positions of this many lanes are folded where they lie in the array: values only, and a lane is as good as
  // a row. The rule must then hold for whatever comes, since nobody looks first.
  static bool reads_channels_last(const MaxPlan& plan, const CellType& type, Payload payload, Index lanes) noexcept;

  RowBand(const MaxPlan& plan, const CellType& type, Payload payload, Index lanes, Index rows);

  // Whether there is a kernel for windows straight from the array's rows.
  bool small_windows(const MaxPlane& plane, int row_axis) const noexcept;

  // The rule for values that come; padding then loses against every cell.
  void set_rule(MaxRule rule);

  // Fills the band with the windows of rows [first, stop) of a plane, and tells what they held. Row 0 of the array is
  // at x and tangent; `base` is what the coordinates before this axis contribute to an integer payload of row 0.
  Contents fill(const MaxPlane& plane, int row_axis, const char* x, const char* tangent, Index base, Index first,
                Index stop) {
    return make(plane, row_axis, x, tangent, base, first, stop, values_.data(), pairs_.data());
  }
  // The same to another position, whose rows lie `pitch` items apart.
  Contents make(const MaxPlane& plane, int row_axis, const char* x, const char* tangent, Index base, Index first,
                Index stop, char* values, char* pairs);

  bool holds(Index row) const noexcept { return row >= begin_ && row < end_; }
  void forget() noexcept { begin_ = end_ = 0; }
  Index capacity() const noexcept { return rows_; }
  Index pitch() const noexcept { return shape_.pitch; }
  const char* value(Index row) const noexcept { return values_.at((row - begin_) * shape_.pitch); }
  const char* pair(Index row) const noexcept {
    return payload_ == Payload::none ? nullptr : pairs_.at((row - begin_) * shape_.pitch);
  }

  // The winners of taps under the rule and the order of ties; `add` and `step` as in MaxPairKernels.
  void fold(const void* const* values, int count, void* value, const RowRun& rows);
  void fold(const void* const* values, const void* const* pairs, int count, void* value, void* pair, Index add,
            Index step, const RowRun& rows);
  void fold_pair_exact(const void* const* values, const void* const* pairs, int count, void* value, void* pair,
                       Index add, Index step, const RowRun& rows);
  // As in MaxRowKernels.
  void suffixes(void* rows, RowRun run) const {
    run.flip = type_.flip;
    kernels_.suffixes[static_cast<int>(rule_)][last_](rows, run);
  }
  void slide(const void* suffixes, const void* rows, void* out, SlideRun run) const {
    run.flip = type_.flip;
    kernels_.slide[static_cast<int>(rule_)][last_](suffixes, rows, out, run);
  }
  MaxRule rule() const noexcept { return rule_; }

  Index row_length = 0;   // items of a finished row, rounded up to vectors
  bool in_place = false;  // reads_channels_last
  const CellBits* change = nullptr;  // of the cells, by the small windows that change them

 private:
  void prepare_pairs(const Coordinates& coordinates, Index items);
  bool dense_rows(Index row_step, Index step) const noexcept {
    return !type_.converts() && shape_.lanes == 1 && step == type_.item && row_step % type_.item == 0;
  }
  Contents fold_small(const MaxPlane& plane, int row_axis, const char* x, const char* tangent);
  Contents fold_clipped(const char* x, Index row_step);
  void fold_channels(const char* x, Index stride, char* target);
  void fold_rows(Index add);
  void pick_rows();
  void fold_pairs(const MaxPairKernels::Fold* kernels, const void* const* values, const void* const* pairs, int count,
                  void* value, void* pair, Index add, Index step, const RowRun& rows);
  const void* const* in_order(const void* const* taps, int count, std::vector<const void*>& reversed) const;

  Axis axis_;
  CellType type_;
  const MaxRowKernels& kernels_;
  const MaxRowKernels* window_kernels_ = nullptr;    // of vectors that a row fills
  const MaxPairKernels* pair_kernels_ = nullptr;     // null without payload
  const MaxPairKernels* pair_windows_ = nullptr;
  Payload payload_;
  int last_;  // whether the last of equal cells wins
  Index rows_;
  const MaxPlan::Spans& spans_;
  RowWindows windows_;
  RowShape shape_;
  RowLoader loader_;
  std::unique_ptr<RowLoader> pair_loader_;
  std::vector<const void*> taps_, pair_taps_, reversed_, reversed_pairs_;
  ItemBuffer values_, scratch_[2], pairs_, pair_scratch_[2];
  Index row_weight_ = 0;
  MaxRule rule_ = MaxRule::clean;
  bool ready_ = false, relative_ = false;
  ClippedDoubling clipped_;
  // The rows made last, and where they went.
  Index begin_ = 0, end_ = 0;
  char* made_ = nullptr;
  char* made_pairs_ = nullptr;
};

}  // namespace halfulp

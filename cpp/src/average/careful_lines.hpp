// The careful second try of a block, and the only one of plans that the fast lines do not take: sums axis by axis, with
// bounds on their errors where they may have some; what these leave undecided goes to the exact accumulator.
#pragma once

#include <cstdint>
#include <type_traits>
#include <vector>

#include "average/careful_kernels.hpp"
#include "average/sum_layout.hpp"
#include "average/sum_outputs.hpp"
#include "average/sum_range.hpp"

namespace halfulp {

// One thread's part.
template <class T>
class CarefulLines {
 public:
  CarefulLines(const SumPlan& plan, const SumLayout& layout, const SumRange<T>& range);

  void run(const T* in, T* out, const BlockRange& range);

 private:
  using Source = std::conditional_t<std::is_same_v<T, double>, double, float>;
  struct Position {  // what the outer axes contribute to a line of outputs
    T* out;
    Index divisor;
    bool padded, empty;
  };

  void take_source(const T* in);
  template <class F>
  void for_each_row(F f) const;
  void choose_mode();
  bool has_negative_zero() const;
  Sums reserve(std::vector<double>& storage, Index n) const;
  void reserve_sums();
  void fill_margins();

  void sum_axis(std::size_t a, const Sums& in, const Position& at);
  void add_cells(std::size_t a, Index o, const Sums& in);
  bool slide(std::size_t a, Index o, const Sums& in);
  void slide_cells(std::size_t a, Index leaving, Index entering, const Sums& in);

  void sum_line(const Sums& in, const Position& at);
  void sum_along(const Sums& in, const Position& at, const Sums& out);
  void divide_line(const Sums& sums, const Position& at, T* out);
  void flush();
  void divide(const Sums& sums, Index n, Index divisor, T* out, Index line_offset);
  Index round_sums(const Sums& in, Index n, const SumDivisor& divisor, T* out);
  T resolve(const Sums& sum, Index divisor, Index line_index);
  template <class Exact>
  void add_exactly(Exact& sum, std::size_t a, const Source* at, std::int64_t weight) const;

  Index divisor_of(const Position& at, const SumRun& run) const;
  int mode() const { return (std::is_same_v<T, double> ? kDoubleExact : kSingleExact) + (bounded_ ? 1 : 0); }
  const SourceKernels<Source>& source_kernels() const;

  const SumPlan& plan_;
  const SumLayout& layout_;
  const SumRange<T>& range_;
  const CarefulKernels& kernels_;
  const std::size_t depth_;  // number of axes
  bool may_slide_ = false;   // some axis may, if the cells allow it
  BlockRange block_{};
  SumOutputs outputs_;
  CellSpan rows_{};
  Index lanes_ = 1;
  Index width_ = 0, margin_ = 0, reach_ = 0;  // of a row of sums, as outputs_ has them, times the lanes
  bool bounded_ = false, slides_ = false;
  const Source* source_ = nullptr;     // the block's first cell
  std::vector<Index> source_strides_;  // elements, per axis
  std::vector<Index> slab_rows_;       // offsets of the rows of one slab of the source
  std::vector<Source> copy_;
  std::vector<Index> position_;  // the output of every axis that is being computed
  // For all axes but the last: the values of one cell, and the sums of that output.
  std::vector<Index> slabs_;
  std::vector<Sums> axis_sums_;
  std::vector<std::vector<double>> storage_;
  std::vector<double> sums_storage_, work_storage_;
  Sums sums_{}, work_{};
  // Lines that wait to be divided together: neighbours in memory with one divisor.
  T* pending_out_ = nullptr;
  Index pending_ = 0, pending_divisor_ = 0, capacity_ = 0;
  bool line_padded_ = false;
  std::vector<double> weights_;
  std::vector<Index> offsets_;
  std::vector<std::int32_t> undecided_;
  std::vector<T> staged_;
};

}  // namespace halfulp

// The sums of one block: a range of outputs of the first axis and of the last, in one plane, in a thread's workspace.
#pragma once

#include <bit>
#include <cmath>
#include <cstring>
#include <type_traits>
#include <vector>

#include "base/convert_kernels.hpp"
#include "exact/exact_sum.hpp"
#include "average/sum_kernels.hpp"
#include "average/sum_range.hpp"
#include "average/window_layout.hpp"

namespace halfulp {

inline constexpr Index kBlockLanes = Index{1} << 11;  // lanes that are summed together at most

struct BlockRange {
  Index first_begin, first_end;  // outputs of the first axis
  Index last_begin, last_end;    // outputs of the last axis
  Index lanes;
};

template <class T>
using source_type = std::conditional_t<std::is_same_v<T, double>, double, float>;

template <class T>
inline constexpr int mode_base = std::is_same_v<T, double> ? kDoubleExact : kSingleExact;

template <class T>
class WindowBlock {
 public:
  using Source = source_type<T>;

  WindowBlock(const SumPlan& plan, const WindowLayout& layout);

  void run(const T* in, T* out, const BlockRange& range);

 private:
  struct Cells {  // the sources that a range of outputs needs
    Index begin, end;
  };
  struct Position {  // what the outer axes contribute to a line of outputs
    T* out;
    Index divisor;
    bool padded, empty;
  };

  static Cells cells_of(const SumAxis& axis, Index begin, Index end);
  void find_columns();
  void scan_rows(MagnitudeRange& range) const;
  void compute(T* out);
  void take_source(const T* in);
  void choose_mode();
  bool has_negative_zero() const;
  bool slides(int level) const;
  Index slab(int level) const { return slabs_[static_cast<std::size_t>(level)]; }

  void first_level(T* out);
  void sum_source_rows(Index o);
  template <class Step>
  bool slide(int level, Index o, Index first_output, const Step& step) const;
  bool slide_source_rows(Index o);
  void level(int level, const Sums& in, const Position& at);
  bool slide_slabs(int level, Index o, const Sums& in, const Sums& out);
  Position inner(const Position& at, int level, Index o) const;
  void line(const Sums& in, const Position& at);
  void sum_line(const Sums& in, bool empty);
  void add_padded_zeros(const Sums& sums, bool all) const;
  void finish(const Position& at);
  void flush();
  void finish_run(const Sums& sums, Index n, Index divisor, T* out, Index line_offset);
  T resolve(const Sums& sum, Index divisor, Index line_index);
  template <class Sum>
  void add_cells(Sum& sum, int axis, const Source* at, std::int64_t weight) const;
  const SourceKernels<Source>& source_kernels() const;
  Index round_sums(const Sums& in, Index n, const SumDivisor& divisor, T* out);
  Sums reserve(std::vector<double>& storage, Index n) const;

  const SumPlan& plan_;
  const WindowLayout& layout_;
  SumRange<T> range_;
  const SumKernels& kernels_;
  int depth_;  // number of axes
  BlockRange outputs_range_{};
  Cells rows_{}, columns_{};
  Index lanes_ = 1;
  Index width_ = 0;   // (columns of the block) * lanes
  Index margin_ = 0;  // values of a row of sums before its first column
  Index reach_ = 0;   // all values of a row of sums, margins included
  bool bounded_ = false;
  bool slide_allowed_ = false;
  const Source* source_ = nullptr;             // the block's first cell
  std::vector<Index> source_strides_;          // elements, per axis
  std::vector<Index> slab_rows_;               // offsets of the rows of one slab of the source
  std::vector<Index> slabs_;                   // doubles in one slab of a level
  std::vector<Index> outputs_;                 // the output of each axis that is being computed
  std::vector<Source> copy_;
  std::vector<std::vector<double>> storage_;
  std::vector<Sums> levels_;
  std::vector<double> sums_storage_, work_storage_;
  Sums sums_{}, work_{};
  // Finished lines that wait to be divided together: neighbours in memory with one divisor.
  T* pending_out_ = nullptr;
  Index pending_ = 0, pending_divisor_ = 0, capacity_ = 0;
  bool line_padded_ = false;
  std::vector<double> row_weights_;
  std::vector<Index> row_offsets_;
  std::vector<SumSegment> segments_;  // of the last axis, within the block
  std::vector<std::int32_t> undecided_;
  std::vector<T> staged_;
};

}  // namespace halfulp

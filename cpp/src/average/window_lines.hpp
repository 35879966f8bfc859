// The common way to average: lines of exact sums, in one pass over the source. What it cannot do, and blocks whose sums
// turn out not to be exact, are left to WindowBlock.
#pragma once

#include <vector>

#include "average/line_kernels.hpp"
#include "base/row_buffer.hpp"
#include "average/sum_range.hpp"
#include "average/window_block.hpp"

namespace halfulp {

// What the planes of a call have in common.
template <class T>
class WindowLines {
 public:
  // stream: the outputs are so many that they should go past the caches.
  WindowLines(const SumPlan& plan, const WindowLayout& layout, bool stream);

  bool applies() const noexcept { return applies_; }

 private:
  template <class>
  friend class LineWorker;

  bool suits() const;
  void list_lines();
  Index shared_rows(const SumLine& line, const SumLine& next) const;
  void list_slab_rows();
  bool dense() const;
  Index lines_per_output() const;

  const SumPlan& plan_;
  const WindowLayout& layout_;
  SumRange<T> range_;
  bool slides_ = false;
  bool streams_ = false;
  bool applies_ = false;
  std::vector<SumLine> lines_;
  std::vector<Index> rows_;
  std::vector<Index> slab_rows_;  // offsets of the rows of one slab of the source
};

// One thread's part.
template <class T>
class LineWorker {
 public:
  explicit LineWorker(const WindowLines<T>& shared);
  ~LineWorker();
  LineWorker(const LineWorker&) = delete;
  LineWorker& operator=(const LineWorker&) = delete;

  // False if the sums are not exact: what was written is of no use.
  bool run(const T* in, T* out, const BlockRange& range);
  // The same for sums of magnitudes, or of cells times the signs of x, which is not NaN; false for many windows too.
  bool run_sizes(const T* in, T* out, const BlockRange& range);
  bool run_signed(const T* x, const T* in, T* out, const BlockRange& range);

  // Outputs of the first axis that must be done again even so.
  const std::vector<Index>& unsure() const noexcept { return unsure_; }

 private:
  using Exact = bool (*)(const LineTask<T>&);
  bool run_exact(Exact kernel, const T* in, T* out, const BlockRange& range);
  bool run_bounded(const MagnitudeRange& found);
  bool run_lines(T* out, Index begin, Index end);
  bool stream_lines(T* out, Index begin, Index end);
  Index stage_lines(Index width) const;
  void choose_outputs(const BlockRange& range);
  void choose_columns(Index begin, Index end);
  void choose_runs(Index begin, Index end);
  void choose_zeros(Index begin, Index end);
  void choose_slabs();
  void reserve(Index sums);
  LineContents sum() const;

  const WindowLines<T>& shared_;
  const LineKernelsOf<T>& kernels_;
  LineTask<T> task_{};
  Exact exact_ = nullptr;  // what sums lines, if it is not kernels_.sum_lines
  BlockRange current_{-1, -1, -1, -1, -1};
  std::vector<SumSegment> segments_;
  std::vector<OutputRange> padded_;
  std::vector<typename LineTask<T>::Run> runs_;
  RowBuffer<double> scratch_;
  std::vector<T> nothing_, positive_;
  std::vector<std::int32_t> undecided_;
  std::vector<T> unused_;
  PreparedDivisor last_divisor_;
  RowBuffer<T> stage_;
  std::vector<std::uint8_t> line_unsure_;
  std::vector<Index> unsure_;
};

}  // namespace halfulp

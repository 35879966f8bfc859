// The fast first try of a block: lines of sums that are hoped to be exact, in one pass over the source.
#pragma once

#include <vector>

#include "average/fast_kernels.hpp"
#include "average/sum_lines.hpp"
#include "average/sum_outputs.hpp"
#include "average/sum_range.hpp"
#include "base/row_buffer.hpp"

namespace halfulp {

// One thread's part.
template <class T>
class FastLines {
 public:
  FastLines(const SumPlan& plan, const SumLayout& layout, const SumRange<T>& range, const SumLines& lines);
  ~FastLines();
  FastLines(const FastLines&) = delete;
  FastLines& operator=(const FastLines&) = delete;

  // False if the sums are not exact: what was written is of no use.
  bool run(const T* in, T* out, const BlockRange& range);
  // The same for the magnitudes of cells; or for cells times signs, if there are some, none of them NaN. False for many
  // windows too.
  bool run_changed(const T* signs, const T* in, T* out, const BlockRange& range);

  // Outputs of the first axis that must be done again even so.
  const std::vector<Index>& unsure() const noexcept { return unsure_; }

 private:
  bool run_bounded(const MagnitudeRange& found);
  bool run_lines(T* out, Index begin, Index end);
  bool stream_lines(T* out, Index begin, Index end);
  Index stage_lines(Index width) const;
  void choose_outputs(const BlockRange& range);
  void choose_slabs();
  void reserve(Index sums);
  LineContents sum() const;

  const SumLayout& layout_;
  const SumRange<T>& range_;
  const SumLines& lines_;
  const FastKernelsOf<T>& kernels_;
  LineTask<T> task_{};
  bool (*exact_)(const LineTask<T>&) = nullptr;  // what sums lines, if it is not kernels_.sum_lines
  SumOutputs outputs_;
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

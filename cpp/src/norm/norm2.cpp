#include "halfulp/norm2.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <mutex>
#include <utility>

#include "halfulp/engines.hpp"
#include "halfulp/parallel.hpp"
#include "base/row_kernels.hpp"
#include "base/row_buffer.hpp"
#include "patches/window_rows.hpp"

namespace halfulp {
namespace {

class Norm2 {
 public:
  Norm2(std::span<const PatchAxis> axes, const float* x, float* out) : axes_(axes), x_(x), out_(out) {
    Index cells = 1;
    for (const PatchAxis& axis : axes) {
      plane_ *= axis.size;
      cells *= axis.kernel;
    }
    for (std::size_t a = 0; a + 1 < axes.size(); ++a) rows_ *= axes[a].outputs;
    const PatchAxis& axis = axes.back();
    // In units of 2^-53: (cells - 1) / 2 from the additions, one each from the root and from the product with
    // 1 + error, and the square of the first, which is small.
    const Index units = (cells + 7) / 4 + (cells >> 20);
    run_ = {axis.outputs, axis.kernel, axis.stride, axis.dilation, static_cast<double>(units) * 0x1p-52};
    // Zeros around the columns make all windows alike, unless that is far more than there are cells.
    const Index places = std::max(axis.before + axis.size,
                                  (axis.outputs - 1) * axis.stride + (axis.kernel - 1) * axis.dilation + 1);
    padded_ = places <= 4 * axis.size + 4096;
    margin_ = padded_ ? axis.before : 0;
    first_ = padded_length<double>(margin_);  // at a cache line
    for (auto& columns : columns_) columns.assign(first_ + (padded_ ? places - margin_ : axis.size), 0.0);
    sums_.resize(static_cast<std::size_t>(axis.outputs));
  }

  Index rows() const noexcept { return rows_; }

  // One row of the outputs of a plane: columns first, then along the row. The second is done when the columns of the
  // next row are made: loads that straddle stores wait for them, and these have then long left the store buffer.
  void row(Index plane, Index row, std::vector<Index>& unsure) {
    const Index size = axes_.back().size;
    double* const columns = columns_[made_].data() + first_;
    find_rows(row, x_ + plane * plane_);
    const auto held = static_cast<Index>(held_.size());
    if (held > 0) kernels_.sum_squares(held_.data(), held, columns, size);
    else std::fill_n(columns, size, 0.0);
    made_ = 1 - made_;
    along(unsure);
    pending_ = (plane * rows_ + row) * run_.outputs;
  }

  // The row whose columns were made last, if it is not done yet; columns_[made_] are those of the row before.
  void flush(std::vector<Index>& unsure) {
    made_ = 1 - made_;
    along(unsure);
  }

 private:
  // The windows of the columns that wait.
  void along(std::vector<Index>& unsure) {
    if (pending_ < 0) return;
    const double* const columns = columns_[made_].data() + first_;
    const Index at = std::exchange(pending_, -1);
    if (padded_ && kernels_.window_roots(columns - margin_, run_, sums_.data(), out_ + at)) return;
    sum_columns(columns);
    finish(at, unsure);
  }

  // sums_ = the sums of the columns of every window.
  void sum_columns(const double* columns) {
    const PatchAxis& axis = axes_.back();
    std::fill(sums_.begin(), sums_.end(), 0.0);
    for (Index w = 0; w < axis.kernel; ++w) {
      const RealWindows run = real_windows(axis, w);
      const Index from = w * axis.dilation - axis.before + run.first * axis.stride;
      if (run.first < run.stop)
        kernels_.add_every(columns + from, axis.stride, sums_.data() + run.first, run.stop - run.first);
    }
  }

  // The rows of cells that a row of windows holds.
  void find_rows(Index row, const float* plane) {
    held_.clear();
    const int last = static_cast<int>(axes_.size()) - 1;
    if (last == 1) {
      const PatchAxis& axis = axes_[0];
      for (Index k = 0, cell = row * axis.stride - axis.before; k < axis.kernel; ++k, cell += axis.dilation)
        if (cell >= 0 && cell < axis.size) held_.push_back(plane + cell * axes_[1].size);
      return;
    }
    const Index n = axes_.back().size;
    for_held_rows(axes_, row, [&](Index source) { held_.push_back(plane + source * n); });
  }

  void finish(Index at, std::vector<Index>& unsure) {
    float* const out = out_ + at;
    for (std::size_t o = 0; o < sums_.size(); ++o, ++at) {
      const double y = std::sqrt(sums_[o]);
      const auto low = static_cast<float>(y * (1 - run_.error)), high = static_cast<float>(y * (1 + run_.error));
      out[o] = low;
      if (low == high || std::isinf(low)) continue;
      if (std::isnan(y)) out[o] = std::numeric_limits<float>::quiet_NaN();
      else unsure.push_back(at);
    }
  }

  std::span<const PatchAxis> axes_;
  const float* x_;
  float* out_;
  Index plane_ = 1, rows_ = 1;
  RootRun run_;
  bool padded_ = true;
  Index margin_ = 0, first_ = 0;  // zeros before the columns, and where these begin
  std::vector<const float*> held_;
  RowBuffer<double> columns_[2];
  std::vector<double> sums_;
  int made_ = 0;        // where the next columns go
  Index pending_ = -1;  // the first output of the row whose columns wait; -1: none
  const RowKernels& kernels_ = select_row_kernels();
};

}  // namespace

std::vector<Index> norm2(std::span<const PatchAxis> axes, Index planes, const ArrayView& x, const ArrayView& out) {
  std::vector<Index> undecided;
  if (out.count() == 0) return undecided;
  count_engine(Engine::norm2);
  const Index units = planes * Norm2(axes, x.as<const float>(), out.as<float>()).rows();
  std::mutex mutex;
  const Index grain = std::max<Index>(1, (Index{1} << 14) * units / std::max<Index>(1, x.count() + out.count()));
  parallel_for(units, grain, [&](Index begin, Index end) {
    Norm2 norm(axes, x.as<const float>(), out.as<float>());
    std::vector<Index> unsure;
    Index plane = begin / norm.rows(), row = begin % norm.rows();
    for (Index unit = begin; unit < end; ++unit) {
      norm.row(plane, row, unsure);
      if (++row == norm.rows()) {
        row = 0;
        ++plane;
      }
    }
    norm.flush(unsure);
    const std::lock_guard lock(mutex);
    undecided.insert(undecided.end(), unsure.begin(), unsure.end());
  });
  return undecided;
}

}  // namespace halfulp

#include "halfulp/norm2.hpp"

#include <algorithm>
#include <cmath>
#include <mutex>

#include "halfulp/parallel.hpp"
#include "halfulp/row_kernels.hpp"

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
    error_ = static_cast<double>(cells + 4) * 0x1p-53;
    columns_.resize(static_cast<std::size_t>(axes.back().size));
    sums_.resize(static_cast<std::size_t>(axes.back().outputs));
  }

  Index rows() const noexcept { return rows_; }

  // Row number `unit` of the outputs of all planes: columns first, then along the row.
  void row(Index unit, std::vector<Index>& unsure) {
    const PatchAxis& axis = axes_.back();
    find_rows(unit % rows_, x_ + unit / rows_ * plane_);
    const auto held = static_cast<Index>(held_.size());
    if (held > 0) kernels_.sum_squares(held_.data(), held, columns_.data(), axis.size);
    else std::fill(columns_.begin(), columns_.end(), 0.0);
    std::fill(sums_.begin(), sums_.end(), 0.0);
    for (Index w = 0; w < axis.kernel; ++w) {
      const Index shift = w * axis.dilation - axis.before;
      const Index first = shift >= 0 ? 0 : (-shift + axis.stride - 1) / axis.stride;
      const Index room = axis.size - 1 - shift;
      const Index stop = room < 0 ? 0 : std::min(axis.outputs, room / axis.stride + 1);
      if (first < stop)
        kernels_.add_every(columns_.data() + shift + first * axis.stride, axis.stride, sums_.data() + first, stop - first);
    }
    finish(unit * axis.outputs, unsure);
  }

 private:
  // The rows of cells that a row of windows holds.
  void find_rows(Index row, const float* plane) {
    held_.clear();
    const int last = static_cast<int>(axes_.size()) - 1;
    Index start[kMaxRank], taps[kMaxRank] = {};
    for (int a = last - 1; a >= 0; --a) {
      const PatchAxis& axis = axes_[static_cast<std::size_t>(a)];
      start[a] = row % axis.outputs * axis.stride - axis.before;
      row /= axis.outputs;
    }
    const Index n = axes_.back().size;
    for (;;) {
      Index source = 0;
      bool real = true;
      for (int a = 0; a < last; ++a) {
        const PatchAxis& axis = axes_[static_cast<std::size_t>(a)];
        const Index cell = start[a] + taps[a] * axis.dilation;
        real = real && cell >= 0 && cell < axis.size;
        source = source * axis.size + cell;
      }
      if (real) held_.push_back(plane + source * n);
      int a = last - 1;
      for (; a >= 0; --a) {
        if (++taps[a] < axes_[static_cast<std::size_t>(a)].kernel) break;
        taps[a] = 0;
      }
      if (a < 0) return;
    }
  }

  void finish(Index at, std::vector<Index>& unsure) {
    const auto n = static_cast<Index>(sums_.size());
    float* const out = out_ + at;
    if (kernels_.roots(sums_.data(), out, n, error_)) return;
    for (Index o = 0; o < n; ++o) {
      const double y = std::sqrt(sums_[static_cast<std::size_t>(o)]);
      const auto low = static_cast<float>(y - y * error_), high = static_cast<float>(y + y * error_);
      if (low == high) continue;
      if (!std::isfinite(y)) out[o] = static_cast<float>(y);
      else unsure.push_back(at + o);
    }
  }

  std::span<const PatchAxis> axes_;
  const float* x_;
  float* out_;
  Index plane_ = 1, rows_ = 1;
  double error_;
  std::vector<const float*> held_;
  std::vector<double> columns_, sums_;
  const RowKernels& kernels_ = select_row_kernels();
};

}  // namespace

std::vector<Index> norm2(std::span<const PatchAxis> axes, Index planes, const ArrayView& x, const ArrayView& out) {
  std::vector<Index> undecided;
  if (out.count() == 0) return undecided;
  const Index units = planes * Norm2(axes, x.as<const float>(), out.as<float>()).rows();
  std::mutex mutex;
  const Index grain = std::max<Index>(1, (Index{1} << 14) * units / std::max<Index>(1, x.count() + out.count()));
  parallel_for(units, grain, [&](Index begin, Index end) {
    Norm2 norm(axes, x.as<const float>(), out.as<float>());
    std::vector<Index> unsure;
    for (Index unit = begin; unit < end; ++unit) norm.row(unit, unsure);
    const std::lock_guard lock(mutex);
    undecided.insert(undecided.end(), unsure.begin(), unsure.end());
  });
  return undecided;
}

}  // namespace halfulp

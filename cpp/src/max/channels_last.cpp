// Hard max of small windows over interleaved planes (the channels of channels-last storage), where they lie. Cells are
// read a row at a time, in order, which suits memory: the maxima of a row join what is kept of the rows above. A row
// that two windows share is read once. Right for rows without NaN and without infinities of both signs, and for keys
// of halves that have no -0.
#include <cstdint>
#include <vector>

#include "max/plane.hpp"
#include "max/row_loader.hpp"
#include "max/walk.hpp"

namespace halfulp {
namespace {

constexpr Index kMostCells = 16;  // of a window: larger ones are cheaper one axis at a time

class ChannelsLast final : public PlaneEngine {
 public:
  ChannelsLast(const MaxPlan& plan, const CellType& type, Index lanes)
      : plan_(plan),
        last_(plan.ndim() - 1),
        item_(type.item),
        lanes_(lanes),
        vector_(lanes * type.item % 64 == 32 ? 32 : 64),
        plain_{~std::uint64_t{0}, type.flip, 0},
        kernels_(select_max_kernels(vector_).rows[static_cast<int>(type.compared)]) {
    kept_.assign(plan.axes.back().output * lanes, type.item);
    padding_.assign(lanes, type.item, type.padding(MaxRule::clean) ^ type.flip);
  }

  bool has_quiet_nans() const noexcept override { return true; }

  bool run(const MaxPlane& plane, Index begin, Index end) override {
    return windows(plane, begin, end, plain_, kernels_.pixels);
  }
  bool changes() const noexcept override { return kernels_.changed_pixels != nullptr; }
  bool run_changed(const MaxPlane& plane, Index begin, Index end, const CellBits& bits) override {
    return changes() && windows(plane, begin, end, bits, kernels_.changed_pixels);
  }

 private:
  bool windows(const MaxPlane& plane, Index begin, Index end, const CellBits& bits, Pixels kernel) {
    bits_ = bits;
    pixels_ = kernel;
    if (last_ == 0) return row(plane, plane.x.data, false, plane.out.data, begin, end);
    const char* kept = nullptr;  // the row whose maxima are kept
    bool clean = true;
    walk::outer_outputs(plan_, last_, begin, end, [&](const Index* output) {
      walk::window_rows(plan_, last_, output, plane.x.strides, rows_);
      const std::size_t count = rows_.size(), first = count > 1 && plane.x.data + rows_[0] == kept ? 1 : 0;
      char* const out = plane.out.data + walk::position(output, plane.out.strides, last_);
      for (std::size_t t = first; t < count && clean; ++t)
        clean = row(plane, plane.x.data + rows_[t], t > 0, t + 1 == count ? out : nullptr, 0, plan_.axes.back().output);
      kept = plane.x.data + rows_.back();
      return clean;
    });
    return clean;
  }

  // Outputs [begin, end) of a row of cells. It comes first in its windows unless they go `on`, and last if there is a
  // target for them.
  bool row(const MaxPlane& plane, const char* cells, bool on, char* target, Index begin, Index end) {
    const Axis& axis = plan_.axes.back();
    const MaxPlan::Spans& spans = plan_.spans.back();
    const Index bytes = lanes_ * item_, step = plane.x.strides[last_], out_step = plane.out.strides[last_];
    PixelRun run;
    run.items = lanes_;
    run.from_step = axis.stride * step / item_;
    run.before_step = on ? lanes_ : 0;
    run.out_step = out_step / item_;
    run.keep = bits_.keep;
    run.flip = bits_.flip;
    run.infinity = bits_.infinity;
    run.stream = plane.stream && out_step == bytes && bytes % vector_ == 0 &&
                 reinterpret_cast<std::uintptr_t>(target) % static_cast<std::uintptr_t>(vector_) == 0;
    bool clean = true;
    for (Index o = begin; o < end && clean; o += run.outputs) {
      run.outputs = spans.alike(o, end, axis.stride);
      run.kept = kept_.at(o * lanes_);
      run.before = on ? run.kept : padding_.data();
      run.out = target == nullptr ? nullptr : target + o * out_step;
      taps_.clear();
      for (Index t = 0; t < spans.count[static_cast<std::size_t>(o)]; ++t)
        taps_.push_back(cells + (spans.begin[static_cast<std::size_t>(o)] + t * axis.dilation) * step);
      clean = pixels_(taps_.data(), static_cast<int>(taps_.size()), run);
    }
    return clean;
  }

  const MaxPlan& plan_;
  int last_;
  Index item_, lanes_;
  Index vector_;
  CellBits plain_, bits_;
  const MaxRowKernels& kernels_;
  Pixels pixels_ = nullptr;
  std::vector<Index> rows_;
  std::vector<const void*> taps_;
  ItemBuffer kept_, padding_;
};

}  // namespace

std::unique_ptr<PlaneEngine> make_channels_last(const MaxPlan& plan, const MaxPlane& plane, const CellType& type) {
  if (!plane.value_only() || plan.window_cells > kMostCells || plan.any_empty || type.converts() ||
      plane.lanes * type.item < 64 || (plan.ties == Ties::last && type.is_number()))
    return nullptr;
  Index rows = 1, apart = 1;
  for (int a = 0; a < plan.ndim(); ++a) {
    const Axis& axis = plan.axes[static_cast<std::size_t>(a)];
    if (axis.adaptive || plane.x.strides[a] % type.item != 0 || plane.out.strides[a] % type.item != 0) return nullptr;
    if (a + 1 == plan.ndim()) continue;
    rows *= axis.kernel;
    apart *= axis.stride;
  }
  if (rows > 2 * apart) return nullptr;  // one axis at a time is cheaper
  return std::make_unique<ChannelsLast>(plan, type, plane.lanes);
}

}  // namespace halfulp

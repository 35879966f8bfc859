// Hard max over small windows whose positions hold whole vectors (the channels of channels-last storage), in row-major
// order, where they lie: every output from all its cells, by a rule that holds for whatever comes. Floats in windows
// that share at most one row are read row by row instead, each row once, which suits memory: the windows that a row
// does not end are kept. That is right for rows without NaN; from the first one on the other way is taken.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/stream_kernels.hpp"
#include "max/nan.hpp"
#include "max/row_loader.hpp"
#include "max/separable.hpp"
#include "max/walk.hpp"

namespace halfulp {
namespace {

constexpr Index kMostCells = 16;  // of a window: larger ones are cheaper one axis at a time

class Places final : public PlaneEngine {
 public:
  Places(const MaxPlan& plan, const CellType& type, Index lanes)
      : plan_(plan),
        type_(type),
        last_(plan.ndim() - 1),
        lanes_(lanes),
        rule_(plan.nan == NanPolicy::ignore ? MaxRule::absent : MaxRule::propagate),
        kernels_(select_max_kernels().rows[static_cast<int>(type.compared)]) {
    row_.assign(plan.axes.back().output * lanes, type.item);
    const Index bytes = lanes * type.item;
    pixels_ = select_max_kernels(bytes % 64 == 0 ? 64 : 32).rows[static_cast<int>(type.compared)].pixels;
    const Axis& rows = plan.axes.front();
    by_rows_ = pixels_ != nullptr && bytes % 32 == 0 && last_ == 1 && !plan.any_empty && plan.ties != Ties::last &&
               rows.dilation == 1 && rows.kernel <= rows.stride + 1;
    if (!by_rows_) return;
    kept_.assign(plan.axes.back().output * lanes, type.item);
    padding_.assign(lanes, type.item, type.padding(MaxRule::clean));
  }

  bool has_quiet_nans() const noexcept override { return true; }

  bool run(const MaxPlane& plane, Index begin, Index end) override {
    Index output[kMaxRank] = {};
    if (last_ == 0) {
      row(plane, output, begin, end);
      return true;
    }
    if (by_rows_) begin = whole_rows(plane, begin, end);
    for (output[0] = begin; output[0] < end;) {
      row(plane, output, 0, plan_.axes.back().output);
      for (int a = last_ - 1; a >= 0; --a) {
        if (++output[a] < plan_.axes[static_cast<std::size_t>(a)].output || a == 0) break;
        output[a] = 0;
      }
    }
    return true;
  }

 private:
  // Rows [begin, end) of outputs, up to the first whose cells may hold a NaN, which is returned.
  Index whole_rows(const MaxPlane& plane, Index begin, Index end) {
    const MaxPlan::Spans& spans = plan_.spans.front();
    Index next = -1;  // the row after the last that was read
    for (Index o = begin; o < end; ++o) {
      const Index first = spans.begin[static_cast<std::size_t>(o)], count = spans.count[static_cast<std::size_t>(o)];
      const bool shared = first + 1 == next && count > 1;  // what is kept then comes from the first row
      for (Index t = shared ? 1 : 0; t < count; ++t) {
        char* const target = t + 1 == count ? plane.out.data + o * plane.out.strides[0] : nullptr;
        if (whole_row(plane, first + t, t > 0, target)) continue;
        if (plane.stream) stream_.finish();
        return o;
      }
      next = first + count;
    }
    return end;
  }

  // Row y of the plane, which comes first in its windows unless they go `on`, and last if there is a target.
  bool whole_row(const MaxPlane& plane, Index y, bool on, char* target) {
    const Axis& axis = plan_.axes.back();
    const MaxPlan::Spans& spans = plan_.spans.back();
    const Index item = type_.item, bytes = lanes_ * item, step = plane.x.strides[1], out_step = plane.out.strides[1];
    const std::uintptr_t vector = bytes % 64 == 0 ? 64 : 32;
    PixelRun run;
    run.items = lanes_;
    run.from_step = axis.stride * step / item;
    run.before_step = on ? lanes_ : 0;
    run.out_step = out_step / item;
    run.stream = plane.stream && out_step == bytes && reinterpret_cast<std::uintptr_t>(target) % vector == 0;
    bool clean = true;
    for (Index o = 0; o < axis.output; o += run.outputs) {
      run.outputs = alike(o, axis.output);
      run.kept = kept_.at(o * lanes_);
      run.before = on ? run.kept : padding_.data();
      run.out = target == nullptr ? nullptr : target + o * out_step;
      const char* const cells = plane.x.data + y * plane.x.strides[0] + spans.begin[static_cast<std::size_t>(o)] * step;
      taps_.clear();
      for (Index t = 0; t < spans.count[static_cast<std::size_t>(o)]; ++t)
        taps_.push_back(cells + t * axis.dilation * step);
      clean = pixels_(taps_.data(), static_cast<int>(taps_.size()), run) && clean;
    }
    return clean;
  }

  // Outputs [begin, end) of a row.
  void row(const MaxPlane& plane, Index* output, Index begin, Index end) {
    output[last_] = begin;
    char* const target = plane.out.data + walk::position(output, plane.out.strides, last_ + 1);
    const Index step = plane.out.strides[last_];
    const bool stream = plane.stream && step == lanes_ * type_.item;
    char* const made = stream ? row_.data() : target;
    for (Index o = begin, run = 1; o < end; o += run) {
      output[last_] = o;
      run = alike(o, end);
      windows(plane, output, made + (o - begin) * step, {run, lanes_, 0, step / type_.item, type_.flip});
    }
    if (step == lanes_ * type_.item) make_quiet(made, (end - begin) * lanes_);
    else
      for (Index o = 0; o < end - begin; ++o) make_quiet(made + o * step, lanes_);
    if (stream) stream_.copy(made, target, (end - begin) * lanes_ * type_.item);
  }

  // How many outputs from o on have as many cells, a stride apart.
  Index alike(Index o, Index end) const noexcept {
    const MaxPlan::Spans& spans = plan_.spans.back();
    const auto at = [](Index i) { return static_cast<std::size_t>(i); };
    Index run = 1;
    while (o + run < end && spans.count[at(o + run)] == spans.count[at(o)] &&
           spans.begin[at(o + run)] == spans.begin[at(o)] + run * plan_.axes.back().stride)
      ++run;
    return run;
  }

  void make_quiet(char* values, Index n) const {
    if (type_.compared == Compared::f32) make_nans_quiet(reinterpret_cast<float*>(values), n);
    if (type_.compared == Compared::f64) make_nans_quiet(reinterpret_cast<double*>(values), n);
  }

  void windows(const MaxPlane& plane, const Index* output, char* made, RowRun run) {
    taps_.clear();
    walk::cells(plan_, output, plane.x.strides,
                [&](Index offset, Index, Index) { taps_.push_back(plane.x.data + offset); });
    if (plan_.ties == Ties::last) std::reverse(taps_.begin(), taps_.end());
    run.from_step = plan_.axes.back().stride * plane.x.strides[last_] / type_.item;
    const auto fold = kernels_.fold[static_cast<int>(rule_)];
    if (!taps_.empty()) return fold(taps_.data(), static_cast<int>(taps_.size()), made, run);
    for (Index r = 0; r < run.count; ++r)
      std::memset(made + r * run.to_step * type_.item, 0, static_cast<std::size_t>(lanes_ * type_.item));
  }

  const MaxPlan& plan_;
  CellType type_;
  const StreamKernels& stream_ = select_stream_kernels();
  int last_;
  Index lanes_;
  MaxRule rule_;
  const MaxRowKernels& kernels_;
  bool (*pixels_)(const void* const*, int, const PixelRun&) = nullptr;
  bool by_rows_ = false;
  std::vector<const void*> taps_;
  ItemBuffer row_, kept_, padding_;
};

}  // namespace

std::unique_ptr<PlaneEngine> make_channels_last(const MaxPlan& plan, const MaxPlane& plane, const CellType& type) {
  if (!plane.value_only() || plan.window_cells > kMostCells || type.converts() || plane.lanes * type.item < 64)
    return nullptr;
  for (int a = 0; a < plan.ndim(); ++a) {
    if (plan.axes[static_cast<std::size_t>(a)].adaptive) return nullptr;
    if (plane.x.strides[a] % type.item != 0 || plane.out.strides[a] % type.item != 0) return nullptr;
  }
  return std::make_unique<Places>(plan, type, plane.lanes);
}

}  // namespace halfulp

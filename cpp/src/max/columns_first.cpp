// Hard max of small windows of values in one pass: the maxima of columns, then windows of two or three of them,
// straight from the array's rows into those of the output. Right where equal cells do not differ: a NaN, or a -0 among
// the maxima of floats, is for other engines.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "max/plane.hpp"
#include "max/row_loader.hpp"
#include "max/vertical.hpp"
#include "max/walk.hpp"

namespace halfulp {
namespace {

constexpr Index kMostRows = 16;    // of a window: more, and one axis at a time is cheaper
constexpr Index kRowsAtOnce = 64;  // of outputs, after which a NaN or -0 is noticed
constexpr Index kPatience = 16;    // planes after a refused one that are refused as well

std::size_t at(Index i) noexcept { return static_cast<std::size_t>(i); }

class ColumnsFirst final : public PlaneEngine {
 public:
  ColumnsFirst(const MaxPlan& plan, const CellType& type, Index inner_bytes)
      : plan_(plan),
        columns_(plan.axes.back()),
        last_(plan.ndim() - 1),
        inner_bytes_(inner_bytes),
        type_(type),
        kernels_(select_max_kernels().rows[static_cast<int>(type.compared)]) {
    const Index staged = type.item > 2 ? 0 : last_ > 0 ? kStagedRows : 1;
    scratch_.assign(staged * (columns_.size + kRowSlack / 2) + 4 * kRowSlack, type.item);
  }

  bool run(const MaxPlane& plane, Index begin, Index end) override {
    return run_changed(plane, begin, end, {~std::uint64_t{0}, type_.flip, 0}, false);
  }
  bool changes() const noexcept override { return kernels_.changed_columns_first != nullptr; }
  bool run_changed(const MaxPlane& plane, Index begin, Index end, const CellBits& bits) override {
    return changes() && run_changed(plane, begin, end, bits, true);
  }
  bool has_quiet_nans() const noexcept override { return true; }

 private:
  bool run_changed(const MaxPlane& plane, Index begin, Index end, const CellBits& bits, bool changed) {
    if (patience_ > 0) {
      --patience_;
      return false;
    }
    plane_ = &plane;
    bits_ = bits;
    changed_ = changed;
    if (windows(begin, end)) return true;
    patience_ = kPatience;
    return false;
  }

  bool windows(Index begin, Index end) {
    const char* const x = plane_->x.data;
    char* const out = plane_->out.data;
    if (last_ == 0) {
      const void* const tap = x;
      return kernel(&tap, 1, out, {}, plane_->stream && streams(out));
    }
    slices_.assign(1, 0);
    if (last_ == 1) return slice(out, begin, end);
    bool clean = true;
    walk::outer_outputs(plan_, last_ - 1, begin, end, [&](const Index* output) {
      walk::window_rows(plan_, last_ - 1, output, plane_->x.strides, slices_);
      clean = slice(out + walk::position(output, plane_->out.strides, last_ - 1), 0, plan_.axes[at(last_ - 1)].output);
      return clean;
    });
    return clean;
  }

  // Output rows [begin, end) of a slice, in runs with as many taps, a stride apart. Rows of whole vectors go past the
  // caches; others do not, since copies of them would cost more than that gains.
  bool slice(char* out, Index begin, Index end) {
    const int rows = last_ - 1;
    const Axis& axis = plan_.axes[at(rows)];
    const MaxPlan::Spans& spans = plan_.spans[at(rows)];
    const Index item = type_.item, n = columns_.output, x_step = plane_->x.strides[rows];
    const Index step = plane_->out.strides[rows];
    const bool stream = plane_->stream && step == n * item && streams(out);
    for (Index o = begin, run = 1; o < end; o += run) {
      const Index count = spans.count[at(o)], first = spans.begin[at(o)];
      run = spans.alike(o, std::min(end, o + kRowsAtOnce), axis.stride);
      taps_.clear();
      for (const Index base : slices_)
        for (Index t = 0; t < count; ++t)
          taps_.push_back(plane_->x.data + base + (first + t * axis.dilation) * x_step);
      WindowRun windows{run, 0, 0, 0, axis.stride * (x_step / item), step / item};
      windows.fresh = slices_.size() == 1 && axis.dilation == 1 ? static_cast<int>(std::min(count, axis.stride)) : 0;
      windows.ahead = plane_->stream || item <= 2 ? rows_ahead(windows.from_step * item) : 0;
      if (!kernel(taps_.data(), static_cast<int>(taps_.size()), out + o * step, windows, stream)) return false;
    }
    return true;
  }

  bool kernel(const void* const* taps, int count, char* out, WindowRun run, bool stream) {
    run.cells = columns_.size;
    run.before = columns_.before;
    run.outputs = columns_.output;
    run.stride = static_cast<int>(columns_.stride);
    run.window = static_cast<int>(columns_.kernel);
    run.keep = bits_.keep;
    run.flip = bits_.flip;
    run.infinity = bits_.infinity;
    run.stream = stream;
    // Whole vectors past the caches may be narrow ones.
    const Index fitting = stream && columns_.output * type_.item % 64 != 0 ? 32 : inner_bytes_;
    const MaxRowKernels& kernels = select_max_kernels(fitting).rows[static_cast<int>(type_.compared)];
    const ColumnWindows windows = changed_ ? kernels.changed_columns_first : kernels.columns_first;
    return windows(taps, count, scratch_.data(), out, run) == Contents::finite;
  }

  // Whether rows can go past the caches, from one to the next without a gap.
  bool streams(const char* out) const noexcept {
    const Index row = columns_.output * type_.item, vector = row % 64 == 0 ? 64 : 32;
    return row % 32 == 0 && reinterpret_cast<std::uintptr_t>(out) % static_cast<std::uintptr_t>(vector) == 0 &&
           columns_.before <= columns_.kernel - columns_.stride;
  }

  const MaxPlan& plan_;
  const Axis& columns_;
  int last_;
  Index inner_bytes_;  // of the outputs of a row whose windows have no padding
  CellType type_;
  const MaxRowKernels& kernels_;
  Index patience_ = 0;
  ItemBuffer scratch_;
  std::vector<Index> slices_;  // where the slices of rows begin that a window meets
  std::vector<const void*> taps_;
  const MaxPlane* plane_ = nullptr;
  CellBits bits_;
  bool changed_ = false;
};

}  // namespace

std::unique_ptr<PlaneEngine> make_columns_first(const MaxPlan& plan, const MaxPlane& plane, const CellType& type) {
  const int last = plan.ndim() - 1;
  const Axis& columns = plan.axes.back();
  if (!plane.value_only() || plane.lanes > 1 || plan.any_empty || type.converts() || columns.adaptive ||
      (plan.ties == Ties::last && type.is_number()) ||
      select_max_kernels().rows[static_cast<int>(type.compared)].columns_first == nullptr)
    return nullptr;
  if (columns.dilation != 1 || columns.kernel < 2 || columns.kernel > 3 || columns.stride > 2) return nullptr;
  Index rows = 1;
  for (int a = 0; a < last; ++a) {
    if (plan.axes[at(a)].adaptive || by_blocks(plan.axes[at(a)])) return nullptr;
    rows *= plan.axes[at(a)].kernel;
  }
  for (const Plane& p : {plane.x, plane.out})
    if (p.strides[last] != type.item || (last > 0 && p.strides[last - 1] % type.item != 0)) return nullptr;
  const auto& cells = plan.spans.back().count;
  const Index inner = std::count(cells.begin(), cells.end(), columns.kernel) * type.item;
  if (rows > kMostRows || inner < 32) return nullptr;
  return std::make_unique<ColumnsFirst>(plan, type, inner);
}

}  // namespace halfulp

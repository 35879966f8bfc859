#include "max/row_band.hpp"

#include <numeric>

namespace halfulp {
namespace {

std::size_t at(Index i) noexcept { return static_cast<std::size_t>(i); }

Index row_step(const Plane& plane, int row_axis) noexcept { return row_axis < 0 ? 0 : plane.strides[row_axis]; }

void store_integer(char* target, Index item, Index value) noexcept {
  if (item == 8) return static_cast<void>(std::memcpy(target, &value, 8));
  const auto narrow = static_cast<std::int32_t>(value);
  std::memcpy(target, &narrow, 4);
}

}  // namespace

Coordinates::Coordinates(const MaxPlan& plan, Payload payload) : weights(plan.axes.size()) {
  const bool code = payload == Payload::code;
  relative = code && !RowWindows(plan.axes.back(), 1).doubling();
  for (std::size_t a = 0; a + 1 < plan.axes.size(); ++a) relative = relative && !by_blocks(plan.axes[a]);
  if (code && !relative)
    for (const Axis& axis : plan.axes) multiple = std::lcm(multiple, axis.dilation);
  Index step = 1;
  for (std::size_t a = plan.axes.size(); a-- > 0;) {
    const Axis& axis = plan.axes[a];
    weights[a] = code && !relative ? step * (multiple / axis.dilation) : step;
    largest += weights[a] * (relative ? axis.kernel : axis.size + axis.before + 1);
    step *= code ? axis.kernel : axis.size;
  }
}

bool RowBand::reads_channels_last(const MaxPlan& plan, const CellType& type, Payload payload, Index lanes) noexcept {
  return !type.converts() && payload == Payload::none && lanes * type.item >= 64 &&
         !RowWindows(plan.axes.back(), lanes).doubling();
}

RowBand::RowBand(const MaxPlan& plan, const CellType& type, Payload payload, Index lanes, Index rows)
    : axis_(plan.axes.back()),
      type_(type),
      kernels_(select_max_kernels().rows[static_cast<int>(type.compared)]),
      payload_(payload),
      last_(plan.ties == Ties::last && type.is_number() ? 1 : 0),
      rows_(rows),
      spans_(plan.spans.back()),
      windows_(axis_, lanes),
      shape_(windows_.shape(rows, type.item)),
      loader_(shape_, type, 0) {
  const auto compared = static_cast<int>(type.compared);
  const Index inner = std::count(spans_.count.begin(), spans_.count.end(), axis_.kernel);  // windows without padding
  const MaxKernels& narrow = select_max_kernels(type.item < 4 ? 0 : inner * type.item);
  window_kernels_ = &narrow.rows[compared];
  if (payload != Payload::none) {
    const bool tangent = payload == Payload::tangent;
    pair_kernels_ = &(tangent ? select_max_kernels().tangents : select_max_kernels().indices)[compared];
    pair_windows_ = &(tangent ? narrow.tangents : narrow.indices)[compared];
  }
  row_length = padded_items(axis_.output * lanes, type.item);
  in_place = reads_channels_last(plan, type, payload, lanes);
  const Index items = std::max(shape_.pitch * rows, axis_.size * lanes) + 4 * kRowSlack;
  values_.assign(items, type.item);
  windows_.taps(loader_, taps_);
  if (windows_.doubling())
    for (auto& scratch : scratch_) scratch.assign(items, type.item);
  if (payload_ != Payload::none) prepare_pairs(Coordinates(plan, payload), items);
  else if (windows_.doubling()) clipped_ = ClippedDoubling(axis_, spans_);
}

void RowBand::prepare_pairs(const Coordinates& coordinates, Index items) {
  relative_ = coordinates.relative;
  pairs_.assign(items, type_.item);
  if (relative_) return;
  pair_loader_ = std::make_unique<RowLoader>(shape_, type_, 0);
  windows_.taps(*pair_loader_, pair_taps_);
  if (windows_.doubling())
    for (auto& scratch : pair_scratch_) scratch.assign(items, type_.item);
  if (payload_ == Payload::tangent) return;
  // Integers do not depend on the data: the band holds them once for all, relative to its first row.
  row_weight_ = coordinates.weights.size() > 1 ? coordinates.weights[coordinates.weights.size() - 2] : 0;
  for (Index w = 0; w < axis_.size; ++w) {
    char* const target = pair_loader_->at((w + axis_.before) % shape_.phases, (w + axis_.before) / shape_.phases);
    for (Index r = 0; r < rows_; ++r)
      for (Index lane = 0; lane < shape_.lanes; ++lane)
        store_integer(target + (r * shape_.pitch + lane) * type_.item, type_.item,
                      w * coordinates.weights.back() + r * row_weight_);
  }
}

void RowBand::set_rule(MaxRule rule) {
  if (ready_ && rule_ == rule) return;
  loader_.set_padding(type_.padding(rule));
  rule_ = rule;
  ready_ = true;
}

Contents RowBand::make(const MaxPlane& plane, int row_axis, const char* x, const char* tangent, Index base, Index first,
                       Index stop, char* values, char* pairs) {
  begin_ = first;
  end_ = stop;
  made_ = values;
  made_pairs_ = pairs;
  const Index x_step = row_step(plane.x, row_axis), stride = plane.x.strides[row_axis + 1];
  if (in_place) {
    for (Index r = first; r < stop; ++r)
      fold_channels(x + r * x_step, stride, made_ + (r - first) * shape_.pitch * type_.item);
    return Contents::finite;
  }
  if (rule_ == MaxRule::clean && small_windows(plane, row_axis)) return fold_small(plane, row_axis, x, tangent);
  if (rule_ == MaxRule::clean && clipped_.width > 0 && dense_rows(x_step, stride))
    return fold_clipped(x + first * x_step, x_step / type_.item);
  const Contents contents = loader_.load(x + first * x_step, x_step, stride, stop - first);
  if (payload_ == Payload::tangent) {
    const Index step = row_step(plane.tangent, row_axis);
    pair_loader_->load(tangent + first * step, step, plane.tangent.strides[row_axis + 1], stop - first);
  }
  const bool integers = payload_ != Payload::none && payload_ != Payload::tangent && !relative_;
  fold_rows(integers ? base + first * row_weight_ : 0);
  return contents;
}

// Kernels let the first of equal cells win; the last is the first in the opposite order.
const void* const* RowBand::in_order(const void* const* taps, int count, std::vector<const void*>& reversed) const {
  if (last_ == 0 || taps == nullptr) return taps;
  reversed.assign(taps, taps + count);
  std::reverse(reversed.begin(), reversed.end());
  return reversed.data();
}

void RowBand::fold(const void* const* values, int count, void* value, const RowRun& rows) {
  RowRun run = rows;
  run.flip = type_.flip;
  kernels_.fold[static_cast<int>(rule_)](in_order(values, count, reversed_), count, value, run);
}

void RowBand::fold_pairs(const MaxPairKernels::Fold* kernels, const void* const* values, const void* const* pairs,
                         int count, void* value, void* pair, Index add, Index step, const RowRun& rows) {
  if (last_ != 0) {
    add += (count - 1) * step;
    step = -step;
  }
  kernels[rule_ == MaxRule::absent ? 1 : 0](in_order(values, count, reversed_), in_order(pairs, count, reversed_pairs_),
                                            count, value, pair, add, step, rows);
}

void RowBand::fold(const void* const* values, const void* const* pairs, int count, void* value, void* pair, Index add,
                   Index step, const RowRun& rows) {
  if (payload_ == Payload::none) return fold(values, count, value, rows);
  fold_pairs(pair_kernels_->fold, values, pairs, count, value, pair, add, step, rows);
}

void RowBand::fold_pair_exact(const void* const* values, const void* const* pairs, int count, void* value, void* pair,
                              Index add, Index step, const RowRun& rows) {
  fold_pairs(pair_kernels_->fold_exact, values, pairs, count, value, pair, add, step, rows);
}

bool RowBand::small_windows(const MaxPlane& plane, int row_axis) const noexcept {
  const auto dense = [&](const Plane& p) { return dense_rows(row_step(p, row_axis), p.strides[row_axis + 1]); };
  return axis_.dilation == 1 && (axis_.kernel == 2 || axis_.kernel == 3) && axis_.stride <= 2 && last_ == 0 &&
         dense(plane.x) &&
         (payload_ == Payload::none || (payload_ == Payload::code && relative_) ||
          (payload_ == Payload::tangent && dense(plane.tangent)));
}

Contents RowBand::fold_small(const MaxPlane& plane, int row_axis, const char* x, const char* tangent) {
  const Index step = row_step(plane.x, row_axis);
  const char* const cells = x + begin_ * step;
  WindowRun run{end_ - begin_, axis_.size, axis_.before, axis_.output, step / type_.item, shape_.pitch};
  run.flip = type_.flip;
  run.stride = static_cast<int>(axis_.stride);
  run.window = static_cast<int>(axis_.kernel);
  if (change != nullptr) {
    run.keep = change->keep;
    run.flip = change->flip;
  }
  if (payload_ == Payload::none) return window_kernels_->windows(cells, made_, run);
  const char* tangents = nullptr;
  if (payload_ == Payload::tangent) {
    const Index beside = row_step(plane.tangent, row_axis);
    tangents = tangent + begin_ * beside;
    run.pair_step = beside / type_.item;
  }
  const auto kernel = change == nullptr ? pair_windows_->windows : pair_windows_->changed;
  return kernel(cells, tangents, made_, made_pairs_, run);
}

// The doubling straight from the array's rows, through real cells only.
Contents RowBand::fold_clipped(const char* x, Index row_step) {
  const Index rows = end_ - begin_, n = axis_.size, before = axis_.before, pitch = shape_.pitch;
  const auto target = [&](int scratch, Index width) {  // the last windows leave room for those that start earlier
    return scratch_[scratch].at(width == clipped_.width ? before : 0);
  };
  const void* taps[kMostJoined];
  const auto join = [&](const ItemBuffer& from, const Index* distances, int count, char* to, Index items) {
    for (int t = 0; t < count; ++t) taps[t] = from.at(distances[t]);
    fold(taps, count, to, {rows, items, pitch, pitch});
  };
  static_assert(kMostJoined == 4);
  const bool by_sixteen = clipped_.width >= 16 && last_ == 0 && kernels_.sixteens != nullptr;
  Index width = by_sixteen ? 16 : 4;
  const auto first = by_sixteen ? kernels_.sixteens : kernels_.fours[last_];
  const Contents contents = first(x, target(0, width), {rows, n, row_step, pitch, type_.flip});
  int from = 0;
  for (; width < clipped_.width; width *= kMostJoined, from = 1 - from) {
    const Index distances[kMostJoined] = {0, width, 2 * width, 3 * width}, wider = kMostJoined * width;
    join(scratch_[from], distances, kMostJoined, target(1 - from, wider), n - wider + 1);
  }
  const Index dense = (axis_.output - 1) * axis_.stride + 1, starts = dense + axis_.kernel - clipped_.width;
  kernels_.extend(scratch_[from].data(), {rows, n - clipped_.width + 1, pitch, pitch}, before, starts);
  join(scratch_[from], clipped_.distances, clipped_.count, made_, dense);
  pick_rows();
  return contents;
}

// The windows of a row straight from the array, cut where they meet padding.
void RowBand::fold_channels(const char* x, Index stride, char* target) {
  const Index lanes = shape_.lanes, step = stride / type_.item;
  for (Index o = 0, run = 1; o < axis_.output; o += run) {
    const Index count = spans_.count[at(o)], begin = spans_.begin[at(o)];
    run = spans_.alike(o, axis_.output, axis_.stride);
    if (count == 0) continue;
    taps_.clear();
    for (Index t = 0; t < count; ++t) taps_.push_back(x + (begin + t * axis_.dilation) * stride);
    fold(taps_.data(), static_cast<int>(count), target + o * lanes * type_.item,
         {run, lanes, axis_.stride * step, lanes});
  }
}

// Rows lie one under the other, so a whole band is folded as if it were one row; what is computed between rows is not
// read.
void RowBand::fold_rows(Index add) {
  const Index above = (end_ - begin_ - 1) * shape_.pitch;
  if (!windows_.doubling()) {
    fold(taps_.data(), relative_ ? nullptr : pair_taps_.data(), static_cast<int>(taps_.size()), made_, made_pairs_, add,
         relative_ ? 1 : 0, {1, above + row_length, 0, 0});
    return;
  }
  run_doubling(windows_, [&](int from, int to, const Index* distances, int count, Index n) {
    const char* v = from == 0 ? static_cast<const char*>(taps_[0]) : scratch_[from - 1].data();
    const char* p = payload_ == Payload::none ? nullptr
                    : from == 0               ? static_cast<const char*>(pair_taps_[0])
                                              : pair_scratch_[from - 1].data();
    const void* taps[kMostJoined];
    const void* pairs[kMostJoined];
    for (int t = 0; t < count; ++t) {
      taps[t] = v + distances[t] * type_.item;
      pairs[t] = p == nullptr ? nullptr : p + distances[t] * type_.item;
    }
    fold(taps, pairs, count, to == 3 ? made_ : scratch_[to - 1].data(),
         to == 3 ? made_pairs_ : pair_scratch_[to - 1].data(), to == 3 ? add : 0, 0,
         {1, padded_items(above + n, type_.item), 0, 0});
  });
  pick_rows();
}

void RowBand::pick_rows() {
  if (axis_.stride == 1) return;
  for (Index r = 0; r < end_ - begin_; ++r) {
    const Index offset = r * shape_.pitch * type_.item, bytes = shape_.lanes * type_.item;
    pick(made_ + offset, axis_.output, axis_.stride, bytes);
    if (payload_ != Payload::none) pick(made_pairs_ + offset, axis_.output, axis_.stride, bytes);
  }
}

}  // namespace halfulp

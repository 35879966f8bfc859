#include "max/row_band.hpp"

#include <cstring>
#include <numeric>

#include "max/walk.hpp"

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

RowEmitter::RowEmitter(const MaxPlan& plan, const CellType& type, const Coordinates& coordinates, Payload payload,
                       Index lanes, Index row_length)
    : plan_(plan),
      type_(type),
      coordinates_(coordinates),
      payload_(payload),
      lanes_(lanes),
      last_(plan.ndim() - 1),
      row_length_(row_length) {
  if (payload != Payload::code || coordinates.relative) return;
  const Axis& axis = plan.axes.back();
  starts_.assign(at(row_length), 0);
  for (Index o = 0; o < axis.output; ++o)
    for (Index lane = 0; lane < lanes; ++lane)
      starts_[at(o * lanes + lane)] = axis.start(o) * coordinates.weights.back();
}

void RowEmitter::slice(Index* output, int a, const char* value, const char* pair, bool real,
                       const std::vector<Index>& lengths) {
  if (a == last_) return row(output, value, pair, real);
  for (output[a] = 0; output[a] < plan_.axes[at(a)].output; ++output[a]) {
    const Index offset = output[a] * lengths[at(a)] * type_.item;
    const bool cells = plan_.spans[at(a)].count[at(output[a])] > 0;
    slice(output, a + 1, value + offset, pair == nullptr ? nullptr : pair + offset, real && cells, lengths);
  }
}

void RowEmitter::row(const Index* output, const char* value, const char* pair, bool real) {
  const auto write = [&](const char* items, const Plane& plane) {
    write_row(type_, items, plane.data + walk::position(output, plane.strides, last_), plane.strides[last_],
              plan_.axes.back().output, lanes_);
  };
  write(value, plane_->out);
  if (payload_ == Payload::tangent) {
    write(pair, plane_->out_tangent);
  } else if (payload_ != Payload::none) {
    if (type_.item == 8) write_payload(output, reinterpret_cast<const std::int64_t*>(pair));
    else write_payload(output, reinterpret_cast<const std::int32_t*>(pair));
  }
  if (plan_.any_empty) clear_empty(output, real);
}

template <class P>
void RowEmitter::write_payload(const Index* output, const P* pair) {
  const Plane& plane = payload_ == Payload::index ? plane_->indices : plane_->winners;
  char* const target = plane.data + walk::position(output, plane.strides, last_);
  const Index stride = plane.strides[last_];
  if (payload_ == Payload::index) return write_integers<std::int64_t>(target, stride, pair, 0, false);
  Index start = 0;
  for (int a = 0; a < last_; ++a) start += plan_.axes[at(a)].start(output[a]) * coordinates_.weights[at(a)];
  const bool placed = !coordinates_.relative;
  switch (plane_->winner_bytes) {
    case 1: return write_integers<std::uint8_t>(target, stride, pair, start, placed);
    case 2: return write_integers<std::uint16_t>(target, stride, pair, start, placed);
    case 4: return write_integers<std::uint32_t>(target, stride, pair, start, placed);
    default: return write_integers<std::uint64_t>(target, stride, pair, start, placed);
  }
}

template <class I, class P>
void RowEmitter::write_integers(char* target, Index stride, const P* pair, Index start, bool placed) {
  const Index item = static_cast<Index>(sizeof(I)), positions = plan_.axes.back().output, n = positions * lanes_;
  integers_.resize(at(row_length_ * item));
  const bool direct = stride == item * lanes_;
  I* const out = reinterpret_cast<I*>(direct ? target : reinterpret_cast<char*>(integers_.data()));
  if (payload_ == Payload::index && plane_->first_index != 0) {
    for (Index i = 0; i < n; ++i) out[i] = static_cast<I>(plane_->first_index + pair[i]);
  } else if (!placed) {
    for (Index i = 0; i < n; ++i) out[i] = static_cast<I>(pair[i]);
  } else if (coordinates_.multiple == 1) {
    const std::int64_t* const starts = starts_.data();
    for (Index i = 0; i < n; ++i) out[i] = static_cast<I>(pair[i] - starts[i] - start);
  } else {
    for (Index i = 0; i < n; ++i) out[i] = static_cast<I>((pair[i] - starts_[at(i)] - start) / coordinates_.multiple);
  }
  for (Index place = 0; !direct && place < positions; ++place)
    std::memcpy(target + place * stride, out + place * lanes_, at(lanes_ * item));
}

// Windows without a real cell: value +0, tangent +0, index -1, code 0.
void RowEmitter::clear_empty(const Index* output, bool real) {
  Index position[kMaxRank];
  std::copy_n(output, last_, position);
  const auto& counts = plan_.spans.back().count;
  for (Index o = 0; o < plan_.axes.back().output; ++o) {
    if (real && counts[at(o)] > 0) continue;
    position[last_] = o;
    const auto place = [&](const Plane& plane) {
      return plane.data + walk::position(position, plane.strides, last_ + 1);
    };
    const auto bytes = at(lanes_ * type_.stored);
    std::memset(place(plane_->out), 0, bytes);
    if (payload_ == Payload::tangent) std::memset(place(plane_->out_tangent), 0, bytes);
    if (payload_ == Payload::index) std::memset(place(plane_->indices), 0xff, at(lanes_) * 8);
    if (payload_ == Payload::code) std::memset(place(plane_->winners), 0, at(lanes_ * plane_->winner_bytes));
  }
}

}  // namespace halfulp

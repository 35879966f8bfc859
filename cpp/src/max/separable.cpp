// Hard max one axis at a time, the last one first: that keeps the first winner in row-major order, zeros of either sign
// included. The payload of a value is its tangent, its index in the plane, or its code in the window.
#include "max/plane.hpp"

#include <cstdint>
#include <limits>

#include "base/row_kernels.hpp"
#include "base/stream_kernels.hpp"
#include "max/row_band.hpp"
#include "max/vertical.hpp"
#include "max/walk.hpp"

namespace halfulp {
namespace {

// A band of rows stays in the first-level cache together with what is made of it, and is short enough for the memory to
// be busy: nothing is asked of it while rows are folded. Items of two bytes were quicker in longer bands.
constexpr Index band_bytes(Index item) noexcept { return item == 2 ? Index{16} << 10 : 6000; }

class Separable final : public PlaneEngine {
 public:
  Separable(const MaxPlan& plan, const CellType& type, Payload payload, Index lanes)
      : plan_(plan),
        type_(type),
        payload_(payload),
        last_(plan.ndim() - 1),
        lanes_(lanes),
        coordinates_(plan, payload),
        band_(plan, type, payload, lanes, band_rows(plan, type, lanes, payload != Payload::none)),
        emitter_(plan, type, coordinates_, payload, lanes, band_.row_length) {
    const Axis& axis = plan.axes.back();
    row_padding_ = axis.before > 0 || (axis.output - 1) * axis.stride + axis.extent() > axis.before + axis.size;
    // A slice of axis a is everything further in: rows, for the last but one.
    lengths_.assign(plan.axes.size(), band_.row_length);
    for (int a = last_ - 2; a >= 0; --a) lengths_[at(a)] = lengths_[at(a) + 1] * plan.axes[at(a) + 1].output;
    for (int a = 0; a < last_; ++a)
      levels_.emplace_back(plan.axes[at(a)], plan.spans[at(a)], slice_step(a), type.item, paired());
    // Finished rows of a plane of two axes, as many as a band gives at once; else one slice.
    result_ = Slices(last_ == 1 ? band_.capacity() : 1, lengths_[0], type.item, paired());
  }

  bool run(const MaxPlane& plane, Index begin, Index end) override {
    nan_ = band_.in_place;
    for (Index lane = 0; lane < plane.lanes;) {
      part_ = lane_of(plane, lane);
      if (!run_lanes(begin, end)) return false;
      nan_ = nan_ || worst_ == Contents::nan;
      if (lane + lanes_ == plane.lanes) break;
      lane = std::min(lane + lanes_, plane.lanes - lanes_);  // the last step may overlap the one before
    }
    return true;
  }

  bool run_changed(const MaxPlane& plane, Index begin, Index end, const CellBits& bits) override {
    const Index item = type_.stored;
    const bool dense = plane.out.strides[last_] == item && plane.out.strides[0] % item == 0;
    if (last_ != 1 || plane.lanes != 1 || !type_.is_number() || plan_.any_empty || by_blocks(plan_.axes[0]) || !dense ||
        !dense_payload(plane) || !band_.small_windows(plane, 0))
      return false;
    part_ = plane;
    emitter_.set_plane(part_);
    band_.set_rule(MaxRule::clean);
    band_.change = &bits;
    const bool done = attempt(begin, end);
    band_.change = nullptr;
    nan_ = false;
    return done;
  }

  bool has_quiet_nans() const noexcept override { return !nan_; }

 private:
  static std::size_t at(int axis) noexcept { return static_cast<std::size_t>(axis); }
  bool paired() const noexcept { return payload_ != Payload::none; }
  // From slice to slice of axis a: rows are made where they are kept, as far apart as in the band.
  Index slice_step(int a) const noexcept { return a == last_ - 1 ? band_.pitch() : lengths_[at(a)]; }

  static Index band_rows(const MaxPlan& plan, const CellType& type, Index lanes, bool paired) {
    if (plan.ndim() == 1) return 1;
    const Axis& axis = plan.axes[at(plan.ndim() - 2)];
    const Index row = std::max<Index>(1, plan.axes.back().size * lanes * type.item);
    const Index needed = by_blocks(axis) ? 1 : std::min(axis.extent(), axis.size);
    const Index bytes = band_bytes(type.item) / (paired ? 2 : 1);
    return std::clamp<Index>(bytes / row, std::min(needed + 4 * axis.stride, axis.size), axis.size);
  }

  bool run_lanes(Index begin, Index end) {
    emitter_.set_plane(part_);
    if (!band_.in_place) {
      band_.set_rule(MaxRule::clean);
      if (attempt(begin, end)) return true;
    }
    if (paired()) {
      if (worst_ == Contents::nan) return false;
      band_.set_rule(MaxRule::absent);
      return attempt(begin, end);
    }
    band_.set_rule(plan_.nan == NanPolicy::ignore ? MaxRule::absent : MaxRule::propagate);
    return attempt(begin, end);
  }

  // False as soon as something shows up that the rule does not cover.
  bool attempt(Index begin, Index end) {
    worst_ = Contents::finite;
    // A NaN needs a rule of its own, or the walk. With a payload, padding must lose against every cell; it
    // is -infinity for clean values and absent else.
    const bool clean = band_.rule() == MaxRule::clean;
    accepted_ = clean && paired() && row_padding_ ? Contents::finite
                : clean || paired()               ? Contents::infinite
                                                  : Contents::nan;
    if (last_ == 0) {
      worst_ = band_.fill(part_, -1, part_.x.data, part_.tangent.data, 0, 0, 1);
      if (failed()) return false;
      Index output[1] = {0};
      emitter_.row(output, band_.value(0), band_.pair(0), true);
      return true;
    }
    Index output[kMaxRank] = {};
    if (last_ == 1) {
      rows(0, part_.x.data, part_.tangent.data, 0, begin, end,
           [&](Index o, Index run, int count) { finish_rows(output, o, run, count); });
      return !failed();
    }
    levels_[0].restart();
    for (output[0] = begin; output[0] < end && !failed(); ++output[0]) {
      const int count = gather(0, output[0], part_.x.data, part_.tangent.data, 0);
      fold(0, output[0], 1, count, result_.value(0), result_.pair(0));
      emitter_.slice(output, 1, result_.value(0), result_.pair(0), count > 0, lengths_);
    }
    return !failed();
  }

  bool failed() const noexcept { return worst_ > accepted_; }

  auto join(int a) {
    return [this, a](const void* const* values, const void* const* pairs, int count, char* value, char* pair) {
      band_.fold(values, pairs, count, value, pair, 0, 0, {1, lengths_[at(a)], 0, 0});
    };
  }

  // The windows [begin, end) over the rows of axis a, the last but one: calls finish(output, run, number of taps) when
  // the taps of that output stand in levels_[a]; those of the next ones in the run are stride rows of the band further.
  template <class Finish>
  void rows(int a, const char* x, const char* tangent, Index base, Index begin, Index end, Finish&& finish) {
    VerticalAxis& level = levels_[at(a)];
    const Axis& axis = plan_.axes[at(a)];
    level.restart();
    band_.forget();
    if (!by_blocks(axis)) {
      const Index limit = level.last_row(begin, end) + 1;  // rows beyond belong to somebody else
      const auto fill = [&](Index first, Index stop) {
        worst_ = std::max(worst_, band_.fill(part_, a, x, tangent, base, first, std::min(stop, limit)));
      };
      for (Index o = begin, run = 0; o < end && !failed(); o += run) {
        run = level.band_taps(band_, o, end, fill);
        finish(o, run, static_cast<int>(level.values.size()));
      }
      return;
    }
    const auto make = [&](Index first, Index stop, char* value, char* pair) {
      for (Index r = first; r < stop; r += band_.capacity()) {
        const Index from = (r - first) * band_.pitch() * type_.item, end = std::min(r + band_.capacity(), stop);
        worst_ = std::max(worst_,
                          band_.make(part_, a, x, tangent, base, r, end, value + from, paired() ? pair + from : pair));
      }
    };
    if (a == 0 && slides()) {
      for (Index o = begin, run = 0; o < end && !failed(); o += run) {
        run = level.slide(o, end, make, [&](char* rows, Index count) {
          band_.suffixes(rows, {count, lengths_[0], slice_step(0), 0});
        });
        slide_rows(o, run);
      }
      return;
    }
    for (Index o = begin; o < end && !failed(); ++o) finish(o, 1, level.taps(o, make, join(a)));
  }

  // Large windows of values alone go to a dense output in runs.
  bool slides() const noexcept {
    return !type_.converts() && !paired() && !plan_.any_empty && part_.out.strides[1] == type_.item * lanes_ &&
           part_.out.strides[0] % type_.item == 0;
  }
  void slide_rows(Index o, Index run) {
    const VerticalAxis& level = levels_[0];
    const Index step = part_.out.strides[0];
    band_.slide(level.suffix_rows, level.next_rows, part_.out.data + o * step,
                {level.steps.data(), run, plan_.axes.back().output * lanes_, slice_step(0), step / type_.item});
  }

  // What a relative code gains from tap to tap of axis a, and from the taps that output o has lost to the padding.
  Index code_step(int a) const noexcept { return coordinates_.relative ? coordinates_.weights[at(a)] : 0; }
  Index code_start(int a, Index o) const noexcept {
    return code_step(a) * plan_.spans[at(a)].offset[static_cast<std::size_t>(o)];
  }

  // Folds the taps of a run of outputs of axis a, from o on.
  void fold(int a, Index o, Index run, int count, char* value, char* pair) {
    const VerticalAxis& level = levels_[at(a)];
    const Index length = lengths_[at(a)];
    if (count > 0)
      band_.fold(level.values.data(), level.pairs.data(), count, value, pair, code_start(a, o), code_step(a),
                 {run, length, plan_.axes[at(a)].stride * band_.pitch(), length});
  }

  // Rows of a plane of two axes: straight into the output array where that is possible.
  void finish_rows(Index* output, Index o, Index run, int count) {
    const Index item = type_.item, n = plan_.axes.back().output * lanes_;
    const Index* out = part_.out.strides;
    if (!type_.converts() && count > 0 && !plan_.any_empty && out[1] == item * lanes_ && out[0] % item == 0) {
      const RowRun rows{run, n, plan_.axes[0].stride * band_.pitch(), out[0] / item};
      const bool stream = part_.stream && rows.to_step == n;
      if (finish_dense(part_.out.data + o * out[0], o, count, rows, stream)) return;
    }
    fold(0, o, run, count, result_.value(0), result_.pair(0));
    for (Index i = 0; i < run; ++i) {
      output[0] = o + i;
      emitter_.row(output, result_.value(i), result_.pair(i), count > 0);
    }
  }

  // Whether there is no payload, or it goes to an array like that of the values.
  bool dense_payload(const MaxPlane& plane) const noexcept {
    if (!paired()) return true;
    const Index* const out = plane.out.strides;
    const bool tangent = payload_ == Payload::tangent;
    const Index* const steps = tangent ? plane.out_tangent.strides : plane.winners.strides;
    if (tangent) return steps[0] == out[0] && steps[1] == out[1];
    return payload_ == Payload::code && coordinates_.relative && plane.winner_bytes == 1 && steps[1] == lanes_ &&
           steps[0] == out[0] / type_.item;
  }

  // The same, densely: values there, tangents like them, codes into their bytes. False for other payloads.
  bool finish_dense(char* target, Index o, int count, const RowRun& rows, bool stream) {
    const VerticalAxis& level = levels_[0];
    char* const values = stream ? result_.value(0) : target;
    const auto put = [&](const char* made, char* place) {
      if (stream) stream_.copy(made, place, rows.count * rows.items * type_.item);
    };
    const auto fold = [&](char* pairs) {
      band_.fold_pair_exact(level.values.data(), level.pairs.data(), count, values, pairs, code_start(0, o),
                            code_step(0), rows);
    };
    if (!dense_payload(part_)) return false;
    if (!paired()) {
      band_.fold(level.values.data(), count, values, rows);
    } else if (payload_ == Payload::tangent) {
      const Index* const steps = part_.out_tangent.strides;
      char* const beside = part_.out_tangent.data + o * steps[0];
      char* const pairs = stream ? result_.pair(0) : beside;
      fold(pairs);
      put(pairs, beside);
    } else {
      fold(part_.winners.data + o * part_.winners.strides[0]);
    }
    if (band_.change != nullptr) restore(values, rows);
    put(values, target);
    return true;
  }

  // Takes the values of changed cells back.
  void restore(char* values, const RowRun& rows) const {
    const bool whole = rows.to_step == rows.items;
    const Index items = (whole ? rows.count : 1) * rows.items;
    for (Index r = 0; r < (whole ? 1 : rows.count); ++r) {
      char* const row = values + r * rows.to_step * type_.item;
      row_kernels_.change(row, row, items * type_.item, ~std::uint64_t{0}, band_.change->flip);
    }
  }

  // The taps of output o along axis a, which has at least two axes further in or one of rows.
  int gather(int a, Index o, const char* x, const char* tangent, Index base) {
    return levels_[at(a)].taps(
        o,
        [&](Index first, Index stop, char* value, char* pair) {
          for (Index r = first; r < stop; ++r) {
            const char* t = tangent == nullptr ? nullptr : tangent + r * part_.tangent.strides[a];
            const Index to = (r - first) * lengths_[at(a)] * type_.item;
            slice(a + 1, x + r * part_.x.strides[a], t, base + r * coordinates_.weights[at(a)], value + to,
                  paired() ? pair + to : pair);
          }
        },
        join(a));
  }

  // All outputs of the axes from a on.
  void slice(int a, const char* x, const char* tangent, Index base, char* value, char* pair) {
    const Index length = lengths_[at(a)] * type_.item;
    const auto finish = [&](Index o, Index run, int count) {
      fold(a, o, run, count, value + o * length, pair == nullptr ? nullptr : pair + o * length);
    };
    if (a == last_ - 1) return rows(a, x, tangent, base, 0, plan_.axes[at(a)].output, finish);
    levels_[at(a)].restart();
    for (Index o = 0; o < plan_.axes[at(a)].output && !failed(); ++o)
      finish(o, 1, gather(a, o, x, tangent, base));
  }

  const MaxPlan& plan_;
  CellType type_;
  const StreamKernels& stream_ = select_stream_kernels();
  const RowKernels& row_kernels_ = select_row_kernels();
  Payload payload_;
  int last_;
  Index lanes_;
  Coordinates coordinates_;
  RowBand band_;
  RowEmitter emitter_;
  bool row_padding_ = false;
  std::vector<Index> lengths_;  // items of a slice of each outer axis
  std::vector<VerticalAxis> levels_;
  Slices result_;
  Contents worst_ = Contents::finite, accepted_ = Contents::finite;
  bool nan_ = false;  // whether a NaN may be among the values of this run
  MaxPlane part_;  // the lanes at work
};

// Lanes are taken in runs whose rows stay in the first-level cache; larger ones, if they are only read there.
Index lanes_at_once(const MaxPlan& plan, const MaxPlane& plane, Index item, bool in_place) {
  const Index fitting = (Index{in_place ? 64 : 16} << 10) / (item * std::max<Index>(1, plan.axes.back().size));
  const Index whole = 64 / item;
  return std::min(plane.lanes, std::max<Index>(whole, fitting / whole * whole));
}

bool applies(const MaxPlan& plan, const MaxPlane& plane) {
  if (plan.many_winners() && !plane.value_only()) return false;
  for (const Axis& axis : plan.axes) {
    // Padding and windows far larger than the input would only fill memory.
    const Index limit = 4 * axis.size + 4096;
    if (axis.adaptive || axis.size == 0 || axis.padded() > limit || axis.extent() > limit) return false;
  }
  constexpr Index most_phases = 64;  // of a row: each takes whole vectors
  return RowWindows(plan.axes.back(), 1).phases() <= most_phases;
}

Payload payload_of(const MaxPlane& plane) {
  if (plane.tangent) return Payload::tangent;
  if (plane.indices) return Payload::index;
  return plane.winners ? Payload::code : Payload::none;
}

}  // namespace

std::unique_ptr<PlaneEngine> make_separable(const MaxPlan& plan, const MaxPlane& plane, const CellType& type) {
  if (!applies(plan, plane)) return nullptr;
  const Payload payload = payload_of(plane);
  if (payload != Payload::none && !type.is_number()) return nullptr;
  const bool integer = payload == Payload::index || payload == Payload::code;
  if (integer && Coordinates(plan, payload).largest >= std::numeric_limits<int>::max() / 2) return nullptr;
  const bool in_place = RowBand::reads_channels_last(plan, type, payload, plane.lanes);
  return std::make_unique<Separable>(plan, type, payload, lanes_at_once(plan, plane, type.item, in_place));
}

}  // namespace halfulp

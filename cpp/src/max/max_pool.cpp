// Hard max over whole arrays: checks for NaN where they are refused, and hands planes to threads.
#include "halfulp/max_pool.hpp"

#include <algorithm>
#include <memory>
#include <new>
#include <span>
#include <utility>
#include <vector>

#include "halfulp/engines.hpp"
#include "halfulp/error.hpp"
#include "halfulp/interrupt.hpp"
#include "halfulp/parallel.hpp"
#include "base/stream_kernels.hpp"
#include "max/cells.hpp"
#include "max/plane.hpp"
#include "max/walk.hpp"

namespace halfulp {
namespace {

// Below this many cells a unit of work is not worth another thread.
constexpr Index kCellsPerThread = 1 << 14;
// A line is cut into pieces of about this many cells.
constexpr Index kCellsPerPiece = 1 << 13;

struct Arrays {
  const ArrayView* x;
  const ArrayView* out;
  const ArrayView* tangent = nullptr;
  const ArrayView* out_tangent = nullptr;
  const ArrayView* indices = nullptr;
  Winners* winners = nullptr;
};

// The arrays of a call, and how they fall into groups of planes.
class Groups {
 public:
  Groups(const MaxPlan& plan, const Arrays& arrays)
      : dtype_(arrays.x->dtype),
        stream_(arrays.x->count() * static_cast<Index>(item_size(arrays.x->dtype)) >= kStreamBytes),
        x_(*arrays.x),
        out_(*arrays.out),
        tangent_(optional(arrays.tangent)),
        out_tangent_(optional(arrays.out_tangent)),
        indices_(optional(arrays.indices)),
        layout_(arrays.x->shape, arrays.x->ndim() - plan.ndim(), x_,
                {&out_, &tangent_, &out_tangent_, &indices_, &set_winners(arrays.winners)}) {}

  const PlaneLayout& layout() const noexcept { return layout_; }
  bool stream() const noexcept { return stream_; }

  MaxPlane operator[](Index group) const noexcept {
    MaxPlane plane;
    plane.dtype = dtype_;
    plane.lanes = layout_.lanes;
    plane.stream = stream_;
    plane.x = layout_.plane(x_, group);
    plane.out = layout_.plane(out_, group);
    plane.tangent = layout_.plane(tangent_, group);
    plane.out_tangent = layout_.plane(out_tangent_, group);
    plane.indices = layout_.plane(indices_, group);
    plane.winners = layout_.plane(winners_, group);
    plane.winner_bytes = winners_.item;
    return plane;
  }

 private:
  static Strided optional(const ArrayView* view) { return view == nullptr ? Strided() : Strided(*view); }

  const Strided& set_winners(Winners* winners) {
    if (winners != nullptr)
      winners_ = {reinterpret_cast<char*>(winners->data.get()), winners->strides, winners->item_bytes};
    return winners_;
  }

  DType dtype_;
  bool stream_;
  Strided x_, out_, tangent_, out_tangent_, indices_, winners_;
  PlaneLayout layout_;
};

// A run of a plane's windows as a plane of its own.
struct Piece {
  std::shared_ptr<const MaxPlan> plan;
  Index first_cell = 0, first_output = 0;
};

constexpr Index kQuickCells = Index{1} << 15;  // in a plane

// The engines for planes of one plan, in the order in which they are tried. One is made when it is first needed.
class Engines {
 public:
  using Make = std::unique_ptr<PlaneEngine> (*)(const MaxPlan&, const MaxPlane&, const CellType&);

  void set(const MaxPlan& plan, const MaxPlane& plane, const CellType& type) {
    static constexpr std::pair<Make, Engine> bins[] = {{make_bins, Engine::max_bins}};
    static constexpr std::pair<Make, Engine> sliding[] = {{make_channels_last, Engine::max_channels_last},
                                                          {make_columns_first, Engine::max_columns_first},
                                                          {make_separable, Engine::max_separable}};
    plan_ = &plan;
    type_ = type;
    made_.clear();
    if (bins_apply(plan, plane)) makers_ = bins;
    else makers_ = sliding;
  }

  // The first engine that `works`; null if there is none.
  template <class Works>
  PlaneEngine* find(const MaxPlane& plane, Works&& works) {
    for (std::size_t i = 0; i < makers_.size(); ++i) {
      if (i == made_.size()) made_.push_back(makers_[i].first(*plan_, plane, type_));
      if (made_[i] && works(*made_[i], makers_[i].second)) return made_[i].get();
    }
    return nullptr;
  }

 private:
  const MaxPlan* plan_ = nullptr;
  CellType type_{DType::f32, Cells::plain};
  std::span<const std::pair<Make, Engine>> makers_;
  std::vector<std::unique_ptr<PlaneEngine>> made_;
};

// What a thread needs to compute planes: engines, and the walk for what they refuse.
class Worker {
 public:
  void compute(const MaxPlan& plan, const MaxPlane& plane, Index begin, Index end) {
    // A look at the clock takes as long as some rows of a small plane.
    if (plan.plane_cells > kQuickCells || (++computed_ & 15u) == 0) poll_interrupts();
    prepare(plan, plane);
    if (keyed_) return by_keys(plan, plane, begin, end);
    values(plan, plane, begin, end);
  }

 private:
  void prepare(const MaxPlan& plan, const MaxPlane& plane) {
    if (plan_ == &plan) return;
    plan_ = &plan;
    bits_ = cell_bits(plane.dtype, plan.cells);
    engines_.set(plan, plane, CellType(plane.dtype, plan.cells));
    keyed_ = plane.value_only() && (plane.dtype == DType::f16 || plane.dtype == DType::bf16);
    if (!keyed_) return;
    key_bits_ = key_bits(plane.dtype, plan.cells);
    key_engines_.set(plan, as_keys(plane), CellType(DType::i16, Cells::plain));
  }

  // The engine that has computed the plane by `run(engine)`; null if all have refused.
  template <class Run>
  PlaneEngine* attempt(Engines& engines, const MaxPlane& plane, Run&& run) {
    return engines.find(plane, [&](PlaneEngine& engine, Engine name) {
      const bool done = run(engine);
      if (done) tally_.add(name);
      else if (plane.stream) select_stream_kernels().finish();
      return done;
    });
  }

  PlaneEngine* attempt_changed(Engines& engines, const MaxPlane& plane, Index begin, Index end, const CellBits& bits) {
    return attempt(engines, plane,
                   [&](PlaneEngine& engine) { return engine.run_changed(plane, begin, end, bits); });
  }

  void values(const MaxPlan& plan, const MaxPlane& plane, Index begin, Index end) {
    if (plan.cells == Cells::plain) return maxima(plan, plane, begin, end);
    if (!is_float(plane.dtype)) {  // engines know their order
      const auto run = [&](PlaneEngine& engine) { return engine.run(plane, begin, end); };
      if (attempt(engines_, plane, run) != nullptr) return;
    } else if (attempt_changed(engines_, plane, begin, end, bits_) != nullptr) {
      return;
    }
    for (Index stop; begin < end; begin = stop) {
      poll_interrupts();
      stop = changed_.run_end(plan, plane, begin, end);
      maxima(plan, changed_.change(plan, plane, begin, stop, bits_), begin, stop);
      ChangedCells::restore(plan, plane, begin, stop, bits_);
      if (plan.cells == Cells::negated) make_plane_quiet(plan, plane, begin, stop);  // a NaN has no sign
    }
  }

  static MaxPlane as_keys(MaxPlane plane) noexcept {
    plane.dtype = DType::i16;
    return plane;
  }

  // Half types by sortable keys, or by their values where a NaN or -0 is among them.
  void by_keys(const MaxPlan& plan, const MaxPlane& plane, Index begin, Index end) {
    const MaxPlane cells = as_keys(plane);
    const auto changes = [&](PlaneEngine& engine, Engine) { return engine.changes(); };
    if (key_engines_.find(cells, changes) != nullptr) {
      if (attempt_changed(key_engines_, cells, begin, end, key_bits_) != nullptr) return;
      return values(plan, plane, begin, end);
    }
    for (Index stop; begin < end; begin = stop) {
      stop = changed_.run_end(plan, plane, begin, end);
      const MaxPlane keys = changed_.change(plan, cells, begin, stop, key_bits_);
      if (!changed_.ordered()) {
        values(plan, plane, begin, stop);
        continue;
      }
      const auto run = [&](PlaneEngine& engine) { return engine.run(keys, begin, stop); };
      if (attempt(key_engines_, keys, run) == nullptr) walk(plan, keys, begin, stop);
      ChangedCells::restore(plan, cells, begin, stop, key_bits_);
    }
  }

  void maxima(const MaxPlan& plan, const MaxPlane& plane, Index begin, Index end) {
    const auto run = [&](PlaneEngine& engine) { return engine.run(plane, begin, end); };
    const PlaneEngine* const engine = attempt(engines_, plane, run);
    if (engine == nullptr) walk(plan, plane, begin, end);
    if (engine != nullptr && engine->has_quiet_nans()) return;
    if (engine != nullptr && plane.stream) select_stream_kernels().finish();
    make_plane_quiet(plan, plane, begin, end);
  }

  void walk(const MaxPlan& plan, const MaxPlane& plane, Index begin, Index end) {
    tally_.add(Engine::max_walk);
    walk_plane(plan, plane, begin, end);
  }

  const MaxPlan* plan_ = nullptr;
  Engines engines_, key_engines_;
  EngineTally tally_;
  CellBits bits_, key_bits_;
  unsigned computed_ = 0;
  bool keyed_ = false;
  ChangedCells changed_;
};

bool alike(const Axis& a, const Axis& b) {
  return a.size == b.size && a.before == b.before && a.after == b.after && a.output == b.output;
}

// Cuts a long line of sliding windows into pieces that threads share and caches hold; neighbours read the cells where
// their windows overlap. All pieces that touch no padding share one plan.
std::vector<Piece> pieces_of(const MaxPlan& plan) {
  const Axis& axis = plan.axes[0];
  const Index cells = std::max(kCellsPerPiece, 8 * std::min(axis.extent(), axis.size));
  const Index outputs = std::max<Index>(1, cells / axis.stride);
  std::vector<Piece> pieces;
  for (Index first = 0; first < axis.output; first += outputs) {
    Axis part = axis;
    part.output = std::min(outputs, axis.output - first);
    const Index start = axis.start(first), stop = axis.start(first + part.output - 1) + axis.extent();
    const Index from = std::clamp<Index>(start, 0, axis.size), to = std::clamp<Index>(stop, from, axis.size);
    part.size = to - from;
    part.before = from - start;
    part.after = std::max<Index>(0, stop - to);
    Piece piece{nullptr, from, first};
    if (!pieces.empty() && alike(pieces.back().plan->axes[0], part)) piece.plan = pieces.back().plan;
    else piece.plan = std::make_shared<MaxPlan>(plan.operator_name, std::vector{part}, plan.ties, plan.nan, plan.cells);
    pieces.push_back(std::move(piece));
  }
  return pieces;
}

MaxPlane piece_of(MaxPlane plane, const Piece& piece) noexcept {
  for (Plane* cells : {&plane.x, &plane.tangent})
    if (*cells) cells->data += piece.first_cell * cells->strides[0];
  for (Plane* outputs : {&plane.out, &plane.out_tangent, &plane.indices, &plane.winners})
    if (*outputs) outputs->data += piece.first_output * outputs->strides[0];
  plane.first_index = piece.first_cell;
  return plane;
}

void run_pieces(const MaxPlan& plan, const Groups& groups) {
  const std::vector<Piece> pieces = pieces_of(plan);
  const auto count = static_cast<Index>(pieces.size());
  parallel_for(groups.layout().groups * count, 1, [&](Index begin, Index end) {
    Worker worker;
    for (Index unit = begin; unit < end; ++unit) {
      const Piece& piece = pieces[static_cast<std::size_t>(unit % count)];
      worker.compute(*piece.plan, piece_of(groups[unit / count], piece), 0, piece.plan->axes[0].output);
    }
    if (groups.stream()) select_stream_kernels().finish();
  });
}

void run(const MaxPlan& plan, const Arrays& arrays) {
  if (arrays.out->count() == 0) return;
  const Groups groups(plan, arrays);
  const PlaneLayout& layout = groups.layout();
  const bool bins = bins_apply(plan, groups[0]);
  if (plan.ndim() == 1 && !bins && !plan.axes[0].adaptive && plan.plane_cells > 2 * kCellsPerPiece)
    return run_pieces(plan, groups);
  const Index rows = plan.axes[0].output;
  const Index cells = std::max<Index>(1, plan.plane_cells) * layout.lanes;
  // Few large planes are cut along their first axis; parts share the rows where their windows overlap.
  const Index threads = num_threads();
  Index parts = 1;
  if ((plan.ndim() > 1 || bins) && layout.groups < 4 * threads && cells >= 2 * kCellsPerThread)
    parts = std::clamp<Index>((4 * threads) / layout.groups, 1, std::min<Index>(rows, cells / kCellsPerThread));
  const Index grain = std::max<Index>(1, kCellsPerThread * parts / cells);
  parallel_for(layout.groups * parts, grain, [&](Index begin, Index end) {
    Worker worker;
    // A thread joins the parts of a plane that are its own.
    for (Index unit = begin; unit < end;) {
      const Index group = unit / parts, first = unit % parts;
      const Index stop = std::min(parts, first + (end - unit));
      worker.compute(plan, groups[group], rows * first / parts, rows * stop / parts);
      unit += stop - first;
    }
    if (groups.stream()) select_stream_kernels().finish();
  });
}

template <class T>
bool first_nan(const ArrayView& x, Index& position) {
  const int last = x.ndim() - 1;
  const Index inner = x.shape[last], outer = inner == 0 ? 0 : x.count() / inner;
  for (Index row = 0; row < outer; ++row) {
    const char* data = x.data + offset_of(x, row, last);
    for (Index i = 0; i < inner; ++i) {
      if (!walk::is_nan(walk::value_of(*reinterpret_cast<const T*>(data + i * x.strides[last])))) continue;
      position = row * inner + i;
      return true;
    }
  }
  return false;
}

void refuse_nan(const MaxPlan& plan, const ArrayView& x) {
  if (plan.nan != NanPolicy::raise || !is_float(x.dtype) || x.count() == 0) return;
  Index flat = 0;
  if (!visit_float(x.dtype, [&](auto tag) { return first_nan<decltype(tag)>(x, flat); })) return;
  std::vector<Index> position(static_cast<std::size_t>(x.ndim()));
  for (int axis = x.ndim() - 1; axis >= 0; --axis) {
    position[static_cast<std::size_t>(axis)] = flat % x.shape[axis];
    flat /= x.shape[axis];
  }
  throw Error(ErrorKind::policy, plan.operator_name, "nan='raise'",
              "the input is NaN at " + tuple_text(position) + "; it must have no NaN", "P3");
}

Winners winners_of(const MaxPlan& plan, const ArrayView& x, const ArrayView& out) {
  Winners winners;
  const Index cells = plan.window_cells;
  if (plan.many_winners()) winners.item_bytes = (cells + 7) / 8;
  else winners.item_bytes = cells <= 0x100 ? 1 : cells <= 0x10000 ? 2 : cells <= 0x100000000 ? 4 : 8;
  winners.bytes = out.count() * winners.item_bytes;
  winners.data.reset(static_cast<std::uint8_t*>(memory_pool::take(static_cast<std::size_t>(winners.bytes))));
  if (!winners.data) throw std::bad_alloc();
  const Index item = static_cast<Index>(item_size(out.dtype));
  for (int axis = 0; axis < out.ndim(); ++axis)
    winners.strides.push_back(out.strides[axis] / item * winners.item_bytes);
  Arrays arrays{&x, &out};
  arrays.winners = &winners;
  run(plan, arrays);
  return winners;
}

// Whether an engine finds all winners of a window at once; `arrays` has a payload.
bool finds_all(const MaxPlan& plan, const Arrays& arrays) {
  return arrays.out->count() > 0 && bins_apply(plan, Groups(plan, arrays)[0]);
}

// The winners under the policy `first`, if those under `last` are the same: every window then has one winner, and the
// same derivative under every policy. The engines know these two policies; for the others there is only the walk.
Winners single_winners(const MaxPlan& first, const ArrayView& x, const ArrayView& out) {
  Winners winners = winners_of(first, x, out);
  const Winners last = winners_of(first.with(Ties::last), x, out);
  winners.single = std::equal(winners.data.get(), winners.data.get() + winners.bytes, last.data.get());
  return winners;
}

}  // namespace

void max_forward(const MaxPlan& plan, const ArrayView& x, const ArrayView& out) {
  refuse_nan(plan, x);
  run(plan, {&x, &out});
}

void max_indices(const MaxPlan& plan, const ArrayView& x, const ArrayView& out, const ArrayView& indices) {
  refuse_nan(plan, x);
  Arrays arrays{&x, &out};
  arrays.indices = &indices;
  run(plan, arrays);
}

void max_jvp(const MaxPlan& plan, const ArrayView& x, const ArrayView& tangent, const ArrayView& out,
             const ArrayView& out_tangent) {
  refuse_nan(plan, x);
  const Arrays arrays{&x, &out, &tangent, &out_tangent};
  if (!plan.many_winners() || finds_all(plan, arrays)) return run(plan, arrays);
  const MaxPlan first = plan.with(Ties::first);
  run(single_winners(first, x, out).single ? first : plan, arrays);
}

Winners max_winners(const MaxPlan& plan, const ArrayView& x, const ArrayView& out) {
  refuse_nan(plan, x);
  if (!plan.many_winners() || finds_all(plan, {&x, &out, &x, &out})) return winners_of(plan, x, out);
  Winners single = single_winners(plan.with(Ties::first), x, out);
  return single.single ? std::move(single) : winners_of(plan, x, out);
}

}  // namespace halfulp

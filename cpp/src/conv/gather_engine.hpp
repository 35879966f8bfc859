// Applies to every output and input product; its bounds: Theorem 1 and, for float64, Lemma 3 in
// docs/explanation/error-bounds-convolution.md.
//
// Gather products by tiles: stage a slab, sum products, accept or resolve, write. Three routes:
// - matrix: output channels in vector lanes, source cells broadcast; for output channels that fill vectors;
// - dense: positions in vector lanes, weights broadcast, for matrix products: the sums lie as the outputs do;
// - stencil: positions in vector lanes, weights broadcast; for few output channels (depthwise, one output channel).
#pragma once

#include "conv/gather_problem.hpp"
#include "conv/stage.hpp"
#include "conv/tasks.hpp"

namespace halfulp::conv {

inline constexpr Index kBlockDepth = 160;        // products summed before they are added to the running sums
inline constexpr Index kSlabBytes = 192 << 10;   // of one staging
inline constexpr Index kTileBytes = 384 << 10;   // of one staging of a matrix product
inline constexpr Index kPackedBytes = 16 << 20;  // of packed filters at a time
inline constexpr Index kChunkBytes = 16 << 20;   // of packed filters that one task walks through
inline constexpr Index kPackPiece = 256;         // products of a filter that are packed at a time
inline constexpr Index kMostPackColumns = 16;    // a vector of the widest registers
inline constexpr Index kNearBytes = 1 << 20;     // of packed filters that stay in the second-level cache
inline constexpr Index kMatrixTile = 256;        // positions
inline constexpr Index kLeastTile = 128;         // if all channels are to be staged at a time
inline constexpr Index kRowTile = 64;            // positions whose channels lie side by side: longer runs of them
inline constexpr Index kStencilTile = 2048;
inline constexpr Index kShallow = 64;            // the most products of outputs that a stencil sums for many channels
inline constexpr Index kShallowTile = 512;
inline constexpr Index kLineTile = 16384;     // of a stencil that finishes line by line, times channels
inline constexpr Index kLinePositions = 256;  // of the lines that it finishes together
inline constexpr Index kMatrixCost = 16;      // what a tile costs beside its positions, in positions
inline constexpr Index kStencilCost = 256;

// Some output channels of a group, packed as panel[k][column].
struct Panel {
  Index group, first, columns, width;  // columns that exist, columns with the filling
  Index packed;                        // offset in the packed filters
};

// Some columns of a panel that are packed together.
struct PackUnit {
  Index panel, column, width;
};

// Panels [begin, end) of one group, which a task takes together.
struct Chunk {
  Index begin, end;
  Index width;  // of the panels together
};

// A tile of a sample for the output channels of a chunk.
struct GatherTask {
  Index n, tile, chunk;
};

// Positions [first, first + count) of a tile, of one output channel of a sample.
struct Part {
  Index n, group, row, first, count;
};

// What one thread needs.
template <class S>
struct GatherWorkspace {
  SlabPlan plan;
  Buffer<S, true> slab;
  Buffer<S> sums, turned;
  Buffer<S, true> lines;  // channels on their way into the slab of the dense route
  Buffer<double> squares, partial[2], reach, floors;
  Buffer<std::byte> rounded;
  Buffer<std::uint8_t> bad;
  std::vector<const S*> rows;
  std::vector<Index> offsets, run_offsets;
  std::vector<char> padded;  // whether a position touches padding
  std::vector<SlabLayout> layouts;
  std::vector<Index> slab_begin;
  bool whole = false;  // whether the slab still holds every cell of the tile
  // Per source: the least reach of a position or, for a stencil, the largest magnitude of a cell.
  double extreme[2] = {0, 0};
  Buffer<S> magnitudes, terms;  // of the slab's cells, and of each position's products
  bool measured = false;        // whether the former are those of the tile
  bool spread = false;   // whether the reaches of a stencil's positions hold that magnitude, or something better
  bool refined = false;  // something better
  Index seen = 0, undecided = 0;
  const void* engine = nullptr;
  Index number = 0;        // of the task
  Ahead ahead;          // what will be staged next
  Ahead ahead_out;      // what will be written next
  Index tile = -1;         // of that engine, which the plan, the padding and the runs are for
  Index stride = 0;        // between rows of the sums, or of the turned sums
  bool in_one_run = false;  // whether the tile's outputs lie side by side
};

template <class S>
class GatherEngine {
 public:
  using Workspace = GatherWorkspace<S>;

  // `packed_bytes` is what packed filters may take, more only if a single panel does.
  GatherEngine(const GatherProblem& problem, const ConvKernels& kernels, Index packed_bytes);

  // The work comes in batches of chunks, nearly always one: while (next_batch()) pack all columns, then run every task.
  bool next_batch();
  Index pack_count() const { return static_cast<Index>(pack_units_.size()); }
  void pack_columns(Index number, Buffer<S>& lines);
  // Whether the packed filters allow this mode: `fast` cannot cope with infinite or NaN weights over padding.
  bool usable() const { return correct_ || finite_filters_; }
  Index task_count() const { return (batch_end_ - batch_begin_) * p_.batch * tiling_.count(); }
  void run_task(Workspace& work, Index number);

 private:
  // gather_pack.hpp
  Index chunk_count(Index lane, Index most) const;
  void make_panels();
  void open_batch(Index begin);
  void load_filter(std::size_t source, Index group, Index row, Index first, Index n, S* line);
  void measure_filter(const S* line, Index n, double& size);
  // gather_sums.hpp
  Index tile_size(Index chunks) const;
  bool channels_inside(const SourcePlanes& planes) const {
    return !stencil_ && planes.channel == 1 && planes.spatial.back() != 1;
  }
  GatherTask task_of(Index number) const;
  Ahead cells_of(std::size_t source, Index n, Index group, const Tile& tile, Index first, Index step) const;
  Ahead outputs_of(const Workspace& work, const Chunk& chunk, Index n) const;
  Ahead cells_of_next_task(const Workspace& work, Index step) const;
  void matrix_sums(Workspace& work, const Chunk& chunk, Index n, const Tile& tile);
  void matrix_block(Workspace& work, const Chunk& chunk, Index number, Index first_k, const Index* offsets, Index depth,
                    S* column, bool first);
  SlabLayout find_cells(Workspace& work, std::size_t source, Index n, Index group, const Tile& tile, Index first,
                        Index count, const S*& cells);
  SlabLayout stage(Workspace& work, std::size_t source, Index n, Index group, Index first, Index count, S* slab);
  // gather_dense.hpp
  void dense_task(Workspace& work, const Chunk& chunk, Index n, const Tile& tile);
  void stage_panels(Workspace& work, std::size_t source, Index n, Index group, Index first, Index count);
  // gather_stencil.hpp
  void stencil_sums(Workspace& work, const Chunk& chunk, Index n, const Tile& tile);
  void stencil_block(Workspace& work, const Chunk& chunk, const Tile& tile, const S* slab, Index first_k,
                     const Index* offsets, Index depth, bool first);
  void take_lines(Workspace& work, const Chunk& chunk, const Panel& panel, const Tile& tile, Index first, Index count,
                  Index stride);
  void finish_stencil(Workspace& work, const Chunk& chunk, Index n, const Tile& tile);
  // gather_finish.hpp
  void fill_without_terms();
  double largest_in(const double* slab, const SlabLayout& layout, Index channels, Index cells) const;
  void add_sizes(Workspace& work, const double* slab, const SlabLayout& layout, Index channels);
  void finish_reach(Workspace& work, std::size_t source);
  void refine_reach(Workspace& work);
  void measure_terms(Workspace& work, const Part& part, Acceptance& acceptance);
  void mark_padding(Workspace& work, const Tile& tile);
  void find_runs(Workspace& work, const Tile& tile);
  void finish_matrix(Workspace& work, const Chunk& chunk, Index n, const Tile& tile);
  void finish_rows(Workspace& work, const Chunk& chunk, Index n, const Tile& tile, S* high, Index stride);
  void turn_into_output(Workspace& work, const Chunk& chunk, Index n, Index positions);
  void finish_part(Workspace& work, const Part& part, S* high, S* low, const Tile& tile, const Margin* margin);
  void finish_fast(const Part& part, S* sums, const Outputs& out);
  bool find_margin(Workspace& work, Index group, Index row, Margin& margin) const;
  void finish_correct(Workspace& work, const Part& part, double* high, double* low, const Tile& tile,
                      const Margin* margin, const Outputs& out);
  Acceptance acceptance(Workspace& work, const Part& part) const;
  void write(Workspace& work, const Part& part, const Outputs& plane, Index run);
  void add_line_bias(const Part& part, const Tile& tile, S* high, S* low) const;
  // What is still to be added to the sums of an output channel, and a bound on its magnitude or on what was added.
  double bias_left(Index group, Index row) const {
    return p_.bias == nullptr || p_.bias_position != 0 ? -0.0 : p_.bias_of(group, row);
  }
  double bias_size(Index group, Index row) const {
    return p_.bias_position != 0 ? largest_bias_ : std::abs(bias_left(group, row));
  }
  double find_exact_limit() const;
  // Whether sums are of the elements' own type.
  bool same_type() const { return type_.size == static_cast<Index>(sizeof(S)); }
  Outputs rounded(Workspace& work, Index n) const { return {work.rounded.at_least(n * type_.size), &type_}; }

  const GatherProblem& p_;
  const ElementType& type_;
  const ConvKernels& kernels_;
  const Index packed_bytes_;
  const ProductKernels<S>& products_;
  const bool correct_, twofold_, stencil_, dense_;
  const bool by_position_;  // bounds for each position, not for the tile
  const bool shallow_;
  const Index taps_, depth_;                          // depth_: products of an output, all sources together
  Index block_channels_, block_taps_;                 // a block: some channels with all taps, or some taps of one
  bool one_block_ = false;                            // whether one block holds all products of an output
  double additions_ = 0;                              // that a product can pass through
  double gamma_ = 0;
  std::vector<std::vector<Index>> filter_offsets_;
  std::vector<char> in_one_run_;  // per source, whether all weights of an output channel lie side by side in this order
  std::vector<Panel> panels_;
  std::vector<Chunk> chunks_;
  std::vector<PackUnit> pack_units_;
  Index batch_begin_ = 0, batch_end_ = -1;  // chunks
  Tiling tiling_;
  Buffer<S> packed_;
  S* packed_data_ = nullptr;
  std::vector<std::vector<double>> filter_size_;  // per source, per output channel
  double largest_bias_ = 0;  // of those along an axis
  std::atomic<bool> finite_filters_{true};
  ExactLimit exact_;
};

// Few products for each of many outputs that lie side by side, as in the weight cotangent of a linear layer: sums that
// need no transposition cost less than those of the matrix route.
inline bool is_shallow(const GatherProblem& problem) {
  const GatherAxis& axis = problem.gather.front();
  return problem.mode == Mode::wide && problem.gather.size() == 1 && problem.taps() == 1 && axis.step == 1 &&
         problem.channels <= kShallow && problem.sources.size() == 1 && axis.positions >= 2 * kShallowTile &&
         axis.out_step == 1 && problem.out.spatial[0] == 1 && problem.sources.front().planes.spatial[0] == 1;
}

// Lanes in use: of the output channels (matrix), or of the positions along the last axis (stencil).
inline bool prefers_stencil(const GatherProblem& problem, Index width) {
  if (is_shallow(problem)) return true;
  if (problem.rows > 2 * kMaxStencilChannels) return false;
  const SourcePlanes& planes = problem.sources.front().planes;
  if (problem.taps() == 1 && problem.channels > 1 && planes.channel == 1 && planes.spatial.back() != 1) return false;
  const auto share = [&](Index n) { return static_cast<double>(n) / static_cast<double>(ceil_div(n, width) * width); };
  return share(std::max<Index>(1, problem.gather.back().positions)) > share(std::max<Index>(1, problem.rows));
}

// Matrix products whose positions lie side by side and fill vectors about as well as the output channels do.
template <class S>
bool prefers_dense(const GatherProblem& problem, const ProductKernels<S>& products) {
  if (problem.mode == Mode::twofold || problem.taps() != 1 || problem.variants != 1) return false;
  if (problem.gather.size() != 1 || problem.gather.front().step != 1) return false;
  for (const Source& source : problem.sources)
    if (source.planes.spatial.back() != 1 && source.planes.channel == 1) return false;
  const auto share = [](Index n, Index of) {
    return static_cast<double>(n) / static_cast<double>(ceil_div(n, of) * of);
  };
  const Index positions = position_count(problem.gather);
  return positions >= 2 * products.width && problem.rows >= products.dense_rows &&
         share(positions, products.width) * share(problem.rows, products.dense_rows) >=
             0.95 * share(positions, products.rows) * share(problem.rows, products.width);
}

template <class S>
GatherEngine<S>::GatherEngine(const GatherProblem& problem, const ConvKernels& kernels, Index packed_bytes)
    : p_(problem),
      type_(*problem.out.data.type),
      kernels_(kernels),
      packed_bytes_(packed_bytes),
      products_(product_kernels<S>(kernels, problem.mode)),
      correct_(problem.mode != Mode::fast),
      twofold_(problem.mode == Mode::twofold),
      stencil_(prefers_stencil(problem, products_.width)),
      dense_(!stencil_ && prefers_dense(problem, products_)),
      by_position_(problem.mode != Mode::fast && !stencil_),
      shallow_(is_shallow(problem)),
      taps_(problem.taps()),
      depth_(taps_ * problem.channels * static_cast<Index>(problem.sources.size())) {
  const Index fitting = std::max<Index>(1, kBlockDepth / std::max<Index>(1, taps_));  // channels
  block_channels_ = std::max<Index>(1, ceil_div(p_.channels, std::max<Index>(1, ceil_div(p_.channels, fitting))));
  block_taps_ = taps_ <= kBlockDepth ? taps_ : ceil_div(taps_, ceil_div(taps_, kBlockDepth));
  if (depth_ == 0) return;
  one_block_ = depth_ <= block_channels_ * block_taps_ && p_.sources.size() == 1;
  const Index blocks = ceil_div(p_.channels, block_channels_) * ceil_div(taps_, block_taps_);
  const Index block = std::min(block_channels_, p_.channels) * block_taps_;
  additions_ = static_cast<double>(block + blocks * static_cast<Index>(p_.sources.size()) + 2);
  const double unit = 0x1p-53;
  gamma_ = twofold_ ? 4 * (additions_ + 2) * (additions_ + 2) * unit * unit : 1.001 * (additions_ + 8) * unit;
  for (const Source& source : p_.sources) {
    const std::vector<Index> offsets = p_.filter_offsets(source);
    const bool run = std::is_sorted(offsets.begin(), offsets.end()) && offsets.back() - offsets.front() == taps_ - 1;
    in_one_run_.push_back(run && (source.channel == taps_ || p_.channels == 1));
    filter_offsets_.push_back(offsets);
  }
  filter_size_.assign(p_.sources.size(), std::vector<double>(static_cast<std::size_t>(p_.groups * p_.rows)));
  if (p_.bias_position == 0) return;
  for (Index i = 0; i < p_.gather.front().positions; ++i) {
    const double size = std::abs(p_.bias_of(0, 0, i));
    if (size <= std::numeric_limits<double>::max()) largest_bias_ = std::max(largest_bias_, size);
  }
}

template <class S>
bool GatherEngine<S>::next_batch() {
  if (batch_end_ < 0) {
    batch_end_ = 0;
    if (p_.batch == 0 || p_.groups * p_.rows == 0 || position_count(p_.gather) == 0) return false;
    if (depth_ == 0) {
      fill_without_terms();
      return false;
    }
    make_panels();
  }
  if (batch_end_ >= static_cast<Index>(chunks_.size())) return false;
  open_batch(batch_end_);
  return true;
}

}  // namespace halfulp::conv

#include "conv/gather_finish.hpp"
#include "conv/gather_pack.hpp"
#include "conv/gather_sums.hpp"
#include "conv/gather_dense.hpp"
#include "conv/gather_stencil.hpp"

// Groups of contiguous runs in double. For kernels only.
#pragma once

#include "normalize/kernels/precise.hpp"

namespace halfulp::HALFULP_ISA_NAMESPACE {
namespace {

// Positions that double leaves undecided; if there are too many, all of the group's cells count as undecided.
struct Undecided {
  static constexpr Index capacity = 256;
  Index positions[capacity], count = 0;
  void add(Index position) {
    if (count < capacity) positions[count] = position;
    ++count;
  }
};

constexpr bool uses_cells(Rule rule) { return rule != Rule::cotangent_given; }
constexpr bool uses_tangents(Rule rule) { return rule != Rule::value && rule != Rule::cell_value; }
constexpr bool uses_weights(Rule rule) {
  return rule == Rule::cell_value || rule == Rule::cell_cotangent || rule == Rule::cell_tangent;
}

// Where the numbers of one output come from.
struct Sources {
  const float *x, *t;
  CellWeights weights;
};

inline CellWeights weights_from(const CellWeights& all, Index cell) {
  CellWeights own = all;
  own.weight += cell;
  own.bias += cell;
  own.d_weight += cell;
  own.d_bias += cell;
  return own;
}

// The six numbers of a formula, and the same of their magnitudes.
template <Rule rule, class V>
struct Numbers {
  V c{}, t{}, w{}, b{}, dw{}, db{};

  template <class Read>
  HALFULP_ALWAYS_INLINE Numbers(const Sources& from, double pivot, const Read& read) {
    if constexpr (uses_cells(rule)) c = read(from.x, pivot) - pivot;
    if constexpr (uses_tangents(rule)) t = read(from.t, 0.0);
    if constexpr (uses_weights(rule)) w = read(from.weights.weight, 0.0);
    if constexpr (rule == Rule::cell_value) b = read(from.weights.bias, 0.0);
    if constexpr (rule == Rule::cell_tangent) {
      dw = read(from.weights.d_weight, 0.0);
      db = read(from.weights.d_bias, 0.0);
    }
  }
  HALFULP_ALWAYS_INLINE V value(const Form& form) const { return form.template value<rule>(c, t, w, b, dw, db); }
  HALFULP_ALWAYS_INLINE double error(const Form& form) const {
    return form.template error<rule>(std::fabs(c), std::fabs(t), std::fabs(w), std::fabs(b), std::fabs(dw),
                                     std::fabs(db));
  }
};

// Of a run; infinity or NaN if a number is not finite.
inline double largest_magnitude(const float* x, Index n) {
  using Bits = std::uint32_t;
  constexpr Index width = kLanes<Bits>;
  const Vector<Bits> sign = splat(~Bits{0} >> 1);
  Vector<Bits> most[2]{};
  Index at = 0;
  for (; at + 2 * width <= n; at += 2 * width)
    for (int i = 0; i < 2; ++i)
      most[i] = larger(most[i], Vector<Bits>(load(reinterpret_cast<const Bits*>(x + at + i * width)) & sign));
  if (at < n && n >= 2 * width) {  // the last ones once more, up to the end
    at = n;
    for (int i = 0; i < 2; ++i)
      most[i] = larger(most[i], Vector<Bits>(load(reinterpret_cast<const Bits*>(x + n - (i + 1) * width)) & sign));
  }
  Bits found = 0;
  Bits lanes[width];
  store(lanes, larger(most[0], most[1]));
  for (const Bits lane : lanes) found = lane > found ? lane : found;
  for (; at < n; ++at) {
    const Bits bits = std::bit_cast<Bits>(x[at]) & (~Bits{0} >> 1);
    found = bits > found ? bits : found;
  }
  return number(std::bit_cast<float>(found));
}

struct OneItem {
  Index at;
  template <class T>
  double operator()(const T* x, double) const {
    return number(x[at]);
  }
};

// A run of outputs from place `first` of problem.out on; `results` are the same as floats.
template <Rule rule>
class Run {
 public:
  Run(const Form& form, const Sources& from, const NormProblem& p, float* results, Index first, Undecided& undecided)
      : form_(form), from_(from), p_(p), results_(results), first_(first), undecided_(undecided) {}

  // `bound` is an error that holds for all of them.
  void all(Index n, double bound) {
    if (!std::isfinite(bound)) {
      for (Index i = 0; i < n; ++i) one(i);
      return;
    }
    vectors(n, enough(bound));
    if (is_half(p_.dtype)) narrow_floats(p_.dtype, results_, n, p_.out, first_, [&](Index i) { one(i); });
  }

 private:
  void vectors(Index n, double bound) {
    constexpr int together = 4;
    const Form form = form_;
    const Sources from = from_;
    float* const out = results_;
    const Doubles error = splat(bound);
    Index at = 0;
    for (; at + together * kWide <= n; at += together * kWide) {
      Ends<float> ends;
      for (int i = 0; i < together; ++i) put(form, from, out, error, ends, WholeVector{at + i * kWide});
      if (ends.differ()) check(at, together * kWide);
    }
    for (; at + kWide <= n; at += kWide) {
      Ends<float> ends;
      put(form, from, out, error, ends, WholeVector{at});
      if (ends.differ()) check(at, kWide);
    }
    if (at == n) return;
    Ends<float> ends;
    if (n >= kWide) {  // the last vector once more, up to the end
      at = n - kWide;
      put(form, from, out, error, ends, WholeVector{at});
    } else {
      put(form, from, out, error, ends, FirstItems{at, n - at});
    }
    if (ends.differ()) check(at, n - at);
  }
  template <class Read>
  static HALFULP_ALWAYS_INLINE void put(const Form& form, const Sources& from, float* out, const Doubles& error,
                                        Ends<float>& ends, const Read& read) {
    const Doubles y = Numbers<rule, Doubles>(from, form.pivot, read).value(form);
    if constexpr (std::is_same_v<Read, WholeVector>) ends.put_within(out + read.at, y, error);
    else ends.put_first(out + read.at, Doubles(y - error), Doubles(y + error), read.count());
  }

  __attribute__((noinline)) void check(Index at, Index count) {
    for (Index i = at; i < at + count; ++i) {
      if (is_half(p_.dtype)) results_[i] = undecided_float(p_.dtype);
      else one(i);
    }
  }
  // With an error of its own.
  __attribute__((noinline)) void one(Index i) {
    const Numbers<rule, double> numbers(from_, form_.pivot, OneItem{i});
    if (!decide_as(p_.dtype, numbers.value(form_), numbers.error(form_), p_.out, first_ + i))
      undecided_.add(first_ + i);
  }

  const Form& form_;
  const Sources& from_;
  const NormProblem& p_;
  float* results_;
  Index first_;
  Undecided& undecided_;
};

class QuickGroup {
 public:
  QuickGroup(const NormProblem& p, const CellWeights& weights, Index group, const NormReport& report)
      : p_(p), weights_(weights), group_(group), report_(report) {}

  void run() {
    PreciseGroup precise(p_, group_, report_);
    if (p_.dtype == DType::f64) return precise.all();
    find_moments();
    if (p_.t != nullptr && !given()) project<false>();
    else if (p_.sums != nullptr) project<true>();
    if (p_.out == nullptr) return;
    if (zero_ && p_.work == NormWork::cotangent) return fill_zeros();
    if (moments_.good == 0 || !evaluate() || undecided_.count > Undecided::capacity) return precise.all();
    if (undecided_.count > 0) precise.at(undecided_.positions, undecided_.count);
  }

 private:
  bool given() const { return p_.mean != nullptr; }
  double cells() const { return static_cast<double>(p_.cells()); }
  Index pieces() const { return p_.per_cell ? 1 : p_.channels; }
  Index piece_length() const { return p_.inner / pieces(); }
  Index channel0() const { return (p_.joint ? group_ : group_ % p_.groups) * p_.channels; }

  void find_moments() {
    if (p_.moments_known) {
      moments_ = p_.moments[given() ? group_ % p_.groups : group_];
      return;
    }
    moments_ = group_moments(p_, group_);
    if (p_.moments != nullptr) p_.moments[group_] = moments_;
  }

  template <bool Squares>
  void project();
  bool evaluate();
  template <Rule rule>
  void outputs(const Form& form, Index piece);
  void fill_zeros();
  bool equal_factors() const;

  const NormProblem& p_;
  const CellWeights& weights_;
  Index group_;
  const NormReport& report_;
  GroupMoments moments_{};
  GroupSums sums_{};
  bool zero_ = false;  // the derivative in x vanishes
  Undecided undecided_;
};

// Given statistics come without the sum of squares.
template <bool Squares>
void QuickGroup::project() {
  CellRow<float> x(p_.dtype, p_.x), t(p_.dtype, p_.t);
  const bool weighted = p_.work == NormWork::cotangent;
  Pair h_all{0.0, 0.0}, hc_all{0.0, 0.0};
  for (Index piece = 0; piece < pieces(); ++piece) {
    ProjectionSums<Squares> found;
    for (Index run = 0; run < p_.runs(); ++run) {
      const Index start = p_.start(group_, run) + piece * piece_length();
      in_chunks<float>(p_.dtype, piece_length(), [&](Index at, Index count) {
        const float *const cells = x.at(start + at, count), *const tangents = t.at(start + at, count);
        if (weighted && p_.per_cell) found.add(cells, tangents, weights_.weight + at, count, moments_.pivot);
        else found.add(cells, tangents, static_cast<const void*>(nullptr), count, moments_.pivot);
      });
    }
    NormSums own{};
    own.h = lane_sum(found.h);
    own.hc = lane_sum(found.hc);
    for (int i = 0; i < kWide; ++i) {
      own.hh += found.hh[i] * (1 + 0x1p-20);
      own.cc += found.cc[i] * (1 + 0x1p-20);
    }
    own.most = std::sqrt(largest_lane(found.most)) * (1 + 0x1p-40);
    if (p_.sums != nullptr) p_.sums[group_ * pieces() + piece] = own;
    const double w = weighted && !p_.per_cell ? number_or(p_.dtype, p_.weight, channel0() + piece, 1.0) : 1.0;
    const double size = std::fabs(w);
    h_all = h_all + product_of(own.h, w);
    hc_all = hc_all + product_of(own.hc, w);
    sums_.hh += size * size * own.hh * (1 + 0x1p-40);
    sums_.most = std::fmax(sums_.most, own.most);
  }
  sums_.h = h_all.high;
  sums_.hc = hc_all.high;
  const double n = cells(), spread = n * sums_.hh - sums_.h * sums_.h;
  zero_ = !Squares && spread <= n * sums_.hh * 0x1p-16 && equal_factors();
}

// Whether h is the same in all cells: then h - mean(h) and the sum of h c are zero.
inline bool QuickGroup::equal_factors() const {
  const bool weighted = p_.work == NormWork::cotangent;
  const auto factor = [&](Index at, Index piece, Index cell) {
    const double w = !weighted     ? 1.0
                     : p_.per_cell ? weights_.weight[cell]
                                   : number_or(p_.dtype, p_.weight, channel0() + piece, 1.0);
    return number_at(p_.dtype, p_.t, at) * w;
  };
  const double first = factor(p_.start(group_, 0), 0, 0);
  if (!std::isfinite(first) || moments_.good == 0) return false;
  for (Index run = 0; run < p_.runs(); ++run)
    for (Index piece = 0; piece < pieces(); ++piece)
      for (Index i = 0; i < piece_length(); ++i)
        if (factor(p_.start(group_, run) + piece * piece_length() + i, piece, i) != first) return false;
  return true;
}

inline void QuickGroup::fill_zeros() {
  for (Index run = 0; run < p_.runs(); ++run)
    for (Index at = p_.start(group_, run), end = at + p_.inner; at < end; ++at) put_as(p_.dtype, 0.0, p_.out, at);
}

// False if a coefficient is not finite.
inline bool QuickGroup::evaluate() {
  Form derivative;
  if (p_.work != NormWork::value) {
    GroupMoments m = moments_;
    if (given()) m.square = 0;  // multiplies sums that are zero
    const bool still = zero_ || p_.t == nullptr || given();
    derivative = derivative_form(m, still ? GroupSums{} : sums_, cells());
    if (zero_ || p_.t == nullptr) derivative.along = derivative.along_error = 0;
  }
  if (p_.per_cell) {
    Form form = derivative;
    if (p_.work == NormWork::value) normal_part(form, moments_);
    for (const double size : weights_.largest)
      if (!std::isfinite(size)) return false;
    if (!form.finite()) return false;
    if (p_.work == NormWork::value) outputs<Rule::cell_value>(form, 0);
    else if (p_.work == NormWork::cotangent) outputs<Rule::cell_cotangent>(form, 0);
    else outputs<Rule::cell_tangent>(form, 0);
    return true;
  }
  for (Index piece = 0; piece < pieces(); ++piece) {
    const Index own = channel0() + piece;
    const double w = number_or(p_.dtype, p_.weight, own, 1.0);
    if (p_.work == NormWork::value) {
      const Form form = value_form(moments_, w, number_or(p_.dtype, p_.bias, own, 0.0));
      if (!form.finite()) return false;
      outputs<Rule::value>(form, piece);
    } else if (p_.work == NormWork::cotangent) {
      // h is w times g, and both means are of h: only g's own factor has the weight.
      const Form scaled = tangent_form(derivative, w, 0.0, 0.0);
      Form form = derivative;
      form.along = scaled.along;
      form.along_error = scaled.along_error;
      if (!form.finite()) return false;
      if (given()) outputs<Rule::cotangent_given>(form, piece);
      else outputs<Rule::both>(form, piece);
    } else {
      const double dw = number_or(p_.dtype, p_.d_weight, own, 0.0), db = number_or(p_.dtype, p_.d_bias, own, 0.0);
      const Form form = tangent_form(derivative, w, dw, db);
      if (!form.finite()) return false;
      outputs<Rule::both>(form, piece);
    }
  }
  return true;
}

// The runs of one channel.
template <Rule rule>
void QuickGroup::outputs(const Form& form, Index piece) {
  const double* const l = weights_.largest;
  const bool weighted = rule == Rule::cell_cotangent;  // sums_.most is that of t w
  const double shared =
      form.template error<rule>(moments_.largest, sums_.most, weighted ? 1.0 : l[0], l[1], l[2], l[3]);
  const void* const tangents = p_.t == nullptr ? p_.x : p_.t;  // along is 0 then
  CellRow<float> x(p_.dtype, p_.x), t(p_.dtype, tangents);
  float results[kChunk];
  for (Index run = 0; run < p_.runs(); ++run)
    in_chunks<float>(p_.dtype, piece_length(), [&](Index at, Index count) {
      const Index start = p_.start(group_, run) + piece * piece_length() + at;
      const Sources from{x.at(start, count), uses_tangents(rule) ? t.at(start, count) : nullptr,
                   uses_weights(rule) ? weights_from(weights_, at) : CellWeights{}};
      double bound = shared;
      if (given()) {  // nobody has looked at the cells yet
        const double cells = uses_cells(rule) ? largest_magnitude(from.x, count) + std::fabs(form.pivot) : 0.0;
        const double along = uses_tangents(rule) ? largest_magnitude(from.t, count) : 0.0;
        bound = form.template error<rule>(cells, along, l[0], l[1], l[2], l[3]);
      }
      float* const out = is_half(p_.dtype) ? results : static_cast<float*>(p_.out) + start;
      Run<rule>(form, from, p_, out, start, undecided_).all(count, bound);
    });
}

}  // namespace
}  // namespace halfulp::HALFULP_ISA_NAMESPACE

// Groups of contiguous runs in double. For kernels only.
#pragma once

#include "normalize/kernels/float_form.hpp"
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
  own.float_weight += cell;
  for (int level = 0; level < 2; ++level) {
    own.bias_shift[level] += cell;
    own.bias_low[level] += cell;
    own.bias_high[level] += cell;
  }
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

struct OneItem {
  Index at;
  template <class T>
  double operator()(const T* x, double) const {
    return number(x[at]);
  }
};

// Up to which magnitudes of cells and tangents the error bound and the form in float32 of some outputs hold.
template <Rule rule>
struct Reach {
  const Form& form;
  const CellWeights& weights;
  double x_most = 0, t_most = 0, bound = 0;
  FloatForm<rule> floats{};

  // `c_most` is the largest distance from the pivot.
  void set(double c_most, double x, double t) {
    x_most = x;
    t_most = t;
    bound = error(c_most, t);
    if constexpr (FloatForm<rule>::exists) floats = FloatForm<rule>(form, x, t, weights, bound);
  }
  double error(double c_most, double t) const {
    const double* const largest = weights.largest;
    const double w = rule == Rule::cell_cotangent ? 1.0 : largest[0];  // t is that of t w there
    return form.template error<rule>(c_most, t, w, largest[1], largest[2], largest[3]);
  }
};

// A run of outputs from place `first` of problem.out on; `results` are the same as floats.
template <Rule rule>
class Run {
  static constexpr int kSideBySide = kVectorBytes == 64 ? 4 : 2;  // as many as the registers hold

 public:
  Run(const Form& form, const Sources& from, const NormProblem& p, float* results, Index first, Undecided& undecided,
      Reach<rule>& reach)
      : form_(form), from_(from), p_(p), results_(results), first_(first), undecided_(undecided), reach_(reach) {}

  void all(Index n) {
    if (!float_vectors(0, n)) wide(0, n);
    if (is_half(p_.dtype)) narrow_floats(p_.dtype, results_, n, p_.out, first_, [&](Index i) { one(i); });
  }

  // The outputs from `at` on, if float32 arithmetic may be tried.
  bool float_vectors(Index at, Index n) {
    if constexpr (FloatForm<rule>::exists) {
      if (n < kLanes<float> || !reach_.floats.good()) return false;
      if (p_.mean == nullptr) float_vectors_of<true>(at, n);
      else float_vectors_of<false>(at, n);
    }
    return FloatForm<rule>::exists;
  }
  // In double, with one bound. Of given statistics nobody has looked at the cells yet.
  HALFULP_NOINLINE void wide(Index at, Index end) {
    if (at == end) return;
    double bound = reach_.bound;
    if (p_.mean != nullptr) {
      const double x = uses_cells(rule) ? largest_magnitude(from_.x + at, end - at) : 0.0;
      const double t = uses_tangents(rule) ? largest_magnitude(from_.t + at, end - at) : 0.0;
      bound = reach_.error(x + std::fabs(form_.pivot), t);
      if (FloatForm<rule>::exists && std::isfinite(bound) && !(x <= reach_.x_most && t <= reach_.t_most))
        reach_.set(1.5 * x + std::fabs(form_.pivot), 1.5 * x, 1.5 * t);
    }
    if (std::isfinite(bound)) return vectors(at, end, enough(bound));
    for (; at < end; ++at) {
      if (is_half(p_.dtype)) results_[at] = undecided_float(p_.dtype);
      else one(at);
    }
  }

 private:
  // Blocks with undecided cells once more in double; all that follow, if these are many.
  template <bool known>
  void float_vectors_of(Index at, Index n) {
    constexpr Index width = kLanes<float>, together = 4 * width;
    FloatForm<rule> form = reach_.floats;
    const Sources from = from_;
    float* const out = results_;
    Index most = n / (16 * together) + 4;
    for (; at + together <= n; at += together) {
      WordVector odd{}, beyond{};
      if constexpr (uses_weights(rule))  // the moments of the next row need its cells at once
        for (Index i = at; i < at + together; i += 16) prefetch_line(from.x + i + n);
      for (Index i = at; i < at + together; i += kSideBySide * width)
        float_values<known, kSideBySide>(form, from, i, out, odd, beyond);
      if (!any_bit(odd | form.exponents(beyond))) continue;
      wide(at, at + together);
      if (--most == 0 || !reach_.floats.good()) return wide(at + together, n);
      form = reach_.floats;
    }
    for (; at < n; at += width) {
      at = at + width <= n ? at : n - width;  // the last vector once more, up to the end
      WordVector odd{}, beyond{};
      float_values<known, 1>(form, from, at, out, odd, beyond);
      if (any_bit(odd | form.exponents(beyond))) wide(at, at + width);
    }
  }
  template <bool known, int count>
  static HALFULP_ALWAYS_INLINE void float_values(const FloatForm<rule>& form, const Sources& from, Index at, float* out,
                                                 WordVector& odd, WordVector& beyond) {
    FloatVector x[count], t[count]{}, w[count]{}, results[count];
    CellBias bias[count];
HALFULP_UNROLL(8)
    for (int j = 0; j < count; ++j) {
      const Index i = at + j * kLanes<float>;
      x[j] = load(from.x + i);
      if constexpr (uses_tangents(rule)) t[j] = load(from.t + i);
      if constexpr (uses_weights(rule)) {
        w[j] = load(from.weights.float_weight + i);
        bias[j].shift = load(from.weights.bias_shift[form.level()] + i);
        bias[j].low = load(from.weights.bias_low[form.level()] + i);
        bias[j].high = load(from.weights.bias_high[form.level()] + i);
      }
    }
    form.template values<known>(x, t, w, bias, results, odd, beyond);
HALFULP_UNROLL(8)
    for (int j = 0; j < count; ++j) store(out + at + j * kLanes<float>, results[j]);
  }

  void vectors(Index at, Index n, double bound) {
    constexpr int together = 4;
    const Form form = form_;
    const Sources from = from_;
    float* const out = results_;
    const Doubles error = splat(bound);
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

  HALFULP_NOINLINE void check(Index at, Index count) {
    for (Index i = at; i < at + count; ++i) {
      if (is_half(p_.dtype)) results_[i] = undecided_float(p_.dtype);
      else one(i);
    }
  }
  // With an error of its own.
  HALFULP_NOINLINE void one(Index i) {
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
  Reach<rule>& reach_;
};

class QuickGroup {
 public:
  QuickGroup(const NormProblem& p, const CellWeights& weights, Index group, const NormReport& report)
      : p_(p), weights_(weights), group_(group), report_(report) {}

  // With moments that have been found already, maybe.
  void run(const GroupMoments* moments = nullptr) {
    PreciseGroup precise(p_, group_, report_);
    if (p_.dtype == DType::f64) return precise.all();
    if (moments != nullptr) moments_ = *moments;
    else find_moments();
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
  const void* const tangents = p_.t == nullptr ? p_.x : p_.t;  // along is 0 then
  CellRow<float> x(p_.dtype, p_.x), t(p_.dtype, tangents);
  Reach<rule> reach{form, weights_};
  const double pivot = std::fabs(form.pivot);
  // Given statistics should be those of the cells; wide() finds out if they are not.
  if (given()) reach.set(2 * pivot + 6 / form.scale, pivot + 6 / form.scale, 6.0);
  else reach.set(moments_.largest, moments_.largest + pivot, sums_.most);
  float results[kChunk];
  for (Index run = 0; run < p_.runs(); ++run)
    in_chunks<float>(p_.dtype, piece_length(), [&](Index at, Index count) {
      const Index start = p_.start(group_, run) + piece * piece_length() + at;
      const Sources from{x.at(start, count), uses_tangents(rule) ? t.at(start, count) : nullptr,
                   uses_weights(rule) ? weights_from(weights_, at) : CellWeights{}};
      float* const out = is_half(p_.dtype) ? results : static_cast<float*>(p_.out) + start;
      Run<rule>(form, from, p_, out, start, undecided_, reach).all(count);
    });
}

}  // namespace
}  // namespace halfulp::HALFULP_ISA_NAMESPACE

// The elementwise functions and their derivatives, each as one formula for both kinds of real numbers. docs/spec.md
// says what they mean; docs/explanation/error-bounds-elementwise.md says why the error bounds hold.
#pragma once

#include "elementwise/elementwise_kernels.hpp"
#include "elementwise/kernels/real.hpp"

namespace halfulp::HALFULP_ISA_NAMESPACE {
namespace {

template <class R>
struct Estimate {
  R value;
  V error;  // absolute
};
// An error of 0 says that a number is exact, so that none may underflow to it.
constexpr double kFloor = 0x1p-1000;

// Off by so many units of its own size.
template <class R>
HALFULP_ALWAYS_INLINE Estimate<R> within(const R& value, const V& units) {
  return {value, magnitude(high_of(value)) * (units * Kind<R>::unit) + kFloor};
}
template <class R>
HALFULP_ALWAYS_INLINE Estimate<R> within(const R& value, double units) {
  return within(value, all(units));
}
// a + b, each off by so many units of its own size: they may cancel.
template <class R>
HALFULP_ALWAYS_INLINE Estimate<R> sum_within(const R& a, const R& b, double units) {
  return {a + b, (magnitude(high_of(a)) + magnitude(high_of(b))) * (units * Kind<R>::unit) + kFloor};
}
template <class R>
HALFULP_ALWAYS_INLINE Estimate<R> exactly(const R& value) {
  return {value, V{}};
}
// `estimate` where the formula holds, and nothing known elsewhere.
template <class R>
HALFULP_ALWAYS_INLINE Estimate<R> where(const Mask& holds, const Estimate<R>& estimate) {
  return {estimate.value, choose(holds, estimate.error, all(std::numeric_limits<double>::quiet_NaN()))};
}
template <class R>
HALFULP_ALWAYS_INLINE Estimate<R> pick(const Mask& mask, const Estimate<R>& yes, const Estimate<R>& no) {
  return {choose(mask, yes.value, no.value), choose(mask, yes.error, no.error)};
}

// An argument of exp as far as the formulas go. In doubles what lies beyond has the result of the end; in pairs it has
// none.
template <class R>
HALFULP_ALWAYS_INLINE V clamped(const V& x) {
  return smaller(larger(x, all(Kind<R>::lowest)), all(Kind<R>::highest));
}
template <class R>
HALFULP_ALWAYS_INLINE Mask inside(const V& x) {
  if constexpr (std::is_same_v<R, V>) return x == x;
  else return (x >= all(Kind<P>::lowest)) & (x <= all(Kind<P>::highest));
}
template <class R>
HALFULP_ALWAYS_INLINE Mask tail_inside(const V& a) {
  if constexpr (std::is_same_v<R, V>) return a == a;
  else return a <= all(Kind<P>::widest);
}

HALFULP_ALWAYS_INLINE Mask all_or_none(bool truth) { return truth ? ~Mask{} : Mask{}; }

using Parameters = FunctionParameters;

struct Relu {
  template <class R>
  HALFULP_ALWAYS_INLINE static Estimate<R> value(const V& x, const Parameters&) {
    return where(Mask(x == x), exactly(real<R>(choose(x > V{}, x, V{}))));
  }
  template <class R>
  HALFULP_ALWAYS_INLINE static Estimate<R> slope(const V& x, const Parameters&) {
    return exactly(real<R>(choose(x <= V{}, V{}, all(1.0))));  // a NaN lets t through
  }
};

struct LeakyRelu {
  template <class R>
  HALFULP_ALWAYS_INLINE static Estimate<R> value(const V& x, const Parameters& p) {
    const R negative = p.first == 0.0 ? real<R>(0.0) : product<R>(x, all(p.first));
    const V error = std::is_same_v<R, V> ? magnitude(high_of(negative)) * 0x1p-52 : V{};
    return where(Mask(x == x), pick(x > V{}, exactly(real<R>(x)), Estimate<R>{negative, error}));
  }
  template <class R>
  HALFULP_ALWAYS_INLINE static Estimate<R> slope(const V& x, const Parameters& p) {
    return where(Mask(x == x), exactly(real<R>(choose(x > V{}, all(1.0), all(p.first)))));
  }
};

struct Elu {
  template <class R>
  HALFULP_ALWAYS_INLINE static Estimate<R> value(const V& x, const Parameters& p) {
    const V below = smaller(larger(x, all(Kind<R>::lowest)), V{});
    const R negative = expm1_of(real<R>(below)) * real<R>(p.first);
    // Of numbers that are all but subnormal a pair has not all digits, which a large alpha would show.
    const Mask holds = std::is_same_v<R, V> ? Mask(x == x) : Mask((x >= V{}) | (x <= all(-0x1p-900)));
    return where(holds, pick(x > V{}, exactly(real<R>(x)), within(negative, 2.0)));
  }
  template <class R>
  HALFULP_ALWAYS_INLINE static Estimate<R> slope(const V& x, const Parameters& p) {
    const V below = smaller(larger(x, all(Kind<R>::lowest)), V{});
    const R negative = exp_of(real<R>(below)) * real<R>(p.first);
    const Mask certain = (x >= all(Kind<R>::lowest)) | all_or_none(std::fabs(p.first) <= 64.0);
    const Mask holds = inside<R>(smaller(x, V{})) & certain;
    return where(holds, pick(x > V{}, exactly(real<R>(1.0)), within(negative, 2.0)));
  }
};

// exp(-|x|), and with it the sigmoid of x and of -x.
template <class R>
struct Logistic {
  R small, one_plus, here, there;
};
template <class R>
HALFULP_ALWAYS_INLINE Logistic<R> logistic(const R& x) {
  const Mask negative = high_of(x) < V{};
  const R small = exp_of(scaled(x, choose(negative, all(1.0), all(-1.0))));
  const R one_plus = real<R>(1.0) + small;
  const R large_part = real<R>(1.0) / one_plus;
  const R small_part = small * large_part;
  return {small, one_plus, choose(negative, small_part, large_part), choose(negative, large_part, small_part)};
}

struct Sigmoid {
  template <class R>
  HALFULP_ALWAYS_INLINE static Estimate<R> value(const V& x, const Parameters&) {
    const Mask negative = x < V{};
    const R small = exp_of(real<R>(larger(V(-magnitude(x)), all(Kind<R>::lowest))));
    const R top = choose(negative, small, real<R>(1.0));
    return where(inside<R>(smaller(x, V{})), within(top / (real<R>(1.0) + small), 2.0));
  }
  template <class R>
  HALFULP_ALWAYS_INLINE static Estimate<R> slope(const V& x, const Parameters&) {
    const R small = exp_of(real<R>(larger(V(-magnitude(x)), all(Kind<R>::lowest))));
    const R one_plus = real<R>(1.0) + small;
    return where(inside<R>(-magnitude(x)), within(small / (one_plus * one_plus), 4.0));
  }
};

struct Tanh {
  template <class R>
  HALFULP_ALWAYS_INLINE static V twice(const V& x) { return larger(V(-2.0 * magnitude(x)), all(Kind<R>::lowest)); }
  template <class R>
  HALFULP_ALWAYS_INLINE static Estimate<R> value(const V& x, const Parameters&) {
    const R less = expm1_of(real<R>(twice<R>(x)));
    const R quotient = less / (less + real<R>(2.0));
    return where(Mask(x == x), within(scaled(quotient, choose(x < V{}, all(1.0), all(-1.0))), 3.0));
  }
  template <class R>
  HALFULP_ALWAYS_INLINE static Estimate<R> slope(const V& x, const Parameters&) {
    const R small = exp_of(real<R>(twice<R>(x)));
    const R one_plus = real<R>(1.0) + small;
    return where(inside<R>(-2.0 * magnitude(x)), within(scaled(small / (one_plus * one_plus), 4.0), 4.0));
  }
};

struct Softplus {
  // beta x, its clamped copy, and whether it exceeds the threshold, for which the product must be exact.
  template <class R>
  struct Argument {
    R u;
    V plain;
    Mask linear;
  };
  template <class R>
  HALFULP_ALWAYS_INLINE static Argument<R> argument(const V& x, const Parameters& p) {
    const P exact = product_of(x, all(p.first));
    const V threshold = all(p.second);
    const Mask linear = (exact.high > threshold) | ((exact.high == threshold) & (exact.low > V{}));
    const V plain = clamped<R>(exact.high);
    if constexpr (std::is_same_v<R, V>) return {plain, exact.high, linear};
    else return {P{plain, choose(plain == exact.high, exact.low, V{})}, exact.high, linear};
  }
  template <class R>
  HALFULP_ALWAYS_INLINE static Estimate<R> value(const V& x, const Parameters& p) {
    const Argument<R> a = argument<R>(x, p);
    const Mask negative = high_of(a.u) < V{};
    const R small = exp_of(scaled(a.u, choose(negative, all(1.0), all(-1.0))));
    const R logarithm = log1p_of(small);
    const R value = (choose(negative, real<R>(0.0), a.u) + logarithm) / real<R>(p.first);
    const V units = 4.0 + magnitude(high_of(a.u)) * 0x1p-6;
    // A small beta brings back what the clamp takes for 0.
    const Mask certain = (a.plain >= all(Kind<R>::lowest)) | all_or_none(std::fabs(p.first) >= 0x1p-6);
    return where(inside<R>(choose(a.linear, V{}, a.plain)) & (x == x) & certain,
                 pick(a.linear, exactly(real<R>(x)), within(value, units)));
  }
  template <class R>
  HALFULP_ALWAYS_INLINE static Estimate<R> slope(const V& x, const Parameters& p) {
    const Argument<R> a = argument<R>(x, p);
    const V units = 3.0 + magnitude(high_of(a.u)) * 0x1p-6;
    return where(inside<R>(choose(a.linear, V{}, a.plain)) & (x == x),
                 pick(a.linear, exactly(real<R>(1.0)), within(logistic(a.u).here, units)));
  }
};

// exp(-x^2/2) for a = |x|, at most Kind::widest; the probability of the smaller side is this times tail_of(a).
template <class R>
HALFULP_ALWAYS_INLINE R bell(const V& a) {
  return exp_of(scaled(product<R>(a, a), -0.5));
}

struct Gelu {
  template <class R>
  HALFULP_ALWAYS_INLINE static Estimate<R> value(const V& x, const Parameters&) {
    const Mask negative = x < V{};
    const V a = smaller(magnitude(x), all(Kind<R>::widest));
    const R side = bell<R>(a) * tail_of(real<R>(a));
    const R probability = choose(negative, side, real<R>(1.0) - side);
    const V factor = larger(x, all(-Kind<R>::widest));
    return where(tail_inside<R>(choose(negative, V(-x), V{})) & (x == x), within(probability * real<R>(factor), 4.0));
  }
  template <class R>
  HALFULP_ALWAYS_INLINE static Estimate<R> slope(const V& x, const Parameters&) {
    const Mask negative = x < V{};
    const V a = smaller(magnitude(x), all(Kind<R>::widest));
    const R density = bell<R>(a);
    const R side = density * tail_of(real<R>(a));
    const R probability = choose(negative, side, real<R>(1.0) - side);
    const R moment = density * real<R>(0x1.9884533d43651p-2, -0x1.cbc0d30ebfd15p-56) *
                     real<R>(choose(negative, V(-a), a));
    return where(tail_inside<R>(choose(negative, V(-x), V{})) & (x == x), sum_within(probability, moment, 4.0));
  }
};

// x sigmoid(z), z = 2 sqrt(2 / pi) (x + 0.044715 x^3).
struct GeluTanh {
  // Beyond -most, z is below -200 and float32's range is left; in pairs the formula ends there, with z near -519.
  template <class R>
  static constexpr double most = std::is_same_v<R, V> ? 14.0 : 19.0;
  template <class R>
  HALFULP_ALWAYS_INLINE static R argument(const V& x) {
    const R square = product<R>(x, x);
    const R inner = real<R>(1.0) + real<R>(0x1.6e4e26d4801f7p-5, 0x1.441355475a31ap-59) * square;
    const R z = real<R>(0x1.9884533d43651p+0, -0x1.cbc0d30ebfd15p-54) * real<R>(x) * inner;
    if constexpr (std::is_same_v<R, V>) return clamped<V>(z);
    else return z;
  }
  template <class R>
  HALFULP_ALWAYS_INLINE static Mask holds(const V& x) {
    if constexpr (std::is_same_v<R, V>) return x == x;
    else return x >= all(-most<P>);
  }
  template <class R>
  HALFULP_ALWAYS_INLINE static Estimate<R> value(const V& x, const Parameters&) {
    const V near = smaller(larger(x, all(-most<R>)), all(most<R>));
    const R z = argument<R>(near);
    const V units = 3.0 + magnitude(high_of(z)) * 0x1p-4;
    const V factor = larger(x, all(-most<R>));
    return where(holds<R>(x), within(logistic(z).here * real<R>(factor), units));
  }
  template <class R>
  HALFULP_ALWAYS_INLINE static Estimate<R> slope(const V& x, const Parameters&) {
    const V near = smaller(larger(x, all(-most<R>)), all(most<R>));
    const R z = argument<R>(near);
    const Logistic<R> s = logistic(z);
    const R inner = real<R>(1.0) + real<R>(0x1.12ba9d1f60179p-3, 0x1.f30e7ff583a54p-57) * product<R>(near, near);
    const R rate = real<R>(0x1.9884533d43651p+0, -0x1.cbc0d30ebfd15p-54) * inner;
    const R second = s.here * s.there * rate * real<R>(near);
    const V units = (magnitude(high_of(s.here)) + magnitude(high_of(second))) * (4.0 + magnitude(high_of(z)) * 0x1p-3);
    return where(holds<R>(x), Estimate<R>{s.here + second, units * Kind<R>::unit + kFloor});
  }
};

struct Silu {
  template <class R>
  HALFULP_ALWAYS_INLINE static Estimate<R> value(const V& x, const Parameters&) {
    const V factor = larger(x, all(Kind<R>::lowest));
    const Mask negative = x < V{};
    const R small = exp_of(real<R>(larger(V(-magnitude(x)), all(Kind<R>::lowest))));
    const R top = choose(negative, small * real<R>(factor), real<R>(factor));
    return where(inside<R>(smaller(x, V{})), within(top / (real<R>(1.0) + small), 3.0));
  }
  template <class R>
  HALFULP_ALWAYS_INLINE static Estimate<R> slope(const V& x, const Parameters&) {
    const V near = clamped<R>(x);
    const Logistic<R> s = logistic(real<R>(near));
    return where(inside<R>(smaller(x, V{})), sum_within(s.here, s.here * s.there * real<R>(near), 5.0));
  }
};

// With e = exp(-|x|): x (1 + 2e) / (1 + 2e + 2e^2) for x >= 0, x (e^2 + 2e) / (e^2 + 2e + 2) for x < 0.
struct Mish {
  template <class R>
  HALFULP_ALWAYS_INLINE static Estimate<R> value(const V& x, const Parameters&) {
    const Mask negative = x < V{};
    const V factor = larger(x, all(Kind<R>::lowest));
    const R e = exp_of(real<R>(larger(V(-magnitude(x)), all(Kind<R>::lowest))));
    const R square = e * e, twice = scaled(e, 2.0);
    const R top = choose(negative, square, real<R>(1.0)) + twice;
    const R bottom = top + choose(negative, real<R>(2.0), scaled(square, 2.0));
    return where(inside<R>(smaller(x, V{})), within(top / bottom * real<R>(factor), 6.0));
  }
  template <class R>
  HALFULP_ALWAYS_INLINE static Estimate<R> slope(const V& x, const Parameters&) {
    const Mask negative = x < V{};
    const V near = clamped<R>(x);
    const R e = exp_of(real<R>(larger(V(-magnitude(x)), all(Kind<R>::lowest))));
    const R square = e * e, twice = scaled(e, 2.0);
    const R top = choose(negative, square, real<R>(1.0)) + twice;
    const R bottom = top + choose(negative, real<R>(2.0), scaled(square, 2.0));
    const R share = choose(negative, e, square) * (real<R>(1.0) + e);
    const R second = scaled(share * real<R>(near), 4.0) / (bottom * bottom);
    return where(inside<R>(smaller(x, V{})), sum_within(top / bottom, second, 8.0));
  }
};

// s / 6. Numbers half way between two floats are common here, so that exact quotients have to be told.
HALFULP_ALWAYS_INLINE Estimate<V> sixth(const V& s, const Mask&) { return within(V(s / 6.0), 0.25); }
HALFULP_ALWAYS_INLINE Estimate<P> sixth(const P& s, const Mask& exact) {
  const V q = s.high / 6.0;
  const P back = product_of(q, all(6.0));
  const V rest = ((s.high - back.high) - back.low) + s.low;
  const Estimate<P> found = within(fast_sum_of(q, V(rest / 6.0)), 0.25);
  return pick(exact & (rest == V{}), exactly(P{q, V{}}), found);
}
// Whether sum<P>(a, b) has no low part.
HALFULP_ALWAYS_INLINE Mask short_sum(const V& a, const V& b) { return sum_of(a, b).low == V{}; }

struct Hardswish {
  template <class R>
  HALFULP_ALWAYS_INLINE static Estimate<R> value(const V& x, const Parameters&) {
    const R inner = sum<R>(x, all(3.0)) * real<R>(x);
    const Estimate<R> curved = sixth(inner, short_sum(x, all(3.0)));
    const Estimate<R> bent = pick(x > all(-3.0), curved, exactly(real<R>(0.0)));
    return where(Mask(x == x), pick(x >= all(3.0), exactly(real<R>(x)), bent));
  }
  template <class R>
  HALFULP_ALWAYS_INLINE static Estimate<R> slope(const V& x, const Parameters&) {
    const Estimate<R> line = sixth(sum<R>(V(x + x), all(3.0)), short_sum(x + x, all(3.0)));
    const Estimate<R> bent = pick(x > all(-3.0), line, exactly(real<R>(0.0)));
    return where(Mask(x == x), pick(x >= all(3.0), exactly(real<R>(1.0)), bent));
  }
};

struct Hardsigmoid {
  template <class R>
  HALFULP_ALWAYS_INLINE static Estimate<R> value(const V& x, const Parameters&) {
    const Estimate<R> line = sixth(sum<R>(x, all(3.0)), short_sum(x, all(3.0)));
    const Estimate<R> bent = pick(x > all(-3.0), line, exactly(real<R>(0.0)));
    return where(Mask(x == x), pick(x >= all(3.0), exactly(real<R>(1.0)), bent));
  }
  template <class R>
  HALFULP_ALWAYS_INLINE static Estimate<R> slope(const V& x, const Parameters&) {
    const Mask open = (x > all(-3.0)) & (x < all(3.0));
    const R sixth = real<R>(0x1.5555555555555p-3, 0x1.5555555555555p-57);
    return where(Mask(x == x), pick(open, within(sixth, 0.25), exactly(real<R>(0.0))));
  }
};

struct Hardtanh {
  template <class R>
  HALFULP_ALWAYS_INLINE static Estimate<R> value(const V& x, const Parameters& p) {
    const V low = all(p.first), high = all(p.second);
    return where(Mask(x == x), exactly(real<R>(choose(x < low, low, choose(x > high, high, x)))));
  }
  template <class R>
  HALFULP_ALWAYS_INLINE static Estimate<R> slope(const V& x, const Parameters& p) {
    const Mask open = (x > all(p.first)) & (x < all(p.second));
    return where(Mask(x == x), exactly(real<R>(choose(open, all(1.0), V{}))));
  }
};

struct Exp {
  template <class R>
  HALFULP_ALWAYS_INLINE static Estimate<R> value(const V& x, const Parameters&) {
    return where(inside<R>(x), within(exp_of(real<R>(clamped<R>(x))), 1.0));
  }
  template <class R>
  HALFULP_ALWAYS_INLINE static Estimate<R> slope(const V& x, const Parameters& p) {
    return where(x <= all(std::numeric_limits<double>::max()), value<R>(x, p));
  }
};

struct Expm1 {
  template <class R>
  HALFULP_ALWAYS_INLINE static Estimate<R> value(const V& x, const Parameters&) {
    const V near = clamped<R>(x);
    return where(inside<R>(larger(x, V{})), within(expm1_of(real<R>(near)), 2.0));
  }
  template <class R>
  HALFULP_ALWAYS_INLINE static Estimate<R> slope(const V& x, const Parameters& p) {
    return Exp::slope<R>(x, p);
  }
};

constexpr double kLeastNormal = 0x1p-1022;

struct Log {
  template <class R>
  HALFULP_ALWAYS_INLINE static Estimate<R> value(const V& x, const Parameters&) {
    const Mask holds = (x >= all(kLeastNormal)) & (x <= all(0x1p1023));
    const Estimate<R> found = within(log_of<R>(choose(holds, x, all(1.0))), 2.0);
    return where(holds, pick(x == all(1.0), exactly(real<R>(0.0)), found));
  }
  template <class R>
  HALFULP_ALWAYS_INLINE static Estimate<R> slope(const V& x, const Parameters&) {
    const Mask holds = (x >= all(0x1p-900)) & (x <= all(0x1p900));
    return where(holds, within(real<R>(1.0) / real<R>(choose(holds, x, all(1.0))), 1.0));
  }
};

struct Log1p {
  template <class R>
  HALFULP_ALWAYS_INLINE static Estimate<R> value(const V& x, const Parameters&) {
    // log(1 + x) = log(1 + |y|) or its negative: y = x, or for x < 0 the y with (1 + x) (1 + y) = 1. Beyond 1 it is
    // log(x) + log(1 + 1 / x).
    const Mask holds = (x > all(-1.0)) & (x <= all(0x1p900));
    const V near = choose(holds, x, V{});
    const Mask negative = near < V{}, far = near > all(1.0);
    const Mask deep = near < all(-0.5);
    const V size = choose(deep, V{}, choose(negative, V(-near), V{}));
    const R below = real<R>(size) / sum<R>(all(1.0), choose(deep, V{}, near));
    const R inverse = real<R>(1.0) / real<R>(choose(far, near, all(2.0)));
    const R u = choose(far, inverse, choose(negative, below, real<R>(near)));
    const R small = log1p_of(u);
    const R shift = log_of<R>(choose(far, near, choose(deep, V(1.0 + near), all(1.0))));  // 1 + x is exact below -1/2
    const R signed_small = scaled(small, choose(negative, all(-1.0), all(1.0)));
    const R value = choose(deep, shift, choose(far, shift + small, signed_small));
    return where(holds, within(value, 4.0));
  }
  template <class R>
  HALFULP_ALWAYS_INLINE static Estimate<R> slope(const V& x, const Parameters&) {
    const Mask holds = (x > all(-1.0)) & (x <= all(0x1p900));
    return where(holds, within(real<R>(1.0) / sum<R>(choose(holds, x, V{}), all(1.0)), 1.0));
  }
};

struct Sqrt {
  template <class R>
  HALFULP_ALWAYS_INLINE static Estimate<R> value(const V& x, const Parameters&) {
    const Mask holds = (x >= all(0x1p-900)) & (x <= all(0x1p1000));
    return where(holds, within(sqrt_of(choose(holds, x, all(1.0)), static_cast<R*>(nullptr)), 0.25));
  }
  template <class R>
  HALFULP_ALWAYS_INLINE static Estimate<R> slope(const V& x, const Parameters&) {
    const Mask holds = (x >= all(0x1p-900)) & (x <= all(0x1p1000));
    const R root = sqrt_of(choose(holds, x, all(1.0)), static_cast<R*>(nullptr));
    return where(holds, within(real<R>(0.5) / root, 0.5));
  }
};

struct Rsqrt {
  template <class R>
  HALFULP_ALWAYS_INLINE static Estimate<R> value(const V& x, const Parameters&) {
    const Mask holds = (x >= all(0x1p-900)) & (x <= all(0x1p900));
    const R root = sqrt_of(choose(holds, x, all(1.0)), static_cast<R*>(nullptr));
    return where(holds, within(real<R>(1.0) / root, 0.5));
  }
  template <class R>
  HALFULP_ALWAYS_INLINE static Estimate<R> slope(const V& x, const Parameters&) {
    const Mask holds = (x >= all(0x1p-500)) & (x <= all(0x1p500));
    const V near = choose(holds, x, all(1.0));
    const R root = sqrt_of(near, static_cast<R*>(nullptr));
    return where(holds, within(real<R>(-0.5) / (root * real<R>(near)), 0.5));
  }
};

struct Reciprocal {
  template <class R>
  HALFULP_ALWAYS_INLINE static Estimate<R> value(const V& x, const Parameters&) {
    const Mask holds = (magnitude(x) >= all(0x1p-900)) & (magnitude(x) <= all(0x1p900));
    return where(holds, within(real<R>(1.0) / real<R>(choose(holds, x, all(1.0))), 0.25));
  }
  template <class R>
  HALFULP_ALWAYS_INLINE static Estimate<R> slope(const V& x, const Parameters&) {
    const Mask holds = (magnitude(x) >= all(0x1p-450)) & (magnitude(x) <= all(0x1p450));
    const V near = choose(holds, x, all(1.0));
    return where(holds, within(real<R>(-1.0) / product<R>(near, near), 0.25));
  }
};

struct Abs {
  template <class R>
  HALFULP_ALWAYS_INLINE static Estimate<R> value(const V& x, const Parameters&) {
    return where(Mask(x == x), exactly(real<R>(magnitude(x))));
  }
  template <class R>
  HALFULP_ALWAYS_INLINE static Estimate<R> slope(const V& x, const Parameters&) {
    const V sign = choose(x > V{}, all(1.0), choose(x < V{}, all(-1.0), V{}));
    return where(Mask(x == x), exactly(real<R>(sign)));
  }
};

struct Erf {
  static constexpr double kNear = 1.0;
  HALFULP_ALWAYS_INLINE static V series(const V& w) { return polynomial(kErfRest, w); }
  HALFULP_ALWAYS_INLINE static P series(const P& w) { return polynomial<14>(kErfRestPair, w); }
  template <class R>
  HALFULP_ALWAYS_INLINE static Estimate<R> value(const V& x, const Parameters&) {
    const V a = smaller(magnitude(x), all(24.0));
    const Mask near = a < all(kNear);
    const V inner = choose(near, a, V{});
    const R small = series(product<R>(inner, inner)) * real<R>(inner);
    const V far = larger(choose(near, all(1.0), a), all(1.0));
    const V capped = std::is_same_v<R, V> ? smaller(far, all(10.0)) : far;
    const R root2 = real<R>(0x1.6a09e667f3bcdp+0, -0x1.bdd3413b26456p-54);
    const R other = scaled(exp_of(-product<R>(capped, capped)) * tail_of(root2 * real<R>(capped)), 2.0);
    const R value = choose(near, small, real<R>(1.0) - other);
    return where(Mask(x == x), within(scaled(value, choose(x < V{}, all(-1.0), all(1.0))), 4.0));
  }
  template <class R>
  HALFULP_ALWAYS_INLINE static Estimate<R> slope(const V& x, const Parameters&) {
    const V a = smaller(magnitude(x), all(std::is_same_v<R, V> ? 14.0 : 25.0));
    const R density = exp_of(-product<R>(a, a)) * real<R>(0x1.20dd750429b6dp+0, 0x1.1ae3a914fed80p-56);
    const Mask holds = std::is_same_v<R, V> ? Mask(x == x) : Mask(magnitude(x) <= all(25.0));
    return where(holds, within(density, 2.0));
  }
};

// x^e, e = high + low: small whole exponents by products, others as exp(e log |x|).
struct Pow {
  template <class R>
  HALFULP_ALWAYS_INLINE static Estimate<R> power(const V& x, double high, double low, bool clamp) {
    const bool whole = std::floor(high) == high && low == 0.0;
    if (whole && high >= 0.0 && high <= 8.0) return product_power<R>(x, static_cast<int>(high));
    const bool odd = whole && std::fabs(high) < 0x1p53 && std::fmod(high, 2.0) != 0.0;
    const V a = magnitude(x);
    const Mask holds = (a >= all(kLeastNormal)) & (a <= all(0x1p1023)) & ((x > V{}) | all_or_none(whole));
    const R u = log_of<R>(choose(holds, a, all(1.0))) * real<R>(high, low);
    const V plain = clamped<R>(high_of(u));
    R near;
    if constexpr (std::is_same_v<R, V>) near = plain;
    else near = P{plain, choose(plain == u.high, u.low, V{})};
    const R result = scaled(exp_of(near), choose(x < V{}, all(odd ? -1.0 : 1.0), all(1.0)));
    const Mask certain = (plain == high_of(u)) | all_or_none(clamp);
    return where(holds & inside<R>(high_of(u)) & certain, within(result, V(2.0 + 3.0 * magnitude(plain))));
  }
  template <class R>
  HALFULP_ALWAYS_INLINE static Estimate<R> product_power(const V& x, int e) {
    if (e == 0) return exactly(real<R>(1.0));
    if (e == 1) return where(Mask(x == x), exactly(real<R>(x)));
    R result = product<R>(x, x);
    if (e == 2 && std::is_same_v<R, P>) return where(Mask(x == x), exactly(result));
    for (int i = 2; i < e; ++i) result = result * real<R>(x);
    return within(result, 0.5);
  }
  template <class R>
  HALFULP_ALWAYS_INLINE static Estimate<R> value(const V& x, const Parameters& p) {
    return power<R>(x, p.first, 0.0, true);
  }
  template <class R>
  HALFULP_ALWAYS_INLINE static Estimate<R> slope(const V& x, const Parameters& p) {
    if (p.first == 0.0) return exactly(real<R>(0.0));
    if (p.first == 1.0) return where(Mask(x == x), exactly(real<R>(1.0)));
    const TwoDoubles less = two_sum(p.first, -1.0);
    const Estimate<R> rest = power<R>(x, less.high, less.low, false);
    if (p.first == 2.0) return {scaled(rest.value, 2.0), rest.error};
    const V size = magnitude(high_of(rest.value)) * std::fabs(p.first) * (0.25 * Kind<R>::unit) + kFloor;
    return {rest.value * real<R>(p.first), rest.error * std::fabs(p.first) + size};
  }
};

}  // namespace
}  // namespace halfulp::HALFULP_ISA_NAMESPACE

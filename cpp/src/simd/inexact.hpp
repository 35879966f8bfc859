// Whether arithmetic was exact: the processor's own flag, which any rounded result raises and nothing lowers.
#pragma once

#if !defined(__x86_64__) && !defined(_M_X64)
#include <cfenv>
#endif

#include "simd/vector.hpp"

namespace halfulp::HALFULP_ISA_NAMESPACE {
namespace {

// Watches this thread's arithmetic. What is asked about must have been stored to memory, or handed to `perform`: then
// the compiler cannot move it past the question.
class InexactFlag {
 public:
#if defined(__x86_64__) || defined(_M_X64)
  InexactFlag() : before_(_mm_getcsr() & kInexact) {}
  ~InexactFlag() { _mm_setcsr(_mm_getcsr() | before_); }
  void lower() const {
    _mm_setcsr(_mm_getcsr() & ~kInexact);
    asm volatile("" ::: "memory");
  }
  bool raised() const {
    asm volatile("" ::: "memory");
    return (_mm_getcsr() & kInexact) != 0;
  }

 private:
  static constexpr unsigned kInexact = 1u << 5;
  unsigned before_;
#else
  InexactFlag() : before_(std::fetestexcept(FE_INEXACT)) {}
  ~InexactFlag() {
    if (before_ != 0) std::feraiseexcept(FE_INEXACT);
  }
  void lower() const {
    std::feclearexcept(FE_INEXACT);
    asm volatile("" ::: "memory");
  }
  bool raised() const {
    asm volatile("" ::: "memory");
    return std::fetestexcept(FE_INEXACT) != 0;
  }

 private:
  int before_;
#endif

 public:
  InexactFlag(const InexactFlag&) = delete;
  InexactFlag& operator=(const InexactFlag&) = delete;
};

// Keeps a result that nobody uses from being left out.
template <class V>
inline void perform(const V& v) {
#if defined(__x86_64__) || defined(_M_X64)
  asm volatile("" ::"x"(v));
#elif defined(__aarch64__)
  asm volatile("" ::"w"(v));
#else
  asm volatile("" ::"m"(v));
#endif
}

}  // namespace
}  // namespace halfulp::HALFULP_ISA_NAMESPACE

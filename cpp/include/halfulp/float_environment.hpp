// The floating-point environment that every kernel computes in: round to nearest, gradual underflow. A caller's thread
// may have another one (PyTorch's set_flush_denormal, XLA, a library built with fast-math startup code).
#pragma once

#if defined(__SSE2__) || defined(_M_X64)
#include <xmmintrin.h>
#define HALFULP_HAS_MXCSR 1
#else
#include <cfenv>
#endif

namespace halfulp {

// The default environment while it lives, the caller's own again afterwards.
class DefaultFloatEnvironment {
 public:
#ifdef HALFULP_HAS_MXCSR
  // Reading the register is cheap and writing it is not, so it is written only where it differs.
  DefaultFloatEnvironment() noexcept : before_(_mm_getcsr()) {
    if ((before_ & kOdd) != 0) _mm_setcsr(before_ & ~kOdd);
  }
  ~DefaultFloatEnvironment() {
    if ((before_ & kOdd) != 0) _mm_setcsr(before_);
  }
#else
  DefaultFloatEnvironment() noexcept {
    std::fegetenv(&before_);
    std::fesetenv(FE_DFL_ENV);
  }
  ~DefaultFloatEnvironment() { std::fesetenv(&before_); }
#endif
  DefaultFloatEnvironment(const DefaultFloatEnvironment&) = delete;
  DefaultFloatEnvironment& operator=(const DefaultFloatEnvironment&) = delete;

 private:
#ifdef HALFULP_HAS_MXCSR
  static constexpr unsigned kOdd = 0xE040;  // flush to zero, rounding control, denormals are zero
  unsigned before_;
#else
  std::fenv_t before_;
#endif
};

}  // namespace halfulp

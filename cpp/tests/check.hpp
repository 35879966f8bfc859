// A test program is a main() that calls CHECK and returns failures(); it prints what failed.
#pragma once

#include <cstdio>

namespace halfulp::tests {

inline int& failures() {
  static int count = 0;
  return count;
}

}  // namespace halfulp::tests

#define CHECK(condition)                                                       \
  do {                                                                         \
    if (!(condition)) {                                                        \
      std::printf("%s:%d: CHECK(%s) failed\n", __FILE__, __LINE__, #condition); \
      ++halfulp::tests::failures();                                            \
    }                                                                          \
  } while (false)

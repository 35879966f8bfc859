// A test program is a main() that calls CHECK and ends with 0 if there are no failures(). What failed is printed with
// the case that the test has described, its seed and parameters, and with the function and its types.
#pragma once

#include <cstdio>
#include <sstream>
#include <string>

namespace halfulp::tests {

inline int& failures() {
  static int count = 0;
  return count;
}

// The case that is being checked, as a failure prints it.
inline std::string& current_case() {
  static std::string text;
  return text;
}

// describe("seed", 5, "kernel", 3) says "seed=5 kernel=3".
template <class... Parts>
void describe(const Parts&... parts) {
  std::ostringstream text;
  int number = 0;
  ((text << (number == 0 ? "" : number % 2 == 0 ? " " : "=") << parts, ++number), ...);
  current_case() = text.str();
}

inline void failed(const char* file, int line, const char* condition, const char* function) {
  std::printf("%s:%d: CHECK(%s) failed; %s; %s\n", file, line, condition, current_case().c_str(), function);
  ++failures();
}

}  // namespace halfulp::tests

#define CHECK(condition)                                                                                 \
  do {                                                                                                   \
    if (!(condition)) halfulp::tests::failed(__FILE__, __LINE__, #condition, __PRETTY_FUNCTION__);       \
  } while (false)

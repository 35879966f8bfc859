// The words for policies that records hold.
#pragma once

#include <string>

#include "halfulp/max_pool.hpp"

namespace halfulp::bindings {

inline Ties ties_from(const std::string& word) {
  return word == "first" ? Ties::first : word == "last" ? Ties::last : word == "all" ? Ties::all : Ties::split;
}

inline NanPolicy nan_from(const std::string& word) {
  return word == "propagate" ? NanPolicy::propagate : word == "ignore" ? NanPolicy::ignore : NanPolicy::raise;
}

}  // namespace halfulp::bindings

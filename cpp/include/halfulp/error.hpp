// The one exception of the core: what a caller asked for has no meaning. The bindings turn it into the Python exception
// of the same kind, whose message is "operator: argument: rule [label]".
#pragma once

#include <stdexcept>
#include <string>
#include <utility>

namespace halfulp {

enum class ErrorKind { shape, dtype, policy };

class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, std::string operator_name, std::string argument, std::string rule, std::string label)
      : std::runtime_error(operator_name + ": " + argument + ": " + rule + " [" + label + "]"),
        kind(kind),
        operator_name(std::move(operator_name)),
        argument(std::move(argument)),
        rule(std::move(rule)),
        label(std::move(label)) {}

  ErrorKind kind;
  std::string operator_name;
  std::string argument;
  std::string rule;
  std::string label;
};

}  // namespace halfulp

// svg.cpp: escapes text for XML, and chooses round values for an axis.
#include "svg.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

namespace bench {

std::string escaped(const std::string& text) {
  std::string out;
  for (const char letter : text) switch (letter) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:  // XML does not allow control characters
        if (static_cast<unsigned char>(letter) >= ' ') out += letter;
    }
  return out;
}

std::string label(double value) {
  const double size = std::abs(value);
  for (const auto& [unit, name] : {std::pair{0x1p30, "Gi"}, {0x1p20, "Mi"}, {0x1p10, "Ki"}})
    if (size >= 4096 && size >= unit && std::exp2(std::round(std::log2(size))) == size)
      return fmt::format("{:g}{}", value / unit, name);
  for (const auto& [unit, name] : {std::pair{1e9, "G"}, {1e6, "M"}, {1e3, "k"}})
    if (size >= 1e4 && size >= unit) return fmt::format("{:.3g}{}", value / unit, name);
  return fmt::format("{:.4g}", value);
}

namespace {

/// 1, 2 or 5 times a power of ten: the greatest up to `value`.
double round_step(double value) {
  const double decade = std::pow(10, std::floor(std::log10(value)));
  for (const double factor : {5.0, 2.0})
    if (value >= factor * decade * (1 - 1e-9)) return factor * decade;
  return decade;
}

}  // namespace

Axis linear_axis(double low, double high) {
  const double size = std::max(std::abs(low), std::abs(high));
  if (high - low <= size * 1e-9) {
    low -= size == 0 ? 1 : size / 2;
    high += size == 0 ? 1 : size / 2;
  }
  const double step = round_step((high - low) / 4);
  const double first = std::floor(low / step + 1e-9);
  const double last = std::ceil(high / step - 1e-9);
  Axis axis{first * step, last * step};
  for (double at = first; at <= last; ++at) axis.ticks.push_back(at * step);
  return axis;
}

}  // namespace bench

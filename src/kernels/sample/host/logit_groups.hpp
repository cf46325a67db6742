// logit_groups.hpp: a row of logits in groups of 64 with known maxima, so that a search for high
// logits skips most of the vocabulary. Drawing is left to draw.hpp.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

namespace attacca::kernels::host {

/// Borrows the logits, and `maxima` as memory for the maxima. NaN counts as minus infinity.
class LogitGroups {
 public:
  static constexpr std::size_t kSize = 64;

  LogitGroups(std::span<const float> logits, std::vector<float>& maxima);

  float max() const { return max_; }
  /// The first token that has the maximum; 0 if all are minus infinity.
  std::int32_t argmax() const;
  /// Whether no logit is infinite or NaN.
  bool is_finite() const;
  /// log(sum of exp(logit)).
  double log_of_sum() const;

  std::size_t size() const { return logits_.size(); }  // tokens
  std::size_t count() const { return maxima_.size(); }
  float max(std::size_t group) const { return maxima_[group]; }
  std::int32_t first_token(std::size_t group) const {
    return static_cast<std::int32_t>(group * kSize);
  }
  std::span<const float> logits(std::size_t group) const {
    return logits_.subspan(group * kSize, std::min(kSize, logits_.size() - group * kSize));
  }
  /// Computes the group's masses (see sampling.hpp) into `to`. `inverse` is 1 / temperature.
  std::span<const std::uint64_t> masses(std::size_t group, float inverse,
                                        std::uint64_t (&to)[kSize]) const;

 private:
  std::span<const float> logits_;
  std::span<const float> maxima_;
  float max_;
};

}  // namespace attacca::kernels::host

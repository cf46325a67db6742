// nearest.cpp: the edit distance between two words.
#include "nearest.hpp"

#include <algorithm>
#include <cctype>
#include <numeric>
#include <utility>

namespace attacca::tool {

std::size_t distance(const std::string& a, const std::string& b) {
  const auto lower = [](char letter) { return std::tolower(static_cast<unsigned char>(letter)); };
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i + 1);
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t changed = diagonal + (lower(a[i]) != lower(b[j]));
      diagonal = row[j + 1];
      row[j + 1] = std::min({changed, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
}

std::string nearest(const std::string& word, const std::vector<std::string>& names) {
  const auto found =
      std::min_element(names.begin(), names.end(), [&](const auto& one, const auto& other) {
        return distance(word, one) < distance(word, other);
      });
  return found == names.end() ? std::string() : *found;
}

}  // namespace attacca::tool

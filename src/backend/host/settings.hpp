// settings.hpp: what an update can change in the nodes of a plan, in versions. A launch reads the
// version it was made with. An update writes a node in place, or to other memory while a launch
// that has not ended may read it; memory that no launch reads any more is used again.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "graph/data.hpp"

namespace attacca::host {

using Version = std::uint64_t;

/// What an update can change in a node.
struct Settings {
  graph::Part part{graph::ChildPart{}};  // with symbols resolved
  bool is_enabled = true;
  Version since = 0;                 // the first version that has them
  const Settings* before = nullptr;  // what older versions have
};

/// The settings of all nodes of a plan. A launch may call `at` while a Writer changes nodes: of
/// what the Writer writes it reads only `since` and `before`, after the pointer in `newest_`.
class VersionedSettings {
 public:
  VersionedSettings() = default;
  VersionedSettings(const VersionedSettings&) = delete;

  /// REQUIRES: called once, before all the rest.
  void resize(std::size_t nodes);
  /// The settings that a launch of this version runs with.
  const Settings& at(std::size_t node, Version version) const {
    // acquire pairs with the release in `publish`: `since` and `before` are seen.
    const Settings* found = newest_[node].load(std::memory_order_acquire);
    while (found->since > version) found = found->before;
    return *found;
  }
  /// REQUIRES: no launch has been made, or the caller has a Writer.
  Settings& newest(std::size_t node) { return *newest_[node].load(std::memory_order_relaxed); }
  std::size_t bytes() const;

  /// A launch's hold on the version it was made with. Thread-safe.
  class Snapshot {
   public:
    explicit Snapshot(VersionedSettings& of) : of_(of), version_(of.take()) {}
    ~Snapshot() { of_.release(version_); }
    Snapshot(const Snapshot&) = delete;
    Version version() const { return version_; }

   private:
    VersionedSettings& of_;
    Version version_;
  };

  /// Changes nodes. Launches made before it keep the settings they have; none is made while it
  /// lives.
  class Writer {
   public:
    explicit Writer(VersionedSettings& of) : of_(of), lock_(of.mutex_) {}
    ~Writer() { publish(); }
    /// Where the settings of a node for the next launch go. Write all of them: they may hold those
    /// of another node. REQUIRES: once for each node between calls of `publish`.
    Settings& operator[](std::size_t node) { return of_.writable(node); }
    void publish() { of_.publish(); }

   private:
    VersionedSettings& of_;
    std::lock_guard<std::mutex> lock_;
  };

 private:
  /// Launches of one version that have not ended.
  struct Taken {
    Version version;
    std::size_t launches;
  };
  /// New settings of a node that are not in `newest_` yet.
  struct Written {
    std::size_t node;
    Settings* settings;
  };
  /// Settings that newer ones replaced.
  struct Retired {
    Settings* settings;
    Version until;  // the first version that does not read them
  };

  Version take();
  void release(Version version);
  Settings& writable(std::size_t node);
  void publish();
  Settings& spare(const Settings& like);

  std::size_t count_ = 0;
  std::unique_ptr<std::atomic<Settings*>[]> newest_;  // by node
  std::unique_ptr<Settings[]> first_;                 // by node
  std::mutex mutex_;                                  // guards the rest
  Version version_ = 0;                               // of the next launch
  std::deque<Taken> taken_;                           // by version; the ends have launches
  std::vector<Written> written_;                      // by the Writer
  std::deque<Retired> retired_;                       // by `until`
  std::vector<std::vector<Settings>> more_;           // besides the first; none outgrows its room
};

}  // namespace attacca::host

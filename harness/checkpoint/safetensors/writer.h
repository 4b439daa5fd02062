#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "reference/tensor/tensor.h"

namespace mtpcheck {

/// Writes a safetensors file tensor by tensor, so that a long trace need not be held in memory.
///
/// The file appears under its name only when `finish` has brought everything to the disk; until then, and for good if
/// the writer is destroyed before, there is none (an existing file of that name is left as it was). Failures to write
/// throw Error{environment} with the path and the system's reason.
class SafetensorsWriter {
 public:
  /// header_room  bytes kept free in front of the data for the header. A longer one costs a second pass over the file.
  explicit SafetensorsWriter(std::filesystem::path path, std::size_t header_room = std::size_t{64} << 10);
  SafetensorsWriter(const SafetensorsWriter&) = delete;
  SafetensorsWriter& operator=(const SafetensorsWriter&) = delete;
  ~SafetensorsWriter();

  /// Throws Error{input} for a name that was there before, and for a view whose bytes do not fit its shape.
  void add(const TensorView& tensor);

  void finish(const std::map<std::string, std::string>& metadata = {});

 private:
  struct Entry {
    std::string name;
    Dtype dtype;
    Shape shape;
    std::uint64_t begin;
    std::uint64_t end;
  };

  std::string header(const std::map<std::string, std::string>& metadata) const;
  void write_at(std::uint64_t offset, std::span<const std::byte> bytes) const;
  void move_data(std::uint64_t from, std::uint64_t to) const;
  [[noreturn]] void fail(const char* what) const;

  std::filesystem::path path_;
  std::filesystem::path temporary_;
  int descriptor_ = -1;
  std::uint64_t data_start_;
  std::uint64_t data_end_ = 0;  ///< from the start of the data
  std::vector<Entry> entries_;
};

/// All at once: the widest elements first, so that every tensor is aligned, and equal widths by name.
void write_safetensors(const std::filesystem::path& path, std::vector<TensorView> tensors,
                       const std::map<std::string, std::string>& metadata = {});

}  // namespace mtpcheck

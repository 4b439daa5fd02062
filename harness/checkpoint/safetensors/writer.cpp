#include "harness/checkpoint/safetensors/writer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "harness/checkpoint/bounded_json.h"
#include "reference/tensor/error.h"

namespace mtpcheck {
namespace {

constexpr std::size_t kAlignment = 8;
constexpr std::size_t kWriteBlock = std::size_t{1} << 20;

std::uint64_t aligned(std::uint64_t length) { return (length + kAlignment - 1) / kAlignment * kAlignment; }

std::filesystem::path temporary_beside(const std::filesystem::path& path) {
  return path.parent_path() / fmt::format(".{}.{}.partial", path.filename().string(), ::getpid());
}

}  // namespace

SafetensorsWriter::SafetensorsWriter(std::filesystem::path path, std::size_t header_room)
    : path_(std::move(path)), temporary_(temporary_beside(path_)), data_start_(8 + aligned(header_room)) {
  descriptor_ = ::open(temporary_.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (descriptor_ < 0) fail("cannot be created");
}

SafetensorsWriter::~SafetensorsWriter() {
  if (descriptor_ < 0) return;
  ::close(descriptor_);
  ::unlink(temporary_.c_str());
}

void SafetensorsWriter::fail(const char* what) const {
  throw environment_error(fmt::format("{}: {}: {}", path_.string(), what, std::strerror(errno)));
}

void SafetensorsWriter::write_at(std::uint64_t offset, std::span<const std::byte> bytes) const {
  while (!bytes.empty()) {
    const auto written = ::pwrite(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) fail("cannot be written");
    offset += static_cast<std::uint64_t>(written);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

void SafetensorsWriter::add(const TensorView& tensor) {
  if (byte_size(tensor.dtype, tensor.elements()) != tensor.bytes.size()) {
    throw input_error(fmt::format("{}: tensor {} of {} {} has {} bytes", path_.string(), tensor.name,
                                  to_string(tensor.shape), torch_name(tensor.dtype), tensor.bytes.size()));
  }
  if (std::ranges::find(entries_, tensor.name, &Entry::name) != entries_.end()) {
    throw input_error(fmt::format("{}: tensor {} was already written", path_.string(), tensor.name));
  }
  write_at(data_start_ + data_end_, tensor.bytes);
  const std::uint64_t begin = data_end_;
  data_end_ += tensor.bytes.size();
  entries_.push_back({tensor.name, tensor.dtype, tensor.shape, begin, data_end_});
}

std::string SafetensorsWriter::header(const std::map<std::string, std::string>& metadata) const {
  std::string text = "{";
  const char* between = "";
  if (!metadata.empty()) {
    text +=
        "\"__metadata__\":" + nlohmann::json(metadata).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    between = ",";
  }
  for (const Entry& entry : entries_) {
    text += fmt::format("{}{}:{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}}", between,
                        quoted_json(entry.name), safetensors_name(entry.dtype), fmt::join(entry.shape, ","),
                        entry.begin, entry.end);
    between = ",";
  }
  return text + "}";
}

// Moves the data towards the end of the file, last block first.
void SafetensorsWriter::move_data(std::uint64_t from, std::uint64_t to) const {
  std::vector<std::byte> block(std::min<std::uint64_t>(kWriteBlock, data_end_));
  for (std::uint64_t left = data_end_; left > 0;) {
    const auto size = std::min<std::uint64_t>(block.size(), left);
    left -= size;
    for (std::uint64_t done = 0; done < size;) {
      const auto got = ::pread(descriptor_, block.data() + done, size - done, static_cast<off_t>(from + left + done));
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) fail("cannot be read back");
      done += static_cast<std::uint64_t>(got);
    }
    write_at(to + left, std::span(block).first(size));
  }
}

void SafetensorsWriter::finish(const std::map<std::string, std::string>& metadata) {
  std::string text = header(metadata);
  if (8 + text.size() > data_start_) {
    const std::uint64_t start = 8 + aligned(text.size());
    move_data(data_start_, start);
    data_start_ = start;
  }
  text.resize(data_start_ - 8, ' ');
  const std::uint64_t length = text.size();
  write_at(0, std::as_bytes(std::span(&length, 1)));
  write_at(8, std::as_bytes(std::span(text)));
  if (data_end_ == 0 && ::ftruncate(descriptor_, static_cast<off_t>(data_start_)) != 0) fail("cannot be cut");
  if (::fsync(descriptor_) != 0) fail("cannot be brought to the disk");
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) fail("cannot be named");
  ::close(std::exchange(descriptor_, -1));
  // The name is on the disk when its directory is. Some file systems refuse this; the data are safe all the same.
  const auto directory = path_.has_parent_path() ? path_.parent_path() : std::filesystem::path(".");
  if (const int opened = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); opened >= 0) {
    ::fsync(opened);
    ::close(opened);
  }
}

void write_safetensors(const std::filesystem::path& path, std::vector<TensorView> tensors,
                       const std::map<std::string, std::string>& metadata) {
  std::ranges::sort(tensors, [](const TensorView& a, const TensorView& b) {
    const std::size_t bits_a = bits_of(a.dtype);
    const std::size_t bits_b = bits_of(b.dtype);
    return bits_a != bits_b ? bits_a > bits_b : a.name < b.name;
  });
  std::size_t room = 64;
  for (const auto& [key, text] : metadata) room += key.size() + text.size() + 8;
  for (const TensorView& tensor : tensors) room += tensor.name.size() + 100 + 21 * tensor.shape.size();
  SafetensorsWriter writer(path, room);
  for (const TensorView& tensor : tensors) writer.add(tensor);
  writer.finish(metadata);
}

}  // namespace mtpcheck

#include "harness/inputs/tensor_file.h"

#include <fmt/format.h>

#include <array>
#include <cstring>
#include <utility>
#include <vector>

#include "harness/checkpoint/mapped_file.h"
#include "harness/checkpoint/safetensors/header.h"
#include "reference/tensor/error.h"
#include "reports/hdf5/file_image.h"
#include "reports/hdf5/node.h"

namespace mtpcheck {
namespace {

using reports::hdf5::Handle;

TensorFile from_safetensors(std::shared_ptr<const MappedFile> mapped, const std::string& path) {
  HeaderReader reader;
  auto read = reader.read(mapped->bytes(), path);
  if (const auto* const problem = std::get_if<Problem>(&read)) throw input_error(problem->message);
  auto& header = std::get<SafetensorsHeader>(read);
  TensorFile file{path, {}, std::move(header.metadata), mapped};
  for (TensorView& tensor : header.tensors) {
    tensor.bytes = mapped->bytes().subspan(tensor.offset, *byte_size(tensor.dtype, tensor.elements()));
    file.tensors.emplace(tensor.name, std::move(tensor));
  }
  return file;
}

// Datasets of an HDF5 file, depth first.
class Hdf5Reader {
 public:
  explicit Hdf5Reader(const std::string& path) : path_(path), root_(reports::hdf5::open_for_reading(path)) {}

  TensorFile read() && {
    read_group(root_.get(), {}, 0);
    TensorFile file{path_, {}, std::move(metadata_), nullptr};
    for (auto& [name, tensor] : tensors_) {
      TensorView view = tensor.view(name);
      view.file = path_;
      file.tensors.emplace(name, std::move(view));
    }
    file.storage = std::make_shared<std::map<std::string, Tensor>>(std::move(tensors_));  // nodes stay where they are
    return file;
  }

 private:
  static constexpr int kMaxDepth = 8;  // a group may be linked into itself

  void read_group(hid_t group, const std::string& prefix, int depth) {
    if (depth > kMaxDepth) throw input_error(fmt::format("{}: groups nest deeper than {} levels", path_, kMaxDepth));
    for (const std::string& name : reports::hdf5::members(group)) {
      if (reports::hdf5::is_group(group, name)) {
        const Handle below(H5Gopen2(group, name.c_str(), H5P_DEFAULT), H5Gclose, path_ + ": opening " + name);
        read_group(below.get(), prefix + name + "/", depth + 1);
      } else {
        read_dataset(group, name, prefix + name);
      }
    }
    if (depth == 0) read_attributes(group);
  }

  void read_dataset(hid_t group, const std::string& name, const std::string& full_name) {
    const Handle dataset(H5Dopen2(group, name.c_str(), H5P_DEFAULT), H5Dclose, path_ + ": opening " + full_name);
    const Handle type(H5Dget_type(dataset.get()), H5Tclose, full_name);
    const Handle space(H5Dget_space(dataset.get()), H5Sclose, full_name);
    const H5T_class_t kind = H5Tget_class(type.get());
    const int rank = H5Sget_simple_extent_ndims(space.get());
    if ((kind != H5T_INTEGER && kind != H5T_FLOAT) || rank < 0) return;  // texts and tables are no tensors
    std::vector<hsize_t> extents(static_cast<std::size_t>(rank));
    if (rank > 0) H5Sget_simple_extent_dims(space.get(), extents.data(), nullptr);
    const Dtype dtype = kind == H5T_INTEGER ? Dtype::i64 : H5Tget_size(type.get()) > 4 ? Dtype::f64 : Dtype::f32;
    const hid_t memory = dtype == Dtype::i64   ? H5T_NATIVE_INT64
                         : dtype == Dtype::f64 ? H5T_NATIVE_DOUBLE
                                               : H5T_NATIVE_FLOAT;
    Tensor tensor = make_tensor(dtype, {extents.begin(), extents.end()});
    if (!tensor.bytes.empty() &&
        H5Dread(dataset.get(), memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, tensor.bytes.data()) < 0) {
      throw input_error(fmt::format("{}: dataset {} cannot be read: the file is damaged", path_, full_name));
    }
    tensors_.emplace(full_name, std::move(tensor));
  }

  void read_attributes(hid_t root) {
    for (hsize_t i = 0;; ++i) {
      const hid_t opened = H5Aopen_by_idx(root, ".", H5_INDEX_NAME, H5_ITER_INC, i, H5P_DEFAULT, H5P_DEFAULT);
      if (opened < 0) return;
      const Handle attribute(opened, H5Aclose, path_);
      const Handle type(H5Aget_type(attribute.get()), H5Tclose, path_);
      std::string name(static_cast<std::size_t>(H5Aget_name(attribute.get(), 0, nullptr)), '\0');
      H5Aget_name(attribute.get(), name.size() + 1, name.data());
      const H5T_class_t kind = H5Tget_class(type.get());
      if (kind == H5T_STRING) {
        metadata_.emplace(name, reports::hdf5::read_attribute(root, name, std::string()));
      } else if (kind == H5T_INTEGER) {
        metadata_.emplace(name, fmt::format("{}", reports::hdf5::read_attribute(root, name, std::int64_t{0})));
      } else if (kind == H5T_FLOAT) {
        metadata_.emplace(name, fmt::format("{}", reports::hdf5::read_attribute(root, name, 0.0)));
      }
    }
  }

  std::string path_;
  Handle root_;
  std::map<std::string, Tensor> tensors_;
  std::map<std::string, std::string> metadata_;
};

}  // namespace

const TensorView* TensorFile::find(const std::string& name) const {
  const auto found = tensors.find(name);
  return found == tensors.end() ? nullptr : &found->second;
}

TensorFile open_tensor_file(const std::filesystem::path& path) {
  static constexpr std::array<unsigned char, 8> kHdf5{0x89, 'H', 'D', 'F', '\r', '\n', 0x1A, '\n'};
  auto mapped = std::make_shared<const MappedFile>(path);
  const auto bytes = mapped->bytes();
  const bool hdf5 = bytes.size() >= kHdf5.size() && std::memcmp(bytes.data(), kHdf5.data(), kHdf5.size()) == 0;
  return hdf5 ? Hdf5Reader(path.string()).read() : from_safetensors(std::move(mapped), path.string());
}

}  // namespace mtpcheck

#include "reports/hdf5/file_image.h"

#include <filesystem>

#include "reference/tensor/error.h"

namespace mtpcheck::reports::hdf5 {
namespace {

constexpr std::size_t kGrowth = std::size_t{1} << 20;

Handle create_in_memory() {
  silence_library();
  const Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose, "creating an access list");
  check(H5Pset_fapl_core(access.get(), kGrowth, 0), "choosing the memory driver");
  // The earliest format, which is the default, has no "open for writing" mark in its superblock; an image taken of an
  // open file in a later one would carry the mark and be refused by readers.
  return {H5Fcreate("report", H5F_ACC_TRUNC, H5P_DEFAULT, access.get()), H5Fclose, "creating a file in memory"};
}

}  // namespace

FileImage::FileImage() : file_(create_in_memory()) {}

std::vector<std::byte> FileImage::bytes() const {
  check(H5Fflush(file_.get(), H5F_SCOPE_GLOBAL), "flushing");
  const ssize_t size = H5Fget_file_image(file_.get(), nullptr, 0);
  check(size < 0 ? -1 : 0, "measuring the file");
  std::vector<std::byte> image(static_cast<std::size_t>(size));
  check(H5Fget_file_image(file_.get(), image.data(), image.size()) < 0 ? -1 : 0, "copying the file");
  return image;
}

Handle open_for_reading(const std::string& path) {
  silence_library();
  if (!std::filesystem::is_regular_file(path)) throw input_error(path + ": no such file");
  if (H5Fis_hdf5(path.c_str()) <= 0) {
    throw input_error(path + ": not an HDF5 file. Give the file that --report wrote.");
  }
  const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
  if (file < 0) throw input_error(path + ": damaged: the HDF5 library cannot open it");
  return {file, H5Fclose, "opening"};
}

}  // namespace mtpcheck::reports::hdf5

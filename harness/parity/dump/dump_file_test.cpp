#include "harness/parity/dump/dump_file.h"

#include <gtest/gtest.h>

#include <fstream>

#include "harness/checkpoint/safetensors/writer.h"
#include "harness/checkpoint/scratch_directory.h"
#include "reference/tensor/error.h"

namespace mtpcheck {
namespace {

namespace fs = std::filesystem;

void write_npy_header(const fs::path& path, std::string header, const std::string& data) {
  header.resize(118, ' ');
  std::ofstream file(path, std::ios::binary);
  file << "\x93NUMPY" << '\1' << '\0' << static_cast<char>(header.size()) << '\0' << header << data;
}

void write_npy(const fs::path& path, const std::string& descr, const std::string& shape, const std::string& data,
               const std::string& order = "False") {
  write_npy_header(path, "{'descr': '" + descr + "', 'fortran_order': " + order + ", 'shape': (" + shape + "), }",
                   data);
}

std::string bytes_of(const std::vector<float>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

TEST(ReadNpy, ShapesAndTypes) {
  const ScratchDirectory folder;
  write_npy(folder.path() / "q.npy", "<f4", "2, 3", bytes_of({1, 2, 3, 4, 5, 6}));
  write_npy(folder.path() / "k_pe.npy", "|V2", "1,", std::string("\x80\x3f", 2));
  const Dump dump = read_dump(folder.path());
  ASSERT_EQ(dump.size(), 2u);
  EXPECT_EQ(dump.at("q").ranks[0].shape, (Shape{2, 3}));
  EXPECT_EQ(to_f32(dump.at("q").ranks[0].view())[5], 6);
  EXPECT_EQ(to_f32(dump.at("k_pe").ranks[0].view())[0], 1);
}

TEST(ReadNpy, RefusesWhatItWouldMisread) {
  const ScratchDirectory folder;
  const fs::path path = folder.path() / "x.npy";
  write_npy(path, "<f4", "2, 3", bytes_of({1, 2, 3}));
  EXPECT_THROW(read_npy(path), Error);
  write_npy(path, "<f4", "3,", bytes_of({1, 2, 3}), "True");
  EXPECT_THROW(read_npy(path), Error);
  write_npy(path, ">f4", "3,", bytes_of({1, 2, 3}));
  EXPECT_THROW(read_npy(path), Error);
  write_npy(path, "<f4", "4611686018427387904, 4", "");
  EXPECT_THROW(read_npy(path), Error);
  for (const char* header :
       {"{'fortran_order': False, 'shape': (1,), }", "{'descr': '<f4', 'shape': (1,), }",
        "{'descr': '<f4', 'fortran_order': None, 'shape': (1,), }", "{'descr': '<f4', 'fortran_order': False, }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1,", "{'descr':", ""}) {
    write_npy_header(path, header, bytes_of({1}));
    EXPECT_THROW(read_npy(path), Error) << header;
  }
  std::ofstream(path, std::ios::trunc) << "no array";
  EXPECT_THROW(read_npy(path), Error);
}

TEST(ReadDump, RanksInTheOrderOfTheirNumbers) {
  const ScratchDirectory folder;
  for (const int rank : {0, 1, 10}) {
    if (rank == 10) continue;
    const Tensor tensor = tensor_of<float>({1}, std::vector<float>{static_cast<float>(rank)});
    write_safetensors(folder.path() / ("rank" + std::to_string(rank) + ".safetensors"), {tensor.view("q")});
  }
  const Dump dump = read_dump(folder.path());
  ASSERT_EQ(dump.at("q").ranks.size(), 2u);
  EXPECT_EQ(to_f32(dump.at("q").ranks[1].view())[0], 1);
  fs::rename(folder.path() / "rank1.safetensors", folder.path() / "rank2.safetensors");
  EXPECT_THROW(read_dump(folder.path()), Error);
}

TEST(ReadDump, SaysWhatIsNotThere) {
  const ScratchDirectory folder;
  EXPECT_THROW(read_dump(folder.path()), Error);
  EXPECT_THROW(read_dump(folder.path() / "absent.safetensors"), Error);
  std::ofstream(folder.path() / "x.safetensors") << "short";
  EXPECT_THROW(read_dump(folder.path() / "x.safetensors"), Error);
}

}  // namespace
}  // namespace mtpcheck

/// The main function of every test program.
///
///     harness_tests                                     every test
///     harness_tests harness/parity/dump/adopt_test.cpp  the tests written in that file; several may be named
///
/// A program holds the tests of a whole folder, so that their headers are compiled once; CTest runs them a group of
/// files at a time. A file in which no test stands is an error: a test that is never run cannot fail.
#include <gtest/gtest.h>

#include <iostream>
#include <span>
#include <string>
#include <string_view>

namespace {

/// The tests that stand in `file`, as a filter takes them: `Suite.Name:` each.
std::string tests_in(std::string_view file) {
  std::string filter;
  const auto& program = *testing::UnitTest::GetInstance();
  for (int s = 0; s < program.total_test_suite_count(); ++s) {
    const auto& suite = *program.GetTestSuite(s);
    for (int t = 0; t < suite.total_test_count(); ++t) {
      const auto& test = *suite.GetTestInfo(t);
      if (std::string_view(test.file()).ends_with(file)) filter += std::string(suite.name()) + "." + test.name() + ":";
    }
  }
  return filter;
}

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  std::string filter;
  for (const std::string_view file : std::span(argv, static_cast<std::size_t>(argc)).subspan(1)) {
    const std::string tests = tests_in(file);
    if (tests.empty()) {
      std::cerr << file << ": no test of this program stands in it\n";
      return 1;
    }
    filter += tests;
  }
  if (!filter.empty() && GTEST_FLAG_GET(filter) == "*") GTEST_FLAG_SET(filter, filter);
  return RUN_ALL_TESTS();
}

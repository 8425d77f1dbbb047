// SPDX-License-Identifier: MIT
// Without libFuzzer: runs a target on each input of the files and folders that are named.
#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

// NOLINTBEGIN(readability-identifier-naming): libFuzzer's names
extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv);
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
// NOLINTEND(readability-identifier-naming)

namespace {

int replayed = 0;

void replay(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  const std::vector<char> bytes{std::istreambuf_iterator<char>(in), {}};
  std::printf("%s\n", file.c_str());
  std::fflush(stdout);  // which one it was, should it end here
  LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
  ++replayed;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    LLVMFuzzerInitialize(&argc, &argv);
    LLVMFuzzerTestOneInput(nullptr, 0);
    for (int i = 1; i < argc; ++i) {
      if (!std::filesystem::is_directory(argv[i])) {
        replay(argv[i]);
        continue;
      }
      for (const auto& entry : std::filesystem::directory_iterator(argv[i])) replay(entry.path());
    }
  } catch (const std::exception& error) {
    std::printf("an exception got out: %s\n", error.what());
    return 1;
  }
  std::printf("%d inputs, no rule is broken\n", replayed);
  return replayed > 0 ? 0 : 1;
}

// SPDX-License-Identifier: MIT
// What the blocks of the kernels in find_spots.hpp do, for any group of threads that share memory,
// so that tests run it on a processor. Host and device.
#pragma once

#include <bit>

#include "fitter/cuda/find_spots.hpp"
#include "fitter/pixel_type.hpp"
#include "fitter/spots/frame_noise.hpp"
#include "fitter/spots/spot_at.hpp"
#include "fitter/spots/spot_rules.hpp"

namespace driftd::fitter::cuda {

/// Memory that the threads of a group share.
union SearchMemory {
  NoiseMemory noise;
  std::uint32_t shares[kSearchThreads];
};

DRIFTD_HD std::uint32_t bits_in(std::uint32_t word) {
#ifdef __CUDA_ARCH__
  return static_cast<std::uint32_t>(__popc(word));
#else
  return static_cast<std::uint32_t>(std::popcount(word));
#endif
}
/// Of a word that is not 0. nvcc 13 makes 32 of std::countr_zero(), whatever the word.
DRIFTD_HD std::uint32_t lowest_bit(std::uint32_t word) {
#ifdef __CUDA_ARCH__
  return static_cast<std::uint32_t>(__ffs(static_cast<int>(word)) - 1);
#else
  return static_cast<std::uint32_t>(std::countr_zero(word));
#endif
}

/// Calls action(pixels) for the pixels of a frame.
template <class Action>
DRIFTD_HD void in_frame(const SearchArgument& job, std::uint32_t frame, const Action& action) {
  with_pixels(job.shape.type, job.frames, [&]<class Pixel>(const Pixel* pixels) {
    action(const_cast<Pixel*>(pixels) + frame * job.shape.pixels());
  });
}

/// Fills the holes of a frame, ring by ring.
template <class Group>
DRIFTD_HD void fill_holes(Group& group, const SearchArgument& job, std::uint32_t frame) {
  in_frame(job, frame, [&]<class Pixel>(Pixel* pixels) {
    std::uint32_t first = 0;
    for (std::uint32_t ring = 0; ring < job.ring_count; first = job.rings[ring++]) {
      for (auto i = first + static_cast<std::uint32_t>(group.rank()); i < job.rings[ring];
           i += static_cast<std::uint32_t>(group.size())) {
        const std::uint32_t begin = i == 0 ? 0 : job.fills[i - 1].end;
        pixels[job.fills[i].pixel] = mean_of(static_cast<const Pixel*>(pixels), job.sources + begin,
                                             job.fills[i].end - begin);
      }
      group.sync();
    }
  });
}

template <class Group>
DRIFTD_HD void set_limit(Group& group, SearchMemory& memory, const SearchArgument& job,
                         std::uint32_t frame) {
  in_frame(job, frame, [&]<class Pixel>(Pixel* pixels) {
    const double noise = FrameNoise<Group>(group, memory.noise)
                             .of(job.shape, static_cast<const Pixel*>(pixels), job.least_noise);
    if (group.rank() == 0) job.limits[frame] = job.noise_limit * noise;
  });
}

/// Of any number up to the end of the frame's last word.
DRIFTD_HD bool is_spot(const SearchArgument& job, std::uint32_t frame, std::uint32_t pixel) {
  if (pixel >= job.shape.pixels()) return false;
  const double least = job.min_net_gradient > 0 ? job.min_net_gradient : job.limits[frame];
  const auto width = static_cast<std::uint32_t>(job.shape.width_px);
  bool is = false;
  in_frame(job, frame, [&]<class Pixel>(Pixel* pixels) {
    const float gradient =
        spot_at(job.shape, static_cast<const Pixel*>(pixels), static_cast<int>(pixel % width),
                static_cast<int>(pixel / width), job.box, least);
    is = gradient == gradient;
  });
  return is;
}

/// How many there are in the shares of all threads before this one; calls share(begin, end) with
/// what is this thread's of `whole`, which says how many there are in it.
template <class Group, class Share>
DRIFTD_HD std::uint32_t before_share(Group& group, SearchMemory& memory, std::uint32_t whole,
                                     std::uint32_t& begin, std::uint32_t& end, const Share& share) {
  const auto size = static_cast<std::uint32_t>(group.size());
  const auto rank = static_cast<std::uint32_t>(group.rank());
  const std::uint32_t each = (whole + size - 1) / size;
  begin = rank * each < whole ? rank * each : whole;
  end = whole - begin < each ? whole : begin + each;
  memory.shares[rank] = share(begin, end);
  group.sync();
  std::uint32_t before = 0;
  for (std::uint32_t i = 0; i < rank; ++i) before += memory.shares[i];
  return before;
}

template <class Group>
DRIFTD_HD std::uint32_t before_words(Group& group, SearchMemory& memory, const SearchArgument& job,
                                     std::uint32_t frame, std::uint32_t& begin,
                                     std::uint32_t& end) {
  const std::uint32_t* const words = job.is_spot + std::size_t{frame} * job.words();
  return before_share(group, memory, job.words(), begin, end,
                      [&](std::uint32_t from, std::uint32_t to) {
                        std::uint32_t found = 0;
                        for (std::uint32_t i = from; i < to; ++i) found += bits_in(words[i]);
                        return found;
                      });
}

template <class Group>
DRIFTD_HD void count_spots(Group& group, SearchMemory& memory, const SearchArgument& job,
                           std::uint32_t frame) {
  std::uint32_t begin, end;
  const std::uint32_t before = before_words(group, memory, job, frame, begin, end);
  const auto rank = static_cast<std::uint32_t>(group.rank());
  if (rank + 1 == group.size()) job.found[frame] = before + memory.shares[rank];
}

template <class Group>
DRIFTD_HD void set_ends(Group& group, SearchMemory& memory, const SearchArgument& job) {
  std::uint32_t begin, end;
  std::uint32_t sum =
      before_share(group, memory, job.count, begin, end, [&](std::uint32_t from, std::uint32_t to) {
        std::uint32_t found = 0;
        for (std::uint32_t i = from; i < to; ++i) found += job.found[i];
        return found;
      });
  for (std::uint32_t i = begin; i < end; ++i) job.ends[i] = sum += job.found[i];
}

template <class Group>
DRIFTD_HD void gather_spots(Group& group, SearchMemory& memory, const SearchArgument& job,
                            std::uint32_t frame) {
  std::uint32_t begin, end;
  std::uint32_t to = before_words(group, memory, job, frame, begin, end);
  to += job.ends[frame] - job.found[frame];
  const std::uint32_t* const words = job.is_spot + std::size_t{frame} * job.words();
  const auto width = static_cast<std::uint32_t>(job.shape.width_px);
  in_frame(job, frame, [&]<class Pixel>(Pixel* pixels) {
    for (std::uint32_t word = begin; word < end; ++word) {
      for (std::uint32_t bits = words[word]; bits != 0; bits &= bits - 1, ++to) {
        const std::uint32_t pixel = word * SearchArgument::kBits + lowest_bit(bits);
        const auto x = static_cast<int>(pixel % width), y = static_cast<int>(pixel / width);
        job.spots[to] = {x, y, static_cast<std::int32_t>(job.first + frame),
                         net_gradient(job.shape, static_cast<const Pixel*>(pixels), x, y, job.box)};
        if (job.places == nullptr) continue;
        const int half = job.roi_px / 2;
        job.places[to] = {roi_origin(x, job.roi_px, job.shape.width_px) + half,
                          roi_origin(y, job.roi_px, job.shape.height_px) + half,
                          static_cast<std::int32_t>(frame)};
      }
    }
  });
}

}  // namespace driftd::fitter::cuda

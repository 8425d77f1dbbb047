// SPDX-License-Identifier: MIT
// What the calls of libdriftfit make of the structs that they are given: arguments of the fitter,
// checked, and codes and messages of what it throws. Called by any thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <string>
#include <string_view>

#include "fitter/batch_back_end.hpp"
#include "fitter/c/driftfit.h"
#include "fitter/fitter.hpp"
#include "fitter/frames.hpp"
#include "fitter/options.hpp"
#include "fitter/spots/gpu_search.hpp"
#include "fitter/swarm.hpp"

struct driftfit_fitter {
  int threads;
  driftd::fitter::BatchBackEnd back_end;
  driftd::fitter::GpuSearch gpu_search = {};
};

namespace driftd::fitter::c {

/// Images between two calls of the progress callback.
constexpr std::size_t kBlock = std::size_t{1} << 17;

void tell(char* message, std::size_t size, std::string_view text);

/// Runs `body`, which returns a code, and turns what it throws into a code and a message.
/// @param on_fitter_error  code of a FitterError
template <class Body>
int guarded(int on_fitter_error, char* message, std::size_t size, Body body) noexcept {
  tell(message, size, "");
  try {
    return body();
  } catch (const FitterError& error) {
    tell(message, size, error.what());
    return on_fitter_error;
  } catch (const std::bad_alloc&) {
    tell(message, size, "driftfit: out of memory");
    return DRIFTFIT_NO_MEMORY;
  } catch (const std::exception& error) {
    tell(message, size, error.what());
    return DRIFTFIT_FAILED;
  } catch (...) {
    tell(message, size, "driftfit: unknown failure");
    return DRIFTFIT_FAILED;
  }
}

/// Copies as much of a struct as its caller knew.
/// @param set_with  what gives `size` its value
/// @throws FitterError
template <class Struct>
void take(const Struct& given, std::uint32_t first_size, const char* name, const char* set_with,
          Struct& taken) {
  if (given.size < first_size)
    throw FitterError(std::string("driftfit: ") + name + ".size is " + std::to_string(given.size) +
                      ", allowed is " + std::to_string(first_size) + " or more; set it with " +
                      set_with);
  std::memcpy(&taken, &given, std::min<std::size_t>(given.size, sizeof taken));
}

/// @throws FitterError
void check_one_of(const char* name, std::int32_t value, std::int32_t last, const char* allowed);

/// @throws FitterError
void check_pixel_type(std::int32_t type);

/// @throws FitterError for a struct of no known version
driftfit_options all_options(const driftfit_options* given);

/// @throws FitterError for a name unknown
FitOptions options_from(const driftfit_options& o);

/// @throws FitterError for a struct of no known version
SwarmOptions swarm_from(const driftfit_swarm_options* given);

/// Bounds of single images are looked at where the host can read them, and of the first ones: those
/// of one parameter are given for all images.
/// @throws FitterError
void check_bounds(const Bounds* bounds, std::size_t count, Model model);

/// What a call was given, once it is known to make sense.
struct CheckedCall {
  Batch batch;
  FitOptions options;
};

/// @throws FitterError
CheckedCall checked_call(const driftfit_fitter* fitter, const driftfit_options* options,
                         const driftfit_images* images, const driftfit_result* results);

/// Whom a call tells how it gets on.
struct Listener {
  driftfit_progress progress;
  void* user;
  char* message;
  std::size_t message_size;
};

/// Calls fit(first, n) for all images, in blocks where somebody wants to know. @returns a code
template <class Fit>
int in_blocks(std::size_t count, std::size_t block, const Listener& listener, const Fit& fit) {
  return guarded(DRIFTFIT_FAILED, listener.message, listener.message_size, [&] {
    if (listener.progress == nullptr) block = std::max<std::size_t>(count, 1);
    for (std::size_t done = 0; done < count;) {
      const std::size_t n = std::min(block, count - done);
      fit(done, n);
      done += n;
      if (listener.progress != nullptr && listener.progress(listener.user, done, count) != 0 &&
          done < count) {
        tell(listener.message, listener.message_size,
             "driftfit: cancelled after " + std::to_string(done) + " fits");
        return DRIFTFIT_CANCELLED;
      }
    }
    return DRIFTFIT_OK;
  });
}

}  // namespace driftd::fitter::c

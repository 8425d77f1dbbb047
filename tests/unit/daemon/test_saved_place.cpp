// SPDX-License-Identifier: MIT
// The text of a saved place, and the folder that keeps them.
#include <unistd.h>

#include <fstream>
#include <optional>
#include <string>

#include "base/state_file.hpp"
#include "daemon/places/place_shelf.hpp"
#include "saved_lock_for_tests.hpp"
#include "support/catch.hpp"
#include "turned_until.hpp"

using namespace driftd;
using namespace driftd::daemon;
using driftd::daemon::test::some_lock;
using driftd::daemon::test::StateFolder;
using driftd::daemon::test::turned_until;
using Kind = ShelfOrder::Kind;

namespace {

SavedPlace some_place(const std::string& note = "before the drug") {
  return {.note = note, .seen = some_lock()};
}

std::string refusal_of(const std::string& text) {
  try {
    read_saved_place(text);
    return {};
  } catch (const StateError& error) {
    return error.what();
  }
}

struct Shelf {
  StateFolder folder;
  PlaceShelf shelf{folder.path / "places"};

  ShelfResult result() {
    std::optional<ShelfResult> result;
    REQUIRE(turned_until([&] { return result.has_value(); }, [&] { result = shelf.take(); }));
    return *result;
  }
  ShelfResult ordered(ShelfOrder order) {
    order.number = 7;
    const bool taken = shelf.order(std::move(order));
    REQUIRE(taken);
    ShelfResult got = result();
    CHECK(got.number == 7);
    return got;
  }
  std::string save(const std::string& name, bool replace = false,
                   const std::string& note = "before the drug") {
    return ordered(
               {.kind = Kind::Save, .name = name, .place = some_place(note), .replace = replace})
        .problem;
  }
};

bool has(const std::string& text, const char* part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("a place reads back as it was saved, and a lock's file is none, nor the other way") {
  const SavedPlace place = read_saved_place(to_text(some_place()));
  CHECK(place.note == "before the drug");
  CHECK(to_text(place.seen) == to_text(some_lock()));
  CHECK(refusal_of(to_text(some_lock())) == "it does not begin as a saved place does");
  CHECK_THROWS_AS(read_saved_lock(to_text(some_place())), StateError);
}

TEST_CASE("a place that was changed, cut short, or has a note of two lines is refused") {
  const std::string text = to_text(some_place());
  for (std::size_t i = 0; i < text.size(); i += 7) {
    std::string changed = text;
    changed[i] = static_cast<char>(changed[i] ^ 1);
    CHECK_FALSE(refusal_of(changed).empty());
    CHECK_FALSE(refusal_of(text.substr(0, i)).empty());
  }
  CHECK(refusal_of(to_text(some_place("two\nlines"))) ==
        "its note is not one line of at most 300 bytes");
  CHECK(refusal_of(to_text(some_place(std::string(300, 'x')))).empty());
  CHECK_FALSE(refusal_of(to_text(some_place(std::string(301, 'x')))).empty());
}

TEST_CASE("a name is letters, digits, - and _, and leads nowhere else") {
  for (const char* name : {"a", "Cell-3_b", "0"}) CHECK(is_place_name(name));
  CHECK(is_place_name(std::string(64, 'x')));
  CHECK_FALSE(is_place_name(std::string(65, 'x')));
  for (const char* name : {"", ".", "..", "a/b", "../a", "a.b", "a b", "\xc3\xa9", "a\n"})
    CHECK_FALSE(is_place_name(name));
  CHECK_FALSE(is_place_name(std::string("a\0b", 3)));
}

TEST_CASE("what people see of a place: when, how many markers, how far they reach, and all of it") {
  const nlohmann::json summary = summary_of(some_place());
  CHECK(summary["saved_at"] == "2027-01-15T08:00:00Z");
  CHECK(summary["markers"] == 2);
  CHECK(summary["width_px"] == 65.5);
  CHECK(summary["height_px"] == 14.625);
  const nlohmann::json all = details_of(some_place());
  CHECK(all["markers"][1]["role"] == "witness");
  CHECK(all["markers"][0]["sd_nm"].get<double>() == Approx(0.1414).margin(1e-4));
  CHECK(all["instrument"]["camera"] == "maker model 7");
  CHECK(all["stage"]["position_nm"]["2"] == 49987.25);
}

TEST_CASE("places are saved, read, listed by name and removed") {
  Shelf f;
  CHECK(f.ordered({.kind = Kind::List}).entries.empty());
  CHECK(f.save("b").empty());
  CHECK(f.save("a").empty());
  const ShelfResult list = f.ordered({.kind = Kind::List});
  REQUIRE(list.entries.size() == 2);
  CHECK(list.entries[0].name == "a");
  CHECK(f.ordered({.kind = Kind::Read, .name = "b"}).entries.at(0).place->seen.lock_id == 3);
  CHECK(f.ordered({.kind = Kind::Remove, .name = "a"}).problem.empty());
  CHECK(f.ordered({.kind = Kind::Remove, .name = "a"}).problem ==
        "there is no place `a`: there are b");
  const ShelfResult none = f.ordered({.kind = Kind::Read, .name = "c"});
  CHECK(none.problem == "the place `c` is not used: there is none of this name; there are b");
}

TEST_CASE("a place is saved over another one only when that is asked for") {
  Shelf f;
  CHECK(f.save("a", false, "first").empty());
  CHECK(has(f.save("a", false, "second"), "already"));
  CHECK(f.ordered({.kind = Kind::Read, .name = "a"}).entries.at(0).place->note == "first");
  CHECK(f.save("a", true, "second").empty());
  CHECK(f.ordered({.kind = Kind::Read, .name = "a"}).entries.at(0).place->note == "second");
}

TEST_CASE("a damaged file is listed with what is wrong, removed, and nothing else is looked at") {
  Shelf f;
  REQUIRE(f.save("good").empty());
  write_state(f.shelf.folder() / "bad.place", "driftd-place 1 00000000 3\n{}\n");
  write_state(f.shelf.folder() / "other.txt", "no place");
  write_state(f.shelf.folder() / "a b.place", "no name");
  const ShelfResult list = f.ordered({.kind = Kind::List});
  REQUIRE(list.entries.size() == 2);
  CHECK(list.entries[0].problem == "its checksum or its length is wrong");
  CHECK_FALSE(list.entries[0].place);
  CHECK(list.entries[1].place);
  CHECK(f.ordered({.kind = Kind::Remove, .name = "bad"}).problem.empty());
  CHECK(std::filesystem::exists(f.shelf.folder() / "other.txt"));
}

TEST_CASE("no more places than a hundred are kept, and one there may still be replaced") {
  Shelf f;
  std::filesystem::create_directories(f.shelf.folder());
  for (std::size_t i = 0; i + 1 < PlaceShelf::kMostPlaces; ++i)
    std::ofstream(f.shelf.folder() / ("p" + std::to_string(i) + ".place")) << "";
  CHECK(f.save("last").empty());
  CHECK(has(f.save("more"), "there are 100 places"));
  CHECK(f.save("last", true).empty());
  std::ofstream(f.shelf.folder() / "by-hand.place") << "";
  CHECK(f.ordered({.kind = Kind::List}).entries.size() == 100);
}

TEST_CASE("two daemons with one folder of places do not save at once") {
  Shelf f;
  CHECK(f.save("a").empty());
  {
    const StateOwner other(f.shelf.folder() / "places");  // another daemon's, that just saves
    REQUIRE(other.is_ours());
    const std::string problem = f.save("b");
    CHECK(has(problem, "another driftd"));
    CHECK(has(problem, ("process " + std::to_string(getpid())).c_str()));
    CHECK(f.ordered({.kind = Kind::List}).entries.size() == 1);
  }
  CHECK(f.save("b").empty());
}

TEST_CASE("a folder that cannot be had, or is nowhere, is told in a sentence") {
  Shelf f;
  std::ofstream(f.folder.path / "places") << "a file in the way";
  CHECK(has(f.save("a"), "places"));
  CHECK_FALSE(f.ordered({.kind = Kind::List}).problem.empty());
  PlaceShelf nowhere{{}};
  REQUIRE(nowhere.order({.kind = Kind::List}));
  std::optional<ShelfResult> result;
  REQUIRE(turned_until([&] { return result.has_value(); }, [&] { result = nowhere.take(); }));
  CHECK(has(result->problem, "STATE_DIRECTORY"));
}

TEST_CASE("what was ordered is still carried out when the daemon ends") {
  StateFolder folder;
  {
    PlaceShelf shelf(folder.path / "places");
    for (const char* name : {"a", "b", "c"})
      REQUIRE(shelf.order({.kind = Kind::Save, .name = name, .place = some_place()}));
  }
  for (const char* name : {"a.place", "b.place", "c.place"})
    CHECK(read_state(folder.path / "places" / name).has_value());
}

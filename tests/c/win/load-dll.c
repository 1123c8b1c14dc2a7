/* Loads the package's library, as R does, with a stand-in of R.dll: see dll.sh. */
#include "r/base/entry-points.h"

#include <R_ext/Rdynload.h>

#include "test.h"

#define ONE(name, n, arguments) {#name, n},
static const struct {
  const char *name;
  int n;
} listed[] = {CLU_ENTRY_POINTS(ONE, ONE)};

static HMODULE library(void) {
  static HMODULE h;
  if (!h) h = LoadLibraryA("clutch.dll");
  if (!h) test_fail(__FILE__, __LINE__, "error %lu", (unsigned long)GetLastError());
  return h;
}

static void *named(HMODULE h, const char *name) { return (void *)GetProcAddress(h, name); }

TEST(it_is_loaded_and_has_the_functions_that_r_calls) {
  REQUIRE(library());
  CHECK(named(library(), "R_init_clutch") != NULL);
  CHECK(named(library(), "R_unload_clutch") != NULL);
}

TEST(it_registers_all_entry_points) {
  void (*init)(DllInfo *);
  const R_CallMethodDef **entries;
  const size_t n = sizeof listed / sizeof *listed;
  HMODULE r = GetModuleHandleA("R.dll");
  REQUIRE(library() && r);
  init = (void (*)(DllInfo *))(uintptr_t)named(library(), "R_init_clutch");
  entries = named(r, "stand_in_entries");
  REQUIRE(init && entries);
  init(NULL);
  REQUIRE(*entries);
  for (size_t i = 0; i < n; i++) {
    REQUIRE((*entries)[i].name);
    CHECK_STR_EQ((*entries)[i].name, listed[i].name);
    CHECK_INT_EQ((*entries)[i].numArgs, listed[i].n);
    CHECK((*entries)[i].fun != NULL);
  }
  CHECK(!(*entries)[n].name);
}

TEST(it_is_unloaded) {
  void (*end)(DllInfo *);
  REQUIRE(library());
  end = (void (*)(DllInfo *))(uintptr_t)named(library(), "R_unload_clutch");
  REQUIRE(end);
  end(NULL);
  CHECK(FreeLibrary(library()));
  CHECK(!GetModuleHandleA("clutch.dll"));
}

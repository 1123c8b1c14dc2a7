/* A folder that stands for the root of the file system. */
#ifndef ROOT_FIXTURE_H
#define ROOT_FIXTURE_H

#include "test.h"

#include <sys/stat.h>

#include "core/base/os-folders.h"

static char root[32];

/* Writes a file below the root, and the folders that it is in. */
static void put(const char *path, const char *text) {
  char full[2000];
  FILE *f;
  snprintf(full, sizeof full, "%s%s", root, path);
  for (char *at = full + strlen(root) + 1; (at = strchr(at, '/')); at++) {
    *at = 0;
    mkdir(full, 0700);
    *at = '/';
  }
  REQUIRE(f = fopen(full, "w"));
  fputs(text, f);
  fclose(f);
}

static void begin_root(void) {
  strcpy(root, "/tmp/clutch-test-XXXXXX");
  REQUIRE(mkdtemp(root));
}

static void end(void) { CHECK_INT_EQ(clu_os_remove_tree(root), 0); }

#endif

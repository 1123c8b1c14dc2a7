#include "core/base/remove-folder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/os.h"
#include "core/base/os-folders.h"

void clu_remove_folder(const char *path) {
  static const char suffix[] = "-gone";
  size_t n = strlen(path);
  char *gone = malloc(n + sizeof suffix);
  if (gone) {
    memcpy(gone, path, n);
    memcpy(gone + n, suffix, sizeof suffix);
    if (rename(path, gone) == 0) path = gone;
  }
  if (clu_os_remove_few(path) != 0 && clu_os_remove_in_background(path) != CLU_OK)
    clu_os_remove_tree(path);
  free(gone);
}
